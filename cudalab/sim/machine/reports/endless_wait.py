"""Endless waits of launches that poll memory, in words: which threads wait, at which line, for which bytes.

A GPU has no such message: the kernel spins, and the call that waits for it never returns. Here blocks that poll yield,
and the launch ends when no block can make progress (``launch/resident_blocks.py``).
"""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import TYPE_CHECKING

from cudalab.sim.abi import SHARED_WINDOW, SiteKind
from cudalab.sim.compiler.program import Site
from cudalab.sim.compiler.semantics import Operation
from cudalab.sim.machine.reports import cluster_faults
from cudalab.sim.machine.reports.barrier_faults import site_of_state
from cudalab.sim.machine.reports.faults import LAUNCH_TIMEOUT, Fault
from cudalab.sim.machine.reports.finding import Finding, place_of, triple
from cudalab.sim.machine.reports.mbarrier_faults import Mbarrier
from cudalab.sim.machine.reports.nearest_allocation import FailedAccess

if TYPE_CHECKING:
    from cudalab.sim.abi import Context
    from cudalab.sim.machine.launch.module import Launch, LoadedKernel
    from cudalab.sim.machine.launch.resident_blocks import ResidentBlocks, Wait

RULE = "endless wait"
_ALONE = (
    "Nothing else can change it: no other thread of the launch can go on.",
    "look at who sets the flag, and whether that comes before the wait, or can run beside it.",
)

_NOT_GIVEN_BACK = "It takes a lock with this atomic, and whoever has the lock has not given it back."
_GIVE_BACK = (
    "give the lock back on every way out of the section, behind a fence (__threadfence(); atomicExch(&lock, 0);), also "
    "where a thread returns early; set it to free before the launch; and let nobody who has it wait for others."
)


def waiting_fault(
    resident: ResidentBlocks,
    context: Context,
    launch: Launch,
    why: tuple[str, str] | None = None,
) -> Fault:
    """The fault of a launch whose threads wait for memory that nobody changes any more.

    ``why`` are two sentences: why nobody else can, and what to try; by default, that no other thread of the launch can.
    """
    kernel, config = launch.kernel, launch.config
    first = resident.first_wait()
    site = site_of_state(first.point, kernel.kernel) if first is not None else None
    for_cluster = site is not None and site.waits_for_cluster
    if for_cluster:
        why = _cluster(resident, first) or why
    elif resident.unstarted:
        why = _too_large(resident, why)
    cause, advice = why or _ALONE
    if first is None:  # cannot happen, but an explanation must never fail
        finding = Finding(rule=RULE, headline="The launch waits for ever", kernel=kernel.name, detail=cause)
        return Fault.of(LAUNCH_TIMEOUT, finding)
    access = _access(kernel, site)
    if access is not None and access.semantics.takes_lock and not resident.unstarted:
        cause, advice = f"{_NOT_GIVEN_BACK} {cause}", _GIVE_BACK
    size = access.size or 8 if access is not None else 4
    place = place_of(site.location, kernel.module.program) if site is not None else None
    address, what = _what(first, size, resident, context, kernel, launch.args, access)
    detail = [f"It polls {what}." if what else "", _others(resident, kernel), cause]
    detail.append("A GPU waits for ever here, and so does the call that waits for the kernel.")
    finding = Finding(
        rule=RULE,
        headline="A thread waits for its cluster, and the others cannot come"
        if for_cluster
        else "A thread waits for memory to change, and nobody is left to change it",
        kernel=kernel.name,
        place=place,
        block=triple(first.block, config.grid),
        thread=triple(first.thread, config.block),
        address=address,
        size=size,
        detail="\n".join(line for line in detail if line),
        advice=advice,
    )
    return Fault.of(LAUNCH_TIMEOUT, finding)


def _cluster(resident: ResidentBlocks, wait: Wait | None) -> tuple[str, str] | None:
    """Why a wait for the cluster does not end."""
    record = resident.cluster_of(wait.block) if wait is not None else None
    if record is None:
        return None
    return cluster_faults.cluster_wait(record.blocks, record.pending, record.live)


def _too_large(resident: ResidentBlocks, why: tuple[str, str] | None) -> tuple[str, str]:
    """All resident blocks wait, while others have not started."""
    cause = (
        f"{resident.unstarted} blocks of the grid have not started: {resident.capacity} fit on the device at once, "
        "and each of those waits in its place."
    )
    advice = (
        f"launch at most {resident.capacity} blocks where blocks wait for each other (blocks an SM by the occupancy "
        "calculator, times SMs), and let each do more; or end the kernel where all must meet, and launch another."
    )
    return (f"{cause} {why[0]}" if why else cause), advice


def _access(kernel: LoadedKernel, site: Site | None) -> Site | None:
    """The load, atomic or wait of a poll's suspension point: the one with the same line of PTX."""
    if site is None:
        return None
    kinds = (SiteKind.LOAD, SiteKind.ATOMIC, SiteKind.SYNC)
    return next((s for s in kernel.kernel.sites if s.kind in kinds and s.ptx_line == site.ptx_line), None)


def _what(
    wait: Wait,
    size: int,
    resident: ResidentBlocks,
    context: Context,
    kernel: LoadedKernel,
    args: bytes,
    access: Site | None,
) -> tuple[int | None, str]:
    """The address as the kernel sees it, and what is there, in words."""
    if not wait.address:
        return None, ""
    offset = wait.address - resident.shared_of(wait.block)
    memory = kernel.module.memory
    allocation = memory.find(wait.address)
    if access is not None and access.semantics.operation is Operation.MBARRIER and 0 <= offset < context.shared_size:
        state = Mbarrier.of(_value(wait.address, 8))
        return SHARED_WINDOW + offset, f"the mbarrier at offset {offset} of shared memory, which {state}"
    if allocation is None and 0 <= offset < context.shared_size:
        value = _value(wait.address, size)
        return SHARED_WINDOW + offset, f"{size} bytes of shared memory at offset {offset}, which hold {value}"
    what = f"the {size} bytes at {wait.address:#x}, which hold"
    if allocation is None:
        base, length = memory.find_range(wait.address)
        if not length:
            return wait.address, f"the {size} bytes at {wait.address:#x}"
        return wait.address, f"{what} {_value(wait.address, size)}, in registered host memory at {base:#x}"
    subject = FailedAccess(wait.address, size, access, 0, kernel, args, 0, 0) if access is not None else None
    owner = subject.owner(allocation)[0] if subject is not None else ""
    start = wait.address - allocation.pointer
    return wait.address, f"{what} {_value(wait.address, size)}, at offset {start} of the {allocation.describe()}{owner}"


def _value(address: int, size: int) -> int:
    return int.from_bytes(ctypes.string_at(address, size), "little")


def _others(resident: ResidentBlocks, kernel: LoadedKernel) -> str:
    """How many threads wait, and where."""
    found = resident.count_waits()
    threads, blocks = sum(found.values()), resident.waiting_blocks
    if threads == 1:
        return ""
    lines: Counter[str] = Counter()
    for point, count in found.items():
        site = site_of_state(point, kernel.kernel)
        place = place_of(site.location, kernel.module.program) if site is not None else None
        lines[str(place) if place else "an unknown line"] += count
    where = ", ".join(f"{count} at {place}" for place, count in lines.most_common(4))
    return f"{threads} threads of {blocks} block{'s' if blocks > 1 else ''} wait: {where}."
