"""Bounds checks of asynchronous copies, whose size is known only when they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim import abi
from cudalab.sim.abi import FaultKind, SiteKind, SyncEvent
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.mbarrier import WHO, begin

if TYPE_CHECKING:
    from cudalab.sim.compiler.runtime.traits import Traits

IS_SHARED = 1
"""Flag of ``cl_async_reach``: the address is one of shared memory."""
NOT_A_MULTIPLE, NO_CLUSTER = 1, 2
"""Values of ``fault.extra[0]`` for ``FaultKind.BAD_COPY``."""


def write(library: Library, traits: Traits) -> None:
    """Add the functions of this module, for the variant of ``traits``."""
    _lookup(library)
    _reach(library, traits)


def _reach(library: Library, traits: Traits) -> None:
    """``cl_async_reach(…, address, size, alignment, start, low, length, root, flags, group)``: a checked pointer to
    ``size`` bytes; null after a fault (recorded as skipped in code that skips invalid accesses). ``start`` is the start
    of the statically known extent ``low … low + length``, or null: the address is looked up in the shadow memory.
    ``root`` is the number of that root + 1, or 0; ``group`` is the group for traces; negative: a fault check only."""
    f = begin(
        library,
        "cl_async_reach",
        "ptr",
        f"{WHO}, i64 address, i64 size, i32 alignment, ptr start, i64 low, i64 length, i32 root, i32 flags, i32 kind, "
        "i32 group",
    )
    found = f.variable("ptr", "null")
    window = f.variable("i64", 0)
    shared = f.compare("ne", "i32", f.op(f"and i32 %flags, {IS_SHARED}"), 0)
    with f.if_(shared):
        window.set(abi.SHARED_WINDOW)
    known = f.compare("ne", "ptr", "%start", "null")
    distance = f.op("sub i64 %address, %low")
    with f.if_else(known) as otherwise:
        room = f.op("sub i64 %length, %size")
        fits = f.op(f"and i1 {f.compare('ule', 'i64', '%size', '%length')}, {f.compare('ule', 'i64', distance, room)}")
        with f.if_(fits):
            found.set(f.at("%start", distance))
        otherwise()
        found.set(f.call("cl_async_lookup", "ptr", "ptr %ctx", "ptr %blk", "i32 %thread", "i64 %address", "i64 %size"))
    rest = f.op(f"and i64 %address, {f.wide(f.op('sub i32 %alignment, 1'))}")
    even = f.compare("eq", "i64", rest, 0)
    inside = f.compare("ne", "ptr", found.get(), "null")
    with f.if_(f.op(f"xor i1 {f.op(f'and i1 {inside}, {even}')}, true")):
        kind = f.op(f"select i1 {inside}, i32 {int(FaultKind.MISALIGNED)}, i32 {int(FaultKind.OUT_OF_BOUNDS)}")
        size = f.op(f"select i1 {inside}, i32 %alignment, i32 {f.op('trunc i64 %size to i32')}")
        address = f.op(f"add i64 %address, {window.get()}")
        who = ("ptr %ctx", "ptr %blk", "i32 %thread", f"i32 {kind}", "i32 %site")
        f.call("cl_fault", "void", *who, f"i64 {address}", f"i32 {size}")
        f.store("i64", f.wide("%root"), "%ctx", layout.field("fault.root"))
        f.store("i64", "%low", "%ctx", layout.field("fault.extra"))
        f.store("i64", "%length", "%ctx", layout.field("fault.extra") + 8)
        if traits.skips:
            f.call("cl_missed", "ptr", "ptr %ctx")
        f.ret("null")
    with f.if_(f.compare("eq", "i64", "%size", 0)):
        f.ret(found.get())
    if traits.traced:
        store = f.compare("ne", "i32", "%kind", int(SiteKind.LOAD))
        event = f.op(f"select i1 {store}, i32 {int(SyncEvent.ASYNC_WRITE)}, i32 {int(SyncEvent.ASYNC_READ)}")
        number = f.op(f"shl i32 {f.op('and i32 %group, 4095')}, 4")
        flags = f.op(f"or i32 {event}, {number}")
        address = f.op(f"add i64 %address, {window.get()}")
        which = ("i32 %site", "i32 %thread")
        f.call("cl_event", "void", "ptr %ctx", f"i64 {address}", *which, f"i32 {flags}")
        f.call("cl_event", "void", "ptr %ctx", "i64 %size", *which, f"i32 {int(SyncEvent.EXTENT)}")
    if traits.traced or traits.marked:
        with f.if_(f.op(f"xor i1 {shared}, true")):
            f.call("cl_mark", "void", "ptr %ctx", f"ptr {found.get()}", "i64 %size", "i32 %kind")
    f.ret(found.get())


def _lookup(library: Library) -> None:
    """``cl_async_lookup(ctx, blk, thread, address, size)``: a pointer to bytes that are all live; otherwise null."""
    f = begin(library, "cl_async_lookup", "ptr", "ptr ctx, ptr blk, i32 thread, i64 address, i64 size")
    offset = f.op(f"sub i64 %address, {abi.SHARED_WINDOW}")
    with f.if_(_inside(f, offset, f.wide(f.load("i32", "%ctx", layout.field("shared_size"))))):
        f.ret(f.at(f.load("ptr", "%ctx", layout.field("shared")), offset))
    arena = f.load("ptr", "%ctx", layout.field("arena"))
    distance = f.op(f"sub i64 %address, {f.op(f'ptrtoint ptr {arena} to i64')}")
    with f.if_(_inside(f, distance, f.load("i64", "%ctx", layout.field("arena_size")))):
        shadow = f.load("ptr", "%ctx", layout.field("shadow"))
        at = f.variable("i64", distance)
        end = f.op(f"add i64 {distance}, %size")
        shift = abi.GRANULE.bit_length() - 1
        with f.loop():
            here = at.get()
            granule = f.op(f"lshr i64 {here}, {shift}")
            live = f.op(f"zext i16 {f.load('i16', f.element(shadow, 'i16', granule, 'i64'))} to i64")
            begins = f.op(f"shl i64 {granule}, {shift}")
            reached = f.op(f"add i64 {begins}, {live}")
            with f.if_(f.compare("uge", "i64", reached, end)):
                f.ret(f.at(arena, distance))
            with f.if_(f.compare("ne", "i64", live, abi.GRANULE)):
                f.ret("null")
            at.set(f.op(f"add i64 {begins}, {abi.GRANULE}"))
    ranges = f.load("ptr", "%ctx", layout.field("ranges"))
    with f.count_up("i64", f.load("i64", "%ctx", layout.field("range_count"))) as index:
        entry = f.at(ranges, f.op(f"mul i64 {index}, 16"))
        offset = f.op(f"sub i64 %address, {f.load('i64', entry)}")
        with f.if_(_inside(f, offset, f.load("i64", entry, 8))):
            f.ret(f.at(f.load("ptr", entry), offset))
    f.ret("null")


def _inside(f: Function, offset: str, length: str) -> str:
    room = f.op(f"sub i64 {length}, %size")
    return f.op(f"and i1 {f.compare('ule', 'i64', '%size', length)}, {f.compare('ule', 'i64', offset, room)}")
