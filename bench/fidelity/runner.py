"""Runs experiments on the device of this process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

from bench.fidelity.experiment import Experiment
from bench.fidelity.laboratory import Laboratory

Figures = dict[str, dict[str, float]]
"""Microseconds by experiment and variant."""


def run(
    experiments: Iterable[Experiment],
    report: Callable[[str], None] = lambda line: None,
    *,
    seconds: float = float("inf"),
    failed: list[str] | None = None,
) -> Figures:
    """The figures of the experiments for which there are devices enough; ``report`` is called as each ends. None begins
    later than ``seconds``. One that raises ends the run, or is named in ``failed`` where that is given."""
    gc.collect()
    gc.disable()  # the calls of somebody's destructors would take time in the middle of a measurement
    try:
        return _run(experiments, report, time.perf_counter() + seconds, failed)
    finally:
        gc.enable()


def _run(
    experiments: Iterable[Experiment], report: Callable[[str], None], end: float, failed: list[str] | None
) -> Figures:
    laboratory = Laboratory()
    found: Figures = {}
    topic = ""
    for each in experiments:
        began = time.perf_counter()
        if each.devices > laboratory.devices or began > end:
            continue
        if each.topic != topic:
            laboratory.forget_buffers()
            topic = each.topic
        try:
            found[each.name] = {variant: round(figure, 3) for variant, figure in each.run(laboratory).items()}
        except Exception as error:
            if failed is None:
                raise
            failed.append(f"{each.name}: {type(error).__name__}: {error}")
        report(f"{time.perf_counter() - began:6.1f} s  {each.name}")
    return found
