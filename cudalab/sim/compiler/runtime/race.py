"""Slow path of the shadow cells of sanitized code (described in ``codegen/shadow_cells.py``).

``cl_race_block``   a kernel without suspension points begins a block ``cl_race_enter``   the driver is about to call a
region: time advances, and the barrier just passed orders accesses ``cl_race_warp``    some lanes of a diverged warp
have executed a warp operation ``cl_race``         cells without a usual value

A *conflict* flag of a cell means that an access before the last one conflicts with every access not ordered after it:
by other warps (``WARP_CONFLICT``), or by other blocks (``GRID_CONFLICT``).
"""

from __future__ import annotations

import ctypes

from cudalab.sim import abi
from cudalab.sim.abi import Race
from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library, Variable
from cudalab.sim.compiler.runtime.collectives import warp_rows
from cudalab.sim.compiler.runtime.layout import race_field
from cudalab.sim.compiler.runtime.states import kind_of, lanes_of, literals_of, site_of

_CONFLICTS = Race.WARP_CONFLICT | Race.GRID_CONFLICT
_SUSPECT = ctypes.sizeof(abi.Suspect)


def write(library: Library) -> None:
    """Add the functions of this module."""
    _append(library)
    _block(library)
    _enter(library)
    _warp_operation(library)
    _suspect(library)
    _is_unset(library)
    _cell(library)
    _race(library)
    _race_lanes(library)


def _load(f: Function, name: str) -> str:
    return f.load("i64", "%race", race_field(name))


def race_of(f: Function) -> None:
    """Define ``%race``, the state of sanitized code."""
    f.line(f"%race.at = getelementptr i8, ptr %ctx, i64 {layout.field('race')}")
    f.line("%race = load ptr, ptr %race.at")


def _mark_irregular(f: Function) -> None:
    """Barriers or masks have to be checked."""
    seen = f.op(f"or i64 {_load(f, 'irregular')}, {Race.UNEVEN}")
    f.store("i64", seen, "%race", race_field("irregular"))


def _append(library: Library) -> None:
    """Allocate an entry of ``size`` bytes in a buffer; null if it is full and not drained."""
    f = library.function("cl_append", "ptr", "ptr ctx, ptr buffer, i64 size", "cold noinline")
    used = f.variable("i64", f.load("i64", "%buffer", 16))
    capacity = f.load("i64", "%buffer", 8)
    with f.if_(f.compare("ugt", "i64", f.op(f"add i64 {used.get()}, %size"), capacity)):
        drain = f.load("ptr", "%buffer", 32)
        with f.if_(f.compare("ne", "ptr", drain, "null")):
            f.line(f"call void {drain}(ptr %ctx, ptr %buffer)")
            used.set(f.load("i64", "%buffer", 16))
    with f.if_(f.compare("ugt", "i64", f.op(f"add i64 {used.get()}, %size"), capacity)):
        f.store("i64", f.op(f"add i64 {f.load('i64', '%buffer', 24)}, 1"), "%buffer", 24)
        f.ret("null")
    f.store("i64", f.op(f"add i64 {used.get()}, %size"), "%buffer", 16)
    f.ret(f.at(f.load("ptr", "%buffer"), used.get()))


# -- time --------------------------------------------------------------------------------------------------------------


def _begin_block(f: Function, time: str) -> None:
    for name in ("block_start", "last_barrier"):
        f.store("i64", time, "%race", race_field(name))
    f.store("i64", f.load("i64", "%blk", layout.LINEAR), "%race", race_field("block"))
    f.store("i32", 0, "%race", race_field("diverged"))
    everybody = f.at("%race", race_field("resumed"))
    f.call("llvm.memset.p0.i64", "void", f"ptr {everybody}", "i8 -1", "i64 128", "i1 false")


def _tick(f: Function) -> str:
    time = f.op(f"add i64 {_load(f, 'time')}, 1")
    f.store("i64", time, "%race", race_field("time"))
    return time


def _block(library: Library) -> None:
    f = library.function("cl_race_block", "void", "ptr ctx, ptr blk", "noinline")
    race_of(f)
    _begin_block(f, _tick(f))
    f.ret()


def _enter(library: Library) -> None:
    """Threads ``first … end − 1`` resume at the point ``state`` (0: they start)."""
    f = library.function(
        "cl_race_enter", "void", "ptr ctx, ptr blk, i32 state, i32 first, i32 end, ptr kernel", "noinline"
    )
    race_of(f)
    with f.if_(f.compare("eq", "ptr", "%race", "null")):
        f.ret()
    time = _tick(f)
    with f.if_(f.compare("eq", "i32", "%state", 0)):
        _begin_block(f, time)
        f.ret()
    kind = kind_of(f, "%state")
    threads = f.load("i32", "%ctx", layout.field("threads"))
    whole = f.variable("i1", f.compare("eq", "i32", kind, int(PointKind.BARRIER)))
    literals = literals_of(f, "%state")
    flags = f.load("i32", literals)
    with f.if_(f.compare("eq", "i32", kind, int(PointKind.NAMED_BARRIER))):
        both = layout.LITERAL_B | layout.LITERAL_C
        known = f.compare("eq", "i32", f.op(f"and i32 {flags}, {both}"), both)
        number, expected = f.load("i32", literals, 8), f.load("i32", literals, 12)
        all_ = f.op(f"or i1 {f.compare('eq', 'i32', expected, 0)}, {f.compare('eq', 'i32', expected, threads)}")
        plain = f.op(f"and i1 {known}, {f.compare('eq', 'i32', number, 0)}")
        whole.set(f.op(f"and i1 {plain}, {all_}"))
        with f.if_(f.op(f"xor i1 {whole.get()}, true")):
            _mark_irregular(f)
            f.ret()
    with f.if_(whole.get()):
        _passed_barrier(f, time, threads)
        f.ret()
    is_warp = f.compare("uge", "i32", kind, int(PointKind.SYNC))
    below = f.compare("ult", "i32", kind, int(PointKind.ACTIVE_MASK))
    with f.if_(f.op(f"and i1 {is_warp}, {below}")):
        _passed_warp_operation(f, time, threads, flags, literals)
        _read_lanes(f, kind, threads, literals)
    f.ret()


def _warp_operation(library: Library) -> None:
    """Lanes ``needed`` of a diverged warp, named by ``mask``, have executed an operation; ``alive`` have not exited. If
    named lanes have exited, and some lanes executed operations without the others before, synccheck has to check for a
    mask mismatch (``machine/sanitizer/mask_mismatch.py``)."""
    f = library.function("cl_race_warp", "void", "ptr ctx, i32 warp, i32 mask, i32 needed, i32 alive", "noinline")
    race_of(f)
    left = f.op(f"and i32 {lanes_of(f, '%warp')}, {f.op('xor i32 %alive, -1')}")
    missing = f.compare("ne", "i32", f.op(f"and i32 %mask, {left}"), 0)
    diverged = f.load("i32", "%race", race_field("diverged"))
    own = f.op("shl i32 1, %warp")
    before = f.compare("ne", "i32", f.op(f"and i32 {diverged}, {own}"), 0)
    with f.if_(f.op(f"and i1 {missing}, {before}")):
        _mark_irregular(f)
    with f.if_(f.compare("ne", "i32", "%needed", "%alive")):
        f.store("i32", f.op(f"or i32 {diverged}, {own}"), "%race", race_field("diverged"))
    f.ret()


def _passed_barrier(f: Function, time: str, threads: str) -> None:
    """Set the barrier's time when its first threads resume; those that resume later find it set. A thread resumes from
    a barrier a second time only after all have arrived at the next one."""
    complete = f.op(f"and i1 {f.compare('eq', 'i32', '%first', 0)}, {f.compare('eq', 'i32', '%end', threads)}")
    resumed = f.at("%race", race_field("resumed"))
    with f.if_(complete):
        f.store("i64", time, "%race", race_field("last_barrier"))
        f.call("llvm.memset.p0.i64", "void", f"ptr {resumed}", "i8 -1", "i64 128", "i1 false")
        f.ret()
    _mark_irregular(f)
    word = f.element(resumed, "i32", f.op("lshr i32 %first, 5"))
    bit = f.op("shl i32 1, " + f.op("and i32 %first, 31"))
    again = f.compare("ne", "i32", f.op(f"and i32 {f.load('i32', word)}, {bit}"), 0)
    with f.if_(again):
        f.store("i64", time, "%race", race_field("last_barrier"))
        f.call("llvm.memset.p0.i64", "void", f"ptr {resumed}", "i8 0", "i64 128", "i1 false")
    with f.count_up("i32", "%end", "%first") as thread:
        word = f.element(resumed, "i32", f.op(f"lshr i32 {thread}, 5"))
        bit = f.op(f"shl i32 1, {f.op(f'and i32 {thread}, 31')}")
        f.store("i32", f.op(f"or i32 {f.load('i32', word)}, {bit}"), word)


def _passed_warp_operation(f: Function, time: str, threads: str, flags: str, literals: str) -> None:
    """Order the warps that resume converged and whose masks all named every lane. A lane missing from its own mask is
    left to synccheck."""
    fixed = f.compare("ne", "i32", f.op(f"and i32 {flags}, {layout.LITERAL_MASK}"), 0)
    literal = f.load("i32", literals, 4)
    last = f.op("sub i32 %end, 1")
    stop = f.op(f"add i32 {f.op(f'lshr i32 {last}, 5')}, 1")
    with f.count_up("i32", stop, f.op("lshr i32 %first, 5")) as warp:
        lanes = lanes_of(f, warp)
        begin = f.op(f"shl i32 {warp}, 5")
        present = f.variable("i32", lanes)
        limit = f.call("llvm.umin.i32", "i32", f"i32 {f.op(f'add i32 {begin}, 32')}", f"i32 {threads}")
        early, late = f.compare("ult", "i32", "%end", limit), f.compare("ugt", "i32", "%first", begin)
        partly = f.op(f"or i1 {early}, {late}")
        with f.if_(partly):
            low = f.call("llvm.usub.sat.i32", "i32", "i32 %first", f"i32 {begin}")
            high = f.call("llvm.umin.i32", "i32", f"i32 {f.op(f'sub i32 %end, {begin}')}", "i32 32")
            below = f.op(f"sub i64 {f.op(f'shl i64 1, {f.wide(high)}')}, {f.op(f'shl i64 1, {f.wide(low)}')}")
            present.update("and", f.op(f"trunc i64 {below} to i32"))
        common = f.variable("i32", -1)
        with f.if_else(fixed) as otherwise:
            common.set(literal)
            unnamed = f.op(f"and i32 {present.get()}, {f.op(f'xor i32 {literal}, -1')}")
            with f.if_(f.compare("ne", "i32", unnamed, 0)):
                _mark_irregular(f)
            otherwise()
            masks = warp_rows(f, warp)[layout.MASK]
            with f.bits(present.get()) as lane:
                mask = f.load("i32", f.element(masks, "i32", lane))
                common.update("and", mask)
                named = f.op(f"and i32 {f.op(f'lshr i32 {mask}, {lane}')}, 1")
                with f.if_(f.compare("eq", "i32", named, 0)):
                    _mark_irregular(f)
        missing = f.op(f"and i32 {lanes}, {f.op(f'xor i32 {common.get()}, -1')}")
        everybody = f.compare("eq", "i32", missing, 0)
        with f.if_(f.op(f"and i1 {everybody}, {f.op(f'xor i1 {partly}, true')}")):
            f.store("i64", time, f.element(f.at("%race", race_field("last_warp_operation")), "i64", warp))


def _read_lanes(f: Function, kind: str, threads: str, literals: str) -> None:
    """Follow what lanes read of each other in warps that resume whole; others were looked at when the operation was
    resolved (``states``)."""
    shuffles = f.compare("uge", "i32", kind, int(PointKind.SHUFFLE_UP))
    combines = f.compare("ule", "i32", kind, int(PointKind.REDUCE_XOR))
    whole = f.op(f"or i1 {f.compare('eq', 'i32', '%end', threads)}, {f.op('icmp eq i32 0, ' + _rest(f, '%end'))}")
    even = f.compare("eq", "i32", _rest(f, "%first"), 0)
    with f.if_(f.op(f"and i1 {f.op(f'and i1 {shuffles}, {combines}')}, {f.op(f'and i1 {whole}, {even}')}")):
        site = site_of(f, "%state")
        stop = f.op(f"lshr i32 {f.op('add i32 %end, 31')}, 5")
        with f.count_up("i32", stop, f.op("lshr i32 %first, 5")) as warp:
            lanes = lanes_of(f, warp)
            operation = f"i32 {kind}", f"i32 {lanes}", f"i32 {lanes}", f"i32 {site}", f"ptr {literals}"
            f.call("cl_undefined_lanes", "void", "ptr %ctx", "ptr %blk", f"i32 {warp}", *operation)


def _rest(f: Function, thread: str) -> str:
    """A thread's place in its warp."""
    return f.op(f"and i32 {thread}, {abi.WARP - 1}")


# -- cells -------------------------------------------------------------------------------------------------------------


def _suspect(library: Library) -> None:
    f = library.function(
        "cl_suspect", "void", "ptr ctx, i64 cell, i32 thread, i32 site, i64 address, i32 kind", "cold noinline"
    )
    race_of(f)
    place = f.call("cl_append", "ptr", "ptr %ctx", f"ptr {f.at('%race', race_field('suspects'))}", f"i64 {_SUSPECT}")
    with f.if_(f.compare("ne", "ptr", place, "null")):
        f.store("i64", "%address", place)
        f.store("i64", "%cell", place, 8)
        f.store("i64", _load(f, "block"), place, 16)
        f.store("i32", "%site", place, 24)
        f.store("i32", f.op(f"or i32 %thread, {f.op('shl i32 %kind, 16')}"), place, 28)
    f.ret()


def _is_unset(library: Library) -> None:
    """Whether the bytes of a cell of device memory were uninitialised at launch. In partly initialised allocations,
    cells of initialised bytes carry the time before the launch."""
    f = library.function("cl_unset", "i1", "ptr race, i64 address, i64 cell", "noinline")
    ranges = f.load("ptr", "%race", race_field("unset"))
    with f.count_up("i64", _load(f, "unset_count")) as index:
        entry = f.at(ranges, f.op(f"mul i64 {index}, 16"))
        offset = f.op(f"sub i64 %address, {f.load('i64', entry)}")
        with f.if_(f.compare("ult", "i64", offset, f.load("i64", entry, 8))):
            before = f.op(f"sub i64 {_load(f, 'launch_start')}, 1")
            marked = f.compare("eq", "i64", f.op(f"lshr i64 %cell, {Race.TIME_SHIFT}"), before)
            f.ret(f.op(f"xor i1 {marked}, true"))
    f.ret("false")


def _cell(library: Library) -> None:
    """Update one cell. ``kind`` as in ``codegen/shadow_cells.py``."""
    f = library.function(
        "cl_race_cell", "void", "ptr ctx, ptr race, ptr place, i32 kind, i32 thread, i32 site, i64 address", "noinline"
    )
    cell = f.load("i64", "%place")
    then = f.op(f"lshr i64 {cell}, {Race.TIME_SHIFT}")
    shared = f.compare("ne", "i32", f.op("and i32 %kind, 8"), 0)
    reads = f.compare("ne", "i32", f.op("and i32 %kind, 4"), 0)
    action = f.op("and i32 %kind, 3")
    loads, atomic = f.compare("eq", "i32", action, 0), f.compare("eq", "i32", action, 2)
    block_start, base, time = (_load(f, name) for name in ("block_start", "last_barrier", "time"))
    start = f.op(f"select i1 {shared}, i64 {block_start}, i64 {_load(f, 'launch_start')}")
    known = f.compare("uge", "i64", then, start)
    holds = f.variable("i64", f.op(f"and i64 {cell}, {Race.SET}"))
    with f.if_(f.op(f"xor i1 {known}, true")):
        with f.if_else(shared) as otherwise:
            holds.set(0)
            otherwise()
            unset = f.call("cl_unset", "i1", "ptr %race", "i64 %address", f"i64 {cell}")
            holds.set(f.op(f"select i1 {unset}, i64 0, i64 {Race.SET}"))
    empty = f.compare("eq", "i64", holds.get(), 0)
    who = ("i32 %thread", "i32 %site", "i64 %address")
    with f.if_(f.op(f"and i1 {empty}, {reads}")):
        f.call("cl_suspect", "void", "ptr %ctx", f"i64 {cell}", *who, "i32 1")
    with f.if_(f.op(f"xor i1 {loads}, true")):
        holds.set(Race.SET)
    own_states = f.op(
        f"select i1 {loads}, i64 {Race.READ}, i64 {f.op(f'select i1 {atomic}, i64 {Race.ATOMIC}, i64 {Race.WRITE}')}"
    )
    state, when, flags = f.variable("i64", own_states), f.variable("i64", time), f.variable("i64", 0)
    bad = f.variable("i1", "false")
    with f.if_(known):
        was = f.op(f"and i64 {f.op(f'lshr i64 {cell}, {Race.STATE_SHIFT}')}, 15")
        with f.if_(f.compare("eq", "i64", was, Race.SUSPECT)):
            f.ret()
        old = _Old(f, cell, then, was, loads, atomic)
        same_block = f.op(f"or i1 {shared}, {f.compare('uge', 'i64', then, block_start)}")
        with f.if_else(same_block) as otherwise:
            with f.if_else(f.compare("ult", "i64", then, base)) as since:
                _after_barrier(f, old, shared, flags)
                since()
                _since_barrier(f, old, base, time, state, when, flags, bad)
            otherwise()
            _other_block(f, old, state, when, bad)
    with f.if_(bad.get()):
        f.call("cl_suspect", "void", "ptr %ctx", f"i64 {cell}", *who, "i32 0")
        state.set(Race.SUSPECT)
        when.set(time)
        flags.set(0)
    new = f.op(f"shl i64 {when.get()}, {Race.TIME_SHIFT}")
    who_bits = f.op(f"shl i64 {f.wide('%thread')}, {Race.THREAD_SHIFT}")
    new = f.op(f"or i64 {new}, {who_bits}")
    new = f.op(f"or i64 {new}, {f.op(f'shl i64 {state.get()}, {Race.STATE_SHIFT}')}")
    new = f.op(f"or i64 {new}, {f.op(f'or i64 {flags.get()}, {holds.get()}')}")
    site = f.call("llvm.umin.i32", "i32", "i32 %site", f"i32 {Race.SITE_MASK}")
    f.store("i64", f.op(f"or i64 {new}, {f.wide(site)}"), "%place")
    f.ret()


class _Old:
    """The earlier accesses in a cell, and their relation to the new one."""

    def __init__(self, f: Function, cell: str, then: str, was: str, loads: str, atomic: str) -> None:
        self.then, self.was = then, was
        self.conflicts = f.op(f"and i64 {cell}, {_CONFLICTS}")
        self.in_warp = f.compare("ne", "i64", f.op(f"and i64 {cell}, {Race.WARP_CONFLICT}"), 0)
        self.who = f.op(f"trunc i64 {f.op(f'lshr i64 {cell}, {Race.THREAD_SHIFT}')} to i32")
        self.who = f.op(f"and i32 {self.who}, 1023")
        read = f.compare("ule", "i64", was, Race.READ_GRID)
        changed = f.compare("uge", "i64", was, Race.ATOMIC)
        self.both_load, self.both_atomic = f.op(f"and i1 {read}, {loads}"), f.op(f"and i1 {changed}, {atomic}")
        self.alike = f.op(f"or i1 {self.both_load}, {self.both_atomic}")
        """Both load, or both are atomic: no conflict in any order."""


def _flag_unless(f: Function, alike: str, flag: int) -> str:
    return f.op(f"select i1 {alike}, i64 0, i64 {flag}")


def _after_barrier(f: Function, old: _Old, shared: str, flags: Variable) -> None:
    """Case of an access before the barrier: ordered; only other blocks can still conflict with it."""
    some = f.compare("ne", "i64", old.conflicts, 0)
    kept = f.op(f"select i1 {some}, i64 {Race.GRID_CONFLICT}, i64 {_flag_unless(f, old.alike, Race.GRID_CONFLICT)}")
    flags.set(f.op(f"select i1 {shared}, i64 0, i64 {kept}"))


def _since_barrier(
    f: Function,
    old: _Old,
    base: str,
    time: str,
    state: Variable,
    when: Variable,
    flags: Variable,
    bad: Variable,
) -> None:
    warp = f.op("lshr i32 %thread, 5")
    orders = f.compare("eq", "i32", f.op("and i32 %kind, 16"), 0)
    same_warp = f.op(f"and i1 {orders}, {f.compare('eq', 'i32', f.op(f'lshr i32 {old.who}, 5'), warp)}")
    passed = f.load("i64", f.element(f.at("%race", race_field("last_warp_operation")), "i64", warp))
    alone = _is_any(f, old.was, (Race.READ, Race.WRITE, Race.ATOMIC))
    narrow = f.op(f"or i1 {alone}, {f.compare('eq', 'i64', old.was, Race.READ_WARP)}")
    ordered = f.op(f"and i1 {f.op(f'and i1 {same_warp}, {narrow}')}, {f.compare('ult', 'i64', old.then, passed)}")
    own = f.op(f"and i1 {f.compare('eq', 'i32', old.who, '%thread')}, {alone}")
    with f.if_else(ordered) as otherwise:
        flags.set(f.op(f"or i64 {old.conflicts}, {_flag_unless(f, old.alike, Race.WARP_CONFLICT)}"))
        otherwise()
        with f.if_else(own) as others:
            # a thread's own accesses are ordered; if their kinds differ, they are merged into a write
            flags.set(old.conflicts)
            with f.if_(f.op(f"xor i1 {old.alike}, true")):
                state.set(Race.WRITE)
            others()
            flags.set(old.conflicts)
            free = f.op(f"xor i1 {old.in_warp}, true")
            with f.if_else(old.both_load) as unlike:
                within = f.op(f"and i1 {same_warp}, {narrow}")
                with f.if_else(within) as apart:
                    state.set(Race.READ_WARP)
                    apart()
                    state.set(Race.READ_BLOCK)
                    when.set(base)
                    bad.set(old.in_warp)
                unlike()
                state.set(Race.ATOMIC_BLOCK)
                when.set(base)
                bad.set(f.op(f"xor i1 {f.op(f'and i1 {old.both_atomic}, {free}')}, true"))


def _other_block(f: Function, old: _Old, state: Variable, when: Variable, bad: Variable) -> None:
    clean = f.compare("eq", "i64", old.conflicts, 0)
    state.set(f.op(f"select i1 {old.both_load}, i64 {Race.READ_GRID}, i64 {Race.ATOMIC_GRID}"))
    when.set(_load(f, "launch_start"))
    bad.set(f.op(f"xor i1 {f.op(f'and i1 {old.alike}, {clean}')}, true"))


def _is_any(f: Function, state: str, states: tuple[int, ...]) -> str:
    found = f.compare("eq", "i64", state, states[0])
    for other in states[1:]:
        found = f.op(f"or i1 {found}, {f.compare('eq', 'i64', state, other)}")
    return found


def _race(library: Library) -> None:
    """Update ``count`` cells from ``place``."""
    f = library.function(
        "cl_race",
        "void",
        "ptr ctx, ptr place, i32 count, i32 kind, i32 thread, i32 site, i64 address",
        "noinline",
        layout.RACE_CONVENTION,
    )
    race_of(f)
    shared = f.compare("ne", "i32", f.op("and i32 %kind, 8"), 0)
    shift = f.op(
        f"select i1 {shared}, i32 {f.load('i32', '%race', race_field('shared_shift'))}, "
        f"i32 {f.load('i32', '%race', race_field('shift'))}"
    )
    with f.count_up("i32", "%count") as number:
        address = f.op(f"add i64 %address, {f.wide(f.op(f'shl i32 {number}, {shift}'))}")
        cell = f.element("%place", "i64", number)
        who = ("i32 %kind", "i32 %thread", "i32 %site", f"i64 {address}")
        f.call("cl_race_cell", "void", "ptr %ctx", "ptr %race", f"ptr {cell}", *who)
    f.ret()


def _race_lanes(library: Library) -> None:
    """Update the cells of the lanes of ``mask``, from thread ``first``; ``addresses``: i64 each, ``window`` is added to
    them."""
    f = library.function(
        "cl_race_lanes",
        "void",
        "ptr ctx, i32 mask, ptr addresses, i32 count, i32 kind, i32 first, i32 site, i64 window",
        "noinline",
        layout.RACE_CONVENTION,
    )
    race_of(f)
    shared = f.compare("ne", "i32", f.op("and i32 %kind, 8"), 0)
    shifts = [f.load("i32", "%race", race_field(name)) for name in ("shared_shift", "shift")]
    shift = f.wide(f.op(f"select i1 {shared}, i32 {shifts[0]}, i32 {shifts[1]}"))
    maps = [f.load("ptr", "%race", race_field(name)) for name in ("shared_cells", "cells")]
    cells = f.op(f"select i1 {shared}, ptr {maps[0]}, ptr {maps[1]}")
    with f.bits("%mask") as lane:
        address = f.load("i64", f.element("%addresses", "i64", lane))
        place = f.element(cells, "i64", f.op(f"lshr i64 {address}, {shift}"), "i64")
        thread = f.op(f"add i32 %first, {lane}")
        generic = f.op(f"add i64 {address}, %window")
        f.line(
            f"call {layout.RACE_CONVENTION} void @cl_race(ptr %ctx, ptr {place}, i32 %count, i32 %kind, i32 {thread}, "
            f"i32 %site, i64 {generic})"
        )
    f.ret()
