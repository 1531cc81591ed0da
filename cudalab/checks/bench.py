"""Where an answer is tried, and what is wrong with it is collected.

:class:`Bench` is what all answers need: findings (the first of each rule in full, with the other cases it was seen
in), the measured gates, comparison with an oracle, and the result. :class:`KernelBench` tries a kernel: simulated
memory of its own, inputs that are watched, outputs that are poisoned. Each launch is first run under the sanitizer,
whose stores are taken back, then counted if it says what it needs, and then run for real when nothing was found: no
launch is counted whose output is not compared. Functions that use streams have a bench in ``streams.py``.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.advice import advice_on, tell_doubts
from cudalab.checks.comparison import agree, figure, padding, poison, shown
from cudalab.checks.deadline import TimeIsUp, deadline
from cudalab.checks.exercise import PARTS, Finding, PartName, PartResult, Result
from cudalab.checks.gate import Gate, earned, worse
from cudalab.checks.work import Needs, NotCounted, Work, count_work
from cudalab.sim.compiler import CompileError, Program, compile
from cudalab.sim.device.profile import load
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch import workspace
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.launch.validation import LaunchError
from cudalab.sim.machine.memory.allocation import OutOfMemory
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import check_launch

if TYPE_CHECKING:
    from cudalab.checks.answer import Answer
    from cudalab.checks.exercise import Exercise
    from cudalab.sim.machine.launch.module import Launch

FILE = "answer.cu"
TIME_LIMIT = 3.0
"""Seconds a block may take; the inputs are small, so longer means an endless loop."""
CHECK_TIME = 30.0
"""Seconds a whole check may take, whatever the answer does; most take less than one."""
CAPACITY = 256 << 20
_WRONG: tuple[PartName, str] = ("correctness", "wrong values")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Addresses differ from run to run, and the same seed has to give the same text."""


@dataclass(frozen=True)
class Known:
    """A wrong result that a known mistake gives."""

    mistake: str
    values: np.ndarray


class Stop(Exception):
    """Nothing more can be learned of this answer."""


class Bench:
    """Tries one answer. ``findings`` and ``measured`` hold what was seen."""

    file = FILE
    """What the answer's lines are known as in findings."""

    def __init__(
        self, exercise: Exercise, answer: Answer, *, seed: int | None = None, time_limit: float = CHECK_TIME
    ) -> None:
        self.exercise = exercise
        self.answer = answer
        self.seed = secrets.randbits(32) if seed is None else seed
        self.measured: dict[str, tuple[float, str]] = {}
        """By gate's name: the worst value so far, and its case."""
        self._time_limit = time_limit
        self._until = math.inf
        self._findings: dict[tuple[PartName, str], Finding] = {}
        self._cases: dict[tuple[PartName, str], list[str]] = {}
        self._looks_like: dict[tuple[str, str], bool] = {}
        """By what was compared and a known mistake: does it look like it in each case in which it is wrong?"""
        self._random = np.random.default_rng(self.seed)
        self._case = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, the first of each rule, with the other cases it was seen in. Wrong values are called a known
        mistake where they look like it in every case that it is looked for in, and not in one alone."""
        out = []
        alike = next((mistake for (_, mistake), fits in self._looks_like.items() if fits), "")
        for key, finding in self._findings.items():
            others = self._cases[key][1:]
            if others:
                cases = "; ".join(others[:3]) + (f"; and {len(others) - 3} more" if len(others) > 3 else "")
                finding = replace(finding, text=f"{finding.text}\nAlso for: {cases}")
            if alike and key == _WRONG and not finding.mistake:
                finding = replace(finding, mistake=alike)
            out.append(finding)
        return tuple(out)

    @property
    def fine(self) -> bool:
        """Has nothing been found so far? Costly launches can be left out otherwise."""
        return not self._findings

    def run(self) -> Result:
        """Take the answer through the exercise, for as long as a check may take."""
        with contextlib.suppress(Stop):
            self._until = time.monotonic() + self._time_limit
            try:
                self._run()
            except TimeIsUp:
                self.find(
                    "correctness",
                    "time limit",
                    f"the check was stopped after {self._time_limit:g} s",
                    look=self.endless,
                )
        return self.result()

    endless = "loops that do not end, or go on far longer than the input is"
    """What to look at where the check was stopped."""

    def _run(self) -> None:
        raise NotImplementedError

    def limited(self) -> AbstractContextManager[None]:
        """While the answer runs: it is stopped when the check has taken its time."""
        return deadline(max(0.0, self._until - time.monotonic()))

    def result(self) -> Result:
        """What the exercise gives for what was seen. Points of a part count only when the parts before it hold: an
        empty kernel is sound, and fast."""
        exercise = self.exercise
        parts = tuple(self._part(name) for name in PARTS if name in exercise.points)
        return Result(exercise.id, exercise.title, parts, self.seed)

    def _part(self, name: PartName) -> PartResult:
        maximum = self.exercise.points[name]
        findings = tuple(f for f in self.findings if f.part == name)
        earlier = PARTS[: PARTS.index(name)]
        waits = any(f.part in earlier for f in self.findings)
        if waits and (name == "efficiency" or not findings):
            return PartResult(name, 0.0, maximum, skipped=True)
        if name != "efficiency":
            return PartResult(name, 0.0 if findings else maximum, maximum, findings)
        gates = earned(self.exercise.gates, self.measured)
        missed = tuple(
            Finding(name, gate.gate.name, f"{gate.value:.4g}, wanted: {gate.gate.bounds} ({gate.case})", gate.look)
            for gate in gates
            if not gate.met
        )
        return PartResult(name, sum(gate.points for gate in gates), maximum, findings + missed, gates=gates)

    # -- what an exercise calls -------------------------------------------------------------------------------------

    def random(self, shape: int | tuple[int, ...]) -> np.ndarray:
        """Fresh float32 numbers in [-1, 1), never 0."""
        values = self._random.uniform(-1, 1, shape).astype(np.float32)
        return np.where(values == 0, np.float32(0.5), values)

    def integers(self, low: int, high: int, count: int) -> list[int]:
        """Fresh integers from ``low`` up to, but without, ``high``."""
        return [int(value) for value in self._random.integers(low, high, count)]

    def between(self, low: int, high: int) -> int:
        """A fresh integer from ``low`` up to ``high``, both included: for shapes that no answer can know."""
        return int(self._random.integers(low, high + 1))

    def shuffled(self, count: int) -> list[int]:
        """The integers from 0 up to, but without, ``count``, in a fresh order."""
        return [int(value) for value in self._random.permutation(count)]

    def bytes(self, shape: tuple[int, ...]) -> np.ndarray:
        """Fresh random bytes."""
        return self._random.integers(0, 256, shape, np.uint8)

    def find(self, part: PartName, rule: str, text: str, *, look: str = "", mistake: str = "") -> None:
        """Keep a finding of the case that is being tried. Of several of one rule the first is shown, or the first that
        looks like a known mistake."""
        text = _ADDRESS.sub("", text)
        key = (part, rule)
        cases = self._cases.setdefault(key, [])
        if self._case not in cases:
            cases.append(self._case)
        known = self._findings.get(key)
        if known is None or (mistake and not known.mistake):
            text = f"{text} ({self._case})" if self._case else text
            self._findings[key] = Finding(part, rule, text, look, mistake)
            cases.insert(0, cases.pop(cases.index(self._case)))

    def measure(self, gate: Gate, value: float) -> None:
        """Keep what a gate of the exercise measured in this case: of several cases, the worst."""
        known = self.measured.get(gate.name)
        if known is None or worse(gate, value, known[0]):
            self.measured[gate.name] = (value, self._case)

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
        text = f"{name}[{', '.join(map(str, first))}] is {shown(got[first])}, expected {figure(expected[first])}"
        if wrong.size > 1:
            text += f"; {int(wrong.sum())} of {wrong.size} elements differ"
        self.find_wrong(
            name,
            text,
            [(k.mistake, bool(agree(got, k.values.astype(got.dtype), tolerance).all())) for k in known],
            look,
        )

    def find_wrong(self, what: str, text: str, fits: Sequence[tuple[str, bool]], look: str) -> None:
        """Keep wrong values of ``what``; ``fits``: the known mistakes, and whether they look like it in this case."""
        seen = {mistake for mistake, fit in fits if fit}
        for mistake, _ in fits:
            self._looks_like[what, mistake] = mistake in seen and self._looks_like.get((what, mistake), True)
        self.find(*_WRONG, text, look=look)


def counted(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {what}{'s' * (number != 1)}"


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
    owned: bool
    """An output that held poison: each element is one thread's to write. One that held zeros may be added to."""

    @property
    def extent(self) -> tuple[int, int]:
        """From its first address up to the one behind its last."""
        return self.pointer, self.pointer + self.before.size

    @property
    def row_bytes(self) -> int:
        return self.shape[-1] * self.dtype.itemsize


class KernelBench(Bench):
    """Tries one kernel."""

    program: Program | None = None
    """What the answer compiles to; None where it does not."""

    def _run(self) -> None:
        """Compile the answer and take it through the exercise."""
        self._buffers: list[Buffer] = []
        self._ran = False
        self._counted: dict[int, np.ndarray] = {}
        """By output's address: what the run that was counted left there."""
        workspace.forget()  # what a kernel reads before it writes is the same in each check
        program = self.program = self._compile()
        self._memory = Memory(CAPACITY)
        try:
            try:
                module = Module(program, self._memory, load().launch_limits)
            except OutOfMemory as error:
                look = "arrays declared with __device__ outside of functions"
                self.find("correctness", "out of memory", f"the module cannot be loaded: {error}", look=look)
                raise Stop from None
            self._kernel = module.kernel(self.exercise.kernel)
            self.exercise.examine(self)
        finally:
            self._memory.free_all()
            self._case = ""
            tell_doubts(self)

    # -- what an exercise calls -------------------------------------------------------------------------------------

    def input(self, name: str, values: np.ndarray, *, pitch: int = 0) -> Buffer:
        """A copy of ``values`` in device memory, which the kernel must not change. Padding holds NaN."""
        return self._buffer(name, values.shape, values.dtype, pitch, values, is_input=True)

    def output(self, name: str, shape: tuple[int, ...], dtype: Any, *, pitch: int = 0) -> Buffer:
        """Device memory poisoned with NaN (integers: a pattern), for the kernel to fill."""
        return self._buffer(name, shape, np.dtype(dtype), pitch, None, is_input=False)

    def changed(self, name: str, values: np.ndarray) -> Buffer:
        """A copy of ``values`` in device memory, for the kernel to change."""
        return self._buffer(name, values.shape, values.dtype, 0, values, is_input=False)

    def zeroed(self, name: str, shape: tuple[int, ...], dtype: Any) -> Buffer:
        """Device memory that holds zeros, for the kernel to add to."""
        return self.changed(name, np.zeros(shape, dtype))

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Any],
        case: str,
        *,
        shared: int = 0,
        needs: Needs | None = None,
        handed_over: Buffer | None = None,
    ) -> None:
        """Launch the answer, first under the sanitizer.

        Args:
            grid, block, arguments: of the launch.
            case: for which input it is, in words.
            shared: bytes of dynamic shared memory.
            needs: what the launch needs; then it is counted as well, and the exercise's gates are measured, unless
                something was found before: counts of a wrong answer earn nothing.
            handed_over: what one thread writes and another reads in order, by a flag: that its accesses are volatile or
                atomic, which is no race and no order either, does not help.
        """
        self._case, self._ran, self._counted = case, False, {}
        packed = self._pack(arguments)
        try:
            with self.limited():
                self._ran = self._try(self._kernel.launch(grid, block, packed, shared), needs, handed_over)
        except LaunchError as error:
            self.find("correctness", "launch refused", str(error))
        if self._ran:
            self._check_surroundings()

    def _try(self, launch: Launch, needs: Needs | None, handed_over: Buffer | None) -> bool:
        """Sanitize, count and run a launch; has it come to its end?"""
        weak = [] if handed_over is None else [handed_over.extent]
        checked = check_launch(launch, time_limit=TIME_LIMIT, weak=weak)
        for found in checked.findings:
            here = f" (line {found.line}: {found.source})" if found.line and found.source not in found.detail else ""
            look, mistake = advice_on(found, launch, self._buffers)
            self.find("soundness", found.rule, f"{found.headline}{here}. {found.detail}", look=look, mistake=mistake)
        stopped = [found for found in checked.findings if found.tool == "memcheck"]
        if stopped:
            self.find("correctness", "no result", f"the launch stops: {stopped[0].rule}")
            if any(found.rule == "endless loop" for found in stopped):
                raise Stop
            return False
        if needs is not None and self.fine:
            self._count(launch, needs)
        outcome = execute(launch, Standalone(time_limit=TIME_LIMIT))
        if outcome.fault is not None:  # only possible where the order of blocks matters
            self.find("soundness", outcome.fault.rule, str(outcome.fault))
        return outcome.fault is None

    def _count(self, launch: Launch, needs: Needs) -> None:
        try:
            work = count_work(launch, needs, time_limit=TIME_LIMIT, look=self._look_at_counted)
        except NotCounted as error:
            look = "loops that ask memory again and again until another thread has come: __syncthreads() waits for all"
            self.find("correctness", "a wait without a barrier", str(error), look=look)
            return
        self._measure_all(work)

    def _look_at_counted(self) -> None:
        """What the counted run has made is compared as well: a kernel may tell one run from another, by where the heap
        gives it memory, say, and work for the counts alone in this one."""
        self._counted = {b.pointer: self._values(b).copy() for b in self._buffers if not b.is_input}

    def _measure_all(self, work: Work) -> None:
        for gate in self.exercise.gates:
            if gate.measure is not None:
                self.measure(gate, gate.measure(work))

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
        if (counted := self._counted.get(buffer.pointer)) is not None:
            self.compare(f"while its work is counted, {buffer.name}", counted, expected, tolerance, known, look)

    def untouched(self, buffer: Buffer, why: str) -> None:
        """Nothing in the buffer may have been written."""
        if self._ran and not np.array_equal(self._bytes(buffer), buffer.before):
            self.find("correctness", "written where nothing belongs", f"{buffer.name} was written, but {why}")

    # -- inside -----------------------------------------------------------------------------------------------------

    def _compile(self) -> Program:
        try:
            program = compile(self.answer.source, options=self.answer.options, name=FILE)
        except CompileError as error:
            first = next((d for d in error.diagnostics if d.severity == "error"), None)
            text = f"line {first.line}: {first.text}" if first else str(error)
            look = "the compiler's message, at that line or just above"
            self.find("correctness", "does not compile", text, look=look)
            raise Stop from None
        if self.exercise.kernel not in program.kernels:
            known = ", ".join(program.kernels) or "none"
            self.find(
                "correctness",
                "no such kernel",
                f"there is no kernel {self.exercise.kernel!r} in the answer (it has: {known})",
                look=f'the name, and whether it says extern "C" __global__ void {self.exercise.kernel}(…)',
            )
            raise Stop
        return program

    def _buffer(
        self, name: str, shape: Sequence[int], dtype: np.dtype, pitch: int, values: np.ndarray | None, *, is_input: bool
    ) -> Buffer:
        shape = tuple(shape)
        row = shape[-1] * dtype.itemsize
        pitch = pitch or row
        rows = int(np.prod(shape[:-1]))
        fill = poison if values is None else padding
        content = np.frombuffer(fill(rows * pitch, dtype), np.uint8).reshape(rows, pitch).copy()
        if values is not None:
            content[:, :row] = np.ascontiguousarray(values).view(np.uint8).reshape(rows, row)
        # The last row ends with its last element: the bytes behind it are out of bounds.
        size = (rows - 1) * pitch + (pitch if pitch != row else row)
        pointer = self._allocate(name, content.reshape(-1)[:size], defined=values is not None)
        buffer = Buffer(name, pointer, shape, dtype, pitch, content, is_input, owned=values is None)
        self._buffers.append(buffer)
        return buffer

    def _allocate(self, name: str, content: np.ndarray, *, defined: bool) -> int:
        """The address of device memory with these bytes; those that are not ``defined`` count as never written."""
        pointer = self._memory.allocate(content.size, label=name)
        self._memory.array(pointer, content.size, write=defined)[:] = content
        return pointer

    def _read(self, pointer: int, size: int) -> np.ndarray:
        """Bytes of device memory."""
        return self._memory.array(pointer, size, write=False)

    def _bytes(self, buffer: Buffer) -> np.ndarray:
        return self._read(buffer.pointer, buffer.before.size).reshape(buffer.before.shape)

    def _values(self, buffer: Buffer) -> np.ndarray:
        return np.ascontiguousarray(self._bytes(buffer)[:, : buffer.row_bytes]).view(buffer.dtype).reshape(buffer.shape)

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
            raise Stop
        packed = bytearray(kernel.parameter_bytes)
        for parameter, value in zip(kernel.parameters, values, strict=True):
            packed[parameter.offset : parameter.offset + parameter.size] = value.tobytes()
        return bytes(packed)
