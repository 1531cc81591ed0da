"""What the compiler hands to the machine: plain data, picklable, without native handles."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import IntEnum

from msgspec import Struct

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.semantics import Operation, Semantics, semantics_of
from cudalab.sim.compiler.timed_code import TimedCode

VARIANTS = (
    "plain",
    "atomic",
    "traced",
    "wide",
    "wide_atomic",
    "footprint",
    "footprint_atomic",
    "sanitize",
    "sanitize_shuffled",
    "sanitize_trace",
)
"""The ways in which native code is made of a kernel."""

_BUILT_IN = "__nv_nvrtc_builtin_header.h"


class Rounds(IntEnum):
    """What decides how many rounds the loops of a kernel take."""

    NONE = 0
    """There are no loops."""
    LAUNCH = 1
    """The parameters and the configuration of the launch alone, but for threads that skip a loop."""
    INDEX = 2
    """These, and the index of the thread or the block."""
    DATA = 3
    """What the kernel loads."""


class InvalidWideCode(RuntimeWarning):
    """Code for several threads at once was not valid, so code for one thread at a time took its place: right results,
    but slower, by a mistake in the compiler."""


class Location(Struct, frozen=True):
    """A position in the learner's source. ``line`` counts from 1; 0 where the compiler names none."""

    file: str
    line: int
    column: int = 0
    inlined_at: Location | None = None

    def in_source(self) -> Location:
        """Out of CUDA's headers and what NVRTC includes by itself, to the learner's own line."""
        place = self
        while place.inlined_at is not None and (os.path.isabs(place.file) or place.file == _BUILT_IN):
            place = place.inlined_at
        return place


class Parameter(Struct, frozen=True):
    """One kernel parameter.

    ``ctype`` is the C++ type as demangled (``float const*``), ``""`` when unknown. ``kind`` is one of
    ``pointer``, ``integer``, ``float``, ``bool``, ``struct`` or ``unknown``; ``pointee`` names the
    element type of a pointer (``float``, ``int``, ``double2`` …).
    """

    index: int
    name: str
    ctype: str
    kind: str
    size: int
    alignment: int
    offset: int
    pointee: str = ""


class Resources(Struct, frozen=True):
    """What ptxas says of a kernel for the device's architecture (bytes; registers a thread)."""

    registers: int
    shared: int
    local: int
    spill_stores: int = 0
    spill_loads: int = 0
    barriers: int = 0
    constant: int = 0


class Site(Struct, frozen=True):
    """An instruction or basic block that traced code records, and that faults name."""

    kind: SiteKind
    opcode: str  # as in the PTX, e.g. "ld.global.f32"; for messages, what it means say ``semantics``
    space: Space
    size: int  # bytes an access moves in one thread (v4.f32: 16)
    location: Location
    instructions: int = 0  # BLOCK sites: PTX instructions in the basic block
    ptx_line: int = 0
    detail: str = ""
    behind: int = -1
    """This site's record is elided in ``traced`` code: the site whose record stands for it; -1: it has its own."""
    distance: int = 0
    """Bytes from that one's address to this one's."""
    used_bytes: int = -1
    """Mask of a load's bytes whose values matter (PTX ISA, pragma ``used_bytes_mask``), -1 for all."""
    polled: bool = False
    """A load whose value a loop waits for."""
    stores_local: bool = False
    """A store, outside local memory, of the address of a local variable."""
    checked_by_swap: bool = False
    """A load whose value a compare-and-swap on the same location compares with."""

    @property
    def semantics(self) -> Semantics:
        """What the opcode says about operation, memory order and scope."""
        return semantics_of(self.opcode)

    @property
    def writes(self) -> bool:
        """A store or atomic, or an instruction that begins or ends a barrier object."""
        if self.kind is SiteKind.SYNC:
            return not self.semantics.arrives
        return self.kind is not SiteKind.LOAD

    @property
    def synchronises_lanes(self) -> bool:
        """A warp operation that waits for the lanes of its mask; ``activemask`` does not."""
        return self.kind is SiteKind.WARP and self.semantics.operation is not Operation.ACTIVE_MASK

    @property
    def waits_for_cluster(self) -> bool:
        return self.semantics.operation is Operation.CLUSTER_BARRIER and not self.semantics.arrives


class RootSource(Struct, frozen=True):
    """Where a traceable pointer comes from: a parameter's bytes, or a module variable."""

    parameter_offset: int = -1
    symbol: str = ""


class GlobalVariable(Struct, frozen=True):
    """A ``__device__`` or ``__constant__`` variable. ``initial`` is empty when it starts at zero;
    ``pointers`` lists (byte offset, symbol, addend) to be filled with addresses at load."""

    name: str
    size: int
    alignment: int
    space: Space
    initial: bytes = b""
    pointers: tuple[tuple[int, str, int], ...] = ()


@dataclass(frozen=True)
class Kernel:
    name: str  # as in the PTX (mangled unless extern "C")
    parameters: tuple[Parameter, ...]
    resources: Resources | None
    parameter_bytes: int
    static_shared: int
    local_bytes: int  # per thread, call frames included
    frame_bytes: int  # per warp
    scratch_bytes: int  # per warp
    roots: tuple[RootSource, ...]
    sites: tuple[Site, ...]
    max_threads: int = 1024  # __launch_bounds__
    uses_dynamic_shared: bool = False
    location: Location = field(default_factory=lambda: Location("", 0))
    poll_points: tuple[int, ...] = ()
    """Suspension points, counted from 1, of loops that wait for memory to change: its blocks may yield."""
    waits_for_prerequisite: bool = False
    """Its threads may wait for the kernel before it to complete (``griddepcontrol.wait``)."""
    triggers_dependents: bool = False
    """Its blocks may let the kernel behind it start (``griddepcontrol.launch_dependents``)."""
    interleaves: bool = False
    """Its blocks may yield before they store, so that others load first what they overwrite (``passes.races``)."""
    follows_time: bool = False
    """Its threads follow the modelled time, because it reads a clock (``passes.timing.clocks``)."""
    mark_shift: int = 0
    """Footprint code marks ``1 << mark_shift`` bytes with one mark: the narrowest access of the program has so many."""
    first_point: int = -1
    """Site of suspension point 1; those of the others follow it. -1: what kind a site has says whether it is one."""
    points: int = 0
    """Suspension points."""
    cell_shift: int = 2
    """A shadow cell of sanitized code stands for ``1 << cell_shift`` bytes of device memory."""
    shared_cell_shift: int = 2
    """The same of shared memory."""
    cluster: tuple[int, int, int] | None = None
    """Blocks of a cluster as ``__cluster_dims__`` or ``__block_size__`` says."""
    blocks_are_clusters: bool = False
    """``__block_size__``: a launch gives the grid in clusters."""
    required_block: tuple[int, int, int] | None = None
    """Threads a block must have (``.reqntid``)."""
    waits_for_cluster: bool = False
    """It waits at the barrier of the cluster."""
    synchronises_grid: bool = False
    """It asks for the workspace of a cooperative launch."""
    root_kinds: tuple[int, ...] = ()
    """How each root is accessed: a bit set of ``1 << SiteKind``."""
    wide: bool = False
    """May have a form that takes several threads at once (``codegen.wide``)."""
    read_only_roots: frozenset[int] = frozenset()
    """Roots that it reads through the read-only data cache; -1: pointers that no root is known of."""
    other_kinds: int = 0
    """How device memory is accessed through pointers that no root is known of; 0: the kernel stays in its roots."""

    uses_heap: bool = False
    """It may call ``malloc`` or ``free``."""
    launches_graphs: bool = False
    """It may call ``cudaGraphLaunch``."""
    dynamic_stack: bool = False
    """It calls functions that call themselves, or allocates on its threads' stacks: they get the device's stack limit
    beside ``local_bytes``."""
    undefined_words: int = 0
    """Words for each thread with which sanitized code follows undefined values; 0: nothing in it gives any."""
    longest_path: int = 0
    """PTX instructions that a thread executes at most; 0 when nothing bounds them."""
    rounds: Rounds = Rounds.NONE
    """What decides how many rounds its loops take."""
    steady: bool = False
    """The bytes of device memory that it touches depend on its parameters, grid and block alone."""
    publishes: bool = False
    """It makes stores that threads outside the device see while it runs: volatile, relaxed or release ones, or any
    before a fence of the system's scope."""
    orders_accesses: bool = False
    """It orders its accesses to device memory itself, by strong ones or by publishing: it reports progress to the host,
    or waits for flags that the host sets."""
    timed: TimedCode = field(default_factory=TimedCode, repr=False)
    """Its instructions as the time model wants them."""

    @property
    def symbol(self) -> str:
        """The native entry point's name in the object code."""
        return f"run_{self.name}"


@dataclass(frozen=True)
class Program:
    """One compiled translation unit. ``objects`` maps a variant to native object code:
    ``plain`` (checked, one worker), ``atomic`` (checked, atomics real, for several workers),
    ``traced`` (checked, emits Records and Undo entries, marks bytes where ``Context.marks`` is set), ``footprint`` and
    ``footprint_atomic`` (as plain and atomic, and mark the bytes touched). A variant may be missing until asked for."""

    source: str
    ptx: str
    log: str
    kernels: dict[str, Kernel]
    globals: dict[str, GlobalVariable]
    lowered_names: dict[str, str]
    key: str
    objects: dict[str, bytes] = field(default_factory=dict)
    cubin: bytes = field(default=b"", repr=False)
    """What ptxas made of it for ``sm_90``, read by ``machine_code/cubin.py``; empty for PTX without source."""
    refused: dict[str, str] = field(default_factory=dict)
    """Kernels beside those of ``kernels`` that the simulated device does not execute (tensor cores), and why."""
