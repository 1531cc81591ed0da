"""Memory that compiled kernels share with the block driver in the runtime object.

*Scratch* is what the lanes of one warp write down when they wait at a warp operation or a barrier: an array of 32 words
for each operand, so that operand *k* of lane *i* is word ``32·k + i``. *Block* is the driver's record of the block that
runs. Offsets are bytes.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cudalab.sim import abi

_ROW = 4 * abi.WARP
#: Scratch: the mask of a warp operation; operands; results. Operand A of 64 bits has its upper words in A_HIGH.
MASK, A, B, C, RESULT, PREDICATE, A_HIGH = (number * _ROW for number in range(7))
SCRATCH_BYTES = 7 * _ROW

#: Block: linear index (u64), ctaid (3 × u32), and tables over the threads of a block: their x, y, z (u32 each), and
#: in traced code the order of lanes (u8 a thread; null: ascending).
LINEAR, CTAID, TID_X, TID_Y, TID_Z, LANE_ORDER = 0, 8, 24, 32, 40, 48
BLOCK_BYTES = 64

#: What a region returns in its low 32 bits when not all lanes wait at one point; the lanes still alive stand above.
DIVERGED = 0x7FFF_FFFF
FAULTED = 0x7FFF_FFFE
STOPPED = 0x7FFF_FFFD
#: States of a thread: the number of the point where it waits; READY added once it may go on; EXITED.
READY = 0x4000_0000
EXITED = 0xFFFF_FFFF
#: Flag on a warp's state in the driver: not released by the barrier that others left.
HOLD = 0x2000_0000

#: Descriptor of a kernel: number of points (u32), frame bytes, scratch bytes a warp (u32), then pointers to the regions'
#: functions and to the kinds (u8), both indexed by state.
DESCRIPTOR = "{i32, i32, i32, i32, ptr, ptr}"

#: What a function returns.
RETURNED, FUNCTION_FAULT, FUNCTION_STOPPED, FUNCTION_EXIT = 0, 1, 2, 3

#: One entry of an access table: offset, low, length (i64), size, site, root + 1, extent (i32).
ACCESS = "{i64, i64, i64, i32, i32, i32, i32}"


def field(name: str) -> int:
    """Byte offset of a field of ``Context``; ``"fault.site"`` reaches into a structure."""
    offset, structure = 0, abi.Context
    for part in name.split("."):
        descriptor: Any = getattr(structure, part)
        offset += descriptor.offset
        structure = dict(structure._fields_)[part]  # type: ignore[assignment, arg-type]
    return offset


CONTEXT_BYTES = ctypes.sizeof(abi.Context)
