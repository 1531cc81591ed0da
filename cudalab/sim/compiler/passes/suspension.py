"""Suspension points: instructions at which a thread waits for others.

Block barriers wait for the threads of the block, warp operations for the lanes in their mask, polling loops for memory
to change, dependent launches for the kernel before them. The kernel is partitioned there into *regions*
(``passes.regions``).
"""

from __future__ import annotations

from enum import IntEnum

from cudalab.sim.compiler.ptx.nodes import Immediate, Instruction

#: Pseudo-opcode of the suspension points that ``polling`` inserts into polling loops.
POLL = "cudalab.poll"
#: Pseudo-opcode of the suspension points that ``races`` inserts before stores that may overwrite others' updates.
INTERLEAVE = "cudalab.interleave"
#: Waits at a cluster's barrier become polling loops (``polling.insert_waits``): CLUSTER_DONE tests whether the phase is
#: complete.
CLUSTER_WAIT = "barrier.cluster.wait"
CLUSTER_DONE = "cudalab.cluster_done"
#: So do waits of a dependent launch: PREREQUISITE_DONE tests whether the kernel before it has completed.
PREREQUISITE_WAIT = "griddepcontrol.wait"
PREREQUISITE_DONE = "cudalab.prerequisite_done"
#: A block lets the kernel behind start. It suspends nobody.
TRIGGER = "griddepcontrol.launch_dependents"
_SUSPENDING = frozenset(["bar", "barrier", "shfl", "vote", "match", "redux", "activemask", "elect"])


class PointKind(IntEnum):
    """What a lane waits for. The block driver (``runtime``) resolves each kind; the values are part of the descriptor
    that compiled kernels carry."""

    ENTRY = 0
    BARRIER = 1  # bar.sync 0 of the whole block: nothing is recorded
    NAMED_BARRIER = 2  # barrier number and thread count are recorded; also bar.red
    SYNC = 3  # bar.warp.sync
    SHUFFLE_UP = 4
    SHUFFLE_DOWN = 5
    SHUFFLE_XOR = 6
    SHUFFLE_INDEX = 7
    VOTE_ALL = 8
    VOTE_ANY = 9
    VOTE_UNIFORM = 10
    VOTE_BALLOT = 11
    MATCH_ANY = 12
    MATCH_ALL = 13
    REDUCE_ADD = 14
    REDUCE_MIN_SIGNED = 15
    REDUCE_MAX_SIGNED = 16
    REDUCE_MIN = 17
    REDUCE_MAX = 18
    REDUCE_AND = 19
    REDUCE_OR = 20
    REDUCE_XOR = 21
    ELECT = 22
    ACTIVE_MASK = 23
    POLL = 24  # yields until memory changes, or for other blocks; also lets other threads come as far (INTERLEAVE)
    CONFLICTS = 26  # an access to shared memory in a kernel that reads a clock: its address and width are recorded
    ARRIVE = 25  # bar.arrive: barrier number and thread count are recorded
    MBARRIER = 32  # the phase of an mbarrier: the object's offset in shared memory and the parity are recorded


def suspends(opcode: str) -> bool:
    """Whether ``opcode`` is a suspension point."""
    parts = opcode.split(".")
    if parts[0] == "mbarrier":
        return parts[1:2] in (["try_wait"], ["test_wait"])
    if opcode == PREREQUISITE_WAIT:
        return True
    if parts[0] not in _SUSPENDING:
        return False
    return "wait" in parts if "cluster" in parts else True


def is_poll(opcode: str) -> bool:
    """Whether threads poll at this suspension point."""
    return opcode in (POLL, PREREQUISITE_WAIT) or opcode.startswith(CLUSTER_WAIT)


def is_plain_barrier(instruction: Instruction) -> bool:
    """Whether this is ``bar.sync 0``: all threads of the block, barrier 0, no reduction."""
    opcode, operands = instruction.opcode, instruction.operands
    if not opcode.startswith("bar") or ".sync" not in opcode or ".warp" in opcode or len(operands) != 1:
        return False
    return isinstance(operands[0], Immediate) and operands[0].value == 0
