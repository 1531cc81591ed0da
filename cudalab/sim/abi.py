"""The binary interface between generated native code and the machine that runs it.

Generated code (``cudalab.sim.compiler``) and its host (``cudalab.sim.machine``) share the structures, layouts and
constants in this file. Every structure is a ``ctypes.Structure``, from which the compiler derives field offsets.

Addresses
    A global-memory pointer is the address of the byte in this process, inside the *arena* that ``machine.memory``
    reserves. Shared and local memory have windows at low generic addresses, where neither the arena lies nor memory
    of the host that can be registered; behind that of the block's shared memory are those of the blocks of its
    cluster, by rank. Within ``.shared`` and ``.local`` PTX addresses are offsets. Addresses of device functions lie in
    ``FUNCTION_WINDOW``, where no memory is; kernel parameters whose address is taken in ``PARAM_WINDOW``.

Shadow
    One ``uint16`` per 256-byte granule of the arena: how many bytes of the granule, from its start, belong to a live
    allocation (0 … 256). Allocations are 256-byte aligned, so a granule belongs to at most one.

Roots
    A pointer that the compiler can trace to one 8-byte field of the parameters, or to one module variable, is checked
    against the very allocation it came from: ``Root.base`` and ``Root.length``, filled in at launch. All others are
    checked against the shadow.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum, IntFlag

GRANULE = 256
SHARED_WINDOW = 0x0100_0000
WINDOW_SIZE = 0x0100_0000
RANK_SHIFT = 24  # position of the rank in distributed shared memory addresses (compiler/runtime/cluster.py)
CLUSTER_RANKS = 16  # blocks in a cluster at most
CLUSTER_END = SHARED_WINDOW + ((2 + CLUSTER_RANKS) << RANK_SHIFT)  # the last slot catches invalid ranks
LOCAL_WINDOW = CLUSTER_END
FUNCTION_WINDOW = LOCAL_WINDOW + WINDOW_SIZE
FUNCTION_STEP = 16  # between the addresses of two functions
PARAM_WINDOW = FUNCTION_WINDOW + WINDOW_SIZE
GRID_WINDOW = PARAM_WINDOW + WINDOW_SIZE  # workspace of the barrier of a cooperative launch
WINDOWS_END = GRID_WINDOW + WINDOW_SIZE
GRID_WORKSPACE_BYTES = 256
RESERVED_SHARED_BYTES = 1024  # of each block's shared memory, for the system
RESERVED_SHARED = WINDOW_SIZE - RESERVED_SHARED_BYTES  # their address in shared memory
WARP = 32
SECTOR = 32  # bytes, the unit that caches fetch and counters count
MARK_CHUNK_SHIFT = 14  # a mark of the coarse map covers 16 KiB


class Status(IntEnum):
    """Result of the native entry point."""

    DONE = 0
    FAULT = 1  # `context.fault` says which
    STOPPED = 2  # `context.stop` was set from outside (interrupt, or the time limit)
    YIELDED = 3  # the block polls memory; its thread states are in `context.states`


class Stop(IntEnum):
    """Values of ``context.stop``, polled by running code when its fuel runs out."""

    RUN = 0
    INTERRUPT = 1
    TIMEOUT = 2
    LENGTH = 3  # its trace is longer than `record_limit`


class Progress(IntFlag):
    """Progress of polling threads since ``context.progress`` was cleared (``compiler/codegen/polling.py``)."""

    REAL = 1  # an effect visible to other threads
    OWN = 2  # a thread changed its own state: it counts, or reads a clock
    POLLED = 4  # a thread yielded in a polling loop
    INTERLEAVED = 8  # a thread lets others come as far (``compiler/passes/races.py``)


class FaultKind(IntEnum):
    """Reasons for a fault. The machine maps each to a CUDA error and an explanation."""

    NONE = 0
    OUT_OF_BOUNDS = 1  # address, size, site
    MISALIGNED = 2
    TRAP = 3  # __trap(), brkpt
    ASSERT = 4  # detail = address of five u64: message, file, line, function, char size
    DEADLOCK = 5  # no thread of the block can run; detail = address of the u32 states
    STACK_OVERFLOW = 6
    BAD_CALL = 7  # an indirect call through a value that is not a device function
    READ_ONLY = 8  # a store to constant memory
    ILLEGAL_INSTRUCTION = 9
    BAD_IMAGE = 10  # no such texture or surface object, or of the wrong kind for the instruction; address = handle
    OUTSIDE_SURFACE = 11  # address = handle; extra = x (bytes), y, z or layer
    BAD_BARRIER = 12  # an mbarrier used against its rules; extra = why (runtime/mbarrier.py), the object, the count
    BAD_COPY = 13  # an asynchronous copy against its rules; address = bytes; extra = why (runtime/async_checks.py)
    BLOCK_LEFT = 20  # distributed shared memory of a block that has exited
    NO_SUCH_RANK = 21  # distributed shared memory of a rank that the cluster does not have
    ARRIVED_TWICE = 22  # at the cluster's barrier, in one phase
    BARRIER_MIXED = 24  # incompatible uses of a named barrier; address = its number
    BARRIER_COUNT = 23  # of a named barrier: not a multiple of 32, or 0 where one is needed; address = the count
    BAD_FREE = 30  # free of a pointer that is not a live heap allocation; address = the pointer


class SiteKind(IntEnum):
    LOAD = 0
    STORE = 1
    ATOMIC = 2
    BARRIER = 3  # bar.sync / barrier.sync of the whole block
    WARP = 4  # shfl, vote, match, bar.warp.sync, activemask, redux
    BLOCK = 5  # entry of a basic block; traced code only
    EXIT = 6  # the thread exited the kernel
    OTHER = 7  # traps and calls: referenced by faults only
    POLL = 8  # a polling loop; referenced by faults only
    FENCE = 9  # membar, fence: traced code records each
    SYNC = 10  # produces sync events but no access: mbarrier, cp.async.wait_group, barrier.cluster …
    SLOW_WAY = 11  # an operation whose operands take the assembler's slow way (division of 0); traced code only


class SyncEvent(IntEnum):
    """``Record.flags & 15``: the meaning of a trace record for happens-before.

    Its number, a phase or a group modulo 4096, is ``flags >> 4``. Records are in execution order; native code emits
    events with ``cl_event(ctx, address, site, thread, flags)``, or with ``e.event`` in the code of a thread.
    Synchronization objects are identified by a number that all their users share: an mbarrier by its generic shared
    address (in a cluster the ``mapa`` address), others by ``…_OBJECT`` below plus their number. The sanitizer's vector
    clocks follow them (``machine/sanitizer/happens_before``).
    """

    NONE = 0
    """By the kind of the site. An access: its generic address. ``BARRIER``: the thread arrives; barrier number +
    (threads expected << 32), 0 for all of the block. ``WARP``: the lane arrives; the mask. ``FENCE``: 0."""
    ARRIVE = 1
    """A release to this phase of the object (of an mbarrier, the phase's parity); the thread does not wait. A
    ``.relaxed`` arrival releases nothing and makes no event."""
    WAIT = 2
    """An acquire of this phase of the object, when the wait (or a successful test) is over."""
    ASYNC_READ = 3
    """An access of an asynchronous copy: generic address and group. It happens after the thread's earlier operations;
    the thread is ordered after it only by waiting for the group, or for a phase at which the copy arrives."""
    ASYNC_WRITE = 4
    EXTENT = 5
    """Follows an asynchronous access: its size in bytes, if different from the site's."""
    ASYNC_WAIT = 6
    """The thread has waited for its groups up to this one (``cp.async.wait_group``, ``wait_all``)."""
    ASYNC_ARRIVE = 7
    """A release by the thread's copies so far to this phase of the object: ``cp.async.mbarrier.arrive``, and each bulk
    copy that an mbarrier tracks."""
    OBJECT = 8
    """An mbarrier object is initialised or invalidated; its uses must be ordered with that. Sanitized code only."""
    SLEEP = 9
    """``nanosleep``: the requested ns; for the time model only."""


#: Synchronization objects that have no address: ``bar.arrive`` barriers (the phase is counted by the block), and the
#: barriers of the grid and of a cluster (the phase is the number of the barrier).
NAMED_BARRIER_OBJECT = 0x1_0000_0000
GRID_OBJECT = 0x2_0000_0000
CLUSTER_OBJECT = 0x3_0000_0000


class Space(IntEnum):
    GENERIC = 0
    GLOBAL = 1
    SHARED = 2
    LOCAL = 3
    CONSTANT = 4
    PARAM = 5
    TEXTURE = 6  # device memory, through a texture or surface object
    CLUSTER = 7  # .shared::cluster: shared memory of any block of the cluster


class Root(ctypes.Structure):
    _fields_ = [("base", ctypes.c_uint64), ("length", ctypes.c_uint64)]


class Range(ctypes.Structure):
    """Host memory outside the arena that the device may access (cudaHostRegister)."""

    _fields_ = [("base", ctypes.c_uint64), ("length", ctypes.c_uint64)]


class Record(ctypes.Structure):
    """One event of traced code, 16 bytes. Per thread, records come in program order."""

    _fields_ = [
        ("address", ctypes.c_uint64),  # access: generic address (shared/local: their window); else 0 or the mask
        ("site", ctypes.c_uint32),  # index into Kernel.sites
        ("thread", ctypes.c_uint16),  # linear in its block
        ("flags", ctypes.c_uint16),
    ]


class Undo(ctypes.Structure):
    """Old bytes of a store or atomic to global memory, so that a timing sample can be rolled back."""

    _fields_ = [("address", ctypes.c_uint64), ("size", ctypes.c_uint64), ("old", ctypes.c_uint8 * 16)]


class Buffer(ctypes.Structure):
    """Generated code appends to it. When full it calls ``drain(context, buffer)`` (null: ``lost`` counts the rest)."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),  # bytes
        ("used", ctypes.c_uint64),  # bytes
        ("lost", ctypes.c_uint64),  # entries dropped
        ("drain", ctypes.c_uint64),  # void (*)(Context *, Buffer *) or 0
    ]


class Fault(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("site", ctypes.c_uint32),
        ("block", ctypes.c_uint64),  # linear: x + y * grid.x + z * grid.x * grid.y
        ("thread", ctypes.c_uint32),  # linear
        ("size", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("root", ctypes.c_uint64),  # index + 1 into Kernel.roots, or 0
        ("detail", ctypes.c_uint64),
        ("extra", ctypes.c_uint64 * 5),  # access: start and length of the extent that was missed (shared: offsets)
    ]


class Marks(ctypes.Structure):
    """Maps in which a worker's footprint code marks the bytes it touches (``compiler/codegen/footprint_marks.py``)."""

    _fields_ = [
        ("rows", ctypes.c_uint64),  # MarkRow: of the arena, then of each root
        ("range_rows", ctypes.c_uint64),  # MarkRow of each of the context's ranges
        ("shift", ctypes.c_uint64),
    ]


class MarkRow(ctypes.Structure):
    """Address A is marked at ``fine[kind] + (A >> shift)``, its chunk's at ``coarse + (A >> MARK_CHUNK_SHIFT)``."""

    _fields_ = [
        ("fine", ctypes.c_uint64 * 3),  # loads, stores, atomics
        ("coarse", ctypes.c_uint64),
        ("hull", ctypes.c_uint64),  # of a root: start and length of the hull of touched bytes
        ("hull_length", ctypes.c_uint64),
    ]


class MarkRegion(ctypes.Structure):
    """A piece of memory whose marks are to be read."""

    _fields_ = [
        ("start", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("row", ctypes.c_uint64),  # MarkRow
        ("kinds", ctypes.c_uint64),  # bit set of 1 loads, 2 stores, 4 atomics
        ("coarse", ctypes.c_uint64),  # 1: the coarse map says which chunks have marks
    ]


class Image(ctypes.Structure):
    """A texture or surface object as compiled code reads it (``machine/memory/textures.py``)."""

    BYTES = 128
    INDEX_BITS = 20  # low bits of a handle: the object's place in the table
    TEXTURE, SURFACE = 1, 2
    _fields_ = [
        ("handle", ctypes.c_uint64),  # 0: there is no such object
        ("data", ctypes.c_uint64),  # address of the first texel
        ("pitch", ctypes.c_uint64),  # bytes from row to row
        ("slice", ctypes.c_uint64),  # bytes from slice to slice, or layer to layer
        ("kind", ctypes.c_uint32),  # Image.TEXTURE or .SURFACE
        ("shape", ctypes.c_uint32),  # ImageShape
        ("extent", ctypes.c_uint32 * 3),  # texels: width, height, depth or layers; at least 1
        ("texel", ctypes.c_uint32),  # bytes
        ("format", ctypes.c_uint32),  # TexelFormat
        ("channels", ctypes.c_uint32),
        ("fractions", ctypes.c_uint32),  # 1: integers are read as fractions of their greatest value
        ("linear", ctypes.c_uint32),  # 1: filtered
        ("normalised", ctypes.c_uint32),  # 1: coordinates go from 0 to 1
        ("address", ctypes.c_uint32 * 3),  # AddressMode of each axis
        ("border", ctypes.c_uint32 * 4),  # a texel as `cl_texel` gives it
        ("unused", ctypes.c_uint32 * 6),
    ]


class ImageShape(IntEnum):
    ARRAY_1D = 0
    ARRAY_2D = 1  # or pitched memory
    ARRAY_3D = 2
    LAYERED_1D = 3
    LAYERED_2D = 4
    CUBE = 5
    LAYERED_CUBE = 6
    LINEAR = 7  # linear memory


class TexelFormat(IntEnum):
    S8 = 0
    U8 = 1
    S16 = 2
    U16 = 3
    S32 = 4
    U32 = 5
    F16 = 6
    F32 = 7


class AddressMode(IntEnum):
    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class WatchSlot(ctypes.Structure):
    """A range of whole pages on which host accesses are intercepted (``machine/memory/page_trap.py``)."""

    _fields_ = [
        ("start", ctypes.c_uint64),
        ("step", ctypes.c_uint64),  # pages unprotected by the next access, doubling each time; 0: all of the slot
        ("state", ctypes.c_uint64),  # WatchSlot.WATCHED or .RELEASED
        ("end", ctypes.c_uint64),  # written last; 0: the slot is empty
    ]
    WATCHED, RELEASED = 1, 2


class WatchNote(ctypes.Structure):
    """A host access intercepted by the fault handler."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("access", ctypes.c_uint64),  # WatchNote.READ …
        ("slot", ctypes.c_uint64),
        ("text", ctypes.c_int64),  # where the dump of the Python stack begins in the file, or -1
        ("text_end", ctypes.c_int64),
        ("number", ctypes.c_uint64),  # counts from 1; written last
    ]
    READ, WRITE, UNKNOWN, SILENT = 0, 1, 2, 3


class SignalAction(ctypes.Structure):
    """A previous handler, for other faults."""

    _fields_ = [("function", ctypes.c_uint64), ("flags", ctypes.c_uint64)]


class WatchState(ctypes.Structure):
    """State shared by the fault handler and the machine; one per process."""

    PREVIOUS = 8
    _fields_ = [
        ("process", ctypes.c_uint64),
        ("slots", ctypes.c_uint64),  # WatchSlot[slot_count]
        ("slot_count", ctypes.c_uint64),
        ("notes", ctypes.c_uint64),  # WatchNote[note_count], a ring; note_count is a power of two
        ("note_count", ctypes.c_uint64),
        ("noted", ctypes.c_uint64),  # accesses since the start
        ("paused", ctypes.c_uint64),  # not 0: the simulator itself is at work
        ("arena", Range * 8),  # memory that is the simulator's own, always readable and writable
        ("dump_lock", ctypes.c_uint64),
        ("dump_file", ctypes.c_uint64),
        ("dump_signal", ctypes.c_uint64),  # its handler writes the Python stack to dump_file; 0: none
        ("notify_signal", ctypes.c_uint64),  # its Python handler runs soon after a touch; 0: none
        ("last_address", ctypes.c_uint64),  # of the last fault that was not ours, and how often it came in a row
        ("last_place", ctypes.c_uint64),
        ("repeats", ctypes.c_uint64),
        ("chained", ctypes.c_uint64),
        ("previous_count", ctypes.c_uint64),
        ("previous", SignalAction * PREVIOUS),  # the newest last
        ("default_action", ctypes.c_uint64 * 32),  # struct sigaction, all zeros
    ]


class Cluster(ctypes.Structure):
    """The cluster that a block belongs to: its barrier, and the shared memory of each of its blocks."""

    _fields_ = [
        ("pending", ctypes.c_uint32),  # threads that have neither arrived in this phase of the barrier nor exited
        ("live", ctypes.c_uint32),  # threads that have not exited
        ("phase", ctypes.c_uint32),  # completed phases
        ("blocks", ctypes.c_uint32),
        ("number", ctypes.c_uint64),  # linear index of the cluster in the grid
        ("shared", ctypes.c_uint64 * CLUSTER_RANKS),  # by rank
        ("left", ctypes.c_uint8 * CLUSTER_RANKS),  # 1: the block has exited, and its memory is gone
    ]


class Race(ctypes.Structure):
    """The race check's state in code of the variant ``sanitize``: shadow cells, times, suspects and skipped accesses.

    A cell stands for ``1 << shift`` bytes: time of the last access (32 bits), thread (10), state (4), three flags, site
    (15). States and flags are described in ``codegen/shadow_cells.py`` and ``runtime/race.py``."""

    SITE_MASK = (1 << 15) - 1
    SET, WARP_CONFLICT, GRID_CONFLICT = 1 << 15, 1 << 16, 1 << 17
    STATE_SHIFT, THREAD_SHIFT, TIME_SHIFT = 18, 22, 32
    READ, READ_WARP, READ_BLOCK, READ_GRID, WRITE, ATOMIC, ATOMIC_BLOCK, ATOMIC_GRID, SUSPECT = range(9)
    ROOT_CHECKED, ROOT_UNSET = 1, 2  # flags of a root: accesses are checked; it may hold unwritten bytes
    UNEVEN, ABSENT_LANE, UNWRITTEN_LOCAL, READ_ONLY = 1, 2, 4, 8  # bits of ``irregular``
    _fields_ = [
        ("cells", ctypes.c_uint64),  # of the arena: the cell of address A is at cells + ((A >> shift) << 3)
        ("shared_cells", ctypes.c_uint64),
        ("time", ctypes.c_uint64),  # counts calls of regions
        ("last_barrier", ctypes.c_uint64),  # of this block: accesses before this time happen before all that follow
        ("block_start", ctypes.c_uint64),
        ("launch_start", ctypes.c_uint64),
        ("root_flags", ctypes.c_uint64),  # uint8 of each root
        ("unset", ctypes.c_uint64),  # Range[unset_count]: allocations that are not fully initialised
        ("unset_count", ctypes.c_uint64),
        ("block", ctypes.c_uint64),  # linear index of the block that runs
        ("suspects", Buffer),  # Suspect
        ("skipped", Buffer),  # SkippedAccess
        ("irregular", ctypes.c_uint64),  # what has to be looked at again: masks, shuffles, local and read-only memory
        ("shared_shift", ctypes.c_uint32),
        ("shift", ctypes.c_uint32),
        ("sink", ctypes.c_uint64),  # 4096 bytes for skipped accesses
        ("undefined", ctypes.c_uint64),  # UndefinedValues (abi_values), or 0
        ("last_warp_operation", ctypes.c_uint64 * 32),  # as last_barrier, among the lanes of each warp
        ("resumed", ctypes.c_uint32 * 32),  # threads that have resumed from the last barrier
        ("diverged", ctypes.c_uint32),  # warps of this block of which some lanes executed an operation alone
    ]


class Suspect(ctypes.Structure):
    """An access that the shadow cells could not prove ordered after another, or to read initialised bytes."""

    _fields_ = [
        ("address", ctypes.c_uint64),  # generic
        ("cell", ctypes.c_uint64),  # as it was
        ("block", ctypes.c_uint64),
        ("site", ctypes.c_uint32),
        ("thread", ctypes.c_uint16),
        ("kind", ctypes.c_uint16),  # 0 order, 1 read of unwritten bytes
    ]


class SkippedAccess(ctypes.Structure):
    """An invalid access that was skipped."""

    _fields_ = [("fault", Fault)]


class Context(ctypes.Structure):
    """Everything one worker needs to run blocks of one launch. ``int32 run(Context *, uint64 first_block, uint64
    end_block)`` runs blocks in linear order (through ``block_order`` when it is set) and returns a ``Status``."""

    _fields_ = [
        ("arena", ctypes.c_uint64),  # base address
        ("arena_size", ctypes.c_uint64),
        ("shadow", ctypes.c_uint64),  # uint16[arena_size / GRANULE]
        ("ranges", ctypes.c_uint64),  # Range[range_count]
        ("range_count", ctypes.c_uint64),
        ("params", ctypes.c_uint64),  # the parameter buffer
        ("roots", ctypes.c_uint64),  # Root[len(Kernel.roots)]
        ("globals", ctypes.c_uint64),  # uint64[len(Program.globals)]: their addresses
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("threads", ctypes.c_uint32),  # per block
        ("warps", ctypes.c_uint32),  # per block
        ("shared", ctypes.c_uint64),  # this worker's shared memory
        ("shared_size", ctypes.c_uint32),  # static + dynamic, bytes
        ("dynamic_offset", ctypes.c_uint32),  # where dynamic shared memory begins
        ("local", ctypes.c_uint64),  # this worker's local memory: threads x local_size
        ("local_size", ctypes.c_uint64),  # bytes a thread
        ("frames", ctypes.c_uint64),  # this worker's frames: warps x Kernel.frame_bytes
        ("states", ctypes.c_uint64),  # uint32[threads]: resume point of each thread
        ("scratch", ctypes.c_uint64),  # warps x Kernel.scratch_bytes, for collectives
        ("block_order", ctypes.c_uint64),  # uint64[blocks] or 0
        ("thread_order", ctypes.c_uint64),  # uint32[threads] or 0 (traced code only)
        ("stop", ctypes.c_uint32),  # a Stop, written by the host
        ("fuel", ctypes.c_uint32),  # back-edges between two polls of `stop`
        ("blocks_done", ctypes.c_uint64),
        ("clock", ctypes.c_uint64),  # base of clock64 and globaltimer, ns
        ("print", Buffer),  # entries: u64 block, u32 thread, u32 bytes, u64 format, u32 site, u32 round, args
        ("trace", Buffer),  # Record
        ("undo", Buffer),  # Undo; data 0: stores are not logged
        ("fault", Fault),
        ("marks", ctypes.c_uint64),  # Marks, or 0: nothing is marked; footprint code needs them
        ("resume", ctypes.c_uint32),  # the first block resumes from `states` with its memory intact
        ("progress", ctypes.c_uint32),  # Progress: written by blocks that poll memory
        ("patience", ctypes.c_uint32),  # iterations that a loop polls before its thread yields
        ("rounds", ctypes.c_uint32),  # rounds after which a block with polling threads yields despite progress
        ("interleave", ctypes.c_uint32),  # threads wait for others before a store that may overwrite theirs (layout.py)
        ("print_round", ctypes.c_uint32),  # counts calls of regions, in kernels that print
        ("latencies", ctypes.c_uint64),  # uint32 of each class in ``compiler/passes/clocks.py``: 1/64 cycle
        ("l1_tags", ctypes.c_uint64),  # uint64[l1_sectors]
        ("l1_sectors", ctypes.c_uint32),
        ("clock_mhz", ctypes.c_uint32),
        ("images", ctypes.c_uint64),  # Image[image_count], or 0
        ("image_count", ctypes.c_uint64),
        ("race", ctypes.c_uint64),  # Race, or 0: code of the variants sanitize and sanitize_trace
        ("cluster", ctypes.c_uint64),  # Cluster of the running block; reinitialised for each block if it has only one
        ("cluster_dims", ctypes.c_uint32 * 3),  # blocks
        ("cluster_explicit", ctypes.c_uint32),  # 1: the launch specifies a cluster size
        ("grid_workspace", ctypes.c_uint64),  # contents of GRID_WINDOW in a cooperative launch; else 0
        ("heap_malloc", ctypes.c_uint64),  # u64 (*)(Context *, u64 size, u64 alignment, u32 site): a pointer or 0
        ("work", ctypes.c_uint64),  # uint64[blocks x warps], added to, or 0: what each warp did (codegen/work.py)
        ("triggers", ctypes.c_uint64),  # uint8[blocks], set to 1 by blocks that let dependent launches start, or 0
        ("prerequisite", ctypes.c_uint32),  # 1: the kernel that this one depends on has not completed
        ("heap_free", ctypes.c_uint64),  # u32 (*)(Context *, u64 pointer, u32 site): 0, or 1 when it cannot be freed
        ("graph_launch", ctypes.c_uint64),  # u32 (*)(Context *, u64 graph, u64 stream): a cudaError_t
        ("current_graph", ctypes.c_uint64),  # the executable graph that the launch is a node of, or 0
        ("record_limit", ctypes.c_int64),  # records that may get lost until the run is stopped
    ]
