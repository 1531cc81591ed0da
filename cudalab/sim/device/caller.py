"""Which line of the learner's program made a runtime call.

The innermost frame that is not part of cudalab counts: a notebook's cell, a script, a test. Frames are walked at each
call that enqueues work, so this keeps the code object and the line's number, and looks up the text only when asked.
"""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


@dataclass(frozen=True, slots=True)
class Place:
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
        file = "cell" if is_cell(self.file) else os.path.basename(self.file)
        return f"{file}, line {self.line}"


UNKNOWN = Place(None, 0)


def is_cell(file: str) -> bool:
    """Does this name a cell of a notebook?"""
    return "ipykernel_" in file or file.startswith("<ipython-input")


_ours: dict[CodeType, bool] = {}


def place_of_call() -> Place:
    """The line of the learner's program that is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        ours = _ours.get(code)
        if ours is None:
            ours = _ours[code] = code.co_filename.startswith(_PACKAGE) or code.co_filename.startswith("<frozen")
        if not ours:
            return Place(code, frame.f_lineno)
        frame = frame.f_back
    return UNKNOWN
