"""Layout of the memory that compiled kernels share with the block driver in the runtime object.

*Scratch* holds the operands of warp operations and barriers: per operand an array of one word per thread. *Frames* hold
spilled registers, likewise as per-thread arrays. Offsets into both are given for one warp and are multiplied by the
number of warps of the block. *Block* is the driver's record of the running block. Offsets are in bytes.
"""

from __future__ import annotations

import sys
from typing import Any

from cudalab.sim import abi

_ROW = 4 * abi.WARP
#: Scratch: the mask of a warp operation; operands; results. Operand A of 64 bits has its upper words in A_HIGH.
ROWS = tuple(number * _ROW for number in range(7))
MASK, A, B, C, RESULT, PREDICATE, A_HIGH = ROWS
SCRATCH_BYTES = 7 * _ROW
#: After that, in kernels with asynchronous copies (``async_copy``), bytes per warp: headers of the block and of its
#: threads, rings of entries (at ASYNC_RINGS), and a list of entries (at ASYNC_LIST).
ASYNC_RING, ASYNC_LISTED, ASYNC_ENTRY = 32, 64, 48
ASYNC_HEADER, ASYNC_THREAD = 64, 16
ASYNC_RINGS = ASYNC_HEADER + abi.WARP * ASYNC_THREAD
ASYNC_LIST = ASYNC_RINGS + abi.WARP * ASYNC_RING * ASYNC_ENTRY
ASYNC_BYTES = ASYNC_LIST + ASYNC_LISTED * ASYNC_ENTRY

#: Block: linear index (u64), ctaid (3 × u32), tables over the threads of a block: their x, y, z (u32 each), and in
#: traced code the order in which a region takes them (u32 each; null: ascending); the size of the parameters (u64); and
#: whether the block still has to yield to others before it stores what they may have loaded (u32, ``passes.races``).
LINEAR, CTAID, TID_X, TID_Y, TID_Z, ORDER, PARAMETER_BYTES, ALONE = 0, 8, 24, 32, 40, 48, 56, 64
BLOCK_BYTES = 72

#: Results of a region, other than the number of the point at which all its threads wait.
DIVERGED = 0x7FFF_FFFF
FAULTED = 0x7FFF_FFFE
STOPPED = 0x7FFF_FFFD
#: The driver's result for a block whose threads poll.
YIELDED = 0x7FFF_FFFC
#: Thread states: the number of the point at which it waits; READY is added once it may resume; EXITED (-1).
READY = 0x4000_0000
EXITED = -1
#: ``context.interleave``: a thread waits for those of the resident blocks (the block yields once), or of its own block.
INTERLEAVE_BLOCKS, INTERLEAVE_BLOCK = 1, 2
#: Flag on a warp's state in the driver: held at a barrier that released others.
HOLD = 0x2000_0000

#: Descriptor of a kernel: site of its first point (u64), then pointers to the regions' functions, to the kinds of its
#: points (u8), and to the operands of its points that are literals, all indexed by state; the size of its parameters
#: (u64); and a function that completes the copies that an mbarrier tracks, or null.
DESCRIPTOR = "{i64, ptr, ptr, ptr, i64, ptr}"
#: Literal operands of a point: a bit set of those present, mask, b, c. Threads do not store these in scratch memory.
LITERALS = "{i32, i32, i32, i32}"
LITERAL_BYTES = 16
LITERAL_MASK, LITERAL_B, LITERAL_C = 1, 2, 4
#: Further bit: the predicate result is unused.
NO_PREDICATE = 8
#: Further bit: the barrier combines predicates (bar.red).
REDUCING = 16
#: Further bits: the region that starts at the point reads shared memory that no barrier has ordered; a region of the
#: kernel does (on its entry).
UNORDERED, ANY_UNORDERED = 32, 64
#: What shared memory holds where such a kernel's block begins: a large number in every type but half, where it is NaN.
STALE = 0x7F

#: Barriers of the block, after the states of its threads: for each of the 16 the arrived threads (whole warps), the
#: expected count (0: not known yet), the sum and the number of the predicates, whether it reduces, and whether its uses
#: are incompatible (u32 each); then for each warp the barrier at which it waits (its number + 1, PASSED added on
#: completion; 0: none), and the sum and number of predicates it receives.
BARRIERS = 16
BARRIER_ARRIVED, BARRIER_EXPECTED, BARRIER_SUM, BARRIER_VOTES, BARRIER_REDUCES, BARRIER_MIXED, BARRIER_BYTES = (
    0,
    4,
    8,
    12,
    16,
    20,
    32,
)
WAITING, WAITING_SUM, WAITING_VOTES, WAITING_BYTES = 0, 4, 8, 16
WAITS = BARRIERS * BARRIER_BYTES
BARRIER_TABLE_BYTES = WAITS + 32 * WAITING_BYTES
#: Value of BARRIER_EXPECTED: all warps that have not exited.
EVERYBODY = -1
PASSED = 0x100

#: The most records reserved by one check of the trace buffer.
RECORDS_AT_ONCE = 32

#: Status returned by a function.
RETURNED, FUNCTION_FAULT, FUNCTION_STOPPED, FUNCTION_EXIT = 0, 1, 2, 3

#: One entry of an access table: offset, low, length (i64), size, site, root + 1, extent (i32).
ACCESS = "{i64, i64, i64, i32, i32, i32, i32}"


#: A calling convention with nearly all registers callee-saved: rare calls cause no spills in the caller.
SPARING = "preserve_allcc" if sys.platform != "win32" else ""


def field(name: str) -> int:
    """Byte offset of a field of ``Context``; ``"fault.site"`` names a field of a nested structure."""
    offset, structure = 0, abi.Context
    for part in name.split("."):
        descriptor: Any = getattr(structure, part)
        offset += descriptor.offset
        structure = dict(structure._fields_)[part]  # type: ignore[assignment, arg-type]
    return offset


def race_field(name: str) -> int:
    """Byte offset of a field of ``Race``."""
    return int(getattr(abi.Race, name).offset)


#: Fields of ``Marks``, of its rows, and of the regions to be read.
MARK_ROWS, MARK_RANGE_ROWS, MARK_SHIFT = 0, 8, 16
MARK_COARSE, MARK_HULL, MARK_ROW_BYTES = 24, 32, 48
REGION_ROW, REGION_KINDS, REGION_COARSE, REGION_BYTES = 16, 24, 32, 40

#: Calling convention of ``cl_race``: the callee preserves the caller's registers.
RACE_CONVENTION = "preserve_mostcc" if sys.platform != "win32" else ""
