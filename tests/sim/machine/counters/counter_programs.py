"""Small kernels whose counters are compared with what Nsight Compute reads on a GPU.

Plain data: imported by the tests, and by ``record_counters.py`` on a machine with a GPU, which needs NumPy alone.
Each kernel makes one kind of access whose addresses come from an index array, so that no compiler can merge or move it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GLOBAL_LOAD = """
extern "C" __global__ void k(const int* index, const TYPE* x, TYPE* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[index[i]];
}"""

GLOBAL_STORE = """
extern "C" __global__ void k(const int* index, const TYPE* x, TYPE* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[index[i]] = x[i];
}"""

SHARED_LOAD = """
extern "C" __global__ void k(const int* index, const TYPE* x, TYPE* out) {
    __shared__ TYPE s[COUNT];
    for (int j = threadIdx.x; j < COUNT; j += blockDim.x) s[j] = x[j];
    __syncthreads();
    int at = index[threadIdx.x];
    if (at >= 0) out[threadIdx.x] = s[at];
}"""

SHARED_STORE = """
extern "C" __global__ void k(const int* index, const TYPE* x, TYPE* out) {
    __shared__ TYPE s[COUNT];
    for (int j = threadIdx.x; j < COUNT; j += blockDim.x) s[j] = x[j];
    __syncthreads();
    int at = index[threadIdx.x];
    if (at >= 0) s[at] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}"""

SHARED_ATOMIC = """
extern "C" __global__ void k(const int* index, const int* x, int* out) {
    __shared__ int s[COUNT];
    for (int j = threadIdx.x; j < COUNT; j += blockDim.x) s[j] = 0;
    __syncthreads();
    out[threadIdx.x] = atomicAdd(&s[index[threadIdx.x]], x[threadIdx.x]);
}"""

TRANSPOSE = """
extern "C" __global__ void k(const float* a, float* b) {
    __shared__ float tile[32][32 + PAD];
    int x = threadIdx.x, y = threadIdx.y;
    for (int j = y; j < 32; j += 8) tile[j][x] = a[(blockIdx.x * 32 + j) * 32 + x];
    __syncthreads();
    for (int j = y; j < 32; j += 8) b[(blockIdx.x * 32 + j) * 32 + x] = tile[x][j];
}"""

COLUMN_SUM = """
extern "C" __global__ void k(const float* m, float* sums, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    float total = 0.0f;
    for (int r = 0; r < rows; r++) total += m[INDEX];
    sums[c] = total;
}"""

TAKE_TURNS = """
extern "C" __global__ void k(const int* index, const float* x, float* out) {
    int lane = threadIdx.x % 32;
    float v = 0.0f;
    for (int n = 0; n < 8; n++) {
        if (index[lane] == n) {
            v += x[threadIdx.x * 16 + n];
            out[threadIdx.x + 32 * n] = v;
        }
        __syncwarp();
    }
}"""

RAGGED = """
extern "C" __global__ void k(const int* index, const float* x, float* out) {
    int lane = threadIdx.x % 32;
    float v = 0.0f;
    for (int n = 0; n < 4; n++) {
        int end = index[lane + 32 * n];
        for (int j = 0; j < end; j++) v += x[(n * 16 + j) * 64 + threadIdx.x];
        __syncwarp();
    }
    out[threadIdx.x] = v;
}"""

HISTOGRAM = """
extern "C" __global__ void k(const int* index, int* counts, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&counts[index[i]], 1);
}"""

FETCH_ADD = """
extern "C" __global__ void k(const int* index, int* counts, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = atomicAdd(&counts[index[i]], 1);
}"""

REDUCE = """
extern "C" __global__ void k(const float* a, float* sums) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 128; d > 0; d >>= 1) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}"""

LOCAL_ARRAY = """
extern "C" __global__ void k(const int* index, const float* x, float* out) {
    float mine[32];
    int t = threadIdx.x;
    for (int j = 0; j < 32; j++) mine[j] = x[(j * 7 + t) % 256];
    out[t] = mine[index[t]];
}"""


TILED_MATMUL = """
extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, column = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
    float sum = 0.0f;
    for (int t = 0; t < n; t += 16) {
        as[ty][tx] = a[row * n + t + tx];
        bs[ty][tx] = b[(t + ty) * n + column];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += as[ty][j] * bs[j][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}"""

REGISTER_TILES = """
extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
    __shared__ float as[16][64], bs[16][64];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    float sum[4][4] = {};
    for (int first = 0; first < n; first += 16) {
        for (int j = 0; j < 4; j++) {
            int e = t + 256 * j;
            as[e % 16][e / 16] = a[(blockIdx.y * 64 + e / 16) * n + first + e % 16];
            bs[e / 64][e % 64] = b[(first + e / 64) * n + blockIdx.x * 64 + e % 64];
        }
        __syncthreads();
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum[i][j] += as[k][ty * 4 + i] * bs[k][tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) c[(blockIdx.y * 64 + ty * 4 + i) * n + blockIdx.x * 64 + tx * 4 + j] = sum[i][j];
}"""

NEIGHBOURS = """
extern "C" __global__ void k(const TYPE* x, TYPE* out, int stride, int offset) {
    __shared__ TYPE s[2048];
    for (int j = threadIdx.x; j < 2048; j += blockDim.x) s[j] = x[j];
    __syncthreads();
    int first = PLACE;
    TYPE sum = 0;
    #pragma unroll
    for (int j = 0; j < COUNT; j++) sum += s[first + j];
    out[threadIdx.x] = sum;
}"""

NEIGHBOUR_STORES = """
extern "C" __global__ void k(const float* x, float* out) {
    __shared__ float s[2048];
    int t = threadIdx.x;
    #pragma unroll
    for (int j = 0; j < COUNT; j++) s[t * STEP + j] = x[t + 256 * j];
    __syncthreads();
    out[t] = s[(t * 37) % (256 * STEP)];
}"""

SUFFIX_SUMS = """
extern "C" __global__ void k(const float* x, float* out) {
    __shared__ float s[256 + 16];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 16) s[256 + t] = 0.0f;
    __syncthreads();
    float sum = 0.0f;
    #pragma unroll
    for (int j = 0; j < 8; j++) sum += s[t + j];
    out[t] = sum;
}"""


@dataclass
class Program:
    """One kernel ``k`` and its launch. Arrays among ``args`` are copied to the device."""

    name: str
    code: str
    args: tuple
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (32,)
    unlike: str = ""
    """Why its counters need not be the GPU's, where the assembler changes what the PTX says."""
    predicated: bool = False
    """Does the assembler switch shared accesses off by a predicate where the PTX branches around them? They count as
    executed then."""
    blocks: int = 0
    """How many blocks to count; 0 for all."""


def _ctype(size: int) -> tuple[str, np.dtype]:
    return {
        1: ("char", np.dtype(np.int8)),
        2: ("short", np.dtype(np.int16)),
        4: ("float", np.dtype(np.float32)),
        8: ("double", np.dtype(np.float64)),
        16: ("float4", np.dtype((np.float32, 4))),
    }[size]


def _array(count: int, size: int) -> np.ndarray:
    _, dtype = _ctype(size)
    return np.zeros((count, *dtype.shape), dtype.base)


def _global(name: str, index: np.ndarray, size: int = 4, code: str = GLOBAL_LOAD) -> Program:
    threads = len(index)
    block = min(threads, 256)
    count = int(index.max()) + 1
    return Program(
        name,
        code.replace("TYPE", _ctype(size)[0]),
        (index.astype(np.int32), _array(max(count, threads), size), _array(max(count, threads), size)),
        (threads // block,),
        (block,),
    )


def _shared(name: str, index: np.ndarray, size: int = 4, code: str = SHARED_LOAD, count: int = 0) -> Program:
    count = count or {1: 4096, 2: 4096, 4: 2048, 8: 1024, 16: 512}[size]
    x, out = _array(max(count, len(index)), size), _array(max(count, len(index)), size)
    return Program(
        name,
        code.replace("TYPE", _ctype(size)[0]).replace("COUNT", str(count)),
        (index.astype(np.int32), x, out),
        (1,),
        (len(index),),
    )


def programs() -> list[Program]:
    """All programs, in a fixed order."""
    lane = np.arange(32)
    t = np.arange(256)
    rng = np.random.default_rng(5)
    found = [_global(f"load stride {s}", np.arange(1024) * s) for s in (0, 1, 2, 3, 4, 8, 32)]
    found += [_global(f"load offset {o}", np.arange(1024) + o) for o in (1, 4, 7, 8, 31)]
    found += [_global(f"load of {s} bytes", np.arange(1024), s) for s in (1, 2, 8, 16)]
    found += [_global(f"load of {s} bytes stride 2", np.arange(1024) * 2, s) for s in (1, 2, 8, 16)]
    found += [_global("load reversed", np.arange(1024)[::-1].copy())]
    found += [_global(f"load random of {s} bytes", rng.integers(0, 5000, 1024), s) for s in (1, 4, 8, 16)]
    found += [_global(f"store stride {s}", np.arange(1024) * s, code=GLOBAL_STORE) for s in (1, 2, 8)]
    found += [_global(f"store of {s} bytes", np.arange(1024), s, GLOBAL_STORE) for s in (1, 8, 16)]

    for s in (0, 1, 2, 3, 4, 8, 16, 32, 33):
        found.append(_shared(f"shared load stride {s}", lane * s))
    found.append(_shared("shared load random", rng.integers(0, 2048, 256)))
    found.append(_shared("shared load of 1 byte", lane, 1))
    found.append(_shared("shared load of 1 byte stride 128", lane * 127, 1))
    found.append(_shared("shared load of 2 bytes random", rng.integers(0, 4096, 256), 2))
    half = np.where(lane < 16, lane, -1)
    for s in (0, 1, 2, 3, 4, 8, 16, 17):
        found.append(_shared(f"shared load of 8 bytes stride {s}", lane * s, 8))
    found.append(_shared("shared load of 8 bytes reversed", lane[::-1].copy(), 8))
    found.append(_shared("shared load of 8 bytes in pairs", lane // 2, 8))
    found.append(_shared("shared load of 8 bytes in fours", lane // 4, 8))
    found.append(_shared("shared load of 8 bytes halves alike", lane % 16, 8))
    found.append(_shared("shared load of 8 bytes even and odd alike", lane % 2, 8))
    found.append(_shared("shared load of 8 bytes first half only", half, 8))
    found.append(_shared("shared load of 8 bytes even lanes only", np.where(lane % 2 == 0, lane, -1), 8))
    found.append(_shared("shared load of 8 bytes pairs two apart", lane // 4 * 2 + lane % 2, 8))
    found.append(_shared("shared load of 8 bytes pairs stride 16", lane // 2 * 16, 8))
    for n in range(4):
        found.append(_shared(f"shared load of 8 bytes random {n}", rng.integers(0, 1024, 256), 8))
        found.append(_shared(f"shared load of 8 bytes random few {n}", rng.integers(0, 40, 256), 8))
    for s in (0, 1, 2, 3, 4, 5, 8):
        found.append(_shared(f"shared load of 16 bytes stride {s}", lane * s, 16))
    found.append(_shared("shared load of 16 bytes reversed", lane[::-1].copy(), 16))
    found.append(_shared("shared load of 16 bytes in pairs", lane // 2, 16))
    found.append(_shared("shared load of 16 bytes in fours", lane // 4, 16))
    found.append(_shared("shared load of 16 bytes quarters alike", lane % 8, 16))
    found.append(_shared("shared load of 16 bytes pairs two apart", lane // 4 * 2 + lane % 2, 16))
    found.append(_shared("shared load of 16 bytes first half only", half, 16))
    found.append(_shared("shared load of 16 bytes even lanes only", np.where(lane % 2 == 0, lane, -1), 16))
    for n in range(4):
        found.append(_shared(f"shared load of 16 bytes random {n}", rng.integers(0, 512, 256), 16))
        found.append(_shared(f"shared load of 16 bytes random few {n}", rng.integers(0, 20, 256), 16))
    for keep in (1, 3, 16, 31):
        found.append(_shared(f"shared load of {keep} lanes", np.where(lane < keep, lane * 32, -1)))
    for s, size in ((1, 4), (2, 4), (32, 4), (1, 8), (2, 8), (3, 8), (1, 16), (2, 16), (4, 16)):
        found.append(_shared(f"shared store of {size} bytes stride {s}", lane * s, size, SHARED_STORE))
    found.append(_shared("shared store to one word", lane * 0, 4, SHARED_STORE))
    found.append(_shared("shared store random of 4 bytes", rng.integers(0, 2048, 256), 4, SHARED_STORE))
    found.append(_shared("shared store random of 8 bytes", rng.integers(0, 1024, 256), 8, SHARED_STORE))
    found.append(_shared("shared store random few of 8 bytes", rng.integers(0, 40, 256), 8, SHARED_STORE))
    found.append(_shared("shared store random of 16 bytes", rng.integers(0, 512, 256), 16, SHARED_STORE))
    for name, index in (("spread", lane), ("pairs", lane // 2), ("one", lane * 0), ("bank", lane * 32)):
        found.append(_shared(f"shared atomic {name}", index, 4, SHARED_ATOMIC))

    a, b = np.zeros(4 * 1024, np.float32), np.zeros(4 * 1024, np.float32)
    for pad in (0, 1, 2):
        code = TRANSPOSE.replace("PAD", str(pad))
        found.append(Program(f"transpose padded by {pad}", code, (a, b), (4,), (32, 8)))
    m, sums = np.zeros((96, 96), np.float32), np.zeros(96, np.float32)
    for name, index in (("columns", "r * columns + c"), ("rows", "c * rows + r")):
        code = COLUMN_SUM.replace("INDEX", index)
        arguments = (m, sums, np.int32(96), np.int32(96))
        found.append(Program(f"column sum by {name}", code, arguments, (1,), (128,)))
    x = np.zeros(8192, np.float32)
    turns = rng.integers(0, 10, 32).astype(np.int32)
    found.append(Program("lanes take turns", TAKE_TURNS, (turns, x, np.zeros(1024, np.float32)), (1,), (64,)))
    lengths = rng.integers(0, 9, 128).astype(np.int32)
    unrolled = "the assembler unrolls the inner loop further, and lanes that leave it early do not meet before its rest"
    ragged = Program("ragged loops", RAGGED, (lengths, x, np.zeros(64, np.float32)), (1,), (64,), unlike=unrolled)
    found.append(ragged)
    words = rng.integers(0, 64, 10_000).astype(np.int32)
    counts = np.zeros(64, np.int32)
    found.append(Program("histogram", HISTOGRAM, (words, counts, np.int32(10_000)), (4,), (256,)))
    found.append(Program("fetch and add", FETCH_ADD, (words[:1024], counts, np.zeros(1024, np.int32)), (4,), (256,)))
    found.append(Program("reduction", REDUCE, (a, sums), (4,), (256,), predicated=True))
    inside = (t % 32).astype(np.int32)
    found.append(Program("local array", LOCAL_ARRAY, (inside, x, np.zeros(256, np.float32)), (1,), (256,)))
    return found + _merged()


def _merged() -> list[Program]:
    """Programs whose neighbouring shared accesses the assembler may merge into wide ones."""
    found = []
    for n, blocks in ((64, 0), (256, 5)):
        a, b, c = (np.zeros((n, n), np.float32) for _ in range(3))
        size = np.int32(n)
        grid = (n // 16, n // 16)
        found.append(Program(f"tiled matmul {n}", TILED_MATMUL, (a, b, c, size), grid, (16, 16), blocks=blocks))
    a, b, c = (np.zeros((128, 128), np.float32) for _ in range(3))
    tiles = Program("matmul with register tiles", REGISTER_TILES, (a, b, c, np.int32(128)), (2, 2), (16, 16))
    found.append(tiles)
    x, out = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    aligned = "(threadIdx.x * STEP) % 1024"
    for count, place in (
        (2, aligned.replace("STEP", "2")),
        (4, aligned.replace("STEP", "4")),
        (8, aligned.replace("STEP", "8")),
        (4, aligned.replace("STEP", "16")),
        (4, "threadIdx.x / 8 * 4"),
        (4, "(threadIdx.x % 4) * 4"),
        (3, aligned.replace("STEP", "4")),
        (4, aligned.replace("STEP", "5")),
        (4, "threadIdx.x * stride + offset"),
    ):
        for kind, dtype in (("float", np.float32), ("double", np.float64), ("short", np.int16), ("char", np.int8)):
            if kind != "float" and not (count in (2, 4) and place.startswith("(threadIdx.x * ")):
                continue
            code = NEIGHBOURS.replace("TYPE", kind).replace("PLACE", place).replace("COUNT", str(count))
            arguments = (x.astype(dtype), out.astype(dtype), np.int32(4), np.int32(0))
            found.append(Program(f"{count} neighbours of {kind} at {place}", code, arguments, (1,), (128,)))
    for count, step in ((2, 2), (4, 4), (4, 8), (4, 5)):
        code = NEIGHBOUR_STORES.replace("COUNT", str(count)).replace("STEP", str(step))
        found.append(Program(f"{count} neighbours stored at steps of {step}", code, (x, out), (1,), (256,)))
    found.append(Program("sums of eight neighbours", SUFFIX_SUMS, (x, out), (1,), (256,), predicated=True))
    return found
