"""Controls: what the learner sees, what a page without a kernel keeps, and that work follows a press of a button."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

import cudalab.widgets
from cudalab.course.progress import Progress
from cudalab.dev import notebook_format as rules
from cudalab.widgets.output import WIDGET_VIEW
from cudalab.widgets.prediction import Choice, Prediction, predict
from cudalab.widgets.prediction import load as load_prediction
from cudalab.widgets.question import Option, Question, load, quiz


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


# --- all of them ------------------------------------------------------------------------------------------------------


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
