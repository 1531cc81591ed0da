"""The modelled time of a launch, from sampled blocks.

A few blocks of the grid are run in traced form, on memory that is put back afterwards. Their counters, scaled to the
grid, say what the launch asks of each resource; ``cost.py`` turns that into time. A launch with the same kernel, shape
and arguments is taken to need what it needed the first time, so a loop of launches samples once; arguments count as the
same when scalars are equal and pointers lie at the same place of allocations of equal size.

Loads of one basic block are taken to be under way together, those of different basic blocks to wait for one another.

A learner would notice in a kernel whose work depends on its data: its modelled time does not follow the data from
launch to launch unless an argument changes.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence

from cudalab.sim.abi import WARP, SiteKind, Space
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.device.cost import GRANULE, SECTOR, KernelTime, Workload, kernel_time
from cudalab.sim.device.launch import Launch
from cudalab.sim.device.profile import Profile
from cudalab.sim.machine.counts import Counts
from cudalab.sim.machine.limits import DeviceLimits
from cudalab.sim.machine.module import LoadedKernel
from cudalab.sim.machine.occupancy import kernel_occupancy
from cudalab.sim.machine.sample import sample

Dimensions = tuple[int, int, int]
_REMEMBERED = 4096


class Timer:
    """Times launches on one device."""

    def __init__(self, profile: Profile, limits: DeviceLimits) -> None:
        self._profile, self._limits = profile, limits
        self._known: OrderedDict[tuple[object, ...], KernelTime] = OrderedDict()

    def launch(self, launch: Launch) -> KernelTime:
        """The time of a launch that starts now."""
        return self.time(launch.kernel, launch.grid, launch.block, launch.args, launch.shared)

    def time(self, kernel: LoadedKernel, grid: Dimensions, block: Dimensions, args: bytes, shared: int) -> KernelTime:
        """The time of a launch of this shape, alone on the device; the configuration must be allowed."""
        key = (kernel, grid, block, shared, _normalised(kernel, args))
        known = self._known.get(key)
        if known is None:
            counts = sample(kernel, grid, block, args, shared, remember=False)
            known = kernel_time(self._profile, workload(kernel.kernel, counts, self._profile, self._limits, shared))
            self._known[key] = known
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known

    def forget(self) -> None:
        """Drop all times: kernels were unloaded."""
        self._known.clear()


def _normalised(kernel: LoadedKernel, args: bytes) -> tuple[object, ...]:
    """Arguments with each pointer into device memory replaced by its place in an allocation of that size."""
    memory = kernel.module.memory
    parts: list[object] = []
    position = 0
    for offset in kernel.pointer_offsets:
        (address,) = struct.unpack_from("<Q", args, offset)
        allocation = memory.find(address)
        if allocation is not None:
            parts += [args[position:offset], (allocation.size, allocation.kind, address - allocation.pointer)]
            position = offset + 8
    return (*parts, args[position:])


def workload(kernel: Kernel, counts: Counts, profile: Profile, limits: DeviceLimits, shared: int) -> Workload:
    """What sampled counters say that a launch asks of the device.

    Blocks that touch the same bytes find them in the L2: no launch moves more different bytes than its parameters'
    allocations have.
    """
    warps = max(1, counts.blocks * -(-counts.threads // WARP))
    loads, stores, atomics = counts.global_loads, counts.global_stores, counts.global_atomics
    local = counts.local_loads.sectors + counts.local_stores.sectors
    loaded, stored, lines_read = counts.sectors_loaded_once, counts.sectors_stored_once, counts.lines_loaded_once
    filled = _filled(counts)
    fetched = counts.granules_loaded_once * GRANULE
    # a line of which one sector is written costs DRAM more than that sector
    written = max(stored * SECTOR, min(counts.lines_stored_once * 2, stored) * profile.device["dram_write_granule"])
    per_line = counts.lines_stored_once / stored if stored else 0.0
    rounds = _rounds(kernel, counts, (Space.GLOBAL, Space.GENERIC)), _rounds(kernel, counts, (Space.SHARED,))
    footprint = float(counts.footprint_bytes)
    read_once = min(1.0, footprint / (loaded * SECTOR)) if loaded else 1.0
    written_once = min(1.0, footprint / (stored * SECTOR)) if stored else 1.0
    return Workload(
        blocks=counts.blocks,
        threads=counts.threads,
        blocks_per_sm=kernel_occupancy(kernel, counts.threads, shared, limits=limits).blocks_per_sm,
        instructions=counts.instructions,
        sectors=loaded + stores.sectors + atomics.sectors + filled + local,
        dram_read=fetched * read_once + filled * SECTOR * written_once,
        dram_write=written * written_once,
        lines_read=lines_read * read_once + filled * per_line * written_once,
        lines_written=counts.lines_stored_once * written_once,
        shared_wavefronts=counts.shared_loads.wavefronts
        + counts.shared_stores.wavefronts
        + counts.shared_atomics.wavefronts,
        atomics=atomics.accesses,
        hottest_atomics=_hottest(counts),
        chain_loads=rounds[0] / warps,
        l1_hits=max(0.0, 1.0 - loaded / loads.sectors) if loads.sectors else 0.0,
        chain_instructions=counts.instructions / warps,
        chain_shared=rounds[1] / warps,
        barriers=counts.barriers / warps,
        stores=stored > 0,
        fits_l2=counts.footprint_bytes <= profile.device["l2_reach"] * profile.properties["l2CacheSize"],
    )


def _filled(counts: Counts) -> float:
    """Sectors that are stored to in part and not loaded anyway: DRAM reads them to fill in the rest."""
    stored = counts.sectors_stored_once
    if not stored:
        return 0.0
    covered = min(1.0, (counts.global_stores.bytes + counts.global_atomics.bytes) / (stored * SECTOR))
    return (stored - counts.sectors_loaded_and_stored) * min(1.0, 2.0 * (1.0 - covered))


def _hottest(counts: Counts) -> float:
    """Atomic operations that one 128-byte line gets, one after the other: the L2 takes a warp's lanes on one address
    one by one, and a sector's at once. All blocks are taken to use the lines that one block uses."""
    lines = max(1.0, counts.lines_stored_once / counts.blocks)
    return counts.global_atomics.sectors / lines


def _rounds(kernel: Kernel, counts: Counts, spaces: Sequence[Space]) -> float:
    """Rounds of loads, summed over warps: basic blocks that load, by how often they are run."""
    requests = {id(entry.site): entry.requests for entry in counts.sites}
    total = most = 0.0
    for site in sorted(kernel.sites, key=lambda site: site.ptx_line):
        if site.kind == SiteKind.BLOCK:
            total, most = total + most, 0.0
        elif site.kind == SiteKind.LOAD and site.space in spaces:
            most = max(most, requests.get(id(site), 0.0))
    return total + most
