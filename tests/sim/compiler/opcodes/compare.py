"""Comparison and selection (PTX ISA, "Comparison and Selection Instructions")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from tests.sim.compiler.opcodes import integer, number
from tests.sim.compiler.opcodes.case import Case, opcodes

_COMBINE = "[.and|or|xor]"
_REAL = "<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>"
_KINDS = (
    f"<eq|ne>{_COMBINE}[]<b16|b32|b64>",
    f"<eq|ne|lt|le|gt|ge|lo|ls|hi|hs>{_COMBINE}[]<u16|u32|u64>",
    f"<eq|ne|lt|le|gt|ge>{_COMBINE}[]<s16|s32|s64>",
    f"{_REAL}{_COMBINE}[.ftz]<f32>",
    f"{_REAL}{_COMBINE}[]<f64>",
)
_ORDER: dict[str, Callable[[int], bool]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
}
_SAME = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINATIONS: dict[str, Callable[[int, int], int]] = {
    "": lambda outcome, c: outcome,
    "and": lambda outcome, c: outcome & c,
    "or": lambda outcome, c: outcome | c,
    "xor": lambda outcome, c: outcome ^ c,
}


@cache
def compare(operation: str, type: str, ftz: bool, a: int, b: int) -> int:
    """The outcome, 0 or 1. ``ltu`` and its like hold where an operand is NaN; ``num`` where none is."""
    if type[0] != "f":
        x, y = integer.number(type, a), integer.number(type, b)
        return int(_ORDER[_SAME.get(operation, operation)]((x > y) - (x < y)))
    f = number.FORMATS[type]
    if ftz:
        a, b = number.flush(f, a), number.flush(f, b)
    order = number.compare(f, a, b)
    if operation in ("num", "nan"):
        return int((order is None) == (operation == "nan"))
    if order is None:
        return int(operation.endswith("u"))
    return int(_ORDER[operation.removesuffix("u")](order))


def _forms() -> Iterator[tuple[str, str, str, str]]:
    """Operation, combination, ``ftz`` or nothing, type."""
    for pattern in _KINDS:
        for _, chosen in opcodes(pattern.replace("[]", "")):
            yield (chosen[0], chosen[1], chosen[2] if len(chosen) == 4 else "", chosen[-1])


def _opcode(*tokens: str) -> str:
    return ".".join(token for token in tokens if token)


def predicates() -> Iterator[Case]:
    """Both destinations: the outcome, and its complement, each combined with the third operand."""
    for operation, combination, ftz, type in _forms():
        opcode = _opcode("setp", operation, combination, ftz, type)
        third = ", {a2}" if combination else ""
        body = f"{opcode} {{d0}}|{{d1}}, {{a0}}, {{a1}}{third};"
        model = _both(operation, combination, ftz, type)
        yield Case(opcode, "pred pred", f"{type} {type} pred", model, body)
        if type in ("f32", "s32"):
            body = f"{opcode} {{d0}}, {{a0}}, {{a1}}{third.replace('{', '!{')};"
            model = _one(operation, combination, ftz, type)
            yield Case(opcode, "pred", f"{type} {type} pred", model, body)


def _both(operation: str, combination: str, ftz: str, type: str) -> Callable[[int, int, int], tuple[int, int]]:
    combine = _COMBINATIONS[combination]

    def model(a: int, b: int, c: int) -> tuple[int, int]:
        outcome = compare(operation, type, bool(ftz), a, b)
        return combine(outcome, c), combine(1 - outcome, c)

    return model


def _one(operation: str, combination: str, ftz: str, type: str) -> Callable[[int, int, int], int]:
    """With ``!c``."""
    combine = _COMBINATIONS[combination]
    return lambda a, b, c: combine(compare(operation, type, bool(ftz), a, b), 1 - c)


def values() -> Iterator[Case]:
    """``set``: all ones, or 1.0, where it holds."""
    for operation, combination, ftz, type in _forms():
        for target, holds in (("u32", 0xFFFFFFFF), ("s32", 0xFFFFFFFF), ("f32", number.F32.one)):
            opcode = _opcode("set", operation, combination, ftz, target, type)
            third = ", {a2}" if combination else ""
            body = f"{opcode} {{d0}}, {{a0}}, {{a1}}{third};"
            yield Case(opcode, target, f"{type} {type} pred", _value(operation, combination, ftz, type, holds), body)


def _value(operation: str, combination: str, ftz: str, type: str, holds: int) -> Callable[[int, int, int], int]:
    combine = _COMBINATIONS[combination]
    return lambda a, b, c: combine(compare(operation, type, bool(ftz), a, b), c) * holds


_ANY = "<b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>"


def selections() -> Iterator[Case]:
    for opcode, (_, type) in opcodes(f"selp.{_ANY}"):
        yield Case(opcode, type, f"{type} {type} pred", lambda a, b, c: a if c else b)
    for opcode, (_, type, _) in opcodes(f"slct.{_ANY}.s32"):
        yield Case(opcode, type, f"{type} {type} s32", lambda a, b, c: b if c >> 31 else a)
    for opcode, (_, ftz, type, _) in opcodes(f"slct[.ftz].{_ANY}.f32"):
        yield Case(opcode, type, f"{type} {type} f32", _by_sign(bool(ftz)))


def _by_sign(ftz: bool) -> Callable[[int, int, int], int]:
    """The first operand where the third is at least 0: -0 is, NaN is not. ``.ftz`` makes negative subnormals -0."""

    def model(a: int, b: int, c: int) -> int:
        order = number.compare(number.F32, number.flush(number.F32, c) if ftz else c, 0)
        return a if order is not None and order >= 0 else b

    return model


def cases() -> Iterator[Case]:
    for family in (predicates, values, selections):
        yield from family()
