"""The time model against the stored figures of an H200 (bench/fidelity): a slice in each run, all in the long ones."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.fidelity import document
from bench.fidelity.__main__ import compare
from bench.fidelity.catalogue import catalogue
from bench.fidelity.comparison import Comparison, common, far_off, share_right, summary, unmeasured
from bench.fidelity.experiment import EXPERIMENTS, Experiment, side
from bench.fidelity.laboratory import READING, Laboratory
from bench.fidelity.runner import run
from bench.fidelity.stored import H200, LATER, everything, medians, read
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
    "graphs, diamonds: launch, device time",
    "graphs, parallel: later launch, host time",
    "dependent launches: chains of empty kernels",
    "graphs: kernels of 10 us by shape",
)
#: Experiments that no GPU has run yet, because they take two. The list shrinks with the next figures.
AWAITING_GPU = {
    "peers: a kernel on each device",
    "peers: a peer copy, or two copies over the host",
    "peers: dependent loads from a peer's memory",
    "peers: events between two streams",
    "peers: two copies of 16 MB, until done",
}
#: The kernels of one of these topics are one module, which takes the compiler seconds; a run takes one of the topics.
LARGE_TOPICS = ("memory", "arithmetic", "algorithms")


@pytest.fixture(scope="module")
def stored():
    return everything()


def test_every_experiment_has_stored_figures_or_awaits_a_gpu(stored):
    names = {each.name for each in catalogue()}
    assert names - AWAITING_GPU == set(stored.figures)
    assert names > AWAITING_GPU
    assert stored.device == "NVIDIA H200" and stored.runs >= 3
    assert all(figure > 0 for variants in stored.figures.values() for figure in variants.values())


def test_the_split_is_decided_by_the_names():
    """SHA-256 of a name, its lowest bit, and what is declared: written down here so that it cannot move."""
    assert side("strided loads") == "validation"
    assert side("matrix products of 1024") == "calibration"
    assert side("graphs, chain: launch, device time") == "calibration"
    assert side("graphs, diamonds: launch, device time") == "validation"
    halves = [each.side for each in catalogue()]
    assert halves.count("calibration") == 116 and halves.count("validation") == 81


def test_the_page_says_what_is_met_what_is_not_and_what_was_not_measured(tmp_path, stored):
    names = ("strided loads", "copies in both directions", "peers: events between two streams")
    measured = {name: each for name, each in stored.figures.items() if name in names}
    modelled = {name: {variant: 1.1 * time for variant, time in each.items()} for name, each in measured.items()}
    first, *_ = modelled["strided loads"]
    modelled["strided loads"][first] *= 10
    modelled["peers: events between two streams"] = {"one device": 5.0}
    found = common(stored.figures, modelled)
    assert found.names() == ["copies in both directions", "strided loads"]
    rows = {row.split(" | ")[0]: row for row in summary(found).splitlines()}
    assert rows["| median error, at most 6%"].count("10.0%: **not met**") == 3
    assert rows["| more than 40% off, none"].startswith("| more than 40% off, none | 0: met | 1: **not met** |")
    assert f"| strided loads | validation | {first} | +1000% |" in far_off(found)
    assert "| peers: events between two streams | calibration | one device | 5.00 |" in unmeasured(found)
    document.write(tmp_path / "page.md", stored, found, [])
    text = (tmp_path / "page.md").read_text()
    for picture in ("errors", "distribution", "copies", "memory"):
        assert f"(page/{picture}.svg)" in text
        root = ElementTree.parse(tmp_path / "page" / f"{picture}.svg").getroot()
        assert "prefers-color-scheme: dark" in "".join(root.itertext())


def test_pairs_that_a_gpus_own_runs_do_not_settle_are_told_apart():
    """16 KB took one H200 between 3 and 9 us: whether that is less than 1 KB, no run says."""
    name = "short copies to the device behind a kernel"
    catalogue()
    measured = {name: {"1028 bytes": 9.0, "4096 bytes": 7.0, "16384 bytes": 4.5}}
    modelled = {name: {"1028 bytes": 9.0, "4096 bytes": 9.1, "16384 bytes": 9.4}}
    found = common(measured, modelled, {name: {"1028 bytes": 0.1, "4096 bytes": 0.1, "16384 bytes": 1.3}})
    pairs = {(pair.faster, pair.slower): pair for pair in found.pairs(0.10)}
    assert len(pairs) == 3 and not any(pair.right for pair in pairs.values())
    assert pairs["4096 bytes", "1028 bytes"].settled
    assert not pairs["16384 bytes", "4096 bytes"].settled
    assert "| 3 of 3: **not met** |" in summary(found) and "wrong order | 1 of 1 |" not in summary(found)
    assert "in the wrong order | 2 of 2 |" in summary(found)


def test_figures_of_several_runs_are_their_medians_with_their_spread():
    runs = [{"a": {"x": 10.0, "y": 1.0}}, {"a": {"x": 12.0, "y": 1.0}}, {"a": {"x": 11.0, "y": 1.0}, "b": {"z": 2.0}}]
    spread, figures, spreads = medians(runs)
    assert figures == {"a": {"x": 11.0, "y": 1.0}, "b": {"z": 2.0}}
    assert (
        spreads["a"]["x"] == pytest.approx(2 / 11, abs=1e-4) and spreads["a"]["y"] == spreads["b"]["z"] == spread == 0
    )


def test_an_experiment_that_raises_is_named_and_the_others_go_on():
    def broken(laboratory):
        yield "first", 1.0
        raise RuntimeError("no such call")

    failed: list[str] = []
    experiments = [Experiment("broken", "launches", broken), EXPERIMENTS["calls of events and streams: host time"]]
    assert list(run(experiments, failed=failed)) == ["calls of events and streams: host time"]
    assert failed == ["broken: RuntimeError: no such call"]
    with pytest.raises(RuntimeError, match="no such call"):
        run(experiments)


def test_experiments_for_which_there_are_no_devices_end_with_a_sentence(capsys):
    asked = {"measured": None, "modelled": None, "figures": False, "ablate": False, "document": None}
    assert compare(["peers"], None, **asked) == 1
    said = capsys.readouterr()
    assert "they take 2 devices, and CUDALAB_DEVICE=" in said.err and "CUDALAB_DEVICE=sim:h200-x2" in said.err
    assert compare(["no such topic"], None, **asked) == 1
    assert "No experiment was asked for" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "within", "left_out"),
    [
        ("calls behind a kernel, host time: events", 0.28, ()),
        ("calls on an idle device, host time: blocking", 0.17, ("array.sum().item()",)),
        ("calls: launches with attributes, host time", 0.20, ()),
        ("short copies and memsets between events", 0.14, ()),
        ("starts: empty kernels by number of blocks and size of the cluster", 0.05, ()),
        ("starts: kernels of a graph that are switched off", 0.13, ()),
        ("starts: rows of which each node comes behind all of the row before", 0.11, ()),
        ("graphs, chain: instantiation, host time", 0.13, ()),
    ],
)
def test_experiments_that_constants_come_from_are_close_to_an_h200(stored, name, within, left_out):
    """The same call takes less by CuPy than by ``cuda.bindings``, and a launch more; copies wait for their engine, and
    graphs of many nodes take longer for each."""
    catalogue()
    assert side(name) == "calibration"
    found = Comparison({name: stored.figures[name]}, run([EXPERIMENTS[name]]))
    errors = {variant: error for variant, error in found.errors(name).items() if variant not in left_out}
    assert {variant: error for variant, error in errors.items() if abs(error) > within} == {}


def test_figures_of_single_calls_contain_two_looks_at_the_clock():
    """As those of a GPU do, on which a look takes time."""
    laboratory = Laboratory()
    assert laboratory.calls(lambda: None) == READING
    assert laboratory.calls(lambda: None, 100) == READING / 100


def test_cutting_work_into_64_chunks_costs_the_host_more_than_it_gains(stored):
    """What CuPy does in Python for ``with stream:`` counts."""
    name = "pipeline by number of chunks"
    found = Comparison({name: stored.figures[name]}, run([EXPERIMENTS[name]]))
    assert [pair for pair in found.pairs(0.10) if not pair.right] == []


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
@pytest.mark.timeout(900)
def test_all_experiments(stored):
    """Those that take two devices run in a process of the whole report (``python -m bench.fidelity``)."""
    found = common(stored.figures, run(catalogue()))
    older = {name for path in (H200, LATER[0]) for name in read(path).figures}
    assert [pair for pair in found.pairs(0.25) if not pair.right and pair.experiment in older] == []
    assert share_right(pair for pair in found.pairs(0.10) if pair.experiment in older) >= 0.95
    of_older = Comparison({name: found.measured[name] for name in older}, found.modelled)
    assert of_older.median_error() < 0.15
    assert of_older.within(0.40) >= 0.90
    assert len(found.names()) >= 145
    assert share_right(found.pairs(0.25)) >= 0.90
    assert found.median_error() < 0.15
