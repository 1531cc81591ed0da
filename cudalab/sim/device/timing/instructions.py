"""A kernel's instructions as the time model sees them: its basic blocks, read from the PTX, with what waits for what.

What the assembler does to PTX is followed as far as it is known to matter: moves, parameter loads and address space
conversions cost nothing; addresses of shared memory have 32 bits; a loop that consists of one basic block, and whose
rounds can be counted before, is unrolled four times; neighbouring loads from shared memory become wide ones. Register
pressure, bank conflicts of registers and the cache of instructions are left out. A learner would notice in kernels with
very many instructions in a loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cudalab.sim.abi import SiteKind
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.device.timing.pipes import classify

UNROLL = 4
"""How often ptxas repeats the body of a loop of one basic block (seen in the issue rate of such loops on an H200)."""
_MOST_UNROLLED = 64
"""Instructions of a body beyond which it does not."""


@dataclass
class Instruction:
    """One PTX instruction: its class, and the registers that it writes and reads."""

    kind: str
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    opcode: str = ""
    guard: str = ""
    address: tuple[str, int] | None = None
    """Of accesses: the register that holds the address, and the offset."""
    line: int = 0
    control: bool = False
    """Does it only count a loop's rounds? A loop that is unrolled needs it once."""
    behind: int = 0
    """Of a wait for groups of copies: how many of the latest may still be on their way; -1: not even one without a
    group."""


@dataclass
class Block:
    """A basic block."""

    site: int
    """Index of its site in the kernel."""
    instructions: list[Instruction] = field(default_factory=list)
    target: int = -1
    """Position of the block, this one or one before it, that it may branch to; -1: none."""
    forward: list[int] = field(default_factory=list)
    """Positions of blocks further down that it may branch to."""
    repeats: int = 1
    """How many rounds of a loop the assembler makes one of."""
    looks: bool = False
    """Does it look again and again whether the grid has met? What it waits for, the barrier's latency says."""


@dataclass
class Code:
    """The basic blocks of one kernel, in the order of the PTX."""

    blocks: list[Block]

    def __post_init__(self) -> None:
        self.follows_data = _follows_data(self.blocks)
        """Do addresses or branches depend on what was loaded? Then a launch may need other time with other data."""
        self.wide_loads = wide_loads(self)
        """Lines of shared loads that become one."""
        self.loops = sorted(
            ((block.target, index) for index, block in enumerate(self.blocks) if 0 <= block.target <= index),
            key=lambda loop: (loop[0], -loop[1]),
        )


_REGISTER = re.compile(r"(?<![\w$.])[%$A-Za-z_][\w$.]*")
_STATEMENT = re.compile(r"^(?:@(!?)([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.DOTALL)
_CALL = re.compile(r"\s*(?:@\S+\s+)?call\b")
_SUSPENDING = ("barrier", "named_barrier", "object_wait", "cluster_barrier", "shuffle")
_NO_RESULT = ("st", "red", "bra", "bar", "barrier", "ret", "exit", "membar", "fence", "trap", "brx", "call")


def read_code(ptx: str, kernel: Kernel) -> Code:
    """The basic blocks of ``kernel`` out of its module's PTX."""
    return _read(ptx.split("\n"), kernel)


def _read(lines: Sequence[str], kernel: Kernel) -> Code:
    blocks: list[Block] = []
    firsts: dict[int, int] = {}
    jumps: list[tuple[int, str]] = []
    taken: dict[int, int] = {}  # of a line: instructions that belong to the block before; inline PTX may have several
    for index, site in enumerate(kernel.sites):
        if site.kind != SiteKind.BLOCK:
            continue
        block = Block(index)
        number = site.ptx_line - 1
        firsts.setdefault(site.ptx_line, len(blocks))
        unrolled = not any("nounroll" in text for text in lines[max(0, number - 2) : number])
        while len(block.instructions) < site.instructions and 0 <= number < len(lines):
            unrolled = unrolled and "nounroll" not in lines[number] and ".volatile" not in lines[number]
            text = lines[number]
            while _CALL.match(text) and ";" not in text and number + 1 < len(lines):
                number += 1  # a call stands in several lines
                text += lines[number]
            statements = _statements(text)[taken.get(number, 0) :]
            room = site.instructions - len(block.instructions)
            if len(statements) > room:
                taken[number] = taken.get(number, 0) + room
            for guard, opcode, operands in statements[:room]:
                if opcode.startswith("bra"):
                    jumps.append((len(blocks), operands.split()[-1]))
                block.instructions.append(_instruction(opcode, operands, guard, number + 1))
            number += 1
        block.repeats = UNROLL if unrolled else 1
        blocks.append(block)
    _resolve(lines, blocks, firsts, jumps)
    _turn_around(blocks)
    blocks = _joined(blocks)
    _narrow_shared_addresses(blocks)
    _find_distributed_accesses(blocks)
    _find_grid_barriers(blocks)
    for position, block in enumerate(blocks):
        if block.target != position or len(block.instructions) > _MOST_UNROLLED or not _countable(block):
            block.repeats = 1
        elif block.repeats > 1:
            _mark_control(block)
    return Code(blocks)


_MOVES = ("add", "mad", "sub", "mov", "selp", "cvta", "cvt", "or", "shl", "and", "bfi")
_DISTRIBUTED = {"load": "cluster_load", "atomic": "cluster_atomic", "store": "cluster_store"}
_OF_THE_GRID = {"load": "grid_look", "atomic": "grid_arrive"}


def _made_from(everything: Sequence[Instruction], first: set[str]) -> set[str]:
    """Registers whose values were made from those of ``first``, which is extended."""
    before = -1
    while len(first) != before:
        before = len(first)
        for each in everything:
            if each.opcode.startswith(_MOVES) and first.intersection(each.reads):
                first.update(each.writes)
    return first


def _find_distributed_accesses(blocks: Sequence[Block]) -> None:
    """Accesses through pointers that ``mapa`` has made, or that were made from those, go to another block's memory."""
    everything = [each for block in blocks for each in block.instructions]
    mapped = {register for each in everything if each.opcode.startswith("mapa") for register in each.writes}
    for each in everything if _made_from(everything, mapped) else ():
        if each.address and each.address[0] in mapped:
            each.kind = _DISTRIBUTED.get(each.kind, each.kind)


def _find_grid_barriers(blocks: Sequence[Block]) -> None:
    """Atomics and loads through what the driver has put into %envreg1 and %envreg2 are those of the grid's barrier."""
    everything = [each for block in blocks for each in block.instructions]
    given = {register for each in everything if "%envreg" in "".join(each.reads) for register in each.writes}
    if not _made_from(everything, given):
        return
    for block in blocks:
        for each in block.instructions:
            if each.address and each.address[0] in given:
                each.kind = _OF_THE_GRID.get(each.kind, each.kind)
                block.looks = block.looks or each.kind == "grid_look"


def _narrow_shared_addresses(blocks: Sequence[Block]) -> None:
    """Addresses of shared memory have 32 bits in machine code, and what is added to the array's start is part of the
    access."""
    needed = {
        each.address[0]
        for block in blocks
        for each in block.instructions
        if each.address and each.kind in ("shared_load", "shared_atomic", "shared_store")
    }
    before = -1
    while len(needed) != before:
        before = len(needed)
        for block in blocks:
            for each in block.instructions:
                if each.kind == "long" and set(each.writes) & needed:
                    each.kind = "free" if each.opcode.startswith("add") else "logic"
                    needed.update(each.reads)


def _countable(block: Block) -> bool:
    """Is the number of rounds known when the loop begins? It is where the branch rests on a register that a constant is
    added to in every round, and where no barrier or warp operation stands in the loop."""
    writers = {register: each for each in block.instructions for register in each.writes}
    if any(each.kind in _SUSPENDING for each in block.instructions):
        return False

    def counts(register: str, depth: int = 0) -> bool:
        writer = writers.get(register)
        if writer is None or writer.reads == writer.writes:
            return True
        return writer.kind in ("add", "long") and depth < 4 and all(counts(each, depth + 1) for each in writer.reads)

    compares = [writers.get(name) for each in block.instructions if each.kind == "branch" for name in each.reads]
    return all(
        compare is not None and compare.opcode.startswith("setp") and all(counts(name) for name in compare.reads)
        for compare in compares
    )


def _statements(line: str) -> list[tuple[str, str, str]]:
    """Guard, opcode and operands of the instructions in a line; inline PTX may put several there."""
    text = line.strip()
    if not text or text.startswith((".", "//", "$")):
        return []
    found = []
    for part in text.split(";"):
        match = _STATEMENT.match(part.strip(" \t{}") if "{" in part and part.strip().startswith("{") else part.strip())
        if match:
            found.append((match[2] or "", match[3], match[4]))
    return found


def _turn_around(blocks: Sequence[Block]) -> None:
    """``@p bra out; bra head;`` at the end of a loop is one branch to its head in machine code."""
    for before, block in zip(blocks, blocks[1:], strict=False):
        alone = [each.kind for each in block.instructions] == ["branch"]
        ends = before.instructions and before.instructions[-1].kind == "branch"
        if alone and ends and block.target >= 0 and before.target < 0 and before.forward:
            before.target, block.target = block.target, -1
            before.repeats = min(before.repeats, block.repeats)
            block.instructions.clear()


def _joined(blocks: list[Block]) -> list[Block]:
    """Put together what only a barrier or a warp operation cuts: the machine goes on behind it in the same code."""
    targets = {block.target for block in blocks if block.target >= 0} | {
        target for block in blocks for target in block.forward
    }
    kept: list[Block] = []
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


_ADDRESS = re.compile(r"\[([%$A-Za-z_][\w$.]*)\+?(-?\d+)?\]")


def _instruction(opcode: str, operands: str, guard: str, line: int) -> Instruction:
    kind = classify(opcode, operands)
    head = opcode.split(".")[0]
    registers = [] if kind in ("branch", "heap") else _REGISTER.findall(operands)
    if head in _NO_RESULT:
        writes: list[str] = []
    elif operands.startswith("{"):
        writes = _REGISTER.findall(operands[: operands.index("}")])
    else:
        writes = _REGISTER.findall(operands.split(",")[0])
    reads = registers[len(writes) :]
    if head in ("cp", "mbarrier"):
        writes, reads = _asynchronous(opcode, operands, registers)
    if guard:
        reads = [*reads, guard]
    found = _ADDRESS.search(operands)
    address = (found[1], int(found[2] or 0)) if found else None
    behind = _left_behind(kind, opcode, operands)
    return Instruction(kind, tuple(writes), tuple(reads), opcode, guard, address, line, behind=behind)


def _asynchronous(opcode: str, operands: str, registers: list[str]) -> tuple[list[str], list[str]]:
    """What asynchronous copies and barrier objects write and read in registers; whom a wait waits for, the way of the
    warp says (warp_path.py)."""
    parts = opcode.split(".")
    if parts[0] == "cp":
        return [], registers
    waits = parts[1] in ("try_wait", "test_wait")
    results = 1 if waits or parts[1].startswith(("arrive", "pending")) and not operands.startswith("_") else 0
    return registers[:results], registers[results:]


def _left_behind(kind: str, opcode: str, operands: str) -> int:
    if kind != "async_wait":
        return 0
    return -1 if "wait_all" in opcode else int(operands.strip() or 0)


def _resolve(
    lines: Sequence[str], blocks: list[Block], firsts: Mapping[int, int], jumps: list[tuple[int, str]]
) -> None:
    """Set the targets of branches."""
    if not jumps:
        return
    labels = {text.strip()[:-1]: number for number, text in enumerate(lines) if text.strip().endswith(":")}
    starts = sorted(firsts)
    for position, label in jumps:
        number = labels.get(label)
        if number is None:
            continue
        line = next((start for start in starts if start > number), None)
        if line is None:
            continue
        if firsts[line] <= position:
            blocks[position].target = firsts[line]
        else:
            blocks[position].forward.append(firsts[line])


def _mark_control(block: Block) -> None:
    """What only counts rounds: the branch, the comparison behind it, and additions of a constant to a register."""
    needed = {register for each in block.instructions if each.kind == "branch" for register in each.reads}
    for each in block.instructions:
        compares = each.kind in ("logic", "long") and bool(set(each.writes) & needed)
        counts = each.kind in ("add", "long") and each.writes == each.reads
        each.control = each.kind == "branch" or compares or counts


def wide_loads(code: Code) -> list[list[int]]:
    """PTX lines of 4-byte shared loads of which the assembler makes one load of 8 or 16 bytes: neighbours, through one
    register, in one block."""
    found = []
    for block in code.blocks:
        groups: dict[str, list[Instruction]] = {}
        for each in block.instructions:
            if each.kind == "shared_load" and each.address and each.opcode in _MERGED:
                groups.setdefault(each.address[0], []).append(each)
            for register in each.writes:
                if each.kind != "shared_load" and register in groups:
                    found += _neighbours(groups.pop(register))
        for group in groups.values():
            found += _neighbours(group)
    return found


_MERGED = ("ld.shared.f32", "ld.shared.u32", "ld.shared.s32", "ld.shared.b32")


def _follows_data(blocks: Sequence[Block]) -> bool:
    loaded: set[str] = set()
    before = -1
    while len(loaded) != before:
        before = len(loaded)
        for block in blocks:
            for each in block.instructions:
                if each.kind in _LOADS or loaded.intersection(each.reads):
                    loaded.update(each.writes)
    return any(
        (each.address is not None and each.address[0] in loaded) or (each.guard in loaded)
        for block in blocks
        for each in block.instructions
    )


_LOADS = ("load", "shared_load", "constant_load", "atomic", "shared_atomic", "cluster_load", "cluster_atomic")


def _neighbours(group: Sequence[Instruction]) -> list[list[int]]:
    ordered = sorted(group, key=lambda each: each.address[1] if each.address else 0)
    runs: list[list[Instruction]] = []
    for each in ordered:
        if runs and len(runs[-1]) < 4 and _offset(each) == _offset(runs[-1][-1]) + 4:
            runs[-1].append(each)
        else:
            runs.append([each])
    return [[each.line for each in run] for run in runs if len(run) in (2, 4)]


def _offset(each: Instruction) -> int:
    return each.address[1] if each.address else 0


def mix(code: Code, visits: Mapping[int, float]) -> dict[str, float]:
    """How many instructions of each class warps executed; loop control of unrolled loops counts once a repeat."""
    total: dict[str, float] = {}
    for block in code.blocks:
        times = visits.get(block.site, 0.0)
        if not times or block.looks:  # looking again takes issue slots that nobody else needs
            continue
        for each in block.instructions:
            total[each.kind] = total.get(each.kind, 0.0) + (times / block.repeats if each.control else times)
    return total
