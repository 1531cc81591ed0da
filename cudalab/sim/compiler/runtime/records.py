"""The trace, the undo log, ``printf``, triggers and the clock.

Clocks do not measure host time. Threads of most kernels follow the modelled time themselves (``passes.timing.clocks``).
In kernels that poll memory, and in functions that are not inlined, each read of a clock advances ``context.clock`` a
little, so that loops that wait for time to pass terminate, and runs are reproducible.
"""

from __future__ import annotations

import ctypes

from cudalab.sim import abi
from cudalab.sim.abi import Stop
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library

_RECORD = ctypes.sizeof(abi.Record)
_UNDO = ctypes.sizeof(abi.Undo)
_PRINT_HEADER = 32
_PRINT_BYTES = 256  # maximum size of the arguments
#: Nanoseconds between two reads of the clock, and cycles per nanosecond (an H200 runs at up to 1.98 GHz).
CANONICAL_NAN = 0x7FFF_FFFF
_TICK = 16
_SECTOR_SHIFT = 5
_CYCLES = 2


def write(library: Library) -> None:
    """Add the functions of this module."""
    library.raw.append(f"@cl_nan = constant i32 {CANONICAL_NAN}")
    _record(library)
    _full(library)
    for size in (0, 1, 2, 4, 8, 16):
        _undo(library, size)
    _print(library)
    _clocks(library)
    _trigger(library)
    for name, scale in (("cl_clock64", _CYCLES), ("cl_globaltimer", 1)):
        f = library.function(name, "i64", "ptr ctx")
        now = f.op(f"add i64 {f.load('i64', '%ctx', layout.field('clock'))}, {_TICK}")
        f.store("i64", now, "%ctx", layout.field("clock"))
        f.ret(f.op(f"mul i64 {now}, {scale}"))


def _clocks(library: Library) -> None:
    """``cl_clock64_at``, ``cl_globaltimer_at``: a clock so many cycles after the launch began. ``cl_l1_hit``: whether
    the L1 holds a sector of global memory that a block loads; from then on it does. The L1 is direct-mapped."""
    for name in ("cl_clock64_at", "cl_globaltimer_at"):
        f = library.function(name, "i64", "ptr ctx, i64 cycles")
        start = f.load("i64", "%ctx", layout.field("clock"))
        megahertz = f.load("i32", "%ctx", layout.field("clock_mhz"))
        if name == "cl_clock64_at":
            began = f.op(f"udiv i64 {f.op(f'mul i64 {start}, {f.wide(megahertz)}')}, 1000")
            f.ret(f.op(f"add i64 {began}, %cycles"))
        else:
            passed = f.op(f"udiv i64 {f.op('mul i64 %cycles, 1000')}, {f.wide(megahertz)}")
            f.ret(f.op(f"add i64 {start}, {passed}"))
    f = library.function("cl_l1_hit", "i1", "ptr ctx, ptr blk, i64 address", "noinline")
    sector = f.op(f"lshr i64 %address, {_SECTOR_SHIFT}")
    linear = f.load("i64", "%blk", layout.LINEAR)
    block = f.op(f"shl i64 {f.op(f'add i64 {linear}, 1')}, 40")
    tag = f.op(f"xor i64 {sector}, {block}")
    index = f.op(f"urem i64 {sector}, {f.wide(f.load('i32', '%ctx', layout.field('l1_sectors')))}")
    place = f.element(f.load("ptr", "%ctx", layout.field("l1_tags")), "i64", index, "i64")
    hit = f.compare("eq", "i64", f.load("i64", place), tag)
    f.store("i64", tag, place)
    f.ret(hit)


def _room(f: Function, buffer: str, size: str | int) -> tuple[str, str]:
    """Reserve space in a buffer, draining it if full. Returns whether there is space, and a pointer to it."""
    base = f.at("%ctx", layout.field(buffer))
    used = f.variable("i64", f.load("i64", base, 16))
    capacity = f.load("i64", base, 8)
    data = f.load("ptr", base)
    full = f.compare("ugt", "i64", f.op(f"add i64 {used.get()}, {size}"), capacity)
    with f.if_(full):
        drain = f.load("ptr", base, 32)
        with f.if_(f.compare("ne", "ptr", drain, "null")):
            f.line(f"call void {drain}(ptr %ctx, ptr {base})")
            used.set(f.load("i64", base, 16))
    fits = f.compare("ule", "i64", f.op(f"add i64 {used.get()}, {size}"), capacity)
    with f.if_else(fits) as otherwise:
        f.store("i64", f.op(f"add i64 {used.get()}, {size}"), base, 16)
        otherwise()
        f.store("i64", f.op(f"add i64 {f.load('i64', base, 24)}, 1"), base, 24)
    return fits, f.at(data, used.get())


def _record(library: Library) -> None:
    """``cl_record``: an access, a block, an arrival. ``cl_event``: the same with flags (``abi.SyncEvent``)."""
    for name, flags in (("cl_record", ""), ("cl_event", ", i32 flags")):
        f = library.function(name, "void", f"ptr ctx, i64 address, i32 site, i32 thread{flags}", "noinline")
        fits, place = _room(f, "trace", _RECORD)
        with f.if_(fits):
            f.store("i64", "%address", place)
            f.store("i32", "%site", place, 8)
            word = f.op(f"or i32 %thread, {f.op('shl i32 %flags, 16')}") if flags else "%thread"
            f.store("i32", word, place, 12)  # thread and, above it, flags
        f.ret()


def _trigger(library: Library) -> None:
    """``cl_trigger``: note that the block lets dependent launches start, where somebody wants to know."""
    f = library.function("cl_trigger", "void", "ptr ctx, ptr blk", "noinline")
    triggers = f.load("ptr", "%ctx", layout.field("triggers"))
    with f.if_(f.compare("ne", "ptr", triggers, "null")):
        f.store("i8", 1, f.at(triggers, f.load("i64", "%blk", layout.LINEAR)))
    f.ret()


def _full(library: Library) -> None:
    """``cl_trace_full``: there is no space for ``count`` records. They are counted as lost, and the buffer is closed;
    when more than ``record_limit`` are lost, the run is to stop. Returns a scratch area for them, followed by a dummy
    word for the used size."""
    size = _RECORD * layout.RECORDS_AT_ONCE + 8
    library.raw.append(f"@cl_spare = internal global [{size} x i8] zeroinitializer, align 16")
    f = library.function("cl_trace_full", "ptr", "ptr ctx, i64 count", "cold noinline")
    base = f.at("%ctx", layout.field("trace"))
    f.store("i64", f.load("i64", base, 16), base, 8)
    lost = f.op(f"add i64 {f.load('i64', base, 24)}, %count")
    f.store("i64", lost, base, 24)
    with f.if_(f.compare("sgt", "i64", lost, f.load("i64", "%ctx", layout.field("record_limit")))):
        f.store("i32", Stop.LENGTH, "%ctx", layout.field("stop"))
    f.ret("@cl_spare")


def _undo(library: Library, size: int = 0) -> None:
    """``cl_undo(ctx, place, size)``: log the bytes at ``place`` before they change, if they are not private and the log
    is enabled. ``cl_undo_4`` …: for a constant size."""
    name, last = (f"cl_undo_{size}", "") if size else ("cl_undo", ", i64 size")
    f = library.function(name, "void", f"ptr ctx, ptr place{last}", "noinline")
    data = f.load("ptr", "%ctx", layout.field("undo.data"))
    address = f.op("ptrtoint ptr %place to i64")
    with f.if_(f.compare("ne", "ptr", data, "null")):
        distance = f.op(f"sub i64 {address}, {f.load('i64', '%ctx', layout.field('arena'))}")
        known = f.compare("ult", "i64", distance, f.load("i64", "%ctx", layout.field("arena_size")))
        reached = f.variable("i1", known)
        with f.if_(f.op(f"xor i1 {known}, true")):
            ranges = f.load("ptr", "%ctx", layout.field("ranges"))
            with f.count_up("i64", f.load("i64", "%ctx", layout.field("range_count"))) as index:
                entry = f.at(ranges, f.op(f"mul i64 {index}, 16"))
                offset = f.op(f"sub i64 {address}, {f.load('i64', entry)}")
                with f.if_(f.compare("ult", "i64", offset, f.load("i64", entry, 8))):
                    reached.set("true")
        with f.if_(reached.get()):
            fits, place = _room(f, "undo", _UNDO)
            with f.if_(fits):
                f.store("i64", address, place)
                f.store("i64", size or "%size", place, 8)
                old, length = f.at(place, 16), f"i64 {size or '%size'}"
                f.call("llvm.memcpy.p0.p0.i64", "void", f"ptr {old}", "ptr %place", length, "i1 false")
    f.ret()


def _print(library: Library) -> None:
    """Append a call of ``printf``: header, then the arguments as they lie in the thread's local memory."""
    parameters = "ptr ctx, ptr blk, i32 thread, i64 template, i64 arguments, i32 site"
    f = library.function("cl_print", "i32", parameters, "noinline")
    local_size = f.load("i64", "%ctx", layout.field("local_size"))
    offset = f.op(f"sub i64 %arguments, {abi.LOCAL_WINDOW}")
    inside = f.compare("ult", "i64", offset, local_size)
    rest = f.op(f"sub i64 {local_size}, {offset}")
    most = f.call("llvm.umin.i64", "i64", f"i64 {rest}", f"i64 {_PRINT_BYTES}")
    size = f.op(f"select i1 {inside}, i64 {most}, i64 0")
    padded = f.op(f"and i64 {f.op(f'add i64 {size}, 7')}, -8")
    fits, place = _room(f, "print", f.op(f"add i64 {padded}, {_PRINT_HEADER}"))
    with f.if_(fits):
        f.store("i64", f.load("i64", "%blk", layout.LINEAR), place)
        f.store("i32", "%thread", place, 8)
        f.store("i32", f.op(f"trunc i64 {size} to i32"), place, 12)
        f.store("i64", "%template", place, 16)
        f.store("i32", "%site", place, 24)
        f.store("i32", f.load("i32", "%ctx", layout.field("print_round")), place, 28)
        base = f.load("ptr", "%ctx", layout.field("local"))
        start = f.at(f.at(base, f.op(f"mul i64 {f.wide('%thread')}, {local_size}")), offset)
        f.call(
            "llvm.memcpy.p0.p0.i64",
            "void",
            f"ptr {f.at(place, _PRINT_HEADER)}",
            f"ptr {start}",
            f"i64 {size}",
            "i1 false",
        )
    f.ret(_count_arguments(f))


def _count_arguments(f: Function) -> str:
    """Count the arguments of a format, which is the result of ``printf`` (CUDA C++ Programming Guide, "Formatted
    Output"; seen on an H200): one for each conversion but ``%%``, and one for each ``*``."""
    arena = f.load("i64", "%ctx", layout.field("arena"))
    position = f.variable("i64", f.op(f"sub i64 %template, {arena}"))
    size = f.load("i64", "%ctx", layout.field("arena_size"))
    base = f.load("ptr", "%ctx", layout.field("arena"))
    count = f.variable("i32", 0)
    inside = f.variable("i1", "false")  # after a %, before the letter that ends the conversion
    with f.loop():
        at = position.get()
        with f.if_(f.compare("uge", "i64", at, size)):
            f.break_()
        letter = f.load("i8", f.at(base, at))
        with f.if_(f.compare("eq", "i8", letter, 0)):
            f.break_()
        with f.if_else(f.compare("eq", "i8", letter, ord("%"))) as otherwise:
            inside.update("xor", "true")
            otherwise()
            with f.if_(inside.get()):
                star = f.compare("eq", "i8", letter, ord("*"))
                lower = f.op(f"or i8 {letter}, 32")
                alphabetic = f.compare("ult", "i8", f.op(f"sub i8 {lower}, {ord('a')}"), 26)
                length = "false"
                for modifier in "hljztL":
                    same = f.compare("eq", "i8", letter, ord(modifier))
                    length = f.op(f"or i1 {length}, {same}")
                ends = f.op(f"and i1 {alphabetic}, {f.op(f'xor i1 {length}, true')}")
                counts = f.op(f"or i1 {star}, {ends}")
                count.update("add", f.op(f"zext i1 {counts} to i32"))
                inside.set(f.op(f"xor i1 {ends}, true"))
        position.update("add", 1)
    return count.get()
