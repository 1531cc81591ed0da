"""Faults of mbarriers and bulk copies, in words: the state of the object, and what was wrong with its use.

The bits of an object are described in ``compiler/runtime/mbarrier.py``; the PTX ISA leaves them opaque. What an H200
does instead is in docs/dev/machine.md.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from msgspec import Struct

from cudalab.sim.abi import SHARED_WINDOW, WARP
from cudalab.sim.compiler.runtime import async_checks, layout
from cudalab.sim.compiler.runtime import mbarrier as objects
from cudalab.sim.machine.reports.finding import Problem

if TYPE_CHECKING:
    from cudalab.sim.abi import Context


class Mbarrier(Struct, frozen=True):
    """The state of a 64-bit object."""

    pending: int
    """Arrivals that this phase still waits for (the pending count)."""
    expected: int
    """Arrivals of each phase."""
    bytes_pending: int
    """The transaction count: bytes that were announced (``expect_tx``) and not copied yet; negative when more were
    copied than announced."""
    parity: int
    """Parity of the phase: 0 in the first."""
    initialised: bool

    @classmethod
    def of(cls, word: int) -> Mbarrier:
        """Read an object."""
        count = (1 << objects.COUNT_BITS) - 1
        bytes_ = word >> objects.TX_SHIFT & ((1 << objects.TX_BITS) - 1)
        if bytes_ >> (objects.TX_BITS - 1):
            bytes_ -= 1 << objects.TX_BITS
        return cls(
            word & count,
            word >> objects.EXPECTED_SHIFT & count,
            bytes_,
            word >> objects.PARITY_SHIFT & 1,
            word >> objects.MARK_SHIFT == objects.MARK,
        )

    def __str__(self) -> str:
        if not self.initialised:
            return "is not initialised"
        came = self.expected - self.pending
        text = f"is in a phase of parity {self.parity}, with {came} of {self.expected} arrivals"
        if self.bytes_pending > 0:
            text += f", and waits for {self.bytes_pending} bytes that no copy has brought"
        elif self.bytes_pending < 0:
            text += f", and copies have brought {-self.bytes_pending} bytes that were not announced"
        return text


def describe_phases(context: Context, threads: list[int]) -> str:
    """A sentence for each object and phase that ``threads`` wait for at an mbarrier."""
    rows = {
        row: (ctypes.c_uint32 * (context.warps * WARP)).from_address(context.scratch + context.warps * row)
        for row in (layout.A, layout.A_HIGH)
    }
    found: dict[tuple[int, int], None] = {}
    for thread in threads:
        found[rows[layout.A][thread], rows[layout.A_HIGH][thread]] = None
    sentences = []
    for offset, parity in list(found)[:4]:
        if offset + 8 > context.shared_size:
            continue
        word = ctypes.c_uint64.from_address(context.shared + offset).value
        sentences.append(
            f"The mbarrier at offset {offset} of shared memory {Mbarrier.of(word)}; "
            f"the phase that is waited for has parity {parity}."
        )
    return "\n".join(sentences)


def barrier_problem(why: int, word: int, count: int, address: int) -> Problem:
    """The wording of a ``FaultKind.BAD_BARRIER``."""
    state = Mbarrier.of(word)
    offset = address - SHARED_WINDOW
    where = f"The mbarrier at offset {offset} of shared memory" if offset >= 0 else "The mbarrier"
    if why == objects.UNINITIALISED:
        return Problem(
            "An mbarrier that is not initialised is used",
            "mbarrier not initialised",
            f"{where} was never initialised, or was invalidated, or something else was written over it.",
            "let one thread call init(&bar, count) (mbarrier.init), with __syncthreads() before the first use; keep "
            "ordinary stores away from its 8 bytes.",
        )
    if why == objects.BAD_COUNT:
        return Problem(
            f"An mbarrier is given a count of {count}",
            "mbarrier count",
            f"Counts of an mbarrier go from 1 to {objects.MOST_ARRIVALS}.",
            "pass the number of threads that arrive in each phase, often blockDim.x.",
        )
    if why == objects.TOO_MANY:
        return Problem(
            "More threads arrive at an mbarrier than it expects",
            "too many arrivals",
            f"{where} {state}; {count} more arrive. What a GPU does then is not defined.",
            "initialise it with the number of arrivals of each phase, and let each thread wait for the phase before it "
            "arrives again.",
        )
    if why == objects.COMPLETED:
        return Problem(
            "mbarrier.arrive.noComplete would complete the phase",
            "too many arrivals",
            f"{where} {state}; {count} more arrive. What a GPU does then is not defined.",
            "use mbarrier.arrive for the last arrivals.",
        )
    limit = (1 << (objects.TX_BITS - 1)) - 1
    return Problem(
        "An mbarrier cannot count so many bytes",
        "mbarrier bytes",
        f"{where} {state}; the count of bytes that are under way must stay between -{limit} and {limit}.",
        "announce the bytes of a phase in that phase, and no more than are copied.",
    )


def copy_problem(why: int, size: int) -> Problem:
    """The wording of a ``FaultKind.BAD_COPY``."""
    if why == async_checks.NO_CLUSTER:
        return Problem(
            f"A copy of {size} bytes into shared memory of a cluster, in a launch without clusters",
            "no cluster",
            "cp.async.bulk and cp.reduce.async.bulk from shared to shared memory, st.async and red.async are illegal "
            "instructions when no cluster size was asked for, also for the block's own memory.",
            "give the kernel __cluster_dims__(…), or the launch a cluster; within one block, copy with a loop.",
        )
    return Problem(
        f"A bulk copy of {size} bytes",
        "bulk copy size",
        "Bulk copies move multiples of 16 bytes, between addresses that are multiples of 16. An H200 says nothing, and "
        "what it copies is not defined.",
        "copy the part that is a multiple of 16 with it, and the rest element by element; cuda::memcpy_async without "
        "aligned_size_t does that.",
    )
