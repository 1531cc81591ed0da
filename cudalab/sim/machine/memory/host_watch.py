"""Host accesses to memory that host and device share: a watch by page protection.

Page-locked, managed and registered memory can be read and written by plain Python while the device works, and neither a
GPU nor CUDA notices. Here the pages of such memory are protected while it is *watched*, and the first touch of a page
is reported with its address, whether it was a write, and the Python stack (:mod:`.page_trap` says how, and where it
works).

Simplified: protection has the granularity of pages. Pages that also hold other bytes of the same allocation are left
out, unless the watched range is smaller than a page; touches of those other bytes are not reported. A page that was
touched is not watched again until :meth:`HostWatch.watch` is called for it. Of registered memory, whose neighbouring
bytes belong to the program, only whole pages are watched.

System calls on watched memory fail with EFAULT instead of faulting, so the simulator calls :func:`let_through` before
its own. A C library that installs a handler of SIGSEGV while memory is watched must pass on the faults that it does not
know; ``faulthandler`` is taken care of.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from cudalab.sim.machine.memory import page_trap
from cudalab.sim.machine.memory.allocation import Allocation
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.page_trap import PAGE, Frames, Note, PageTrap

_FREE, _READ = 3, 1  # PROT_READ | PROT_WRITE; mmap has no such names on Windows
_NONE = 0

Touched = Callable[[int, bool, Frames], None]
"""``on_touch(address, is_write, frames)``"""


class _Range:
    """One watched range: its bytes, what is watched, and the pages that are protected for it."""

    __slots__ = ("address", "first", "last", "owned", "reads", "size", "slot", "writes")

    def __init__(self, address: int, size: int, first: int, last: int, owned: bool) -> None:
        self.address, self.size = address, size
        self.first, self.last = first, last
        self.owned = owned
        self.reads = self.writes = False
        self.slot = -1

    @property
    def access(self) -> int:
        """The protection of its pages."""
        return _NONE if self.reads or not self.owned else _READ


class HostWatch:
    """The watch over one device's memory.

    Args:
        memory: where page-locked and managed memory lies; what is not in it is registered host memory.
        on_touch: called for each touch, in the thread that calls the simulator, or in the main thread soon after the
            touch. ``frames`` is the Python stack at the touch, innermost first.
    """

    def __init__(self, memory: Memory, on_touch: Touched | None = None) -> None:
        self.on_touch = on_touch
        self._memory = memory
        self._ranges: dict[tuple[int, int], _Range] = {}
        self._order: list[tuple[int, int]] = []
        self._widest = 0
        self._by_slot: dict[int, _Range] = {}
        self._trap: PageTrap | None = None
        memory.on_free.append(_forward(weakref.WeakMethod(self._freed)))
        _watches.add(self)

    @property
    def available(self) -> bool:
        """Can host accesses be noticed here? If not, no touch is ever reported."""
        return page_trap.available() and not page_trap.why_not

    # -- what is watched

    def watch(self, address: int, size: int, reads: bool, writes: bool) -> None:
        """Report the next access to these bytes: ``reads``, ``writes``, or both. Another call for the same bytes
        replaces the mode and reports the next access again."""
        if not (reads or writes) or size <= 0:
            self.release(address, size)
            return
        trap = self._find_trap()
        if trap is None:
            return
        key = (address, size)
        range_ = self._ranges.get(key)
        if range_ is None:
            pages = self._pages(address, size)
            if pages is None:
                return
            range_ = _Range(address, size, *pages)
            range_.slot = trap.add(range_.first, range_.last)
            if range_.slot < 0:
                return
            self._ranges[key] = self._by_slot[range_.slot] = range_
            insort(self._order, key)
            self._widest = max(self._widest, size)
        elif (range_.reads, range_.writes) == (reads, writes) and not trap.touched(range_.slot):
            return
        range_.reads, range_.writes = reads, writes
        trap.prepare_thread()
        trap.assert_handler()
        self._protect(trap, range_)

    def release(self, address: int, size: int) -> None:
        """Stop watching these bytes."""
        range_ = self._ranges.pop((address, size), None)
        if range_ is None or self._trap is None:
            return
        self._order.pop(bisect_left(self._order, (address, size)))
        del self._by_slot[range_.slot]
        if not self._order:
            self._widest = 0
        self._apply(self._trap, range_)
        self._trap.remove(range_.slot)

    def paused(self) -> _Paused:
        """As :func:`paused`."""
        return _PAUSED

    def release_all(self) -> None:
        """Stop watching."""
        for address, size in list(self._ranges):
            self.release(address, size)

    @property
    def busy(self) -> bool:
        """Is anything watched?"""
        return bool(self._ranges)

    def _find_trap(self) -> PageTrap | None:
        trap = page_trap.page_trap()
        if trap is not self._trap:  # the first time, or the first after a fork
            self._ranges.clear()
            self._order.clear()
            self._by_slot.clear()
            self._trap = trap
            if trap is not None:
                trap.on_notice = deliver
                trap.state.paused = _PAUSED.depth
                _name_arenas(trap)
        return trap

    def _pages(self, address: int, size: int) -> tuple[int, int, bool] | None:
        """First page, end of the last one, and whether they are the arena's; None: no page can be protected."""
        end = address + size
        inner = -(-address // PAGE) * PAGE, end // PAGE * PAGE
        allocation = self._memory.find(address)
        if allocation is None:  # registered host memory
            return (*inner, False) if inner[0] < inner[1] else None
        outer = address // PAGE * PAGE, -(-end // PAGE) * PAGE
        # An allocation is surrounded by red zones, so its first and last page hold nothing else.
        first = outer[0] if outer[0] <= allocation.pointer else inner[0]
        last = outer[1] if outer[1] >= allocation.end else inner[1]
        return (first, last, True) if first < last else (*outer, True)

    # -- protection

    def _protect(self, trap: PageTrap, range_: _Range) -> None:
        trap.rearm(range_.slot, whole=not range_.owned)
        self._apply(trap, range_)

    def _apply(self, trap: PageTrap, range_: _Range) -> None:
        """Give the pages of a range the strictest protection that any watched range needs."""
        near = list(self._near(range_.first, range_.last))
        if len(near) == 1 and near[0] is range_:
            trap.protect(range_.first, range_.last, range_.access)
            return
        edges = {range_.first, range_.last}
        for other in near:
            edges |= {max(other.first, range_.first), min(other.last, range_.last)}
        cuts = sorted(edges)
        for start, end in zip(cuts, cuts[1:], strict=False):
            wanted = [other.access for other in near if other.first < end and start < other.last]
            if wanted:
                trap.protect(start, end, min(wanted))
            elif range_.owned or (not trap.touched(range_.slot) and trap.is_closed(start)):
                # The program may have freed its own memory by now, and something else may be there.
                trap.protect(start, end, _FREE)

    def _near(self, first: int, last: int) -> Iterator[_Range]:
        """Watched ranges that have a page in ``first … last``."""
        index = bisect_left(self._order, (first - self._widest - PAGE, 0))
        while index < len(self._order) and self._order[index][0] < last + PAGE:
            range_ = self._ranges[self._order[index]]
            if range_.first < last and first < range_.last:
                yield range_
            index += 1

    def _freed(self, allocation: Allocation) -> None:
        for range_ in list(self._near(allocation.pointer // PAGE * PAGE, -(-allocation.end // PAGE) * PAGE)):
            self.release(range_.address, range_.size)

    # -- touches

    def _report(self, note: Note) -> bool:
        """Report a touch; false when it is not in this watch's ranges."""
        range_ = self._by_slot.get(note.slot)
        if range_ is None:
            return False
        if note.silent:
            _opened[note.slot] = self
            return True
        wanted = [
            other
            for other in self._near(note.address // PAGE * PAGE, note.address // PAGE * PAGE + PAGE)
            if other.address <= note.address < other.address + other.size
        ]
        is_write = note.is_write if note.is_write is not None else not any(other.reads for other in wanted)
        if any(other.writes if is_write else other.reads for other in wanted):
            if self.on_touch is not None:
                self.on_touch(note.address, is_write, note.frames)
        else:
            _opened[note.slot] = self
        return True

    def _close(self, slot: int) -> None:
        """Protect the pages of a slot again."""
        range_ = self._by_slot.get(slot)
        if range_ is not None and self._trap is not None:
            self._protect(self._trap, range_)

    def __del__(self) -> None:
        try:
            self.release_all()
            _watches.discard(self)
            if self._trap is not None:
                _name_arenas(self._trap)
        except Exception:  # at the end of the process anything may be gone
            pass


def _forward(method: weakref.WeakMethod[Callable[[Allocation], None]]) -> Callable[[Allocation], None]:
    def call(allocation: Allocation) -> None:
        found = method()
        if found is not None:
            found(allocation)

    return call


_watches: weakref.WeakSet[HostWatch] = weakref.WeakSet()
_opened: dict[int, HostWatch] = {}
"""Slots whose pages were opened by the simulator, or by a touch that is not reported: to be protected again."""
_depth = threading.RLock()  # a destructor may make a call while this thread counts


def _name_arenas(trap: PageTrap) -> None:
    """Give the handler the address ranges of the arenas: of very many devices, those that were watched last."""
    arenas = [watch._memory.arena for watch in _watches if watch._trap is not None]
    trap.set_arenas([(arena.base, arena.size) for arena in arenas][-8:])


def _close_again() -> None:
    while _opened:
        slot, watch = _opened.popitem()
        watch._close(slot)


def deliver() -> None:
    """Report the touches that have been noticed."""
    trap = page_trap.installed
    if trap is None or trap.state.paused:
        return
    _deliver(trap)


def _deliver(trap: PageTrap) -> None:
    for note in trap.take():
        for watch in list(_watches):
            if watch._report(note):
                break


class _Paused:
    """While entered, touches are the simulator's own. Entering reports those that came before."""

    __slots__ = ("depth",)

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        trap = page_trap.installed
        if trap is not None and not self.depth and trap.state.noted != trap.seen:
            _deliver(trap)
        _depth.acquire()
        self.depth = depth = self.depth + 1
        if trap is not None:
            trap.state.paused = depth
        _depth.release()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        trap = page_trap.installed
        _depth.acquire()
        self.depth = depth = self.depth - 1
        if trap is not None:
            trap.state.paused = depth
        _depth.release()
        if trap is not None and not depth:
            if trap.state.noted != trap.seen:
                _deliver(trap)
            if _opened:
                _close_again()


_PAUSED = _Paused()


def paused() -> _Paused:
    """A context manager in which no touch is reported, because the simulator itself touches memory. It can be nested,
    and holds for all threads."""
    return _PAUSED


def let_through(address: int, size: int) -> bool:
    """Open watched pages for a system call of the simulator, which would fail instead of faulting; the end of
    :func:`paused` protects them again. Returns whether there were any."""
    found = False
    for watch in list(_watches):
        if watch._trap is not None:
            for range_ in list(watch._near(address, address + size)):
                watch._trap.protect(range_.first, range_.last, _FREE)
                _opened[range_.slot] = watch
                found = True
    return found


@contextmanager
def listening() -> Iterator[None]:
    """The program's own code runs (a host function, an answer), so touches are reported. At the end all is as before,
    also where an exception that came between two steps of Python has left a :func:`paused` block without its exit."""
    depth = _PAUSED.depth
    if page_trap.installed is not None:
        _deliver(page_trap.installed)
        _close_again()
    _set_depth(0)
    try:
        yield
    finally:
        if page_trap.installed is not None:
            _deliver(page_trap.installed)
        _set_depth(depth)


def _set_depth(depth: int) -> None:
    _PAUSED.depth = depth
    if page_trap.installed is not None:
        page_trap.installed.state.paused = depth
