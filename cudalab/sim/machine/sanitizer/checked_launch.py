"""What is checked of a launch, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim import abi
from cudalab.sim.machine.launch.clusters import APART, Together, cluster_of
from cudalab.sim.machine.launch.limits import DeviceLimits
from cudalab.sim.machine.reports.faults import from_context
from cudalab.sim.machine.sanitizer.findings import Finding, Triple
from cudalab.sim.machine.sanitizer.shadow_cells import MOST_MISSES, Attached

if TYPE_CHECKING:
    from cudalab.sim.abi import Context
    from cudalab.sim.machine.launch.module import LoadedKernel


@dataclass
class Checked:
    """What the checks of one launch found."""

    findings: list[Finding] = field(default_factory=list)
    blocks: int = 0
    """Blocks that ran."""
    grid_blocks: int = 0
    notes: list[str] = field(default_factory=list)
    """What could not be checked, and why."""
    exact: bool = False
    """Was the launch looked at record by record, for a suspect or from the start?"""

    def add(self, finding: Finding) -> None:
        """Add a finding, or count one that is there already."""
        key = (finding.tool, finding.rule, finding.headline, finding.line)
        for index, known in enumerate(self.findings):
            if (known.tool, known.rule, known.headline, known.line) == key:
                self.findings[index] = replace(known, count=known.count + finding.count)
                return
        self.findings.append(finding)

    def take(self, other: Checked) -> None:
        """Add all that another run of the same launch has found."""
        for finding in other.findings:
            self.add(finding)
        for text in other.notes:
            self.note(text)
        self.blocks = other.blocks

    def note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < 8:
            self.notes.append(text)


@dataclass(frozen=True)
class Launch:
    """What is checked, and how."""

    kernel: LoadedKernel
    grid: Triple
    block: Triple
    args: bytes
    shared: int
    tools: Sequence[str]
    seed: int | None
    time_limit: float
    limits: DeviceLimits
    together: Together = APART

    @property
    def cluster(self) -> Triple:
        """Blocks of a cluster."""
        return cluster_of(self.kernel.kernel, self.together)

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    def order_of_blocks(self) -> np.ndarray:
        if self.seed is None:
            return np.arange(self.blocks, dtype=np.uint64)
        return np.random.default_rng(self.seed).permutation(self.blocks).astype(np.uint64)

    def order_of_threads(self) -> np.ndarray | None:
        if self.seed is None:
            return None
        return np.random.default_rng(self.seed).permutation(self.threads).astype(np.uint32)


def add_misses(launch: Launch, checked: Checked, context: Context, shadow: Attached) -> None:
    """Add the accesses that were skipped: each line once, with what is known of all its threads."""
    misses = shadow.misses
    if not len(misses):
        return
    keys = np.stack([misses["site"].astype(np.int64), misses["kind"].astype(np.int64)], axis=1)
    _, example, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    for number in np.argsort(example):
        own = misses[group == number]
        raw = abi.Fault.from_buffer_copy(own[0].tobytes())
        finding = from_context(context, launch.kernel, launch.grid, launch.block, launch.args, raw).finding
        who = np.unique(own["block"] * np.uint64(1024) + own["thread"])
        checked.add(
            replace(
                finding,
                count=len(own),
                threads=len(who),
                blocks=len(np.unique(who // np.uint64(1024))),
                addresses=(int(own["address"].min()), int(own["address"].max())) if finding.size else None,
            )
        )
    if shadow.lost:
        checked.note(
            f"{shadow.lost} more accesses were skipped; the first {MOST_MISSES} or so of a launch are looked at one by "
            "one"
        )
