"""All experiments, by name, in the order of their topics; and the held-out ones, which judge the model and never fit
it."""

from bench.fidelity import algorithms, arithmetic, cooperation, copies, launches, memory, streams
from bench.fidelity.experiment import EXPERIMENTS, Experiment
from bench.fidelity.held_out import bandwidth, data, latency

TOPICS = tuple(
    module.__name__.rsplit(".", 1)[-1]
    for module in (copies, launches, memory, arithmetic, algorithms, cooperation, streams)
)
HELD_OUT = tuple(module.__name__.rsplit(".", 1)[-1] for module in (latency, data, bandwidth))


def catalogue(*, held_out: bool = False) -> list[Experiment]:
    """All experiments of one kind, topic by topic."""
    topics = HELD_OUT if held_out else TOPICS
    return sorted(
        (each for each in EXPERIMENTS.values() if each.topic in topics), key=lambda each: topics.index(each.topic)
    )
