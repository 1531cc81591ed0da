"""Figures of a real GPU, stored with where they come from."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from bench.fidelity.runner import Figures

H200 = Path(__file__).parent / "data" / "h200.json"
HELD_OUT = {
    "second": Path(__file__).parent / "data" / "held-out-h200.json",
    "third": Path(__file__).parent / "data" / "third-h200.json",
}
LATER = (Path(__file__).parent / "data" / "h200-cooperation.json",)
"""Experiments that were added later, each file with the commit that was measured."""


@dataclass(frozen=True)
class Stored:
    """What one GPU did."""

    device: str
    driver: str
    date: str
    commit: str
    runs: int
    """Each figure is the median of so many runs of its experiment."""
    spread: float
    """Median, over all figures, of the difference of the slowest and the fastest of these runs over the median."""
    figures: Figures


def read(path: Path = H200) -> Stored:
    """The figures of one file."""
    return Stored(**json.loads(path.read_text(encoding="utf-8")))


def sound(figures: Figures) -> Figures:
    """The figures without those that no launch can have: a kernel's time is the difference of two measurements
    (``Laboratory.kernel``), and what disturbs the shorter one can make it negative."""
    return {name: {variant: time for variant, time in each.items() if time > 0} for name, each in figures.items()}


def everything() -> Stored:
    """All stored figures of the H200. Of runs and spread that of the files counts which has most experiments; commits
    and dates are all named."""
    parts = [read(H200), *map(read, LATER)]
    figures = {name: variants for part in parts for name, variants in part.figures.items()}
    dates, commits = ({getattr(part, key): None for part in parts} for key in ("date", "commit"))
    return replace(parts[0], date=", ".join(dates), commit=", ".join(commits), figures=figures)


def write(path: Path, stored: Stored) -> None:
    """Store figures."""
    path.write_text(json.dumps(vars(stored), indent=1) + "\n", encoding="utf-8")
