"""Thread block clusters: the cluster's barrier, and distributed shared memory.

A *cluster* is up to 16 blocks that run at the same time on neighbouring SMs (CUDA C++ Programming Guide, "Thread Block
Clusters"). Its barrier counts threads: a phase completes when every thread of the cluster has arrived or exited. A word
in each thread's frame holds the phase at which it has arrived without waiting yet, or 0.

Any thread may reach the shared memory of any block of its cluster that has not ended. On an H200 a load from a block
that has ended fails with ``cudaErrorLaunchFailure`` and a store is silently dropped; here both are faults. Simplified:
addresses of a block's own shared memory do not contain the block's rank; only addresses from ``map_shared_rank`` do
(``abi.RANK_SHIFT``). A plain pointer to shared memory that another block reads means the reader's own shared memory.
"""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.abi import FaultKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library


def write(library: Library) -> None:
    """Add the functions of this module."""
    _begin(library)
    _arrive(library)
    _exit(library)
    _done(library)
    _rank(library)
    _place(library)


def _at(name: str) -> int:
    return int(getattr(abi.Cluster, name).offset)


def _cluster(f: Function) -> str:
    return f.load("ptr", "%ctx", layout.field("cluster"))


def _begin(library: Library) -> None:
    """Begin a block that is a cluster by itself. The machine begins larger clusters."""
    f = library.function("cl_cluster_begin", "void", "ptr ctx, ptr blk")
    cluster = _cluster(f)
    with f.if_(f.compare("ne", "ptr", cluster, "null")):
        with f.if_(f.compare("eq", "i32", f.load("i32", cluster, _at("blocks")), 1)):
            threads = f.load("i32", "%ctx", layout.field("threads"))
            f.store("i32", threads, cluster, _at("pending"))
            f.store("i32", threads, cluster, _at("live"))
            f.store("i32", 0, cluster, _at("phase"))
            f.store("i64", f.load("i64", "%blk", layout.LINEAR), cluster, _at("number"))
            f.store("ptr", f.load("ptr", "%ctx", layout.field("shared")), cluster, _at("shared"))
    f.ret()


def _count_down(f: Function, cluster: str) -> None:
    """Decrement the pending count; at zero the phase completes."""
    pending = f.op(f"sub i32 {f.load('i32', cluster, _at('pending'))}, 1")
    f.store("i32", pending, cluster, _at("pending"))
    with f.if_(f.compare("eq", "i32", pending, 0)):
        f.store("i32", f.op(f"add i32 {f.load('i32', cluster, _at('phase'))}, 1"), cluster, _at("phase"))
        f.store("i32", f.load("i32", cluster, _at("live")), cluster, _at("pending"))


def _arrive(library: Library) -> None:
    """Arrival of a thread; ``word`` points to its phase word. Returns the phase, from 1; 0 if it had arrived before."""
    f = library.function("cl_cluster_arrive", "i32", "ptr ctx, ptr word", "noinline")
    cluster = _cluster(f)
    phase = f.op(f"add i32 {f.load('i32', cluster, _at('phase'))}, 1")
    with f.if_(f.compare("eq", "i32", f.load("i32", "%word"), phase)):
        f.ret(0)
    f.store("i32", phase, "%word")
    _count_down(f, cluster)
    f.ret(phase)


def _exit(library: Library) -> None:
    """Exit of a thread."""
    f = library.function("cl_cluster_exit", "void", "ptr ctx, ptr word", "noinline")
    cluster = _cluster(f)
    f.store("i32", f.op(f"sub i32 {f.load('i32', cluster, _at('live'))}, 1"), cluster, _at("live"))
    phase = f.op(f"add i32 {f.load('i32', cluster, _at('phase'))}, 1")
    with f.if_(f.compare("ne", "i32", f.load("i32", "%word"), phase)):
        _count_down(f, cluster)
    f.ret()


def _done(library: Library) -> None:
    """Test whether the phase at which the thread has arrived is complete. Without an arrival there is no wait (as on an
    H200). Returns 0 while it is incomplete, else the phase, or -1 if there was none."""
    f = library.function("cl_cluster_done", "i32", "ptr ctx, ptr word", "noinline")
    own = f.load("i32", "%word")
    over = f.load("i32", _cluster(f), _at("phase"))
    waits = f.compare("ugt", "i32", own, over)
    with f.if_(waits):
        f.ret(0)
    f.store("i32", 0, "%word")
    none = f.compare("eq", "i32", own, 0)
    f.ret(f.op(f"select i1 {none}, i32 -1, i32 {own}"))


def _rank(library: Library) -> None:
    """The rank of the block in its cluster."""
    f = library.function("cl_cluster_rank", "i32", "ptr ctx, ptr blk")
    rank = f.variable("i32", 0)
    for axis in (2, 1, 0):
        size = f.load("i32", "%ctx", layout.field("cluster_dims") + 4 * axis)
        place = f.op(f"urem i32 {f.load('i32', '%blk', layout.CTAID + 4 * axis)}, {size}")
        rank.set(f.op(f"add i32 {f.op(f'mul i32 {rank.get()}, {size}')}, {place}"))
    f.ret(rank.get())


def _place(library: Library) -> None:
    """A pointer to ``size`` bytes at an address of ``.shared::cluster``; null after recording a fault."""
    f = library.function(
        "cl_cluster_place", "ptr", "ptr ctx, ptr blk, i32 thread, i64 address, i32 size, i32 site", "cold noinline"
    )
    offset = f.op(f"and i64 %address, {(1 << abi.RANK_SHIFT) - 1}")
    place = f.op(f"lshr i64 %address, {abi.RANK_SHIFT}")
    size = f.wide("%size")
    start = f.variable("ptr", f.load("ptr", "%ctx", layout.field("shared")))
    kind = f.variable("i32", 0)
    cluster = _cluster(f)
    with f.if_(f.compare("ne", "i64", place, 0)):
        rank = f.op(f"sub i64 {place}, 1")
        blocks = f.variable("i64", 1)
        with f.if_(f.compare("ne", "ptr", cluster, "null")):
            blocks.set(f.wide(f.load("i32", cluster, _at("blocks"))))
        with f.if_else(f.compare("uge", "i64", rank, blocks.get())) as otherwise:
            kind.set(int(FaultKind.NO_SUCH_RANK))
            otherwise()
            with f.if_(f.compare("ne", "ptr", cluster, "null")):
                left = f.load("i8", f.at(cluster, _at("left")), rank)
                with f.if_(f.compare("ne", "i8", left, 0)):
                    kind.set(int(FaultKind.BLOCK_LEFT))
                table = f.at(cluster, _at("shared"))
                start.set(f.load("ptr", f.element(table, "ptr", rank, "i64")))
    reserved = f.op(f"sub i64 {offset}, {abi.RESERVED_SHARED}")
    in_reserved = f.compare("ult", "i64", reserved, abi.RESERVED_SHARED_BYTES)
    length = f.wide(f.load("i32", "%ctx", layout.field("shared_size")))
    begin = f.op(f"select i1 {in_reserved}, i64 {reserved}, i64 {offset}")
    room = f.op(f"select i1 {in_reserved}, i64 {abi.RESERVED_SHARED_BYTES}, i64 {length}")
    fits = f.op(
        f"and i1 {f.compare('ule', 'i64', size, room)}, "
        f"{f.compare('ule', 'i64', begin, f.op(f'sub i64 {room}, {size}'))}"
    )
    low = f.op(f"and i64 {offset}, {f.op(f'sub i64 {size}, 1')}")
    even = f.compare("eq", "i64", low, 0)
    with f.if_(f.compare("eq", "i32", kind.get(), 0)):
        with f.if_(f.op(f"and i1 {fits}, {even}")):
            distance = f.op(f"sub i64 {begin}, {abi.RESERVED_SHARED_BYTES}")
            found = f.op(f"select i1 {in_reserved}, i64 {distance}, i64 {begin}")
            f.ret(f.at(start.get(), found))
        kind.set(f.op(f"select i1 {fits}, i32 {int(FaultKind.MISALIGNED)}, i32 {int(FaultKind.OUT_OF_BOUNDS)}"))
    f.call(
        "cl_fault",
        "void",
        "ptr %ctx",
        "ptr %blk",
        "i32 %thread",
        f"i32 {kind.get()}",
        "i32 %site",
        f"i64 {f.op(f'add i64 %address, {abi.SHARED_WINDOW}')}",
        "i32 %size",
    )
    f.store("i64", 0, "%ctx", layout.field("fault.extra"))  # the extent that was missed
    f.store("i64", length, "%ctx", layout.field("fault.extra") + 8)
    f.ret("null")
