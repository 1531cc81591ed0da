"""The tuner of streams and order: what it runs, what it draws, and that work follows a press of a button."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import cp
from cudalab.plots.settings import settings
from cudalab.plots.tuning import Point
from cudalab.tracing import trace
from cudalab.widgets.output import WIDGET_VIEW
from cudalab.widgets.tuner import tune
from cudalab.widgets.work_tuner import WorkTuner

ADD = 'extern "C" __global__ void add(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f; }'


@pytest.fixture
def run():
    add = cp.RawKernel(ADD, "add")
    x = cp.zeros(1 << 12, np.float32)
    cp.cuda.Device().synchronize()
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
    calls = []

    def issue(count, order):
        calls.append((count, order))
        for at in range(4):
            part = x[at << 10 : (at + 1) << 10]
            add((4,), (256,), (part,), stream=streams[at % count if order == "round" else at * count // 4])

    issue.calls = calls
    return issue


def test_all_settings_run_and_both_pictures_follow_with_their_sentences(page, run):
    tuner = tune(run, streams=[1, 2, 4], order=["round", "blocks"])
    assert run.calls == [(count, order) for order in ("round", "blocks") for count in (1, 2, 4)]
    assert [sorted(data) for data in page.shown] == [
        ["application/vnd.jupyter.widget-view+json", "text/html", "text/plain"],
        ["image/png", "image/svg+xml", "text/html", "text/plain"],
        ["text/markdown", "text/plain"],
        ["image/svg+xml", "text/html", "text/plain"],
        ["text/markdown", "text/plain"],
    ]
    assert [point.value for point in tuner.points["round"]] == [1, 2, 4] and set(tuner.points) == {"round", "blocks"}
    assert tuner.timelines[(2, "round")].elapsed == tuner.points["round"][1].microseconds
    assert tuner.best_microseconds == min(t.elapsed for t in tuner.timelines.values())
    assert "is fastest so far with" in page.shown[2]["text/markdown"] and "modelled" in page.shown[2]["text/plain"]
    assert f"streams {tuner.best[0]}, {tuner.best[1]}" in page.shown[3]["image/svg+xml"]


def test_run_issues_the_chosen_setting_and_redraws_both(page, run):
    tuner = tune(run, sweep=False, streams=[1, 2, 4], order=["round", "blocks"])
    assert run.calls == [] and [WIDGET_VIEW in data for data in page.shown] == [True]
    tuner.choices["streams"].value, tuner.choices["order"].value = 4, "blocks"
    tuner.run_button.click()
    assert {span.stream for span in tuner.timelines[(4, "blocks")].kernels} == {f"streams[{at}]" for at in range(4)}
    assert run.calls == [(4, "blocks")] and "streams 4, blocks" in tuner.status.value
    tuner.choices["order"].value = "round"
    tuner.run_button.click()
    assert run.calls[1:] == [(4, "round")]
    assert len(page.shown) == 5 and len(page.replaced) == 4
    assert "streams 4, round" in page.replaced[2]["image/svg+xml"]
    assert not tuner.run_button.disabled and tuner.progress.layout.visibility == "hidden"


def test_one_parameter_needs_no_series(page, run):
    tuner = tune(lambda count: run(count, "round"), streams=[1, 2], unit="of them")
    assert [point.value for point in tuner.points[""]] == [1, 2]
    assert "**streams (of them) " in page.shown[2]["text/markdown"]


def test_a_timeline_that_run_returns_is_what_counts(page, run):
    kept = []

    def traced(count):
        run(1, "round")
        cp.cuda.Device().synchronize()
        with trace() as t:
            run(count, "round")
        kept.append(t)
        return t

    tuner = tune(traced, streams=[2])
    assert tuner.timelines[(2,)] is kept[0] and len(kept[0].kernels) == 4


def test_buttons_are_off_while_it_runs(page, run):
    seen = []

    def watched(count):
        seen.append(tuner.run_button.disabled and tuner.all_button.disabled)
        run(count, "round")

    tuner = WorkTuner(watched, {"streams": [1, 2]})
    tuner.show()
    tuner.all_button.click()
    assert seen == [True, True] and not tuner.run_button.disabled


def test_an_error_stands_below_the_controls_and_points_are_kept(page, run):
    def fails(count):
        if count == 2:
            raise ValueError("no second stream")
        run(count, "round")

    tuner = WorkTuner(fails, {"streams": [1, 2]})
    tuner.show()
    tuner.all_button.click()
    assert "ValueError: no second stream" in tuner.status.value and len(tuner.points[""]) == 1
    with pytest.raises(ValueError, match="no second stream"):
        tune(fails, streams=[2])


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({}, TypeError, "a parameter with its values"),
        ({"streams": []}, ValueError, "streams needs a list"),
        ({"order": ["a", "b"]}, TypeError, "must be a list of numbers"),
        ({"streams": [1], "order": "depth"}, ValueError, "order needs a list"),
        ({"streams": [1], "peak": 3.0}, TypeError, "belong to sizes"),
    ],
)
def test_tune_refuses_what_is_no_choice(arguments, error, words):
    with pytest.raises(error, match=words):
        tune(lambda *values: None, **arguments)


def test_a_setting_has_a_value_for_each_parameter(run):
    tuner = WorkTuner(run, {"streams": [1], "order": ["round"]})
    with pytest.raises(ValueError, match="a value for each of streams, order"):
        tuner.measure(1)
    with pytest.raises(ValueError, match="nothing has run yet"):
        tuner.best_microseconds  # noqa: B018


def test_the_curve_names_its_series_and_its_best():
    points = {"depth": [Point(1, 30.0), Point(2, 20.0)], "breadth": [Point(2, 15.0)]}
    picture = settings(points, parameter="streams", kind="modelled", choices=[1, 2, 4])
    assert picture.summary == (
        "**streams 2**, breadth, is fastest so far with 15 µs, modelled; "
        "the slowest, streams 1, depth, takes 2 times as long."
    )
    assert "depth, breadth" in picture.alt
    assert settings({"": []}, parameter="streams", kind="no run yet", choices=[1]).summary == "No run yet."


def test_a_number_that_the_function_returns_counts_instead_of_the_time_on_the_device(page, run):
    latencies = {1: 70.0, 2: 30.0, 4: 50.0}

    def time_to_answer(count):
        run(count, "round")
        return latencies[count]

    tuner = tune(time_to_answer, streams=[1, 2, 4])
    assert {point.value: point.microseconds for point in tuner.points[""]} == latencies
    assert tuner.best == (2,) and tuner.best_microseconds == 30.0
    assert tuner.timelines[4,].elapsed != 50.0
    assert "the time to answer against streams" in tuner.curve.alt
    assert tuner.curve.summary == (
        "**streams 2** has the shortest time to answer so far with 30 µs, modelled; "
        "the longest, of streams 1, is 2.33 times that."
    )
