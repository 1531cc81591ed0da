"""What the compiler made of a kernel: ``cudalab.source(kernel)``.

CUDA C++ becomes PTX, the instruction set of a virtual machine, and PTX becomes the machine code of one GPU generation
(guide, "Compilation with NVCC"; PTX ISA). The view puts the PTX of each source line beside the line, and says what the
assembler reported: registers a thread, shared and local memory, spills.

The course's own compiler (NVRTC 13.0 for ``sm_90``, with line information) is used on both devices. On a GPU, CuPy
compiled the same text for that GPU; its register count is ``kernel.num_regs``.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

from cudalab.sim.compiler import Program, compile

_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+\d+)?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+\s+)?[a-z][\w.]*\b.*;")


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

    def __repr__(self) -> str:
        rows = []
        for number, text, instructions in self._rows():
            if text.strip() or instructions:
                rows.append(f"{number:4}  {text}")
                rows += [f"          | {line}" for line in instructions]
        log = f"\nCompiler log:\n{self.log.strip()}" if self.log.strip() else ""
        return "\n".join([self.summary, *rows]) + log

    def _repr_html_(self) -> str:
        cell = "style='text-align:left;vertical-align:top;white-space:pre;font-family:monospace'"
        rows = "".join(
            f"<tr><td {cell}>{number}</td><td {cell}>{html.escape(text)}</td>"
            f"<td {cell}>{html.escape(chr(10).join(instructions))}</td></tr>"
            for number, text, instructions in self._rows()
            if text.strip() or instructions
        )
        log = f"<details><summary>Compiler log</summary><pre>{html.escape(self.log.strip())}</pre></details>"
        return (
            f"<p>{html.escape(self.summary)}</p><table><thead><tr><th>line</th><th style='text-align:left'>CUDA C++"
            f"</th><th style='text-align:left'>PTX</th></tr></thead><tbody>{rows}</tbody></table>"
            + (log if self.log.strip() else "")
        )


def source(kernel: Any) -> KernelSource:
    """The PTX of ``kernel`` beside its source lines, its registers and memory, and the compiler's log.

    ``kernel`` is a ``RawKernel``, a function of a ``RawModule``, or what ``%%cuda`` bound. Raises ``TypeError`` for
    anything else and ``CompileError`` when it does not compile.
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
    return view(program, name, code)


def view(program: Program, name: str, code: str) -> KernelSource:
    """The source view of one kernel of a compiled program."""
    lowered = program.lowered_names.get(name, name)
    found = program.kernels.get(lowered)
    if found is None:
        raise ValueError(f"source: the program has no kernel {name!r}; it has {', '.join(program.kernels) or 'none'}")
    resources = found.resources
    return KernelSource(
        name=name,
        code=code,
        ptx=program.ptx,
        instructions=instructions_by_line(program.ptx, lowered, found.location.file),
        registers=resources.registers if resources else None,
        shared=resources.shared if resources else found.static_shared,
        local=resources.local if resources else found.local_bytes,
        spills=resources.spill_stores if resources else 0,
        log=program.log,
    )


def entry_text(ptx: str, lowered: str) -> str:
    """The body of one kernel in the PTX."""
    start = re.search(rf"\.entry\s+{re.escape(lowered)}\b", ptx)
    if start is None:
        return ""
    opening = ptx.index("{", start.end())
    depth = 0
    for position in range(opening, len(ptx)):
        depth += (ptx[position] == "{") - (ptx[position] == "}")
        if depth == 0:
            return ptx[opening + 1 : position]
    return ptx[opening + 1 :]


def instructions_by_line(ptx: str, lowered: str, file: str) -> dict[int, tuple[str, ...]]:
    """The PTX instructions of kernel ``lowered`` by source line, as the ``.loc`` lines say (PTX ISA, "Debugging
    Directives: .loc"). Lines of other files count at the place of the call in ``file``; without one, at line 0."""
    numbers = {match[1]: match[2] for line in ptx.split("\n") if (match := _FILE.match(line))}
    found: dict[int, list[str]] = {}
    line = 0
    for text in entry_text(ptx, lowered).split("\n"):
        place = _LOC.match(text)
        if place is not None:
            own = not file or numbers.get(place[1], file) == file
            line = int(place[2]) if own else int(place[4] or 0)
        elif _INSTRUCTION.match(text):
            found.setdefault(line, []).append(" ".join(text.split()))
    return {number: tuple(lines) for number, lines in sorted(found.items())}
