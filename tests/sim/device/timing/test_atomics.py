"""Atomic operations on places that data name, against what an H200 took (docs/evidence/2026-11-23-slow-ways.json)."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device

MEASURED = json.loads((Path(__file__).parents[4] / "docs/evidence/2026-11-23-slow-ways.json").read_text())["atomics"]
BEHIND = json.loads((Path(__file__).parents[4] / "docs/evidence/2026-11-24-stores-and-atomics.json").read_text())[
    "ends"
]
COUNT = 1 << 20
_ALIGNED = 2 << 20
"""As the array lay that was measured."""
SOURCE = """
extern "C" __global__ void aadd(const int *at, int *y, int n, int v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&y[at[i]], v);
}
extern "C" __global__ void fetch(const int *at, int *y, int n, int v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, old = 0;
    if (i < n) old = atomicAdd(&y[at[i]], v);
    if (old == 123456789) y[0] = old;
}
extern "C" __global__ void behind(const float *x, int *b, int bins, int k) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float v = t;
    for (int i = 0; i < k; i++) v = v * 0.5f + 1.f;
    atomicAdd(&b[t % bins], v > 1e9f ? 2 : 1);
}
extern "C" __global__ void before(const float *x, int *b, int bins, int k) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&b[t % bins], 1);
    float v = t;
    for (int i = 0; i < k; i++) v = v * 0.5f + 1.f;
    if (v == 12345.f) b[0] = v;
}
extern "C" __global__ void loaded(const float *x, int *b, int bins, int k) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0;
#pragma unroll 1
    for (int i = 0; i < k; i++) v += x[(t + i * gridDim.x * blockDim.x) & 0x3fffff];
    atomicAdd(&b[t % bins], v > 1e9f ? 2 : 1);
}
"""
_DRAWN = np.random.default_rng(11)
_EACH = np.arange(COUNT)
PLACES: dict[str, Callable[[], np.ndarray]] = {
    "random 64": lambda: _DRAWN.integers(0, 64, COUNT),
    "random 128": lambda: _DRAWN.integers(0, 128, COUNT),
    "random 256": lambda: _DRAWN.integers(0, 256, COUNT),
    "random 512": lambda: _DRAWN.integers(0, 512, COUNT),
    "random 1024": lambda: _DRAWN.integers(0, 1024, COUNT),
    "random 262144": lambda: _DRAWN.integers(0, 1 << 18, COUNT),
    "random 4194304": lambda: _DRAWN.integers(0, 1 << 22, COUNT),
    "in order of 65536": lambda: _EACH % (1 << 16),
    "apart 8": lambda: _EACH * 8 % (1 << 22),
    "apart 32": lambda: _EACH * 32 % (1 << 22),
    "groups of 4 random 4096": lambda: np.repeat(_DRAWN.integers(0, 4096, COUNT // 4), 4),
    "one a warp of 1": lambda: _EACH * 0,
    "sorted 64": lambda: np.sort(_DRAWN.integers(0, 64, COUNT)),
    "sorted 512": lambda: np.sort(_DRAWN.integers(0, 512, COUNT)),
    "sorted 4096": lambda: np.sort(_DRAWN.integers(0, 4096, COUNT)),
}


@pytest.mark.parametrize("name", PLACES)
def test_atomics_take_what_an_h200_took(name: str) -> None:
    """On one unit of the L2, on several, on all of them; and on those of the keys that are sorted together."""
    device = Device()
    places = PLACES[name]().astype(np.int32)
    at, sums = device.malloc(places.nbytes), -(-device.malloc((4 << 22) + _ALIGNED) // _ALIGNED) * _ALIGNED
    device.memcpy(at, places.ctypes.data, places.nbytes)
    function = device.get_function(device.load_module(compile(SOURCE)), "aadd")
    time = device.time_launch(function, (COUNT // 256, 1, 1), (256, 1, 1), struct.pack("QQii", at, sums, COUNT, 3))
    assert time.exact_ns / 1000 == pytest.approx(MEASURED[name]["aadd"], rel=0.18)


@pytest.mark.parametrize("name", ["random 262144", "random 4194304", "apart 32", "random 512"])
def test_atomics_that_return_the_old_value_take_longer(name: str) -> None:
    """By a third where all units are at work; a single busy one hides it."""
    device = Device()
    places = PLACES[name]().astype(np.int32)
    at, sums = device.malloc(places.nbytes), -(-device.malloc((4 << 22) + _ALIGNED) // _ALIGNED) * _ALIGNED
    device.memcpy(at, places.ctypes.data, places.nbytes)
    function = device.get_function(device.load_module(compile(SOURCE)), "fetch")
    time = device.time_launch(function, (COUNT // 256, 1, 1), (256, 1, 1), struct.pack("QQii", at, sums, COUNT, 3))
    assert time.exact_ns / 1000 == pytest.approx(MEASURED[name]["fetch"], rel=0.18)


@pytest.mark.parametrize(
    "case",
    [
        "behind 0 into 256 528 x 256",
        "behind 1600 into 256 132 x 256",
        "behind 1600 into 256 1056 x 256",
        "behind 400 into 4096 4224 x 256",
        "before 1600 into 4096 528 x 256",
        "before 6400 into 256 4224 x 256",
        "loaded 8 into 256 528 x 256",
        "loaded 32 into 256 132 x 256",
        "loaded 32 into 4096 1056 x 256",
    ],
)
def test_atomics_that_all_blocks_begin_or_end_with(case: str) -> None:
    """Blocks that run side by side come to them at the same time, and wait for the units; what stands in the other part
    of the kernel takes its own time. Of a long block others are sampled, too: it says nothing of their addresses."""
    name, rounds, _, bins, blocks, _, threads = case.split()
    device = Device()
    x, b = device.malloc(4 << 22), device.malloc(4 << 22)
    function = device.get_function(device.load_module(compile(SOURCE)), name)
    args = struct.pack("QQii", x, b, int(bins), int(rounds))
    time = device.time_launch(function, (int(blocks), 1, 1), (int(threads), 1, 1), args)
    assert time.exact_ns / 1000 == pytest.approx(BEHIND[case], rel=0.14)
