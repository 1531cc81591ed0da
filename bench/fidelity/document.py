"""The page of evidence: what was compared, how close the model is, pictures, and which constants it uses."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.fidelity import ablation, comparison, plots
from bench.fidelity.comparison import Comparison
from bench.fidelity.experiment import EXPERIMENTS
from bench.fidelity.stored import Stored
from cudalab.sim.device.profile import Constant, load


def write(path: Path, stored: Stored, found: Comparison, losses: Sequence[ablation.Loss]) -> None:
    """Write the page, as Markdown, and beside it a folder of its name with the pictures."""
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    pictures = {"errors": plots.errors(found), "distribution": plots.distribution(found)}
    topics = dict.fromkeys(EXPERIMENTS[name].topic for name in found.names())
    pictures |= {topic: plots.topic(found, topic) for topic in topics}
    for name, picture in pictures.items():
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    path.write_text(_text(stored, found, losses, folder.name, list(topics)), encoding="utf-8")


def _text(
    stored: Stored, found: Comparison, losses: Sequence[ablation.Loss], folder: str, topics: Sequence[str]
) -> str:
    profile = load()
    constants = {"host": profile.host_constants, "device": profile.device_constants}
    number = sum(map(len, constants.values()))
    everything = len(found.modelled)
    parts = [
        f"# Fidelity of the time model, {datetime.date.today().isoformat()}",
        f"Modelled figures of the profile `{profile.name}` against those of one {stored.device} (driver "
        f"{stored.driver}; {stored.date}; commits {stored.commit}): {everything} experiments, each a group of "
        f"variants; of these {len(found.names())} with {len(found.all_errors())} figures were measured. "
        "Again: `python -m bench.fidelity --document FILE`, with `--gpu` to measure on this machine's GPU first.",
        "A figure of the GPU is the median of repeats; where the experiments ran several times, the median of these "
        f"runs (they differ by {stored.spread:.1%}, median). {stored.note}".rstrip(),
        "Host times of single calls contain two looks at the clock, 0.24 us on an H200's host, in both: the modelled "
        "clock is read in no time, so they are added there (`Laboratory.calls`).",
        "Constants come from microbenchmarks (`python -m cudalab calibrate`) and from experiments of the calibration "
        "half. The halves were declared before anything was run: by a hash of an experiment's name, by a hash of the "
        "case where those of the L2 were fitted to one half of the cases, and as calibration where constants come "
        "from the experiment. Those of the validation half are only reported.",
        "## Result",
        comparison.summary(found),
        f"![How far each modelled time is from the measured one]({folder}/errors.svg)",
        f"![Which part of the figures is off by how much]({folder}/distribution.svg)",
        "## By topic",
        comparison.by_topic(found),
        "## More than 40 % off",
        comparison.far_off(found),
        "## Pairs in the wrong order",
        "Variants that differ by more than 10 % on the GPU and that the model does not put in this order. Where the "
        "GPU's own runs lie so far apart that their ranges overlap, they do not settle the order, and the next run "
        "may turn it; host times and short copies are such figures. These pairs count all the same.",
        comparison.wrong_pairs(found),
        "## Side by side",
        *(f"### {topic}\n\n![Measured and modelled times of {topic}]({folder}/{topic}.svg)" for topic in topics),
        "## Experiments",
        comparison.per_experiment(found),
        "## Not measured yet",
        comparison.unmeasured(found),
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
    parts += ["## Figures", comparison.figures(found, stored.spreads)]
    return "\n\n".join(parts) + "\n"


def _constants(constants: Mapping[str, Mapping[str, Constant]]) -> str:
    lines = ["| of | constant | value | unit | source |", "| --- | --- | ---: | --- | --- |"]
    for where, entries in constants.items():
        for name, constant in entries.items():
            lines.append(f"| {where} | {name} | {constant.value:g} | {constant.unit} | {constant.source} |")
    return "\n".join(lines)
