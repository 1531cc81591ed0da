"""How long one warp needs for its way through a kernel, with nobody else in the way.

A warp's instructions start in order, each when its operands are there; the assembler has put loads as far ahead as
their addresses and stores before them allow. Loops are played until a round takes as long as the one before, and then
multiplied. A block that is run in some rounds only counts for its share of them.

What is simplified: a warp that has parted runs the ways of its lanes one after the other, each block once a visit. A
learner would notice where hardware runs parted lanes in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cudalab.sim.device.instructions import Block, Code, Instruction
from cudalab.sim.device.pipes import CLASSES


@dataclass(frozen=True)
class Path:
    """The way of the longest warp through a kernel's code."""

    code: Code
    visits: Mapping[int, float]
    """How often it ran each block."""

    def cycles(self, latency: Callable[[str], float], branch: float) -> tuple[float, float]:
        """Cycles from the warp's first instruction to its last, with nobody else in the way; and how many more until
        everything that it started has come to its end. ``latency`` is that of a class, ``branch`` what a branch costs
        whose target is not the next instruction."""
        walk = _Walk(self, latency, branch)
        walk.run(0, len(self.code.blocks), 1.0, 0)
        return walk.now, max(0.0, max(walk.ready.values(), default=0.0) - walk.now)


class _Walk:
    """Plays a warp's instructions: each starts when its operands are there and what stands before it has begun."""

    def __init__(self, path: Path, latency: Callable[[str], float], branch: float) -> None:
        self._blocks, self._loops = path.code.blocks, path.code.loops
        self._visits = [path.visits.get(block.site, 0.0) for block in self._blocks]
        self._latency = {kind: latency(kind) for kind in CLASSES}
        self._branch = branch
        self.now = 0.0
        self.ready: dict[str, float] = {}
        self._tick = 0.0
        self._stores: dict[tuple[str, str], float] = {}
        """When the last store through each register began; loads do not pass stores that may be to the same word."""

    def _stored(self, load: Instruction) -> float:
        base = load.address[0] if load.address else ""
        here = load.kind == "shared_load"
        return max(
            (
                time
                for (register, space), time in self._stores.items()
                if register != base and space in ("all", "shared" if here else "global")
            ),
            default=0.0,
        )

    def _note_store(self, store: Instruction, begin: float) -> None:
        if store.kind in ("barrier", "cluster_barrier", "fence"):
            self._stores[("", "all")] = begin
            return
        base = store.address[0] if store.address else ""
        self._stores[(base, "shared" if store.kind.startswith("shared") else "global")] = begin

    def run(self, first: int, end: int, entered: float, depth: int) -> None:
        """Blocks ``first`` to ``end``, in a part of the code that was entered so many times in all."""
        position = first
        while position < end:
            loop = self._loop_at(position, end, first if depth else -1)
            if loop:
                self._repeat(position, loop, entered, depth)
                position = loop
                continue
            self._part(position, self._visits[position] / entered if entered else 0.0)
            position += 1

    def _loop_at(self, position: int, end: int, inside: int) -> int:
        """Where the loop ends that begins here, if one does; not the one that is being run."""
        for head, tail in self._loops:
            if head == position and tail < end and not (head == inside and tail + 1 == end):
                return tail + 1
        return 0

    def _repeat(self, head: int, end: int, entered: float, depth: int) -> None:
        rounds = self._visits[head] / entered if entered else 0.0
        if not rounds:
            return
        single = end == head + 1
        repeats = self._blocks[head].repeats if single else 1
        trips = rounds / repeats if rounds >= repeats else rounds
        times = repeats if rounds >= repeats else 1

        def body() -> None:
            if single:
                self._block(self._blocks[head], times)
            else:
                self.run(head, end, self._visits[head], depth + 1)

        start = self.now
        body()
        once = self.now
        if trips <= 1.0:
            self._move(start + trips * (once - start))
            return
        body()
        if depth < 2:
            before = self.now
            body()
        else:
            before = once
        steady = self.now - before
        self._move(once + (trips - 1.0) * steady)

    def _move(self, now: float) -> None:
        """Shift everything to another time."""
        shift = now - self.now
        self.now = now
        self._tick += shift
        for place in self._stores:
            self._stores[place] += shift
        for register in self.ready:
            self.ready[register] += shift

    def _part(self, position: int, share: float) -> None:
        """A block that is run in a share of the cases."""
        if not share:
            return
        start = self.now
        self._block(self._blocks[position], 1)
        if share < 0.999:
            self._move(start + share * (self.now - start))

    def _block(self, block: Block, times: int) -> None:
        ready, latency = self.ready, self._latency
        start = self.now
        latest, issued, floor = start, 0.0, start
        for repeat in range(times):
            for each in block.instructions:
                kind = each.kind
                if each.control and repeat < times - 1 and kind == "branch":
                    continue
                begin = floor
                for register in each.reads:
                    begin = max(begin, ready.get(register, 0.0))
                if kind == "free":
                    for register in each.writes:
                        ready[register] = begin
                    continue
                if kind in ("load", "shared_load", "cluster_load"):
                    begin = max(begin, self._stored(each))
                issued += 1.0
                if kind == "clock":  # two looks at the clock are at least a tick apart
                    begin = max(begin, self._tick)
                    self._tick = begin + latency[kind]
                    latest = max(latest, begin)
                    for register in each.writes:
                        ready[register] = begin
                    continue
                if kind in ("store", "shared_store", "barrier", "cluster_barrier", "fence", "shared_atomic", "atomic"):
                    self._note_store(each, begin)
                    if kind in ("barrier", "cluster_barrier"):
                        begin = max(begin, latest, start + issued)
                        floor = begin + latency[kind]
                        latest = max(latest, floor)
                        continue
                elif kind == "branch":
                    latest = max(latest, begin, start + issued) + self._branch
                    continue
                if kind not in ("load", "shared_load", "constant_load", "cluster_load"):
                    latest = max(latest, begin)
                for register in each.writes:
                    ready[register] = begin + latency[kind]
        self.now = max(latest, start + issued)
