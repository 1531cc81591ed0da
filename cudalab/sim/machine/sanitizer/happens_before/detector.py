"""Happens-before over the trace of a launch, and the conflicts that it leaves.

The detector follows the records of all blocks in the order in which they happened, keeps the vector clock of each
thread (:mod:`.vector_clocks`) and the access history of each location (:mod:`.access_history`). Clocks are joined

- at a block barrier among the threads that arrived at it, and at a warp operation among the lanes of its mask,
- by a release (a fence and then a strong write, or a ``release``) and the acquire that observes it (a strong read and
  then a fence, or an ``acquire``; PTX ISA, "Memory Consistency Model"),
- by sync events (``abi.SyncEvent``): ``ARRIVE`` releases to a phase of an object (an mbarrier, the barrier of a cluster
  or of the grid), ``WAIT`` acquires it. An asynchronous copy is an agent of its own, ordered after what its thread did
  before; its thread acquires it with ``ASYNC_WAIT``, and ``ASYNC_ARRIVE`` releases it to an object.

Scopes hold: what a fence or an atomic of the block's scope releases is acquired by its own block only. Strong accesses
whose scopes include both threads do not race with each other. A block-scope atomic races with one of another block.

Four things order more here than the PTX ISA promises. Shuffles, votes and the like order their lanes. A barrier that a
thread passes after a strong read stands for the fence on the reading side; CUDA's sample ``threadFenceReduction`` has
none there. A write behind a strong read needs no fence to come after the reads of those who released there: it waits
for the branch that leads to it. And a read observes the last write of the trace, as if memory were sequentially
consistent: a flag that is read once, too late to matter, orders all the same, because only this run is looked at. One
thing orders less: ``volatile`` accesses of lanes of one warp to shared memory count as weak, unless a loop polls the
location, because such code relies on lockstep, which hardware has not promised since Volta.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from cudalab.sim.abi import (
    CLUSTER_END,
    GRID_OBJECT,
    LOCAL_WINDOW,
    NAMED_BARRIER_OBJECT,
    RANK_SHIFT,
    RESERVED_SHARED,
    SHARED_WINDOW,
    WARP,
    WINDOW_SIZE,
    SiteKind,
    SyncEvent,
)
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.compiler.semantics import Scope
from cudalab.sim.machine.sanitizer.happens_before.access_history import Access, AccessHistory, Conflict, Location
from cudalab.sim.machine.sanitizer.happens_before.candidate_locations import Candidates
from cudalab.sim.machine.sanitizer.happens_before.trace_reduction import idempotent, whole_barriers
from cudalab.sim.machine.sanitizer.happens_before.vector_clocks import (
    WHOLE_BLOCK,
    BarrierKey,
    BlockClocks,
    Release,
    VectorClock,
    join,
)
from cudalab.sim.machine.sanitizer.memory_model import (
    Clusters,
    Ordering,
    has_fine_synchronisation,
    ordering_of,
)

_GLOBAL = LOCAL_WINDOW + WINDOW_SIZE
_OBJECT_BYTES = 8
_SYNC_KINDS = [int(kind) for kind in (SiteKind.BARRIER, SiteKind.WARP, SiteKind.FENCE, SiteKind.SYNC)]


_ROWS = 1024
"""Records between two looks at the clock."""


def _touch(locations: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Which ranges touch one of the sorted locations."""
    found: np.ndarray = np.searchsorted(locations, end) > np.searchsorted(locations, start)
    return found


class VectorClockDetector:
    """Follows the trace of a launch and finds conflicts.

    Args:
        kernel: the kernel.
        threads: threads a block.
        clusters: which blocks form a cluster.
        unit: bytes of a location; all accesses must be aligned to it.
        most: conflicts that are kept.
        weak: memory, from an address up to another, whose accesses count as weak.
    """

    def __init__(
        self,
        kernel: Kernel,
        threads: int,
        *,
        clusters: Clusters | None = None,
        unit: int = 1,
        most: int = 1 << 16,
        weak: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._weak = weak
        self._sites = kernel.sites
        self._orderings = [ordering_of(site) for site in kernel.sites]
        self._threads, self._unit = threads, unit
        self._clusters = clusters or Clusters()
        self._blocks: dict[int, BlockClocks] = {}
        self._releases: dict[Location, list[Release]] = {}
        self._objects: dict[tuple[int, int, int], VectorClock] = {}
        """What has been released to each phase of each synchronization object."""
        self._history = AccessHistory(2 * threads, self._clusters, most)
        self._first_writes: dict[Location, Access] = {}
        self.early_polls: dict[tuple[int, int], tuple[int, int, int]] = {}
        """Loads of loops that poll a flag in shared memory before its first value is there, by site and block: block,
        thread and address."""
        self._fine = has_fine_synchronisation(kernel) or bool(weak)
        kinds = np.array([int(site.kind) for site in kernel.sites] or [0])
        self._is_sync = np.isin(kinds, _SYNC_KINDS)
        self._is_strong = np.array([each.strong and self._fine for each in self._orderings] or [False])
        self._is_access = kinds <= SiteKind.ATOMIC
        self._is_barrier = np.array(
            [s.kind == SiteKind.BARRIER and not s.semantics.arrives for s in kernel.sites] or [False]
        )
        self._is_idempotent = (self._is_strong & (kinds == SiteKind.LOAD)) | (kinds == SiteKind.FENCE)
        self._size = np.array([each.size for each in self._orderings] or [1], np.int64)
        self._checked_by_swap = np.array([s.checked_by_swap for s in kernel.sites] or [False])
        self._polled = frozenset(number for number, s in enumerate(kernel.sites) if s.polled)

    @property
    def conflicts(self) -> list[Conflict]:
        """One for each pair of sites and location."""
        return self._history.conflicts

    def follow(
        self, block: int, records: np.ndarray, candidates: Candidates | None = None, deadline: float = math.inf
    ) -> bool:
        """Take the next records (``batch.TIMED``) of a block, in the order in which things happened across blocks.

        ``candidates``: the locations that matter; None: all do. Returns whether it came to the end of the records
        before the ``deadline`` (of ``time.monotonic``).
        """
        if not len(records):
            return True
        state = self._blocks.get(block)
        if state is None:
            state = self._blocks[block] = BlockClocks(block, self._threads)
        site = records["site"].astype(np.int64)
        event = records["flags"] & 15
        access = self._is_access[site] & (event == 0)
        address = records["address"].astype(np.int64)
        local = (address >= LOCAL_WINDOW) & (address < _GLOBAL)
        checked = access & ~local & ~self._checked_by_swap[site]
        strong = self._is_strong[site]
        if candidates is not None:
            checked &= self._among(candidates.conflicting, address, site)
            strong &= self._among(candidates.shared, address, site) | ~access
        size = self._size[site]
        extents = np.flatnonzero(event == SyncEvent.EXTENT)
        extents = extents[extents > 0]
        size[extents - 1] = address[extents]
        events = (event != 0) & (event != SyncEvent.EXTENT)
        if candidates is not None:
            copies = (event == SyncEvent.ASYNC_READ) | (event == SyncEvent.ASYNC_WRITE)
            if not _touch(candidates.conflicting, address[copies] & -self._unit, (address + size)[copies]).any():
                events &= ~copies  # else all: the write of a copy is judged with its read, whose place may not matter
        chosen = np.flatnonzero(self._is_sync[site] & (event == 0) | events | strong | checked)
        chosen = np.delete(chosen, idempotent(records[chosen], self._is_idempotent))
        chosen, whole = whole_barriers(records[chosen], chosen, self._is_barrier, state.arrivals)
        rows = zip(
            records["thread"][chosen].tolist(),
            site[chosen].tolist(),
            address[chosen].tolist(),
            event[chosen].tolist(),
            (records["flags"][chosen] >> 4).tolist(),
            records["step"][chosen].tolist(),
            size[chosen].tolist(),
            checked[chosen].tolist(),
            whole.tolist(),
            strict=True,
        )
        for done, (*row, is_checked, is_whole) in enumerate(rows):
            if not done % _ROWS and time.monotonic() > deadline:
                return False
            if is_whole:
                self._arrive_all(state)
                continue
            thread, number, where, kind, phase, step, width = row
            waiting = state.waiting_at[thread]
            if waiting is not None:
                self._complete(state, waiting)
            if kind:
                self._event(state, thread, number, where, kind, phase, step, width)
            else:
                self._execute(state, thread, number, where, step, is_checked)
        return True

    def _among(self, locations: np.ndarray, address: np.ndarray, site: np.ndarray) -> np.ndarray:
        """Which accesses touch one of the locations."""
        return _touch(locations, address & -self._unit, address + self._size[site])

    def _follow_flag(self, location: Location, new: Access, state: BlockClocks, clock: VectorClock) -> None:
        """A flag in shared memory needs a first value before any thread polls it: what is polled must be ordered after
        the first write. (The write that the loop waits for is not.)"""
        if new.writes:
            self._first_writes.setdefault(location, new)
        if not new.reads or new.site not in self._polled or location[1] >= SHARED_WINDOW + RESERVED_SHARED:
            return
        first = self._first_writes.get(location)
        if first is None or not (first.agent == new.agent or first.is_in(clock)):
            key = (new.site, state.index)
            self.early_polls.setdefault(key, (state.index, new.agent[1], location[1]))

    # -- instructions --------------------------------------------------------------------------------------------------

    def _execute(self, state: BlockClocks, thread: int, site: int, address: int, step: int, checked: bool) -> None:
        """A record of an instruction that is no sync event."""
        ordering = self._orderings[site]
        if ordering.kind == SiteKind.BARRIER:
            waits = not self._sites[site].semantics.arrives
            self._arrive(state, thread, (0, address & 0xFFFF_FFFF, 0), address >> 32, waits)
        elif ordering.kind == SiteKind.WARP:
            if ordering.waits:
                self._arrive(state, thread, (1, thread // WARP, address & 0xFFFF_FFFF), 0, True)
        elif ordering.kind == SiteKind.FENCE:
            self._fence(state, thread, ordering)
        elif ordering.kind <= SiteKind.ATOMIC:
            if checked:
                self._access(state, thread, site, address, ordering.size, step, ordering.reads, ordering.writes)
            if ordering.strong and self._fine:
                self._strong_access(state, thread, address, ordering)

    def _arrive(self, state: BlockClocks, thread: int, key: BarrierKey, expected: int, waits: bool) -> None:
        arrived = state.arrived.setdefault(key, [])
        arrived.append(thread)
        if waits:
            state.waiting_at[thread] = key
        if expected and len(arrived) >= expected:
            self._complete(state, key)

    def _arrive_all(self, state: BlockClocks) -> None:
        """All threads arrive at the block's barrier."""
        for key in {key for key in state.waiting_at if key is not None}:
            self._complete(state, key)
        state.arrived.setdefault(WHOLE_BLOCK, []).extend(range(self._threads))
        state.waiting_at = [WHOLE_BLOCK] * self._threads

    def _complete(self, state: BlockClocks, key: BarrierKey) -> None:
        """A thread has passed, so all have arrived: join their clocks."""
        arrived = state.arrived.pop(key)
        joined: VectorClock | None = None
        seen: set[int] = set()
        for thread in arrived:
            if state.waiting_at[thread] == key:
                state.waiting_at[thread] = None
            if thread in state.observed:
                self._acquire_observed(state, thread, Scope.DEVICE)
            clock = state.clocks[thread]
            if id(clock) not in seen:
                seen.add(id(clock))
                joined = clock if joined is None else join(joined, clock)
        assert joined is not None
        joined = dict(joined)
        own = joined[state.index].copy()
        own[arrived] = state.epochs[arrived]
        joined[state.index] = own
        state.epochs[arrived] += 1
        for thread in arrived:
            state.clocks[thread] = joined

    def _fence(self, state: BlockClocks, thread: int, ordering: Ordering) -> None:
        if (ordering.acquires or not ordering.releases) and thread in state.observed:
            self._acquire_observed(state, thread, ordering.scope)
        if ordering.releases or not ordering.acquires:
            state.fences.setdefault(thread, {})[ordering.scope] = state.release(thread)

    def _acquire_observed(self, state: BlockClocks, thread: int, scope: int) -> None:
        """A fence: acquire the releases that the thread has read before, as far as the scopes include it."""
        left: dict[object, list[Release]] = {}
        for location, releases in state.observed[thread].items():
            beyond = []
            for release in releases:
                if self._includes(release, state.index, scope):
                    state.acquire(thread, release.clock)
                else:
                    beyond.append(release)
            if beyond:
                left[location] = beyond
        if left:
            state.observed[thread] = left
        else:
            del state.observed[thread]

    def _includes(self, release: Release, block: int, scope: int) -> bool:
        return self._clusters.in_scope(min(release.scope, scope), release.block, block)

    def _strong_access(self, state: BlockClocks, thread: int, address: int, ordering: Ordering) -> None:
        location = self._location(state, address)
        if ordering.reads and ordering.returns:
            found = [
                each for each in self._releases.get(location, ()) if self._includes(each, state.index, ordering.scope)
            ]
            if found and ordering.acquires:
                for release in found:
                    state.acquire(thread, release.clock)
            elif found:
                state.observed.setdefault(thread, {})[location] = found
        if ordering.writes:
            releases = []
            if ordering.releases:
                releases.append(Release(state.release(thread), ordering.scope, state.index))
            for scope, clock in state.fences.get(thread, {}).items():
                releases.append(Release(clock, min(scope, ordering.scope), state.index))
            if ordering.kind == SiteKind.ATOMIC:  # a read-modify-write continues the release sequence
                releases = self._merged(self._releases.get(location, []), releases)
            if releases:
                self._releases[location] = releases
            else:
                self._releases.pop(location, None)

    @staticmethod
    def _merged(before: list[Release], added: list[Release]) -> list[Release]:
        out = list(before)
        for release in added:
            for number, other in enumerate(out):
                same = other.scope == release.scope
                if same and (other.block == release.block or release.scope == Scope.DEVICE):
                    out[number] = Release(join(other.clock, release.clock), release.scope, release.block)
                    break
            else:
                out.append(release)
        return out

    # -- sync events ---------------------------------------------------------------------------------------------------

    def _location(self, state: BlockClocks, address: int) -> Location:
        """Whose memory an address of this block is in, and the address there; shared memory by its owner's address."""
        if not SHARED_WINDOW <= address < CLUSTER_END:
            return -1, address
        rank, offset = divmod(address - SHARED_WINDOW, 1 << RANK_SHIFT)
        owner = self._clusters.peer(state.index, rank - 1) if rank else state.index
        return owner, SHARED_WINDOW + offset

    def _object(self, state: BlockClocks, address: int, phase: int) -> tuple[int, int, int]:
        if NAMED_BARRIER_OBJECT <= address < GRID_OBJECT:
            return state.index, address, phase
        return (*self._location(state, address), phase)

    def _event(
        self,
        state: BlockClocks,
        thread: int,
        site: int,
        address: int,
        event: int,
        number: int,
        step: int,
        size: int,
    ) -> None:
        copies = state.threads + thread
        if event == SyncEvent.OBJECT:
            self._access(state, thread, site, address, _OBJECT_BYTES, step, False, True)
        elif event in (SyncEvent.ARRIVE, SyncEvent.ASYNC_ARRIVE):
            key = self._object(state, address, number)
            clock = state.release(thread if event == SyncEvent.ARRIVE else copies)
            known = self._objects.get(key)
            self._objects[key] = clock if known is None else join(known, clock)
            if event == SyncEvent.ARRIVE and SHARED_WINDOW <= address < CLUSTER_END:
                self._access(state, thread, site, address, _OBJECT_BYTES, step, True, False)
        elif event == SyncEvent.WAIT:
            known = self._objects.get(self._object(state, address, number))
            if known is not None:
                state.acquire(thread, known)
        elif event in (SyncEvent.ASYNC_READ, SyncEvent.ASYNC_WRITE):
            state.acquire(copies, state.release(thread))
            started = state.copies.setdefault(thread, [])
            if started and started[-1][0] != number:
                state.epochs[copies] += 1
            if event == SyncEvent.ASYNC_READ:
                state.copied_from[thread] = address
            writes = event == SyncEvent.ASYNC_WRITE
            self._access(state, copies, site, address, size, step, not writes, writes)
            started.append((number, int(state.epochs[copies])))
        elif event == SyncEvent.ASYNC_WAIT:
            self._wait_for_copies(state, thread, number)

    def _wait_for_copies(self, state: BlockClocks, thread: int, group: int) -> None:
        """The thread acquires its copies of all groups up to this one (numbers are modulo 4096)."""
        left, last = [], 0
        for number, epoch in state.copies.get(thread, []):
            if (group - number) & 0xFFF < 0x800:
                last = max(last, epoch)
            else:
                left.append((number, epoch))
        if not last:
            return
        state.copies[thread] = left
        agent = state.threads + thread
        clock = dict(state.clocks[agent])
        own = clock[state.index].copy()
        own[agent] = last
        clock[state.index] = own
        state.epochs[agent] = max(int(state.epochs[agent]), last + 1)
        state.acquire(thread, clock)

    # -- accesses ------------------------------------------------------------------------------------------------------

    def _access(
        self,
        state: BlockClocks,
        agent: int,
        site: int,
        address: int,
        size: int,
        step: int,
        reads: bool,
        writes: bool,
    ) -> None:
        ordering = self._orderings[site]
        asynchronous = agent >= self._threads
        source = state.copied_from.get(agent - self._threads) if asynchronous and writes else None
        weak = asynchronous or any(begin <= address < end for begin, end in self._weak)
        new = Access(
            (state.index, agent),
            int(state.epochs[agent]),
            site,
            step,
            reads,
            writes,
            ordering.strong and (not weak or (asynchronous and ordering.kind == SiteKind.ATOMIC)),
            ordering.volatile and not weak,
            ordering.scope,
            None if source is None else source - address,
        )
        clock, observed = state.clocks[agent], state.observed.get(agent, {})
        used = self._sites[site].used_bytes
        owner, address = self._location(state, address)
        if owner >= 0 and self._polled:
            self._follow_flag((owner, address), new, state, clock)
        first = address - address % self._unit
        for unit in range(first, address + size, self._unit):
            if used >= 0 and not used >> (unit - first) & ((1 << self._unit) - 1):
                continue
            if site in self._polled:
                self._history.polled.add((owner, unit))
            self._history.add((owner, unit), new, clock, observed)
