"""Theoretical occupancy on compute capability 9.0, against values worked out from its limits."""

from __future__ import annotations

import pytest

from cudalab.sim.machine.launch.occupancy import kernel_occupancy, occupancy
from tests.sim.h200 import LIMITS
from tests.sim.machine.handmade import make


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "warps", "limiter"),
    [
        (32, 16, 0, 32, 32, "blocks"),
        (64, 16, 0, 32, 64, "warps"),
        (256, 32, 0, 8, 64, "warps"),
        (1024, 32, 0, 2, 64, "warps"),
        (256, 64, 0, 4, 32, "registers"),
        (1024, 64, 0, 1, 32, "registers"),
        (256, 40, 0, 6, 48, "registers"),
        (256, 255, 0, 1, 8, "registers"),
        (128, 16, 48 * 1024, 4, 16, "shared memory"),
        (128, 16, 227 * 1024, 1, 4, "shared memory"),
        (33, 16, 0, 32, 64, "warps"),
        (768, 16, 0, 2, 48, "warps"),
    ],
)
def test_residency(threads: int, registers: int, shared: int, blocks: int, warps: int, limiter: str) -> None:
    found = occupancy(threads, registers, shared, limits=LIMITS)
    assert (found.blocks_per_sm, found.warps_per_sm, found.limiter) == (blocks, warps, limiter)
    assert found.fraction == warps / 64


def test_nothing_fits() -> None:
    assert occupancy(32, 16, 228 * 1024, limits=LIMITS).blocks_per_sm == 0


def test_text_names_the_limiter() -> None:
    assert str(occupancy(256, 64, limits=LIMITS)) == (
        "50% occupancy: 4 blocks of 256 threads an SM (32 warps), limited by registers"
    )


@pytest.mark.parametrize("threads", [0, 1025, -1])
def test_bad_block_sizes(threads: int) -> None:
    with pytest.raises(ValueError, match="threads must be 1 to 1024"):
        occupancy(threads, limits=LIMITS)


def test_registers_and_shared_memory_of_a_kernel() -> None:
    kernel = make(lambda block: None, registers=40, static_shared=1024).kernel
    for threads in range(32, 1025, 32):
        found = kernel_occupancy(kernel, threads, 512, LIMITS)
        assert found == occupancy(threads, 40, 1536, limits=LIMITS)
        assert found.threads == threads and found.fraction <= 1.0
