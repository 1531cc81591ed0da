"""How far modelled figures are from measured ones: errors, and the order of variants."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from bench.fidelity.experiment import EXPERIMENTS, Side, side
from bench.fidelity.runner import Figures

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


@dataclass(frozen=True)
class Comparison:
    """Modelled against measured figures."""

    measured: Figures
    modelled: Figures

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
        return Comparison(
            {name: self.measured[name] for name in self.names() if EXPERIMENTS[name].topic == topic}, self.modelled
        )

    def pairs(self, least: float, half: Side | None = None) -> list[Pair]:
        """Pairs of variants that differ by more than ``least`` on the GPU."""
        found = []
        for name in self.names(half):
            for one, other in combinations(self.measured[name].items(), 2):
                (faster, low), (slower, high) = sorted((one, other), key=lambda entry: entry[1])
                if high / low - 1.0 > least:
                    right = self.modelled[name][slower] > self.modelled[name][faster]
                    found.append(Pair(name, faster, slower, high / low - 1.0, right))
        return found


def share_right(pairs: Iterable[Pair]) -> float:
    """Part of the pairs that are in the right order."""
    known = list(pairs)
    return sum(pair.right for pair in known) / len(known) if known else 1.0


def summary(comparison: Comparison) -> str:
    """The table of the targets, as Markdown."""
    rows = [
        "| | experiments | figures | median error | within 40 % | pairs over 10 % right | pairs over 25 % right |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    halves: tuple[tuple[str, Side | None], ...] = (
        ("calibration", "calibration"),
        ("validation", "validation"),
        ("all", None),
    )
    for label, half in halves:
        cells = [label, str(len(comparison.names(half))), str(len(comparison.all_errors(half)))]
        cells += [f"{comparison.median_error(half):.1%}", f"{comparison.within(0.4, half):.1%}"]
        for least in (VISIBLE, CLEAR):
            pairs = comparison.pairs(least, half)
            cells.append(f"{sum(pair.right for pair in pairs)} of {len(pairs)} ({share_right(pairs):.1%})")
        rows.append(f"| {' | '.join(cells)} |")
    rows.append("| aim | 40 | | 15 % | 90 % | 95 % | 100 % |")
    return "\n".join(rows)


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
        cells += [f"{part.within(0.15):.1%}", str(sum(error > 0.4 for error in errors))]
        for least in (VISIBLE, CLEAR):
            pairs = part.pairs(least)
            cells.append(f"{sum(not pair.right for pair in pairs)} of {len(pairs)}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def wrong_pairs(comparison: Comparison, half: Side | None = None) -> str:
    """Every pair in the wrong order that differs visibly, as Markdown."""
    lines = ["| experiment | half | faster on the GPU | slower | differ by |", "| --- | --- | --- | --- | ---: |"]
    for pair in comparison.pairs(VISIBLE, half):
        if not pair.right:
            cells = (pair.experiment, side(pair.experiment), pair.faster, pair.slower, f"{pair.difference:.0%}")
            lines.append(f"| {' | '.join(cells)} |")
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


def figures(comparison: Comparison) -> str:
    """Every figure, as Markdown."""
    lines = ["| experiment | variant | measured, us | modelled, us | error |", "| --- | --- | ---: | ---: | ---: |"]
    for name in comparison.names():
        for variant, error in comparison.errors(name).items():
            measured, modelled = comparison.measured[name][variant], comparison.modelled[name][variant]
            lines.append(f"| {name} | {variant} | {measured:.2f} | {modelled:.2f} | {error:+.0%} |")
    return "\n".join(lines)
