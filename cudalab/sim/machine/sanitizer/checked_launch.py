"""A launch to check, and the result of the checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from cudalab.sim import abi
from cudalab.sim.arrays import unique_values
from cudalab.sim.machine.reports import notes
from cudalab.sim.machine.reports.faults import from_context
from cudalab.sim.machine.reports.finding import Finding
from cudalab.sim.machine.shadow_memory.shadow_cells import MOST_SKIPPED, AttachedCells

if TYPE_CHECKING:
    from cudalab.sim.abi import Context
    from cudalab.sim.machine.launch.configuration import LaunchConfig
    from cudalab.sim.machine.launch.module import Launch, LoadedKernel


@dataclass
class SanitizerResult:
    """The findings of the checks of one launch."""

    findings: list[Finding] = field(default_factory=list)
    blocks: int = 0
    """Blocks that ran."""
    notes: list[str] = field(default_factory=list)
    """What could not be checked, and why."""
    exact: bool = False
    """Was the trace of the launch checked, for a suspect or from the start?"""

    def add(self, finding: Finding) -> None:
        """Add a finding, or count it where an equal one is there already."""
        key = (finding.tool, finding.rule, finding.headline, finding.line)
        for index, known in enumerate(self.findings):
            if (known.tool, known.rule, known.headline, known.line) == key:
                self.findings[index] = replace(known, count=known.count + finding.count)
                return
        self.findings.append(finding)

    def merge(self, other: SanitizerResult) -> None:
        """Add the findings of another run of the same launch."""
        for finding in other.findings:
            self.add(finding)
        for text in other.notes:
            self.note(text)
        self.blocks = other.blocks

    def note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < 8:
            self.notes.append(text)


@dataclass(frozen=True)
class CheckedLaunch:
    """A launch, and how to check it."""

    launch: Launch
    tools: Sequence[str]
    seed: int | None
    time_limit: float
    weak: Sequence[tuple[int, int]] = ()
    """Memory, from an address up to another, whose accesses count as weak, volatile and atomic ones too: what is
    in it has to be handed over in order."""

    @property
    def kernel(self) -> LoadedKernel:
        return self.launch.kernel

    @property
    def config(self) -> LaunchConfig:
        return self.launch.config

    @property
    def blocks(self) -> int:
        return self.config.blocks

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.config.threads_per_block

    def block_order(self) -> np.ndarray:
        if self.seed is None:
            return np.arange(self.blocks, dtype=np.uint64)
        return np.random.default_rng(self.seed).permutation(self.blocks).astype(np.uint64)

    def thread_order(self) -> np.ndarray | None:
        if self.seed is None:
            return None
        return np.random.default_rng(self.seed).permutation(self.threads).astype(np.uint32)


_TOOLS = {abi.FaultKind.BAD_BARRIER: "synccheck"}
"""The tool that reports what was skipped, where it is not memcheck."""


def add_skipped_accesses(
    launch: CheckedLaunch, result: SanitizerResult, context: Context, shadow: AttachedCells
) -> None:
    """Add the invalid accesses that were skipped, and the operations on barrier objects that had no effect: one finding
    for each site, which counts threads and blocks."""
    skipped = shadow.skipped
    if not len(skipped):
        return
    keys = np.stack([skipped["site"].astype(np.int64), skipped["kind"].astype(np.int64)], axis=1)
    _, example, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    for number in np.argsort(example):
        own = skipped[group == number]
        raw = abi.Fault.from_buffer_copy(own[0].tobytes())
        tool = _TOOLS.get(raw.kind, "memcheck")
        if tool not in launch.tools:
            continue
        finding = replace(from_context(context, launch.launch, raw).finding, tool=tool)
        threads = unique_values(own["block"] * np.uint64(1024) + own["thread"])
        result.add(
            replace(
                finding,
                count=len(own),
                threads=len(threads),
                blocks=len(unique_values(threads // np.uint64(1024))),
                addresses=(int(own["address"].min()), int(own["address"].max())) if finding.size else None,
            )
        )
    if shadow.lost:
        result.note(notes.accesses_lost(shadow.lost, MOST_SKIPPED))
