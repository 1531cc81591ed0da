"""Array functions of ``cudalab.sim.cupy``: NumPy does the work, the duration is modelled from its bytes."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from cudalab.sim.device.queue.byte_ranges import Range, Reach, StridedRange, Touched, run
from cudalab.sim.device.queue.effect import hold_by_comparison
from cudalab.sim.device.queue.operation import Operation, Stream, Work
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.machine.memory.allocations import Memory


class ArrayOperation(Operation):
    """One run of an array function."""

    work: ArrayFunction
    on_result: Callable[[], None] | None = None
    """Told when its result is visible; a recording keeps the bytes."""

    def __init__(self, work: ArrayFunction, stream: Stream) -> None:
        super().__init__(work, stream)
        self.function = work.function

    def begin(self) -> int:
        find = self.work.memory.find
        for start, _ in self.work.read:
            allocation = find(start)
            if allocation is not None and allocation.kind in ("pinned", "managed"):
                self.starts_at_once = True
        return self.work.duration

    def run(self) -> None:
        assert self.function is not None, "only a replay may leave out the function"
        self.function()
        for start, size in self.work.written:
            self.work.memory.mark_written(start, size)

    def run_held(self) -> Callable[[], None]:
        return hold_by_comparison(self.work.memory, self.work.written, self.run)

    def commit(self) -> None:
        super().commit()
        if self.on_result is not None:
            self.on_result()


class ArrayFunction(Work[ArrayOperation], Struct, frozen=True, eq=False):
    """One array function. ``function()`` changes only bytes in ``written``."""

    kind = "array"
    operation_class = ArrayOperation
    engine = "sm"
    is_array_function = True

    name: str
    memory: Memory
    function: Callable[[], None] | None
    """``None`` in a replay, which writes what the recorded function wrote."""
    read: tuple[Range, ...]
    written: tuple[Range, ...]
    duration: int
    exact: tuple[tuple[StridedRange, ...], tuple[StridedRange, ...]] | None = None
    """What of the ranges it really reads and writes, where they are those of strided views."""

    @property
    def title(self) -> str:
        return f"array function {self.name}"

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.read) + sum(size for _, size in self.written)

    @property
    def device_bytes(self) -> int:
        return self.bytes

    def pass_l2(self, l2: L2Cache) -> None:
        l2.sweep(self.read, self.written)

    def reads(self) -> Reach:
        return self.read

    def writes(self) -> Reach:
        return self.written

    def touched(self) -> Touched:
        if self.exact is not None:
            return Touched(*self.exact)
        return Touched(tuple(run(*entry) for entry in self.read), tuple(run(*entry) for entry in self.written))
