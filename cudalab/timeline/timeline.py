"""The timeline: what a learner asks of a trace.

Percentages are shares of ``elapsed``, the time in which the device had this work: from the start of the first piece to
the end of the last. What the host does before and after does not count, so that a first call's set-up, or a slow
computer's Python, does not thin them out.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from cudalab.timeline import analysis, chrome, table
from cudalab.timeline.analysis import Overlap
from cudalab.timeline.spans import ARRAY, CALL, COPY, HOST_WORK, KERNEL, Span


class Source(Protocol):
    """Where a timeline's spans come from; one for each kind of device."""

    label: str
    hazard_note: str

    @property
    def device(self) -> str: ...

    @property
    def engines(self) -> tuple[str, ...]: ...

    def spans(self) -> list[Span]:
        """All spans, ordered by start; lets the device finish what is still running."""

    def hazards(self) -> Sequence[Any]: ...

    def host_elapsed(self) -> float: ...

    def stream_name(self, stream: object) -> str: ...


class Drawing(Protocol):
    """The picture of a timeline with its sentence."""

    def svg(self) -> str: ...

    def show(self) -> None: ...


class Timeline:
    """What ``with cudalab.trace() as t:`` gives: look at it after the block.

    As the last line of a cell it shows the picture and the sentence; ``print(t.table())`` lists every span.
    """

    def __init__(self, source: Source, draw: Callable[..., Drawing]) -> None:
        self._source, self._draw = source, draw
        self._spans: list[Span] | None = None
        self._open = True
        self.error: BaseException | None = None
        """What the block raised, if it did; the spans up to there are kept."""

    # -- what ran ------------------------------------------------------------------------------------------------------

    @property
    def spans(self) -> list[Span]:
        """Every span, ordered by start: work on the device, event records and waits, and the host's calls.

        Work that has not ended yet is completed first. On a GPU that waits for the device, on the simulated device its
        clock and the host's move on; neither counts as a synchronisation for the hazard report.

        Raises:
            RuntimeError: inside the block, where the trace is not complete yet.
        """
        if self._spans is None:
            if self._open:
                raise RuntimeError("trace: the block has not ended; look at the timeline after it, one level out")
            self._spans = self._source.spans()
        return self._spans

    @property
    def work(self) -> list[Span]:
        """The spans that did something on the device: kernels, copies, memsets, array operations, host functions."""
        return [span for span in self.spans if span.is_work]

    @property
    def kernels(self) -> list[Span]:
        """The kernels, array operations of CuPy included."""
        return [span for span in self.spans if span.kind in (KERNEL, ARRAY)]

    @property
    def copies(self) -> list[Span]:
        """The copies; ``engine`` tells the direction."""
        return [span for span in self.spans if span.kind == COPY]

    @property
    def calls(self) -> list[Span]:
        """The host's row: runtime calls and ``cudalab.host_work``."""
        return [span for span in self.spans if span.kind in (CALL, HOST_WORK)]

    @property
    def streams(self) -> list[str]:
        """Names of the streams, in the order of their numbers."""
        return list(dict.fromkeys(s.stream for s in sorted(self.spans, key=lambda s: s.stream_number) if s.stream))

    def in_stream(self, stream: object) -> list[Span]:
        """The spans of one stream, given by its name, as a CuPy stream or as a handle.

        Raises:
            KeyError: no such stream in the trace.
        """
        name = stream if isinstance(stream, str) else self._source.stream_name(stream)
        found = [span for span in self.spans if span.stream == name and span.stream]
        if not found:
            raise KeyError(f"trace: no work in stream {stream!r}; there are {', '.join(self.streams) or 'none'}")
        return found

    def span_of(self, name: str, *, stream: object = None, nth: int = 0) -> Span:
        """The ``nth`` span (from 0, by start) whose name or kind is ``name``; ``stream`` narrows it down.

        Raises:
            KeyError: no such span; the message lists the names.
        """
        among = self.spans if stream is None else self.in_stream(stream)
        found = [span for span in among if name in (span.name, span.kind)]
        if not -len(found) <= nth < len(found):
            names = ", ".join(dict.fromkeys(span.name for span in among)) or "none"
            many = f"only {len(found)} spans are" if found else "no span is"
            raise KeyError(f"trace: {many} named {name!r} (asked for number {nth}); names are: {names}")
        return found[nth]

    # -- how long ------------------------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """``measured`` or ``modelled``."""
        return self._source.label

    kind = label
    """The same under the name that ``cudalab.benchmark`` uses, so that a tuner takes a timeline as well."""

    @property
    def device(self) -> str:
        """The device, e.g. ``simulated NVIDIA H200``."""
        return self._source.device

    @property
    def elapsed(self) -> float:
        """µs from the start of the first work on the device to the end of the last."""
        begin, end = self.window
        return end - begin

    microseconds = elapsed

    @property
    def window(self) -> tuple[float, float]:
        """That start and that end, µs from the trace's begin; both 0 where nothing ran."""
        return analysis.window(self.spans)

    @property
    def host_elapsed(self) -> float:
        """µs from entering the block to leaving it, on the host's clock: how long the host was kept."""
        if self._open:
            raise RuntimeError("trace: the block has not ended; look at the timeline after it, one level out")
        return self._source.host_elapsed()

    # -- what it means -------------------------------------------------------------------------------------------------

    @property
    def overlap(self) -> Overlap:
        """How long engines worked at the same time, in percent of ``elapsed``."""
        return analysis.overlap(self.spans)

    @property
    def idle(self) -> dict[str, float]:
        """For each engine of the device, the percentage of ``elapsed`` in which it had nothing to do."""
        return analysis.idle(self.spans, self._source.engines)

    @property
    def sm_load(self) -> float:
        """How much of the SMs the kernels can keep busy, in percent of all SMs over ``elapsed``: a grid of one block on
        a device with 132 SMs counts for one of them. Where grids are not known, a kernel counts for all."""
        return analysis.sm_load(self.spans)

    @property
    def critical_path(self) -> list[Span]:
        """The chain of spans, each waiting for the one before, that ends with the last work to end. To be faster, one
        of these must get shorter or go."""
        return analysis.critical_path(self.spans)

    @property
    def hazards(self) -> Sequence[Any]:
        """Pairs of operations that touch the same bytes without an order, found in this block (``hazard_note`` says
        where none can be found). Only the simulated device reports them."""
        self.spans  # noqa: B018  what still runs may have one
        return self._source.hazards()

    @property
    def hazard_note(self) -> str:
        """Why ``hazards`` is empty on a GPU; an empty text on the simulated device."""
        return self._source.hazard_note

    @property
    def summary(self) -> str:
        """One sentence (plain text): what overlapped, what idled, what decided the time."""
        text = analysis.summary(self.spans, self._source.engines, self.label, self.device)
        if self.hazards:
            count = len(self.hazards)
            text = f"{text[:-1]}; {count} hazard{'s' * (count > 1)}: nothing orders work on the same bytes."
        if self.error is not None:
            text = f"{text[:-1]}; the block ended with {type(self.error).__name__}."
        return text

    def table(self, *, calls: bool = True, most: int = 200) -> table.Table:
        """Every span as a line: stream, name, start and duration, bytes, rate, what it waited for, and whose line it
        is. As the last line of a cell it is a table of the page; printed, it is text no wider than the page.

        Args:
            calls: the host's calls, too.
            most: lines at most; the rest is counted.
        """
        return table.table(self.spans, self.label, calls=calls, most=most)

    # -- pictures and files --------------------------------------------------------------------------------------------

    def picture(self, **options: Any) -> Drawing:
        """The picture with its sentence; ``options`` are those of ``cudalab.plot.timeline``."""
        return self._draw(self, **options)

    def chrome_trace(self) -> dict[str, Any]:
        """The timeline in the Trace Event Format, as Perfetto (ui.perfetto.dev) and chrome://tracing read it."""
        return chrome.chrome_trace(self.spans, device=self.device, label=self.label, summary=self.summary)

    def save(self, path: str | Path) -> Path:
        """Write ``chrome_trace()`` as JSON; returns the path."""
        path = Path(path)
        path.write_text(json.dumps(self.chrome_trace(), ensure_ascii=False) + "\n", encoding="utf-8")
        return path

    def _ipython_display_(self) -> None:
        self.picture().show()

    def _repr_html_(self) -> str:
        picture = self.picture()
        return f"<figure>{picture.svg()}<figcaption>{html.escape(self.summary, quote=False)}</figcaption></figure>"

    def __repr__(self) -> str:
        return "<timeline: the block has not ended>" if self._open else self.summary


Timelines = Timeline | Sequence[Timeline] | Mapping[str, Timeline]
"""What ``cudalab.plot.timeline`` draws: one timeline, or several below each other, with names."""
