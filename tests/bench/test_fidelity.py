"""The time model against the stored figures of an H200 (bench/fidelity): a slice in each run, all in the long ones."""

from __future__ import annotations

import pytest

from bench.fidelity.catalogue import catalogue
from bench.fidelity.comparison import Comparison, share_right
from bench.fidelity.experiment import EXPERIMENTS, side
from bench.fidelity.runner import run
from bench.fidelity.stored import everything
from tests import slices

ALIKE = (
    "copies to the host, pinned, by size",
    "one copy or many",
    "launch and wait",
    "vector addition by block size",
    "strided loads",
    "gathers by order of the indices",
    "transposes",
    "occupancy limited by shared memory",
    "operations by kind, full SMs",
    "bank conflicts by stride",
    "divergence by number of ways",
    "matrix products of 1024",
    "histograms by data, global atomics",
    "reductions",
    "pipeline by number of streams",
)
#: The kernels of one of these topics are one module, which takes the compiler seconds; a run takes one of the topics.
LARGE_TOPICS = ("memory", "arithmetic", "algorithms")


@pytest.fixture(scope="module")
def stored():
    return everything()


def test_every_experiment_has_stored_figures(stored):
    names = {each.name for each in catalogue()}
    assert names == set(stored.figures)
    assert len(names) >= 40
    assert stored.device == "NVIDIA H200" and stored.runs >= 3
    assert all(figure > 0 for variants in stored.figures.values() for figure in variants.values())


def test_the_split_is_decided_by_the_names():
    """SHA-256 of a name, its lowest bit: written down here so that it cannot move."""
    assert side("strided loads") == "validation"
    assert side("matrix products of 1024") == "calibration"
    halves = [each.side for each in catalogue()]
    assert halves.count("calibration") == 47 and halves.count("validation") == 56


def test_a_slice_of_the_experiments_is_close_to_an_h200(stored):
    """One test, since they are run once for all that is asked of them."""
    catalogue()
    left_out = [topic for position, topic in enumerate(LARGE_TOPICS) if not slices.is_in(position, len(LARGE_TOPICS))]
    taken = [name for name in ALIKE if EXPERIMENTS[name].topic not in left_out]
    assert len(taken) >= 7
    found = Comparison(stored.figures, run(EXPERIMENTS[name] for name in taken))
    for name in taken:
        assert list(found.modelled[name]) == list(found.measured[name])
    pairs = found.pairs(0.25)
    assert len(pairs) > 75
    assert [pair for pair in pairs if not pair.right] == []
    assert share_right(found.pairs(0.10)) >= 0.95
    assert found.median_error() < 0.15
    assert found.within(0.40) >= 0.90


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_experiments(stored):
    found = Comparison(stored.figures, run(catalogue()))
    assert [pair for pair in found.pairs(0.25) if not pair.right] == []
    assert share_right(found.pairs(0.10)) >= 0.95
    assert found.median_error() < 0.15
    assert found.within(0.40) >= 0.90
