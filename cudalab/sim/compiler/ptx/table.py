"""The table of instructions.

A row is a pattern in the notation of the PTX ISA and the function that lowers it::

    add.<s16|u16|s32|u32|s64|u64>          one of these is required
    add[.rn|rz|rm|rp][.ftz][.sat].f32      each of these is optional

Every opcode with its modifiers matches at most one row; an opcode without a row is an error. Each instruction family is
a module with its own ``Table``; ``lowering`` merges them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from cudalab.sim.compiler.ptx.nodes import BITS, Instruction

_SLOT = re.compile(r"\[\.?([^\]]+)\]|<([^>]+)>|([^.\[\]<>]+)")


class Form:
    """A parsed opcode: its row, modifiers and types in order."""

    __slots__ = ("bits", "kind", "modifiers", "opcode", "row", "signed", "types")

    def __init__(self, row: Row, opcode: str, tokens: list[str]) -> None:
        self.row = row
        self.opcode = opcode
        self.modifiers = frozenset(tokens)
        self.types = tuple(token for token in tokens if token in BITS)
        last = self.types[-1] if self.types else "b32"
        self.bits = BITS[last]
        self.kind = last[0]
        self.signed = last[0] == "s"

    def __contains__(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def choose(self, *candidates: str) -> str:
        """The one of ``candidates`` that the opcode carries, or ``""``."""
        for candidate in candidates:
            if candidate in self.modifiers:
                return candidate
        return ""


#: Takes the emitter of the current function; memory and suspension need one of ``codegen.threads``.
Lower = Callable[[Any, Instruction, Form], None]


@dataclass(frozen=True)
class Row:
    """One line of the table. ``slots``: (required, alternatives) after the name."""

    pattern: str
    name: str
    slots: tuple[tuple[bool, tuple[str, ...]], ...]
    lower: Lower

    def match(self, parts: list[str]) -> list[str] | None:
        """The tokens of an opcode split at its dots, or None when it is not of this row."""
        at = 1
        for required, alternatives in self.slots:
            if at < len(parts) and parts[at] in alternatives:
                at += 1
            elif required:
                return None
        return parts[1:] if at == len(parts) else None

    def cover(self) -> list[str]:
        """Opcodes of this row in which every alternative of every slot appears at least once."""
        base = [alternatives[0] if required else "" for required, alternatives in self.slots]
        found = {".".join([self.name, *[token for token in base if token]]): None}
        for position, (_, alternatives) in enumerate(self.slots):
            for alternative in alternatives:
                tokens = [*base[:position], alternative, *base[position + 1 :]]
                found[".".join([self.name, *[token for token in tokens if token]])] = None
        return list(found)

    def opcodes(self) -> Iterator[str]:
        """Every opcode of this row."""
        choices = [alternatives if required else ("", *alternatives) for required, alternatives in self.slots]
        for chosen in product(*choices):
            yield ".".join([self.name, *[token for token in chosen if token]])


class Table:
    """Rows, by the opcode's name."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}
        self._forms: dict[str, Form | None] = {}

    def row(self, *patterns: str) -> Callable[[Lower], Lower]:
        """Register the decorated function for each pattern."""

        def register(lower: Lower) -> Lower:
            for pattern in patterns:
                self.add(pattern, lower)
            return lower

        return register

    def add(self, pattern: str, lower: Lower) -> None:
        name, slots = "", []
        for optional, required, plain in _SLOT.findall(pattern):
            if not name:
                name = plain
            elif optional:
                slots.append((False, tuple(optional.split("|"))))
            else:
                slots.append((True, tuple((required or plain).split("|"))))
        self.rows.setdefault(name, []).append(Row(pattern, name, tuple(slots), lower))

    def include(self, other: Table) -> None:
        """Add all rows of another table."""
        for name, rows in other.rows.items():
            self.rows.setdefault(name, []).extend(rows)

    def find(self, opcode: str) -> Form | None:
        """The form of an opcode, or None when it is outside the scope."""
        if opcode in self._forms:
            return self._forms[opcode]
        parts = opcode.split(".")
        form = None
        for row in self.rows.get(parts[0], ()):
            tokens = row.match(parts)
            if tokens is not None:
                form = Form(row, opcode, tokens)
                break
        self._forms[opcode] = form
        return form

    def all_rows(self) -> list[Row]:
        return [row for rows in self.rows.values() for row in rows]
