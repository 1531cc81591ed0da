"""Upper bound on the number of instructions a thread executes.

A launch runs on its own host thread, so that an interrupt or the time limit can stop it. The hand-over takes longer
than a small kernel. If a kernel has no back-edge, no call and no wait for another thread's store, its length bounds its
run time, and a small launch can run on the calling thread.
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.control_flow import Block, back_edges
from cudalab.sim.compiler.passes.operands import operation_name

_MAY_WAIT = frozenset(["call", "brx", "mbarrier", "nanosleep", "griddepcontrol", "cp"])


def longest_path(blocks: list[Block]) -> int:
    """The most PTX instructions that a thread can execute (at least 1); 0 if unbounded."""
    if any(_may_wait(instruction.opcode) for block in blocks for instruction in block.written) or back_edges(blocks):
        return 0
    return max(1, sum(block.size for block in blocks))


def _may_wait(opcode: str) -> bool:
    return operation_name(opcode) in _MAY_WAIT or opcode.startswith("barrier.cluster")
