"""A kernel launch in a stream: its time, and its run when its effect is due.

The configuration was checked when the launch was called. What goes wrong in the kernel comes up at its modelled end:
the call that notices is a later one, as on a GPU. A kernel that polls memory runs at its start, as far as it comes.

How long a launch takes may depend on what its blocks do (``timing/launch_time.py``). Where that is not known yet, the
launch runs at its modelled start and counts it; its stores are held back until its end, as effect.py says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.byte_ranges import NOTHING, Range, Reach, Touched, runs_between
from cudalab.sim.device.queue.effect import HeldBytes, Snapshot, hold_by_comparison, put_back, snapshot, take_back
from cudalab.sim.device.queue.operation import Operation, Stream, Work
from cudalab.sim.device.queue.publication import publications
from cudalab.sim.device.timing.l2_ranges import Window
from cudalab.sim.device.timing.launch_time import Timer
from cudalab.sim.machine import execution
from cudalab.sim.machine.execution import (
    Dependence,
    Execution,
    Outcome,
    Standalone,
    execute,
    execute_at_once,
    is_large,
    is_short,
)
from cudalab.sim.machine.launch.block_work import BlockWork, counts_work, rehearse
from cudalab.sim.machine.launch.module import Launch
from cudalab.sim.machine.launch.workspace import GraphLaunches
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.trace.footprint import Footprint

_TRACED_STORE_COST = 64  # comparing this many bytes costs about what tracing one thread's stores does
_LITTLE_MEMORY = 256 << 20
"""Bytes that are always compared: that takes a tenth of a second, and a thread may store any number of times."""


class Surroundings(execution.Surroundings, Protocol):
    """What a launch asks of its device: what the execution asks, and how long it takes."""

    @property
    def timer(self) -> Timer: ...

    def memory_of(self, number: int) -> AbstractContextManager[None]: ...


class Launches(GraphLaunches, Protocol):
    """What launches the graphs that a kernel launches."""

    @property
    def beside(self) -> bool:
        """Has the kernel launched anything that runs beside it?"""

    def carry_out(self) -> None:
        """The kernel has run, or waits for memory to change: what it has launched begins."""


class KernelOperation(Operation):
    """One run of a launch."""

    work: KernelLaunch
    graphs: Launches | None = None
    """What launches graphs for it, as a node of one."""

    _reach: Reach = ()
    _reach_known = False
    on_take: Callable[[], None] | None = None
    wants_footprint: Callable[[], bool] = bool
    """Asked when it runs: should it note every byte that it touches? That takes longer."""
    _touched: Touched | None = None
    _waiting: Execution | None = None
    _waited = False
    _work_done: BlockWork | None = None
    """What its blocks did, where its time depends on that."""
    _preamble: Callable[[], None] | None = None
    """Makes the stores again that it made before its threads waited for the kernel before it."""

    # as a primary, and as a dependent launch (dependent_launch.py)
    is_dependent = False
    waits_for_trigger = False
    may_have_triggered = False
    """Have its blocks, by the time, come as far as where they trigger?"""
    _triggers: np.ndarray | None = None
    touched_early: Touched | None = None
    """What it touched before it had waited for the kernel that it depends on, where that was noted."""

    def __init__(self, work: KernelLaunch, stream: Stream) -> None:
        super().__init__(work, stream)
        self.launch, self.kernel = work.launch, work.launch.kernel
        if work.priority is not None:
            self.priority = work.priority
        kernel = self.kernel.kernel
        if self.kernel.updates_global:
            self.updates_memory = True
        if kernel.poll_points or kernel.launches_graphs:
            self.visible_at_once = True
        if kernel.triggers_dependents:
            self.tells_start = True

    def take(self) -> None:
        if self.on_take is not None:
            self.on_take()

    @property
    def decides_its_time(self) -> bool:
        if not self.work.counts_work or not self.work.surroundings.timer.wants_work(self.launch):
            return False
        if self._only_atomics() or self._waits_for_kernel or not can_be_copied(self.launch):
            return False  # its blocks are rehearsed
        self._work_done = BlockWork.of(self.launch)
        return True

    def begin(self) -> int:
        timer = self.work.surroundings.timer
        work = self._work_done
        if work is None and self.work.counts_work and timer.wants_work(self.launch):
            work = rehearsal(self.launch, self.work.surroundings.time_limit)
        self.time = time = timer.time(self.launch, work, self.work.window)
        # the host can change page-locked, managed and registered memory without a call
        pointers = self.kernel.pointers(self.launch.args)
        seen_by_host = pointers.host_visible or (self._memory.ranges and pointers.registered)
        if self.visible_at_once or self._waits_for_kernel or seen_by_host:
            self.starts_at_once = True
        return time.ns

    @property
    def _memory(self) -> Memory:
        return self.kernel.module.memory

    def run(self) -> None:
        work = self.work
        plain = work.is_short and self.prerequisite is None and self.graphs is None
        self._check(self._execute(at_once=plain and work.surroundings.workers == 1 and not self.wants_footprint()))

    def run_held(self) -> Callable[[], None]:
        if self.visible_at_once or self._waits_for_kernel:
            return self._run_until_it_waits()
        if self._only_atomics():
            self.run()
            return lambda: None
        reach = self.writes()
        published = self._published()
        if published or self._is_much_memory(reach):
            outcome = self._execute(hold_stores=True, published=published)
            self._check(outcome)
            assert outcome.held is not None
            self.publications = publications(self._memory, outcome.held.history)
            return outcome.held.apply
        return hold_by_comparison(self._memory, reach, self.run)

    def _is_much_memory(self, reach: Reach) -> bool:
        """Does comparing what it may write before and after take longer than tracing its stores?"""
        written = self._memory.in_use if reach is None else sum(size for _, size in reach)
        few = max(_LITTLE_MEMORY, self.launch.config.threads * _TRACED_STORE_COST)
        return self._reaches_registered() or written > few

    def _published(self) -> list[Range]:
        """Memory that the host can read while the kernel writes it for others to see."""
        if not self.kernel.kernel.publishes:
            return []
        ranges = self.may_touch() if self._reaches_registered() else []
        return self.host_visible() + [entry for entry in ranges if entry in self._memory.ranges]

    def _execute(
        self,
        *,
        at_once: bool = False,
        hold_stores: bool = False,
        resumable: bool = False,
        published: Sequence[Range] = (),
    ) -> Outcome:
        """Run its blocks; ``at_once``: in this thread, without anything else that an execution can be asked for."""
        if at_once:
            with self._reached():
                return execute_at_once(self.launch, self.work.surroundings, self.start)
        with self._reached():
            outcome = execute(
                self.launch,
                self.work.surroundings,
                clock_ns=self.start,
                hold_stores=hold_stores,
                footprint=self.wants_footprint(),
                published=published,
                resumable=resumable,
                work=self._work_done.slots if self._work_done is not None else None,
                dependence=self._dependence(),
                graphs=self.graphs,
            )
        if self.graphs is not None:
            self.graphs.carry_out()
        return outcome

    def _dependence(self) -> Dependence | None:
        """What it needs as a primary and as a dependent launch."""
        if self.kernel.kernel.triggers_dependents:
            self._triggers = np.zeros(self.launch.config.blocks, np.uint8)
        elif not self._waits_for_kernel:
            return None
        return Dependence(self._triggers, self._waits_for_kernel)

    @property
    def _waits_for_kernel(self) -> bool:
        """Do its threads wait for a kernel that has not completed?"""
        return self.prerequisite is not None and self.kernel.kernel.waits_for_prerequisite

    @property
    def untriggered(self) -> list[int]:
        """The blocks that have not triggered, as far as it has run, nor ended before others."""
        blocks: Sequence[int] = range(self.launch.config.blocks)
        if self._waiting is not None:
            blocks = self._waiting.unfinished_blocks
        return [block for block in blocks if self._triggers is None or not self._triggers[block]]

    def _reached(self) -> AbstractContextManager[None]:
        """Within it memory is what kernels of its device reach."""
        return self.work.surroundings.memory_of(self.stream.device)

    def _check(self, outcome: Outcome) -> None:
        if self._waited:
            self._touched = NOTHING  # it and those that it waits for order their accesses themselves
        elif outcome.footprint is not None:
            self._touched = _touched_by(outcome.footprint)
            if self.prerequisite is not None or (self.is_dependent and not self.kernel.kernel.waits_for_prerequisite):
                self.touched_early = self._touched
        if outcome.fault is not None:
            if outcome.fault.assertion:
                print(outcome.fault.assertion.rstrip("\n"), file=sys.stderr)
            raise CudaError(cudaError_t(outcome.fault.code), str(outcome.fault), sticky=True)

    # -- waiting for memory to change (polling.py) ---------------------------------------------------------------------

    def _wait_with(self, running: Execution | None) -> None:
        """Its threads wait for memory to change (``None``: no more)."""
        self._waiting = running
        self.polling = running is not None

    @property
    def only_others_can_help(self) -> bool:
        """Do its threads do the same again and again, unless somebody else changes memory?"""
        return self._waiting is not None and self._waiting.only_others_can_help

    @property
    def clock_ns(self) -> int:
        """How late its threads have seen that it is, modelled ns."""
        return self._waiting.clock_ns if self._waiting is not None else 0

    def _run_until_it_waits(self) -> Callable[[], None]:
        """Run a kernel that polls memory. When it comes to its end, its stores are taken back until its modelled end;
        when it has to wait for others, they stay, because others may wait for them."""
        reach = self.writes()
        only_atomics = self._only_atomics()
        traced = not only_atomics and self._is_much_memory(reach)
        before = [] if only_atomics or traced else snapshot(self._memory, reach)
        outcome = self._execute(hold_stores=traced, resumable=True)
        if outcome.waiting is not None:
            if traced or self.shows_stores:
                outcome.waiting.keep_stores()
            else:
                self._preamble = take_back(self._memory, before)
            if self.kernel.kernel.poll_points:
                self._waited = True
            elif outcome.footprint is not None:
                self.touched_early = _touched_by(outcome.footprint)
            self._wait_with(outcome.waiting)
            return lambda: None
        self._check(outcome)
        if outcome.held is not None:
            return outcome.held.apply
        if self.graphs is not None and self.graphs.beside:
            return lambda: None
        return take_back(self._memory, before)

    @property
    def shows_stores(self) -> bool:
        """While its threads wait, are its stores visible? Otherwise they become so at its end."""
        return self.visible_at_once or self.kernel.kernel.publishes or self._only_atomics()

    @property
    def waits_in_vain(self) -> bool:  # type: ignore[override]
        return self._waiting is not None and self._waits_for_kernel and not self.kernel.kernel.poll_points

    def prerequisite_completed(self) -> None:
        """The kernel that its threads wait for has completed, and its memory is visible to them."""
        if self._waiting is not None:
            self._waiting.prerequisite_completed()

    @property
    def is_busy(self) -> bool:
        """Does it get on by itself, as long as nobody stops it?"""
        return self._waiting is not None and self._waiting.is_busy

    def look_again(self, now: int, rounds: int, most: int) -> bool:
        """Memory may have changed, at ``now``. Threads that only count go through ``rounds`` rounds, those that change
        memory through ``most``. Returns whether the launch has done anything that others could see; it
        has come to its end when :attr:`polling` is false. Raises ``CudaError`` when it fails."""
        waiting = self._waiting
        assert waiting is not None
        self._wait_with(None)
        before = self._with_preamble()
        with self._reached():
            outcome = waiting.go_on(now, patient=False, rounds=rounds, most=most)
        if self.graphs is not None:
            self.graphs.carry_out()
        self._wait_with(outcome.waiting)
        if outcome.waiting is not None:
            return outcome.waiting.moved
        if before is not None:
            self._apply = take_back(self._memory, before)
        self._check(outcome)
        return True

    def _with_preamble(self) -> Snapshot | None:
        """Make the stores from before its wait again, for its own threads; returns what memory holds without them."""
        preamble, self._preamble = self._preamble, None
        if preamble is None:
            return None
        before = snapshot(self._memory, self.writes())
        preamble()
        return before

    def give_up(self, why: tuple[str, str]) -> None:
        """It can never end. Raises the ``CudaError`` that explains it."""
        waiting = self._waiting
        assert waiting is not None
        self._wait_with(None)
        self._check(waiting.give_up(why))

    def abandon(self) -> None:
        """The device is lost: what it has borrowed goes back."""
        waiting = self._waiting
        self._wait_with(None)
        if waiting is not None:
            waiting.close()

    # -- what it may touch ---------------------------------------------------------------------------------------------

    def _addresses(self) -> list[int]:
        """Values of the parameters that may be addresses."""
        return self.kernel.pointers(self.launch.args).addresses

    def reads(self) -> Reach:
        if not self._reach_known:
            self._reach, self._reach_known = self.kernel.pointers(self.launch.args).reach, True
        return self._reach

    def writes(self) -> Reach:
        return _written(self.launch)

    def touched(self) -> Touched | None:
        """Known when it has run with a footprint."""
        return self._touched

    def _reaches_registered(self) -> bool:
        return bool(self._memory.ranges) and self.kernel.pointers(self.launch.args).registered

    def host_visible(self) -> list[tuple[int, int]]:
        """Pinned and managed memory that it may read: the host can change it without a call."""
        return self.kernel.pointers(self.launch.args).host_visible

    def points_into(self, start: int, end: int) -> bool:
        """Was it given an address of these bytes?"""
        return any(start <= address < end for address in self._addresses())

    def may_touch(self) -> list[Range]:
        """Allocations, and registered host memory, that it may reach; looked up now and not kept."""
        if self.kernel.follows_pointers:
            return [(a.pointer, a.size) for a in self._memory] + self._memory.ranges
        found = {(a.pointer, a.size) for a in map(self._memory.find, self._addresses()) if a is not None}
        if self._memory.ranges:
            found |= {entry for entry in map(self._memory.find_range, self._addresses()) if entry[1]}
        return sorted(found)

    def _only_atomics(self) -> bool:
        """Are all of its global stores atomics?"""
        return self.kernel.updates_global and not self.kernel.stores_global

    def show_updates(self) -> None:
        held = self._apply
        if isinstance(held, HeldBytes) and not self.kernel.fences:
            held(self.kernel.pointers(self.launch.args).updated)
        elif held is not None:
            self._apply = None
            held()


def _touched_by(footprint: Footprint) -> Touched:
    return Touched(
        runs_between(footprint.read_runs), runs_between(footprint.write_runs), runs_between(footprint.atomic_runs)
    )


def _written(launch: Launch) -> Reach:
    return launch.kernel.pointers(launch.args).written if launch.kernel.writes_global else ()


def can_be_copied(launch: Launch) -> bool:
    """Is what it may write little enough to be copied, and nothing but device memory?"""
    memory, written = launch.kernel.module.memory, _written(launch)
    size = memory.in_use if written is None else sum(size for _, size in written)
    return size <= _LITTLE_MEMORY and not (memory.ranges and launch.kernel.pointers(launch.args).registered)


def rehearsal(launch: Launch, time_limit: float) -> BlockWork:
    """The work of a launch that does not happen: its blocks run, as many as there is time for, and their stores are
    taken back."""
    copied = can_be_copied(launch)
    variant = "traced" if not copied else "wide" if is_large(launch) else "plain"
    before = snapshot(launch.kernel.module.memory, _written(launch)) if copied else []

    def run(blocks: np.ndarray, slots: np.ndarray) -> bool:
        surroundings = Standalone(time_limit)
        outcome = execute(launch, surroundings, variant=variant, hold_stores=not copied, work=slots, blocks=blocks)
        return outcome.fault is None

    try:
        return rehearse(launch, run, traced=not copied)
    finally:
        put_back(launch.kernel.module.memory, before)


class KernelLaunch(Work[KernelOperation], Struct, eq=False):
    """One launch: a kernel, its configuration and its arguments. It may be issued again and again, so what follows from
    these is found out once."""

    kind = "kernel"
    is_reissued = True
    operation_class = KernelOperation
    engine = "sm"

    launch: Launch
    surroundings: Surroundings
    carveout: int = -1
    window: Window | None = None
    """The access policy window that it runs with."""
    priority: int | None = None
    """Of the launch, where that is not its stream's."""
    placement: Any = None
    blocks: int = 0
    cluster_blocks: int = 1
    block_shape: tuple[int, int, int] = (0, 0, 0)
    is_short: bool = False
    """May it run in the launching thread?"""
    counts_work: bool = False
    """Does its time depend on what its blocks do?"""

    def __post_init__(self) -> None:
        kernel, config = self.launch.kernel.kernel, self.launch.config
        registers = kernel.resources.registers if kernel.resources else 0
        self.blocks, self.cluster_blocks = config.blocks, config.cluster_blocks
        self.block_shape = config.threads_per_block, registers, kernel.static_shared + config.shared
        self.is_short = is_short(self.launch) and not kernel.triggers_dependents
        self.counts_work = counts_work(self.launch)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.launch.kernel.name

    @property
    def title(self) -> str:
        return f"kernel {self.name}"
