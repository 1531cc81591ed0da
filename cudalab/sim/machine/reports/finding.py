"""A finding: one mistake in a kernel, as text and as HTML, for faults of launches and the sanitizer's report.

The form follows compute-sanitizer's: what, where in the code, which thread of which block, and the nearest allocation.
Added are the line's text and what to try.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from cudalab.sim.abi import SHARED_WINDOW, WINDOW_SIZE
from cudalab.sim.compiler.program import Location, Program
from cudalab.sim.machine.launch.configuration import Dim3
from cudalab.sim.machine.reports import card


class Place(Struct, frozen=True):
    """A line of the learner's source."""

    file: str
    line: int
    text: str
    """The line without indentation; empty when it is not known."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Problem(NamedTuple):
    """The wording of a fault."""

    headline: str
    rule: str
    detail: str = ""
    advice: str = ""


class Finding(Struct, frozen=True, kw_only=True):
    """What is wrong, where, and what to try."""

    rule: str
    """A short, stable name: ``out of bounds``, ``use after free``, ``race``, ``divergent barrier`` …"""
    headline: str
    """One line, as compute-sanitizer would put it: ``Invalid __global__ write of size 4 bytes``."""
    kernel: str
    place: Place | None = None
    block: Dim3 | None = None
    thread: Dim3 | None = None
    address: int | None = None
    size: int = 0
    hazard: str = ""
    """Of a race: ``RAW``, ``WAR`` or ``WAW``."""
    other: tuple[Dim3, Dim3] | None = None
    """Of a race: block and thread of the other access."""
    detail: str = ""
    """More about this case: the nearest allocation and by how much it was missed, the other thread of a race …"""
    advice: str = ""
    tool: str = "memcheck"
    count: int = 1
    """How often it was seen: accesses, or places for races."""
    threads: int = 0
    """Different threads that did it; 0 where that is not counted."""
    blocks: int = 0
    """Different blocks of these threads."""
    addresses: tuple[int, int] | None = None
    """The lowest and the highest address."""

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
            out.append(f"Seen {self._seen()}; this is the first.")
        return out

    def _address(self) -> str:
        if self.address is None:
            return ""
        offset = self.address - SHARED_WINDOW
        return f"{offset:#x} in shared memory" if 0 <= offset < WINDOW_SIZE else f"{self.address:#x}"

    def _seen(self) -> str:
        """How often, by whom, and where."""
        text = f"{self.count} times"
        if self.threads:
            text += f" by {_number(self.threads, 'thread')}"
            if self.blocks > 1:
                text += f" of {self.blocks} blocks"
        if self.addresses is not None and self.addresses[0] != self.addresses[1]:
            text += f", at {self.addresses[0]:#x} … {self.addresses[1]:#x}"
        return text

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        cell = card.cell_of_kernel.get(self.kernel)
        near = f"In[{cell}], line {self.line}" if cell is not None and self.line else str(self.place or "")
        seen = self._seen() + "; this is the first" if self.count > 1 else "once"
        facts = [
            ("block", _tuple(self.block)),
            ("thread", _tuple(self.thread)),
            ("address", self._address()),
            ("size", f"{self.size} bytes" if self.size else ""),
            ("seen", seen),
        ]
        return card.card(
            "wrong",
            f"{self.headline} in kernel {self.kernel}",
            kind=self.tool,
            where=near,
            code=[(self.line, self.source)] if self.source else [],
            rule=self.rule,
            facts=[(name, value) for name, value in facts if value],
            detail=self.detail,
            advice=self.advice,
        )


def _tuple(value: Dim3 | None) -> str:
    return "({}, {}, {})".format(*value) if value is not None else ""


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


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


def triple(index: int, size: Dim3) -> Dim3:
    """A linear index as x, y, z."""
    x, y, _ = size
    return index % x, index // x % y, index // (x * y)
