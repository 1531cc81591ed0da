"""Barriers and warp operations (PTX ISA, "Parallel Synchronization and Communication Instructions").

A lane stores its operands in the warp's scratch memory and suspends; the driver resolves the operation and the lane
resumes with the results stored there. The rows here store the operands; ``ThreadEnvironment.suspend`` writes the
suspension. ``bar.arrive`` suspends, too, but only for the lanes of its warp that arrive together.

A number of threads that is not a multiple of 32 is ``cudaErrorIllegalInstruction`` on an H200, and so is ``bar.arrive``
without one; ``bar.sync`` with 0 waits for all threads. Numbers of barriers above 15 wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalab.sim import abi
from cudalab.sim.abi import FaultKind
from cudalab.sim.compiler.passes.suspension import PointKind, is_plain_barrier
from cudalab.sim.compiler.ptx.nodes import Instruction
from cudalab.sim.compiler.ptx.table import Form, Table
from cudalab.sim.compiler.runtime import layout

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.region import RegionKernel

TABLE = Table()
_SHUFFLES = {
    "up": PointKind.SHUFFLE_UP,
    "down": PointKind.SHUFFLE_DOWN,
    "bfly": PointKind.SHUFFLE_XOR,
    "idx": PointKind.SHUFFLE_INDEX,
}
_VOTES = {
    "all": PointKind.VOTE_ALL,
    "any": PointKind.VOTE_ANY,
    "uni": PointKind.VOTE_UNIFORM,
    "ballot": PointKind.VOTE_BALLOT,
}
_REDUCTIONS = {
    ("add", "u32"): PointKind.REDUCE_ADD,
    ("add", "s32"): PointKind.REDUCE_ADD,
    ("min", "s32"): PointKind.REDUCE_MIN_SIGNED,
    ("max", "s32"): PointKind.REDUCE_MAX_SIGNED,
    ("min", "u32"): PointKind.REDUCE_MIN,
    ("max", "u32"): PointKind.REDUCE_MAX,
    ("and", "b32"): PointKind.REDUCE_AND,
    ("or", "b32"): PointKind.REDUCE_OR,
    ("xor", "b32"): PointKind.REDUCE_XOR,
}


@TABLE.row("bar[.cta].sync", "barrier[.cta].sync[.aligned]")
def _barrier(e: RegionKernel, i: Instruction, f: Form) -> None:
    if is_plain_barrier(i):
        e.wait(PointKind.BARRIER)
        return
    _note_barrier(e, i, i.operands[0], i.operands[1] if len(i.operands) > 1 else None)
    e.wait(PointKind.NAMED_BARRIER)


@TABLE.row("bar[.cta].arrive", "barrier[.cta].arrive[.aligned]")
def _arrive(e: RegionKernel, i: Instruction, f: Form) -> None:
    _note_barrier(e, i, i.operands[0], i.operands[1], needed=True)
    e.wait(PointKind.ARRIVE)


def _note_barrier(e: RegionKernel, i: Instruction, number: Any, threads: Any, *, needed: bool = False) -> None:
    """Store number and thread count of a barrier; a count that hardware rejects ends the launch."""
    e.note(layout.B, e.integer(number, 32))
    if threads is None:
        e.note(layout.C, "0")
        return
    count = e.integer(threads, 32)
    known = e.literal_of(threads)
    if known is not None and (known % abi.WARP or (needed and not known)):
        raise e.error(f"{i.opcode} counts whole warps: a multiple of 32 threads (got {known})")
    if known is None:
        wrong = e.new(f"icmp ne i32 {e.new(f'and i32 {count}, {abi.WARP - 1}')}, 0")
        if needed:
            wrong = e.new(f"or i1 {wrong}, {e.new(f'icmp eq i32 {count}, 0')}")
        bad, good = e.fresh_label("uneven"), e.fresh_label("even")
        e.emit(f"br i1 {wrong}, label %{bad}, label %{good}, !prof !2")
        e.label(bad)
        e.fault(FaultKind.BARRIER_COUNT, e.site_of_current_point(), e.new(f"zext i32 {count} to i64"))
        e.emit("br label %fault")
        e.label(good)
    e.note(layout.C, count)


@TABLE.row("bar[.cta].red.popc.u32", "barrier[.cta].red.popc[.aligned].u32")
@TABLE.row("bar[.cta].red.<and|or>.pred", "barrier[.cta].red.<and|or>[.aligned].pred")
def _reducing_barrier(e: RegionKernel, i: Instruction, f: Form) -> None:
    """Store each thread's predicate. The driver returns the number of true predicates and of threads."""
    e.note(layout.A, e.new(f"zext i1 {e.boolean(i.operands[-1])} to i32"))
    _note_barrier(e, i, i.operands[1], i.operands[2] if len(i.operands) > 3 else None)
    e.wait(PointKind.NAMED_BARRIER)


@TABLE.row("bar.warp.sync")
def _sync(e: RegionKernel, i: Instruction, f: Form) -> None:
    e.note(layout.MASK, e.integer(i.operands[0], 32))
    e.wait(PointKind.SYNC)


@TABLE.row("shfl.sync.<up|down|bfly|idx>.b32")
def _shuffle(e: RegionKernel, i: Instruction, f: Form) -> None:
    e.note(layout.A, e.integer(i.operands[1], 32))
    e.note(layout.B, e.integer(i.operands[2], 32))
    e.note(layout.C, e.integer(i.operands[3], 32))
    e.note(layout.MASK, e.integer(i.operands[4], 32))
    e.wait(_SHUFFLES[f.choose(*_SHUFFLES)])


@TABLE.row("vote.sync.<all|any|uni>.pred", "vote.sync.ballot.b32")
def _vote(e: RegionKernel, i: Instruction, f: Form) -> None:
    e.note(layout.A, e.new(f"zext i1 {e.boolean(i.operands[1])} to i32"))
    e.note(layout.MASK, e.integer(i.operands[2], 32))
    e.wait(_VOTES[f.choose(*_VOTES)])


@TABLE.row("match.<any|all>.sync.<b32|b64>")
def _match(e: RegionKernel, i: Instruction, f: Form) -> None:
    value = e.integer(i.operands[1], f.bits)
    high = "0"
    if f.bits == 64:
        high = e.new(f"trunc i64 {e.new(f'lshr i64 {value}, 32')} to i32")
        value = e.new(f"trunc i64 {value} to i32")
    e.note(layout.A, value)
    e.note(layout.A_HIGH, high)
    e.note(layout.MASK, e.integer(i.operands[2], 32))
    e.wait(PointKind.MATCH_ALL if "all" in f else PointKind.MATCH_ANY)


@TABLE.row("redux.sync.<add|min|max>.<u32|s32>", "redux.sync.<and|or|xor>.b32")
def _redux(e: RegionKernel, i: Instruction, f: Form) -> None:
    e.note(layout.A, e.integer(i.operands[1], 32))
    e.note(layout.MASK, e.integer(i.operands[2], 32))
    e.wait(_REDUCTIONS[f.choose("add", "min", "max", "and", "or", "xor"), f.types[0]])


@TABLE.row("elect.sync")
def _elect(e: RegionKernel, i: Instruction, f: Form) -> None:
    e.note(layout.MASK, e.integer(i.operands[1], 32))
    e.wait(PointKind.ELECT)


@TABLE.row("activemask.b32")
def _active_mask(e: RegionKernel, i: Instruction, f: Form) -> None:
    e.wait(PointKind.ACTIVE_MASK)
