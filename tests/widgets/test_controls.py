"""Controls: what the learner sees, what a page without a kernel keeps, and that work follows a press of a button."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources

import pytest

import cudalab.widgets
from cudalab.widgets.output import WIDGET_VIEW
from cudalab.widgets.prediction import Prediction, predict
from cudalab.widgets.question import Option, Question, load, quiz
from cudalab.widgets.tuner import Tuner, tune


@dataclass
class Timing:
    microseconds: float
    kind: str = "modelled"


@pytest.fixture
def page(monkeypatch):
    """What is put on the page: MIME bundles in order; and what is put in the place of an earlier one."""
    shown: list[dict[str, str]] = []
    replaced: list[dict[str, str]] = []

    class Handle:
        def update(self, data, **_options):
            replaced.append(data)

    def display(data, **options):
        shown.append(data)
        return Handle() if options.get("display_id") else None

    for module in ("cudalab.widgets.output", "cudalab.plots.picture"):
        monkeypatch.setattr(f"{module}.display", display)
        monkeypatch.setattr(f"{module}.get_ipython", lambda: object())
    shown_page = type("Page", (), {"shown": shown, "replaced": replaced})()
    return shown_page


def texts(page):
    return [data["text/markdown"] for data in page.shown if "text/markdown" in data]


# --- predict ---------------------------------------------------------------------------------------------------------


def test_a_prediction_shows_its_question_as_text_beside_the_buttons(page):
    predict("How many?", [3, 4])
    assert "**Predict.** How many?" in texts(page)[0]
    assert "3 · 4" in texts(page)[0]
    assert [WIDGET_VIEW in data for data in page.shown] == [False, True]


def test_a_commitment_is_stored_and_cannot_be_changed_by_the_buttons(page):
    prediction = predict("How many?", [3, 4])
    prediction.choice.value = "3"
    prediction.commit_button.click()
    assert prediction.answer == "3"
    assert prediction.choice.disabled and prediction.commit_button.disabled
    assert "Committed" in prediction.feedback.value


def test_commit_without_a_choice_asks_for_one():
    prediction = Prediction("How many?", [3, 4])
    prediction.commit_button.click()
    assert prediction.answer is None and "Choose one first" in prediction.feedback.value


@pytest.mark.parametrize(
    "answer, found, words",
    [(None, 4, "made no prediction"), (4, 4, "As you predicted"), (3, 4, "Not as predicted"), (4, 4.0, "As you")],
)
def test_compare_tells_by_words(page, answer, found, words):
    prediction = Prediction("How many?", [3, 4])
    if answer is not None:
        prediction.commit(answer)
    prediction.compare(found)
    assert words in texts(page)[-1] and "4" in texts(page)[-1]


def test_numbers_are_compared_one_by_one(page):
    prediction = predict("Sectors?", numbers=["stride 1", "stride 2"])
    prediction.fields["stride 1"].value = "4"
    prediction.fields["stride 2"].value = "4"
    prediction.commit_button.click()
    prediction.compare({"stride 1": 4, "stride 2": 8})
    table = texts(page)[-1]
    assert "| stride 1 | 4 | **4** | ✔ as predicted |" in table
    assert "| stride 2 | 4 | **8** | ✘ not as predicted |" in table


def test_a_field_that_is_no_number_is_asked_for_again():
    prediction = Prediction("Sectors?", numbers=["stride 1"])
    prediction.fields["stride 1"].value = "four"
    prediction.commit_button.click()
    assert prediction.answer is None and "Give a number" in prediction.feedback.value


@pytest.mark.parametrize("arguments", [{}, {"choices": [1, 2], "numbers": ["a"]}, {"choices": [1]}])
def test_predict_refuses_what_is_no_question(arguments):
    with pytest.raises(ValueError, match="predict"):
        Prediction("?", **arguments)


def test_commit_refuses_an_answer_that_is_none_of_the_choices():
    with pytest.raises(ValueError, match=r"one of \['3', '4'\]; got 5"):
        Prediction("?", [3, 4]).commit(5)


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
    question.buttons[place].click()
    assert all(word in question.feedback.value for word in words)


def test_of_several_right_answers_the_missing_ones_are_counted():
    question = Question("Which?", [Option(*option) for option in SEVERAL])
    assert question.several
    question.check.click()
    assert "Choose at least one" in question.feedback.value
    question.boxes[0].value = question.boxes[2].value = True
    question.check.click()
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
    assert "best block (threads) so far is **64** with 1000 µs" in sentence["text/markdown"]
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
