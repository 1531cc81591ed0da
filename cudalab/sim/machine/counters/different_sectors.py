"""Memory that blocks share, or touch again: different sectors, first touches of a block, and the hottest address.

What a block touches for the first time misses the L1; what all blocks touch is fetched from DRAM once. Of a sampled
grid only some blocks are seen, so how much the others share follows from how often the sampled ones met.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import LOCAL_WINDOW, SECTOR, WARP, WINDOW_SIZE, SiteKind, Space
from cudalab.sim.arrays import unique_values
from cudalab.sim.compiler.program import Site
from cudalab.sim.machine.counters.metrics import ATOMIC_PIECE, ATOMIC_PIECES, GRANULE, LINE, Counts, SiteCounts
from cudalab.sim.machine.trace.requests import Visits, equal_before

if TYPE_CHECKING:
    from cudalab.sim.machine.counters.collection import Traced

_GLOBAL = (Space.GLOBAL, Space.GENERIC, Space.TEXTURE)
_BLOCK_SHIFT = 44
"""Sector numbers of one allocation space need fewer bits."""


def count_different(counts: Counts, sites: Sequence[Site], traced: Traced) -> None:
    """Different sectors, DRAM granules and lines of global memory that each block touches, summed over blocks."""
    loads = np.array([s.kind == SiteKind.LOAD and s.space in _GLOBAL for s in sites])
    stores = np.array([s.kind in (SiteKind.STORE, SiteKind.ATOMIC) and s.space in _GLOBAL for s in sites])
    loaded, stored = _different(loads, traced), _different(stores, traced)
    both = np.intersect1d(loaded, stored, assume_unique=True)
    counts.sectors_loaded_once = _weigh(loaded, traced, 1)
    counts.sectors_stored_once = _weigh(stored, traced, 1)
    counts.sectors_loaded_and_stored = _weigh(both, traced, 1)
    counts.granules_loaded_once = _weigh(loaded, traced, GRANULE // SECTOR)
    counts.lines_loaded_once = _weigh(loaded, traced, LINE // SECTOR)
    counts.lines_stored_once = _weigh(stored, traced, LINE // SECTOR)
    counts.pairs_loaded_once = _weigh(loaded, traced, 2 * LINE // SECTOR)
    counts.pairs_stored_once = _weigh(stored, traced, 2 * LINE // SECTOR)
    atomics = np.array([s.kind == SiteKind.ATOMIC and s.space in _GLOBAL for s in sites])
    if atomics.any():
        _count_hottest(counts, atomics, traced)


def count_missing(
    counts: Counts,
    per_site: dict[int, SiteCounts],
    sites: Sequence[Site],
    traced: Traced,
    found: Visits,
    weight: np.ndarray,
) -> None:
    """Loads of warps that are the first of their block to touch a sector of global memory, and what they ask the L2
    for. A store leaves what it writes in the L1, too; atomics are done in the L2."""
    loads = np.array([s.kind == SiteKind.LOAD and s.space in _GLOBAL for s in sites])
    stores = np.array([s.kind == SiteKind.STORE and s.space in _GLOBAL for s in sites])
    chosen = np.flatnonzero((loads | stores)[traced.site])
    if not len(chosen):
        return
    first, waits = _first_in_step(_sectors(chosen, traced), traced.thread[chosen])
    waiting = unique_values(found.request[chosen[waits][loads[traced.site[chosen[waits]]]]])
    missing = np.bincount(found.request_site[waiting], weight[waiting], len(sites))
    rows = chosen[first]
    rows = rows[loads[traced.site[rows]]]
    if not len(rows):
        return
    request, line = found.request[rows], traced.address[rows] // np.uint64(LINE)
    order = np.lexsort((line, request))
    request, line = request[order], line[order]
    fresh = np.append(True, request[1:] != request[:-1])
    asked = (request, request[fresh | np.append(True, line[1:] != line[:-1])])
    numbers = [missing, *(np.bincount(found.request_site[each], weight[each], len(sites)) for each in asked)]
    counts.loads_missing = float(numbers[0].sum())
    for index in np.flatnonzero(numbers[0]).tolist():
        entry = per_site[index]
        entry.missing, entry.sectors_missing, entry.lines_missing = (float(number[index]) for number in numbers)


def _first_in_step(sectors: np.ndarray, thread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first access to each sector, where the threads of a block take their accesses one by one, all of them the
    first before the second: a trace has the threads one after the other. And all accesses to it that come in the same
    step, which wait together."""
    turn = equal_before(thread)
    order = np.argsort(sectors, kind="stable")
    ordered, turns = sectors[order], turn[order]
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    earliest = np.minimum.reduceat(turns, np.flatnonzero(fresh))
    sector = np.cumsum(fresh) - 1
    step = np.flatnonzero(turns == earliest[sector])
    first = np.append(True, np.diff(sector[step]) > 0)
    return order[step[first]], order[step]


def _count_hottest(counts: Counts, atomics: np.ndarray, traced: Traced) -> None:
    """The address, and the piece of memory served by one unit of the L2, that get most atomic operations.

    What all sampled blocks use is used by all blocks of the grid. Of what only some use there is more than was seen;
    how much follows from how often the sampled blocks met.
    """
    chosen = atomics[traced.site]
    address = traced.address[chosen]
    device = address >= np.uint64(LOCAL_WINDOW + WINDOW_SIZE)
    address, block = address[device], traced.thread[chosen][device] // (WARP * traced.warps_per_block)
    if not len(address):
        return
    weights = traced.weights[:: traced.warps_per_block]
    blocks = len(weights)
    for name, places in (("hottest_address", address // np.uint64(4)), ("hottest_unit", _units(address))):
        keys, inverse = np.unique(places, return_inverse=True)
        by_block = np.bincount(inverse * blocks + block, minlength=len(keys) * blocks).reshape(len(keys), blocks)
        everywhere = by_block[(by_block > 0).all(axis=1)]
        hottest = float((everywhere @ weights).max()) if len(everywhere) else float(by_block.max())
        here = (by_block > 0).sum() / blocks
        spread = float(by_block.sum(axis=0) @ weights) / _population(len(keys), here, blocks)
        setattr(counts, name, max(hottest, spread))


def _units(address: np.ndarray) -> np.ndarray:
    """Numbers of the units of the L2 that do atomic operations at these addresses, counted from the first of them: only
    arrays that begin at a whole KB were measured."""
    pieces = address // np.uint64(ATOMIC_PIECE)
    pieces -= pieces.min()
    found: np.ndarray = pieces // np.uint64(ATOMIC_PIECES) * np.uint64(2) + pieces % np.uint64(2)
    return found


def _population(seen: int, each: float, draws: int) -> float:
    """Population size estimated from ``draws`` samples of ``each`` that contained ``seen`` distinct items; infinite if
    no samples overlap."""
    if seen >= each * draws - 1e-9:
        return float("inf") if draws > 1 else seen
    population = float(seen)
    for _ in range(60):
        population = seen / (1.0 - (1.0 - min(1.0, each / population)) ** draws)
    return population


def _different(wanted: np.ndarray, traced: Traced) -> np.ndarray:
    """Sorted numbers, the block in the upper bits and the sector below, of what sites of `wanted` touch."""
    chosen = np.flatnonzero(wanted[traced.site])
    device = traced.address[chosen] >= np.uint64(LOCAL_WINDOW + WINDOW_SIZE)
    return unique_values(_sectors(chosen[device], traced))


def _sectors(chosen: np.ndarray, traced: Traced) -> np.ndarray:
    """For each of the chosen records a number: the block in the upper bits and the sector below."""
    block = traced.thread[chosen] // (WARP * traced.warps_per_block)
    sector = traced.address[chosen] // np.uint64(SECTOR)
    numbers: np.ndarray = sector + (block.astype(np.uint64) << np.uint64(_BLOCK_SHIFT))
    return numbers


def _weigh(keys: np.ndarray, traced: Traced, unit: int) -> float:
    """How many different groups of `unit` sectors, each counted for as many blocks as its block stands for."""
    if not len(keys):
        return 0.0
    groups = keys // np.uint64(unit)
    first = np.concatenate(([True], groups[1:] != groups[:-1]))
    block = (keys[first] >> np.uint64(_BLOCK_SHIFT)).astype(np.int64)
    return float(traced.weights[block * traced.warps_per_block].sum())
