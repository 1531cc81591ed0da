"""What an exercise is, and what a check says of an answer.

A check has up to three parts, taken in order: *correctness* (whole arrays against a NumPy oracle), *soundness* (what
the sanitizer finds, and hazards between streams) and *efficiency* (structural counts, never seconds). The points of a
part count only when the parts before it hold: an empty kernel is sound, and a fast wrong answer is not fast. Efficiency
consists of gates (``gate.py``), each with points of its own.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cudalab.checks.gate import Gate, GateResult
from cudalab.sim.machine.reports.card import card

PartName = Literal["correctness", "soundness", "efficiency"]
AnswerKind = Literal["kernel", "function", "value"]
PARTS: tuple[PartName, ...] = ("correctness", "soundness", "efficiency")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with an answer."""

    part: PartName
    """Which part of the check it fails."""
    rule: str
    """A short name of the rule, stable: tests and feedback refer to it (``wrong values``, ``out of bounds``, …)."""
    text: str
    """What was found: the value, where, and for which input."""
    look: str = ""
    """What to look at next."""
    mistake: str = ""
    """The known mistake that it looks like, when the wrong values match one."""


@dataclass(frozen=True)
class PartResult:
    name: PartName
    points: float
    """Points earned."""
    maximum: float
    """Points to earn; 0 for a part that is required but carries none."""
    findings: tuple[Finding, ...] = ()
    skipped: bool = False
    """True when an earlier part failed: points of this one count only when that is mended."""
    gates: tuple[GateResult, ...] = ()
    """What was measured, gate by gate; empty while an earlier part fails."""

    @property
    def passed(self) -> bool:
        return not self.skipped and not self.findings

    @property
    def others(self) -> tuple[Finding, ...]:
        """The findings that are no missed gates."""
        names = {gate.gate.name for gate in self.gates}
        return tuple(f for f in self.findings if f.rule not in names)


@dataclass(frozen=True)
class Result:
    """What `cudalab.check` returns: printable as text and as HTML."""

    exercise: str
    title: str
    parts: tuple[PartResult, ...]
    seed: int
    """Of the inputs and shapes: ``cudalab.check(…, seed=…)`` with it repeats this very check."""

    @property
    def points(self) -> float:
        return sum(p.points for p in self.parts)

    @property
    def maximum(self) -> float:
        return sum(p.maximum for p in self.parts)

    @property
    def passed(self) -> bool:
        return all(p.passed for p in self.parts)

    @property
    def verdict(self) -> str:
        """Points, or for practice, which has none, a plain word."""
        if self.maximum:
            return f"{self.points:g} of {self.maximum:g} points"
        return "done" if self.passed else "not yet"

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(f for p in self.parts for f in p.findings)

    @property
    def causes(self) -> tuple[Finding, ...]:
        """What to mend first, because it explains the rest: the mistakes that were recognised, or else the first thing
        that is unsound (values that threads race for are anybody's); otherwise each finding stands for itself."""
        recognised = tuple(f for f in self.findings if f.mistake)
        unsound = tuple(f for f in self.findings if f.part == "soundness")
        return recognised or unsound[:1] or self.findings

    def _by_cause(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: finding not in self.causes)

    def _lines(self, finding: Finding) -> list[str]:
        """A finding in lines of text; what follows from another has one, without a hint that would lead astray."""
        lines = _told(finding)
        return lines if finding in self.causes else lines[:1]

    def _html(self, finding: Finding) -> str:
        """The same as HTML, with the other lines one click away."""
        first, *more = (html.escape(line) for line in _told(finding))
        rule, _, text = first.partition(": ")
        first = f"<b>{rule}</b>: {text}"
        if finding in self.causes or not more:
            return "<br>".join([first, *more])
        return f"<details><summary>{first}</summary>{'<br>'.join(more)}</details>"

    def __str__(self) -> str:
        lines = [f"{self.exercise} {self.title}: {self.verdict}"]
        if not self.maximum:
            for finding in self._by_cause():
                lines += [f"  {line}" for line in self._lines(finding)]
            return "\n".join(lines)
        for part in self.parts:
            lines.append(f"  {_MARK[_state(part)]} {part.name} ({_worth(part)}): {_state(part)}")
            for gate in part.gates:
                lines.append(f"      {_MARK[gate.state]} {gate} ({gate.worth})")
                lines += [f"          {line}" for line in gate.advice]
            for finding in part.others:
                lines += [f"      {line}" for line in self._lines(finding)]
        again = f'cudalab.check("{self.exercise}", …, seed={self.seed}) repeats them'
        return "\n".join([*lines, f"  Inputs and shapes come from seed {self.seed}; {again}."])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title = f"{self.exercise} {self.title}: {self.verdict}"
        if not self.maximum:
            found = "".join(f"<li>{self._html(finding)}</li>" for finding in self._by_cause())
            return card(
                "good" if self.passed else "wrong", title, kind="check", body=f"<ul>{found}</ul>" if found else ""
            )
        rows = []
        for part in self.parts:
            state = _state(part)
            details = [
                "<br>".join(html.escape(line) for line in (f"{_MARK[g.state]} {g} ({g.worth})", *g.advice))
                for g in part.gates
            ]
            details += [self._html(finding) for finding in part.others]
            body = "".join(f"<li>{detail}</li>" for detail in details)
            rows.append(
                f"<div style='margin-top:6px'><b>{part.name}</b>, {_worth(part)}: "
                f"<span style='{_LOOK[state]}'>{_MARK[state]} {state}</span></div>"
                + (f"<ul style='margin:2px 0 0'>{body}</ul>" if body else "")
            )
        return card(
            "good" if self.passed else "wrong",
            title,
            kind="check",
            facts=[("seed", str(self.seed))],
            body="".join(rows),
        )


_MARK = {"passed": "[+]", "failed": "[x]", "waits for the parts above": "[ ]"}
_LOOK = {"passed": "color:#009E73", "failed": "color:#D55E00", "waits for the parts above": "opacity:.75"}


def _told(finding: Finding) -> list[str]:
    """A finding in lines of text."""
    lines = f"{finding.rule}: {finding.text}".split("\n")
    if finding.mistake:
        lines.append(f"This looks like a known mistake: {finding.mistake}")
    if finding.look:
        lines.append(f"Look at: {finding.look}")
    return lines


def _state(part: PartResult) -> str:
    if part.skipped:
        return "waits for the parts above"
    return "passed" if part.passed else "failed"


def _worth(part: PartResult) -> str:
    return f"{part.points:g} of {part.maximum:g}" if part.maximum else "required"


@dataclass(frozen=True, eq=False)
class Exercise:
    id: str
    """``CHAPTER.NUMBER``, e.g. ``04.2``; of practice, which carries no points, ``CHAPTER.NAME``, e.g. ``04.pitch``."""
    title: str
    kernel: str
    """The name that the kernel, or the Python function, must have; of a value, what feedback calls it."""
    examine: Callable[[Any], None]
    """Runs the answer on its bench, which collects the findings and measures the gates."""
    correctness: float = 0
    """Points for right values; 0: required, for a starter that has them already."""
    soundness: float = 0
    """Points for what the sanitizer, or the hazard report, finds nothing in."""
    gates: tuple[Gate, ...] = ()
    """What is counted, and the points of each."""
    answer: AnswerKind = "kernel"
    """What is asked for: a kernel (``KernelBench``), a Python function that uses streams, events or measurements
    (``StreamBench``), or a plain value (``ValueBench``)."""
    calls: frozenset[str] = frozenset()
    """Families of calls that its answers may make where they are graded, beyond its chapter's (``calls.py``)."""

    @property
    def points(self) -> dict[PartName, float]:
        """Points of each part; efficiency only where there are gates."""
        points: dict[PartName, float] = {"correctness": self.correctness, "soundness": self.soundness}
        if self.gates:
            points["efficiency"] = sum(gate.points for gate in self.gates)
        return points

    @property
    def maximum(self) -> float:
        return sum(self.points.values())
