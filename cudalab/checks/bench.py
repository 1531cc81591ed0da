"""Where an answer is tried, and what is wrong with it is collected.

:class:`Bench` is what all answers need: findings (the first of each rule in full, with the other cases it was seen
in), efficiency gates, comparison with an oracle, and the result. :class:`KernelBench` tries a kernel: simulated memory
of its own, inputs that are watched, outputs that are poisoned. Each launch is first run under the sanitizer, whose
stores are taken back, and then for real when nothing was found. Functions that use streams have a bench in
``streams.py``.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.exercise import PARTS, Finding, PartName, PartResult, Result
from cudalab.sim.compiler import CompileError, Program, compile
from cudalab.sim.device.profile import load
from cudalab.sim.machine.counters.sampling import count_launch
from cudalab.sim.machine.launch.execution import Standalone, execute
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
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Addresses differ from run to run, and the same seed has to give the same text."""


@dataclass(frozen=True)
class Known:
    """A wrong result that a known mistake gives."""

    mistake: str
    values: np.ndarray


class Bench:
    """Tries one answer. ``findings`` and ``notes()`` hold what was seen."""

    def __init__(self, exercise: Exercise, answer: Answer, *, seed: int | None = None) -> None:
        self.exercise = exercise
        self.answer = answer
        self.seed = secrets.randbits(32) if seed is None else seed
        self._gates: dict[str, tuple[float, str]] = {}
        self._findings: dict[tuple[PartName, str], Finding] = {}
        self._cases: dict[tuple[PartName, str], list[str]] = {}
        self._random = np.random.default_rng(self.seed)
        self._case = ""

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

    def notes(self, part: PartName) -> str:
        """What was measured: for each gate its worst case."""
        return "; ".join(note for _, note in self._gates.values()) if part == "efficiency" else ""

    def run(self) -> Result:
        """Take the answer through the exercise."""
        raise NotImplementedError

    def result(self) -> Result:
        """What the exercise gives for what was seen. Points of a part count only when the parts before it hold: an
        empty kernel is sound, and fast."""
        exercise = self.exercise
        parts = tuple(self._part(name) for name in PARTS if name in exercise.points)
        return Result(exercise.id, exercise.title, parts)

    def _part(self, name: PartName) -> PartResult:
        maximum = self.exercise.points[name]
        findings = tuple(f for f in self.findings if f.part == name)
        earlier = PARTS[: PARTS.index(name)]
        waits = any(f.part in earlier for f in self.findings)
        if waits and (name == "efficiency" or not findings):
            return PartResult(name, 0.0, maximum, skipped=True)
        note = "" if findings else self.notes(name)
        return PartResult(name, 0.0 if findings else maximum, maximum, findings, note=note)

    # -- what an exercise calls -------------------------------------------------------------------------------------

    def random(self, shape: int | tuple[int, ...]) -> np.ndarray:
        """Fresh float32 numbers in [-1, 1), never 0."""
        values = self._random.uniform(-1, 1, shape).astype(np.float32)
        return np.where(values == 0, np.float32(0.5), values)

    def integers(self, low: int, high: int, count: int) -> list[int]:
        """Fresh integers from ``low`` up to, but without, ``high``."""
        return [int(value) for value in self._random.integers(low, high, count)]

    def find(self, part: PartName, rule: str, text: str, *, look: str = "", mistake: str = "") -> None:
        """Keep a finding of the case that is being tried."""
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

    def gate(
        self, name: str, value: float, limit: float, *, baseline: float, at_least: bool = False, look: str = ""
    ) -> None:
        """An efficiency gate: ``value`` at most (or at least) ``limit``; ``baseline`` is what one starts from."""
        bound = "at least" if at_least else "at most"
        figure = f"{value:.4g} ({bound} {limit:.4g}; the baseline is {baseline:.4g})"
        if value >= limit if at_least else value <= limit:
            worst = self._gates.get(name)
            if worst is None or (value < worst[0] if at_least else value > worst[0]):
                self._gates[name] = (value, f"{name}: {figure}")
        else:
            self.find("efficiency", name, figure, look=look)

    def compare(
        self, name: str, got: np.ndarray, expected: np.ndarray, tolerance: float, known: Sequence[Known], look: str
    ) -> None:
        """Compare a whole array with the oracle; the finding names the first element that differs, and the known
        mistake that all of them match."""
        expected = np.asarray(expected).astype(got.dtype)
        wrong = ~agree(got, expected, tolerance)
        if not wrong.any():
            return
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        value = "not written" if is_poison(got[first]) else f"{got[first]:.6g}"
        self.find(
            "correctness",
            "wrong values",
            f"{name}[{', '.join(map(str, first))}] is {value}, expected {expected[first]:.6g}; {int(wrong.sum())} of "
            f"{wrong.size} elements differ",
            look=look,
            mistake=next(
                (k.mistake for k in known if bool(agree(got, k.values.astype(got.dtype), tolerance).all())), ""
            ),
        )


def agree(got: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """Where two arrays are equal, or within ``tolerance`` (relative, and absolute near 0)."""
    if got.shape != expected.shape:
        return np.zeros(got.shape, bool)
    if not tolerance or got.dtype.kind != "f":
        return np.asarray((got == expected) | ((got != got) & (expected != expected)))
    result: np.ndarray = np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    return result


def is_poison(value: np.generic) -> bool:
    """Was this element never written?"""
    return bool(value != value) or value.tobytes() == b"\xa5" * value.dtype.itemsize


def poison(size: int, dtype: np.dtype) -> bytes:
    """A quiet NaN for floats, a striking pattern for integers."""
    if dtype.kind == "f":
        pattern = np.full(1, np.nan, dtype).tobytes()
    else:
        pattern = b"\xa5" * dtype.itemsize
    return (pattern * (size // len(pattern) + 1))[:size]


@dataclass(eq=False)
class Buffer:
    """An array in the bench's device memory."""

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


class KernelBench(Bench):
    """Tries one kernel."""

    def __init__(self, exercise: Exercise, answer: Answer, *, seed: int | None = None) -> None:
        super().__init__(exercise, answer, seed=seed)
        self._memory: Memory
        self._buffers: list[Buffer] = []
        self._ran = False
        self._kernel: LoadedKernel

    def run(self) -> Result:
        """Compile the answer and take it through the exercise."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(_Stop):
                program = self._compile()
                self._memory = Memory(CAPACITY)
                stack.callback(self._memory.free_all)
                module = Module(program, self._memory, load().launch_limits)
                self._kernel = module.kernel(self.exercise.kernel)
                self.exercise.examine(self)
            return self.result()

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
            outcome = execute(launch, Standalone(time_limit=TIME_LIMIT))
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
        look = look or "the index that each thread computes, and the guard"
        self.compare(buffer.name, self._values(buffer), expected, tolerance, known, look)

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

    def _compile(self) -> Program:
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
        return program

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
        # The last row ends with its last element: the bytes behind it are out of bounds.
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
        """Inputs, and the padding of every row, must be unchanged. Then the buffers of this case are dropped."""
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
