"""The exercises of chapter 14 say what is wrong with some answers that the table does not have."""

from __future__ import annotations

import pytest

from cudalab.checks import check
from tests.checks.answers.chapter_14 import ANSWERS_14_1, ANSWERS_14_2

TIMED = {line.name: line.source for line in ANSWERS_14_1 if line.source}
FORKED = {line.name: line.source for line in ANSWERS_14_2 if line.source}


@pytest.mark.parametrize("seed", range(4))
def test_the_seed_decides_nothing(seed):
    assert check("14.1", TIMED["one mark between two runs"], seed=seed).passed


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ("np.mean", "the mean"),
        ("np.min", "the fastest run"),
        ("np.sum", "all runs together"),
        ("0.001 * np.median", "milliseconds"),
    ],
)
def test_a_known_mistake_is_named(change, mistake):
    result = check("14.1", TIMED["one mark between two runs"].replace("np.median", change), seed=3)
    (finding,) = [f for f in result.findings if f.rule == "wrong values"]
    assert mistake in finding.mistake


@pytest.mark.parametrize("value", ["None", "'12 µs'", "[1, 2]"])
def test_what_is_no_number_is_said(value):
    source = TIMED["one mark between two runs"].replace("return ", "ignored = ") + f"    return {value}\n"
    assert "not a number of microseconds" in str(check("14.1", source, seed=3))


def test_one_kernel_left_out_is_said():
    source = FORKED["runtime calls"].replace("    left(main)\n", "")
    rules = {(f.part, f.rule) for f in check("14.2", source, seed=3).findings}
    assert ("correctness", "wrong launches") in rules or ("correctness", "wrong values") in rules


def test_a_buffer_used_again_needs_its_wait():
    """Right for one call; called twice, the next `prepare` writes what `right` of the call before may still read."""
    source = FORKED["combined in the other stream, and joined"].replace("    main.wait_event(side.record())\n", "")
    findings = check("14.2", source, seed=3).findings
    assert any(f.rule == "hazard" and "called twice" in f.text for f in findings)


def test_same_seed_gives_the_same_text():
    wrong = FORKED["runtime calls"].replace("    cudart.cudaEventRecord(done, side.ptr)\n", "")
    assert str(check("14.2", wrong, seed=5)) == str(check("14.2", wrong, seed=5))
