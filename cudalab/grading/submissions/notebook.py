"""The answer cells of one notebook, by the ``grade_id`` that nbgrader gave them; all else is ignored.

The file is decoded against a declaration, each cell for itself: what is not of that shape is an oddity of that cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

LONGEST_ANSWER = 128 << 10
"""Characters of one answer."""
MOST_CELLS = 5000
_NOT_JSON = re.compile(rb'"(?:[^"\\]|\\.)*+"?|\bNaN\b|-?\bInfinity\b', re.DOTALL)
"""What Python's own encoder, and so Jupyter, writes for such numbers; and texts, which may have these words. A text
that does not end goes to the end: nothing is looked at twice."""


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


class Wanted(NamedTuple):
    """How the answer to an exercise is found."""

    grade_id: str
    """Of its cell; two chapters may use the same."""
    pattern: str
    """What such a cell has in it, to recognise one whose id is gone."""


@dataclass
class AnswerCells:
    """What one notebook says."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    """By exercise; more than one where cells carry the same id and say different things."""
    oddities: list[str] = field(default_factory=list)
    release: str = ""
    """Which edition it was made from, as the notebook says."""


def read(data: bytes, wanted: Mapping[str, Wanted], name: str = "") -> AnswerCells:
    """The answer cells of a notebook. ``wanted``: by exercise, of all there are. ``name``: of the file, which tells
    the chapter where the cells do not."""
    found = AnswerCells()
    try:
        notebook = msgspec.json.decode(_json(data.removeprefix(b"\xef\xbb\xbf")), type=_Notebook)
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
    cells = list(_cells(notebook.cells[:MOST_CELLS], found))
    chapter = _chapter(cells, wanted, name)
    ids = {one.grade_id: exercise for exercise, one in wanted.items() if _chapter_of(exercise) != chapter}
    ids |= {one.grade_id: exercise for exercise, one in wanted.items() if _chapter_of(exercise) == chapter}
    strangers = [cell.text[:LONGEST_ANSWER] for cell in cells if not _take(cell, ids, found) and cell.text]
    for exercise, (grade_id, pattern) in wanted.items():
        if _chapter_of(exercise) == chapter and exercise not in found.texts:
            if any(re.search(pattern, text) for text in strangers):
                found.oddities.append(
                    f"no cell carries the id {grade_id!r}, and one that looks like this answer carries another or "
                    "none; it was not graded"
                )
    return found


def _json(data: bytes) -> bytes:
    return _NOT_JSON.sub(_null, data) if b"NaN" in data or b"Infinity" in data else data


def _null(found: re.Match[bytes]) -> bytes:
    return found[0] if found[0].startswith(b'"') else b"null"


def _chapter_of(exercise: str) -> str:
    return exercise.partition(".")[0]


def _chapter(cells: Sequence[_Cell], wanted: Mapping[str, Wanted], name: str) -> str:
    """The chapter that most of the notebook's ids are of; where that says nothing, that of the file's name."""
    ids = {cell.metadata.nbgrader.grade_id for cell in cells if cell.metadata.nbgrader}
    votes = Counter(_chapter_of(exercise) for exercise, one in wanted.items() if one.grade_id in ids)
    return max(votes, key=lambda chapter: (votes[chapter], name.startswith(chapter)), default=name[:2])


def _cells(cells: Iterable[msgspec.Raw], found: AnswerCells) -> Iterable[_Cell]:
    for number, raw in enumerate(cells, 1):
        try:
            cell = msgspec.json.decode(raw, type=_Cell)
            cell.text.encode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            found.oddities.append(f"cell {number} is not of the usual form and was left out: {error}")
        else:
            yield cell


def _take(cell: _Cell, exercises: Mapping[str, str], found: AnswerCells) -> bool:
    """Keep an answer, to the exercise of its id; False for a code cell that is none."""
    about = cell.metadata.nbgrader
    if about is None or about.grade_id not in exercises:
        return cell.cell_type != "code" or (about is not None and about.grade)
    name = about.grade_id
    if cell.cell_type != "code" or about.grade:
        found.oddities.append(f"the id {name!r} is on a cell that is no answer cell; that cell was left out")
    elif len(cell.text) > LONGEST_ANSWER:
        found.oddities.append(f"the answer {name!r} has more than {LONGEST_ANSWER:,} characters and was left out")
    else:
        texts = found.texts.setdefault(exercises[name], [])
        if cell.text not in texts:
            texts.append(cell.text)
    return True
