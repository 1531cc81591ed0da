"""One machine instruction: what it reads, writes and waits for.

An instruction of compute capability 7.0 to 9.0 has 128 bits. Besides opcode, guarding predicate and operands they hold
a *control field* (bits 105 to 125): hardware doesn't check for hazards between instructions of fixed latency, the
assembler counts the cycles and writes them there. For results of variable latency (loads, special functions) the
assembler uses six *scoreboards* of each warp: an instruction takes one until its result is written, or until its
operands are read, and a later one waits until it is free again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from msgspec import Struct

from cudalab.sim.compiler.machine_code.instruction_set import OPERATIONS, Operation, Pipe

SIZE = 16
"""Bytes of an instruction."""
_LOWER = (1 << 64) - 1

UNIFORM = 256
"""Registers are numbered through: R0 to R254 are 0 to 254, UR0 to UR62 begin here,"""
PREDICATE = 320
"""P0 to P6 here,"""
UNIFORM_PREDICATE = 328
"""and UP0 to UP6 here. RZ, URZ, PT and UPT, which are constant, have no number."""
_ZERO, _UNIFORM_ZERO, _ALWAYS = 255, 63, 7

_WIDTHS = (1, 1, 2, 2, 4, 8, 16, 16)
_ATOMIC_WIDTHS = (4, 4, 8, 4, 4, 8, 8, 8)  # u32, s32, u64, f32, f16x2, s64, f64, b64
_RELATIVE = frozenset(("BRA", "BSSY", "CALL", "JMP"))
_BRANCHES = frozenset(("BRA", "EXIT", "JMP"))
_ADDITIONS = frozenset(("IADD3", "VIADD", "UIADD3"))
_IMMEDIATE = 4  # the form whose second operand is an immediate
_COUNTS = (6, 7)  # forms of ATOMS that name no operand
_ENDS = _BRANCHES | {"BRX", "JMX", "BRXU", "RET", "KILL", "CALL"}


class Control(Struct, frozen=True):
    """What the assembler tells the warp scheduler."""

    stall: int
    """Cycles until the next instruction of the warp may issue."""
    yields: bool
    """Whether the scheduler should rather switch to another warp."""
    write_barrier: int
    """Scoreboard that is taken until the result is written; -1: none."""
    read_barrier: int
    """Scoreboard that is taken until the operands are read; -1: none."""
    waits: int
    """Bit *i*: scoreboard *i* must be free before this instruction issues."""
    reuse: int
    """Bit *i*: operand *i* is kept for the next instruction, which then doesn't load its register's bank."""


class MachineInstruction(Struct, frozen=True):
    """One instruction of the machine code."""

    offset: int
    """Bytes from the start of the function."""
    name: str
    """``LDS``, ``IMAD``, … without modifiers; ``""`` for an operation that is not known."""
    pipe: Pipe
    width: int
    """Bytes that one thread moves, for loads, stores and atomics; 0 for others."""
    writes: tuple[int, ...]
    """Registers and predicates, numbered through (see ``UNIFORM`` and so on)."""
    reads: tuple[int, ...]
    """The guard is among them."""
    guard: int
    """The predicate that switches lanes off; -1: none."""
    negated: bool
    """Whether the guard must be false."""
    control: Control
    target: int
    """Offset that a branch or a call goes to, or that of the point where lanes converge (``BSSY``); -1: none, or it
    stands in a register."""
    ptx_line: int
    """Line of the PTX, 0 where none is named."""
    words: tuple[int, int]
    """The instruction itself: its lower and its upper 64 bits."""

    @property
    def guarded(self) -> bool:
        """Whether it is predicated."""
        return self.guard >= 0

    @property
    def ends_block(self) -> bool:
        """Whether the next instruction may be another one than that behind it."""
        return self.name in _ENDS

    @property
    def conditional(self) -> bool:
        """Of those: whether it may also go on behind itself. ``BRA P0`` asks for a predicate beside its guard."""
        return self.guarded or self.name in _BRANCHES and len(self.reads) > 0

    @property
    def asks_divergence(self) -> bool:
        """``BRA.DIV``: it branches where lanes that the register names are not active, to code that does for each of
        them alone what follows here for all."""
        return self.name == "BRA" and bool(self.words[1] >> 27 & 1)

    @property
    def counts_lanes(self) -> bool:
        """``ATOMS.POPC.INC``, an addition of one whose result is not used: lanes that name the same word are counted,
        and their number is added at once."""
        return self.name == "ATOMS" and self.words[0] >> 9 & 7 in _COUNTS

    @property
    def copies_left(self) -> int:
        """``DEPBAR.LE SB0, n``: the groups of asynchronous copies, taken by ``LDGDEPBAR``, that may still be under way;
        0 for other instructions."""
        return self.words[0] >> 38 & 63 if self.name == "DEPBAR" else 0

    @property
    def advance(self) -> int:
        """What it adds to its own register, as a counter of a loop does; 0: it is no such instruction."""
        counts = self.name in _ADDITIONS and self.words[0] >> 9 & 7 == _IMMEDIATE and self.reads == self.writes != ()
        value = self.words[0] >> 32
        return (value - (value >> 31 << 32)) if counts else 0


def register_name(register: int) -> str:
    """``R7``, ``UR4``, ``P0`` or ``UP1``."""
    for first, name in ((UNIFORM_PREDICATE, "UP"), (PREDICATE, "P"), (UNIFORM, "UR"), (0, "R")):
        if register >= first:
            return f"{name}{register - first}"
    raise ValueError(f"register {register}: registers are numbered from 0")


def decode(
    word: int, offset: int, ptx_line: int, operations: Mapping[int, Operation] = OPERATIONS
) -> MachineInstruction:
    """The instruction that these 128 bits, as an integer, say, with the ``operations`` of its architecture. Reads
    another one's operands as far as it is known: ``name`` is empty otherwise."""
    operation = operations.get(word & 0x1FF) or operations.get(word & 0xFFF)
    index = word >> 12 & 7
    guard = -1 if index == _ALWAYS else index + (UNIFORM_PREDICATE if _is_uniform(operation) else PREDICATE)
    writes, reads, width = _operands(word, operation) if operation is not None else ((), (), 0)
    if guard >= 0:
        reads = (*reads, guard)
    return MachineInstruction(
        offset,
        operation.name if operation is not None else "",
        operation.pipe if operation is not None else Pipe.NONE,
        width,
        writes,
        reads,
        guard,
        bool(word >> 15 & 1),
        _control(word >> 105),
        _target(word, offset, operation.name == "BSSY")
        if operation is not None and operation.name in _RELATIVE
        else -1,
        ptx_line,
        (word & _LOWER, word >> 64),
    )


def _is_uniform(operation: Operation | None) -> bool:
    return operation is not None and (operation.pipe is Pipe.UNIFORM or operation.name == "S2UR")


@cache
def _control(bits: int) -> Control:
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return Control(
        stall=bits & 15,
        yields=not bits >> 4 & 1,
        write_barrier=-1 if write == 7 else write,
        read_barrier=-1 if read == 7 else read,
        waits=bits >> 11 & 63,
        reuse=bits >> 17 & 15,
    )


def _target(word: int, offset: int, barrier: bool) -> int:
    """Where a relative branch goes: bits 34 to 81 and, below them, 16 to 23 count words of 4 bytes from the next
    instruction. ``BSSY`` has its ``barrier`` in those low bits, and the distance, never negative, in bits 34 to 63."""
    if word >> 9 & 7 == 1:  # the address is relative to a register
        return -1
    if barrier:
        return offset + SIZE + 4 * (word >> 34 & (1 << 30) - 1)
    distance = word >> 34 & (1 << 48) - 1
    if distance >> 47:
        distance -= 1 << 48
    return offset + SIZE + 4 * (distance << 8 | word >> 16 & 0xFF)


_Place = tuple[int, int, int, int, int]
"""Bit, mask, number of the first register, that of the constant one, bit that says whether there is one (or 0)."""
_ANY, _HAS_UNIFORM, _REDUCES = 0, 91, 78

_FIXED: dict[str, _Place] = {
    **{key: (bit, 255, 0, _ZERO, _ANY) for key, bit in (("d", 16), ("D", 16), ("a", 24), ("B", 32), ("C", 64))},
    **{key: (bit, 63, UNIFORM, _UNIFORM_ZERO, _ANY) for key, bit in (("ud", 16), ("ua", 24), ("uB", 32), ("uC", 64))},
    **{key: (bit, 63, UNIFORM, _UNIFORM_ZERO, _HAS_UNIFORM) for key, bit in zip("WUXV", (24, 32, 40, 64), strict=True)},
    **{key: (bit, 7, PREDICATE, _ALWAYS, _ANY) for key, bit in zip("pqrst", (81, 84, 87, 77, 68), strict=True)},
    **{
        "u" + key: (bit, 7, UNIFORM_PREDICATE, _ALWAYS, _ANY)
        for key, bit in zip("pqrst", (81, 84, 87, 77, 68), strict=True)
    },
    "k": (87, 7, PREDICATE, _ALWAYS, _REDUCES),
    "Y": (24, 7, UNIFORM_PREDICATE, _ALWAYS, _HAS_UNIFORM),
}
_WRITTEN = frozenset(("d", "ud", "p", "q", "up", "uq"))


class _Layout(Struct, frozen=True):
    """Where an operation in one form has its operands: places and their numbers of registers."""

    writes: tuple[tuple[_Place, str], ...]
    reads: tuple[tuple[_Place, str], ...]


@cache
def _layout(opcode: int, operands: str) -> _Layout:
    form = opcode >> 9
    writes: list[tuple[_Place, str]] = []
    reads: list[tuple[_Place, str]] = []
    for part in operands.split():
        key, _, number = part.partition(":")
        place = _place(key, form)
        if place is not None:
            (writes if key in _WRITTEN else reads).append((place, number or "1"))
    return _Layout(tuple(writes), tuple(reads))


def _place(key: str, form: int) -> _Place | None:
    """Where an operand stands in this form; None where it is no register."""
    if key in _FIXED:
        return _FIXED[key]
    prefix = "u" if key.startswith("u") else ""
    found = _BY_FORM.get(key.removeprefix("u"), {}).get(form)
    return _FIXED[found if found == "U" else prefix + found] if found is not None else None


_BY_FORM: dict[str, dict[int, str]] = {
    "b": {0: "B", 1: "B", 2: "C", 3: "C", 6: "U", 7: "C"},
    "c": {0: "C", 1: "C", 4: "C", 5: "C", 6: "C", 7: "U"},
    "e": {0: "B", 1: "B", 6: "U", 7: "U"},
    "f": dict.fromkeys(range(7), "B"),
    "g": {4: "C"},
    "l": {1: "a"},
    "m": {1: "B", 2: "B"},
    "n": {1: "C", 4: "C"},
}
"""Where an operand stands whose place depends on the form."""

_ALL: dict[str, tuple[int, ...]] = {
    "P": tuple(range(PREDICATE, PREDICATE + 7)),
    "UP": tuple(range(UNIFORM_PREDICATE, UNIFORM_PREDICATE + 7)),
}


def _operands(word: int, operation: Operation) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Registers written, registers read, and bytes moved."""
    layout = _layout(word & 0xFFF, operation.operands)
    width = _MOVED[operation.operands.count(":w") > 0, operation.operands.count(":A") > 0](word)
    writes = tuple(_registers(word, layout.writes, width))
    reads = tuple(_registers(word, layout.reads, width, source=True))
    for key, group in _ALL.items():
        if f" {key}" in operation.operands:
            reads += group
    return writes, reads, width


_MOVED: dict[tuple[bool, bool], Callable[[int], int]] = {
    (False, False): lambda word: 0,
    (True, False): lambda word: _WIDTHS[word >> 73 & 7],
    (False, True): lambda word: _ATOMIC_WIDTHS[word >> 73 & 7],
}


def _registers(word: int, places: tuple[tuple[_Place, str], ...], width: int, source: bool = False) -> Iterator[int]:
    for (bit, mask, first, constant, needed), number in places:
        register = word >> bit & mask
        if register == constant or needed and not word >> needed & 1:
            continue
        if number == "1":
            count = 1
        elif number in "wA":
            count = max(1, width // 4)
        elif number == "T":
            count = 2 if word >> (84 if source else 75) & 3 == 3 else 1
        else:
            count = int(number)
        yield from range(first + register, min(first + register + count, first + constant))
