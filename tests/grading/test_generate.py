"""`exercises/` is what `solutions/` generates, byte for byte, and gives no solution away."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from cudalab.checks import exercises
from cudalab.grading.generate import answer_source, generate, generate_all
from cudalab.grading.regions import solution, starter

ROOT = Path(__file__).parents[2]
SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))

CELL = """int i = 0;
    // BEGIN SOLUTION
    if (i < n) y[i] = x[i];
    // STARTER
    //| y[i] = x[i];
    //|
    //|     deeper();
    // END SOLUTION
}
"""


def test_there_are_solutions() -> None:
    assert SOLUTIONS


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)
def test_exercise_is_in_step_with_its_solution(path: Path) -> None:
    stored = (ROOT / "exercises" / path.name).read_text(encoding="utf-8")
    assert stored == generate(path), "run `make exercises`"


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)
def test_no_solution_line_is_left_in_the_exercise(path: Path) -> None:
    exercise = nbformat.read(ROOT / "exercises" / path.name, as_version=4)
    text = "\n".join(cell.source for cell in exercise.cells)
    assert "SOLUTION" not in text and "STARTER" not in text
    assert not any(cell.get("outputs") for cell in exercise.cells)


def test_no_exercise_without_a_solution() -> None:
    assert {p.name for p in (ROOT / "exercises").glob("*.ipynb")} == {p.name for p in SOLUTIONS}


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)
def test_points_are_said_once(path: Path) -> None:
    """In the solution they stand nowhere; in the exercise where the check is, and in the text."""
    source = nbformat.read(path, as_version=4)
    assert not any("points" in cell.metadata.get("nbgrader", {}) for cell in source.cells)
    made = nbformat.read(ROOT / "exercises" / path.name, as_version=4)
    points = [
        cell.metadata["nbgrader"]["points"] for cell in made.cells if "points" in cell.metadata.get("nbgrader", {})
    ]
    assert points == [exercise.maximum for exercise in exercises() if exercise.id[:2] == path.name[:2]]
    text = "\n".join(cell.source for cell in made.cells)
    assert f", {sum(points):g} points." in made.cells[0].source and "{points" not in text
    assert re.findall(r"minutes, (\S+) points", text)[1:] == [f"{one:g}" for one in points]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)
def test_minutes_of_a_notebook_are_those_of_its_exercises(path: Path) -> None:
    title, *rest = (cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    stated = re.search(r"About (\d+) minutes", title)
    assert stated and int(stated[1]) == sum(
        int(minutes) for text in rest for minutes in re.findall(r"\*(\d+) min", text)
    )


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)
def test_each_exercise_says_its_minutes_and_has_three_hints(path: Path) -> None:
    cells = {cell.id: cell.source for cell in nbformat.read(ROOT / "exercises" / path.name, as_version=4).cells}
    numbers = [exercise.id.split(".")[1] for exercise in exercises() if exercise.id[:2] == path.name[:2]]
    assert len(numbers) >= 5 or path.name[:2] == "01"
    for number in numbers:
        assert re.search(r"\*\d+ minutes, \d+ points?\.\*", cells[f"e{number}-goal"]), number
        hints = re.findall(r"<summary>(Hint \d)</summary>\S", cells[f"e{number}-hints"])
        assert hints == ["Hint 1", "Hint 2", "Hint 3"], number


def test_generate_all_writes_only_what_changed(tmp_path: Path) -> None:
    assert len(generate_all(ROOT / "solutions", tmp_path)) == len(SOLUTIONS)
    assert generate_all(ROOT / "solutions", tmp_path) == []


def test_starter_keeps_the_indent_of_its_lines() -> None:
    assert starter(CELL) == "int i = 0;\n    y[i] = x[i];\n\n        deeper();\n}\n"


def test_solution_keeps_the_solution_alone() -> None:
    assert solution(CELL) == "int i = 0;\n    if (i < n) y[i] = x[i];\n}\n"


def test_a_starter_line_without_its_mark_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"begins with //\|"):
        starter(CELL.replace("//| y[i]", "y[i]"))


def test_duplicate_answers_are_refused() -> None:
    notebook = nbformat.read(SOLUTIONS[0], as_version=4)
    answers = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("solution")]
    notebook.cells.append(answers[0])
    with pytest.raises(LookupError, match="2 cells"):
        answer_source(notebook, answers[0].metadata["nbgrader"]["grade_id"])
