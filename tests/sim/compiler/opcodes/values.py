"""Operands: for each type the values where something happens, then random ones; the same in every run."""

from __future__ import annotations

import itertools
import random
from functools import cache

COUNT = 512
"""Vectors of operands: one a thread."""

BITS = {f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)} | {
    **{"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "e4m3x2": 16, "e5m2x2": 16},
    **{"f32": 32, "f64": 64, "pred": 1},
}

_FLOAT = [
    *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF),  # 0, 1, its neighbours
    *(0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x00800001),  # subnormal, smallest
    *(0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000),  # largest, infinite
    *(0x7FC00000, 0xFFC12345, 0x7F800001, 0x7FFFFFFF),  # NaN: quiet, with payload, signalling, canonical
    *(0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x3EFFFFFF),  # halves
    *(0x4F000000, 0xCF000000, 0x4EFFFFFF, 0x4F800000, 0x4F7FFFFF, 0x5F000000, 0x5F800000, 0x4B000001),  # 2**31, 32, 63
    *(0x40490FDB, 0x42FE0000, 0x43000000, 0x43800000, 0x47000000, 0x477FFF80, 0xC3010000, 0x437F8000),  # pi, 127, 128 …
]
_DOUBLE = [
    *(0x0000000000000000, 0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FF0000000000001),
    *(0x0000000000000001, 0x8000000000000001, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000000),
    *(0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000),
    *(0x7FF8000000000000, 0xFFF8123456789ABC, 0x7FF0000000000001, 0x7FFFFFFFFFFFFFFF),
    *(0x3FE0000000000000, 0xBFE0000000000000, 0x3FF8000000000000, 0x4004000000000000, 0x3FDFFFFFFFFFFFFF),
    *(0x41E0000000000000, 0x41DFFFFFFFE00000, 0x41DFFFFFFFC00000, 0xC1E0000000000000, 0xC1E0000000100000),  # 2**31
    *(0x41EFFFFFFFF00000, 0x41F0000000000000, 0x43E0000000000000, 0x43DFFFFFFFFFFFFF, 0xC3E0000000000000),  # 2**32, 63
    *(0x43F0000000000000, 0x43EFFFFFFFFFFFFF, 0x405FC00000000000, 0x4060000000000000, 0x40EFFFF000000000),
    *(0x36A0000000000000, 0x3690000000000000, 0x3690000000000001, 0x380FFFFFE0000000, 0x380FFFFFF0000000),  # near the
    *(0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x47EFFFFFEFFFFFFF, 0x3810000000000000, 0xB80FFFFFFFFFFFFF),  # f32 limits
]


_HALF = [
    *(0x0000, 0x8000, 0x3C00, 0xBC00, 0x3C01, 0x3BFF),  # 0, 1, its neighbours
    *(0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401),  # subnormal, smallest
    *(0x7BFF, 0xFBFF, 0x7C00, 0xFC00),  # largest, infinite
    *(0x7E00, 0xFE12, 0x7C01, 0x7FFF),  # NaN: quiet, with payload, signalling, canonical
    *(0x3800, 0xB800, 0x3E00, 0x4100, 0xC100, 0x37FF),  # halves
    *(0x5BF8, 0x5C00, 0x77FF, 0x7800, 0x7BFE, 0x1400, 0x1001, 0x6400, 0x6801),  # 255, 256, near 2**15, 2**-10 …
]
_BRAIN = [
    *(0x0000, 0x8000, 0x3F80, 0xBF80, 0x3F81, 0x3F7F),
    *(0x0001, 0x8001, 0x007F, 0x807F, 0x0080, 0x8080, 0x0081),
    *(0x7F7F, 0xFF7F, 0x7F80, 0xFF80),
    *(0x7FC0, 0xFFC1, 0x7F81, 0x7FFF),
    *(0x3F00, 0xBF00, 0x3FC0, 0x4020, 0xC020, 0x3EFF),
    *(0x437F, 0x4380, 0x4F00, 0xCF00, 0x4F80, 0x5F00, 0x5F80, 0x4B01, 0x2001, 0x1FFF),
]
_BY_TYPE = {"f16": _HALF, "bf16": _BRAIN, "f32": _FLOAT, "f64": _DOUBLE}
_FIELDS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}  # exponent, fraction


_BOUNDARY = [(0x00800000, 0x3F7FFFFF), (0x80800000, 0x3F7FFFFF), (0x00FFFFFF, 0x3F000000), (0x20000001, 0x1FFFFFFE)]
_BOUNDARY += [(0x00800001, 0x3F7FFFFE), (0x1FFFFFFF, 0x20000000), (0x00800000, 0x3F800001), (0x00FFFFFE, 0x40000000)]
"""Pairs of floats whose product or quotient is just below the smallest normal number, or rounds to it."""


def edges(type: str) -> list[int]:
    """The values of a type, as bits, where an instruction may behave in a special way."""
    if type in _BY_TYPE:
        return _BY_TYPE[type]
    if type in ("f16x2", "bf16x2"):
        single = _BY_TYPE[type[:-2]]
        return [low | high << 16 for low, high in zip(single, reversed(single), strict=True)]
    if type in ("e4m3x2", "e5m2x2"):
        return [low | (255 - low) << 8 for low in range(256)]
    if type == "pred":
        return [0, 1]
    bits = BITS[type]
    top = 1 << bits - 1
    mask = (1 << bits) - 1
    half = 1 << bits // 2
    found = [0, 1, 2, 3, mask, mask - 1, top, top - 1, top + 1, half, half - 1, mask ^ half, mask // 3, mask // 5]
    return sorted({value & mask for value in found})


def chance(type: str, source: random.Random) -> int:
    """A random value of a type, as bits."""
    if type in _FIELDS:
        return _random_real(source, *_FIELDS[type])
    if type in ("f16x2", "bf16x2"):
        return chance(type[:-2], source) | chance(type[:-2], source) << 16
    value = source.getrandbits(BITS[type])
    if source.random() < 0.3:  # small numbers, of either sign
        small = value >> source.randrange(BITS[type])
        value = small if source.random() < 0.5 else ~small & (1 << BITS[type]) - 1
    return value


def _random_real(source: random.Random, exponent_bits: int, fraction_bits: int) -> int:
    sign = source.getrandbits(1)
    bias = (1 << exponent_bits - 1) - 1
    kind = source.random()
    if kind < 0.5:  # near 1, so that sums cancel and quotients are whole
        exponent = bias + source.randrange(-3, 12)
    elif kind < 0.6:  # subnormal, or nearly
        exponent = source.randrange(3)
    else:
        exponent = source.randrange(2 * bias + 1)
    fraction = source.getrandbits(fraction_bits)
    if source.random() < 0.3:
        fraction = fraction >> fraction_bits // 2 << fraction_bits // 2
    return (sign << exponent_bits | exponent) << fraction_bits | fraction


@cache
def columns(types: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """``COUNT`` operand tuples for a signature, as one column of bits for each operand.

    First come combinations of edge values (all of them where they are few), then random values, then random values
    beside edge values.
    """
    source = random.Random(" ".join(types))
    every = 1
    for type in types:
        every *= len(edges(type))
    most = COUNT * 5 // 8
    if every <= most:
        rows = list(itertools.product(*(edges(type) for type in types)))
    else:
        rows = [tuple(source.choice(edges(type)) for type in types) for _ in range(most)]
        for position, type in enumerate(types):  # each edge value stands at each place
            for number, value in enumerate(edges(type)):
                row = list(rows[number])
                row[position] = value
                rows[number + position * len(edges(type))] = tuple(row)
    if types in (("f32", "f32"), ("f32", "f32", "f32")):  # the addend of a fma leaves the product as it is
        rows[240 : 240 + len(_BOUNDARY)] = [(*pair, 0)[: len(types)] for pair in _BOUNDARY]
    while len(rows) < COUNT:
        rows.append(
            tuple(
                source.choice(edges(type)) if len(types) > 1 and source.random() < 0.15 else chance(type, source)
                for type in types
            )
        )
    return tuple(zip(*rows, strict=True))
