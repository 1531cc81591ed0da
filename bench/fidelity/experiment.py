"""What an experiment is, and on which side of the split it falls.

The constants of the time model come from microbenchmarks alone (``cudalab calibrate``). The experiments judge it. So
that the judgement stays honest they are split by a hash of their names: those on the *calibration* side may show which
physical terms the model lacks, those on the *validation* side are only reported. An experiment whose figures constants
came from is declared to be on the calibration side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bench.fidelity.laboratory import Laboratory

Side = Literal["calibration", "validation"]
HALVES: tuple[Side, ...] = ("calibration", "validation")
Program = Callable[["Laboratory"], Iterator[tuple[str, float]]]


@dataclass(frozen=True)
class Experiment:
    """A named group of variants."""

    name: str
    topic: str
    """The module that holds it: ``copies``, ``memory`` and so on."""
    program: Program
    """Yields ``(variant, microseconds)``."""

    devices: int = 1
    """How many devices it takes."""

    @property
    def side(self) -> Side:
        return side(self.name)

    def run(self, laboratory: Laboratory) -> dict[str, float]:
        """Microseconds by variant, on the device of this process."""
        return dict(self.program(laboratory))


_HELD_OUT, _THIRD = "held out: ", "third: "
DEVELOPMENT = frozenset(
    f"{_HELD_OUT}{name}"
    for name in (
        "tridiagonal systems, a thread each",
        "Fourier transforms of 256",
        "edit distances",
        "rounds in shared memory",
        "Mandelbrot pictures",
        "searches",
        "neighbours of particles",
        "elements below a bound, gathered by an atomic counter",
        "a x + y",
        "gather and scatter by a permutation",
        "passes of scans and sorts",
        "gravity between bodies",
    )
)
"""Held-out experiments of the second set that show which terms the model lacks; the others of it, and all of the third,
only judge."""


_DECLARED: dict[str, Side] = {}


def side(name: str) -> Side:
    """On which side of the split an experiment falls: the declared one, else the lowest bit of the SHA-256 of its name;
    held-out ones are on the calibration side where they serve development."""
    if name in _DECLARED:
        return _DECLARED[name]
    if name.startswith((_HELD_OUT, _THIRD)):
        return "calibration" if name in DEVELOPMENT else "validation"
    return "validation" if hashlib.sha256(name.encode()).digest()[-1] & 1 else "calibration"


EXPERIMENTS: dict[str, Experiment] = {}


def experiment(name: str, *, devices: int = 1, half: Side | None = None) -> Callable[[Program], Program]:
    """Register a program as the experiment ``name``, on so many devices; ``half`` where its name is not to decide."""
    if half is not None:
        _DECLARED[name] = half

    def register(program: Program) -> Program:
        if name in EXPERIMENTS:
            raise ValueError(f"there are two experiments called {name!r}")
        EXPERIMENTS[name] = Experiment(name, program.__module__.rsplit(".", 1)[-1], program, devices)
        return program

    return register
