"""Asynchronous copies: ``cp.async``, bulk copies, and their groups.

A copy is checked, and recorded in traces and footprints, when it is started. It is performed when something completes
it: until then the target holds the old data, and the source is read late, too. A missing wait therefore always gives
wrong data here; on a GPU, mostly. A copy is completed by (PTX ISA, "Data Movement and Conversion Instructions:
Asynchronous copy"):

- ``cp.async.wait_group``, ``cp.async.wait_all`` and ``cp.async.bulk.wait_group`` of the thread that started it;
- a test of the mbarrier that tracks it, by ``mbarrier.try_wait`` or ``mbarrier.test_wait``: only then are the bytes
  counted as complete, and deferred arrivals (``cp.async.mbarrier.arrive``) performed;
- the exit of the thread; for copies that an mbarrier tracks, of the block.

Copies may complete at any time, so when the buffer is full the oldest one completes. Each thread has a ring of ``RING``
entries; adjacent copies of one group share an entry. Copies that an mbarrier tracks are in a list of the block. All of
this follows the rows of the scratch memory, so it survives when a block yields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import SyncEvent
from cudalab.sim.compiler.runtime import async_checks, layout
from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.mbarrier import COUNT_BITS, WHO, begin, field

if TYPE_CHECKING:
    from cudalab.sim.compiler.runtime.traits import Traits

DONE, COPY, ARRIVAL, BULK = range(4)
"""Kinds of entries: completed; ``cp.async``; a deferred arrival at an mbarrier; a bulk copy."""
RING = layout.ASYNC_RING
SRC, DST, FUNCTION, BARRIER, SIZE, FILLED, KIND, GROUP = 0, 8, 16, 24, 32, 36, 40, 44
"""Offsets in an entry: pointers to source, destination and reduction function (null: copy), the mbarrier, bytes
written, bytes of the source (the rest is zero-filled)."""
FIRST, COUNT, GROUPS = 0, 4, 8
"""Offsets in a thread's header: the oldest entry, the number of entries, and the numbers of the open groups of
``cp.async`` and of bulk copies."""
LISTED, ARRIVALS, LEFT = 0, 4, 8
"""Offsets in the block's header: entries of its list, deferred arrivals of all threads, exited threads."""
BULK_GROUPS = 0x400
"""Added to the number of a bulk group in traces; smaller numbers are groups of ``cp.async``. Group numbers saturate
below it."""
BY_BARRIER = 0x7FF
"""The group, in traces, of copies that an mbarrier tracks."""


def write(library: Library, traits: Traits) -> None:
    """Add the functions of this module, for the variant of ``traits``."""
    async_checks.write(library, traits)
    _finish(library, traits)
    _trim(library)
    _push(library)
    _list(library)
    _now(library)
    _commit(library)
    _wait(library, traits)
    _settle(library)
    _defer(library)
    _exit(library)


# -- layout ------------------------------------------------------------------------------------------------------------


def _area(f: Function) -> tuple[str, str]:
    """The area for the block's copies, and its number of warps (i64)."""
    warps = f.wide(f.load("i32", "%ctx", layout.field("warps")))
    scratch = f.load("ptr", "%ctx", layout.field("scratch"))
    return f.at(scratch, f.op(f"mul i64 {warps}, {layout.SCRATCH_BYTES}")), warps


def _header(f: Function, thread: str) -> str:
    area, warps = _area(f)
    headers = f.at(area, f.op(f"mul i64 {warps}, {layout.ASYNC_HEADER}"))
    return f.at(headers, f.op(f"mul i64 {f.wide(thread)}, {layout.ASYNC_THREAD}"))


def _slot(f: Function, thread: str, index: str) -> str:
    """An entry of a thread's ring."""
    area, warps = _area(f)
    rings = f.at(area, f.op(f"mul i64 {warps}, {layout.ASYNC_RINGS}"))
    number = f.op(f"add i32 {f.op(f'mul i32 {thread}, {RING}')}, {f.op(f'and i32 {index}, {RING - 1}')}")
    return f.at(rings, f.op(f"mul i64 {f.wide(number)}, {layout.ASYNC_ENTRY}"))


def _listed(f: Function, index: str) -> str:
    """An entry of the block's list."""
    area, warps = _area(f)
    start = f.at(area, f.op(f"mul i64 {warps}, {layout.ASYNC_LIST}"))
    return f.at(start, f.op(f"mul i64 {f.wide(index)}, {layout.ASYNC_ENTRY}"))


# -- entries -----------------------------------------------------------------------------------------------------------


def _finish(library: Library, traits: Traits) -> None:
    """``cl_async_finish(ctx, item)``: perform the copy or arrival of an entry. In code that skips invalid accesses,
    either end may be null: a null source reads as zeros, a null target is not written. The bytes still count as
    complete; otherwise waiting threads would deadlock."""
    f = begin(library, "cl_async_finish", "void", "ptr ctx, ptr item")
    kind = f.load("i32", "%item", KIND)
    with f.if_(f.compare("eq", "i32", kind, DONE)):
        f.ret()
    f.store("i32", DONE, "%item", KIND)
    bar = f.load("ptr", "%item", BARRIER)
    with f.if_(f.compare("eq", "i32", kind, ARRIVAL)):
        area, _ = _area(f)
        f.store("i32", f.op(f"sub i32 {f.load('i32', area, ARRIVALS)}, 1"), area, ARRIVALS)
        pending = field(f, f.load("i64", bar), 0, COUNT_BITS)
        one = f.op(f"zext i1 {f.compare('ne', 'i64', pending, 0)} to i64")  # .noinc may exceed the expected count
        f.call("cl_mbarrier_apply", "void", f"ptr {bar}", f"i64 {one}", "i64 0", "i64 0")
        f.ret()
    source, target, function = (f.load("ptr", "%item", offset) for offset in (SRC, DST, FUNCTION))
    size, filled = (f.wide(f.load("i32", "%item", offset)) for offset in (SIZE, FILLED))
    if traits.skips:
        nothing = f.compare("eq", "ptr", source, "null")
        filled = f.op(f"select i1 {nothing}, i64 0, i64 {filled}")
        reduces = f.compare("ne", "ptr", function, "null")
        dropped = f.op(f"or i1 {f.compare('eq', 'ptr', target, 'null')}, {f.op(f'and i1 {nothing}, {reduces}')}")
        with f.if_(f.op(f"xor i1 {dropped}, true")):
            _move(f, source, target, function, size, filled)
    else:
        _move(f, source, target, function, size, filled)
    with f.if_(f.compare("ne", "ptr", bar, "null")):
        f.call("cl_mbarrier_apply", "void", f"ptr {bar}", "i64 0", "i64 0", f"i64 {f.op(f'sub i64 0, {size}')}")
    f.ret()


def _move(f: Function, source: str, target: str, function: str, size: str, filled: str) -> None:
    """Append the old bytes to the undo log, then copy, or call the reduction function."""
    with f.if_(f.compare("ne", "ptr", f.load("ptr", "%ctx", layout.field("undo.data")), "null")):
        at = f.variable("i64", 0)
        with f.loop():
            here = at.get()
            with f.if_(f.compare("uge", "i64", here, size)):
                f.break_()
            left = f.op(f"sub i64 {size}, {here}")
            part = f.call("llvm.umin.i64", "i64", f"i64 {left}", "i64 16")
            f.call("cl_undo", "void", "ptr %ctx", f"ptr {f.at(target, here)}", f"i64 {part}")
            at.update("add", 16)
    with f.if_else(f.compare("eq", "ptr", function, "null")) as otherwise:
        f.call("llvm.memmove.p0.p0.i64", "void", f"ptr {target}", f"ptr {source}", f"i64 {filled}", "i1 false")
        rest = f.op(f"sub i64 {size}, {filled}")
        f.call("llvm.memset.p0.i64", "void", f"ptr {f.at(target, filled)}", "i8 0", f"i64 {rest}", "i1 false")
        otherwise()
        f.line(f"call void {function}(ptr {target}, ptr {source}, i64 {size})")


def _trim(library: Library) -> None:
    """``cl_async_trim(ctx, thread)``: drop completed entries at the front of a ring."""
    f = begin(library, "cl_async_trim", "void", "ptr ctx, i32 thread")
    header = _header(f, "%thread")
    with f.loop():
        first, count = f.load("i32", header, FIRST), f.load("i32", header, COUNT)
        with f.if_(f.compare("eq", "i32", count, 0)):
            f.ret()
        with f.if_(f.compare("ne", "i32", f.load("i32", _slot(f, "%thread", first), KIND), DONE)):
            f.ret()
        f.store("i32", f.op(f"add i32 {first}, 1"), header, FIRST)
        f.store("i32", f.op(f"sub i32 {count}, 1"), header, COUNT)


def _fill(f: Function, entry: str, filled: str | int = "%filled", kind: str | int = "%kind") -> None:
    """Write a copy's entry from the parameters of the function."""
    for type, value, offset in (
        ("ptr", "%src", SRC),
        ("ptr", "%dst", DST),
        ("ptr", "%function", FUNCTION),
        ("ptr", "%bar", BARRIER),
        ("i32", "%size", SIZE),
        ("i32", filled, FILLED),
        ("i32", kind, KIND),
    ):
        f.store(type, value, entry, offset)


def _push(library: Library) -> None:
    """``cl_async_push(ctx, thread, src, dst, function, bar, size, filled, kind, which)``: start a copy in the thread's
    open group; ``which`` selects the kind of group."""
    f = begin(
        library,
        "cl_async_push",
        "void",
        "ptr ctx, i32 thread, ptr src, ptr dst, ptr function, ptr bar, i32 size, i32 filled, i32 kind, i32 which",
    )
    header = _header(f, "%thread")
    group = f.load("i32", f.element(f.at(header, GROUPS), "i32", "%which"))
    first, count = f.variable("i32", f.load("i32", header, FIRST)), f.variable("i32", f.load("i32", header, COUNT))
    copies = f.compare("eq", "i32", "%kind", COPY)
    with f.if_(f.op(f"and i1 {copies}, {f.compare('ne', 'i32', count.get(), 0)}")):
        last = _slot(f, "%thread", f.op(f"sub i32 {f.op(f'add i32 {first.get()}, {count.get()}')}, 1"))
        size = f.load("i32", last, SIZE)
        follows = f.op(
            f"and i1 {f.compare('eq', 'i32', f.load('i32', last, KIND), COPY)}, {_same(f, last, GROUP, group)}"
        )
        follows = f.op(f"and i1 {follows}, {_same(f, last, FILLED, size)}")
        follows = f.op(f"and i1 {follows}, {f.compare('eq', 'i32', '%filled', '%size')}")
        for offset, pointer in ((SRC, "%src"), (DST, "%dst")):
            end = f.at(f.load("ptr", last, offset), f.wide(size))
            follows = f.op(f"and i1 {follows}, {f.compare('eq', 'ptr', end, pointer)}")
        with f.if_(follows):
            total = f.op(f"add i32 {size}, %size")
            f.store("i32", total, last, SIZE)
            f.store("i32", total, last, FILLED)
            f.ret()
    with f.if_(f.compare("eq", "i32", count.get(), RING)):
        f.call("cl_async_finish", "void", "ptr %ctx", f"ptr {_slot(f, '%thread', first.get())}")
        f.call("cl_async_trim", "void", "ptr %ctx", "i32 %thread")
        first.set(f.load("i32", header, FIRST))
        count.set(f.load("i32", header, COUNT))
    entry = _slot(f, "%thread", f.op(f"add i32 {first.get()}, {count.get()}"))
    _fill(f, entry)
    f.store("i32", group, entry, GROUP)
    f.store("i32", f.op(f"add i32 {count.get()}, 1"), header, COUNT)
    f.ret()


def _same(f: Function, entry: str, offset: int, value: str) -> str:
    return f.compare("eq", "i32", f.load("i32", entry, offset), value)


def _list(library: Library) -> None:
    """``cl_async_list(ctx, src, dst, function, bar, size)``: start a bulk copy that an mbarrier tracks."""
    f = begin(library, "cl_async_list", "void", "ptr ctx, ptr src, ptr dst, ptr function, ptr bar, i32 size")
    area, warps = _area(f)
    room = f.op(f"trunc i64 {f.op(f'mul i64 {warps}, {layout.ASYNC_LISTED}')} to i32")
    with f.if_(f.compare("uge", "i32", f.load("i32", area, LISTED), room)):
        _finish_list(f, area)
    count = f.load("i32", area, LISTED)
    entry = _listed(f, count)
    _fill(f, entry, "%size", BULK)
    f.store("i32", f.op(f"add i32 {count}, 1"), area, LISTED)
    f.ret()


def _now(library: Library) -> None:
    """``cl_async_now(ctx, src, dst, function, bar, size)``: perform a copy at once, and count it at ``bar``."""
    f = begin(library, "cl_async_now", "void", "ptr ctx, ptr src, ptr dst, ptr function, ptr bar, i32 size")
    entry = f.array(layout.ASYNC_ENTRY)
    _fill(f, entry, "%size", BULK)
    f.call("cl_async_finish", "void", "ptr %ctx", f"ptr {entry}")
    f.ret()


def _finish_list(f: Function, area: str) -> None:
    with f.count_up("i32", f.load("i32", area, LISTED)) as index:
        f.call("cl_async_finish", "void", "ptr %ctx", f"ptr {_listed(f, index)}")
    f.store("i32", 0, area, LISTED)


# -- groups ------------------------------------------------------------------------------------------------------------


def _commit(library: Library) -> None:
    """``cl_async_commit(ctx, thread, which)``: close the open group; returns its number."""
    f = begin(library, "cl_async_commit", "i32", "ptr ctx, i32 thread, i32 which")
    place = f.element(f.at(_header(f, "%thread"), GROUPS), "i32", "%which")
    group = f.load("i32", place)
    f.store("i32", f.op(f"add i32 {group}, 1"), place)
    f.ret(group)


def _wait(library: Library, traits: Traits) -> None:
    """``cl_async_wait(…, kind, which, most)``: complete the thread's copies except those of its last ``most``
    groups."""
    f = begin(library, "cl_async_wait", "void", f"{WHO}, i32 kind, i32 which, i32 most")
    header = _header(f, "%thread")
    group = f.load("i32", f.element(f.at(header, GROUPS), "i32", "%which"))
    limit = f.op(f"sub i32 {group}, %most")
    first = f.load("i32", header, FIRST)
    with f.count_up("i32", f.load("i32", header, COUNT)) as index:
        entry = _slot(f, "%thread", f.op(f"add i32 {first}, {index}"))
        earlier = f.compare("slt", "i32", f.op(f"sub i32 {f.load('i32', entry, GROUP)}, {limit}"), 0)
        with f.if_(f.op(f"and i1 {earlier}, {_same(f, entry, KIND, '%kind')}")):
            f.call("cl_async_finish", "void", "ptr %ctx", f"ptr {entry}")
    f.call("cl_async_trim", "void", "ptr %ctx", "i32 %thread")
    if traits.traced:
        with f.if_(f.compare("sgt", "i32", limit, 0)):
            number = _shown(f, f.op(f"sub i32 {limit}, 1"))
            number = f.op(f"add i32 {number}, {f.op(f'mul i32 %which, {BULK_GROUPS}')}")
            flags = f.op(f"shl i32 {number}, 4")
            flags = f.op(f"or i32 {flags}, {int(SyncEvent.ASYNC_WAIT)}")
            f.call("cl_event", "void", "ptr %ctx", "i64 0", "i32 %site", "i32 %thread", f"i32 {flags}")
    f.ret()


def _shown(f: Function, group: str) -> str:
    return f.call("llvm.umin.i32", "i32", f"i32 {group}", f"i32 {BULK_GROUPS - 2}")


def _group_number(f: Function, thread: str, which: int) -> str:
    """The number of a thread's open group, as in traces."""
    number = _shown(f, f.load("i32", _header(f, thread), GROUPS + 4 * which))
    return f.op(f"add i32 {number}, {which * BULK_GROUPS}")


# -- mbarriers that track copies ---------------------------------------------------------------------------------------


def _settle(library: Library) -> None:
    """``cl_async_settle(ctx, bar)``: complete the copies that an mbarrier tracks. The driver calls it before a test."""
    f = begin(library, "cl_async_settle", "void", "ptr ctx, ptr bar")
    area, _ = _area(f)
    with f.if_(f.compare("ne", "i32", f.load("i32", area, LISTED), 0)):
        kept = f.variable("i32", 0)
        with f.count_up("i32", f.load("i32", area, LISTED)) as index:
            entry = _listed(f, index)
            with f.if_else(f.compare("eq", "ptr", f.load("ptr", entry, BARRIER), "%bar")) as otherwise:
                f.call("cl_async_finish", "void", "ptr %ctx", f"ptr {entry}")
                otherwise()
                target = _listed(f, kept.get())
                size = f"i64 {layout.ASYNC_ENTRY}"
                f.call("llvm.memmove.p0.p0.i64", "void", f"ptr {target}", f"ptr {entry}", size, "i1 false")
                kept.update("add", 1)
        f.store("i32", kept.get(), area, LISTED)
    with f.if_(f.compare("eq", "i32", f.load("i32", area, ARRIVALS), 0)):
        f.ret()
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("threads"))) as thread:
        header = _header(f, thread)
        first, count = f.load("i32", header, FIRST), f.load("i32", header, COUNT)
        last = f.variable("i32", 0)
        with f.count_up("i32", count) as index:
            entry = _slot(f, thread, f.op(f"add i32 {first}, {index}"))
            with f.if_(f.op(f"and i1 {_same(f, entry, KIND, str(ARRIVAL))}, {_tracks(f, entry)}")):
                last.set(f.op(f"add i32 {index}, 1"))
        with f.if_(f.compare("ne", "i32", last.get(), 0)):
            with f.count_up("i32", last.get()) as index:
                entry = _slot(f, thread, f.op(f"add i32 {first}, {index}"))
                arrives = f.op(f"and i1 {_same(f, entry, KIND, str(ARRIVAL))}, {_tracks(f, entry)}")
                with f.if_(f.op(f"or i1 {arrives}, {_same(f, entry, KIND, str(COPY))}")):
                    f.call("cl_async_finish", "void", "ptr %ctx", f"ptr {entry}")
            f.call("cl_async_trim", "void", "ptr %ctx", f"i32 {thread}")
    f.ret()


def _tracks(f: Function, entry: str) -> str:
    return f.compare("eq", "ptr", f.load("ptr", entry, BARRIER), "%bar")


def _defer(library: Library) -> None:
    """``cl_async_defer(…, bar, counted)``: arrive at an mbarrier when the copies that the thread has started so far
    have completed. ``counted``: the pending count is incremented. False after a fault."""
    f = begin(library, "cl_async_defer", "i1", f"{WHO}, ptr bar, i32 counted")
    who = ("ptr %ctx", "ptr %blk", "i32 %thread", "i32 %site")
    with f.if_(f.op(f"xor i1 {f.call('cl_mbarrier_check', 'i1', *who, 'ptr %bar')}, true")):
        f.ret("false")
    more = f.op(f"sub i64 0, {f.wide('%counted')}")
    f.call("cl_mbarrier_apply", "void", "ptr %bar", f"i64 {more}", "i64 0", "i64 0")
    area, _ = _area(f)
    f.store("i32", f.op(f"add i32 {f.load('i32', area, ARRIVALS)}, 1"), area, ARRIVALS)
    nothing = ("ptr null", "ptr null", "ptr null")
    f.call(
        "cl_async_push",
        "void",
        "ptr %ctx",
        "i32 %thread",
        *nothing,
        "ptr %bar",
        "i32 0",
        "i32 0",
        f"i32 {ARRIVAL}",
        "i32 0",
    )
    f.ret("true")


def _exit(library: Library) -> None:
    """``cl_async_exit(ctx, thread)``: a thread exits the kernel; the last one of the block completes all copies."""
    f = begin(library, "cl_async_exit", "void", "ptr ctx, i32 thread")
    header = _header(f, "%thread")
    first = f.load("i32", header, FIRST)
    with f.count_up("i32", f.load("i32", header, COUNT)) as index:
        entry = _slot(f, "%thread", f.op(f"add i32 {first}, {index}"))
        f.call("cl_async_finish", "void", "ptr %ctx", f"ptr {entry}")
    for offset in (FIRST, COUNT, GROUPS, GROUPS + 4):
        f.store("i32", 0, header, offset)
    area, _ = _area(f)
    left = f.op(f"add i32 {f.load('i32', area, LEFT)}, 1")
    f.store("i32", left, area, LEFT)
    with f.if_(f.compare("eq", "i32", left, f.load("i32", "%ctx", layout.field("threads")))):
        _finish_list(f, area)
        f.store("i32", 0, area, ARRIVALS)
        f.store("i32", 0, area, LEFT)
    f.ret()


def write_group(library: Library, traits: Traits) -> None:
    """``cl_async_group(ctx, thread, which)``: a thread's open group, for traces."""
    for which, name in ((0, "cl_async_group"), (1, "cl_async_bulk_group")):
        f = begin(library, name, "i32", "ptr ctx, i32 thread")
        f.ret(_group_number(f, "%thread", which))
