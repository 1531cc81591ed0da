"""Parse PTX text into a :class:`~cudalab.sim.compiler.ptx.nodes.Module`.

One pass over the tokens. Names are resolved while reading: ``{ }`` scopes inside a body (call sequences, inline
``asm``) may declare registers and labels of their own, which get unique names here, so that later passes see one
flat function.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from cudalab.sim.compiler.program import Location
from cudalab.sim.compiler.ptx.errors import PtxSyntaxError
from cudalab.sim.compiler.ptx.lexer import tokenize
from cudalab.sim.compiler.ptx.nodes import (
    BITS,
    Address,
    Discard,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Pair,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
)

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_SPACES = {".global", ".const", ".shared", ".local", ".param"}
_LINKAGE = {".extern", ".visible", ".weak", ".common"}
_RANGED = re.compile(r"(.*?)(\d+)$")
_DISCARD = Discard()
#: Special registers (PTX ISA, "Special Registers"); anything else that begins with % is an ordinary register.
SPECIAL_REGISTERS = frozenset(
    [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    + [f"%{name}.{axis}" for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for axis in "xyz"]
    + "%laneid %warpid %nwarpid %smid %nsmid %gridid %clock %clock_hi %clock64 %globaltimer %globaltimer_lo".split()
    + "%globaltimer_hi %total_smem_size %dynamic_smem_size %aggr_smem_size %is_explicit_cluster".split()
    + "%cluster_ctarank %cluster_nctarank %current_graph_exec %reserved_smem_offset_begin".split()
    + [f"%lanemask_{order}" for order in ("eq", "le", "lt", "ge", "gt")]
    + [f"%pm{number}" for number in range(8)]
    + ["WARP_SZ"]
)


def parse_ptx(text: str) -> Module:
    """Parse a PTX module.

    Args:
        text: the whole module.

    Returns:
        The module; locations name files as ``.file`` does.

    Raises:
        PtxSyntaxError: with the PTX line, when the text is not PTX as compilers write it.
    """
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens, self.lines = tokenize(text)
        self.tokens.append("")
        self.lines.append(self.lines[-1] if self.lines else 1)
        self.at = 0
        self.result = Module(text)
        for number, name in _FILE.findall(text):
            self.result.files[int(number)] = name
        self.location = Location("", 0)
        self.function: Function | None = None
        self.scopes: list[dict[str, Any]] = [{}]
        self.ranges: list[dict[str, tuple[str, int]]] = [{}]
        self.unique = 0

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

    # -- module level

    def module(self) -> Module:
        while token := self.tokens[self.at]:
            if token in _LINKAGE or token in (".entry", ".func") or token in _SPACES:
                self.declaration()
            elif token in (".version", ".address_size"):
                self.at += 2
            elif token == ".target":
                self.at += 1
                self.result.target = self.next()
                while self.accept(","):
                    self.at += 1
            elif token == ".file":
                self.file_directive()
            elif token == ".section":
                self.skip_section()
            elif token == ".pragma":
                while self.next() != ";":
                    pass
            elif token == ".loc":
                self.loc_directive()
            elif token == ".alias":
                self.alias_directive()
            else:
                raise self.error(f"unexpected {token!r} between declarations")
        return self.result

    def file_directive(self) -> None:
        self.at += 3
        while self.accept(","):
            self.at += 1

    def skip_section(self) -> None:
        while self.next() != "{":
            pass
        depth = 1
        while depth:
            token = self.next()
            depth += (token == "{") - (token == "}")

    def alias_directive(self) -> None:
        self.at += 1
        alias = self.next()
        self.expect(",")
        target = self.next()
        self.expect(";")
        if target in self.result.functions:
            self.result.functions[alias] = self.result.functions[target]

    def declaration(self) -> None:
        external = False
        while self.tokens[self.at] in _LINKAGE:
            external |= self.next() == ".extern"
        if self.tokens[self.at] in (".entry", ".func"):
            self.function_declaration()
        else:
            for variable in self.variables(external):
                known = self.result.variables.get(variable.name)
                if known is None or known.external:
                    self.result.variables[variable.name] = variable

    def variables(self, external: bool = False) -> list[Variable]:
        """``.global .align 4 .b8 a[16] = {…}, b;``"""
        line = self.lines[self.at]
        space = self.next()[1:]
        alignment, kind, vector = self.type_of_variable()
        found = []
        while True:
            name = self.next()
            count, dynamic = vector, False
            while self.accept("["):
                if self.accept("]"):
                    dynamic = True
                else:
                    count *= self.integer()
                    self.expect("]")
            initial: list[Any] = []
            if self.accept("="):
                initial = self.initialiser()
            if dynamic:
                count = len(initial)
            found.append(Variable(name, space, kind, count, alignment, initial, external, line))
            if self.accept(";"):
                return found
            if self.tokens[self.at] in (")", ","):  # a parameter list; the caller goes on
                return found
            self.expect(",")

    def type_of_variable(self) -> tuple[int, str, int]:
        alignment, kind, vector = 0, "", 1
        while self.tokens[self.at].startswith("."):
            directive = self.next()
            if directive == ".align":
                alignment = self.integer()
            elif directive in (".v2", ".v4"):
                vector = int(directive[2:])
            elif directive == ".attribute":
                while self.next() != ")":
                    pass
            elif directive == ".ptr":
                while self.tokens[self.at].startswith("."):
                    if self.next() == ".align":
                        self.integer()
            elif directive[1:] in BITS:
                kind = directive[1:]
            elif directive[1:] in ("texref", "samplerref", "surfref"):
                raise self.error(f"{directive} variables (texture references) are withdrawn; use texture objects")
            else:
                raise self.error(f"unknown type {directive!r}")
        if not kind:
            raise self.error("a variable without a type")
        return alignment, kind, vector

    def initialiser(self) -> list[Any]:
        """A flat list of integers, ``Immediate`` floats and ``(symbol, addend)`` pairs; None for ``generic`` zeros."""
        if self.accept("{"):
            values: list[Any] = []
            while not self.accept("}"):
                values += self.initialiser()
                self.accept(",")
            return values
        token = self.tokens[self.at]
        if token == "-" or token[0].isdigit():
            literal = self.literal()
            return [literal.value if literal.kind == "int" else literal]
        self.at += 1
        if token in ("generic", "mask"):
            self.expect("(")
            token = self.next()
            self.expect(")")
        addend = 0
        while self.tokens[self.at] in ("+", "-"):
            sign = 1 if self.next() == "+" else -1
            addend += sign * self.integer()
        return [(token, addend)]

    # -- functions

    def function_declaration(self) -> None:
        is_kernel = self.next() == ".entry"
        returns = self.parameter_list() if self.tokens[self.at] == "(" else []
        name = self.next()
        parameters = self.parameter_list() if self.tokens[self.at] == "(" else []
        function = Function(name, is_kernel, parameters, returns)
        while self.tokens[self.at] not in (";", "{"):
            directive = self.next()
            values = []
            while self.tokens[self.at][:1].isdigit():
                values.append(self.integer())
                self.accept(",")
            if directive == ".pragma":
                self.at += 1
                self.accept(";")
            function.directives[directive[1:]] = tuple(values)
        if self.accept(";"):
            self.result.functions.setdefault(name, function)
            return
        self.expect("{")
        self.function = function
        self.location = Location("", 0)
        self.body(function)
        self.function = None
        self.result.functions[name] = function

    def parameter_list(self) -> list[Variable]:
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            if self.tokens[self.at] == ".reg":
                raise self.error("parameters in registers are not part of the 64-bit calling convention")
            found += self.variables()
            self.accept(",")
        return found

    def body(self, function: Function) -> None:
        body: list[Label | Instruction] = []
        self.scopes.append({})
        self.ranges.append({})
        for variable in (*function.parameters, *function.returns):
            function.variables[variable.name] = variable
        depth = 1
        tokens = self.tokens
        while depth:
            token = tokens[self.at]
            if token == "{":
                self.at += 1
                depth += 1
                self.scopes.append({})
                self.ranges.append({})
                self.declare_labels()
            elif token == "}":
                self.at += 1
                depth -= 1
                self.scopes.pop()
                self.ranges.pop()
            elif token == ";":
                self.at += 1
            elif token[0] == ".":
                self.body_directive(function)
            elif tokens[self.at + 1] == ":":
                self.at += 2
                label = self.symbol(token).name
                if tokens[self.at] in (".branchtargets", ".calltargets"):
                    self.at += 1
                    function.branch_targets[label] = self.target_list()
                elif tokens[self.at] == ".callprototype":
                    while self.next() != ";":
                        pass
                else:
                    body.append(Label(label))
            else:
                instruction = self.instruction()
                if not function.location.line and instruction.location.line:
                    function.location = instruction.location
                body.append(instruction)
        function.body = body

    def declare_labels(self) -> None:
        """Give the labels of an inner scope unique names, wherever in the scope they are used first."""
        depth, at, tokens = 0, self.at, self.tokens
        while tokens[at] and depth >= 0:
            if tokens[at] == "{":
                depth += 1
            elif tokens[at] == "}":
                depth -= 1
            elif tokens[at] == ":" and depth == 0:
                self.unique += 1
                self.scopes[-1][tokens[at - 1]] = Symbol(f"{tokens[at - 1]}.{self.unique}")
            at += 1

    def target_list(self) -> tuple[str, ...]:
        targets = [self.symbol(self.next()).name]
        while self.accept(","):
            targets.append(self.symbol(self.next()).name)
        self.expect(";")
        return tuple(targets)

    def body_directive(self, function: Function) -> None:
        token = self.tokens[self.at]
        if token == ".loc":
            self.loc_directive()
            if not function.location.line:
                function.location = self.location
        elif token == ".reg":
            self.register_declaration()
        elif token in _SPACES:
            for variable in self.variables():
                name = variable.name
                if name in function.variables:
                    self.unique += 1
                    variable.name = f"{name}.{self.unique}"
                    self.scopes[-1][name] = Symbol(variable.name)
                elif len(self.scopes) > 2:
                    self.scopes[-1][name] = Symbol(name)
                function.variables[variable.name] = variable
        elif token == ".pragma":
            while self.next() != ";":
                pass
        elif token == ".section":
            self.skip_section()
        else:
            raise self.error(f"unexpected directive {token!r} in a function")

    def loc_directive(self) -> None:
        """``.loc 1 6 31`` or ``.loc 1 6 31, function_name $L__info_string0, inlined_at 1 14 2``."""
        self.at += 1
        place = (self.integer(), self.integer(), self.integer())
        inlined = None
        while self.accept(","):
            attribute = self.next()
            if attribute == "function_name":
                self.next()
                if self.accept("+"):
                    self.integer()
            elif attribute == "inlined_at":
                inlined = Location(self.result.files.get(self.integer(), ""), self.integer(), self.integer())
            else:
                self.next()
        self.location = Location(self.result.files.get(place[0], ""), place[1], place[2], inlined)

    def register_declaration(self) -> None:
        self.at += 1
        kind = self.next()[1:]
        if kind in ("v2", "v4"):
            raise self.error("vector registers are not written by compilers; use scalars")
        if kind not in BITS:
            raise self.error(f"unknown register type .{kind}")
        while True:
            name = self.next()
            if self.accept("<"):
                self.ranges[-1][name] = (kind, self.integer())
                self.expect(">")
            else:
                self.scopes[-1][name] = self.new_register(name, kind)
            if self.accept(";"):
                return
            self.expect(",")

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
        return Instruction(opcode, tuple(operands), line, self.location, guard, negated)

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
        if first.isdigit() or first == "-":
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
            operand = self.operand()
            self.expect(")")
            return operand
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
            if self.accept(","):  # tensor coordinates: the opcode is out of scope and reported as such
                while self.tokens[self.at] != "]":
                    self.operand()
                    self.accept(",")
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
        if name[0] == "%":
            base, _, part = name.rpartition(".")
            if base and part in ("lo", "hi", "x", "y", "z", "w"):
                raise self.error(f"a part of a register ({name}) is not written by compilers; use mov to unpack it")
            raise self.error(f"register {name} is not declared")
        symbol = Symbol(name)
        self.scopes[0][name] = symbol
        return symbol

    def literal(self) -> Immediate:
        negative = self.accept("-")
        token = self.next()
        lead = token[:2]
        if lead in ("0f", "0F") and len(token) == 10:
            return Immediate(int(token[2:], 16), "f32")
        if lead in ("0d", "0D") and len(token) == 18:
            return Immediate(int(token[2:], 16), "f64")
        if "." in token or (token[:1].isdigit() and "e" in token and lead not in ("0x", "0X")):
            number = -float(token) if negative else float(token)
            return Immediate(int.from_bytes(struct.pack("<d", number), "little"), "f64")
        try:
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
