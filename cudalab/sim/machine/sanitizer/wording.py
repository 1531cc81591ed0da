"""Findings of racecheck, initcheck and synccheck, in words; headlines are as compute-sanitizer has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cudalab.sim.abi import SHARED_WINDOW, WARP, SiteKind, Space
from cudalab.sim.compiler.semantics import Scope
from cudalab.sim.machine.reports.finding import Finding, place_of, triple
from cudalab.sim.machine.sanitizer.initcheck import UninitialisedRead
from cudalab.sim.machine.sanitizer.leakcheck import Leak
from cudalab.sim.machine.sanitizer.mask_mismatch import MaskMismatch
from cudalab.sim.machine.sanitizer.memory_model import has_fine_synchronisation, ordering_of
from cudalab.sim.machine.sanitizer.misread_pointers import Misread
from cudalab.sim.machine.sanitizer.racecheck import Race
from cudalab.sim.machine.sanitizer.synccheck import SyncError
from cudalab.sim.machine.shadow_memory.undefined_values import AbsentLane, UnwrittenLocal

if TYPE_CHECKING:
    from cudalab.sim.compiler.program import Kernel, Site
    from cudalab.sim.machine.launch.configuration import Dim3
    from cudalab.sim.machine.launch.module import Launch


class Wording:
    """Makes findings of what the checks of one launch report."""

    def __init__(self, launch: Launch) -> None:
        self._kernel, self._grid, self._block = launch.kernel, launch.config.grid, launch.config.block

    def _finding(
        self, tool: str, rule: str, headline: str, site: int, block: int, thread: int, **more: object
    ) -> Finding:
        return Finding(
            tool=tool,
            rule=rule,
            headline=headline,
            kernel=self._kernel.name,
            place=place_of(self._kernel.kernel.sites[site].location, self._kernel.module.program),
            block=triple(block, self._grid),
            thread=triple(thread, self._block),
            **more,  # type: ignore[arg-type]
        )

    def _at(self, site: int) -> str:
        place = place_of(self._kernel.kernel.sites[site].location, self._kernel.module.program)
        if place is None:
            return ""
        return f" at {place}" + (f" ({place.text})" if place.text else "")

    def _memory(self, space: Space, address: int) -> str:
        if space == Space.SHARED:
            return f"shared memory, offset {address - SHARED_WINDOW}"
        near = self._kernel.module.memory.explain(address, 1)
        allocation = near.inside or near.freed
        if allocation is None:
            return f"address {address:#x}"
        return f"byte {address - allocation.pointer} of the {allocation.describe()}"

    def race(self, race: Race, *, between_blocks: bool = False) -> Finding:
        sites = self._kernel.kernel.sites
        space = "__shared__" if race.space == Space.SHARED else "__global__"
        who = [f"thread {_tuple(triple(party[1], self._block))}" for party in (race.first, race.second)]
        if between_blocks:
            who = [
                f"{one} of block {_tuple(triple(party[0], self._grid))}"
                for one, party in zip(who, (race.first, race.second), strict=True)
            ]
        first, second = (f"{one} {_verb(sites[site])}" for one, site in zip(who, race.sites, strict=True))
        here, there = (self._at(site) for site in race.sites)
        accesses = f"{first} and {second}, both{here}" if here == there else f"{first}{here}; {second}{there}"
        order = "the copy need not be complete" if race.asynchronous else "nothing orders them"
        detail = (
            f"{_IN_WORDS[race.hazard]}: {accesses}. Both touch {self._memory(race.space, race.address)}, and {order}."
        )
        return self._finding(
            "racecheck",
            "race",
            f"{race.hazard} hazard in {space} memory",
            race.second_site,
            race.second[0],
            race.second[1],
            address=race.address,
            size=race.size,
            hazard=race.hazard,
            other=(triple(race.first[0], self._grid), triple(race.first[1], self._block)),
            detail=detail,
            advice=self._against(race, between_blocks),
            count=race.count,
        )

    def _against(self, race: Race, between_blocks: bool) -> str:
        """What to try against a race."""
        kinds = [self._kernel.kernel.sites[site].kind for site in race.sites]
        if race.asynchronous:
            return "wait for the copy (cg::wait(group), pipeline.consumer_wait, barrier.wait), then __syncthreads()."
        if SiteKind.ATOMIC in kinds and SiteKind.LOAD in kinds and race.space == Space.GLOBAL:
            return (
                "an atomic is atomic only beside other atomics: leave the plain read out, use the value that the "
                "atomic returns, or separate the two by a barrier (of blocks: by two launches)."
            )
        if between_blocks and _too_narrow(*(self._kernel.kernel.sites[site] for site in race.sites)):
            return (
                "an atomic of the block's scope holds among the threads of its block, not between blocks: take one "
                "without _block, or cuda::thread_scope_device."
            )
        ticket = _ticket(self._kernel.kernel, race) if between_blocks else None
        if between_blocks and (ticket is not None or has_fine_synchronisation(self._kernel.kernel)):
            return _missing_order(self._kernel.kernel, ticket)
        if between_blocks:
            return (
                "blocks of one launch are not ordered: use atomics, give each block its own place, or use two launches."
            )
        if SiteKind.SYNC in kinds:
            return "put __syncthreads() behind init (and before mbarrier.inval), before any thread uses the object."
        if (
            race.hazard == "WAW"
            and race.space == Space.SHARED
            and self._at(race.first_site) != self._at(race.second_site)
        ):
            return (
                "put __syncthreads() between the two, where all threads of the block reach it; or let one thread "
                "write, or give each its own place."
            )
        if race.hazard == "WAW":
            return "let one thread write, give each its own place, or use an atomic."
        if race.space == Space.GLOBAL and "" != self._at(race.first_site) == self._at(race.second_site):
            return "let one thread do it, or use an atomic."  # no barrier fits into one statement
        if race.first[1] // 32 == race.second[1] // 32:
            return "put __syncwarp() (lanes of one warp) or __syncthreads() between the two."
        return "put __syncthreads() between the two, where all threads of the block reach it; or use an atomic."

    def uninitialised(self, read: UninitialisedRead) -> Finding:
        space = "__shared__" if read.space == Space.SHARED else "__global__"
        size = self._kernel.kernel.sites[read.site].size
        advice = (
            "write each element before it is read, with __syncthreads() between; padding and halo cells too."
            if read.space == Space.SHARED
            else "copy data there or set it to zero first: new device memory holds anything."
        )
        return self._finding(
            "initcheck",
            "uninitialised read",
            f"Uninitialized {space} memory read of size {size} bytes",
            read.site,
            read.block,
            read.thread,
            address=read.address,
            size=size,
            detail=f"Nothing has written {self._memory(read.space, read.address)}.",
            advice=advice,
            count=read.count,
        )

    def absent_lane(self, found: AbsentLane) -> Finding:
        lane, threads = found.thread % WARP, math.prod(self._block)
        first = found.thread - lane
        left = lane_ranges(found.members)
        if found.reason == "unnamed":
            why = "the mask does not name"
        elif first + found.source >= threads:
            why = f"does not exist: with {threads} threads the last warp ends with lane {threads - first - 1}"
        elif found.reason == "exited":
            why = "has exited"
        else:
            why = f"does not execute this shuffle now (lanes {left} do)"
        use = found.use
        here = use.thread == found.thread and use.block == found.block
        who = "" if here else f" in thread {_tuple(triple(use.thread, self._block))}"
        detail = (
            f"Lane {lane} reads lane {found.source}, which {why}; the mask is {found.mask:#010x}. "
            f"The value is undefined, and it is used{self._at(use.site)}{who}."
        )
        return self._finding(
            "synccheck",
            "absent lane",
            "Shuffle reads a lane that does not take part",
            found.site,
            found.block,
            found.thread,
            detail=detail,
            advice=(
                "let all lanes of the warp execute the shuffle with the mask 0xffffffff, those without an element with "
                "a neutral value (i < n ? x[i] : 0); or use the result only where the source lane takes part."
            ),
            count=found.count,
        )

    def unwritten_local(self, found: UnwrittenLocal) -> Finding:
        size = self._kernel.kernel.sites[found.site].size
        return self._finding(
            "initcheck",
            "uninitialised read",
            f"Uninitialized __local__ memory read of size {size} bytes",
            found.site,
            found.use.block,
            found.use.thread,
            size=size,
            detail=(
                "The thread has stored nothing in this element of a local array (or structure) before; the value is "
                f"used{self._at(found.use.site)}."
            ),
            advice="initialise the array (int a[8] = {};), or read only elements that were written.",
            count=found.count,
        )

    def read_only_load(self, found: Misread) -> Finding:
        who = triple(found.store_thread, self._block)
        where = "" if found.store_block == found.block else f" of block {triple(found.store_block, self._grid)}"
        return self._finding(
            "racecheck",
            "read-only load",
            "Read-only load of data that the kernel writes",
            found.site,
            found.block,
            found.thread,
            address=found.address,
            size=self._kernel.kernel.sites[found.site].size,
            detail=(
                f"__ldg, or a const __restrict__ pointer, reads {self._memory(Space.GLOBAL, found.address)}; thread "
                f"{_tuple(who)}{where} writes it{self._at(found.store)}. The read-only data cache is not kept up to "
                "date: the load may give the old value."
            ),
            advice="read with an ordinary load (no __ldg, no const __restrict__) what the same kernel writes.",
            count=found.count,
        )

    def escaped_local(self, found: Misread) -> Finding:
        owner = triple(found.store_thread, self._block)
        where = "" if found.store_block == found.block else f" of block {triple(found.store_block, self._grid)}"
        return self._finding(
            "memcheck",
            "pointer to a local",
            "A thread takes another thread's pointer to a local variable",
            found.site,
            found.block,
            found.thread,
            detail=(
                f"Thread {_tuple(owner)}{where} has stored the address of a variable of its own"
                f"{self._at(found.store)}. Local memory is private: in another thread the same address means that "
                "thread's own memory."
            ),
            advice="put what several threads use into __shared__ or device memory.",
            count=found.count,
        )

    def leak(self, found: Leak) -> Finding:
        place = place_of(self._kernel.kernel.sites[found.site].location, self._kernel.module.program)
        many = "One allocation was" if found.allocations == 1 else f"{found.allocations} allocations were"
        return Finding(
            tool="memcheck",
            rule="memory leak",
            headline=f"Leaked {found.bytes} bytes of the device heap",
            kernel=self._kernel.name,
            place=place,
            detail=(
                f"{many} made here and not freed, and nothing in device memory holds the address: nobody can free it "
                "any more. The heap (8 MB by default) fills up, and then malloc returns null."
            ),
            advice="free (delete) it in the thread that allocated it, on every way out of the kernel.",
            count=found.allocations,
        )

    def sync(self, error: SyncError) -> Finding:
        if error.rule == "lane not in mask":
            detail = f"Lane {error.thread % 32} calls with mask {error.arrived:#010x}, which does not name it."
            headline, advice = (
                "Invalid arguments of a warp operation",
                "leave the mask out: __syncwarp() waits for all lanes."
                if self._kernel.kernel.sites[error.site].opcode.startswith("bar.warp.sync")
                else "use __activemask() only to look; build the mask from the condition with __ballot_sync().",
            )
        elif error.mismatch is not None:
            headline, detail, advice = self._mismatch(error.mismatch)
        elif error.rule == "divergent barrier":
            detail = (
                f"{error.arrived} threads wait{self._at(error.site)}, the others{self._at(error.other_site)}. "
                "Hardware may take the two for one barrier; what they should separate is then not separated."
            )
            headline, advice = "Divergent threads in block", "move the barrier out of the condition."
        elif error.rule == "barrier after exit":
            total = math.prod(self._block)
            detail = f"{error.arrived} of {total} threads wait{self._at(error.site)}; the others have ended without it."
            headline = "Barrier reached after threads have exited"
            advice = (
                "guard the work, not the barrier: let all threads reach it, not inside an if that some skip, and with "
                "no return before it."
            )
        else:
            raise ValueError(f"no wording for the rule {error.rule!r}")
        return self._finding(
            "synccheck",
            error.rule,
            headline,
            error.site,
            error.block,
            error.thread,
            detail=detail,
            advice=advice,
            count=error.count,
        )

    def _mismatch(self, found: MaskMismatch) -> tuple[str, str, str]:
        them, others = lane_ranges(found.lanes), lane_ranges(found.other_lanes)
        detail = (
            f"Lanes {them}{self._at(found.site)} have the mask {found.mask:#010x}, which names lanes {others}. Those "
            f"are meanwhile{self._at(found.other_site)}, with the mask {found.other_mask:#010x}; the wait ends only "
            "because they leave the kernel. What the operation does is undefined: all lanes that a mask names must "
            "execute the same operation with the same mask."
        )
        advice = (
            f"name only the lanes that come here ({found.lanes:#010x}, better built by __ballot_sync() before the "
            "branch), or move the operation out of the condition, so that all lanes execute it with one mask."
        )
        return "Lanes of a warp wait for others that never come", detail, advice


_IN_WORDS = {
    "RAW": "One thread reads what another writes",
    "WAR": "One thread writes what another reads",
    "WAW": "Two threads write the same place",
}


def _ticket(kernel: Kernel, race: Race) -> int | None:
    """The one atomic, if there is one, that stands between the write of a value and the read that races with it: of
    the last block that draws a ticket, say, and reads what the others have left. Sites count in the kernel's order."""
    writes, reads = race.sites
    atomics = [at for at, site in enumerate(kernel.sites) if site.kind is SiteKind.ATOMIC and ordering_of(site).returns]
    between = race.hazard == "RAW" and len(atomics) == 1 and writes < atomics[0] < reads
    return atomics[0] if between else None


def _missing_order(kernel: Kernel, ticket: int | None) -> str:
    """What to look at where blocks hand data over by a flag, or by a ticket, and it is not in order."""
    orderings = [ordering_of(site) for site in kernel.sites]
    fences = [each for each in orderings if each.kind == SiteKind.FENCE]
    ordered = fences + [each for each in orderings if each.releases or each.acquires]
    if ordered and all(each.scope < Scope.DEVICE for each in ordered):
        return (
            "a fence, a release or an acquire of the block's scope orders for the threads of its block only: between "
            "blocks take __threadfence(), or cuda::thread_scope_device."
        )
    releases, acquires = any(each.releases for each in orderings), any(each.acquires for each in orderings)
    if releases and not acquires and not fences:
        return (
            "the flag's write releases, and no read acquires: read the flag with memory_order_acquire, or put "
            "__threadfence() behind that read."
        )
    if acquires and not releases and not fences:
        return (
            "the flag's read acquires, and no write releases: write the flag with memory_order_release, or put "
            "__threadfence() before that write."
        )
    places = [at for at, each in enumerate(orderings) if each.kind == SiteKind.FENCE]
    if ticket is not None and places and all(each.kind == SiteKind.FENCE for each in ordered):
        if max(places) < ticket:
            return (
                "the __threadfence() before the atomic sees to what was written; another is missing behind the atomic, "
                "before what other blocks wrote is read."
            )
        if min(places) > ticket:
            return (
                "the __threadfence() behind the atomic sees to what is read; another is missing before the atomic, "
                "behind what this block writes."
            )
    if ticket is not None:
        return (
            "an atomic by itself takes nothing along, and volatile accesses order nothing else: put __threadfence() "
            "between what a block writes and the atomic, "
            "and another between the atomic and the read of what other blocks wrote."
        )
    return (
        "a flag hands data over only with a release at its write (or __threadfence() before it) and an acquire at its "
        "read (or __threadfence() behind it), of the device's scope. volatile and relaxed atomics order nothing else."
    )


def _too_narrow(*sites: Site) -> bool:
    """Are all of them atomics, and one of a scope that leaves out other blocks of the grid?"""
    return all(site.kind is SiteKind.ATOMIC for site in sites) and any(
        site.semantics.scope < Scope.DEVICE for site in sites
    )


def _verb(site: Site) -> str:
    """What an instruction does to memory, or to a barrier object."""
    if site.kind is SiteKind.SYNC:
        return "initialises or invalidates the barrier object" if site.writes else "arrives at the barrier object"
    return {SiteKind.LOAD: "reads", SiteKind.STORE: "writes", SiteKind.ATOMIC: "updates (atomic)"}[site.kind]


def lane_ranges(lanes: int) -> str:
    """``"0-15"``, ``"1, 4-7"``: the bits of a mask."""
    parts, lane = [], 0
    while lanes >> lane:
        if lanes >> lane & 1:
            first = lane
            while lanes >> (lane + 1) & 1:
                lane += 1
            parts.append(str(first) if first == lane else f"{first}-{lane}")
        lane += 1
    return ", ".join(parts)


def _tuple(value: Dim3) -> str:
    return "({},{},{})".format(*value)
