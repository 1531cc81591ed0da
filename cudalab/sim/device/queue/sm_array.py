"""The SM array: distributes the blocks of concurrent grids to SMs, and models how fast they run together.

Blocks start as SMs have resources for them and run to completion; there is no preemption. When several grids have
pending blocks, the highest priority is served first, then the grid that became ready first; the next grid gets
resources only when all blocks of the one before it have started. So a grid that fills the device lets others in as its
last blocks end, and one of higher priority gets every slot that becomes free from the moment it is ready (CUDA C++
Programming Guide, "Stream Priorities" and "Concurrent Kernel Execution"). A launch has the priority that its stream had
when it was called; copies over the bus have none, also where they take the place of kernels (CUDA Runtime API,
``cudaStreamSetAttribute`` and ``cudaStreamCreateWithPriority``).

Blocks that start together are modelled as one *wave* (grid_waves.py): they end together, and their slots go to the next
blocks of the grid, or to a grid ahead of it in the queue. A launch that is alone takes exactly ``KernelTime.ns``, in
two or three events of the loop however many blocks it has. While grids run concurrently

- each progresses in proportion to its resident blocks: half the slots, half the rate, unless it is bound by something
  that fewer blocks saturate (``needed``);
- shared resources (DRAM, L2, the issue slots of all SMs …) are divided in proportion to what each grid uses alone.

The blocks of a cluster are co-scheduled, and no more clusters are resident than the GPCs have room for
(``machine/launch/clusters.py``).

What is simplified: the last blocks of a grid of several waves end together, as they do on average once blocks have
drifted apart; when more than four waves of one grid are in flight, the two smallest are merged. Copies within the
device, memsets and array operations are grids of 256-thread blocks in which each thread moves 16 bytes. A learner would
notice only in the exact end of a single block, which no tool shows.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from cudalab.sim.device.queue.event_loop import EventLoop
from cudalab.sim.device.queue.grid_waves import Grid, Wave
from cudalab.sim.device.queue.operation import NO_TERMS, Operation
from cudalab.sim.device.queue.sm_residency import BlockNeeds, Residency, block_needs
from cudalab.sim.machine.launch.clusters import clusters_that_fit

if TYPE_CHECKING:
    from cudalab.sim.device.profile import Profile

Begin = Callable[[Operation], int]
End = Callable[[Operation], None]

MOST_WAVES = 4
"""Waves of one grid that are modelled separately."""
_MOVER_THREADS, _MOVER_REGISTERS, _MOVER_BLOCK_BYTES = 256, 32, 256 * 16
_PARTS = 1_000_000


class SmArray:
    """Runs operations concurrently as they become ready, as far as their blocks fit."""

    in_issue_order = False

    def __init__(
        self,
        loop: EventLoop,
        begin: Begin,
        end: End,
        profile: Profile,
        *,
        all_started: Callable[[Operation, float], None] | None = None,
        tells_every_start: bool = False,
    ) -> None:
        """``all_started(operation, turn)`` is called when all blocks of an operation have started, each of which takes
        ``turn`` ns alone; of all operations if ``tells_every_start``, otherwise of those that ask for it."""
        engines = profile.engines
        self._loop, self._begin, self._end = loop, begin, end
        self._most = int(engines["max_resident_grids"]) if engines["concurrent_kernels"] else 1
        self._bandwidth = profile.device["dram_bandwidth"] * 1e3  # bytes a ns
        self._sms = profile.sms
        self._limits = profile.launch_limits
        self._all_started, self._tells_every_start = all_started, tells_every_start
        self._tail = profile.device["dependent_visible"]
        self.residency = Residency(self._limits)
        self._known_needs: dict[tuple[int, int, int], BlockNeeds] = {}
        self._queue: list[Grid] = []
        self._running: dict[Grid, None] = {}
        self._cause: Operation | None = None
        """Whose blocks have just ended."""
        self._overdue: dict[Wave, None] = {}
        self._contended = False
        self._highest = 0

    # -- what the scheduler calls --------------------------------------------------------------------------------------

    def issue(self, operation: Operation) -> None:
        """Operations are taken as they become ready."""

    def ready(self, operation: Operation) -> None:
        """What the operation depends on has ended."""
        grid = self._grid(operation)
        line = self._queue
        if not line:
            if grid.blocks <= self.residency.idle and not self._is_held(grid):
                self._start_whole(grid)
                return
            line.append(grid)
        elif grid.needs is None and not self._is_held(grid):
            self._start_whole(grid)  # it needs no room, so it need not stand in line
            return
        else:
            head = line[0]
            insort(line, grid)
            if line[0] is not grid:
                return
            self._take_plans_back(head)
        self._dispatch()

    def settled(self, operation: Operation) -> None:
        """A launch that polled memory has finished: blocks whose modelled time has passed end now."""
        for wave in [wave for wave in self._overdue if wave.grid.operation is operation]:
            del self._overdue[wave]
            if wave in wave.grid.waves and wave.event is None:
                self._schedule(wave)

    def resume(self, launch: Operation) -> None:
        """The kernel that threads of a launch wait for has completed. Blocks that have come to their wait go on from
        there; those that have not, do not wait."""
        time = launch.time
        assert time is not None
        for grid in self._running:
            if grid.operation is not launch:
                continue
            self._settle(grid)
            behind = self._behind_wait(grid) + self._tail * grid.resident / grid.blocks
            for wave in grid.waves:
                if wave.stops:
                    wave.left = max(wave.left, 0.0) + behind
                elif wave.left < behind:
                    wave.left = behind
                else:
                    continue
                wave.stops = False
                self._overdue.pop(wave, None)
                self._schedule(wave)
            self._changed(grid)

    @staticmethod
    def _behind_wait(grid: Grid) -> float:
        """Work of a place behind where its block waits for the kernel before it."""
        time = grid.operation.time
        assert time is not None
        return (time.ns - time.terms["start"]) * (1.0 - time.waits_at) * grid.resident / grid.blocks

    def clear(self) -> None:
        """Forget everything, as the loss of the device does."""
        self._overdue.clear()
        self._queue.clear()
        self._running.clear()
        self._cause = None
        self.residency.clear()
        self._contended, self._highest = False, 0

    # -- starting ------------------------------------------------------------------------------------------------------

    def _grid(self, operation: Operation) -> Grid:
        work = operation.work
        if blocks := work.blocks:
            return Grid.of(operation, self._needs(work.block_shape), blocks)
        moved = work.device_bytes
        if moved > _MOVER_BLOCK_BYTES or work.is_array_function:
            needs = self._needs((_MOVER_THREADS, _MOVER_REGISTERS, 0))
            return Grid.of(operation, needs, max(1, -(-moved // _MOVER_BLOCK_BYTES)))
        return Grid.of(operation, None, 1)

    def _needs(self, shape: tuple[int, int, int]) -> BlockNeeds:
        known = self._known_needs.get(shape)
        if known is None:
            known = self._known_needs[shape] = block_needs(self._limits, *shape)
        return known

    def _dispatch(self) -> None:
        """Start pending blocks, in the order of the queue."""
        while (grid := self._next()) is not None:
            if grid.needs is None:
                self._queue.remove(grid)
                self._start_whole(grid)
                continue
            if not grid.started and not self._start(grid):
                return
            if not self._place(grid):
                return
            self._queue.remove(grid)
            self._has_started(grid)

    def _next(self) -> Grid | None:
        """The grid whose blocks start next. While the first of the queue must not start, grids that have started
        continue, and no other starts."""
        if not self._queue:
            return None
        first = self._queue[0]
        if first.started or not self._is_held(first):
            return first
        return min((grid for grid in self._running if grid.pending), default=None)

    def _has_started(self, grid: Grid) -> None:
        if self._all_started is not None and (grid.operation.tells_start or self._tells_every_start):
            self._all_started(grid.operation, grid.turn)

    def _is_held(self, grid: Grid) -> bool:
        """Must the grid not start even if its blocks fit?"""
        running = self._running
        if len(running) >= self._most:
            grid.why = "resident grids"
            return True
        if running and (grid.operation.exclusive or next(iter(running)).operation.exclusive):
            grid.why = "no copy engine"
            return True
        return False

    def _start_whole(self, grid: Grid) -> None:
        """Start an operation that takes no SM resources, or whose blocks each get an idle SM, as small grids do."""
        duration = self._started(grid)
        grid.places = grid.resident = grid.blocks
        grid.pending, grid.turn = 0, float(duration)
        wave = self._wave(grid)
        wave.places = grid.blocks
        grid.waves.append(wave)
        if grid.needs is not None:
            self.residency.place(wave, grid.needs, grid.blocks)
        if self._highest <= _PARTS and not self._contended:  # no contention: the wave ends when it would alone
            wave.event = self._loop.at(self._loop.now + math.ceil(wave.left - 1e-6), partial(self._ended, wave))
        else:
            self._changed(grid)
        self._has_started(grid)

    def _wave(self, grid: Grid) -> Wave:
        """The next blocks of the grid, each with its turn, or with what it does before its wait for a kernel."""
        wave = Wave(grid, grid.turn)
        if grid.operation.waits_in_vain:
            wave.left, wave.stops = max(0.0, grid.turn - self._behind_wait(grid)), True
        return wave

    def _start(self, grid: Grid) -> bool:
        """Start the operation if its first block fits."""
        assert grid.needs is not None
        if not self.residency.fits(grid.needs):
            grid.why = "SM resources"
            return False
        duration = self._started(grid)
        operation = grid.operation
        grid.resident = min(grid.blocks, self._most_resident(grid.needs, operation.work.cluster_blocks))
        time = operation.time
        needed = time.needed if time is not None else 1.0 if operation.work.blocks else 0.5
        grid.needed = max(1.0, grid.resident * needed)
        grid.turn = duration * grid.resident / grid.blocks
        return True

    def _most_resident(self, needs: BlockNeeds, cluster: int) -> int:
        """Blocks that are resident at once when the grid is alone."""
        if cluster == 1:
            return needs.each * self._sms
        return clusters_that_fit(needs.each, cluster, self._limits.sm_groups) * cluster

    def _started(self, grid: Grid) -> int:
        """The operation starts; returns its duration when alone (ns)."""
        operation, now = grid.operation, self._loop.now
        if operation.ready < now:
            operation.wait_reason, operation.wait_cause = grid.why, self._cause
        duration = self._begin(operation) or 1
        grid.started = True
        grid.updated = now
        self._running[grid] = None
        uses = operation.time.uses if operation.time is not None else NO_TERMS
        if not uses and (moved := operation.work.device_bytes):
            uses = {"memory": min(1.0, moved / (self._bandwidth * duration))}
        if uses:
            grid.uses = uses
            grid.highest = int(max(uses.values()) * _PARTS)
            self._highest += grid.highest
        return duration

    def _place(self, grid: Grid) -> bool:
        """Place pending blocks; returns whether all have started."""
        assert grid.needs is not None
        wave = self._wave(grid)
        placed = self.residency.place(wave, grid.needs, min(grid.pending, grid.resident - grid.places))
        lonely = placed % grid.operation.work.cluster_blocks
        if lonely:  # an incomplete cluster: its blocks start together
            self.residency.release(wave, grid.needs, lonely)
            placed -= lonely
        if not placed:
            return False
        self._take_plans_back(grid)
        wave.places = placed
        grid.pending -= placed
        grid.places += placed
        grid.waves.append(wave)
        if len(grid.waves) > MOST_WAVES:
            self._join(grid)
        elif grid.pending and grid.operation.prerequisite is None:
            wave.left += self._planned(grid, placed) * grid.turn
        if not grid.pending:
            self._last_blocks(grid, grid.places)
        self._changed(grid)
        return not grid.pending

    def _join(self, grid: Grid) -> None:
        """Merge the two smallest waves; the remaining work of all slots together stays the same."""
        small, other = sorted(grid.waves, key=lambda wave: wave.places)[:2]
        grid.waves.remove(small)
        self._cancel(small)
        total = small.places + other.places
        other.left = (small.left * small.places + other.left * other.places) / total
        other.places = total
        self._cancel(other)
        self.residency.hand_over(small, other)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _planned(self, grid: Grid, places: int) -> int:
        """Rounds that a wave of ``places`` slots may schedule ahead, one block a slot and round. The last blocks are
        not scheduled ahead, because other grids get resources from their start."""
        rounds = max(0, (grid.pending - (grid.places - places)) // grid.places)
        if rounds and rounds * places == grid.pending:
            rounds -= 1
        grid.pending -= rounds * places
        return rounds

    def _take_plans_back(self, grid: Grid) -> None:
        """Blocks that were scheduled ahead are pending again unless they have started: another grid goes first."""
        if not grid.started:
            return
        self._settle(grid)
        for wave in grid.waves:
            rounds = math.ceil(wave.left / grid.turn - 1e-9) - 1
            if rounds > 0:
                wave.left -= rounds * grid.turn
                grid.pending += rounds * wave.places
                self._schedule(wave)

    def _ended(self, wave: Wave) -> None:
        """The blocks of a wave have ended."""
        grid = wave.grid
        wave.event = None
        self._settle(grid)
        wave.left = max(wave.left, -1.0)  # events are on whole ns, and a polling launch may be long overdue
        if grid.operation.polling:
            if wave not in self._overdue:
                self._overdue[wave] = None  # it stays resident until it is settled
                if wave.stops:
                    self._changed(grid)  # it leaves to others what it used
            return
        self._cause = grid.operation
        if grid.pending and self._next() is grid:
            self._go_on(grid, wave)
        else:
            if grid.needs is not None:
                self.residency.release(wave, grid.needs)
            grid.places -= wave.places
            grid.waves.remove(wave)
            if grid.waves or grid.pending:
                self._changed(grid)
            else:
                del self._running[grid]
                self._highest -= grid.highest
                if self._contended:
                    self._changed(None)
                self._end(grid.operation)
        if self._queue:
            self._dispatch()
        self._cause = None

    def _go_on(self, grid: Grid, wave: Wave) -> None:
        """The next blocks of the grid take the slots of the wave."""
        assert grid.needs is not None
        available, owed = grid.places, 0.0
        if grid.pending >= wave.places:
            grid.pending -= wave.places
            wave.left += (1 + self._planned(grid, wave.places)) * grid.turn
        else:
            grid.rate_limit = min(grid.rate_limit, grid.own_rate(self._reach(grid)))
            spare = wave.places - grid.pending
            self.residency.release(wave, grid.needs, spare)
            wave.places -= spare
            grid.places -= spare
            grid.pending = 0
            owed = spare * wave.left  # a fraction of a ns, because events are on whole ns
            wave.left += grid.turn
        if not grid.pending:
            self._last_blocks(grid, available, owed)
            self._queue.remove(grid)
            self._has_started(grid)
        self._changed(grid)

    def _last_blocks(self, grid: Grid, places: int, owed: float = 0.0) -> None:
        """All blocks have started. No wave of a grid of several ends later than the mean over its slots."""
        grid.rate_limit = min(grid.rate_limit, grid.own_rate(self._reach(grid)))
        if grid.blocks > grid.resident:
            mean = (owed + sum(wave.left * wave.places for wave in grid.waves)) / places
            for wave in grid.waves:
                if wave.left > mean:
                    wave.left = mean
                    self._cancel(wave)

    # -- rate ----------------------------------------------------------------------------------------------------------

    def _settle(self, grid: Grid) -> None:
        """Advance the grid's waves to the present."""
        now = self._loop.now
        if now > grid.updated:
            done = (now - grid.updated) * grid.rate
            for wave in grid.waves:
                wave.left -= done
            grid.updated = now

    def _reach(self, grid: Grid) -> float:
        """The upper bound of its rate, relative to its rate alone, by the resources of the SMs that hold its blocks."""
        time = grid.operation.time
        use = time.sm_use if time is not None else 0.0
        if grid.places >= grid.resident or not use:
            return 1.0
        return self.residency.sms_with(list(grid.waves)) / (min(grid.resident, self._sms) * use)

    def _changed(self, grid: Grid | None) -> None:
        """The grid's resident blocks, or the running grids, have changed: recompute rates."""
        if self._highest <= _PARTS and not self._contended:
            if grid is not None:
                whole = grid.places >= grid.resident or not grid.places
                self._set_rate(grid, 1.0 if whole else grid.own_rate(self._reach(grid)))
            return
        own = {g: g.own_rate(self._reach(g)) for g in self._running if g.places}
        wanted: dict[str, float] = {}
        for g, rate in own.items():
            part = rate * self._busy_places(g) / g.resident
            for name, use in g.uses.items():
                wanted[name] = wanted.get(name, 0.0) + part * use
        self._contended = any(total > 1.0 for total in wanted.values())
        for g, rate in own.items():
            slower = max((wanted[name] for name, use in g.uses.items() if use > 0.0), default=1.0)
            self._set_rate(g, rate / max(1.0, slower))

    def _busy_places(self, grid: Grid) -> int:
        """Places whose blocks do not wait for the kernel before theirs."""
        if not self._overdue:
            return grid.places
        return grid.places - sum(wave.places for wave in grid.waves if wave.stops and wave in self._overdue)

    def _set_rate(self, grid: Grid, rate: float) -> None:
        if rate != grid.rate:
            self._settle(grid)
            grid.rate = rate
            for wave in grid.waves:
                self._schedule(wave)
            return
        for wave in grid.waves:
            if wave.event is None:
                self._schedule(wave)

    def _cancel(self, wave: Wave) -> None:
        if wave.event is not None:
            self._loop.cancel(wave.event)
            wave.event = None

    def _schedule(self, wave: Wave) -> None:
        """Schedule the end of the wave at its present rate. The grid is settled."""
        if wave.event is not None:
            self._loop.cancel(wave.event)
        wait = max(0, math.ceil(wave.left / wave.grid.rate - 1e-6))
        wave.event = self._loop.at(self._loop.now + wait, partial(self._ended, wave))
