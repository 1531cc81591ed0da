"""Executes one launch: runs its blocks and reports the outcome.

A GPU starts as many blocks as fit on its SMs and runs them in any order. Here blocks run one after the other in linear
order, on one worker thread unless more are asked for; with one worker results are the same in every run, float atomics
included. A learner would notice only in kernels that depend on the order, which are wrong. Kernels that poll memory
always have one worker; ``resident_blocks.py`` describes how their blocks are scheduled. So do kernels with a race that
loses updates (``compiler/passes/races.py``): which ones it loses must be the same in every run.

A kernel cannot hang the process. Native code checks ``context.stop`` every few ten thousand loop iterations; the
launching thread sets it on an interrupt, or when no block has finished for ``time_limit`` seconds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct

from cudalab.sim.abi import Context, Progress, Status, Stop
from cudalab.sim.compiler import loader
from cudalab.sim.compiler.object_code import lanes_of_host
from cudalab.sim.compiler.runtime.layout import INTERLEAVE_BLOCKS
from cudalab.sim.machine.launch import supervision
from cudalab.sim.machine.launch import workspace as workspaces
from cudalab.sim.machine.launch.clusters import in_clusters
from cudalab.sim.machine.launch.printf import decode, read_string
from cudalab.sim.machine.launch.resident_blocks import FEW_ROUNDS, LONG, ResidentBlocks
from cudalab.sim.machine.launch.undo_log import HeldStores, UndoLog
from cudalab.sim.machine.reports.endless_wait import waiting_fault
from cudalab.sim.machine.reports.faults import RAISE_TIME_LIMIT, Fault, from_context, time_limit_fault
from cudalab.sim.machine.trace import footprint as footprints
from cudalab.sim.machine.trace.footprint import Footprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudalab.sim.machine.launch.module import Launch, LoadedKernel
    from cudalab.sim.machine.launch.workspace import GraphLaunches, Workspace
    from cudalab.sim.machine.memory.allocation import Allocation
    from cudalab.sim.machine.memory.allocations import Memory

AT_ONCE = 1 << 17
"""A launch that cannot execute more thread instructions than this, some 0.2 ms, runs in the launching thread."""
_TOO_LONG = (
    "It has counted its rounds, or looked at the clock, for as long as a launch may run.",
    "let the loop end after fewer rounds, or set what it waits for; a launch that needs longer gets it with "
    f"{RAISE_TIME_LIMIT}.",
)


MANY = 1 << 18
"""Threads of a launch that takes milliseconds, and often large arrays."""
LARGE = 1 << 15
"""Threads after which vectorised code is worth generating; it doubles the compile time."""


class Surroundings(Protocol):
    """What an execution asks of the device that it runs on."""

    @property
    def time_limit(self) -> float:
        """Seconds without a finished block after which the launch is stopped."""

    @property
    def workers(self) -> int:
        """Threads that run blocks. With more than one the order of atomics is not the same in every run."""

    def printed(self, text: str) -> None:
        """The launch has ended or stopped, and this is what its threads printed."""


class Standalone(Struct):
    """The surroundings of a launch on memory alone, without a device."""

    time_limit: float = 10.0
    workers: int = 1
    text: str = ""
    """What kernels have printed."""

    def printed(self, text: str) -> None:
        self.text += text


class Dependence(Struct):
    """The part of a launch in programmatic dependent launch."""

    triggers: np.ndarray | None = None
    """uint8[blocks], zeros: blocks that let dependent launches start set theirs to 1."""
    pending: bool = False
    """Has the kernel that it waits for not completed yet?"""

    def attach(self, context: Context) -> None:
        context.triggers = self.triggers.ctypes.data if self.triggers is not None else 0
        context.prerequisite = self.pending


_ALONE = Dependence()


class Outcome(Struct):
    """How a launch ended."""

    fault: Fault | None = None
    """Why it stopped early, or None."""
    blocks_done: int = 0
    held: HeldStores | None = None
    """With ``hold_stores``: the stores, which have been rolled back."""
    footprint: Footprint | None = None
    """With ``footprint``: the bytes that the launch accessed; while it waits for the kernel before, those so far."""
    waiting: Execution | None = None
    """With ``resumable``: the launch has not ended; its threads wait for memory to change."""


def execute(
    launch: Launch,
    surroundings: Surroundings | None = None,
    *,
    variant: str = "",
    interruptible: bool = True,
    clock_ns: int = 0,
    hold_stores: bool = False,
    footprint: bool = False,
    published: Sequence[tuple[int, int]] = (),
    resumable: bool = False,
    work: np.ndarray | None = None,
    blocks: np.ndarray | None = None,
    dependence: Dependence | None = None,
    graphs: GraphLaunches | None = None,
) -> Outcome:
    """Run a kernel over a grid and wait for it.

    Args:
        launch: from :meth:`LoadedKernel.launch`.
        surroundings: the device; by default :class:`Standalone`.
        variant: native code to run; by default "plain", or "atomic" with several workers, for kernels with many
            threads "wide" and "wide_atomic". Only "traced", "footprint" and "footprint_atomic" give a footprint.
        interruptible: let a KeyboardInterrupt stop the launch; otherwise it is raised when the launch has ended.
        clock_ns: what ``clock64`` and ``globaltimer`` count from.
        hold_stores: roll all stores to global memory back at the end and return them (one worker, traced code).
        footprint: also return the bytes that the launch accessed (``trace/footprint.py``).
        published: with ``hold_stores``: memory (address, bytes) whose stores are also listed in order.
        resumable: return when no thread goes on unless others change memory (``Outcome.waiting``); otherwise that is
            a fault.
        work: uint64[blocks, warps], zeros, to which each warp adds what it does (``codegen/work.py``).
        blocks: int64: run these blocks only, on one worker.
        dependence: the launch's part in programmatic dependent launch.
        graphs: what launches the graphs that its threads launch.

    Returns:
        The outcome; a fault in the kernel is in ``Outcome.fault``, not raised.

    Raises:
        ValueError: `variant` keeps no footprint.
        KeyboardInterrupt: interrupted; the launch has stopped, stores made so far stay.
        MemoryError: no addresses are left for the maps of a footprint.
    """
    kernel, config = launch.kernel, launch.config
    surroundings = surroundings or Standalone()
    dependence = dependence or _ALONE
    ordered = kernel.kernel.poll_points or kernel.kernel.launches_graphs or races(launch) or dependence.pending
    alone = config.cluster_blocks == 1 and not ordered
    several = alone and not hold_stores and blocks is None
    workers = max(1, min(surroundings.workers, config.blocks)) if several else 1
    if workers == 1 and not (hold_stores or footprint or variant) and is_short(launch):
        return execute_at_once(launch, surroundings, clock_ns, dependence, graphs)
    if not variant and footprint:
        variant = footprints.variant_for(workers, hold_stores)
    if not (variant or hold_stores) and is_large(launch):
        variant = "wide_atomic" if workers > 1 else "wide"
    variant = variant or ("traced" if hold_stores else "atomic" if workers > 1 else "plain")
    if footprint and variant in ("plain", "atomic", "wide", "wide_atomic"):
        raise ValueError(f"code of the variant {variant!r} keeps no footprint; leave out `variant`")
    if not footprint and variant.startswith("footprint"):
        raise ValueError(f"code of the variant {variant!r} marks what it touches: ask for it with footprint=True")
    run = Execution(launch, surroundings, variant, workers, interruptible, blocks)
    run.begin(
        clock_ns,
        hold_stores=hold_stores,
        footprint=footprint,
        published=published,
        work=work,
        dependence=dependence,
        graphs=graphs,
    )
    return run.go_on(patient=not resumable) if resumable else run.complete()


def is_large(launch: Launch) -> bool:
    """Count the threads that the kernel has been launched with: are they ``LARGE`` by now, and is there a vectorised
    form for such blocks?"""
    kernel, config = launch.kernel, launch.config
    width = lanes_of_host()
    if not kernel.kernel.wide or not width or config.block[0] % width:
        return False
    kernel.threads_launched += config.threads
    return kernel.threads_launched >= LARGE


def races(launch: Launch) -> bool:
    """May threads of the launch overwrite each other's updates?"""
    return launch.kernel.kernel.interleaves and launch.config.threads > 1


def is_short(launch: Launch) -> bool:
    """Is it known to be so short that it runs in the launching thread, one block after the other?"""
    config, path = launch.config, launch.kernel.kernel.longest_path
    if config.cluster is not None or config.cooperative or races(launch):
        return False
    return bool(path) and path * config.threads <= AT_ONCE


def execute_at_once(
    launch: Launch,
    surroundings: Surroundings,
    clock_ns: int = 0,
    dependence: Dependence = _ALONE,
    graphs: GraphLaunches | None = None,
) -> Outcome:
    """Run a launch that is short (:func:`is_short`)."""
    kernel, blocks = launch.kernel, launch.config.blocks
    space = workspaces.borrow()
    try:
        space.prepare(launch, clock=clock_ns, graphs=graphs)
        if dependence is not _ALONE:
            dependence.attach(space.context)
        mark_reachable_written(kernel, space.allocations)
        status = kernel.entry("plain")(space.address, 0, blocks)
        if status == Status.DONE and not space.has_printed:
            return Outcome(blocks_done=blocks)
        outcome = Outcome(blocks_done=space.context.blocks_done)
        outcome.fault = _fault(launch, [space], [status], 0.0)
        _pass_on_prints([space], kernel.module.memory, surroundings)
        return outcome
    finally:
        workspaces.give_back(space)


class Execution:
    """A launch that is being executed, and can be resumed when its threads wait for memory to change."""

    def __init__(
        self,
        launch: Launch,
        surroundings: Surroundings,
        variant: str,
        workers: int,
        interruptible: bool,
        blocks: np.ndarray | None = None,
    ) -> None:
        self._launch, self._surroundings = launch, surroundings
        self._memory = launch.kernel.module.memory
        self._interruptible = interruptible
        self._variant = variant
        self._entry = launch.kernel.entry(variant)
        self._spaces = [workspaces.borrow() for _ in range(workers)]
        self._undo: UndoLog | None = None
        self._marks: footprints.Marks | None = None
        self._resident: ResidentBlocks | None = None
        self._order = blocks.astype(np.uint64) if blocks is not None else None
        self._blocks = len(blocks) if blocks is not None else launch.config.blocks
        self._work: np.ndarray | None = None
        """Kept while native code adds to it."""
        self._spent = 0.0
        self._published: Sequence[tuple[int, int]] = ()
        self._dependence = Dependence()

    def begin(
        self,
        clock_ns: int,
        *,
        hold_stores: bool,
        footprint: bool,
        published: Sequence[tuple[int, int]],
        work: np.ndarray | None,
        dependence: Dependence,
        graphs: GraphLaunches | None,
    ) -> None:
        """Prepare the workspaces; nothing runs yet."""
        self._published, self._work, self._dependence = published, work, dependence
        launch, kernel, config = self._launch, self._launch.kernel, self._launch.config
        if config.threads >= MANY:  # whose arrays may want the memory
            loader.unmap_linker()
        try:
            for space in self._spaces:
                space.prepare(launch, clock=clock_ns, graphs=graphs)
                dependence.attach(space.context)
                if work is not None:
                    space.context.work = work.ctypes.data
            space = self._spaces[0]
            mark_reachable_written(kernel, space.allocations)
            if hold_stores:
                self._undo = UndoLog(self._memory)
                self._undo.attach(space.context)
            if footprint:
                self._marks = footprints.borrow(self._memory)
                self._marks.attach(kernel, self._variant, self._spaces)
            if config.cluster is not None and config.cluster_blocks > 1:
                self._order = np.array(in_clusters(range(config.blocks), config.grid, config.cluster), np.uint64)
            if self._order is not None:
                space.context.block_order = self._order.ctypes.data
            space.context.interleave = INTERLEAVE_BLOCKS * races(launch)
            waits = kernel.kernel.poll_points or (kernel.kernel.waits_for_prerequisite and dependence.pending)
            if waits or space.context.interleave or config.cluster_blocks > 1:
                self._resident = ResidentBlocks(launch, self._entry, space, self._blocks)
        except BaseException:
            self.close()
            raise

    def complete(self) -> Outcome:
        """Run to the end; waiting for others is a fault."""
        outcome = self.go_on()
        return outcome if outcome.waiting is None else outcome.waiting.give_up()

    def go_on(self, clock_ns: int = 0, *, patient: bool = True, rounds: int = FEW_ROUNDS, most: int = LONG) -> Outcome:
        """Run as far as possible. With ``patient=False`` it also returns when threads only count or read the clock,
        after ``rounds`` of that, and after ``most`` rounds in which it makes progress. ``clock_ns``: the modelled time
        by now. ``Outcome.waiting`` is set when it has to wait for others."""
        try:
            statuses = self._run(clock_ns, patient, rounds, most)
            if statuses[0] == Status.YIELDED:
                if self._spent >= self._surroundings.time_limit:
                    return self.give_up(_TOO_LONG)
                early = self._marks.collect() if self._marks is not None and self._dependence.pending else None
                return Outcome(waiting=self, footprint=early)
            return self._finish(statuses)
        except supervision.NotStopped:
            self._spaces.clear()  # still in use by the thread that was left behind
            if self._marks is not None:
                footprints.abandon(self._marks)
                self._marks = None
            raise
        except BaseException:
            self.close()
            raise

    def _run(self, clock_ns: int, patient: bool, rounds: int, most: int) -> list[int]:
        spaces, context = self._spaces, self._spaces[0].context
        resident, config, time_limit = self._resident, self._launch.config, self._surroundings.time_limit
        if resident is None:
            if len(spaces) == 1 and 0 < self._launch.kernel.kernel.longest_path * config.threads <= AT_ONCE:
                return [self._entry(spaces[0].address, 0, self._blocks)]
            return supervision.run(self._entry, spaces, self._blocks, time_limit, self._interruptible)
        context.clock = max(context.clock, clock_ns)
        done, began = context.blocks_done, time.monotonic()
        left = max(supervision.SLICE, time_limit - self._spent)
        statuses = supervision.run(
            lambda *_: resident.run(patient=patient, rounds=rounds, most=most),
            spaces,
            config.blocks,
            left,
            self._interruptible,
        )
        self._spent += time.monotonic() - began
        if context.blocks_done != done or resident.moved:
            self._spent = 0.0
        return statuses

    def _finish(self, statuses: list[int]) -> Outcome:
        spaces = self._spaces
        outcome = Outcome(blocks_done=sum(space.context.blocks_done for space in spaces))
        outcome.fault = _fault(self._launch, spaces, statuses, self._surroundings.time_limit)
        return self._close_with(outcome)

    def _close_with(self, outcome: Outcome) -> Outcome:
        _pass_on_prints(self._spaces, self._memory, self._surroundings)
        if self._marks is not None:
            outcome.footprint = self._marks.collect()
        if self._undo is not None:
            self._undo.detach(self._spaces[0].context)
            outcome.held = self._undo.rollback_and_hold(self._published)
            self._undo = None
        self.close()
        return outcome

    # -- while it waits ------------------------------------------------------------------------------------------------

    @property
    def only_others_can_help(self) -> bool:
        """Would its threads repeat the same for ever, unless somebody else changes memory?"""
        return self._resident is not None and not self._resident.progress & (Progress.REAL | Progress.OWN)

    @property
    def is_busy(self) -> bool:
        """Could it go on by itself, and has returned only so that time can pass for others?"""
        return self._resident is not None and self._resident.is_busy

    @property
    def moved(self) -> bool:
        """Has its last run changed anything that others could see?"""
        return self._resident is not None and self._resident.moved

    @property
    def clock_ns(self) -> int:
        """The time that its threads have seen, modelled ns."""
        return int(self._spaces[0].context.clock)

    @property
    def unfinished_blocks(self) -> Sequence[int]:
        """Linear indices of the blocks that have not ended."""
        return self._resident.unfinished if self._resident is not None else ()

    def prerequisite_completed(self) -> None:
        """The kernel that its threads wait for has completed."""
        self._dependence.pending = False
        self._spaces[0].context.prerequisite = 0

    def keep_stores(self) -> None:
        """Keep the stores made so far; these and later ones are visible at once."""
        if self._undo is not None:
            self._undo.detach(self._spaces[0].context)
            self._undo = None

    def give_up(self, why: tuple[str, str] | None = None) -> Outcome:
        """It can never end: stop it with a fault. ``why``: why nobody else changes the memory, and what to try."""
        assert self._resident is not None
        context = self._spaces[0].context
        outcome = Outcome(blocks_done=context.blocks_done)
        outcome.fault = waiting_fault(self._resident, context, self._launch, why)
        return self._close_with(outcome)

    def close(self) -> None:
        """Release the workspaces; stores that are still held are rolled back for good."""
        if self._marks is not None:
            footprints.wipe(self._memory, self._marks)
            self._marks = None
        if self._undo is not None and self._spaces:
            self._undo.detach(self._spaces[0].context)
            self._undo.rollback()
            self._undo = None
        if self._resident is not None:
            self._resident.leave()
            self._resident = None
        for space in self._spaces:
            workspaces.give_back(space)
        self._spaces = []


def mark_reachable_written(kernel: LoadedKernel, allocations: Sequence[Allocation]) -> None:
    """Count all memory that an untraced launch can write as initialised: initcheck must have no false positives."""
    if not kernel.writes_global:
        return
    memory = kernel.module.memory
    reachable = list(memory) if kernel.follows_pointers else allocations
    for allocation in reachable:
        written = allocation.written
        if not written.complete:
            written.mark_all()


def _fault(launch: Launch, spaces: list[Workspace], statuses: list[int], time_limit: float) -> Fault | None:
    faulty = [space for space, status in zip(spaces, statuses, strict=True) if status == Status.FAULT]
    if faulty:
        first = min(faulty, key=lambda space: space.context.fault.block)
        return from_context(first.context, launch)
    for space, status in zip(spaces, statuses, strict=True):
        if status == Status.STOPPED and space.context.stop == Stop.TIMEOUT:
            return time_limit_fault(space.context, launch, time_limit)
    return None


def _pass_on_prints(spaces: list[Workspace], memory: Memory, surroundings: Surroundings) -> None:
    entries = []
    for space in spaces:
        if space.context.print.used or space.context.print.lost:
            entries += decode(space.printed(), lambda address: read_string(memory, address))
    if len(spaces) > 1:
        entries.sort(key=lambda entry: entry[0])  # stable: a block's entries stay in order
    text = "".join(text for _, _, text in entries)
    lost = sum(space.context.print.lost for space in spaces)
    if lost:
        if text and not text.endswith("\n"):
            text += "\n"
        text += (
            f"[{lost} more calls of printf are not shown: the launch printed more than 64 MB; "
            "print from fewer threads]\n"
        )
    if text:
        surroundings.printed(text)
