"""Pointer provenance: the allocation that each pointer is derived from, and its known alignment.

An access through a pointer that is provably derived from one parameter field or one variable is checked against that
allocation: a subtraction and a compare. This also catches accesses that stray into another live allocation. All other
pointers are checked against the shadow memory.

The analysis is flow-insensitive: a register has one class, the join over all its definitions. A compiler may add the
difference of two pointers to one of them to reach the other, so a value computed from two pointers belongs to neither
(``MIXED``).

The second result is a lower bound on the trailing zero bits of each integer (for pointers: of the offset from the
root). Where it proves alignment, only the root's own alignment remains to be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any

from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.operands import definitions
from cudalab.sim.compiler.ptx.nodes import Address, Immediate, Instruction, Register, Symbol, Variable, Vector


@dataclass(frozen=True)
class Root:
    """``kind``: ``param`` (key: byte offset), or the space of a variable (key: its name). ``generic``: a shared or
    local address with its window added. ``weak``: a parameter not yet known to be a pointer."""

    kind: str
    key: Any
    generic: bool = False
    weak: bool = False


NUMBER = "number"  # not a pointer
LOADED = "loaded"  # loaded from memory or returned by a call: may be a pointer
MIXED = "mixed"
_ZEROS = 64

Class = Root | str


@dataclass
class Roots:
    """``of`` gives the class of a register (absent: unknown); ``zeros`` its known trailing zero bits."""

    of: dict[Register, Class]
    zeros: dict[Register, int]

    def root(self, register: Register) -> Root | None:
        """The root of a pointer, or None."""
        found = self.of.get(register)
        return found if isinstance(found, Root) else None


def trailing_zeros(value: int) -> int:
    """Trailing zero bits of ``value``; many for 0."""
    return (value & -value).bit_length() - 1 if value else _ZEROS


def find_roots(blocks: list[Block], variables: Callable[[str], Variable | None], parameters: Set[str]) -> Roots:
    """Analyse a function.

    Args:
        blocks: the function.
        variables: looks up a variable by name; None for labels and functions.
        parameters: names of the launch's parameters (none outside kernels); ``ld.param`` of a 64-bit field of one
            defines a root, that of a call's result does not.
    """
    classes: dict[Register, Class] = {}
    zeros: dict[Register, int] = {}
    instructions = [instruction for block in blocks for instruction in block.instructions]
    for block in blocks:
        if block.ending is not None:
            for register in definitions(block.ending):
                classes[register] = NUMBER if register.bits < 64 else LOADED
                zeros[register] = 0
    transfer = _Transfer(classes, zeros, variables, parameters)
    changed = True
    while changed:
        changed = False
        for instruction in instructions:
            destination = instruction.operands[0] if instruction.operands else None
            if type(destination) is not Register:
                for register in definitions(instruction):
                    if register not in classes:
                        classes[register] = LOADED if register.bits == 64 and _loads(instruction) else NUMBER
                        zeros[register] = 0
                        changed = True
                continue
            if destination.is_float or destination.bits < 32 or not definitions(instruction):
                continue
            found = transfer.of(instruction)
            if found is None:
                continue
            kind, count = found
            old = classes.get(destination)
            if old is not None:
                kind = join(old, kind)
                count = min(count, zeros[destination])
            if kind != old or count != zeros[destination]:
                classes[destination] = kind
                zeros[destination] = count
                changed = True
    return Roots(classes, zeros)


def _loads(instruction: Instruction) -> bool:
    return instruction.opcode.startswith(("ld", "mov", "atom"))


def join(a: Class, b: Class) -> Class:
    """The class of a register with definitions of classes ``a`` and ``b``."""
    if a == b:
        return a
    if isinstance(a, Root) and isinstance(b, Root) and (a.kind, a.key, a.generic) == (b.kind, b.key, b.generic):
        return Root(a.kind, a.key, a.generic)
    if {a, b} == {NUMBER, LOADED}:
        return LOADED
    return MIXED


def _sum(a: Class, b: Class) -> Class:
    if isinstance(b, Root) and not (isinstance(a, Root) and not a.weak):
        a, b = b, a
    if isinstance(a, Root):
        if b == NUMBER or b == LOADED:
            return MIXED if a.weak and b == LOADED else a
        if isinstance(b, Root) and b.weak and not a.weak:
            return a  # a 64-bit parameter used as an index
        return MIXED
    return a if a == b else (LOADED if {a, b} == {NUMBER, LOADED} else MIXED)


def _difference(a: Class, b: Class) -> Class:
    if isinstance(b, Root):
        if isinstance(a, Root) and (a.kind, a.key) == (b.kind, b.key):
            return NUMBER
        return _sum(a, b) if b.weak and isinstance(a, Root) and not a.weak else MIXED
    return _sum(a, b)


class _Transfer:
    """The class and trailing zeros of an instruction's result; None while an operand is not known yet."""

    def __init__(
        self,
        classes: dict[Register, Class],
        zeros: dict[Register, int],
        variables: Callable[[str], Variable | None],
        parameters: Set[str],
    ) -> None:
        self.classes = classes
        self.zeros = zeros
        self.variables = variables
        self.parameters = parameters

    def operand(self, operand: Any) -> tuple[Class, int] | None:
        kind = type(operand)
        if kind is Register:
            if operand.is_float or operand.bits < 32:
                return NUMBER, 0
            found = self.classes.get(operand)
            return None if found is None else (found, self.zeros[operand])
        if kind is Immediate:
            return NUMBER, trailing_zeros(operand.value)
        if kind is Symbol:
            return self.symbol(operand.name), _ZEROS
        if kind is Address and type(operand.base) is Symbol:
            return self.symbol(operand.base.name), trailing_zeros(operand.offset)
        if kind is Vector:
            return LOADED, 0
        return NUMBER, 0

    def symbol(self, name: str) -> Class:
        variable = self.variables(name)
        if variable is None or variable.space == "param":
            return MIXED
        return Root(variable.space, name)

    def of(self, instruction: Instruction) -> tuple[Class, int] | None:
        opcode = instruction.opcode
        parts = opcode.split(".")
        name = parts[0]
        if name == "ld" or name == "ldu":
            return self.load(instruction, parts)
        if name in ("atom", "call", "shfl"):
            return (LOADED if instruction.operands[0].bits == 64 else NUMBER), 0
        values = []
        for operand in instruction.operands[1:]:
            value = self.operand(operand)
            if value is None:
                return None
            values.append(value)
        rule = getattr(self, f"rule_{name}", None)
        if rule is not None:
            found: tuple[Class, int] = rule(parts, values, instruction)
            return found
        if all(kind == NUMBER for kind, _ in values) or name in ("setp", "popc", "clz", "bfind", "isspacep"):
            return NUMBER, 0
        return MIXED, 0

    def load(self, instruction: Instruction, parts: list[str]) -> tuple[Class, int]:
        address = instruction.operands[1]
        if "64" not in parts[-1]:
            return NUMBER, 0
        if "param" in parts and isinstance(address.base, Symbol) and address.base.name in self.parameters:
            return Root("param", (address.base.name, address.offset), weak=True), _ZEROS
        return LOADED, 0

    def rule_mov(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        return values[0]

    def rule_cvta(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        kind, zeros = values[0]
        if not isinstance(kind, Root):
            return kind, zeros
        to = parts[1] == "to"
        space = parts[2] if to else parts[1]
        if kind.kind in ("shared", "local"):
            return Root(kind.kind, kind.key, generic=not to), zeros
        if kind.weak and space not in ("global", "const"):
            return MIXED, zeros
        return Root(kind.kind, kind.key), zeros

    def rule_cvt(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        kind, zeros = values[0]
        if parts[-1].startswith("f") or "sat" in parts:
            return NUMBER, 0
        if isinstance(kind, Root) and "32" in parts[-2] + parts[-1]:  # a shared address fits into 32 bits
            return (kind, zeros) if kind.kind == "shared" else (NUMBER if kind.weak else MIXED, zeros)
        return kind, zeros

    def rule_add(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        return _sum(values[0][0], values[1][0]), min(values[0][1], values[1][1])

    def rule_sub(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        kind = _difference(values[0][0], values[1][0])
        return kind, 0 if isinstance(values[1][0], Root) else min(values[0][1], values[1][1])

    def rule_mul(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        kind = NUMBER if all(_number(value[0]) for value in values) else MIXED
        return kind, 0 if "hi" in parts else self.product(values)

    def rule_mad(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        if not all(_number(value[0]) for value in values[:2]):
            return MIXED, 0
        zeros = 0 if "hi" in parts else min(self.product(values[:2]), values[2][1])
        return _sum(values[2][0], NUMBER), zeros

    @staticmethod
    def product(values: list[Any]) -> int:
        zeros = 0
        for kind, count in values:
            zeros += 0 if isinstance(kind, Root) else count
        return min(zeros, _ZEROS)

    def rule_shl(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        amount = instruction.operands[2]
        kind = NUMBER if _number(values[0][0]) else MIXED
        if isinstance(values[0][0], Root):
            return kind, max(0, amount.value) if isinstance(amount, Immediate) else 0
        extra = max(0, amount.value) if isinstance(amount, Immediate) else 0
        return kind, min(values[0][1] + extra, _ZEROS)

    def rule_and(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        if all(_number(value[0]) for value in values):
            return NUMBER, max(0 if isinstance(kind, Root) else zeros for kind, zeros in values)
        return MIXED, 0

    def rule_or(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        if all(kind == NUMBER for kind, _ in values):
            return NUMBER, min(zeros for _, zeros in values)
        if any(isinstance(kind, Root) and kind.kind == "local" for kind, _ in values):
            return self.rule_add(parts, values, instruction)  # an offset below the variable's alignment
        return MIXED, 0

    def rule_selp(self, parts: list[str], values: list[Any], instruction: Instruction) -> Any:
        return join(values[0][0], values[1][0]), min(values[0][1], values[1][1])


def _number(kind: Class) -> bool:
    """Whether a scaled value of this class is an index rather than a pointer."""
    return kind in (NUMBER, LOADED) or (isinstance(kind, Root) and kind.weak)
