"""Where an answer is tried: a simulated device of its own, inputs that are watched, outputs that are poisoned.

An exercise describes its cases by calls on the workbench: make buffers, launch, expect, count. Each launch is first run
under the sanitizer, whose stores are taken back, and then for real when nothing was found. The first finding of each
rule is kept in full; that it also holds for other cases is added to it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.answer import Answer
from cudalab.checks.exercise import Exercise, Finding, PartName
from cudalab.sim.compiler import CompileError, compile
from cudalab.sim.machine.configuration import LaunchError, extent
from cudalab.sim.machine.launch import launch
from cudalab.sim.machine.memory import Memory
from cudalab.sim.machine.module import Module
from cudalab.sim.machine.sample import count_launch
from cudalab.sim.machine.sanitizer import check_launch

if TYPE_CHECKING:
    from cudalab.sim.machine.counts import Counts
    from cudalab.sim.machine.module import LoadedKernel

FILE = "answer.cu"
TIME_LIMIT = 3.0
"""Seconds a block may take; the inputs are small, so longer means an endless loop."""
CAPACITY = 256 << 20
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Addresses differ from run to run, and the same seed has to give the same text."""


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


class Workbench:
    """Tries one answer. ``findings`` and ``notes`` hold what was seen once :meth:`run` has returned."""

    def __init__(self, exercise: Exercise, answer: Answer, *, seed: int | None = None) -> None:
        self.exercise = exercise
        self.answer = answer
        self.seed = secrets.randbits(32) if seed is None else seed
        self.notes: dict[str, list[str]] = {}
        self._findings: dict[tuple[PartName, str], Finding] = {}
        self._cases: dict[tuple[PartName, str], list[str]] = {}
        self._random = np.random.default_rng(self.seed)
        self._memory = Memory(CAPACITY)
        self._buffers: list[Buffer] = []
        self._case = ""
        self._ran = False
        self._kernel: LoadedKernel

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, the first of each rule, with the other cases it was seen in."""
        out = []
        for key, finding in self._findings.items():
            others = self._cases[key][1:]
            if others:
                shown = "; ".join(others[:3]) + (f"; and {len(others) - 3} more" if len(others) > 3 else "")
                finding = replace(finding, text=f"{finding.text}\nAlso for: {shown}")
            out.append(finding)
        return tuple(out)

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

    def random(self, shape: int | tuple[int, ...]) -> np.ndarray:
        """Fresh float32 numbers in [-1, 1), never 0."""
        values = self._random.uniform(-1, 1, shape).astype(np.float32)
        return np.where(values == 0, np.float32(0.5), values)

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
            checked = check_launch(self._kernel, grid, block, packed, time_limit=TIME_LIMIT)
            for found in checked.findings:
                where = f" (line {found.line}: {found.source})" if found.line else ""
                self._add("soundness", found.rule, f"{found.headline}{where}. {found.detail}", look=found.advice)
            stopped = [found for found in checked.findings if found.tool == "memcheck"]
            if stopped:
                self._add("correctness", "no result", f"the launch stops: {stopped[0].rule}")
                if any(found.rule == "endless loop" for found in stopped):
                    raise _Stop
                return
            outcome = launch(self._kernel, grid, block, packed, time_limit=TIME_LIMIT)
        except LaunchError as error:
            self._add("correctness", "launch refused", str(error))
            return
        if outcome.fault is not None:  # only possible where the order of blocks matters
            self._add("soundness", outcome.fault.rule, str(outcome.fault))
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
        wrong = ~_agree(got, expected, tolerance)
        if not wrong.any():
            return
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = f"{buffer.name}[{', '.join(map(str, first))}]"
        value = "not written" if _is_poison(got[first]) else f"{got[first]:.6g}"
        mistake = next(
            (k.mistake for k in known if bool(_agree(got, k.values.astype(buffer.dtype), tolerance).all())), ""
        )
        self._add(
            "correctness",
            "wrong values",
            f"{place} is {value}, expected {expected[first]:.6g}; {int(wrong.sum())} of {wrong.size} elements differ",
            look=look or "the index that each thread computes, and the guard",
            mistake=mistake,
        )

    def untouched(self, buffer: Buffer, why: str) -> None:
        """Nothing in the buffer may have been written."""
        if self._ran and not np.array_equal(self._bytes(buffer), buffer.before):
            self._add("correctness", "written where nothing belongs", f"{buffer.name} was written, but {why}")

    def profile(self, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], case: str) -> Counts:
        """Count every block of a launch; its stores are taken back."""
        self._case = case
        blocks = int(np.prod(grid))
        return count_launch(
            self._kernel, extent(grid, "grid"), extent(block, "block"), self._pack(arguments), blocks=blocks
        )

    def gate(self, name: str, value: float, limit: float, *, baseline: float) -> None:
        """An efficiency gate: ``value`` must be at most ``limit``; ``baseline`` is what one starts from."""
        figure = f"{value:.4g} (at most {limit:.4g}; the baseline is {baseline:.4g})"
        if value <= limit:
            self.notes.setdefault("efficiency", []).append(f"{name}: {figure}")
        else:
            self._add(
                "efficiency", name, figure, look="which addresses the 32 lanes of a warp touch in one instruction"
            )

    # -- inside -----------------------------------------------------------------------------------------------------

    def _compile(self) -> None:
        try:
            program = compile(self.answer.source, options=self.answer.options, name=FILE)
        except CompileError as error:
            first = next((d for d in error.diagnostics if d.severity == "error"), None)
            text = f"line {first.line}: {first.text}" if first else str(error)
            self._add(
                "correctness", "does not compile", text, look="the compiler's message, at that line or just above"
            )
            raise _Stop from None
        if self.exercise.kernel not in program.kernels:
            known = ", ".join(program.kernels) or "none"
            self._add(
                "correctness",
                "no such kernel",
                f"there is no kernel {self.exercise.kernel!r} in the answer (it has: {known})",
                look=f'the name, and whether it says extern "C" __global__ void {self.exercise.kernel}(…)',
            )
            raise _Stop
        self._kernel = Module(program, self._memory).kernel(self.exercise.kernel)

    def _buffer(
        self, name: str, shape: Sequence[int], dtype: np.dtype, pitch: int, values: np.ndarray | None, *, is_input: bool
    ) -> Buffer:
        shape = tuple(shape)
        row = shape[-1] * dtype.itemsize
        pitch = pitch or row
        rows = int(np.prod(shape[:-1]))
        content = np.frombuffer(_poison(rows * pitch, dtype), np.uint8).reshape(rows, pitch).copy()
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
                self._add("correctness", "input changed", f"the kernel changed its input {buffer.name}")
            if not np.array_equal(now[:, row:], buffer.before[:, row:]):
                self._add("correctness", "padding written", f"the kernel wrote into the padding of {buffer.name}")
        self._buffers.clear()

    def _pack(self, arguments: Sequence[Any]) -> bytes:
        kernel = self._kernel.kernel
        values = [np.uint64(a.pointer) if isinstance(a, Buffer) else a for a in arguments]
        sizes = [p.size for p in kernel.parameters]
        if sizes != [v.dtype.itemsize for v in values]:
            wanted = ", ".join(a.name if isinstance(a, Buffer) else str(a.dtype) for a in arguments)
            has = ", ".join(f"{p.ctype} {p.name}".strip() for p in kernel.parameters) or "none"
            self._add(
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

    def _add(self, part: PartName, rule: str, text: str, *, look: str = "", mistake: str = "") -> None:
        text = _ADDRESS.sub("", text)
        key = (part, rule)
        cases = self._cases.setdefault(key, [])
        if self._case not in cases:
            cases.append(self._case)
        known = self._findings.get(key)
        if known is None:
            text = f"{text} ({self._case})" if self._case else text
            self._findings[key] = Finding(part, rule, text, look, mistake)
        elif mistake and not known.mistake:
            self._findings[key] = replace(known, mistake=mistake)


def _poison(size: int, dtype: np.dtype) -> bytes:
    """A quiet NaN for floats, a striking pattern for integers."""
    if dtype.kind == "f":
        pattern = np.full(1, np.nan, dtype).tobytes()
    else:
        pattern = b"\xa5" * dtype.itemsize
    return (pattern * (size // len(pattern) + 1))[:size]


def _is_poison(value: Any) -> bool:
    return bool(value != value) or value.tobytes() == b"\xa5" * value.dtype.itemsize


def _agree(got: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    if got.shape != expected.shape:
        return np.zeros(got.shape, bool)
    if not tolerance or got.dtype.kind != "f":
        return (got == expected) | ((got != got) & (expected != expected))
    return np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
