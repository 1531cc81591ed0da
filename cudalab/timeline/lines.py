"""Which line of the learner's program ran when: how a measured call finds the line that made it.

CUPTI says when a call began, on the host; Python says when each line of the learner's began. The line of a call is the
last to begin before it. Python tells through ``sys.settrace``, which costs a fraction of a microsecond for each line of
the learner's, and for each function called; asking CUPTI to call Python at each call of the API would cost 80 µs (seen
on an H200), and show a timeline of nothing else. Where a debugger or a coverage tool has the trace function already,
lines stay unknown. Only the thread that opened the trace is watched.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from bisect import bisect_right
from types import CodeType, FrameType
from typing import Any

from cudalab.sim.device.caller import LIBRARIES

_LIBRARIES = frozenset({"cudalab", "cupy", "cupyx", "cupy_backends", "cuda", "cupti", "numpy", "contextlib"})


class LineLog:
    """Start, stop, and ask; times are ns of ``time.perf_counter_ns``."""

    def __init__(self) -> None:
        self.thread = 0
        self._times: list[int] = []
        self._lines: list[tuple[CodeType, int]] = []
        self._known: dict[CodeType, bool] = {}
        self._watched: list[FrameType] = []
        self._on = False

    def start(self, frame: FrameType | None) -> None:
        """Watch the program from ``frame``, the innermost of the learner's, on."""
        if sys.gettrace() is not None or self._on:
            return
        self._on = True
        self.thread = threading.get_ident()
        if frame is not None:
            self._note(frame)
        while frame is not None:
            if self._is_learners(frame) and frame.f_trace is None:
                frame.f_trace = self._local
                self._watched.append(frame)
            frame = frame.f_back
        sys.settrace(self._global)

    def stop(self) -> None:
        if not self._on:
            return
        self._on = False
        if threading.get_ident() == self.thread:
            sys.settrace(None)
        for frame in self._watched:
            frame.f_trace = None
            if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
                frame.f_locals.clear()  # a copy of a function's variables, made for us: it would keep arrays alive
        self._watched.clear()

    def clear(self) -> None:
        self._times.clear()
        self._lines.clear()

    def at(self, time: int) -> tuple[CodeType, int] | None:
        """The line that was running at ``time``; None before the first."""
        place = bisect_right(self._times, time) - 1
        return self._lines[place] if place >= 0 else None

    # -- what Python calls ---------------------------------------------------------------------------------------------

    def _global(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self._on or not self._is_learners(frame):
            return None
        self._note(frame)
        return self._local

    def _local(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._note(frame)
        elif event == "return":
            back = frame.f_back
            while back is not None and not self._is_learners(back):
                back = back.f_back
            if back is not None:
                self._note(back)
        return self._local

    def _note(self, frame: FrameType) -> None:
        self._times.append(time.perf_counter_ns())
        self._lines.append((frame.f_code, frame.f_lineno))

    def _is_learners(self, frame: FrameType) -> bool:
        code = frame.f_code
        known = self._known.get(code)
        if known is None:
            package = str(frame.f_globals.get("__name__", "")).split(".")[0]
            known = not (
                package in _LIBRARIES
                or package.startswith("namedtuple_")  # the constructor that collections makes for a named tuple
                or code.co_filename.startswith("<frozen")
            )
            self._known[code] = known
        return known


class LineCount(LineLog):
    """How many lines of the learner's began, and functions were called and returned from: what a :class:`LineLog` would
    note. What the simulator calls by itself is no call of the learner's."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def taken(self) -> int:
        """How many since it was asked last."""
        count, self._count = self._count, 0
        return count

    def _global(self, frame: FrameType, event: str, argument: Any) -> Any:
        caller = frame.f_back
        by_learner = caller is not None and caller.f_trace is not None
        if not by_learner and frame.f_code.co_filename.startswith(LIBRARIES):
            return None
        return super()._global(frame, event, argument)

    def _note(self, frame: FrameType) -> None:
        self._count += 1
