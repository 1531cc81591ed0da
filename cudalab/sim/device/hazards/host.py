"""The host's side: memory that host and device share, and who touches it when.

Page-locked, managed and registered memory can be read and written by plain Python while the device works. Until the
host has waited for an operation, it must not read what that one writes, nor write what it reads or writes. A runtime
call does not show such accesses, so the memory is *watched* from the moment such an operation is enqueued until the
host is ordered behind it: the machine layer protects the pages and tells of the first access
(``machine/memory/host_watch.py``).

Copies say exactly what they will touch, so an access is judged at once. What a kernel touches is known when it has run:
an access to memory that it may reach is kept and judged then.

What is simplified: pages are watched, and a touched one is not watched again before the next operation that uses it is
enqueued. So of several wrong accesses between two such operations the first one of a page is found. Where pages cannot
be protected, accesses of the host are not seen at all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cudalab.sim.device.caller import Place
from cudalab.sim.device.hazards.clocks import Clocks, Stamp


class Watch(Protocol):
    """What watches memory."""

    def watch(self, address: int, size: int, reads: bool, writes: bool) -> None:
        """Tell of the next access to these bytes."""

    def release(self, address: int, size: int) -> None:
        """Do not watch these bytes any more."""

    def paused(self) -> AbstractContextManager[object]:
        """Within it nothing is told: the simulator itself touches memory."""


@dataclass(frozen=True)
class Touch:
    """The host touched a byte."""

    address: int
    is_write: bool
    place: Place
    by: Stamp | None
    """The host function that did it; None for the program itself."""


class Shared(NamedTuple):
    """Memory that an operation may touch and the host can touch, too."""

    start: int
    end: int
    written: bool
    """May the operation write it?"""


class HostSide:
    """What the host must not touch now."""

    def __init__(self, clocks: Clocks, watch: Watch | None, found: Callable[[Stamp, Touch], None]) -> None:
        self._clocks = clocks
        self.watch = watch
        self._found = found
        self._pending: dict[Stamp, tuple[Shared, ...]] = {}
        self._watched: dict[tuple[int, int], list[int]] = {}
        self._stale: set[tuple[int, int]] = set()

    @property
    def busy(self) -> bool:
        """Is there memory that the host must not touch freely?"""
        return bool(self._pending)

    def expect(self, stamp: Stamp, shared: tuple[Shared, ...]) -> None:
        """An operation was enqueued that may touch ``shared``."""
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
        """The host has waited for something: what it is ordered behind is free for it."""
        known = self._clocks.host_acquired
        for stamp in [stamp for stamp in self._pending if known(stamp)]:
            self._let_go(stamp)

    def clear(self) -> None:
        """The host is ordered behind everything."""
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
            elif part.written and not counts[1]:  # from now on only writes matter
                self.watch.release(part.start, part.end - part.start)
                self.watch.watch(part.start, part.end - part.start, False, True)

    def touched(self, touch: Touch) -> None:
        """The host touched memory that is watched: who is not ordered before it?"""
        for stamp, shared in list(self._pending.items()):
            if not any(part.start <= touch.address < part.end for part in shared):
                continue
            self._stale.update((part.start, part.end) for part in shared)
            if not self.ordered(stamp, touch):
                self._found(stamp, touch)

    def ordered(self, stamp: Stamp, touch: Touch) -> bool:
        """Is the operation ordered against the access, before or after it?"""
        if touch.by is None:
            return self._clocks.host_acquired(stamp)
        return (
            stamp is touch.by or stamp.before(touch.by) or touch.by.before(stamp) or self._clocks.host_acquired(stamp)
        )
