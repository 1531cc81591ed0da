"""Answers in Python that go past Python, to the system: to widen their jail, to reach the process that they were forked
from, or to change a file. As in ``test_worker.py`` each solves the exercise where its attempt succeeds."""

from __future__ import annotations

import platform

import pytest

from cudalab.grading import host_answer
from cudalab.sim.compiler.processes import jail
from tests.grading.attacks.test_worker import _HONEST, _LIBC, _LINK, _template, doing, graded, solving_after

__all__ = ["_template"]

_CALL = f"{_LIBC}import os, struct\nparent, zero = os.getppid(), ctypes.create_string_buffer(256)\n"
_SOCKET = f"{_LINK}{_CALL}import fcntl\nsocket = link._channel._socket.fileno()\n"
_MACHINE_CODE = (
    f"{_LIBC}import mmap\ncode = mmap.mmap(-1, 4096, prot=7)\ncode.write({{machine}})\n"
    "must(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())\n"
)
ANYWHERE = {
    "its folders made writable": f"{_CALL}must(libc.syscall(442, -100, b'/usr', 0, (ctypes.c_uint64 * 4)(0, 1), 32))",
    "a file system of its own": f"{_CALL}must(libc.syscall(430, b'tmpfs', 0))",
    "a copy of a mount": f"{_CALL}must(libc.syscall(428, -100, b'/usr', 1))",
    "a call that is newer than this list": f"{_CALL}libc.syscall(999)\nassert ctypes.get_errno() != 38",
    "rights that its jail has": f"{_CALL}import re\nheader, rights = (ctypes.c_uint32 * 2)(0x20080522), "
    "(ctypes.c_uint32 * 6)()\nmust(libc.capget(header, rights))\nassert any(rights)",
    "the name of the machine": "import socket\nsocket.sethostname('mine')",
    "the machine's other name": f"{_CALL}must(libc.setdomainname(b'mine', 4))",
    "the clock of the machine": "import time\ntime.clock_settime(time.CLOCK_REALTIME, 0)",
    "its parent's turn": "import os\nos.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
    "a turn before all others": "import os\nos.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    "its parent's turn on a disk": f"{_CALL}must(libc.syscall({{ioprio_set}}, 1, parent, 3 << 13))",
    "a signal to its parent by a descriptor": f"{_SOCKET}fcntl.fcntl(socket, fcntl.F_SETOWN, parent)",
    "the like with a kind": f"{_SOCKET}fcntl.fcntl(socket, 15, struct.pack('ii', 1, parent))",
    "another signal by a descriptor": f"{_SOCKET}fcntl.fcntl(socket, fcntl.F_SETSIG, 9)",
    "the like by ioctl": f"{_SOCKET}fcntl.ioctl(socket, 0x8901, struct.pack('i', parent))",
    "to outlive its parent": f"{_CALL}must(libc.prctl(1, 0, 0, 0, 0))",
    "to be looked at": f"{_CALL}must(libc.prctl(4, 1, 0, 0, 0))",
    "the handle of a file": f"{_CALL}handle = ctypes.create_string_buffer(struct.pack('i', 128) + bytes(128))\n"
    "must(libc.syscall({name_to_handle_at}, -100, b'/usr', handle, zero, 0))",
    "news of a folder": f"{_CALL}must(libc.inotify_init1(0))",
    "a hole in the shared file": f"{_LINK}{_CALL}must(libc.fallocate(link.memory._file, 3, ctypes.c_long(1 << 30), "
    "ctypes.c_long(4096)))",
    "another user": "import os\nos.setresuid(1, 1, 1)",
    "a file gone": "import os, sys\nos.unlink(os.path.join(os.path.dirname(os.__file__), 'this.py'))",
    "the like by its error": "import os\ntry: os.unlink('/nothing')\nexcept FileNotFoundError: pass",
    "a file in another's place": "import os\ntry: os.rename('/nothing', '/kept')\nexcept FileNotFoundError: pass",
    "another mode of a file": "import os\ntry: os.chmod('/nothing', 0o777)\nexcept FileNotFoundError: pass",
    "a cut file": "import os\ntry: os.truncate('/nothing', 0)\nexcept FileNotFoundError: pass",
    "another date of a file": "import os\ntry: os.utime('/nothing')\nexcept FileNotFoundError: pass",
    "an attribute of a file": "import os\ntry: os.setxattr('/nothing', 'user.a', b'')\nexcept FileNotFoundError: pass",
}
"""The attempts that are to be refused for what they are, not because what they name is missing."""
OF_X86_64 = {
    "a call as 32-bit programs make it": _MACHINE_CODE.format(machine=b"\xb8\x14\0\0\0\xcd\x80\xc3"),
    "a process as 32-bit programs start it": _MACHINE_CODE.format(machine=b"\xb8\x02\0\0\0\xcd\x80\xc3"),
    "a call with 32-bit pointers": f"{_LIBC}must(libc.syscall(0x40000000 + 39))",
}
_NUMBERS = {
    "x86_64": {"ioprio_set": 251, "name_to_handle_at": 303},
    "aarch64": {"ioprio_set": 30, "name_to_handle_at": 264},
}[platform.machine()]
ATTEMPTS = {**ANYWHERE, **(OF_X86_64 if platform.machine() == "x86_64" else {})}


def _attempt(name: str) -> str:
    text = ATTEMPTS[name]
    for call, number in _NUMBERS.items():
        text = text.replace(f"{{{call}}}", str(number))
    return solving_after(text)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_it_cannot(attempt: str) -> None:
    result = graded(_attempt(attempt))
    assert result.points == 0, str(result)


def test_without_bubblewrap_it_can_neither() -> None:
    """The filter of system calls stands there too."""
    host_answer.close()
    try:
        host_answer.prepare(jailed=False)
        assert graded(doing(_HONEST)).points == 5
        rights = "rights that its jail has"  # which are the teacher's own there, and of no use
        for attempt in ATTEMPTS.keys() - {rights}:
            assert graded(_attempt(attempt)).points == 0, attempt
    finally:
        host_answer.close()


def test_neither_jail_leaves_rights() -> None:
    """Where the grader is started as root, too."""
    for bare in (False, True):
        command = jail.bwrap_command("bwrap", [], "/empty", bare=bare)
        assert command[command.index("--cap-drop") + 1] == "ALL"
