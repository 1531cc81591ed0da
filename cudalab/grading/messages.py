"""What the grader, the template of its questions and a question say to each other, and what is stored of a result.

Encoded as MessagePack against these declarations (``sim/compiler/processes/codec.py``): what comes back from a process
that has touched a stranger's answer can be wrong data at worst, never code.
"""

from __future__ import annotations

import math
import traceback
from dataclasses import fields
from typing import Literal

from msgspec import Struct, structs

from cudalab.checks.exercise import Finding, PartName, PartResult, Result
from cudalab.checks.gate import Gate, GateResult
from cudalab.grading.limits import Limits
from cudalab.sim.compiler.processes.messages import Order


class Question(Struct, frozen=True, tag=True):
    """One answer to grade."""

    exercise: str
    text: str
    """Of the whole answer cell."""
    seed: int
    limits: Limits
    gpu: bool = False
    """Is a kernel launched on the machine's GPU, too?"""
    jailed: bool = True
    """Is Python run in bubblewrap? The teacher may have said no."""
    log: bytes = b""
    """Of an earlier run of the very answer: where it still holds, it is replayed, and the answer is not run."""


class GateRecord(Struct, frozen=True, kw_only=True):
    """A gate without its code, and what was measured."""

    name: str
    points: float
    most: float
    least: float
    baseline: float | None
    look: str
    too_little: str
    value: float
    case: str
    earned: float


class PartRecord(Struct, frozen=True):
    """One part of a check."""

    name: PartName
    points: float
    maximum: float
    findings: list[Finding]
    skipped: bool
    gates: list[GateRecord]


class ResultRecord(Struct, frozen=True, tag=True):
    """A ``Result``, as data."""

    exercise: str
    title: str
    parts: list[PartRecord]
    seed: int
    fingerprint: list[int] = []
    """Of the compiled kernel, for the report on similar answers."""
    log: bytes = b""
    """Of an answer in Python; the store keeps it apart from the result."""
    replayed: bool = False
    """Does the result come from the log of an earlier run?"""

    def result(self) -> Result:
        """The result as ``cudalab.check`` returns it."""
        parts = tuple(
            PartResult(
                part.name,
                part.points,
                part.maximum,
                tuple(part.findings),
                part.skipped,
                tuple(_gate_result(gate) for gate in part.gates),
            )
            for part in self.parts
        )
        return Result(self.exercise, self.title, parts, self.seed)


class Ended(Struct, frozen=True, tag=True):
    """The question has no result, because its process was ended or died."""

    kind: Literal["time", "memory", "output", "crash"]
    text: str


class Refused(Struct, frozen=True, tag=True):
    """The answer cannot be graded here; the text says why."""

    text: str


class Wanted(Struct, frozen=True, tag=True):
    """A question needs something of the compiler; the template answers with a ``Reply`` of its helper."""

    order: Order


Outcome = ResultRecord | Ended | Refused
Said = Wanted | ResultRecord | Refused
"""What a question says to its template."""


_GATE = tuple(field.name for field in fields(Gate) if field.name != "measure")


def record(
    result: Result, fingerprint: list[int] | None = None, *, log: bytes = b"", replayed: bool = False
) -> ResultRecord:
    """A result as data."""
    parts = [
        PartRecord(
            part.name,
            _finite(part.points),
            part.maximum,
            list(part.findings),
            part.skipped,
            [
                GateRecord(
                    **{name: getattr(one.gate, name) for name in _GATE},
                    value=float(one.value),
                    case=one.case,
                    earned=one.points,
                )
                for one in part.gates
            ],
        )
        for part in result.parts
    ]
    return ResultRecord(result.exercise, result.title, parts, result.seed, fingerprint or [], log, replayed)


def without_log(outcome: Outcome) -> Outcome:
    """What two gradings of an answer have in common, however it was graded."""
    if isinstance(outcome, ResultRecord):
        return structs.replace(outcome, log=b"", replayed=False)
    return outcome


def mistake(error: Exception) -> Refused:
    """What an exception in the grader's own code is to a score: none, and a text that can be reported."""
    where = "".join(traceback.format_exception(error)[-4:])
    return Refused(f"a mistake in the grader, not in the answer: {type(error).__name__}: {error}\n{where}")


def _gate_result(one: GateRecord) -> GateResult:
    return GateResult(Gate(**{name: getattr(one, name) for name in _GATE}), one.value, one.case, one.earned)


def _finite(points: float) -> float:
    if not math.isfinite(points):
        raise ValueError(f"{points} points")
    return points
