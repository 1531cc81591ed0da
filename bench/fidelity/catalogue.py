"""All experiments, by name, in the order of their topics; and the held-out ones, which judge the model and never fit
it."""

from types import ModuleType
from typing import Literal

from bench.fidelity import (
    algorithms,
    arithmetic,
    attributes,
    calls,
    cooperation,
    copies,
    graphs,
    launches,
    mapped,
    memory,
    peers,
    starts,
    streams,
    windows,
)
from bench.fidelity.experiment import EXPERIMENTS, Experiment
from bench.fidelity.held_out import bandwidth, data, latency, third_bandwidth, third_data, third_latency

HeldOut = Literal["second", "third"]


def _topics(*modules: ModuleType) -> tuple[str, ...]:
    return tuple(module.__name__.rsplit(".", 1)[-1] for module in modules)


TOPICS = _topics(
    copies,
    launches,
    calls,
    memory,
    arithmetic,
    algorithms,
    cooperation,
    streams,
    graphs,
    attributes,
    starts,
    mapped,
    windows,
    peers,
)
HELD_OUT: dict[HeldOut, tuple[str, ...]] = {
    "second": _topics(latency, data, bandwidth),
    "third": _topics(third_latency, third_data, third_bandwidth),
}


def catalogue(held_out: HeldOut | None = None) -> list[Experiment]:
    """All experiments that are not held out, or those of one held-out set, topic by topic."""
    topics = TOPICS if held_out is None else HELD_OUT[held_out]
    return sorted(
        (each for each in EXPERIMENTS.values() if each.topic in topics), key=lambda each: topics.index(each.topic)
    )
