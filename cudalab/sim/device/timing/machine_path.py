"""A warp's path through the machine code of a kernel, as the simulation of an SM executes it.

Each instruction keeps what its control field says (stall cycles, scoreboards taken and waited for), its pipe, and what
the sample counted for the access that it makes: wavefronts in the load/store unit. The path is a list of steps: runs of
instructions, and loops with their iterations, nested. Routines that the assembler adds (division, square root) stand
where they are called.

What is simplified: warps that meet at a barrier of some of a block's warps wait for all; loops are those whose blocks
stand together in the code, and a block that only some visits execute is executed in its share of them, evenly spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cudalab.sim.abi import WARP, SiteKind
from cudalab.sim.compiler.machine_code.assembly import Assembly
from cudalab.sim.compiler.machine_code.control_flow import MachineBlock
from cudalab.sim.compiler.machine_code.execution import OWN_ROUTINE
from cudalab.sim.compiler.machine_code.instruction import MachineInstruction
from cudalab.sim.compiler.machine_code.instruction_set import Pipe
from cudalab.sim.machine.counters.metrics import Counts, SiteCounts

_ALMOST_NEVER = 1e-6
_EQUAL = 1e-9
_TWO = 2.0
_NEARLY_ALL = 0.9


class PathInstruction(Struct, frozen=True):
    """One machine instruction of the path."""

    pipe: Pipe
    latency: str
    """What its result waits for: ``fixed`` (its stall cycles), ``constant``, ``register``, ``special``, ``convert``,
    ``double``, ``shuffle``, ``shared``, ``local``, ``load`` (in the L1), ``store``, ``atomic``, ``shared_atomic``,
    ``barrier``, ``converge``; ``copy`` for one that goes on behind it, ``commit`` and ``await_copies`` for what makes
    groups of these and waits for them."""
    stall: int
    write_barrier: int
    read_barrier: int
    waits: int
    wavefronts: float = 0.0
    """In the load/store unit."""
    turns: float = 1.0
    """How often it takes its pipe: a product of 64 bits twice."""
    slots: float = 1.0
    """Cycles for which its scheduler issues nothing else: several of such a product."""
    missing: float = 0.0
    """Of loads from global memory: the share of executions that miss the L1, 0 to 1."""
    sectors: float = 0.0
    """32-byte sectors that one execution exchanges with the L2,"""
    lines: float = 0.0
    """and 128-byte lines that it names for that."""
    atomics: float = 0.0
    """Of those, sectors of atomic operations on global memory."""
    groups_left: int = 0
    """Of what waits for copies: groups of them that may still be under way."""


class Run(Struct, frozen=True):
    """Instructions ``first`` to ``end``, executed in a ``share`` of the visits."""

    first: int
    end: int
    share: float


class Loop(Struct, frozen=True):
    """Steps that are repeated."""

    iterations: float
    body: tuple[Run | Loop, ...]


class MachinePath(Struct, frozen=True, eq=False):
    """What the warps of a block execute."""

    instructions: tuple[PathInstruction, ...]
    steps: tuple[Run | Loop, ...]
    """Of the warp that executes most."""
    others: tuple[Run | Loop, ...]
    """Of each of the others, on average."""

    def with_misses(self, share: float) -> MachinePath:
        """The same where only this share of the misses is left: blocks of one SM load in common."""
        found = tuple(
            replace(each, missing=each.missing * share, sectors=each.sectors * share, lines=each.lines * share)
            if each.missing
            else each
            for each in self.instructions
        )
        return replace(self, instructions=found)

    def one_round(self) -> tuple[MachinePath, float]:
        """The same with one round of the loop around nearly all of it that holds other loops, and how many rounds that
        has; 1 where there is no such loop."""
        places = [_around_all(each) for each in (self.steps, self.others)]
        if min(places) < 0:
            return self, 1.0
        loops = [each[place] for each, place in zip((self.steps, self.others), places, strict=True)]
        rounds = max(1.0, *(each.iterations for each in loops if isinstance(each, Loop)))
        found = [
            (*each[:place], replace(loop, iterations=loop.iterations / rounds), *each[place + 1 :])
            for each, place, loop in zip((self.steps, self.others), places, loops, strict=True)
            if isinstance(loop, Loop)
        ]
        return replace(self, steps=found[0], others=found[1]), rounds

    def in_whole_rounds(self) -> tuple[MachinePath, float]:
        """The same where a loop around all of it has a whole number of rounds, and what times those are its own."""
        loop = self.steps[0] if len(self.steps) == 1 else None
        if not isinstance(loop, Loop) or loop.iterations < _TWO:
            return self, 1.0
        times = loop.iterations / round(loop.iterations)
        found = [
            tuple(
                replace(each, iterations=each.iterations / times) if isinstance(each, Loop) else each for each in steps
            )
            for steps in (self.steps, self.others)
        ]
        return replace(self, steps=found[0], others=found[1]), times

    def in_two_lengths(self, factor: float) -> tuple[MachinePath, MachinePath]:
        """The same with about so many times fewer rounds of its loops, and with half as many again: what else there is
        stays the same in both."""
        pairs = [_in_two_lengths(each, factor) for each in (self.steps, self.others)]
        few, fewer = zip(*pairs, strict=True)
        return replace(self, steps=few[0], others=few[1]), replace(self, steps=fewer[0], others=fewer[1])

    def issues(self, warps: int) -> float:
        """Instructions that a block of so many warps issues."""
        return _issues(self.steps) + (warps - 1) * _issues(self.others)


def _around_all(steps: Sequence[Run | Loop]) -> int:
    """The index of the loop with loops in it that nearly all instructions are in; -1: there is none."""
    whole = _issues(steps)
    for index, step in enumerate(steps):
        outer = isinstance(step, Loop) and any(isinstance(each, Loop) for each in step.body)
        if outer and _issues((step,)) >= _NEARLY_ALL * whole:
            return index
    return -1


def _in_two_lengths(
    steps: Sequence[Run | Loop], factor: float
) -> tuple[tuple[Run | Loop, ...], tuple[Run | Loop, ...]]:
    """Loops that together make up no more than what is to be left stay as they are, and leave less to the others."""
    whole, kept = _issues(steps), set()
    left = whole / factor
    same = _issues([each for each in steps if isinstance(each, Run)])
    for index in sorted(range(len(steps)), key=lambda index: _issues(steps[index : index + 1])):
        step = steps[index]
        if isinstance(step, Loop) and same + _issues((step,)) <= left:
            same += _issues((step,))
            kept.add(index)
    if whole > same:
        factor = (whole - same) / max(left - same, left / _TWO)
    pairs = [
        (step, step) if isinstance(step, Run) or index in kept else _loop_in_two_lengths(step, factor)
        for index, step in enumerate(steps)
    ]
    return tuple(few for few, _ in pairs), tuple(fewer for _, fewer in pairs)


def _loop_in_two_lengths(loop: Loop, factor: float) -> tuple[Loop, Loop]:
    """With fewer rounds where there are enough of them; otherwise the loops inside are shortened, or it has two rounds
    and one."""
    half = float(round(loop.iterations / factor / _TWO))
    if half >= 1.0:
        return Loop(_TWO * half, loop.body), Loop(half, loop.body)
    few, fewer = _in_two_lengths(loop.body, factor)
    short = loop.iterations * _issues(few) <= _TWO * _issues((loop,)) / factor
    if short or loop.iterations < _TWO:
        return Loop(loop.iterations, few), Loop(loop.iterations, fewer)
    left = factor * _TWO / loop.iterations
    body = _in_two_lengths(loop.body, left)[0] if left > 1.0 else loop.body
    return Loop(_TWO, body), Loop(1.0, body)


def _issues(steps: Sequence[Run | Loop]) -> float:
    return sum(
        (step.end - step.first) * step.share if isinstance(step, Run) else step.iterations * _issues(step.body)
        for step in steps
    )


def machine_path(
    code: Assembly, longest: Sequence[float] | None, executed: Sequence[float], counts: Counts
) -> MachinePath:
    """The paths of a block's warps. ``longest`` and ``executed``: how often the warp that executes most, and all warps
    of the grid, execute each block of the machine code; without ``longest`` all warps execute the average."""
    warps = math.ceil(counts.threads / WARP)
    average = [times / (counts.blocks * warps) for times in executed]
    longest = longest or average
    others = [
        max(0.0, (times / counts.blocks - most) / max(1, warps - 1))
        for times, most in zip(executed, longest, strict=True)
    ]
    if any(abs(others[index] - longest[index]) > _EQUAL * longest[index] for index in _barriers(code)):
        # blocks of the grid differ in their rounds: warps of one block must meet at its barriers
        longest = others = average
    by_line: dict[int, SiteCounts] = {}
    for entry in counts.sites:
        by_line.setdefault(entry.site.ptx_line, entry)
    in_all = [times for block, times in zip(code.blocks, executed, strict=True) for _ in range(block.first, block.end)]
    of_line: dict[int, float] = {}
    for each, times in zip(code.instructions, in_all, strict=True):
        if each.name in _TO_L2:
            of_line[each.ptx_line] = of_line.get(each.ptx_line, 0.0) + times
    instructions = [
        _timed(each, by_line.get(each.ptx_line), times, of_line.get(each.ptx_line, 0.0))
        for each, times in zip(code.instructions, in_all, strict=True)
    ]
    for index, (cycles, slots) in _slow_ways(code).items():
        instructions[index] = replace(instructions[index], stall=cycles - slots, slots=float(slots))
    paths = [_path(_Steps(code, visits), code, visits[0]) for visits in (longest, others)]
    return MachinePath(tuple(instructions), paths[0], paths[1])


def _slow_ways(code: Assembly) -> dict[int, tuple[int, int]]:
    """Calls of routines for the slow ways of operations, each with what that takes."""
    of_block = {start: name for name, start in code.routines.items() if name.startswith(OWN_ROUTINE)}
    found = {}
    for block in code.blocks:
        name = of_block.get(block.calls, "")
        costs = next((costs for part, costs in _SLOW_ROUTINES.items() if part in name), None)
        if costs is not None:
            found[block.end - 1] = costs
    return found


def _path(steps: _Steps, code: Assembly, begun: float) -> tuple[Run | Loop, ...]:
    """The steps of a warp. Of a block whose trace was cut short the kernel is entered more than once, in place of what
    is missing. That is more rounds of the loop that holds most, in place of what the assembler made of the same lines
    elsewhere, too: the rest of an unrolled loop. What else stands outside is executed once."""
    times = max(1.0, begun)
    found = tuple(steps.between(0, _end_of_kernel(code), times, _OUTSIDE))
    if times <= 1.0 + _EQUAL:
        return found
    loops = [index for index, step in enumerate(found) if isinstance(step, Loop)]
    place = max(loops, key=lambda index: _issues((found[index],)), default=-1)
    longest = found[place] if loops else None
    if not isinstance(longest, Loop):
        return (Loop(times, found),)
    lines = {code.instructions[index].ptx_line for run in _runs(longest.body) for index in range(run.first, run.end)}
    around = [run for step in found[:place] + found[place + 1 :] for run in _runs((step,))]
    elsewhere = sum(
        run.share * sum(each.ptx_line in lines for each in code.instructions[run.first : run.end]) for run in around
    )
    rounds = times * longest.iterations + (times - 1.0) * elsewhere / _issues(longest.body)
    rounds = float(round(rounds)) if rounds >= _TWO else rounds  # the simulation of one visit has whole ones
    return (*found[:place], replace(longest, iterations=rounds), *found[place + 1 :])


def _runs(steps: Sequence[Run | Loop]) -> Iterator[Run]:
    """All runs, each with how often it is executed as its share."""
    for step in steps:
        if isinstance(step, Run):
            yield step
        else:
            yield from (replace(run, share=step.iterations * run.share) for run in _runs(step.body))


_OUTSIDE = (-1, -1)
_SLOW_ROUTINES = {
    "div_rn_f64": (302, 76), "dblrcp_rn": (219, 50), "dsqrt_rn_f64": (145, 18),
    "div_rn": (212, 40), "rcp_rn": (163, 26), "sqrt_rn": (80, 9),
}  # fmt: skip
"""What the assembler's routines for the slow way take beyond the fast one, by parts of their names: cycles of a warp,
and of these its scheduler's, as an H200's divisions and roots of 0 say with one warp and with full SMs
(docs/evidence/2026-11-23-slow-ways.md). Denormal numbers take up to twice as long."""


def _barriers(code: Assembly) -> list[int]:
    """Blocks of the code with a barrier."""
    return [
        index
        for index, block in enumerate(code.blocks)
        if any(each.name == "BAR" for each in code.instructions[block.first : block.end])
    ]


def _end_of_kernel(code: Assembly) -> int:
    """Routines stand behind the kernel."""
    return min(code.routines.values(), default=len(code.blocks))


class _Steps:
    """Puts blocks and their visits into nested loops."""

    def __init__(self, code: Assembly, visits: Sequence[float]) -> None:
        self._blocks: tuple[MachineBlock, ...] = code.blocks
        self._routines = sorted(code.routines.values())
        self._visits = visits
        self._loops = sorted(
            {
                (block.target, index)
                for index, block in enumerate(code.blocks)
                if 0 <= block.target <= index and visits[index] > 0.0
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
                rounds = max(self._visits[loop[0]], self._visits[loop[1]])
                body = self.between(loop[0], loop[1] + 1, rounds, loop)
                found.append(Loop(max(_ALMOST_NEVER, rounds / entered), tuple(body)))
                index = loop[1] + 1
                continue
            found += self._once(index, entered)
            index += 1
        return found

    def _once(self, index: int, entered: float) -> list[Run | Loop]:
        times = self._visits[index] / entered if entered else 0.0
        if times <= 0.0:
            return []
        block = self._blocks[index]
        found: list[Run | Loop] = [Run(block.first, block.end, min(1.0, times))]
        if block.calls >= 0:
            called = self._routine(block.calls)
            found += called if times >= 1.0 else [Loop(times, tuple(called))]
        return found if times <= 1.0 else [Loop(times, tuple(found))]

    def _routine(self, start: int) -> list[Run | Loop]:
        calls = self._visits[start]
        if not calls:
            return []
        end = next((other for other in self._routines if other > start), len(self._blocks))
        return self.between(start, end, calls, _OUTSIDE)


_LATENCIES = {
    "LDC": "constant", "S2R": "register", "S2UR": "register", "SHFL": "shuffle", "LDS": "shared", "LDSM": "shared",
    "LDL": "local", "LDG": "load", "LD": "load", "STG": "store", "ST": "store", "STL": "store", "REDG": "store",
    "ATOMG": "atomic", "ATOM": "atomic", "ATOMS": "shared_atomic", "BAR": "barrier", "MUFU": "special",
    "BSYNC": "converge", "LDGSTS": "copy", "LDGDEPBAR": "commit", "DEPBAR": "await_copies",
}  # fmt: skip
_BRANCHES = frozenset(("BRA", "BRX", "BSSY", "BSYNC", "BREAK", "CALL", "RET", "EXIT", "WARPSYNC"))
"""They occupy the branch unit; Nsight Compute counts most of them to no pipe."""
_LONG_PRODUCTS = {0x25: 3.0, 0x27: 4.0}
"""Cycles for which products hold their scheduler, by opcode: those that keep all 64 bits, or the upper half."""
_DOUBLE = 2.0
"""The same of an operation on doubles: within its stall cycles, but no other warp issues either. Divisions and roots of
doubles on full SMs say so, in which other instructions stand between (microbenchmarks ``div_f64 full``, ``sqrt_f64
full``)."""
_TO_L2 = frozenset(("LDG", "LD", "STG", "ST", "REDG", "ATOMG", "ATOM", "LDGSTS"))
_ATOMICS = frozenset(("REDG", "ATOMG", "ATOM"))
_SECOND_LINE, _FURTHER_LINE = 0.29, 0.21
"""Wavefronts of an access to global memory that goes over more than one line, and more for each line beyond the first
(microbenchmarks ``halo read 16``, ``across stride 9`` to ``33``)."""
_OF_PIPES = {Pipe.XU: "convert", Pipe.FP64: "double"}


def _timed(each: MachineInstruction, entry: SiteCounts | None, times: float, of_line: float) -> PathInstruction:
    """``times``: how often it executes; ``of_line``: with all others that were made of the same PTX instruction."""
    control, memory, atomics = each.control, (0.0, 0.0, 0.0), 0.0
    product = each.name == "IMAD" and each.words[0] & 0x1FF in _LONG_PRODUCTS
    slots = _LONG_PRODUCTS[each.words[0] & 0x1FF] if product else _DOUBLE if each.pipe is Pipe.FP64 else 1.0
    if entry is not None and each.name in _TO_L2:
        asked = (entry.missing, entry.sectors_missing, entry.lines_missing)
        if entry.site.kind != SiteKind.LOAD:
            asked = (0.0, entry.sectors - entry.sectors_joined, entry.lines)
        executions = max(entry.requests, times if each.guarded else 0.0)
        if entry.site.kind == SiteKind.LOAD and not each.guarded:  # moved out of a loop, it loads once for many rounds
            executions = min(executions, max(of_line, asked[0], 1.0))
        memory = (asked[0] / executions, asked[1] / executions, asked[2] / executions)
        atomics = entry.sectors / executions if each.name in _ATOMICS else 0.0
    return PathInstruction(
        Pipe.CBU if each.name in _BRANCHES else each.pipe,
        _LATENCIES.get(each.name) or _OF_PIPES.get(each.pipe, "fixed"),
        max(1, control.stall - (0 if product else round(slots) - 1)),
        control.write_barrier,
        control.read_barrier,
        control.waits,
        _wavefronts(each, entry, times) if each.pipe is Pipe.LSU else 0.0,
        2.0 if product else 1.0,
        slots,
        *memory,
        groups_left=each.copies_left,
        atomics=atomics,
    )


def _wavefronts(each: MachineInstruction, entry: SiteCounts | None, times: float) -> float:
    """Wavefronts of one execution. A predicated instruction that all lanes of a warp skip has none."""
    if entry is None or not entry.requests:
        return 1.0
    total = max(entry.requests, entry.wavefronts or entry.turns)
    if each.name in _TO_L2:
        further = entry.lines / entry.requests - 1.0
        total = max(total, entry.requests * (1.0 + _SECOND_LINE * min(1.0, further) + _FURTHER_LINE * further))
    return total / max(entry.requests, times if each.guarded else 0.0)
