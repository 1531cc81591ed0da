"""Video instructions (PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions"), by the ISA's pseudo-code.

All opcodes are too many; each choice of each modifier appears, with selectors, masks and types in turn.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.sim.compiler.opcodes.case import Case
from tests.sim.compiler.opcodes.integer import signed

_WORD = 0xFFFFFFFF
_TYPES = list(itertools.product(("u32", "s32"), repeat=3))
_PARTS = ("", "b0", "b1", "b2", "b3", "h0", "h1")
_TWO: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: abs(a - b),
    "min": min,
    "max": max,
    "avrg": lambda a, b: a + b + (a + b >= 0) >> 1,
}
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _part(word: int, selector: str, type: str) -> int:
    width = {"": 32, "b": 8, "h": 16}[selector[:1]]
    value = word >> width * int(selector[1:] or 0) & (1 << width) - 1
    return signed(width, value) if type == "s32" else value


def _clamp(value: int, is_signed: bool, width: int) -> int:
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
    return max(low, min(high, value))


def _finished(value: int, sat: bool, is_signed: bool, second: str, target: str, c: int) -> int:
    width = {"": 32, "b": 8, "h": 16}[target[:1]]
    if sat:
        value = _clamp(value, is_signed, width)
    if second:
        # in 32 bits: what has not been saturated is cut first
        value = signed(32, value) if is_signed else value & _WORD
        other = signed(32, c) if is_signed else c
        value = {"add": value + other, "min": min(value, other), "max": max(value, other)}[second]
    elif target:
        mask = (1 << width) - 1
        place = width * int(target[1:])
        value = c & ~(mask << place) | (value & mask) << place
    return value & _WORD


def _written(part: str, register: str) -> str:
    return f"{{{register}}}.{part}" if part else f"{{{register}}}"


def _scalar(opcode: str, model: Callable[[int, int, str, str], int], ends: tuple[bool, bool, str], turn: int) -> Case:
    """``ends``: saturates, is signed, second operation. ``model`` gets the operand words and their selectors."""
    sat, is_signed, second = ends
    a, b = _PARTS[turn % 7], _PARTS[(turn // 2 + 3) % 7]
    target = "" if second else _PARTS[(turn // 3) % 7]
    third = ", {a2}" if second or target else ""
    body = f"{opcode} {_written(target, 'd0')}, {_written(a, 'a0')}, {_written(b, 'a1')}{third};"

    def result(x: int, y: int, c: int) -> int:
        return _finished(model(x, y, a, b), sat, is_signed, second, target, c)

    return Case(opcode, "b32", "b32 b32 b32", result, body)


def scalars() -> Iterator[Case]:
    turn = 0
    for name in ("add", "sub", "absdiff", "min", "max"):
        for (kind, first, other), (sat, second) in itertools.product(
            _TYPES, [(s, o) for s in ("", ".sat") for o in ("", "add", "min", "max")]
        ):
            turn += 1
            if turn % 3 and kind == first:  # a third of those with equal types is enough
                continue
            opcode = f"v{name}.{kind}.{first}.{other}{sat}{'.' * bool(second)}{second}"
            operation = _TWO[name]

            def model(x: int, y: int, a: str, b: str, f=first, o=other, op=operation) -> int:  # type: ignore[no-untyped-def]
                return op(_part(x, a, f), _part(y, b, o))

            yield _scalar(opcode, model, (bool(sat), kind == "s32", second), turn)
    for name, (kind, first), sat, mode, second in itertools.product(
        ("shl", "shr"), itertools.product(("u32", "s32"), repeat=2), ("", ".sat"), ("clamp", "wrap"), ("", "add", "max")
    ):
        turn += 1
        if second == "max" and turn % 2:
            continue
        second = "min" if second == "max" and turn % 4 else second
        opcode = f"v{name}.{kind}.{first}.u32{sat}.{mode}{'.' * bool(second)}{second}"

        def shift(x: int, y: int, a: str, b: str, f=first, m=mode, n=name) -> int:  # type: ignore[no-untyped-def]
            amount = _part(y, b, "u32")
            amount = amount & 31 if m == "wrap" else min(amount, 32)
            value = _part(x, a, f)
            return value << amount if n == "shl" else value >> amount

        yield _scalar(opcode, shift, (bool(sat), kind == "s32", second), turn)
    for test, (first, other), second in itertools.product(
        _TESTS, itertools.product(("u32", "s32"), repeat=2), ("", "add", "min", "max")
    ):
        turn += 1
        if second and turn % 3:
            continue

        def compare(x: int, y: int, a: str, b: str, f=first, o=other, t=test) -> int:  # type: ignore[no-untyped-def]
            return int(_TESTS[t](_part(x, a, f), _part(y, b, o)))

        opcode = f"vset.{first}.{other}.{test}{'.' * bool(second)}{second}"
        yield _scalar(opcode, compare, (False, False, second), turn)


def products() -> Iterator[Case]:
    negations = (("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-"))
    for turn, ((kind, first, other), sat, scale) in enumerate(
        itertools.product(_TYPES, ("", ".sat"), ("", ".shr7", ".shr15"))
    ):
        if kind != first and kind != other:
            continue  # the type of the result changes nothing
        for po in (False, True):
            opcode = f"vmad.{kind}.{first}.{other}{'.po' * po}{sat}{scale}"
            minus = ("", "", "") if po else negations[turn % 4]
            a, b = (_PARTS[turn % 7], _PARTS[turn * 3 % 7]) if "-" not in minus else ("", "")
            words = [f"{minus[n]}{_written(part, f'a{n}')}" for n, part in enumerate((a, b, ""))]

            def model(x: int, y: int, c: int, f=first, o=other, s=sat, k=scale, p=po, m=minus, a=a, b=b) -> int:  # type: ignore[no-untyped-def]
                opposite = m[0] != m[1]
                is_signed = "s32" in (f, o) or opposite or bool(m[2])
                product = _part(x, a, f) * _part(y, b, o)
                addend = signed(32, c) if is_signed else c
                total = (-product if opposite else product) + (-addend if m[2] else addend) + p
                total >>= {"": 0, ".shr7": 7, ".shr15": 15}[k]
                return (_clamp(total, is_signed, 32) if s else total) & _WORD

            yield Case(opcode, "b32", "b32 b32 b32", model, f"{opcode} {{d0}}, {', '.join(words)};")


def _lanes(x: int, y: int, count: int, selector: str, default: int, type: str) -> list[int]:
    width = 32 // count
    both = x | y << 32
    numbers = [int(digit) for digit in reversed(selector[1:])] or [default * count + n for n in range(count)]
    parts = [both >> width * number & (1 << width) - 1 for number in numbers]
    return [signed(width, part) if type == "s32" else part for part in parts]


def simd() -> Iterator[Case]:
    source = random.Random("video")
    forms = [
        (name, count, types, ending)
        for name in (*_TWO, *_TESTS)
        for count in (2, 4)
        for types in _TYPES
        for ending in ("", "sat", "add")
    ]
    for turn, (name, count, (kind, first, other), ending) in enumerate(forms):
        is_test = name in _TESTS
        if is_test and (ending == "sat" or kind == "s32"):
            continue
        if not is_test and turn % 3 == 1 and kind == first:
            continue
        opcode = f"vset{count}.{first}.{other}.{name}" if is_test else f"v{name}{count}.{kind}.{first}.{other}"
        opcode += f".{ending}" if ending else ""
        letter, digits = ("h", "0123") if count == 2 else ("b", "01234567")
        selectors = ["" if turn % 5 == n else letter + "".join(source.choices(digits, k=count)) for n in range(2)]
        mask = list(range(count))
        if turn % 2:
            mask = sorted(source.sample(mask, source.randrange(1, count + 1)))
        written = letter + "".join(str(n) for n in reversed(mask)) if turn % 2 else ""
        words = [_written(written, "d0"), _written(selectors[0], "a0"), _written(selectors[1], "a1"), "{a2}"]

        def model(x: int, y: int, c: int, t=(name, count, kind, first, other, ending, selectors, mask)) -> int:  # type: ignore[no-untyped-def]
            name, count, kind, first, other, ending, selectors, mask = t
            width = 32 // count
            left = _lanes(x, y, count, selectors[0], 0, first)
            right = _lanes(x, y, count, selectors[1], 1, other)
            operation = _TESTS.get(name) or _TWO[name]
            found = [int(operation(a, b)) for a, b in zip(left, right, strict=True)]
            if ending == "sat":
                found = [_clamp(value, kind == "s32", width) for value in found]
            if ending == "add":
                return c + sum(found[n] for n in mask) & _WORD
            for n in mask:
                bits = (1 << width) - 1
                c = c & ~(bits << width * n) | (found[n] & bits) << width * n
            return c & _WORD

        yield Case(opcode, "b32", "b32 b32 b32", model, f"{opcode} {', '.join(words)};")


def every() -> Iterator[Case]:
    """All of them; a long test."""
    yield from scalars()
    yield from products()
    yield from simd()


UNLIKE = frozenset(
    """vsub.u32.u32.u32.sat vsub.u32.u32.s32.min vsub.u32.s32.u32 vsub.u32.s32.u32.max vabsdiff.u32.s32.u32
    vmin.u32.u32.s32.max vmin.u32.s32.u32 vshl.u32.u32.u32.wrap.min vshl.u32.u32.u32.sat.clamp
    vshl.u32.u32.u32.sat.clamp.add vshl.u32.u32.u32.sat.wrap vshl.u32.u32.u32.sat.wrap.max vshl.u32.s32.u32.clamp
    vshr.u32.u32.u32.sat.clamp vset.u32.u32.eq vset.u32.u32.gt vmad.u32.u32.u32.shr7 vmad.u32.u32.u32.po.shr7
    vmad.u32.u32.u32.shr15 vmad.u32.u32.u32.po.shr15 vmad.u32.u32.u32.sat vmad.u32.u32.u32.po.sat
    vmad.u32.u32.u32.po.sat.shr7 vmad.u32.u32.u32.po.sat.shr15""".split()
)
"""Of ``cases``, those where code for an H200 departs from the ISA's pseudo-code for some operands: it writes the upper
half of the result into ``.h1``, takes results of mixed signs for unsigned, and scales ``vmad`` in 32 bits. Of GPUs only
the Kepler generation had these instructions; the assembler writes others for them."""


def cases() -> Iterator[Case]:
    """As many as it takes for each choice of each modifier of each instruction."""
    seen: set[tuple[str, int, str]] = set()
    for case in every():
        name, *tokens = case.opcode.split(".")
        chosen = {(name, position, token) for position, token in enumerate(tokens)}
        if chosen - seen:
            seen |= chosen
            yield replace(case, unlike=case.opcode in UNLIKE)
