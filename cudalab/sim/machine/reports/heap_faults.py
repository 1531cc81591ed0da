"""Frees in kernels that free nothing, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.machine.reports.finding import Problem

if TYPE_CHECKING:
    from cudalab.sim.machine.memory.allocations import Memory


def is_wild(memory: Memory, pointer: int) -> bool:
    """Is ``pointer`` outside all device memory, now and before? An H200 then faults on what lies before the address."""
    near = memory.explain(pointer, 1)
    known = near.inside or near.freed or near.is_local_window or near.is_shared_window
    return not known and memory.chunk_at(pointer) is None


def invalid_free(memory: Memory, pointer: int) -> Problem:
    """A ``free`` or ``delete`` of something other than the start of a live allocation of the heap."""
    return Problem(
        "A thread frees memory that it cannot free",
        "invalid free",
        _why(memory, pointer) + ".",
        "free, once, exactly the address that malloc or new returned; a GPU notices a second free only and spoils its "
        "heap otherwise.",
    )


def _why(memory: Memory, pointer: int) -> str:
    near = memory.explain(pointer, 1)
    if near.freed is not None and near.freed.kind == "heap":
        return near.freed.why_not_freed(pointer)
    if near.inside is not None and near.inside.kind == "heap":
        distance = pointer - near.inside.pointer
        return f"{pointer:#x} lies {distance} bytes into the {near.inside.describe()}: pass what malloc returned"
    if near.inside is not None:
        return (
            f"{pointer:#x} is in the {near.inside.describe()}: free takes what malloc or new gave to a thread, the "
            "host frees what the host allocated"
        )
    if near.is_local_window:
        return f"{pointer:#x} is a local variable: its memory is not from malloc"
    if near.is_shared_window:
        return f"{pointer:#x} is in shared memory, which is not from malloc"
    return f"{pointer:#x} was never returned by malloc or new"
