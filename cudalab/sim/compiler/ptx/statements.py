"""Parser of single PTX statements: instructions, operands and names."""

from __future__ import annotations

import re
import struct
from typing import Any

from cudalab.sim.compiler.program import Location
from cudalab.sim.compiler.ptx.constants import OPERATORS, finish_expression, prefix_expression
from cudalab.sim.compiler.ptx.errors import PtxSyntaxError
from cudalab.sim.compiler.ptx.lexer import tokenize
from cudalab.sim.compiler.ptx.nodes import (
    Address,
    Discard,
    Function,
    Immediate,
    Instruction,
    Module,
    Negated,
    Pair,
    Part,
    Register,
    Special,
    Symbol,
    Vector,
)

_RANGED = re.compile(r"(.*?)(\d+)$")
_DISCARD = Discard()
_SELECTOR = re.compile(r"b[0-7]{1,4}|h[0-3]{1,2}")
_ELEMENTS = {letter: number for letters in ("xyzw", "rgba") for number, letter in enumerate(letters)}
#: Special registers (PTX ISA, "Special Registers"); anything else that begins with % is an ordinary register.
SPECIAL_REGISTERS = frozenset(
    [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    + [f"%{name}.{axis}" for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for axis in "xyz"]
    + "%laneid %warpid %nwarpid %smid %nsmid %gridid %clock %clock_hi %clock64 %globaltimer %globaltimer_lo".split()
    + "%globaltimer_hi %total_smem_size %dynamic_smem_size %aggr_smem_size %is_explicit_cluster".split()
    + "%cluster_ctarank %cluster_nctarank %current_graph_exec %reserved_smem_offset_begin".split()
    + [f"%reserved_smem_offset_{part}" for part in ("end", "cap", "0", "1")]
    + [f"%envreg{number}" for number in range(32)]
    + [f"%lanemask_{order}" for order in ("eq", "le", "lt", "ge", "gt")]
    + [f"%pm{number}" for number in range(8)]
    + ["WARP_SZ"]
)


class StatementReader:
    """A position in the tokens of a module, and the names in scope there."""

    def __init__(self, text: str) -> None:
        """Begin at the first token of ``text``."""
        self.tokens, self.lines = tokenize(text)
        self.tokens.append("")
        self.lines.append(self.lines[-1] if self.lines else 1)
        self.at = 0
        self.result = Module(text)
        self.location = Location("", 0)
        self.inlined: dict[tuple[int, int, int], Location] = {}
        self.function: Function | None = None
        self.scopes: list[dict[str, Any]] = [{}]
        self.ranges: list[dict[str, tuple[str, int]]] = [{}]
        self.unique = 0
        self.used_bytes = -1
        self.nounroll = False
        """Pragmas of the next instruction."""

    # -- tokens

    def error(self, message: str) -> PtxSyntaxError:
        return PtxSyntaxError(message, self.lines[min(self.at, len(self.lines) - 1)], self.location)

    def expect(self, token: str) -> None:
        if self.tokens[self.at] != token:
            raise self.error(f"expected {token!r}, found {self.tokens[self.at]!r}")
        self.at += 1

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def next(self) -> str:
        token = self.tokens[self.at]
        if not token:
            raise self.error("the text ends in the middle of a statement")
        self.at += 1
        return token

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.next()
        try:
            value = _integer(token)
        except ValueError:
            raise self.error(f"expected an integer, found {token!r}") from None
        return -value if negative else value

    def new_register(self, name: str, kind: str) -> Register:
        assert self.function is not None
        registers = self.function.registers
        register = Register(name, kind, len(registers))
        registers.append(register)
        return register

    # -- instructions

    def instruction(self) -> Instruction:
        line = self.lines[self.at]
        guard, negated = None, False
        if self.accept("@"):
            negated = self.accept("!")
            guard = self.symbol(self.next())
            if not isinstance(guard, Register) or guard.type != "pred":
                raise self.error(f"the guard {guard} is not a predicate register")
        opcode = self.next()
        if opcode.startswith("cudalab."):
            raise self.error(f"{opcode} is no instruction of PTX (passes of the compiler put it into a program)")
        if opcode == "call" or opcode.startswith("call."):
            operands = self.call_operands()
        else:
            operands = []
            if not self.accept(";"):
                while True:
                    operands.append(self.operand())
                    if self.accept(";"):
                        break
                    self.expect(",")
        used_bytes, self.used_bytes = self.used_bytes, -1
        nounroll, self.nounroll = self.nounroll, False
        return Instruction(opcode, tuple(operands), line, self.location, guard, negated, used_bytes, nounroll)

    def call_operands(self) -> list[Any]:
        """``(returns), callee, (arguments)[, prototype]`` as (Vector, callee, Vector)."""
        returns: Any = Vector(())
        if self.tokens[self.at] == "(":
            returns = self.argument_list()
            self.expect(",")
        callee = self.operand()
        arguments: Any = Vector(())
        while self.accept(","):
            if self.tokens[self.at] == "(":
                arguments = self.argument_list()
            else:
                self.operand()
        self.expect(";")
        return [returns, callee, arguments]

    def argument_list(self) -> Vector:
        self.expect("(")
        elements = []
        while not self.accept(")"):
            elements.append(self.operand())
            self.accept(",")
        return Vector(tuple(elements))

    def operand(self) -> Any:
        token = self.next()
        first = token[0]
        if first == "%" or first.isalpha() or first in "_$":
            if token == "_":
                operand: Any = _DISCARD
            else:
                operand = self.symbol(token)
            following = self.tokens[self.at]
            if following == "|":
                self.at += 1
                return Pair(operand, self.operand())
            if following in ("+", "-") and isinstance(operand, Symbol):
                self.at += 1
                offset = self.integer()
                return Address(operand, offset if following == "+" else -offset)
            return operand
        if first == "-" and self.tokens[self.at][0] in "%_$":
            register = self.symbol(self.next())
            if isinstance(register, Part):
                return Part(register.register, register.selector, negated=True)
            if isinstance(register, Register):
                return Part(register, "", negated=True)
            raise self.error(f"-{register} is not an operand")
        if first.isdigit() or first in "-~":
            self.at -= 1
            return self.literal()
        if first == "[":
            return self.address()
        if first == "{":
            elements = []
            while not self.accept("}"):
                elements.append(self.operand())
                self.accept(",")
            return Vector(tuple(elements))
        if first == "!":
            register = self.symbol(self.next())
            if not isinstance(register, Register):
                raise self.error(f"!{register} is not a predicate")
            return Negated(register)
        if first == "(":
            self.at -= 1
            return self.literal()
        raise self.error(f"unexpected {token!r} as an operand")

    def address(self) -> Address:
        token = self.tokens[self.at]
        base: Any = None
        offset = 0
        if token[0].isdigit() or token == "-":
            offset = self.integer()
        else:
            self.at += 1
            base = self.symbol(token)
            if self.accept("+"):
                offset = self.integer()
            elif self.tokens[self.at] == "-":
                offset = self.integer()
            if self.accept(","):  # coordinates of a texture, a surface or a tensor
                coordinates: list[Any] = []
                while self.tokens[self.at] != "]":
                    given = self.operand()
                    coordinates += given.elements if isinstance(given, Vector) else [given]
                    self.accept(",")
                self.expect("]")
                return Address(base, offset, tuple(coordinates))
        self.expect("]")
        return Address(base, offset)

    def symbol(self, name: str) -> Any:
        """A register, special register, or the symbol ``name`` stands for in the innermost scope."""
        for scope, ranges in zip(reversed(self.scopes), reversed(self.ranges), strict=True):
            found = scope.get(name)
            if found is not None:
                return found
            if ranges:
                match = _RANGED.match(name)
                if match is not None:
                    declared = ranges.get(match[1])
                    if declared is not None and int(match[2]) < declared[1]:
                        register = self.new_register(name, declared[0])
                        scope[name] = register
                        return register
        if name in SPECIAL_REGISTERS:
            return Special(name)
        base, _, part = name.rpartition(".")
        if base and (part in _ELEMENTS or _SELECTOR.fullmatch(part)) and self.is_register(base):
            whole = self.symbol(base)
            if isinstance(whole, Vector) and part in _ELEMENTS and _ELEMENTS[part] < len(whole.elements):
                return whole.elements[_ELEMENTS[part]]
            if isinstance(whole, Register) and _SELECTOR.fullmatch(part):
                return Part(whole, part)
            raise self.error(f"{base} has no part .{part}")
        if name[0] == "%":
            raise self.error(f"register {name} is not declared")
        symbol = Symbol(name)
        self.scopes[0][name] = symbol
        return symbol

    def is_register(self, name: str) -> bool:
        """Whether ``name`` is a register in scope."""
        for scope, ranges in zip(reversed(self.scopes), reversed(self.ranges), strict=True):
            if name in scope:
                return isinstance(scope[name], (Register, Vector))
            match = _RANGED.match(name)
            if match is not None and match[1] in ranges and int(match[2]) < ranges[match[1]][1]:
                return True
        return False

    def literal(self) -> Immediate:
        """A literal, or a constant expression of literals (PTX ISA, "Constant Expressions")."""
        first = self.number()
        if first.kind != "int" or self.tokens[self.at] not in OPERATORS:
            return first
        return Immediate(finish_expression(self, first.value))

    def number(self) -> Immediate:
        """A single literal, or a parenthesised expression."""
        if self.tokens[self.at] in ("(", "~", "!"):
            return Immediate(prefix_expression(self))
        negative = self.accept("-")
        if self.tokens[self.at] in ("(", "~", "!"):
            return Immediate(-prefix_expression(self))
        token = self.next()
        lead = token[:2]
        if lead in ("0f", "0F") and len(token) == 10:
            return Immediate(int(token[2:], 16), "f32")
        if lead in ("0d", "0D") and len(token) == 18:
            return Immediate(int(token[2:], 16), "f64")
        try:
            if "." in token or (token[:1].isdigit() and "e" in token and lead not in ("0x", "0X")):
                number = -float(token) if negative else float(token)
                return Immediate(int.from_bytes(struct.pack("<d", number), "little"), "f64")
            value = _integer(token)
        except ValueError:
            raise self.error(f"{token!r} is not a literal") from None
        return Immediate(-value if negative else value)


def _integer(token: str) -> int:
    text = token.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8)
    return int(text)
