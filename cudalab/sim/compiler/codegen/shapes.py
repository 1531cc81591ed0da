"""Shapes of values in wide code, and parsing of operands in a line of LLVM IR."""

from __future__ import annotations

from dataclasses import dataclass

_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8, "half": 2, "bfloat": 2}
_SUFFIX = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}


class NotWide(Exception):
    """A construct has no wide form; the text names it."""


@dataclass(frozen=True)
class Affine:
    """``base + stride · lane``; ``zeros``: known trailing zero bits of ``base``."""

    base: str
    stride: int
    zeros: int
    type: str


@dataclass(frozen=True)
class Vector:
    name: str
    type: str  # of an element


def trailing_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else 64


def bytes_of(type: str) -> int:
    """Bytes of an LLVM type in memory."""
    found = _BYTES.get(type)
    if found is None:
        raise NotWide(f"a value of type {type} in memory")
    return found


def split_operands(text: str) -> list[str]:
    """Split at the commas outside parentheses, brackets and braces."""
    if "(" not in text and "[" not in text and "{" not in text:
        return text.split(", ")
    found, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and not depth:
            found.append(text[start:position])
            start = position + 2
    found.append(text[start:])
    return found


def extended_literal(operation: str, rest: str) -> str | None:
    """The extension of a literal; None for other values."""
    type, value, _, target = rest.split(" ")[-4:]
    if not value.lstrip("-").isdigit() or type == "i1":
        return None
    bits = int(type[1:])
    number = int(value) & (1 << bits) - 1
    if operation == "sext" and number >> bits - 1:
        number -= 1 << bits
    return str(number & (1 << int(target[1:])) - 1)


def typed(text: str) -> tuple[str, str]:
    """Type and value of an operand; attributes between them are dropped."""
    type, _, value = text.partition(" ")
    return type, value


def suffix(type: str) -> str:
    return _SUFFIX.get(type, type)


def memory_operands(rest: str) -> tuple[str, str, int]:
    """Type, pointer and alignment of a load."""
    type, pointer, *more = split_operands(rest)
    if " " in type:
        raise NotWide("a volatile or atomic load")
    alignment = next((int(each.split(" ")[1]) for each in more if each.startswith("align")), bytes_of(type))
    return type, pointer.split(" ", 1)[1], alignment
