"""All checks of one launch: memcheck, racecheck, initcheck and synccheck, as compute-sanitizer has them.

The launch runs on the memory as it is, and its stores are rolled back at the end. An invalid access is noted and
skipped (a load gives 0, a store is dropped; an asynchronous copy without a source brings zeros, one without a target
nothing, and its bytes count as complete; a barrier object used against its rules stays as it is), and the thread
continues, so that one report shows several mistakes, each once, with a count. What cannot be skipped (a trap, a failed
assert, a deadlock, a bad texture) ends its block; the other blocks continue.

There are two passes. Sanitized native code (``compiler/codegen/shadow_cells.py``) follows every access in shadow cells
and takes at most a few times as long as a plain launch; it notes as *suspects* the accesses that it cannot show to be
ordered, too many rather than too few. Only if there are suspects, the launch runs again in traced code, and the
accesses to their granules are checked exactly (:mod:`.exact_check`). ``bench.sanitize`` measures the cost: racecheck
takes 1.7 times a plain launch in the geometric mean (2026-11-21, 2 cores), at most 4.9 (block scan). Kernels that poll
memory, copy asynchronously or wait at barrier objects, or allocate memory, are checked exactly from the start.

With a seed, blocks start in a shuffled order, and in each block warps and lanes take turns in a shuffled order between
two suspension points; the same seed gives the same run. That can make a wrong result visible. Races are found by the
order that is guaranteed, not by the order of the run; a seed changes the report only where the race itself decides what
the kernel does next.

Differences from compute-sanitizer: the text of the source line and advice are added; races are looked for in global
memory and between blocks, too; values are not compared, so equal values written by several threads count as a race; a
launch continues after an access out of bounds. Memory of device ``malloc`` counts as leaked only when no address of it
is left. Not looked for: pointers to the locals of a function that has returned, and registers that are read before they
are set, of which NVRTC warns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cudalab.sim.abi import FaultKind, SiteKind, Space, Status, Stop
from cudalab.sim.machine.launch import workspace as workspaces
from cudalab.sim.machine.launch.supervision import NotStopped, run_blocks
from cudalab.sim.machine.launch.undo_log import UndoLog
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.reports import notes
from cudalab.sim.machine.reports.faults import from_context, time_limit_fault
from cudalab.sim.machine.sanitizer import exact_check
from cudalab.sim.machine.sanitizer.checked_launch import CheckedLaunch, SanitizerResult, add_skipped_accesses
from cudalab.sim.machine.shadow_memory.shadow_cells import AttachedCells, SavedAllocations, shadow_cells_of

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import Launch, LoadedKernel

_SKIPPED = (FaultKind.OUT_OF_BOUNDS, FaultKind.MISALIGNED, FaultKind.READ_ONLY)
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
MOST_ENDED = 1000
"""Blocks that may end with a fault before the launch is given up."""


def check_launch(
    launch: Launch,
    *,
    tools: Sequence[str] = TOOLS,
    seed: int | None = None,
    time_limit: float = 10.0,
    exact: bool = False,
    weak: Sequence[tuple[int, int]] = (),
) -> SanitizerResult:
    """Run a launch under the sanitizer and roll its stores back.

    Args:
        launch: from :meth:`LoadedKernel.launch`.
        tools: which checks: any of ``TOOLS``.
        seed: shuffle blocks and threads by it.
        time_limit: seconds that one block may take.
        exact: check every access of the trace, not only the suspects. The findings are the same; it takes much
            longer.
        weak: memory, from an address up to another, whose accesses count as weak, volatile and atomic ones too; the
            check is exact then.

    Raises:
        ValueError: an unknown tool.
        MemoryError: no addresses are left for shadow memory.
    """
    unknown = [tool for tool in tools if tool not in TOOLS]
    if unknown:
        raise ValueError(f"tools must be among {', '.join(TOOLS)} (got {unknown[0]!r})")
    config, checked = launch.config, CheckedLaunch(launch, tuple(tools), seed, time_limit, weak)
    result = SanitizerResult()
    if exact or weak or needs_exact_check(launch.kernel) or config.cooperative or config.cluster_blocks > 1:
        exact_check.check_exactly(checked, result)
        return result
    suspects = _run_native(checked, result)
    if suspects is not None:
        exact_check.check_exactly(checked, result, suspects)
    return result


def needs_exact_check(kernel: LoadedKernel) -> bool:
    """Does the kernel do what shadow cells cannot follow?"""
    return bool(kernel.kernel.poll_points or kernel.kernel.uses_heap) or any(
        site.kind == SiteKind.SYNC
        or site.stores_local
        or site.space in (Space.CLUSTER, Space.TEXTURE)
        or site.semantics.asynchronous
        for site in kernel.kernel.sites
    )


def _run_native(launch: CheckedLaunch, result: SanitizerResult) -> exact_check.Suspects | None:
    """Run sanitized code; add what is certain, and return the suspects, if there are any.

    Wide code cannot continue after an access out of bounds. When it meets one, the launch starts again in code that
    takes one thread at a time."""
    suspects = _attempt(launch, result, "sanitize") if launch.seed is None else None
    if suspects is None:
        suspects = _attempt(launch, result, "sanitize_shuffled")
        assert suspects is not None
    return suspects if suspects.any else None


def _attempt(launch: CheckedLaunch, result: SanitizerResult, variant: str) -> exact_check.Suspects | None:
    """One run of native code. None: it met an access that it cannot skip; nothing is added."""
    kernel, memory = launch.kernel, launch.kernel.module.memory
    entry = kernel.entry(variant)
    space = workspaces.borrow()
    undo = UndoLog(memory, heap=True)
    order, threads = launch.block_order(), launch.thread_order()
    shadow: AttachedCells | None = None
    saved: SavedAllocations | None = None
    stopped = True
    with host_watch.paused():
        try:
            space.prepare(launch.launch, prints=False)
            context = space.context
            shadow = shadow_cells_of(memory).attach(kernel, space)
            shadow.follow_values(kernel, registers=False)
            saved = SavedAllocations(memory, shadow.written)
            undo.attach(context)
            if launch.seed is not None:
                assert threads is not None
                context.block_order, context.thread_order = order.ctypes.data, threads.ctypes.data
            own = SanitizerResult()
            if not _run_all(launch, own, entry, space, shadow, may_give_up=variant == "sanitize"):
                return None
            add_skipped_accesses(launch, own, context, shadow)
            result.merge(own)
            return exact_check.Suspects.of(shadow, launch.tools)
        except NotStopped:
            stopped = False
            raise
        finally:
            if stopped:
                undo.detach(space.context)
                undo.rollback()
                if saved is not None:
                    saved.restore()
                if shadow is not None:
                    shadow.detach()
                space.context.block_order = space.context.thread_order = 0
                workspaces.give_back(space)


def _run_all(
    launch: CheckedLaunch,
    result: SanitizerResult,
    entry: Callable[[int, int, int], int],
    space: workspaces.Workspace,
    shadow: AttachedCells,
    *,
    may_give_up: bool,
) -> bool:
    """Run all blocks; one that faults ends, and the next starts. False: given up, because an access has to be
    skipped."""
    context = space.context
    position = ended = 0
    while position < launch.blocks:
        before = context.blocks_done
        status = run_blocks(entry, space, position, launch.blocks, time_limit=launch.time_limit)
        position += context.blocks_done - before
        if may_give_up and (shadow.race.skipped.used or (status == Status.FAULT and context.fault.kind in _SKIPPED)):
            return False
        if status == Status.DONE:
            break
        if status == Status.STOPPED:
            if context.stop == Stop.TIMEOUT:
                result.add(time_limit_fault(context, launch.launch, launch.time_limit).finding)
            break
        fault = from_context(context, launch.launch)
        if "memcheck" in launch.tools or fault.rule == "deadlock":
            result.add(fault.finding)
        position, ended = position + 1, ended + 1
        if ended >= MOST_ENDED:
            result.note(notes.many_faults(ended))
            break
    result.blocks = min(position, launch.blocks)
    return True
