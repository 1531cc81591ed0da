"""The page of evidence: what was compared, how close the model is, and which constants it uses."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from bench.fidelity import ablation, comparison
from bench.fidelity.comparison import Comparison
from bench.fidelity.stored import Stored
from cudalab.sim.device.profile import load


def text(stored: Stored, found: Comparison, losses: Sequence[ablation.Loss]) -> str:
    """The page, as Markdown."""
    profile = load()
    constants = {"host": profile.host_constants, "device": profile.device_constants}
    number = sum(map(len, constants.values()))
    parts = [
        f"# Fidelity of the time model, {datetime.date.today().isoformat()}",
        f"Modelled figures of the profile `{profile.name}` against those of one {stored.device} (driver CUDA "
        f"{stored.driver}, {stored.date}, commit `{stored.commit}`): {len(found.names())} experiments, each a group of "
        f"variants; {len(found.all_errors())} figures. On the GPU each figure is the median of {stored.runs} runs of "
        f"medians of repeats; the runs differ by {stored.spread:.1%} (median). Again: `python -m bench.fidelity`; on a "
        "GPU, `python -m bench.fidelity --record FILE`.",
        "The constants come from microbenchmarks alone (`python -m cudalab calibrate`). A hash of its name puts each "
        "experiment on one of two sides: those on the calibration side were looked at to find missing physical terms, "
        "those on the validation side are only reported.",
        "## Result",
        comparison.summary(found),
        "## Pairs in the wrong order",
        "Variants that differ by more than 10 % on the GPU and that the model does not put in this order:",
        comparison.wrong_pairs(found),
        "## Experiments",
        comparison.per_experiment(found),
        "## Constants",
        f"{number} constants: {len(constants['host'])} of calls, {len(constants['device'])} of the device.",
        _constants(constants),
    ]
    if losses:
        parts += [
            "## Without a constant",
            "Each constant was taken out in turn. An experiment is hurt when its mean error grows by more than "
            f"{ablation.WORSE:.0%} point, a microbenchmark when its error grows by {ablation.MUCH_WORSE:.0%} points. "
            "Experiments with streams are not run here, so constants of streams, of the switch between engines and of "
            "allocation hurt none. Constants of the device that hurt no experiment stay where microbenchmarks need "
            "them.",
            ablation.table(losses),
        ]
    parts += ["## Figures", comparison.figures(found)]
    return "\n\n".join(parts) + "\n"


def _constants(constants: dict[str, object]) -> str:
    lines = ["| of | constant | value | unit | source |", "| --- | --- | ---: | --- | --- |"]
    for where, entries in constants.items():
        for name, constant in entries.items():  # type: ignore[attr-defined]
            lines.append(f"| {where} | {name} | {constant.value:g} | {constant.unit} | {constant.source} |")
    return "\n".join(lines)
