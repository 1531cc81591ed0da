"""The plan of one function: what the passes found out, and where its values and frames lie. `analysis` fills it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cudalab.sim.compiler.passes.accesses import Access, Group
from cudalab.sim.compiler.passes.async_copies import AsyncCopy
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.liveness import Liveness
from cudalab.sim.compiler.passes.pointer_roots import Roots
from cudalab.sim.compiler.passes.polling import PollLoop
from cudalab.sim.compiler.passes.regions import Point, Region
from cudalab.sim.compiler.passes.rematerialisation import Recomputed
from cudalab.sim.compiler.passes.suspension import CLUSTER_WAIT
from cudalab.sim.compiler.program import RootSource, Site
from cudalab.sim.compiler.ptx.nodes import Function, Instruction, Register
from cudalab.sim.compiler.runtime.layout import ASYNC_BYTES, SCRATCH_BYTES


def align(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment if alignment else size


@dataclass(eq=False)
class Plan:
    """All that is known of one function before code is written."""

    function: Function
    blocks: list[Block]
    recomputed: Recomputed
    liveness: Liveness
    roots: Roots
    back_edges: set[tuple[int, int]]
    points: list[Point] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    slots: dict[Register, int] = field(default_factory=dict)
    accesses: dict[Instruction, Access] = field(default_factory=dict)
    copies: dict[Instruction, AsyncCopy] = field(default_factory=dict)
    groups: dict[Instruction, Group] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    numbered: list[Site] = field(default_factory=list)  # those that its numbers of sites count: a function's are shared
    other_sites: dict[Instruction, int] = field(default_factory=dict)  # calls and traps
    block_sites: list[int] = field(default_factory=list)
    exit_site: int = 0
    first_site: int = 0  # of this function among its sites
    root_sources: list[RootSource] = field(default_factory=list)
    parameter_offsets: dict[str, int] = field(default_factory=dict)
    parameter_bytes: int = 0
    shared_offsets: dict[str, int] = field(default_factory=dict)
    static_shared: int = 0
    uses_dynamic_shared: bool = False
    local_offsets: dict[str, int] = field(default_factory=dict)
    frame_size: int = 0  # local memory of one activation
    local_bytes: int = 0  # a kernel's, with all it calls
    recursive: bool = False
    uses_heap: bool = False  # a kernel's: it may allocate or free
    dynamic_stack: bool = False  # a kernel's: how much stack its threads need is known only when it runs
    computed: set[Register] = field(default_factory=set)  # floats whose NaN would be the host's
    polls: list[PollLoop] = field(default_factory=list)
    polling_blocks: set[int] = field(default_factory=set)  # of all those loops
    poll_sources: set[Instruction] = field(default_factory=set)
    copies_asynchronously: bool = False  # it, or a function that it calls

    def set_polls(self, polls: list[PollLoop]) -> None:
        """Loops that poll memory."""
        self.polls = polls
        self.polling_blocks = {index for loop in polls for index in loop.body}
        self.poll_sources = {source for loop in polls for source in loop.sources}

    @property
    def own_sites(self) -> list[Site]:
        """The function's own among its sites."""
        return self.numbered[self.first_site : self.exit_site + 1]

    @property
    def frame_bytes(self) -> int:
        """Bytes of the frames of one warp."""
        return (
            self.polled_offset + 32 * 8 if self.polls else self._slot_bytes
        )  # the last row, which machine/launch/resident_blocks.py reads

    @property
    def _slot_bytes(self) -> int:
        return max((offset + 32 * max(1, register.bits // 8) for register, offset in self.slots.items()), default=0)

    def digest_offset(self, number: int) -> int:
        """Where in the frame a poll loop keeps the digest of its last round."""
        return align(self._slot_bytes, 8) + 32 * 8 * number

    @property
    def waits_for_cluster(self) -> bool:
        """Does it wait at the barrier of the cluster?"""
        return any(point.instruction.opcode.startswith(CLUSTER_WAIT) for point in self.points)

    @property
    def cluster_offset(self) -> int:
        """Where in the frame stands the phase of the cluster's barrier that a thread has arrived at."""
        return self.digest_offset(len(self.polls))

    @property
    def patience_offset(self) -> int:
        """Where in the frame a thread that waits for others inside such a loop keeps the patience it has left."""
        return self.digest_offset(len(self.polls)) + (32 * 8 if self.waits_for_cluster else 0)

    @property
    def polled_offset(self) -> int:
        """Where in the frame stands the address that a thread polled last."""
        return self.patience_offset + 32 * 8

    def behind(self, site: int) -> int:
        """The site whose record in the trace stands for that of ``site``; -1 when it has its own."""
        return self.numbered[site].behind

    def loops_of_point(self, number: int) -> set[int]:
        """The poll loops, by number, that a suspension point is in."""
        if not number:
            return set()
        block = self.points[number - 1].block
        return {index for index, loop in enumerate(self.polls) if block in loop.body}

    def observed(self, number: int, point: Point) -> list[Register]:
        """The registers that tell one round of a poll loop from the next, in the order of their places."""
        written = 0
        for index in self.polls[number].body:
            written |= self.liveness.written[index]
        bits = point.live & written
        return [r for r in self.slots if bits >> r.index & 1 and r in self.polls[number].observed]

    def site_of_point(self, number: int) -> int:
        """The site of a suspension point; points come first among the kernel's own sites."""
        return self.first_site + number - 1

    @property
    def synchronises_asynchronously(self) -> bool:
        """Has it asynchronous copies, or barriers in shared memory?"""
        return self.copies_asynchronously or any(
            instruction is not None and instruction.opcode.startswith("mbarrier.")
            for block in self.blocks
            for instruction in (*block.instructions, block.ending)
        )

    @property
    def scratch_bytes(self) -> int:
        if self.copies_asynchronously:
            return SCRATCH_BYTES + ASYNC_BYTES
        return SCRATCH_BYTES if self.points else 0
