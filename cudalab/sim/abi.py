"""The binary interface between generated native code and the machine that runs it.

Generated code (``cudalab.sim.compiler``) and its host (``cudalab.sim.machine``) share exactly what
stands in this file: the structures, their byte layout, and the numbers below. Every structure is a
``ctypes.Structure``; the compiler derives field offsets from it, so there is one definition.

Addresses
    A global-memory pointer is the address of the byte in this process, inside the *arena* that
    ``machine.memory`` reserves. Shared and local memory have windows at low generic addresses,
    where the arena never lies. Within ``.shared`` and ``.local`` PTX addresses are offsets. Addresses of
    device functions are numbers in a place of their own, ``FUNCTION_WINDOW``, where no memory is. Kernel parameters
    whose address is taken are read through ``PARAM_WINDOW``.

Shadow
    One ``uint16`` per 256-byte granule of the arena: how many bytes of the granule, from its
    start, belong to a live allocation (0 … 256). Allocations are 256-byte aligned, so a granule
    belongs to at most one.

Roots
    A pointer that the compiler can trace to one 8-byte field of the parameters, or to one module
    variable, is checked against the very allocation it came from: ``Root.base`` and ``Root.length``,
    filled in at launch. All others are checked against the shadow.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

GRANULE = 256
SHARED_WINDOW = 0x0100_0000
LOCAL_WINDOW = 0x0200_0000
WINDOW_SIZE = 0x0100_0000
FUNCTION_WINDOW = 0x0300_0000
FUNCTION_STEP = 16  # between the addresses of two functions
PARAM_WINDOW = 0x0400_0000
WARP = 32


class Status(IntEnum):
    """What a call of the native entry point returns."""

    DONE = 0
    FAULT = 1  # `context.fault` says which
    STOPPED = 2  # `context.stop` was set from outside (interrupt, or the time limit)


class Stop(IntEnum):
    """Values of ``context.stop``, polled by running code when its fuel is used up."""

    RUN = 0
    INTERRUPT = 1
    TIMEOUT = 2


class FaultKind(IntEnum):
    """Why a thread cannot go on. The machine maps each to a CUDA error and an explanation."""

    NONE = 0
    OUT_OF_BOUNDS = 1  # address, size, site
    MISALIGNED = 2
    TRAP = 3  # __trap(), brkpt
    ASSERT = 4  # detail = address of five u64: message, file, line, function, char size
    DEADLOCK = 5  # no thread of the block can go on; detail = address of the u32 states
    STACK_OVERFLOW = 6
    BAD_CALL = 7  # an indirect call through a value that is no device function
    READ_ONLY = 8  # a store to constant memory
    ILLEGAL_INSTRUCTION = 9


class SiteKind(IntEnum):
    LOAD = 0
    STORE = 1
    ATOMIC = 2
    BARRIER = 3  # bar.sync / barrier.sync of the whole block
    WARP = 4  # shfl, vote, match, bar.warp.sync, activemask, redux
    BLOCK = 5  # entry of a basic block; traced code only
    EXIT = 6  # the thread left the kernel
    OTHER = 7  # traps and calls: only faults name them


class Space(IntEnum):
    GENERIC = 0
    GLOBAL = 1
    SHARED = 2
    LOCAL = 3
    CONSTANT = 4
    PARAM = 5


class Root(ctypes.Structure):
    _fields_ = [("base", ctypes.c_uint64), ("length", ctypes.c_uint64)]


class Range(ctypes.Structure):
    """Host memory that the device may reach though it is outside the arena (cudaHostRegister)."""

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
    """Old bytes of a store or atomic to global memory, so that a timing sample can be taken back."""

    _fields_ = [("address", ctypes.c_uint64), ("size", ctypes.c_uint64), ("old", ctypes.c_uint8 * 16)]


class Buffer(ctypes.Structure):
    """A buffer that generated code appends to. When full, ``drain(context, buffer)`` is called
    (a ctypes callback; null: further entries are only counted in ``lost``)."""

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


class Context(ctypes.Structure):
    """Everything one worker needs to run blocks of one launch.

    ``int32 run(Context *, uint64 first_block, uint64 end_block)`` runs blocks in linear order
    (through ``block_order`` when it is set) and returns a ``Status``.
    """

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
        ("fuel", ctypes.c_uint32),  # back-edges between two looks at `stop`
        ("blocks_done", ctypes.c_uint64),
        ("clock", ctypes.c_uint64),  # base of clock64 and globaltimer, ns
        ("print", Buffer),  # entries: u64 block, u32 thread, u32 bytes, u64 format, args
        ("trace", Buffer),  # Record
        ("undo", Buffer),  # Undo; data 0: stores are not logged
        ("fault", Fault),
    ]
