"""What nobody counted of a launch, in words."""

from __future__ import annotations

from cudalab.sim.compiler.program import Rounds
from cudalab.sim.machine.counters.metrics import Counts
from cudalab.sim.machine.launch.block_work import BlockWork
from cudalab.sim.machine.launch.module import Launch


def sentence(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def extrapolated(launch: Launch, work: BlockWork | None, counts: Counts) -> str:
    """What nobody counted of a launch, as a sentence. A trace of which not all was kept says what the rest costs; how
    often that ran is known where the launch has counted its work."""
    part = "extrapolated from the first part of a block"
    if counts.stopped and work is not None:
        part = f"{part} by the work of its loops"
    blocks = launch.config.blocks
    varies = launch.kernel.kernel.rounds in (Rounds.INDEX, Rounds.DATA)
    if work is not None and work.whole:
        return part if counts.stopped else ""
    if work is not None and (varies or not work.even):
        return f"extrapolated from {len(work.ran)} of {blocks} blocks" if work.ran is not None else ""
    if work is None and blocks > 1 and varies:
        return f"extrapolated from one of {blocks} blocks"
    return "" if counts.complete else part
