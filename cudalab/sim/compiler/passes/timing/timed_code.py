"""The code of a kernel as the time model executes it: basic blocks with their data dependences.

The transformations of ptxas are modelled as far as they are known to matter: moves, parameter loads and address space
conversions are free; shared memory addresses have 32 bits; a single-block loop with a computable trip count is unrolled
four times; adjacent loads from shared memory are vectorised. Register pressure, register bank conflicts and the
instruction cache are not modelled. A learner would notice in kernels with very long loop bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cudalab.sim.compiler.passes.control_flow import Block, End
from cudalab.sim.compiler.passes.instruction_classes import classify
from cudalab.sim.compiler.passes.operands import has_destination, operation_name
from cudalab.sim.compiler.passes.suspension import PREREQUISITE_WAIT, TRIGGER
from cudalab.sim.compiler.ptx.nodes import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Pair,
    Part,
    Register,
    Special,
    Symbol,
    Vector,
)
from cudalab.sim.compiler.semantics import semantics_of
from cudalab.sim.compiler.timed_code import TimedBlock, TimedCode, TimedInstruction

UNROLL = 4
"""ptxas's unroll factor for single-block loops (from the issue rate of such loops on an H200)."""
_MOST_UNROLLED = 64
"""The longest loop body, in instructions, that it unrolls."""
_SUSPENDING = ("barrier", "named_barrier", "object_wait", "cluster_barrier", "shuffle")
_LOADS = ("load", "shared_load", "constant_load", "atomic", "shared_atomic", "cluster_load", "cluster_atomic")
_MOVES = ("add", "mad", "sub", "mov", "selp", "cvta", "cvt", "or", "shl", "and", "bfi")
_DISTRIBUTED = {"load": "cluster_load", "atomic": "cluster_atomic", "store": "cluster_store"}
_OF_THE_GRID = {"load": "grid_look", "atomic": "grid_arrive"}
_MERGED = ("ld.shared.f32", "ld.shared.u32", "ld.shared.s32", "ld.shared.b32")


class _Timed:
    """An instruction while its class may still change."""

    __slots__ = ("address", "behind", "control", "guard", "instruction", "kind", "name", "reads", "writes")

    def __init__(self, instruction: Instruction, numbers: _Numbers) -> None:
        operands = instruction.operands
        self.instruction = instruction
        self.name = operation_name(instruction.opcode)
        self.kind = classify(instruction)
        writes: list[int] = []
        reads: list[int] = []
        if self.kind not in ("branch", "heap") and operands:
            if has_destination(instruction.opcode):
                numbers.collect(operands[0], writes)
                operands = operands[1:]
            for operand in operands:
                numbers.collect(operand, reads)
        self.guard = -1
        if instruction.guard is not None:
            self.guard = numbers.of(instruction.guard)
            reads.append(self.guard)
        self.writes, self.reads = tuple(writes), tuple(reads)
        self.address = numbers.address(instruction)
        self.behind = _left_behind(instruction) if self.kind == "async_wait" else 0
        self.control = False

    def finished(self) -> TimedInstruction:
        bulk = expects_bytes = False
        if self.name in ("cp", "mbarrier"):
            semantics = semantics_of(self.instruction.opcode)
            bulk, expects_bytes = semantics.bulk, semantics.expects_bytes
        return TimedInstruction(
            self.kind,
            self.writes,
            self.reads,
            self.instruction.line,
            self.address,
            self.control,
            self.behind,
            bulk,
            expects_bytes,
        )


class _Block:
    """A basic block under construction. ``forward``: positions of later blocks that it may branch to."""

    __slots__ = ("forward", "instructions", "polls_grid", "repeats", "site", "target")

    def __init__(self, site: int, instructions: list[_Timed], repeats: int) -> None:
        self.site = site
        self.instructions = instructions
        self.repeats = repeats
        self.target = -1
        self.forward: list[int] = []
        self.polls_grid = False


class _Numbers:
    """Dense numbering of registers, symbols and special registers."""

    def __init__(self) -> None:
        self._known: dict[Register | str, int] = {}
        self.grid: set[int] = set()
        """The special registers that hold the address of the grid's workspace."""

    def of(self, place: Register | Symbol | Special) -> int:
        kind = type(place)
        number = self._known.setdefault(place if kind is Register else place.name, len(self._known))  # type: ignore[arg-type]
        if kind is Special and place.name.startswith("%envreg"):
            self.grid.add(number)
        return number

    def collect(self, operand: Any, found: list[int]) -> None:
        """Append the numbers that an operand refers to."""
        kind = type(operand)
        if kind is Register or kind is Symbol or kind is Special:
            found.append(self.of(operand))
        elif kind is Address:
            if operand.base is not None:
                found.append(self.of(operand.base))
            for coordinate in operand.coordinates:
                self.collect(coordinate, found)
        elif kind is Vector:
            for element in operand.elements:
                self.collect(element, found)
        elif kind is Pair:
            self.collect(operand.first, found)
            self.collect(operand.second, found)
        elif kind is Negated or kind is Part:
            found.append(self.of(operand.register))

    def address(self, instruction: Instruction) -> tuple[int, int] | None:
        for operand in instruction.operands:
            if type(operand) is Address and operand.base is not None and not operand.coordinates:
                return self.of(operand.base), operand.offset
        return None


def _left_behind(wait: Instruction) -> int:
    if "wait_all" in wait.opcode:
        return -1
    most = wait.operands[0] if wait.operands else None
    return most.value if type(most) is Immediate else 0


def time_code(functions: Sequence[tuple[list[Block], list[int]]]) -> TimedCode:
    """The timed code of a kernel.

    Args:
        functions: basic blocks and their sites, of the functions among the kernel's sites and last of the kernel.
    """
    numbers = _Numbers()
    blocks: list[_Block] = []
    for each, sites in functions:
        _read(each, sites, blocks, numbers)
    _turn_around(blocks)
    blocks = _joined(blocks)
    everything = [each for block in blocks for each in block.instructions]
    _narrow_shared_addresses(everything)
    _find_distributed_accesses(everything)
    _find_grid_barriers(blocks, everything, numbers.grid)
    for position, block in enumerate(blocks):
        if block.target != position or len(block.instructions) > _MOST_UNROLLED or not _countable(block):
            block.repeats = 1
        elif block.repeats > 1:
            _mark_control(block)
    loops = [(block.target, index) for index, block in enumerate(blocks) if 0 <= block.target <= index]
    return TimedCode(
        tuple(
            TimedBlock(
                block.site,
                tuple(each.finished() for each in block.instructions),
                block.target,
                block.repeats,
                block.polls_grid,
            )
            for block in blocks
        ),
        _follows_data(everything),
        _wide_loads(blocks),
        tuple(sorted(loops, key=lambda loop: (loop[0], -loop[1]))),
        _lines(everything, TRIGGER),
        _lines(everything, PREREQUISITE_WAIT),
    )


def _lines(everything: Sequence[_Timed], opcode: str) -> tuple[int, ...]:
    """The PTX lines of an instruction without operands."""
    return tuple(each.instruction.line for each in everything if each.instruction.opcode == opcode)


def _read(blocks: list[Block], sites: list[int], found: list[_Block], numbers: _Numbers) -> None:
    """Append the blocks of one function."""
    first = len(found)
    for block, site in zip(blocks, sites, strict=True):
        instructions = [_Timed(each, numbers) for each in block.written]
        rolled = any(each.nounroll or ".volatile" in each.opcode for each in block.written)
        found.append(_Block(site, instructions, 1 if rolled else UNROLL))
    for index, block in enumerate(blocks):
        if not block.written or operation_name(block.written[-1].opcode) != "bra":
            continue
        target = first + _behind_polls(blocks, block.successors[0])
        if target <= first + index:
            found[first + index].target = target
        else:
            found[first + index].forward.append(target)


def _behind_polls(blocks: list[Block], index: int) -> int:
    """The target of a branch in the PTX: skips the empty blocks that ``polling`` inserts on edges."""
    while not blocks[index].written and blocks[index].successors:
        block = blocks[index]
        index = block.successors[1 if block.end is End.POLL else 0]
    return index


def _made_from(everything: Sequence[_Timed], first: set[int]) -> set[int]:
    """Registers whose values derive from those of ``first``, which is extended in place."""
    moves = [each for each in everything if each.name in _MOVES]
    before = -1
    while len(first) != before:
        before = len(first)
        for each in moves:
            if first.intersection(each.reads):
                first.update(each.writes)
    return first


def _find_distributed_accesses(everything: Sequence[_Timed]) -> None:
    """Mark accesses through pointers derived from ``mapa``: they reach another block's shared memory."""
    mapped = {register for each in everything if each.name == "mapa" for register in each.writes}
    for each in everything if _made_from(everything, mapped) else ():
        if each.address and each.address[0] in mapped:
            each.kind = _DISTRIBUTED.get(each.kind, each.kind)


def _find_grid_barriers(blocks: Sequence[_Block], everything: Sequence[_Timed], workspace: set[int]) -> None:
    """Mark atomics and loads through the workspace address in %envreg1 and %envreg2: they implement the grid's
    barrier."""
    given = {register for each in everything if workspace.intersection(each.reads) for register in each.writes}
    if not _made_from(everything, given):
        return
    for block in blocks:
        for each in block.instructions:
            if each.address and each.address[0] in given:
                each.kind = _OF_THE_GRID.get(each.kind, each.kind)
                block.polls_grid = block.polls_grid or each.kind == "grid_look"


def _narrow_shared_addresses(everything: Sequence[_Timed]) -> None:
    """Model shared memory addresses of 32 bits, with the offset from the array's start folded into the access."""
    needed = {
        each.address[0]
        for each in everything
        if each.address and each.kind in ("shared_load", "shared_atomic", "shared_store")
    }
    before = -1
    while len(needed) != before:
        before = len(needed)
        for each in everything:
            if each.kind == "long" and needed.intersection(each.writes):
                each.kind = "free" if each.name == "add" else "logic"
                needed.update(each.reads)


def _countable(block: _Block) -> bool:
    """Whether the trip count is computable on entry: the branch depends on a register incremented by a constant in
    every iteration, and the loop contains no barrier or warp operation."""
    writers = {register: each for each in block.instructions for register in each.writes}
    if any(each.kind in _SUSPENDING for each in block.instructions):
        return False

    def counts(register: int, depth: int = 0) -> bool:
        writer = writers.get(register)
        if writer is None or writer.reads == writer.writes:
            return True
        return writer.kind in ("add", "long") and depth < 4 and all(counts(each, depth + 1) for each in writer.reads)

    compares = [writers.get(name) for each in block.instructions if each.kind == "branch" for name in each.reads]
    return all(
        compare is not None and compare.name == "setp" and all(counts(name) for name in compare.reads)
        for compare in compares
    )


def _turn_around(blocks: Sequence[_Block]) -> None:
    """Fold ``@p bra out; bra head;`` at the end of a loop into one branch to its header, as in machine code."""
    for before, block in zip(blocks, blocks[1:], strict=False):
        alone = [each.kind for each in block.instructions] == ["branch"]
        ends = before.instructions and before.instructions[-1].kind == "branch"
        if alone and ends and block.target >= 0 and before.target < 0 and before.forward:
            before.target, block.target = block.target, -1
            before.repeats = min(before.repeats, block.repeats)
            block.instructions.clear()


def _joined(blocks: list[_Block]) -> list[_Block]:
    """Merge blocks that only a barrier or a warp operation separates: on hardware neither ends a basic block."""
    targets = {block.target for block in blocks if block.target >= 0} | {
        target for block in blocks for target in block.forward
    }
    kept: list[_Block] = []
    place: list[int] = []
    for position, block in enumerate(blocks):
        before = kept[-1] if kept else None
        ends = before.instructions[-1].kind if before and before.instructions else ""
        if before and ends in _SUSPENDING and position not in targets:
            before.instructions += block.instructions
            before.target, before.repeats = block.target, min(before.repeats, block.repeats)
        else:
            kept.append(block)
        place.append(len(kept) - 1)
    for block in kept:
        if block.target >= 0:
            block.target = place[block.target]
    return kept


def _mark_control(block: _Block) -> None:
    """Mark loop control: the branch, its comparison, and increments of a register by a constant."""
    needed = {register for each in block.instructions if each.kind == "branch" for register in each.reads}
    for each in block.instructions:
        compares = each.kind in ("logic", "long") and bool(needed.intersection(each.writes))
        counts = each.kind in ("add", "long") and each.writes == each.reads
        each.control = each.kind == "branch" or compares or counts


def _wide_loads(blocks: Sequence[_Block]) -> tuple[tuple[int, ...], ...]:
    """PTX lines of 4-byte shared loads that the assembler merges into one load of 8 or 16 bytes: adjacent, through one
    register, in one block."""
    found: list[tuple[int, ...]] = []
    for block in blocks:
        groups: dict[int, list[tuple[int, int]]] = {}
        for each in block.instructions:
            if each.kind == "shared_load" and each.address and each.instruction.opcode in _MERGED:
                groups.setdefault(each.address[0], []).append((each.address[1], each.instruction.line))
            for register in each.writes:
                if each.kind != "shared_load" and register in groups:
                    found += _neighbours(groups.pop(register))
        for group in groups.values():
            found += _neighbours(group)
    return tuple(found)


def _neighbours(group: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Lines of two or four loads at adjacent offsets, from pairs of offset and line."""
    runs: list[list[tuple[int, int]]] = []
    for offset, line in sorted(group, key=lambda each: each[0]):
        if runs and len(runs[-1]) < 4 and offset == runs[-1][-1][0] + 4:
            runs[-1].append((offset, line))
        else:
            runs.append([(offset, line)])
    return [tuple(line for _, line in run) for run in runs if len(run) in (2, 4)]


def _follows_data(everything: Sequence[_Timed]) -> bool:
    loaded: set[int] = set()
    before = -1
    while len(loaded) != before:
        before = len(loaded)
        for each in everything:
            if each.kind in _LOADS or loaded.intersection(each.reads):
                loaded.update(each.writes)
    return any((each.address is not None and each.address[0] in loaded) or each.guard in loaded for each in everything)
