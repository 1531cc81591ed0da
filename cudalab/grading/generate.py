"""Exercises from solutions, by nbgrader's own preprocessors, on flat folders.

`solutions/NN_topic.ipynb` is the source. In an answer cell the solution and the starter stand together:

    // BEGIN SOLUTION
    if (i < n) y[n - 1 - i] = x[i];
    // STARTER
    //| y[n - 1 - i] = x[i];
    // END SOLUTION

`StarterFromSolution` leaves the starter's lines; nbgrader does the rest (it would put ``YOUR CODE HERE`` where there is
no starter). Running it again writes the same bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat

REGION = re.compile(
    r"^[ \t]*(?://|#) BEGIN SOLUTION\n(?P<solution>.*?)"
    r"^[ \t]*(?://|#) STARTER\n(?P<starter>.*?)"
    r"^[ \t]*(?://|#) END SOLUTION\n?",
    re.MULTILINE | re.DOTALL,
)
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


def answer_source(notebook: nbformat.NotebookNode, grade_id: str, *, python: bool = False) -> str:
    """The text of the answer cell with this ``grade_id``: the CUDA C++ below its ``%%cuda`` line, or, for ``python``,
    the whole cell.

    Raises:
        LookupError: no cell, or more than one, has the id.
    """
    cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    if len(cells) != 1:
        raise LookupError(f"{len(cells)} cells have the grade_id {grade_id!r}; there must be one")
    if python:
        return str(cells[0].source)
    head, _, body = cells[0].source.partition("\n")
    if not head.startswith("%%cuda"):
        raise LookupError(f"the cell {grade_id!r} begins with {head!r}, not with %%cuda")
    return str(body)


def generate(source: Path) -> str:
    """The text of the exercise notebook made from the solution notebook at ``source``."""
    from nbgrader.preprocessors import (
        CheckCellMetadata,
        ClearHiddenTests,
        ClearMarkScheme,
        ClearOutput,
        ClearSolutions,
        ComputeChecksums,
        LockCells,
    )

    class StarterFromSolution(ClearSolutions):  # type: ignore[misc]  # nbgrader has no types
        def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
            if not REGION.search(cell.source + "\n"):
                result: tuple[Any, Any] = super().preprocess_cell(cell, resources, index)
                return result
            cell.source = starter(cell.source + "\n").rstrip("\n")
            return cell, resources

    notebook = nbformat.read(source, as_version=4)
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
    nbformat.validate(notebook)
    result: str = nbformat.writes(notebook, indent=1).rstrip("\n") + "\n"
    return result


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
