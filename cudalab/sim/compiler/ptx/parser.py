"""Parse PTX text into a :class:`~cudalab.sim.compiler.ptx.nodes.Module`.

One pass over the tokens. Names are resolved while reading: ``{ }`` scopes inside a body (call sequences, inline
``asm``) may declare registers and labels of their own, which get unique names here, so that later passes see one
flat function.
"""

from __future__ import annotations

import re
from typing import Any

from cudalab.sim.compiler.program import Location
from cudalab.sim.compiler.ptx.device_runtime import DEFINITIONS
from cudalab.sim.compiler.ptx.nodes import (
    BITS,
    Function,
    Instruction,
    Label,
    Module,
    Symbol,
    Variable,
    Vector,
)
from cudalab.sim.compiler.ptx.statements import StatementReader

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_USED_BYTES = re.compile(r'"used_bytes_mask\s+(0[xX][0-9a-fA-F]{1,8}|[1-9]\d{0,9})"')
_SPACES = {".global", ".const", ".shared", ".local", ".param"}
_LINKAGE = {".extern", ".visible", ".weak", ".common"}


def parse_ptx(text: str) -> Module:
    """Parse a PTX module.

    Args:
        text: the whole module.

    Returns:
        The module; locations name files as ``.file`` does.

    Raises:
        PtxSyntaxError: with the PTX line, when the text is not PTX as compilers write it.
    """
    parser = _Parser(text)
    try:
        module = parser.module()
    except IndexError:  # the empty token at the end, or past it
        raise parser.error("the text ends in the middle of a statement") from None
    for name, definition in DEFINITIONS.items():
        if name in module.functions and module.functions[name].body is None:
            module.functions[name] = _Parser(definition).module().functions[name]
    return module


class _Parser(StatementReader):
    """Declarations, functions and their bodies."""

    # -- module level

    def module(self) -> Module:
        for number, name in _FILE.findall(self.result.text):
            self.result.files[int(number)] = name
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
        linkage = set()
        while self.tokens[self.at] in _LINKAGE:
            linkage.add(self.next())
        external, names = ".extern" in linkage, []
        if self.tokens[self.at] in (".entry", ".func"):
            names.append(self.function_declaration())
        else:
            for variable in self.variables(external):
                names.append(variable.name)
                known = self.result.variables.get(variable.name)
                if known is None or known.external:
                    self.result.variables[variable.name] = variable
        if linkage and not external:
            self.result.visible.update(names)
        if ".weak" in linkage or ".common" in linkage:
            self.result.weak.update(names)

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
            if self.tokens[self.at] in (")", ","):  # a parameter list; the caller continues
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

    def function_declaration(self) -> str:
        """Its name."""
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
            return name
        self.expect("{")
        self.function = function
        self.location = Location("", 0)
        self.body(function)
        self.function = None
        self.result.functions[name] = function
        return name

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
        """Give the labels of an inner scope unique names before parsing it, since uses may precede definitions."""
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
        elif token.startswith(".reg."):  # written without a space, as some headers do
            self.tokens[self.at : self.at + 1] = [".reg", token[4:]]
            self.lines.insert(self.at, self.lines[self.at])
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
            while (text := self.next()) != ";":
                mask = _USED_BYTES.fullmatch(text)
                if mask:
                    self.used_bytes = int(mask[1], 0)
                self.nounroll = self.nounroll or text == '"nounroll"'
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
                at = (self.integer(), self.integer(), self.integer())
                outer = Location(self.result.files.get(at[0], ""), at[1], at[2])
                inlined = self.inlined.get(at, outer)  # itself inlined, according to the last .loc of that location
            else:
                self.next()
        self.location = Location(self.result.files.get(place[0], ""), place[1], place[2], inlined)
        if inlined is not None:
            self.inlined[place] = self.location
        else:
            self.inlined.pop(place, None)

    def register_declaration(self) -> None:
        self.at += 1
        kind = self.next()[1:]
        count = 1
        if kind in ("v2", "v4"):
            count, kind = int(kind[1:]), self.next()[1:]
        if kind not in BITS:
            raise self.error(f"unknown register type .{kind}")
        while True:
            name = self.next()
            if count > 1:  # a vector: one register per element, named name.x …
                parts = tuple(self.new_register(f"{name}.{axis}", kind) for axis in "xyzw"[:count])
                self.scopes[-1][name] = Vector(parts)
            elif self.accept("<"):
                self.ranges[-1][name] = (kind, self.integer())
                self.expect(">")
            else:
                self.scopes[-1][name] = self.new_register(name, kind)
            if self.accept(";"):
                return
            self.expect(",")
