"""Where threads that run side by side part, and where they are together again.

Wide code (``codegen.wide``) takes several neighbouring threads, its *lanes*, through a region at once. As long as a
branch goes the same way for all lanes it stays a branch. Where it may not, the lanes that go to either target are
*parked* there: they are noted in a mask, and the blocks are executed one after the other in a fixed order, each for the
lanes noted in its mask. That is what a warp of a GPU does, with the order of blocks fixed when compiling.

``find_flow`` orders the blocks of a region so that every loop is contiguous and ends with a place that leads back to
its head. ``Flow.layout`` then says, for a given set of branches at which lanes may part:

- which blocks may be executed for some of the lanes only (``masked``);
- which places may hold parked lanes when a place is reached (``waiting``), and so where to go on from each;
- which registers may differ between lanes because the lanes came different ways (``varying``): registers defined on the
  ways from such a branch to a block where they meet; those that one side defines while lanes on the other still need
  theirs; and registers of a loop that lanes leave in different rounds, where they are used behind it.

Loops that can be entered in the middle are not ordered; such regions have no wide code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cudalab.sim.compiler.passes.control_flow import Block, End
from cudalab.sim.compiler.passes.liveness import Liveness

END = -1  #: the place behind the last one: all lanes have arrived


@dataclass(frozen=True)
class Place:
    """A place in the order: a block, or (``again``) the end of the loop whose head is ``block``."""

    block: int
    again: bool = False


@dataclass
class Layout:
    """What follows from a set of branches at which lanes may part. Places are given by their position; ``waiting[p]``
    are the places that may hold parked lanes when p is executed, without p; ``parked``: those that ever do."""

    masked: set[int]
    waiting: dict[int, frozenset[int]]
    parked: set[int]
    varying: int  # bit set of registers


@dataclass
class Flow:
    """The order of a region's blocks."""

    places: list[Place]
    successors: dict[int, list[int]]
    loops: dict[int, frozenset[int]]  # head: blocks
    after: dict[int, int | None]  # immediate post-dominator; None: the region's end
    position: dict[Place, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.position = {place: number for number, place in enumerate(self.places)}
        self._spans = {head: (self.position[Place(head)], self.position[Place(head, True)]) for head in self.loops}

    def is_back_edge(self, source: int, target: int) -> bool:
        return target in self.loops and source in self.loops[target]

    def in_loop(self, block: int) -> bool:
        """Whether a block belongs to any loop."""
        return any(block in body for body in self.loops.values())

    def target(self, source: int, successor: int, waiting: Iterable[int], parting: bool) -> int:
        """The position that leads to ``successor``: for a way back, the loop's end if lanes are parked inside."""
        if not self.is_back_edge(source, successor):
            return self.position[Place(successor)]
        first, last = self._spans[successor]
        if parting or any(first <= place <= last for place in waiting):
            return last
        return first

    def next_of(self, waiting: Iterable[int]) -> int:
        """Where to go on when only parked lanes are left."""
        return min(waiting, default=END)

    def layout(self, parting: set[int], liveness: Liveness) -> Layout:
        """The consequences of lanes parting at the ends of the blocks ``parting``."""
        masked: set[int] = set()
        varying = 0
        for block in parting:
            masked |= self._zone(block, self.after[block])
            varying |= self._differing(block, liveness)
        waiting, parked = self._park(parting)
        return Layout(masked, waiting, parked, varying)

    def _zone(self, block: int, stop: int | None) -> set[int]:
        """Blocks reachable from a branch before the block where all its ways meet."""
        found: set[int] = set()
        stack = [successor for successor in self.successors[block] if successor != stop]
        while stack:
            index = stack.pop()
            if index not in found:
                found.add(index)
                stack += [successor for successor in self.successors[index] if successor != stop]
        return found

    def _differing(self, block: int, liveness: Liveness) -> int:
        stop = self.after[block]
        sides = []
        for successor in set(self.successors[block]):
            side: set[int] = set()
            stack = [successor]
            while stack:
                index = stack.pop()
                if index not in side:
                    side.add(index)
                    if index != stop:
                        stack += self.successors[index]
            sides.append(side)
        seen: set[int] = set()
        joins: set[int] = set()
        for side in sides:
            joins |= seen & side
            seen |= side
        written = 0
        for index in seen - ({stop} if stop is not None else set()):
            written |= liveness.written[index]
        needed = 0
        for index in joins:
            needed |= liveness.live_in[index]
        found = written & needed
        # lanes on one side must not see what those on another have written meanwhile
        for side in sides:
            changed = 0
            for index in side - {stop}:
                changed |= liveness.written[index]
            for other in sides:
                if other is not side:
                    for index in other - {stop}:
                        own = liveness.written[index] & liveness.live_out[index]
                        found |= changed & (liveness.live_in[index] | own)
        for body in self.loops.values():
            if block in body and any(successor not in body for successor in self.successors[block]):
                inside = 0
                for index in body:
                    inside |= liveness.written[index]
                for index in body:
                    for successor in self.successors[index]:
                        if successor not in body:
                            found |= inside & liveness.live_in[successor]
        return found

    def _park(self, parting: set[int]) -> tuple[dict[int, frozenset[int]], set[int]]:
        """Solve which places may hold parked lanes when each place is executed."""
        waiting: dict[int, frozenset[int]] = {0: frozenset()}
        parked: set[int] = set()
        work = [0]

        def reach(place: int, others: frozenset[int]) -> None:
            if place == END:
                return
            others -= {place}
            old = waiting.get(place)
            new = others if old is None else old | others
            if new != old:
                waiting[place] = new
                work.append(place)

        while work:
            number = work.pop()
            here, place = waiting[number], self.places[number]
            if number in parked:  # nobody may be there after all
                reach(self.next_of(here), here)
            if place.again:
                reach(self.position[Place(place.block)], here)
                continue
            successors = self.successors[place.block]
            if not successors:
                reach(self.next_of(here), here)
            elif place.block in parting:
                targets = {self.target(place.block, successor, here, True) for successor in successors}
                new = targets - parked
                parked |= targets
                work += [each for each in new if each in waiting]
                reach(self.next_of(here | targets), here | targets)
            else:
                for successor in set(successors):
                    target = self.target(place.block, successor, here, False)
                    if self.is_back_edge(place.block, successor) and target == self.position[Place(successor)]:
                        reach(target, here)
                        continue
                    following = self.next_of(here | {target})
                    if following != target and target not in parked:
                        parked.add(target)
                        if target in waiting:
                            work.append(target)
                    reach(following, here | {target})
        return waiting, parked


def find_flow(blocks: list[Block], indices: list[int], entry: int) -> Flow | None:
    """Order the blocks ``indices`` of a region; None where a loop has several ways in."""
    inside = set(indices)
    successors = {
        index: [] if blocks[index].end is End.SUSPEND else [s for s in blocks[index].successors if s in inside]
        for index in indices
    }
    order = _postorder(successors, entry)[::-1]
    reached = set(order)
    successors = {index: successors[index] for index in order}
    dominators = _dominators(order, successors, entry)
    rank = {index: number for number, index in enumerate(order)}
    loops: dict[int, set[int]] = {}
    predecessors = _reverse(successors)
    for index in order:
        for successor in successors[index]:
            if rank[successor] <= rank[index]:
                if not dominators[index] >> rank[successor] & 1:
                    return None
                body = loops.setdefault(successor, {successor})
                stack = [index]
                while stack:
                    each = stack.pop()
                    if each not in body:
                        body.add(each)
                        stack += predecessors[each]
    frozen = {head: frozenset(body) for head, body in loops.items()}
    places = _order(frozenset(reached), None, successors, frozen, rank)
    return Flow(places, successors, frozen, _post_dominators(order, successors))


def _postorder(successors: dict[int, list[int]], entry: int) -> list[int]:
    found: list[int] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry]))]
    while stack:
        index, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            found.append(index)
            stack.pop()
    return found


def _reverse(successors: dict[int, list[int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {index: [] for index in successors}
    for index, targets in successors.items():
        for target in targets:
            found[target].append(index)
    return found


def _dominators(order: list[int], successors: dict[int, list[int]], entry: int) -> dict[int, int]:
    """For each block the bit set, by position in ``order``, of the blocks on every way to it."""
    predecessors = _reverse(successors)
    everything = (1 << len(order)) - 1
    found = dict.fromkeys(order, everything)
    found[entry] = 1
    changed = True
    while changed:
        changed = False
        for number, index in enumerate(order):
            if index == entry:
                continue
            common = everything
            for predecessor in predecessors[index]:
                common &= found[predecessor]
            common |= 1 << number
            if common != found[index]:
                found[index] = common
                changed = True
    return found


def _post_dominators(order: list[int], successors: dict[int, list[int]]) -> dict[int, int | None]:
    """The first block that all ways from each block to the region's end come through."""
    backwards = order[::-1]
    everything = (1 << len(order)) - 1
    bit = {index: 1 << number for number, index in enumerate(backwards)}
    found = dict.fromkeys(backwards, everything)
    changed = True
    while changed:
        changed = False
        for index in backwards:
            common = everything if successors[index] else 0
            for successor in successors[index]:
                common &= found[successor]
            common |= bit[index]
            if common != found[index]:
                found[index] = common
                changed = True
    result: dict[int, int | None] = {}
    for index in order:
        others = found[index] & ~bit[index]
        candidates = [each for each in order if others & bit[each]]
        # the nearest is the one that all the others post-dominate
        result[index] = next((each for each in candidates if found[each] == others), None)
    return result


def _order(
    body: frozenset[int],
    head: int | None,
    successors: dict[int, list[int]],
    loops: dict[int, frozenset[int]],
    rank: dict[int, int],
) -> list[Place]:
    """Blocks of ``body`` in topological order, each inner loop as one piece."""
    inner = {each: blocks for each, blocks in loops.items() if each in body and each != head}
    outermost = {
        each: blocks
        for each, blocks in inner.items()
        if not any(each in others for other, others in inner.items() if other != each)
    }
    owner = {index: index for index in body}
    for each, blocks in outermost.items():
        for index in blocks:
            owner[index] = each
    entering = dict.fromkeys(owner.values(), 0)
    edges: dict[int, set[int]] = {piece: set() for piece in entering}
    for index in body:
        for successor in successors[index]:
            if successor not in body or successor == head:
                continue
            a, b = owner[index], owner[successor]
            if a != b and b not in edges[a]:
                edges[a].add(b)
                entering[b] += 1
    places: list[Place] = []
    ready = sorted((piece for piece, count in entering.items() if not count), key=lambda piece: -rank[piece])
    while ready:
        piece = ready.pop()
        if piece in outermost:
            places += _order(outermost[piece], piece, successors, loops, rank)
        else:
            places.append(Place(piece))
        for target in edges[piece]:
            entering[target] -= 1
            if not entering[target]:
                ready.append(target)
        ready.sort(key=lambda piece: -rank[piece])
    if head is not None:
        places.append(Place(head, True))
    return places
