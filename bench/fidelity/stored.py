"""Figures of a real GPU, stored with where they come from.

Those of experiments that take two devices and have not run yet come from another program of the same work: they stand
in ``docs/evidence``, with the device, the driver and the day. Until a run of the experiments themselves on two devices
has replaced them they are what the model is compared with.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

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
    Path(__file__).parent / "data" / "h200-own-memory.json",
    Path(__file__).parent / "data" / "h200-starts-again.json",
)
"""Later runs, each with the commit that was measured. Of an experiment that several have, the last counts. The last
file holds the graphs of ``starts`` that the device timed: what the host's clock timed differed by a third to two thirds
there."""
_OTHER_DATE = "2026-11-23"
_TWO_DEVICES = Path(__file__).parents[2] / "docs" / "evidence" / f"{_OTHER_DATE}-two-devices.json"
_SIZES = {"4 KB": 4096, "64 KB": 65536, "1 MB": 1 << 20, "16 MB": 1 << 24, "256 MB": 1 << 28}


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


def _of_peers() -> Iterator[tuple[str, dict[str, float]]]:
    found = json.loads(_TWO_DEVICES.read_text(encoding="utf-8"))

    def by_size(access: str, how: str) -> dict[str, float]:
        return {label: found[access][str(size)][how] for label, size in _SIZES.items()}

    yield "peers: copies without access, by size", by_size("no_access", "push_us")
    yield "peers: copies with access, in a stream of the source", by_size("access", "push_us")
    yield "peers: copies with access, in a stream of the destination", by_size("access", "pull_us")
    reads = found["kernels"]["peer"]
    yield (
        "peers: kernels that read a peer's memory",
        {f"{size >> 20} MB": reads[str(size)]["read_wide_us"] for size in (1 << 24, 1 << 28)},
    )
    yield (
        "peers: calls, host time",
        {
            "select a device": found["set_device_ns"] / 1000,
            "copy of 1 MB, without access": found["no_access"][str(1 << 20)]["call_us"],
            "copy of 1 MB, with access": found["access"][str(1 << 20)]["call_us"],
        },
    )


def of_another_program() -> Figures:
    """Figures of two H200, by experiment and variant."""
    return {name: {key: round(figure, 3) for key, figure in each.items()} for name, each in _of_peers()}


def everything() -> Stored:
    """All stored figures of the H200. Runs, spread and driver are those of the file that most of them come from; the
    commits and dates of all that any come from are named. What no run of the experiments has measured comes
    from another program."""
    figures, spreads = of_another_program(), Figures()
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
        f"the same work, on {_OTHER_DATE} on two H200 with the same driver (`bench/fidelity/stored.py`), and were "
        "there before the halves were declared."
    )
    return replace(main, date=dates, commit=commits, figures=figures, spreads=spreads, note=note)


def write(path: Path, stored: Stored) -> None:
    """Store figures."""
    path.write_text(json.dumps(vars(stored), indent=1) + "\n", encoding="utf-8")
