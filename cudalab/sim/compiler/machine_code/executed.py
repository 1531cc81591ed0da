"""How often a warp executes each basic block of the machine code, from its visits to those of the PTX.

The line table names for each machine instruction the PTX instruction that it was made of, and so the block of the PTX
whose visits it shares. Where the assembler unrolled a loop, or made several versions of it, the code has more than one
copy of a line: the version with the most copies runs as often as whole rounds of it fit into the iterations of one
entry to the loop, and the next one takes what is left. Slow paths of division and square root, which handle denormal
and infinite operands, count as not taken.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from cudalab.sim.compiler.machine_code.assembly import Assembly
from cudalab.sim.compiler.machine_code.listing import listing
from cudalab.sim.compiler.program import Kernel, Program

_HOISTED = 0.34
"""Less than this part of a PTX block's instructions outside its loop are such that the assembler moved there."""
_SLOW = ("slowpath", "mediumpath", "div_rn_f64_full")
_OUTSIDE = (-1, -1)


@dataclass
class _Version:
    """One copy of a PTX block in the machine code, with as many rounds as it was unrolled to."""

    loop: tuple[int, int]
    """The innermost loop that it is in."""
    depth: int
    """Loops that it is in."""
    lines: Counter[int] = field(default_factory=Counter)
    """Instructions made of each PTX line that becomes a known number of them."""
    blocks: set[int] = field(default_factory=set)

    def copies(self, sizes: Mapping[int, int]) -> int:
        """How many rounds of the PTX block one execution makes: as many as most lines have copies."""
        values = sorted(max(1, count // sizes[line]) for line, count in self.lines.items())
        return values[len(values) // 2] if values else 1


def machine_visits(program: Program, kernel: Kernel, code: Assembly, visits: Mapping[int, float]) -> dict[int, float]:
    """How often each block of the machine code runs, by its index; ``visits`` are those of the kernel's sites."""
    return _Visits(program, kernel, code, visits).by_block()


class _Visits:
    def __init__(self, program: Program, kernel: Kernel, code: Assembly, visits: Mapping[int, float]) -> None:
        self._code, self._visits = code, visits
        self._end = min(code.routines.values(), default=len(code.blocks))
        self._owner, self._sizes = _owners(program, kernel, visits)
        self._entries = _entries(kernel, visits)
        self._loops = sorted(
            (block.target, index) for index, block in enumerate(code.blocks[: self._end]) if 0 <= block.target <= index
        )

    def _loop_of(self, index: int) -> tuple[int, int]:
        """The innermost loop that a block is in."""
        inside = [loop for loop in self._loops if loop[0] <= index <= loop[1]]
        return min(inside, key=lambda loop: loop[1] - loop[0], default=_OUTSIDE)

    def _depth(self, index: int) -> int:
        return sum(loop[0] <= index <= loop[1] for loop in self._loops)

    def by_block(self) -> dict[int, float]:
        versions: dict[int, list[_Version]] = defaultdict(list)
        main: dict[int, tuple[int, int]] = {}
        of_block: dict[tuple[int, int], _Version] = {}
        for index, block in enumerate(self._code.blocks[: self._end]):
            lines: dict[int, Counter[int]] = defaultdict(Counter)
            weight: Counter[int] = Counter()
            for each in self._code.instructions[block.first : block.end]:
                site = self._owner.get(each.ptx_line)
                if site is not None:
                    weight[site] += 1
                    if each.ptx_line in self._sizes:
                        lines[site][each.ptx_line] += 1
            for site, counted in lines.items():
                version = self._version(versions[site], index, counted)
                version.lines.update(counted)
                version.blocks.add(index)
                of_block[site, index] = version
            if weight:
                main[index] = max(
                    (count, -site) for site, count in (Counter({s: weight[s] for s in lines}) or weight).items()
                )
        times: dict[int, float] = {}
        for site, found in versions.items():
            times |= self._share(site, found)
        visits: dict[int, float] = {}
        for index, (_, site) in main.items():
            known = of_block.get((-site, index)) or self._beside(versions.get(-site, []), index)
            visits[index] = times[id(known)] if known else self._plain(-site, versions, index)
        self._fill(visits)
        self._connect(visits)
        self._call(visits)
        return visits

    def _version(self, versions: list[_Version], index: int, counted: Counter[int]) -> _Version:
        """The version that a block belongs to: another part of the same one has other lines."""
        loop = self._loop_of(index)
        for version in versions:
            if version.loop == loop and not version.lines.keys() & counted.keys():
                return version
        versions.append(_Version(loop, self._depth(index)))
        return versions[-1]

    def _beside(self, versions: list[_Version], index: int) -> _Version | None:
        """The version that a block belongs to which has none of the lines that are counted."""
        loop = self._loop_of(index)
        return next((version for version in versions if version.loop == loop), None)

    def _plain(self, site: int, versions: Mapping[int, list[_Version]], index: int) -> float:
        """Visits of a block of which there is one version, or that the assembler moved out of its loop."""
        moved = any(self._depth(index) < version.depth for version in versions.get(site, []))
        return self._entered(site) if moved else self._visits.get(site, 0.0)

    def _entered(self, site: int) -> float:
        visits = self._visits.get(site, 0.0)
        return min(visits, self._entries.get(site, visits))

    def _share(self, site: int, versions: list[_Version]) -> dict[int, float]:
        """How often each version of a PTX block runs."""
        visits = self._visits.get(site, 0.0)
        entries = self._entered(site) or 1.0
        whole = max(len(version.lines) for version in versions)
        deepest = max(version.depth for version in versions)
        left = visits / entries
        found: dict[int, float] = {}
        for version in sorted(versions, key=lambda each: (-each.copies(self._sizes), -each.depth)):
            straight = version.depth < deepest
            if len(version.lines) < _HOISTED * whole:
                found[id(version)] = entries if straight else visits
                continue
            copies = version.copies(self._sizes)
            rounds = left / copies if copies == 1 else float(left // copies)
            rounds = min(rounds, 1.0) if straight else rounds
            found[id(version)] = rounds * entries
            left -= rounds * copies
        return found

    def _fill(self, found: dict[int, float]) -> None:
        """Blocks whose instructions name no line run as often as those around them."""
        for index in range(self._end):
            if index in found:
                continue
            before = [found[i] for i in range(index) if index in self._code.blocks[i].successors and i in found]
            found[index] = min(before, default=found.get(index - 1, 1.0 if index == 0 else 0.0))

    def _connect(self, found: dict[int, float]) -> None:
        """Blocks that only branch may name lines that never ran: what runs behind them came through them."""
        before: dict[int, list[int]] = defaultdict(list)
        for index, block in enumerate(self._code.blocks[: self._end]):
            for after in block.successors:
                before[after].append(index)
        for index in reversed(range(1, self._end)):
            missing = found[index] - sum(found.get(other, 0.0) for other in before[index])
            unseen = [other for other in before[index] if not found.get(other) and other < index]
            if missing > 0.0 and unseen:
                found[unseen[-1]] = missing

    def _call(self, found: dict[int, float]) -> None:
        """Routines run as often as they are called."""
        names = {start: name for name, start in self._code.routines.items()}
        starts = sorted(names)
        for start, end in zip(starts, [*starts[1:], len(self._code.blocks)], strict=bool(starts)):
            slow = any(part in names[start] for part in _SLOW)
            calls = 0.0
            for index in range(self._end):
                if self._code.blocks[index].calls == start:
                    found[index] = 0.0 if slow else found.get(index, 0.0)
                    calls += found[index]
            found |= dict.fromkeys(range(start, end), calls)


_ONE = re.compile(
    r"(ld|st|atom|red|bar|barrier|shfl|tex|(fma|add|sub|mul|min|max)\.(\w+\.)*f(32|64)|ex2|lg2|rcp\.approx|rsqrt|"
    r"(add|sub|mul\.lo|mad\.lo|min|max|shl|shr|and|or|xor|lop3|popc|prmt)\.(\w+\.)*[bsu]32)\b"
)
_TWO = re.compile(r"(add|sub|and|or|xor)\.[bsu]64")


def _owners(program: Program, kernel: Kernel, visits: Mapping[int, float]) -> tuple[dict[int, int], dict[int, int]]:
    """PTX line → the site of its basic block; and for lines that become a known number of machine instructions, that
    number."""
    found: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for each in listing(program, kernel):
        for site in each.blocks:
            if each.line not in found or visits.get(site):
                found[each.line] = site
        if _ONE.match(each.opcode):
            sizes[each.line] = 1
        elif _TWO.match(each.opcode):
            sizes[each.line] = 2
    return found, sizes


def _entries(kernel: Kernel, visits: Mapping[int, float]) -> dict[int, float]:
    """How often the innermost loop around each PTX block was entered, by the block's site."""
    blocks, found = kernel.timed.blocks, {}
    ends = [block.site for block in blocks[1:]] + [len(kernel.sites)]
    for first, last in sorted(kernel.timed.loops, key=lambda loop: loop[0] - loop[1]):
        head = visits.get(blocks[first].site, 0.0)
        before = visits.get(blocks[first - 1].site, 0.0) if first else 1.0
        entries = before if 0.0 < before <= head else 1.0
        found.update(dict.fromkeys(range(blocks[first].site, ends[last]), entries))
    return found
