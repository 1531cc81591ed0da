"""A page trap: the host's first access to a protected page is noticed, and then succeeds.

Reading page-locked memory is an ordinary load of the processor, not a call. So pages are made inaccessible with
``mprotect``, and a handler of SIGSEGV (``compiler/runtime/host_fault.py``) notes the address, whether it was a write
and the Python stack, makes the page accessible again and returns. A touch costs some 20 us, most of it for the stack;
each further touch of the same range opens twice as many pages as the one before.

The handler belongs to the process. It chains every other fault to the previous handler, the way that one would have
been called: ``faulthandler`` writes its message, the default ends the process. ``faulthandler.enable`` and ``disable``
install handlers themselves, so they are wrapped, and ours is installed on top again; that is also checked whenever
pages are protected.

The Python stack is written by ``faulthandler`` (its handler of an unused real-time signal, to a file in memory),
because it is async-signal-safe. A Python handler of the same signal reports the touch soon after; until the main thread
has watched memory for the first time, touches are reported at the next call.

What a program can notice: a system call on watched memory fails with EFAULT ("Bad address") instead of raising a
signal: ``array.tofile(f)`` while a copy into ``array`` is in progress, for example. A correct program does not do that,
unless the call uses other bytes of the same page, which are watched only where a copy is shorter than a page. After
``fork`` nothing is watched in the child. Where there is no trap (Windows, processors other than x86-64 and aarch64)
:func:`available` says so.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import functools
import mmap
import os
import platform
import re
import signal
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from cudalab.sim.abi import WatchNote, WatchSlot, WatchState

PAGE = 4096
MOST_SLOTS = 1 << 15
_NOTES = 1 << 11
_MACHINES = ("x86_64", "aarch64")
_SLOT, _NOTE = struct.Struct("<4Q"), struct.Struct("<QQQqqQ")
_END = struct.Struct("<Q")
_SIGINFO, _ONSTACK, _NODEFER = 4, 0x0800_0000, 0x4000_0000
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in ', re.MULTILINE)

Frames = tuple[tuple[str, int], ...]
"""File and line of each frame, the innermost first; empty where the thread runs no Python."""


class Note(Struct, frozen=True):
    """One touch."""

    address: int
    is_write: bool | None
    """None: the processor does not report it."""
    slot: int
    silent: bool
    """It was the simulator itself."""
    frames: Frames


class _Action(ctypes.Structure):
    """``struct sigaction`` of Linux C libraries on 64-bit processors."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


def available() -> bool:
    """Can host accesses be noticed here?"""
    return (
        sys.platform == "linux"
        and platform.machine() in _MACHINES
        and sys.implementation.name == "cpython"
        and mmap.PAGESIZE == PAGE
    )


class PageTrap:
    """The process's trap. Get it by :func:`page_trap`; all methods are called with Python's lock held."""

    def __init__(self) -> None:
        self.state = WatchState()
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # not shared with children
        self._slots = mmap.mmap(-1, MOST_SLOTS * _SLOT.size, flags=private)
        self._notes = mmap.mmap(-1, _NOTES * _NOTE.size, flags=private)
        self._free: deque[int] = deque()
        self.seen = 0
        """How many touches have been taken."""
        state = self.state
        state.process = os.getpid()
        state.slots, state.notes = _start(self._slots), _start(self._notes)
        state.note_count = _NOTES
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._mprotect = self._libc.mprotect
        self._mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._sigaction = self._libc.sigaction
        self._now = _Action()
        self.on_notice: Callable[[], None] = lambda: None
        """Called in the main thread soon after a touch."""
        self._file = os.memfd_create("cudalab touches", os.MFD_CLOEXEC)
        self._probe = os.memfd_create("cudalab probe", os.MFD_CLOEXEC)
        self._taking = False
        state.dump_file = self._file
        self._signal = 0
        self._code = self._link()
        self._handler = self._code.address("cl_host_fault")
        self._kept: list[object] = []
        self.assert_handler()
        _wrap_faulthandler(self)
        os.register_at_fork(after_in_child=self._forget_in_child)
        atexit.register(self.close)

    def _link(self) -> Any:
        from cudalab.sim.compiler.loader import load_object
        from cudalab.sim.compiler.runtime.host_fault import ENTRY, IMPORTS, STATE
        from cudalab.sim.compiler.translation import host_fault_code

        imports = {STATE: ctypes.addressof(self.state)}
        for name in IMPORTS:
            library = ctypes.pythonapi if name.startswith("Py") else self._libc
            imports[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        return load_object(host_fault_code(), ENTRY, imports)

    # -- the handler

    def assert_handler(self) -> None:
        """Install our handler if another one has replaced it; faults that are not ours are chained to that one."""
        now = self._now
        self._sigaction(signal.SIGSEGV.value, None, ctypes.byref(now))
        if now.function == self._handler:
            return
        state = self.state
        count = state.previous_count
        known = [state.previous[i].function for i in range(count)]
        entry = now.function or 0
        if entry in known:  # it was restored: those installed after it are gone
            count = known.index(entry) + 1
        elif count == WatchState.PREVIOUS:
            for index in range(count - 1):
                state.previous[index] = state.previous[index + 1]
        else:
            count += 1
        state.previous[count - 1].function = entry
        state.previous[count - 1].flags = now.flags & 0xFFFF_FFFF
        state.previous_count = count
        ours = _Action(function=self._handler, flags=_SIGINFO | _ONSTACK | _NODEFER)
        if self._sigaction(signal.SIGSEGV.value, ctypes.byref(ours), None):
            raise OSError(ctypes.get_errno(), "sigaction")

    def prepare_thread(self) -> None:
        """In the main thread: choose a signal and register its handlers, once."""
        if self._signal or threading.current_thread() is not threading.main_thread():
            return
        for number in range(signal.SIGRTMAX - 2, signal.SIGRTMIN, -1):
            if signal.getsignal(number) == signal.SIG_DFL:
                break
        else:
            return
        # Python's handler first: what the system then calls is faulthandler's, Python's is called by its own table.
        signal.signal(number, self._notice)
        faulthandler.register(number, file=self._file, all_threads=False, chain=False)
        self._signal = number
        self.state.dump_signal = self.state.notify_signal = number

    def _notice(self, _number: int, _frame: object) -> None:
        if self.pending:
            self.on_notice()

    # -- pages

    def add(self, start: int, end: int) -> int:
        """Notice touches of the pages ``start … end`` once they are protected; returns the slot, or -1 when none is
        left."""
        if len(self._free) > 64 or (self._free and self.state.slot_count == MOST_SLOTS):
            slot = self._free.popleft()  # the one released longest ago: a thread may still be in its fault
        elif self.state.slot_count < MOST_SLOTS:
            slot = self.state.slot_count
            self.state.slot_count = slot + 1
        else:
            return -1
        offset = slot * _SLOT.size
        _END.pack_into(self._slots, offset + WatchSlot.end.offset, 0)
        _SLOT.pack_into(self._slots, offset, start, 1, WatchSlot.WATCHED, end)
        return slot

    def rearm(self, slot: int, whole: bool = False) -> None:
        """The next touch opens one page, or all of the slot."""
        _END.pack_into(self._slots, slot * _SLOT.size + WatchSlot.step.offset, 0 if whole else 1)

    def touched(self, slot: int) -> bool:
        """Has any of its pages been opened?"""
        return bool(_END.unpack_from(self._slots, slot * _SLOT.size + WatchSlot.step.offset)[0] > 1)

    def remove(self, slot: int) -> None:
        """The pages are accessible again: the handler ignores a late fault in them."""
        _END.pack_into(self._slots, slot * _SLOT.size + WatchSlot.state.offset, WatchSlot.RELEASED)
        self._free.append(slot)

    def protect(self, start: int, end: int, access: int) -> bool:
        """``mprotect``; returns whether it succeeded."""
        return end <= start or not self._mprotect(start, end - start, access)

    def is_closed(self, address: int) -> bool:
        """Is a page unreadable, as we left it? A system call answers that without a fault."""
        return bool(self._libc.pwrite(self._probe, ctypes.c_void_p(address), 1, 0) != 1)

    def set_arenas(self, ranges: list[tuple[int, int]]) -> None:
        """The simulator's own memory, which is always accessible: at most eight ranges."""
        for index in range(8):
            base, size = ranges[index] if index < len(ranges) else (0, 0)
            self.state.arena[index].length = 0
            self.state.arena[index].base, self.state.arena[index].length = base, size

    # -- touches

    @property
    def pending(self) -> bool:
        """Are there touches that have not been taken?"""
        return bool(self.state.noted != self.seen)

    def take(self) -> list[Note]:
        """The touches since the last call, oldest first; where they do not fit, the newest."""
        if self._taking:  # interrupted by a signal handler
            return []
        self._taking = True
        try:
            return self._take()
        finally:
            self._taking = False

    def _take(self) -> list[Note]:
        noted = self.state.noted
        found: list[Note] = []
        first = max(self.seen, noted - _NOTES)
        for number in range(first, noted):
            address, access, slot, begin, end, stamp = _NOTE.unpack_from(self._notes, number % _NOTES * _NOTE.size)
            if stamp != number + 1:  # another thread is writing it right now
                noted = number
                break
            silent = access == WatchNote.SILENT
            frames = self._frames(begin, end) if 0 <= begin < end else ()
            found.append(Note(address, None if access > 1 else access == WatchNote.WRITE, slot, silent, frames))
        self.seen = noted
        if any(note.frames for note in found) and noted == self.state.noted:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
        return found

    def _frames(self, begin: int, end: int) -> Frames:
        text = os.pread(self._file, end - begin, begin).decode("ascii", "replace")
        return tuple((_unescape(file), int(line)) for file, line in _FRAME.findall(text))

    # -- the end

    def close(self) -> None:
        """Before Python exits: make all pages accessible, and remove our handler unless another one chains to it."""
        self.state.notify_signal = self.state.dump_signal = 0
        for slot in range(self.state.slot_count):
            start, _, state, end = _SLOT.unpack_from(self._slots, slot * _SLOT.size)
            if state == WatchSlot.WATCHED and end:
                self.protect(start, end, 3)  # PROT_READ | PROT_WRITE
                _END.pack_into(self._slots, slot * _SLOT.size + WatchSlot.state.offset, WatchSlot.RELEASED)
        now = _Action()
        self._sigaction(signal.SIGSEGV.value, None, ctypes.byref(now))
        if now.function == self._handler and self.state.previous_count:
            before = self.state.previous[self.state.previous_count - 1]
            back = _Action(function=before.function, flags=ctypes.c_int(before.flags).value)
            self._sigaction(signal.SIGSEGV.value, ctypes.byref(back), None)

    def _forget_in_child(self) -> None:
        """After fork: the child's copy of the pages is its own, and is not watched."""
        self.close()
        self.state.slot_count = 0
        self._free.clear()
        _reset()


def _unescape(text: str) -> str:
    """``faulthandler`` writes other characters than ASCII as escapes."""
    return re.sub(
        r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))",
        lambda found: chr(int(next(group for group in found.groups() if group), 16)),
        text,
    )


def _start(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _wrap_faulthandler(trap: PageTrap) -> None:
    """Install our handler again right after ``faulthandler`` has installed or removed its own."""
    for name in ("enable", "disable"):
        original = getattr(faulthandler, name)

        @functools.wraps(original)
        def wrapped(*args: Any, _original: Callable[..., Any] = original, **kwargs: Any) -> Any:
            try:
                return _original(*args, **kwargs)
            finally:
                if os.getpid() == trap.state.process:
                    trap.assert_handler()

        setattr(faulthandler, name, wrapped)


installed: PageTrap | None = None
"""The process's trap if there is one already."""
why_not = ""
"""Why there is no trap though there could be one."""


def page_trap() -> PageTrap | None:
    """The process's trap, made when first asked for; None where there can be none."""
    global installed, why_not
    if installed is None and not why_not and available():
        try:
            installed = PageTrap()
        except Exception as error:  # the system forbids one of the calls: programs run without a watch
            why_not = f"{type(error).__name__}: {error}"
    return installed


def _reset() -> None:
    global installed
    installed = None
