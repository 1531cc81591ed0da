"""The interpreter's answer beside a device's."""

from __future__ import annotations

import numpy as np

from tests.fuzz import interpreter
from tests.fuzz import program as p
from tests.fuzz.scalar import Array

OPTIONS = ("--fmad=false",)
"""For the compiler: no contraction, so that products are rounded as they are written."""


def reference(program: p.Program) -> dict[str, Array] | None:
    """What the interpreter computes; None when the program is too long for it."""
    try:
        return interpreter.run(program)
    except interpreter.TooLong:
        return None


def compare(program: p.Program, expected: dict[str, Array], found: dict[str, Array]) -> str:
    """The first difference in words, or ``""``. NaNs are equal whatever their bits."""
    for name, right in expected.items():
        have = found[name]
        same = _bits(right) == _bits(have)
        if right.dtype.kind == "f":
            same |= np.isnan(right) & np.isnan(have)
        if not same.all():
            at = int(np.argmin(same))
            count = int((~same).sum())
            return f"{name}[{at}] is {have[at]!r}, should be {right[at]!r} ({count} of {len(same)} differ)"
    return ""


def _bits(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


def struct_value(program: p.Program, parameter: p.Parameter) -> Array:
    """A scalar or a struct parameter as an array of no dimension."""
    if parameter.type is not None:
        return np.array(parameter.values[0], parameter.type.dtype)
    declared = next(each for each in program.structs if each.name == parameter.struct)
    kind = np.dtype([(name, member.dtype) for name, member in declared.members], align=True)
    value = np.zeros((), kind)
    for (name, _), number in zip(declared.members, parameter.values, strict=True):
        value[name] = number
    return value
