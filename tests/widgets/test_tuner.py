"""A tuner: what it draws, which points it keeps, and that work follows a press of a button."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import numpy as np
import pytest

from cudalab.plots.tuning import Point, tuning
from cudalab.widgets.output import WIDGET_VIEW
from cudalab.widgets.tuner import Tuner, tune


@dataclass
class Timing:
    microseconds: float
    kind: str = "modelled"


def slowest_first(calls):
    def run(n, block):
        calls.append((n, block))
        return Timing(n / block)

    return run


SIZES = {"small": 1000, "large": 64_000}


def test_tune_shows_controls_and_then_a_picture_with_its_sentence(page):
    calls: list = []
    tuner = tune(slowest_first(calls), sizes=SIZES, bytes=lambda n: 12 * n, peak=1e5, unit="threads", block=[32, 64])
    assert calls == [(64_000, 32), (64_000, 64)]
    controls, drawing, sentence = page.shown
    assert WIDGET_VIEW in controls and "image/svg+xml" in drawing
    assert "the best so far is block (threads) = **64** with 1000 µs" in sentence["text/markdown"]
    assert "modelled" in sentence["text/markdown"]
    assert (tuner.best, tuner.best_microseconds) == (64, 1000)


def test_a_press_of_run_adds_a_point_in_the_place_of_the_picture(page):
    calls: list = []
    tuner = tune(slowest_first(calls), sizes=SIZES, sweep=[32], block=[32, 64])
    tuner.value_choice.value = 64
    assert calls == [(64_000, 32)], "choosing runs nothing"
    tuner.run_button.click()
    assert calls[1:] == [(64_000, 64)]
    assert "image/svg+xml" in page.replaced[0]
    assert "**64** with 1000 µs" in page.replaced[1]["text/markdown"]
    assert "64: <strong>1000 µs</strong>" in tuner.status.value


def test_run_is_off_while_it_runs():
    seen = []

    def run(n, block):
        seen.append((tuner.run_button.disabled, tuner.all_button.disabled))
        return Timing(1.0)

    tuner = Tuner(run, sizes=SIZES, block=[32])
    tuner.run_button.click()
    assert seen == [(True, True)]
    assert not tuner.run_button.disabled and not tuner.all_button.disabled


def test_points_are_kept_for_each_size():
    tuner = Tuner(slowest_first([]), sizes=SIZES, size="small", block=[32, 64])
    tuner.all_button.click()
    tuner.size_choice.value = "large"
    tuner.run_button.click()
    assert [point.value for point in tuner.points["small"]] == [32, 64]
    assert [point.value for point in tuner.points["large"]] == [32]


def test_a_curve_is_that_of_the_size_that_is_chosen(page):
    tuner = tune(slowest_first([]), sizes=SIZES, size="small", block=[32, 64])
    found = tuner.picture.summary
    tuner.size_choice.value = "large"
    assert page.replaced[-1]["text/plain"] == "large: no run yet."
    tuner.size_choice.value = "small"
    assert tuner.picture.summary == found and found.startswith("small: the best so far")


def test_choosing_a_size_before_anything_was_drawn_draws_nothing(page):
    tuner = Tuner(slowest_first([]), sizes=SIZES, block=[32])
    tuner.size_choice.value = "small"
    assert tuner.picture is None and not page.shown


def test_a_time_to_compare_with_is_drawn_for_its_own_size(page):
    tuner = tune(slowest_first([]), sizes=SIZES, block=[32, 64], compare={"without": {next(iter(SIZES.values())): 7.0}})
    assert "without" not in tuner.picture.summary
    tuner.size_choice.value = next(iter(SIZES))
    tuner.sweep()
    assert tuner.picture.summary.endswith("; without takes 7 µs.")


def test_a_failing_run_is_shown_and_the_button_comes_back():
    def run(n, block):
        problem = RuntimeError("cudaErrorInvalidConfiguration")
        problem.add_note("at most 1024 threads a block")
        raise problem

    tuner = Tuner(run, sizes=SIZES, block=[2048])
    tuner.run_button.click()
    assert "cudaErrorInvalidConfiguration" in tuner.status.value and "at most 1024" in tuner.status.value
    assert not tuner.run_button.disabled


def test_an_interrupt_keeps_the_points_so_far():
    def run(n, block):
        if block == 64:
            raise KeyboardInterrupt
        return Timing(1.0)

    tuner = Tuner(run, sizes=SIZES, block=[32, 64, 128])
    tuner.all_button.click()
    assert [point.value for point in tuner.points["large"]] == [32]
    assert "Stopped" in tuner.status.value and not tuner.run_button.disabled


def test_points_of_an_older_function_or_of_older_arrays_are_dropped():
    """As chapter 11 does, which binds its arrays anew below its tuner."""
    cell = {"Timing": Timing, "x": np.zeros(4)}
    exec("def helper(block):\n    return Timing(len(x) / block)\ndef run(n, block):\n    return helper(block)", cell)
    tuner = Tuner(cell["run"], sizes=SIZES, block=[32, 64])
    tuner.all_button.click()
    tuner.all_button.click()
    assert len(tuner.points["large"]) == 4, "nothing has changed"
    cell["x"] = np.zeros(4)
    tuner.run_button.click()
    assert [point.value for point in tuner.points["large"]] == [32] and "older arrays" in tuner.status.value
    tuner.run_button.click()
    assert len(tuner.points["large"]) == 2 and "older" not in tuner.status.value
    exec("def helper(block):\n    return Timing(7.0)", cell)
    tuner.run_button.click()
    assert [point.microseconds for point in tuner.points["large"]] == [7.0]
    exec("def run(n, block):\n    return Timing(8.0)", cell)
    tuner.run_button.click()
    assert [point.microseconds for point in tuner.points["large"]] == [8.0], "the newest function runs"


def test_run_all_can_be_stopped():
    async def learner():
        def run(n, block):
            ran.append(block)
            return Timing(1.0)

        ran = []
        tuner = Tuner(run, sizes=SIZES, block=list(range(1, 100)))
        tuner.all_button.click()
        while len(ran) < 2:
            await asyncio.sleep(0)
        assert tuner.all_button.description == "Stop" and not tuner.all_button.disabled
        tuner.all_button.click()
        await tuner._task
        return tuner, ran

    tuner, ran = asyncio.run(learner())
    assert 2 <= len(ran) < 99 and len(tuner.points["large"]) == len(ran)
    assert "Stopped" in tuner.status.value and tuner.all_button.description == "Run all"


def test_a_press_of_stop_is_heard_between_two_settings_on_a_busy_machine():
    """What brings a message to its handler takes the kernel several turns of its loop, here of 4 ms each."""

    async def learner():
        ran = []

        def run(n, block):
            ran.append(block)
            return Timing(1.0)

        tuner = Tuner(run, sizes=SIZES, block=list(range(1, 20)))
        tuner.all_button.click()
        while not ran:
            await asyncio.sleep(0)
        for _ in range(12):
            time.sleep(0.004)
            await asyncio.sleep(0)
        tuner.all_button.click()
        await tuner._task
        return ran

    assert len(asyncio.run(learner())) <= 2


def test_a_measured_point_is_the_median_of_several_runs():
    times = iter([9.0, 2.0, 3.0])
    tuner = Tuner(lambda n, block: Timing(next(times), "measured"), sizes=SIZES, block=[32])
    assert tuner.measure(32).microseconds == 3.0 and list(times) == []


def test_a_tuner_takes_microseconds_that_the_function_found_itself():
    tuner = tune(lambda size, nodes: 2.5 * nodes, sizes=SIZES, sweep=False, nodes=[1, 4])
    assert tuner.measure(4).microseconds == 10.0
    assert tuner.kind == "modelled"


def test_a_tuners_picture_keeps_its_height_and_marks_the_newest_point():
    choices = [32, 64, 128, 256, 512, 1024, 2048, 4096]
    points = [Point(value, 100.0 / value, 1.0) for value in choices]
    pictures = [tuning(points[:count], parameter="block", kind="modelled", choices=choices) for count in (0, 1, 2, 8)]
    assert len({tuple(picture.figure.get_size_inches())[1] for picture in pictures}) == 1
    shown = [text.get_text() for text in pictures[2].figure.axes[0].texts]
    assert sorted(shown) == ["□ newest: 64", "◯ best: 64 · 1.56 µs"]
    for text in pictures[3].figure.axes[0].texts:
        assert text.xyann[1] > 0 and text.xy[1] == 1, "above the axes, where no label is"


@pytest.mark.parametrize("parameters", [{}, {"block": [1], "tile": [1]}])
def test_tune_takes_one_parameter(parameters):
    with pytest.raises(TypeError, match="exactly one parameter"):
        Tuner(slowest_first([]), sizes=SIZES, **parameters)


@pytest.mark.parametrize("arguments", [{"sizes": {}}, {"sizes": SIZES, "size": "huge"}])
def test_tune_refuses_sizes_that_do_not_exist(arguments):
    with pytest.raises(ValueError, match="size"):
        Tuner(slowest_first([]), block=[1], **arguments)


def test_best_before_any_run_says_so():
    with pytest.raises(ValueError, match="nothing has run yet"):
        _ = Tuner(slowest_first([]), sizes=SIZES, block=[1]).best
