"""Liveness analysis of registers.

Sets of registers are Python integers used as bit sets: bit ``register.index``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim.compiler.passes.control_flow import Block, registers_read, registers_written
from cudalab.sim.compiler.passes.operands import definitions, uses


@dataclass
class Liveness:
    """Bit sets for each block: live at its start, live at its end, written in it, and read before being written.

    ``live_out`` of a block that ends in a suspension point excludes the results of the operation, which are defined
    when it is resolved. ``ever_read``: every register that some instruction reads.
    """

    live_in: list[int]
    live_out: list[int]
    written: list[int]
    exposed: list[int]
    ever_read: int = 0


def find_liveness(blocks: list[Block], ignored: int = 0) -> Liveness:
    """Solve liveness for ``blocks``; registers in the bit set ``ignored`` are taken as never live."""
    count = len(blocks)
    written, exposed, results = [0] * count, [0] * count, [0] * count
    ever_read = 0
    for block in blocks:
        define = use = 0
        for instruction in block.instructions:
            for register in uses(instruction):
                ever_read |= 1 << register.index
                use |= (1 << register.index) & ~define
            for register in definitions(instruction):
                define |= 1 << register.index
        for register in registers_read(block):
            ever_read |= 1 << register.index
            use |= (1 << register.index) & ~define
        for register in registers_written(block):
            results[block.index] |= 1 << register.index
        written[block.index] = define & ~ignored
        exposed[block.index] = use & ~ignored
    live_in, live_out = list(exposed), [0] * count
    predecessors: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for successor in block.successors:
            predecessors[successor].append(block.index)
    work = list(range(count))
    queued = set(work)
    while work:
        index = work.pop()
        queued.discard(index)
        out = 0
        for successor in blocks[index].successors:
            out |= live_in[successor]
        out &= ~results[index]
        live_out[index] = out
        new = exposed[index] | (out & ~written[index])
        if new != live_in[index]:
            live_in[index] = new
            for predecessor in predecessors[index]:
                if predecessor not in queued:
                    queued.add(predecessor)
                    work.append(predecessor)
    return Liveness(live_in, live_out, written, exposed, ever_read)
