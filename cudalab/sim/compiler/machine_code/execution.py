"""How often warps execute each basic block of the machine code, from the way they took through the PTX.

Traced code reports basic blocks of the PTX. The assembler keeps most branches, and names for each instruction the line
that it was made of; so a block of machine code executes as often as the block of the PTX that its instructions come
from, but where the assembler

- unrolled a loop: its copies then share the rounds, the one with most rounds first, for each warp that comes to it,
- put instructions on the way from one block to another: they execute as often as warps go that way,
- has lanes converge (``BSYNC``): that instruction executes once for each group of lanes that arrives,
- added a slow way (division of 0 or of a denormal number): it executes as often as traced code says that lanes took it,
- added other code for a rare case (lanes apart at a shuffle): that is taken as not executed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from cudalab.sim.compiler.machine_code.assembly import Assembly
from cudalab.sim.compiler.machine_code.control_flow import CONVERGENCE
from cudalab.sim.compiler.machine_code.counting import Counting
from cudalab.sim.compiler.machine_code.instruction import MachineInstruction
from cudalab.sim.compiler.machine_code.listing import Listed
from cudalab.sim.compiler.machine_code.ways import Executed, Walk, Ways
from cudalab.sim.compiler.timed_code import TimedCode

Group = tuple[int, ...]
"""A basic block of the PTX: its indices among the kernel's sites, several where the simulated device copies it. One
that waits in between, for a barrier, has a site for each of its parts; the middle one stands for all."""

_FAITHFUL = ("ld", "st", "atom", "red", "shfl", "vote", "bar", "barrier", "fma", "tex", "suld", "sust")
"""Operations that the assembler makes one instruction of, and moves to no other block or seldom."""
_INTEGER = ("mul", "mad", "shl", "shr", "xor", "and", "or", "lop3", "popc", "prmt", "min", "max", "sub", "add")
"""Operations that count where a loop has none of those."""
_ALWAYS = ".uni"
OWN_ROUTINE = "$__internal"
_LONGEST = 1 << 16
"""Blocks of one walk through a loop."""
_REMEMBERED = 256
"""Walks that are remembered: launches of one kernel often do as many rounds."""
_KEPT = frozenset((
    "LD", "LDG", "LDS", "LDL", "ST", "STG", "STS", "STL", "ATOM", "ATOMG", "ATOMS", "REDG", "LDGSTS", "SHFL", "BAR",
    "VOTE", "VOTEU", "FFMA", "DFMA", "TEX", "SULD", "SUST",
))  # fmt: skip


_OPCODE = 0x1FF  # of the first word of an instruction: a product that keeps 64 bits is another one than that of 32


class Label(Struct, frozen=True):
    """Which block of the PTX a block of machine code comes from."""

    group: Group
    copies: int
    """How many rounds of it one execution does."""
    sites: frozenset[int]
    """Those of all blocks of the PTX that something in it comes from."""
    lines: frozenset[int]
    """Lines of operations that are not moved, by which it says so; without one it is what most instructions say."""
    behind: bool
    """Whether all of it stands behind the branch of that block: on the way to the next."""


def _is_faithful(listed: Listed) -> bool:
    return listed.opcode.split(".")[0] in _FAITHFUL and "param" not in listed.opcode


def _completed_branches(lines: Sequence[Listed], middle: Mapping[int, int]) -> dict[int, int]:
    """Blocks of the PTX that are nothing but the second half of a branch, ``bra.uni`` behind a ``bra`` with a guard,
    and the block which that ends: in machine code they are one instruction, which may name the line of either."""
    length = Counter(site for each in lines for site in each.blocks)
    return {
        site: middle[branching]
        for before, each in pairwise(lines)
        if before.branches and each.branches and each.line == before.line + 1
        for branching, site in zip(before.blocks, each.blocks, strict=False)
        if length[site] == 1
    }


class Execution:
    """The machine code of one kernel, set against the basic blocks of its PTX."""

    def __init__(
        self,
        code: Assembly,
        lines: Sequence[Listed],
        timed: TimedCode,
        slow_ways: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self.code = code
        self._slow_ways = slow_ways or {}
        self._ahead: dict[tuple[Group, int], int] = {}
        self._walks: dict[tuple[Group, int], Walk] = {}
        self._control = {each.line for block in timed.blocks for each in block.instructions if each.control}
        starts = sorted(block.site for block in timed.blocks)
        ends = [*starts[1:], starts[-1] + 1] if starts else []
        self._middle = {
            site: (start + end) // 2 for start, end in zip(starts, ends, strict=True) for site in range(start, end)
        }
        completed = _completed_branches(lines, self._middle)
        self._middle.update(completed)
        for site in (site for sites in self._slow_ways.values() for site in sites):
            self._middle.pop(site, None)  # it stands between the blocks of two functions
        self._second_halves = {each.line for each in lines if not completed.keys().isdisjoint(each.blocks)}
        self._loops = loops = [frozenset(map(self._whole, loop)) for loop in timed.innermost_loops]
        self._listed = {
            each.line: replace(each, blocks=tuple(sorted({self._whole(site) for site in each.blocks})))
            for each in lines
        }
        kept = {block for each in lines if _is_faithful(each) for block in self._listed[each.line].blocks}
        self._bare = {site for loop in loops for site in loop if loop.isdisjoint(kept)}
        """Blocks of innermost loops that hold none of the operations that are not moved."""
        self._before: list[list[int]] = [[] for _ in code.blocks]
        for index, block in enumerate(code.blocks):
            for successor in block.successors:
                self._before[successor].append(index)
        self.routines = self._own_routines()
        self.slow_ways: dict[int, list[tuple[int, range]]] = {}
        """Of each PTX line with a slow way: the blocks that branch, and what they jump over on the fast way."""
        self.rare = self.routines | self._detours()
        self._onward = [[each for each in block.successors if each not in self.rare] for block in code.blocks]
        self.repeats = [index for index in range(len(code.blocks)) if index not in self.rare and self._repeats(index)]
        """Blocks that repeat within one operation of the PTX, like an atomic operation made of swaps: the visits
        of its block don't tell how often."""
        self.labels = [None if index in self.rare else self._label(index) for index in range(len(code.blocks))]
        self._drop_strays()
        self.apart = {site for label in self.labels if label is not None for site in label.group}
        """Blocks of the PTX that some block of the machine code does the work of; others, like the body of a short
        ``if``, became instructions with a predicate in the block before them."""
        self.sharing = self._copied()
        self._bodies = {loop: body for loop in loops if (body := self._body(loop))}
        self.regions = {group: self._region(group, blocks) for group, blocks in self.sharing.items()}

    def slow(self, ways: Ways, line: int) -> float:
        """How often warps took the slow way of the operation in this line of the PTX."""
        return sum(ways.visits.get(site, 0.0) for site in self._slow_ways[line])

    def counts(self, ways: Ways) -> Executed:
        """How often warps executed each block."""
        whole = self._whole
        edges: dict[tuple[int, int], float] = {}
        for (start, end), times in ways.edges.items():
            if end != start + 1 or whole(start) != whole(end):  # from block to block, not from part to part
                edge = whole(start), whole(end)
                edges[edge] = edges.get(edge, 0.0) + times
        visits = {site: times for site, times in ways.visits.items() if whole(site) == site}
        rounds = {site: numbers for site, numbers in ways.rounds.items() if whole(site) == site}
        return Counting(self, Ways(visits, edges, rounds)).all()

    def _whole(self, site: int) -> int:
        """The site of the middle part of its block: a trace that ends within the block has run it often enough."""
        return self._middle.get(site, site)

    # -- what is known of the code ---------------------------------------------------------------------------------

    def _instructions(self, index: int) -> Sequence[MachineInstruction]:
        block = self.code.blocks[index]
        return self.code.instructions[block.first : block.end]

    def _own_routines(self) -> set[int]:
        """Blocks of the assembler's own routines, which no line of the PTX is named for; functions of the program stand
        among them."""
        starts = sorted(self.code.routines.items(), key=lambda item: item[1])
        found: set[int] = set()
        for position, (name, start) in enumerate(starts):
            end = starts[position + 1][1] if position + 1 < len(starts) else len(self.code.blocks)
            if name.startswith(OWN_ROUTINE):
                found |= set(range(start, end))
        return found

    def straight(self, start: int) -> list[int] | None:
        """The blocks of a routine that always executes the same ones; None where it branches."""
        path = [start]
        while successors := self.code.blocks[path[-1]].successors:
            if len(successors) > 1 or len(path) > len(self.code.blocks):
                return None
            path.append(successors[0])
        return path

    def _detours(self) -> set[int]:
        """Blocks that a branch inside of one PTX operation jumps over, and that call a routine; and those that a warp
        whose lanes are apart goes to."""
        found: set[int] = set()
        for index, block in enumerate(self.code.blocks):
            final = self._instructions(index)[-1]
            if block.target < 0 or index in self.routines:
                continue
            if final.asks_divergence:
                found |= self._reached(block.target) - self._reached(index + 1)
            elif index < block.target and final.conditional and not self._branches(final.ptx_line):
                between = range(index + 1, block.target)
                if any(self.code.blocks[each].calls >= 0 for each in between):
                    found |= set(between)
                    if final.ptx_line in self._slow_ways:
                        self.slow_ways.setdefault(final.ptx_line, []).append((index, between))
        return found

    def _reached(self, start: int) -> set[int]:
        seen, waiting = {start}, [start]
        while waiting:
            block = self.code.blocks[waiting.pop()]
            final = self.code.instructions[block.end - 1]
            for each in block.successors:
                if each not in seen and not (final.asks_divergence and each == block.target):
                    seen.add(each)
                    waiting.append(each)
        return seen

    def _drop_strays(self) -> None:
        """Where integers alone say how often a block is there, one of them that stands elsewhere says nothing."""
        most: dict[Group, int] = {}
        for label in self.labels:
            if label is not None:
                most[label.group] = max(most.get(label.group, 0), len(label.lines))
        for index, label in enumerate(self.labels):
            if label is not None and self._bare.issuperset(label.group) and 2 * len(label.lines) < most[label.group]:
                self.labels[index] = replace(label, copies=1, lines=frozenset())

    def _copied(self) -> dict[Group, list[int]]:
        """Blocks of the PTX of which there are several copies, and those. Parts of one block, each with other lines,
        are no copies."""
        found: dict[Group, list[int]] = {}
        for index, label in enumerate(self.labels):
            if label is not None and label.lines:
                found.setdefault(label.group, []).append(index)
        out = {}
        for group, blocks in found.items():
            lines = Counter(line for index in blocks for line in self._lines(index))
            copies = [index for index in blocks if any(lines[line] > 1 for line in self._lines(index))]
            if copies:
                out[group] = copies
        return out

    def _lines(self, index: int) -> frozenset[int]:
        label = self.labels[index]
        return label.lines if label is not None else frozenset()

    def _region(self, group: Group, faithful: Sequence[int]) -> frozenset[int]:
        """Blocks of a loop that the assembler made several copies of, and what it put between them."""
        blocks = self.code.blocks

        around = self.around(group)

        def inside(index: int) -> bool:
            label = self.labels[index]
            if index in self.rare:
                return False
            return label is None or not around.isdisjoint(label.group) or self.converges(index)

        def reached(neighbours: Sequence[Sequence[int]]) -> set[int]:
            seen, waiting = set(faithful), list(faithful)
            while waiting:
                for each in neighbours[waiting.pop()]:
                    if each not in seen and inside(each):
                        seen.add(each)
                        waiting.append(each)
            return seen

        own = {i for i, label in enumerate(self.labels) if label is not None and not around.isdisjoint(label.group)}
        between = reached([block.successors for block in blocks]) & reached(self._before)
        return frozenset(own | between)

    def _body(self, loop: frozenset[int]) -> range | None:
        """From where to where in the code the operations of a loop repeat."""
        own = [
            i for i, label in enumerate(self.labels) if label is not None and label.lines and loop & set(label.group)
        ]
        ranges = [
            range(block.target, index + 1)
            for index, block in enumerate(self.code.blocks)
            if 0 <= block.target <= index and any(block.target <= each <= index for each in own)
        ]
        return min(ranges, key=len, default=None)

    def prepares(self, index: int) -> frozenset[int]:
        """The loop that this block stands before and does for once what the PTX has inside; empty if it is none."""
        label = self.labels[index]
        body = self._bodies.get(self.around(label.group)) if label is not None else None
        if label is None or body is None or index in body:
            return frozenset()
        behind = index > body.start or any(each in body for each in self._before[index])
        if label.lines and (behind or index in self.sharing.get(label.group, ())):
            return frozenset()  # another part of the loop, or its first rounds
        return self.around(label.group)

    def leaves(self, index: int) -> bool:
        """Whether lanes that come here group after group end so, too: nothing had them converge before."""
        label, final = self.labels[index], self._instructions(index)[-1]
        apart = not any(self.converges(each) for each in self._before[index])
        return final.name == "EXIT" and not final.guarded and apart and not (label is not None and label.lines)

    def around(self, group: Group) -> frozenset[int]:
        """The sites of the innermost loop that a block belongs to; only its own where it belongs to none."""
        return next((loop for loop in self._loops if not loop.isdisjoint(group)), frozenset(group))

    def before(self, index: int) -> Sequence[int]:
        """The blocks from which warps come to this one."""
        return self._before[index]

    def group(self, index: int) -> Group:
        """The block of the PTX that this block does the work of; empty for one that stands between two of them."""
        label = self.labels[index]
        return label.group if label is not None and not label.behind else ()

    def converges(self, index: int) -> bool:
        """Whether the block ends where groups of lanes come together."""
        return self._instructions(index)[-1].name == CONVERGENCE

    def copies(self, group: Group, index: int) -> int:
        """How many rounds of ``group`` one execution of a block does; 0: it only stands between."""
        label = self.labels[index]
        return label.copies if label is not None and label.group == group and index in self.sharing[group] else 0

    def start(self, group: Group) -> int:
        """The block by which lanes come to an unrolled loop."""
        region = self.regions[group]
        starts = [index for index in region if any(each not in region for each in self._before[index])]
        return min(starts, default=min(region))

    def branches(self, index: int) -> bool:
        """Whether the branch at the end of a block is one of the PTX, not the assembler's own."""
        return self._branches(self._instructions(index)[-1].ptx_line)

    def branching(self, index: int) -> Group:
        """The block of the PTX that ends in the branch which this block ends in; empty where the PTX does not choose
        there: a jump that skips a predicated block is always taken."""
        listed = self._listed.get(self._instructions(index)[-1].ptx_line)
        chooses = listed is not None and listed.branches and self._chooses(listed)
        return listed.blocks if listed is not None and chooses else ()

    def _chooses(self, listed: Listed) -> bool:
        return not listed.opcode.endswith(_ALWAYS) or listed.line in self._second_halves

    def walk(self, group: Group, rounds: int) -> Walk:
        """The way of a lane that runs so many rounds of an unrolled loop."""
        known = self._walks.get((group, rounds))
        if known is None:
            if len(self._walks) >= _REMEMBERED:
                self._walks.clear()
            known = self._walks[group, rounds] = self._walked(group, rounds)
        return known

    def _walked(self, group: Group, rounds: int) -> Walk:
        region, index = self.regions[group], self.start(group)
        executed: Counter[int] = Counter()
        left: set[tuple[int, int, int]] = set()
        for step in range(_LONGEST + 1):
            rounds -= self.copies(group, index)
            following = max(self._onward[index], key=lambda each: self._worth(group, each, rounds), default=-1)
            goes_on = following >= 0 and step < _LONGEST
            if goes_on and (following not in region or self.converges(following)):
                left.add((index, executed[index], following))
            executed[index] += 1
            index = following
            if not goes_on or index not in region:
                break
        return Walk(executed, left, whole=not rounds)

    def _worth(self, group: Group, index: int, rounds: int) -> int:
        """How many rounds the block that this way leads to does at once; less than 0 where not so many are left, or
        where some are left and it leads away."""
        known = self._ahead.get((group, index))
        if known is None:
            known = self._ahead[group, index] = self._copies_ahead(group, index)
        if known > 0:
            return known if known <= rounds else -2
        return -1 if known < 0 < rounds else 0

    def _copies_ahead(self, group: Group, index: int) -> int:
        """How many rounds the first block of the loop on this way does; 0 where the way branches before, less than 0
        where it leads away."""
        region = self.regions[group]
        seen: set[int] = set()
        while index in region and index not in seen:
            seen.add(index)
            copies = self.copies(group, index)
            if copies or len(self.code.blocks[index].successors) != 1:
                return copies
            index = self.code.blocks[index].successors[0]
        return -1

    def _repeats(self, index: int) -> bool:
        final, target = self._instructions(index)[-1], self.code.blocks[index].target
        return 0 <= target <= index and not final.asks_divergence and not self._branches(final.ptx_line)

    def _branches(self, line: int) -> bool:
        return line in self._listed and self._listed[line].branches

    def _rounds_at_once(self, index: int, group: Group) -> int:
        """How many rounds of a loop one execution of a block does, as its counters say: they advance by so many times
        as much as in the PTX. 0: there is none."""
        found = 0
        for each in self._instructions(index):
            listed = self._listed.get(each.ptx_line)
            if listed is not None and listed.blocks == group and listed.advance and each.advance:
                found = max(found, each.advance // listed.advance)
        return found

    def _label(self, index: int) -> Label | None:
        faithful: Counter[Group] = Counter()
        guarded: Counter[Group] = Counter()
        others: Counter[Group] = Counter()
        unguarded: Counter[Group] = Counter()
        of_line: dict[Group, Counter[tuple[int, int]]] = {}
        behind = True
        for each in self._instructions(index):
            listed = self._listed.get(each.ptx_line)
            if listed is None or each.name == "BSSY":
                continue
            group = listed.blocks
            others[group] += 1
            if not each.guarded:
                unguarded[group] += 1
            behind = behind and listed.branches
            bare = not self._bare.isdisjoint(group) and listed.line not in self._control and not listed.branches
            if _is_faithful(listed) and each.name in _KEPT or bare and listed.opcode.split(".")[0] in _INTEGER:
                (guarded if each.guarded else faithful)[group] += 1
                of_line.setdefault(group, Counter())[each.ptx_line, each.words[0] & _OPCODE] += 1
        sites = frozenset(site for group in others for site in group)
        chosen = faithful or guarded
        if chosen:
            group = max(chosen, key=lambda each: chosen[each])
            numbers = sorted(of_line[group].values())
            lines = frozenset(line for line, _ in of_line[group])
            if self._bare.isdisjoint(group):
                return Label(group, numbers[len(numbers) // 2], sites, lines, False)
            # of 64 bits, one operation takes several instructions, of which some are there once
            return Label(group, self._rounds_at_once(index, group) or numbers[0], sites, lines, False)
        final = self._instructions(index)[-1]
        if final.ends_block and final.conditional and (group := self.branching(index)):
            return Label(group, 1, sites, frozenset(), False)
        if not others:
            return None
        always = unguarded or others
        return Label(max(always, key=lambda each: always[each]), 1, sites, frozenset(), behind)
