"""What all benches share: an answer is tried there, and what is wrong with it is collected.

The first finding of each rule is kept in full; that it also holds for other cases is added to it.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cudalab.checks.exercise import Finding, PartName

if TYPE_CHECKING:
    from cudalab.checks.answer import Answer
    from cudalab.checks.exercise import Exercise

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Addresses differ from run to run, and the same seed has to give the same text."""


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

    def run(self) -> None:
        """Take the answer through the exercise."""
        raise NotImplementedError

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


def agree(got: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """Where two arrays are equal, or within ``tolerance`` (relative, and absolute near 0)."""
    if got.shape != expected.shape:
        return np.zeros(got.shape, bool)
    if not tolerance or got.dtype.kind != "f":
        return np.asarray((got == expected) | ((got != got) & (expected != expected)))
    return np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


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
