"""Loads, stores, prefetches and fences (PTX ISA, "Data Movement and Conversion Instructions").

Each thread has a row of ``ROW`` random bytes in each state space. A load under test reads from its row into registers
at least 32 bits wide, which go to the output; a store under test writes to a row full of a pattern, and the whole row
goes to the output.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.sim.compiler.opcodes import integer
from tests.sim.compiler.opcodes.case import opcodes
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, Output
from tests.sim.compiler.opcodes.values import BITS

THREADS = 32
ROW = 64
_SLOT = 32  # bytes of results an instruction has in each thread: four elements, eight bytes each
_PATTERN = 0xA5
TYPES = "<b8|u8|s8|b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64>"
_MOST = 48

_ORDERS = ["weak", "volatile", *(f"{order}.{scope}" for order in ("relaxed", "{}") for scope in ("cta", "cluster", "gpu", "sys"))]
_L1 = [f"L1::{name}" for name in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")]


def rows() -> np.ndarray:
    """The threads' bytes."""
    source = random.Random("rows")
    return np.array([[source.getrandbits(8) for _ in range(ROW)] for _ in range(THREADS)], np.uint8)


@dataclass(frozen=True)
class Access:
    """One load or store. ``space`` is where the address points; ``offset`` is from the thread's row."""

    opcode: str
    space: str
    type: str
    vector: str
    offset: int
    hint: str = ""  # an operand after the others

    @property
    def count(self) -> int:
        return int(self.vector[1:] or 1)


def _width(type: str) -> int:
    return BITS[type] // 8


def _fits(type: str, vector: str) -> bool:
    """At most 16 bytes move at once."""
    return _width(type) * int(vector[1:] or 1) <= 16


def _offset(number: int, type: str, vector: str) -> int:
    """Some place in the row that suits the alignment."""
    size = _width(type) * int(vector[1:] or 1)
    return number * size % (ROW - size + 1) // size * size


def _every(prefix: str, space: str) -> Iterator[Access]:
    """All types and vectors."""
    number = 0
    for opcode, (*_, vector, type) in opcodes(f"{prefix}[.v2|v4].{TYPES}"):
        if _fits(type, vector):
            number += 1
            yield Access(opcode, space, type, vector, _offset(number, type, vector))


def _modified(name: str, modifiers: Sequence[str], space: str, written: str) -> Iterator[Access]:
    """A few types for each modifier. ``written`` is the state space as it stands in the opcode, with its dot."""
    for number, modifier in enumerate(modifiers):
        for vector, type in ((".v2", "u32"), ("", ("s16", "f32", "b64", "u8")[number % 4])):
            head = modifier.replace("{}", "acquire" if name == "ld" else "release").replace("{space}", written)
            head = head if "{space}" in modifier else f".{head}{written}"
            hint = ", %policy" if "cache_hint" in head else ""
            yield Access(f"{name}{head}{vector}.{type}", space, type, vector[1:], _offset(number + 1, type, vector[1:]), hint)


_SPACES = {"global": ".global", "": "", "shared": ".shared", "shared::cta": ".shared::cta", "local": ".local"}


def loads() -> list[Access]:
    found: list[Access] = []
    for space, written in _SPACES.items():
        found += _every(f"ld{written}", space)
    found += _every("ld.const", "const")
    found += _every("ld.param", "param")
    found += _every("ldu.global", "global")
    found += _modified("ldu", ["{space}"], "", "")
    found += [*_modified("ld", ["weak.param", "weak.param::entry"], "param", ""), *_modified("ld", ["param::entry"], "param", "")]
    for space in ("global", "", "shared", "shared::cta"):
        found += _modified("ld", _ORDERS, space, _SPACES[space])
    found += _modified("ld", ["weak"], "local", ".local")
    caches = [f"{{space}}.{name}" for name in ("ca", "cg", "cs", "lu", "cv")]
    for space in ("global", "", "local"):
        found += _modified("ld", caches, space, _SPACES[space])
    nc = [".global.nc", ".global.ca.nc", ".global.cg.nc", ".global.cs.nc"]
    levels = [f"{{space}}.{level}" for level in (*_L1, "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint")]
    levels += ["{space}.L1::evict_last.L2::cache_hint.L2::128B", "{space}.cg.L2::cache_hint.L2::64B"]
    levels += ["{space}.L2::evict_last", "{space}.L2::evict_normal", "{space}.L2::evict_first"]
    both = [name for name in levels if "L2::evict" not in name]
    found += _modified("ld", [name + "{space}"[:0] for name in nc], "global", "")if False else []
    for number, name in enumerate(nc + [f".global.nc.{level}" for level in (*_L1, "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint")]):
        hint = ", %policy" if "cache_hint" in name else ""
        found.append(Access(f"ld{name}.v4.f32", "global", "f32", "v4", 16 * (number % 3), hint))
    found += _modified("ld", both, "global", ".global")
    found += [Access(f"ld.global.L2::{way}.v4.b32", "global", "b32", "v4", 16) for way in ()]
    return found
