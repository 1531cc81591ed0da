"""How long one warp takes for its path through a kernel, without contention.

A warp's instructions issue in order, each when its operands are ready; the assembler has moved loads as far ahead as
their addresses and earlier stores allow. Loops are replayed until an iteration takes as long as the one before, and
then multiplied. A block that runs in some iterations only counts for its share of them.

Asynchronous copies proceed beside the warp, in the order in which they were started: a wait for a group of them, or for
the mbarrier that tracks them, ends when the oldest have arrived. So a software pipeline is replayed until each of its
stages has been waited for.

What is simplified: a diverged warp runs the paths of its lanes one after the other, each block once a visit. A learner
would notice where hardware interleaves diverged lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from cudalab.sim.compiler.timed_code import TimedBlock, TimedCode, TimedInstruction
from cudalab.sim.device.pipes import CLASSES


class Costs(Struct, frozen=True):
    """Costs that are not the latency of a class, cycles."""

    branch: float
    """Of a branch to anywhere but the next instruction."""
    bulk_issue: float = 0.0
    """Until the thread that has started a bulk copy continues."""
    bulk_stored: float = math.inf
    """Bytes a cycle of bulk copies to global memory, which are serialized."""


class Path(Struct, frozen=True):
    """The path of the longest warp through a kernel's code."""

    code: TimedCode
    visits: Mapping[int, float]
    """How often it ran each basic block."""
    bulk: Mapping[int, float] = field(default_factory=dict)
    """Bytes of a bulk copy to global memory, by its PTX line."""
    awaits_copies: frozenset[int] = frozenset()
    """PTX lines of waits for mbarriers that track copies."""

    def cycles(self, latency: Callable[[str], float], costs: Costs) -> tuple[float, float]:
        """Cycles from the warp's first instruction to its last, without contention; and how many more until everything
        that it started has completed. ``latency`` is that of a class."""
        walk = _Walk(self, latency, costs)
        walk.run(0, len(self.code.blocks), 1.0, 0)
        return walk.now, max(0.0, max(walk.ready.values(), default=0.0) - walk.now)

    def part_before(self, lines: Sequence[int], latency: Callable[[str], float], costs: Costs) -> float:
        """The part of the way, 0 to 1, up to the first of these PTX lines that the warp comes to; 1 if to none."""
        blocks = self.code.blocks if lines else ()
        for position, block in enumerate(blocks):
            first = next((n for n, each in enumerate(block.instructions) if each.line in lines), None)
            if first is None or not self.visits.get(block.site):
                continue
            last = replace(block, instructions=block.instructions[:first], target=-1)
            loops = tuple(loop for loop in self.code.loops if loop[1] < position)
            before = replace(self, code=TimedCode((*blocks[:position], last), loops=loops))
            whole = self.cycles(latency, costs)[0]
            return min(1.0, before.cycles(latency, costs)[0] / whole) if whole else 0.0
        return 1.0


_MOST_STAGES = 8
_WAITING = ("barrier", "named_barrier", "object_wait", "cluster_barrier", "grid_arrive", "heap", "sleep")
"""Nothing after them issues before they have completed."""
_STORES = ("store", "shared_store", "cluster_store", "shared_atomic", "atomic", "cluster_atomic")
_STORING = (*_STORES, *_WAITING, "fence", "object_arrive")
_COPYING = ("async_copy", "async_commit", "async_arrive", "async_wait", "bulk_copy", "bulk_store")
_NEVER = -math.inf
_NOWHERE = -1
"""The address is in no register."""


class _Copies:
    """When copies that a warp has started arrive: groups of them, and phases of mbarriers, oldest first."""

    def __init__(self, path: Path) -> None:
        self._bytes, self._awaited = path.bulk, path.awaits_copies
        self.groups: dict[bool, list[float]] = {False: [], True: []}
        """Committed groups, of bulk copies (True) and others."""
        self._open = {False: _NEVER, True: _NEVER}
        self.phases: list[float] = []
        self._engine = _NEVER

    @property
    def stages(self) -> int:
        """Number of groups or phases in flight, with the next one."""
        waiting = max(map(len, self.groups.values()))
        return max(len(self.phases), waiting + 1 if waiting else 0)

    def move(self, shift: float) -> None:
        """Shift all times."""
        for times in (*self.groups.values(), self.phases):
            times[:] = [time + shift for time in times]
        self._open = {kind: time + shift for kind, time in self._open.items()}
        self._engine += shift

    def repeat(self, rounds: float) -> None:
        """A loop that starts copies without waiting for them runs so many more iterations."""
        for times in (*self.groups.values(), self.phases):
            times += times[-1:] * min(_MOST_STAGES - len(times), int(rounds)) if times and rounds > 0 else []

    def expect(self, arrive: TimedInstruction, now: float) -> None:
        """An mbarrier expects the bytes of copies: they are a phase of their own."""
        if arrive.expects_bytes:
            self.phases.append(now)

    def arrived(self, wait: TimedInstruction) -> float:
        """When the oldest phase that has not been waited for completes."""
        return self.phases.pop(0) if self.phases and wait.line in self._awaited else _NEVER

    def start(self, bulk: bool, arrival: float) -> None:
        """A copy that belongs to a group arrives then."""
        self._open[bulk] = max(self._open[bulk], arrival)

    def start_phase(self, arrival: float) -> None:
        """A copy that an mbarrier tracks."""
        if self.phases:
            self.phases[-1] = max(self.phases[-1], arrival)
        else:
            self.phases.append(arrival)

    def through_engine(self, copy: TimedInstruction, now: float, rate: float) -> float:
        """When the last byte of a bulk copy to global memory has been sent; such copies are serialized."""
        self._engine = max(now, self._engine) + self._bytes.get(copy.line, 0.0) / rate
        return self._engine

    def commit(self, bulk: bool) -> None:
        self.groups[bulk].append(self._open[bulk])
        self._open[bulk] = _NEVER

    def track(self) -> None:
        """An mbarrier tracks the copies that are not in a group yet."""
        self.phases.append(self._open[False])
        self._open[False] = _NEVER

    def waited(self, bulk: bool, behind: int) -> float:
        """When all groups but the latest ``behind`` have arrived; -1: also copies that are in no group."""
        groups = self.groups[bulk]
        done = groups[: len(groups) - max(0, behind)]
        del groups[: len(done)]
        return max(done, default=_NEVER) if behind >= 0 else max([*done, self._open[bulk]])


class _Walk:
    """Replays a warp's instructions: each issues in order, when its operands are ready."""

    def __init__(self, path: Path, latency: Callable[[str], float], costs: Costs) -> None:
        self._blocks, self._loops = path.code.blocks, path.code.loops
        self._visits = [path.visits.get(block.site, 0.0) for block in self._blocks]
        self._latency = {kind: latency(kind) for kind in CLASSES}
        self._costs = costs
        self._copies = _Copies(path)
        self.now = 0.0
        self.ready: dict[int, float] = {}
        self._tick = 0.0
        self._stores: dict[tuple[int, str], float] = {}
        """When the last store through each register issued; loads do not pass stores that may alias."""

    def _stored(self, load: TimedInstruction) -> float:
        base = load.address[0] if load.address else _NOWHERE
        here = load.kind == "shared_load"
        return max(
            (
                time
                for (register, space), time in self._stores.items()
                if register != base and space in ("all", "shared" if here else "global")
            ),
            default=0.0,
        )

    def _note_store(self, store: TimedInstruction, begin: float) -> None:
        if store.kind in _WAITING or store.kind == "fence":
            self._stores[(_NOWHERE, "all")] = begin
            return
        base = store.address[0] if store.address else _NOWHERE
        self._stores[(base, "shared" if store.kind.startswith("shared") else "global")] = begin

    def run(self, first: int, end: int, entered: float, depth: int) -> None:
        """Replay blocks ``first`` to ``end``, in a part of the code that was entered so many times in all."""
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
        """The end of the loop whose head is here, if there is one; not the loop being replayed, nor one that is entered
        past its head and never returns to it."""
        if not self._visits[position]:
            return 0
        for head, tail in self._loops:
            if head == position and tail < end and not (head == inside and tail + 1 == end):
                return tail + 1
        return 0

    def _repeat(self, head: int, end: int, entered: float, depth: int) -> None:
        rounds = self._visits[head] / entered if entered else 0.0
        if not rounds:
            return
        if self._blocks[head].polls_grid:
            rounds = 1.0
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
        played = 1.0
        if depth < 2:
            before = self.now
            body()
            played = 2.0
        else:
            before = once
        steady = self.now - before
        stages = min(self._copies.stages, _MOST_STAGES, math.ceil(trips) - 1)
        if stages > 1 and depth < 2:  # until each stage has been waited for, and once more
            for _ in range(stages):
                body()
            before = self.now
            for _ in range(stages):
                body()
            steady, played = (self.now - before) / stages, played + 2.0 * stages
        self._copies.repeat(trips - played - 1.0)
        self._move(once + (trips - 1.0) * steady)

    def _move(self, now: float) -> None:
        """Shift all times."""
        shift = now - self.now
        self.now = now
        self._tick += shift
        self._copies.move(shift)
        for place in self._stores:
            self._stores[place] += shift
        for register in self.ready:
            self.ready[register] += shift

    def _part(self, position: int, share: float) -> None:
        """Replay a block that runs in a share of the cases; or several times, one after the other, though it is in no
        loop, as in a function that calls itself."""
        if not share:
            return
        start = self.now
        self._block(self._blocks[position], 1)
        if not 0.999 < share < 1.001:
            self._move(start + share * (self.now - start))

    def _block(self, block: TimedBlock, times: int) -> None:
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
                if kind in _COPYING:
                    begin, floor = self._copy(each, begin, floor)
                    issued += 1.0
                    latest = max(latest, begin, floor)
                    continue
                if kind in ("load", "shared_load", "cluster_load"):
                    begin = max(begin, self._stored(each))
                issued += 1.0
                if kind == "clock":  # two reads of the clock are at least a tick apart
                    begin = max(begin, self._tick)
                    self._tick = begin + latency[kind]
                    latest = max(latest, begin)
                    for register in each.writes:
                        ready[register] = begin
                    continue
                if kind in _STORING:
                    self._note_store(each, begin)
                    if kind == "object_wait":
                        begin = max(begin, self._copies.arrived(each))
                    if kind == "object_arrive":
                        self._copies.expect(each, begin)
                    if kind in _WAITING:
                        begin = max(begin, latest, start + issued)
                        floor = begin + latency[kind]
                        latest = max(latest, floor)
                        continue
                elif kind == "branch":
                    latest = max(latest, begin, start + issued) + self._costs.branch
                    continue
                if kind not in ("load", "shared_load", "constant_load", "cluster_load"):
                    latest = max(latest, begin)
                for register in each.writes:
                    ready[register] = begin + latency[kind]
        self.now = max(latest, start + issued)

    def _copy(self, each: TimedInstruction, begin: float, floor: float) -> tuple[float, float]:
        """Replay an instruction of asynchronous copies: when it issues, and the earliest time for those after it."""
        copies, kind, bulk = self._copies, each.kind, each.bulk
        if kind == "async_copy":
            copies.start(False, begin + self._latency[kind])
        elif kind == "bulk_copy":
            copies.start_phase(begin + self._latency[kind])
            return begin, begin + self._costs.bulk_issue
        elif kind == "bulk_store":
            copies.start(True, copies.through_engine(each, begin, self._costs.bulk_stored) + self._latency[kind])
            return begin, begin + self._costs.bulk_issue
        elif kind == "async_commit":
            copies.commit(bulk)
        elif kind == "async_arrive":
            copies.track()
        else:
            begin = max(begin, copies.waited(bulk, each.behind))
            return begin, begin
        return begin, floor
