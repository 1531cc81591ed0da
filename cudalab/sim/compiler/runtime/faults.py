"""Diagnosis of failed checks, recording of faults, and polling of the host when fuel runs out."""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.abi import FaultKind
from cudalab.sim.compiler.passes.accesses import Extent
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library

_ENTRY_BYTES = 40  # of layout.ACCESS
_LOW, _LENGTH, _SIZE, _SITE, _ROOT, _EXTENT = 8, 16, 24, 28, 32, 36


def write(library: Library) -> None:
    """Add the functions of this module."""
    _fault(library)
    _fault_access(library)
    _lanes_outside(library)
    _slow_access(library)
    _poll(library)


def _fault(library: Library) -> None:
    """Record a fault: ``cl_fault(ctx, blk, thread, kind, site, address, size)``."""
    f = library.function(
        "cl_fault", "void", "ptr ctx, ptr blk, i32 thread, i32 kind, i32 site, i64 address, i32 size", "cold noinline"
    )
    for name, type, value in (
        ("kind", "i32", "%kind"),
        ("site", "i32", "%site"),
        ("thread", "i32", "%thread"),
        ("size", "i32", "%size"),
        ("address", "i64", "%address"),
        ("root", "i64", "0"),
        ("detail", "i64", "0"),
    ):
        f.store(type, value, "%ctx", layout.field(f"fault.{name}"))
    f.store("i64", f.load("i64", "%blk", layout.LINEAR), "%ctx", layout.field("fault.block"))
    f.ret()


def _fault_access(library: Library) -> None:
    """Find the first access of a group that is outside its extent, and record the fault.

    ``base`` is the pointer in its own space, ``stack`` the start of the activation's frame in local memory.
    """
    f = library.function(
        "cl_fault_access",
        "void",
        "ptr ctx, ptr blk, i32 thread, i64 base, i64 stack, ptr table, i32 count",
        "cold noinline",
    )
    with f.count_up("i32", "%count") as index:
        entry = f.at("%table", f.op(f"mul i64 {f.wide(index)}, {_ENTRY_BYTES}"))
        low, length, window = (f.variable("i64", 0) for _ in range(3))
        address, fits, even = _judge(f, entry, "%base", low, length, window)
        fine = f.op(f"and i1 {fits}, {even}")
        last = f.compare("eq", "i32", f.op(f"add i32 {index}, 1"), "%count")
        bad = f.op(f"or i1 {f.op(f'xor i1 {fine}, true')}, {last}")
        with f.if_(bad):
            kind = f.op(f"select i1 {fits}, i32 {int(FaultKind.MISALIGNED)}, i32 {int(FaultKind.OUT_OF_BOUNDS)}")
            generic = f.op(f"add i64 {address}, {window.get()}")
            f.call(
                "cl_fault",
                "void",
                "ptr %ctx",
                "ptr %blk",
                "i32 %thread",
                f"i32 {kind}",
                f"i32 {f.load('i32', entry, _SITE)}",
                f"i64 {generic}",
                f"i32 {f.load('i32', entry, _SIZE)}",
            )
            f.store("i64", f.wide(f.load("i32", entry, _ROOT)), "%ctx", layout.field("fault.root"))
            f.store("i64", low.get(), "%ctx", layout.field("fault.extra"))  # the extent that was missed
            f.store("i64", length.get(), "%ctx", layout.field("fault.extra") + 8)
            f.ret()
    f.ret()


def _judge(f: Function, entry: str, base: str, low, length, window) -> tuple[str, str, str]:  # type: ignore[no-untyped-def]
    """Evaluate an entry of an access table: the address, whether it is in bounds, and whether it is aligned."""
    address = f.op(f"add i64 {base}, {f.load('i64', entry)}")
    size = f.wide(f.load("i32", entry, _SIZE))
    extent = f.load("i32", entry, _EXTENT)
    _bounds(f, entry, extent, low, length, window)
    distance = f.op(f"sub i64 {address}, {low.get()}")
    room = f.op(f"sub i64 {length.get()}, {size}")
    fits = f.op(f"and i1 {f.compare('ule', 'i64', size, length.get())}, {f.compare('ule', 'i64', distance, room)}")
    rest = f.op(f"and i64 {address}, {f.op(f'sub i64 {size}, 1')}")
    return address, fits, f.compare("eq", "i64", rest, 0)


def _lanes_outside(library: Library) -> None:
    """Check a group of accesses for neighbouring threads one by one: thread + n uses ``base + n · stride``. Records the
    fault of the first failing thread of ``mask``; returns whether there is one."""
    f = library.function(
        "cl_lanes_outside",
        "i1",
        "ptr ctx, ptr blk, i32 thread, i64 base, i64 stride, i64 stack, i32 mask, ptr table, i32 count",
        "cold noinline",
    )
    with f.bits("%mask") as lane:
        base = f.op(f"add i64 %base, {f.op(f'mul i64 %stride, {f.wide(lane)}')}")
        with f.count_up("i32", "%count") as index:
            entry = f.at("%table", f.op(f"mul i64 {f.wide(index)}, {_ENTRY_BYTES}"))
            low, length, window = (f.variable("i64") for _ in range(3))
            for each in (low, length, window):
                each.set(0)
            _, fits, even = _judge(f, entry, base, low, length, window)
            with f.if_(f.op(f"xor i1 {f.op(f'and i1 {fits}, {even}')}, true")):
                thread = f.op(f"add i32 %thread, {lane}")
                rest = f"i64 {base}", "i64 %stack", "ptr %table", "i32 %count"
                f.call("cl_fault_access", "void", "ptr %ctx", "ptr %blk", f"i32 {thread}", *rest)
                f.ret("true")
    f.ret("false")


def _bounds(f: Function, entry: str, extent: str, low, length, window) -> None:  # type: ignore[no-untyped-def]
    """The bounds of an entry of an access table: start, length, and the window of its space."""
    with f.if_(f.compare("eq", "i32", extent, int(Extent.ROOT))):
        index = f.op(f"sub i32 {f.load('i32', entry, _ROOT)}, 1")
        roots = f.load("ptr", "%ctx", layout.field("roots"))
        root = f.at(roots, f.op(f"mul i64 {f.wide(index)}, 16"))
        low.set(f.load("i64", root))
        length.set(f.load("i64", root, 8))
    with f.if_(f.compare("eq", "i32", extent, int(Extent.VARIABLE))):
        low.set(f.load("i64", entry, _LOW))
        length.set(f.load("i64", entry, _LENGTH))
        window.set(abi.SHARED_WINDOW)
    with f.if_(f.compare("eq", "i32", extent, int(Extent.LOCAL_VARIABLE))):
        low.set(f.op(f"add i64 %stack, {f.load('i64', entry, _LOW)}"))
        length.set(f.load("i64", entry, _LENGTH))
        window.set(abi.LOCAL_WINDOW)
    shared = f.wide(f.load("i32", "%ctx", layout.field("shared_size")))
    with f.if_(f.compare("eq", "i32", extent, int(Extent.DYNAMIC_SHARED))):
        offset = f.wide(f.load("i32", "%ctx", layout.field("dynamic_offset")))
        low.set(offset)
        length.set(f.op(f"sub i64 {shared}, {offset}"))
        window.set(abi.SHARED_WINDOW)
    with f.if_(f.compare("eq", "i32", extent, int(Extent.SHARED))):
        length.set(shared)
        window.set(abi.SHARED_WINDOW)
    with f.if_(f.compare("eq", "i32", extent, int(Extent.PARAMETERS))):
        length.set(f.load("i64", entry, _LENGTH))
        window.set(abi.PARAM_WINDOW)
    with f.if_(f.compare("eq", "i32", extent, int(Extent.LOCAL))):
        length.set(f.load("i64", "%ctx", layout.field("local_size")))
        window.set(abi.LOCAL_WINDOW)


def _slow_access(library: Library) -> None:
    """Slow path of the shadow check. Flags: 1 the address is generic, 2 the access writes.

    Returns a pointer to the memory (registered host memory, or shared or local memory at a generic address), or null
    after recording a fault.
    """
    f = library.function(
        "cl_slow_access",
        "ptr",
        "ptr ctx, ptr blk, i32 thread, i64 address, i32 size, i32 site, i32 flags",
        "cold noinline",
    )
    size = f.wide("%size")
    rest = f.op(f"and i64 %address, {f.op(f'sub i64 {size}, 1')}")
    even = f.compare("eq", "i64", rest, 0)
    generic = f.compare("ne", "i32", f.op("and i32 %flags, 1"), 0)
    found = f.variable("ptr", "null")
    with f.if_(generic):
        offset = f.op(f"sub i64 %address, {abi.SHARED_WINDOW}")
        with f.if_(f.compare("ult", "i64", offset, abi.CLUSTER_END - abi.SHARED_WINDOW)):
            place = "ptr %ctx", "ptr %blk", "i32 %thread", f"i64 {offset}", "i32 %size", "i32 %site"
            f.ret(f.call("cl_cluster_place", "ptr", *place))
        offset = f.op(f"sub i64 %address, {abi.LOCAL_WINDOW}")
        length = f.load("i64", "%ctx", layout.field("local_size"))
        base = f.load("ptr", "%ctx", layout.field("local"))
        start = f.at(base, f.op(f"mul i64 {f.wide('%thread')}, {length}"))
        with f.if_(_inside(f, offset, size, length)):
            found.set(f.at(start, offset))
        reads = f.compare("eq", "i32", f.op("and i32 %flags, 2"), 0)
        offset = f.op(f"sub i64 %address, {abi.PARAM_WINDOW}")
        within = _inside(f, offset, size, f.load("i64", "%blk", layout.PARAMETER_BYTES))
        with f.if_(f.op(f"and i1 {within}, {reads}")):
            found.set(f.at(f.load("ptr", "%ctx", layout.field("params")), offset))
        workspace = f.load("ptr", "%ctx", layout.field("grid_workspace"))
        offset = f.op(f"sub i64 %address, {abi.GRID_WINDOW}")
        within = _inside(f, offset, size, str(abi.GRID_WORKSPACE_BYTES))
        with f.if_(f.op(f"and i1 {within}, {f.compare('ne', 'ptr', workspace, 'null')}")):
            found.set(f.at(workspace, offset))
    ranges = f.load("ptr", "%ctx", layout.field("ranges"))
    count = f.load("i64", "%ctx", layout.field("range_count"))
    with f.count_up("i64", count) as index:
        entry = f.at(ranges, f.op(f"mul i64 {index}, 16"))
        low = f.load("i64", entry)
        with f.if_(_inside(f, f.op(f"sub i64 %address, {low}"), size, f.load("i64", entry, 8))):
            start = f.load("ptr", entry)
            found.set(f.at(start, f.op(f"sub i64 %address, {low}")))
    exists = f.compare("ne", "ptr", found.get(), "null")
    with f.if_(f.op(f"and i1 {exists}, {even}")):
        f.ret(found.get())
    # in live memory, but misaligned: the shadow check fails for both reasons
    live = f.variable("i1", exists)
    distance = f.op(f"sub i64 %address, {f.load('i64', '%ctx', layout.field('arena'))}")
    with f.if_(f.compare("ult", "i64", distance, f.load("i64", "%ctx", layout.field("arena_size")))):
        shadow = f.load("ptr", "%ctx", layout.field("shadow"))
        granule = f.op(f"lshr i64 {distance}, {abi.GRANULE.bit_length() - 1}")
        valid = f.op(f"zext i16 {f.load('i16', f.element(shadow, 'i16', granule, 'i64'))} to i64")
        within = f.op(f"and i64 {distance}, {abi.GRANULE - 1}")
        with f.if_(f.compare("ult", "i64", within, valid)):
            live.set(f.op(f"xor i1 {even}, true"))
    kind = f.op(f"select i1 {live.get()}, i32 {int(FaultKind.MISALIGNED)}, i32 {int(FaultKind.OUT_OF_BOUNDS)}")
    f.call(
        "cl_fault",
        "void",
        "ptr %ctx",
        "ptr %blk",
        "i32 %thread",
        f"i32 {kind}",
        "i32 %site",
        "i64 %address",
        "i32 %size",
    )
    f.ret("null")


def _inside(f: Function, offset: str, size: str, length: str) -> str:
    room = f.op(f"sub i64 {length}, {size}")
    return f.op(f"and i1 {f.compare('ule', 'i64', size, length)}, {f.compare('ule', 'i64', offset, room)}")


def _poll(library: Library) -> None:
    """New fuel, or 0 if a stop was requested; the site is then recorded."""
    f = library.function("cl_poll", "i32", "ptr ctx, ptr blk, i32 thread, i32 site", "cold noinline")
    stop = f.load("i32", "%ctx", layout.field("stop"), volatile=True)
    with f.if_(f.compare("ne", "i32", stop, 0)):
        f.store("i32", "%site", "%ctx", layout.field("fault.site"))
        f.store("i32", "%thread", "%ctx", layout.field("fault.thread"))
        f.store("i64", f.load("i64", "%blk", layout.LINEAR), "%ctx", layout.field("fault.block"))
        f.ret(0)
    fuel = f.load("i32", "%ctx", layout.field("fuel"))
    f.ret(f.call("llvm.umax.i32", "i32", f"i32 {fuel}", "i32 1"))
