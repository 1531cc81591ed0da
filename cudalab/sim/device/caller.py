"""Which line of the learner's program made a runtime call.

The innermost frame that is not part of cudalab counts: a notebook's cell, a script, a test. Frames are walked at each
call that enqueues work, so this keeps the code object and the line's number, and looks up the text only when asked.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from types import CodeType, FrameType

from msgspec import Struct

from cudalab.sim.machine.reports import card

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Place(Struct, frozen=True):
    """One line of Python; ``line`` counts from 1 and is 0 where the line is not known."""

    code: CodeType | None
    line: int

    @property
    def file(self) -> str:
        """The file, or the name that IPython gives to a cell; empty where it is not known."""
        return self.code.co_filename if self.code is not None else ""

    @property
    def text(self) -> str:
        """The line itself, without the space around it."""
        return linecache.getline(self.file, self.line).strip() if self.code is not None else ""

    def __str__(self) -> str:
        if self.code is None:
            return "unknown line"
        number = card.cell_of_file(self.file)
        cell = "cell" if number is None else f"In[{number}]"
        return f"{cell if is_cell(self.file) else os.path.basename(self.file)}, line {self.line}"


UNKNOWN = Place(None, 0)


def is_cell(file: str) -> bool:
    """Does this name a cell of a notebook?"""
    return "ipykernel_" in file or file.startswith("<ipython-input")


def is_ours(file: str) -> bool:
    """Is this file part of cudalab, or of the import system?"""
    return file.startswith((_PACKAGE, "<frozen"))


_only: str | None = None
"""The one file whose lines count, while an answer is tried: what its check does is nobody's line."""


def only_lines_of(file: str | None) -> str | None:
    """From now on only lines of this file are the learner's; None: of all but cudalab's. Returns what it was."""
    global _only
    before, _only = _only, file
    return before


_ours: dict[str, bool] = {}
"""By file: is it part of cudalab?"""
_places: dict[tuple[int, int], Place] = {}
"""By the code object's number, which may be given again, and the place in it: most calls come from few places, and to
find a line's number takes long in long code."""
_MOST_PLACES = 1 << 14


def place_of_call(depth: int = 1) -> Place:
    """The line of the learner's program that is being run. The ``depth`` innermost frames are known to be cudalab's; to
    look at one takes time."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        ours = _ours.get(file)  # is_ours, inlined: every call that enqueues work passes here
        if ours is None:
            ours = _ours[file] = is_ours(file)
        if not ours and (_only is None or file == _only):
            key = id(code), frame.f_lasti
            place = _places.get(key)
            if place is None or place.code is not code:
                if len(_places) >= _MOST_PLACES:
                    _places.clear()
                place = _places[key] = Place(code, frame.f_lineno)
            return place
        frame = frame.f_back
    return UNKNOWN


LIBRARIES = tuple(
    {os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def place_of_frames(frames: Sequence[tuple[str, int]]) -> Place:
    """The line of the learner's program among ``(file, line)`` of a Python stack, innermost first. Lines of installed
    packages are passed over: a touch of memory mostly happens within NumPy."""
    others = [frame for frame in frames if not is_ours(frame[0])]
    found = next((frame for frame in others if not frame[0].startswith(LIBRARIES)), others[0] if others else None)
    return Place(_code_of(found[0]), found[1]) if found is not None else UNKNOWN


@cache
def _code_of(file: str) -> CodeType:
    """A code object that names a file."""
    return compile("", file, "exec")
