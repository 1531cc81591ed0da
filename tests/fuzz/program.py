"""Random programs as data: what the emitter writes as CUDA C++ and the interpreter executes.

A program is one kernel with its launch. It is well defined by construction: every thread writes places of its own
between barriers, operations on shared totals commute, and statements in which threads meet (``Exchange``, ``Totals``,
``Vote`` …) carry their barriers with them and stand only where all threads, or all lanes of a mask, come by.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from tests.fuzz.operation import Operation
from tests.fuzz.scalar import I32, Scalar

# ----------------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Constant:
    type: Scalar
    value: int | float


@dataclass(frozen=True)
class Variable:
    """A local variable, a parameter, or one of ``SPECIALS``."""

    type: Scalar
    name: str


@dataclass(frozen=True)
class Member:
    type: Scalar
    variable: str
    member: str


@dataclass(frozen=True)
class Apply:
    operation: Operation
    operands: tuple[Expression, ...]

    @property
    def type(self) -> Scalar:
        return self.operation.result


@dataclass(frozen=True)
class Convert:
    """A C++ conversion that is always defined (no float to integer)."""

    type: Scalar
    operand: Expression


@dataclass(frozen=True)
class Choose:
    """``condition ? yes : no``, both of one type."""

    condition: Expression
    yes: Expression
    no: Expression

    @property
    def type(self) -> Scalar:
        return self.yes.type


@dataclass(frozen=True)
class Element:
    """An element of an array by a 32-bit unsigned index, taken modulo the array's length."""

    type: Scalar
    array: str
    index: Expression


@dataclass(frozen=True)
class Call:
    """A device function, directly or through a table of functions (``among``, chosen by ``selector``)."""

    type: Scalar
    function: str
    arguments: tuple[Expression, ...]
    among: tuple[str, ...] = ()
    selector: Expression | None = None


Expression = Constant | Variable | Member | Apply | Convert | Choose | Element | Call

# ------------------------------------------------------------------------------------------------------ statements


@dataclass(frozen=True)
class Let:
    name: str
    value: Expression


@dataclass(frozen=True)
class LetArray:
    """A local array; its length is a power of two."""

    name: str
    type: Scalar
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class LetStruct:
    name: str
    struct: str
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Assign:
    """``target`` is a variable, a member, an element of a local array, or a thread's own place in a buffer."""

    target: Variable | Member | Element
    value: Expression


@dataclass(frozen=True)
class If:
    """``uniform``: all threads of the block take the same way, so barriers may stand inside."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()
    uniform: bool = False


@dataclass(frozen=True)
class For:
    """``for (int name = 0; name < count; name += 1)``; ``count`` is taken modulo ``limit``, unless it is a constant."""

    name: str
    count: Expression
    limit: int
    body: tuple[Statement, ...]
    uniform: bool = False
    style: str = "for"
    """``for``, ``unroll``, ``while`` or ``do``: how it is written; with ``do`` the body runs once at least."""


@dataclass(frozen=True)
class While:
    """At most ``limit`` rounds, counted in ``name``."""

    name: str
    condition: Expression
    limit: int
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Case:
    values: tuple[int, ...]
    """Empty: ``default``."""
    body: tuple[Statement, ...]
    falls_through: bool = False


@dataclass(frozen=True)
class Switch:
    selector: Expression
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Break:
    pass


@dataclass(frozen=True)
class Continue:
    pass


@dataclass(frozen=True)
class Return:
    value: Expression | None = None


@dataclass(frozen=True)
class Barrier:
    """``__syncthreads()``, or one that counts (``count``, ``and``, ``or``) into a new int ``name``."""

    kind: str = ""
    name: str = ""
    condition: Expression | None = None


@dataclass(frozen=True)
class Exchange:
    """Each thread writes one element of ``array``, all meet, the body reads any element, all meet again.

    The array's role says who meets: ``meeting``, the block; ``warp``, each warp on its own part of it. Thread ``t`` of
    ``n`` writes element ``(t * factor + offset) % n``; ``factor`` has no divisor in common with ``n``.
    """

    array: str
    factor: int
    offset: int
    value: Expression
    before: tuple[Statement, ...]
    """Between the store and the first barrier."""
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Totals:
    """Eight totals in shared memory: cleared, updated by atomic operations in ``before``, read in ``body``."""

    array: str
    before: tuple[Statement, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Accumulate:
    """An atomic operation on one of the eight totals of ``array``; its result is not looked at."""

    array: str
    index: Expression
    value: Expression
    by_exchange: bool = False
    """Written as a loop around ``atomicCAS``."""


@dataclass(frozen=True)
class OwnAtomic:
    """An atomic operation on a place that no other thread touches; ``name`` is its old value."""

    name: str
    kind: str
    array: str
    index: Expression
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Shuffle:
    """``name`` is the value of another lane, or the lane's own where that lane takes no part."""

    name: str
    kind: str
    mask: str
    value: Expression
    lane: Expression
    width: int


@dataclass(frozen=True)
class Vote:
    """``kind``: all, any, ballot, uni; ``name`` is a new u32 or bool."""

    name: str
    kind: str
    mask: str
    condition: Expression


@dataclass(frozen=True)
class Match:
    """``kind``: any or all; ``name`` is a new u32."""

    name: str
    kind: str
    mask: str
    value: Expression


@dataclass(frozen=True)
class Reduce:
    """``__reduce_KIND_sync`` of 32-bit integers."""

    name: str
    kind: str
    mask: str
    value: Expression


@dataclass(frozen=True)
class SyncWarp:
    mask: str


@dataclass(frozen=True)
class WarpIf:
    """A branch on which the lanes agree by a vote: either side knows its mask, ``mask_then`` or ``mask_else``."""

    mask: str
    condition: Expression
    mask_then: str
    then: tuple[Statement, ...]
    mask_else: str
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True)
class Groups:
    """Lanes with equal ``key`` make a group, whose mask is ``group``."""

    mask: str
    key: Expression
    group: str
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Dwindle:
    """A loop that lanes leave one after the other; those that go on know each other by the mask ``left``."""

    mask: str
    name: str
    condition: Expression
    limit: int
    left: str
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Stride:
    """A grid-stride loop over ``array``, an output: element ``name`` becomes ``value``, after ``body``."""

    array: str
    name: str
    body: tuple[Statement, ...]
    value: Expression

    def store(self) -> Assign:
        """The statement that ends each round."""
        return Assign(Element(self.value.type, self.array, Variable(I32, self.name)), self.value)


@dataclass(frozen=True)
class Sequence:
    """Statements one after the other, without a scope of their own."""

    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Block:
    """``{ … }``."""

    body: tuple[Statement, ...]


Statement = (
    Let | LetArray | LetStruct | Assign | If | For | While | Switch | Break | Continue | Return | Barrier | Exchange
    | Totals | Accumulate | OwnAtomic | Shuffle | Vote | Match | Reduce | SyncWarp | WarpIf | Groups | Dwindle | Stride
    | Sequence | Block
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------ whole programs

SPECIALS = {
    "tx": "(int)threadIdx.x",
    "ty": "(int)threadIdx.y",
    "tz": "(int)threadIdx.z",
    "bx": "(int)blockIdx.x",
    "by": "(int)blockIdx.y",
    "bz": "(int)blockIdx.z",
    "dx": "(int)blockDim.x",
    "dy": "(int)blockDim.y",
    "gx": "(int)gridDim.x",
}
"""Always there, as ints; ``tid`` (in the block), ``gid`` (in the grid) and ``lane`` are, too."""


@dataclass(frozen=True)
class Struct:
    name: str
    members: tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class Parameter:
    """A scalar parameter, or one of a struct type: ``values`` are its members."""

    name: str
    type: Scalar | None
    values: tuple[int | float, ...]
    struct: str = ""


@dataclass(frozen=True)
class Array:
    """Memory of the program.

    ``role``: ``input`` (global, read only), ``output`` (one element a thread), ``own`` (four elements a thread),
    ``stride`` (an output of any length), ``total`` (eight elements, atomics of one ``operation``), ``meeting`` and
    ``warp`` (an element a thread, for exchanges), ``constant`` (``__constant__``), ``table`` (``__device__``).
    ``space``: ``global``, ``shared``, ``dynamic`` (shared memory sized at launch) or ``module``.
    """

    name: str
    type: Scalar
    role: str
    space: str
    length: int
    """Elements; for ``meeting`` in shared memory, of one block."""
    operation: str = ""
    seed: int = 0
    """What inputs and module variables are filled from."""


@dataclass(frozen=True)
class Function:
    name: str
    parameters: tuple[tuple[str, Scalar], ...]
    result: Scalar
    body: tuple[Statement, ...]
    qualifier: str = ""
    """``__forceinline__``, ``__noinline__`` or nothing."""


@dataclass(frozen=True)
class Program:
    seed: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: tuple[Parameter, ...] = ()
    arrays: tuple[Array, ...] = ()
    structs: tuple[Struct, ...] = ()
    functions: tuple[Function, ...] = ()
    body: tuple[Statement, ...] = ()
    launch_bounds: bool = False
    noinline_warp: bool = False
    headers: tuple[str, ...] = field(default=())

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def name(self) -> str:
        return f"k{self.seed}"


def nodes(thing: Any) -> list[Any]:
    """All parts of a program or a part of it, itself first."""
    found = [thing]
    for each in fields(thing):
        value = getattr(thing, each.name)
        values = value if isinstance(value, tuple) else (value,)
        for item in values:
            if is_dataclass(item) and not isinstance(item, (Scalar, Operation)):
                found += nodes(item)
    return found


def used_names(program: Program) -> set[str]:
    """Names of arrays and functions that the program's statements mention."""
    found: set[str] = set()
    for node in nodes(program):
        if isinstance(node, (Element, Exchange, Totals, Accumulate, OwnAtomic, Stride)):
            found.add(node.array)
        elif isinstance(node, Call):
            found.add(node.function)
            found.update(node.among)
    return found


def without_unused(program: Program) -> Program:
    """Drop arrays, functions and structs that nothing uses."""
    for _ in range(4):
        used = used_names(program)
        structs = {node.struct for node in nodes(program) if isinstance(node, (LetStruct, Parameter))}
        program = replace(
            program,
            arrays=tuple(array for array in program.arrays if array.name in used),
            functions=tuple(function for function in program.functions if function.name in used),
            structs=tuple(struct for struct in program.structs if struct.name in structs),
        )
    return program
