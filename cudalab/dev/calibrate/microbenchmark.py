"""A microbenchmark: one kernel launch, described so that it can be measured on a device and modelled."""

from __future__ import annotations

from dataclasses import dataclass

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
LINE = 128


@dataclass(frozen=True)
class Buffer:
    """A pointer parameter: device memory of ``size`` bytes, all zero; the same memory for the same name."""

    name: str
    size: int


Argument = Buffer | tuple[str, float]


@dataclass(frozen=True)
class Microbenchmark:
    """One launch. ``arguments`` are buffers, and numbers as their type and value."""

    name: str
    kernel: str
    blocks: int
    threads: int
    arguments: tuple[Argument, ...] = ()
    """Numbers are pairs of a ``struct`` letter and the value: ``("i", 4096)``."""
    shared: int = 0
    """Dynamic shared memory, bytes."""
    module: str = "apart"
    """Which kernels it is one of (measurement.py); those of ``grid`` are launched as cooperative."""
