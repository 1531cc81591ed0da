"""Construction of basic blocks.

A guarded instruction (``@p st.global …``) becomes a branch around a block of its own, so that later passes see guards
on branches only. A suspension point (block barrier or warp operation) terminates its block; the code after it starts a
new block, the *resume block*, which has no other predecessor.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

from cudalab.sim.compiler.passes.operands import definitions, uses
from cudalab.sim.compiler.passes.suspension import suspends
from cudalab.sim.compiler.ptx.errors import PtxError
from cudalab.sim.compiler.ptx.nodes import Function, Instruction, Label, Register, Symbol


class End(Enum):
    """How a basic block ends."""

    JUMP = "jump"
    BRANCH = "branch"  # successors[0] when the guard holds, else successors[1]
    SWITCH = "switch"  # brx.idx
    RETURN = "return"
    EXIT = "exit"
    TRAP = "trap"
    SUSPEND = "suspend"  # successors[0] is the resume block
    INTERLEAVE = "interleave"  # successors[0] lets others come as far, if the launch has others (races.py)
    POLL = "poll"  # successors[0] yields; successors[1] is taken while patience remains (polling.py)


_ENDINGS = {"ret": End.RETURN, "exit": End.EXIT, "trap": End.TRAP, "brkpt": End.TRAP}


class Block(Struct, eq=False):
    """A basic block. ``ending`` is its terminator, None for a fall-through; ``written`` are the block's instructions as
    they stand in the PTX, terminator included, without those that later passes insert or move."""

    index: int
    instructions: list[Instruction] = field(default_factory=list)
    end: End = End.JUMP
    ending: Instruction | None = None
    guard: Register | None = None
    negated: bool = False
    successors: list[int] = field(default_factory=list)
    guarded: bool = False
    written: list[Instruction] = field(default_factory=list)
    leaves: tuple[int, ...] = ()  # numbers of the poll loops that a thread exits here
    patient: bool = False  # End.POLL of a loop that makes progress on its own
    waited: bool = False  # End.POLL of a loop in which a thread has yielded before: it yields in every iteration

    @property
    def size(self) -> int:
        """Number of PTX instructions."""
        return len(self.written)


def build_blocks(function: Function) -> list[Block]:
    """Return the blocks of ``function``; the first is its entry. Unreachable blocks are dropped.

    Raises:
        PtxError: a branch to a label that does not exist.
    """
    assert function.body is not None
    blocks: list[Block] = [Block(0)]
    labels: dict[str, int] = {}
    pending: list[tuple[Block, list[str | Block]]] = []  # branch targets still to be resolved
    current = blocks[0]
    closed = False

    def fresh() -> Block:
        block = Block(len(blocks))
        blocks.append(block)
        return block

    for statement in function.body:
        if isinstance(statement, Label):
            if closed or current.instructions or current.guarded or current.index in labels.values():
                following = fresh()
                if not closed:
                    current.successors = [following.index]
                current, closed = following, False
            labels[statement.name] = current.index
            continue
        if closed:
            current, closed = fresh(), False
        opcode = statement.opcode
        name = opcode.split(".", 1)[0]
        if name == "bra":
            target = _target(statement)
            current.ending = statement
            current.written.append(statement)
            if statement.guard is None:
                pending.append((current, [target]))
                closed = True
            else:
                current.end, current.guard, current.negated = End.BRANCH, statement.guard, statement.negated
                following = fresh()
                pending.append((current, [target, following]))
                current = following
            continue
        join = None
        if statement.guard is not None:
            current.end, current.guard, current.negated = End.BRANCH, statement.guard, statement.negated
            body, join = fresh(), fresh()
            current.successors = [body.index, join.index]
            body.guarded = True
            current = body
        current.written.append(statement)
        if name in _ENDINGS:
            current.end, current.ending = _ENDINGS[name], statement
            closed = True
        elif name == "brx":
            current.end, current.ending = End.SWITCH, statement
            table = statement.operands[1].name
            if table not in function.branch_targets:
                raise PtxError(f"brx.idx names {table}, which is no .branchtargets list", statement.location)
            pending.append((current, list(function.branch_targets[table])))
            closed = True
        elif suspends(opcode):
            current.end, current.ending = End.SUSPEND, statement
            following = join if join is not None else fresh()
            if join is not None:  # the resume block must have no other predecessor
                following = fresh()
                following.successors = [join.index]
            current.successors = [following.index]
            current = following
        else:
            current.instructions.append(statement)
        if join is not None:
            if not closed and current.end is End.JUMP and not current.successors:
                current.successors = [join.index]
            current, closed = join, False
    if not closed:  # falling off the end returns
        current.end = End.RETURN
    for block, targets in pending:
        for place in targets:
            if isinstance(place, Block):
                block.successors.append(place.index)
            elif place in labels:
                block.successors.append(labels[place])
            else:
                location = block.ending.location if block.ending is not None else None
                raise PtxError(f"branch to the unknown label {place}", location)
    return _reachable(blocks)


def _target(statement: Instruction) -> str:
    target = statement.operands[0]
    if not isinstance(target, Symbol):
        raise PtxError(f"bra to {target}, which is no label", statement.location)
    return target.name


def _reachable(blocks: list[Block]) -> list[Block]:
    order = reachable_from(blocks, 0, through_suspensions=True)
    number = {old: new for new, old in enumerate(sorted(order))}
    kept = [blocks[old] for old in sorted(order)]
    for block in kept:
        block.index = number[block.index]
        block.successors = [number[successor] for successor in block.successors]
    return kept


def reachable_from(blocks: list[Block], start: int, *, through_suspensions: bool) -> list[int]:
    """Indices of the blocks reachable from ``start``, inclusive; paths through suspension points count if
    ``through_suspensions``."""
    seen = {start}
    stack = [start]
    while stack:
        block = blocks[stack.pop()]
        if block.end is End.SUSPEND and not through_suspensions:
            continue
        for successor in block.successors:
            if successor not in seen:
                seen.add(successor)
                stack.append(successor)
    return sorted(seen)


def back_edges(blocks: list[Block]) -> set[tuple[int, int]]:
    """Edges to a block on the stack of a depth-first search (retreating edges): every cycle has at least one."""
    found: set[tuple[int, int]] = set()
    open_blocks: set[int] = set()
    done: set[int] = set()
    stack: list[tuple[int, int]] = [(0, 0)]
    while stack:
        block, position = stack.pop()
        if position == 0:
            open_blocks.add(block)
        successors = blocks[block].successors
        if position < len(successors):
            stack.append((block, position + 1))
            target = successors[position]
            if target in open_blocks:
                found.add((block, target))
            elif target not in done:
                stack.append((target, 0))
        else:
            open_blocks.discard(block)
            done.add(block)
    return found


def registers_read(block: Block) -> list[Register]:
    """Registers read by the block's terminator (guard and operands)."""
    read = [block.guard] if block.guard is not None else []
    if block.ending is not None and block.end is not End.BRANCH:
        read += uses(block.ending)
    return read


def registers_written(block: Block) -> list[Register]:
    """Registers written by the block's terminator: the results of a warp operation."""
    if block.ending is not None and block.end is End.SUSPEND:
        return definitions(block.ending)
    return []
