"""A warp's path through the machine code of a kernel, as the simulation of an SM executes it.

Each instruction keeps what its control field says (stall cycles, scoreboards taken and waited for), its pipe, and what
the sample counted for the access that it makes: wavefronts in the load/store unit. The path is a list of steps: runs of
instructions, and loops with their iterations, nested. Routines that the assembler adds (division, square root) stand
where they are called.

What is simplified: loops are those whose blocks stand together in the code, and a block that only some visits execute
is executed in its share of them, evenly spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cudalab.sim.abi import WARP
from cudalab.sim.compiler.machine_code.assembly import Assembly
from cudalab.sim.compiler.machine_code.control_flow import MachineBlock
from cudalab.sim.compiler.machine_code.instruction import MachineInstruction
from cudalab.sim.compiler.machine_code.instruction_set import Pipe
from cudalab.sim.machine.counters.metrics import Counts, SiteCounts

_ALMOST_NEVER = 1e-6


@dataclass(frozen=True)
class PathInstruction:
    """One machine instruction of the path."""

    pipe: Pipe
    latency: str
    """What its result waits for: ``fixed`` (its stall cycles), ``constant``, ``register``, ``special``, ``convert``,
    ``double``, ``shuffle``, ``shared``, ``local``, ``load``, ``store``, ``atomic``, ``shared_atomic``, ``barrier``."""
    stall: int
    write_barrier: int
    read_barrier: int
    waits: int
    wavefronts: float = 0.0
    """In the load/store unit."""
    wide: bool = False
    """Whether it is a product of 64 bits, which takes the pipe twice as long."""


@dataclass(frozen=True)
class Run:
    """Instructions ``first`` to ``end``, executed in a ``share`` of the visits."""

    first: int
    end: int
    share: float


@dataclass(frozen=True)
class Loop:
    """Steps that are repeated."""

    iterations: float
    body: tuple[Run | Loop, ...]


@dataclass(frozen=True, eq=False)
class MachinePath:
    """What the warps of a block execute."""

    instructions: tuple[PathInstruction, ...]
    steps: tuple[Run | Loop, ...]
    """Of the warp that executes most."""
    others: tuple[Run | Loop, ...]
    """Of each of the others, on average."""

    def issues(self, warps: int) -> float:
        """Instructions that a block of so many warps issues."""
        return _issues(self.steps) + (warps - 1) * _issues(self.others)


def _issues(steps: Sequence[Run | Loop]) -> float:
    return sum(
        (step.end - step.first) * step.share if isinstance(step, Run) else step.iterations * _issues(step.body)
        for step in steps
    )


def machine_path(
    code: Assembly, longest: Mapping[int, float], average: Mapping[int, float], counts: Counts
) -> MachinePath:
    """The paths of a block's warps. ``longest`` and ``average``: how often the warp that executes most, and a warp on
    average over the grid, execute each block of the machine code."""
    warps = math.ceil(counts.threads / WARP)
    others = {
        index: max(0.0, (warps * times - longest.get(index, 0.0)) / max(1, warps - 1))
        for index, times in average.items()
    }
    by_line: dict[int, SiteCounts] = {}
    for entry in counts.sites:
        by_line.setdefault(entry.site.ptx_line, entry)
    executions = counts.blocks * warps
    instructions = []
    for index, block in enumerate(code.blocks):
        times = average.get(index, 0.0) * executions
        instructions += [
            _timed(each, by_line.get(each.ptx_line), times) for each in code.instructions[block.first : block.end]
        ]
    end = _end_of_kernel(code)
    paths = [tuple(_Steps(code, visits).between(0, end, 1.0, _OUTSIDE)) for visits in (longest, others)]
    return MachinePath(tuple(instructions), paths[0], paths[1])


_OUTSIDE = (-1, -1)


def _end_of_kernel(code: Assembly) -> int:
    """Routines stand behind the kernel."""
    return min(code.routines.values(), default=len(code.blocks))


class _Steps:
    """Puts blocks and their visits into nested loops."""

    def __init__(self, code: Assembly, visits: Mapping[int, float]) -> None:
        self._blocks: tuple[MachineBlock, ...] = code.blocks
        self._routines = sorted(code.routines.values())
        self._visits = visits
        self._loops = sorted(
            {
                (block.target, index)
                for index, block in enumerate(code.blocks)
                if 0 <= block.target <= index and visits.get(index, 0.0) > 0.0
            },
            key=lambda loop: (loop[0], -loop[1]),
        )

    def between(self, first: int, end: int, entered: float, inside: tuple[int, int]) -> list[Run | Loop]:
        """The steps of blocks ``first`` to ``end`` in a part of the code that was entered so many times; ``inside`` is
        the loop that they are the body of."""
        found: list[Run | Loop] = []
        index = first
        while index < end:
            loop = next((each for each in self._loops if each[0] == index and each[1] < end and each != inside), None)
            if loop is not None:
                rounds = max(self._visits.get(loop[0], 0.0), self._visits.get(loop[1], 0.0))
                body = self.between(loop[0], loop[1] + 1, rounds, loop)
                found.append(Loop(max(_ALMOST_NEVER, rounds / entered), tuple(body)))
                index = loop[1] + 1
                continue
            found += self._once(index, entered)
            index += 1
        return found

    def _once(self, index: int, entered: float) -> list[Run | Loop]:
        times = self._visits.get(index, 0.0) / entered if entered else 0.0
        if times <= 0.0:
            return []
        block = self._blocks[index]
        found: list[Run | Loop] = [Run(block.first, block.end, min(1.0, times))]
        if block.calls >= 0:
            called = self._routine(block.calls)
            found += called if times >= 1.0 else [Loop(times, tuple(called))]
        return found if times <= 1.0 else [Loop(times, tuple(found))]

    def _routine(self, start: int) -> list[Run | Loop]:
        calls = self._visits.get(start, 0.0)
        if not calls:
            return []
        end = next((other for other in self._routines if other > start), len(self._blocks))
        return self.between(start, end, calls, _OUTSIDE)


_LATENCIES = {
    "LDC": "constant", "S2R": "register", "S2UR": "register", "SHFL": "shuffle", "LDS": "shared", "LDSM": "shared",
    "LDL": "local", "LDG": "load", "LD": "load", "STG": "store", "ST": "store", "STL": "store", "REDG": "store",
    "ATOMG": "atomic", "ATOM": "atomic", "ATOMS": "shared_atomic", "BAR": "barrier", "MUFU": "special",
}  # fmt: skip
_BRANCHES = frozenset(("BRA", "BRX", "BSSY", "BSYNC", "BREAK", "CALL", "RET", "EXIT", "WARPSYNC"))
"""They occupy the branch unit; Nsight Compute counts most of them to no pipe."""
_OF_PIPES = {Pipe.XU: "convert", Pipe.FP64: "double"}
_SHUFFLED = 2.0
"""Wavefronts of a shuffle: half a warp each."""


def _timed(each: MachineInstruction, entry: SiteCounts | None, times: float) -> PathInstruction:
    control = each.control
    return PathInstruction(
        Pipe.CBU if each.name in _BRANCHES else each.pipe,
        _LATENCIES.get(each.name) or _OF_PIPES.get(each.pipe, "fixed"),
        max(1, control.stall),
        control.write_barrier,
        control.read_barrier,
        control.waits,
        _wavefronts(each, entry, times) if each.pipe is Pipe.LSU else 0.0,
        each.pipe is Pipe.FMA_HEAVY and len(each.writes) > 1 and each.writes[1] == each.writes[0] + 1,
    )


def _wavefronts(each: MachineInstruction, entry: SiteCounts | None, times: float) -> float:
    """Wavefronts of one execution. A predicated instruction that all lanes of a warp skip has none."""
    if each.name == "SHFL":
        return _SHUFFLED
    if entry is None or not entry.requests:
        return 1.0
    total = max(entry.requests, entry.wavefronts or entry.turns)
    return total / max(entry.requests, times if each.guarded else 0.0)
