"""Opcodes with operands, from the patterns of ``syntax``.

Patterns with few opcodes are written out in full; of those with many, every pair of choices appears, and a seeded
sample of the rest.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from dataclasses import dataclass
from functools import cache

from tests.sim.compiler.opcodes.grammar.syntax import SYNTAX, Syntax

WHOLE = 6000
"""Patterns with at most so many opcodes are written out in full."""
MOST = 1500
"""Opcodes of another pattern that are asked about, beside those that bring each pair of choices."""
_SLOT = re.compile(r"\[\.?([^\]]+)\]|<([^>]+)>|([^.\[\]<>]+)")
_OPERAND = re.compile(r"(?<![\w.%])(t-?\d|w\d|V\d|[pqhrdxcfg])(?![\w])")
_BITS = re.compile(r"(?:pred)|[a-z]+?(\d+)(?:x(\d))?$")
_TYPE = re.compile(
    r"(pred|[bsu](8|16|32|64|128)|b?f16(x2)?|tf32|f32(x2)?|f64|[us](16x2|8x4)|ue8m0x2|e\dm\dx[24]|[us][24])$"
)
_KINDS = {
    "p": "%p1",
    "q": "%p2",
    "h": "%h1",
    "r": "%r1",
    "d": "%d1",
    "x": "%x1",
    "c": "%c1",
    "f": "%f1",
    "g": "%g1",
}
_BY_BITS = {8: "h", 16: "h", 32: "r", 64: "d", 128: "x"}
DECLARATIONS = """.reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b128 %x<4>; .reg .b8 %c<9>;
.reg .f32 %f<9>; .reg .f64 %g<9>;
.shared .align 128 .b8 shared_memory[256]; .local .align 128 .b8 local_memory[256];
mov.u64 %d1, global_memory; mov.u32 %r1, %tid.x; cvt.u16.u32 %h1, %r1; cvt.rn.f32.u32 %f1, %r1; cvt.rn.f64.u32 %g1, %r1;
setp.eq.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r1, 1;
"""
_HEAD = """.address_size 64
.global .align 128 .b8 global_memory[256];
.const .align 128 .b8 constant_memory[256];
.visible .entry k(.param .align 16 .b8 parameters[256])
{
"""


@dataclass(frozen=True)
class Form:
    """One opcode, and the operands that it might take."""

    opcode: str
    operands: tuple[str, ...]
    chapter: str

    def texts(self) -> list[str]:
        """The instruction with each choice of operands."""
        return [f"{self.opcode} {operands};" if operands else f"{self.opcode};" for operands in self.operands]


def head(target: str) -> str:
    """The beginning of a module, up to the first instruction of its kernel."""
    return f".version 9.0\n.target {target}\n{_HEAD}{DECLARATIONS}"


@cache
def forms() -> tuple[Form, ...]:
    """Every form of every pattern, each opcode once for each pattern that has it."""
    found: dict[tuple[str, tuple[str, ...]], Form] = {}
    for syntax in SYNTAX:
        for opcode in _opcodes(syntax.pattern):
            form = _form(syntax, opcode)
            if form is not None:
                found.setdefault((form.opcode, form.operands), form)
    return tuple(found.values())


def digest() -> str:
    """Of all forms, so that answers are known to be theirs."""
    return hashlib.sha256("\n".join(text for form in forms() for text in form.texts()).encode()).hexdigest()


def _opcodes(pattern: str) -> list[str]:
    choices = []
    for optional, required, plain in _SLOT.findall(pattern):
        choices.append(["", *optional.split("|")] if optional else (required or plain).split("|"))
    total = 1
    for slot in choices:
        total *= len(slot)
    if total <= WHOLE:
        rows = list(itertools.product(*choices))
    else:
        source = random.Random(pattern)
        rows = []
        base = [slot[0] for slot in choices]
        for (i, first), (j, second) in itertools.combinations(enumerate(choices), 2):
            for a, b in itertools.product(first, second):
                row = list(base)
                row[i], row[j] = a, b
                rows.append(tuple(row))
                row = [source.choice(slot) for slot in choices]
                row[i], row[j] = a, b
                rows.append(tuple(row))
        rows += [tuple(source.choice(slot) for slot in choices) for _ in range(MOST)]
    return list(dict.fromkeys(".".join(token for token in row if token) for row in rows))


def _register(kind: str) -> str:
    """A register for a type of the opcode."""
    if kind in ("f32", "f64", "pred"):
        return _KINDS[{"f32": "f", "f64": "g", "pred": "p"}[kind]]
    return _KINDS[_BY_BITS[bits_of(kind)]]


def bits_of(kind: str) -> int:
    """Bits of a register of this type."""
    if kind.startswith("ue8m0") or kind[0] == "e":
        return 16 if kind.endswith("x2") else 32
    if "x" in kind:
        base, _, count = kind.partition("x")
        return int(re.sub(r"\D", "", base)) * int(count)
    return 32 if kind == "tf32" else int(re.sub(r"\D", "", kind))


def _form(syntax: Syntax, opcode: str) -> Form | None:
    parts = opcode.split(".")
    types = [part for part in parts if _TYPE.match(part)]
    count = next((int(part[1]) for part in parts if part in ("v2", "v4", "v8")), 1)
    place = "[global_memory]"
    for space, text in (
        ("shared", "[shared_memory]"),
        ("shared::cta", "[shared_memory]"),
        ("shared::cluster", "[shared_memory]"),
        ("local", "[local_memory]"),
        ("const", "[constant_memory]"),
        ("param", "[parameters]"),
        ("param::entry", "[parameters]"),
        ("param::func", "[parameters]"),
    ):
        if space in parts:
            place = text
    if place == "[global_memory]" and "global" not in parts:
        place = "[%d1]"

    def operand(match: re.Match[str]) -> str:
        token = match[1]
        if token in _KINDS:
            return _KINDS[token]
        kind = types[int(token[1:])]
        if token[0] == "w":
            return _KINDS[_BY_BITS[min(128, 2 * bits_of(kind))]]
        register = _register(kind)
        return "{" + ", ".join([register] * count) + "}" if token[0] == "V" and count > 1 else register

    try:
        texts = []
        for template in syntax.operands:
            text = template.replace("[M]", place).replace("[G]", "[global_memory]").replace("[S]", "[shared_memory]")
            pieces = re.split(r"(\[[^\]]*\])", text)
            texts.append(
                "".join(
                    p if p in (place, "[global_memory]", "[shared_memory]") else _OPERAND.sub(operand, p)
                    for p in pieces
                )
            )
    except (IndexError, KeyError, ValueError):
        return None
    return Form(opcode, tuple(dict.fromkeys(texts)), syntax.chapter)
