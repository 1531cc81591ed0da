"""Experiments with mapped memory: kernels that read and write the host's page-locked memory over the bus."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.fidelity.copies import D2H, H2D, HostMemory, copy
from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory
from bench.graph_nodes import checked
from cudalab import cudart

Result = Iterator[tuple[str, float]]
I = np.int32  # noqa: E741
SIZES = {"64 KB": 64 << 10, "1 MB": MB, "16 MB": 16 * MB}
THREADS = 256


def address(host: int) -> int:
    """Page-locked memory as kernels have it."""
    return int(checked(cudart.cudaHostGetDevicePointer(host, 0)))


def by_size(lab: Laboratory, *, reads: bool, writes: bool) -> Result:
    """A kernel that copies floats, of which the host holds the source, the destination or both."""
    kernel = lab.kernel_of("memory", "copy1")
    a, b = (lab.buffer(name, 16 * MB).data.ptr for name in "ab")
    with HostMemory(16 * MB) as source, HostMemory(16 * MB) as destination:
        ends = address(source) if reads else a, address(destination) if writes else b
        for label, size in SIZES.items():
            grid = (size // 4 // THREADS,)
            yield label, lab.queued(lambda grid=grid, size=size: kernel(grid, (THREADS,), (*ends, I(size // 4))))


@experiment("mapped memory: reads by size")
def reads(lab: Laboratory) -> Result:
    yield from by_size(lab, reads=True, writes=False)


@experiment("mapped memory: writes by size")
def writes(lab: Laboratory) -> Result:
    yield from by_size(lab, reads=False, writes=True)


@experiment("mapped memory: reads and writes by size")
def both(lab: Laboratory) -> Result:
    yield from by_size(lab, reads=True, writes=True)


@experiment("mapped memory or copies, until done")
def zero_copy(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("memory", "copy1")
    a, b = (lab.buffer(name, 16 * MB).data.ptr for name in "ab")
    with HostMemory(16 * MB) as source, HostMemory(16 * MB) as destination:
        for label, size in (("4 KB", 4 << 10), *SIZES.items()):
            grid = (size // 4 // THREADS,)

            def mapped(grid: tuple[int] = grid, size: int = size) -> None:
                kernel(grid, (THREADS,), (address(source), address(destination), I(size // 4)))

            def copied(grid: tuple[int] = grid, size: int = size) -> None:
                copy(a, source, size, H2D)
                kernel(grid, (THREADS,), (a, b, I(size // 4)))
                copy(destination, b, size, D2H)

            yield f"mapped, {label}", lab.until_done(mapped)
            yield f"copied, {label}", lab.until_done(copied)


@experiment("mapped memory: reads by stride")
def strided(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("memory", "strided")
    out, n = lab.buffer("b", 16 * MB).data.ptr, MB // 4
    with HostMemory(32 * MB) as source:
        for stride in (1, 2, 8, 32):
            yield (
                f"stride {stride}",
                lab.queued(
                    lambda stride=stride: kernel((n // THREADS,), (THREADS,), (address(source), out, I(n), I(stride)))
                ),
            )


@experiment("mapped memory: reads by number of blocks")
def few_blocks(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("memory", "grid_stride")
    out, n = lab.buffer("b", 16 * MB).data.ptr, MB
    with HostMemory(4 * MB) as source:
        for blocks in (1, 4, 16, 132):
            yield (
                f"{blocks} blocks",
                lab.queued(lambda blocks=blocks: kernel((blocks,), (THREADS,), (address(source), out, I(n)))),
            )
