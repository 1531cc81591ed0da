"""Count what a launch does: ``cudalab.profile(kernel, grid, block, args)``.

Sectors per request, bank conflicts, instructions and occupancy, under the names of Nsight Compute. The launch runs on
the simulated device in traced form, also on a machine with a GPU; counts that depend on addresses alone (requests,
sectors, wavefronts) are the hardware's. So that they are, shared accesses that the assembler merges into wider ones are
counted as it merged them, and the report says which. Instructions are PTX instructions, which the assembler turns into
somewhat different machine instructions. Nothing here is a time. What hits the L2 depends on earlier work, so it is
modelled (``profile.l2``)."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cudalab.analysis.l2_lookups import L2Lookups, l2_lookups
from cudalab.analysis.line_counts import LineTable, MergedAccesses, line_table, merged_accesses
from cudalab.analysis.mirror import mirrored
from cudalab.analysis.source import KernelSource, view
from cudalab.sim.compiler.machine_code.assembly import assembly
from cudalab.sim.compiler.machine_code.listing import listing
from cudalab.sim.compiler.program import Kernel, Program, Resources
from cudalab.sim.device.queue.kernel_launch import rehearsal
from cudalab.sim.machine.counters.metrics import AccessCounts, Counts, SharedCounts
from cudalab.sim.machine.counters.sampling import count_launch
from cudalab.sim.machine.launch.configuration import Dim3
from cudalab.sim.machine.launch.limits import DeviceLimits
from cudalab.sim.machine.launch.occupancy import Occupancy, kernel_occupancy
from cudalab.sim.machine.trace.requests import KeptRequests

_SECONDS = 1.0
"""Blocks that run to find out how much each does end after so long without one that has finished."""


@dataclass(frozen=True)
class Profile:
    """What `cudalab.profile` counted. The counters are attributes: ``profile.global_loads.sectors_per_request``."""

    kernel: str
    grid: Dim3
    block: Dim3
    shared: int
    """Dynamic shared memory a block, bytes."""
    counts: Counts
    occupancy: Occupancy
    lines: LineTable
    """Memory accesses by source line; shown as a table with instructions, divergence and cost of each line."""
    merged: tuple[MergedAccesses, ...]
    """Shared accesses of the PTX that the assembler made wider; the counters are those of the machine code."""
    assembled: str
    """Empty where the machine code is known; else why not, and shared accesses are counted as in the PTX."""
    resources: Resources | None
    """Registers, spills, local and shared memory, as the assembler says."""
    program: Program = field(repr=False)
    """The compiled source."""
    compiled: Kernel = field(repr=False)
    """The kernel in it."""
    limits: DeviceLimits = field(repr=False)
    """Of the device that the occupancy is for."""
    l2: L2Lookups
    """What the launch finds in the L2, by access property. Modelled: all else here is counted."""

    @property
    def exact(self) -> bool:
        """True when every block was run to its end; False when counts were scaled from some of them."""
        return self.counts.complete and self.counts.sampled == self.counts.blocks

    @property
    def global_loads(self) -> AccessCounts:
        return self.counts.global_loads

    @property
    def global_stores(self) -> AccessCounts:
        return self.counts.global_stores

    @property
    def global_atomics(self) -> AccessCounts:
        return self.counts.global_atomics

    @property
    def local_loads(self) -> AccessCounts:
        return self.counts.local_loads

    @property
    def local_stores(self) -> AccessCounts:
        return self.counts.local_stores

    @property
    def shared_loads(self) -> SharedCounts:
        return self.counts.shared_loads

    @property
    def shared_stores(self) -> SharedCounts:
        return self.counts.shared_stores

    @property
    def shared_atomics(self) -> SharedCounts:
        return self.counts.shared_atomics

    @property
    def bank_conflicts(self) -> float:
        """Extra wavefronts of shared loads and stores."""
        return self.counts.bank_conflicts

    @property
    def instructions(self) -> float:
        """PTX instructions executed by warps."""
        return self.counts.instructions

    @property
    def branch_efficiency(self) -> float:
        """Share of branches at which no warp diverged, 0 to 1."""
        return self.counts.branch_efficiency

    @property
    def thread_efficiency(self) -> float:
        """Active threads a warp instruction, over 32."""
        return self.counts.thread_efficiency

    @property
    def requests(self) -> list[KeptRequests]:
        """Some requests of a few blocks with all their addresses: what ``cudalab.plot.heat_map`` and
        ``cudalab.plot.banks`` draw."""
        return self.counts.kept

    def occupancy_curve(self, threads: Iterable[int] = range(32, 1025, 32)) -> list[Occupancy]:
        """Occupancy of this kernel with other block sizes, at the same dynamic shared memory a block."""
        return [kernel_occupancy(self.compiled, count, self.shared, self.limits) for count in threads]

    def source(self) -> KernelSource:
        """The source with its PTX and these counts: ``cudalab.source(kernel, profile=p)``."""
        return view(self.program, self.compiled.name, self.program.source, profile=self)

    @property
    def metrics(self) -> dict[str, float]:
        """The counters under Nsight Compute's names."""
        percent = 100 * self.occupancy.fraction
        return {**self.counts.metrics, "sm__maximum_warps_per_active_cycle_pct": percent}

    @property
    def summary(self) -> str:
        """One sentence."""
        parts = []
        for name, kind in (("global loads", self.global_loads), ("global stores", self.global_stores)):
            if kind.requests:
                parts.append(f"{name} take {kind.sectors_per_request:.3g} sectors per request")
        if self.shared_loads.requests or self.shared_stores.requests:
            parts.append(f"shared memory has {self.bank_conflicts:.4g} bank conflicts")
        parts.append(str(self.occupancy))
        return f"{self.kernel}: " + "; ".join(parts) + "."

    def rows(self) -> list[tuple[str, str, str]]:
        """The table: name, value, Nsight Compute's metric."""
        c = self.counts
        table: list[tuple[str, str, str]] = []
        for name, op, kind in (("Global loads", "ld", c.global_loads), ("Global stores", "st", c.global_stores)):
            if kind.requests:
                end = f"pipe_lsu_mem_global_op_{op}"
                table += [
                    (f"{name}: requests", _number(kind.requests), f"l1tex__t_requests_{end}.sum"),
                    (f"{name}: sectors", _number(kind.sectors), f"l1tex__t_sectors_{end}.sum"),
                    (
                        f"{name}: sectors per request",
                        f"{kind.sectors_per_request:.3g}",
                        f"l1tex__average_t_sectors_per_request_{end}.ratio",
                    ),
                    (f"{name}: bytes used of bytes moved", f"{min(1.0, kind.efficiency):.0%}", ""),
                ]
        if c.global_atomics.requests:
            table.append(("Global atomics: requests", _number(c.global_atomics.requests), ""))
        if c.local_loads.requests or c.local_stores.requests:
            table.append(("Local memory: sectors", _number(c.local_loads.sectors + c.local_stores.sectors), ""))
        for name, op, shared in (("Shared loads", "ld", c.shared_loads), ("Shared stores", "st", c.shared_stores)):
            if shared.requests:
                end = f"pipe_lsu_mem_shared_op_{op}.sum"
                table += [
                    (
                        f"{name}: requests",
                        _number(shared.requests),
                        f"smsp__inst_executed_op_shared_{op}.sum",
                    ),
                    (
                        f"{name}: wavefronts",
                        _number(shared.wavefronts),
                        f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum",
                    ),
                    (f"{name}: bank conflicts", _number(shared.bank_conflicts), f"l1tex__data_bank_conflicts_{end}"),
                ]
                if round(shared.requests_in_ptx) != round(shared.requests):
                    table.insert(-2, (f"{name}: in the PTX", _number(shared.requests_in_ptx), ""))
        table += [
            *self._instructions(),
            (
                "Threads active a warp instruction",
                f"{32 * c.thread_efficiency:.3g} of 32",
                "smsp__thread_inst_executed_per_inst_executed.ratio",
            ),
            (
                "Branches without divergence",
                f"{c.branch_efficiency:.0%}",
                "smsp__sass_average_branch_targets_threads_uniform.pct",
            ),
            (
                "Theoretical occupancy",
                f"{self.occupancy.fraction:.0%}, limited by {self.occupancy.limiter}",
                "sm__maximum_warps_per_active_cycle_pct",
            ),
        ]
        if self.resources is not None:
            r = self.resources
            table += [
                ("Registers a thread", str(r.registers), "launch__registers_per_thread"),
                ("Shared memory a block, bytes", f"{r.shared:,} static, {self.shared:,} dynamic", ""),
            ]
            if r.local:
                table.append(("Local memory a thread, bytes", f"{r.local:,}", ""))
            if r.spill_stores or r.spill_loads:
                table.append(("Spills, bytes", f"{r.spill_stores} stored, {r.spill_loads} loaded", ""))
        return table

    def _instructions(self) -> list[tuple[str, str, str]]:
        metric = "smsp__inst_executed.sum"
        if not self.counts.machine.known:
            return [("Warp instructions (PTX)", _number(self.counts.instructions), metric)]
        return [
            ("Warp instructions", _number(self.counts.machine.instructions), metric),
            ("Warp instructions: in the PTX", _number(self.counts.instructions), ""),
        ]

    @property
    def notes(self) -> list[str]:
        """What the assembler changed, and what is not known."""
        notes = [f"{merged}." for merged in self.merged]
        if self.assembled and (self.shared_loads.requests or self.shared_stores.requests):
            notes.append(f"Shared accesses are counted as in the PTX: {self.assembled}.")
        if not self.counts.machine.known:
            notes.append(f"Instructions are those of the PTX: {self.counts.machine.missing}.")
        elif not self.counts.machine.exact:
            notes.append(
                "Instructions are an estimate: the assembler rearranged a part of the code so much that the way of "
                "warps through it is not certain."
            )
        return notes

    def _how(self) -> str:
        c = self.counts
        how = f"counted in all {c.blocks} blocks" if self.exact else f"scaled from {c.sampled} of {c.blocks} blocks"
        if c.by_work:
            how += ", chosen and weighed by their work, because blocks differ"
        if not c.complete:
            how += "; a block was cut short, so these are estimates"
        return how

    def __repr__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _, _ in rows)
        body = "\n".join(f"  {name:<{width}}  {value}" for name, value, _ in rows)
        lines = "\n".join(
            f"  {line.place}: {line.kind}, {line.rate}   {line.place.text}".rstrip() for line in self.lines
        )
        head = f"{self.kernel}, grid {self.grid}, block {self.block} ({self._how()})"
        return "\n".join(part for part in (head, body, lines, *(f"  {note}" for note in self.notes)) if part)

    def _repr_html_(self) -> str:
        name_of = "style='text-align:left;white-space:nowrap'"
        left = "style='text-align:left;overflow-wrap:anywhere'"  # a metric's name is wider than a narrow page
        body = "".join(
            f"<tr><td {name_of}>{html.escape(name)}</td><td>{html.escape(value)}</td>"
            f"<td {left}>{f'<code>{html.escape(metric)}</code>' if metric else ''}</td></tr>"
            for name, value, metric in self.rows()
        )
        lines = "".join(
            f"<tr><td {name_of}>{html.escape(str(line.place))}</td><td>{html.escape(line.kind)}: "
            f"{html.escape(line.rate)}</td><td {left}><code>{html.escape(line.place.text)}</code></td></tr>"
            for line in self.lines
        )
        head = html.escape(f"{self.kernel}, grid {self.grid}, block {self.block} ({self._how()})")
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<div>{head}<table><tbody>{body}{lines}</tbody></table>{notes}</div>"


def _number(value: float) -> str:
    return f"{value:,.0f}"


def profile(
    kernel: Any,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    *,
    shared: int = 0,
    sample: int | None = None,
) -> Profile:
    """Count the memory requests, bank conflicts and instructions of one launch.

    The launch leaves nothing behind: what the kernel writes is taken back, nothing is printed, and no modelled time
    passes. Work that was enqueued before is finished first. On a GPU the arrays are copied to the simulator.

    Args:
        kernel: a ``RawKernel``, a function of a ``RawModule``, or what ``%%cuda`` bound.
        grid: blocks, a number or a tuple of up to three.
        block: threads a block, a number or a tuple of up to three.
        args: the kernel's arguments, as for a launch.
        shared: dynamic shared memory a block, bytes.
        sample: how many blocks to run, spread over the grid; the counts are scaled. By default all blocks of a small
            launch and some of a large one, where blocks differ much in proportion to the work of each.

    Returns:
        A :class:`Profile`. ``profile.exact`` says whether every block was counted.

    Raises:
        TypeError: arguments that do not fit the kernel's declaration.
        LaunchError: a configuration that CUDA refuses.
        MirrorError: on a GPU, an argument that cannot be copied to the simulator.

    Guide: Nsight Compute, "Metrics Decoder"; CUDA C++ Programming Guide, "Maximize Memory Throughput".
    """
    if sample is not None and sample < 1:
        raise ValueError(f"profile: sample must be at least 1 block (got {sample})")
    with mirrored(kernel, grid, block, args, shared, "profile") as launch:
        loaded, config = launch.kernel, launch.config
        counts = count_launch(launch, blocks=sample, work_of=lambda launch: rehearsal(launch, _SECONDS))
        program = loaded.module.program
        code = assembly(program, loaded.kernel)
        return Profile(
            loaded.name,
            config.grid,
            config.block,
            config.shared,
            counts,
            kernel_occupancy(loaded.kernel, config.threads_per_block, config.shared, loaded.limits),
            line_table(counts, program, code, listing(program, loaded.kernel)),
            merged_accesses(counts, program, loaded.kernel),
            code.missing,
            loaded.kernel.resources,
            program,
            loaded.kernel,
            loaded.limits,
            l2_lookups(launch),
        )
