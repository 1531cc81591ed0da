"""Runs experiments on the device of this process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

from bench.fidelity.experiment import Experiment
from bench.fidelity.laboratory import Laboratory

Figures = dict[str, dict[str, float]]
"""Microseconds by experiment and variant."""


def run(experiments: Iterable[Experiment], report: Callable[[str], None] = lambda line: None) -> Figures:
    """The figures of the experiments; ``report`` is called as each ends."""
    gc.collect()
    gc.disable()  # the calls of somebody's destructors would take time in the middle of a measurement
    try:
        return _run(experiments, report)
    finally:
        gc.enable()


def _run(experiments: Iterable[Experiment], report: Callable[[str], None]) -> Figures:
    laboratory = Laboratory()
    found: Figures = {}
    topic = ""
    for each in experiments:
        if each.topic != topic:
            laboratory.forget_buffers()
            topic = each.topic
        began = time.perf_counter()
        found[each.name] = {variant: round(figure, 3) for variant, figure in each.run(laboratory).items()}
        report(f"{time.perf_counter() - began:6.1f} s  {each.name}")
    return found
