"""Warp operations on arrays of (warps, 32 lanes), as PTX ISA, "Parallel Synchronization and Communication
Instructions", defines them. Each lane brings its own mask; a lane's result depends on the lanes that its mask names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.scalar import Array

_LANES = np.arange(32, dtype=np.uint32)


def named(mask: Array) -> Array:
    """(warps, lane, other): does the lane's mask name the other?"""
    return ((mask[..., None] >> _LANES) & np.uint32(1)).astype(np.bool_)


def pack(bits: Array) -> Array:
    """The last axis as the bits of a u32."""
    return (bits.astype(np.uint32) << _LANES).sum(-1, dtype=np.uint32)


def check_complete(mask: Array, active: Array) -> None:
    """The program is at fault if a mask does not name exactly lanes that come by with that very mask."""
    pairs = named(mask)[active]
    warp = np.nonzero(active)[0]
    assert (~pairs | active[warp]).all(), "a mask names a lane that does not come by"
    same = mask[warp][:, None, :].squeeze(1) == mask[active][:, None]
    assert (~pairs | same).all(), "lanes that meet have different masks"


def source_lane(kind: str, lane: Array, operand: Array, width: int) -> Array:
    """The lane whose value a shuffle brings; the lane itself where the source is outside its segment."""
    first = lane & ~(width - 1)
    last = lane | (width - 1)
    if kind == "up":
        return np.where(lane - operand < first, lane, lane - operand)
    if kind == "down":
        return np.where(lane + operand > last, lane, lane + operand)
    if kind == "xor":
        return np.where((lane ^ operand) > last, lane, lane ^ operand)
    return first | (operand & (width - 1))


def shuffle(mask: Array, value: Array, source: Array) -> Array:
    taken = np.take_along_axis(value, source.astype(np.int64), axis=1)
    takes_part = (mask >> source.astype(np.uint32)) & np.uint32(1)
    return np.where(takes_part == 1, taken, value)


def ballot(mask: Array, condition: Array) -> Array:
    return pack(named(mask) & condition[:, None, :])


def _all(mask: Array, condition: Array) -> Array:
    return (~named(mask) | condition[:, None, :]).all(-1)


def _any(mask: Array, condition: Array) -> Array:
    return (named(mask) & condition[:, None, :]).any(-1)


VOTES: dict[str, Callable[[Array, Array], Array]] = {"all": _all, "any": _any, "ballot": ballot}


def match_any(mask: Array, value: Array) -> Array:
    return pack(named(mask) & (value[:, :, None] == value[:, None, :]))


def match_all(mask: Array, value: Array) -> Array:
    """The mask where all have the same value, else 0; with its lowest bit changed where they have."""
    same = (~named(mask) | (value[:, :, None] == value[:, None, :])).all(-1)
    return np.where(same, mask ^ np.uint32(1), np.uint32(0))


_NEUTRAL = {"add": 0, "or": 0, "xor": 0}
_REDUCE: dict[str, Callable[..., Array]] = {
    "add": np.add.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


def reduce(kind: str, mask: Array, value: Array) -> Array:
    info = np.iinfo(value.dtype)
    neutral = {"min": info.max, "max": info.min, "and": -1 if info.min else info.max}.get(kind, 0)
    spread = np.where(named(mask), value[:, None, :], value.dtype.type(neutral))
    return _REDUCE[kind](spread, axis=-1).astype(value.dtype)
