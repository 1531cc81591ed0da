"""Counters of a launch from all of its blocks, or from a sample of them.

Most kernels do much the same in every block, so a block from the middle represents the grid; in a small grid the last
block, where bounds checks take effect, represents itself. Where a launch has counted that its blocks differ, light and
heavy ones are sampled instead (strata.py). Sampled blocks run on the memory as it is; their stores are rolled back,
nothing is printed, and a fault only ends the sample. A profile of a large grid whose blocks differ, as in a Mandelbrot
picture, is counted from blocks at equal distances in work (proportional_sample.py); a learner would notice in counters
that don't grow with the work, which are then estimates.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import SECTOR, SiteKind, Space, Status
from cudalab.sim.arrays import unique_values
from cudalab.sim.compiler.machine_code.assembly import assembly
from cudalab.sim.compiler.machine_code.listing import listing
from cudalab.sim.compiler.program import Rounds
from cudalab.sim.compiler.semantics import Operation
from cudalab.sim.machine.counters import cut_trace, proportional_sample
from cudalab.sim.machine.counters.collection import count, join
from cudalab.sim.machine.counters.combined_atomics import combined_atomics
from cudalab.sim.machine.counters.joined_stores import behind_loads
from cudalab.sim.machine.counters.machine_counts import machine_counts
from cudalab.sim.machine.counters.merged_accesses import Merging, merging
from cudalab.sim.machine.counters.metrics import Counts, add, scale, snap, stretch, touch_again
from cudalab.sim.machine.counters.remote_traffic import host_traffic, peer_traffic
from cudalab.sim.machine.launch.block_work import BlockWork, counts_work
from cudalab.sim.machine.launch.occupancy import kernel_occupancy
from cudalab.sim.machine.launch.sleep import asleep
from cudalab.sim.machine.trace.async_records import as_accesses, waits_for_copies
from cudalab.sim.machine.trace.recorder import Tracer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudalab.sim.machine.launch.module import Launch, LoadedKernel
    from cudalab.sim.machine.trace.recorder import BlockTrace

RECORDS = 1 << 18
"""Records kept of one sampled block (4 MB); what comes after is counted and extrapolated."""
SMALL_GRID = 64
"""Blocks of a grid up to which the last one, where bounds checks take effect, is sampled, too."""
SHORT = 1 << 13
"""Records of a block that is short enough for bounds checks to matter, and for a second block to cost little."""
MEETING = 16
"""Blocks that are sampled to find out whether atomics of different blocks share addresses: of those that are on the
device at a time, because with sorted keys others are elsewhere then."""
FEW_MEETING = 3
"""The same of long ones: of one alone, nothing says that another does not want its addresses."""
WORD = 4
WATCHED = 2048
"""Minimum number of words watched for a sample, if there are that many."""
NEARBY = 1 << 14
"""Records of each block that are compared for what blocks of one SM load in common."""
LONGEST = 1 << 24
"""Records after which a sampled block is stopped, a quarter of a second to a second; the launch's own count of its
loops says what is missing. Not a time, so that the result is always the same."""
UNKNOWN_LONGEST = 1 << 25
"""The same where a launch does not count its loops, and in a profile: what it did so far then has to do."""
LONGEST_TOGETHER = 1 << 29
"""Records of all blocks after which those that wait for each other are stopped, some seconds: they have to run to their
ends to be counted."""
_PATIENCE = 600.0
"""Seconds without a finished block, on a machine that is busy otherwise, after which they are stopped all the same."""
MEMORY = 512
"""Capacity of the sample cache."""
BATCH = 1 << 19
"""Records counted at once."""
WHOLE = 1 << 20
"""A profile runs every block of a launch that makes at most this many records …"""
PART = 1 << 18
"""… and of a larger one blocks that make about this many,"""
FEWEST = 3
"""but at least so many blocks (one from the middle, where a block alone makes a quarter of what is whole), and"""
SHARE = 0.005
"""at most this part of all, times PTX instructions a record: what takes less than four plain launches, when traced code
takes 3 to 15 ns a record and plain code 0.015 ns an instruction where it is vectorised (bench/profile.py)."""
ALWAYS_WHOLE = 1 << 19
"""A launch with so few records takes at most 5 ms; there exact counts are worth more than the time."""
UNEVEN = 1 << 20
"""Records of all blocks that are sampled where blocks differ much: about a second."""
MOST_UNEVEN = 128
"""Blocks of such a sample at most."""
PROFILE_RECORDS = 1 << 21
PROFILE_SECONDS = 2.0
"""Blocks of a profile that wait for each other are stopped after that: then what they did so far has to do."""
PICTURED = 4
"""Blocks of a profile whose requests are kept for figures."""

_remembered: OrderedDict[tuple[object, ...], Counts] = OrderedDict()


def sample(
    launch: Launch,
    *,
    remember: bool = True,
    watch: bool = False,
    work: BlockWork | None = None,
) -> Counts:
    """Estimate the counters of a launch from one or two of its blocks.

    Results are remembered by kernel, configuration and
    parameters, so a kernel whose work depends on the data is sampled once for the same pointers; with
    ``remember=False`` it is sampled again. With ``watch=True`` the counts name words that the sampled blocks loaded
    (``words_loaded``): while those are the same, so are the counts. ``work``: what the blocks of the launch did, much
    the same; it tells what is missing of a long one.

    Returns:
        Counts scaled to the grid. ``complete`` is False where a block was cut short or faulted. Never raises for
        what a kernel does.
    """
    key = _key(launch)
    if remember and key in _remembered:
        _remembered.move_to_end(key)
        return _remembered[key]
    with Tracer(launch, records=RECORDS) as tracer:
        counts = _sampled(tracer, watch, work)
    counts.blocks = launch.config.blocks
    if remember:
        _remembered[key] = counts
        if len(_remembered) > MEMORY:
            _remembered.popitem(last=False)
    return counts


def _key(launch: Launch) -> tuple[object, ...]:
    module = launch.kernel.module
    return (module.program.key, launch.kernel.name, id(module.memory), launch.config, launch.args)


def forget() -> None:
    """Drop all remembered samples."""
    _remembered.clear()


def count_launch(
    launch: Launch,
    *,
    blocks: int | None = None,
    work_of: Callable[[Launch], BlockWork] | None = None,
) -> Counts:
    """Count a launch from `blocks` of its blocks, spread evenly; by default all of them, if that is not too many.
    ``work_of`` finds out what each block does: then blocks that differ much are sampled by their work."""
    counts = _count_launch(launch, blocks, work_of)
    counts.blocks = launch.config.blocks
    snap(counts)
    counts.machine = machine_counts(launch.kernel.module.program, launch.kernel.kernel, counts)
    return counts


def _count_launch(
    launch: Launch,
    blocks: int | None,
    work_of: Callable[[Launch], BlockWork] | None,
) -> Counts:
    kernel, config = launch.kernel, launch.config
    total = config.blocks
    if blocks is None and work_of is not None and _may_differ(launch) and not (work := work_of(launch)).even:
        with Tracer(launch, records=RECORDS) as tracer:
            return _count_by_work(tracer, work)
    with Tracer(launch, records=PROFILE_RECORDS) as tracer:
        first = None
        if blocks is None:
            each = _records_expected(_remembered.get(_key(launch)))
            alone = not (config.cooperative or tracer.in_clusters or kernel.kernel.poll_points)
            if alone and 0 < each * total <= ALWAYS_WHOLE / 2:
                return _count(tracer, range(total), [1.0] * total, at_once=total)
            first = tracer.run((total - 1) // 2 if each > WHOLE // 4 else 0, most=UNKNOWN_LONGEST)
            if first.status == Status.STOPPED or total == 1 and first.status != Status.YIELDED:
                # an endless loop, of which what it did so far has to do; or this is all there is
                counter = Counter(tracer)
                counter.take(first, float(total), wanted=True)
                return counter.finish()
            if first.status == Status.YIELDED:
                tracer.rollback()
                return _count_concurrently(tracer)
            blocks = _profiled_blocks(kernel, first, total)
        chosen = [(total - 1) // 2]
        if blocks > 1:
            chosen = unique_values(np.linspace(0, total - 1, min(blocks, total)).round().astype(np.int64)).tolist()
        if first is not None and (first.block != chosen[0] or first.status != Status.DONE):
            tracer.rollback()  # blocks run in order
            first = None
        return _count(tracer, chosen, _weights(chosen, total), first)


def _may_differ(launch: Launch) -> bool:
    """Can the blocks of a launch differ by much, and can their work be known?"""
    return counts_work(launch) and launch.kernel.kernel.rounds in (Rounds.INDEX, Rounds.DATA)


def _count_by_work(tracer: Tracer, work: BlockWork) -> Counts:
    """Count a launch whose blocks differ from about as many of them as make ``UNEVEN`` records."""
    sizes = _records_by_work(tracer, work.total)
    if sizes.sum() <= UNEVEN:
        chosen, weights = list(range(len(sizes))), [1.0] * len(sizes)
    else:
        count = max(FEWEST, int(UNEVEN / min(RECORDS, proportional_sample.cost(sizes))))
        chosen, weights = proportional_sample.choose(sizes, min(len(sizes), MOST_UNEVEN, count))
    counts = _count(tracer, chosen, weights, slots=work.slots if work.whole else None)
    counts.by_work = len(chosen) < len(sizes)
    return counts


def _records_by_work(tracer: Tracer, work: np.ndarray) -> np.ndarray:
    """float64[blocks]: about how many records each block makes, by what the lightest one and a typical one make."""
    order = np.argsort(work, kind="stable")
    light = int(order[0])
    typical = int(order[np.searchsorted(np.cumsum(work[order]), work.sum() / 2)])
    made = [tracer.run(block, most=UNKNOWN_LONGEST).total for block in (light, typical)]
    tracer.rollback()
    each = max(0.0, made[1] - made[0]) / max(1.0, float(work[typical] - work[light]))
    found: np.ndarray = max(1.0, float(made[0])) + each * (work - work[light])
    return found


def _records_expected(sampled: Counts | None) -> float:
    """About how many records a block makes, as a sample tells that was taken to time a launch; 0 without one."""
    if sampled is None or not sampled.complete:
        return 0.0
    records = sum(site.accesses for site in sampled.sites) + sum(b.threads for b in sampled.blocks_entered.values())
    return records / max(1, sampled.blocks)


def _profiled_blocks(kernel: LoadedKernel, first: BlockTrace, total: int) -> int:
    """How many of `total` blocks a profile runs, after the first one has run."""
    each = max(1, first.total)
    if total * each <= ALWAYS_WHOLE:
        return total
    length = np.array([site.instructions if site.kind == SiteKind.BLOCK else 0 for site in kernel.kernel.sites])
    instructions = float(length[first.records["site"]].sum()) / max(1, len(first.records))
    most = total if total * each <= WHOLE else PART // each
    if each > WHOLE // 4:
        return 1
    return min(total, max(FEWEST, min(most, int(total * SHARE * instructions))))


def _merging_of(kernel: LoadedKernel) -> Merging:
    """The shared accesses of a kernel that are wider in its machine code, and so are counted."""
    program, compiled = kernel.module.program, kernel.kernel
    code = assembly(program, compiled)
    return merging(compiled.sites, listing(program, compiled) if code.known else (), code)


def _count_concurrently(tracer: Tracer) -> Counts:
    """Count a launch whose blocks wait for each other: all of them run, and as many are counted as there is room."""
    total = tracer.launch.config.blocks
    traces = tracer.run_concurrently(range(total), range(total), time_limit=PROFILE_SECONDS, most=PROFILE_RECORDS)
    traces = [trace for trace in traces if len(trace.records)]
    counter = Counter(tracer)
    for index, trace in enumerate(traces):
        counter.take(trace, total / len(traces), wanted=index < PICTURED)
    return counter.finish()


def _sampled(tracer: Tracer, watch: bool, work: BlockWork | None) -> Counts:
    """Count a block from the middle for the grid; in a small grid of short blocks the last one for itself. Atomics to
    global memory need a few more blocks, to estimate contention on an address."""
    kernel, blocks = tracer.launch.kernel, tracer.launch.config.blocks
    counter = Counter(tracer, watch)
    most = LONGEST if work is not None else UNKNOWN_LONGEST
    middle = tracer.run((blocks - 1) // 2, most=most)
    if middle.status == Status.YIELDED:  # it polls for other blocks or the host
        tracer.rollback()
        chosen = (blocks - 1) // 2
        found = tracer.run_concurrently(
            range(blocks),
            {chosen},
            time_limit=_PATIENCE,
            most=RECORDS,
            longest=LONGEST_TOGETHER,
            patient=False,
        )
        for trace in found or [middle]:
            counter.take(trace, float(blocks))
        return counter.finish()
    of_middle = work.of_block(middle.block) if work is not None and middle.stopped is not None else None
    whole = len(middle.records) < RECORDS and middle.status == Status.DONE
    short = whole and len(middle.records) <= SHORT
    if blocks > SMALL_GRID and whole and has_global_atomics(kernel):
        number = min(MEETING, max(FEW_MEETING, MEETING * SHORT // len(middle.records)))
        counter.take(middle, blocks / number)
        together = _resident(tracer)
        first = (blocks - together) // 2
        for index in range(1, number):  # at distances that no regular pattern of addresses has
            other = first + int(together * (index * 0.618034 % 1.0))
            counter.take(tracer.run(other, most=most), blocks / number)
    elif 1 < blocks <= SMALL_GRID and short:
        counter.take(middle, float(blocks - 1))
        counter.take(tracer.run(blocks - 1, most=most), 1.0)
    else:
        counter.take(middle, float(blocks), work=of_middle)
    return counter.finish()


def _resident(tracer: Tracer) -> int:
    """Blocks that are on the device at a time."""
    launch = tracer.launch
    limits, config = launch.kernel.limits, launch.config
    each = kernel_occupancy(launch.kernel.kernel, tracer.threads, config.shared, limits).blocks_per_sm
    return min(config.blocks, limits.multiprocessors * max(1, each))


def loaded_by_all(
    launch: Launch,
    blocks: Sequence[int],
) -> float:
    """How many different sectors these blocks load, over the sum of what each of them loads: 1 when they share none."""
    loads = _global_loads(launch.kernel)
    union, total = np.zeros(0, np.uint64), 0
    with Tracer(launch, records=NEARBY) as tracer:
        for index in blocks:
            records = as_accesses(tracer.run(index, most=NEARBY).records)
            sectors = unique_values(records["address"][loads[records["site"]]] // np.uint64(SECTOR))
            union, total = np.union1d(union, sectors), total + len(sectors)
    return len(union) / total if total else 1.0


def _global_loads(kernel: LoadedKernel) -> np.ndarray:
    """bool[sites]: which sites load from global memory."""
    return np.array([s.kind == SiteKind.LOAD and s.space in (Space.GLOBAL, Space.GENERIC) for s in kernel.kernel.sites])


def has_global_atomics(kernel: LoadedKernel) -> bool:
    return any(s.kind == SiteKind.ATOMIC and s.space in (Space.GLOBAL, Space.GENERIC) for s in kernel.kernel.sites)


def _weights(chosen: list[int], blocks: int) -> list[float]:
    """The number of blocks that each one represents: an edge block itself, the inner ones all others."""
    if len(chosen) == blocks:
        return [1.0] * blocks
    if len(chosen) < 3:
        return [blocks / len(chosen)] * len(chosen)
    inner = (blocks - 2) / (len(chosen) - 2)
    return [1.0, *[inner] * (len(chosen) - 2), 1.0]


class Counter:
    """Counts traced blocks, some at a time."""

    def __init__(self, tracer: Tracer, watch: bool = False) -> None:
        kernel = tracer.launch.kernel
        self._kernel, self._tracer, self._merging = kernel, tracer, _merging_of(kernel)
        self._wanted: list[int] = []
        self._loads = _global_loads(kernel) if watch else None
        self._words: list[np.ndarray] = []
        self._counts = Counts(threads=tracer.threads)
        self._kept: list[np.ndarray] = []
        self._weights: list[float] = []
        self._pending = 0
        self._fresh = 0  # of the kept records, parts that still lie in the tracer's buffer
        self._copies = any(site.semantics.asynchronous for site in kernel.kernel.sites)
        self._host, self._peer = host_traffic(tracer.launch), peer_traffic(tracer.launch)
        self._sleeps = any(site.semantics.operation is Operation.SLEEP for site in kernel.kernel.sites)
        self._longer = 1.0
        self._parts = self._anew = 0.0
        self._combined = self._apart = None
        sites, code = kernel.kernel.sites, assembly(kernel.module.program, kernel.kernel)
        if any(site.kind == SiteKind.ATOMIC for site in sites):
            self._combined = combined_atomics(sites, code)
        if any(site.kind == SiteKind.STORE for site in sites):
            self._apart = behind_loads(sites, code)

    def take(
        self,
        found: BlockTrace,
        weight: float,
        wanted: bool = False,
        copy: bool = True,
        work: np.ndarray | None = None,
    ) -> None:
        """Count a block that stands for `weight` blocks of the grid; keep its requests where they are wanted. Without
        ``copy``, call :meth:`settle` before the tracer runs again. ``work``: what each of its warps did."""
        counts = self._counts
        counts.stopped = counts.stopped or found.stopped is not None
        cut_trace.complete(found, self._kernel.kernel.sites, work)
        records, factor, longer, anew = cut_trace.whole_warps(
            found, self._tracer.threads, self._kernel.kernel.sites, work
        )
        if self._sleeps:
            times, nanoseconds = asleep(records)
            counts.sleeps += weight * factor * times
            counts.slept += weight * factor * nanoseconds
        if self._copies:
            counts.copy_waits |= waits_for_copies(records)
            records = as_accesses(records)
        if self._host is not None:
            loaded, stored = self._host.of_block(records)
            counts.host_loaded += weight * factor * loaded
            counts.host_stored += weight * factor * stored
        if self._peer is not None:
            loaded, stored = self._peer.of_block(records)
            counts.peer_loaded += weight * factor * loaded
            counts.peer_stored += weight * factor * stored
        self._longer = max(self._longer, longer)
        self._parts, self._anew = self._parts + weight * factor, self._anew + weight * anew
        self._kept.append(records.copy() if copy else records)
        self._fresh = 0 if copy else self._fresh + 1
        self._wanted.append(found.block if wanted else -1)
        if self._loads is not None:
            self._words.append(unique_values(records["address"][self._loads[records["site"]]] // np.uint64(WORD)))
        self._weights.append(weight * factor)
        self._pending += len(records)
        counts.complete = counts.complete and found.complete
        counts.footprint_bytes = max(counts.footprint_bytes, self._tracer.footprint)
        if self._pending >= BATCH or len(self._kept) >= 1024:
            self._flush()

    def settle(self) -> None:
        """Copy records not counted yet, before the tracer's buffer is reused."""
        if self._fresh:
            if self._pending >= BATCH // 2:
                self._flush()
            else:
                self._kept[-self._fresh :] = [records.copy() for records in self._kept[-self._fresh :]]
                self._fresh = 0

    def _flush(self) -> None:
        if self._kept:
            traced = join(self._kept, self._weights, self._tracer.threads, self._wanted)
            merges = self._merging.look(traced.site, traced.address)
            part = count(self._kernel.kernel, traced, merges, flow=True, combined=self._combined, apart=self._apart)
            add(self._counts, part)
        self._counts.sampled += len(self._kept)
        self._kept, self._weights, self._wanted, self._pending, self._fresh = [], [], [], 0, 0

    def finish(self, factor: float = 1.0) -> Counts:
        """The counts, times `factor` for blocks that did not run."""
        self._flush()
        self._counts.merges = list(self._merging.resolved)
        if factor != 1.0:
            scale(self._counts, factor)
        if self._words:
            words = unique_values(np.concatenate(self._words)) * np.uint64(WORD)
            self._counts.words_loaded = words[:: max(1, len(words) // WATCHED)]
        if self._longer != 1.0:
            stretch(self._counts, self._longer)
        if self._anew != self._parts:
            touch_again(self._counts, self._anew / self._parts)
        return self._counts


def _count(
    tracer: Tracer,
    chosen: Sequence[int],
    weights: Sequence[float],
    first: BlockTrace | None = None,
    at_once: int = 1,
    slots: np.ndarray | None = None,
) -> Counts:
    """Run the chosen blocks and count; block *i* stands for ``weights[i]`` blocks of the grid. The first block that
    does not come to its end is the last one. ``first``: the first of them, which has run just now. ``at_once``: how
    many may run side by side before it is known how long they are. ``slots``: what the warps of each block did."""
    counter = Counter(tracer)
    pictured = {chosen[len(chosen) * part // PICTURED] for part in range(PICTURED)}
    done, position, size = 0.0, 0, at_once
    while position < len(chosen):
        batch = list(chosen[position : position + size])
        if first is not None:
            traces, first = [first], None
        else:
            traces = tracer.run_batch(batch) if len(batch) > 1 else []
        if not traces:
            if len(batch) > 1:  # what was stored before is gone, too, and such kernels are few: one by one
                size = 1
            traces = [tracer.run(batch[0], most=UNKNOWN_LONGEST)]
        for found in traces:
            work = slots[found.block] if slots is not None else None
            counter.take(found, weights[position], found.block in pictured, copy=False, work=work)
            done += weights[position]
            position += 1
        counter.settle()
        if traces[-1].status != Status.DONE:
            break
        if position == 1 and traces[0].complete:
            size = max(1, BATCH // max(1, len(traces[0].records)))
    return counter.finish(sum(weights) / done)
