"""Control-flow divergence and reconvergence of threads that execute in lockstep.

Wide code (``codegen.wide``) executes a region for several neighbouring threads, its *lanes*, at once. A uniform branch
remains a branch. At a divergent branch the lanes are *parked* at their targets: each target has a mask of the lanes
waiting there, and the blocks execute in a fixed order, each under its mask. This is how a warp of a GPU executes
divergent code, with the block order fixed at compile time.

``find_flow`` orders the blocks of a region so that every loop is contiguous and ends with a latch, a place that leads
back to its header. For a given set of divergent branches, ``Flow.layout`` then computes:

- the blocks that may execute under a partial mask (``masked``);
- the places that may hold parked lanes when a place is reached (``waiting``), hence the successors of each;
- the registers that become varying through divergence (``varying``): those defined on paths from a divergent branch to
  a join block; those defined on one path while live on the other; and those live out of a loop that lanes leave in
  different iterations.

Irreducible loops are not ordered; such regions have no wide code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cudalab.sim.compiler.passes.control_flow import Block, End
from cudalab.sim.compiler.passes.liveness import Liveness

END = -1  #: the position after the last place: all lanes have arrived


@dataclass(frozen=True)
class Place:
    """A position in the order: a block, or (``again``) the latch of the loop whose header is ``block``."""

    block: int
    again: bool = False


@dataclass
class Layout:
    """Consequences of a set of divergent branches. Places are given by position; ``waiting[p]``: the other places that
    may hold parked lanes when p executes; ``parked``: all places that ever hold any."""

    masked: set[int]
    waiting: dict[int, frozenset[int]]
    parked: set[int]
    varying: int  # bit set of registers


@dataclass
class Flow:
    """The execution order of a region's blocks."""

    places: list[Place]
    successors: dict[int, list[int]]
    loops: dict[int, frozenset[int]]  # header: blocks
    after: dict[int, int | None]  # immediate post-dominator; None: the region's end
    position: dict[Place, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.position = {place: number for number, place in enumerate(self.places)}
        self._spans = {head: (self.position[Place(head)], self.position[Place(head, True)]) for head in self.loops}

    def is_back_edge(self, source: int, target: int) -> bool:
        return target in self.loops and source in self.loops[target]

    def target(self, source: int, successor: int, waiting: Iterable[int], parting: bool) -> int:
        """The position that leads to ``successor``: for a back-edge, the loop's latch if lanes are parked inside."""
        if not self.is_back_edge(source, successor):
            return self.position[Place(successor)]
        first, last = self._spans[successor]
        if parting or any(first <= place <= last for place in waiting):
            return last
        return first

    def next_of(self, waiting: Iterable[int]) -> int:
        """The next position once only parked lanes are left."""
        return min(waiting, default=END)

    def layout(self, parting: set[int], liveness: Liveness) -> Layout:
        """The layout if the terminators of the blocks ``parting`` may diverge."""
        masked: set[int] = set()
        varying = 0
        for block in parting:
            masked |= self._zone(block, self.after[block])
            varying |= self._differing(block, liveness)
        waiting, parked = self._park(parting)
        return Layout(masked, waiting, parked, varying)

    def _zone(self, block: int, stop: int | None) -> set[int]:
        """Blocks reachable from a branch before its immediate post-dominator."""
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
        # lanes on one path must not see what lanes on another have written
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
        """Dataflow fixed point: the places that may hold parked lanes when each place executes."""
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
    """Order the blocks ``indices`` of a region; None if a loop is irreducible."""
    inside = set(indices)
    successors = {
        index: [] if blocks[index].end is End.SUSPEND else [s for s in blocks[index].successors if s in inside]
        for index in indices
    }
    order = postorder(successors, entry)[::-1]
    reached = set(order)
    successors = {index: successors[index] for index in order}
    above = dominators(order, successors, entry)
    rank = {index: number for number, index in enumerate(order)}
    loops: dict[int, set[int]] = {}
    predecessors = _reverse(successors)
    for index in order:
        for successor in successors[index]:
            if rank[successor] <= rank[index]:
                if not above[index] >> rank[successor] & 1:
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
    return Flow(places, successors, frozen, post_dominators(order, successors))


def postorder(successors: dict[int, list[int]], entry: int) -> list[int]:
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


def dominators(order: list[int], successors: dict[int, list[int]], entry: int) -> dict[int, int]:
    """Dominators of each block, as a bit set of positions in ``order``."""
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


def post_dominators(order: list[int], successors: dict[int, list[int]]) -> dict[int, int | None]:
    """The immediate post-dominator of each block; None: the region's end."""
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
    """Blocks of ``body`` in topological order, each inner loop collapsed into one node."""
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
