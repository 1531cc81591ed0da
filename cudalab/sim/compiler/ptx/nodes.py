"""Syntax tree of a PTX module.

An instruction keeps its opcode as written (``add.s32``), because the table of ``lowering`` is keyed by it. Each
register of a function is one object, so that passes can use identity and ``index`` (a bit in their bit sets).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from cudalab.sim.compiler.program import Location

#: Bits of each PTX register or memory type.
BITS = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 128,
    "f16": 16,
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
    "u16x2": 32,
    "s16x2": 32,
    "f32x2": 64,
    "f32": 32,
    "tf32": 32,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "e2m1x2": 8,
    **{f"{kind}x2": 16 for kind in ("e2m3", "e3m2", "ue8m0")},
    **{f"{kind}x4": 32 for kind in ("e4m3", "e5m2", "e2m3", "e3m2")},
    "f64": 64,
}


class Register:
    """A virtual register. ``type`` is ``pred``, an integer type, ``f32`` or ``f64``; ``index`` counts from 0 in its
    function."""

    __slots__ = ("bits", "index", "is_float", "name", "type")

    def __init__(self, name: str, type: str, index: int) -> None:
        self.name = name
        self.type = type
        self.index = index
        self.bits = BITS[type]
        self.is_float = type in ("f32", "f64")

    def __repr__(self) -> str:
        return self.name


class Immediate:
    """A literal. ``kind`` is ``int`` (``value`` is the number), ``f32`` or ``f64`` (``value`` is the bit pattern)."""

    __slots__ = ("kind", "value")

    def __init__(self, value: int, kind: str = "int") -> None:
        self.value = value
        self.kind = kind

    def __repr__(self) -> str:
        return f"{self.value:#x}:{self.kind}"


class Symbol:
    """The name of a variable, function or label."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Special:
    """A special register such as ``%tid.x``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Address:
    """``[base + offset]``; ``base`` is a register, a symbol, or None for an absolute address. ``coordinates`` are those
    of a texture or surface access, ``[object, {x, y}]``."""

    __slots__ = ("base", "coordinates", "offset")

    def __init__(self, base: Register | Symbol | None, offset: int, coordinates: tuple[Any, ...] = ()) -> None:
        self.base = base
        self.offset = offset
        self.coordinates = coordinates

    def __repr__(self) -> str:
        return f"[{self.base}+{self.offset}{''.join(f', {c}' for c in self.coordinates)}]"


class Vector:
    """``{a, b, …}``; also the argument lists of a call."""

    __slots__ = ("elements",)

    def __init__(self, elements: tuple[Any, ...]) -> None:
        self.elements = elements

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self.elements)) + "}"


class Pair:
    """``d|p``: a destination and a predicate (``shfl``, ``setp``, ``match``)."""

    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first = first
        self.second = second

    def __repr__(self) -> str:
        return f"{self.first}|{self.second}"


class Negated:
    """``!p`` as an operand."""

    __slots__ = ("register",)

    def __init__(self, register: Register) -> None:
        self.register = register

    def __repr__(self) -> str:
        return f"!{self.register}"


class Part:
    """``%r1.b0``, ``%r1.h10``, ``-%r1``: bytes or halves of a register, or its negation, in video instructions.
    ``selector`` is ``""`` for all of it."""

    __slots__ = ("negated", "register", "selector")

    def __init__(self, register: Register, selector: str, negated: bool = False) -> None:
        self.register = register
        self.selector = selector
        self.negated = negated

    def __repr__(self) -> str:
        return f"{'-' * self.negated}{self.register}{'.' * bool(self.selector)}{self.selector}"


class Discard:
    """The destination ``_``: the result is discarded."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


Operand = Register | Immediate | Symbol | Special | Address | Vector | Pair | Negated | Part | Discard


class Label:
    """A label in a function's body."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name}:"


class Instruction:
    """One instruction. ``guard`` is the predicate of ``@p`` or None; ``line`` is its PTX line.

    ``used_bytes`` is the mask of a load's bytes that are used, -1 for all: the compiler widens loads, and marks unused
    bytes by ``.pragma "used_bytes_mask …"``. ``nounroll``: preceded by a pragma of that name."""

    __slots__ = ("guard", "line", "location", "negated", "nounroll", "opcode", "operands", "used_bytes")

    def __init__(
        self,
        opcode: str,
        operands: tuple[Any, ...],
        line: int,
        location: Location,
        guard: Register | None = None,
        negated: bool = False,
        used_bytes: int = -1,
        nounroll: bool = False,
    ) -> None:
        self.opcode = opcode
        self.operands = operands
        self.line = line
        self.location = location
        self.guard = guard
        self.negated = negated
        self.used_bytes = used_bytes
        self.nounroll = nounroll

    def __repr__(self) -> str:
        guard = f"@{'!' if self.negated else ''}{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(map(repr, self.operands))};"


class Variable(Struct):
    """A variable in a state space. ``count`` is the number of elements; 0 for ``s[]`` (dynamic shared memory)."""

    name: str
    space: str
    type: str
    count: int = 1
    alignment: int = 0
    initial: list[Any] = field(default_factory=list)
    external: bool = False
    line: int = 0

    def __post_init__(self) -> None:
        self.alignment = self.alignment or self.element_bytes

    @property
    def element_bytes(self) -> int:
        return max(1, BITS[self.type] // 8)

    @property
    def size(self) -> int:
        return self.element_bytes * self.count


class Function(Struct):
    """``.entry`` (a kernel) or ``.func``. ``body`` is None for a declaration."""

    name: str
    is_kernel: bool
    parameters: list[Variable]
    returns: list[Variable]
    body: list[Label | Instruction] | None = None
    registers: list[Register] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    location: Location = field(default_factory=lambda: Location("", 0))

    def new_register(self, type: str) -> Register:
        """Add a virtual register that is not in the PTX."""
        register = Register(f"%new{len(self.registers)}", type, len(self.registers))
        self.registers.append(register)
        return register


class Module(Struct):
    """One translation unit. ``text`` is the PTX it was read from."""

    text: str
    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    visible: set[str] = field(default_factory=set)
    """What others may use (``linking.py``);"""
    weak: set[str] = field(default_factory=set)
    """and what of that others may define as well."""

    @property
    def kernels(self) -> list[Function]:
        return [function for function in self.functions.values() if function.is_kernel and function.body is not None]
