"""What each instruction computes, for one thread, in plain Python: the oracle of ``test_opcodes``.

``MODELS`` maps the name of an opcode to a function that takes its form and returns a :class:`Case`. Integers come in as
Python integers of the operand's signedness, floats as Python floats, predicates as booleans; results are masked and
encoded by the test.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cudalab.sim.compiler.lowering.table import Form
from cudalab.sim.compiler.ptx.nodes import BITS
from tests.sim.compiler import opcode_arithmetic as exact


@dataclass
class Case:
    """``inputs`` and ``output``: PTX types. ``compute`` gets one value an input. ``tail``: literal operands behind the
    inputs. ``error``: largest relative error of an approximate result. ``text``: replaces the instruction."""

    inputs: list[str]
    output: str
    compute: Callable[..., Any]
    tail: str = ""
    error: float = 0.0
    text: str = ""


MODELS: dict[str, Callable[[Form], Case]] = {}


def model(*names: str) -> Callable[[Callable[[Form], Case]], Callable[[Form], Case]]:
    def register(function: Callable[[Form], Case]) -> Callable[[Form], Case]:
        for name in names:
            MODELS[name] = function
        return function

    return register


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def wide(kind: str) -> str:
    return f"{kind[0]}{2 * BITS[kind]}"


def is_real(form: Form) -> bool:
    return form.types[-1] in ("f32", "f64")


def rounding(form: Form) -> str:
    return form.choose("rz", "rm", "rp") or "rn"


def real_case(form: Form, count: int, compute: Callable[..., float], error: float = 0.0) -> Case:
    """A floating-point operation with its ``.ftz`` and ``.sat``."""
    kind = form.types[-1]

    def run(*values: float) -> float:
        if "ftz" in form:
            values = tuple(map(exact.flush, values))
        result = compute(*values)
        if "ftz" in form:
            result = exact.flush(result)
        return exact.saturate(result) if "sat" in form else result

    return Case([kind] * count, kind, run, error=error)


# -- integers and floats that share names


@model("add", "sub")
def _add(f: Form) -> Case:
    sign = 1 if f.row.name == "add" else -1
    kind = f.types[-1]
    if is_real(f):
        return real_case(f, 2, lambda a, b: exact.add(a, b if sign > 0 else -b, f.bits, rounding(f)))
    if "sat" in f:
        return Case([kind] * 2, kind, lambda a, b: max(-(1 << 31), min((1 << 31) - 1, a + sign * b)))
    if "cc" in f:  # the carry is what the next addc adds
        sequence = f"{f.opcode} %d, %a, %b; {f.row.name}c.{kind} %d, %d, 0;"
        carry = (lambda a, b: a + b >= 1 << f.bits) if sign > 0 else (lambda a, b: a < b)
        unsigned = f"u{f.bits}"
        return Case([unsigned] * 2, unsigned, lambda a, b: (a + sign * b) + sign * carry(a, b), text=sequence)
    return Case([kind] * 2, kind, lambda a, b: a + sign * b)


@model("addc", "subc")
def _add_carry(f: Form) -> Case:
    name, kind = f.row.name[:3], f"u{f.bits}"
    sign = 1 if name == "add" else -1
    second = f"{f.row.name}.{kind} %d, %d, 0;" if "cc" in f else ""
    top = 1 << f.bits

    def run(a: int, b: int, c: int) -> int:
        first = a + sign * b
        carry = first >= top or first < 0
        total = c + sign * (a + carry)
        if second:
            return total % top + sign * (total >= top or total < 0)
        return total

    return Case([kind] * 3, kind, run, text=f"{name}.cc.{kind} %d, %a, %b; {f.opcode} %d, %c, %a; {second}")


@model("mul")
def _multiply(f: Form) -> Case:
    kind = f.types[-1]
    if is_real(f):
        return real_case(f, 2, lambda a, b: exact.multiply(a, b, f.bits, rounding(f)))
    if "wide" in f:
        return Case([kind] * 2, wide(kind), lambda a, b: a * b)
    shift = f.bits if "hi" in f else 0
    return Case([kind] * 2, kind, lambda a, b: a * b >> shift)


@model("mad", "fma")
def _multiply_add(f: Form) -> Case:
    kind = f.types[-1]
    if is_real(f):
        return real_case(f, 3, lambda a, b, c: exact.fused(a, b, c, f.bits, rounding(f)))
    if "cc" in f:
        shift = f.bits if "hi" in f else 0
        mask = (1 << f.bits) - 1

        def run(a: int, b: int, c: int) -> int:
            total = (a * b >> shift & mask) + (c & mask)
            return total + (total >> f.bits)

        return Case([kind] * 3, kind, run, text=f"{f.opcode} %d, %a, %b, %c; addc.{kind} %d, %d, 0;")
    if "wide" in f:
        return Case([kind, kind, wide(kind)], wide(kind), lambda a, b, c: a * b + c)
    if "sat" in f:
        return Case([kind] * 3, kind, lambda a, b, c: max(-(1 << 31), min((1 << 31) - 1, (a * b >> 32) + c)))
    shift = f.bits if "hi" in f else 0
    return Case([kind] * 3, kind, lambda a, b, c: (a * b >> shift) + c)


@model("madc")
def _multiply_add_carry(f: Form) -> Case:
    shift = f.bits if "hi" in f else 0
    mask = (1 << f.bits) - 1
    kind = f.types[-1]
    second = f"addc.{kind} %d, %d, 0;" if "cc" in f else ""

    def run(a: int, b: int, c: int) -> int:
        carry = (a & mask) + (b & mask) > mask
        total = (a * b >> shift & mask) + (c & mask) + carry
        return total + (total >> f.bits) if second else total

    return Case([kind] * 3, kind, run, text=f"add.cc.{kind} %d, %a, %b; {f.opcode} %d, %a, %b, %c; {second}")


@model("mul24", "mad24")
def _multiply_24(f: Form) -> Case:
    def low(a: int) -> int:
        return signed(a, 24) if f.signed else a & 0xFFFFFF

    shift = 16 if "hi" in f else 0
    kind = f.types[-1]
    if f.row.name == "mul24":
        return Case([kind] * 2, kind, lambda a, b: low(a) * low(b) >> shift)
    if "sat" in f:
        top = (1 << 31) - 1
        return Case([kind] * 3, kind, lambda a, b, c: max(-top - 1, min(top, signed(low(a) * low(b) >> 16, 32) + c)))
    return Case([kind] * 3, kind, lambda a, b, c: (low(a) * low(b) >> shift) + c)


@model("sad")
def _sad(f: Form) -> Case:
    return Case([f.types[-1]] * 3, f.types[-1], lambda a, b, c: c + abs(a - b))


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@model("div")
def _divide(f: Form) -> Case:
    kind = f.types[-1]
    if is_real(f):
        error = 2.0**-22 if "approx" in f or "full" in f else 0.0
        case = real_case(f, 2, lambda a, b: exact.divide(a, b, f.bits, rounding(f)), error)
        return case
    return Case([kind] * 2, kind, lambda a, b: _truncated(a, b) if b else -1)


@model("rem")
def _remainder(f: Form) -> Case:
    kind = f.types[-1]
    return Case([kind] * 2, kind, lambda a, b: a - b * _truncated(a, b) if b else -1)


@model("abs", "neg")
def _sign(f: Form) -> Case:
    kind = f.types[-1]
    if is_real(f):
        flush = exact.flush if "ftz" in f else (lambda a: a)
        if f.row.name == "abs":
            return Case([kind], kind, lambda a: abs(flush(a)))
        return Case([kind], kind, lambda a: -flush(a))
    return Case([kind], kind, abs if f.row.name == "abs" else lambda a: -a)


@model("min", "max")
def _extreme(f: Form) -> Case:
    kind = f.types[-1]
    choose = min if f.row.name == "min" else max
    if not is_real(f):
        return Case([kind] * 2, kind, choose)

    def run(a: float, b: float) -> float:
        if "ftz" in f:
            a, b = exact.flush(a), exact.flush(b)
        sign = math.copysign(1, a) * math.copysign(1, b)
        if "abs" in f:
            a, b = abs(a), abs(b)
        if math.isnan(a) or math.isnan(b):
            if "NaN" in f or (math.isnan(a) and math.isnan(b)):
                return math.nan
            result = b if math.isnan(a) else a
        else:
            result = choose((a, b), key=lambda x: (x, math.copysign(1, x)))
        return math.copysign(result, sign) if "xorsign" in f else result

    return Case([kind] * 2, kind, run)


# -- bits


@model("and", "or", "xor")
def _logic(f: Form) -> Case:
    operation = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}[f.row.name]
    return Case([f.types[-1]] * 2, f.types[-1], operation)


@model("not")
def _not(f: Form) -> Case:
    return Case([f.types[-1]], f.types[-1], (lambda a: not a) if f.types[-1] == "pred" else (lambda a: ~a))


@model("cnot")
def _cnot(f: Form) -> Case:
    return Case([f.types[-1]], f.types[-1], lambda a: int(a == 0))


def lop3(table: int) -> Callable[[int, int, int], int]:
    def run(a: int, b: int, c: int) -> int:
        result = 0
        for bit in range(32):
            index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
            result |= (table >> index & 1) << bit
        return result

    return run


@model("lop3")
def _lop3(f: Form) -> Case:
    return Case(["b32"] * 3, "b32", lop3(0xE8), tail=", 0xE8")


@model("shl", "shr")
def _shift(f: Form) -> Case:
    kind = f.types[-1]
    if f.row.name == "shl":
        return Case([kind, "u32"], kind, lambda a, b: a << b if b < f.bits else 0)
    return Case([kind, "u32"], kind, lambda a, b: a >> min(b, f.bits))


@model("shf")
def _funnel(f: Form) -> Case:
    def run(a: int, b: int, c: int) -> int:
        amount = min(c, 32) if "clamp" in f else c & 31
        both = b << 32 | a
        return both << amount >> 32 if "l" in f else both >> amount

    return Case(["b32", "b32", "u32"], "b32", run)


@model("popc", "clz", "brev")
def _count(f: Form) -> Case:
    kind = f.types[-1]
    run: Callable[[int], int] = {
        "popc": lambda a: a.bit_count(),
        "clz": lambda a: f.bits - a.bit_length(),
        "brev": lambda a: int(f"{a:0{f.bits}b}"[::-1], 2),
    }[f.row.name]
    return Case([kind], kind if f.row.name == "brev" else "u32", run)


@model("bfind")
def _bfind(f: Form) -> Case:
    def run(a: int) -> int:
        a = ~a if a < 0 else a
        position = a.bit_length() - 1
        return position if position < 0 or "shiftamt" not in f else f.bits - 1 - position

    return Case([f.types[-1]], "u32", run)


@model("bfe")
def _bfe(f: Form) -> Case:
    def run(a: int, b: int, c: int) -> int:
        position, length = (b & 255, c & 255) if f.bits == 32 else (b, c)
        if not length:
            return 0
        last = min(position + length - 1, f.bits - 1)
        sign = a >> last & 1 if f.signed else 0
        return sum(((a >> position + k & 1) if position + k < f.bits and k < length else sign) << k for k in range(f.bits))

    return Case([f.types[-1], "u32", "u32"], f.types[-1], run)


@model("bfi")
def _bfi(f: Form) -> Case:
    def run(a: int, b: int, c: int, d: int) -> int:
        position, length = (c & 255, d & 255) if f.bits == 32 else (c, d)
        for k in range(min(length, f.bits)):
            if position + k < f.bits:
                b = b & ~(1 << position + k) | (a >> k & 1) << position + k
        return b

    return Case([f.types[-1], f.types[-1], "u32", "u32"], f.types[-1], run)


def _bounded(f: Form, value: int) -> int:
    return min(value, 32) if "clamp" in f else value & 31


@model("szext")
def _szext(f: Form) -> Case:
    def run(a: int, b: int) -> int:
        length = _bounded(f, b)
        low = a & (1 << length) - 1
        return signed(low, length) if f.signed and length else low

    return Case([f.types[-1], "u32"], f.types[-1], run)


@model("bmsk")
def _bmsk(f: Form) -> Case:
    return Case(["u32"] * 2, "b32", lambda a, b: ((1 << _bounded(f, b)) - 1) << _bounded(f, a))


_MODES = {
    "f4e": lambda c: [(c + k) % 8 for k in range(4)],
    "b4e": lambda c: [(c - k) % 8 for k in range(4)],
    "rc8": lambda c: [c] * 4,
    "ecl": lambda c: [max(k, c) for k in range(4)],
    "ecr": lambda c: [min(k, c) for k in range(4)],
    "rc16": lambda c: [2 * (c & 1), 2 * (c & 1) + 1] * 2,
}


@model("prmt")
def _prmt(f: Form) -> Case:
    mode = f.choose(*_MODES)

    def run(a: int, b: int, c: int) -> int:
        source = (b << 32 | a).to_bytes(8, "little")
        selectors = _MODES[mode](c & 3) if mode else [c >> 4 * k & 15 for k in range(4)]
        chosen = [source[s & 7] if s < 8 else (255 if source[s & 7] & 128 else 0) for s in selectors]
        return int.from_bytes(bytes(chosen), "little")

    return Case(["b32", "b32", "b32"], "b32", run)


def _split(value: int, width: int, is_signed: bool) -> list[int]:
    parts = [value >> width * k & (1 << width) - 1 for k in range(32 // width)]
    return [signed(part, width) for part in parts] if is_signed else parts


@model("dp4a", "dp2a")
def _dot(f: Form) -> Case:
    first, second = (kind == "s32" for kind in f.types)
    output = "s32" if first or second else "u32"
    width = 8 if f.row.name == "dp4a" else 16

    def run(a: int, b: int, c: int) -> int:
        left, right = _split(a, width, first), _split(b, 8, second)
        right = right[2:] if "hi" in f else right
        return c + sum(x * y for x, y in zip(left, right, strict=False))

    return Case(["b32", "b32", output], output, run)


# -- floats only


@model("rcp")
def _rcp(f: Form) -> Case:
    if f.types[-1] == "f64" and "ftz" in f:
        return _coarse(f, lambda a: exact.divide(1.0, a, 64, "rn"))
    error = 2.0**-22 if "approx" in f else 0.0
    return real_case(f, 1, lambda a: exact.divide(1.0, a, f.bits, rounding(f)), error)


@model("rsqrt")
def _rsqrt(f: Form) -> Case:
    def run(a: float) -> float:
        root = exact.square_root(a, 64, "rn")
        return exact.divide(1.0, root, 64, "rn")

    if f.types[-1] == "f64" and "ftz" in f:
        return _coarse(f, run)
    return real_case(f, 1, run, 2.0**-22)


def _coarse(f: Form, run: Callable[[float], float]) -> Case:
    """20 bits of mantissa count; subnormal inputs and results are zero."""

    def upper(a: float) -> float:
        pattern = exact.to_bits(a, 64) & ~0xFFFFFFFF
        return math.copysign(0.0, a) if pattern >> 52 & 0x7FF == 0 else exact.from_bits(pattern, 64)

    return Case(["f64"], "f64", lambda a: upper(run(upper(a))), error=2.0**-19)


@model("sqrt")
def _sqrt(f: Form) -> Case:
    error = 2.0**-22 if "approx" in f else 0.0
    return real_case(f, 1, lambda a: exact.square_root(a, f.bits, rounding(f)), error)


def _guarded(function: Callable[[float], float]) -> Callable[[float], float]:
    def run(a: float) -> float:
        try:
            return function(a)
        except OverflowError:
            return math.inf
        except ValueError:
            return -math.inf if a == 0 else math.nan

    return run


@model("sin", "cos", "ex2", "lg2", "tanh")
def _transcendental(f: Form) -> Case:
    function = {"sin": math.sin, "cos": math.cos, "ex2": lambda a: 2.0**a, "lg2": math.log2, "tanh": math.tanh}
    return real_case(f, 1, _guarded(function[f.row.name]), 2.0**-11 if f.row.name == "tanh" else 2.0**-20)


@model("copysign")
def _copysign(f: Form) -> Case:
    return Case([f.types[-1]] * 2, f.types[-1], lambda a, b: math.copysign(b, a))


@model("testp")
def _testp(f: Form) -> Case:
    least = 2.0**-126 if f.bits == 32 else 2.0**-1022
    run: Callable[[float], bool] = {
        "finite": math.isfinite,
        "infinite": math.isinf,
        "number": lambda a: not math.isnan(a),
        "notanumber": math.isnan,
        "normal": lambda a: a == 0 or (math.isfinite(a) and abs(a) >= least),
        "subnormal": lambda a: 0 < abs(a) < least,
    }[f.choose("finite", "infinite", "number", "notanumber", "normal", "subnormal")]
    return Case([f.types[-1]], "pred", run)


# -- comparison and selection


def _compare(f: Form) -> Callable[[Any, Any], bool]:
    name = f.opcode.split(".")[1]
    name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
    basic: dict[str, Callable[[Any, Any], bool]] = {
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }
    real = f.types[-1][0] == "f"

    def run(a: Any, b: Any) -> bool:
        if "ftz" in f and f.types[-1] == "f32":
            a, b = exact.flush(a), exact.flush(b)
        unordered = real and (math.isnan(a) or math.isnan(b))
        if name in ("num", "nan"):
            return unordered == (name == "nan")
        if name.endswith("u"):
            return unordered or basic[name[:-1]](a, b)
        return not unordered and basic[name](a, b)

    return run


def _combined(f: Form) -> tuple[list[str], Callable[..., bool]]:
    compare, kind = _compare(f), f.types[-1]
    operation = f.choose("and", "or", "xor")
    if not operation:
        return [kind] * 2, compare
    joined = {"and": lambda p, q: p and q, "or": lambda p, q: p or q, "xor": lambda p, q: p != q}[operation]
    return [kind, kind, "pred"], lambda a, b, c: joined(compare(a, b), c)


@model("setp")
def _setp(f: Form) -> Case:
    inputs, run = _combined(f)
    return Case(inputs, "pred", run)


@model("set")
def _set(f: Form) -> Case:
    inputs, run = _combined(f)
    if f.types[0] == "f32":
        return Case(inputs, "f32", lambda *values: float(run(*values)))
    return Case(inputs, f.types[0], lambda *values: -int(run(*values)))


@model("selp")
def _selp(f: Form) -> Case:
    kind = f.types[-1]
    return Case([kind, kind, "pred"], kind, lambda a, b, c: a if c else b)


@model("slct")
def _slct(f: Form) -> Case:
    flush = exact.flush if "ftz" in f else (lambda a: a)
    return Case([f.types[0], f.types[0], f.types[1]], f.types[0], lambda a, b, c: a if flush(c) >= 0 else b)


# -- conversions


@model("cvt")
def _cvt(f: Form) -> Case:
    target, source = f.types
    bits = BITS[target]
    mode = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}.get(f.choose("rni", "rzi", "rmi", "rpi"), rounding(f))
    if source[0] != "f" and target[0] != "f":
        return Case([source], target, (lambda a: _clamp(a, target)) if "sat" in f else (lambda a: a))
    if source[0] != "f":
        finish = exact.saturate if "sat" in f else (lambda a: a)
        return Case([source], target, lambda a: finish(exact.round_exact(exact.Fraction(a), bits, mode)))

    def prepared(a: float) -> float:
        return exact.flush(a) if "ftz" in f and source == "f32" else a

    if target[0] != "f":

        def to_integer(a: float) -> int:
            a = prepared(a)
            if math.isnan(a):
                return 1 << bits - 1 if bits == 64 or source == "f64" else 0
            return _clamp(_whole(a, mode) if math.isfinite(a) else (1 << 70) * (1 if a > 0 else -1), target)

        return Case([source], target, to_integer)

    def to_real(a: float) -> float:
        a = prepared(a)
        if math.isfinite(a):
            if f.choose("rni", "rzi", "rmi", "rpi"):
                a = math.copysign(float(_whole(a, mode)), a)
            else:
                a = exact.round_exact(exact.Fraction(a), bits, mode, math.copysign(1, a) < 0)
        if "ftz" in f and target == "f32":
            a = exact.flush(a)
        return exact.saturate(a) if "sat" in f else a

    return Case([source], target, to_real)


def _whole(a: float, mode: str) -> int:
    return {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}[mode](a)


def _clamp(a: int, kind: str) -> int:
    bits = BITS[kind]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return max(low, min(high, a))


@model("mov")
def _mov(f: Form) -> Case:
    return Case([f.types[-1]], f.types[-1], lambda a: a)


@model("cvta")
def _cvta(f: Form) -> Case:
    from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW

    space = f.opcode.split(".")[2 if "to" in f else 1]
    window = {"local": LOCAL_WINDOW, "shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW}.get(space, 0)
    return Case([f.types[-1]], f.types[-1], lambda a: a - window if "to" in f else a + window)


# -- inputs

_INTEGERS = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 257, 0x7FFF, 0x8000, 0xFFFF, 0x10000]
_INTEGERS += [0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678, 0xDEADBEEF, 0xFF00FF00]
_WIDE = [1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2, 0x0123456789ABCDEF, 0xFFFFFFFF00000001]
_REALS = [0.0, 1.0, 2.0, 0.5, 1.5, 2.5, 3.0, 0.1, 1e-3, 1e6, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 127.5, 255.5, 32768.0]
_SINGLE = [2.0**-126, 2.0**-149, 2.0**-127, 3.4028234663852886e38, 1.0000001192092896, 0.9999999403953552, 2.0**-75, 2.0**64]
_DOUBLE = [2.0**-1022, 5e-324, 2.0**-1050, 1.7976931348623157e308, 1.0000000000000002, 2.0**-540, 1e-40, 1e39]
#: Elements of each input array.
COUNT = 352


def patterns(kind: str, seed: int) -> list[int]:
    """Bit patterns to try for an operand: all edge cases, then random ones; ``seed`` shuffles them."""
    source = random.Random(f"{kind} {seed}")
    if kind[0] == "f":
        bits = BITS[kind]
        edges = [*_REALS, *(_SINGLE if bits == 32 else _DOUBLE), math.inf]
        found = [exact.to_bits(sign * value, bits) for value in edges for sign in (1, -1)]
        found.append(exact.CANONICAL[bits])
        while len(found) < COUNT // 2:
            found.append(exact.to_bits(exact.from_bits(exact.to_bits(source.uniform(-40, 40), 32), 32), bits))
        while len(found) < COUNT:
            pattern = source.getrandbits(bits)
            if not math.isnan(exact.from_bits(pattern, bits)):
                found.append(pattern)
    else:
        found = list(_INTEGERS) + (_WIDE if kind == "b64" else [])
        found += [source.randrange(70) for _ in range(60)]
        found += [source.getrandbits(64 if kind == "b64" else 32) for _ in range(COUNT - len(found))]
        found = [pattern & ((1 << BITS[kind]) - 1) for pattern in found]
    source.shuffle(found)
    if seed:  # edge cases meet edge cases
        edges_first = sorted(range(COUNT), key=lambda index: source.random())
        found = [found[index] for index in edges_first]
    return found[:COUNT]
