"""What arrays of random programs start with, the same on every device."""

from __future__ import annotations

import numpy as np

from tests.fuzz import program as p
from tests.fuzz.scalar import Array, Scalar

_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1.5, 3.0, 1e-30, -1e30, 65504.0, 16777216.0, 2147483648.0, np.inf, -np.inf]


def numbers(kind: Scalar, count: int, seed: int) -> Array:
    """Small numbers, any numbers, and the edges of the type; floats are never subnormal."""
    dice = np.random.default_rng(seed)
    choice = dice.integers(0, 4, count)
    if kind.kind == "b":
        return dice.integers(0, 2, count).astype(np.bool_)
    if kind.kind == "f":
        edges = np.array([*_FLOATS, np.finfo(kind.dtype).max, np.finfo(kind.dtype).tiny])
        anything = np.ldexp(dice.uniform(-2, 2, count), dice.integers(-40, 40, count))
        small = dice.integers(-50, 50, count).astype(np.float64)
        plain = dice.uniform(-10, 10, count)
        with np.errstate(all="ignore"):
            return np.choose(choice, [dice.choice(edges, count), anything, small, plain]).astype(kind.dtype)
    info = np.iinfo(kind.dtype)
    edges = np.array([0, 1, 2, info.max, info.max - 1, info.min, info.min + 1, info.max // 2 + 1], kind.dtype)
    anything = dice.integers(info.min, info.max, count, dtype=kind.dtype, endpoint=True)
    small = dice.integers(0, 40, count).astype(kind.dtype)
    return np.choose(choice, [dice.choice(edges, count), anything, small, anything]).astype(kind.dtype)


def initial(program: p.Program, array: p.Array) -> Array:
    """The content of an array before the launch; of global and module memory only."""
    content = numbers(array.type, length(program, array), array.seed)
    if array.space == "module" and array.type.kind == "f":  # there are no literals for infinity
        content = np.nan_to_num(content)
    return content


def length(program: p.Program, array: p.Array) -> int:
    """Elements of a global or module array."""
    if array.role == "output" or (array.role == "meeting" and array.space == "global"):
        return program.threads * program.blocks
    if array.role == "own":
        return 4 * program.threads * program.blocks
    return array.length
