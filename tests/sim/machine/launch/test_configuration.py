"""Launch configurations: what is refused, with which code, and what the message says."""

from __future__ import annotations

import pytest

from cudalab.sim.machine.launch.configuration import dim3
from cudalab.sim.machine.launch.validation import LaunchError
from tests.sim.machine.handmade import make


def check(grid=(1, 1, 1), block=(1, 1, 1), shared: int = 0, opted: int | None = None, **kernel: int) -> None:
    loaded = make(lambda block: None, **kernel)
    loaded.max_dynamic_shared = opted
    loaded.configure(grid, block, shared)


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((2**31 - 1, 1, 1), (1, 1, 1)),
        ((1, 65535, 65535), (1, 1, 1)),
        ((1, 1, 1), (1024, 1, 1)),
        ((1, 1, 1), (1, 1024, 1)),
        ((1, 1, 1), (16, 1, 64)),
    ],
)
def test_the_largest_are_allowed(grid, block) -> None:
    check(grid, block)


@pytest.mark.parametrize(
    ("grid", "block", "words"),
    [
        ((2**31, 1, 1), (1, 1, 1), "blocks in x, more than the limit of 2147483647"),
        ((1, 65536, 1), (1, 1, 1), "blocks in y, more than the limit of 65535"),
        ((1, 1, 65536), (1, 1, 1), "blocks in z, more than the limit of 65535"),
        ((0, 1, 1), (1, 1, 1), "has 0 blocks in x; every dimension must be at least 1"),
        ((1, 1, 1), (1, 0, 1), "has 0 threads in y"),
        ((1, 1, 1), (2048, 1, 1), "2048 threads in x, more than the limit of 1024"),
        ((1, 1, 1), (1, 1, 65), "65 threads in z, more than the limit of 64"),
        ((1, 1, 1), (32, 33, 1), r"32 x 33 x 1 = 1056 threads is larger than the 1024"),
    ],
)
def test_sizes_over_the_limit(grid, block, words: str) -> None:
    with pytest.raises(LaunchError, match=words) as error:
        check(grid, block)
    assert (error.value.code, error.value.name) == (9, "cudaErrorInvalidConfiguration")
    assert error.value.driver_code == 1


def test_launch_bounds() -> None:
    with pytest.raises(LaunchError, match=r"__launch_bounds__\(128\).*blocks of 256 threads") as error:
        check(block=(256, 1, 1), max_threads=128)
    assert error.value.code == 701


def test_registers() -> None:
    check(block=(1024, 1, 1), registers=64)
    with pytest.raises(LaunchError, match=r"uses 65 registers a thread; 1024 threads need 73728.*at most 896") as error:
        check(block=(1024, 1, 1), registers=65)
    assert (error.value.code, error.value.driver_code) == (701, 701)
    check(block=(896, 1, 1), registers=65)


def test_shared_memory_needs_opting_in() -> None:
    check(shared=48 * 1024)
    with pytest.raises(LaunchError, match="49153 bytes of dynamic shared memory; without opting in.*48 KB") as error:
        check(shared=48 * 1024 + 1)
    assert error.value.code == 1
    check(shared=100_000, opted=100_000)
    with pytest.raises(LaunchError, match="asks for 100001 bytes"):
        check(shared=100_001, opted=100_000)


def test_static_shared_memory_counts() -> None:
    check(shared=48 * 1024 - 4096, static_shared=4096)
    with pytest.raises(LaunchError, match="4096 bytes static"):
        check(shared=48 * 1024, static_shared=4096)


def test_more_than_the_device_has() -> None:
    check(shared=227 * 1024, opted=227 * 1024)
    with pytest.raises(LaunchError, match="at most 232448"):
        check(shared=227 * 1024 + 1, opted=300_000)


def test_one_to_three_numbers() -> None:
    assert dim3(5, "grid") == (5, 1, 1)
    assert dim3((5, 6), "grid") == (5, 6, 1)
    with pytest.raises(ValueError, match="grid must have one to three dimensions"):
        dim3((1, 2, 3, 4), "grid")
