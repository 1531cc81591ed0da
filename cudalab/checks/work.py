"""What a kernel did in one launch, counted, and the gates that read it.

Every block is traced, so counts are exact: requests and sectors as Nsight Compute counts them, and the bytes that each
single thread moved, which no profiler shows and which tells a grid that works from one thread that does everything.
An exercise says what the launch *needs* (:class:`Needs`), and gates compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cudalab.checks.gate import Gate
from cudalab.sim.abi import SiteKind, Space, Status
from cudalab.sim.machine.counters.sampling import Counter
from cudalab.sim.machine.trace.async_records import as_accesses
from cudalab.sim.machine.trace.batch import in_shared_memory
from cudalab.sim.machine.trace.recorder import Tracer

if TYPE_CHECKING:
    from cudalab.sim.machine.counters.metrics import Counts
    from cudalab.sim.machine.launch.module import Launch

RECORDS = 1 << 21
"""Records kept of one block; blocks of exercises make far fewer."""
_LINE = 128
_MOVES = (SiteKind.LOAD, SiteKind.STORE, SiteKind.ATOMIC)
_SPACES = (Space.GLOBAL, Space.SHARED, Space.GENERIC)


@dataclass(frozen=True)
class Needs:
    """What a launch cannot do without."""

    loaded: float
    """Bytes of input: each element once."""
    stored: float
    """Bytes of output."""
    share: float
    """Bytes that a thread loads and stores at most when the work is dealt out evenly."""
    rounds: float = 1
    """Tiles that a block works through, one after the other."""
    multiply_adds: float = 0
    """Of a product; 0 where nobody asks."""


@dataclass(frozen=True)
class Work:
    """One launch, counted."""

    counts: Counts
    busiest: float
    """Bytes of global memory that the busiest thread moved."""
    busiest_shared: float
    """Bytes of shared memory, likewise: of the thread that moved most of these."""
    needs: Needs
    blocks: int
    warps: int
    """Of a block."""


class NotCounted(Exception):
    """A block, run alone, does not come to its end: its threads wait for memory to change."""


def count_work(launch: Launch, needs: Needs, *, time_limit: float, look: Callable[[], None] = lambda: None) -> Work:
    """Trace every block of a launch; its stores are taken back. ``look`` is called while they are there.

    Raises:
        NotCounted: a block did not come to its end.
    """
    kernel, config = launch.kernel, launch.config
    sites = kernel.kernel.sites
    moved = np.array([site.size if site.kind in _MOVES and site.space in _SPACES else 0 for site in sites], np.int64)
    busiest = busiest_shared = 0.0
    with Tracer(launch, records=RECORDS) as tracer:
        counter = Counter(tracer)
        for block in range(config.blocks):
            found = tracer.run(block, time_limit=time_limit)
            if found.status != Status.DONE:
                raise NotCounted(f"block {block} does not come to its end alone, while its work is counted")
            counter.take(found, 1.0)
            records = as_accesses(found.records)
            shared = in_shared_memory(records["address"])
            busiest = max(busiest, _most(records[~shared], moved))
            busiest_shared = max(busiest_shared, _most(records[shared], moved))
        counts = counter.finish()
        look()
    return Work(counts, busiest, busiest_shared, needs, config.blocks, -(-math.prod(config.block) // 32))


def _most(records: np.ndarray, moved: np.ndarray) -> float:
    """The bytes of the thread that moved most. ``moved``: by site."""
    return float(np.bincount(records["thread"], weights=moved[records["site"]]).max(initial=0))


# -- gates ------------------------------------------------------------------------------------------------------------
# An exercise takes one with points and bounds of its own: ``LOADED.of(1, most=5, baseline=80)``.

LOADED = Gate(
    "bytes loaded, over the bytes that are needed",
    least=1,
    most=1.1,
    look="elements that more than one thread loads, or one thread more than once",
    too_little="input that no thread loads from global memory: atomics are no loads, and every element counts",
    measure=lambda work: work.counts.global_loads.bytes / work.needs.loaded,
)
SECTORS_LOADED = Gate(
    "sectors for each 128 bytes loaded",
    most=4.5,
    look="which addresses the 32 lanes of a warp load in one instruction: neighbours should load neighbours",
    measure=lambda work: _sectors(work.counts.global_loads.sectors, work.counts.global_loads.bytes),
)
STORED = Gate(
    "bytes stored for each byte of output",
    least=1,
    most=1.1,
    look="elements that are stored more than once",
    too_little="output that no thread stores in this launch",
    measure=lambda work: work.counts.global_stores.bytes / work.needs.stored,
)
SECTORS_STORED = Gate(
    "sectors for each 128 bytes stored",
    most=4.5,
    look="which addresses the 32 lanes of a warp store to in one instruction",
    measure=lambda work: _sectors(work.counts.global_stores.sectors, work.counts.global_stores.bytes),
)
BUSIEST = Gate(
    "bytes that the busiest thread moves, over what one thread may need",
    most=4,
    look="how the work is dealt out: every thread of every block should have some, and none much more than others",
    measure=lambda work: work.busiest / work.needs.share,
)
SHARED_LOADED = Gate(
    "words loaded from shared memory for each multiply-add",
    look="how often a thread reads a number from the tiles: one that is in a register can be used for several sums",
    measure=lambda work: work.counts.shared_loads.bytes / 4 / work.needs.multiply_adds,
)
LOCAL = Gate(
    "requests to local memory",
    most=0,
    look="arrays whose indices the compiler does not know: loops over the sums need limits that are constants",
    measure=lambda work: work.counts.local_loads.requests + work.counts.local_stores.requests,
)
BUSIEST_SHARED = Gate(
    "bytes of shared memory that the busiest thread moves",
    look="how the work in shared memory is dealt out: no thread should go through what others have stored, one by one",
    measure=lambda work: work.busiest_shared,
)
ATOMICS = Gate(
    "atomics on global memory for each block",
    look="what can be added up in registers or in shared memory first",
    measure=lambda work: work.counts.global_atomics.accesses / work.blocks,
)
ATOMICS_EACH = Gate(
    "atomics on global memory for each element of output",
    look="what can be added up in registers or in shared memory first",
    measure=lambda work: work.counts.global_atomics.bytes / work.needs.stored,
)
BARRIERS = Gate(
    "barriers of a warp for each tile",
    least=1,
    most=3,
    look="barriers inside of the loop over a tile: threads only have to meet when a tile is complete and done with",
    too_little="a tile that all threads load needs a barrier before they read it",
    measure=lambda work: work.counts.barriers / (work.blocks * work.warps * work.needs.rounds),
)
CONFLICTS = Gate(
    "bank conflicts for each request to shared memory",
    most=0,
    look="the 32 words of one request to shared memory: word number modulo 32 is the bank; loads and stores count",
    measure=lambda work: _per(work.counts.bank_conflicts, _shared_requests(work.counts)),
)


def _sectors(sectors: float, moved: float) -> float:
    return _per(sectors * _LINE, moved)


def _per(value: float, total: float) -> float:
    return value / total if total else math.inf if value else 0.0


def _shared_requests(counts: Counts) -> float:
    return counts.shared_loads.requests + counts.shared_stores.requests
