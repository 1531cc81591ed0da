"""Figures of a real GPU, stored with where they come from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bench.fidelity.runner import Figures

H200 = Path(__file__).parent / "data" / "h200.json"


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
    """The stored figures."""
    return Stored(**json.loads(path.read_text(encoding="utf-8")))


def write(path: Path, stored: Stored) -> None:
    """Store figures."""
    path.write_text(json.dumps(vars(stored), indent=1) + "\n", encoding="utf-8")
