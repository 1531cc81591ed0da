"""The drawing of calls into streams: what begins when, and what each wait refers to."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from cudalab.plots import plot

FORK = (
    "a: prepare",
    "a: record ready",
    "b: wait ready",
    "a: left",
    "b: right",
    "b: record done",
    "a: wait done",
    "a: combine",
)


def hovers(drawing: plot.Illustration) -> list[str]:
    root = ElementTree.fromstring(drawing.svg())
    return [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")][1:]


def test_a_fork_and_a_join() -> None:
    drawing = plot.streams(FORK)
    assert {"prepare: from 0 to 1", "left: from 1 to 2", "right: from 1 to 2", "combine: from 2 to 3"} < {
        *hovers(drawing)
    }
    assert "Stream b waits for ready, recorded behind prepare; stream a waits for done" in drawing.summary
    assert drawing.summary.endswith("all is done after 3 (one after the other: 4).")


def test_a_wait_refers_to_the_last_record_at_the_time_of_the_call() -> None:
    again = plot.streams(["a: one", "a: record e", "b: wait e", "b: two", "a: three", "a: record e"])
    assert "two: from 1 to 2" in hovers(again)
    early = plot.streams(["a: one", "b: wait e", "a: record e", "b: two"])
    assert "two: from 0 to 1" in hovers(early)
    assert "Stream b waits for nothing, because e was not recorded yet" in early.summary


def test_the_host_delays_what_it_has_not_called_yet() -> None:
    calls = ["a: record start", "host: compute", "a: kernel", "a: record end"]
    drawing = plot.streams(calls, took={"compute": 3}, between=("start", "end"))
    assert "kernel: from 3 to 4" in hovers(drawing)
    assert drawing.summary.endswith("between start and end lie 4.")
    waits = plot.streams(["a: one", "host: wait a", "b: two"])
    assert "two: from 1 to 2" in hovers(waits)


@pytest.mark.parametrize(("engines", "end"), [(1, 6), (2, 4)])
def test_one_copy_engine_takes_copies_in_the_order_of_the_calls(engines: int, end: int) -> None:
    steps = ("copy in", "kernel", "copy out")
    depth = [f"{stream}: {step} {piece}" for piece, stream in enumerate("ab") for step in steps]
    assert f"copy out 1: from {end - 1} to {end}" in hovers(plot.streams(depth, engines=engines))
    breadth = [f"{stream}: {step} {piece}" for step in steps for piece, stream in enumerate("ab")]
    assert "copy out 1: from 3 to 4" in hovers(plot.streams(breadth, engines=engines))


@pytest.mark.parametrize(
    ("calls", "between", "words"),
    [
        (["prepare"], (), 'a call is "STREAM: WORK"'),
        (["a:"], (), 'a call is "STREAM: WORK"'),
        (["a: record e"], (), "no work to draw"),
        (["a: work"], ("start", "end"), "'start' is never recorded"),
    ],
)
def test_what_cannot_be_drawn_is_refused(calls: list[str], between: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plot.streams(calls, between=between)


def test_the_hosts_waits_are_no_work_that_could_overlap() -> None:
    calls = [call for number in range(3) for call in (f"host: fill {number}", f"a: copy in {number}", "host: wait a")]
    assert plot.streams(calls).summary == "All is done after 6, and nothing overlaps."


def test_another_number_of_engines_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1 or 2 engines \(got 0\)"):
        plot.streams(["a: copy in"], engines=0)
