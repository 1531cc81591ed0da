"""The folder ``work/``: the notebooks that a learner opens, edits and runs.

Beside them, in ``work/.cudalab``, stands the edition that each was made from, without outputs. With it a new edition is
told from the learner's own changes (``merge.py``), a notebook can be started over, and nothing has to be asked of git.
Files are written aside and renamed. Whatever replaces a file in which the learner had changed something leaves the
file of before in ``work/backups``.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import nbformat
from nbformat.sign import NotebookNotary

from cudalab.course import edition, progress
from cudalab.course.edition import FOLDERS, Notebook
from cudalab.course.merge import OFFER, merge, same

STATE = progress.STATE
BACKUPS = "backups"
_EDITIONS = "editions"


@dataclass(frozen=True)
class Update:
    """What became of one notebook when the working copy was brought up to date."""

    name: str
    kind: Literal["new", "updated", "unreadable"]
    offers: tuple[str, ...] = ()
    """Cells that both the course and the learner changed; the learner's stand, the course's are offered below."""
    backup: Path | None = None
    """The learner's file of before, where it had changes of theirs."""

    def __str__(self) -> str:
        if self.kind == "unreadable":
            return (
                f"{self.name} is not a notebook any more, and was left as it is. Mend it, or start it over: "
                f"python -m cudalab start-over {self.name}"
            )
        text = f"{self.name}: {'new' if self.kind == 'new' else 'brought to the new edition'}"
        if self.offers:
            cells = (
                "one cell that you changed" if len(self.offers) == 1 else f"{len(self.offers)} cells that you changed"
            )
            text += f"; of {cells} there is a new edition, offered below yours"
        return text


@dataclass(frozen=True)
class CellChange:
    """How one cell of the learner's differs from the course's."""

    cell: str
    kind: Literal["changed", "added", "deleted"]
    before: str
    after: str

    def __str__(self) -> str:
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), lineterm="", n=1)
        return "\n".join([f"cell {self.cell!r}, {self.kind}", *(f"    {line}" for line in list(lines)[2:])])


class WorkingCopy:
    """The working copy in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # ------------------------------------------------------------------ names

    def names(self) -> list[str]:
        """The notebooks of the course that are here: ``notebooks/04_device_memory.ipynb``."""
        home = self.folder / STATE / _EDITIONS
        return [path.relative_to(home).as_posix() for part in FOLDERS for path in sorted((home / part).glob("*.ipynb"))]

    def find(self, wanted: str) -> str:
        """The notebook that a learner means by ``04``, ``exercises/04`` or a file's name.

        Raises:
            LookupError: none, or more than one, is meant; says which there are.
        """
        return edition.find(wanted.removeprefix("./").removeprefix(f"{self.folder.name}/"), self.names())

    def edition(self, name: str) -> Notebook:
        """The course's edition that the notebook ``name`` began as, without outputs."""
        return edition.read(self.folder / STATE / _EDITIONS / name)

    # ------------------------------------------------------------------ what the course brings

    def update(self, course: Path) -> list[Update]:
        """Bring every notebook to the edition in the folder ``course``; returns what happened where anything did."""
        updates = (
            self._update(name, edition.without_outputs(edition.read(course / name))) for name in edition.names(course)
        )
        return [found for found in updates if found is not None]

    def _update(self, name: str, new: Notebook) -> Update | None:
        path, stored = self.folder / name, self.folder / STATE / _EDITIONS / name
        if not path.exists():
            self._write(path, new, trusted=True)
            self._write(stored, new)
            return Update(name, "new")
        try:
            mine = edition.read(path)
        except ValueError:
            return Update(name, "unreadable")
        trusted = NotebookNotary().check_signature(mine)
        if mine.metadata.pop("widgets", None):  # saved views would look alive and answer nobody
            self._write(path, mine, trusted=trusted)
        # what is here without an edition to go by is the learner's
        base = edition.read(stored) if stored.exists() else new
        if nbformat.writes(base) == nbformat.writes(new):
            if not stored.exists():
                self._write(stored, new)
            return None
        merged = merge(base, mine, new)
        backup = self._back_up(path) if list(_changes(base, mine)) else None
        self._write(path, merged.notebook, trusted=trusted)
        self._write(stored, new)  # last, so that an update which is cut short is made again
        return Update(name, "updated", merged.offers, backup)

    # ------------------------------------------------------------------ what the learner asks for

    def changes(self, name: str) -> list[CellChange]:
        """How the learner's notebook differs from the course's, cell by cell. ``ValueError`` if it is no notebook."""
        return list(_changes(self.edition(name), edition.read(self.folder / name)))

    def told_changes(self, name: str) -> str:
        """The same, to be read."""
        try:
            changes = self.changes(name)
        except ValueError as error:
            return str(error)
        if not changes:
            return f"{name}: you have changed nothing."
        count = f"{name}: {len(changes)} {'cell differs' if len(changes) == 1 else 'cells differ'} from the course's"
        return "\n\n".join([count, *map(str, changes)])

    def start_over(self, name: str) -> Path | None:
        """Put the course's edition in the place of the learner's notebook, and forget what was answered in it; returns
        where the learner's file is now, None if there was none."""
        path = self.folder / name
        backup = self._back_up(path) if path.exists() else None
        self._write(path, self.edition(name), trusted=True)
        self.count_anew([name])
        return backup

    def count_anew(self, names: Iterable[str]) -> None:
        """From now on, what was answered in these notebooks does not count. It is kept, and so are the notebooks."""
        for name in names:
            progress.Progress(self.folder).start_over(name)

    # ------------------------------------------------------------------ files

    def _back_up(self, path: Path) -> Path:
        folder = self.folder / BACKUPS
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{path.stem} ({path.parent.name}, {datetime.now():%Y-%m-%d %H.%M.%S})"
        count, place = 1, folder / f"{stem}{path.suffix}"
        while place.exists():
            count += 1
            place = folder / f"{stem} {count}{path.suffix}"
        place.write_bytes(path.read_bytes())
        return place

    @staticmethod
    def _write(path: Path, notebook: Notebook, *, trusted: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            nbformat.write(notebook, file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        if trusted:  # else JupyterLab would leave out the SVG among its outputs
            NotebookNotary().sign(notebook)


def _changes(base: Notebook, mine: Notebook) -> Iterator[CellChange]:
    was = {cell.id: cell for cell in base.cells}
    own = {cell.id: cell for cell in mine.cells}
    for name, cell in own.items():
        if name not in was:
            if cell.source.strip() and OFFER not in cell.metadata.get("tags", []):
                yield CellChange(name, "added", "", cell.source)
        elif not same(cell, was[name]):
            yield CellChange(name, "changed", was[name].source, cell.source)
    for name, cell in was.items():
        if name not in own:
            yield CellChange(name, "deleted", cell.source, "")
