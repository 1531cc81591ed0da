"""All checks of one launch: memcheck, racecheck, initcheck and synccheck, as compute-sanitizer has them.

The launch runs on the memory as it is; its stores are taken back at the end. An access that is not allowed is noted and
skipped (a load gives 0, a store is dropped), and the thread goes on, so that one report shows several mistakes, each
once, with how often it was seen. What cannot be skipped (a trap, a failed assert, a deadlock) ends its block; the other
blocks go on.

Checks are made twice. Sanitized native code (``compiler/codegen/race.py``) follows every access in shadow cells and
takes at most a few times as long as a plain launch; it notes what it does not see to be in order. Only if there is such
a suspect the launch runs again in traced code, and the accesses to suspects are looked at exactly (``inspection.py``).
Kernels that poll memory, copy asynchronously or wait at objects of their own are looked at exactly from the start.

With a seed, blocks start in a shuffled order, and in each block warps and lanes take turns in a shuffled order between
two points at which they wait; the same seed gives the same run. That can make a wrong result show. Races are found by
the order that is guaranteed, not by the order of the run; a seed changes the report only where the race itself decides
what the kernel does next.

Differences to compute-sanitizer: the source line's text and advice are added; races are looked for in global memory and
between blocks, too; values are not compared, so equal values written by several threads count as a race; a launch goes
on behind an access out of bounds. Memory of device ``malloc`` that is not freed is not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cudalab.sim.abi import FaultKind, SiteKind, Space, Status, Stop
from cudalab.sim.machine.launch import workspace as workspaces
from cudalab.sim.machine.launch.clusters import APART, Together
from cudalab.sim.machine.launch.configuration import extent
from cudalab.sim.machine.launch.limits import H200, DeviceLimits
from cudalab.sim.machine.launch.supervision import NotStopped, run_blocks
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.memory.undo_log import UndoLog
from cudalab.sim.machine.reports.faults import from_context, time_limit_fault
from cudalab.sim.machine.sanitizer import exact_check
from cudalab.sim.machine.sanitizer.checked_launch import Checked, Launch, add_misses
from cudalab.sim.machine.sanitizer.shadow_cells import Attached, Copies, shadow_of

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import LoadedKernel

_SKIPPED = (FaultKind.OUT_OF_BOUNDS, FaultKind.MISALIGNED, FaultKind.READ_ONLY)
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
MOST_ENDED = 1000
"""Blocks that may end with a fault before the launch is given up."""


def check_launch(
    kernel: LoadedKernel,
    grid: Sequence[int] | int,
    block: Sequence[int] | int,
    args: bytes,
    shared: int = 0,
    *,
    tools: Sequence[str] = TOOLS,
    seed: int | None = None,
    time_limit: float = 10.0,
    exact: bool = False,
    together: Together = APART,
    limits: DeviceLimits = H200,
) -> Checked:
    """Run a launch under the sanitizer and take its stores back.

    Args:
        kernel: from :meth:`Module.kernel`.
        grid, block, args, shared: as for :func:`launch`.
        tools: which checks: any of ``TOOLS``.
        seed: shuffle blocks and threads by it.
        time_limit: seconds that one block may take.
        exact: look at every access in the trace, not only at those that native code suspects. The findings are the
            same; it takes much longer.
        together: clusters, or a cooperative launch.
        limits: the device's.

    Raises:
        LaunchError: the configuration is not allowed.
        ValueError: an unknown tool.
        MemoryError: no addresses are left for shadow memory.
    """
    unknown = [tool for tool in tools if tool not in TOOLS]
    if unknown:
        raise ValueError(f"tools must be among {', '.join(TOOLS)} (got {unknown[0]!r})")
    grid_, block_ = extent(grid, "grid"), extent(block, "block")
    kernel.check(grid_, block_, shared, limits, together)
    launch = Launch(kernel, grid_, block_, args, shared, tuple(tools), seed, time_limit, limits, together)
    checked = Checked(grid_blocks=launch.blocks)
    if exact or needs_exact(kernel) or together.cooperative or launch.cluster != (1, 1, 1):
        exact_check.inspect(launch, checked)
        return checked
    suspects = _run_native(launch, checked)
    if suspects is not None:
        exact_check.inspect(launch, checked, suspects)
    return checked


def needs_exact(kernel: LoadedKernel) -> bool:
    """Does the kernel do what shadow cells cannot follow?"""
    return bool(kernel.kernel.poll_points) or any(
        site.kind == SiteKind.SYNC or site.space in (Space.CLUSTER, Space.TEXTURE) or site.semantics.asynchronous
        for site in kernel.kernel.sites
    )


def _run_native(launch: Launch, checked: Checked) -> exact_check.Suspects | None:
    """Run sanitized code; add what it found for certain, and return what is to be looked at again, if anything.

    Code that takes several threads at once cannot go on behind an access out of bounds: when it meets one, the launch
    begins anew, one thread after the other."""
    if launch.seed is None:
        found = _attempt(launch, checked, "sanitize")
        if found is not None:
            return found if found.any else None
    found = _attempt(launch, checked, "sanitize_shuffled")
    assert found is not None
    return found if found.any else None


def _attempt(launch: Launch, checked: Checked, variant: str) -> exact_check.Suspects | None:
    """One run of native code. None: it met what it cannot skip; nothing is added."""
    kernel, memory = launch.kernel, launch.kernel.module.memory
    entry = kernel.entry(variant)
    space = workspaces.borrow()
    undo = UndoLog(memory)
    order, threads = launch.order_of_blocks(), launch.order_of_threads()
    shadow: Attached | None = None
    copies: Copies | None = None
    stopped = True
    with host_watch.paused():
        try:
            space.prepare(kernel, launch.grid, launch.block, launch.args, launch.shared, prints=False)
            context = space.context
            shadow = shadow_of(memory).attach(kernel, space)
            copies = Copies(memory, shadow.written)
            undo.attach(context)
            if launch.seed is not None:
                assert threads is not None
                context.block_order, context.thread_order = order.ctypes.data, threads.ctypes.data
            own = Checked()
            if not _run_all(launch, own, entry, space, shadow, may_give_up=variant == "sanitize"):
                return None
            if "memcheck" in launch.tools:
                add_misses(launch, own, context, shadow)
            checked.take(own)
            return exact_check.Suspects.of(shadow, launch.tools)
        except NotStopped:
            stopped = False
            raise
        finally:
            if stopped:
                undo.detach(space.context)
                undo.rollback()
                if copies is not None:
                    copies.put_back()
                if shadow is not None:
                    shadow.detach()
                space.context.block_order = space.context.thread_order = 0
                workspaces.give_back(space)


def _run_all(
    launch: Launch,
    checked: Checked,
    entry: Callable[[int, int, int], int],
    space: workspaces.Workspace,
    shadow: Attached,
    *,
    may_give_up: bool,
) -> bool:
    """Run all blocks; one that ends with a fault is left, and the next begins. False: given up, because an access has
    to be skipped."""
    context = space.context
    position = ended = 0
    while position < launch.blocks:
        before = context.blocks_done
        status = run_blocks(entry, space, position, launch.blocks, time_limit=launch.time_limit)
        position += context.blocks_done - before
        if may_give_up and (shadow.race.misses.used or (status == Status.FAULT and context.fault.kind in _SKIPPED)):
            return False
        if status == Status.DONE:
            break
        if status == Status.STOPPED:
            if context.stop == Stop.TIMEOUT:
                checked.add(
                    time_limit_fault(context, launch.kernel, launch.grid, launch.block, launch.time_limit).finding
                )
            break
        fault = from_context(context, launch.kernel, launch.grid, launch.block, launch.args)
        if "memcheck" in launch.tools or fault.rule == "deadlock":
            checked.add(fault.finding)
        position, ended = position + 1, ended + 1
        if ended >= MOST_ENDED:
            checked.note(f"{ended} blocks ended with a fault; the others were not run")
            break
    checked.blocks = min(position, launch.blocks)
    return True
