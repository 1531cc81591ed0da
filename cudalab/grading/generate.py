"""Exercises from solutions, by nbgrader's own preprocessors, on flat folders.

`solutions/NN_topic.ipynb` is the source; in its answer cells the solution and the starter stand together, as
``regions.py`` says. `StarterFromSolution` leaves the starter's lines; nbgrader does the rest (it would put ``YOUR CODE
HERE`` where there is no starter). Running it again writes the same bytes. Each notebook says which release it is, which
its scores then name.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import nbformat

from cudalab import __version__
from cudalab.grading.regions import with_points


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
