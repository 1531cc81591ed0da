"""Thread states, region calls, and execution of a diverged warp; shared by the parts of the driver.

Two orders of threads show what a race may do (``passes.races``). A region that reads shared memory without a barrier
runs half of the warps, those in the middle, before the others, so that some read too early from warps below them and
some from warps above. Shared memory starts with a pattern there: what an earlier block left could be the right values.
Threads that wait to let others come as far resume in the next round of their block. The first time that they do so the
block yields, if ``context.interleave`` says so, and the other resident blocks come as far.
"""

from __future__ import annotations

from collections.abc import Callable

from cudalab.sim import abi
from cudalab.sim.abi import Progress
from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library, Variable
from cudalab.sim.compiler.runtime.collectives import warp_rows

_REGIONS, _KINDS, _LITERALS = 8, 16, 24  # offsets in layout.DESCRIPTOR


def write(library: Library) -> None:
    """Add the functions of this module."""
    f = library.function("cl_thread", "i32", "ptr order, i32 position", "noinline")
    with f.if_(f.compare("eq", "ptr", "%order", "null")):
        f.ret("%position")
    f.ret(f.load("i32", f.element("%order", "i32", "%position")))
    write_literals(library)
    _run_lanes(library)
    _run_reordered(library)


def exists(f: Function, state: str) -> str:
    """Whether a thread with this state is still in the kernel."""
    return f.compare("ne", "i32", state, layout.EXITED)


def is_ready(f: Function, state: str) -> str:
    """Whether the flag READY is set (also true of EXITED)."""
    return f.compare("ne", "i32", f.op(f"and i32 {state}, {layout.READY}"), 0)


def kind_of(f: Function, state: str) -> str:
    """The kind of the point at which a thread waits, as i32."""
    kinds = f.load("ptr", "%kernel", _KINDS)
    return f.op(f"zext i8 {f.load('i8', kinds, f.wide(state))} to i32")


def literals_of(f: Function, state: str) -> str:
    """The record of literal operands of a point."""
    table = f.load("ptr", "%kernel", _LITERALS)
    return f.at(table, f.op(f"mul i64 {f.wide(state)}, {layout.LITERAL_BYTES}"))


def site_of(f: Function, state: str) -> str:
    """The site of the point at which a thread waits, as i32."""
    first = f.op(f"trunc i64 {f.load('i64', '%kernel')} to i32")
    return f.op(f"sub i32 {f.op(f'add i32 {first}, {state}')}, 1")


def call_region(f: Function, state: str, first: str, end: str) -> str:
    """Run a region for a range of threads; returns its result."""
    with f.if_(f.compare("ne", "i64", f.load("i64", "%ctx", layout.field("race")), 0)):
        f.call(
            "cl_race_enter", "void", "ptr %ctx", "ptr %blk", f"i32 {state}", f"i32 {first}", f"i32 {end}", "ptr %kernel"
        )
    regions = f.load("ptr", "%kernel", _REGIONS)
    region = f.load("ptr", f.element(regions, "ptr", state))
    return f.op(f"call i32 {region}(ptr %ctx, ptr %blk, i32 {first}, i32 {end}, i32 {state})")


def is_stop(f: Function, outcome: str) -> str:
    """Whether the outcome is FAULTED or STOPPED."""
    fault = f.compare("eq", "i32", outcome, layout.FAULTED)
    return f.op(f"or i1 {fault}, {f.compare('eq', 'i32', outcome, layout.STOPPED)}")


def is_poll(f: Function, state: str) -> str:
    """Whether the point of a state is a poll."""
    return f.compare("eq", "i32", kind_of(f, state), int(PointKind.POLL))


def stop_requested(f: Function) -> str:
    """Whether the host has requested a stop."""
    return f.compare("ne", "i32", f.load("i32", "%ctx", layout.field("stop"), volatile=True), 0)


def lanes_of(f: Function, warp: str) -> str:
    """Mask of the lanes of a warp."""
    threads = f.load("i32", "%ctx", layout.field("threads"))
    left = f.op(f"sub i32 {threads}, {f.op(f'shl i32 {warp}, 5')}")
    full = f.compare("uge", "i32", left, abi.WARP)
    bit = f.op(f"shl i32 1, {f.op(f'and i32 {left}, 31')}")
    return f.op(f"select i1 {full}, i32 -1, i32 {f.op(f'sub i32 {bit}, 1')}")


def lanes_where(f: Function, states: str, mask: str, test: Callable[[str], str]) -> str:
    """Mask of the lanes in ``mask`` whose state passes ``test``."""
    found = f.variable("i32", 0)
    with f.bits(mask) as lane:
        passes = f.op(f"zext i1 {test(f.load('i32', f.element(states, 'i32', lane)))} to i32")
        found.update("or", f.op(f"shl i32 {passes}, {lane}"))
    return found.get()


def _run_lanes(library: Library) -> None:
    """Run a diverged warp, one group of lanes after the other, until no lane can run.

    The lanes' states are in ``context.states``. Returns the common state (EXITED if all have exited), or DIVERGED.
    """
    f = library.function("cl_run_lanes", "i32", "ptr ctx, ptr blk, i32 warp, ptr kernel", "noinline")
    base = f.load("ptr", "%ctx", layout.field("states"))
    states = f.at(base, f.op(f"shl i64 {f.wide('%warp')}, 7"))
    lanes = lanes_of(f, "%warp")
    _wake_polling(f, states, lanes)
    with f.loop():
        with f.if_(stop_requested(f)):
            f.ret(layout.STOPPED)
        _run_ready(f, states, lanes)
        alive = lanes_where(f, states, lanes, lambda state: exists(f, state))
        with f.if_(f.compare("eq", "i32", alive, 0)):
            f.ret(layout.EXITED)
        f.call("cl_literals", "void", "ptr %ctx", "i32 %warp", f"ptr {states}", "ptr %kernel")
        progress = f.variable("i1", "false")
        _resolve_complete(f, states, alive, progress)
        with f.if_(f.op(f"xor i1 {progress.get()}, true")):
            _resolve_active_mask(f, states, alive, progress)
        with f.if_(f.op(f"xor i1 {progress.get()}, true")):
            first = f.load("i32", states)
            others = lanes_where(f, states, lanes, lambda state: f.compare("ne", "i32", state, first))
            same = f.compare("eq", "i32", others, 0)
            f.ret(f.op(f"select i1 {same}, i32 {first}, i32 {layout.DIVERGED}"))


def _wake_polling(f: Function, states: str, lanes: str) -> None:
    """Make polling lanes ready, once."""
    with f.bits(lanes) as lane:
        place = f.element(states, "i32", lane)
        state = f.load("i32", place)
        with f.if_(f.op(f"xor i1 {is_ready(f, state)}, true")), f.if_(is_poll(f, state)):
            f.store("i32", f.op(f"or i32 {state}, {layout.READY}"), place)


def _run_ready(f: Function, states: str, lanes: str) -> None:
    """Run every lane that is ready, those at one point together, until none is."""
    with f.loop():
        ready = lanes_where(f, states, lanes, lambda state: f.op(f"and i1 {exists(f, state)}, {is_ready(f, state)}"))
        with f.if_(f.compare("eq", "i32", ready, 0)):
            f.break_()
        leader = f.call("llvm.cttz.i32", "i32", f"i32 {ready}", "i1 true")
        state = f.load("i32", f.element(states, "i32", leader))
        group = lanes_where(f, states, ready, lambda other: f.compare("eq", "i32", other, state))
        point = f.op(f"xor i32 {state}, {layout.READY}")
        rest = f.variable("i32", group)
        with f.loop():  # a region takes contiguous lanes
            left = rest.get()
            with f.if_(f.compare("eq", "i32", left, 0)):
                f.break_()
            first = f.call("llvm.cttz.i32", "i32", f"i32 {left}", "i1 true")
            shifted = f.op(f"lshr i32 {left}, {first}")
            length = f.call("llvm.cttz.i32", "i32", f"i32 {f.op(f'xor i32 {shifted}, -1')}", "i1 false")
            _run_range(f, states, point, first, length)
            end = f.op(f"add i32 {first}, {length}")
            above = f.op(f"shl i64 -1, {f.wide(end)}")
            rest.set(f.op(f"and i32 {left}, {f.op(f'trunc i64 {above} to i32')}"))


def _run_range(f: Function, states: str, point: str, first: str, length: str) -> None:
    """Run ``length`` lanes from lane ``first`` and store their states."""
    thread = f.op(f"add i32 {f.op('shl i32 %warp, 5')}, {first}")
    # these are lanes, not positions in a shuffled order: disable the order meanwhile
    order = f.load("ptr", "%blk", layout.ORDER)
    f.store("ptr", "null", "%blk", layout.ORDER)
    outcome = call_region(f, point, thread, f.op(f"add i32 {thread}, {length}"))
    f.store("ptr", order, "%blk", layout.ORDER)
    with f.if_(is_stop(f, outcome)):
        f.ret(outcome)
    with f.if_(f.compare("ne", "i32", outcome, layout.DIVERGED)), f.count_up("i32", length) as number:
        f.store("i32", outcome, f.element(states, "i32", f.op(f"add i32 {first}, {number}")))


def write_literals(library: Library) -> None:
    """``cl_literals``: write the literal operands of the points where a warp's lanes wait into scratch memory."""
    f = library.function("cl_literals", "void", "ptr ctx, i32 warp, ptr states, ptr kernel", "noinline")
    rows = warp_rows(f, "%warp")
    with f.bits(lanes_of(f, "%warp")) as lane:
        state = f.load("i32", f.element("%states", "i32", lane))
        with f.if_(f.op(f"and i1 {exists(f, state)}, {f.op(f'xor i1 {is_ready(f, state)}, true')}")):
            record = literals_of(f, state)
            flags = f.load("i32", record)
            for bit, row, offset in (
                (layout.LITERAL_MASK, layout.MASK, 4),
                (layout.LITERAL_B, layout.B, 8),
                (layout.LITERAL_C, layout.C, 12),
            ):
                with f.if_(f.compare("ne", "i32", f.op(f"and i32 {flags}, {bit}"), 0)):
                    f.store("i32", f.load("i32", record, offset), f.element(rows[row], "i32", lane))
    f.ret()


def _resolve_complete(f: Function, states: str, alive: str, progress: Variable) -> None:
    """Resolve every warp operation whose lanes have all arrived."""
    masks = warp_rows(f, "%warp")[layout.MASK]
    with f.bits(alive) as lane:
        state = f.load("i32", f.element(states, "i32", lane))
        with f.if_(f.op(f"xor i1 {is_ready(f, state)}, true")):
            kind = kind_of(f, state)
            above = f.compare("uge", "i32", kind, int(PointKind.SYNC))
            below = f.compare("ult", "i32", kind, int(PointKind.ACTIVE_MASK))
            with f.if_(f.op(f"and i1 {above}, {below}")):
                mask = f.op(f"and i32 {f.load('i32', f.element(masks, 'i32', lane))}, {alive}")
                needed = f.op(f"or i32 {mask}, {f.op(f'shl i32 1, {lane}')}")
                absent = lanes_where(f, states, needed, lambda other: _waits_elsewhere(f, other, kind))
                unlike = f.variable("i32", absent)
                with f.bits(needed) as other:
                    theirs = f.op(f"and i32 {f.load('i32', f.element(masks, 'i32', other))}, {alive}")
                    unlike.update("or", f.op(f"xor i32 {theirs}, {mask}"))
                with f.if_(f.compare("eq", "i32", unlike.get(), 0)):
                    with f.if_(f.compare("ne", "i64", f.load("i64", "%ctx", layout.field("race")), 0)):
                        asked = f.load("i32", f.element(masks, "i32", lane))
                        numbers = f"i32 {asked}", f"i32 {needed}", f"i32 {alive}"
                        f.call("cl_race_warp", "void", "ptr %ctx", "i32 %warp", *numbers)
                        site = f"i32 {site_of(f, state)}"
                        operation = f"i32 {kind}", f"i32 {needed}", f"i32 {alive}", site, "ptr null"
                        f.call("cl_undefined_lanes", "void", "ptr %ctx", "ptr %blk", "i32 %warp", *operation)
                    _resolve(f, states, kind, needed, alive)
                    progress.set("true")


def _waits_elsewhere(f: Function, state: str, kind: str) -> str:
    """Whether a lane does not wait at an operation of this kind. A state with READY set has no kind."""
    ready = is_ready(f, state)
    point = f.op(f"select i1 {ready}, i32 0, i32 {state}")
    return f.op(f"or i1 {ready}, {f.compare('ne', 'i32', kind_of(f, point), kind)}")


def _resolve(f: Function, states: str, kind: str, members: str, alive: str) -> None:
    f.call("cl_resolve", "void", "ptr %ctx", "i32 %warp", f"i32 {kind}", f"i32 {members}", f"i32 {alive}")
    with f.bits(members) as lane:
        place = f.element(states, "i32", lane)
        f.store("i32", f.op(f"or i32 {f.load('i32', place)}, {layout.READY}"), place)


def _resolve_active_mask(f: Function, states: str, alive: str, progress: Variable) -> None:
    """When nothing else can run: lanes at the same ``activemask`` are the active ones, those at the same ``bar.arrive``
    arrive together."""
    with f.bits(alive) as lane:
        state = f.load("i32", f.element(states, "i32", lane))
        with f.if_(f.op(f"xor i1 {is_ready(f, state)}, true")):
            kind = kind_of(f, state)
            last = f.compare("eq", "i32", kind, int(PointKind.ACTIVE_MASK))
            last = f.op(f"or i1 {last}, {f.compare('eq', 'i32', kind, int(PointKind.CONFLICTS))}")
            arrives = f.compare("eq", "i32", kind, int(PointKind.ARRIVE))
            with f.if_(f.op(f"or i1 {last}, {arrives}")):
                group = lanes_where(f, states, alive, lambda other: f.compare("eq", "i32", other, state))
                _resolve(f, states, kind, group, alive)
                progress.set("true")


def has_flag(f: Function, state: str | int, flag: int) -> str:
    """Whether a point's record has a flag."""
    return f.compare("ne", "i32", f.op(f"and i32 {f.load('i32', literals_of(f, str(state)))}, {flag}"), 0)


def _run_reordered(library: Library) -> None:
    """Run a region for the whole block: first for the warps in the middle, then for those below and above. Of two warps
    that are less than half a block apart, sometimes the lower and sometimes the upper one runs first; with two warps
    that depends on the block."""
    f = library.function("cl_run_reordered", "i32", "ptr ctx, ptr blk, i32 state, ptr kernel", "noinline")
    threads = f.load("i32", "%ctx", layout.field("threads"))
    warps = f.load("i32", "%ctx", layout.field("warps"))
    pair = f.compare("eq", "i32", warps, 2)
    odd = f.op(f"trunc i64 {f.load('i64', '%blk', layout.LINEAR)} to i1")
    with f.if_(f.op(f"and i1 {pair}, {odd}")):
        f.ret(call_region(f, "%state", "0", threads))
    rounded = f.op(f"add i32 {warps}, 3")
    quarter = f.op(f"shl i32 {f.op(f'lshr i32 {rounded}, 2')}, 5")
    three = f.call("llvm.umin.i32", "i32", f"i32 {f.op(f'mul i32 {quarter}, 3')}", f"i32 {threads}")
    either, both = f.variable("i32", 0), f.variable("i32", -1)
    for first, end in ((quarter, three), ("0", quarter), (three, threads)):
        with f.if_(f.compare("ult", "i32", first, end)):
            outcome = call_region(f, "%state", first, end)
            with f.if_(is_stop(f, outcome)):
                f.ret(outcome)
            either.update("or", outcome)
            both.update("and", outcome)
    same = f.compare("eq", "i32", either.get(), both.get())
    f.ret(f.op(f"select i1 {same}, i32 {both.get()}, i32 {layout.DIVERGED}"))


def may_yield(f: Function, block: str) -> None:
    """A block begins, or resumes: it yields only once."""
    several = f.compare("eq", "i32", f.load("i32", "%ctx", layout.field("interleave")), layout.INTERLEAVE_BLOCKS)
    fresh = f.compare("eq", "i32", f.load("i32", "%ctx", layout.field("resume")), 0)
    f.store("i32", f.op(f"zext i1 {f.op(f'and i1 {several}, {fresh}')} to i32"), block, layout.ALONE)


def yields_first(f: Function, block: str, progress: str) -> str:
    """Whether the block yields because threads let others come as far."""
    alone = f.compare("ne", "i32", f.load("i32", block, layout.ALONE), 0)
    bits = f.op(f"and i32 {progress}, {int(Progress.INTERLEAVED)}")
    return f.op(f"and i1 {alone}, {f.compare('ne', 'i32', bits, 0)}")


def make_stale(f: Function) -> None:
    """Fill the block's shared memory, if the kernel may read it before others have written it."""
    with f.if_(has_flag(f, 0, layout.ANY_UNORDERED)):
        shared = f"ptr {f.load('ptr', '%ctx', layout.field('shared'))}"
        size = f"i64 {f.wide(f.load('i32', '%ctx', layout.field('shared_size')))}"
        f.call("llvm.memset.p0.i64", "void", shared, f"i8 {layout.STALE}", size, "i1 false")
