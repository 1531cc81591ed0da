"""Exercises from solutions, by nbgrader's own preprocessors, on flat folders.

`solutions/NN_topic.ipynb` is the source. In an answer cell the solution and the starter stand together:

    // BEGIN SOLUTION
    if (i < n) y[n - 1 - i] = x[i];
    // STARTER
    //| y[n - 1 - i] = x[i];
    // END SOLUTION

`StarterFromSolution` leaves the starter's lines; nbgrader does the rest (it would put ``YOUR CODE HERE`` where there is
no starter). Running it again writes the same bytes.

Points are those of `cudalab.checks` and stand nowhere else: a check cell gets those of the exercise that it calls, and
in text ``{points 04.2}`` and, for all of the notebook, ``{points}`` stand for them. Each notebook says which release it
is, which its scores then name.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import nbformat

from cudalab import __version__
from cudalab.checks import find

REGION = re.compile(
    r"^[ \t]*(?://|#) BEGIN SOLUTION\n(?P<solution>.*?)"
    r"^[ \t]*(?://|#) STARTER\n(?P<starter>.*?)"
    r"^[ \t]*(?://|#) END SOLUTION\n?",
    re.MULTILINE | re.DOTALL,
)
_CHECKED = re.compile(r"cudalab\.check\(\"([\d.]+)\"")
_POINTS = re.compile(r"\{points(?: ([\d.]+))?\}")
_STARTER_LINE = re.compile(r"^([ \t]*)(?://|#)\|[ ]?(.*)$")


def starter(source: str) -> str:
    """The cell as a learner gets it."""
    return REGION.sub(lambda match: _uncomment(match["starter"]), source)


def solution(source: str) -> str:
    """The cell with its solution alone, as the tests run it."""
    return REGION.sub(lambda match: match["solution"], source)


def _uncomment(text: str) -> str:
    lines = []
    for line in text.splitlines():
        match = _STARTER_LINE.match(line)
        if not match:
            raise ValueError(f"a starter's line begins with //| or #| after its indent, not {line!r}")
        lines.append((match[1] + match[2]).rstrip())
    return "".join(line + "\n" for line in lines)


def answer_source(notebook: nbformat.NotebookNode, grade_id: str) -> str:
    """The text of the answer cell with this ``grade_id``, the ``%%cuda`` line and its options included.

    Raises:
        LookupError: no cell, or more than one, has the id.
    """
    cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    if len(cells) != 1:
        raise LookupError(f"{len(cells)} cells have the grade_id {grade_id!r}; there must be one")
    return str(cells[0].source)


def generate(source: Path) -> str:
    """The text of the exercise notebook made from the solution notebook at ``source``."""
    from nbgrader.preprocessors import (
        CheckCellMetadata,
        ClearHiddenTests,
        ClearMarkScheme,
        ClearOutput,
        ComputeChecksums,
        LockCells,
    )

    from cudalab.grading.preprocessor import StarterFromSolution

    notebook = with_points(nbformat.read(source, as_version=4))
    resources: dict[str, Any] = {"nbgrader": {}, "unique_key": source.stem}
    for step in (
        CheckCellMetadata,
        StarterFromSolution,
        LockCells,
        ClearOutput,
        ClearHiddenTests,
        ClearMarkScheme,
        ComputeChecksums,
    ):
        notebook, resources = step().preprocess(notebook, resources)
    notebook.metadata["cudalab"] = {"release": release(notebook)}
    nbformat.validate(notebook)
    result: str = nbformat.writes(notebook, indent=1).rstrip("\n") + "\n"
    return result


def release(notebook: nbformat.NotebookNode) -> str:
    """What tells one edition of an exercise notebook from another: the version, and a digest of its cells."""
    text = "\0".join(f"{cell.id}\0{cell.source}" for cell in notebook.cells)
    return f"{__version__}-{hashlib.blake2b(text.encode(), digest_size=5).hexdigest()}"


def with_points(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with the points of its exercises, in its check cells and in its text.

    Raises:
        KeyError: it checks an exercise that there is not.
    """
    checked = {}
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        if about.get("grade") and (found := _CHECKED.search(cell.source)):
            points = about["points"] = find(found[1]).maximum
            checked[found[1]] = points
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _POINTS.sub(
                lambda match: f"{checked[match[1]] if match[1] else sum(checked.values()):g}", cell.source
            )
    return notebook


def generate_all(solutions: Path, exercises: Path) -> list[Path]:
    """Write an exercise for each solution notebook; returns the files whose text changed."""
    changed = []
    exercises.mkdir(exist_ok=True)
    for source in sorted(solutions.glob("*.ipynb")):
        text, target = generate(source), exercises / source.name
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
            changed.append(target)
    return changed
