"""Atomics of kernels that run side by side, some of which store as well: no update is lost.

A kernel first holds all of them up, in an event that both streams wait for, so that both run together.
"""

import numpy as np

from cudalab import cp, cudart

from ..busy import events, launched, spin, streams
from ..program import code, program

SOURCE = r"""
extern "C" __global__ void append(int* log, int value, int times) {
    for (int i = 0; i < times; i++) log[1 + atomicAdd(log, 1)] = value;
}
extern "C" __global__ void reserve(int* log, int value) {
    __shared__ int place;
    if (threadIdx.x == 0) place = atomicAdd(log, blockDim.x);
    __syncthreads();
    log[1 + place + threadIdx.x] = value * blockDim.x + threadIdx.x;
}
extern "C" __global__ void tally(int* bins, const int* data, int* largest, int* copy) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(bins + data[i] % 16, 1);
    atomicMax(largest, data[i]);
    copy[i] = data[i] + 1;
}
extern "C" __global__ void locked(int* lock, int* count, int* own, int times) {
    for (int i = 0; i < times; i++) {
        while (atomicCAS(lock, 0, 1) != 0) { }
        __threadfence();
        *(volatile int*)count = *(volatile int*)count + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
    own[blockIdx.x] = times;
}
extern "C" __global__ void ticket(int* next, int* done, int* out, int which) {
    int mine = atomicAdd(next, 1);
    out[mine] = 1 + which;
    __threadfence();
    atomicAdd(done, 1);
}
extern "C" __global__ void bits(unsigned* word, unsigned* swapped, unsigned bit) {
    atomicOr(word, 1u << bit);
    swapped[bit] = atomicXor(word + 1, 1u << bit) >> bit & 1u;
}
extern "C" __global__ void wide(unsigned long long* sum, unsigned long long* out, int by) {
    atomicAdd(sum, (unsigned long long)by << 32 | by);
    out[threadIdx.x] = by;
}
extern "C" __global__ void lower(float* total, float* out, float by) {
    atomicAdd(total, by);
    out[threadIdx.x] = by;
}
"""


def side_by_side(name, arguments, *, grid=1, block=1):
    """Launches the kernel once for each list of arguments, in a stream each, so that all run at once."""
    kernel = cp.RawKernel(SOURCE, name)
    kernel.compile()
    cudart.cudaDeviceSynchronize()
    count = len(arguments)
    with streams(*[1] * (count + 1)) as (gate, *others), events(1, 2) as (opened,):
        spin(gate, cycles=20_000_000)
        cudart.cudaEventRecord(opened, gate)
        codes = set()
        for stream, values in zip(others, arguments, strict=True):
            cudart.cudaStreamWaitEvent(stream, opened, 0)
            codes.add(launched(kernel, [], *values, stream=stream, grid=grid, block=block))
        codes.add(code(cudart.cudaDeviceSynchronize()))
    return sorted(codes)


@program(
    "two kernels append to one log: both find places of their own",
    expect=lambda v: {"count": 60, "values": np.repeat(np.arange(1, 4, dtype=np.int32), 20)},
)
def log_of_three():
    log = cp.zeros(64, cp.int32)
    codes = side_by_side("append", [(log.data.ptr, np.int32(value), np.int32(20)) for value in (1, 2, 3)])
    return {"codes": codes, "count": int(log[0]), "values": np.sort(log.get()[1:61])}


@program(
    "blocks of two kernels reserve places for all their threads",
    expect=lambda v: {"count": 8 * 64 * 2, "kinds": np.repeat(np.arange(64, 192, dtype=np.int32), 8)},
)
def places_for_blocks():
    log = cp.zeros(1 + 1024, cp.int32)
    codes = side_by_side("reserve", [(log.data.ptr, np.int32(value)) for value in (1, 2)], grid=8, block=64)
    return {"codes": codes, "count": int(log[0]), "kinds": np.sort(log.get()[1:])}


@program(
    "two histograms into the same bins, and a copy of each one's data",
    expect=lambda v: {
        "bins": np.bincount(np.arange(4096) * 7 % 16, minlength=16).astype(np.int32),
        "largest": 4095 * 7,
        "copy": np.arange(4096, dtype=np.int32) * 7 + 1,
    },
)
def shared_bins():
    data = cp.arange(4096, dtype=cp.int32) * 7
    bins, largest, copy = cp.zeros(16, cp.int32), cp.zeros(1, cp.int32), cp.zeros(4096, cp.int32)
    half = 2048 * 4
    codes = side_by_side(
        "tally",
        [
            (bins.data.ptr, data.data.ptr + at, largest.data.ptr, copy.data.ptr + at)
            for at in (0, half)
        ],
        grid=8, block=256,
    )  # fmt: skip
    return {"codes": codes, "bins": bins.get(), "largest": int(largest[0]), "copy": copy.get()}


@program(
    "a lock between the blocks of two kernels: every increment counts",
    expect=lambda v: {"count": 2 * 8 * 20, "lock": 0, "own": np.full(16, 20, np.int32)},
)
def lock_of_two_kernels():
    lock, count, own = cp.zeros(1, cp.int32), cp.zeros(1, cp.int32), cp.zeros(16, cp.int32)
    codes = side_by_side(
        "locked",
        [(lock.data.ptr, count.data.ptr, own.data.ptr + 32 * number, np.int32(20)) for number in (0, 1)],
        grid=8,
    )
    return {"codes": codes, "count": int(count[0]), "lock": int(lock[0]), "own": own.get()}


@program(
    "tickets of two kernels, and a count behind a fence of those that are served",
    expect=lambda v: {"next": 512, "done": 512, "served": np.array([256, 256])},
)
def tickets():
    counters, out = cp.zeros(2, cp.int32), cp.zeros(512, cp.int32)
    codes = side_by_side(
        "ticket",
        [(counters.data.ptr, counters.data.ptr + 4, out.data.ptr, np.int32(number)) for number in (0, 1)],
        grid=4, block=64,
    )  # fmt: skip
    served = np.bincount(out.get(), minlength=3)[1:]
    return {"codes": codes, "next": int(counters[0]), "done": int(counters[1]), "served": served}


@program(
    "bits that eight kernels set and turn in one word",
    expect=lambda v: {"words": np.array([255, 255], np.uint32), "before": np.zeros(8, np.uint32)},
)
def bits_of_eight():
    words, before = cp.zeros(2, cp.uint32), cp.full(8, 9, cp.uint32)
    codes = side_by_side("bits", [(words.data.ptr, before.data.ptr, np.int32(bit)) for bit in range(8)])
    return {"codes": codes, "words": words.get(), "before": before.get()}


@program("sums of 64 bits from three kernels", expect=lambda v: {"sum": (64 * 6 << 32) + 64 * 6})
def wide_sums():
    total, out = cp.zeros(1, cp.uint64), cp.zeros(192, cp.uint64)
    codes = side_by_side(
        "wide", [(total.data.ptr, out.data.ptr + 512 * by, np.int32(by + 1)) for by in range(3)], block=64
    )
    return {"codes": codes, "sum": int(total[0]), "out": out.get()}
