"""Integer operators and intrinsics, with the results that C++ and the CUDA Math API define.

Signed arithmetic that may overflow is written through unsigned types (the functions ``add_``, ``mul_`` … of the
prelude in ``emit``); divisors are never zero, shift counts are never too large.
Sources: CUDA Math API, "Integer Intrinsics", "SIMD Intrinsics"; CUDA C++ Programming Guide, "Integer intrinsics".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tests.fuzz.operation import Catalogue
from tests.fuzz.scalar import (
    BOOL,
    I32,
    I64,
    INTEGERS,
    U8,
    U16,
    U32,
    U64,
    UNSIGNED,
    WIDE,
    Array,
    Scalar,
    common,
    promote,
)

CATALOGUE = Catalogue()
add = CATALOGUE.add


def _via(scalar: Scalar, function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute with operands converted to ``scalar``, wrapping."""
    return lambda *values: function(*[value.astype(scalar.dtype) for value in values]).astype(scalar.dtype)


def quotient(a: Array, b: Array) -> Array:
    """C++ division: truncates. Of ``b == 0`` it is ``a``, and of the least number by -1 that number again."""
    safe = np.where(b == 0, np.ones_like(b), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, a, a // safe)
    unsigned = UNSIGNED[a.dtype.itemsize * 8].dtype
    with np.errstate(over="ignore"):
        size = np.where(a < 0, -a.view(unsigned), a.view(unsigned)) // np.where(
            safe < 0, -safe.view(unsigned), safe.view(unsigned)
        )
        value = np.where((a < 0) != (safe < 0), -size, size).view(a.dtype)
    return np.where(b == 0, a, value)


def remainder(a: Array, b: Array) -> Array:
    """C++ remainder, of the sign of ``a``; of ``b == 0`` it is 0."""
    return np.where(b == 0, np.zeros_like(a), a - quotient(a, b) * b)


def shift_left(a: Array, count: Array) -> Array:
    bits = a.dtype.itemsize * 8
    return a << (count.astype(np.uint64) & np.uint64(bits - 1)).astype(a.dtype)


def shift_right(a: Array, count: Array) -> Array:
    bits = a.dtype.itemsize * 8
    return a >> (count.astype(np.uint64) & np.uint64(bits - 1)).astype(a.dtype)


_ARITHMETIC: dict[str, tuple[str, Callable[..., Array]]] = {
    "add": ("+", np.add),
    "sub": ("-", np.subtract),
    "mul": ("*", np.multiply),
    "and": ("&", np.bitwise_and),
    "or": ("|", np.bitwise_or),
    "xor": ("^", np.bitwise_xor),
}
_COMPARE: dict[str, tuple[str, Callable[..., Array]]] = {
    "lt": ("<", np.less),
    "le": ("<=", np.less_equal),
    "gt": (">", np.greater),
    "ge": (">=", np.greater_equal),
    "eq": ("==", np.equal),
    "ne": ("!=", np.not_equal),
}


def _cannot_overflow(name: str, a: Scalar, b: Scalar) -> bool:
    """Is the operation on promoted operands always in the range of int?"""
    if name in ("and", "or", "xor"):
        return True
    if a.bits >= 32 or b.bits >= 32:
        return False
    return not (name == "mul" and a is U16 and b is U16)


def _binary() -> None:
    for a in (BOOL, *INTEGERS):
        for b in (BOOL, *INTEGERS):
            kind = common(a, b)
            pair = f"{a.name}.{b.name}"
            for name, (sign, function) in _ARITHMETIC.items():
                plain = kind.kind == "u" or _cannot_overflow(name, a, b)
                text = f"({{0}} {sign} {{1}})" if plain else f"{name}_<{kind.ctype}>({{0}}, {{1}})"
                add(f"{name}.{pair}", (a, b), kind, text, _via(kind, function))
            for name, (sign, function) in _COMPARE.items():
                compute = partial(_compared, kind, function)
                add(f"{name}.{pair}", (a, b), BOOL, f"({{0}} {sign} {{1}})", compute)
    for kind in WIDE:
        for name, function in (("quotient", quotient), ("remainder", remainder)):
            add(f"{name}.{kind.name}", (kind, kind), kind, f"{name}_<{kind.ctype}>({{0}}, {{1}})", function)
        add(f"min.{kind.name}", (kind, kind), kind, "min({0}, {1})", np.minimum)
        add(f"max.{kind.name}", (kind, kind), kind, "max({0}, {1})", np.maximum)
        for divisor in (3, 7, 10, 16, 641, -5):
            if divisor < 0 and kind.kind == "u":
                continue
            constant = f"({divisor})"
            by = partial(_by_constant, quotient, divisor)
            add(f"divide_by_{divisor}.{kind.name}", (kind,), kind, f"({{0}} / {constant})", by)
            by = partial(_by_constant, remainder, divisor)
            add(f"modulo_{divisor}.{kind.name}", (kind,), kind, f"({{0}} % {constant})", by)
    for left in INTEGERS:
        kind = promote(left)
        for right in (I32, U32, U8, U64):
            mask = f"({{1}} & {kind.bits - 1})"
            text = f"({{0}} << {mask})" if kind.kind == "u" else f"left_<{kind.ctype}>({{0}}, {mask})"
            pair = f"{left.name}.{right.name}"
            add(f"shl.{pair}", (left, right), kind, text, partial(_shifted, kind, shift_left))
            add(f"shr.{pair}", (left, right), kind, f"({{0}} >> {mask})", partial(_shifted, kind, shift_right))
        add(f"not.{left.name}", (left,), kind, "(~{0})", _via(kind, np.invert))
        text = "(-{0})" if kind.kind == "u" or left.bits < 32 else f"sub_<{kind.ctype}>(0, {{0}})"
        add(f"negate.{left.name}", (left,), kind, text, _via(kind, np.negative))
    for kind in INTEGERS:
        add(f"is_true.{kind.name}", (kind,), BOOL, "({0} != 0)", lambda a: a != 0)
    add("both", (BOOL, BOOL), BOOL, "({0} && {1})", np.logical_and)
    add("either", (BOOL, BOOL), BOOL, "({0} || {1})", np.logical_or)
    add("inverse", (BOOL,), BOOL, "(!{0})", np.logical_not)


def _compared(kind: Scalar, function: Callable[..., Array], a: Array, b: Array) -> Array:
    return function(a.astype(kind.dtype), b.astype(kind.dtype))


def _shifted(kind: Scalar, function: Callable[..., Array], a: Array, b: Array) -> Array:
    return function(a.astype(kind.dtype), b)


def _by_constant(function: Callable[..., Array], divisor: int, a: Array) -> Array:
    return function(a, np.full_like(a, divisor))


# ------------------------------------------------------------------------------------------------------ intrinsics


def _bits(a: Array, count: int) -> Array:
    """(…, count) bits, the lowest first."""
    shifts = np.arange(count, dtype=a.dtype)
    return (a[..., None] >> shifts) & a.dtype.type(1)


def population(a: Array) -> Array:
    return _bits(_unsigned(a), a.dtype.itemsize * 8).sum(-1).astype(np.int32)


def leading_zeros(a: Array) -> Array:
    bits = _bits(_unsigned(a), a.dtype.itemsize * 8)[..., ::-1]
    return np.where(bits.any(-1), bits.argmax(-1), bits.shape[-1]).astype(np.int32)


def first_set(a: Array) -> Array:
    bits = _bits(_unsigned(a), a.dtype.itemsize * 8)
    return np.where(bits.any(-1), bits.argmax(-1) + 1, 0).astype(np.int32)


def reverse(a: Array) -> Array:
    count = a.dtype.itemsize * 8
    weights = np.left_shift(a.dtype.type(1), np.arange(count, dtype=a.dtype))
    return (_bits(a, count)[..., ::-1] * weights).sum(-1, dtype=a.dtype)


def _unsigned(a: Array) -> Array:
    return a.view(UNSIGNED[a.dtype.itemsize * 8].dtype)


def _objects(function: Callable[..., int], bits: int, result: Scalar) -> Callable[..., Array]:
    """Compute with Python's integers, one thread after the other."""

    def compute(*values: Array) -> Array:
        mask = (1 << bits) - 1
        found = [function(*each) & mask for each in zip(*[value.tolist() for value in values], strict=True)]
        return np.array(found, UNSIGNED[bits].dtype).view(result.dtype)

    return compute


def _parts(value: int, width: int, signed: bool) -> list[int]:
    found = []
    for at in range(0, 32, width):
        part = (value >> at) & ((1 << width) - 1)
        found.append(part - (1 << width) if signed and part >> (width - 1) else part)
    return found


def _joined(parts: list[int], width: int) -> int:
    return sum((part & ((1 << width) - 1)) << (at * width) for at, part in enumerate(parts))


def _lanewise(function: Callable[..., int], width: int, signed: bool) -> Callable[..., Array]:
    def compute(*values: int) -> int:
        parts = [_parts(value, width, signed) for value in values]
        return _joined([function(*each) for each in zip(*parts, strict=True)], width)

    return _objects(compute, 32, U32)


def _saturated(low: int, high: int, value: int) -> int:
    return max(low, min(high, value))


def _permute(a: int, b: int, selector: int) -> int:
    joined = a | (b << 32)
    return sum(((joined >> 8 * ((selector >> 4 * at) & 7)) & 255) << 8 * at for at in range(4))


def _funnel(left: bool, clamp: bool) -> Callable[[int, int, int], int]:
    def compute(low: int, high: int, count: int) -> int:
        count = min(count, 32) if clamp else count & 31
        joined = (high << 32) | low
        return (joined << count) >> 32 if left else joined >> count

    return compute


def _dot(width: int, signed: bool) -> Callable[[int, int, int], int]:
    def compute(a: int, b: int, c: int) -> int:
        pairs = zip(_parts(a, width, signed), _parts(b, width, signed), strict=True)
        return c + sum(x * y for x, y in pairs)

    return compute


def _dot_mixed(upper: bool, signed: bool) -> Callable[[int, int, int], int]:
    def compute(a: int, b: int, c: int) -> int:
        halves, parts = _parts(a, 16, signed), _parts(b, 8, signed)
        chosen = parts[2:] if upper else parts[:2]
        return c + sum(x * y for x, y in zip(halves, chosen, strict=True))

    return compute


def _mul24(signed: bool) -> Callable[[int, int], int]:
    def cut(value: int) -> int:
        value &= 0xFFFFFF
        return value - (1 << 24) if signed and value >> 23 else value

    return lambda a, b: cut(a) * cut(b)


def _intrinsics() -> None:
    add("popc", (U32,), I32, "__popc({0})", population)
    add("popcll", (U64,), I32, "__popcll({0})", population)
    add("clz", (I32,), I32, "__clz({0})", leading_zeros)
    add("clzll", (I64,), I32, "__clzll({0})", leading_zeros)
    add("ffs", (I32,), I32, "__ffs({0})", first_set)
    add("ffsll", (I64,), I32, "__ffsll({0})", first_set)
    add("brev", (U32,), U32, "__brev({0})", reverse)
    add("brevll", (U64,), U64, "__brevll({0})", reverse)
    for name, a, r, bits in (
        ("__mulhi", I32, I32, 32),
        ("__umulhi", U32, U32, 32),
        ("__mul64hi", I64, I64, 64),
        ("__umul64hi", U64, U64, 64),
    ):
        product = _objects(partial(lambda bits, x, y: (x * y) >> bits, bits), bits, r)
        add(name, (a, a), r, f"{name}({{0}}, {{1}})", product)
    add("__mul24", (I32, I32), I32, "__mul24({0}, {1})", _objects(_mul24(True), 32, I32))
    add("__umul24", (U32, U32), U32, "__umul24({0}, {1})", _objects(_mul24(False), 32, U32))
    add("__sad", (I32, I32, U32), U32, "__sad({0}, {1}, {2})", _objects(lambda a, b, c: abs(a - b) + c, 32, U32))
    add("__usad", (U32, U32, U32), U32, "__usad({0}, {1}, {2})", _objects(lambda a, b, c: abs(a - b) + c, 32, U32))
    for name, kind, extra in (("__hadd", I32, 0), ("__rhadd", I32, 1), ("__uhadd", U32, 0), ("__urhadd", U32, 1)):
        half = _objects(partial(lambda extra, a, b: (a + b + extra) >> 1, extra), 32, kind)
        add(name, (kind, kind), kind, f"{name}({{0}}, {{1}})", half)
    add("__byte_perm", (U32, U32, U32), U32, "__byte_perm({0}, {1}, {2})", _objects(_permute, 32, U32))
    for name, left, clamp in (("l", True, False), ("r", False, False), ("lc", True, True), ("rc", False, True)):
        text = f"__funnelshift_{name}({{0}}, {{1}}, {{2}})"
        add(f"funnel_{name}", (U32, U32, U32), U32, text, _objects(_funnel(left, clamp), 32, U32))
    for kind, signed in ((I32, True), (U32, False)):
        text = "__dp4a({0}, {1}, {2})"
        add(f"dp4a.{kind.name}", (kind, kind, kind), kind, text, _objects(_dot(8, signed), 32, kind))
        for name, upper in (("lo", False), ("hi", True)):
            text = f"__dp2a_{name}({{0}}, {{1}}, {{2}})"
            compute = _objects(_dot_mixed(upper, signed), 32, kind)
            add(f"dp2a_{name}.{kind.name}", (kind, kind, kind), kind, text, compute)
    add("abs32", (I32,), I32, "abs_<int>({0})", lambda a: np.where(a < 0, -a, a))
    add("abs64", (I64,), I64, "abs_<long long>({0})", lambda a: np.where(a < 0, -a, a))
    for count in (2, 4):
        bits = 32 // count
        low, high, top = -(1 << bits - 1), (1 << bits - 1) - 1, (1 << bits) - 1
        full = (1 << bits) - 1
        table: list[tuple[str, bool, Callable[..., int]]] = [
            ("__vadd", False, lambda a, b: a + b),
            ("__vsub", False, lambda a, b: a - b),
            ("__vaddss", True, partial(lambda low, high, a, b: _saturated(low, high, a + b), low, high)),
            ("__vaddus", False, partial(lambda top, a, b: _saturated(0, top, a + b), top)),
            ("__vsubss", True, partial(lambda low, high, a, b: _saturated(low, high, a - b), low, high)),
            ("__vsubus", False, partial(lambda top, a, b: _saturated(0, top, a - b), top)),
            ("__vavgu", False, lambda a, b: (a + b + 1) >> 1),
            ("__vavgs", True, lambda a, b: (a + b + (a + b >= 0)) >> 1),
            ("__vabsdiffu", False, lambda a, b: abs(a - b)),
            ("__vabsdiffs", True, lambda a, b: abs(a - b)),
            ("__vmaxs", True, max),
            ("__vmaxu", False, max),
            ("__vmins", True, min),
            ("__vminu", False, min),
            ("__vcmpeq", False, partial(lambda full, a, b: full * (a == b), full)),
            ("__vcmpgts", True, partial(lambda full, a, b: full * (a > b), full)),
            ("__vcmpgtu", False, partial(lambda full, a, b: full * (a > b), full)),
            ("__vsetles", True, lambda a, b: int(a <= b)),
            ("__vsetltu", False, lambda a, b: int(a < b)),
        ]
        for name, signed, lane in table:
            each = f"{name}{count}"
            add(each, (U32, U32), U32, f"{each}({{0}}, {{1}})", _lanewise(lane, bits, signed))
        for name, signed, one in (
            ("__vnegss", True, partial(lambda low, high, a: _saturated(low, high, -a), low, high)),
            ("__vabs", True, abs),
            ("__vneg", False, lambda a: -a),
        ):
            each = f"{name}{count}"
            add(each, (U32,), U32, f"{each}({{0}})", _lanewise(one, bits, signed))


_binary()
_intrinsics()
