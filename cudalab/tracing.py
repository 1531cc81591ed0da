"""``cudalab.trace()``: record what a block of code gives to the device."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any, Protocol

from cudalab import backend, plots
from cudalab.timeline import naming
from cudalab.timeline.timeline import Source, Timeline


class Recording(Source, Protocol):
    """A source while the block runs."""

    def close(self, names: Mapping[int, str]) -> None:
        """The block ends: take no more work; ``names`` are the streams' names by handle."""


class trace:
    """Record the work that a block gives to the device::

        with cudalab.trace() as t:
            ...
        t                     # the picture and its sentence
        print(t.table())      # every span, and what it waited for

    Recorded are kernels, copies, memsets, CuPy's array functions, host functions, event records and waits in all
    streams, and the host's runtime calls. Work from before that still runs, or waits, when the block begins is part of
    the timeline too.

    Leaving the block does **not** synchronise: what the block did not wait for is still running afterwards, as without
    the trace, and a forgotten wait still shows. It is completed when the timeline is first looked at. On a GPU that
    waits for the device; on the simulated device its clock moves on, and the host's with it. A hazard report counts
    neither as a wait.

    Traces nest; each has all the work of its own block. When the block raises, the timeline up to there is kept, and
    the exception goes on.

    On a GPU, recording costs a few microseconds for each call of the host and spreads short work out a little; only
    one profiler can record at a time.

    Args:
        streams: names for streams, as ``{"upload": s1}``. Otherwise the learner's variables name them.

    Raises:
        TraceError: on a GPU, when CUPTI for Python (the package ``cupti-python``) is not there or cannot record.
        TypeError: something in ``streams`` is no stream.

    Guide: "Asynchronous Concurrent Execution", "Streams".
    """

    def __init__(self, *, streams: Mapping[str, object] | None = None) -> None:
        self._given = naming.given(streams)
        self._recording: Recording | None = None
        self._timeline: Timeline | None = None

    def __enter__(self) -> Timeline:
        if self._timeline is not None:
            raise RuntimeError("trace: a trace records one block; write `with cudalab.trace() as t:` for each")
        self._recording = _start()
        self._timeline = Timeline(self._recording, _draw)
        return self._timeline

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._recording is not None and self._timeline is not None
        self._recording.close(naming.names_in(_learners_frame()) | self._given)
        self._timeline._open = False
        self._timeline.error = error


def _draw(timeline: Timeline, **options: Any) -> Any:
    return plots.timeline.timeline(timeline, **options)  # loads matplotlib


def _start() -> Recording:
    if backend.choice().kind == "sim":
        from cudalab.timeline.simulated import SimulatedRecording

        return SimulatedRecording(backend.simulated_device(), _learners_frame())
    from cudalab.timeline.cupti import CuptiRecording

    return CuptiRecording(_learners_frame())


def _learners_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("cudalab", "contextlib"):
        frame = frame.f_back
    return frame
