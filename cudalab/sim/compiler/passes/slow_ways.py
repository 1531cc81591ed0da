"""Operations for which the assembler makes a fast and a slow way, and whose operands decide which one a thread takes.

Divisions, reciprocals and roots that are rounded as IEEE 754 says: a few instructions for ordinary numbers, and a
routine for zeros, infinities, subnormal numbers and what comes near them.
"""

from __future__ import annotations

_OPERATIONS = ("div", "rcp", "sqrt")


def has_slow_way(opcode: str) -> bool:
    """Whether the operands of such an instruction decide how long it takes."""
    name, *parts = opcode.split(".")
    return name in _OPERATIONS and "rn" in parts and parts[-1] in ("f32", "f64")
