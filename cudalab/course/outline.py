"""The chapters of a working copy: what there is to answer in each, what has been answered, and what comes next.

The list of chapters is the map that stands in the first notebook, planned ones included; nothing is said twice. What
there is to answer is read from the cells of the edition: predictions, numbered questions, checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cudalab.course import edition
from cudalab.course.edition import Notebook
from cudalab.course.progress import Kind, Progress
from cudalab.course.working_copy import WorkingCopy

_ROW = re.compile(r"^\| *(?P<number>\d\d) *\| *(?P<title>[^|]+?) *(?P<core>★)? *\| *(?P<minutes>\d+) *\|", re.MULTILINE)
_LINK = re.compile(r"\[(?P<text>[^]]+)\]\([^)]*\)")
_CALL = re.compile(r"\b(predict|quiz|check)\(")
_KIND: dict[str, Kind] = {"predict": "prediction", "quiz": "question", "check": "check"}
_NUMBER = re.compile(r"\"(\d\d\.[\w-]+)\"")
FIRST = "00"
"""The number of the chapter that holds the map."""


@dataclass(frozen=True)
class Part:
    """A notebook of the working copy, and how much of it is answered."""

    name: str
    """Relative to the copy: ``notebooks/04_device_memory.ipynb``."""
    answered: int
    total: int
    last: int
    """The place of its last answer among all answers; -1 where there is none."""

    @property
    def done(self) -> bool:
        return self.answered == self.total


@dataclass(frozen=True)
class Chapter:
    """One row of the map."""

    number: str
    title: str
    minutes: int
    core: bool
    chapter: Part | None
    """None while it is planned."""
    exercises: Part | None

    @property
    def parts(self) -> list[Part]:
        """What can be opened, in order."""
        return [part for part in (self.chapter, self.exercises) if part is not None]


def outline(copy: WorkingCopy) -> list[Chapter]:
    """The chapters, in order; those that the map lacks are appended with the title of their notebook."""
    names = copy.names()
    latest = Progress(copy.folder).latest()
    notebooks = {name: copy.edition(name) for name in names}
    places = {key: at for at, key in enumerate(latest)}
    done = {key for key, entry in latest.items() if entry["done"]}
    parts = {
        name: Part(
            name,
            len(items & done),
            len(items),
            max((at for (_, notebook, _), at in places.items() if notebook == name), default=-1),
        )
        for name, items in ((name, set(_items(name, notebook))) for name, notebook in notebooks.items())
    }
    rows = {row["number"]: row for name in names if _number(name) == FIRST for row in _rows(notebooks[name])}
    numbers = sorted({*rows, *map(_number, names)})
    return [_chapter(number, rows.get(number), parts, notebooks) for number in numbers]


def comes_next(chapters: Sequence[Chapter]) -> Part | None:
    """The notebook to open: the one worked on last, unless it is done; then the first behind it that is not. None when
    all are done."""
    parts = [part for chapter in chapters for part in chapter.parts]
    at = max(range(len(parts)), key=lambda place: parts[place].last, default=0)
    if not parts or parts[at].last < 0:
        at = 0
    return next((part for part in [*parts[at:], *parts[:at]] if not part.done), None)


def _number(name: str) -> str:
    return Path(name).name[:2]


def _rows(notebook: Notebook) -> Iterable[re.Match[str]]:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield from _ROW.finditer(cell.source)


def _chapter(number: str, row: re.Match[str] | None, parts: dict[str, Part], notebooks: dict[str, Notebook]) -> Chapter:
    found = {Path(name).parent.name: name for name in parts if _number(name) == number}
    chapter, exercises = (found.get(folder) for folder in edition.FOLDERS)
    title = _plain(row["title"]) if row else _heading(notebooks[chapter or exercises or ""])
    return Chapter(
        number,
        title,
        int(row["minutes"]) if row else 0,
        bool(row and row["core"]),
        parts.get(chapter or ""),
        parts.get(exercises or ""),
    )


def _plain(markdown: str) -> str:
    return _LINK.sub(r"\g<text>", markdown).replace("*", "").strip()


def _heading(notebook: Notebook) -> str:
    titles = (re.search(r"^# (.+)$", cell.source, re.MULTILINE) for cell in notebook.cells)
    return next((title[1] for title in titles if title), "")


def _items(name: str, notebook: Notebook) -> Iterable[tuple[str, str, str]]:
    """What a learner can answer in a notebook, by the keys of ``Progress.latest``."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        for kind in {_KIND[call] for call in _CALL.findall(cell.source)}:
            for item in _NUMBER.findall(cell.source):  # all of a chapter's questions may be asked in a loop
                yield kind, name, item
