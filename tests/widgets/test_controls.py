"""Controls: what the learner sees, what a page without a kernel keeps, and that work follows a press of a button."""

from __future__ import annotations

import ast
import asyncio
import re
import time
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import cudalab.widgets
from cudalab.course.progress import Progress
from cudalab.dev import notebook_format as rules
from cudalab.plots.tuning import Point, tuning
from cudalab.widgets.output import WIDGET_VIEW
from cudalab.widgets.prediction import Choice, Prediction, predict
from cudalab.widgets.prediction import load as load_prediction
from cudalab.widgets.question import Option, Question, load, quiz
from cudalab.widgets.tuner import Tuner, tune


@dataclass
class Timing:
    microseconds: float
    kind: str = "modelled"


def texts(page):
    return [data["text/markdown"] for data in page.shown if "text/markdown" in data]


# --- predict ---------------------------------------------------------------------------------------------------------


def icons(options):
    return [button.icon for button in options.buttons]


def test_a_prediction_shows_its_question_as_text_beside_the_buttons(page):
    prediction = predict("How many?", [3, 4])
    assert "**Predict.** How many?" in texts(page)[0]
    assert "3 · 4" in texts(page)[0] and "3 · 4" in page.shown[0]["text/plain"]
    assert "<div" not in page.shown[0]["text/plain"]
    assert [WIDGET_VIEW in data for data in page.shown] == [False, True]
    assert [button.description for button in prediction.options.buttons] == ["A · 3", "B · 4"]


def test_a_click_on_an_option_commits_until_the_run_has_answered(page):
    prediction = predict("How many?", [3, 4])
    prediction.options.buttons[0].click()
    prediction.options.buttons[1].click()
    assert prediction.answer == 1 and "You say <strong>4</strong>" in prediction.feedback.value
    assert icons(prediction.options) == ["circle-o", "dot-circle-o"]
    prediction.compare(4)
    assert (
        all(button.disabled for button in prediction.options.buttons)
        and prediction.skip_button.layout.display == "none"
    )


def test_a_run_that_has_answered_one_prediction_leaves_the_buttons_of_others():
    one, other = predict("How many?", [3, 4]), predict("How long?", numbers=["first"])
    one.compare(4)
    assert one.skip_button.layout.display == "none"
    assert all(button.layout.display != "none" for button in (other.skip_button, other.commit_button))


@pytest.mark.parametrize(
    "answer, found, words, looks",
    [
        (None, 4, "without a prediction", ["circle-o", "check"]),
        (1, 4, "As you predicted", ["circle-o", "check"]),
        (0, 4, "Not as you predicted", ["times", "check"]),
        (1, 4.0, "As you predicted", ["circle-o", "check"]),
        (0, 3.6, "Not as you predicted", ["times", "check"]),
    ],
)
def test_the_run_decides_and_the_verdict_is_live_only(page, answer, found, words, looks):
    prediction = predict("How many?", [3, 4])
    if answer is not None:
        prediction.options.buttons[answer].click()
    prediction.compare(found)
    assert words in prediction.verdict.value and icons(prediction.options) == looks
    said, live = page.shown[-2:]
    assert "The run says" in said["text/markdown"] and "4" in said["text/markdown"] and WIDGET_VIEW in live
    stored = " ".join(text for data in page.shown for kind, text in data.items() if kind != WIDGET_VIEW)
    assert "predicted" not in stored and "without a prediction" not in stored


def test_a_number_between_the_choices_is_told_with_the_nearest(page):
    predict("How many times?", [1, 2, 16]).compare(2.4)
    assert texts(page)[-1] == "The run says 2.4, nearest to **2**."


def test_skipping_is_possible_and_seen():
    prediction = Prediction("How many?", [Choice("3"), Choice("4")])
    prediction.options.buttons[0].click()
    prediction.skip_button.click()
    assert prediction.answer is None and "Skipped" in prediction.feedback.value
    assert icons(prediction.options) == ["circle-o", "circle-o"]
    prediction.compare(4)
    assert "You skipped this prediction" in prediction.verdict.value


def test_a_wrong_choice_has_its_reason_and_words_of_the_run_decide():
    prediction = Prediction("What?", [Choice("it works", "out of reach", "None"), Choice("an error", "", "Illegal")])
    prediction.options.buttons[0].click()
    prediction.compare("cudaErrorIllegalAddress: an illegal memory access")
    assert "out of reach" in prediction.verdict.value and icons(prediction.options) == ["times", "check"]
    with pytest.raises(ValueError, match="no choice of"):
        prediction.compare("something else")


def test_of_two_choices_whose_words_the_run_says_the_longer_counts(page):
    prediction = Prediction("Who?", [Choice("everybody", "", "all"), Choice("its own block", "", "own and all")])
    prediction.compare("own and all")
    assert "its own block" in texts(page)[-1]


def test_numbers_are_compared_one_by_one(page):
    prediction = Prediction("Sectors?", [], {"stride 1": "128 bytes", "stride 2": "twice as many"})
    prediction.show()
    prediction.fields["stride 1"].value = "4"
    prediction.fields["stride 2"].value = "4"
    prediction.commit_button.click()
    prediction.compare({"stride 1": 4, "stride 2": 8})
    assert texts(page)[-1] == "The run says stride 1: **4** · stride 2: **8**."
    table = prediction.verdict.value
    assert "✔ as predicted" in table and "✘ not as predicted" in table
    assert "twice as many" in table and "128 bytes" not in table


def test_numbers_that_are_filled_in_count_without_a_press_on_commit():
    prediction = predict("How many sectors?", numbers=["stride 1"])
    prediction.fields["stride 1"].value = "4"
    prediction.compare({"stride 1": 4})
    assert "as predicted" in prediction.verdict.value


def test_empty_fields_are_no_prediction():
    prediction = predict("How many sectors?", numbers=["stride 1"])
    prediction.compare({"stride 1": 4})
    assert "without a prediction" in prediction.verdict.value


def test_a_field_that_is_no_number_is_asked_for_again():
    prediction = Prediction("Sectors?", [], {"stride 1": ""})
    prediction.fields["stride 1"].value = "four"
    prediction.commit_button.click()
    assert prediction.answer is None and "Give a number" in prediction.feedback.value


@pytest.mark.parametrize("arguments", [{}, {"choices": [1, 2], "numbers": ["a"]}, {"choices": [1]}])
def test_predict_refuses_what_is_no_question(arguments):
    with pytest.raises(ValueError, match="predict"):
        predict("?", **arguments)


def test_commit_refuses_an_answer_that_is_none_of_the_choices():
    with pytest.raises(ValueError, match=r"from 0 to 1; got 5"):
        Prediction("?", [Choice("3"), Choice("4")]).commit(5)


@pytest.mark.parametrize("key, match", [("04.none", "there is no 'none'"), ("77.block", "chapter '77'")])
def test_an_unknown_prediction_is_named(key, match):
    with pytest.raises(KeyError, match=match):
        predict(key)


def course_predictions():
    folder = resources.files("cudalab.widgets") / "predictions"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        for name in tomllib.loads(file.read_text("utf-8")):
            yield file.name[:2], name


def test_the_courses_predictions_have_a_reason_for_each_choice():
    found = list(course_predictions())
    assert len(found) >= 20
    for chapter, name in found:
        prediction = load_prediction(chapter, name)
        whys = [choice.why for choice in prediction.choices] or list(prediction.numbers.values())
        assert all(len(why) > 15 for why in whys), (chapter, name)
        values = [choice.number if choice.number is not None else choice.value for choice in prediction.choices]
        assert len(set(values)) >= len(values) - 1, (chapter, name)


CHAPTERS = rules.course_notebooks(Path(__file__).parents[2])


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapters_compute_the_answers_and_store_todays_questions(path):
    """No cell names an answer, no verdict is stored, and what a page without a kernel asks is what the package asks."""
    asked, answered = {}, set()
    for cell in rules.read(path).cells:
        if cell.cell_type != "code" or cell.source.startswith("%%"):
            continue
        texts = [output.data.get("text/markdown", "") for output in cell.outputs if "data" in output]
        assert not any("You made no prediction" in text or "redicted" in text for text in texts), cell.id
        for node in ast.walk(ast.parse(cell.source)):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called, args=args, keywords=more)):
                    if ast.unparse(called) == "cudalab.predict":
                        (key,) = args
                        asked[name] = load_prediction(*key.value.split("."))
                        assert not more and texts == [asked[name].markdown()], cell.id
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="compare"), args=[found]):
                    names = [part for part in ast.walk(found) if isinstance(part, ast.Name)]
                    assert name in asked and names, f"{cell.id} names the answer"
                    answered.add(name)
        numbers = re.findall(r'"(\d\d\.\d)"', cell.source) if "cudalab.quiz(" in cell.source else []
        assert not numbers or texts == [load(number).markdown() for number in numbers], cell.id
    assert answered == set(asked)
    assert asked or path.name.startswith("00")


# --- quiz ------------------------------------------------------------------------------------------------------------

ONE = [("four", True, "because"), ("five", False, "one too many")]
SEVERAL = [("a", True, "why a"), ("b", True, "why b"), ("c", False, "why c")]


def test_a_question_reads_without_a_kernel_with_the_answers_folded_away(page):
    quiz("How many?", ONE)
    text, plain = page.shown[0]["text/markdown"], page.shown[0]["text/plain"]
    assert "How many?" in text and "- **A** four" in text
    folded = text[text.index("<details>") :]
    assert "- **A** ✔ because" in folded and "- **B** ✘ one too many" in folded and "</details>" in folded
    assert "because" not in plain and "four" in plain


@pytest.mark.parametrize("place, words", [(0, ("✔", "Right.", "because")), (1, ("✘", "Not this one.", "one too many"))])
def test_a_press_brings_the_reason_at_once(place, words):
    question = Question("How many?", [Option(*option) for option in ONE])
    question.answers.buttons[place].click()
    assert all(word in question.feedback.value for word in words)
    assert icons(question.answers)[place] == ("times" if place else "check"), "a wrong pick looks wrong"
    question.answers.buttons[1 - place].click()
    assert icons(question.answers)[place] == "circle-o"


def test_the_options_of_a_question_are_its_buttons():
    texts = ["`f(n)` **more**", "5 * 4", "`a` of `b`"]
    options = [Option(text, place == 0, "because") for place, text in enumerate(texts)]
    buttons = Question("How many?", options).answers.buttons
    assert [button.description for button in buttons] == ["A · f(n) more", "B · 5 * 4", "C · ‘a’ of ‘b’"]


def test_of_several_right_answers_the_missing_ones_are_counted():
    question = Question("Which?", [Option(*option) for option in SEVERAL])
    assert question.several
    question.check.click()
    assert "Choose at least one" in question.feedback.value
    for place in (0, 1, 1, 2):
        question.answers.buttons[place].click()
    assert icons(question.answers) == ["check-square-o", "square-o", "check-square-o"]
    question.check.click()
    assert icons(question.answers) == ["check", "square-o", "times"]
    assert "1 more holds" in question.feedback.value and "Not this one" in question.feedback.value


def test_quiz_takes_the_number_as_a_string():
    with pytest.raises(TypeError, match="a string such as '04.1', got 4.1"):
        quiz(4.1)


@pytest.mark.parametrize("options", [ONE[:1], [("a", False, "no"), ("b", False, "no")], [("a", True, ""), ONE[1]]])
def test_quiz_refuses_what_is_no_question(options):
    with pytest.raises(ValueError, match="quiz"):
        Question("?", [Option(*option) for option in options])


def test_the_courses_questions_explain_every_option():
    files = sorted((resources.files("cudalab.widgets") / "questions").iterdir(), key=lambda file: file.name)
    numbers = [f"{file.name[:2]}.{place}" for file in files for place in tomllib.loads(file.read_text("utf-8"))]
    assert {"00.1", "04.1", "04.2", "04.3", "04.4"} <= set(numbers)
    for number in numbers:
        question = load(number)
        assert len(question.options) >= 3
        assert all(len(option.why) > 20 for option in question.options)
        assert len({option.text for option in question.options}) == len(question.options)


@pytest.mark.parametrize(
    "number, match", [("04.99", "there is no '99'"), ("77.1", "chapter '77'"), ("x", "chapter 'x'")]
)
def test_an_unknown_number_is_named(number, match):
    with pytest.raises(KeyError, match=match):
        load(number)


# --- tune ------------------------------------------------------------------------------------------------------------


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


def test_the_package_names_what_it_has():
    with pytest.raises(AttributeError, match="predict, quiz, tune"):
        _ = cudalab.widgets.slider


def test_answers_are_kept_in_the_working_copy_and_taken_up_again(tmp_path, monkeypatch):
    (tmp_path / ".cudalab").mkdir()
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "00.ipynb"))
    predict("00.blocks").commit(2)
    assert predict("00.blocks").answer == 2
    quiz("00.1").answers.buttons[1].click()
    again = quiz("00.1")
    assert again.feedback.value == again.reply([1])
    stored = Progress(tmp_path).latest()
    assert [(kind, name) for kind, _, name in stored] == [("prediction", "00.blocks"), ("question", "00.1")]


def test_view_without_a_kernel_says_how_to_bring_it_back(monkeypatch):
    shown = []
    monkeypatch.setattr("cudalab.widgets.output.get_ipython", lambda: object())
    monkeypatch.setattr("cudalab.widgets.output.display", lambda bundle, raw: shown.append(bundle))
    quiz("00.1")
    (view,) = (bundle for bundle in shown if WIDGET_VIEW in bundle)
    assert "run this cell again" in view["text/html"] and "run this cell again" in view["text/plain"]
