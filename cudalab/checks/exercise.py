"""What an exercise is, and what a check says of an answer.

A check has up to three parts, taken in order: *correctness* (whole arrays against a NumPy oracle), *soundness* (what
the sanitizer finds) and *efficiency* (structural counts, never seconds). The points of a part count only when the parts
before it hold: an empty kernel is sound, and a fast wrong answer is not fast.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

PartName = Literal["correctness", "soundness", "efficiency"]
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
    note: str = ""
    """What was measured when the part passed, e.g. ``4.0 sectors per request (at most 4)``."""

    @property
    def passed(self) -> bool:
        return not self.skipped and not self.findings


@dataclass(frozen=True)
class Result:
    """What `cudalab.check` returns: printable as text and as HTML."""

    exercise: str
    title: str
    parts: tuple[PartResult, ...]

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
    def findings(self) -> tuple[Finding, ...]:
        return tuple(f for p in self.parts for f in p.findings)

    def __str__(self) -> str:
        lines = [f"{self.exercise} {self.title}: {self.points:g} of {self.maximum:g} points"]
        for part in self.parts:
            worth = f"{part.points:g} of {part.maximum:g}" if part.maximum else "required"
            lines.append(f"  {_MARK[_state(part)]} {part.name} ({worth}): {_state(part)}")
            if part.note:
                lines.append(f"      {part.note}")
            for finding in part.findings:
                text = finding.text.replace("\n", "\n      ")
                lines.append(f"      {finding.rule}: {text}")
                if finding.mistake:
                    lines.append(f"      This looks like a known mistake: {finding.mistake}")
                if finding.look:
                    lines.append(f"      Look at: {finding.look}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        for part in self.parts:
            state = _state(part)
            worth = f"{part.points:g} of {part.maximum:g}" if part.maximum else "required"
            details = "".join(
                "<li><b>"
                + html.escape(f.rule)
                + "</b>: "
                + html.escape(f.text).replace("\n", "<br>")
                + (f"<br>This looks like a known mistake: {html.escape(f.mistake)}" if f.mistake else "")
                + (f"<br>Look at: {html.escape(f.look)}" if f.look else "")
                + "</li>"
                for f in part.findings
            )
            body = f"<ul style='margin:0'>{details}</ul>" if details else html.escape(part.note)
            rows.append(
                f"<tr><td style='color:{_COLOR[state]};text-align:left;white-space:nowrap'>{_MARK[state]} {state}</td>"
                f"<td style='text-align:left'>{part.name}</td><td style='text-align:left'>{worth}</td>"
                f"<td style='text-align:left'>{body}</td></tr>"
            )
        head = (
            f"<b>{html.escape(self.exercise)} {html.escape(self.title)}</b>: {self.points:g} of {self.maximum:g} points"
        )
        return f"<div>{head}<table>{''.join(rows)}</table></div>"


_MARK = {"passed": "[+]", "failed": "[x]", "waits for the parts above": "[ ]"}
_COLOR = {"passed": "#009E73", "failed": "#D55E00", "waits for the parts above": "#000000"}


def _state(part: PartResult) -> str:
    if part.skipped:
        return "waits for the parts above"
    return "passed" if part.passed else "failed"


@dataclass(frozen=True)
class Mutant:
    """A wrong answer of the kind that learners give: the solution with some text replaced."""

    name: str
    replace: tuple[tuple[str, str], ...]
    """Pairs (old, new): each old text occurs in the solution and is replaced by the new one."""
    fails: PartName
    rule: str
    """The rule that has to reject it."""

    def apply(self, solution: str) -> str:
        """The mutated source; ValueError where the text to replace is not in the solution."""
        for old, new in self.replace:
            if old not in solution:
                raise ValueError(f"mutant {self.name!r}: the solution has no {old!r}")
            solution = solution.replace(old, new)
        return solution


@dataclass(frozen=True, eq=False)
class Exercise:
    id: str
    """``CHAPTER.NUMBER``, e.g. ``04.2``."""
    title: str
    kernel: str
    """The name that the kernel, or the Python function, must have."""
    points: dict[PartName, float]
    """Points of each part; a part that is left out is not looked at."""
    examine: Callable[[Any], None]
    """Runs the answer on its bench, a ``KernelBench`` or, for ``python``, a ``StreamBench``, which collects the
    findings."""
    mutants: tuple[Mutant, ...] = field(default=())
    python: bool = False
    """The answer is a Python function (streams, events, measurements), not a kernel."""
