"""nbgrader's own command with our preprocessors, and its gradebook with our scores."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from cudalab.checks import find
from cudalab.grading.preprocessor import configure
from cudalab.grading.reports.gradebook import export
from cudalab.grading.scores import Score, Sheet
from cudalab.grading.store import Answer, Handed
from tests.checks.answers.answer import ROOT


def _sheet(student: str, points: float, kept: float = 1.0, state: str = "graded") -> Sheet:
    answer = Answer(student, "04.1", "", "", None, None)
    score = Score(answer, find("04.1"), points, 3.0, state)  # type: ignore[arg-type]
    return Sheet(Handed(student, "", "", None), (score,), 0, kept, 0.0, 0.0)


def test_scores_reach_the_gradebook_and_are_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment that is not activated, too: its programs are not in the PATH."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    export([_sheet("alice", 3), _sheet("bob", 2, kept=0.5), _sheet("carol", 0, state="not graded")], url, "lab")
    export([_sheet("alice", 1)], url, "lab")
    with Gradebook(url) as book:
        scores = {
            one.student.id: (one.score, one.late_submission_penalty) for one in book.assignment_submissions("lab")
        }
        assert scores == {"alice": (1, 0), "bob": (2, 1), "carol": (0, 0)}
        carol = book.find_submission("lab", "carol")
        assert carol.needs_manual_grade and not book.find_submission("lab", "bob").needs_manual_grade


def test_nbgrader_makes_the_same_starters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock `generate_assignment` would leave `raise NotImplementedError` in CUDA C++."""
    monkeypatch.chdir(tmp_path)
    programs = os.path.dirname(sys.executable)  # nbgrader starts alembic, which an activated environment has
    monkeypatch.setenv("PATH", os.pathsep.join([programs, os.environ["PATH"]]))
    name = "04_device_memory.ipynb"
    (tmp_path / "source" / "lab").mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / name, tmp_path / "source" / "lab" / name)
    config = Config()
    configure(config)
    config.CourseDirectory.root = str(tmp_path)
    made = NbGraderAPI(CourseDirectory(config=config), config=config).generate_assignment("lab")
    assert made["success"], made["log"]
    released = nbformat.read(tmp_path / "release" / "lab" / name, as_version=4)
    ours = json.loads((ROOT / "exercises" / name).read_text(encoding="utf-8"))
    assert [cell.source for cell in released.cells] == ["".join(cell["source"]) for cell in ours["cells"]]
    points = [cell.metadata.get("nbgrader", {}).get("points") for cell in released.cells]
    assert points == [cell["metadata"].get("nbgrader", {}).get("points") for cell in ours["cells"]]
