"""All checks of one launch: memcheck, racecheck, initcheck and synccheck, as compute-sanitizer has them.

The launch runs in traced code, block by block, on the memory as it is; its stores are taken back at the end. A block
that faults ends there, the others go on, so that one report shows several mistakes, each once with how often it was
seen. With a seed, blocks and threads run in a shuffled order, which can make a wrong result show; findings do not
depend on it.

Differences to compute-sanitizer: the source line's text and advice are added; races between blocks are looked for;
values are not compared, so equal values written by several threads count as a race.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import SHARED_WINDOW, SiteKind, Space, Status
from cudalab.sim.machine.batch import make_batch
from cudalab.sim.machine.configuration import check_configuration, extent
from cudalab.sim.machine.faults import Fault, from_context, time_limit_fault
from cudalab.sim.machine.findings import Finding, Triple, place_of, triple
from cudalab.sim.machine.initcheck import InitialisationCheck, UninitialisedRead
from cudalab.sim.machine.limits import H200, DeviceLimits
from cudalab.sim.machine.racecheck import BlockRaces, Race, find_races
from cudalab.sim.machine.synccheck import SyncError, find_sync_errors
from cudalab.sim.machine.trace import RECORD, Tracer

if TYPE_CHECKING:
    from cudalab.sim.machine.module import LoadedKernel
    from cudalab.sim.machine.trace import BlockTrace

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
BATCH_RECORDS = 1 << 19
BLOCK_RECORDS = 1 << 22
MOST_RECORDS = 24 << 20
"""Records looked at in one launch; what comes after is checked by memcheck only."""


@dataclass
class Checked:
    """What the checks of one launch found."""

    findings: list[Finding] = field(default_factory=list)
    blocks: int = 0
    """Blocks that ran."""
    grid_blocks: int = 0
    notes: list[str] = field(default_factory=list)
    """What could not be checked, and why."""


def check_launch(
    kernel: LoadedKernel,
    grid: Sequence[int] | int,
    block: Sequence[int] | int,
    args: bytes,
    shared: int = 0,
    *,
    tools: Sequence[str] = TOOLS,
    seed: int | None = None,
    time_limit: float = 10.0,
    limits: DeviceLimits = H200,
) -> Checked:
    """Run a launch under the sanitizer and take its stores back.

    Args:
        kernel: from :meth:`Module.kernel`.
        grid, block, args, shared: as for :func:`launch`.
        tools: which checks: any of ``TOOLS``.
        seed: shuffle blocks and threads by it.
        time_limit: seconds that one block may take.
        limits: the device's.

    Raises:
        LaunchError: the configuration is not allowed.
        ValueError: an unknown tool.
    """
    unknown = [tool for tool in tools if tool not in TOOLS]
    if unknown:
        raise ValueError(f"tools must be among {', '.join(TOOLS)} (got {unknown[0]!r})")
    grid_, block_ = extent(grid, "grid"), extent(block, "block")
    check_configuration(
        kernel.kernel, grid_, block_, shared, max_dynamic_shared=kernel.max_dynamic_shared, limits=limits
    )
    run = _Run(kernel, grid_, block_, args, shared, tools)
    blocks = grid_[0] * grid_[1] * grid_[2]
    order: Sequence[int] = range(blocks)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(blocks).tolist()
    with Tracer(kernel, grid_, block_, args, shared, records=BLOCK_RECORDS, seed=seed) as tracer:
        if kernel.kernel.poll_points:  # blocks may wait for each other
            traces: Iterable[BlockTrace] = tracer.run_together(
                order, order, time_limit=time_limit, most=MOST_RECORDS, limits=limits
            )
            if tracer.stuck is not None:
                run.add_fault(tracer.stuck)
        else:
            traces = (tracer.run(index, time_limit=time_limit) for index in order)
        for trace in traces:
            if not run.take(trace, tracer, time_limit):
                break
        run.finish()
    run.checked.grid_blocks = blocks
    return run.checked


class _Run:
    """Collects traces into batches, checks each, and merges findings that are the same."""

    def __init__(
        self, kernel: LoadedKernel, grid: Triple, block: Triple, args: bytes, shared: int, tools: Sequence[str]
    ) -> None:
        self.kernel, self.grid, self.block, self.args = kernel, grid, block, args
        self.tools = tools
        self.threads = block[0] * block[1] * block[2]
        self.checked = Checked()
        self._found: dict[tuple[object, ...], Finding] = {}
        self._pending: list[tuple[int, np.ndarray, bool]] = []
        self._pending_records = 0
        self._records = 0
        kinds = (SiteKind.LOAD, SiteKind.STORE, SiteKind.ATOMIC, SiteKind.BARRIER, SiteKind.WARP)
        self._looked_at = np.array([site.kind in kinds for site in kernel.kernel.sites] or [False])
        self._initialised = InitialisationCheck(kernel.kernel, kernel.module.memory)
        self._between = BlockRaces(kernel.kernel, kernel.module.program)
        self._reader = _Reader(kernel, grid, block)

    def take(self, trace: BlockTrace, tracer: Tracer, time_limit: float) -> bool:
        """Take one block's trace; False when the launch should not go on."""
        self.checked.blocks += 1
        if trace.status == Status.FAULT:
            fault = from_context(tracer.context, self.kernel, self.grid, self.block, self.args)
            if "memcheck" in self.tools or fault.rule == "deadlock":
                self._add(fault.finding)
        elif trace.timed_out:
            fault = time_limit_fault(tracer.context, self.kernel, self.grid, self.block, time_limit)
            self._add(fault.finding)
        if trace.lost:
            self._note(
                f"block {trace.block} did more than could be recorded; "
                f"its first {len(trace.records)} events were checked"
            )
        if self._records < MOST_RECORDS:
            records = trace.records[self._looked_at[trace.records["site"]]]
            self._pending.append((trace.block, records, trace.complete))
            self._pending_records += len(records)
            if self._pending_records >= BATCH_RECORDS:
                self._check_batch()
        else:
            self._note(
                "the launch is very large; races, initialisation and barriers were checked in its first blocks only"
            )
        return not trace.timed_out

    def add_fault(self, fault: Fault) -> None:
        """A fault that is no single block's."""
        self._add(fault.finding)

    def finish(self) -> None:
        self._check_batch()
        if "racecheck" in self.tools:
            for race in self._between.races():
                self._add(self._reader.race(race, between_blocks=True))
            if not self._between.complete:
                self._note(
                    "the launch touches too much memory to compare all blocks; races between blocks may be missed"
                )
        self.checked.findings = list(self._found.values())

    def _check_batch(self) -> None:
        if not self._pending:
            return
        blocks, records, complete = zip(*self._pending, strict=True)
        self._records += self._pending_records
        self._pending, self._pending_records = [], 0
        if not sum(len(part) for part in records):
            return
        batch = make_batch(self.kernel.kernel, blocks, records, complete, self.threads)
        if "racecheck" in self.tools:
            for race in find_races(batch, self.kernel.kernel):
                self._add(self._reader.race(race))
            self._between.add(batch)
        if "initcheck" in self.tools:
            for read in self._initialised.check(batch):
                self._add(self._reader.uninitialised(read))
        if "synccheck" in self.tools:
            for error in find_sync_errors(batch, self.kernel.kernel):
                self._add(self._reader.sync(error))

    def _add(self, finding: Finding) -> None:
        key = (finding.tool, finding.rule, finding.headline, finding.line)
        known = self._found.get(key)
        self._found[key] = replace(known, count=known.count + finding.count) if known else finding

    def _note(self, text: str) -> None:
        if text not in self.checked.notes and len(self.checked.notes) < 8:
            self.checked.notes.append(text)


class _Reader:
    """Puts what the checks found into words."""

    def __init__(self, kernel: LoadedKernel, grid: Triple, block: Triple) -> None:
        self._kernel, self._grid, self._block = kernel, grid, block

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
        if between_blocks:
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
        elif error.rule == "divergent barrier":
            detail = (
                f"{error.arrived} threads wait{self._at(error.site)}, the others{self._at(error.other_site)}. "
                "Hardware may take the two for one barrier; what they should separate is then not separated."
            )
            headline, advice = "Divergent threads in block", "move the barrier out of the condition."
        else:
            total = self._block[0] * self._block[1] * self._block[2]
            detail = f"{error.arrived} of {total} threads wait{self._at(error.site)}; the others have returned."
            headline = "Barrier reached after threads have exited"
            advice = "guard the work, not the barrier: let all threads reach it, and return after the last one."
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


def _tuple(value: Triple) -> str:
    return "({},{},{})".format(*value)


assert RECORD.itemsize == 16
