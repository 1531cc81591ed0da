"""All experiments, by name, in the order of their topics."""

from bench.fidelity import algorithms, arithmetic, cooperation, copies, launches, memory, streams
from bench.fidelity.experiment import EXPERIMENTS, Experiment

TOPICS = tuple(
    module.__name__.rsplit(".", 1)[-1]
    for module in (copies, launches, memory, arithmetic, algorithms, cooperation, streams)
)


def catalogue() -> list[Experiment]:
    """All experiments, topic by topic."""
    return sorted(EXPERIMENTS.values(), key=lambda each: TOPICS.index(each.topic))
