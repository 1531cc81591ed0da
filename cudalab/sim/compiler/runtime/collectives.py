"""Resolution of warp operations for a group of lanes.

``cl_resolve(ctx, warp, kind, members, alive)`` reads the operands that the lanes of ``members`` stored in the warp's
scratch memory and writes their results there. Each lane's own mask applies; exited lanes take no part. A shuffle from a
lane that takes no part gives the lane its own value (PTX calls that result undefined).
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library

SHUFFLES = (PointKind.SHUFFLE_UP, PointKind.SHUFFLE_DOWN, PointKind.SHUFFLE_XOR, PointKind.SHUFFLE_INDEX)
"""Kinds of shuffle, in ascending order."""
_LINE = 128
"""Bytes of a wavefront of shared memory: 32 banks of 4 bytes."""
_VOTES = (PointKind.VOTE_ALL, PointKind.VOTE_ANY, PointKind.VOTE_UNIFORM, PointKind.VOTE_BALLOT)
_REDUCTIONS = {
    PointKind.REDUCE_ADD: ("add", 0),
    PointKind.REDUCE_MIN_SIGNED: ("smin", 0x7FFF_FFFF),
    PointKind.REDUCE_MAX_SIGNED: ("smax", -0x8000_0000),
    PointKind.REDUCE_MIN: ("umin", -1),
    PointKind.REDUCE_MAX: ("umax", 0),
    PointKind.REDUCE_AND: ("and", -1),
    PointKind.REDUCE_OR: ("or", 0),
    PointKind.REDUCE_XOR: ("xor", 0),
}


def write(library: Library) -> None:
    """Add the functions of this module."""
    for kind in SHUFFLES:
        _shuffle_everyone(library, kind)
    _shuffle_by_literal(library)
    _resolve(library)
    _resolve_whole(library)


def _resolve_whole(library: Library) -> None:
    """All lanes of the warp wait at one point (``state``): the common case."""
    f = library.function("cl_resolve_warp", "void", "ptr ctx, i32 warp, i32 kind, i32 lanes, ptr literals", "noinline")
    flags = f.load("i32", "%literals")
    rows = warp_rows(f, "%warp")
    both = layout.LITERAL_B | layout.LITERAL_C
    known = f.compare("eq", "i32", f.op(f"and i32 {flags}, {both}"), both)
    full = f.compare("eq", "i32", "%lanes", -1)
    b, c = f.load("i32", "%literals", 8), f.load("i32", "%literals", 12)
    with f.if_(f.op(f"and i1 {known}, {full}")):
        whole_down = f.op(
            f"and i1 {f.compare('eq', 'i32', '%kind', int(PointKind.SHUFFLE_DOWN))}, {f.compare('eq', 'i32', c, 31)}"
        )
        no_predicate = f.compare("ne", "i32", f.op(f"and i32 {flags}, {layout.NO_PREDICATE}"), 0)
        with f.if_(f.op(f"and i1 {whole_down}, {no_predicate}")):
            f.call("cl_shuffle_down", "void", f"ptr {rows[layout.A]}", f"ptr {rows[layout.RESULT]}", f"i32 {b}")
            f.ret()
    for bit, row, offset in (
        (layout.LITERAL_MASK, layout.MASK, 4),
        (layout.LITERAL_B, layout.B, 8),
        (layout.LITERAL_C, layout.C, 12),
    ):
        with f.if_(f.compare("ne", "i32", f.op(f"and i32 {flags}, {bit}"), 0)):
            value = f.load("i32", "%literals", offset)
            with f.count_up("i32", 32) as lane:
                f.store("i32", value, f.element(rows[row], "i32", lane))
    f.call("cl_resolve", "void", "ptr %ctx", "i32 %warp", "i32 %kind", "i32 %lanes", "i32 %lanes")
    f.ret()


def _shuffle_by_literal(library: Library) -> None:
    """``shfl.down`` by the same distance in all 32 lanes: adjacent words are read as vectors. Words past the row's end
    are read too, and discarded; they are scratch memory as well."""
    f = library.function("cl_shuffle_down", "void", "ptr noalias a, ptr noalias result, i32 b", "noinline")
    distance = f.op("and i32 %b, 31")
    with f.count_up("i32", 32) as lane:
        source = f.op(f"add nuw nsw i32 {lane}, {distance}")
        there = f.load("i32", f.element("%a", "i32", source))
        own = f.load("i32", f.element("%a", "i32", lane))
        inside = f.compare("ult", "i32", source, 32)
        f.store("i32", f.op(f"select i1 {inside}, i32 {there}, i32 {own}"), f.element("%result", "i32", lane))
    f.ret()


def _resolve(library: Library) -> None:
    f = library.function("cl_resolve", "void", "ptr ctx, i32 warp, i32 kind, i32 members, i32 alive")
    rows = warp_rows(f, "%warp")
    with f.if_(f.compare("eq", "i32", "%kind", int(PointKind.ARRIVE))):
        _arrive(f, rows)
        f.ret()
    with f.if_(f.compare("eq", "i32", "%kind", int(PointKind.CONFLICTS))):
        _count_conflicts(f, rows)
        f.ret()
    full = f.compare("eq", "i32", "%members", -1)
    for kind in SHUFFLES:
        with f.if_(f.compare("eq", "i32", "%kind", int(kind))):
            with f.if_(full):
                f.call(_fast_name(kind), "void", *[f"ptr {rows[row]}" for row in _SHUFFLE_ROWS])
                f.ret()
            with f.bits("%members") as lane:
                _shuffle(f, kind, rows, lane)
            f.ret()
    with f.bits("%members") as lane:
        mask = f.op(f"and i32 {_word(f, rows, layout.MASK, lane)}, %alive")
        group = f.op(f"or i32 {mask}, {f.op(f'shl i32 1, {lane}')}")
        for kind in _VOTES:
            with f.if_(f.compare("eq", "i32", "%kind", int(kind))):
                _vote(f, kind, rows, lane, group)
        for kind in (PointKind.MATCH_ANY, PointKind.MATCH_ALL):
            with f.if_(f.compare("eq", "i32", "%kind", int(kind))):
                _match(f, kind, rows, lane, group)
        for kind, (operation, start) in _REDUCTIONS.items():
            with f.if_(f.compare("eq", "i32", "%kind", int(kind))):
                total = f.variable("i32", start)
                with f.bits(group) as other:
                    value = _word(f, rows, layout.A, other)
                    if "min" in operation or "max" in operation:
                        both = f"i32 {total.get()}", f"i32 {value}"
                        total.set(f.call(f"llvm.{operation}.i32", "i32", *both))
                    else:
                        total.update(operation, value)
                _answer(f, rows, lane, total.get(), "0")
        with f.if_(f.compare("eq", "i32", "%kind", int(PointKind.ELECT))):
            leader = f.call("llvm.cttz.i32", "i32", f"i32 {group}", "i1 true")
            elected = f.op(f"zext i1 {f.compare('eq', 'i32', leader, lane)} to i32")
            _answer(f, rows, lane, leader, elected)
        with f.if_(f.compare("eq", "i32", "%kind", int(PointKind.ACTIVE_MASK))):
            _answer(f, rows, lane, "%members", "0")
    f.ret()


Rows = dict[int, str]


def _arrive(f: Function, rows: Rows) -> None:
    """``bar.arrive``: count the warp once (``barriers``), with the operands of its first lane."""
    leader = f.call("llvm.cttz.i32", "i32", "i32 %members", "i1 true")
    number = f.op(f"and i32 {_word(f, rows, layout.B, leader)}, {layout.BARRIERS - 1}")
    expected = _word(f, rows, layout.C, leader)
    f.call("cl_arrive", "void", "ptr %ctx", f"i32 {number}", f"i32 {expected}", "i32 0", "i32 0", "i32 0")


def _count_conflicts(f: Function, rows: Rows) -> None:
    """Wavefronts of an access to shared memory beyond those that its width needs: A is a lane's address, B the bytes of
    its access. Lanes are served 128 bytes at a time; those of a wavefront may not access different words of a bank."""
    leader = f.call("llvm.cttz.i32", "i32", "i32 %members", "i1 true")
    size = _word(f, rows, layout.B, leader)
    lanes = f.op(f"udiv i32 {_LINE}, {size}")
    counts = f.array(4 * 32)
    total, most, new = f.variable("i32", 0), f.variable("i32"), f.variable("i1")
    part = f.variable("i32", 0)
    with f.loop():  # the lanes whose words make up 128 bytes
        first = part.get()
        with f.if_(f.compare("uge", "i32", first, 32)):
            f.break_()
        below = f.op(f"shl i64 1, {f.wide(lanes)}")
        inside = f.op(f"shl i64 {f.op(f'sub i64 {below}, 1')}, {f.wide(first)}")
        group = f.op(f"and i32 %members, {f.op(f'trunc i64 {inside} to i32')}")
        most.set(1)
        f.call("llvm.memset.p0.i64", "void", f"ptr {counts}", "i8 0", "i64 128", "i1 false")
        with f.bits(group) as lane:
            word = f.op(f"udiv i32 {_word(f, rows, layout.A, lane)}, {size}")
            new.set("true")
            with f.bits(group) as earlier:
                with f.if_(f.compare("uge", "i32", earlier, lane)):
                    f.break_()
                other = f.op(f"udiv i32 {_word(f, rows, layout.A, earlier)}, {size}")
                with f.if_(f.compare("eq", "i32", other, word)):
                    new.set("false")
            place = f.element(counts, "i32", f.op(f"urem i32 {word}, {lanes}"))
            count = f.op(f"add i32 {f.load('i32', place)}, {f.op(f'zext i1 {new.get()} to i32')}")
            f.store("i32", count, place)
            most.set(f.call("llvm.umax.i32", "i32", f"i32 {most.get()}", f"i32 {count}"))
        total.update("add", f.op(f"sub i32 {most.get()}, 1"))
        part.update("add", lanes)
    with f.bits("%members") as lane:
        _answer(f, rows, lane, total.get(), "0")


def warp_rows(f: Function, warp: str) -> Rows:
    """Pointers to the words of a warp's lane 0 in each row of the scratch memory."""
    base = f.load("ptr", "%ctx", layout.field("scratch"))
    count = f.wide(f.load("i32", "%ctx", layout.field("warps")))
    own = f.at(base, f.op(f"shl i64 {f.wide(warp)}, 7"))
    return {row: f.at(own, f.op(f"mul i64 {count}, {row}")) for row in layout.ROWS}


def _word(f: Function, rows: Rows, row: int, lane: str) -> str:
    """A lane's word in a row."""
    return f.load("i32", f.element(rows[row], "i32", lane))


def _answer(f: Function, rows: Rows, lane: str, result: str, predicate: str) -> None:
    f.store("i32", result, f.element(rows[layout.RESULT], "i32", lane))
    f.store("i32", predicate, f.element(rows[layout.PREDICATE], "i32", lane))


def source_lane(f: Function, kind: PointKind, lane: str, b: str, c: str) -> tuple[str, str]:
    """Source lane of a shuffle, and whether it is within the segment (PTX ISA, ``shfl.sync``)."""
    clamp = f.op(f"and i32 {c}, 31")
    segment = f.op(f"and i32 {f.op(f'lshr i32 {c}, 8')}, 31")
    distance = f.op(f"and i32 {b}, 31")
    low = f.op(f"and i32 {lane}, {segment}")
    outside = f.op(f"xor i32 {segment}, 31")
    high = f.op(f"or i32 {low}, {f.op(f'and i32 {clamp}, {outside}')}")
    if kind is PointKind.SHUFFLE_UP:
        source = f.op(f"sub i32 {lane}, {distance}")
        valid = f.compare("sge", "i32", source, high)
    elif kind is PointKind.SHUFFLE_DOWN:
        source = f.op(f"add i32 {lane}, {distance}")
        valid = f.compare("sle", "i32", source, high)
    elif kind is PointKind.SHUFFLE_XOR:
        source = f.op(f"xor i32 {lane}, {distance}")
        valid = f.compare("sle", "i32", source, high)
    else:
        source = f.op(f"or i32 {low}, {f.op(f'and i32 {distance}, {outside}')}")
        valid = f.compare("sle", "i32", source, high)
    return f.op(f"select i1 {valid}, i32 {source}, i32 {lane}"), valid


def _shuffle(f: Function, kind: PointKind, rows: Rows, lane: str) -> None:
    b, c = (_word(f, rows, row, lane) for row in (layout.B, layout.C))
    source, valid = source_lane(f, kind, lane, b, c)
    taking_part = f.op(f"and i32 {f.op(f'lshr i32 %members, {source}')}, 1")
    present = f.compare("ne", "i32", taking_part, 0)
    chosen = f.op(f"select i1 {present}, i32 {source}, i32 {lane}")
    _answer(f, rows, lane, _word(f, rows, layout.A, chosen), f.op(f"zext i1 {valid} to i32"))


_SHUFFLE_ROWS = (layout.A, layout.B, layout.C, layout.RESULT, layout.PREDICATE)


def _fast_name(kind: PointKind) -> str:
    return f"cl_fast_{kind.name.lower()}"


def _shuffle_everyone(library: Library, kind: PointKind) -> None:
    """All 32 lanes shuffle: a loop without branches, which LLVM vectorises."""
    names = ("a", "b", "c", "result", "predicate")
    f = library.function(_fast_name(kind), "void", ", ".join(f"ptr noalias {name}" for name in names), "noinline")
    rows = {row: f"%{name}" for row, name in zip(_SHUFFLE_ROWS, names, strict=True)}
    with f.count_up("i32", 32) as lane:
        b, c = (_word(f, rows, row, lane) for row in (layout.B, layout.C))
        source, valid = source_lane(f, kind, lane, b, c)
        _answer(f, rows, lane, _word(f, rows, layout.A, source), f.op(f"zext i1 {valid} to i32"))
    f.ret()


def _vote(f: Function, kind: PointKind, rows: Rows, lane: str, group: str) -> None:
    ballot = f.variable("i32", 0)
    with f.bits(group) as other:
        value = _word(f, rows, layout.A, other)
        ballot.update("or", f.op(f"shl i32 {value}, {other}"))
    votes = ballot.get()
    if kind is PointKind.VOTE_BALLOT:
        result = votes
    else:
        every = f.compare("eq", "i32", votes, group)
        some = f.compare("ne", "i32", votes, 0)
        outcome = every if kind is PointKind.VOTE_ALL else some
        if kind is PointKind.VOTE_UNIFORM:
            outcome = f.op(f"or i1 {every}, {f.op(f'xor i1 {some}, true')}")
        result = f.op(f"zext i1 {outcome} to i32")
    _answer(f, rows, lane, result, "0")


def _match(f: Function, kind: PointKind, rows: Rows, lane: str, group: str) -> None:
    """Lanes of the group with the same value; for ``all`` the whole group or nothing."""
    equal = f.variable("i32", 0)
    own, own_high = (_word(f, rows, row, lane) for row in (layout.A, layout.A_HIGH))
    with f.bits(group) as other:
        value, high = (_word(f, rows, row, other) for row in (layout.A, layout.A_HIGH))
        same = f.op(f"and i1 {f.compare('eq', 'i32', own, value)}, {f.compare('eq', 'i32', own_high, high)}")
        equal.update("or", f.op(f"shl i32 {f.op(f'zext i1 {same} to i32')}, {other}"))
    if kind is PointKind.MATCH_ANY:
        _answer(f, rows, lane, equal.get(), "0")
        return
    every = f.compare("eq", "i32", equal.get(), group)
    result = f.op(f"select i1 {every}, i32 {group}, i32 0")
    _answer(f, rows, lane, result, f.op(f"zext i1 {every} to i32"))
