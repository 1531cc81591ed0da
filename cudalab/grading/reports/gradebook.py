"""Scores into nbgrader's gradebook, through its own API.

A score goes to the grade cell of its exercise (``reverse_check``) in whichever notebook of the assignment has one, or,
where the assignment is not known yet, in a notebook of its own. What the teacher has to look at is marked for manual
grading; what lateness costs is the submission's penalty. Marks that were given by hand in the gradebook stay.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from cudalab.grading.scores import Score, Sheet

CHECK = "_check"
"""What a grade cell's id ends with, behind that of its answer cell."""


def export(sheets: Sequence[Sheet], url: str, assignment: str) -> None:
    """Write the scores of ``assignment`` into the gradebook at ``url`` (``sqlite:///gradebook.db``).

    Raises:
        OSError: nbgrader is not installed.
    """
    try:
        from nbgrader.api import Gradebook
    except ImportError:
        raise OSError("nbgrader is not installed: pip install 'cudalab[grading]'") from None
    with _alembic_in_path(), warnings.catch_warnings(), Gradebook(url) as book:
        warnings.simplefilter("ignore")  # of SQLAlchemy, about how nbgrader adds a submission
        book.update_or_create_assignment(assignment)
        homes = _homes(book, assignment)
        for sheet in sheets:
            for score in sheet.scores:
                name = score.exercise.kernel + CHECK
                home = homes.get(name)
                if home is None:
                    home = homes[name] = assignment
                    book.update_or_create_notebook(home, assignment)
                most = {"max_score": score.maximum, "cell_type": "code"}
                book.update_or_create_grade_cell(name, home, assignment, **most)
        for sheet in sheets:
            _enter(book, sheet, assignment, homes)
        book.db.commit()


def _homes(book: Any, assignment: str) -> dict[str, str]:
    """By grade cell, the notebook that has it."""
    return {
        cell.name: notebook.name
        for notebook in book.find_assignment(assignment).notebooks
        for cell in notebook.grade_cells
    }


def _enter(book: Any, sheet: Sheet, assignment: str, homes: dict[str, str]) -> None:
    book.update_or_create_student(sheet.student)
    submission = book.update_or_create_submission(assignment, sheet.student)
    lost: dict[str, float] = {}
    for score in sheet.scores:
        home = homes[score.exercise.kernel + CHECK]
        grade = book.find_grade(score.exercise.kernel + CHECK, home, assignment, sheet.student)
        grade.auto_score = score.points
        grade.needs_manual_grade = _to_look_at(score)
        lost[home] = lost.get(home, 0.0) + score.points * (1 - sheet.kept)
    for notebook in submission.notebooks:
        notebook.late_submission_penalty = lost.get(notebook.name, 0.0)


def _to_look_at(score: Score) -> bool:
    return score.state == "not graded"


@contextlib.contextmanager
def _alembic_in_path() -> Iterator[None]:
    """nbgrader asks a program for the version of a new gradebook, which an environment that is not activated hides."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before
