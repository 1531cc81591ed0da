"""Mistakes of a launch that is refused: block sizes, shared memory, arguments; and memory that cannot be had."""

from __future__ import annotations

from .mistake import mistake

REFUSED = ("CUDADriverError", 1)

FILL = r"""
extern "C" __global__ void k(float* x, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}"""
FILL_ANY = r"""
template<typename T> __global__ void fill(T* x, T value, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = value;
}"""
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k() { ret; }"""
ARGUMENTS = "(cp.zeros(100, cp.float32), np.float32(1), np.int32(100))"

# -- blocks that are too large -----------------------------------------------------------------------------------------

mistake("block_of_2048/plain", FILL, f"kernel()((1,), (2048,), {ARGUMENTS})", *REFUSED, "2048", "1024", "smaller")
mistake("block_of_2048/two_dimensions", FILL, f"kernel()((1,), (64, 32), {ARGUMENTS})", *REFUSED, "64 x 32", "1024")
mistake("block_of_2048/three_dimensions", FILL, f"kernel()((1,), (8, 4, 64), {ARGUMENTS})", *REFUSED, "2048", "1024")
mistake("block_of_2048/deep", FILL, f"kernel()((1,), (1, 1, 2048), {ARGUMENTS})", *REFUSED, "2048", "64")
mistake(
    "block_of_2048/template",
    FILL_ANY,
    f"instance('fill<float>')((1,), (2048,), {ARGUMENTS})",
    *REFUSED, "2048", "1024",
)  # fmt: skip
mistake(
    "block_of_2048/launch_bounds",
    r"""
extern "C" __global__ void __launch_bounds__(128) k(float* x, float value, int n) {
    if (threadIdx.x < n) x[threadIdx.x] = value;
}""",
    f"kernel()((1,), (129,), {ARGUMENTS})",
    *REFUSED, "128", "129", "__launch_bounds__",
)  # fmt: skip
mistake(
    "block_of_2048/driver",
    PTX,
    "_, module = driver.cuModuleLoadData(source.encode() + b'\\0')\n"
    "_, function = driver.cuModuleGetFunction(module, b'k')\n"
    "(returned,) = driver.cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, 0, ((), ()), 0)",
    "", 1,
)  # fmt: skip

# -- too much shared memory --------------------------------------------------------------------------------------------

DYNAMIC = r"""
extern __shared__ float pool[];
extern "C" __global__ void k(float* x) {
    pool[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = pool[31 - threadIdx.x];
}"""
X = "cp.zeros(32, cp.float32)"
mistake(
    "shared_memory/no_opt_in",
    DYNAMIC,
    f"kernel()((1,), (32,), ({X},), shared_mem=100_000)",
    *REFUSED, "100000", "48 KB", "max_dynamic_shared_size_bytes",
)  # fmt: skip
mistake(
    "shared_memory/more_than_there_is",
    DYNAMIC,
    f"kernel()((1,), (32,), ({X},), shared_mem=1 << 20)",
    *REFUSED, "1048576", "227 KB",
)  # fmt: skip
mistake(
    "shared_memory/opt_in_too_large",
    DYNAMIC,
    "kernel().max_dynamic_shared_size_bytes = 300_000",
    *REFUSED, "300000", "232448",
)  # fmt: skip
mistake(
    "shared_memory/static",
    r"""
extern "C" __global__ void k(float* x) { // <-
    __shared__ float tile[128][128];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}""",
    f"kernel()((1,), (32, 32), ({X},))",
    "CompileException", None, "65,536 bytes", "49,152", "smaller",
)  # fmt: skip
mistake(
    "shared_memory/struct_in_template",
    r"""
template<int N> struct Tile { double cells[N][N + 1]; };
template<int N> __global__ void turn(double* x) { // <-
    __shared__ Tile<N> tile;
    tile.cells[threadIdx.y][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile.cells[threadIdx.x][threadIdx.y];
}""",
    "instance('turn<96>')((1,), (32, 32), (cp.zeros(32),))",
    "CompileException", None, "74,496 bytes", "49,152",
)  # fmt: skip
mistake(
    "shared_memory/static_and_dynamic",
    r"""
extern __shared__ float pool[];
extern "C" __global__ void k(float* x) {
    __shared__ float fixed[1024];
    fixed[threadIdx.x] = pool[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = fixed[31 - threadIdx.x] + pool[31 - threadIdx.x];
}""",
    f"kernel()((1,), (32,), ({X},), shared_mem=48 * 1024)",
    *REFUSED, "4096 bytes static", "49152", "48 KB",
)  # fmt: skip

# -- arguments ---------------------------------------------------------------------------------------------------------

WRONG = ("TypeError", None)
mistake(
    "arguments/float64_for_float",
    FILL,
    "kernel()((1,), (32,), (cp.zeros(32), np.float32(1), np.int32(32)))",
    *WRONG, "x", "float64", "float",
)  # fmt: skip
mistake(
    "arguments/integers_for_float",
    FILL,
    "kernel()((1,), (32,), (cp.arange(32, dtype=cp.int32), np.float32(1), np.int32(32)))",
    *WRONG, "x", "int32", "float",
)  # fmt: skip
mistake(
    "arguments/one_too_few",
    FILL,
    "kernel()((1,), (32,), (cp.zeros(32, cp.float32), np.float32(1)))",
    *WRONG, "n", "3", "2",
)  # fmt: skip
mistake(
    "arguments/one_too_many",
    FILL,
    "kernel()((1,), (32,), (cp.zeros(32, cp.float32), np.float32(1), np.int32(32), np.int32(32)))",
    *WRONG, "3", "4",
)  # fmt: skip
mistake(
    "arguments/swapped",
    FILL,
    "kernel()((1,), (32,), (np.float32(1), cp.zeros(32, cp.float32), np.int32(32)))",
    *WRONG, "x", "float",
)  # fmt: skip
mistake(
    "arguments/template",
    FILL_ANY,
    "instance('fill<double>')((1,), (32,), (cp.zeros(32, cp.float32), 1.0, np.int32(32)))",
    *WRONG, "x", "float32", "double",
)  # fmt: skip
mistake(
    "arguments/struct_of_another_size",
    r"""
struct Box { double low, high; int n; };
extern "C" __global__ void k(Box box, double* x) {
    if (threadIdx.x < box.n) x[threadIdx.x] = box.low;
}""",
    "box = np.array((0, 1, 4), dtype=[('low', 'f4'), ('high', 'f4'), ('n', 'i4')])[()]\n"
    "kernel()((1,), (32,), (box, cp.zeros(32)))",
    *WRONG, "box", "24", "12",
)  # fmt: skip
mistake("arguments/list", FILL, "kernel()((1,), (32,), ([1.0, 2.0], np.float32(1), np.int32(2)))", *WRONG, "list")
mistake("arguments/text", FILL, "kernel()((1,), (32,), ('x', np.float32(1), np.int32(2)))", *WRONG, "str")
mistake("arguments/number_as_grid", FILL, f"kernel()(1, 32, {ARGUMENTS})", *WRONG)

# -- memory ------------------------------------------------------------------------------------------------------------

TERABYTE = ("OutOfMemoryError", None)
mistake("terabyte/empty", "", "cp.empty(1 << 40, cp.uint8)", *TERABYTE, text="1,099,511,627,776")
mistake("terabyte/two_dimensions", "", "cp.zeros((1 << 20, 1 << 18), cp.float32)", *TERABYTE, text="1,099,511,627,776")
mistake("terabyte/cuda_malloc", "", "returned, pointer = cudart.cudaMalloc(1 << 40)", "", 2)
mistake("terabyte/pitched", "", "returned, pointer, pitch = cudart.cudaMallocPitch(1 << 20, 1 << 20)", "", 2)
mistake(
    "terabyte/cupy_runtime", "", "cp.cuda.runtime.malloc(1 << 40)", "CUDARuntimeError", 2, "1099511627776",
    text="cudaErrorMemoryAllocation",
)  # fmt: skip
mistake("terabyte/page_locked", "", "cp.cuda.alloc_pinned_memory(1 << 40)", "CUDARuntimeError", 2)
mistake("terabyte/driver", "", "returned, pointer = driver.cuMemAlloc(1 << 40)", "", 2)
mistake(
    "terabyte/in_a_loop",
    "",
    "kept = []\nfor _ in range(1024):\n    kept.append(cp.empty(1 << 33, cp.uint8))",
    *TERABYTE, text="8,589,934,592",
)  # fmt: skip
