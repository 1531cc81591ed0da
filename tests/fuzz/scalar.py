"""The scalar types of random programs: C++ name, NumPy type, promotion and conversion (C++17, [conv] and [expr])."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Scalar:
    """One type. ``kind``: ``b`` bool, ``i`` signed, ``u`` unsigned, ``f`` floating point."""

    name: str
    ctype: str
    kind: str
    bits: int

    @property
    def dtype(self) -> np.dtype:
        if self.kind == "b":
            return np.dtype(np.bool_)
        return np.dtype(f"{self.kind}{self.bits // 8}")

    @property
    def is_integer(self) -> bool:
        return self.kind in "biu"

    @property
    def rank(self) -> int:
        return 1 if self.kind == "b" else self.bits

    def __repr__(self) -> str:
        return self.name


BOOL = Scalar("bool", "bool", "b", 8)
I8 = Scalar("i8", "signed char", "i", 8)
U8 = Scalar("u8", "unsigned char", "u", 8)
I16 = Scalar("i16", "short", "i", 16)
U16 = Scalar("u16", "unsigned short", "u", 16)
I32 = Scalar("i32", "int", "i", 32)
U32 = Scalar("u32", "unsigned int", "u", 32)
I64 = Scalar("i64", "long long", "i", 64)
U64 = Scalar("u64", "unsigned long long", "u", 64)
F32 = Scalar("f32", "float", "f", 32)
F64 = Scalar("f64", "double", "f", 64)

INTEGERS = (I8, U8, I16, U16, I32, U32, I64, U64)
WIDE = (I32, U32, I64, U64)
FLOATS = (F32, F64)
ALL = (BOOL, *INTEGERS, *FLOATS)
UNSIGNED = {8: U8, 16: U16, 32: U32, 64: U64}
BY_NAME = {scalar.name: scalar for scalar in ALL}


def promote(scalar: Scalar) -> Scalar:
    """Integral promotion: whatever is narrower than int becomes int."""
    return I32 if scalar.is_integer and scalar.bits < 32 else scalar


def common(first: Scalar, second: Scalar) -> Scalar:
    """The usual arithmetic conversions."""
    if F64 in (first, second):
        return F64
    if F32 in (first, second):
        return F32
    first, second = promote(first), promote(second)
    bits = max(first.bits, second.bits)
    unsigned = any(each.kind == "u" and each.bits == bits for each in (first, second))
    return {(32, False): I32, (32, True): U32, (64, False): I64, (64, True): U64}[bits, unsigned]


def convert(value: Array, target: Scalar) -> Array:
    """A C++ conversion that is always defined: not from a float to an integer (see ``float_operations``)."""
    source = value.dtype
    if source == target.dtype:
        return value
    if target.kind == "b":
        return value != 0
    if source.kind == "f" and target.is_integer:
        raise TypeError("a float becomes an integer by one of the operations only")
    if source == np.float64 and target is F32:
        from tests.fuzz.float_operations import narrow

        return narrow(value)
    return value.astype(target.dtype)


def zeros(scalar: Scalar, count: int) -> Array:
    return np.zeros(count, scalar.dtype)


def canonical(value: Array) -> Array:
    """Bytes for comparison: every NaN the same, since its payload is not defined by CUDA C++."""
    if value.dtype.kind == "f":
        value = value.copy()
        value[np.isnan(value)] = np.nan
        value = np.where(np.isnan(value), np.array(np.nan, value.dtype), value)
    return value
