"""How many instructions a thread can execute at most.

A launch runs on a thread of its own, so that an interrupt or the time limit can stop it. The hand-over takes longer
than a small kernel does. Where a kernel has no way to go back, neither by a branch nor by a call nor by waiting for
another thread's store, its length bounds its time, and a small launch of it can run where it is called.
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.control_flow import Block, back_edges
from cudalab.sim.compiler.passes.operands import operation_name

_MAY_WAIT = frozenset(["call", "brx", "mbarrier", "nanosleep", "griddepcontrol", "cp"])


def longest_path(blocks: list[Block]) -> int:
    """PTX instructions that a thread executes at most, at least 1; 0 when nothing bounds them."""
    if any(_may_wait(instruction.opcode) for block in blocks for instruction in block.written) or back_edges(blocks):
        return 0
    return max(1, sum(block.size for block in blocks))


def _may_wait(opcode: str) -> bool:
    return operation_name(opcode) in _MAY_WAIT or opcode.startswith("barrier.cluster")
