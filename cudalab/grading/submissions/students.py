"""Whose each notebook is.

A folder or archive of a class is laid out as one of these, and all may stand side by side:

- ``STUDENT/…/04_device_memory.ipynb``: a folder for each, as nbgrader's ``submitted/`` has it, or Moodle's download
  (``Full Name_123_assignsubmission_file/…``);
- ``STUDENT.ipynb`` or ``STUDENT.zip``, or the folder, archive or notebook of one student alone;
- ``name_123_456_04_device_memory.ipynb``: Canvas's download.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cudalab.grading.submissions.files import Found, Oddity, Reader, without_wrapper
from cudalab.grading.submissions.notebook import Wanted, read

_MOODLE = re.compile(r"^(?P<who>.+)_(?P<number>\d+)_assignsubmission_\w+$")
_CANVAS = re.compile(r"^(?P<who>.+?)(?:_LATE)?_(?P<number>\d+)_\d+_(?P<file>.+)$")
_COURSE_NOTEBOOK = re.compile(r"^\d\d_\w+?(?:[- ]?\(?\d+\)?)?$")
_LONGEST_NAME = 80
_LONGEST_PART = 255
"""Of a path on a disk; one in an archive may be longer, and is no learning platform's then."""


@dataclass
class Submission:
    """What one student handed in."""

    student: str
    """A name that is safe in file names, in tables and on a command line, and stands for one student only."""
    number: str = ""
    """Of the learning platform, where the file's name has it."""
    answers: dict[str, str] = field(default_factory=dict)
    """The text of each answer cell, by exercise."""
    unclear: dict[str, str] = field(default_factory=dict)
    """Answers that are not graded, and why."""
    releases: dict[str, str] = field(default_factory=dict)
    """By notebook, the release that it says it was made from."""
    modified: datetime | None = None
    """The latest of its files."""


def collect(sources: Sequence[Path], wanted: Mapping[str, Wanted]) -> tuple[dict[str, Submission], list[Oddity]]:
    """All submissions in ``sources``, in the order of their names, and what was odd about them.

    Args:
        sources: folders, ZIP archives and notebooks.
        wanted: as for ``notebook.read``.
    """
    reader, named = Reader(), _Names()
    found: dict[str, Submission] = {}
    for source in sources:
        for notebook in reader.notebooks(source):
            who, number = _whose(notebook, source)
            student = named.safe(who, reader.oddities)
            submission = found.setdefault(student, Submission(student))
            submission.number = submission.number or number
            _add(submission, notebook, wanted, reader.oddities)
    return dict(sorted(found.items())), reader.oddities


def _add(submission: Submission, notebook: Found, wanted: Mapping[str, Wanted], oddities: list[Oddity]) -> None:
    cells = read(notebook.data, wanted, notebook.path[-1])
    place = f"{submission.student}: {notebook.place}"
    oddities += [Oddity(place, text) for text in cells.oddities]
    submission.releases[notebook.path[-1]] = cells.release
    if notebook.modified and (submission.modified is None or notebook.modified > submission.modified):
        submission.modified = notebook.modified
    for name, texts in cells.texts.items():
        known = submission.answers.get(name)
        if len(texts) > 1 or (known is not None and texts != [known]):
            submission.unclear[name] = "handed in more than once, with different texts: keep one of them"
            oddities.append(Oddity(place, f"the answer to {name} is there more than once, with different texts"))
        submission.answers.setdefault(name, texts[0])


def _whose(notebook: Found, source: Path) -> tuple[str, str]:
    """The student's name as it stands there, and the learning platform's number."""
    path = without_wrapper(notebook.path, source)
    first = path[0]
    if len(path) > 1:
        stem = first.removesuffix(".zip")
        moodle = _MOODLE.match(stem) if len(stem) <= _LONGEST_PART else None
        return (moodle["who"], moodle["number"]) if moodle else _canvas(stem)
    stem = first.rpartition(".")[0]
    if len(stem) > _LONGEST_PART or not _COURSE_NOTEBOOK.match(stem):
        return _canvas(stem)
    # Named as the course's own: the folder, or the archive, is the student's.
    return source.resolve().parent.name if source.name == first else source.resolve().stem, ""


def _canvas(stem: str) -> tuple[str, str]:
    canvas = _CANVAS.match(stem) if len(stem) <= _LONGEST_PART else None
    return (canvas["who"], canvas["number"]) if canvas else (stem, "")


class _Names:
    """Safe names, a different one for each."""

    def __init__(self) -> None:
        self._safe: dict[str, str] = {}

    def safe(self, name: str, oddities: list[Oddity]) -> str:
        """The safe name that stands for ``name``."""
        if name not in self._safe:
            text = unicodedata.normalize("NFKC", name)
            text = re.sub(r"[^\w .@+-]", "_", text).strip(" .-")[:_LONGEST_NAME] or "unnamed"
            if text != name:  # so that it is nobody else's, whoever comes first
                text = f"{text}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:6]}"
                oddities.append(Oddity(text, f"stands for {name!r}"))
            self._safe[name] = text
        return self._safe[name]
