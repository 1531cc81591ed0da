"""Asynchronous copies (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy").

``cp.async`` copies 4, 8 or 16 bytes from global to shared memory. A bulk copy copies a multiple of 16 bytes between
global and shared memory, or from shared memory to that of another block of the cluster; ``cp.reduce.async.bulk``
reduces into its target. Groups, mbarriers and completion are in ``runtime/async_copy.py``. Both ends are checked when
the copy is started; on a GPU a fault is reported a little later.

Simplified: copies into another block's shared memory, and ``st.async`` and ``red.async``, are performed at once, which
the ISA allows. Cache hints and prefetches have no visible effect. Copies by a tensor map (``cp.async.bulk.tensor``) are
not simulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalab.sim import abi
from cudalab.sim.abi import SHARED_WINDOW, FaultKind, Space, SyncEvent
from cudalab.sim.compiler.codegen.addresses import base_of, extent_of, place
from cudalab.sim.compiler.lowering.mbarrier import barrier_at, call, must, note_deferred, parity, who
from cudalab.sim.compiler.lowering.mbarrier import include as include_barriers
from cudalab.sim.compiler.lowering.memory import stored
from cudalab.sim.compiler.passes.accesses import Access, Extent, Group
from cudalab.sim.compiler.passes.async_copies import BULK_UNIT
from cudalab.sim.compiler.ptx.nodes import BITS, Address, Immediate, Instruction, Negated, Register, Vector
from cudalab.sim.compiler.ptx.table import Form, Table
from cudalab.sim.compiler.runtime import async_checks, async_copy, bulk_reduction, layout

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()
_HINT = "[.L2::cache_hint]"
_PREFETCH = "[.L2::64B|L2::128B|L2::256B]"
_BYTES = "mbarrier::complete_tx::bytes"
_OPERATIONS = ("and", "or", "xor", "add", "inc", "dec", "min", "max")
_TO_SHARED = "<shared::cluster|shared::cta>"


def include(e: ThreadCode) -> None:
    """Add the runtime functions of asynchronous copies to the object file."""
    include_barriers(e)
    e.unit.include("async copies", async_copy.write)
    if e.unit.traced:
        e.unit.include("async groups", async_copy.write_group)


# -- the two ends ------------------------------------------------------------------------------------------------------


def _end(e: ThreadCode, access: Access, size: str, alignment: int, group: str) -> str:
    """Check one end of a copy of ``size`` bytes (i64) and return a pointer to it; null where it is skipped."""
    base = base_of(e, access)
    address = e.new(f"add i64 {base}, {access.offset}") if access.offset else base
    start, low, length, root = "null", "0", "0", 0
    if access.extent is not Extent.SHADOW:
        start, low, length = extent_of(e, Group([access]))
        if access.extent is Extent.ROOT:
            root = access.root + 1
        elif low != "0":  # the pointer is relative to the start of the space
            start = e.new(f"getelementptr i8, ptr {start}, i64 {low}")
    flags = async_checks.IS_SHARED if access.space is Space.SHARED else 0
    pointer = call(
        e,
        "cl_async_reach",
        "ptr",
        *who(e, access.site),
        f"i64 {address}",
        f"i64 {size}",
        f"i32 {alignment}",
        f"ptr {start}",
        f"i64 {low}",
        f"i64 {length}",
        f"i32 {root}",
        f"i32 {flags}",
        f"i32 {int(access.kind)}",
        f"i32 {group}",
    )
    if not e.unit.skips:
        must(e, e.new(f"icmp ne ptr {pointer}, null"))
    return pointer


def _group(e: ThreadCode, which: int) -> str:
    """The thread's open group, for traces."""
    if not e.unit.traced:
        return "0"
    name = "cl_async_bulk_group" if which else "cl_async_group"
    return call(e, name, "i32", f"ptr {e.context}", f"i32 {e.thread()}")


# -- cp.async ----------------------------------------------------------------------------------------------------------


@TABLE.row(f"cp.async.ca.<shared|shared::cta>.global{_HINT}{_PREFETCH}")
@TABLE.row(f"cp.async.cg.<shared|shared::cta>.global{_HINT}{_PREFETCH}")
def _copy(e: ThreadCode, i: Instruction, f: Form) -> None:
    include(e)
    copy = e.plan.copies[i]
    assert copy.target is not None
    operands = list(i.operands[2:])
    size = operands.pop(0)
    if not isinstance(size, Immediate) or size.value not in ((16,) if "cg" in f else (4, 8, 16)):
        raise e.error(f"{i.opcode} copies {'16' if 'cg' in f else '4, 8 or 16'} bytes (got {size})")
    if "L2::cache_hint" in f:
        operands.pop()
    filled = str(size.value)
    if operands and _is_predicate(operands[0]):
        filled = e.new(f"select i1 {e.boolean(operands[0])}, i32 0, i32 {size.value}")
    elif operands:
        given = e.integer(operands[0], 32)
        filled = e.intrinsic("llvm.umin.i32", "i32", f"i32 {given}", f"i32 {size.value}") if given != filled else filled
    group = _group(e, 0)
    wide = filled if filled[0] != "%" else e.new(f"zext i32 {filled} to i64")
    # A copy of zero bytes may have any source address: kernels zero-fill past the end this way.
    check = _end if filled[0] != "%" else _maybe
    source = check(e, copy.source, wide, size.value, group)
    target = _end(e, copy.target, str(size.value), size.value, group)
    call(
        e,
        "cl_async_push",
        "void",
        f"ptr {e.context}",
        f"i32 {e.thread()}",
        f"ptr {source}",
        f"ptr {target}",
        "ptr null",
        "ptr null",
        f"i32 {size.value}",
        f"i32 {filled}",
        f"i32 {async_copy.COPY}",
        "i32 0",
    )


def _is_predicate(operand: Any) -> bool:
    return isinstance(operand, Negated) or (isinstance(operand, Register) and operand.type == "pred")


def _maybe(e: ThreadCode, access: Access, size: str, alignment: int, group: str) -> str:
    """The source of a copy; null if no bytes are read from it."""
    place = e.alloca("ptr")
    e.emit(f"store ptr null, ptr {place}")
    some, none = e.fresh_label("some"), e.fresh_label("none")
    e.emit(f"br i1 {e.new(f'icmp ne i64 {size}, 0')}, label %{some}, label %{none}")
    e.label(some)
    e.emit(f"store ptr {_end(e, access, size, alignment, group)}, ptr {place}")
    e.emit(f"br label %{none}")
    e.label(none)
    return e.new(f"load ptr, ptr {place}")


@TABLE.row("cp.async.commit_group")
def _commit(e: ThreadCode, i: Instruction, f: Form) -> None:
    _close_group(e, 0)


def _close_group(e: ThreadCode, which: int) -> None:
    include(e)
    call(e, "cl_async_commit", "i32", f"ptr {e.context}", f"i32 {e.thread()}", f"i32 {which}")


@TABLE.row("cp.async.wait_group")
def _wait_group(e: ThreadCode, i: Instruction, f: Form) -> None:
    _wait(e, i, 0, e.integer(i.operands[0], 32))


@TABLE.row("cp.async.wait_all")
def _wait_all(e: ThreadCode, i: Instruction, f: Form) -> None:
    _close_group(e, 0)
    _wait(e, i, 0, "0")


def _wait(e: ThreadCode, i: Instruction, which: int, most: str) -> None:
    include(e)
    kind = async_copy.BULK if which else async_copy.COPY
    caller = who(e, e.plan.other_sites[i])
    call(e, "cl_async_wait", "void", *caller, f"i32 {kind}", f"i32 {which}", f"i32 {most}")


@TABLE.row("cp.async.mbarrier.arrive[.noinc][.shared|shared::cta].b64")
def _arrive(e: ThreadCode, i: Instruction, f: Form) -> None:
    include(e)
    bar, address = barrier_at(e, i, f, i.operands[0])
    counted = 0 if "noinc" in f else 1
    note_deferred(e, i, bar, address)
    good = call(e, "cl_async_defer", "i1", *who(e, e.plan.other_sites[i]), f"ptr {bar}", f"i32 {counted}")
    must(e, good)


# -- bulk copies -------------------------------------------------------------------------------------------------------


def _refuse(e: ThreadCode, fine: str, why: int, site: int, size: str) -> None:
    """Raise a fault unless ``fine`` (i1); ``size`` (i32) goes into the explanation. Code that skips invalid accesses
    records it and copies regardless."""
    good, bad = e.fresh_label("ok"), e.fresh_label("bad")
    e.emit(f"br i1 {fine}, label %{good}, label %{bad}, !prof !1")
    e.label(bad)
    place = e.new(f"getelementptr i8, ptr {e.context}, i64 {layout.field('fault.extra')}")
    e.emit(f"store i64 {why}, ptr {place}")
    address = e.new(f"zext i32 {size} to i64")
    if e.unit.skips:
        numbers = f"i32 {int(FaultKind.BAD_COPY)}", f"i32 {site}", f"i64 {address}", "i32 0"
        e.runtime("cl_fault", "void", f"ptr {e.context}", f"ptr {e.block}", f"i32 {e.thread()}", *numbers)
        e.runtime("cl_missed", "ptr", f"ptr {e.context}")
        e.emit(f"br label %{good}")
    else:
        e.fault(FaultKind.BAD_COPY, site, address)
        e.emit("br label %fault")
    e.label(good)


def _bulk_size(e: ThreadCode, operand: Any, site: int) -> str:
    """The bytes of a bulk copy (i32): a multiple of 16."""
    size = e.integer(operand, 32)
    even = e.new(f"icmp eq i32 {e.new(f'and i32 {size}, {BULK_UNIT - 1}')}, 0")
    _refuse(e, even, async_checks.NOT_A_MULTIPLE, site, size)
    return size


def _need_cluster(e: ThreadCode, site: int, size: str) -> None:
    """Fault on writes to cluster shared memory in a launch without clusters: an illegal instruction, as on an H200."""
    asked = e.new(f"icmp ne i32 {e.context_field('cluster_explicit', 'i32')}, 0")
    _refuse(e, asked, async_checks.NO_CLUSTER, site, size)


def _bulk(e: ThreadCode, i: Instruction, f: Form, function: str = "null") -> None:
    """A bulk copy, or a reduction when ``function`` names one."""
    include(e)
    copy = e.plan.copies[i]
    assert copy.target is not None
    by_barrier = "bulk_group" not in f
    size = _bulk_size(e, i.operands[2], copy.target.site)
    if copy.source.space is Space.SHARED and by_barrier:
        _need_cluster(e, copy.target.site, size)
    wide = e.new(f"zext i32 {size} to i64")
    if not by_barrier:
        group = _group(e, 1)
        source = _end(e, copy.source, wide, BULK_UNIT, group)
        target = _end(e, copy.target, wide, BULK_UNIT, group)
        places = (f"ptr {source}", f"ptr {target}", f"ptr {function}", "ptr null")
        rest = (f"i32 {size}", f"i32 {size}", f"i32 {async_copy.BULK}", "i32 1")
        call(e, "cl_async_push", "void", f"ptr {e.context}", f"i32 {e.thread()}", *places, *rest)
        return
    source = _end(e, copy.source, wide, BULK_UNIT, str(async_copy.BY_BARRIER))
    if "multicast::cluster" in f:
        _multicast(e, i, copy.target, source, size, function)
        return
    done = ""
    if _is_clustered(e) and "shared::cluster" in f:
        done = _to_another_block(e, i, copy.target, source, size, function)
    bar, address = barrier_at(e, i, f, i.operands[3], copy.target.site)
    must(e, call(e, "cl_mbarrier_check", "i1", *who(e, copy.target.site), f"ptr {bar}"))
    target = _end(e, copy.target, wide, BULK_UNIT, str(async_copy.BY_BARRIER))
    note_deferred(e, i, bar, address, copy.target.site)
    places = (f"ptr {source}", f"ptr {target}", f"ptr {function}", f"ptr {bar}")
    call(e, "cl_async_list", "void", f"ptr {e.context}", *places, f"i32 {size}")
    if done:
        e.emit(f"br label %{done}")
        e.label(done)


# -- shared memory of other blocks -------------------------------------------------------------------------------------


def _is_clustered(e: ThreadCode) -> bool:
    """Whether addresses may be those of another block."""
    return "mapa" in e.unit.plan.module.text


def _address(e: ThreadCode, operand: Address) -> str:
    """An address of ``.shared::cluster``, i64."""
    base = e.integer(operand.base, 64) if isinstance(operand.base, Register) else e.symbol_address(operand)
    return e.new(f"add i64 {base}, {operand.offset}") if isinstance(operand.base, Register) else base


def _to_another_block(e: ThreadCode, i: Instruction, target: Access, source: str, size: str, function: str) -> str:
    """Copy at once if the target is another block's memory. Returns the label after the copy; the code that follows
    handles the block's own memory."""
    address = _address(e, i.operands[0])
    other, own, done = (e.fresh_label(stem) for stem in ("other", "own", "copied"))
    e.emit(f"br i1 {e.new(f'icmp ult i64 {address}, {1 << abi.RANK_SHIFT}')}, label %{own}, label %{other}")
    e.label(other)
    _copy_at_once(e, target, address, _address(e, i.operands[3]), source, size, function)
    e.emit(f"br label %{done}")
    e.label(own)
    return done


def _copy_at_once(
    e: ThreadCode, access: Access, target: str, barrier: str, source: str, size: str, function: str
) -> None:
    """A copy to an address of ``.shared::cluster`` that is counted at the mbarrier at another such address."""
    nothing = e.new(f"icmp eq i32 {size}, 0")
    some, none = e.fresh_label("some"), e.fresh_label("none")
    e.emit(f"br i1 {nothing}, label %{none}, label %{some}")
    e.label(some)
    last = e.new(f"zext i32 {e.new(f'sub i32 {size}, {BULK_UNIT}')} to i64")
    place(e, e.new(f"add i64 {target}, {last}"), BULK_UNIT, access.site)
    pointer = place(e, target, BULK_UNIT, access.site)
    bar = place(e, barrier, 8, access.site)
    must(e, call(e, "cl_mbarrier_check", "i1", *who(e, access.site), f"ptr {bar}"))
    if e.unit.traced:
        e.event(SyncEvent.ASYNC_WRITE, access.site, e.new(f"add i64 {target}, {SHARED_WINDOW}"), async_copy.BY_BARRIER)
        e.event(SyncEvent.EXTENT, access.site, e.new(f"zext i32 {size} to i64"))
        phase = parity(e, e.new(f"load i64, ptr {bar}, align 8"))
        e.event(SyncEvent.ASYNC_ARRIVE, access.site, e.new(f"add i64 {barrier}, {SHARED_WINDOW}"), phase)
    places = (f"ptr {source}", f"ptr {pointer}", f"ptr {function}", f"ptr {bar}")
    call(e, "cl_async_now", "void", f"ptr {e.context}", *places, f"i32 {size}")
    e.emit(f"br label %{none}")
    e.label(none)


def _multicast(e: ThreadCode, i: Instruction, target: Access, source: str, size: str, function: str) -> None:
    """Copy the bytes to the same offset in each block of the mask, each with its own mbarrier."""
    mask = e.integer(i.operands[4], 16)
    offset = (1 << abi.RANK_SHIFT) - 1
    places = [e.new(f"and i64 {_address(e, i.operands[number])}, {offset}") for number in (0, 3)]
    counter = e.alloca("i16")
    e.emit(f"store i16 0, ptr {counter}")
    top, chosen, following, done = (e.fresh_label(stem) for stem in ("rank", "chosen", "following", "sent"))
    e.emit(f"br label %{top}")
    e.label(top)
    rank = e.new(f"load i16, ptr {counter}")
    bit = e.new(f"and i16 {e.new(f'lshr i16 {mask}, {rank}')}, 1")
    e.emit(f"br i1 {e.new(f'icmp ne i16 {bit}, 0')}, label %{chosen}, label %{following}")
    e.label(chosen)
    number = e.new(f"zext i16 {rank} to i64")
    above = e.new(f"shl i64 {e.new(f'add i64 {number}, 1')}, {abi.RANK_SHIFT}")
    there = [e.new(f"or i64 {place_}, {above}") for place_ in places]
    _copy_at_once(e, target, there[0], there[1], source, size, function)
    e.emit(f"br label %{following}")
    e.label(following)
    next_ = e.new(f"add i16 {rank}, 1")
    e.emit(f"store i16 {next_}, ptr {counter}")
    e.emit(f"br i1 {e.new(f'icmp ult i16 {next_}, {abi.CLUSTER_RANKS}')}, label %{top}, label %{done}")
    e.label(done)


def _elements(operand: Any) -> tuple[Any, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


@TABLE.row(f"st.async[.weak].shared::cluster.{_BYTES}[.v2].<b32|u32|s32|f32|b64|u64|s64|f64>")
@TABLE.row(f"st.async[.weak].shared::cluster.{_BYTES}.v4.<b32|u32|s32|f32>")
def _store(e: ThreadCode, i: Instruction, f: Form) -> None:
    include(e)
    kind, site = f.types[-1], e.plan.other_sites[i]
    values = [stored(e, element, kind) for element in _elements(i.operands[1])]
    width = BITS[kind] // 8
    _need_cluster(e, site, str(width * len(values)))
    address = _address(e, i.operands[0])
    pointer = place(e, address, width * len(values), site)
    bar, at = barrier_at(e, i, f, i.operands[2], site)
    must(e, call(e, "cl_mbarrier_check", "i1", *who(e, site), f"ptr {bar}"))
    if e.unit.traced:
        e.event(SyncEvent.ASYNC_WRITE, site, e.new(f"add i64 {address}, {SHARED_WINDOW}"), async_copy.BY_BARRIER)
        e.event(SyncEvent.EXTENT, site, str(width * len(values)))
    note_deferred(e, i, bar, at, site)
    for number, (value, type) in enumerate(values):
        there = e.new(f"getelementptr i8, ptr {pointer}, i64 {number * width}")
        e.emit(f"store {type} {value}, ptr {there}, align {width}")
    call(e, "cl_mbarrier_apply", "void", f"ptr {bar}", "i64 0", "i64 0", f"i64 {-width * len(values)}")


@TABLE.row(f"red.async.relaxed.cluster.shared::cluster.{_BYTES}.<inc|dec>.u32")
@TABLE.row(f"red.async.relaxed.cluster.shared::cluster.{_BYTES}.<min|max>.<u32|s32>")
@TABLE.row(f"red.async.relaxed.cluster.shared::cluster.{_BYTES}.<and|or|xor>.b32")
@TABLE.row(f"red.async.relaxed.cluster.shared::cluster.{_BYTES}.add.<u32|s32|u64>")
def _reduce(e: ThreadCode, i: Instruction, f: Form) -> None:
    include(e)
    operation, kind = f.choose(*_OPERATIONS), f.types[-1]
    site = e.plan.other_sites[i]
    name = bulk_reduction.name_of(operation, kind)
    e.unit.include(name, bulk_reduction.writer(operation, kind))
    width = BITS[kind] // 8
    _need_cluster(e, site, str(width))
    address = _address(e, i.operands[0])
    pointer = place(e, address, width, site)
    bar, at = barrier_at(e, i, f, i.operands[2], site)
    must(e, call(e, "cl_mbarrier_check", "i1", *who(e, site), f"ptr {bar}"))
    if e.unit.traced:
        e.event(SyncEvent.ASYNC_WRITE, site, e.new(f"add i64 {address}, {SHARED_WINDOW}"), async_copy.BY_BARRIER)
        e.event(SyncEvent.EXTENT, site, str(width))
    note_deferred(e, i, bar, at, site)
    value = e.alloca(f"i{8 * width}")
    e.emit(f"store i{8 * width} {e.integer(i.operands[1], 8 * width)}, ptr {value}")
    places = (f"ptr {value}", f"ptr {pointer}", f"ptr @{name}", f"ptr {bar}")
    call(e, "cl_async_now", "void", f"ptr {e.context}", *places, f"i32 {width}")


# -- forms of bulk copies ----------------------------------------------------------------------------------------


@TABLE.row(f"cp.async.bulk.{_TO_SHARED}.global.{_BYTES}{_HINT}")
@TABLE.row(f"cp.async.bulk.shared::cluster.global.{_BYTES}.multicast::cluster{_HINT}")
@TABLE.row(f"cp.async.bulk.shared::cluster.shared::cta.{_BYTES}", f"cp.async.bulk.global.shared::cta.bulk_group{_HINT}")
def _bulk_copy(e: ThreadCode, i: Instruction, f: Form) -> None:
    _bulk(e, i, f)


@TABLE.row(f"cp.async.bulk.prefetch.L2.global{_HINT}")
def _bulk_prefetch(e: ThreadCode, i: Instruction, f: Form) -> None:
    """No visible effect: caches are not modelled here."""


@TABLE.row("cp.async.bulk.commit_group")
def _bulk_commit(e: ThreadCode, i: Instruction, f: Form) -> None:
    _close_group(e, 1)


@TABLE.row("cp.async.bulk.wait_group[.read]")
def _bulk_wait(e: ThreadCode, i: Instruction, f: Form) -> None:
    """A copy reads its source on completion, so waiting for reads waits for completion."""
    _wait(e, i, 1, e.integer(i.operands[0], 32))


_REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
_REDUCE_NEAR = f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_BYTES}"


@TABLE.row(f"{_REDUCE}{_HINT}.<and|or|xor>.<b32|b64>", f"{_REDUCE}{_HINT}.add.<u32|s32|u64|f32|f64>")
@TABLE.row(f"{_REDUCE}{_HINT}.<min|max>.<u32|s32|u64|s64|f16|bf16>", f"{_REDUCE}{_HINT}.<inc|dec>.u32")
@TABLE.row(f"{_REDUCE}{_HINT}.add.noftz.<f16|bf16>")
@TABLE.row(
    f"{_REDUCE_NEAR}.<and|or|xor>.b32", f"{_REDUCE_NEAR}.add.<u32|s32|u64>", f"{_REDUCE_NEAR}.<min|max>.<u32|s32>"
)
@TABLE.row(f"{_REDUCE_NEAR}.<inc|dec>.u32")
def _bulk_reduce(e: ThreadCode, i: Instruction, f: Form) -> None:
    operation, type = f.choose(*_OPERATIONS), f.types[-1]
    name = bulk_reduction.name_of(operation, type)
    e.unit.include(name, bulk_reduction.writer(operation, type))
    _bulk(e, i, f, f"@{name}")
