"""The answer cells of one notebook, by the ``grade_id`` that nbgrader gave them; all else is ignored.

The file is decoded against a declaration, each cell for itself: what is not of that shape is an oddity of that cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

LONGEST_ANSWER = 128 << 10
"""Characters of one answer."""
MOST_CELLS = 5000


class _Nbgrader(msgspec.Struct):
    grade_id: str = ""
    grade: bool = False


class _CellMetadata(msgspec.Struct):
    nbgrader: _Nbgrader | None = None


class _Cell(msgspec.Struct):
    cell_type: str = ""
    source: str | list[str] = ""
    metadata: _CellMetadata = msgspec.field(default_factory=_CellMetadata)

    @property
    def text(self) -> str:
        return self.source if isinstance(self.source, str) else "".join(self.source)


class _Course(msgspec.Struct):
    release: str = ""


class _Metadata(msgspec.Struct):
    cudalab: _Course | None = None


class _Notebook(msgspec.Struct):
    cells: list[msgspec.Raw]
    nbformat: int = 0
    metadata: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


@dataclass
class AnswerCells:
    """What one notebook says."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    """By ``grade_id``; more than one where cells carry the same id and say different things."""
    oddities: list[str] = field(default_factory=list)
    release: str = ""
    """Which edition it was made from, as the notebook says."""


def read(data: bytes, wanted: Mapping[str, str]) -> AnswerCells:
    """The answer cells of a notebook.

    Args:
        data: the file.
        wanted: by ``grade_id``, what a cell that answers it begins with or defines, to recognise one whose id is gone.
    """
    found = AnswerCells()
    try:
        notebook = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=_Notebook)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        found.oddities.append(f"no notebook that can be read: {error}")
        return found
    if notebook.nbformat < 4:
        found.oddities.append(f"a notebook of format {notebook.nbformat}; 4 is wanted")
    try:
        found.release = (msgspec.json.decode(notebook.metadata, type=_Metadata).cudalab or _Course()).release[:80]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found.oddities.append("the notebook's metadata are not of their usual form")
    if len(notebook.cells) > MOST_CELLS:
        found.oddities.append(f"more than {MOST_CELLS} cells; the rest was left out")
    strangers = [
        cell for cell in _cells(notebook.cells[:MOST_CELLS], found) if not _take(cell, wanted, found) and cell.text
    ]
    for grade_id in sorted(wanted.keys() - found.texts.keys()):
        if any(re.search(wanted[grade_id], cell.text[:LONGEST_ANSWER]) for cell in strangers):
            found.oddities.append(
                f"no cell carries the id {grade_id!r}, and one that looks like this answer carries another or none; "
                "it was not graded"
            )
    return found


def _cells(cells: Iterable[msgspec.Raw], found: AnswerCells) -> Iterable[_Cell]:
    for number, raw in enumerate(cells, 1):
        try:
            cell = msgspec.json.decode(raw, type=_Cell)
            cell.text.encode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            found.oddities.append(f"cell {number} is not of the usual form and was left out: {error}")
        else:
            yield cell


def _take(cell: _Cell, wanted: Mapping[str, str], found: AnswerCells) -> bool:
    """Keep an answer; False for a code cell that is none of those asked for."""
    about = cell.metadata.nbgrader
    if about is None or about.grade_id not in wanted:
        return cell.cell_type != "code" or (about is not None and about.grade)
    name = about.grade_id
    if cell.cell_type != "code" or about.grade:
        found.oddities.append(f"the id {name!r} is on a cell that is no answer cell; that cell was left out")
    elif len(cell.text) > LONGEST_ANSWER:
        found.oddities.append(f"the answer {name!r} has more than {LONGEST_ANSWER:,} characters and was left out")
    else:
        texts = found.texts.setdefault(name, [])
        if cell.text not in texts:
            texts.append(cell.text)
    return True
