"""The time model against figures measured on an H200: the order of variants, and roughly their size."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from bench.fidelity.stored import everything
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.profile import ProfileError, load, names
from cudalab.sim.device.timing import transfers
from tests.sim.device.conftest import Bench

SOURCE = r"""
extern "C" {
__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void strided(const float *x, float *y, int n, int stride) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i * stride] = x[i * stride];
}
__global__ void fma_chain(float *x, int rounds) {
    float y = threadIdx.x;
    for (int k = 0; k < rounds; k++) y = y * 1.0001f + 0.5f;
    x[blockIdx.x * blockDim.x + threadIdx.x] = y;
}
__global__ void banks(float *out, int stride) {
    __shared__ float t[2048];
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) t[k] = k;
    __syncthreads();
    float sum = 0;
    int j = threadIdx.x * stride & 2047;
    for (int k = 0; k < 1024; k++) sum += ((volatile float *)t)[j];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void pile(unsigned *counts, int spread) {
    atomicAdd(&counts[(blockIdx.x * blockDim.x + threadIdx.x) % spread], 1u);
}
__global__ void empty() {}
}
"""
MB = 1 << 20


@pytest.fixture(scope="module")
def timed():
    """``timed(name, grid, block, layout, *values)`` in us on an H200; buffers by size are shared."""
    device = Device()
    device.memory.capacity = 1 << 40  # addresses only: the samples touch a few pages
    module = device.load_module(compile(SOURCE))
    buffers: dict[tuple[str, int], int] = {}

    def buffer(name, size):
        if (name, size) not in buffers:
            buffers[name, size] = device.malloc(size)
        return buffers[name, size]

    def time(name, grid, block, layout="", *values):
        pointers = [buffer(*v) if isinstance(v, tuple) else v for v in values]
        function = device.get_function(module, name)
        return device.time_launch(function, (grid, 1, 1), (block, 1, 1), struct.pack(layout, *pointers))

    return time


def rank(values):
    return np.argsort(np.argsort(values)).tolist()


def close(modelled, measured, error):
    assert np.abs(np.array(modelled) / np.array(measured) - 1).max() < error


def test_block_size_sweep_of_vector_addition(timed):
    """64 M floats. Measured between events, which adds the call's 5.4 us."""
    measured = {32: 1270.0, 64: 640.5, 128: 324.2, 256: 241.5, 512: 256.6, 1024: 283.6}
    n = 64 * MB
    modelled = [
        timed("add", n // b, b, "QQQi", ("a", 4 * n), ("b", 4 * n), ("c", 4 * n), n).ns / 1e3 + 5.4 for b in measured
    ]
    assert rank(modelled) == rank(list(measured.values()))
    close(modelled, list(measured.values()), 0.06)


def test_the_sweep_names_what_binds(timed):
    n = 64 * MB
    arguments = ("QQQi", ("a", 4 * n), ("b", 4 * n), ("c", 4 * n), n)
    assert timed("add", n // 32, 32, *arguments).bound == "dispatch"
    best = timed("add", n // 256, 256, *arguments)
    assert best.bound == "latency"
    assert 0.6 < best.peak_fraction < 0.8


def test_vector_addition_by_size(timed):
    measured = {16384: 7.296, 262144: 7.904, 1048576: 10.08, 4194304: 22.46, 16777216: 65.6}
    modelled = [
        timed("add", n // 256, 256, "QQQi", ("a", 4 * n), ("b", 4 * n), ("c", 4 * n), n).ns / 1e3 + 5.4
        for n in measured
    ]
    assert rank(modelled) == rank(list(measured.values()))
    close(modelled, list(measured.values()), 0.12)


def test_stride(timed):
    """ps an element when every thread moves one element, ``stride`` elements apart."""
    measured = {1: 3.097, 2: 5.649, 4: 11.28, 8: 22.65, 16: 32.59, 32: 50.66}
    modelled = []
    for stride in measured:
        n = 256 * MB // stride
        time = timed("strided", n // 256, 256, "QQii", ("a", 1024 * MB), ("b", 1024 * MB), n, stride)
        modelled.append(time.ns * 1e3 / n)
    assert rank(modelled) == rank(list(measured.values()))
    close(modelled, list(measured.values()), 0.1)


def test_dependent_arithmetic_by_blocks_an_sm(timed):
    """4096 dependent FMAs a thread, 256 threads a block; event times less 4.5 us of call and start."""
    measured = {1: 17.15 - 4.5, 2: 20.13 - 4.5, 4: 30.11 - 4.5, 8: 50.37 - 4.5}
    modelled = [timed("fma_chain", 132 * b, 256, "Qi", ("f", MB * 4), 4096).ns / 1e3 for b in measured]
    assert modelled == sorted(modelled)
    close(modelled, list(measured.values()), 0.35)


def test_bank_conflicts(timed):
    measured = {1: 18.9, 2: 35.4, 4: 68.4, 32: 533.5}  # 1024 threads an SM
    times = {stride: timed("banks", 132, 1024, "Qi", ("o", MB), stride) for stride in measured}
    modelled = [time.ns / 1e3 for time in times.values()]
    assert modelled == sorted(modelled)
    close(modelled, list(measured.values()), 0.35)
    assert times[32].bound == "shared"


def test_atomics_by_spread(timed):
    """ns an operation: all on one address, on one line, on 32 lines, apart."""
    measured = {1: 0.7332, 32: 0.0778, 1024: 0.0130, 32768: 0.0041}
    blocks = 4096
    modelled = [timed("pile", blocks, 256, "Qi", ("p", MB), spread).ns / (blocks * 256) for spread in measured]
    assert modelled == sorted(modelled, reverse=True)
    assert modelled[0] == pytest.approx(measured[1], rel=0.15)
    assert modelled[1] == pytest.approx(measured[32], rel=0.2)
    assert modelled[-1] == pytest.approx(measured[32768], rel=0.2)


def test_an_empty_kernel(timed):
    assert timed("empty", 1, 1).ns == pytest.approx(1410, abs=60)
    assert timed("empty", 132_000, 32).ns == pytest.approx(82_000 - 1248, rel=0.03)


# -- copies and calls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "h2d", "d2h"),
    [
        (65536, 6.27, 5.18),
        (MB, 24.3, 23.5),
        (16 * MB, 307.9, 306.6),
        (64 * MB, 1214.0, 1215.0),
        (256 * MB, 4848.0, 4850.0),
    ],
)
def test_page_locked_copies(size, h2d, d2h):
    """Between events, which see the call's own time too."""
    profile = load("h200")
    for way, measured in (("h2d", h2d), ("d2h", d2h)):
        modelled = transfers.bus_copy(profile, size, way) / 1e3 + profile.host["memcpy_async"] / 1e3
        assert modelled == pytest.approx(measured, rel=0.25 if size < MB else 0.08)


@pytest.mark.parametrize(("size", "measured"), [(MB, 6.1), (16 * MB, 9.7), (64 * MB, 20.6), (256 * MB, 65.3)])
def test_memsets(size, measured):
    """Between events, which see the call's own time too."""
    profile = load("h200")
    modelled = (transfers.memset(profile, size) + transfers.memset_call(profile, size)) / 1e3
    assert modelled == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize(("size", "measured"), [(128 * MB, 68.5), (1024 * MB, 508.6)])
def test_copies_within_the_device(size, measured):
    assert (transfers.device_copy(load("h200"), size) + 1500) / 1e3 == pytest.approx(measured, rel=0.06)


def test_pageable_copies_are_slower_and_block(bench):
    device, size = bench.device, 4 * MB
    pointer, array = device.malloc(size), np.ones(size, np.uint8)
    pinned = device.malloc_host(size)

    def host_time(*arguments):
        device.synchronize()
        before = device.clock_ns
        device.memcpy(*arguments)
        return device.clock_ns - before

    assert host_time(pointer, pinned, size, 1, 0, True) < 3_000
    pageable = host_time(pointer, array.ctypes.data, size, 1, 0, True)
    assert pageable == pytest.approx(247_500, rel=0.1)  # measured on an H200
    measured = everything().figures["calls on an idle device, host time: blocking"]
    for way in (MB, 256 << 10):
        back = measured[f"cudaMemcpyAsync to host, pageable, {way}"]
        assert host_time(array.ctypes.data, pointer, way, 2, 0, True) == pytest.approx(1000 * back, rel=0.15)
    small = measured["cudaMemcpy to device, pageable, 4096"]
    assert host_time(pointer, array.ctypes.data, 4096, 1, 0, True) == pytest.approx(1000 * small, rel=0.15)
    for way in (MB, 256 << 10):  # a synchronous call, too, is over when the bytes are staged
        there = measured[f"cudaMemcpy to device, pageable, {way}"]
        assert host_time(pointer, array.ctypes.data, way, 1) == pytest.approx(1000 * there, rel=0.1)


def test_launches_cost_the_host_a_few_microseconds():
    bench = Bench()
    device = bench.device
    function = device.get_function(device.load_module(compile(SOURCE)), "empty")
    device.synchronize()
    before = device.clock_ns
    for _ in range(1000):
        device.launch(function, (1, 1, 1), (1, 1, 1), b"")
    measured = everything().figures["graphs: capturing a launch, host time"]["1000 launches, plain"]
    assert (device.clock_ns - before) / 1e6 == pytest.approx(measured, rel=0.1)


def test_launch_and_wait(bench):
    device = bench.device
    function = device.get_function(device.load_module(compile(SOURCE)), "empty")
    device.synchronize()
    before = device.clock_ns
    device.launch(function, (1, 1, 1), (1, 1, 1), b"")
    device.synchronize()
    measured = everything().figures["launch and wait"]["1 launches"]
    assert device.clock_ns - before == pytest.approx(1000 * measured, rel=0.15)


# -- profiles ----------------------------------------------------------------------------------------------------------


def test_every_constant_has_unit_and_source():
    for name in names():
        profile = load(name)
        constants = {**profile.host_constants, **profile.device_constants}
        assert all(c.unit and c.source for c in constants.values())
        assert all(c.value > 0 for c in constants.values())


def test_every_constant_is_used():
    from pathlib import Path

    import cudalab.sim.cupy
    import cudalab.sim.device
    from cudalab.sim import binding

    folders = [Path(package.__file__).parent for package in (cudalab.sim.device, cudalab.sim.cupy)]
    files = [Path(binding.__file__), *(path for folder in folders for path in folder.rglob("*.py"))]
    code = "".join(path.read_text() for path in files)
    profile = load("h200")
    unused = [
        name
        for name in (*profile.host_constants, *profile.device_constants)
        if f'"{name}"' not in code and name not in ("copy_h2d_start", "copy_d2h_start")
    ]
    assert unused == []


PAIRS = {
    "multiProcessorCount": "MultiProcessorCount",
    "asyncEngineCount": "AsyncEngineCount",
    "concurrentKernels": "ConcurrentKernels",
    "l2CacheSize": "L2CacheSize",
    "persistingL2CacheMaxSize": "MaxPersistingL2CacheSize",
    "memoryBusWidth": "GlobalMemoryBusWidth",
    "maxThreadsPerBlock": "MaxThreadsPerBlock",
    "sharedMemPerBlock": "MaxSharedMemoryPerBlock",
    "warpSize": "WarpSize",
}


@pytest.mark.parametrize("name", names())
def test_properties_and_attributes_agree(name):
    profile = load(name)
    for prop, attribute in PAIRS.items():
        assert profile.properties[prop] == profile.attribute(attribute)
    assert min(profile.properties["asyncEngineCount"], 2) == profile.engines["copy"]
    assert bool(profile.properties["concurrentKernels"]) == profile.engines["concurrent_kernels"]


def test_a_profile_that_is_none_lists_those_there_are():
    with pytest.raises(
        ProfileError, match=r"there is no simulated device called 'h300'; the profiles are: .*h200.*laptop"
    ):
        load("h300")


def test_fewer_sms_take_longer():
    source = compile(SOURCE)
    times = []
    for name in ("h200", "laptop"):
        device = Device(name)
        pointer = device.malloc(MB)
        function = device.get_function(device.load_module(source), "fma_chain")
        times.append(device.time_launch(function, (1024, 1, 1), (256, 1, 1), struct.pack("Qi", pointer, 4096)).ns)
    assert times[1] > 8 * times[0]
