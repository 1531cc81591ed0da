"""The plan of one function: results of the passes, and the layout of its frames. Filled in by `analysis`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from cudalab.sim.compiler.passes.accesses import Access, Group
from cudalab.sim.compiler.passes.async_copies import AsyncCopy
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.liveness import Liveness
from cudalab.sim.compiler.passes.pointer_roots import Roots
from cudalab.sim.compiler.passes.polling import PollLoop
from cudalab.sim.compiler.passes.regions import Point, Region
from cudalab.sim.compiler.passes.rematerialisation import Recomputed
from cudalab.sim.compiler.passes.suspension import CLUSTER_WAIT, INTERLEAVE
from cudalab.sim.compiler.passes.timing.loop_work import LoopWork
from cudalab.sim.compiler.passes.undefined_values import has_sources
from cudalab.sim.compiler.program import RootSource, Site
from cudalab.sim.compiler.ptx.nodes import Function, Instruction, Register
from cudalab.sim.compiler.runtime.layout import ASYNC_BYTES, SCRATCH_BYTES


def align(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment if alignment else size


@dataclass(eq=False)
class Plan:
    """Results of analysis and layout for one function."""

    function: Function
    blocks: list[Block]
    recomputed: Recomputed
    liveness: Liveness
    roots: Roots
    back_edges: set[tuple[int, int]]
    work: LoopWork = field(default_factory=LoopWork)
    points: list[Point] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    slots: dict[Register, int] = field(default_factory=dict)
    accesses: dict[Instruction, Access] = field(default_factory=dict)
    copies: dict[Instruction, AsyncCopy] = field(default_factory=dict)
    groups: dict[Instruction, Group] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    numbered: list[Site] = field(default_factory=list)  # the table that its site numbers index; functions share one
    other_sites: dict[Instruction, int] = field(default_factory=dict)  # calls, traps, divisions …
    block_sites: list[int] = field(default_factory=list)
    exit_site: int = 0
    first_site: int = 0  # index of this function's first site in that table
    root_sources: list[RootSource] = field(default_factory=list)
    parameter_offsets: dict[str, int] = field(default_factory=dict)
    parameter_bytes: int = 0
    shared_offsets: dict[str, int] = field(default_factory=dict)
    static_shared: int = 0
    uses_dynamic_shared: bool = False
    local_offsets: dict[str, int] = field(default_factory=dict)
    frame_size: int = 0  # local memory of one activation
    local_bytes: int = 0  # of a kernel, with all its callees
    recursive: bool = False
    follows_time: bool = False  # its threads follow the modelled time (``passes.timing.clocks``)
    prints: bool = False  # of a kernel: it may call printf
    uses_heap: bool = False  # of a kernel: it may allocate or free
    launches_graphs: bool = False  # of a kernel: it may call cudaGraphLaunch
    dynamic_stack: bool = False  # of a kernel: its stack size is known only at run time
    computed: set[Register] = field(default_factory=set)  # floats that may hold a NaN with host bits
    polls: list[PollLoop] = field(default_factory=list)
    polling_blocks: set[int] = field(default_factory=set)  # union of the blocks of those loops
    poll_sources: set[Instruction] = field(default_factory=set)
    copies_asynchronously: bool = False  # itself or through a callee

    def set_polls(self, polls: list[PollLoop]) -> None:
        """Set the polling loops."""
        self.polls = polls
        self.polling_blocks = {index for loop in polls for index in loop.body}
        self.poll_sources = {source for loop in polls for source in loop.sources}

    @property
    def loop_edges(self) -> set[tuple[int, int]]:
        """The back-edges of the program's own loops: not those that only wait for the kernel before."""
        return self.back_edges - {loop.edge for loop in self.polls if loop.for_prerequisite}

    @cached_property
    def undefined_words(self) -> int:
        """Words for a thread's registers, branches and calls where sanitized code follows undefined values; 0: nothing
        in this kernel gives any."""
        if not self.function.is_kernel or not has_sources(self.blocks, self.accesses, bool(self.local_offsets)):
            return 0
        return len(self.function.registers) + len(self.blocks) + 2

    @property
    def own_sites(self) -> list[Site]:
        """The sites that belong to this function itself."""
        return self.numbered[self.first_site : self.exit_site + 1]

    @property
    def frame_bytes(self) -> int:
        """Bytes of the frames of one warp."""
        return (
            self.polled_offset + 32 * 8 if self.polls else self._slot_bytes
        )  # the last row, read by machine/launch/resident_blocks.py

    @property
    def _slot_bytes(self) -> int:
        return max((offset + 32 * max(1, register.bits // 8) for register, offset in self.slots.items()), default=0)

    def digest_offset(self, number: int) -> int:
        """Frame offset of the digest of a polling loop's last iteration."""
        return align(self._slot_bytes, 8) + 32 * 8 * number

    @property
    def waits_for_cluster(self) -> bool:
        """Whether it waits at the cluster's barrier."""
        return any(point.instruction.opcode.startswith(CLUSTER_WAIT) for point in self.points)

    @property
    def interleaves(self) -> bool:
        """Whether its threads let each other come as far before they store (``passes.races``)."""
        return any(point.instruction.opcode == INTERLEAVE for point in self.points)

    @property
    def cluster_offset(self) -> int:
        """Frame offset of the phase of the cluster's barrier at which a thread has arrived."""
        return self.digest_offset(len(self.polls))

    @property
    def patience_offset(self) -> int:
        """Frame offset of the remaining patience of a thread that is suspended inside such a loop."""
        return self.digest_offset(len(self.polls)) + (32 * 8 if self.waits_for_cluster else 0)

    @property
    def polled_offset(self) -> int:
        """Frame offset of the address that a thread polled last."""
        return self.patience_offset + 32 * 8

    def behind(self, site: int) -> int:
        """The site whose trace record stands for that of ``site``; -1 if it has its own."""
        return self.numbered[site].behind

    def loops_of_point(self, number: int) -> set[int]:
        """Numbers of the polling loops that contain a suspension point."""
        if not number:
            return set()
        block = self.points[number - 1].block
        return {index for index, loop in enumerate(self.polls) if block in loop.body}

    def observed(self, number: int, point: Point) -> list[Register]:
        """The registers that make up the state of a polling loop, in slot order."""
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
        """Whether it has asynchronous copies or mbarriers."""
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
