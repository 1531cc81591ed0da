"""What each line of a kernel's source did: instructions, divergence, memory requests, and its share of the cost.

Instructions are those of the PTX, each counted as often as warps entered its basic block. Beside them stands how many
machine instructions the assembler made of the line; that is a number of the code, not of the run.

The cost of a line is modelled: cycles of the resource that the kernel needs longest, of three. An SM issues an
instruction of four warps in a cycle, serves one wavefront of shared memory, and exchanges 64 bytes with the L2 cache
(guide, "Hardware Multithreading" and "Shared Memory"; 64 bytes is what NVIDIA states for compute capability 8.0).
Latency that no other warp hides is left out, so in a kernel with few warps the shares are not those of its time."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.machine_code.assembly import Assembly
from cudalab.sim.compiler.machine_code.listing import Listed
from cudalab.sim.compiler.program import Kernel, Program
from cudalab.sim.machine.counters.metrics import Counts, SiteCounts
from cudalab.sim.machine.reports.finding import Place, place_of

ISSUES = 4  # instructions an SM issues in a cycle
SECTORS = 2  # an SM exchanges with the L2 in a cycle
KINDS = {SiteKind.LOAD: "load", SiteKind.STORE: "store", SiteKind.ATOMIC: "atomic"}


@dataclass(frozen=True)
class LineCounts:
    """What one kind of access on one source line did."""

    place: Place
    kind: str
    """``"global load"``, ``"shared store"`` …"""
    requests: float
    """Warp instructions; of shared accesses those of the machine code, where neighbouring ones may be one."""
    sectors: float
    """32-byte sectors, for global and local memory."""
    wavefronts: float
    """For shared memory."""
    bank_conflicts: float
    requests_in_ptx: float = 0.0
    """Warp instructions of the PTX."""

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def wavefronts_per_request(self) -> float:
        return self.wavefronts / self.requests if self.requests else 0.0

    @property
    def rate(self) -> str:
        """``4 sectors per request``."""
        if self.wavefronts:
            return f"{_several(self.wavefronts_per_request, 'wavefront')} per request"
        return f"{_several(self.sectors_per_request, 'sector')} per request"

    @property
    def brief(self) -> str:
        """``global load 4 sectors``: what one request takes, of a table with little room."""
        if self.wavefronts:
            return f"{self.kind} {_several(self.wavefronts_per_request, 'wavefront')}"
        return f"{self.kind} {_several(self.sectors_per_request, 'sector')}"


@dataclass
class SourceLine:
    """All that is known of one source line."""

    place: Place
    instructions: float = 0.0
    """PTX instructions executed by warps."""
    thread_instructions: float = 0.0
    """PTX instructions executed by threads."""
    branches: float = 0.0
    """Branches executed by warps."""
    divergent: float = 0.0
    """Branches at which the lanes of a warp parted."""
    executions: float = 0.0
    """How often warps came by: of its instruction that was executed most often."""
    ptx: int = 0
    """PTX instructions in the code."""
    machine: int | None = None
    """Machine instructions in the code; None where the assembler's work is not known."""
    accesses: list[LineCounts] = field(default_factory=list)
    share: float = 0.0
    """Of the kernel's executed instructions, 0 to 1."""
    cost: float = 0.0
    """Of the kernel's modelled cycles of its busiest resource, 0 to 1."""

    @property
    def threads(self) -> float:
        """Active threads an instruction, 0 to 32."""
        return self.thread_instructions / self.instructions if self.instructions else 0.0

    @property
    def sectors(self) -> float:
        return sum(access.sectors for access in self.accesses)

    @property
    def wavefronts(self) -> float:
        return sum(access.wavefronts for access in self.accesses)

    @property
    def bank_conflicts(self) -> float:
        return sum(access.bank_conflicts for access in self.accesses)


@dataclass(frozen=True)
class MergedAccesses:
    """Shared accesses of one line that the assembler made wider."""

    place: Place
    kind: str
    """``load`` or ``store``."""
    before: int
    """Instructions of the PTX."""
    after: int
    """Instructions of the machine code."""
    width: int
    """Bytes that a thread moves with each of those."""

    def __str__(self) -> str:
        one = self.after == 1
        return (
            f"{self.place}: the assembler merged {self.before} shared {self.kind}s into {self.after} of {self.width} "
            f"bytes{'' if one else ' each'}"
        )


class LineTable(Sequence[LineCounts]):
    """The memory accesses of a launch by source line and kind, in the order of the lines. Shown as a table with a row
    for each line, which ``source`` holds, too."""

    def __init__(self, accesses: Sequence[LineCounts], source: Sequence[SourceLine], busiest: str) -> None:
        self._accesses = tuple(accesses)
        self.source = tuple(source)
        """A :class:`SourceLine` for each line that the kernel executed."""
        self.busiest = busiest
        """The resource that ``cost`` shares out: ``issue``, ``shared memory`` or ``L2 traffic``."""

    @overload
    def __getitem__(self, index: int) -> LineCounts: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LineCounts, ...]: ...
    def __getitem__(self, index: int | slice) -> LineCounts | tuple[LineCounts, ...]:
        return self._accesses[index]

    def __len__(self) -> int:
        return len(self._accesses)

    def __iter__(self) -> Iterator[LineCounts]:
        return iter(self._accesses)

    def at(self, line: int) -> SourceLine:
        """The entry of one line, counted from 1.

        Raises:
            KeyError: the kernel executed nothing of that line; the message lists the lines it did.
        """
        for entry in self.source:
            if entry.place.line == line:
                return entry
        lines = ", ".join(str(entry.place.line) for entry in self.source)
        raise KeyError(f"lines: the kernel executed nothing of line {line}; it executed lines {lines}")

    def _cells(self) -> list[tuple[str, ...]]:
        out: list[tuple[str, ...]] = []
        for entry in self.source:
            diverged = f"{entry.divergent / entry.branches:.0%}" if entry.branches else ""
            machine = "?" if entry.machine is None else str(entry.machine)
            accesses = "; ".join(access.brief for access in entry.accesses)
            out.append(
                (
                    str(entry.place.line),
                    f"{entry.share:.1%}",
                    f"{entry.threads:.3g}",
                    diverged,
                    f"{entry.ptx}/{machine}",
                    f"{entry.cost:.1%}",
                    entry.place.text,
                    accesses,
                )
            )
        return out

    @property
    def _heads(self) -> tuple[str, ...]:
        cost = f"cost ({self.busiest})"
        return ("line", "instructions", "threads", "diverged", "PTX/machine", cost, "source", "one request takes")

    def __repr__(self) -> str:
        rows = [self._heads, *((*row[:6], _shortened(row[6]), row[7]) for row in self._cells())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self._heads))]
        out = []
        for row in rows:
            cells = [
                cell.rjust(width) if index < 6 else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            out.append("  ".join(cells).rstrip())
        return "\n".join(out)

    def _repr_html_(self) -> str:
        heads = "".join(
            f"<th style='text-align:{'right' if index < 6 else 'left'}'>{html.escape(head)}</th>"
            for index, head in enumerate(self._heads)
        )
        body = []
        for entry, row in zip(self.source, self._cells(), strict=True):
            cells = []
            for index, cell in enumerate(row):
                style = f"text-align:{'right' if index < 6 else 'left'}"
                if index in (1, 5):
                    style += ";" + bar(
                        entry.share if index == 1 else entry.cost, "#0072B2" if index == 1 else "#D55E00"
                    )
                if index == 3 and entry.divergent:
                    style += ";color:#D55E00;font-weight:bold"
                text = html.escape(_shortened(cell) if index == 6 else cell)
                cells.append(f"<td style='{style}'>{f'<code>{text}</code>' if index == 6 else text}</td>")
            body.append(f"<tr>{''.join(cells)}</tr>")
        note = (
            "Instructions: share of the PTX instructions that warps executed. Threads: active ones an instruction, of "
            "32. Diverged: share of branches at which a warp's lanes parted. PTX/machine: instructions in the code. "
            f"Cost: modelled, share of {self.busiest}."
        )
        return (
            f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"
            f"<p style='opacity:.75'>{html.escape(note)}</p>"
        )


def _several(number: float, unit: str) -> str:
    text = f"{number:.3g}"
    return f"{text} {unit}{'' if text == '1' else 's'}"


def _shortened(text: str, most: int = 64) -> str:
    return text if len(text) <= most else text[: most - 2] + " …"


def bar(share: float, colour: str) -> str:
    """CSS that fills a share of a cell, from the right."""
    percent = max(0.0, min(1.0, share)) * 100
    return f"background:linear-gradient(to left,{colour}44 {percent:.1f}%,transparent {percent:.1f}%)"


def space_name(entry: SiteCounts) -> str:
    """``shared``, ``local``, ``texture`` or ``global``; empty for what is none of them."""
    if entry.wavefronts or entry.merged:
        return "shared"
    if not entry.sectors:
        return ""
    return {Space.LOCAL: "local", Space.TEXTURE: "texture"}.get(entry.site.space, "global")


def line_table(counts: Counts, program: Program, code: Assembly, lines: Sequence[Listed]) -> LineTable:
    """Put together what is known of each line.

    Args:
        counts: of the launch.
        program: the translation unit.
        code: its machine code.
        lines: its PTX instructions.
    """
    accesses = _accesses(counts, program)
    found: dict[Place, SourceLine] = {}
    places = {location: place_of(location, program) for location in {each.location for each in lines}}
    for each in lines:
        place = places[each.location]
        if place is None:
            continue
        entry = found.setdefault(place, SourceLine(place, machine=0 if code.known else None))
        entry.ptx += 1
        if entry.machine is not None:
            entry.machine += len(code.of_line.get(each.line, ()))
        times = 0.0
        for index in each.blocks:
            block = counts.blocks_entered.get(index)
            if block is None:
                continue
            times += block.visits
            entry.instructions += block.visits
            entry.thread_instructions += block.threads
            if each.branches:
                entry.branches += block.branches
                entry.divergent += block.divergent
        entry.executions = max(entry.executions, times)
    for access in accesses:
        found.setdefault(access.place, SourceLine(access.place)).accesses.append(access)
    ran = [entry for entry in found.values() if entry.instructions or entry.accesses]
    ran.sort(key=lambda entry: (entry.place.file, entry.place.line))
    return LineTable(accesses, ran, _share(ran))


def _share(lines: Sequence[SourceLine]) -> str:
    """Fill in the shares; the name of the busiest resource."""
    cycles = {
        "issue": [entry.instructions / ISSUES for entry in lines],
        "shared memory": [entry.wavefronts for entry in lines],
        "L2 traffic": [entry.sectors / SECTORS for entry in lines],
    }
    busiest = max(cycles, key=lambda name: sum(cycles[name]))
    executed, total = sum(entry.instructions for entry in lines), sum(cycles[busiest])
    for entry, spent in zip(lines, cycles[busiest], strict=True):
        entry.share = entry.instructions / executed if executed else 0.0
        entry.cost = spent / total if total else 0.0
    return busiest


def _accesses(counts: Counts, program: Program) -> list[LineCounts]:
    """Accesses summed by line and kind, in the order of the lines."""
    found: dict[tuple[Place, str], list[float]] = {}
    for entry in counts.sites:
        place, space = place_of(entry.site.location, program), space_name(entry)
        if place is None or not space:
            continue
        numbers = found.setdefault((place, f"{space} {KINDS[entry.site.kind]}"), [0.0] * 5)
        own = 0.0 if entry.merged else entry.requests
        for index, value in enumerate((own, entry.sectors, entry.wavefronts, entry.bank_conflicts, entry.requests)):
            numbers[index] += value
    ordered = sorted(found.items(), key=lambda item: (item[0][0].file, item[0][0].line))
    return [LineCounts(place, kind, *numbers) for (place, kind), numbers in ordered]


def merged_accesses(counts: Counts, program: Program, kernel: Kernel) -> tuple[MergedAccesses, ...]:
    """Which shared accesses the assembler merged, by line."""
    found: dict[tuple[Place, str, int], list[int]] = {}
    members = {id(kernel.sites[merge.leader]): len(merge.members) for merge in counts.merges}
    for entry in counts.sites:
        place = place_of(entry.site.location, program)
        if place is not None and entry.width:
            numbers = found.setdefault((place, KINDS[entry.site.kind], entry.width), [0, 0])
            numbers[0] += members.get(id(entry.site), 1)
            numbers[1] += 1
    ordered = sorted(found.items(), key=lambda item: (item[0][0].file, item[0][0].line, item[0][1]))
    return tuple(MergedAccesses(place, kind, before, after, width) for (place, kind, width), (before, after) in ordered)
