"""One warm process that helpers are forked from (Linux).

Loading NVRTC and LLVM takes half a second and 30 MB that two processes share only where one is a copy of the other. So
one process, the zygote, loads them, compiles a first kernel, and from then on forks a helper whenever it is asked for
one: that takes milliseconds, and the copy's memory is the zygote's until it writes there. A helper may end as soon as
nobody needs it, and gives all that its compilers hold on to back with that.

Precompiled headers (``frontend/precompiled.py``) fit all copies of one process. Helpers say which header they would
have used; when all have been quiet for a while, a copy that ends with that writes it.

The zygote is one thread. Its socket brings ``fork`` with the ends of a helper's pipes and its error file, ``wait`` and
``kill``; the replies to the first two are numbers, in the order of the requests. It ends when the socket does.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

OFFERED = sys.platform == "linux"
RETIRED = 0
"""Exit status of a helper that has ended for want of work; what it had not read it has not begun."""
_HEADER_QUIET = 3.0  # seconds without a compile after which a header is written: Run All leaves fewer
_HEADER_SECONDS = 60  # after which its writer ends
_REPLY_SECONDS = 120.0  # the zygote's first reply waits for its libraries; long, for loaded machines
_LARGEST_NOTICE = 1 << 16  # bytes
BEGUN, ANSWERED = b"+", b"-"
"""What helpers tell the zygote, beside the headers that they want."""


# ----------------------------------------------------------------------- the side of the caller


class Zygote:
    """The process that forks helpers, seen from the one that started it.

    Args:
        command: makes its command line from the number of its socket.
        folder: where it stands.
    """

    def __init__(self, command: Callable[[int], list[str]], folder: str) -> None:
        self.folder = folder
        self._errors = tempfile.TemporaryFile()
        self._lock = threading.Lock()
        self._asked, self._heard = 0, 0
        self._replies: dict[int, int] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_REPLY_SECONDS)
        with theirs:
            self.process = subprocess.Popen(
                command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                cwd=folder,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    @property
    def serves(self) -> bool:
        """Whether it has replied to something: before that it loads its libraries."""
        return self._heard > 0

    def usable(self) -> bool:
        """Whether it is alive, and nobody has tidied away the folder that it stands in."""
        return self.process.poll() is None and os.path.isdir(self.folder)

    def fork(self, descriptors: tuple[int, int, int]) -> int:
        """Ask for a helper with these ends of its pipes and this error file; the number to ask ``reply`` for its
        process id."""
        with self._lock:
            self._asked += 1
            with contextlib.suppress(OSError):  # it has ended: so has the helper, says its pipe
                socket.send_fds(self._socket, [b"fork"], descriptors)
            return self._asked

    def wait(self, process: int) -> int:
        """The exit status of a helper that has ended, or is about to."""
        with self._lock:
            self._asked += 1
            number = self._asked
            with contextlib.suppress(OSError):
                self._socket.send(b"wait %d" % process)
        return self.reply(number)

    def kill(self, process: int) -> None:
        """End a helper, if it has not ended yet."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.send(b"kill %d" % process)

    def reply(self, number: int) -> int:
        """The reply to a request; the zygote's own exit status where it has ended."""
        with self._lock:
            while number not in self._replies:
                data = b""
                with contextlib.suppress(OSError):
                    data = self._socket.recv(64)
                if not data:
                    return self._status()
                self._heard += 1
                self._replies[self._heard] = int(data)
            return self._replies.pop(number)

    def _status(self) -> int:
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            return 1

    def printed(self) -> bytes:
        """What it has written to its standard streams."""
        self._errors.seek(0)
        return self._errors.read()

    def stop(self) -> None:
        """End it, and what writes its headers; helpers end when their pipes do."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.close()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's process without touching it."""
        self.close()
        self.process.returncode = 0

    def close(self) -> None:
        self._socket.close()
        self._errors.close()


class Forked:
    """A helper that a zygote forks: as much of ``subprocess.Popen`` as its user needs."""

    def __init__(self, zygote: Zygote, errors: BinaryIO) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self.stdin, self.stdout = os.fdopen(ours_in, "wb", 0), os.fdopen(ours_out, "rb", 0)
        self.ended = threading.Event()
        """To be set by whoever reads ``stdout`` to its end."""
        self.returncode: int | None = None
        self._zygote, self._pid = zygote, 0
        self._asking = threading.Lock()  # an exit status is told once
        self._number = zygote.fork((theirs_in, theirs_out, errors.fileno()))
        os.close(theirs_in)
        os.close(theirs_out)

    @property
    def pid(self) -> int:
        """Its process id; waits until the zygote has loaded its libraries. 0 or less: there is none."""
        if not self._pid:
            self._pid = self._zygote.reply(self._number) if self._zygote.process.poll() is None else -1
        return self._pid

    def poll(self) -> int | None:
        """Its exit status, None while it is alive."""
        if self.returncode is None and (self.ended.is_set() or self._has_no_reader()):
            with contextlib.suppress(subprocess.TimeoutExpired):  # its last reply is still to be read
                return self.wait()
        return self.returncode

    def _has_no_reader(self) -> bool:
        """Whether nobody can read requests any more: seen at once, before somebody has read the last reply."""
        if self.stdin.closed:
            return True
        look = select.poll()
        look.register(self.stdin, 0)  # an error is reported without being asked for
        return bool(look.poll(0))

    def wait(self, seconds: float = 5.0) -> int:
        with self._asking:
            if self.returncode is None:
                if not self.ended.wait(seconds):
                    raise subprocess.TimeoutExpired("helper", seconds)
                self.returncode = self._zygote.wait(self.pid) if self.pid > 0 else self._zygote.process.wait(seconds)
            return self.returncode

    def kill(self) -> None:
        """End it now. One that the zygote has not come to yet will end at once, for its pipes have no other end."""
        if not self._pid and not self._zygote.serves:
            self.returncode = -signal.SIGKILL
        elif self.returncode is None and self.pid > 0:
            self._zygote.kill(self.pid)

    def printed(self) -> bytes:
        """What the zygote has written, where it is the one that has ended."""
        return self._zygote.printed() if self._zygote.process.poll() is not None else b""


# ----------------------------------------------------------------------- the side of the zygote


class _Server:
    """The loop of the zygote."""

    def __init__(self, control: socket.socket, write_header: Callable[[bytes], None]) -> None:
        self._control, self._write_header = control, write_header
        self._heard, self.notices = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ended: dict[int, int] = {}
        self._helpers: set[int] = set()
        self._writer, self._writes = 0, b""
        self._wanted, self._last = b"", 0.0
        self._wake, woken = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self._poll = select.poll()
        for source in (control.fileno(), self._heard.fileno(), self._wake):
            self._poll.register(source, select.POLLIN)

    def run(self) -> tuple[BinaryIO, BinaryIO]:
        """Serve until the caller is gone. Returns in helpers, with what their requests and replies go through."""
        while True:
            ready = {source for source, _ in self._poll.poll(500 if self._wanted else None)}
            if self._wake in ready:
                os.read(self._wake, 4096)
            self._reap()
            if self._heard.fileno() in ready:
                self._hear()
            if self._control.fileno() in ready and (streams := self._obey()):
                return streams
            if self._wanted and not self._writer and time.monotonic() - self._last > _HEADER_QUIET:
                self._start_writer()

    def _reap(self) -> None:
        while self._helpers or self._writer:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            self._note_end(process, status)

    def _note_end(self, process: int, status: int) -> None:
        if process == self._writer:
            self._writer = 0
        else:
            self._helpers.discard(process)
            self._ended[process] = os.waitstatus_to_exitcode(status)

    def _hear(self) -> None:
        notice = self._heard.recv(_LARGEST_NOTICE)
        self._last = time.monotonic()
        if notice == BEGUN:
            self._put_writer_off()
        elif notice != ANSWERED:
            self._wanted = notice

    def _put_writer_off(self) -> None:
        """A compile has begun: it needs the memory, and somebody waits for it."""
        if self._writer:
            os.kill(self._writer, signal.SIGKILL)
            self._wanted = self._wanted or self._writes

    def _obey(self) -> tuple[BinaryIO, BinaryIO] | None:
        """Do what the caller asks for; streams in the helper that it asked for."""
        order, descriptors, _, _ = socket.recv_fds(self._control, 64, 3)
        what, _, process = order.decode().partition(" ")
        if what == "fork":
            return self._fork(descriptors)
        if what == "kill" and int(process) in self._helpers:
            os.killpg(int(process), signal.SIGKILL)
        elif what == "wait":
            if int(process) in self._helpers:
                self._note_end(int(process), os.waitpid(int(process), 0)[1])
            self._control.send(b"%d" % self._ended.pop(int(process), RETIRED))
        elif not what:  # the caller has gone
            os.killpg(0, signal.SIGKILL)
        return None

    def _fork(self, descriptors: list[int]) -> tuple[BinaryIO, BinaryIO] | None:
        self._last = time.monotonic()
        process = os.fork()
        if process:
            os.setpgid(process, process)  # as it does itself: whoever is first
            self._helpers.add(process)
            for each in descriptors:
                os.close(each)
            self._control.send(b"%d" % process)
            return None
        os.setpgid(0, 0)
        self._let_go()
        requests, replies, errors = descriptors
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        os.close(errors)
        return os.fdopen(requests, "rb"), os.fdopen(replies, "wb")

    def _start_writer(self) -> None:
        wanted = self._writes = self._wanted
        self._wanted = b""
        self._writer = os.fork()
        if not self._writer:
            self._let_go()
            signal.setitimer(signal.ITIMER_REAL, _HEADER_SECONDS)
            with contextlib.suppress(Exception):  # the next compile goes without
                self._write_header(wanted)
            os._exit(0)

    def _let_go(self) -> None:
        """In a copy: be no zygote."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        self._heard.close()


def serve(control: int, write_header: Callable[[bytes], None]) -> tuple[BinaryIO, BinaryIO, Callable[[bytes], None]]:
    """Be a zygote. Returns in the helpers that are forked: where their requests come from, where their replies go, and
    how to tell the zygote that a request has ``BEGUN`` and that it was ``ANSWERED``, or ``write_header``'s
    argument when a header would have helped."""
    import gc

    gc.collect()
    gc.freeze()  # a collection in a helper touches, and so copies, nothing of the zygote's
    server = _Server(socket.socket(fileno=control), write_header)
    requests, replies = server.run()

    def notify(notice: bytes) -> None:
        with contextlib.suppress(OSError):  # the zygote has ended, or has much to read
            server.notices.send(notice, socket.MSG_DONTWAIT)

    return requests, replies, notify
