"""One set of counts: how often warps executed the blocks of the machine code, from how often they ran those of the PTX.

``execution.py`` has set the two against each other; what it is sure of is counted first (copies of an unrolled loop, by
the rounds of each lane), the other blocks follow from those before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cudalab.sim.compiler.machine_code.ways import Executed, Ways

if TYPE_CHECKING:
    Rounds = Mapping[tuple[int, ...], float]
    from cudalab.sim.compiler.machine_code.execution import Execution, Group, Label

_EXACT = 1e-6


def _same_rounds(one: Rounds, other: Rounds) -> bool:
    """Whether lanes ran two blocks of a loop equally often; one of them may stand behind the exit, so that the last
    round leaves it out."""
    return one == other or one == _without_last(other) or other == _without_last(one)


def _without_last(rounds: Rounds) -> dict[tuple[int, ...], float]:
    found: dict[tuple[int, ...], float] = {}
    for numbers, times in rounds.items():
        fewer = tuple(number - 1 for number in numbers if number > 1)
        if fewer:
            found[fewer] = found.get(fewer, 0.0) + times
    return found


class Counting:
    """One set of counts."""

    def __init__(self, execution: Execution, ways: Ways) -> None:
        self._of, self._ways = execution, ways
        self._known: dict[int, float] = dict.fromkeys(execution.rare, 0.0)
        self._running: set[int] = set()
        self._out: dict[tuple[int, int], float] = {}
        self._walked: list[Group] = []
        self._estimated = False

    def all(self) -> Executed:
        shared = [self._share(group, blocks) for group, blocks in self._of.sharing.items()]
        self._arrive_from_elsewhere()
        found = [self.block(index) for index in range(len(self._of.code.blocks))]
        called = self._call(found) and not any(found[index] for index in self._of.repeats)
        self._take_slow_ways(found)
        accounted = all(self._accounts_for(each, found) for each in self._of.sharing)
        consistent = called and all(shared) and accounted
        return Executed(tuple(found), consistent, consistent and not self._estimated and self._flows(found))

    def _flows(self, found: Sequence[float]) -> bool:
        """Whether each block of the kernel executes at most as often as those before it together."""
        end = min(self._of.code.routines.values(), default=len(found))
        led = [sum(found[each] for each in self._of.before(index)) for index in range(end)]
        return all(times <= (1.0 + _EXACT) * most for times, most in zip(found[1:end], led[1:], strict=True))

    def _call(self, found: list[float]) -> bool:
        """Count routines that are always called; False where they branch, so that nothing says what they execute."""
        for times, block in list(zip(found, self._of.code.blocks, strict=True)):
            if times and block.calls in self._of.routines:
                path = self._of.straight(block.calls)
                if path is None:
                    return False
                for index in path:
                    found[index] += times
        return True

    def _take_slow_ways(self, found: list[float]) -> None:
        """Count what stands on the slow ways of operations; of the routines that they call nothing says which blocks.
        Copies of one operation take it as often as they execute."""
        for line, copies in self._of.slow_ways.items():
            executed = sum(found[index] for index, _ in copies)
            share = min(1.0, self._of.slow(self._ways, line) / executed) if executed else 0.0
            for index, blocks in copies:
                for each in blocks if share else ():
                    found[each] = share * found[index]

    def _accounts_for(self, group: Group, found: Sequence[float]) -> bool:
        """Whether the copies of a block together do the rounds that warps did; of a loop, the walk has seen to it."""
        if any(self._ways.rounds.get(site) for site in group):
            return True
        visits = sum(self._ways.visits.get(site, 0.0) for site in group)
        done = sum(found[index] * self._of.copies(group, index) for index in self._of.sharing[group])
        return abs(done - visits) <= _EXACT * visits

    def _share(self, group: Group, blocks: list[int]) -> bool:
        """Count blocks that all hold operations of one block of the PTX; False where that isn't possible."""
        visits = sum(self._ways.visits.get(site, 0.0) for site in group)
        rounds: dict[tuple[int, ...], float] = {}
        for site in group:
            rounds.update(self._ways.rounds.get(site, {}))
        if rounds:
            others = [self._ways.rounds.get(site) for site in self._of.around(group) if site in self._of.apart]
            return all(_same_rounds(each, rounds) for each in others if each) and self._walk(group, rounds)
        if not visits:
            self._known.update(dict.fromkeys(blocks, 0.0))
        return True

    def _walk(self, group: Group, rounds: Mapping[tuple[int, ...], float]) -> bool:
        """Lanes of a warp execute a block together as often as the one that does so most often; they come to where
        they converge in as many groups as there are ways and times to come."""
        region = self._of.regions[group]
        total = dict.fromkeys(region, 0.0)
        out: dict[tuple[int, int], float] = {}
        consistent = True
        for numbers, weight in rounds.items():
            most: dict[int, int] = {}
            gone: set[tuple[int, int, int]] = set()  # from which block, when, and where to
            for number in numbers:
                walk = self._of.walk(group, number)
                consistent = consistent and walk.whole
                gone |= walk.left
                for index, count in walk.executed.items():
                    most[index] = max(most.get(index, 0), count)
            for index, count in most.items():
                total[index] += 0.0 if self._of.converges(index) else weight * count
            for index, _, following in gone:
                if following in region:
                    total[following] += weight
                else:
                    out[index, following] = out.get((index, following), 0.0) + weight
        self._walked.append(group)
        times_apart = self._times_apart(group, rounds, total)
        self._known.update((index, times_apart * executed) for index, executed in total.items())
        for way, gone_by in out.items():
            self._out[way] = self._out.get(way, 0.0) + times_apart * gone_by
        return consistent

    def _arrive_from_elsewhere(self) -> None:
        """Where lanes that leave an unrolled loop converge, those that never came to it arrive, too."""
        blocks = self._of.code.blocks
        for group in self._walked:
            region, start = self._of.regions[group], self._of.start(group)
            for index in sorted(each for each in region if self._of.converges(each) and each != start):
                for each in self._of.before(index):
                    if each not in region and (self._of.branches(each) or start not in blocks[each].successors):
                        self._known[index] += self._flow(each, index)

    def _times_apart(self, group: Group, rounds: Mapping[tuple[int, ...], float], total: Mapping[int, float]) -> float:
        """In how many groups, one after the other, the lanes of a warp go through a loop that they come to at
        different times, as under ``if (lane == i)`` in a loop over ``i``."""
        visits = sum(self._ways.visits.get(site, 0.0) for site in group)
        done = sum(total[index] * self._of.copies(group, index) for index in self._of.sharing[group])
        if done >= (1.0 - _EXACT) * visits:
            return 1.0
        self._estimated = self._estimated or any(len(numbers) > 1 for numbers in rounds) or not done
        return visits / done if done else 1.0

    def block(self, index: int) -> float:
        """How often warps executed this block."""
        if index in self._known:
            return self._known[index]
        label = self._of.labels[index]
        if index in self._running:  # a loop about whose beginning nothing is known
            return self._visits(label)
        self._running.add(index)
        found = self._found(index, label)
        self._running.discard(index)
        self._known[index] = found
        return found

    def _visits(self, label: Label | None) -> float:
        return sum(self._ways.visits.get(site, 0.0) for site in label.group) / label.copies if label else 0.0

    def _entries(self, loop: frozenset[int]) -> float:
        return sum(times for (a, b), times in self._ways.edges.items() if b in loop and a not in loop)

    def _found(self, index: int, label: Label | None) -> float:
        converges = self._of.converges(index)
        copied = label is not None and index in self._of.regions.get(label.group, ())
        alone = label is not None and not label.behind and not copied
        before = self._of.before(index)
        if alone and not converges and not self._of.leaves(index):
            loop = self._of.prepares(index)
            return self._entries(loop) if loop else self._visits(label)
        if not before:
            return self._visits(label)
        return sum(self._flow(each, index) for each in before)

    def _flow(self, start: int, end: int) -> float:
        """How often warps went from one block to the next."""
        blocks = self._of.code.blocks
        if (start, end) in self._out:
            return self._out[start, end]
        if len(blocks[start].successors) < 2:
            return self.block(start)
        other = next((each for each in blocks[start].successors if each != end), end)
        label, wanted, unwanted = self._of.labels[start], self._next_label(end), self._next_label(other)
        if label is not None and wanted is not None and (wanted.group != label.group or self._of.branches(start)):
            starts = self._of.branching(start) or label.group
            ends = wanted.sites.difference(starts)
            if wanted.group == starts:
                ends = frozenset(wanted.group)
            elif unwanted is not None and unwanted.group != wanted.group:  # something of that one was moved here
                ends = ends.difference(unwanted.group)
            found = sum(self._ways.edges.get((a, b), 0.0) for a in starts for b in ends)
            if found:
                return found
        if other in self._known or len(self._of.before(other)) == 1 and other not in self._running:
            return max(0.0, self.block(start) - self.block(other))
        return self.block(start)

    def _next_label(self, index: int) -> Label | None:
        """That of the block of the PTX that the way through this one leads to."""
        seen = set()
        while index not in seen:
            seen.add(index)
            label = self._of.labels[index]
            if label is not None and not label.behind and not self._of.converges(index):
                return label
            if len(self._of.code.blocks[index].successors) != 1:
                return label
            index = self._of.code.blocks[index].successors[0]
        return None
