"""Following undefined values in sanitized code (``passes.undefined_values`` says what for, and where they can be).

Code of the variant ``sanitize_trace`` has, for each register that may be undefined, a word of memory: the origin of its
value, 0 while it is defined. Before an instruction the words of its results are computed from those of its operands:

- most results are undefined if an operand is; ``selp`` passes the operand that it chooses, ``and`` and ``or`` are
  defined where one operand decides alone
- loads and stores of shared and local memory go through words for each byte (``runtime/undefined_values.py``)
- a shuffle or vote hands words over to the other lanes, and the runtime object adds the lanes read in vain
- a branch on an undefined predicate keeps its origin; where its ways meet, what they have set takes it

The other sanitized variants only look for a load from local memory to which nothing was stored, as the runtime object
does for absent lanes; then the launch runs again. In device functions, which are not inlined, stores count as defined
and nothing else is followed; their arguments and results are.
"""

from __future__ import annotations

from typing import Any

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.codegen import addresses
from cudalab.sim.compiler.codegen.environment import ThreadEnvironment
from cudalab.sim.compiler.passes.accesses import Access
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.operands import definitions, registers_in, uses
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.passes.undefined_values import UndefinedValues, combines_lanes, may_be_local, may_be_shared
from cudalab.sim.compiler.ptx.nodes import Address, Instruction, Register, Symbol, Vector

_DEFINED = "0"
_USES = ("sust", "sured", "st.async", "red.async")
"""Instructions without an ``Access`` that make a value visible to others."""


class ValueFollower:
    """Writes the code that follows undefined values beside the code of one thread."""

    def __init__(self, e: ThreadEnvironment, values: UndefinedValues) -> None:
        self._e, self._values = e, values
        self._follows = e.unit.follows and e.plan.function.is_kernel
        self._block: Block | None = None
        registers = len(e.plan.function.registers)
        self._first_block = registers
        self._arguments = registers + len(e.plan.blocks)

    # -- blocks and instructions

    def enter(self, block: Block) -> None:
        """A basic block begins: what decisions that end here have decided takes their origin."""
        self._block = block
        self._begin()
        if not self._follows:
            return
        for decision in self._values.decisions.values():
            if decision.join == block.index:
                origin = self._word(self._first_block + decision.block)
                for register in decision.decided:
                    self._set(register, self._most(self._origin(register), origin))
                self._set_word(self._first_block + decision.block, _DEFINED)

    def before(self, instruction: Instruction) -> None:
        """An instruction that is about to be written."""
        if self._block is None or instruction is self._block.ending:
            return
        access = self._e.plan.accesses.get(instruction)
        if access is not None:
            if access.kind is SiteKind.LOAD:
                self._load(instruction, access)
            elif access.kind is SiteKind.STORE:
                self._store(instruction, access)
            elif self._follows:
                self._atomic(instruction, access)
        elif self._follows:
            self._plain(instruction)

    def suspend(self, instruction: Instruction) -> None:
        """A warp operation: hand the origin of the operand to the other lanes."""
        if self._follows and combines_lanes(instruction.opcode):
            given = self._of(instruction.operands[1])
            self._call("cl_undefined_pass", "void", f"i32 {given}")

    def resume(self, instruction: Instruction) -> None:
        """The results of a warp operation are there."""
        targets = [register for register in definitions(instruction) if register in self._values.registers]
        if not self._follows or not targets:
            return
        self._begin()
        origin = _DEFINED
        if combines_lanes(instruction.opcode):
            received = self._call("cl_undefined_take", "i32")
            origin = self._most(received, *(self._of(operand) for operand in instruction.operands[2:]))
        for register in targets:
            self._set(register, origin)

    def decide(self, block: Block, condition: Any) -> None:
        """A branch on ``condition``."""
        if self._follows and block.index in self._values.decisions:
            word = self._first_block + block.index
            self._set_word(word, self._most(self._word(word), self._of(condition)))

    def printed(self, arguments: str, count: str, site: int) -> None:
        """``printf`` with ``count`` arguments that lie at ``arguments``."""
        if self._follows:
            self._call("cl_undefined_printed", "void", f"i64 {arguments}", f"i32 {count}", f"i32 {site}")

    # -- words

    def _begin(self) -> None:
        """The words of this thread, and of its local memory, when it starts."""
        e = self._e
        if not e.plan.function.is_kernel or not (self._follows or self._values.in_local):
            return

        def make() -> str:
            who = f"ptr {e.context}", f"ptr {e.block}", f"i32 {e.thread()}"
            return e.runtime("cl_undefined_row", "ptr", *who, f"i32 {e.entry_state()}")

        e.cached("undefined row", e.level_here(Level.THREAD), make)

    def _place(self, word: int) -> str:
        row = self._e.cache["undefined row"]
        return self._e.new(f"getelementptr i32, ptr {row}, i64 {word}")

    def _word(self, word: int) -> str:
        return self._e.new(f"load i32, ptr {self._place(word)}")

    def _set_word(self, word: int, origin: str) -> None:
        self._e.emit(f"store i32 {origin}, ptr {self._place(word)}")

    def _origin(self, register: Register) -> str:
        return self._word(register.index) if register in self._values.registers else _DEFINED

    def _set(self, register: Register, origin: str) -> None:
        self._set_word(register.index, origin)

    def _of(self, *operands: Any) -> str:
        """The origin of a value made of these operands."""
        found = [register for operand in operands for register in registers_in(operand)]
        return self._most(*(self._origin(register) for register in dict.fromkeys(found)))

    def _most(self, *origins: str) -> str:
        """One of several origins that is not 0, if there is one."""
        left = [origin for origin in origins if origin != _DEFINED]
        if not left:
            return _DEFINED
        result = left[0]
        for origin in left[1:]:
            result = self._e.intrinsic("llvm.umax.i32", "i32", f"i32 {result}", f"i32 {origin}")
        return result

    def _decided(self) -> list[str]:
        """The origins of the decisions on which it depends whether this block is executed."""
        assert self._block is not None
        inside = [each for each in self._values.decisions.values() if self._block.index in each.inside]
        return [self._word(self._first_block + each.block) for each in inside]

    def _call(self, name: str, result: str, *numbers: str) -> str:
        e = self._e
        return e.runtime(name, result, f"ptr {e.context}", f"ptr {e.block}", f"i32 {e.thread()}", *numbers)

    def _use(self, site: int, origin: str) -> None:
        if origin != _DEFINED:
            self._call("cl_undefined_use", "void", f"i32 {site}", f"i32 {origin}")

    # -- instructions

    def _plain(self, instruction: Instruction) -> None:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode.startswith("st.param"):
            self._set_word(self._arguments, self._most(self._word(self._arguments), self._of(*operands[1:])))
            return
        if opcode.startswith("call"):
            self._set_word(self._arguments + 1, self._word(self._arguments))
            self._set_word(self._arguments, _DEFINED)
            return
        if opcode.startswith(_USES):
            self._use(self._e.plan.other_sites[instruction], self._of(*operands))
            return
        targets = [register for register in definitions(instruction) if register in self._values.registers]
        if not targets:
            return
        origin = self._result(instruction)
        for register in targets:
            self._set(register, origin)

    def _result(self, instruction: Instruction) -> str:
        opcode, operands = instruction.opcode, instruction.operands
        name, *parts = opcode.split(".")
        if name == "ld":
            parameter = isinstance(operands[1], Address) and isinstance(operands[1].base, Symbol)
            own = parameter and operands[1].base.name in self._e.plan.parameter_offsets
            return _DEFINED if own else self._word(self._arguments + 1)
        if name == "selp":
            first, second = self._of(operands[1]), self._of(operands[2])
            chosen = _DEFINED
            if first != second:
                chosen = self._e.new(f"select i1 {self._e.boolean(operands[3])}, i32 {first}, i32 {second}")
            return self._most(chosen, self._of(operands[3]))
        if name in ("and", "or") and (name == "and" or parts[-1] == "pred"):
            return self._absorbed(instruction, name == "or")
        if name == "setp" and len(operands) == 4 and parts[1] in ("and", "or"):
            compared, other = self._of(operands[1], operands[2]), self._of(operands[3])
            return self._most(self._unless(operands[3], other, compared, parts[1] == "or", 1), other)
        return self._of(*uses(instruction))

    def _absorbed(self, instruction: Instruction, disjunction: bool) -> str:
        """``and`` of a defined 0, and ``or`` of a defined true predicate, is defined."""
        _, a, b = instruction.operands
        target = definitions(instruction)[0]
        first, second = self._of(a), self._of(b)
        return self._most(
            self._unless(b, second, first, disjunction, target.bits),
            self._unless(a, first, second, disjunction, target.bits),
        )

    def _unless(self, operand: Any, own: str, origin: str, disjunction: bool, bits: int) -> str:
        """``origin``, unless ``operand``, which has the origin ``own``, decides the result alone."""
        if origin == _DEFINED:
            return origin
        e = self._e
        if bits == 1:
            value = e.boolean(operand)
            decides = value if disjunction else e.new(f"xor i1 {value}, true")
        else:
            decides = e.new(f"icmp eq i{bits} {e.integer(operand, bits)}, 0")
        if own != _DEFINED:
            decides = e.new(f"and i1 {decides}, {e.new(f'icmp eq i32 {own}, 0')}")
        return e.new(f"select i1 {decides}, i32 0, i32 {origin}")

    # -- memory

    def _is_followed(self, access: Access) -> bool:
        values = self._values
        return (values.in_local and may_be_local(access)) or (
            self._e.unit.follows and values.in_shared and may_be_shared(access)
        )

    def _elements(self, access: Access, operand: Any) -> list[tuple[Any, str]]:
        """Each element, and its address."""
        address = addresses.generic_address(self._e, access)
        elements = operand.elements if isinstance(operand, Vector) else (operand,)
        return [
            (element, self._e.new(f"add i64 {address}, {number * access.width}") if number else address)
            for number, element in enumerate(elements)
        ]

    def _load(self, instruction: Instruction, access: Access) -> None:
        e = self._e
        if not e.plan.function.is_kernel:
            return
        targets = definitions(instruction)
        pointer = self._of(access.base) if self._follows else _DEFINED
        if not self._is_followed(access):
            if self._follows:
                for register in targets:
                    if register in self._values.registers:
                        self._set(register, pointer)
            return
        for target, address in self._elements(access, instruction.operands[0]):
            numbers = f"i64 {address}", f"i64 {access.width}", f"i32 {access.site}"
            found = self._call("cl_undefined_load", "i32", *numbers)
            if self._follows and isinstance(target, Register) and target in self._values.registers:
                self._set(target, self._most(found, pointer))

    def _store(self, instruction: Instruction, access: Access) -> None:
        if access.space is Space.PARAM:
            return
        common = [self._of(access.base), *self._decided()] if self._follows else []
        if self._is_followed(access):
            for source, address in self._elements(access, instruction.operands[1]):
                origin = self._most(self._of(source), *common) if self._follows else _DEFINED
                numbers = f"i64 {address}", f"i64 {access.width}", f"i32 {access.site}", f"i32 {origin}"
                self._call("cl_undefined_store", "void", *numbers)
        elif self._follows:
            self._use(access.site, self._most(self._of(*instruction.operands[1:]), *common))

    def _atomic(self, instruction: Instruction, access: Access) -> None:
        self._use(access.site, self._most(self._of(access.base, *uses(instruction)), *self._decided()))
        for register in definitions(instruction):
            if register in self._values.registers:
                self._set(register, _DEFINED)
