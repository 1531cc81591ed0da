"""Faults of clusters, named barriers and grid synchronisation, in words.

Error codes are those of an H200 where it reports one; docs/dev/machine.md has a table of what it does instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import CLUSTER_END, RANK_SHIFT, SHARED_WINDOW, Cluster, FaultKind
from cudalab.sim.machine.reports.finding import Problem

if TYPE_CHECKING:
    import ctypes

    from cudalab.sim.abi import Context
    from cudalab.sim.compiler.program import Site

KINDS = (
    FaultKind.BLOCK_LEFT,
    FaultKind.NO_SUCH_RANK,
    FaultKind.ARRIVED_TWICE,
    FaultKind.BARRIER_COUNT,
    FaultKind.BARRIER_MIXED,
)
_LARGEST_SHARED = 227 << 10


def is_distributed(address: int) -> bool:
    """Is it a generic address of distributed shared memory?"""
    return SHARED_WINDOW + (1 << RANK_SHIFT) <= address < CLUSTER_END


def is_far_outside(address: int) -> bool:
    """Is it beyond the largest shared memory that a block can have? An H200 reports another error then."""
    return (address - SHARED_WINDOW) % (1 << RANK_SHIFT) >= _LARGEST_SHARED


def problem(raw: ctypes.Structure, context: Context, site: Site) -> Problem:
    """The wording of a fault of one of ``KINDS``."""
    kind = FaultKind(raw.kind)
    if kind == FaultKind.BARRIER_COUNT:
        return _count(raw.address, site)
    if kind == FaultKind.BARRIER_MIXED:
        return _mixed(raw.address)
    if kind == FaultKind.ARRIVED_TWICE:
        return Problem(
            "A thread arrives twice at the cluster's barrier",
            "barrier.cluster out of turn",
            "It has arrived in this phase already and has not waited. On a GPU the barrier loses count: an H200 hangs.",
            "let each thread wait (barrier_wait) after each arrival (barrier_arrive), or use sync().",
        )
    rank = ((raw.address - SHARED_WINDOW) >> RANK_SHIFT) - 1
    blocks = _blocks(context)
    if kind == FaultKind.NO_SUCH_RANK:
        named = f"rank {rank}" if rank < 16 else "a rank of 16 or more"
        return Problem(
            f"Invalid access of size {raw.size} bytes to distributed shared memory",
            "no such rank",
            f"The address belongs to {named}; the cluster has {blocks} block{'s' if blocks > 1 else ''}, ranks 0 to "
            f"{blocks - 1}."
            + (" The launch asked for no cluster: each block is one by itself." if blocks == 1 else ""),
            "take ranks below cluster.num_blocks(), and launch with clusters: __cluster_dims__ or a launch attribute.",
        )
    return Problem(
        f"Invalid access of size {raw.size} bytes to distributed shared memory",
        "shared memory of a block that has ended",
        f"The block of rank {rank} in the cluster has come to its end, and its shared memory with it. On an H200 a "
        "load from there ends the launch; a store is lost, and no error says so.",
        "put cluster.sync() before the end of the kernel, so that no block leaves while others reach for its memory.",
    )


def _blocks(context: Context) -> int:
    return int(Cluster.from_address(context.cluster).blocks) if context.cluster else 1


def _count(threads: int, site: Site) -> Problem:
    arrives = site.semantics.arrives
    detail = f"{site.opcode} counts whole warps of 32 threads; it was given {threads} threads."
    if arrives and not threads:
        detail = f"{site.opcode} must say how many threads the barrier waits for; it was given 0."
    return Problem(
        "Invalid number of threads at a named barrier",
        "barrier count",
        detail,
        "give a multiple of 32: all threads of the warps that arrive or wait, lanes without work included.",
    )


def _mixed(number: int) -> Problem:
    return Problem(
        f"Barrier {number} was used in ways that do not go together",
        "mixed barrier",
        "Between two completions it was given different numbers of threads, or used with bar.red as well as with "
        "bar.sync or bar.arrive. Hardware reports an illegal instruction or hangs.",
        "give the same number at each use, in bar.arrive and in bar.sync, and another of the 16 barriers to bar.red.",
    )


def not_cooperative(grid: tuple[int, int, int]) -> Problem:
    """A trap in a kernel that synchronises the grid, in a launch that is not cooperative."""
    return Problem(
        "The grid cannot synchronise: the launch is not cooperative",
        "grid synchronisation",
        f"grid.sync() needs all blocks of the grid ({grid[0]} x {grid[1]} x {grid[2]}) on the device at once, which "
        "only a cooperative launch promises; otherwise is_valid() is false and sync() traps.",
        "launch cooperatively: RawKernel(…, enable_cooperative_groups=True) in CuPy, cuLaunchCooperativeKernel, or the "
        "launch attribute CU_LAUNCH_ATTRIBUTE_COOPERATIVE.",
    )


def cluster_wait(blocks: int, waiting: int, threads: int) -> tuple[str, str]:
    """Why threads wait for their cluster without end, and what to try."""
    return (
        f"{waiting} of the {threads} threads of the cluster ({blocks} block{'s' if blocks > 1 else ''}) have not "
        "arrived at its barrier, and none of them can go on.",
        "let every thread of every block of the cluster reach cluster.sync(); threads that leave the kernel count as "
        "arrived.",
    )
