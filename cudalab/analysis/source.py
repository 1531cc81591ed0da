"""What the compiler made of a kernel: ``cudalab.source(kernel)``.

CUDA C++ becomes PTX, the instruction set of a virtual machine, and PTX becomes the machine code of one GPU generation
(guide, "Compilation with NVCC"; PTX ISA). The view puts the PTX of each source line beside the line, and says what the
assembler reported: registers a thread, shared and local memory, spills. With a profile, each line also has its counts.

The course's own compiler (NVRTC 13.0 for ``sm_90``, with line information) is used on both devices. On a GPU, CuPy
compiled the same text for that GPU; its register count is ``kernel.num_regs``.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cudalab.analysis.line_counts import LineTable, SourceLine, bar
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.machine_code.listing import shown_lines
from cudalab.sim.compiler.program import Kernel, Program

_numbers = itertools.count(1)  # of the views in a page, so that one's rules do not reach another


@dataclass(frozen=True)
class KernelSource:
    """A kernel's source lines with the PTX that each became."""

    name: str
    """As in the PTX."""

    code: str
    """CUDA C++, as given."""

    ptx: str
    """The whole PTX of the translation unit."""

    instructions: dict[int, tuple[str, ...]]
    """Source line, counted from 1 → its PTX instructions, in PTX order. Inlined functions count at the line that
    they are written on."""

    registers: int | None
    """32-bit registers a thread; None when the assembler did not say."""

    shared: int
    """Static shared memory of a block, bytes."""

    local: int
    """Local memory of a thread, bytes: arrays that do not fit into registers, and spills."""

    spills: int
    """Bytes that one thread stores because registers ran out."""

    log: str
    """What the compiler said."""

    listing: tuple[tuple[int, str], ...] = ()
    """The kernel's PTX in its own order: source line, and the instruction or label."""

    counts: dict[int, SourceLine] | None = None
    """With a profile: source line → what it did."""

    notes: tuple[str, ...] = ()
    """With a profile: what the assembler changed."""

    @property
    def summary(self) -> str:
        """One sentence."""
        count = sum(map(len, self.instructions.values()))
        registers = "an unknown number of registers" if self.registers is None else f"{self.registers} registers"
        spills = f", {self.spills} bytes spilled" if self.spills else ", nothing spilled"
        return (
            f"{self.name}: {count} PTX instructions, {registers} and {self.local} bytes of local memory a thread, "
            f"{self.shared} bytes of static shared memory a block{spills}."
        )

    def _rows(self) -> list[tuple[int, str, tuple[str, ...]]]:
        lines = enumerate(self.code.split("\n"), start=1)
        return [(number, text, self.instructions.get(number, ())) for number, text in lines]

    def _counted(self, line: int) -> tuple[str, ...]:
        """Executions, active threads, sectors, wavefronts and bank conflicts of a line, as text."""
        entry = (self.counts or {}).get(line)
        if entry is None:
            return ("",) * len(_COUNTS)
        numbers = (entry.sectors, entry.wavefronts, entry.bank_conflicts)
        rest = [f"{number:,.0f}" if number else "" for number in numbers]
        threads = f"{entry.threads:.3g}" if entry.instructions else ""
        return (f"{entry.executions:,.0f}" if entry.executions else "", threads, *rest)

    def __repr__(self) -> str:
        shown = [row for row in self._rows() if row[1].strip() or row[2]]
        counted = [self._counted(number) for number, _, _ in shown] if self.counts is not None else [()] * len(shown)
        heads: tuple[str, ...] = _COUNTS if self.counts is not None else ()
        widths = [max([len(head), *(len(cells[at]) for cells in counted)]) for at, head in enumerate(heads)]
        rows = []
        if heads:
            rows.append("line  " + "  ".join(head.rjust(width) for head, width in zip(heads, widths, strict=True)))
        for (number, text, instructions), cells in zip(shown, counted, strict=True):
            numbers = "".join(cell.rjust(width) + "  " for cell, width in zip(cells, widths, strict=True))
            rows.append(f"{number:4}  {numbers}{text}".rstrip())
            rows += [f"          | {line}" for line in instructions]
        log = f"\nCompiler log:\n{self.log.strip()}" if self.log.strip() else ""
        return "\n".join([self.summary, *self.notes, *rows]) + log

    def _repr_html_(self) -> str:
        """Source on the left, PTX on the right: pointing at a line, or clicking it, marks the other's lines. That needs
        no script, only a style sheet; where a page drops it, both sides are still there."""
        view = f"cudalab-source-{next(_numbers)}"
        used = sorted({line for line, _ in self.listing if line})
        marks = ",".join(f"#{view}:has(.l{n}:hover) .l{n},#{view}:has(#{view}-{n}:checked) .l{n}" for n in used)
        marked = "background:rgba(230,159,0,.35)!important"
        style = f"<style>{marks}{{{marked}}}#{view} .row{{cursor:pointer}}</style>" if marks else ""
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        log = f"<details><summary>Compiler log</summary><pre>{html.escape(self.log.strip())}</pre></details>"
        return (
            f"<div id='{view}'>{style}<p>{html.escape(self.summary)}</p>{notes}"
            "<div style='display:flex;gap:12px;align-items:flex-start;text-align:left'>"
            f"<div style='flex:1.6;min-width:0;overflow:auto;max-height:36em'>"
            f"{self._source_html(view, set(used))}</div>"
            f"<div class='ptx' style='flex:1;min-width:0;overflow:auto;max-height:36em;position:relative;"
            f"border-left:1px solid #C9CED4;padding-left:8px'>{self._ptx_html()}</div></div>"
            f"{log if self.log.strip() else ''}</div>"
        )

    def _source_html(self, view: str, used: set[int]) -> str:
        counts = _COUNTS if self.counts is not None else ()
        heads = "".join(f"<th style='{_CELL};text-align:right'>{head}</th>" for head in ("line", *counts))
        body = []
        for number, text, _ in self._rows():
            entry = (self.counts or {}).get(number)
            cells = [f"<td style='{_CELL};text-align:right;opacity:.7'>{number}</td>"]
            for at, cell in enumerate(self._counted(number) if counts else ()):
                fill = bar(entry.share, "#0072B2") if at == 0 and entry is not None else ""
                red = ";color:#D55E00;font-weight:bold" if _is_bad(at, cell) else ""
                cells.append(f"<td style='{_CELL};text-align:right;{fill}{red}'>{cell}</td>")
            code = html.escape(text) or "&nbsp;"
            if number in used:
                jump = (
                    f"var p=document.querySelector('#{view} .ptx'),e=p.querySelector('.l{number}');"
                    "if(e)p.scrollTop=e.offsetTop-40"
                )
                code = (
                    f"<label style='display:block;cursor:pointer;margin:0;font:inherit' onclick=\"{jump}\">"
                    f"<input type='radio' name='{view}' id='{view}-{number}' style='display:none'>{code}</label>"
                )
            cells.append(f"<td style='{_CELL};text-align:left'>{code}</td>")
            mark = f" class='row l{number}'" if number in used else ""
            body.append(f"<tr{mark} style='background:none'>{''.join(cells)}</tr>")
        return (
            f"<table style='border-collapse:collapse'><thead><tr>{heads}<th style='{_CELL};text-align:left'>CUDA C++"
            f"</th></tr></thead><tbody>{''.join(body)}</tbody></table>"
        )

    def _ptx_html(self) -> str:
        rows = [f"<div style='{_CELL};font-weight:bold'>PTX</div>"]
        for line, text in self.listing:
            number = f"<span style='opacity:.7;display:inline-block;width:3em'>{line or ''}</span>"
            indent = "" if text.endswith(":") else "    "
            rows.append(f"<div class='l{line}' style='{_CELL}'>{number}{indent}{html.escape(text)}</div>")
        return "".join(rows)


_COUNTS = ("executions", "threads", "sectors", "wavefronts", "conflicts")
_CELL = "font-family:monospace;font-size:12px;line-height:1.45;white-space:pre;padding:0 6px;border:none"


def _is_bad(column: int, cell: str) -> bool:
    """Bank conflicts, and instructions that less than half of a warp takes part in, catch the eye."""
    return column == 4 and bool(cell) or column == 1 and bool(cell) and float(cell) < 16


class LineProfile(Protocol):
    """What the view takes of a ``cudalab.profile``: which kernel it is of, and its counts by line."""

    @property
    def kernel(self) -> str: ...

    @property
    def program(self) -> Program: ...

    @property
    def compiled(self) -> Kernel: ...

    @property
    def lines(self) -> LineTable: ...

    @property
    def notes(self) -> Sequence[str]: ...


def source(kernel: Any, *, profile: LineProfile | None = None) -> KernelSource:
    """The PTX of ``kernel`` beside its source lines, its registers and memory, and the compiler's log.

    Args:
        kernel: a ``RawKernel``, a function of a ``RawModule``, or what ``%%cuda`` bound.
        profile: what ``cudalab.profile`` returned for this kernel: then each line has its counts, too.

    Raises:
        TypeError: anything else.
        ValueError: a profile of another kernel.
        CompileError: it does not compile.
    """
    code, name = getattr(kernel, "code", None), getattr(kernel, "name", None)
    if not isinstance(code, str) or not isinstance(name, str):
        raise TypeError(
            f"source: expected a kernel made from CUDA C++ (a RawKernel, or what %%cuda bound), got "
            f"{type(kernel).__name__}"
        )
    program = compile(
        code,
        options=tuple(getattr(kernel, "options", ())),
        name_expressions=tuple(getattr(kernel, "name_expressions", ()) or ()),
    )
    return view(program, name, code, profile)


def view(program: Program, name: str, code: str, profile: LineProfile | None = None) -> KernelSource:
    """The source view of one kernel of a compiled program, with the counts of a launch of it."""
    lowered = program.lowered_names.get(name, name)
    found = program.kernels.get(lowered)
    if found is None:
        raise ValueError(f"source: the program has no kernel {name!r}; it has {', '.join(program.kernels) or 'none'}")
    if profile is not None and (profile.program.ptx != program.ptx or profile.compiled.name != found.name):
        raise ValueError(f"source: the profile is of {profile.kernel!r} in another program, not of this {name!r}")
    resources = found.resources
    listing = shown_lines(program, found)
    return KernelSource(
        name=name,
        code=code,
        ptx=program.ptx,
        instructions=_by_line(listing),
        registers=resources.registers if resources else None,
        shared=resources.shared if resources else found.static_shared,
        local=resources.local if resources else found.local_bytes,
        spills=resources.spill_stores if resources else 0,
        log=program.log,
        listing=listing,
        counts={entry.place.line: entry for entry in profile.lines.source} if profile is not None else None,
        notes=tuple(profile.notes) if profile is not None else (),
    )


def _by_line(listing: tuple[tuple[int, str], ...]) -> dict[int, tuple[str, ...]]:
    """The instructions of each source line."""
    found: dict[int, list[str]] = {}
    for line, text in listing:
        if not text.endswith(":"):
            found.setdefault(line, []).append(text)
    return {number: tuple(lines) for number, lines in sorted(found.items())}
