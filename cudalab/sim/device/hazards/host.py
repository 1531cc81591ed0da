"""Host accesses to memory that the host and the device share.

Page-locked, managed and registered memory can be read and written by plain Python while the device works. Until the
host has synchronized with an operation, it must not read what the operation writes, nor write what it reads or writes.
Such accesses involve no runtime call, so the memory is *watched* from when an operation on it is enqueued until the
host is ordered after that operation: its pages are protected, and the first access to each is reported
(``machine/memory/host_watch.py``).

The bytes of a copy are known when it is enqueued, so an access is checked at once. Those of a kernel are known when it
has run: accesses to memory that it may reach are kept until then.

What is simplified: watching is by page, and an accessed page is not protected again before the next operation that uses
it is enqueued. So of several conflicting accesses to a page between two such operations, only the first is found. Where
pages cannot be protected (Windows), host accesses are not seen at all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from msgspec import Struct

from cudalab.sim.device.caller import UNKNOWN, Place
from cudalab.sim.device.hazards.clocks import Clocks, Stamp


class Watch(Protocol):
    """Detects host accesses to ranges of memory."""

    def watch(self, address: int, size: int, reads: bool, writes: bool) -> None:
        """Report the next access to these bytes."""

    def release(self, address: int, size: int) -> None:
        """Stop watching these bytes."""

    def paused(self) -> AbstractContextManager[object]:
        """Within it nothing is reported, because the simulator itself accesses memory."""


class Touch(Struct, frozen=True):
    """One access of the host."""

    address: int
    is_write: bool
    place: Place
    by: Stamp | None
    """The host function that made it; None for the program itself."""


class Shared(NamedTuple):
    """Memory of an operation that the host can access without a call."""

    start: int
    end: int
    written: bool
    """May the operation write it?"""


class HostSide:
    """The memory that the host must not access at present."""

    def __init__(self, clocks: Clocks, watch: Watch | None, found: Callable[[Stamp, Touch], None]) -> None:
        self._clocks = clocks
        self.watch = watch
        self._found = found
        self._pending: dict[Stamp, tuple[Shared, ...]] = {}
        self._watched: dict[tuple[int, int], list[int]] = {}
        self._stale: set[tuple[int, int]] = set()

    @property
    def busy(self) -> bool:
        """Is any memory off limits to the host?"""
        return bool(self._pending)

    def off_limits(self, by: Stamp | None) -> list[Shared]:
        """Memory of operations that the program, or a host function, is not ordered after: it must write none of it,
        nor read what they write."""
        now = Touch(0, False, UNKNOWN, by)
        return [part for stamp, shared in self._pending.items() if not self.ordered(stamp, now) for part in shared]

    def expect(self, stamp: Stamp, shared: tuple[Shared, ...]) -> None:
        """An operation was enqueued that may access ``shared``."""
        self._pending[stamp] = shared
        stamp.visible = shared
        if self.watch is None:
            return
        for part in shared:
            key = (part.start, part.end)
            counts = self._watched.setdefault(key, [0, 0])
            counts[0] += 1
            counts[1] += part.written
            if counts[0] == 1 or (part.written and counts[1] == 1) or key in self._stale:
                self._stale.discard(key)
                self.watch.watch(part.start, part.end - part.start, counts[1] > 0, True)

    def waited(self) -> None:
        """The host has synchronized: it may access the memory of operations that it is now ordered after."""
        known = self._clocks.host_acquired
        for stamp in [stamp for stamp in self._pending if known(stamp)]:
            self._let_go(stamp)

    def clear(self) -> None:
        """The host is ordered after everything."""
        if self.watch is not None:
            for start, end in self._watched:
                self.watch.release(start, end - start)
        self._pending.clear()
        self._watched.clear()
        self._stale.clear()

    def _let_go(self, stamp: Stamp) -> None:
        for part in self._pending.pop(stamp):
            key = (part.start, part.end)
            counts = self._watched.get(key)
            if self.watch is None or counts is None:
                continue
            counts[0] -= 1
            counts[1] -= part.written
            if not counts[0]:
                del self._watched[key]
                self._stale.discard(key)
                self.watch.release(part.start, part.end - part.start)
            elif part.written and not counts[1]:  # only reads are left, which conflict with writes alone
                self.watch.release(part.start, part.end - part.start)
                self.watch.watch(part.start, part.end - part.start, False, True)

    def touched(self, touch: Touch) -> None:
        """The host accessed watched memory: report operations that are not ordered against the access."""
        for stamp, shared in list(self._pending.items()):
            if not any(part.start <= touch.address < part.end for part in shared):
                continue
            self._stale.update((part.start, part.end) for part in shared)
            if not self.ordered(stamp, touch):
                self._found(stamp, touch)

    def ordered(self, stamp: Stamp, touch: Touch) -> bool:
        """Is the operation ordered before or after the access?"""
        if touch.by is None:
            return self._clocks.host_acquired(stamp)
        return (
            stamp is touch.by or stamp.before(touch.by) or touch.by.before(stamp) or self._clocks.host_acquired(stamp)
        )
