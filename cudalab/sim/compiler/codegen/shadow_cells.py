"""Accesses of sanitized code: invalid ones are skipped, the others update shadow cells.

Code of the variants ``sanitize`` and ``sanitize_trace`` continues after an access out of bounds: it is recorded
(``Race.skipped``), a load gives 0, a store is dropped. ``sanitize_trace`` records the others in the trace. ``sanitize``
keeps a cell of 8 bytes for each granule of shared memory, and of the device memory that the launch writes; a granule
has as many bytes as the narrowest store there, so that a write never covers a part of one.

A cell holds the last access (time, thread, state, site), like a shadow word of ThreadSanitizer. *Time* counts region
calls and serves as the epoch: accesses before ``Race.last_barrier`` happen before everything the block does now, those
before ``last_warp_operation`` before everything the warp does. The inline fast path compares the cell with its usual
values: read by several threads of the block since the barrier, or not accessed since. All other cases go to ``cl_race``
in the runtime object, which records a *suspect* where it cannot prove that two accesses are ordered, or that bytes were
written before they are read.

Happens-before here covers barriers of the whole block and warp operations with a full mask. Finer synchronisation
(fences with flags, partial masks, named barriers) is ignored, so there are false positives but no false negatives:
suspects are checked again from the trace (``machine/sanitizer/exact_check.py``). Of several readers a cell keeps only
their scope (warp, block or grid), which again can only add suspects.
"""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.abi import Race, SiteKind, Space
from cudalab.sim.compiler.codegen import addresses, tracing
from cudalab.sim.compiler.codegen.environment import ThreadEnvironment
from cudalab.sim.compiler.passes.accesses import Access, Extent, Group
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.runtime import layout

#: Bits of the kind passed to ``cl_race``: 0 load, 1 store, 2 atomic; the bytes are read; shared memory; the kernel has
#: no warp operations, so that readers of one warp are treated like any of the block.
READS, SHARED, NO_WARPS = 4, 8, 16
_MOST_CELLS = 4
IDENTITY = Race.SITE_MASK | 0x3FF << Race.THREAD_SHIFT


def pointer_to(e: ThreadEnvironment, access: Access) -> str:
    """Write the check of an access and the instrumentation of this variant; returns a pointer to the memory it reaches,
    or to a sink."""
    if access.read_only:
        return _skip_constant_store(e, access)
    if access.extent is Extent.SHADOW:
        return _through_shadow(e, access)
    if access.extent is Extent.CLUSTER:
        return _in_cluster(e, access)
    group = Group([access])
    base = addresses.base_of(e, access)
    start, low, limit = addresses.extent_of(e, group)
    distance = base if low == "0" else e.new(f"sub i64 {base}, {low}")
    lowest = e.new(f"add i64 {distance}, {access.offset}") if access.offset else distance
    inside = e.new(f"icmp ult i64 {lowest}, {limit}")
    if not access.aligned and access.size > 1:
        address = e.new(f"add i64 {base}, {access.offset}") if access.offset else base
        rest = e.new(f"and i64 {address}, {access.size - 1}")
        inside = e.new(f"and i1 {inside}, {e.new(f'icmp eq i64 {rest}, 0')}")
    good, bad, join = e.fresh_label("good"), e.fresh_label("bad"), e.fresh_label("join")
    e.emit(f"br i1 {inside}, label %{good}, label %{bad}, !prof !1")
    sink = _sink(e)
    table = e.unit.access_table([access])
    e.unit.declare("cl_skip_access", "declare ptr @cl_skip_access(ptr, ptr, i32, i64, i64, ptr) cold nounwind")
    e.failures.append(
        f"{bad}:\n{sink} = call ptr @cl_skip_access(ptr {e.context}, ptr {e.block}, i32 {e.thread()}, i64 {base}, "
        f"i64 {e.stack()}, ptr {table})\nbr label %{join}"
    )
    e.label(good)
    offset = lowest
    if access.extent is not Extent.ROOT:  # extents of variables are offsets within the window
        offset = e.new(f"add i64 {base}, {access.offset}") if access.offset else base
    pointer = e.new(f"getelementptr i8, ptr {start}, i64 {offset}")
    _after(e, access, base, offset, pointer)
    end = e.label_now
    e.emit(f"br label %{join}")
    e.label(join)
    return e.new(f"phi ptr [ {pointer}, %{end} ], [ {sink}, %{bad} ]")


def _in_cluster(e: ThreadEnvironment, access: Access) -> str:
    """Distributed shared memory, by generic address."""
    address = e.new(f"add i64 {addresses.base_of(e, access)}, {abi.SHARED_WINDOW + access.offset}")
    flags = 1 | (0 if access.kind is SiteKind.LOAD else 2)
    kind = kind_of(e, access) if e.unit.shadowed else -1
    numbers = f"i64 {address}", f"i32 {access.size}", f"i32 {access.site}", f"i32 {flags}", f"i32 {kind}"
    return e.runtime("cl_skip_slow", "ptr", f"ptr {e.context}", f"ptr {e.block}", f"i32 {e.thread()}", *numbers)


def _sink(e: ThreadEnvironment) -> str:
    e.count += 1
    return f"%sink{e.count}"


def _skip_constant_store(e: ThreadEnvironment, access: Access) -> str:
    address = e.new(f"add i64 {addresses.base_of(e, access)}, {access.offset}")
    numbers = f"i64 {address}", f"i32 {access.size}", f"i32 {access.site}", f"i32 {int(abi.FaultKind.READ_ONLY)}"
    return e.runtime("cl_skip", "ptr", f"ptr {e.context}", f"ptr {e.block}", f"i32 {e.thread()}", *numbers)


def _through_shadow(e: ThreadEnvironment, access: Access) -> str:
    """As in ``checks``, but invalid accesses are skipped."""
    base = addresses.base_of(e, access)
    address = e.new(f"add i64 {base}, {access.offset}") if access.offset else base
    slow, join = e.fresh_label("slow"), e.fresh_label("join")
    direct = addresses.found_in_shadow(e, access, address, slow)
    _after(e, access, base, address, direct)
    if (
        access.kind is not SiteKind.LOAD and e.unit.shadowed
    ):  # memory that no parameter points to is not copied before the launch
        for start in range(0, access.size, tracing.UNDO_BYTES):
            part = e.new(f"getelementptr i8, ptr {direct}, i64 {start}") if start else direct
            bytes_ = min(tracing.UNDO_BYTES, access.size - start)
            e.runtime("cl_undo", "void", f"ptr {e.context}", f"ptr {part}", f"i64 {bytes_}")
    end = e.label_now
    e.emit(f"br label %{join}")
    found = _sink(e)
    flags = (1 if access.space is Space.GENERIC else 0) | (0 if access.kind is SiteKind.LOAD else 2)
    kind = kind_of(e, access) if e.unit.shadowed else -1
    e.failures.append(
        f"{slow}:\n{found} = call ptr @cl_skip_slow(ptr {e.context}, ptr {e.block}, i32 {e.thread()}, i64 {address}, "
        f"i32 {access.size}, i32 {access.site}, i32 {flags}, i32 {kind})\nbr label %{join}"
    )
    e.unit.declare("cl_skip_slow", "declare ptr @cl_skip_slow(ptr, ptr, i32, i64, i32, i32, i32, i32) cold nounwind")
    e.label(join)
    return e.new(f"phi ptr [ {direct}, %{end} ], [ {found}, %{slow} ]")


def _after(e: ThreadEnvironment, access: Access, base: str, offset: str, pointer: str) -> None:
    """Instrument a valid access. ``offset``: in shared memory, or from the start of the root."""
    if e.unit.traced and access.space is not Space.PARAM:
        addresses.record(e, access, pointer)
    if not e.unit.shadowed:
        return
    if access.space is Space.SHARED:
        _follow(e, access, offset, shared=True)
    elif access.space in (Space.GLOBAL, Space.GENERIC) and access.extent in (Extent.ROOT, Extent.SHADOW):
        address = e.new(f"add i64 {base}, {access.offset}") if access.offset else base
        flags = root_flags(e, access.root)
        follow, done = e.fresh_label("follow"), e.fresh_label("done")
        e.emit(f"br i1 {flags[0]}, label %{follow}, label %{done}")
        e.label(follow)
        _follow(e, access, address, shared=False, unset=flags[1])
        e.emit(f"br label %{done}")
        e.label(done)


# -- cells -------------------------------------------------------------------------------------------------------------


def kind_of(e: ThreadEnvironment, access: Access) -> int:
    """The kind passed to ``cl_race``. To other blocks, an atomic of block scope is a store."""
    shared = SHARED if access.space is Space.SHARED else 0
    warps = 0 if e.unit.plan.orders_warps else NO_WARPS
    if access.kind is SiteKind.LOAD:
        return READS | shared | warps
    if access.kind is SiteKind.STORE:
        return 1 | shared | warps
    opcode = access.instruction.opcode
    order = 1 if ".cta" in opcode and not shared else 2
    return order | (0 if ".exch" in opcode else READS) | shared | warps


def _race(e: ThreadEnvironment) -> str:
    return e.context_field("race", "ptr")


def cells_of(e: ThreadEnvironment, name: str) -> str:
    def make() -> str:
        place = e.new(f"getelementptr i8, ptr {_race(e)}, i64 {layout.race_field(name)}")
        return e.new(f"load ptr, ptr {place}, !invariant.load !0")

    return e.cached(("race", name), Level.LAUNCH, make)


def time_word(e: ThreadEnvironment, name: str) -> str:
    """A field that changes with each region call, shifted to its position in a cell."""
    race = _race(e)
    level = e.level_here(Level.BLOCK)

    def make() -> str:
        place = e.new(f"getelementptr i8, ptr {race}, i64 {layout.race_field(name)}")
        return e.new(f"shl i64 {e.new(f'load i64, ptr {place}')}, {Race.TIME_SHIFT}")

    return e.cached(("race", name), level, make)


def root_flags(e: ThreadEnvironment, root: int) -> tuple[str, str]:
    """Whether accesses through a root are checked, and whether it may hold unwritten bytes."""

    def make() -> str:
        field = e.new(f"getelementptr i8, ptr {_race(e)}, i64 {layout.race_field('root_flags')}")
        table = e.new(f"load ptr, ptr {field}, !invariant.load !0")
        place = e.new(f"getelementptr i8, ptr {table}, i64 {1 + root}")
        return e.new(f"load i8, ptr {place}, !invariant.load !0")

    byte = e.cached(("race flags", root), Level.LAUNCH, make)

    def bit(mask: int) -> str:
        key = ("race flag", root, mask)
        return e.cached(key, Level.LAUNCH, lambda: e.new(f"icmp ne i8 {e.new(f'and i8 {byte}, {mask}')}, 0"))

    return bit(Race.ROOT_CHECKED), bit(Race.ROOT_UNSET)


def own_cell(e: ThreadEnvironment) -> str:
    """Time and thread of an access by this thread."""
    time = time_word(e, "time")

    def make() -> str:
        wide = e.new(f"zext i32 {e.thread()} to i64")
        return e.new(f"add i64 {e.new(f'shl i64 {wide}, {Race.THREAD_SHIFT}')}, {time}")

    return e.cached("race own", e.level_here(Level.THREAD), make)


def usual_cell(e: ThreadEnvironment, name: str, state: int) -> str:
    """A cell with this time and state whose bytes are initialised."""
    time = time_word(e, name)
    bits = state << Race.STATE_SHIFT | Race.SET
    key = ("race cell", name, state)
    return e.cached(key, e.level_here(Level.BLOCK), lambda: e.new(f"or i64 {time}, {bits}"))


def _follow(e: ThreadEnvironment, access: Access, address: str, *, shared: bool, unset: str = "") -> None:
    """Compare the cells of an access with their usual values, or call ``cl_race``."""
    shift = e.unit.plan.shared_cell_shift if shared else e.unit.plan.cell_shift
    cells = cells_of(e, "shared_cells" if shared else "cells")
    count = max(1, access.size >> shift)
    index = e.new(f"lshr i64 {address}, {shift}") if shift else address
    place = e.new(f"getelementptr i64, ptr {cells}, i64 {index}")
    kind = kind_of(e, access)
    slow, done = e.fresh_label("race"), e.fresh_label("raced")
    if count > _MOST_CELLS:
        e.emit(f"br label %{slow}")
    else:
        type_ = "i64" if count == 1 else f"<{count} x i64>"
        cell = e.new(f"load {type_}, ptr {place}, align 8")
        if kind & 3 == 1:
            _store(e, access, cell, type_, count, place, shared, slow, done)
        else:
            _load(e, access, cell, type_, count, place, shared, unset, slow, done)
    e.label(slow)
    generic = e.new(f"add i64 {address}, {abi.SHARED_WINDOW}") if shared else address
    e.unit.declare(
        "cl_race", f"declare {layout.RACE_CONVENTION} void @cl_race(ptr, ptr, i32, i32, i32, i32, i64) nounwind"
    )
    e.emit(
        f"call {layout.RACE_CONVENTION} void @cl_race(ptr {e.context}, ptr {place}, i32 {count}, i32 {kind}, "
        f"i32 {e.thread()}, i32 {access.site}, i64 {generic})"
    )
    e.emit(f"br label %{done}")
    e.label(done)


def _splat(e: ThreadEnvironment, value: str, count: int) -> str:
    if count == 1:
        return value
    if value[0] != "%":
        return "<" + ", ".join([f"i64 {value}"] * count) + ">"
    first = e.new(f"insertelement <{count} x i64> poison, i64 {value}, i32 0")
    return e.new(f"shufflevector <{count} x i64> {first}, <{count} x i64> poison, <{count} x i32> zeroinitializer")


def _all(e: ThreadEnvironment, bits: str, count: int) -> str:
    if count == 1:
        return bits
    name = f"llvm.vector.reduce.and.v{count}i1"
    e.unit.declare(name, f"declare i1 @{name}(<{count} x i1>)")
    return e.new(f"call i1 @{name}(<{count} x i1> {bits})")


def _store(
    e: ThreadEnvironment,
    access: Access,
    cell: str,
    type_: str,
    count: int,
    place: str,
    shared: bool,
    slow: str,
    done: str,
) -> None:
    """Fast path of stores: not accessed since the barrier (or in this launch), or by this thread alone: overwrite the
    cell."""
    limit = time_word(e, "last_barrier" if shared else "launch_start")
    fresh = e.new(f"icmp ult {type_} {cell}, {_splat(e, limit, count)}")
    new = e.new(f"or i64 {own_cell(e)}, {Race.WRITE << Race.STATE_SHIFT | Race.SET | min(access.site, Race.SITE_MASK)}")
    new = _splat(e, new, count)
    # READ and WRITE differ in one bit, which is ignored
    ignored = Race.SITE_MASK | Race.GRID_CONFLICT | (Race.READ ^ Race.WRITE) << Race.STATE_SHIFT
    rest = e.new(f"and {type_} {e.new(f'xor {type_} {cell}, {new}')}, {_splat(e, str(~ignored), count)}")
    own = e.new(f"icmp eq {type_} {rest}, {_splat(e, '0', count)}")
    kind = "i1" if count == 1 else f"<{count} x i1>"
    usual = _all(e, e.new(f"or {kind} {fresh}, {own}"), count)
    write = e.fresh_label("write")
    e.emit(f"br i1 {usual}, label %{write}, label %{slow}, !prof !1")
    e.label(write)
    e.emit(f"store {type_} {new}, ptr {place}, align 8")
    e.emit(f"br label %{done}")


def _load(
    e: ThreadEnvironment,
    access: Access,
    cell: str,
    type_: str,
    count: int,
    place: str,
    shared: bool,
    unset: str,
    slow: str,
    done: str,
) -> None:
    """Fast path of loads and atomics: several threads of the block, lanes of the warp or blocks have done the same
    since the barrier; for loads also: no access since the barrier, or a read by another thread."""
    atomic = access.kind is SiteKind.ATOMIC
    known = e.new(f"and {type_} {cell}, {_splat(e, str(~IDENTITY), count)}")
    several = usual_cell(e, "last_barrier", Race.ATOMIC_BLOCK if atomic else Race.READ_BLOCK)
    fast = e.new(f"icmp eq {type_} {known}, {_splat(e, several, count)}")
    kind = "i1" if count == 1 else f"<{count} x i1>"
    if not shared:
        all_blocks = usual_cell(e, "launch_start", Race.ATOMIC_GRID if atomic else Race.READ_GRID)
        also = e.new(f"icmp eq {type_} {known}, {_splat(e, all_blocks, count)}")
        fast = e.new(f"or {kind} {fast}, {also}")
    if e.unit.plan.orders_warps and not atomic:
        whole = e.new(f"and {type_} {cell}, {_splat(e, str(~(Race.SITE_MASK | 31 << Race.THREAD_SHIFT)), count)}")
        also = e.new(f"icmp eq {type_} {whole}, {_splat(e, _read_by_warp(e), count)}")
        fast = e.new(f"or {kind} {fast}, {also}")
    fast = _all(e, fast, count)
    if atomic:
        e.emit(f"br i1 {fast}, label %{done}, label %{slow}, !prof !1")
        return
    other, first = e.fresh_label("other"), e.fresh_label("first")
    e.emit(f"br i1 {fast}, label %{done}, label %{other}")
    e.label(other)
    if shared:
        start, base = time_word(e, "block_start"), time_word(e, "last_barrier")
        window = e.cached("race window", e.level_here(Level.BLOCK), lambda: e.new(f"sub i64 {base}, {start}"))
        since = e.new(f"sub {type_} {cell}, {_splat(e, start, count)}")
        fresh = _all(e, e.new(f"icmp ult {type_} {since}, {_splat(e, window, count)}"), count)
        held = e.new(f"and {type_} {cell}, {_splat(e, str(Race.SET), count)}")
        held = _all(e, e.new(f"icmp ne {type_} {held}, {_splat(e, '0', count)}"), count)
        fresh = e.new(f"and i1 {fresh}, {held}")
    else:
        limit = time_word(e, "launch_start")
        fresh = _all(e, e.new(f"icmp ult {type_} {cell}, {_splat(e, limit, count)}"), count)
        fresh = e.new(f"and i1 {fresh}, {e.new(f'xor i1 {unset}, true')}")
    more = slow
    if count == 1 and not e.unit.plan.orders_warps:
        more = e.fresh_label("second")
    e.emit(f"br i1 {fresh}, label %{first}, label %{more}")
    e.label(first)
    new = e.new(f"or i64 {own_cell(e)}, {Race.READ << Race.STATE_SHIFT | Race.SET | min(access.site, Race.SITE_MASK)}")
    e.emit(f"store {type_} {_splat(e, new, count)}, ptr {place}, align 8")
    e.emit(f"br label %{done}")
    if more != slow:
        e.label(more)
        _second_reader(e, cell, place, several, slow, done)


def _read_by_warp(e: ThreadEnvironment) -> str:
    """A cell that lanes of this warp have read at the current time."""

    def make() -> str:
        bits = Race.READ_WARP << Race.STATE_SHIFT | Race.SET
        warp = e.new(f"and i64 {own_cell(e)}, {~(31 << Race.THREAD_SHIFT)}")
        return e.new(f"or i64 {warp}, {bits}")

    return e.cached("race warp", e.level_here(Level.THREAD), make)


def _second_reader(e: ThreadEnvironment, cell: str, place: str, several: str, slow: str, done: str) -> None:
    """One thread has read since the barrier: either this one, or the cell now has several readers."""
    base = time_word(e, "last_barrier")
    since = e.new(f"icmp uge i64 {cell}, {base}")
    state = e.new(f"and i64 {cell}, {15 << Race.STATE_SHIFT | Race.WARP_CONFLICT | Race.SET}")
    one = e.new(f"icmp eq i64 {state}, {Race.READ << Race.STATE_SHIFT | Race.SET}")
    both, change = e.fresh_label("two"), e.fresh_label("several")
    e.emit(f"br i1 {e.new(f'and i1 {since}, {one}')}, label %{both}, label %{slow}")
    e.label(both)
    thread = e.new(f"and i64 {e.new(f'xor i64 {cell}, {own_cell(e)}')}, {0x3FF << Race.THREAD_SHIFT}")
    e.emit(f"br i1 {e.new(f'icmp eq i64 {thread}, 0')}, label %{done}, label %{change}")
    e.label(change)
    kept = e.new(f"and i64 {cell}, {Race.GRID_CONFLICT}")
    e.emit(f"store i64 {e.new(f'or i64 {several}, {kept}')}, ptr {place}, align 8")
    e.emit(f"br label %{done}")
