"""Instructions of the machine code that warps executed: what Nsight Compute counts.

Where the machine code can be read, its blocks are set against the blocks of the PTX that warps ran
(``compiler.machine_code.execution``). Rare cases that traced PTX doesn't tell, like the division of a denormal number,
are left out: with such data the hardware executes more instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from cudalab.sim.abi import SiteKind
from cudalab.sim.compiler.machine_code.active_threads import Entered, active_threads
from cudalab.sim.compiler.machine_code.assembly import assembly
from cudalab.sim.compiler.machine_code.execution import Execution
from cudalab.sim.compiler.machine_code.instruction_set import Pipe
from cudalab.sim.compiler.machine_code.listing import listing
from cudalab.sim.compiler.machine_code.remembered import of_each_kernel
from cudalab.sim.compiler.machine_code.ways import Ways
from cudalab.sim.compiler.program import Kernel, Program

if TYPE_CHECKING:
    from cudalab.sim.machine.counters.block_flow import BlockFlow
    from cudalab.sim.machine.counters.metrics import Counts

_ACCESSES = {
    "global_ld": ("LDG",), "global_st": ("STG",), "global_atom": ("ATOMG",), "global_red": ("REDG",),
    "shared_ld": ("LDS", "LDSM"), "shared_st": ("STS",), "shared_atom": ("ATOMS",),
    "local_ld": ("LDL",), "local_st": ("STL",),
}  # fmt: skip


class MachineCounts(Struct, frozen=True):
    """Machine instructions that the warps of a launch executed."""

    blocks: tuple[float, ...] = ()
    """How often warps executed each basic block of the machine code (``Assembly.blocks``)."""
    by_name: Mapping[str, float] = field(default_factory=dict)
    """Instructions by operation: ``LDG``, ``FFMA`` …"""
    by_pipe: Mapping[Pipe, float] = field(default_factory=dict)
    """Instructions by the pipe that executes them."""
    thread_instructions: float = 0.0
    """Instructions times the threads active at each."""
    missing: str = ""
    """Why they are not known; empty where they are."""
    exact: bool = True
    """Whether they are counted; otherwise the way through the machine code is guessed in parts."""

    @property
    def known(self) -> bool:
        return not self.missing

    @property
    def instructions(self) -> float:
        return sum(self.by_name.values())

    @property
    def metrics(self) -> dict[str, float]:
        """Under Nsight Compute's names; nothing where they are not known."""
        if not self.known:
            return {}
        out = {
            "smsp__inst_executed.sum": self.instructions,
            "smsp__thread_inst_executed.sum": self.thread_instructions,
        }
        for access, names in _ACCESSES.items():
            out[f"smsp__inst_executed_op_{access}.sum"] = sum(self.by_name.get(name, 0.0) for name in names)
        return out


def machine_counts(program: Program, kernel: Kernel, counts: Counts) -> MachineCounts:
    """The machine instructions behind counts that hold the ways of warps. Never raises: ``missing`` says what was not
    to be found out."""
    code = assembly(program, kernel)
    if not code.known:
        return MachineCounts(missing=code.missing)
    execution = execution_of(program, kernel)
    found = execution.counts(ways(counts.visits, counts.flow))
    if not found.consistent:
        return MachineCounts(missing="the way through the machine code is not told by that through the PTX")
    by_name: dict[str, float] = {}
    by_pipe: dict[Pipe, float] = {}
    blocks = tuple(_whole(times) for times in found.blocks)
    for block, times in zip(code.blocks, blocks, strict=True):
        for each in code.instructions[block.first : block.end]:
            by_name[each.name] = by_name.get(each.name, 0.0) + times
            by_pipe[each.pipe] = by_pipe.get(each.pipe, 0.0) + times
    entered = {site: Entered(each.visits, each.threads) for site, each in counts.blocks_entered.items()}
    threads = active_threads(execution, blocks, entered)
    total = sum(count * (block.end - block.first) for block, count in zip(code.blocks, threads, strict=True))
    return MachineCounts(blocks, by_name, by_pipe, _whole(total), exact=found.exact)


def _whole(times: float) -> float:
    """What is whole but for the rounding of scaled sums, as a whole number."""
    return float(round(times)) if abs(times - round(times)) < 1e-9 * times else times


def ways(visits: Mapping[int, float], flow: BlockFlow) -> Ways:
    """What warps did, as ``Execution`` wants it."""
    return Ways(visits, flow.edges, flow.rounds)


@of_each_kernel()
def execution_of(program: Program, kernel: Kernel) -> Execution:
    """The machine code of a kernel, set against its PTX."""
    slow_ways: dict[int, list[int]] = {}
    for index, site in enumerate(kernel.sites):
        if site.kind == SiteKind.SLOW_WAY:
            slow_ways.setdefault(site.ptx_line, []).append(index)
    return Execution(assembly(program, kernel), listing(program, kernel), kernel.timed, slow_ways)
