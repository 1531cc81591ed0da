"""Which accesses of a launch are ordered: vector clocks over its trace.

Each thread counts the stretches between two moments at which it tells others what it has done; its *view* says up to
which stretch of every other thread it knows. An access comes before another when the other's thread knew its stretch.
Views are passed on

- at a block barrier among those who came to it, and at a warp operation among the lanes of its mask,
- by a fence and then a strong write (an atomic, ``volatile``, ``relaxed``), or a ``release``; to whoever reads what was
  written there by a strong read and then passes a fence, or by an ``acquire`` (PTX ISA, "Memory Consistency Model"),
- through the objects of sync events: ``mbarrier``, grid and cluster barriers, waits for copies (docs/dev/layers.md).

Scopes hold: what a fence or an atomic of the block's scope publishes is news to its own block only. Strong accesses
whose scopes contain both threads do not race with each other.

More is taken for order than the PTX ISA promises in four places. Shuffles, votes and their like order their lanes.
A barrier that a thread passes after a strong read stands for the fence on the reading side; the kernel of CUDA's
sample ``threadFenceReduction`` has none there. A write behind a strong read needs no fence to come after the reads of
those who wrote there: it waits for the branch that leads to it. And a read sees the last write of the trace, as if
memory were sequentially consistent. Less is taken in one: ``volatile`` accesses of lanes of one warp to shared memory
count as plain ones, because code of that kind rests on lanes in step, which hardware has not promised since Volta.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from cudalab.sim.machine.sanitizer.conflicts import Places, repeated, whole_barriers
from cudalab.sim.machine.sanitizer.happens_before.synchronization import (
    WHOLE_BLOCK,
    BlockOrder,
    Gathering,
    News,
    View,
    Who,
    join,
)
from cudalab.sim.machine.sanitizer.happens_before.unordered_accesses import Access, Crowd
from cudalab.sim.machine.sanitizer.scopes import CLUSTER_SCOPE, DEVICE_SCOPE, Clusters, Meaning, meaning, orders_finely

_GLOBAL = LOCAL_WINDOW + WINDOW_SIZE
_SYNC_KINDS = [int(kind) for kind in (SiteKind.BARRIER, SiteKind.WARP, SiteKind.FENCE, SiteKind.SYNC)]


@dataclass(frozen=True)
class Conflict:
    """Two accesses to the same bytes that nothing orders, in the order of the trace."""

    address: int
    first: Who
    second: Who
    first_site: int
    second_site: int
    first_step: int
    second_step: int


_CROWDED = 16
"""Accesses to one place that are kept one by one; with more, those of one site and block are kept together."""


class LaunchOrder:
    """Follows the trace of a launch and finds conflicts.

    Args:
        kernel: the kernel.
        threads: threads a block.
        clusters: which blocks form a cluster.
        unit: bytes of the places that are told apart; all accesses must be aligned to it.
        most: conflicts returned; further ones are only counted.
    """

    def __init__(
        self, kernel: Kernel, threads: int, *, clusters: Clusters | None = None, unit: int = 1, most: int = 1 << 16
    ) -> None:
        self._means = [meaning(site) for site in kernel.sites]
        self._sites = kernel.sites
        self._threads, self._unit, self._most = threads, unit, most
        self._clusters = clusters or Clusters()
        self._blocks: dict[int, BlockOrder] = {}
        self._news: dict[object, list[News]] = {}
        self._objects: dict[tuple[int, int, int], View] = {}
        self._places: dict[tuple[int, int], list[Access]] = {}
        self._crowds: dict[tuple[int, int], dict[object, Crowd]] = {}
        """Places with many accesses, which are not in `_places`."""
        self._seen: set[tuple[int, int, tuple[int, int], bool]] = set()
        self.conflicts: list[Conflict] = []
        """One for each pair of sites and place."""
        self._fine = orders_finely(kernel)
        kinds = self._kinds = np.array([int(site.kind) for site in kernel.sites] or [0])
        self._is_sync = np.isin(kinds, _SYNC_KINDS)
        self._is_flag = np.array([m.strong and self._fine for m in self._means] or [False])
        self._is_access = kinds <= SiteKind.ATOMIC
        self._is_barrier = np.array(
            [s.kind == SiteKind.BARRIER and not s.semantics.arrives for s in kernel.sites] or [False]
        )
        self._repeats = (self._is_flag & (kinds == SiteKind.LOAD)) | (kinds == SiteKind.FENCE)
        """Sites that have no effect when the same thread comes back to them and has done nothing else."""
        self._size = np.array([m.size for m in self._means] or [1], np.int64)
        self._checked = np.array([s.checked_by_swap for s in kernel.sites] or [False])
        self._polled = frozenset(number for number, s in enumerate(kernel.sites) if s.polled)
        self._flags: set[tuple[int, int]] = set()
        """Places that a loop waits for."""

    def follow(self, block: int, records: np.ndarray, places: Places | None = None) -> None:
        """Take the next records (``batch.TIMED``) of a block, in the order in which things happened across blocks.

        ``places``: which accesses matter; None: look at all.
        """
        if not len(records):
            return
        state = self._blocks.get(block)
        if state is None:
            state = self._blocks[block] = BlockOrder(block, self._threads)
        site = records["site"].astype(np.int64)
        event = records["flags"] & 15
        access = self._is_access[site] & (event == 0)
        address = records["address"].astype(np.int64)
        outside = (address >= LOCAL_WINDOW) & (address < _GLOBAL)
        touched = access & ~outside & ~self._checked[site]
        flags = self._is_flag[site]
        if places is not None:
            touched &= self._among(places.contested, address, site)
            flags &= self._among(places.met, address, site) | ~access
        wanted = self._is_sync[site] | (event != 0) | flags | touched
        chosen = np.flatnonzero(wanted)
        chosen = np.delete(chosen, repeated(records[chosen], self._repeats))
        chosen, whole = whole_barriers(records[chosen], chosen, self._is_barrier, state.arrivals)
        rows = zip(
            records["thread"][chosen].tolist(),
            site[chosen].tolist(),
            address[chosen].tolist(),
            event[chosen].tolist(),
            (records["flags"][chosen] >> 4).tolist(),
            records["step"][chosen].tolist(),
            touched[chosen].tolist(),
            chosen.tolist(),
            whole.tolist(),
            strict=True,
        )
        for thread, number, where, kind, group, step, looked_at, index, everybody in rows:
            if everybody:
                self._arrive_all(state)
            else:
                self._record(state, thread, number, where, kind, group, step, looked_at, records, index)

    def _among(self, places: np.ndarray, address: np.ndarray, site: np.ndarray) -> np.ndarray:
        """Which accesses touch one of the places."""
        low = np.searchsorted(places, address & -self._unit)
        return np.searchsorted(places, address + self._size[site]) > low

    # -- records -------------------------------------------------------------------------------------------------------

    def _record(
        self,
        state: BlockOrder,
        thread: int,
        site: int,
        address: int,
        event: int,
        number: int,
        step: int,
        touched: bool,
        records: np.ndarray,
        index: int,
    ) -> None:
        waiting = state.waits_at[thread]
        if waiting is not None:
            self._complete(state, waiting)
        if event:
            self._event(state, thread, site, address, event, number, step, records, index)
            return
        means = self._means[site]
        if means.kind == SiteKind.BARRIER:
            self._arrive(
                state, thread, (0, address & 0xFFFF_FFFF, 0), address >> 32, not self._sites[site].semantics.arrives
            )
        elif means.kind == SiteKind.WARP:
            if means.waits:
                self._arrive(state, thread, (1, thread // WARP, address & 0xFFFF_FFFF), 0, True)
        elif means.kind == SiteKind.FENCE:
            self._fence(state, thread, means)
        elif means.kind <= SiteKind.ATOMIC:
            if touched:
                self._touch((state.index, thread), state, site, address, means.size, step, means.reads, means.writes)
            if means.strong and self._fine:
                self._strong(state, thread, address, means)

    def _arrive(self, state: BlockOrder, thread: int, key: tuple[int, int, int], asked: int, waits: bool) -> None:
        gathering = state.gatherings.setdefault(key, Gathering())
        gathering.arrived.append(thread)
        if waits:
            state.waits_at[thread] = key
        if asked and len(gathering.arrived) >= asked:
            self._complete(state, key)

    def _arrive_all(self, state: BlockOrder) -> None:
        """Everybody arrives at the block's barrier."""
        for key in {key for key in state.waits_at if key is not None}:
            self._complete(state, key)
        state.gatherings.setdefault(WHOLE_BLOCK, Gathering()).arrived.extend(range(self._threads))
        state.waits_at = [WHOLE_BLOCK] * self._threads

    def _complete(self, state: BlockOrder, key: tuple[int, int, int]) -> None:
        """Somebody has gone on, so all have come: they know of each other."""
        arrived = state.gatherings.pop(key).arrived
        known: View | None = None
        done: set[int] = set()
        for thread in arrived:
            if state.waits_at[thread] == key:
                state.waits_at[thread] = None
            if thread in state.pending:
                self._accept(state, thread, DEVICE_SCOPE)
            view = state.views[thread]
            if id(view) not in done:
                done.add(id(view))
                known = view if known is None else join(known, view)
        assert known is not None
        known = dict(known)
        own = known[state.index].copy()
        own[arrived] = state.now[arrived]
        known[state.index] = own
        state.now[arrived] += 1
        for thread in arrived:
            state.views[thread] = known

    def _fence(self, state: BlockOrder, thread: int, means: Meaning) -> None:
        opcode_reads = means.acquires or not means.releases
        if opcode_reads and thread in state.pending:
            self._accept(state, thread, means.scope)
        if means.releases or not means.acquires:
            state.fences.setdefault(thread, {})[means.scope] = state.snapshot(thread)

    def _accept(self, state: BlockOrder, thread: int, scope: int) -> None:
        """A fence: what was read before may be relied on."""
        left: dict[object, list[News]] = {}
        for place, news in state.pending[thread].items():
            rest = [each for each in news if not self._reaches(each, state.index, scope)]
            for each in news:
                if self._reaches(each, state.index, scope):
                    state.learn(thread, each.view)
            if rest:
                left[place] = rest
        if left:
            state.pending[thread] = left
        else:
            del state.pending[thread]

    def _reaches(self, news: News, block: int, scope: int) -> bool:
        return self._within(min(news.scope, scope), news.block, block)

    def _within(self, scope: int, first: int, second: int) -> bool:
        if scope == DEVICE_SCOPE or first == second:
            return True
        return scope == CLUSTER_SCOPE and self._clusters.number(first) == self._clusters.number(second)

    def _strong(self, state: BlockOrder, thread: int, address: int, means: Meaning) -> None:
        place = self._home(state, address)
        if means.reads and means.returns:
            news = [each for each in self._news.get(place, ()) if self._reaches(each, state.index, means.scope)]
            if news and means.acquires:
                for each in news:
                    state.learn(thread, each.view)
            elif news:
                state.pending.setdefault(thread, {})[place] = news
        if means.writes:
            told = []
            if means.releases:
                told.append(News(state.snapshot(thread), means.scope, state.index))
            for scope, view in state.fences.get(thread, {}).items():
                told.append(News(view, min(scope, means.scope), state.index))
            if means.kind == SiteKind.ATOMIC:  # a read-modify-write goes on with what was published before
                told = self._merged(self._news.get(place, []), told)
            if told:
                self._news[place] = told
            else:
                self._news.pop(place, None)

    @staticmethod
    def _merged(before: list[News], told: list[News]) -> list[News]:
        out = list(before)
        for news in told:
            for number, other in enumerate(out):
                same = other.scope == news.scope
                if same and (other.block == news.block or news.scope == DEVICE_SCOPE):
                    out[number] = News(join(other.view, news.view), news.scope, news.block)
                    break
            else:
                out.append(news)
        return out

    # -- sync events ---------------------------------------------------------------------------------------------------

    def _home(self, state: BlockOrder, address: int) -> tuple[int, int]:
        """The block whose shared memory an address is in, and the address that this block has for it; -1 for memory of
        all blocks."""
        if not SHARED_WINDOW <= address < CLUSTER_END:
            return -1, address
        rank, offset = divmod(address - SHARED_WINDOW, 1 << RANK_SHIFT)
        owner = self._clusters.peer(state.index, rank - 1) if rank else state.index
        return owner, SHARED_WINDOW + offset

    def _object(self, state: BlockOrder, address: int, phase: int) -> tuple[int, int, int]:
        if NAMED_BARRIER_OBJECT <= address < GRID_OBJECT:
            return state.index, address, phase
        return (*self._home(state, address), phase)

    def _event(
        self,
        state: BlockOrder,
        thread: int,
        site: int,
        address: int,
        event: int,
        number: int,
        step: int,
        records: np.ndarray,
        index: int,
    ) -> None:
        if event == SyncEvent.ARRIVE:
            key = self._object(state, address, number)
            view = state.snapshot(thread)
            known = self._objects.get(key)
            self._objects[key] = view if known is None else join(known, view)
        elif event == SyncEvent.WAIT:
            known = self._objects.get(self._object(state, address, number))
            if known is not None:
                state.learn(thread, known)
        elif event in (SyncEvent.ASYNC_READ, SyncEvent.ASYNC_WRITE):
            agent = state.threads + thread
            state.learn(agent, state.snapshot(thread))
            started = state.copies.setdefault(thread, [])
            if started and started[-1][0] != number:
                state.now[agent] += 1
            size = self._means[site].size
            if event == SyncEvent.ASYNC_READ:
                state.copied_from[thread] = address
            if index + 1 < len(records) and records["flags"][index + 1] & 15 == SyncEvent.EXTENT:
                size = int(records["address"][index + 1])
            writes = event == SyncEvent.ASYNC_WRITE
            self._touch((state.index, agent), state, site, address, size, step, not writes, writes)
            started.append((number, int(state.now[agent])))
        elif event == SyncEvent.ASYNC_WAIT:
            self._finish_copies(state, thread, number)
        elif event == SyncEvent.ASYNC_ARRIVE:
            key = self._object(state, address, number)
            view = state.snapshot(state.threads + thread)
            known = self._objects.get(key)
            self._objects[key] = view if known is None else join(known, view)

    def _finish_copies(self, state: BlockOrder, thread: int, group: int) -> None:
        """The thread knows of its copies of all groups up to this one (numbers are modulo 4096)."""
        left, last = [], 0
        for number, stretch in state.copies.get(thread, []):
            if (group - number) & 0xFFF < 0x800:
                last = max(last, stretch)
            else:
                left.append((number, stretch))
        if not last:
            return
        state.copies[thread] = left
        agent = state.threads + thread
        view = dict(state.views[agent])
        own = view[state.index].copy()
        own[agent] = last
        view[state.index] = own
        state.now[agent] = max(int(state.now[agent]), last + 1)
        state.learn(thread, view)

    # -- accesses ------------------------------------------------------------------------------------------------------

    def _touch(
        self,
        who: Who,
        state: BlockOrder,
        site: int,
        address: int,
        size: int,
        step: int,
        reads: bool,
        writes: bool,
    ) -> None:
        means = self._means[site]
        asynchronous = who[1] >= self._threads
        source = state.copied_from.get(who[1] - self._threads) if asynchronous and writes else None
        new = Access(
            who,
            int(state.now[who[1]]),
            site,
            step,
            reads,
            writes,
            means.strong and (not asynchronous or means.kind == SiteKind.ATOMIC),
            means.volatile and not asynchronous,
            means.scope,
            None if source is None else source - address,
        )
        view = state.views[who[1]]
        used = self._sites[site].used_bytes
        space, address = self._home(state, address)
        first = address - address % self._unit
        for place in range(first, address + size, self._unit):
            if used >= 0 and not used >> (place - first) & ((1 << self._unit) - 1):
                continue
            if site in self._polled:
                self._flags.add((space, place))
            self._touch_place((space, place), new, view)

    def _touch_place(self, place: tuple[int, int], new: Access, view: View) -> None:
        crowds = self._crowds.get(place)
        if crowds is not None:
            self._meet(place, crowds, new, view)
            return
        kept = []
        for old in self._places.get(place, ()):
            ordered = old.who == new.who or self._knows(view, old)
            if not ordered and self._conflicts(old, new, place) and not self._waited(old, new):
                self._report(place, old, new)
            if not (ordered and new.covers(old)):
                kept.append(old)
        kept.append(new)
        self._places[place] = kept
        if len(kept) > _CROWDED:
            crowds = self._crowds[place] = {}
            for access in self._places.pop(place):
                self._join(crowds, access)

    def _join(self, crowds: dict[object, Crowd], access: Access) -> None:
        crowd = crowds.get(access.kind)
        if crowd is None:
            crowd = crowds[access.kind] = Crowd(access, 2 * self._threads)
        crowd.add(access)

    def _meet(self, place: tuple[int, int], crowds: dict[object, Crowd], new: Access, view: View) -> None:
        for crowd in crowds.values():
            old, shared = crowd.example, place[0] >= 0
            alike = not (shared and old.volatile and new.volatile)  # else it matters whether they are of one warp
            known = (old.site, new.site, place, old.who[0] == new.who[0]) in self._seen
            if not known and not (alike and not self._conflicts(old, new, place)):
                for each in crowd.accesses(crowd.apart(new, view)):
                    if self._conflicts(each, new, place) and not self._waited(each, new):
                        self._report(place, each, new)
                        break
            crowd.forget_covered(new, view)
        self._join(crowds, new)

    @staticmethod
    def _knows(view: View, old: Access) -> bool:
        known = view.get(old.who[0])
        return known is not None and int(known[old.who[1]]) >= old.stretch

    def _waited(self, old: Access, new: Access) -> bool:
        """A write that comes after a look at a flag which says that the read is over, without a fence: writes are not
        made before it is clear that they are to be made."""
        if old.writes or not new.writes:
            return False
        news = self._blocks[new.who[0]].pending.get(new.who[1], {})
        return any(self._knows(each.view, old) for found in news.values() for each in found)

    def _conflicts(self, old: Access, new: Access, place: tuple[int, int]) -> bool:
        if not (old.writes or new.writes):
            return False
        shared, same_warp = place[0] >= 0, old.who[1] // WARP == new.who[1] // WARP
        if old.strong and new.strong:
            # Code from before compute capability 7.0 trusts lanes in step, with volatile instead of __syncwarp().
            if old.volatile and new.volatile and shared and same_warp and place not in self._flags:
                return True
            return not self._within(min(old.scope, new.scope), old.who[0], new.who[0])
        if old.site == new.site and old.writes and new.writes:
            if old.copied_from is not None and old.copied_from == new.copied_from:
                return False  # cooperative groups' left-over lanes copy the same bytes once more
            if shared and same_warp and place[1] >= SHARED_WINDOW + RESERVED_SHARED:
                return False  # their lanes store a warp's result together
        return True

    def _report(self, place: tuple[int, int], old: Access, new: Access) -> None:
        key = (old.site, new.site, place, old.who[0] == new.who[0])
        if key in self._seen:
            return
        self._seen.add(key)
        if len(self.conflicts) < self._most:
            self.conflicts.append(Conflict(place[1], old.who, new.who, old.site, new.site, old.step, new.step))
