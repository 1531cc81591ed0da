"""The notebooks in folders and archives, in memory.

Nothing is extracted, so a name in an archive cannot lead anywhere; links are not followed; every read is bounded,
whatever a header claims. What cannot be read is named and left out, and the rest is read nonetheless.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO

LARGEST_NOTEBOOK = 16 << 20
"""Bytes of one notebook; pictures in its outputs count."""
LARGEST_ARCHIVE = 64 << 20
"""Bytes of an archive in an archive: what one student hands in."""
MOST_BYTES = 256 << 20
"""Of all that is read of one student: nobody uses up what others hand in."""
MOST_FILES = 20_000
"""Of one student, whatever they are."""
_LARGEST_DIRECTORY = 8 << 20
"""Bytes that the list of files of a student's archive may take: some 100,000 files. All of it is read at once."""
_WRAPPERS = {"submitted", "submissions"}
_DEEPEST = 2
"""Archives in one another: the class's, and a student's in it."""
_LEFT_OUT = {".ipynb_checkpoints", "__MACOSX"}


@dataclass(frozen=True)
class Oddity:
    """Something about a submission that the teacher should know."""

    place: str
    """Which file, or which student."""
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(frozen=True)
class Found:
    """A notebook, and where it was: folders (and names of archives) from the outermost on, its own name last."""

    path: tuple[str, ...]
    data: bytes = field(repr=False)
    modified: datetime | None = None
    """As the file system or the teacher's archive says, which whoever made that archive may have chosen."""

    @property
    def place(self) -> str:
        return "/".join(self.path)


def without_wrapper(path: tuple[str, ...], source: Path) -> tuple[str, ...]:
    """The path from the student's folder or file on: without a folder that holds all of them."""
    wrapped = len(path) > 2 and path[0].casefold() in _WRAPPERS | {source.stem.casefold()}
    return path[1:] if wrapped else path


class Reader:
    """Reads notebooks; ``oddities`` holds what could not be read."""

    def __init__(self) -> None:
        self.oddities: list[Oddity] = []
        self._source = Path()
        self._bytes: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        """Both by student: what has been read."""

    def notebooks(self, source: Path) -> Iterator[Found]:
        """All notebooks in a folder, a ZIP archive, or the one at ``source``, in the order of their names.

        Raises:
            FileNotFoundError: there is no such file; the teacher named it.
        """
        self._source = source
        if source.is_dir():
            yield from self._folder(source)
        else:
            with source.open("rb") as file:
                yield from self._file((source.name,), file, _modified(os.fstat(file.fileno())), 0)

    def _odd(self, path: tuple[str, ...], text: str) -> None:
        self.oddities.append(Oddity("/".join(path), text))

    def _student(self, path: tuple[str, ...]) -> str:
        return without_wrapper(path, self._source)[0]

    def _too_many(self, path: tuple[str, ...]) -> bool:
        """Has the student of this file more than are looked at?"""
        student = self._student(path)
        self._files[student] += 1
        if self._files[student] == MOST_FILES + 1:
            self._odd((student,), f"more than {MOST_FILES:,} files; the rest was left out")
        return self._files[student] > MOST_FILES

    def _folder(self, root: Path) -> Iterator[Found]:
        for folder, folders, names in os.walk(root, followlinks=False):
            here = Path(folder).relative_to(root).parts
            for name in [name for name in folders if (Path(folder) / name).is_symlink()]:
                self._odd((*here, name), "a link to a folder; left out")
            folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("."))
            for name in sorted(names):
                if not self._too_many((*here, name)) and _wanted(name):
                    yield from self._entry(Path(folder) / name, (*here, name))

    def _entry(self, file: Path, path: tuple[str, ...]) -> Iterator[Found]:
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._odd(path, "a link; left out" if file.is_symlink() else f"cannot be read: {error.strerror}")
            return
        with os.fdopen(descriptor, "rb") as opened:
            state = os.fstat(descriptor)
            if stat.S_ISREG(state.st_mode):
                yield from self._file(path, opened, _modified(state), 1)
            else:
                self._odd(path, "no ordinary file; left out")

    def _file(self, path: tuple[str, ...], file: IO[bytes], modified: datetime | None, depth: int) -> Iterator[Found]:
        """One notebook, or those of an archive."""
        if not path[-1].lower().endswith(".zip"):
            data = self._read(path, file, LARGEST_NOTEBOOK)
            if data is not None:
                yield Found(path, data, modified)
        elif depth == _DEEPEST:
            self._odd(path, "an archive in an archive in an archive; left out")
        elif depth == 0:
            yield from self._archive(path, file, None, depth)
        else:
            data = self._read(path, file, LARGEST_ARCHIVE)
            if data is not None:
                yield from self._archive(path, io.BytesIO(data), modified, depth)

    def _read(self, path: tuple[str, ...], file: IO[bytes], most: int) -> bytes | None:
        student = self._student(path)
        left = MOST_BYTES - self._bytes[student]
        data = file.read(min(most, left) + 1) if left > 0 else b""
        self._bytes[student] += len(data)
        if left > 0 and len(data) <= min(most, left):
            return data
        whose = (
            f"the student's files have more than {MOST_BYTES >> 20} MB" if left < most else f"more than {most >> 20} MB"
        )
        self._odd(path, f"{whose}; left out")
        return None

    def _archive(
        self, path: tuple[str, ...], file: IO[bytes], modified: datetime | None, depth: int
    ) -> Iterator[Found]:
        # The archive that the teacher names is a folder of students; one in a folder or an archive is a student's, who
        # has chosen the dates in it: what is in there is as old as the archive, ``modified``.
        outer = path if depth else path[:-1]
        try:
            if depth and (listed := _listed(file)) > _LARGEST_DIRECTORY:
                self._odd(path, f"a list of files of {listed >> 20} MB; left out")
                return
            with zipfile.ZipFile(file) as archive:
                for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
                    inside = _parts(entry.filename)
                    if not inside or entry.is_dir() or self._too_many((*outer, *inside)):
                        continue
                    if _wanted(inside[-1]):
                        yield from self._member(archive, entry, (*outer, *inside), modified, depth)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            self._odd(path, f"no ZIP archive that can be read: {error}")

    def _member(
        self,
        archive: zipfile.ZipFile,
        entry: zipfile.ZipInfo,
        path: tuple[str, ...],
        modified: datetime | None,
        depth: int,
    ) -> Iterator[Found]:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            self._odd(path, "a link or a special file; left out")
            return
        if PurePosixPath(entry.filename.replace("\\", "/")).parts != path[-len(_parts(entry.filename)) :]:
            self._odd(path, f"its name in the archive leads elsewhere: {entry.filename!r}")
        try:
            with archive.open(entry) as file:
                yield from self._file(path, file, modified or _entry_time(entry), depth + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, NotImplementedError) as error:
            self._odd(path, f"cannot be read: {error}")


def _listed(file: IO[bytes]) -> int:
    """The bytes of an archive's list of files, as ``zipfile`` finds it."""
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    return int(end[zipfile._ECD_SIZE]) if end else 0  # type: ignore[attr-defined]


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a name in an archive that mean something; none where it is of no use."""
    parts = tuple(part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..", "."))
    return () if any(part in _LEFT_OUT or part.startswith(".") for part in parts) else parts


def _wanted(name: str) -> bool:
    return name.lower().endswith((".ipynb", ".zip")) and not name.startswith(".")


def _modified(state: os.stat_result) -> datetime:
    return datetime.fromtimestamp(state.st_mtime).astimezone()


def _entry_time(entry: zipfile.ZipInfo) -> datetime | None:
    try:
        return datetime(*entry.date_time).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
