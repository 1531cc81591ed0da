"""The part of the binary interface (``abi``) by which sanitized code follows undefined values."""

from __future__ import annotations

import ctypes

from cudalab.sim.abi import Buffer


class UndefinedValues(ctypes.Structure):
    """Where undefined values lie (``compiler/runtime/undefined_values.py``): a word for each register of each
    thread, and for each byte of local and shared memory. Offsets are from the start of a block's words."""

    LOCAL = 1 << 31  # flag of an origin: a site that loads local memory to which nothing was stored
    _fields_ = [
        ("words", ctypes.c_uint64),
        ("block_bytes", ctypes.c_uint64),  # of a block's words; 0: blocks run one at a time
        ("row_bytes", ctypes.c_uint64),  # of a thread's registers; 0: only local memory is followed
        ("given", ctypes.c_uint64),  # offset of uint32[threads]: of what each lane gives in a warp operation
        ("received", ctypes.c_uint64),
        ("local", ctypes.c_uint64),
        ("local_bytes", ctypes.c_uint64),  # of a thread's local memory that are followed
        ("shared", ctypes.c_uint64),
        ("shared_bytes", ctypes.c_uint64),
        ("read_count", ctypes.c_uint64),  # entries of reads so far
        ("reads", Buffer),  # AbsentRead
        ("uses", Buffer),  # UndefinedUse
    ]


class AbsentRead(ctypes.Structure):
    """A shuffle of one lane whose source lane takes no part in it."""

    _fields_ = [
        ("block", ctypes.c_uint64),
        ("site", ctypes.c_uint32),
        ("thread", ctypes.c_uint32),
        ("mask", ctypes.c_uint32),
        ("members", ctypes.c_uint32),  # lanes that execute it together
        ("alive", ctypes.c_uint32),  # lanes that have not exited
        ("source", ctypes.c_uint32),
    ]


class UndefinedUse(ctypes.Structure):
    """A use of an undefined value."""

    _fields_ = [
        ("block", ctypes.c_uint64),
        ("site", ctypes.c_uint32),
        ("thread", ctypes.c_uint32),
        ("origin", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    ]
