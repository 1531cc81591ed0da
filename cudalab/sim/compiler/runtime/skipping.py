"""Invalid accesses of sanitized code: each is recorded (``Race.skipped``), and the thread continues.

``cl_missed``       turns the fault just recorded into a skipped access; returns a zeroed sink ``cl_skip_access``  an
access of a table that is out of bounds ``cl_skip``         a fault of a known kind ``cl_skip_slow``    an access
through a pointer of unknown provenance: resolved or recorded
"""

from __future__ import annotations

import ctypes

from cudalab.sim import abi
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.layout import race_field
from cudalab.sim.compiler.runtime.race import race_of

_SINK_BYTES = 64  # cleared before each skipped access
_SKIPPED = ctypes.sizeof(abi.SkippedAccess)
_FAULT = ctypes.sizeof(abi.Fault)


def write(library: Library) -> None:
    """Add the functions of this module."""
    who = "ptr ctx, ptr blk, i32 thread"
    f = library.function("cl_missed", "ptr", "ptr ctx", "cold noinline")
    race_of(f)
    place = f.call("cl_append", "ptr", "ptr %ctx", f"ptr {f.at('%race', race_field('skipped'))}", f"i64 {_SKIPPED}")
    with f.if_(f.compare("ne", "ptr", place, "null")):
        fault = f.at("%ctx", layout.field("fault.kind"))
        f.call("llvm.memcpy.p0.p0.i64", "void", f"ptr {place}", f"ptr {fault}", f"i64 {_FAULT}", "i1 false")
    f.store("i32", 0, "%ctx", layout.field("fault.kind"))
    f.store("i32", -1, "%ctx", layout.field("fault.site"))
    sink = f.load("ptr", "%race", race_field("sink"))
    f.call("llvm.memset.p0.i64", "void", f"ptr {sink}", "i8 0", f"i64 {_SINK_BYTES}", "i1 false")
    f.ret(sink)

    f = library.function("cl_skip_access", "ptr", f"{who}, i64 base, i64 stack, ptr table", "cold noinline")
    f.call(
        "cl_fault_access",
        "void",
        "ptr %ctx",
        "ptr %blk",
        "i32 %thread",
        "i64 %base",
        "i64 %stack",
        "ptr %table",
        "i32 1",
    )
    f.ret(f.call("cl_missed", "ptr", "ptr %ctx"))

    f = library.function("cl_skip", "ptr", f"{who}, i64 address, i32 size, i32 site, i32 kind", "cold noinline")
    numbers = ("i32 %kind", "i32 %site", "i64 %address", "i32 %size")
    f.call("cl_fault", "void", "ptr %ctx", "ptr %blk", "i32 %thread", *numbers)
    f.ret(f.call("cl_missed", "ptr", "ptr %ctx"))

    f = library.function(
        "cl_skip_slow", "ptr", f"{who}, i64 address, i32 size, i32 site, i32 flags, i32 kind", "cold noinline"
    )
    numbers = ("i64 %address", "i32 %size", "i32 %site", "i32 %flags")
    found = f.call("cl_slow_access", "ptr", "ptr %ctx", "ptr %blk", "i32 %thread", *numbers)
    with f.if_(f.compare("eq", "ptr", found, "null")):
        f.ret(f.call("cl_missed", "ptr", "ptr %ctx"))
    race_of(f)
    offset = f.op(f"sub i64 %address, {abi.SHARED_WINDOW}")
    in_shared = f.compare("ult", "i64", offset, f.wide(f.load("i32", "%ctx", layout.field("shared_size"))))
    with f.if_else(f.compare("sge", "i32", "%kind", 0)) as otherwise:
        with f.if_(in_shared):
            _follow_shared(f, offset)
        otherwise()
        private = f.compare("ult", "i64", f.op(f"sub i64 %address, {abi.LOCAL_WINDOW}"), abi.WINDOW_SIZE)
        parameter = f.compare("ult", "i64", f.op(f"sub i64 %address, {abi.PARAM_WINDOW}"), abi.WINDOW_SIZE)
        with f.if_(f.op(f"xor i1 {f.op(f'or i1 {private}, {parameter}')}, true")):
            f.call("cl_record", "void", "ptr %ctx", "i64 %address", "i32 %site", "i32 %thread")
    stores = f.compare("ne", "i32", f.op("and i32 %flags, 2"), 0)
    with f.if_(stores):
        size = f.wide("%size")
        whole = f.call("llvm.umin.i64", "i64", f"i64 {size}", "i64 16")
        with f.count_up("i64", f.op(f"udiv i64 {size}, {whole}")) as part:
            place = f.at(found, f.op(f"mul i64 {part}, {whole}"))
            f.call("cl_undo", "void", "ptr %ctx", f"ptr {place}", f"i64 {whole}")
    f.ret(found)


def _follow_shared(f: Function, offset: str) -> None:
    shift = f.load("i32", "%race", race_field("shared_shift"))
    cell = f.op(f"shl i64 {f.op(f'lshr i64 {offset}, {f.wide(shift)}')}, 3")
    place = f.at(f.load("ptr", "%race", race_field("shared_cells")), cell)
    count = f.call("llvm.umax.i32", "i32", f"i32 {f.op(f'lshr i32 %size, {shift}')}", "i32 1")
    kind = f.op("or i32 %kind, 8")
    who = f"i32 {count}, i32 {kind}, i32 %thread, i32 %site, i64 %address"
    f.line(f"call {layout.RACE_CONVENTION} void @cl_race(ptr %ctx, ptr {place}, {who})")
