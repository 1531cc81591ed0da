"""One thing found wrong in a kernel, and how it is shown: as a fault of a launch, and in the sanitizer's report.

The form follows compute-sanitizer's: what, where in the code, which thread of which block, and the nearest allocation.
Added are the line's text and what to try.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

from cudalab.sim.compiler.program import Location, Program

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Place:
    """A line of the learner's source."""

    file: str
    line: int
    text: str
    """The line without indentation; empty when it is not known."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is wrong, where, and what to try."""

    rule: str
    """A short, stable name: ``out of bounds``, ``use after free``, ``race``, ``divergent barrier`` …"""
    headline: str
    """One line, as compute-sanitizer would put it: ``Invalid __global__ write of size 4 bytes``."""
    kernel: str
    place: Place | None = None
    block: Triple | None = None
    thread: Triple | None = None
    address: int | None = None
    size: int = 0
    detail: str = ""
    """More about this case: the nearest allocation and by how much it was missed, the other thread of a race …"""
    advice: str = ""
    tool: str = "memcheck"
    count: int = 1
    """How often it was seen."""

    @property
    def line(self) -> int:
        """Line in the learner's source, 0 when unknown."""
        return self.place.line if self.place else 0

    @property
    def source(self) -> str:
        """Text of that line."""
        return self.place.text if self.place else ""

    def _where(self) -> str:
        parts = []
        if self.block is not None:
            parts.append("block ({},{},{})".format(*self.block))
        if self.thread is not None:
            parts.append("thread ({},{},{})".format(*self.thread))
        where = f"[{', '.join(parts)}] " if parts else ""
        near = f" — near {self.place}" if self.place else ""
        return f"{where}{self.rule}{near}"

    def lines(self) -> list[str]:
        """The report as lines of text."""
        out = [f"{self.headline} in kernel {self.kernel}", self._where()]
        if self.source:
            out.append(f"    {self.source}")
        if self.detail:
            out.append(self.detail)
        if self.advice:
            out.append(f"Try: {self.advice}")
        if self.count > 1:
            out.append(f"Seen {self.count} times; this is the first.")
        return out

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        source = f"<pre style='margin:2px 0'>{html.escape(self.source)}</pre>" if self.source else ""
        rest = "".join(
            f"<div>{html.escape(text)}</div>"
            for text in (
                self.detail,
                f"Try: {self.advice}" if self.advice else "",
                f"Seen {self.count} times; this is the first." if self.count > 1 else "",
            )
            if text
        )
        return (
            "<div style='border-left:4px solid #D55E00;padding-left:8px;margin:6px 0;text-align:left'>"
            f"<div><b>{html.escape(self.headline)}</b> in kernel <code>{html.escape(self.kernel)}</code></div>"
            f"<div>{html.escape(self._where())}</div>{source}{rest}</div>"
        )


_BUILT_IN = "__nv_nvrtc_builtin_header.h"


def place_of(location: Location, program: Program) -> Place | None:
    """The learner's own line for a location: a line inside a header is followed to where it was called from."""
    here: Location | None = location
    last: Location | None = None
    lines = program.source.splitlines()
    while here is not None:
        if here.line:
            last = here
            if _is_own(here.file):
                text = lines[here.line - 1].strip() if here.line <= len(lines) else ""
                return Place(here.file, here.line, text)
        here = here.inlined_at
    return Place(last.file, last.line, "") if last else None


def _is_own(file: str) -> bool:
    """Headers are named by an absolute path or a folder, or are the compiler's own; the learner's source by the name it
    was compiled under."""
    return "/" not in file and "\\" not in file and file != _BUILT_IN


def triple(index: int, extent: Triple) -> Triple:
    """A linear index as x, y, z."""
    x, y, _ = extent
    return index % x, index // x % y, index // (x * y)
