"""Findings of racecheck, initcheck and synccheck, in words; headlines are as compute-sanitizer has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cudalab.sim.abi import SHARED_WINDOW, SiteKind, Space, SyncRule
from cudalab.sim.machine.reports.finding import Finding, place_of, triple
from cudalab.sim.machine.sanitizer.initcheck import UninitialisedRead
from cudalab.sim.machine.sanitizer.mask_mismatch import MaskMismatch
from cudalab.sim.machine.sanitizer.racecheck import Race
from cudalab.sim.machine.sanitizer.synccheck import SyncError

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.configuration import Dim3
    from cudalab.sim.machine.launch.module import Launch


_RULES = {
    SyncRule.NOT_INITIALISED: (
        "The object was never initialised, or was invalidated.",
        "let one thread initialise it, and put __syncthreads() behind that.",
    ),
    SyncRule.INITIALISED_TWICE: (
        "The object is in use and is initialised again.",
        "let one thread initialise it, once.",
    ),
    SyncRule.TOO_MANY_ARRIVALS: (
        "More threads arrive in one phase than the object was initialised for.",
        "initialise it with the number of threads that arrive.",
    ),
    SyncRule.COUNT_OUT_OF_RANGE: (
        "The expected count is 0, or larger than 1,048,575.",
        "initialise it with the number of threads that arrive.",
    ),
    SyncRule.WRONG_PHASE: (
        "The wait is for a phase that is neither the current one nor the one before.",
        "wait with the token of the arrival before, or with the parity of the phase.",
    ),
}


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
        allocation = self._kernel.module.memory.find(address)
        if allocation is None:
            return f"address {address:#x}"
        return f"byte {address - allocation.pointer} of the {allocation.describe()}"

    def race(self, race: Race, *, between_blocks: bool = False) -> Finding:
        sites = self._kernel.kernel.sites
        words = {SiteKind.LOAD: "reads", SiteKind.STORE: "writes", SiteKind.ATOMIC: "updates (atomic)"}
        space = "__shared__" if race.space == Space.SHARED else "__global__"
        first, second = (triple(party[1], self._block) for party in (race.first, race.second))
        in_block = (
            (f" of block {triple(race.first[0], self._grid)}", f" of block {triple(race.second[0], self._grid)}")
            if between_blocks
            else ("", "")
        )
        detail = (
            f"Thread {_tuple(first)}{in_block[0]} {words[sites[race.first_site].kind]}{self._at(race.first_site)}; "
            f"thread {_tuple(second)}{in_block[1]} {words[sites[race.second_site].kind]}{self._at(race.second_site)}; "
            f"both touch {self._memory(race.space, race.address)}, and nothing orders them."
        )
        if race.asynchronous:
            detail = detail.replace("and nothing orders them", "and the copy need not be complete")
            advice = (
                "wait for the copy (pipeline.consumer_wait, cp.async.wait_group, barrier.wait), then __syncthreads()."
            )
        elif between_blocks:
            advice = (
                "blocks of one launch are not ordered: use atomics, give each block its own place, or use two launches."
            )
        elif race.first[1] // 32 == race.second[1] // 32 and race.hazard != "WAW":
            advice = "put __syncwarp() (lanes of one warp) or __syncthreads() between the two."
        elif race.hazard == "WAW":
            advice = "let one thread write, give each its own place, or use an atomic."
        else:
            advice = "put __syncthreads() between the two, where all threads of the block reach it; or use an atomic."
        if race.space == Space.GLOBAL and race.hazard != "WAW" and race.first_site == race.second_site:
            advice = "let one thread do it, or use an atomic."
        return self._finding(
            "racecheck",
            "race",
            f"{race.hazard} hazard in {space} memory",
            race.second_site,
            race.second[0],
            race.second[1],
            address=race.address,
            size=race.size,
            detail=detail,
            advice=advice,
            count=race.count,
        )

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

    def sync(self, error: SyncError) -> Finding:
        if error.rule == "lane not in mask":
            detail = f"Lane {error.thread % 32} calls with mask {error.arrived:#010x}, which does not name it."
            headline, advice = (
                "Invalid arguments of a warp operation",
                "use __activemask() only to look; build the mask from the condition with __ballot_sync().",
            )
        elif error.mismatch is not None:
            headline, detail, advice = self._mismatch(error.mismatch)
        elif error.rule == "invalid barrier":
            headline = "Barrier object used against its rules"
            detail, advice = _RULES.get(SyncRule(error.arrived), ("", ""))
        elif error.rule == "divergent barrier":
            detail = (
                f"{error.arrived} threads wait{self._at(error.site)}, the others{self._at(error.other_site)}. "
                "Hardware may take the two for one barrier; what they should separate is then not separated."
            )
            headline, advice = "Divergent threads in block", "move the barrier out of the condition."
        elif error.rule == "barrier after exit":
            total = math.prod(self._block)
            detail = f"{error.arrived} of {total} threads wait{self._at(error.site)}; the others have returned."
            headline = "Barrier reached after threads have exited"
            advice = "guard the work, not the barrier: let all threads reach it, and return after the last one."
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
