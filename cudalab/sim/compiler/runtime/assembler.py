"""A small assembler for LLVM IR with structured control flow.

Variables are ``alloca``s, which LLVM promotes to SSA values; control structures are context managers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Variable:
    """A variable of a function: ``get`` and ``set``."""

    def __init__(self, function: Function, type: str, place: str) -> None:
        self._function = function
        self.type = type
        self.place = place

    def get(self) -> str:
        return self._function.op(f"load {self.type}, ptr {self.place}")

    def set(self, value: str | int) -> None:
        self._function.line(f"store {self.type} {value}, ptr {self.place}")

    def update(self, operation: str, value: str | int) -> None:
        """``v = v operation value``"""
        self.set(self._function.op(f"{operation} {self.type} {self.get()}, {value}"))


class Function:
    """One function under construction. ``parameters`` as in ``ptr ctx, i32 warp``; they are named ``%ctx``,
    ``%warp``."""

    def __init__(
        self, library: Library, name: str, result: str, parameters: str, attributes: str = "", convention: str = ""
    ) -> None:
        self.library = library
        self.result = result
        named: list[list[str]] = [
            parameter.strip().rsplit(" ", 1) for parameter in parameters.split(",") if parameter.strip()
        ]
        signature = ", ".join(f"{kind} %{label}" for kind, label in named)
        self.head = f"define {convention} {result} @{name}({signature}) nounwind {attributes} {{\nentry:"
        self.allocas: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.open = True  # the current basic block has no terminator yet
        self._breaks: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def op(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"%n{self.count} = {text}")
        return f"%n{self.count}"

    def call(self, name: str, result: str, *arguments: str) -> str:
        """Call a function; arguments are written with their types."""
        types = ", ".join(argument.split(" ", 1)[0] for argument in arguments)
        self.library.declare(name, f"declare {result} @{name}({types})")
        text = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.line(text)
            return ""
        return self.op(text)

    # -- memory

    def at(self, base: str, offset: str | int) -> str:
        """A pointer ``offset`` bytes (i64) after ``base``."""
        return base if offset == 0 else self.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    def element(self, base: str, type: str, index: str | int, index_type: str = "i32") -> str:
        return self.op(f"getelementptr {type}, ptr {base}, {index_type} {index}")

    def load(self, type: str, base: str, offset: str | int = 0, volatile: bool = False) -> str:
        return self.op(f"load {'volatile ' if volatile else ''}{type}, ptr {self.at(base, offset)}, align 1")

    def store(self, type: str, value: str | int, base: str, offset: str | int = 0) -> None:
        self.line(f"store {type} {value}, ptr {self.at(base, offset)}, align 1")

    def variable(self, type: str, initial: str | int | None = None) -> Variable:
        self.count += 1
        place = f"%var{self.count}"
        self.allocas.append(f"{place} = alloca {type}")
        made = Variable(self, type, place)
        if initial is not None:
            made.set(initial)
        return made

    def array(self, size: int) -> str:
        """Allocate bytes on the native stack."""
        self.count += 1
        self.allocas.append(f"%array{self.count} = alloca [{size} x i8], align 16")
        return f"%array{self.count}"

    # -- control flow

    def label(self, name: str) -> None:
        if self.open:
            self.line(f"br label %{name}")
        self.line(f"{name}:")
        self.open = True

    def _ended(self, text: str) -> None:
        if self.open:
            self.line(text)
        self.open = False

    def ret(self, value: str | int = "") -> None:
        self._ended(f"ret {self.result} {value}" if self.result != "void" else "ret void")

    def _fresh(self) -> str:
        self.count += 1
        return f"l{self.count}"

    @contextmanager
    def if_(self, condition: str) -> Iterator[None]:
        name = self._fresh()
        self.line(f"br i1 {condition}, label %{name}.then, label %{name}.end")
        self.open = False
        self.label(f"{name}.then")
        yield
        self.label(f"{name}.end")

    @contextmanager
    def if_else(self, condition: str) -> Iterator[Callable[[], None]]:
        """``with f.if_else(c) as otherwise: …; otherwise(); …``"""
        name = self._fresh()
        self.line(f"br i1 {condition}, label %{name}.then, label %{name}.else")
        self.open = False
        self.label(f"{name}.then")

        def otherwise() -> None:
            self._ended(f"br label %{name}.end")
            self.label(f"{name}.else")

        yield otherwise
        self.label(f"{name}.end")

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Loop until ``break_``."""
        name = self._fresh()
        self.label(f"{name}.top")
        self._breaks.append(f"{name}.end")
        yield
        self._ended(f"br label %{name}.top")
        self._breaks.pop()
        self.label(f"{name}.end")

    def break_(self) -> None:
        self._ended(f"br label %{self._breaks[-1]}")

    @contextmanager
    def count_up(self, type: str, end: str | int, first: str | int = 0) -> Iterator[str]:
        """A counter from ``first`` to ``end`` − 1."""
        counter = self.variable(type, first)
        with self.loop():
            value = counter.get()
            with self.if_(self.op(f"icmp uge {type} {value}, {end}")):
                self.break_()
            yield value
            counter.update("add", 1)

    @contextmanager
    def bits(self, mask: str) -> Iterator[str]:
        """The positions of the bits of an i32, ascending."""
        rest = self.variable("i32", mask)
        with self.loop():
            value = rest.get()
            with self.if_(self.op(f"icmp eq i32 {value}, 0")):
                self.break_()
            yield self.call("llvm.cttz.i32", "i32", f"i32 {value}", "i1 true")
            rest.set(self.op(f"and i32 {value}, {self.op(f'sub i32 {value}, 1')}"))

    def wide(self, value: str) -> str:
        """i32 to i64."""
        return self.op(f"zext i32 {value} to i64")

    def compare(self, operation: str, type: str, a: str | int, b: str | int) -> str:
        return self.op(f"icmp {operation} {type} {a}, {b}")

    def text(self) -> str:
        if self.open:
            self.line("unreachable")
            self.open = False
        return "\n".join([self.head, *self.allocas, *self.lines, "}"])


class Library:
    """The runtime module under construction."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.declarations: dict[str, str] = {}
        self.defined: set[str] = set()
        self.raw: list[str] = []

    def function(self, name: str, result: str, parameters: str, attributes: str = "", convention: str = "") -> Function:
        """Begin a function."""
        made = Function(self, name, result, parameters, attributes, convention)
        self.functions.append(made)
        self.defined.add(name)
        return made

    def declare(self, name: str, text: str) -> None:
        self.declarations.setdefault(name, text)

    def text(self) -> str:
        bodies = [function.text() for function in self.functions]
        declared = [text for name, text in self.declarations.items() if name not in self.defined]
        return "\n".join([*declared, *self.raw, *bodies])
