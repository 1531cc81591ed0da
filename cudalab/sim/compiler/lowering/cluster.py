"""Thread block clusters: the cluster's barrier, and addresses of distributed shared memory (PTX ISA, "barrier.cluster",
"mapa", "getctarank").

An address of ``.shared::cluster`` is an offset in the executing block's shared memory, or ``(1 + rank) << 24`` and an
offset in that of another block; the generic address is ``SHARED_WINDOW`` more. ``mapa`` of the block's own rank gives
the first form, so a mapped pointer to its own memory equals a plain one, as on an H200.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim import abi
from cudalab.sim.abi import FaultKind, SyncEvent
from cudalab.sim.compiler.codegen.addresses import place
from cudalab.sim.compiler.ptx.nodes import Instruction
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.threads import ThreadCode

__all__ = ["TABLE", "own_rank", "place"]

TABLE = Table()
_OFFSET = (1 << abi.RANK_SHIFT) - 1


def own_rank(e: ThreadCode) -> str:
    """The executing block's rank, i32."""
    return e.special("%cluster_ctarank")[0]


@TABLE.row("barrier.cluster.arrive[.release|relaxed][.aligned]")
def _arrive(e: ThreadCode, i: Instruction, f: Form) -> None:
    if not e.plan.waits_for_cluster:
        return  # no wait in this kernel, hence in no block of the cluster
    word = e.frame_word(e.plan.cluster_offset)
    phase = e.runtime("cl_cluster_arrive", "i32", f"ptr {e.context}", f"ptr {word}")
    twice, good = e.fresh_label("twice"), e.fresh_label("arrived")
    e.emit(f"br i1 {e.new(f'icmp eq i32 {phase}, 0')}, label %{twice}, label %{good}, !prof !2")
    e.label(twice)
    e.fault(FaultKind.ARRIVED_TWICE, e.plan.other_sites[i])
    e.emit("br label %fault")
    e.label(good)
    if e.unit.traced and "relaxed" not in f:
        e.event(SyncEvent.ARRIVE, e.plan.other_sites[i], _object(e), phase)


@TABLE.row("cudalab.cluster_done")
def _done(e: ThreadCode, i: Instruction, f: Form) -> None:
    """Test whether the phase is complete, after the yield point inserted by ``passes.polling``."""
    word = e.frame_word(e.plan.cluster_offset)
    phase = e.runtime("cl_cluster_done", "i32", f"ptr {e.context}", f"ptr {word}")
    over = e.new(f"icmp ne i32 {phase}, 0")
    if e.unit.traced:
        told, after = e.fresh_label("over"), e.fresh_label("after")
        e.emit(f"br i1 {e.new(f'icmp sgt i32 {phase}, 0')}, label %{told}, label %{after}")
        e.label(told)
        e.event(SyncEvent.WAIT, e.plan.other_sites[i], _object(e), phase)
        e.emit(f"br label %{after}")
        e.label(after)
    e.set_boolean(i.operands[0], over)


@TABLE.row("barrier.cluster.wait[.acquire][.aligned]")
def _wait(e: ThreadCode, i: Instruction, f: Form) -> None:
    raise e.error(f"{i.opcode} inside a basic block")  # passes.polling expands it into a loop


def _object(e: ThreadCode) -> str:
    """The sync object number of the cluster's barrier, i64."""
    cluster = e.context_field("cluster", "ptr")
    place = e.new(f"getelementptr i8, ptr {cluster}, i64 {abi.Cluster.number.offset}")
    return e.new(f"add i64 {e.new(f'load i64, ptr {place}')}, {abi.CLUSTER_OBJECT}")


@TABLE.row("mapa.u64", "mapa.shared::cluster.<u32|u64>")
def _map(e: ThreadCode, i: Instruction, f: Form) -> None:
    kind = f"i{f.bits}"
    address, rank = e.integer(i.operands[1], f.bits), e.integer(i.operands[2], 32)
    if "shared::cluster" not in f:
        address = e.new(f"sub {kind} {address}, {abi.SHARED_WINDOW}")
    offset = e.new(f"and {kind} {address}, {_OFFSET}")
    own = e.new(f"icmp eq i32 {rank}, {own_rank(e)}")
    known = e.intrinsic("llvm.umin.i32", "i32", f"i32 {rank}", f"i32 {abi.CLUSTER_RANKS}")
    above = e.new(f"add i32 {known}, 1")
    if f.bits == 64:
        above = e.new(f"zext i32 {above} to i64")
    there = e.new(f"or {kind} {offset}, {e.new(f'shl {kind} {above}, {abi.RANK_SHIFT}')}")
    result = e.new(f"select i1 {own}, {kind} {offset}, {kind} {there}")
    if "shared::cluster" not in f:
        result = e.new(f"add {kind} {result}, {abi.SHARED_WINDOW}")
    e.set_integer(i.operands[0], result, f.bits)


@TABLE.row("getctarank.u64", "getctarank.shared::cluster.<u32|u64>")
def _rank_of(e: ThreadCode, i: Instruction, f: Form) -> None:
    kind = f"i{f.bits}"
    address = e.integer(i.operands[1], f.bits)
    if "shared::cluster" not in f:
        address = e.new(f"sub {kind} {address}, {abi.SHARED_WINDOW}")
    place = e.new(f"lshr {kind} {address}, {abi.RANK_SHIFT}")
    if f.bits == 64:
        place = e.new(f"trunc i64 {place} to i32")
    own = e.new(f"icmp eq i32 {place}, 0")
    e.set_integer(i.operands[0], e.new(f"select i1 {own}, i32 {own_rank(e)}, i32 {e.new(f'sub i32 {place}, 1')}"), 32)
