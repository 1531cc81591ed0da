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
LATER = (
    Path(__file__).parent / "data" / "h200-cooperation.json",
    Path(__file__).parent / "data" / "h200-one-device.json",
    Path(__file__).parent / "data" / "h200-second-run.json",
    Path(__file__).parent / "data" / "h200-starts.json",
)
"""Later runs, each with the commit that was measured. Of an experiment that several have, the last counts."""


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
    """All stored figures of the H200. Runs, spread and driver are those of the file that most of them come from; the
    commits and dates of all that any come from are named. What no run of the experiments has measured comes
    from another program (``evidence``)."""
    figures, spreads = evidence.figures(), Figures()
    source: dict[str, Stored] = {}
    for part in map(read, (H200, *LATER)):
        figures |= part.figures
        spreads |= part.spreads
        source |= dict.fromkeys(part.figures, part)
    parts = list({id(part): part for part in source.values()}.values())
    main = max(parts, key=lambda part: len(part.figures))
    dates, commits = (", ".join(dict.fromkeys(getattr(part, key) for part in parts)) for key in ("date", "commit"))
    note = (
        f"Those of {len(figures) - len(source)} experiments that take two devices were measured by another program of "
        f"the same work, on {evidence.DATE} on two H200 with the same driver (`bench/fidelity/evidence.py`), and were "
        "there before the halves were declared."
    )
    return replace(main, date=dates, commit=commits, figures=figures, spreads=spreads, note=note)


def write(path: Path, stored: Stored) -> None:
    """Store figures."""
    path.write_text(json.dumps(vars(stored), indent=1) + "\n", encoding="utf-8")
