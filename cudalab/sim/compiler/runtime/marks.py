"""Footprint marks of accesses outside compiled code, and extraction of the marked ranges of a launch.

The maps are described in ``codegen/footprint_marks.py``. ``cl_footprint_runs`` and ``cl_footprint_clear`` are called by
the machine after a launch, with a table of the regions that it reached: start, length and row of each, a bit set of the
kinds of access that may have marked it, and whether to use the coarse map.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cudalab.sim import abi
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library, Variable

_KINDS = 3
_CHUNK_SHIFT = abi.MARK_CHUNK_SHIFT
_WINDOW = 1 << 16  # growth step of a hull, in bytes
_WIDE = 32  # marks examined at once
_ALL_MARKED = int.from_bytes(b"\1" * _WIDE, "little")
_NONE = -1


def write(library: Library) -> None:
    """Add the functions of this module."""
    _mark(library)
    _widen(library)
    _runs_of_kind(library)
    _runs(library)
    _clear(library)


def _mark(library: Library) -> None:
    """Mark an access at any address: ``cl_mark(ctx, place, size, kind)``. Ignores private memory, and launches without
    marks."""
    f = library.function("cl_mark", "void", "ptr ctx, ptr place, i64 size, i32 kind", "noinline")
    marks = f.load("ptr", "%ctx", layout.field("marks"))
    with f.if_(f.compare("ne", "ptr", marks, "null")):
        row = f.variable("ptr", "null")
        address = f.op("ptrtoint ptr %place to i64")
        distance = f.op(f"sub i64 {address}, {f.load('i64', '%ctx', layout.field('arena'))}")
        inside = f.compare("ult", "i64", distance, f.load("i64", "%ctx", layout.field("arena_size")))
        with f.if_else(inside) as otherwise:
            row.set(f.load("ptr", marks, layout.MARK_ROWS))
            otherwise()
            ranges = f.load("ptr", "%ctx", layout.field("ranges"))
            rows = f.load("ptr", marks, layout.MARK_RANGE_ROWS)
            with f.count_up("i64", f.load("i64", "%ctx", layout.field("range_count"))) as index:
                entry = f.at(ranges, f.op(f"mul i64 {index}, 16"))
                offset = f.op(f"sub i64 {address}, {f.load('i64', entry)}")
                with f.if_(f.compare("ult", "i64", offset, f.load("i64", entry, 8))):
                    row.set(f.at(rows, f.op(f"mul i64 {index}, {layout.MARK_ROW_BYTES}")))
        with f.if_(f.compare("ne", "ptr", row.get(), "null")):
            shift = f.load("i64", marks, layout.MARK_SHIFT)
            fine = f.load("ptr", f.at(row.get(), f.op(f"mul i64 {f.wide('%kind')}, 8")))
            coarse = f.load("ptr", row.get(), layout.MARK_COARSE)
            place = f.at(fine, f.op(f"lshr i64 {address}, {shift}"))
            count = f.op(f"lshr i64 %size, {shift}")
            f.call("llvm.memset.p0.i64", "void", f"ptr {place}", "i8 1", f"i64 {count}", "i1 false")
            f.store("i8", 1, f.at(coarse, f.op(f"lshr i64 {address}, {_CHUNK_SHIFT}")))
    f.ret()


def _widen(library: Library) -> None:
    """Handle a group of accesses (``base + first``, ``span`` bytes) outside the window. If it is inside its root, and
    ``base + at`` is aligned, widen the root's hull to cover it, update the window and return a pointer to ``base``;
    otherwise return null."""
    f = library.function(
        "cl_widen",
        "ptr",
        "ptr row, ptr root, i64 base, i64 first, i64 span, i64 at, i64 alignment, ptr window",
        "cold noinline",
        layout.SPARING,
    )
    low, length = f.load("i64", "%root"), f.load("i64", "%root", 8)
    lowest = f.op("add i64 %base, %first")
    distance = f.op(f"sub i64 {lowest}, {low}")
    room = f.op(f"sub i64 {length}, %span")
    fits = f.op(f"and i1 {f.compare('ule', 'i64', '%span', length)}, {f.compare('ule', 'i64', distance, room)}")
    rest = f.op(f"and i64 {f.op('add i64 %base, %at')}, {f.op('sub i64 %alignment, 1')}")
    good = f.op(f"and i1 {fits}, {f.compare('eq', 'i64', rest, 0)}")
    with f.if_(f.op(f"xor i1 {good}, true")):
        f.ret("null")
    last = f.op(f"sub i64 {f.op(f'add i64 {lowest}, %span')}, 1")
    rounded = f.op(f"add i64 {f.op(f'or i64 {last}, {_WINDOW - 1}')}, 1")
    begin = f.variable("i64", _larger(f, f.op(f"and i64 {lowest}, {-_WINDOW}"), low))
    end = f.variable("i64", _smaller(f, rounded, f.op(f"add i64 {low}, {length}")))
    known = f.load("i64", "%row", layout.MARK_HULL + 8)
    with f.if_(f.compare("ne", "i64", known, 0)):
        hull = f.load("i64", "%row", layout.MARK_HULL)
        begin.set(_smaller(f, begin.get(), hull))
        end.set(_larger(f, end.get(), f.op(f"add i64 {hull}, {known}")))
    root = f.load("ptr", "%root")
    start = f.at(root, f.op(f"sub i64 {begin.get()}, {low}"))
    size = f.op(f"sub i64 {end.get()}, {begin.get()}")
    f.store("ptr", start, "%row", layout.MARK_HULL)
    f.store("i64", size, "%row", layout.MARK_HULL + 8)
    f.store("ptr", start, "%window")
    f.store("i64", f.op(f"sub i64 {size}, {f.op('sub i64 %span, 1')}"), "%window", 8)
    f.ret(f.at(root, f.op(f"sub i64 %base, {low}")))


def _larger(f: Function, a: str, b: str) -> str:
    return f.call("llvm.umax.i64", "i64", f"i64 {a}", f"i64 {b}")


def _smaller(f: Function, a: str, b: str) -> str:
    return f.call("llvm.umin.i64", "i64", f"i64 {a}", f"i64 {b}")


def _runs(library: Library) -> None:
    """``cl_footprint_runs(marks, regions, count, counts, out, capacity)``: the runs of all kinds, one kind after the
    other, as pairs of address and bytes in ``out``; ``counts`` gets the number of each kind. Returns how many runs
    there are; beyond ``capacity`` they are only counted."""
    f = library.function(
        "cl_footprint_runs", "i64", "ptr marks, ptr regions, i64 count, ptr counts, ptr out, i64 capacity"
    )
    total = f.variable("i64", 0)
    with f.count_up("i64", _KINDS) as kind:
        before = total.get()
        with f.count_up("i64", "%count") as index:
            region = f.at("%regions", f.op(f"mul i64 {index}, {layout.REGION_BYTES}"))
            with f.if_(_has_kind(f, region, kind)):
                end = ("ptr %out", "i64 %capacity", f"i64 {total.get()}")
                found = f.call("cl_footprint_runs_of", "i64", "ptr %marks", f"ptr {region}", f"i64 {kind}", *end)
                total.set(found)
        f.store("i64", f.op(f"sub i64 {total.get()}, {before}"), f.element("%counts", "i64", kind, "i64"))
    f.ret(total.get())


def _has_kind(f: Function, region: str, kind: str) -> str:
    kinds = f.load("i64", region, layout.REGION_KINDS)
    return f.compare("ne", "i64", f.op(f"and i64 {f.op(f'lshr i64 {kinds}, {kind}')}, 1"), 0)


def _runs_of_kind(library: Library) -> None:
    """The runs of one kind in one region. ``found`` is the number of runs so far; returns the new one."""
    f = library.function(
        "cl_footprint_runs_of", "i64", "ptr marks, ptr region, i64 kind, ptr out, i64 capacity, i64 found", "noinline"
    )
    shift = f.load("i64", "%marks", layout.MARK_SHIFT)
    fine = _map(f, "%region", "%kind")
    found = f.variable("i64", "%found")
    begun = f.variable("i64", _NONE)  # the first mark of the run that is open
    with _spans(f, "%region", shift) as (begin, end, touched):
        with f.if_else(touched) as otherwise:
            _scan(f, fine, begin, end, begun, found, shift)
            otherwise()
            _close(f, begun, found, begin, shift)
    _close(f, begun, found, _marks_of(f, "%region", shift)[1], shift)
    f.ret(found.get())


def _map(f: Function, region: str, kind: str) -> str:
    """The fine map of one kind of access."""
    row = f.load("ptr", region, layout.REGION_ROW)
    return f.load("ptr", f.at(row, f.op(f"mul i64 {kind}, 8")))


def _marks_of(f: Function, region: str, shift: str) -> tuple[str, str]:
    """Where in the fine maps the marks of a region begin and end."""
    low = f.load("i64", region)
    length = f.load("i64", region, 8)
    last = f.op(f"sub i64 {f.op(f'add i64 {low}, {length}')}, 1")
    return f.op(f"lshr i64 {low}, {shift}"), f.op(f"add i64 {f.op(f'lshr i64 {last}, {shift}')}, 1")


@contextmanager
def _spans(f: Function, region: str, shift: str) -> Iterator[tuple[str, str, str]]:
    """Iterate over the marks of a region: begin and end of each span, and whether it can have marks. With the coarse
    map a span is a chunk; otherwise there is a single span."""
    low, high = _marks_of(f, region, shift)
    row, by_chunk = f.load("ptr", region, layout.REGION_ROW), f.load("i64", region, layout.REGION_COARSE)
    coarse = f.load("ptr", row, layout.MARK_COARSE)
    per_chunk = f.op(f"sub i64 {_CHUNK_SHIFT}, {shift}")
    at = f.variable("i64", low)
    with f.loop():
        here = at.get()
        with f.if_(f.compare("uge", "i64", here, high)):
            f.break_()
        end, touched = f.variable("i64", high), f.variable("i1", "true")
        with f.if_(f.compare("ne", "i64", by_chunk, 0)):
            chunk = f.op(f"lshr i64 {here}, {per_chunk}")
            following = f.op(f"shl i64 {f.op(f'add i64 {chunk}, 1')}, {per_chunk}")
            end.set(_smaller(f, high, following))
            touched.set(f.compare("ne", "i8", f.load("i8", f.at(coarse, chunk)), 0))
        stop = end.get()
        yield here, stop, touched.get()
        at.set(stop)


def _scan(f: Function, fine: str, begin: str, end: str, begun: Variable, found: Variable, shift: str) -> None:
    """Open and close runs over the marks ``begin … end``, many at a time where they are equal."""
    at = f.variable("i64", begin)
    with f.loop():
        here = at.get()
        with f.if_(f.compare("uge", "i64", here, end)):
            f.break_()
        step = f.variable("i64", 0)
        with f.if_(f.compare("ule", "i64", f.op(f"add i64 {here}, {_WIDE}"), end)):
            marks = f.load(f"i{8 * _WIDE}", f.at(fine, here))
            with f.if_else(f.compare("eq", f"i{8 * _WIDE}", marks, 0)) as otherwise:
                _close(f, begun, found, here, shift)
                step.set(_WIDE)
                otherwise()
                with f.if_(f.compare("eq", f"i{8 * _WIDE}", marks, _ALL_MARKED)):
                    _open(f, begun, here)
                    step.set(_WIDE)
        with f.if_(f.compare("eq", "i64", step.get(), 0)):
            step.set(1)
            with f.if_else(f.compare("ne", "i8", f.load("i8", f.at(fine, here)), 0)) as otherwise:
                _open(f, begun, here)
                otherwise()
                _close(f, begun, found, here, shift)
        at.update("add", step.get())


def _open(f: Function, begun: Variable, first: str) -> None:
    """Begin a run, unless one is open."""
    with f.if_(f.compare("eq", "i64", begun.get(), _NONE)):
        begun.set(first)


def _close(f: Function, begun: Variable, found: Variable, end: str, shift: str) -> None:
    """End the open run, if there is one, before the mark ``end``."""
    with f.if_(f.compare("ne", "i64", begun.get(), _NONE)):
        first = begun.get()
        with f.if_(f.compare("ult", "i64", found.get(), "%capacity")):
            entry = f.at("%out", f.op(f"mul i64 {found.get()}, 16"))
            f.store("i64", f.op(f"shl i64 {first}, {shift}"), entry)
            f.store("i64", f.op(f"shl i64 {f.op(f'sub i64 {end}, {first}')}, {shift}"), entry, 8)
        found.update("add", 1)
        begun.set(_NONE)


def _clear(library: Library) -> None:
    """``cl_footprint_clear(marks, regions, count)``: clear all marks. Returns the number of bytes cleared."""
    f = library.function("cl_footprint_clear", "i64", "ptr marks, ptr regions, i64 count")
    shift = f.load("i64", "%marks", layout.MARK_SHIFT)
    wiped = f.variable("i64", 0)
    with f.count_up("i64", "%count") as index:
        region = f.at("%regions", f.op(f"mul i64 {index}, {layout.REGION_BYTES}"))
        with f.count_up("i64", _KINDS) as kind:
            with f.if_(_has_kind(f, region, kind)):
                fine = _map(f, region, kind)
                with _spans(f, region, shift) as (begin, end, touched):
                    with f.if_(touched):
                        _wipe(f, fine, begin, end)
                        wiped.update("add", f.op(f"sub i64 {end}, {begin}"))
        with f.if_(f.compare("ne", "i64", f.load("i64", region, layout.REGION_COARSE), 0)):
            coarse = f.load("ptr", f.load("ptr", region, layout.REGION_ROW), layout.MARK_COARSE)
            first, end = _marks_of(f, region, str(_CHUNK_SHIFT))
            size = f.op(f"sub i64 {end}, {first}")
            f.call("llvm.memset.p0.i64", "void", f"ptr {f.at(coarse, first)}", "i8 0", f"i64 {size}", "i1 false")
    f.ret(wiped.get())


def _wipe(f: Function, fine: str, begin: str, end: str) -> None:
    """Clear marks. Zero bytes are not written: their pages may not be populated yet."""
    at = f.variable("i64", begin)
    with f.loop():
        here = at.get()
        with f.if_(f.compare("uge", "i64", here, end)):
            f.break_()
        place = f.at(fine, here)
        with f.if_else(f.compare("ule", "i64", f.op(f"add i64 {here}, {_WIDE}"), end)) as otherwise:
            with f.if_(f.compare("ne", f"i{8 * _WIDE}", f.load(f"i{8 * _WIDE}", place), 0)):
                f.store(f"i{8 * _WIDE}", 0, place)
            at.update("add", _WIDE)
            otherwise()
            f.store("i8", 0, place)
            at.update("add", 1)
