"""How far modelled figures are from measured ones: errors, and the order of variants."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from bench.fidelity.experiment import EXPERIMENTS, Side, side
from bench.fidelity.runner import Figures

TYPICAL, NEAR, FAR = 0.06, 0.15, 0.40
"""What is asked of errors: the median at most the first, 95 % within the second, none over the third."""
CLEAR, VISIBLE = 0.25, 0.10
"""Pairs of variants that differ by more than this on the GPU: all, and 95 % of them, are to be in the right order."""


@dataclass(frozen=True)
class Pair:
    """Two variants of one experiment."""

    experiment: str
    faster: str
    slower: str
    difference: float
    """How much longer the slower one takes on the GPU, as a part of the faster."""
    right: bool
    """Does the model put them in the same order?"""
    settled: bool = True
    """Do the GPU's own runs settle the order? They do where the ranges of the two, laid around their medians, do not
    overlap; also where the ranges are not known."""


def common(measured: Figures, modelled: Figures, spreads: Figures | None = None) -> Comparison:
    """Of the experiments and variants that both have."""
    both = {
        name: {variant: time for variant, time in each.items() if variant in modelled[name]}
        for name, each in measured.items()
        if name in modelled
    }
    return Comparison({name: each for name, each in both.items() if each}, modelled, spreads or {})


@dataclass(frozen=True)
class Comparison:
    """Modelled against measured figures."""

    measured: Figures
    modelled: Figures
    spreads: Figures = field(default_factory=dict)
    """Of measured figures: the slowest run less the fastest, over the median."""

    def errors(self, experiment: str) -> dict[str, float]:
        """Modelled over measured time less one, by variant."""
        modelled = self.modelled[experiment]
        return {variant: modelled[variant] / time - 1.0 for variant, time in self.measured[experiment].items()}

    def names(self, half: Side | None = None) -> list[str]:
        """Experiments that both sides have, of one half of the split or all."""
        return [name for name in self.measured if name in self.modelled and half in (None, side(name))]

    def all_errors(self, half: Side | None = None) -> list[float]:
        return [abs(error) for name in self.names(half) for error in self.errors(name).values()]

    def median_error(self, half: Side | None = None) -> float:
        return statistics.median(self.all_errors(half))

    def within(self, most: float, half: Side | None = None) -> float:
        """Part of the figures that are off by at most ``most``."""
        errors = self.all_errors(half)
        return sum(error <= most for error in errors) / len(errors)

    def of(self, topic: str) -> Comparison:
        """The experiments of one topic alone."""
        return replace(
            self, measured={name: self.measured[name] for name in self.names() if EXPERIMENTS[name].topic == topic}
        )

    def pairs(self, least: float, half: Side | None = None) -> list[Pair]:
        """Pairs of variants that differ by more than ``least`` on the GPU."""
        found = []
        for name in self.names(half):
            for one, other in combinations(self.measured[name].items(), 2):
                (faster, low), (slower, high) = sorted((one, other), key=lambda entry: entry[1])
                if high / low - 1.0 > least:
                    right = self.modelled[name][slower] > self.modelled[name][faster]
                    settled = high - low > (self._range(name, faster) + self._range(name, slower)) / 2
                    found.append(Pair(name, faster, slower, high / low - 1.0, right, settled))
        return found

    def _range(self, name: str, variant: str) -> float:
        """Microseconds between the fastest and the slowest run."""
        return self.measured[name][variant] * self.spreads.get(name, {}).get(variant, 0.0)


def share_right(pairs: Iterable[Pair]) -> float:
    """Part of the pairs that are in the right order."""
    known = list(pairs)
    return sum(pair.right for pair in known) / len(known) if known else 1.0


LABELLED_HALVES: tuple[tuple[str, Side | None], ...] = (
    ("calibration", "calibration"),
    ("validation", "validation"),
    ("all", None),
)


def summary(comparison: Comparison) -> str:
    """What is asked of the model, and whether it holds, for each half and for all, as Markdown."""
    rows = ["| | calibration | validation | all |", "| --- | --- | --- | --- |"]
    asked: dict[str, list[str]] = defaultdict(list)
    for _, half in LABELLED_HALVES:
        errors = comparison.all_errors(half)
        asked["experiments"].append(str(len(comparison.names(half))))
        asked["figures"].append(str(len(errors)))
        if not errors:
            continue
        far = sum(error > FAR for error in errors)
        wrong, pairs = wrong_of(comparison.pairs(VISIBLE, half))
        clear, clear_pairs = wrong_of(comparison.pairs(CLEAR, half))
        median, near = comparison.median_error(half), comparison.within(NEAR, half)
        asked[f"median error, at most {TYPICAL:.0%}"].append(_verdict(f"{median:.1%}", median <= TYPICAL))
        asked[f"within {NEAR:.0%}, at least 95%"].append(_verdict(f"{near:.1%}", near >= 0.95))
        asked[f"more than {FAR:.0%} off, none"].append(_verdict(str(far), not far))
        label = f"pairs over {VISIBLE:.0%} apart in the wrong order, none"
        asked[label].append(_verdict(f"{wrong} of {pairs}", not wrong))
        asked[f"pairs over {CLEAR:.0%} apart in the wrong order, none"].append(
            _verdict(f"{clear} of {clear_pairs}", not clear)
        )
        settled, settled_pairs = wrong_of(pair for pair in comparison.pairs(VISIBLE, half) if pair.settled)
        asked[f"pairs over {VISIBLE:.0%} apart that the GPU's own runs settle, in the wrong order"].append(
            f"{settled} of {settled_pairs}"
        )
    rows += [f"| {label} | {' | '.join(cells)} |" for label, cells in asked.items()]
    return "\n".join(rows)


def _verdict(figure: str, met: bool) -> str:
    return f"{figure}: {'met' if met else '**not met**'}"


def wrong_of(pairs: Iterable[Pair]) -> tuple[int, int]:
    """How many pairs are in the wrong order, and how many there are."""
    known = list(pairs)
    return sum(not pair.right for pair in known), len(known)


def by_topic(comparison: Comparison) -> str:
    """How far off all figures and those of each topic are, as Markdown."""
    lines = [
        "| | figures | median error | mean error | within 15 % | more than 40 % off | wrong pairs over 10 % | "
        "wrong pairs over 25 % |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    topics = dict.fromkeys(EXPERIMENTS[name].topic for name in comparison.names())
    for label, part in (("all", comparison), *((topic, comparison.of(topic)) for topic in topics)):
        errors = part.all_errors()
        cells = [label, str(len(errors)), f"{part.median_error():.1%}", f"{statistics.mean(errors):.1%}"]
        cells += [f"{part.within(NEAR):.1%}", str(sum(error > FAR for error in errors))]
        for least in (VISIBLE, CLEAR):
            cells.append("{} of {}".format(*wrong_of(part.pairs(least))))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def wrong_pairs(comparison: Comparison) -> str:
    """Every pair in the wrong order that differs visibly, as Markdown."""
    lines = [
        "| experiment | half | faster on the GPU | slower | differ by | settled by its runs |",
        "| --- | --- | --- | --- | ---: | --- |",
    ]
    for pair in comparison.pairs(VISIBLE):
        if not pair.right:
            cells = (pair.experiment, side(pair.experiment), pair.faster, pair.slower, f"{pair.difference:.0%}")
            lines.append(f"| {' | '.join(cells)} | {'yes' if pair.settled else 'no'} |")
    return "\n".join(lines)


def per_experiment(comparison: Comparison) -> str:
    """One row an experiment, as Markdown."""
    lines = [
        "| experiment | topic | half | variants | median error | worst | right pairs |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    pairs: Mapping[str, list[Pair]] = {
        name: [pair for pair in comparison.pairs(VISIBLE) if pair.experiment == name] for name in comparison.names()
    }
    for name in comparison.names():
        errors = comparison.errors(name)
        worst = max(errors, key=lambda variant: abs(errors[variant]))
        topic = EXPERIMENTS[name].topic if name in EXPERIMENTS else ""
        right = sum(pair.right for pair in pairs[name])
        median = statistics.median(map(abs, errors.values()))
        lines.append(
            f"| {name} | {topic} | {side(name)} | {len(errors)} | {median:.0%} | {worst}: {errors[worst]:+.0%} | "
            f"{right} of {len(pairs[name])} |"
        )
    return "\n".join(lines)


def far_off(comparison: Comparison) -> str:
    """Every figure that is more than 40 % off, the furthest first, as Markdown."""
    lines = ["| experiment | half | variant | error |", "| --- | --- | --- | ---: |"]
    found = [
        (error, name, variant)
        for name in comparison.names()
        for variant, error in comparison.errors(name).items()
        if abs(error) > FAR
    ]
    for error, name, variant in sorted(found, key=lambda each: -abs(each[0])):
        lines.append(f"| {name} | {side(name)} | {variant} | {error:+.0%} |")
    return "\n".join(lines)


def figures(comparison: Comparison, spreads: Figures) -> str:
    """Every figure, with the spread of its runs where that is known, as Markdown."""
    lines = [
        "| experiment | variant | measured, us | spread | modelled, us | error |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name in comparison.names():
        for variant, error in comparison.errors(name).items():
            measured, modelled = comparison.measured[name][variant], comparison.modelled[name][variant]
            spread = spreads.get(name, {}).get(variant)
            cells = (name, variant, f"{measured:.2f}", "" if spread is None else f"{spread:.1%}", f"{modelled:.2f}")
            lines.append(f"| {' | '.join(cells)} | {error:+.0%} |")
    return "\n".join(lines)


def unmeasured(comparison: Comparison) -> str:
    """Figures of the model that no GPU has been asked for, as Markdown."""
    lines = ["| experiment | half | variant | modelled, us |", "| --- | --- | --- | ---: |"]
    for name, variants in comparison.modelled.items():
        for variant, time in variants.items():
            if variant not in comparison.measured.get(name, {}):
                lines.append(f"| {name} | {side(name)} | {variant} | {time:.2f} |")
    return "\n".join(lines)
