"""Orders of threads in which a race shows (``passes.races``): other warps first, and all loads before any store.

A region that reads shared memory without a barrier runs half of the warps, those in the middle, before the others, so
that some read too early from warps below them and some from warps above. Shared memory starts with a pattern there:
what an earlier block left could be the right values.

Threads that wait to let others come as far resume in the next round of their block. The first time that they do so the
block yields, if ``context.interleave`` says so, and the other resident blocks come as far.
"""

from __future__ import annotations

from cudalab.sim.abi import Progress
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.states import call_region, is_stop, literals_of


def write(library: Library) -> None:
    """Add the functions of this module."""
    _run_reordered(library)


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


def begin(f: Function, block: str) -> None:
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
