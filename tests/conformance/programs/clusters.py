"""Thread block clusters: their barrier, distributed shared memory, sizes, and what the driver says of them."""

import ctypes

import numpy as np

from cudalab import cp, driver

from ..program import code, program, raised

_CG = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"


def _kernel(text):
    return cp.RawKernel(_CG + text, "k")


def _config(grid, block, cluster=None, shared=0, cooperative=False):
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = (*grid, 1, 1)[:3]
    config.blockDimX, config.blockDimY, config.blockDimZ = (*block, 1, 1)[:3]
    config.sharedMemBytes = shared
    attributes = []
    if cluster:
        attribute, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = (*cluster, 1, 1)[:3]
        attribute.value = value
        attributes.append(attribute)
    if cooperative:
        attribute, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        value.cooperative = 1
        attribute.value = value
        attributes.append(attribute)
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def _launch(kernel, config, *args):
    values = tuple(a.data.ptr if hasattr(a, "data") else int(a) for a in args)
    kinds = tuple(ctypes.c_void_p if hasattr(a, "data") else ctypes.c_int for a in args)
    return code(driver.cuLaunchKernelEx(config, driver.CUfunction(kernel.kernel.ptr), (values, kinds), 0))


@program(
    "a histogram whose bins are spread over the shared memory of four blocks",
    expect=lambda v: {"bins": np.bincount(v["x"], minlength=256).astype(np.int32)},
)
def distributed_histogram():
    x = np.random.default_rng(60).integers(0, 256, 6000).astype(np.int32) ** 2 // 256
    kernel = _kernel(r"""
        extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const int* x, int* bins, int n) {
            __shared__ int part[64];
            auto cluster = cg::this_cluster();
            part[threadIdx.x % 64] = 0;
            cluster.sync();
            for (int i = cg::this_grid().thread_rank(); i < n; i += cg::this_grid().num_threads())
                atomicAdd(cluster.map_shared_rank(part, x[i] / 64) + x[i] % 64, 1);
            cluster.sync();
            if (threadIdx.x < 64) atomicAdd(bins + cluster.block_rank() * 64 + threadIdx.x, part[threadIdx.x]);
        }""")
    bins = cp.zeros(256, cp.int32)
    kernel((8,), (128,), (cp.asarray(x), bins, np.int32(len(x))))
    return {"x": x, "bins": bins}


@program(
    "a stencil that reads its halo from the neighbours' shared memory",
    expect=lambda v: {"out": np.where(np.arange(512) % 256 == 0, 0, np.roll(v["x"], 1))
                      + np.where(np.arange(512) % 256 == 255, 0, np.roll(v["x"], -1)) - 2 * v["x"]},
)  # fmt: skip
def halo_exchange():
    x = np.random.default_rng(61).integers(-100, 100, 512).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const int* x, int* out) {
            __shared__ int a[64];
            auto c = cg::this_cluster();
            int t = threadIdx.x, r = c.block_rank(), n = c.num_blocks();
            a[t] = x[blockIdx.x * 64 + t];
            c.sync();
            int left = t ? a[t - 1] : r ? *c.map_shared_rank(a + 63, r - 1) : 0;
            int right = t < 63 ? a[t + 1] : r < n - 1 ? *c.map_shared_rank(a, r + 1) : 0;
            out[blockIdx.x * 64 + t] = left + right - 2 * a[t];
            c.sync();
        }""")
    out = cp.zeros(512, cp.int32)
    kernel((8,), (64,), (cp.asarray(x), out))
    return {"x": x, "out": out}


_FACTS = r"""
    extern "C" __global__ void k(unsigned* out) {
        auto c = cg::this_cluster();
        unsigned v[20]; int n = 0;
        #define R(x) asm("mov.u32 %0, %%" x ";" : "=r"(v[n])); n++;
        R("clusterid.x") R("clusterid.y") R("clusterid.z") R("nclusterid.x") R("nclusterid.y") R("nclusterid.z")
        R("cluster_ctaid.x") R("cluster_ctaid.y") R("cluster_ctaid.z")
        R("cluster_nctaid.x") R("cluster_nctaid.y") R("cluster_nctaid.z") R("cluster_ctarank") R("cluster_nctarank")
        asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(v[n])); n++;
        v[n++] = c.block_index().x + 10 * c.block_index().y; v[n++] = c.dim_blocks().x + 10 * c.dim_blocks().y;
        v[n++] = c.num_threads(); v[n++] = c.dim_threads().x; v[n++] = c.thread_rank();
        unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        if (threadIdx.x == 31) for (int i = 0; i < n; i++) out[b * 20 + i] = v[i];
    }"""


def _facts(v):
    found = {}
    for name, cluster in (("none", (1, 1)), ("one", (1, 1)), ("two by two", (2, 2)), ("four", (4, 1))):
        cx, cy = cluster
        rows = []
        for y in range(2):
            for x in range(4):
                bx, by = x % cx, y % cy
                rank = bx + cx * by
                rows.append([x // cx, y // cy, 0, 4 // cx, 2 // cy, 1, bx, by, 0, cx, cy, 1, rank, cx * cy,
                             name != "none", bx + 10 * by, cx + 10 * cy, cx * cy * 32, cx * 32,
                             rank * 32 + 31])  # fmt: skip
        found[name] = np.array(rows, np.uint32)
    return found


@program("special registers and the members of cluster_group", expect=_facts)
def cluster_facts():
    kernel, found = _kernel(_FACTS), {}
    for name, cluster in (("none", None), ("one", (1,)), ("two by two", (2, 2)), ("four", (4,))):
        out = cp.zeros((8, 20), cp.uint32)
        _launch(kernel, _config((4, 2), (32,), cluster), out)
        found[name] = out.get()
    return found


@program(
    "arrive and wait apart, and threads that leave count as arrived",
    expect=lambda v: {
        "sum": np.array([6] * 32 + [0] * 96, np.int32),
        "early": np.array([1] * 16 + [0] * 112, np.int32),
    },
)
def split_cluster_barrier():
    kernel = _kernel(r"""
        extern "C" __global__ void __cluster_dims__(4, 1, 1) k(int* sum, int* early) {
            __shared__ int a[32];
            auto c = cg::this_cluster();
            int t = threadIdx.x, r = c.block_rank();
            a[t] = r;
            c.barrier_arrive();
            int own = r;
            c.barrier_wait();
            if (r == 0) { for (int k = 1; k < 4; ++k) own += *c.map_shared_rank(a + t, k); sum[t] = own; }
            c.sync();
            if (r || t >= 16) return;
            c.sync();
            early[t] = 1;
        }""")
    sum_, early = cp.zeros(128, cp.int32), cp.zeros(128, cp.int32)
    kernel((4,), (32,), (sum_, early))
    return {"sum": sum_, "early": early}


@program(
    "mapped pointers: equal to the own one, their rank, and which space they are in",
    expect=lambda v: {"out": np.array([[1, 1, 0, 0, 1, 0, 1, 1], [1, 0, 1, 0, 1, 0, 1, 1]], np.int32)},
)
def mapped_pointers():
    kernel = _kernel(r"""
        extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* out) {
            __shared__ int a[32];
            auto c = cg::this_cluster();
            unsigned r = c.block_rank();
            a[threadIdx.x] = r;
            c.sync();
            int *own = c.map_shared_rank(a, r), *other = c.map_shared_rank(a, r ^ 1);
            if (threadIdx.x == 0) {
                int* o = out + 8 * r;
                o[0] = own == a; o[1] = c.query_shared_rank(other); o[2] = c.query_shared_rank(a);
                o[3] = __isShared(other); o[4] = __isClusterShared(other); o[5] = __isGlobal(other);
                o[6] = __isShared(a); o[7] = __isClusterShared(a);
            }
            c.sync();
        }""")
    out = cp.zeros((2, 8), cp.int32)
    kernel((2,), (32,), (out,))
    return {"out": out}


@program(
    "32-bit addresses of shared::cluster: mapa, getctarank, ld, st, atom, red",
    expect=lambda v: {"out": np.array([[11, 1, 111, 118, 5], [1, 0, 101, 108, 5]], np.int32)},
)
def shared_cluster_instructions():
    kernel = _kernel(r"""
        extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* out) {
            __shared__ int a[4];
            auto c = cg::this_cluster();
            unsigned r = c.block_rank(), here = (unsigned)__cvta_generic_to_shared(a), there, rank;
            if (threadIdx.x < 4) a[threadIdx.x] = r * 10 + threadIdx.x;
            c.sync();
            if (threadIdx.x == 0) {
                int* o = out + 5 * r;
                asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(r ^ 1));
                asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(there));
                asm volatile("ld.shared::cluster.u32 %0, [%1+4];" : "=r"(o[0]) : "r"(there));
                o[1] = rank;
                asm volatile("st.shared::cluster.u32 [%0+8], %1;" :: "r"(there), "r"((r ^ 1) * 10 + 101) : "memory");
                asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0+12], 5;" :: "r"(there) : "memory");
                asm volatile("atom.shared::cluster.add.u32 %0, [%1+8], 7;" : "=r"(o[2]) : "r"(there) : "memory");
                asm volatile("ld.shared::cluster.u32 %0, [%1+8];" : "=r"(o[3]) : "r"(there));
                int last;
                asm volatile("ld.shared::cluster.u32 %0, [%1+12];" : "=r"(last) : "r"(there));
                o[4] = last - (int)(r ^ 1) * 10 - 3;
            }
            c.sync();
        }""")
    out = cp.zeros((2, 5), cp.int32)
    kernel((2,), (32,), (out,))
    return {"out": out}


@program(
    "a cluster of two dimensions passes vectors round",
    expect=lambda v: {"out": v["x"].reshape(2, 2, 2, 2, 32, 2)[:, ::-1, :, ::-1].reshape(v["x"].shape)},
)
def vectors_across_a_square():
    x = np.random.default_rng(62).random((4, 4, 32, 2), np.float32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const float2* x, float2* out) {
            __shared__ float2 a[32];
            auto c = cg::this_cluster();
            int b = (blockIdx.y * gridDim.x + blockIdx.x) * 32 + threadIdx.x;
            *c.map_shared_rank(a + threadIdx.x, c.num_blocks() - 1 - c.block_rank()) = x[b];
            c.sync();
            out[b] = a[threadIdx.x];
        }""")
    out = cp.zeros((4, 4, 32, 2), cp.float32)
    _launch(kernel, _config((4, 4), (32,), (2, 2)), cp.asarray(x), out)
    return {"x": x, "out": out}


@program(
    "a product of a matrix and a vector split over the cluster, partial sums added over distributed shared memory",
    expect=lambda v: {"y": (v["a"].astype(np.int64) @ v["x"]).astype(np.int32)},
)
def split_matrix_vector():
    rng = np.random.default_rng(63)
    a, x = rng.integers(-9, 9, (64, 512)).astype(np.int32), rng.integers(-9, 9, 512).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void __cluster_dims__(1, 4, 1) k(const int* a, const int* x, int* y) {
            __shared__ int part[32];
            auto c = cg::this_cluster();
            int row = blockIdx.x * 32 + threadIdx.x, sum = 0, from = blockIdx.y * 128;
            for (int i = from; i < from + 128; ++i) sum += a[row * 512 + i] * x[i];
            part[threadIdx.x] = sum;
            c.sync();
            if (c.block_rank() == 0) {
                for (int k = 1; k < 4; ++k) sum += c.map_shared_rank(part, k)[threadIdx.x];
                y[row] = sum;
            }
            c.sync();
        }""")
    y = cp.zeros(64, cp.int32)
    kernel((2, 4), (32,), (cp.asarray(a), cp.asarray(x), y))
    return {"a": a, "x": x, "y": y}


_COUNT = (
    r"""extern "C" __global__ void k(int* n) { cg::this_cluster().sync(); if (threadIdx.x == 0) atomicAdd(n, 1); }"""
)
_BAD, _GOOD = "CUDA_ERROR_INVALID_CLUSTER_SIZE", "CUDA_SUCCESS"


@program(
    "which cluster sizes a launch may ask for",
    expect=lambda v: {
        "2 of 5": [_BAD, 0], "3": [_GOOD, 6], "7": [_GOOD, 7], "8": [_GOOD, 8], "9": [_BAD, 0], "0": [_BAD, 0],
        "allowed 9": [_GOOD, 9], "allowed 16": [_GOOD, 16], "allowed 17": [_BAD, 0],
        "cooperative": [_GOOD, 264], "cooperative, too large": ["CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", 0],
    },
)  # fmt: skip
def cluster_sizes():
    kernel, count, found = _kernel(_COUNT), cp.zeros(1, cp.int32), {}

    def try_launch(name, grid, cluster, threads=32, **more):
        count[:] = 0
        answer = _launch(kernel, _config((grid,), (threads,), cluster, **more), count)
        found[name] = [answer, int(count[0])]

    try_launch("2 of 5", 5, (2,))
    try_launch("3", 6, (3,))
    try_launch("7", 7, (7,))
    try_launch("8", 8, (8,))
    try_launch("9", 9, (9,))
    try_launch("0", 8, (0, 1, 1))
    allowed = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    driver.cuFuncSetAttribute(driver.CUfunction(kernel.kernel.ptr), allowed, 1)
    try_launch("allowed 9", 9, (9,))
    try_launch("allowed 16", 16, (16,))
    try_launch("allowed 17", 17, (17,))
    try_launch("cooperative", 264, (2,), 1024, cooperative=True)
    try_launch("cooperative, too large", 266, (2,), 1024, cooperative=True)
    return found


@program(
    "a kernel with a cluster size of its own, launched by CuPy and by the driver",
    expect=lambda v: {
        "4": "none",
        "5": "CUDADriverError 912 CUDA_ERROR_INVALID_CLUSTER_SIZE: "
        "a kernel launch error has occurred due to cluster misconfiguration",
        "same": _GOOD, "other": _BAD, "none": _GOOD, "count": 12,
    },
)  # fmt: skip
def static_cluster():
    kernel, count = _kernel(_COUNT.replace("void k", "void __cluster_dims__(2, 1, 1) k")), cp.zeros(1, cp.int32)
    return {
        "4": raised(lambda: kernel((4,), (32,), (count,))),
        "5": raised(lambda: kernel((5,), (32,), (count,))),
        "same": _launch(kernel, _config((4,), (32,), (2,)), count),
        "other": _launch(kernel, _config((4,), (32,), (4,)), count),
        "none": _launch(kernel, _config((4,), (32,)), count),
        "count": int(count[0]),
    }


@program(
    "__block_size__: the grid counts clusters, and the block is known",
    expect=lambda v: {"2": 4064, "3": 6064, "one thread": 4064, "another block": "CUDADriverError"},
)
def block_size():
    kernel = _kernel(r"""
        extern "C" __global__ void __block_size__((64, 1, 1), (2, 1, 1)) k(int* o) {
            *o = gridDim.x * 1000 + blockDim.x;
        }""")
    found = {}
    for name, grid, block in (("2", 2, 64), ("3", 3, 64), ("one thread", 2, 1)):
        out = cp.zeros(1, cp.int32)
        kernel((grid,), (block,), (out,))
        found[name] = int(out[0])
    found["another block"] = raised(lambda: kernel((2,), (32,), (cp.zeros(1, cp.int32),))).split()[0]
    return found


@program("how many clusters fit, and how large they may be")
def cluster_occupancy():
    kernel = _kernel(_COUNT)
    function = driver.CUfunction(kernel.kernel.ptr)
    attribute = driver.CUfunction_attribute
    driver.cuFuncSetAttribute(function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448)
    found = {}
    for allowed in (0, 1):
        driver.cuFuncSetAttribute(function, attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, allowed)
        for threads, shared in ((256, 0), (1024, 0), (256, 60_000), (1024, 232448)):
            name = f"{allowed} {threads} {shared}"
            answer = driver.cuOccupancyMaxPotentialClusterSize(function, _config((2520,), (threads,), None, shared))
            found[f"largest {name}"] = [code(answer), answer[1]]
            for size in (1, 2, 3, 4, 5, 7, 8, 12, 16):
                config = _config((size * 100,), (threads,), (size,), shared)
                answer = driver.cuOccupancyMaxActiveClusters(function, config)
                found[f"{size} of {name}"] = [code(answer), answer[1]]
    return found


@program("what the attributes of a function say of clusters")
def cluster_attributes():
    names = [
        "CLUSTER_SIZE_MUST_BE_SET", "REQUIRED_CLUSTER_WIDTH", "REQUIRED_CLUSTER_HEIGHT", "REQUIRED_CLUSTER_DEPTH",
        "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", "CLUSTER_SCHEDULING_POLICY_PREFERENCE",
    ]  # fmt: skip
    found = {}
    for kind, words in (
        ("plain", ""),
        ("dims", "__cluster_dims__(2, 4, 1)"),
        ("block", "__block_size__((32, 1, 1), (2, 1, 1))"),
    ):
        function = driver.CUfunction(_kernel(_COUNT.replace("void k", f"void {words} k")).kernel.ptr)
        for name in names:
            attribute = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
            found[f"{kind} {name}"] = driver.cuFuncGetAttribute(attribute, function)[1]
        width = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
        found[f"{kind} set"] = driver.cuFuncSetAttribute(function, width, 4)[0].name
    return found


def _fault(text):
    kernel = _kernel(text)
    kernel((2,), (32,), (cp.zeros(64, cp.int32),))
    return {"raised": raised(cp.cuda.runtime.deviceSynchronize)}


_SHELL = r"""
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* o) {
        __shared__ int a[64];
        auto c = cg::this_cluster();
        int t = threadIdx.x, r = c.block_rank();
        a[t] = t; a[t + 32] = t;
        c.sync();
        BODY
    }"""
_FAILED = "CUDARuntimeError 719 cudaErrorLaunchFailure: unspecified launch failure"


@program("reading shared memory of a block that has ended", isolated=True, expect=lambda v: {"raised": _FAILED})
def ended_block():
    return _fault(
        _SHELL.replace(
            "BODY",
            "if (r) return; long long b = clock64(); while (clock64() - b < 20000000);"
            "o[t] = *c.map_shared_rank(a + t, 1);",
        )
    )


@program("reading shared memory of a rank that there is not", isolated=True, expect=lambda v: {"raised": _FAILED})
def missing_rank():
    return _fault(_SHELL.replace("BODY", "o[t] = *c.map_shared_rank(a + t, 2); c.sync();"))


@program("reading past the end of another block's shared memory", isolated=True, expect=lambda v: {"raised": _FAILED})
def past_the_end():
    return _fault(_SHELL.replace("BODY", "o[t] = c.map_shared_rank(a, r ^ 1)[300]; c.sync();"))


@program(
    "a misaligned address in another block's shared memory",
    isolated=True,
    expect=lambda v: {"raised": "CUDARuntimeError 716 cudaErrorMisalignedAddress: misaligned address"},
)
def misaligned_remote():
    return _fault(_SHELL.replace("BODY", "o[t] = *(int*)((char*)c.map_shared_rank(a, r ^ 1) + 1); c.sync();"))
