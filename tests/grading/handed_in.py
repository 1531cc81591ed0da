"""What students hand in, made for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cudalab.grading.grade_command import main
from tests.checks.answers.answer import ROOT

CACHE = ROOT / ".cache" / "graded"
"""Compiled code of the graders that tests start."""


def notebook(answers: Mapping[str, str], chapter: str = "04") -> dict[str, Any]:
    """The chapter's exercise notebook with these answers, by ``grade_id``; the rest is as it was handed out."""
    (path,) = (ROOT / "exercises").glob(f"{chapter}_*.ipynb")
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for cell in made["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in answers:
            cell["source"] = answers[name]
    return made


def hand_in(folder: Path, student: str, answers: Mapping[str, str], chapter: str = "04") -> Path:
    """A student's notebook in a folder of their own."""
    (folder / student).mkdir(parents=True, exist_ok=True)
    path = folder / student / f"{chapter}_lab.ipynb"
    path.write_text(json.dumps(notebook(answers, chapter)), encoding="utf-8")
    return path


def grade(*arguments: str | Path) -> int:
    """``cudalab grade`` with a shared cache of compiled code; returns the exit code."""
    return main([*map(str, arguments), "--cache", str(CACHE)])


def scores(out: Path) -> dict[str, dict[str, Any]]:
    """What was written for programs: by student and exercise."""
    written = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    return {f"{one['student']}/{score['exercise']}": score for one in written["students"] for score in one["scores"]}
