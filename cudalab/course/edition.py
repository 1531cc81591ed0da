"""A notebook of the course as a learner first meets it: the recorded edition without its outputs, which would give
every prediction away."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbformat.warnings import DuplicateCellId

Notebook = Any  # nbformat.NotebookNode

FOLDERS = ("notebooks", "exercises")
"""The folders of the course that learners work in."""
_RECORD = "cudalab"  # metadata of a recorded output: device, driver, date


def read(path: Path) -> Notebook:
    """The notebook at ``path``; ``ValueError`` names the file when it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicateCellId)  # nbformat gives the second a new id
            notebook = nbformat.read(path, as_version=4)
            return (
                notebook if notebook.nbformat_minor >= 5 else nbformat.v4.upgrade(notebook, 4, notebook.nbformat_minor)
            )
    except (OSError, UnicodeError, ValueError, KeyError, AttributeError, nbformat.ValidationError) as error:
        raise ValueError(f"{path} cannot be read as a notebook: {error}") from error


def names(course: Path) -> list[str]:
    """The notebooks of the course, relative to its folder: ``notebooks/04_device_memory.ipynb``."""
    return [
        path.relative_to(course).as_posix() for folder in FOLDERS for path in sorted((course / folder).glob("*.ipynb"))
    ]


def find(wanted: str, among: Sequence[str]) -> str:
    """The notebook that a learner means by ``04``, ``exercises/04`` or a file's name.

    Raises:
        LookupError: none, or more than one, is meant; says which there are.
    """
    text = wanted.replace("\\", "/").removeprefix("./")
    found = [name for name in among if text and name.startswith((text, f"{FOLDERS[0]}/{text}"))]
    if len(found) == 1:
        return found[0]
    raise LookupError(f"there is no file {wanted!r}; there are {', '.join(among)}")


def without_outputs(notebook: Notebook) -> Notebook:
    """``notebook`` itself, cleared of outputs, execution counts, records and saved widget state."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop(_RECORD, None)
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    return notebook
