"""Lines that neighbouring blocks share, as narrow tiles of a matrix do, and sectors that are written in part.

Lines that lie anywhere in far more memory than the L2 holds move again and again.

Blocks that are near in time find in the L2 what the others have loaded, and complete the sectors that they have begun:
DRAM moves each line once. Which blocks those are, the trace of a few of them tells (l2_traffic.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cudalab.sim.abi import SECTOR
from cudalab.sim.device.timing.l2_traffic import Anywhere, Once
from cudalab.sim.device.timing.workload import Workload
from cudalab.sim.machine.counters.metrics import GRANULE, LINE, Counts

_KEPT_OF_LOADS, _KEPT_OF_STORES = 0.36, 0.18
"""Parts of the L2 that hold lines which are loaded, or stored to, anywhere: an H200 reads 774 MB for a gather of 64 MB,
for a scatter it reads 459 MB and writes 465."""


def moved_again(
    work: Workload, counts: Counts, size: int, loaded: Sequence[Anywhere], stored: Sequence[Anywhere]
) -> Workload:
    """The workload where lines lie anywhere in memory. ``size``: bytes of the L2."""
    read = _again(loaded, _KEPT_OF_LOADS * size, work.lines_read)
    written = _again(stored, _KEPT_OF_STORES * size, work.lines_written)
    if not read and not written:
        return work
    granules = counts.granules_loaded_once / counts.lines_loaded_once if read else 0.0
    sectors = counts.sectors_stored_once / counts.lines_stored_once if written else 0.0
    partly = partly_written(counts.global_stores.bytes + counts.global_atomics.bytes, counts.sectors_stored_once)
    return replace(
        work,
        read_again=read * granules * GRANULE + written * partly * sectors * SECTOR,
        written_again=written * sectors * SECTOR,
        lines_read_again=read + written * partly,
        lines_written_again=written,
    )


def _again(anywhere: Sequence[Anywhere], kept: float, counted: float) -> float:
    """Lines that move, beyond those that are counted."""
    moved = sum(each.lines * max(0.0, 1.0 - kept / each.range) for each in anywhere)
    return max(0.0, moved - counted)


def moved_once(work: Workload, counts: Counts, once: Once) -> Workload:
    """The workload where blocks that are near in time share lines: DRAM moves each of them once, and sectors that
    several blocks write are complete before they are written."""
    if min(once) >= 1.0:
        return work
    loaded, stored = counts.lines_loaded_once * once.loaded, counts.lines_stored_once * once.stored
    granules = min(counts.granules_loaded_once, loaded * (LINE / GRANULE))
    sectors = min(counts.sectors_stored_once, stored * (LINE / SECTOR))
    left = sectors / counts.sectors_stored_once if sectors else 0.0
    filled, before = filled_sectors(counts, left), filled_sectors(counts)
    of_fill = filled * stored / sectors if sectors else 0.0
    loaded_too = counts.sectors_loaded_and_stored / counts.sectors_stored_once if sectors else 0.0
    return replace(
        work,
        touched=min(work.touched, LINE * (loaded + stored * (1.0 - loaded_too))),
        sectors=work.sectors - before + filled,
        dram_read=min(work.dram_read, granules * GRANULE),
        dram_fill=min(work.dram_fill, filled * SECTOR),
        stored_sectors=min(work.stored_sectors, sectors),
        lines_read=min(work.lines_read, loaded + of_fill),
        lines_written=min(work.lines_written, stored),
        pairs_read=min(work.pairs_read, loaded + of_fill),
        pairs_written=min(work.pairs_written, stored),
    )


def partly_written(bytes_: float, sectors: float) -> float:
    """The estimated share of sectors that are written only in part, from the average coverage."""
    return min(1.0, 2.0 * (1.0 - min(1.0, bytes_ / (sectors * SECTOR)))) if sectors else 0.0


def filled_sectors(counts: Counts, left: float = 1.0) -> float:
    """Partly stored sectors that are not loaded anyway: DRAM reads them to complete them. ``left``: the share of the
    sectors of all blocks that are different ones."""
    stored = counts.sectors_stored_once
    written = counts.global_stores.bytes + counts.global_atomics.bytes
    return left * (stored - counts.sectors_loaded_and_stored) * partly_written(written, stored * left)
