"""Traits of the code that calls the runtime object."""

from __future__ import annotations

from typing import Protocol


class Traits(Protocol):
    """Traits of an object file; implemented by ``codegen.unit.Unit``."""

    traced: bool
    """It writes a record for each access."""
    marked: bool
    """It marks the bytes that it touches."""
    skips: bool
    """It continues after an invalid access."""
    hardware_flush: bool
    """It runs in a mode of the processor that flushes subnormals."""
