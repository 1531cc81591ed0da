"""Demangler for the parameter types of kernels.

C++ compilers spell a function's type into its symbol (Itanium C++ ABI, section 5.1): ``_Z3addPKfPfi``
is ``add(float const*, float*, int)``. NVRTC follows that ABI on every system, so a kernel's own symbol
says exactly what it takes, whatever macros and typedefs its source went through.

It covers what a kernel's signature can contain: all fundamental types, qualifiers, pointers, references, arrays,
functions, nested and templated names, integer template arguments, packs, substitutions. Names of expressions and of
things inside functions are not needed and end in ``DemangleError``; the caller then reads the declaration instead.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128",
    "f": "float", "d": "double", "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_BUILTIN_D = {
    "Dn": "std::nullptr_t", "Du": "char8_t", "Ds": "char16_t", "Di": "char32_t",
    "Da": "auto", "Dc": "decltype(auto)", "Dh": "_Float16",
}  # fmt: skip
_STANDARD = {
    "St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string",
    "Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
_SUFFIX = {"j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
_DEPTH = 200  # names nested deeper than this are not a kernel's


class DemangleError(ValueError):
    """The symbol uses a part of the ABI that is not covered, or is no mangled name."""


class Type(Struct, frozen=True):
    """A C++ type: ``left`` and ``right`` surround a declarator (``int (*`` and ``) [4]``)."""

    left: str
    right: str = ""
    qualifiers: str = ""
    """Of the type itself, in C++ order: `` const``, `` volatile``."""
    pointee: Type | None = None
    """What a pointer points to."""
    parameters: tuple[Type, ...] | None = None
    """Of a function type."""
    elements: tuple[Type, ...] | None = None
    """Of a template parameter pack."""

    def __str__(self) -> str:
        return self.left + self.qualifiers + self.right

    @property
    def unqualified(self) -> str:
        return self.left + self.right


class Function(Struct, frozen=True):
    """A demangled function symbol."""

    name: str
    """Qualified, with template arguments: ``math::add<float>``."""
    parameters: tuple[Type, ...]
    arguments: tuple[Type, ...]
    """The template arguments of the last part of the name."""


def demangle(symbol: str) -> Function:
    """The name and parameter types of a mangled function.

    Raises:
        DemangleError: ``symbol`` is not mangled, or uses what this module does not cover.
    """
    if not symbol.startswith("_Z"):
        raise DemangleError(f"{symbol}: not a mangled name")
    try:
        return _Reader(symbol).function()
    except IndexError:
        raise DemangleError(f"{symbol}: ends too early") from None


class _Reader:
    """Recursive descent over one symbol; method names are the ABI's grammar symbols."""

    def __init__(self, symbol: str) -> None:
        self.text = symbol
        self.at = 2
        self.seen: list[Type] = []  # substitution candidates
        self.arguments: tuple[Type, ...] = ()  # what T_, T0_ … stand for
        self.pack: int | None = None  # element of the packs being expanded
        self.pack_size: int | None = None
        self.depth = 0

    # ------------------------------------------------------------------ text
    def fail(self, what: str) -> DemangleError:
        return DemangleError(f"{self.text}: {what} at {self.at}")

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.fail(f"expected {text!r}")

    def number(self) -> int:
        start = self.at
        while self.at < len(self.text) and self.text[self.at].isdigit():
            self.at += 1
        if start == self.at:
            raise self.fail("expected a number")
        return int(self.text[start : self.at])

    def sequence(self) -> int:
        """``_`` is 0, ``0_`` is 1, in base 36."""
        start = self.at
        self.at = self.text.find("_", start) + 1
        if not self.at:
            raise self.fail("expected '_'")
        digits = self.text[start : self.at - 1]
        try:
            return int(digits, 36) + 1 if digits else 0
        except ValueError:
            raise self.fail("bad sequence id") from None

    # ------------------------------------------------------------------ names
    def function(self) -> Function:
        name, arguments = self.name()
        self.arguments = arguments
        templated = name.endswith(">")
        if templated:
            self.type()  # a template's symbol spells its return type first
        parameters: list[Type] = []
        while self.at < len(self.text) and self.text[self.at] not in ".$":
            parameters.extend(self.types())
        if [str(parameter) for parameter in parameters] == ["void"]:
            parameters = []
        return Function(name, tuple(parameters), arguments)

    def name(self) -> tuple[str, tuple[Type, ...]]:
        if self.take("N"):
            return self.nested()
        if self.peek("Z"):
            raise self.fail("a name local to a function")
        if self.peek("S") and not self.peek("St"):
            base = str(self.substitution())
        else:
            base = self.unqualified("std" if self.take("St") else "")
            if self.peek("I"):
                self.remember(Type(base))
        if not self.peek("I"):
            return base, ()
        arguments = self.template_arguments()
        return base + _angle(arguments), arguments

    def nested(self) -> tuple[str, tuple[Type, ...]]:
        while self.text[self.at] in "rVK":
            self.at += 1
        self.take("R") or self.take("O")
        prefix = ""
        arguments: tuple[Type, ...] = ()
        while not self.take("E"):
            if self.peek("S") and not self.peek("St"):
                prefix = str(self.substitution())
                continue
            if self.peek("T") and not prefix:
                prefix = str(self.template_parameter())
            elif self.peek("I"):
                arguments = self.template_arguments()
                prefix += _angle(arguments)
            elif self.take("St"):
                prefix = "std"
                continue
            else:
                prefix = self.unqualified(prefix)
                arguments = ()
            if not self.peek("E"):
                self.remember(Type(prefix))
        return prefix, arguments

    def unqualified(self, prefix: str) -> str:
        self.take("L")  # internal linkage
        if self.take("Ut") or self.take("Ul"):
            raise self.fail("an unnamed type")
        length = self.number()
        name = self.text[self.at : self.at + length]
        if len(name) != length:
            raise self.fail("a name is cut off")
        self.at += length
        if name.startswith("_GLOBAL__N"):
            name = "(anonymous namespace)"
        while self.take("B"):  # ABI tags
            self.at += self.number()
        return f"{prefix}::{name}" if prefix else name

    def substitution(self) -> Type:
        self.expect("S")
        for code, name in _STANDARD.items():
            if self.text[self.at] == code[1]:
                self.at += 1
                return Type(name)
        index = self.sequence()
        if index >= len(self.seen):
            raise self.fail("unknown substitution")
        return self.seen[index]

    def template_parameter(self) -> Type:
        self.expect("T")
        index = self.sequence()
        if index >= len(self.arguments):
            raise self.fail("unknown template parameter")
        argument = self.arguments[index]
        if argument.elements is None:
            return argument
        self.pack_size = len(argument.elements)
        if self.pack is None:
            return argument
        return argument.elements[self.pack] if self.pack < self.pack_size else Type("")

    def template_arguments(self) -> tuple[Type, ...]:
        self.expect("I")
        arguments: list[Type] = []
        while not self.take("E"):
            arguments.extend(self.types() if self.peek("Dp") else [self.template_argument()])
        return tuple(arguments)

    def template_argument(self) -> Type:
        if self.take("L"):
            return self.literal()
        if self.take("J"):
            elements: list[Type] = []
            while not self.take("E"):
                elements.extend(self.types() if self.peek("Dp") else [self.template_argument()])
            return Type(", ".join(map(str, elements)), elements=tuple(elements))
        if self.peek("X"):
            raise self.fail("an expression")
        return self.type()

    def literal(self) -> Type:
        if self.take("_Z"):
            name, _ = self.name()
            while not self.take("E"):
                self.types()
            return Type("&" + name)
        code = self.text[self.at]
        kind = str(self.type())
        sign = "-" if self.take("n") else ""
        start = self.at
        while not self.take("E"):
            self.at += 1
        digits = self.text[start : self.at - 1]
        if kind == "bool":
            return Type("true" if digits == "1" else "false")
        if code == "i":
            return Type(sign + digits)
        if code in _SUFFIX:
            return Type(sign + digits + _SUFFIX[code])
        return Type(f"({kind}){sign}{digits}")

    # ------------------------------------------------------------------ types
    def remember(self, type_: Type) -> Type:
        self.seen.append(type_)
        return type_

    def types(self) -> list[Type]:
        """One type, or as many as a pack expansion gives."""
        if not self.take("Dp"):
            return [self.type()]
        start, known, outer = self.at, len(self.seen), (self.pack, self.pack_size)
        self.pack, self.pack_size = 0, None
        expanded = [self.type()]
        size = self._elements_seen()
        if size is None:
            raise self.fail("a pack expansion without a pack")
        for index in range(1, size):
            self.at, self.pack = start, index
            del self.seen[known:]
            expanded.append(self.type())
        self.pack, self.pack_size = outer
        return expanded[:size]

    def _elements_seen(self) -> int | None:
        return self.pack_size

    def type(self) -> Type:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.fail("nested too deep")
        try:
            return self._type()
        finally:
            self.depth -= 1

    def _type(self) -> Type:
        code = self.text[self.at]
        if code in _BUILTIN:
            self.at += 1
            return Type(_BUILTIN[code])
        pair = self.text[self.at : self.at + 2]
        if pair in _BUILTIN_D:
            self.at += 2
            return Type(_BUILTIN_D[pair])
        if self.take("DF16b"):
            return Type("__bf16")
        if self.take("DF"):
            bits = self.number()
            self.expect("_")
            return Type(f"_Float{bits}")
        if code in "rVK":
            return self.qualified()
        if self.take("P"):
            return self.remember(_pointer(self.type(), "*"))
        if self.take("R"):
            return self.remember(_pointer(self.type(), "&"))
        if self.take("O"):
            return self.remember(_pointer(self.type(), "&&"))
        if self.take("F") or self.take("DoF"):
            return self.remember(self.function_type())
        if self.take("A"):
            count = "" if self.peek("_") else str(self.number())
            self.expect("_")
            element = self.type()
            right = f" [{count}]" + element.right.removeprefix(" ")
            return self.remember(Type(element.left + element.qualifiers, right))
        if code == "T":
            parameter = self.remember(self.template_parameter())
            return self.with_arguments(parameter)
        if code == "S" and not self.peek("St"):
            return self.with_arguments(self.substitution())
        if self.take("Dp"):
            raise self.fail("a pack expansion")
        if code == "u":
            self.at += 1
            return self.remember(Type(self.unqualified("")))
        if code.isdigit() or code in "NSL":
            return self.remember(Type(self.name()[0]))
        raise self.fail(f"type code {code!r}")

    def with_arguments(self, base: Type) -> Type:
        if not self.peek("I"):
            return base
        return self.remember(Type(str(base) + _angle(self.template_arguments())))

    def qualified(self) -> Type:
        words = ""
        for letter, word in (("r", " __restrict__"), ("V", " volatile"), ("K", " const")):
            if self.take(letter):
                words = word + words
        inner = self.type()
        if words.strip() in inner.qualifiers.split():
            return self.remember(inner)
        if inner.right.startswith(" ["):  # qualifies the elements
            return self.remember(replace(inner, left=inner.left + words))
        return self.remember(replace(inner, qualifiers=inner.qualifiers + words))

    def function_type(self) -> Type:
        self.take("Y")  # extern "C"
        result = self.type()
        parameters: list[Type] = []
        while not self.take("E"):
            parameters.extend(self.types())
        if [str(parameter) for parameter in parameters] == ["void"]:
            parameters = []
        listing = ", ".join(map(str, parameters))
        return Type(f"{result} ", f"({listing})", parameters=tuple(parameters))


def _pointer(target: Type, mark: str) -> Type:
    if target.parameters is not None:
        return Type(f"{target.left}({mark}", f"){target.right}", pointee=target)
    if target.right.startswith(" ["):
        return Type(f"{target.left} ({mark}", f"){target.right}", pointee=target)
    return Type(f"{target.left}{target.qualifiers}{mark}", target.right, pointee=target)


def _angle(arguments: tuple[Type, ...]) -> str:
    listing = ", ".join(str(argument) for argument in arguments if str(argument) or argument.elements is None)
    return f"<{listing}{' ' if listing.endswith('>') else ''}>"
