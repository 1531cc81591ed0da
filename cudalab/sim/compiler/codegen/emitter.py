"""Emission of the LLVM IR of one function, instruction by instruction.

The emitter appends lines of text, which is several times faster than building objects; learners wait for compile time.
PTX registers live in ``alloca``s, which LLVM promotes to SSA values; within a basic block the last value is forwarded,
so most registers never touch their ``alloca``.

Beside the body there is a *prologue* for each :class:`Level`: values that are invariant for the launch, the block, a
row of threads or a thread are computed there, once, on first use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cudalab.sim import abi
from cudalab.sim.compiler.passes.not_a_number import DEVICE_NAN, makes_nan
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.ptx.errors import PtxError, UnsupportedInstruction
from cudalab.sim.compiler.ptx.nodes import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Register,
    Special,
    Symbol,
)

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.plan import Plan
    from cudalab.sim.compiler.codegen.unit import Unit

REAL = {32: "float", 64: "double"}
_INTEGER_LIMIT = {bits: 1 << bits for bits in (8, 16, 32, 64, 128)}


def register_type(register: Register) -> str:
    """The LLVM type of a register."""
    if register.is_float:
        return REAL[register.bits]
    return f"i{register.bits}"


def real_literal(value: int, bits: int) -> str:
    """A float or double constant from its bit pattern, as LLVM writes it."""
    if bits == 64:
        return f"0x{value:016X}"
    if value & 0x7F800000 == 0x7F800000 and value & 0x7FFFFF:
        return f"bitcast (i32 {value} to float)"
    (number,) = struct.unpack("<f", value.to_bytes(4, "little"))
    return f"0x{int.from_bytes(struct.pack('<d', number), 'little'):016X}"


class Emitter:
    """Emitter of one LLVM function. Subclasses supply the skeleton and the special registers."""

    #: Names of the LLVM values that every skeleton provides.
    context = "%ctx"
    block = "%blk"
    #: Prefix of the names of values and labels, so that two emitters can write into one function.
    prefix = ""
    #: Whether this is code for several threads at once (``lanes``).
    wide = False

    def __init__(self, unit: Unit, plan: Plan) -> None:
        self.unit = unit
        self.plan = plan
        self.allocas: list[str] = []
        self.prologues: dict[Level, list[str]] = {level: [] for level in Level}
        self.body: list[str] = []
        self.lines = self.body
        self.level: Level | None = None  # the prologue being written, None in the body
        self.values: dict[Register, str] = {}
        self.dirty: dict[Register, str] = {}
        self.fixed: dict[Register, str] = {}
        self.slots: dict[Register, str] = {}
        self.cache: dict[Any, str] = {}
        self.count = 0
        self.label_now = ""
        self.instruction: Instruction | None = None

    # -- text

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def new(self, text: str) -> str:
        """Append ``%n = text`` and return ``%n``."""
        self.count += 1
        name = f"%{self.prefix}v{self.count}"
        self.lines.append(f"{name} = {text}")
        return name

    def fresh_label(self, stem: str) -> str:
        self.count += 1
        return f"{self.prefix}{stem}.{self.count}"

    def label(self, name: str) -> None:
        self.label_now = name
        self.lines.append(f"{name}:")

    @contextmanager
    def at(self, level: Level) -> Iterator[None]:
        """Write into the prologue of ``level``."""
        saved = self.lines, self.level
        self.lines, self.level = self.prologues[level], level
        try:
            yield
        finally:
            self.lines, self.level = saved

    def cached(self, key: Any, level: Level, make: Callable[[], str]) -> str:
        """A value that is invariant for ``level``, computed by ``make`` in its prologue on first use."""
        found = self.cache.get(key)
        if found is None:
            with self.at(level):
                found = make()
            self.cache[key] = found
        return found

    def alloca(self, type: str, alignment: int = 0) -> str:
        self.count += 1
        name = f"%{self.prefix}a{self.count}"
        self.allocas.append(f"{name} = alloca {type}" + (f", align {alignment}" if alignment else ""))
        return name

    def intrinsic(self, name: str, result: str, *arguments: str) -> str:
        """Call an LLVM intrinsic or library function; arguments are written with their types."""
        types = ", ".join(argument.split(" ", 1)[0] for argument in arguments)
        self.unit.declare(name, f"declare {result} @{name}({types})")
        return self.new(f"call {result} @{name}({', '.join(arguments)})")

    def intrinsic_pair(self, name: str, kind: str, a: str, b: str) -> str:
        """Call one of the ``with.overflow`` intrinsics."""
        self.unit.declare(name, f"declare {{{kind}, i1}} @{name}({kind}, {kind})")
        return self.new(f"call {{{kind}, i1}} @{name}({kind} {a}, {kind} {b})")

    def runtime(self, name: str, result: str, *arguments: str) -> str:
        """Call a function of the runtime object (``compiler.runtime``)."""
        types = ", ".join(argument.split(" ", 1)[0] for argument in arguments)
        self.unit.declare(name, f"declare {result} @{name}({types}) nounwind")
        call = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.emit(call)
            return ""
        return self.new(call)

    # -- errors

    def unsupported(self, advice: str, opcode: str = "") -> UnsupportedInstruction:
        assert self.instruction is not None
        return UnsupportedInstruction(opcode or self.instruction.opcode, advice, self.instruction.location)

    def error(self, message: str) -> PtxError:
        return PtxError(message, self.instruction.location if self.instruction else None)

    # -- registers

    def value(self, register: Register) -> str:
        """The register's value in its own LLVM type."""
        found = self.values.get(register)
        if found is not None:
            return found
        found = self.fixed.get(register)
        if found is not None:
            return found
        recomputed = self.plan.recomputed
        constant = recomputed.constants.get(register)
        if constant is not None:
            return self.constant(constant, register)
        pending = recomputed.values.get(register)
        if pending is not None:
            self.recompute(*pending)
            return self.fixed[register]
        found = self.new(f"load {register_type(register)}, ptr {self.slot(register)}")
        self.values[register] = found
        return found

    def constant(self, literal: Immediate, register: Register) -> str:
        if register.is_float:
            return self.real(literal, register.bits)
        if register.type == "pred":
            return "true" if literal.value else "false"
        return self.integer(literal, register.bits)

    def recompute(self, instruction: Instruction, level: Level) -> None:
        """Write a rematerialised value, preceded by its operands, into the prologue of its level."""
        from cudalab.sim.compiler.passes.operands import uses

        for register in uses(instruction):
            self.value(register)
        saved = self.instruction, self.values
        self.values = {}
        with self.at(self.level_here(level)):
            self.lower(instruction)
        self.instruction, self.values = saved

    def level_here(self, level: Level) -> Level:
        """The prologue that serves ``level`` in this function's skeleton."""
        return level

    def slot(self, register: Register) -> str:
        found = self.slots.get(register)
        if found is None:
            found = f"%r{register.index}"
            self.slots[register] = found
            self.allocas.append(f"{found} = alloca {register_type(register)}")
        return found

    def assign(self, register: Register, value: str) -> None:
        """Give ``register`` a new value of its own LLVM type."""
        if self.level is not None:
            self.fixed[register] = value
        else:
            self.values[register] = value
            self.dirty[register] = value

    def flush(self, live: int) -> None:
        """Store the registers of the bit set ``live`` that this block has written."""
        for register, value in self.dirty.items():
            if live >> register.index & 1:
                self.emit(f"store {register_type(register)} {value}, ptr {self.slot(register)}")
        self.dirty = {}

    # -- operands

    def literal_of(self, operand: Any) -> int | None:
        """The value of an integer operand if it is a compile-time constant."""
        if type(operand) is Register:
            operand = self.plan.recomputed.constants.get(operand)
        if type(operand) is Immediate:
            return int(operand.value)
        if type(operand) is Special and operand.name == "WARP_SZ":
            return abi.WARP
        return None

    def integer(self, operand: Any, bits: int) -> str:
        """An operand as an integer of ``bits`` bits."""
        kind = type(operand)
        if kind is Register:
            value = self.value(operand)
            if operand.is_float:
                literal = self.plan.recomputed.constants.get(operand)
                if literal is not None and value[0] != "%":
                    value = str(literal.value & (_INTEGER_LIMIT[operand.bits] - 1))
                else:
                    if value[0] == "%":  # otherwise a literal moved into a register that has other definitions too
                        value = self.observed(operand, value)
                    value = self.new(f"bitcast {register_type(operand)} {value} to i{operand.bits}")
            if operand.bits == bits:
                return value
            if operand.bits > bits:
                return self.new(f"trunc i{operand.bits} {value} to i{bits}")
            return self.new(f"zext i{operand.bits} {value} to i{bits}")
        if kind is Immediate:
            return str(operand.value & ((1 << bits) - 1))
        if kind is Special:
            value, have = self.special(operand.name)
            if have == bits:
                return value
            return self.new(f"{'trunc' if have > bits else 'zext'} i{have} {value} to i{bits}")
        if kind is Symbol or kind is Address:
            value = self.symbol_address(operand)
            return value if bits == 64 else self.new(f"trunc i64 {value} to i{bits}")
        raise self.error(f"{operand} is not an integer operand of {self._opcode()}")

    def real(self, operand: Any, bits: int) -> str:
        """An operand as ``float`` (32) or ``double`` (64)."""
        if type(operand) is Register:
            value = self.value(operand)
            if operand.is_float and operand.bits == bits:
                return value
            if operand.bits == bits:
                if value[0] != "%":
                    return real_literal(int(value) & (_INTEGER_LIMIT[bits] - 1), bits)
                return self.new(f"bitcast i{bits} {value} to {REAL[bits]}")
        elif type(operand) is Immediate:
            value_bits = operand.value
            if operand.kind == "int":
                value_bits &= _INTEGER_LIMIT[bits] - 1
            elif operand.kind == "f64" and bits == 32:
                (number,) = struct.unpack("<d", value_bits.to_bytes(8, "little"))
                value_bits = int.from_bytes(struct.pack("<f", number), "little")
            elif operand.kind == "f32" and bits == 64:
                (number,) = struct.unpack("<f", value_bits.to_bytes(4, "little"))
                value_bits = int.from_bytes(struct.pack("<d", number), "little")
            return real_literal(value_bits, bits)
        raise self.error(f"{operand} is not a .f{bits} operand of {self._opcode()}")

    def boolean(self, operand: Any) -> str:
        """A predicate operand."""
        if type(operand) is Register and operand.type == "pred":
            return self.value(operand)
        if type(operand) is Negated:
            return self.new(f"xor i1 {self.value(operand.register)}, true")
        if type(operand) is Special:
            value, bits = self.special(operand.name)
            return self.new(f"icmp ne i{bits} {value}, 0")
        if type(operand) is Immediate:
            return "true" if operand.value else "false"
        raise self.error(f"{operand} is not a predicate operand of {self._opcode()}")

    def _opcode(self) -> str:
        return self.instruction.opcode if self.instruction else "?"

    # -- results

    def set_integer(self, target: Any, value: str, bits: int, signed: bool = False) -> None:
        """Write an integer result; a wider register is filled by sign or zero extension."""
        if type(target) is not Register:
            return  # the destination `_`
        if target.is_float:
            if target.bits != bits:
                raise self.error(f"{target} does not hold the {bits}-bit result of {self._opcode()}")
            value = self.new(f"bitcast i{bits} {value} to {register_type(target)}")
        elif target.bits > bits:
            value = self.new(f"{'sext' if signed else 'zext'} i{bits} {value} to i{target.bits}")
        elif target.bits < bits:
            value = self.new(f"trunc i{bits} {value} to i{target.bits}")
        self.assign(target, value)

    def set_real(self, target: Any, value: str, bits: int) -> None:
        """Write a ``float`` or ``double`` result."""
        if type(target) is not Register:
            return
        if target.bits != bits:
            raise self.error(f"{target} does not hold the .f{bits} result of {self._opcode()}")
        if not target.is_float:
            word = self.new(f"bitcast {REAL[bits]} {value} to i{bits}")
            if bits == 32 and self.instruction is not None and makes_nan(self.instruction.opcode):
                # compilers for later architectures keep floats in integer registers, where their bits are observable
                missing = self.new(f"fcmp uno float {value}, {value}")
                word = self.new(f"select i1 {missing}, i32 {DEVICE_NAN}, i32 {word}")
            value = word
        self.assign(target, value)

    def set_boolean(self, target: Any, value: str) -> None:
        """Write a predicate result."""
        if type(target) is Register:
            if target.type != "pred":
                raise self.error(
                    f"{target} is no predicate register, and the result of {self._opcode()} is a predicate"
                )
            self.assign(target, value)

    # -- instructions

    def lower(self, instruction: Instruction) -> None:
        """Write the code of one instruction."""
        self.instruction = instruction
        form = self.unit.table.find(instruction.opcode)
        if form is None:
            raise UnsupportedInstruction(instruction.opcode, self.unit.advice(instruction.opcode), instruction.location)
        try:
            form.row.lower(self, instruction, form)
        except (IndexError, AttributeError, TypeError, ValueError, KeyError) as error:  # operands of another shape
            raise self.error(f"{instruction.opcode} does not take the operands {instruction.operands}") from error

    # -- what a skeleton supplies

    def observed(self, register: Register, value: str) -> str:
        """A float register's value as seen by memory and integer instructions."""
        raise NotImplementedError

    def special(self, name: str) -> tuple[str, int]:
        """A special register: its value and how many bits it has."""
        raise NotImplementedError

    def symbol_address(self, operand: Symbol | Address) -> str:
        """The address of a variable (plus an offset) in its own space, as i64."""
        raise NotImplementedError
