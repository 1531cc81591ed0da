"""Where the bytes of an answer's outputs come from.

A check knows of each byte what wrote it last while the learner's function ran: a kernel of the exercise or one of the
answer's own, an array function, a memset, the host. A copy hands on what its source had, byte by byte, through any
number of buffers. So values that were computed on the host and uploaded, or brought in by CuPy where the exercise asks
for its kernels, are refused for what they are, also where no gate counts them.

Kernels are followed by the very bytes that they store (their footprint); where a launch is too large to be traced, all
that it may write counts as written. A kernel's output is the kernel's, whatever it has read. What the host writes to
page-locked memory is seen by the grader, which compares the memory that it shares with the answer at each message
(``grading/worker/shared_memory.py``); in the notebook nobody sees it, and such bytes keep what they had. Not followed:
a write of the very bytes that were there, arrays that the answer makes and returns, and plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.sim.device.observer import Observer
from cudalab.sim.device.queue.byte_ranges import StridedRange, run, runs_of, strided_range
from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.device.queue.transfer import CopyOperation
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.names import FILE

if TYPE_CHECKING:
    from cudalab.sim.device.device import Device
    from cudalab.sim.device.queue.operation import Operation
    from cudalab.sim.machine.memory.allocation import Allocation


class Origin(Enum):
    """What writes bytes, in words that finish the name of a rule: "made …"."""

    EXERCISE = "by the exercise"
    KERNEL = "by a kernel of the exercise"
    OWN_KERNEL = "by another kernel"
    ARRAY = "by an array function"
    MEMSET = "by a memset"
    HOST = "on the host"
    NOTHING = "by nothing"


GRADED = frozenset({Origin.EXERCISE, Origin.KERNEL})
"""What an exercise asks for, unless it says otherwise: its kernels' results, and what it has put there itself."""


@dataclass(frozen=True)
class Maker:
    """What wrote some bytes."""

    origin: Origin
    what: str = ""
    """What reports call it: ``array function multiply``."""
    line: int = 0
    """Of the answer; 0: not known."""

    def __str__(self) -> str:
        where = f", line {self.line}" if self.line else ""
        return f"{self.what or self.origin.value}{where}"


_HOST_VISIBLE = ("pinned", "managed")
_MOST_MAKERS = 255
_BY_KIND = {"array": Origin.ARRAY, "memset": Origin.MEMSET}


class _Bytes:
    """The makers of one piece of memory, a number for each byte."""

    def __init__(self, start: int, size: int, allocation: Allocation | None, first: int) -> None:
        self.start = start
        self.size = size
        self.allocation = allocation
        self._all: int | None = first
        """The maker of all bytes, while they have one."""
        self._each = np.empty(0, np.uint8)

    def put(self, first: int, end: int, makers: int | np.ndarray) -> None:
        if isinstance(makers, int) and end - first == self.size:
            self._all, self._each = makers, np.empty(0, np.uint8)
            return
        self._spread()[first - self.start : end - self.start] = makers

    def put_at(self, offsets: np.ndarray, maker: int) -> None:
        self._spread()[offsets] = maker

    def get(self, first: int, end: int) -> np.ndarray:
        if self._all is not None:
            return np.full(end - first, self._all, np.uint8)
        return self._each[first - self.start : end - self.start].copy()

    def _spread(self) -> np.ndarray:
        if self._all is not None:
            self._each, self._all = np.full(self.size, self._all, np.uint8), None
        return self._each


class Provenance(Observer):
    """Follows one device from :meth:`enter` to :meth:`leave`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.on = False
        self._makers: list[Maker] = []
        self._numbers: dict[Maker, int] = {}
        self._known: dict[int, _Bytes] = {}
        self._given: list[_Bytes] = []
        """Host memory of the exercise's that is not the device's."""
        self._before: set[int] = set()
        """Serial numbers of the allocations that the exercise has made."""
        self._modules: set[int] = set()
        """The exercise's, by ``id``: they live as long as the case."""
        self._taken: dict[Operation, np.ndarray] = {}
        """By a copy under way: the makers of what it has read."""

    def enter(self, arguments: Sequence[Any]) -> None:
        """The learner's function is about to be called, with these arguments."""
        if not self._makers:
            self._number(Maker(Origin.EXERCISE))
        for array in _host_arrays(arguments):
            low, high = np.lib.array_utils.byte_bounds(array)
            if self._device.memory.find(low) is None:
                self._given.append(_Bytes(low, high - low, None, self._number(Maker(Origin.EXERCISE))))
        self._before |= {allocation.serial for allocation in self._device.memory}
        self._modules |= {id(module) for module in self._device.loaded_modules()}
        self.on = True

    def leave(self) -> None:
        """The function has returned, and its work has ended."""
        self.on = False

    # -- what writes ---------------------------------------------------------------------------------------------------

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        if self.on and isinstance(operation, KernelOperation):
            operation.wants_footprint = _yes

    def started(self, operation: Operation) -> None:
        if self.on and isinstance(operation, CopyOperation):
            source = operation.work.source
            self._taken[operation] = self._read(source.strided_range(), _maker(operation, Origin.HOST))

    def ended(self, operation: Operation) -> None:
        if not self.on:
            return
        if isinstance(operation, CopyOperation):
            taken = self._taken.pop(operation, None)
            if taken is not None:
                self._write(operation.work.destination.strided_range(), taken)
            return
        if isinstance(operation, KernelOperation):
            own = id(operation.kernel.module) not in self._modules
            maker = _maker(operation, Origin.OWN_KERNEL if own else Origin.KERNEL)
        elif operation.kind in _BY_KIND:
            maker = _maker(operation, _BY_KIND[operation.kind])
        else:
            return
        number = self._number(maker)
        touched = operation.touched()
        if touched is None:
            reach = operation.writes()
            everything = [(one.pointer, one.size) for one in self._device.memory]
            for start, size in everything if reach is None else reach:
                self._write(run(start, size), number)
            return
        for part in (touched.writes, touched.atomics):
            if isinstance(part, tuple):
                for extent in part:
                    self._write(extent, number)
            else:
                for first, end in part.tolist():
                    self._write(run(first, end - first), number)

    def host_wrote(self, address: int, offsets: np.ndarray, line: int) -> None:
        """The answer has changed these bytes behind ``address`` by plain stores."""
        if self.on:
            self._put_at(address, offsets, Maker(Origin.HOST, "stores of the host", line))

    @contextmanager
    def exercise_runs(self, memory: Sequence[tuple[int, np.ndarray]]) -> Iterator[None]:
        """Within it a function of the exercise runs, which may write to this ``memory``: addresses and bytes."""
        with host_watch.paused():
            before = [(address, data, data.copy(), self._makers_at(address, data.size)) for address, data in memory]
        yield
        with host_watch.paused():
            for address, data, old, makers in before:
                # what work on the device has written meanwhile has a maker already
                changed = np.flatnonzero((data != old) & (self._makers_at(address, data.size) == makers))
                if changed.size:
                    self._put_at(address, changed, Maker(Origin.EXERCISE))

    # -- what is asked -------------------------------------------------------------------------------------------------

    def others(self, array: Any, allowed: frozenset[Origin]) -> list[tuple[Maker, int, int]]:
        """What else than ``allowed`` has made bytes of an array: the maker, how many elements, and the first."""
        if hasattr(array, "data") and hasattr(array.data, "ptr"):
            address = int(array.data.ptr)
        else:
            address = int(array.ctypes.data)
        if not array.size or self._at(address) is None:
            return []
        extent = strided_range(address, array.itemsize, array.shape, array.strides)
        makers = self._read(extent, Maker(Origin.EXERCISE))
        found = []
        for number in np.unique(makers).tolist():
            if self._makers[number].origin not in allowed:
                elements = np.unique(np.flatnonzero(makers == number) // array.itemsize)
                found.append((self._makers[number], int(elements.size), int(elements[0])))
        return found

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def _number(self, maker: Maker) -> int:
        number = self._numbers.get(maker)
        if number is None:
            if len(self._makers) == _MOST_MAKERS - len(Origin) and maker != Maker(maker.origin):
                return self._number(Maker(maker.origin))  # so many lines: the others have no number of their own
            number = self._numbers[maker] = len(self._makers)
            self._makers.append(maker)
        return number

    def _at(self, address: int) -> _Bytes | None:
        """What is known of the memory at an address; None where it is neither the device's nor the exercise's."""
        allocation = self._device.memory.find(address)
        if allocation is None:
            return next((one for one in self._given if one.start <= address < one.start + one.size), None)
        known = self._known.get(allocation.pointer)
        if known is None or known.allocation is not allocation:
            origin = Origin.EXERCISE
            if allocation.serial not in self._before:
                origin = Origin.HOST if allocation.kind in _HOST_VISIBLE else Origin.NOTHING
            first = self._number(Maker(origin))
            known = self._known[allocation.pointer] = _Bytes(allocation.pointer, allocation.size, allocation, first)
        return known

    def _pieces(self, extent: StridedRange) -> Iterator[tuple[int, int, _Bytes | None]]:
        if not extent[1]:
            return
        for first, end in runs_of(extent).tolist():
            while first < end:
                part = self._at(first)
                stop = min(end, part.start + part.size) if part is not None else end
                yield first, stop, part
                first = stop

    def _read(self, extent: StridedRange, unknown: Maker) -> np.ndarray:
        """The makers of an extent's bytes, in ascending order; of memory that is nobody's, ``unknown``."""
        parts = [
            part.get(first, end) if part is not None else np.full(end - first, self._number(unknown), np.uint8)
            for first, end, part in self._pieces(extent)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.uint8)

    def _write(self, extent: StridedRange, makers: int | np.ndarray) -> None:
        done = 0
        for first, end, part in self._pieces(extent):
            if part is not None:
                part.put(first, end, makers if isinstance(makers, int) else makers[done : done + end - first])
            done += end - first

    def _put_at(self, address: int, offsets: np.ndarray, maker: Maker) -> None:
        part = self._at(address)
        if part is not None:
            part.put_at(offsets + (address - part.start), self._number(maker))

    def _makers_at(self, address: int, size: int) -> np.ndarray:
        return self._read(run(address, size), Maker(Origin.EXERCISE))


def _yes() -> bool:
    return True


def _maker(operation: Operation, origin: Origin) -> Maker:
    line = operation.place.line if operation.place.file == FILE else 0
    return Maker(origin, operation.work.title, line)


def _host_arrays(value: Any) -> Iterator[np.ndarray]:
    """The NumPy arrays among arguments, also those in lists and tuples."""
    if isinstance(value, np.ndarray):
        if value.size:
            yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _host_arrays(item)
