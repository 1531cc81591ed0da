"""Efficiency gates: a structural count, its bounds, its points, and what to say when it is missed.

A gate has two sides wherever too little is as wrong as too much: a kernel that loads less than its input cannot have
looked at all of it. A gate without points is a *guard*: an answer that misses one (copies twice, polls) has bought its
other counts with it, and earns no efficiency points. Points of a gate that the starter meets already (its ``baseline``
is within the bounds) count once every gate that the starter misses is met: leaving the starter as it is earns nothing.

Gates of kernels know how to measure themselves (``measure``), so that an exercise only lists them; those of functions
that use streams are measured by the exercise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalab.checks.work import Work


@dataclass(frozen=True)
class Gate:
    name: str
    """What is counted, as feedback and tests call it."""
    points: float = 0
    """0: a guard."""
    most: float = math.inf
    least: float = -math.inf
    baseline: float | None = None
    """What the starter has, within a tenth; None where the starter's values are wrong, so that it is not measured."""
    look: str = ""
    """What to look at when the count is too high, or when it misses in the only possible direction."""
    too_little: str = ""
    """What to look at when the count is below ``least``, where there is a ``most`` as well."""
    measure: Callable[[Work], float] | None = None
    """The value, from what a kernel did."""

    def of(self, points: float = 0, **bounds: Any) -> Gate:
        """This gate with points, and with bounds and a baseline, of an exercise's own."""
        return replace(self, points=points, **bounds)

    def holds(self, value: float) -> bool:
        return self.least <= value <= self.most

    @property
    def given(self) -> bool:
        """Does the starter meet it?"""
        return self.baseline is not None and self.holds(self.baseline)

    @property
    def bounds(self) -> str:
        """``at most 4``, ``at least 60``, ``1 to 1.1``."""
        if math.isinf(self.least):
            return f"at most {self.most:.4g}"
        if math.isinf(self.most):
            return f"at least {self.least:.4g}"
        return f"{self.least:.4g}" if self.least == self.most else f"{self.least:.4g} to {self.most:.4g}"


@dataclass(frozen=True)
class GateResult:
    """What one gate measured."""

    gate: Gate
    value: float
    """The worst of all cases."""
    case: str
    """In which it was."""
    points: float = 0
    """Points earned."""
    waits: str = ""
    """Why a gate that is met earns nothing yet."""

    @property
    def met(self) -> bool:
        return self.gate.holds(self.value)

    @property
    def state(self) -> str:
        return "passed" if self.met else "failed"

    @property
    def worth(self) -> str:
        if not self.gate.points:
            return "required"
        return f"{self.points:g} of {self.gate.points:g}" + (f", {self.waits}" if self.waits else "")

    @property
    def look(self) -> str:
        """What to look at, where it is missed."""
        gate = self.gate
        return gate.too_little if self.value < gate.least and gate.too_little else gate.look

    @property
    def advice(self) -> tuple[str, ...]:
        """In which case it was missed, and what to look at."""
        return () if self.met else (f"In the case: {self.case}", f"Look at: {self.look}")

    def __str__(self) -> str:
        start = "" if self.gate.baseline is None else f"; the starter has {self.gate.baseline:.4g}"
        return f"{self.gate.name}: {self.value:.4g} (wanted: {self.gate.bounds}{start})"


def worse(gate: Gate, one: float, other: float) -> bool:
    """Is ``one`` further outside of the gate's bounds than ``other``, or nearer to one of them?"""
    return _margin(gate, one) < _margin(gate, other)


def _margin(gate: Gate, value: float) -> float:
    return min(value - gate.least, gate.most - value)


def earned(gates: tuple[Gate, ...], measured: Mapping[str, tuple[float, str]]) -> tuple[GateResult, ...]:
    """The results of all gates that were measured, with their points; ``measured``: value and case by gate's name."""
    results = [GateResult(gate, *measured[gate.name]) for gate in gates if gate.name in measured]
    met = {result.gate.name for result in results if result.met}
    guarded = all(gate.name in met for gate in gates if not gate.points)
    progress = all(gate.name in met for gate in gates if gate.points and not gate.given)

    def settled(result: GateResult) -> GateResult:
        if not result.met or not result.gate.points:
            return result
        if not guarded:
            return replace(result, waits="counts once what is required is met")
        if result.gate.given and not progress:
            return replace(result, waits="the starter has it too: counts once the others are met")
        return replace(result, points=result.gate.points)

    return tuple(settled(result) for result in results)


def no_calls(look: str) -> Gate:
    """For a function that only works something out: it makes no runtime call."""
    return Gate("runtime calls of the function", points=1, most=0, look=look)
