"""Contraction of products and sums into fused multiply-add, as ptxas does it.

NVVM contracts most products with the sum that uses them, but not with a difference: ``a - b * c`` is ``mul.f32`` and
``sub.f32`` in the PTX. PTX operations without a rounding modifier leave the rest to the assembler, which may contract
them (PTX ISA, floating point instructions, ``mul``). This pass reproduces what ptxas 13.0 does for an H200 (every case
below was measured there), because contraction decides the last bit:

- ``mul`` and ``add`` or ``sub`` of the same type become ``fma.rn``, if neither names a rounding or saturates, and both
  are in one basic block of the PTX;
- only if *all* uses of the product can be contracted; then each is, and the product is computed several times;
- through ``mov`` and ``neg``, not through ``abs``; also where a predicate guards the sum;
- of two products, the first operand is the fused one, the second is rounded first;
- ``m - m`` stays.

ptxas also contracts products in registers that are written more than once; this pass does not, and NVRTC emits none.

With ``-fmad=false`` NVVM emits ``mul.rn`` and there is nothing to contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cudalab.sim.compiler.passes.operands import definitions, uses
from cudalab.sim.compiler.ptx.nodes import Function, Immediate, Instruction, Label, Register

_FORMS = frozenset(
    ["f32", "ftz.f32", "f64", "f16", "ftz.f16", "f16x2", "ftz.f16x2", "bf16", "bf16x2"],
)
_SIGN = {"f32": 1 << 31, "f64": 1 << 63}
_ENDS = frozenset(["bra", "brx", "ret", "exit", "trap", "call"])


class _Product(Struct, frozen=True):
    """A register that holds a product or its negative."""

    multiplication: Instruction
    form: str
    negative: bool


def contract(function: Function) -> Function:
    """`function` with its contractable products fused into their sums; itself if there are none."""
    if function.body is None or not any(type(item) is Instruction and _form(item, "mul") for item in function.body):
        return function
    written: dict[Register, int] = {}
    readers: dict[Register, list[Instruction]] = {}
    place: dict[int, int] = {}
    for number, block in enumerate(_blocks(function.body)):
        for instruction in block:
            place[id(instruction)] = number
            for register in definitions(instruction):
                written[register] = written.get(register, 0) + 1
            for register in [*uses(instruction), *([instruction.guard] if instruction.guard else [])]:
                readers.setdefault(register, []).append(instruction)
    pass_ = _Contraction(function, written, readers, place)
    body = [new for item in function.body for new in pass_.rewrite(item)]
    if not pass_.fused:
        return function
    return replace(function, body=_without_dead(body, pass_.fused))


def _blocks(body: list[Any]) -> Iterator[list[Instruction]]:
    block: list[Instruction] = []
    for item in body:
        if type(item) is Label:
            yield block
            block = []
            continue
        block.append(item)
        if item.opcode.split(".", 1)[0] in _ENDS:
            yield block
            block = []
    yield block


def _form(instruction: Instruction, *names: str) -> str:
    """The modifiers of an opcode that has neither a rounding modifier nor saturation; "" for all others."""
    name, _, form = instruction.opcode.partition(".")
    return form if name in names and form in _FORMS else ""


class _Contraction:
    """Contraction over one function."""

    def __init__(
        self,
        function: Function,
        written: dict[Register, int],
        readers: dict[Register, list[Instruction]],
        place: dict[int, int],
    ) -> None:
        self.function = function
        self.fused: set[Register] = set()  # products, and copies of them, that sums no longer read
        self._written, self._readers, self._place = written, readers, place
        self._known: dict[Register, _Product] = {}

    def rewrite(self, item: Any) -> list[Any]:
        if type(item) is not Instruction:
            self._known.clear()
            return [item]
        form = _form(item, "add", "sub")
        made = self._sum(item, form) if form else None
        self._forget(item)
        self._remember(item)
        if item.opcode.split(".", 1)[0] in _ENDS:
            self._known.clear()
        return made or [item]

    def _sum(self, item: Instruction, form: str) -> list[Instruction] | None:
        _, first, second = item.operands
        if first is second:
            return None
        for position, operand in enumerate((first, second)):
            product = self._known.get(operand) if type(operand) is Register else None
            if product is not None and product.form == form:
                return self._fuse(item, form, product, position)
        return None

    def _fuse(self, item: Instruction, form: str, product: _Product, position: int) -> list[Instruction] | None:
        """``fma``, with a ``neg`` before it for each sign that has to change."""
        _, a, b = product.multiplication.operands
        other = item.operands[2 - position]
        difference = item.opcode.startswith("sub")
        before: list[Instruction] = []
        if product.negative != (difference and position == 1):
            a, b = (b, a) if type(a) is Immediate else (a, b)
            a = self._negated(a, form, item, before)
        if difference and position == 0:
            other = self._negated(other, form, item, before)
        if a is None or other is None:
            return None
        self.fused.add(item.operands[1 + position])
        fused = _instead(item, f"fma.rn.{form}", (item.operands[0], a, b, other))
        return [*before, fused]

    def _negated(self, operand: Any, form: str, item: Instruction, before: list[Instruction]) -> Any:
        kind = form.rpartition(".")[2]
        if type(operand) is Immediate:
            return Immediate(operand.value ^ _SIGN[kind], operand.kind) if operand.kind == kind in _SIGN else None
        if type(operand) is not Register:
            return None
        register = self.function.new_register(operand.type)
        before.append(Instruction(f"neg.{kind}", (register, operand), item.line, item.location))
        return register

    def _forget(self, item: Instruction) -> None:
        """Drop the products whose factors ``item`` overwrites."""
        changed = definitions(item)
        if changed and self._known:
            stale = [
                register
                for register, product in self._known.items()
                if any(factor in changed for factor in uses(product.multiplication))
            ]
            for register in stale:
                del self._known[register]

    def _remember(self, item: Instruction) -> None:
        if item.guard is not None or not item.operands or type(item.operands[0]) is not Register:
            return
        register = item.operands[0]
        form = _form(item, "mul")
        if form:
            product = _Product(item, form, negative=False)
        else:
            source = self._known.get(item.operands[1]) if len(item.operands) == 2 else None
            if source is None or not _copies(item, source.form):
                return
            product = replace(source, negative=source.negative != item.opcode.startswith("neg"))
        if all(factor is not register for factor in uses(item)) and self._only_summed(
            register, product.form, self._place[id(item)]
        ):
            self._known[register] = product

    def _only_summed(self, register: Register, form: str, block: int) -> bool:
        """Whether the register is written once and read only by contractable sums of that block."""
        readers = self._readers.get(register, [])
        if self._written[register] != 1 or not readers:
            return False
        for reader in readers:
            if self._place[id(reader)] != block:
                return False
            if _form(reader, "add", "sub") == form:
                if reader.operands[1] is reader.operands[2]:
                    return False
            elif reader.guard is not None or not _copies(reader, form):
                return False
            elif not self._only_summed(reader.operands[0], form, block):
                return False
        return True


def _copies(item: Instruction, form: str) -> bool:
    """``mov``, or ``neg`` of the form's type."""
    name, _, rest = item.opcode.partition(".")
    kind = form.rpartition(".")[2]
    if type(item.operands[0]) is not Register or type(item.operands[1]) is not Register:
        return False
    return name == "mov" or (name == "neg" and rest.rpartition(".")[2] == kind)


def _instead(item: Instruction, opcode: str, operands: tuple[Any, ...]) -> Instruction:
    """A replacement for `item` under the same guard."""
    return Instruction(opcode, operands, item.line, item.location, item.guard, item.negated)


def _without_dead(body: list[Any], fused: set[Register]) -> list[Any]:
    """`body` without products, and copies of them, that have become dead."""
    while True:
        read = {register for item in body if type(item) is Instruction for register in uses(item)}
        dead = [
            item
            for item in body
            if type(item) is Instruction
            and item.operands
            and item.operands[0] in fused
            and item.operands[0] not in read
        ]
        if not dead:
            return body
        for item in dead:  # a copy's source may now be unread as well
            if _form(item, "mul") == "":
                fused.update(uses(item))
        gone = {id(item) for item in dead}
        body = [item for item in body if id(item) not in gone]
