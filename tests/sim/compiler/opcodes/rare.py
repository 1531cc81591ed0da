"""Forms that compilers seldom write and assemblers take all the same, and those of later architectures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.sim.compiler.opcodes import number
from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.compare import _COMBINATIONS, _forms, compare
from tests.sim.compiler.opcodes.convert import _INTEGERS, _from_integer, _register
from tests.sim.compiler.opcodes.integer import _carry
from tests.sim.compiler.opcodes.kernel import ANY_NAN, Expected
from tests.sim.compiler.opcodes.number import F16, F32, F64
from tests.sim.compiler.opcodes.short import _resized, _widened

_ROUND = "<rn|rz|rm|rp>"
_ONE = {"f16": 0x3C00, "bf16": 0x3F80}


def carries() -> Iterator[Case]:
    """16 bits take a carry and leave none; the carry comes from 32 bits."""
    for opcode, (name, type) in opcodes("<addc|subc>.<u16|s16>"):
        yield _short_carry(opcode, name[:3], type)


def _short_carry(opcode: str, operation: str, type: str) -> Case:
    step = "sub" if operation == "sub" else "add"
    inner = _carry(opcode, operation, type, takes=True, gives=False)
    count = len(inner.operand_types) - 2
    mask = 0xFFFFFFFF

    def model(*operands: int) -> Expected:
        left, right = operands[-2:]
        carried = left < right if step == "sub" else left + right > mask
        # the model of 16 bits, with operands that set the same carry
        pair = ((0, 1) if step == "sub" else (0xFFFF, 1)) if carried else (0, 0)
        return inner.model(*operands[:-2], *pair)

    words = ", ".join(f"{{a{n}}}" for n in range(count))
    body = f"{{ .reg .b32 %w; {step}.cc.u32 %w, {{a{count}}}, {{a{count + 1}}}; {opcode} {{d0}}, {words}; }}"
    return Case(opcode, type, " ".join([type] * count + ["u32", "u32"]), model, body)


def tables() -> Iterator[Case]:
    """``lop3`` with a predicate: is the result not 0, combined with another predicate."""
    for opcode, (_, combination, _) in opcodes("lop3.<or|and>.<b32>"):
        for table in (0x80, 0xFE, 0x96, 0x00):

            def model(a: int, b: int, c: int, p: int, t=table, combination=combination) -> tuple[int, int]:  # type: ignore[no-untyped-def]
                word = 0
                for bit in range(32):
                    index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
                    word |= (t >> index & 1) << bit
                return word, int(word != 0) | p if combination == "or" else int(word != 0) & p

            body = f"{opcode} {{d0}}|{{d1}}, {{a0}}, {{a1}}, {{a2}}, {table}, {{a3}};"
            yield Case(opcode, "b32 pred", "b32 b32 b32 pred", model, body)


def reciprocals() -> Iterator[Case]:
    for opcode, (_, mode, _, _) in opcodes(f"rcp.{_ROUND}.ftz.<f64>"):

        def model(a: int, mode=mode) -> Expected:  # type: ignore[no-untyped-def]
            bits = number.div(F64, mode, F64.one, a)
            return ANY_NAN if number.is_nan(F64, bits) else bits

        yield Case(opcode, "f64", "f64", model)


def selections() -> Iterator[Case]:
    """``set`` to half precision; every seventh, so that all choices appear."""
    for position, (operation, combination, ftz, type) in enumerate(_forms()):
        if position % 3 and operation not in ("hs", "num", "nan"):
            continue
        target = ("f16", "bf16")[position // 3 % 2]
        opcode = ".".join(token for token in ("set", operation, combination, ftz, target, type) if token)
        third = ", {a2}" if combination else ""
        body = f"{opcode} {{d0}}, {{a0}}, {{a1}}{third};"
        combine = _COMBINATIONS[combination]

        def model(a: int, b: int, c: int, t=(operation, type, bool(ftz), combine, target)) -> int:  # type: ignore[no-untyped-def]
            name, kind, flushes, combine, target = t
            return combine(compare(name, kind, flushes, a, b), c) * _ONE[target]

        recorded = not (ftz and target == "bf16")
        yield Case(opcode, target, f"{type} {type} pred", model, body, recorded=recorded)
    for position, (opcode, (_, name, combination, ftz, _, _)) in enumerate(
        opcodes("set.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>[.and|or|xor][.ftz].<bf16>.<f16>")
    ):
        if position % 5 and name not in ("num", "nan"):
            continue
        combine = _COMBINATIONS[combination]

        def outcome(a: int, b: int, c: int, t=(name, bool(ftz), combine)) -> int:  # type: ignore[no-untyped-def]
            name, flushes, combine = t
            if flushes:
                a, b = number.flush(F16, a), number.flush(F16, b)
            order = number.compare(F16, a, b)
            if name in ("num", "nan"):
                holds = (order is None) == (name == "nan")
            elif order is None:
                holds = name.endswith("u")
            else:
                test = name.removesuffix("u")
                holds = {
                    "eq": order == 0, "ne": order != 0, "lt": order < 0, "le": order <= 0, "gt": order > 0,
                    "ge": order >= 0,
                }[test]  # fmt: skip
            return combine(int(holds), c) * _ONE["bf16"]

        third = ", {a2}" if combination else ""
        yield Case(
            opcode, "bf16", "f16 f16 pred", outcome, f"{opcode} {{d0}}, {{a0}}, {{a1}}{third};", recorded=not ftz
        )


def conversions() -> Iterator[Case]:
    for opcode, (_, mode, _, sat, target, source) in opcodes(f"cvt.{_ROUND}.<ftz>[.sat].<f32>.{_INTEGERS}"):
        yield Case(opcode, target, _register(source), _from_integer(source, target, mode, bool(sat)))
    for opcode, (_, mode, _, sat, target, source) in opcodes(f"cvt.{_ROUND}.<ftz>[.sat].<bf16>.<f32>"):
        one = _resized(source, target, mode, sat, "", "")  # to bf16 subnormals are flushed, to f16 they are not
        flushed = lambda a, one=one: one(number.flush(F32, a))  # noqa: E731
        yield Case(opcode, target, source, flushed, recorded=not sat)
    for opcode, (_, mode, _, clamp, target, source) in opcodes("cvt.<rn|rz>.<satfinite>.<relu>.<f16|bf16>.<f32>"):
        yield Case(opcode, target, source, _resized(source, target, mode, "", clamp, "satfinite"))
    for opcode, (_, mode, _, clamp, target, source) in opcodes("cvt.<rn|rz>.<satfinite>.<relu>.<f16x2|bf16x2>.<f32>"):
        one = _resized(source, target[:-2], mode, "", clamp, "satfinite")
        yield Case(opcode, target, "f32 f32", lambda a, b, one=one: one(a) << 16 | one(b))
    for opcode, (_, _, ftz, sat, target, source) in opcodes(f"cvt.{_ROUND}[.ftz][.sat].<f32>.<bf16>"):
        yield Case(opcode, target, source, _widened(source, target, ftz, sat), recorded=not sat)
    for opcode, (_, _, sat, target, source) in opcodes(f"cvt.{_ROUND}[.sat].<f64>.<bf16>"):
        yield Case(opcode, target, source, _widened(source, target, "", sat), recorded=not sat)
    for opcode, (_, target, source) in opcodes("cvt.<f16|bf16>.<f16|bf16>"):
        yield Case(opcode, target, source, _plain(source, target))
    yield Case("cvt.sat.f16.f16", "f16", "f16", lambda a: number.saturate(F16, a))


def _plain(source: str, target: str) -> Callable[[int], int]:
    have, want = number.FORMATS[source], number.FORMATS[target]
    return lambda a: number.convert(have, want, "rn", a)


# -- later architectures -----------------------------------------------------------------------------------------------


def thirds() -> Iterator[Case]:
    """The smallest or largest of three, and of their sizes."""
    for opcode, (name, ftz, nan, size, _) in opcodes("<min|max>[.ftz][.NaN][.abs].<f32>"):
        for count in (2, 3) if size else (3,):

            def model(*operands: int, t=(name, ftz, nan, size)) -> int:  # type: ignore[no-untyped-def]
                name, ftz, nan, size = t
                numbers = [number.flush(F32, a) if ftz else a for a in operands]
                numbers = [number.magnitude(F32, a) if size else a for a in numbers]
                found = number.extreme(F32, name == "max", bool(nan), numbers[0], numbers[1])
                if len(numbers) == 3:
                    found = number.extreme(F32, name == "max", bool(nan), found, numbers[2])
                return F32.nan if number.is_nan(F32, found) else found

            yield Case(opcode, "f32", " ".join(["f32"] * count), model, recorded=False)


def pairs() -> Iterator[Case]:
    """Two floats in a register of 64 bits."""
    for opcode, (name, mode, ftz, _) in opcodes("<add|sub|mul>[.rn|rz|rm|rp][.ftz].<f32x2>"):
        yield _pair(opcode, {"add": number.add, "sub": number.sub, "mul": number.mul}[name], mode, ftz, 2)
    for opcode, (_, mode, ftz, _) in opcodes(f"fma.{_ROUND}[.ftz].<f32x2>"):
        yield _pair(opcode, number.fma, mode, ftz, 3)


def _pair(opcode: str, operation: Callable[..., int], mode: str, ftz: str, count: int) -> Case:
    f = number.FLUSHING if ftz else F32

    def one(*operands: int) -> int:
        numbers = [number.flush(F32, a) if ftz else a for a in operands]
        return operation(f, mode or "rn", *numbers)

    def model(*operands: int) -> int:
        low = one(*[operand & 0xFFFFFFFF for operand in operands])
        return low | one(*[operand >> 32 for operand in operands]) << 32

    words = "".join(f"mov.b64 %w{n}, {{{{a{2 * n}}}, {{a{2 * n + 1}}}}};" for n in range(count))
    names = ", ".join(f"%w{n}" for n in range(count))
    body = f"{{ .reg .b64 %w<4>; {words} {opcode} {{d0}}, {names}; }}"

    def of_floats(*operands: int) -> int:
        return model(*[operands[2 * n] | operands[2 * n + 1] << 32 for n in range(count)])

    return Case(opcode, "b64", " ".join(["f32"] * 2 * count), of_floats, body, recorded=False)


def mixed() -> Iterator[Case]:
    for opcode, (name, mode, sat, _, type) in opcodes("<add|sub>[.rn|rz|rm|rp][.sat].<f32>.<f16|bf16>"):
        operation = {"add": number.add, "sub": number.sub}[name]
        yield _mixed(opcode, operation, mode, sat, type, 1)
    for opcode, (_, mode, sat, _, type) in opcodes(f"fma.{_ROUND}[.sat].<f32>.<f16|bf16>"):
        yield _mixed(opcode, number.fma, mode, sat, type, 2)


def _mixed(opcode: str, operation: Callable[..., int], mode: str, sat: str, type: str, shorts: int) -> Case:
    f = number.FORMATS[type]

    def model(*operands: int) -> int:
        wide = [number.convert(f, F32, "rn", a) for a in operands[:shorts]]
        bits = operation(F32, mode or "rn", *wide, *operands[shorts:])
        return number.saturate(F32, bits) if sat else bits

    return Case(opcode, "f32", " ".join([type] * shorts + ["f32"]), model, recorded=False)


def cases() -> Iterator[Case]:
    for family in (
        carries, tables, reciprocals, selections, conversions, thirds, pairs, mixed,
    ):  # fmt: skip
        yield from family()
