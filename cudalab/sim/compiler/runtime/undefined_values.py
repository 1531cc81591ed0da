"""Undefined values at run time: which lanes a shuffle reads in vain, and where undefined values lie.

Each register, byte of shared and byte of local memory that may hold an undefined value has a word, its *origin*: 0 for
a defined value, the number of an ``AbsentRead``, or ``LOCAL`` plus the site of a load of unwritten local memory. The
words lie in ``abi_values.UndefinedValues``; ``codegen/undefined_values.py`` follows registers inline and calls these
functions for the rest:

- ``cl_undefined_row``        the words of a thread's registers; a thread that starts has none that is undefined
- ``cl_undefined_load``       the origin of what lies at a generic address
- ``cl_undefined_store``      a store of a value with this origin: followed in shared and local memory, else a use
- ``cl_undefined_use``        a use
- ``cl_undefined_pass``       hand the origin of an operand to the other lanes; ``cl_undefined_take``: of the result
- ``cl_undefined_lanes``      a warp operation is resolved for some lanes: read the absent ones
- ``cl_undefined_printed``    the arguments of ``printf``
"""

from __future__ import annotations

import ctypes

from cudalab.sim import abi
from cudalab.sim.abi import Race
from cudalab.sim.abi_values import AbsentRead, UndefinedUse, UndefinedValues
from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.collectives import SHUFFLES, source_lane, warp_rows
from cudalab.sim.compiler.runtime.layout import race_field
from cudalab.sim.compiler.runtime.race import race_of

_WHO = "ptr ctx, ptr blk, i32 thread"
_WORD = 4  # bytes of an origin
_NEVER_WRITTEN = -1


def write(library: Library) -> None:
    """Add the functions of this module."""
    _area(library)
    _row(library)
    _place(library)
    _load(library)
    _store(library)
    _use(library)
    _hand_over(library)
    _lanes(library)
    _printed(library)


def _field(f: Function, name: str, type: str = "i64") -> str:
    return f.load(type, "%own", int(getattr(UndefinedValues, name).offset))


def _own(f: Function) -> None:
    """Define ``%own``, the ``abi.UndefinedValues`` of this launch; null where nothing is followed."""
    race_of(f)
    f.line(f"%own.at = getelementptr i8, ptr %race, i64 {race_field('undefined')}")
    f.line("%own = load ptr, ptr %own.at")


def _area(library: Library) -> None:
    """``cl_undefined_area(own, blk)``: the words of a block."""
    f = library.function("cl_undefined_area", "ptr", "ptr own, ptr blk")
    linear = f.load("i64", "%blk", layout.LINEAR)
    f.ret(f.at(_field(f, "words", "ptr"), f.op(f"mul i64 {linear}, {_field(f, 'block_bytes')}")))


def _in_area(f: Function, offset: str) -> str:
    """A pointer to a part of the block's words."""
    return f.at(f.call("cl_undefined_area", "ptr", "ptr %own", "ptr %blk"), _field(f, offset))


def _row(library: Library) -> None:
    f = library.function("cl_undefined_row", "ptr", f"{_WHO}, i32 state", "noinline")
    _own(f)
    with f.if_(f.compare("eq", "ptr", "%own", "null")):
        f.ret("null")
    bytes_ = _field(f, "row_bytes")
    thread = f.wide("%thread")
    row = f.at(f.call("cl_undefined_area", "ptr", "ptr %own", "ptr %blk"), f.op(f"mul i64 {thread}, {bytes_}"))
    with f.if_(f.compare("eq", "i32", "%state", 0)):
        f.call("llvm.memset.p0.i64", "void", f"ptr {row}", "i8 0", f"i64 {bytes_}", "i1 false")
        size = f.op(f"mul i64 {_field(f, 'local_bytes')}, {_WORD}")
        local = f.at(_in_area(f, "local"), f.op(f"mul i64 {thread}, {size}"))
        f.call("llvm.memset.p0.i64", "void", f"ptr {local}", f"i8 {_NEVER_WRITTEN}", f"i64 {size}", "i1 false")
    f.ret(row)


def _place(library: Library) -> None:
    """``cl_undefined_place(own, blk, thread, address, size)``: the words of some bytes of shared or local memory; null:
    these bytes have none."""
    f = library.function("cl_undefined_place", "ptr", "ptr own, ptr blk, i32 thread, i64 address, i64 size")
    for window, part, bytes_ in (
        (abi.LOCAL_WINDOW, "local", "local_bytes"),
        (abi.SHARED_WINDOW, "shared", "shared_bytes"),
    ):
        offset = f.op(f"sub i64 %address, {window}")
        length = _field(f, bytes_)
        end = f.op(f"add i64 {offset}, %size")
        inside = f.op(f"and i1 {f.compare('ult', 'i64', offset, length)}, {f.compare('ule', 'i64', end, length)}")
        with f.if_(inside):
            before = f.op(f"mul i64 {f.wide('%thread')}, {length}") if part == "local" else "0"
            words = f.op(f"mul i64 {f.op(f'add i64 {before}, {offset}')}, {_WORD}")
            f.ret(f.at(_in_area(f, part), words))
    f.ret("null")


def _load(library: Library) -> None:
    """Padding is copied with the fields beside it: bytes that were never written count only where all are."""
    f = library.function("cl_undefined_load", "i32", f"{_WHO}, i64 address, i64 size, i32 site", "noinline")
    _own(f)
    with f.if_(f.compare("eq", "ptr", "%own", "null")):
        f.ret(0)
    place = f.call("cl_undefined_place", "ptr", "ptr %own", "ptr %blk", "i32 %thread", "i64 %address", "i64 %size")
    with f.if_(f.compare("eq", "ptr", place, "null")):
        f.ret(0)
    found, fewest = f.variable("i32", 0), f.variable("i32", _NEVER_WRITTEN)
    with f.count_up("i64", "%size") as byte:
        word = f.load("i32", f.element(place, "i32", byte, "i64"))
        never = f.compare("eq", "i32", word, _NEVER_WRITTEN)
        known = f.op(f"select i1 {never}, i32 0, i32 {word}")
        found.set(f.call("llvm.umax.i32", "i32", f"i32 {found.get()}", f"i32 {known}"))
        fewest.set(f.call("llvm.umin.i32", "i32", f"i32 {fewest.get()}", f"i32 {word}"))
    with f.if_(f.compare("eq", "i32", fewest.get(), _NEVER_WRITTEN)):
        seen = f.op(f"or i64 {f.load('i64', '%race', race_field('irregular'))}, {Race.UNWRITTEN_LOCAL}")
        f.store("i64", seen, "%race", race_field("irregular"))
        f.ret(f.op(f"or i32 %site, {UndefinedValues.LOCAL}"))
    f.ret(found.get())


def _store(library: Library) -> None:
    numbers = "i64 address, i64 size, i32 site, i32 origin"
    f = library.function("cl_undefined_store", "void", f"{_WHO}, {numbers}", "noinline")
    _own(f)
    with f.if_(f.compare("eq", "ptr", "%own", "null")):
        f.ret()
    place = f.call("cl_undefined_place", "ptr", "ptr %own", "ptr %blk", "i32 %thread", "i64 %address", "i64 %size")
    with f.if_else(f.compare("eq", "ptr", place, "null")) as otherwise:
        f.call("cl_undefined_use", "void", "ptr %ctx", "ptr %blk", "i32 %thread", "i32 %site", "i32 %origin")
        otherwise()
        with f.count_up("i64", "%size") as byte:
            f.store("i32", "%origin", f.element(place, "i32", byte, "i64"))
    f.ret()


def _use(library: Library) -> None:
    f = library.function("cl_undefined_use", "void", f"{_WHO}, i32 site, i32 origin", "noinline")
    with f.if_(f.compare("eq", "i32", "%origin", 0)):
        f.ret()
    _own(f)
    buffer = f.at("%own", int(UndefinedValues.uses.offset))
    place = f.call("cl_append", "ptr", "ptr %ctx", f"ptr {buffer}", f"i64 {ctypes.sizeof(UndefinedUse)}")
    with f.if_(f.compare("ne", "ptr", place, "null")):
        f.store("i64", f.load("i64", "%blk", layout.LINEAR), place)
        for name, value in (("site", "%site"), ("thread", "%thread"), ("origin", "%origin")):
            f.store("i32", value, place, int(getattr(UndefinedUse, name).offset))
    f.ret()


def _hand_over(library: Library) -> None:
    """``cl_undefined_pass`` and ``cl_undefined_take``: each thread has a word for what it gives, one for what it
    gets."""
    f = library.function("cl_undefined_pass", "void", f"{_WHO}, i32 origin", "noinline")
    _own(f)
    f.store("i32", "%origin", f.element(_in_area(f, "given"), "i32", "%thread"))
    f.ret()
    f = library.function("cl_undefined_take", "i32", _WHO, "noinline")
    _own(f)
    f.ret(f.load("i32", f.element(_in_area(f, "received"), "i32", "%thread")))


def _lanes(library: Library) -> None:
    """``literals``: the literal operands, where all lanes wait at one point; null: all operands are in scratch
    memory."""
    numbers = "i32 warp, i32 kind, i32 members, i32 alive, i32 site, ptr literals"
    f = library.function("cl_undefined_lanes", "void", f"ptr ctx, ptr blk, {numbers}", "noinline")
    from_shuffle = f.op(f"sub i32 %kind, {int(PointKind.SHUFFLE_UP)}")
    with f.if_(f.compare("ugt", "i32", from_shuffle, int(PointKind.REDUCE_XOR) - int(PointKind.SHUFFLE_UP))):
        f.ret()
    _own(f)
    followed = f.variable("i1", "false")
    with f.if_(f.compare("ne", "ptr", "%own", "null")):
        followed.set(f.compare("ne", "i64", _field(f, "row_bytes"), 0))
    follows = followed.get()
    flags = f.variable("i32", 0)
    with f.if_(f.compare("ne", "ptr", "%literals", "null")):
        flags.set(f.load("i32", "%literals"))
        everybody = f.op(f"and i1 {_is_literal(f, flags.get(), layout.LITERAL_MASK)}, {_is_whole(f)}")
        with f.if_(f.op(f"and i1 {everybody}, {f.op(f'xor i1 {follows}, true')}")):
            f.ret()
    rows = warp_rows(f, "%warp")
    first = f.op("shl i32 %warp, 5")
    shuffles = f.compare("ult", "i32", from_shuffle, len(SHUFFLES))

    def operand(row: int, bit: int, offset: int, lane: str) -> str:
        found = f.variable("i32", 0)
        with f.if_else(_is_literal(f, flags.get(), bit)) as otherwise:
            found.set(f.load("i32", "%literals", offset))
            otherwise()
            found.set(f.load("i32", f.element(rows[row], "i32", lane)))
        return found.get()

    with f.bits("%members") as lane:
        mask = operand(layout.MASK, layout.LITERAL_MASK, 4, lane)
        taking_part = f.op(f"and i32 %members, {mask}")
        thread = f.op(f"add i32 {first}, {lane}")
        with f.if_else(shuffles) as otherwise:
            b = operand(layout.B, layout.LITERAL_B, 8, lane)
            c = operand(layout.C, layout.LITERAL_C, 12, lane)
            source = f.variable("i32", 0)
            for kind in SHUFFLES:
                with f.if_(f.compare("eq", "i32", "%kind", int(kind))):
                    source.set(source_lane(f, kind, lane, b, c)[0])
            there = f.op(f"and i32 {f.op(f'lshr i32 {taking_part}, {source.get()}')}, 1")
            other = f.compare("ne", "i32", source.get(), lane)
            absent = f.op(f"and i1 {f.compare('eq', 'i32', there, 0)}, {other}")
            with f.if_else(absent) as present:
                seen = f.op(f"or i64 {f.load('i64', '%race', race_field('irregular'))}, {Race.ABSENT_LANE}")
                f.store("i64", seen, "%race", race_field("irregular"))
                with f.if_(follows):
                    _note_absent(f, thread, mask, source.get())
                present()
                with f.if_(follows):
                    giver = f.op(f"add i32 {first}, {source.get()}")
                    word = f.load("i32", f.element(_in_area(f, "given"), "i32", giver))
                    f.store("i32", word, f.element(_in_area(f, "received"), "i32", thread))
            otherwise()
            with f.if_(follows):
                found = f.variable("i32", 0)
                with f.bits(f.op(f"or i32 {taking_part}, {f.op(f'shl i32 1, {lane}')}")) as giver_lane:
                    giver = f.op(f"add i32 {first}, {giver_lane}")
                    word = f.load("i32", f.element(_in_area(f, "given"), "i32", giver))
                    found.set(f.call("llvm.umax.i32", "i32", f"i32 {found.get()}", f"i32 {word}"))
                f.store("i32", found.get(), f.element(_in_area(f, "received"), "i32", thread))
    f.ret()


def _is_literal(f: Function, flags: str, bit: int) -> str:
    return f.compare("ne", "i32", f.op(f"and i32 {flags}, {bit}"), 0)


def _is_whole(f: Function) -> str:
    """Whether all 32 lanes take part under a literal mask of all."""
    mask = f.load("i32", "%literals", 4)
    return f.compare("eq", "i32", f.op(f"and i32 {mask}, %members"), -1)


def _note_absent(f: Function, thread: str, mask: str, source: str) -> None:
    """Append an ``AbsentRead``; its number is the origin of what the lane receives."""
    buffer = f.at("%own", int(UndefinedValues.reads.offset))
    place = f.call("cl_append", "ptr", "ptr %ctx", f"ptr {buffer}", f"i64 {ctypes.sizeof(AbsentRead)}")
    number = f.variable("i32", f.op(f"trunc i64 {_field(f, 'read_count')} to i32"))
    with f.if_(f.compare("ne", "ptr", place, "null")):
        number.update("add", 1)
        f.store("i64", f.wide(number.get()), "%own", int(UndefinedValues.read_count.offset))
        f.store("i64", f.load("i64", "%blk", layout.LINEAR), place)
        values = {"site": "%site", "thread": thread, "mask": mask, "members": "%members", "alive": "%alive"}
        for name, value in (*values.items(), ("source", source)):
            f.store("i32", value, place, int(getattr(AbsentRead, name).offset))
    f.store("i32", number.get(), f.element(_in_area(f, "received"), "i32", thread))


def _printed(library: Library) -> None:
    """``count`` arguments lie at ``pointer``, in local memory; each has at most 8 bytes. Between two of them there may
    be padding, so that bytes never written are no use."""
    f = library.function("cl_undefined_printed", "void", f"{_WHO}, i64 pointer, i32 count, i32 site", "noinline")
    _own(f)
    with f.if_(f.compare("eq", "ptr", "%own", "null")):
        f.ret()
    found = f.variable("i32", 0)
    with f.count_up("i64", f.op(f"shl i64 {f.wide('%count')}, 3")) as byte:
        address = f.op(f"add i64 %pointer, {byte}")
        where = ("ptr %own", "ptr %blk", "i32 %thread", f"i64 {address}", "i64 1")
        place = f.call("cl_undefined_place", "ptr", *where)
        with f.if_(f.compare("ne", "ptr", place, "null")):
            word = f.load("i32", place)
            with f.if_(f.compare("ult", "i32", word, UndefinedValues.LOCAL)):
                found.set(f.call("llvm.umax.i32", "i32", f"i32 {found.get()}", f"i32 {word}"))
    f.call("cl_undefined_use", "void", "ptr %ctx", "ptr %blk", "i32 %thread", "i32 %site", f"i32 {found.get()}")
    f.ret()
