"""Look for mistakes that a GPU does not report: ``cudalab.sanitize(kernel, grid, block, args)``.

The launch runs on the simulated device, also on a machine with a GPU, with the checks of compute-sanitizer:

``memcheck``
    accesses outside an allocation, in freed memory, through host or null pointers, misaligned: they are noted and
    skipped (a load gives 0, a store is dropped), and the thread goes on; traps, failed asserts, endless loops,
    deadlocks, which end their block; memory of device ``malloc`` that nobody can free any more; pointers to locals of
    another thread.
``racecheck``
    two threads that touch the same bytes of shared or global memory, one of them writing, with nothing to order them:
    within a warp, a block, and between blocks. Barriers, ``__syncwarp``, atomics, fences with flags, scopes,
    cooperative groups, ``cuda::barrier`` and waits for copies count as what they are. Also ``__ldg`` of what the kernel
    writes.
``initcheck``
    reads of memory that nothing has written, and uses of elements of local arrays.
``synccheck``
    barriers that not all threads reach alike, barrier objects used against their rules, lanes that their own mask does
    not name; shuffles that read a lane which has exited, is elsewhere or is not named, if what they get is used.

A GPU stays silent on most of these: an overrun inside CuPy's memory pool lands in another array, a race gives the right
answer most of the time. What the report says is what the rules say, not what happened to go well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cudalab.analysis.mirror import mirrored
from cudalab.sim.machine.launch.configuration import Dim3
from cudalab.sim.machine.reports.card import card
from cudalab.sim.machine.reports.finding import Finding
from cudalab.sim.machine.sanitizer.sanitize import TOOLS, check_launch


@dataclass(frozen=True)
class Report:
    """What `cudalab.sanitize` found in one launch. Print it, or go through ``findings``."""

    kernel: str
    grid: Dim3
    block: Dim3
    tools: tuple[str, ...]
    findings: tuple[Finding, ...]
    """Each mistake once, with how often it was seen: ``rule``, ``tool``, ``line``, ``source``, ``block``, ``thread``,
    ``address``, ``size``, ``detail``, ``advice``, ``count``; of skipped accesses also ``threads``, ``blocks`` and the
    lowest and highest of the ``addresses``."""
    blocks: int
    """Blocks that were run."""
    notes: tuple[str, ...] = ()
    """What could not be checked, and why."""

    @property
    def ok(self) -> bool:
        """True when nothing was found."""
        return not self.findings

    @property
    def summary(self) -> str:
        """One sentence."""
        where = f"{self.kernel}, {self.blocks} block{'s' * (self.blocks != 1)} ({', '.join(self.tools)})"
        if self.ok:
            return f"No mistakes found in {where}."
        count = len(self.findings)
        return f"{count} mistake{'s' * (count != 1)} found in {where}."

    def __repr__(self) -> str:
        parts = [self.summary]
        for number, finding in enumerate(self.findings, start=1):
            first, *rest = finding.lines()
            parts.append("\n".join([f"{number}. {first}", *("   " + line for line in "\n".join(rest).splitlines())]))
        parts += [f"Note: {note}" for note in self.notes]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        first = card("good" if self.ok else "wrong", self.summary, detail="\n".join(f"Note: {n}" for n in self.notes))
        return first + "".join(finding._repr_html_() for finding in self.findings)


def sanitize(
    kernel: Any,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    *,
    shared: int = 0,
    tools: Sequence[str] = TOOLS,
    seed: int | None = None,
    time_limit: float = 10.0,
    cooperative: bool | None = None,
    cluster: Any = None,
) -> Report:
    """Check one launch and report every mistake with its line, thread and cause.

    Nothing stays of the run: what the kernel writes is taken back, nothing is printed, a fault does not cost the
    device, and it takes no modelled time. Work that was enqueued before is finished first. On a GPU the arrays are
    copied to the simulator and the GPU's memory stays as it is.

    Args:
        kernel: a ``RawKernel``, a function of a ``RawModule``, or what ``%%cuda`` bound.
        grid: blocks, a number or a tuple of up to three.
        block: threads a block, a number or a tuple of up to three.
        args: the kernel's arguments, as for a launch.
        shared: dynamic shared memory a block, bytes.
        tools: which checks to make, of memcheck, racecheck, initcheck and synccheck.
        seed: run blocks, and in each block warps and lanes between two points at which they wait, in an order shuffled
            by this number; the same number gives the same order.
        time_limit: seconds that one block may take.
        cooperative: launch it so that the grid can synchronise; by default as the kernel was made
            (``enable_cooperative_groups``).
        cluster: blocks of a cluster, a number or a tuple of up to three; without it as the kernel says.

    Returns:
        A :class:`Report`; ``report.ok`` is True when nothing was found.

    Raises:
        TypeError: arguments that do not fit the kernel's declaration.
        LaunchError: a configuration that CUDA refuses.
        ValueError: an unknown tool.
        MirrorError: on a GPU, an argument that cannot be copied to the simulator.

    Guide: Compute Sanitizer, "Memcheck", "Racecheck", "Initcheck", "Synccheck"; CUDA C++ Programming Guide,
    "Synchronization Functions".
    """
    if isinstance(tools, str):
        tools = (tools,)
    with mirrored(kernel, grid, block, args, shared, "sanitize", cluster=cluster, cooperative=cooperative) as launch:
        checked = check_launch(launch, tools=tools, seed=seed, time_limit=time_limit)
        return Report(
            launch.kernel.name,
            launch.config.grid,
            launch.config.block,
            tuple(tools),
            tuple(checked.findings),
            checked.blocks,
            tuple(checked.notes),
        )
