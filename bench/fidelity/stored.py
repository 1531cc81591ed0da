"""Figures of a real GPU, stored with where they come from."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.fidelity import evidence
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
    spreads: Figures = field(default_factory=dict)
    """The same difference for each figure, where it was stored."""
    note: str = ""
    """What else is to be said of where figures come from."""


def medians(runs: Sequence[Figures]) -> tuple[float, Figures, Figures]:
    """The median spread, the median of each figure, and the spread of each, over the runs that have it."""
    figures: Figures = {}
    spreads: Figures = {}
    for name in dict.fromkeys(name for each in runs for name in each):
        of_runs = [each[name] for each in runs if name in each]
        figures[name], spreads[name] = {}, {}
        for variant in of_runs[0]:
            values = [each[variant] for each in of_runs]
            figures[name][variant] = middle = round(statistics.median(values), 3)
            spreads[name][variant] = round((max(values) - min(values)) / abs(middle), 4) if middle else 0.0
    spread = statistics.median(value for each in spreads.values() for value in each.values())
    return round(spread, 4), figures, spreads


def read(path: Path = H200) -> Stored:
    """The figures of one file."""
    return Stored(**json.loads(path.read_text(encoding="utf-8")))


def sound(figures: Figures) -> Figures:
    """The figures without those that no launch can have: a kernel's time is the difference of two measurements
    (``Laboratory.kernel``), and what disturbs the shorter one can make it negative."""
    return {name: {variant: time for variant, time in each.items() if time > 0} for name, each in figures.items()}


def everything() -> Stored:
    """All stored figures of the H200. Of runs and spread that of the files counts which has most experiments; commits
    and dates are all named. What no run of the experiments has measured comes from other programs (``evidence``)."""
    parts = [read(H200), *map(read, LATER)]
    figures = evidence.figures() | {name: variants for part in parts for name, variants in part.figures.items()}
    spreads = {name: variants for part in parts for name, variants in part.spreads.items()}
    dates, commits = ({getattr(part, key): None for part in parts} for key in ("date", "commit"))
    elsewhere = len(figures) - sum(len(part.figures) for part in parts)
    note = (
        f"Figures of {elsewhere} experiments were measured by other programs of the same work, on {evidence.DATE} "
        "on an H200 with the same driver (`bench/fidelity/evidence.py` says which). The host of the topic `calls` took "
        "half as long again for a call from Python as the one that constants come from. These figures were there "
        "before the halves were declared. Left out after a first comparison were calls of which Python and CuPy have "
        "the largest part, which is not modelled, and conditional nodes, of which it is not known what the events "
        "around them took."
    )
    return replace(
        parts[0], date=", ".join(dates), commit=", ".join(commits), figures=figures, spreads=spreads, note=note
    )


def write(path: Path, stored: Stored) -> None:
    """Store figures."""
    path.write_text(json.dumps(vars(stored), indent=1) + "\n", encoding="utf-8")
