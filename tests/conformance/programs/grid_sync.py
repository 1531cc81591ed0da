"""Cooperative launches: the grid as a group, its barrier, and what is too large for it."""

import ctypes

import numpy as np

from cudalab import cp, driver

from ..program import code, near, program, raised

_CG = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"


def _kernel(text, cooperative=True):
    return cp.RawKernel(_CG + text, "k", enable_cooperative_groups=cooperative)


@program(
    "a sum over the grid in one launch: blocks, grid.sync, one block",
    expect=lambda v: {"total": int(v["x"].sum(dtype=np.int64))},
)
def grid_reduction():
    x = np.random.default_rng(50).integers(-1000, 1000, 40_000).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, long long* parts, long long* total, int n) {
            __shared__ long long part[256];
            auto grid = cg::this_grid();
            long long sum = 0;
            for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) sum += x[i];
            part[threadIdx.x] = sum;
            for (int s = 128; s; s /= 2) { __syncthreads();
                if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s]; }
            if (threadIdx.x == 0) parts[blockIdx.x] = part[0];
            grid.sync();
            if (grid.thread_rank() == 0) { sum = 0; for (int b = 0; b < gridDim.x; ++b) sum += parts[b]; *total = sum; }
        }""")
    parts, total = cp.zeros(24, cp.int64), cp.zeros(1, cp.int64)
    kernel((24,), (256,), (cp.asarray(x), parts, total, np.int32(len(x))))
    return {"x": x, "total": int(total[0])}


def _jacobi(v):
    a = v["start"].copy()
    for _ in range(10):
        b = a.copy()
        b[1:-1, 1:-1] = np.float32(0.25) * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = b
    return {"end": near(a, 1e-6, 1e-6)}


@program("ten Jacobi steps in one launch, a grid barrier between each", expect=_jacobi)
def jacobi():
    start = np.random.default_rng(51).random((34, 50), np.float32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(float* a, float* b, int h, int w, int steps) {
            auto grid = cg::this_grid();
            for (int s = 0; s < steps; ++s) {
                for (int i = grid.thread_rank(); i < h * w; i += grid.num_threads()) {
                    int y = i / w, x = i % w;
                    bool edge = y == 0 || y == h - 1 || x == 0 || x == w - 1;
                    b[i] = edge ? a[i] : 0.25f * (a[i - w] + a[i + w] + a[i - 1] + a[i + 1]);
                }
                grid.sync();
                float* c = a; a = b; b = c;
            }
        }""")
    a, b = cp.asarray(start), cp.zeros((34, 50), cp.float32)
    kernel((7,), (128,), (a, b, np.int32(34), np.int32(50), np.int32(10)))
    return {"start": start, "end": a}


@program(
    "ranks, sizes and indices of a grid of three dimensions",
    expect=lambda v: {
        "ranks": np.arange(2 * 3 * 2 * 24, dtype=np.int64),
        "facts": np.array([288, 12, 24, 1, 2, 3, 2], np.int32),
    },
)
def grid_group():
    kernel = _kernel(r"""
        extern "C" __global__ void k(long long* ranks, int* facts) {
            auto g = cg::this_grid();
            ranks[g.block_rank() * 24 + cg::this_thread_block().thread_rank()] = g.thread_rank();
            if (g.thread_rank() == 0) {
                facts[0] = g.num_threads(); facts[1] = g.num_blocks(); facts[2] = g.size() / g.num_blocks();
                facts[3] = g.is_valid(); facts[4] = g.dim_blocks().x; facts[5] = g.dim_blocks().y;
                    facts[6] = g.group_dim().z;
            }
        }""")
    ranks, facts = cp.zeros(288, cp.int64), cp.zeros(7, cp.int32)
    kernel((2, 3, 2), (4, 3, 2), (ranks, facts))
    return {"ranks": ranks, "facts": facts}


@program(
    "as many blocks as fit, each waiting for all others many times",
    expect=lambda v: {"counts": np.full(40, 264 * 64, np.int32)},
)
def full_device():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* counts) {
            auto g = cg::this_grid();
            for (int i = 0; i < 40; ++i) {
                if (i && counts[i - 1] != g.num_threads()) counts[39] = -1000000;
                atomicAdd(counts + i, 1);
                g.sync();
            }
        }""")
    counts = cp.zeros(40, cp.int32)
    kernel((264,), (64,), (counts,))
    return {"counts": counts}


@program(
    "arrive and wait apart, with work between them",
    expect=lambda v: {"out": (np.arange(512)[::-1] + 7).astype(np.int32)},
)
def split_grid_barrier():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* a, int* out) {
            auto g = cg::this_grid();
            int i = g.thread_rank();
            a[i] = i;
            auto token = g.barrier_arrive();
            int own = 7;
            g.barrier_wait(cg::grid_group::arrival_token(token));
            out[i] = a[g.num_threads() - 1 - i] + own;
        }""")
    a, out = cp.zeros(512, cp.int32), cp.zeros(512, cp.int32)
    kernel((8,), (64,), (a, out))
    return {"out": out}


@program(
    "an exclusive scan of the whole array: block scans, a grid barrier, offsets, a grid barrier",
    expect=lambda v: {"scan": (np.cumsum(v["x"], dtype=np.int32) - v["x"]).astype(np.int32)},
)
def grid_scan():
    x = np.random.default_rng(52).integers(0, 100, 16 * 128).astype(np.int32)
    kernel = _kernel(r"""
        #include <cooperative_groups/scan.h>
        extern "C" __global__ void k(const int* x, int* scan, int* sums) {
            __shared__ int warps[4];
            auto g = cg::this_grid();
            auto w = cg::tiled_partition<32>(cg::this_thread_block());
            int i = g.thread_rank(), v = x[i], s = cg::exclusive_scan(w, v);
            if (w.thread_rank() == 31) warps[w.meta_group_rank()] = s + v;
            __syncthreads();
            for (int k = 0; k < w.meta_group_rank(); ++k) s += warps[k];
            if (threadIdx.x == 127) sums[blockIdx.x] = s + v;
            g.sync();
            int before = 0;
            for (int b = 0; b < blockIdx.x; ++b) before += sums[b];
            scan[i] = s + before;
        }""")
    scan, sums = cp.zeros(len(x), cp.int32), cp.zeros(16, cp.int32)
    kernel((16,), (128,), (cp.asarray(x), scan, sums))
    return {"x": x, "scan": scan}


@program(
    "cooperative launches through the driver: by attribute and by name, and too large ones",
    expect=lambda v: {
        "attribute": "CUDA_SUCCESS", "by name": "CUDA_SUCCESS",
        "too large": "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "count": 264 * 2,
    },
)  # fmt: skip
def driver_launches():
    function = driver.CUfunction(
        _kernel(r"""
        extern "C" __global__ void k(int* count) { cg::this_grid().sync(); if (threadIdx.x == 0) atomicAdd(count, 1); }
    """).kernel.ptr
    )
    count = cp.zeros(1, cp.int32)
    args = ((count.data.ptr,), (ctypes.c_void_p,))
    config, attribute, value = driver.CUlaunchConfig(), driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    value.cooperative = 1
    attribute.value = value
    config.gridDimX, config.gridDimY, config.gridDimZ = 264, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 1024, 1, 1
    config.attrs, config.numAttrs = [attribute], 1
    first = driver.cuLaunchKernelEx(config, function, args, 0)
    second = driver.cuLaunchCooperativeKernel(function, 264, 1, 1, 1024, 1, 1, 0, 0, args)
    third = driver.cuLaunchCooperativeKernel(function, 265, 1, 1, 1024, 1, 1, 0, 0, args)
    cp.cuda.runtime.deviceSynchronize()
    return {"attribute": code(first), "by name": code(second), "too large": code(third), "count": int(count[0])}


@program("CuPy refuses a grid of two dimensions that is too large", expect=lambda v: {"raised": "ValueError"})
def cupy_too_large():
    kernel = _kernel(r"""extern "C" __global__ void k(int* o) { cg::this_grid().sync(); o[0] = 1; }""")
    return {"raised": raised(lambda: kernel((300, 2), (1024,), (cp.zeros(1, cp.int32),)))}


@program(
    "grid.sync without a cooperative launch ends the launch, and is_valid says so before",
    isolated=True,
    expect=lambda v: {"valid": 0, "raised": "CUDARuntimeError 719 cudaErrorLaunchFailure: unspecified launch failure"},
)
def not_cooperative():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* o, int sync) {
            auto g = cg::this_grid();
            if (g.thread_rank() == 0) o[0] = g.is_valid();
            if (sync) g.sync();
        }""", cooperative=False)  # fmt: skip
    o = cp.full(1, 9, cp.int32)
    kernel((2,), (32,), (o, np.int32(0)))
    valid = int(o[0])
    kernel((2,), (32,), (o, np.int32(1)))
    return {"valid": valid, "raised": raised(cp.cuda.runtime.deviceSynchronize)}
