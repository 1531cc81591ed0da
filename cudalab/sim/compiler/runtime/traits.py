"""What the functions of the runtime object need to know of the code that calls them."""

from __future__ import annotations

from typing import Protocol


class Traits(Protocol):
    """Of an object file; ``codegen.unit.Unit`` has them."""

    traced: bool
    """It writes a record for each access."""
    marked: bool
    """It marks the bytes that it touches."""
    skips: bool
    """It goes on after an access that is not allowed."""
    hardware_flush: bool
    """It runs in a mode of the processor that flushes subnormals."""
