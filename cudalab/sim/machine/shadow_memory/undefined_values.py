"""Uses of undefined values: what shuffles read of absent lanes, and local memory read before it was written.

A shuffle whose source lane has exited, is not at the shuffle or is not named in the mask gives an undefined value (PTX
ISA, ``shfl.sync``). That alone is no error: NVIDIA's own reductions and scans read such lanes and drop what they get.
An error is a value that is *used*: stored to device memory, added by an atomic, printed, or what decides about one of
these. Values are followed from the shuffle through registers, shared memory, other shuffles and branches
(``compiler/passes/undefined_values.py``). A value that is not within the shuffle's segment is the lane's own, and
defined. Votes, ``match`` and ``redux`` never read an absent lane: lanes that have exited do not count, and waiting for
the others is a matter of masks (:mod:`.mask_mismatch`).

Local memory is followed in the same way, from loads of which no byte was stored. What the compiler keeps in registers
is not seen here; NVRTC warns of variables that are used before they are set.

Simplified: what is passed to functions that are not inlined comes back with their result, and is not looked for inside
them.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cudalab.sim.abi import Race
from cudalab.sim.abi_values import AbsentRead, UndefinedUse, UndefinedValues
from cudalab.sim.machine.shadow_memory.event_buffer import EventBuffer

if TYPE_CHECKING:
    from cudalab.sim.abi import Context
    from cudalab.sim.compiler.program import Kernel

READ = np.dtype(
    [("block", "<u8"), *((name, "<u4") for name in ("site", "thread", "mask", "members", "alive", "source"))]
)
USE = np.dtype([("block", "<u8"), *((name, "<u4") for name in ("site", "thread", "origin", "unused"))])
assert READ.itemsize == ctypes.sizeof(AbsentRead)
assert USE.itemsize == ctypes.sizeof(UndefinedUse)

_MOST_EVENTS = 1 << 18
_MOST_BYTES = 1 << 31
"""Words of one launch; beyond that nothing is followed."""
_MOST_LOCAL = 1 << 14
"""Bytes of each thread's local memory that are followed: all of it, but for a very deep stack."""
_WORD = 4


class Use(Struct, frozen=True):
    """Where a value was used that is undefined."""

    site: int
    block: int
    thread: int
    """In the block."""


class AbsentLane(Struct, frozen=True):
    """A shuffle whose lanes read absent ones, and use what they get."""

    site: int
    block: int
    thread: int
    source: int
    """The lane that is read."""
    mask: int
    members: int
    """Lanes that execute the shuffle together."""
    alive: int
    """Lanes that have not exited."""
    use: Use
    count: int
    """Reads that this stands for."""

    @property
    def reason(self) -> str:
        """Why the lane takes no part: ``"exited"``, ``"unnamed"`` or ``"elsewhere"``."""
        if not self.mask >> self.source & 1:
            return "unnamed"
        return "elsewhere" if self.alive >> self.source & 1 else "exited"


class UnwrittenLocal(Struct, frozen=True):
    """A load from local memory to which nothing was stored, and its use."""

    site: int
    use: Use
    count: int


class FollowedValues:
    """The words with which native code follows undefined values, and what it notes.

    Args:
        kernel: the kernel.
        context: of the launch, laid out.
        registers: follow values through registers; else only look for loads of unwritten local memory.
        resident: blocks that run side by side; 1: one after the other.
    """

    def __init__(self, kernel: Kernel, context: Context, *, registers: bool, resident: int = 1) -> None:
        self._own = own = UndefinedValues()
        threads = context.threads
        own.row_bytes = kernel.undefined_words * _WORD if registers else 0
        own.local_bytes = min(context.local_size, _MOST_LOCAL)
        own.shared_bytes = context.shared_size if registers else 0
        own.given = threads * own.row_bytes
        own.received = own.given + threads * _WORD
        own.local = own.received + threads * _WORD
        own.shared = own.local + threads * own.local_bytes * _WORD
        size = (own.shared + own.shared_bytes * _WORD + 63) // 64 * 64
        if resident > 1:
            own.block_bytes = size
        self.too_large = size * resident > _MOST_BYTES
        """There is no room for the words, so nothing is followed."""
        self._words = np.zeros(0 if self.too_large else size * resident, np.uint8)
        own.words = self._words.ctypes.data
        self._reads, self._uses = EventBuffer(READ, _MOST_EVENTS), EventBuffer(USE, _MOST_EVENTS)
        self._reads.attach(own.reads)
        self._uses.attach(own.uses)

    def attach(self, race: Race) -> None:
        """Let native code follow values."""
        race.undefined = 0 if self.too_large else ctypes.addressof(self._own)

    def begin_block(self) -> None:
        """What the block before has left in shared memory counts no more; its threads clear their words themselves."""
        if not self._own.block_bytes:
            self._words[self._own.shared :] = 0

    def absent_lanes(self) -> list[AbsentLane]:
        """One for each shuffle and each reason why a lane is absent, in the order in which they were seen."""
        reads, uses = self._reads.entries(self._own.reads), self._uses.entries(self._own.uses)
        uses = uses[uses["origin"] < UndefinedValues.LOCAL]
        numbers, first = np.unique(uses["origin"], return_index=True)
        found: dict[tuple[int, str], list[AbsentLane]] = {}
        for number, index in sorted(zip(numbers.tolist(), first.tolist(), strict=True)):
            read = reads[number - 1]
            site, block, thread, source, mask, members, alive = (
                int(read[name]) for name in ("site", "block", "thread", "source", "mask", "members", "alive")
            )
            each = AbsentLane(site, block, thread, source, mask, members, alive, _use(uses[index]), 1)
            found.setdefault((each.site, each.reason), []).append(each)
        return [_counted(each) for each in found.values()]

    def unwritten_locals(self) -> list[UnwrittenLocal]:
        """One for each load, with the number of its uses."""
        uses = self._uses.entries(self._own.uses)
        uses = uses[uses["origin"] >= UndefinedValues.LOCAL]
        origins, first, count = np.unique(uses["origin"], return_index=True, return_counts=True)
        return [
            UnwrittenLocal(int(origin) & ~UndefinedValues.LOCAL, _use(uses[index]), int(number))
            for origin, index, number in zip(origins, first, count, strict=True)
        ]


def _use(row: np.void) -> Use:
    return Use(int(row["site"]), int(row["block"]), int(row["thread"]))


def _counted(found: list[AbsentLane]) -> AbsentLane:
    return replace(found[0], count=len(found))
