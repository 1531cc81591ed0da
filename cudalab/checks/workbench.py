"""Where an answer is tried: a simulated device of its own, inputs that are watched, outputs that are poisoned.

An exercise describes its cases by calls on the workbench: make buffers, launch, expect, count. Each launch is first run
under the sanitizer, whose stores are taken back, and then for real when nothing was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.bench import Bench, agree, is_poison, poison
from cudalab.sim.compiler import CompileError, compile
from cudalab.sim.device.profile import load
from cudalab.sim.machine.counters.sampling import count_launch
from cudalab.sim.machine.launch.execution import execute
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.launch.validation import LaunchError
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import check_launch

if TYPE_CHECKING:
    from cudalab.checks.answer import Answer
    from cudalab.checks.exercise import Exercise
    from cudalab.sim.machine.counters.metrics import Counts
    from cudalab.sim.machine.launch.module import LoadedKernel

FILE = "answer.cu"
TIME_LIMIT = 3.0
"""Seconds a block may take; the inputs are small, so longer means an endless loop."""
CAPACITY = 256 << 20


@dataclass(frozen=True)
class Known:
    """A wrong result that a known mistake gives."""

    mistake: str
    values: np.ndarray


@dataclass(eq=False)
class Buffer:
    """An array in the workbench's device memory."""

    name: str
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype
    pitch: int
    """Bytes from one row to the next; the row's own length when rows are not padded."""
    before: np.ndarray
    """Its bytes before the launch, one row of `pitch` bytes a line."""
    is_input: bool

    @property
    def row_bytes(self) -> int:
        return self.shape[-1] * self.dtype.itemsize


class _Stop(Exception):
    """Nothing more can be learned of this answer."""


class Workbench(Bench):
    """Tries one answer. ``findings`` and ``notes()`` hold what was seen once :meth:`run` has returned."""

    def __init__(self, exercise: Exercise, answer: Answer, *, seed: int | None = None) -> None:
        super().__init__(exercise, answer, seed=seed)
        self._memory = Memory(CAPACITY)
        self._buffers: list[Buffer] = []
        self._ran = False
        self._kernel: LoadedKernel

    def run(self) -> None:
        """Compile the answer and take it through the exercise."""
        try:
            self._compile()
            self.exercise.examine(self)
        except _Stop:
            pass
        finally:
            self._memory.free_all()

    # -- what an exercise calls -------------------------------------------------------------------------------------

    def input(self, name: str, values: np.ndarray, *, pitch: int = 0) -> Buffer:
        """A copy of ``values`` in device memory, which the kernel must not change. Padding holds NaN."""
        return self._buffer(name, values.shape, values.dtype, pitch, values, is_input=True)

    def output(self, name: str, shape: tuple[int, ...], dtype: Any, *, pitch: int = 0) -> Buffer:
        """Device memory poisoned with NaN (integers: a pattern), for the kernel to fill."""
        return self._buffer(name, shape, np.dtype(dtype), pitch, None, is_input=False)

    def zeroed(self, name: str, shape: tuple[int, ...], dtype: Any) -> Buffer:
        """Device memory that holds zeros, for the kernel to add to."""
        return self._buffer(name, shape, np.dtype(dtype), 0, np.zeros(shape, dtype), is_input=False)

    def launch(self, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], case: str) -> None:
        """Launch the answer, first under the sanitizer. ``case`` says for which input, in words."""
        self._case, self._ran = case, False
        packed = self._pack(arguments)
        try:
            launch = self._kernel.launch(grid, block, packed)
            checked = check_launch(launch, time_limit=TIME_LIMIT)
            for found in checked.findings:
                where = f" (line {found.line}: {found.source})" if found.line else ""
                self.find("soundness", found.rule, f"{found.headline}{where}. {found.detail}", look=found.advice)
            stopped = [found for found in checked.findings if found.tool == "memcheck"]
            if stopped:
                self.find("correctness", "no result", f"the launch stops: {stopped[0].rule}")
                if any(found.rule == "endless loop" for found in stopped):
                    raise _Stop
                return
            outcome = execute(launch, time_limit=TIME_LIMIT)
        except LaunchError as error:
            self.find("correctness", "launch refused", str(error))
            return
        if outcome.fault is not None:  # only possible where the order of blocks matters
            self.find("soundness", outcome.fault.rule, str(outcome.fault))
            return
        self._ran = True
        self._check_surroundings()

    def expect(
        self,
        buffer: Buffer,
        expected: np.ndarray,
        *,
        tolerance: float = 0.0,
        known: Sequence[Known] = (),
        look: str = "",
    ) -> None:
        """Compare a whole output with the oracle: equal, or within ``tolerance`` (relative, and absolute near 0)."""
        if not self._ran:
            return
        got = self._values(buffer)
        expected = np.asarray(expected).astype(buffer.dtype)
        wrong = ~agree(got, expected, tolerance)
        if not wrong.any():
            return
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = f"{buffer.name}[{', '.join(map(str, first))}]"
        value = "not written" if is_poison(got[first]) else f"{got[first]:.6g}"
        mistake = next(
            (k.mistake for k in known if bool(agree(got, k.values.astype(buffer.dtype), tolerance).all())), ""
        )
        self.find(
            "correctness",
            "wrong values",
            f"{place} is {value}, expected {expected[first]:.6g}; {int(wrong.sum())} of {wrong.size} elements differ",
            look=look or "the index that each thread computes, and the guard",
            mistake=mistake,
        )

    def untouched(self, buffer: Buffer, why: str) -> None:
        """Nothing in the buffer may have been written."""
        if self._ran and not np.array_equal(self._bytes(buffer), buffer.before):
            self.find("correctness", "written where nothing belongs", f"{buffer.name} was written, but {why}")

    def profile(self, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], case: str) -> Counts:
        """Count every block of a launch; its stores are taken back."""
        self._case = case
        launch = self._kernel.launch(grid, block, self._pack(arguments))
        return count_launch(launch, blocks=launch.config.blocks)

    def gate(
        self, name: str, value: float, limit: float, *, baseline: float, at_least: bool = False, look: str = ""
    ) -> None:
        """An efficiency gate on what :meth:`profile` counted."""
        look = look or "which addresses the 32 lanes of a warp touch in one instruction"
        super().gate(name, value, limit, baseline=baseline, at_least=at_least, look=look)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _compile(self) -> None:
        try:
            program = compile(self.answer.source, options=self.answer.options, name=FILE)
        except CompileError as error:
            first = next((d for d in error.diagnostics if d.severity == "error"), None)
            text = f"line {first.line}: {first.text}" if first else str(error)
            self.find(
                "correctness", "does not compile", text, look="the compiler's message, at that line or just above"
            )
            raise _Stop from None
        if self.exercise.kernel not in program.kernels:
            known = ", ".join(program.kernels) or "none"
            self.find(
                "correctness",
                "no such kernel",
                f"there is no kernel {self.exercise.kernel!r} in the answer (it has: {known})",
                look=f'the name, and whether it says extern "C" __global__ void {self.exercise.kernel}(…)',
            )
            raise _Stop
        self._kernel = Module(program, self._memory, load().launch_limits).kernel(self.exercise.kernel)

    def _buffer(
        self, name: str, shape: Sequence[int], dtype: np.dtype, pitch: int, values: np.ndarray | None, *, is_input: bool
    ) -> Buffer:
        shape = tuple(shape)
        row = shape[-1] * dtype.itemsize
        pitch = pitch or row
        rows = int(np.prod(shape[:-1]))
        content = np.frombuffer(poison(rows * pitch, dtype), np.uint8).reshape(rows, pitch).copy()
        if values is not None:
            content[:, :row] = np.ascontiguousarray(values).view(np.uint8).reshape(rows, row)
        # The last row ends with its last element: what follows it belongs to nobody.
        size = (rows - 1) * pitch + (pitch if pitch != row else row)
        pointer = self._memory.allocate(size, label=name)
        view = self._memory.array(pointer, size, write=values is not None)
        view[:] = content.reshape(-1)[:size]
        buffer = Buffer(name, pointer, shape, dtype, pitch, content, is_input)
        self._buffers.append(buffer)
        return buffer

    def _bytes(self, buffer: Buffer) -> np.ndarray:
        return self._memory.array(buffer.pointer, buffer.before.size, write=False).reshape(buffer.before.shape)

    def _values(self, buffer: Buffer) -> np.ndarray:
        rows = np.ascontiguousarray(self._bytes(buffer)[:, : buffer.row_bytes])
        return rows.view(buffer.dtype).reshape(buffer.shape)

    def _check_surroundings(self) -> None:
        """Inputs must be as they were, and so must the padding of every row. Buffers of earlier cases are let go."""
        for buffer in self._buffers:
            now, row = self._bytes(buffer), buffer.row_bytes
            if buffer.is_input and not np.array_equal(now[:, :row], buffer.before[:, :row]):
                self.find("correctness", "input changed", f"the kernel changed its input {buffer.name}")
            if not np.array_equal(now[:, row:], buffer.before[:, row:]):
                self.find("correctness", "padding written", f"the kernel wrote into the padding of {buffer.name}")
        self._buffers.clear()

    def _pack(self, arguments: Sequence[Any]) -> bytes:
        kernel = self._kernel.kernel
        values = [np.uint64(a.pointer) if isinstance(a, Buffer) else a for a in arguments]
        sizes = [p.size for p in kernel.parameters]
        if sizes != [v.dtype.itemsize for v in values]:
            wanted = ", ".join(a.name if isinstance(a, Buffer) else str(a.dtype) for a in arguments)
            has = ", ".join(f"{p.ctype} {p.name}".strip() for p in kernel.parameters) or "none"
            self.find(
                "correctness",
                "wrong parameters",
                f"the kernel's parameters are ({has}); the check passes {len(values)}: {wanted}",
                look="the parameter list that the exercise gives",
            )
            raise _Stop
        packed = bytearray(kernel.parameter_bytes)
        for parameter, value in zip(kernel.parameters, values, strict=True):
            packed[parameter.offset : parameter.offset + parameter.size] = value.tobytes()
        return bytes(packed)
