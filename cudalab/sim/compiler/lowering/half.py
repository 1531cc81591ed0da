"""Half precision: ``f16``, ``bf16``, and pairs of them (PTX ISA, "Half Precision Floating-Point Instructions",
"Comparison", "cvt", "atom").

Numbers are widened, computed with, and rounded once: ``f16`` in single precision, where sums and products of two are
exact or round alike (24 bits are at least 2 * 11 + 2), ``bf16`` and ``fma`` in double precision, rounded to odd
(``runtime.narrow``). A pair is two numbers; each is computed by itself. A NaN result is ``0x7fff``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cudalab.sim.compiler.codegen.checks import pointer_to
from cudalab.sim.compiler.lowering.compare import _COMBINE, _REAL, _REAL_NAMES, _combine
from cudalab.sim.compiler.lowering.floating import extreme, saturate
from cudalab.sim.compiler.object_code import has_half
from cudalab.sim.compiler.ptx.nodes import Instruction, Pair
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()
_F16, _BF16 = "<f16|f16x2>", "<bf16|bf16x2>"
_NAN = 0x7FFF
_ONE = {"f16": 0x3C00, "bf16": 0x3F80}
_COMPUTED = {"f16": "float", "bf16": "double"}
_BITS = {"f16": 32, "bf16": 64}
_LIBRARY = {"ex2": "exp2f", "tanh": "tanhf"}


def single(type: str) -> str:
    """The type of one number of a type that may be a pair."""
    return type.removesuffix("x2")


def split(e: Emitter, operand: Any, type: str) -> list[str]:
    """The numbers of an operand as ``i16``, the lower one first."""
    if not type.endswith("x2"):
        return [e.integer(operand, 16)]
    word = e.integer(operand, 32)
    high = e.new(f"lshr i32 {word}, 16")
    return [e.new(f"trunc i32 {half} to i16") for half in (word, high)]


def joined(e: Emitter, values: Sequence[str]) -> str:
    """Two ``i16`` as one ``i32``."""
    low, high = (e.new(f"zext i16 {value} to i32") for value in values)
    return e.new(f"or i32 {low}, {e.new(f'shl i32 {high}, 16')}")


def put(e: Emitter, target: Any, type: str, values: Sequence[str]) -> None:
    """Write a result of one or two numbers."""
    if type.endswith("x2"):
        e.set_integer(target, joined(e, values), 32)
    else:
        e.set_integer(target, values[0], 16)


def widen(e: Emitter, bits: str, type: str) -> str:
    """A number as a float (``f16``) or double (``bf16``)."""
    if type == "f16":
        if not has_half():
            return e.runtime("cl_widen_f16", "float", f"i16 {bits}")
        return e.new(f"fpext half {e.new(f'bitcast i16 {bits} to half')} to float")
    word = e.new(f"shl i32 {e.new(f'zext i16 {bits} to i32')}, 16")
    return e.new(f"fpext float {e.new(f'bitcast i32 {word} to float')} to double")


def narrow(e: Emitter, value: str, type: str, kind: str, mode: str = "rn") -> str:
    """A float or double (``kind``) rounded to ``type``, as ``i16``."""
    if type == "f16" and kind == "float" and mode == "rn" and has_half():
        bits = e.new(f"bitcast half {e.new(f'fptrunc float {value} to half')} to i16")
        missing = e.new(f"fcmp uno float {value}, {value}")
        return e.new(f"select i1 {missing}, i16 {_NAN}, i16 {bits}")
    if kind == "float":
        value = e.new(f"fpext float {value} to double")
    return e.runtime(f"cl_{type}_{mode}", "i16", f"double {value}")


def flush(e: Emitter, bits: str) -> str:
    """A number of type ``f16`` with subnormals replaced by zero of the same sign."""
    tiny = e.new(f"icmp eq i16 {e.new(f'and i16 {bits}, {0x7C00}')}, 0")
    return e.new(f"select i1 {tiny}, i16 {e.new(f'and i16 {bits}, -32768')}, i16 {bits}")


_SMALLEST = "0x3F0FFE0000000000"  # 2**-14 - 2**-26: what is smaller stays below the least normal number when rounded


def _flushed(e: Emitter, value: str, kind: str) -> str:
    """A result of ``f16`` before it is rounded: zero of its sign where it would be subnormal."""
    width = 32 if kind == "float" else 64
    size = e.intrinsic(f"llvm.fabs.f{width}", kind, f"{kind} {value}")
    tiny = e.new(f"fcmp olt {kind} {size}, {_SMALLEST}")
    zero = e.intrinsic(f"llvm.copysign.f{width}", kind, f"{kind} 0.0", f"{kind} {value}")
    return e.new(f"select i1 {tiny}, {kind} {zero}, {kind} {value}")


def _no_nan_bits(e: Emitter, number: str, type: str, bits: str) -> str:
    """``bits``, or the NaN that all of them become where ``number`` is one."""
    infinity = 0x7C00 if type == "f16" else 0x7F80
    missing = e.new(f"icmp ugt i16 {e.new(f'and i16 {number}, {0x7FFF}')}, {infinity}")
    return e.new(f"select i1 {missing}, i16 {_NAN}, i16 {bits}")


def _no_negative(e: Emitter, value: str, kind: str) -> str:
    """``.relu``; -0 becomes +0, NaN stays."""
    negative = e.new(f"fcmp ole {kind} {value}, 0.0")
    return e.new(f"select i1 {negative}, {kind} 0.0, {kind} {value}")


def _each(e: Emitter, i: Instruction, f: Form, count: int, compute: Callable[[str, list[str]], str]) -> None:
    """Compute each number of the result from the same number of ``count`` operands, as ``i16``."""
    type = f.types[-1]
    operands = [split(e, operand, type) for operand in i.operands[1 : 1 + count]]
    results = []
    for numbers in zip(*operands, strict=True):
        values = [flush(e, value) for value in numbers] if "ftz" in f else list(numbers)
        result = compute(single(type), values)
        results.append(flush(e, result) if "ftz" in f else result)
    put(e, i.operands[0], type, results)


@TABLE.row(*[f"{name}[.rn][.ftz][.sat].{_F16}" for name in ("add", "sub", "mul")])
@TABLE.row(*[f"{name}[.rn].{_BF16}" for name in ("add", "sub", "mul")])
def _binary(e: Emitter, i: Instruction, f: Form) -> None:
    def compute(type: str, numbers: list[str]) -> str:
        a, b = (widen(e, number, type) for number in numbers)
        kind = _COMPUTED[type]
        if type == "f16":
            result = e.new(f"f{f.row.name} float {a}, {b}")
        elif f.row.name == "mul":
            result = e.new(f"fmul double {a}, {b}")  # exact
        else:
            b = e.new(f"fneg double {b}") if f.row.name == "sub" else b
            result = e.runtime("cl_fma_odd", "double", f"double {a}", "double 1.0", f"double {b}")
        if "ftz" in f:
            result = _flushed(e, result, kind)
        if "sat" in f:
            result = saturate(e, result, _BITS[type])
        return narrow(e, result, type, kind)

    _each(e, i, f, 2, compute)


@TABLE.row(f"fma.rn[.ftz][.sat].{_F16}", f"fma.rn[.ftz].relu.{_F16}", f"fma.rn[.relu].{_BF16}")
def _fused(e: Emitter, i: Instruction, f: Form) -> None:
    def compute(type: str, numbers: list[str]) -> str:
        values = [widen(e, number, type) for number in numbers]
        if type == "f16":
            values = [e.new(f"fpext float {value} to double") for value in values]
        result = e.runtime("cl_fma_odd", "double", *[f"double {value}" for value in values])
        if "ftz" in f:
            result = _flushed(e, result, "double")
        if "sat" in f:
            result = saturate(e, result, 64)
        if "relu" in f:
            result = _no_negative(e, result, "double")
        return narrow(e, result, type, "double")

    _each(e, i, f, 3, compute)


@TABLE.row(f"abs[.ftz].{_F16}", f"neg[.ftz].{_F16}", f"abs.{_BF16}", f"neg.{_BF16}")
def _sign(e: Emitter, i: Instruction, f: Form) -> None:
    def compute(type: str, numbers: list[str]) -> str:
        (a,) = numbers
        bits = e.new(f"and i16 {a}, {0x7FFF}" if f.row.name == "abs" else f"xor i16 {a}, -32768")
        return _no_nan_bits(e, a, type, bits)

    _each(e, i, f, 1, compute)


@TABLE.row(*[f"{name}[.ftz][.NaN].{_F16}" for name in ("min", "max")])
@TABLE.row(*[f"{name}[.ftz][.NaN].xorsign.abs.{_F16}" for name in ("min", "max")])
@TABLE.row(*[f"{name}[.NaN].{_BF16}" for name in ("min", "max")])
@TABLE.row(*[f"{name}[.NaN].xorsign.abs.{_BF16}" for name in ("min", "max")])
def _extreme(e: Emitter, i: Instruction, f: Form) -> None:
    def compute(type: str, numbers: list[str]) -> str:
        a, b = numbers
        sign = ""
        if "xorsign" in f:
            sign = e.new(f"and i16 {e.new(f'xor i16 {a}, {b}')}, -32768")
            a, b = (e.new(f"and i16 {number}, {0x7FFF}") for number in (a, b))
        kind = _COMPUTED[type]
        first, second = (widen(e, number, type) for number in (a, b))
        result = narrow(e, extreme(e, f.row.name, first, second, _BITS[type], "NaN" in f), type, kind)
        return _no_nan_bits(e, result, type, e.new(f"or i16 {result}, {sign}")) if sign else result

    _each(e, i, f, 2, compute)


@TABLE.row(f"tanh.approx.{_F16}", f"tanh.approx.{_BF16}", f"ex2.approx.{_F16}", f"ex2.approx.ftz.{_BF16}")
def _transcendental(e: Emitter, i: Instruction, f: Form) -> None:
    def compute(type: str, numbers: list[str]) -> str:
        value = widen(e, numbers[0], type)
        if type == "bf16":
            value = e.new(f"fptrunc double {value} to float")
        return narrow(e, e.intrinsic(_LIBRARY[f.row.name], "float", f"float {value}"), type, "float")

    type = f.types[-1]
    if type.startswith("bf16"):  # its .ftz flushes as a float's does; the function of a subnormal is that of zero
        put(e, i.operands[0], type, [compute("bf16", [number]) for number in split(e, i.operands[1], type)])
    else:
        _each(e, i, f, 1, compute)


# -- comparison --------------------------------------------------------------------------------------------------------


def _outcomes(e: Emitter, i: Instruction, f: Form) -> list[str]:
    """The outcome for each number, combined with the predicate if there is one, as ``i1``."""
    type = f.types[-1]
    test = _REAL[f.opcode.split(".")[1]]
    found = []
    for a, b in zip(*(split(e, operand, type) for operand in i.operands[1:3]), strict=True):
        if "ftz" in f:
            a, b = flush(e, a), flush(e, b)
        one = single(type)
        outcome = e.new(f"fcmp {test} {_COMPUTED[one]} {widen(e, a, one)}, {widen(e, b, one)}")
        found.append(_combine(e, i, f, outcome))
    return found


@TABLE.row(f"setp.<{_REAL_NAMES}>{_COMBINE}[.ftz].{_F16}", f"setp.<{_REAL_NAMES}>{_COMBINE}.{_BF16}")
def _set_predicate(e: Emitter, i: Instruction, f: Form) -> None:
    """``p|q``: of a pair q is the upper number's; else it gets the complement, combined likewise."""
    outcomes = _outcomes(e, i, f)
    target = i.operands[0]
    if not isinstance(target, Pair):
        e.set_boolean(target, outcomes[0])
        return
    if len(outcomes) == 1:
        raise e.error(f"{f.opcode} writes one predicate")
    e.set_boolean(target.first, outcomes[0])
    e.set_boolean(target.second, outcomes[1])


@TABLE.row(f"set.<{_REAL_NAMES}>{_COMBINE}[.ftz].<f16|bf16|u16|s16|u32|s32>.f16")
@TABLE.row(f"set.<{_REAL_NAMES}>{_COMBINE}.<bf16|u16|s16|u32|s32>.bf16")
@TABLE.row(f"set.<{_REAL_NAMES}>{_COMBINE}[.ftz].<f16x2|u32|s32>.f16x2")
@TABLE.row(f"set.<{_REAL_NAMES}>{_COMBINE}.<bf16x2|u32|s32>.bf16x2")
def _set_value(e: Emitter, i: Instruction, f: Form) -> None:
    """1.0 or all ones where it holds, else 0."""
    target, source = f.types
    true = _ONE.get(single(target), -1)
    outcomes = _outcomes(e, i, f)
    if source.endswith("x2"):
        put(e, i.operands[0], "f16x2", [e.new(f"select i1 {outcome}, i16 {true}, i16 0") for outcome in outcomes])
    elif target in ("u32", "s32"):
        e.set_integer(i.operands[0], e.new(f"sext i1 {outcomes[0]} to i32"), 32)
    else:
        e.set_integer(i.operands[0], e.new(f"select i1 {outcomes[0]}, i16 {true}, i16 0"), 16)


# -- atomics -----------------------------------------------------------------------------------------------------------

_PLACE = (
    "[.cta|cluster|gpu|sys][.global|shared|shared::cta|shared::cluster].add.noftz[.L2::cache_hint]"
    ".<f16|bf16|f16x2|bf16x2>"
)


def _changed(e: Emitter, type: str, operation: str, old: str, operand: str) -> str:
    """The new bits of a number or pair."""
    results = []
    for a, b in zip(_halves(e, old, type), _halves(e, operand, type), strict=True):
        one = single(type)
        wide = [widen(e, number, one) for number in (a, b)]
        if operation != "add":
            total = extreme(e, operation, wide[0], wide[1], _BITS[one], False)
        elif one == "f16":
            total = e.new(f"fadd float {wide[0]}, {wide[1]}")
        else:
            total = e.runtime("cl_fma_odd", "double", f"double {wide[0]}", "double 1.0", f"double {wide[1]}")
        results.append(narrow(e, total, one, _COMPUTED[one]))
    return joined(e, results) if type.endswith("x2") else results[0]


def _halves(e: Emitter, value: str, type: str) -> list[str]:
    if not type.endswith("x2"):
        return [value]
    return [e.new(f"trunc i32 {half} to i16") for half in (value, e.new(f"lshr i32 {value}, 16"))]


def change(e: ThreadCode, i: Instruction, f: Form, pointer: str, operand: str) -> str:
    """Add to the number or pair at ``pointer``, or take the minimum or maximum; returns the old value. With several
    workers, by a compare-and-swap loop."""
    from cudalab.sim.compiler.lowering.atomic import needs_lock, order_of

    type = f.types[-1]
    bits = 32 if type.endswith("x2") else 16
    operation = f.choose("add", "min", "max")
    if not needs_lock(e, i):
        old = e.new(f"load i{bits}, ptr {pointer}, align {bits // 8}")
        e.emit(f"store i{bits} {_changed(e, type, operation, old, operand)}, ptr {pointer}, align {bits // 8}")
        return old
    seen = e.alloca(f"i{bits}")
    first = e.new(f"load atomic i{bits}, ptr {pointer} monotonic, align {bits // 8}")
    e.emit(f"store i{bits} {first}, ptr {seen}")
    again, done = e.fresh_label("again"), e.fresh_label("done")
    e.emit(f"br label %{again}")
    e.label(again)
    old = e.new(f"load i{bits}, ptr {seen}")
    new = _changed(e, type, operation, old, operand)
    pair = e.new(f"cmpxchg ptr {pointer}, i{bits} {old}, i{bits} {new} {order_of(f)} monotonic, align {bits // 8}")
    e.emit(f"store i{bits} {e.new(f'extractvalue {{i{bits}, i1}} {pair}, 0')}, ptr {seen}")
    e.emit(f"br i1 {e.new(f'extractvalue {{i{bits}, i1}} {pair}, 1')}, label %{done}, label %{again}")
    e.label(done)
    return old


@TABLE.row(f"atom[.relaxed|acquire|release|acq_rel]{_PLACE}")
def _atomic(e: ThreadCode, i: Instruction, f: Form) -> None:
    bits = 32 if f.types[-1].endswith("x2") else 16
    operand = e.integer(i.operands[2], bits)
    e.set_integer(i.operands[0], change(e, i, f, pointer_to(e, e.plan.accesses[i]), operand), bits)


@TABLE.row(f"red[.relaxed|release]{_PLACE}")
def _reduce(e: ThreadCode, i: Instruction, f: Form) -> None:
    operand = e.integer(i.operands[1], 32 if f.types[-1].endswith("x2") else 16)
    change(e, i, f, pointer_to(e, e.plan.accesses[i]), operand)
