"""How much work the loops of a kernel do, counted while it runs.

Blocks of a grid, and warps of a block, differ in what they do mostly by the rounds of their loops. So a back-edge
counts the instructions of its loop. The first round of a loop, and a long block that some threads skip, are counted by
a basic block that only those pass (``codegen/work.py`` keeps the sum).

What is simplified: a short block that is skipped counts as if it ran in each round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cudalab.sim.compiler.passes.control_flow import Block, End, registers_read
from cudalab.sim.compiler.passes.divergence import dominators, postorder
from cudalab.sim.compiler.passes.operands import definitions, operation_name, uses
from cudalab.sim.compiler.program import Rounds
from cudalab.sim.compiler.ptx.nodes import Instruction, Register, Special, Vector

_LONG = 8
"""Instructions of a block that is worth counting when some threads skip it."""
_LOADS = frozenset("ld ldu atom tex tld4 suld mbarrier shfl vote match redux activemask".split())
_INDICES = ("%tid", "%ctaid", "%laneid", "%warpid", "%lanemask", "%cluster", "%clock", "%globaltimer", "%smid")


@dataclass(frozen=True)
class LoopWork:
    """Instructions that a thread counts for each back-edge that it takes, by the head of the loop, and for each block
    that it enters."""

    heads: Mapping[int, int] = field(default_factory=dict)
    blocks: Mapping[int, int] = field(default_factory=dict)


def find_loop_work(blocks: list[Block], back_edges: set[tuple[int, int]]) -> LoopWork:
    """What each back-edge and block of a kernel counts."""
    if not back_edges:
        return LoopWork()
    bodies = _bodies(blocks, back_edges)
    skipped = _skipped(blocks, back_edges, bodies)
    counted = {index: blocks[index].size for index in skipped if blocks[index].size >= _LONG}
    lengths = {}
    for head, body in bodies.items():
        inner = set().union(*(other for each, other in bodies.items() if each != head and each in body))
        lengths[head] = max(1, sum(blocks[index].size for index in body - inner if index not in counted))
    for head, body in bodies.items():
        for index, block in enumerate(blocks):  # the first round
            if index not in body and block.successors == [head] and block.end is not End.SUSPEND:
                counted[index] = counted.get(index, 0) + lengths[head]
    return LoopWork(lengths, counted)


def _bodies(blocks: list[Block], back_edges: set[tuple[int, int]]) -> dict[int, set[int]]:
    """The blocks of each loop, by its head."""
    predecessors: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for successor in block.successors:
            predecessors[successor].append(block.index)
    found: dict[int, set[int]] = {}
    for latch, head in sorted(back_edges):
        body = found.setdefault(head, {head})
        waiting = [latch]
        while waiting:
            index = waiting.pop()
            if index not in body:
                body.add(index)
                waiting += predecessors[index]
    return found


def _skipped(blocks: list[Block], back_edges: set[tuple[int, int]], bodies: Mapping[int, set[int]]) -> set[int]:
    """Blocks that some threads do not run: of a loop those that a round may leave out, and of the rest those that the
    way to the end may."""
    successors = {block.index: block.successors for block in blocks}
    order = postorder(successors, 0)[::-1]
    above = dominators(order, successors, 0)
    rank = {index: number for number, index in enumerate(order)}
    ends = [block.index for block in blocks if not block.successors and block.end is not End.TRAP]
    found = set()
    for index in order:
        around = min((body for body in bodies.items() if index in body[1]), key=lambda body: len(body[1]), default=None)
        last = ends if around is None else [latch for latch, head in back_edges if head == around[0]]
        if not all(above[each] >> rank[index] & 1 for each in last if each in above):
            found.add(index)
    return found


def find_rounds(blocks: list[Block], back_edges: set[tuple[int, int]]) -> Rounds:
    """What decides how many rounds the loops take. Registers alone are followed: what a kernel has stored and loads
    again counts as data."""
    if not back_edges:
        return Rounds.NONE
    instructions = [each for block in blocks for each in block.written]
    if any(operation_name(each.opcode) in ("call", "brx") for each in instructions):
        return Rounds.DATA
    data = _made_of(instructions, lambda each: _is_load(each))
    if any(register in data for block in blocks for register in registers_read(block)):
        return Rounds.DATA
    indices = _made_of(instructions, _reads_index)
    inside = set().union(*_bodies(blocks, back_edges).values())
    leaving = [blocks[index] for index in inside if any(after not in inside for after in blocks[index].successors)]
    leaving += [blocks[latch] for latch, _ in back_edges]
    if any(register in indices for block in leaving for register in registers_read(block)):
        return Rounds.INDEX
    return Rounds.LAUNCH


def _made_of(instructions: list[Instruction], begins: Any) -> set[Register]:
    """Registers whose values derive from the results of some instructions."""
    found = {register for each in instructions if begins(each) for register in definitions(each)}
    before = -1
    while len(found) != before:
        before = len(found)
        for each in instructions:
            if not found.isdisjoint(uses(each)) or each.guard in found:
                found.update(definitions(each))
    return found


def _is_load(instruction: Instruction) -> bool:
    return operation_name(instruction.opcode) in _LOADS and not instruction.opcode.startswith("ld.param")


def _reads_index(instruction: Instruction) -> bool:
    return any(name.startswith(_INDICES) for operand in instruction.operands for name in _specials(operand))


def _specials(operand: Any) -> Iterator[str]:
    if type(operand) is Special:
        yield operand.name
    elif type(operand) is Vector:
        for element in operand.elements:
            yield from _specials(element)
