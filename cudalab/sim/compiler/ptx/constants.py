"""Integer constant expressions (PTX ISA, "Constant Expressions").

Operators and precedence are those of C; all values are 64-bit integers. Compilers emit plain numbers; handwritten PTX
and macros contain expressions such as ``(1 << 4) | 3``.
"""

from __future__ import annotations

from typing import Protocol

_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_PRECEDENCE = {operator: level for level, row in enumerate(_LEVELS) for operator in row}
#: Tokens that continue an expression. The lexer splits operators into characters, so ``<<`` begins with ``<``.
OPERATORS = frozenset("|&^=!<>+-*/%?")


class Tokens(Protocol):
    """Token source of an expression: a ``StatementReader``."""

    tokens: list[str]
    at: int

    def next(self) -> str: ...
    def expect(self, token: str) -> None: ...
    def accept(self, token: str) -> bool: ...
    def integer(self) -> int: ...
    def error(self, message: str) -> Exception: ...


def finish_expression(reader: Tokens, first: int) -> int:
    """The value of an expression whose first operand has been read."""
    value = _binary(reader, first, 0)
    if not reader.accept("?"):
        return value
    chosen = finish_expression(reader, prefix_expression(reader))
    reader.expect(":")
    other = finish_expression(reader, prefix_expression(reader))
    return chosen if value else other


def prefix_expression(reader: Tokens) -> int:
    """A literal or a parenthesised expression, optionally prefixed by ``- + ~ !``."""
    if reader.accept("("):
        if reader.tokens[reader.at] in (".s64", ".u64"):  # a cast
            reader.at += 1
            reader.expect(")")
            return prefix_expression(reader)
        value = finish_expression(reader, prefix_expression(reader))
        reader.expect(")")
        return value
    if reader.accept("-"):
        return -prefix_expression(reader)
    if reader.accept("+"):
        return prefix_expression(reader)
    if reader.accept("~"):
        return ~prefix_expression(reader)
    if reader.accept("!"):
        return int(not prefix_expression(reader))
    return reader.integer()


def _operator(reader: Tokens) -> str:
    """The binary operator at the current position, or ``""``."""
    one = reader.tokens[reader.at]
    two = one + reader.tokens[reader.at + 1] if one else ""
    return two if two in _PRECEDENCE else one if one in _PRECEDENCE else ""


def _binary(reader: Tokens, left: int, least: int) -> int:
    while (operator := _operator(reader)) and _PRECEDENCE[operator] >= least:
        reader.at += len(operator)
        right = prefix_expression(reader)
        while (following := _operator(reader)) and _PRECEDENCE[following] > _PRECEDENCE[operator]:
            right = _binary(reader, right, _PRECEDENCE[following])
        left = _wrapped(_computed(reader, operator, left, right))
    return left


def _computed(reader: Tokens, operator: str, a: int, b: int) -> int:
    if operator in ("/", "%"):
        if not b:
            raise reader.error("a division by zero in a constant expression")
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if operator == "/" else a - quotient * b
    if operator in ("<<", ">>"):
        return a << (b & 63) if operator == "<<" else a >> (b & 63)
    return {
        "||": lambda: int(bool(a or b)),
        "&&": lambda: int(bool(a and b)),
        "|": lambda: a | b,
        "^": lambda: a ^ b,
        "&": lambda: a & b,
        "==": lambda: int(a == b),
        "!=": lambda: int(a != b),
        "<": lambda: int(a < b),
        ">": lambda: int(a > b),
        "<=": lambda: int(a <= b),
        ">=": lambda: int(a >= b),
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
    }[operator]()


def _wrapped(value: int) -> int:
    """As a 64-bit integer, signed unless only an unsigned one holds it."""
    return value if -(1 << 63) <= value < 1 << 64 else (value + (1 << 63)) % (1 << 64) - (1 << 63)
