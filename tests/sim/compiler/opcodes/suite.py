"""All kernels under test, by family."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tests import slices
from tests.sim.compiler.opcodes import (
    approximate,
    async_copy,
    atomic,
    bitwise,
    cluster,
    compare,
    constant,
    control,
    convert,
    floating,
    half,
    integer,
    mbarrier,
    memory,
    move,
    narrow,
    parameter,
    rare,
    short,
    texture,
    video,
    warp,
    wide,
)
from tests.sim.compiler.opcodes.batch import batches
from tests.sim.compiler.opcodes.case import Case
from tests.sim.compiler.opcodes.kernel import Kernel

_CASES = {
    "integer": integer.cases,
    "bitwise": bitwise.cases,
    "floating": floating.cases,
    "approximate": approximate.cases,
    "compare": compare.cases,
    "convert": convert.cases,
    "half": half.cases,
    "short": short.cases,
    "move": move.cases,
    "rare": rare.cases,
    "narrow": narrow.cases,
    "video": video.cases,
}
_KERNELS = {
    "move": move.kernels,
    "memory": memory.kernels,
    "atomic": atomic.kernels,
    "warp": warp.kernels,
    "control": control.kernels,
    "parameter": parameter.kernels,
    "texture": texture.kernels,
    "cluster": cluster.kernels,
    "mbarrier": mbarrier.kernels,
    "async_copy": async_copy.kernels,
    "wide": wide.kernels,
}
SLICES = 12
FAMILIES = (*dict.fromkeys([*_CASES, *_KERNELS]), "flushing", "constant", "flushing_constant")
ALL_VARIANTS = ("memory", "atomic", "warp", "cluster", "control", "parameter", "texture", "wide")
"""Families whose instructions are lowered in another way in some variant of the native code."""


@cache
def kernels(family: str) -> tuple[Kernel, ...]:
    """The kernels of a family, which make up one module."""
    found: list[Kernel] = []
    if family == "flushing":
        found += batches(family, _flushing())
    if family == "flushing_constant":
        found += constant.kernels(family, _flushing())
    if family == "constant":
        found += constant.kernels(family, _some())
    if family in _CASES:
        found += batches(family, _CASES[family]())
    if family in _KERNELS:
        found += _KERNELS[family]()
    return tuple(found)


@cache
def part(family: str) -> tuple[Kernel, ...]:
    """The kernels of a family that every run takes: a slice, and the first that has each instruction (``add``, ``cvt``,
    …), so that none is without a test."""
    seen: set[str] = set()
    found = []
    for position, kernel in enumerate(kernels(family)):
        names = {opcode.split(".")[0] for opcode in kernel.opcodes}
        if names - seen or slices.is_in(position, SLICES):
            found.append(kernel)
        seen |= names
    return tuple(found)


def _flushing() -> Iterator[Case]:
    """A module in which all operations on floats have ``.ftz`` may run in a mode of the processor that flushes
    subnormals; the same instructions take another way there."""
    for family in (floating, approximate, compare, convert):
        for case in family.cases():
            parts = case.opcode.split(".")
            if "ftz" in parts and "f64" not in parts:
                yield case
    yield from (case for case in convert.cases() if case.opcode.startswith(("cvt.rn.f32.s", "cvt.rn.f32.u")))


def _some() -> Iterator[Case]:
    """Cases of all families of register instructions; of comparisons, which are many, some."""
    for family, cases in _CASES.items():
        if family in ("half", "short", "rare", "narrow", "video"):
            continue  # PTX has no literals of 16 bits for them
        step = 7 if family == "compare" else 1
        yield from (case for number, case in enumerate(cases()) if number % step == 0)


def every_kernel() -> list[Kernel]:
    return [kernel for family in FAMILIES for kernel in kernels(family)]
