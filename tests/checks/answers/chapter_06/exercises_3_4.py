"""Answers to 06.3 and 06.4."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table
from tests.checks.answers.cheats import kernel_cheats

# --- 06.3 ---

_STORED = "sectors for each 128 bytes stored"
_CONFLICTS = "bank conflicts for each request to shared memory"
_BUSIEST = "bytes that the busiest thread moves, over what one thread may need"
_OUT = "if (across < height && down < width) out[down * height + across] = tile[threadIdx.x][threadIdx.y];"

ANSWERS_06_3 = table(
    "06.3",
    Wrong(
        "whole tiles only",
        (("if (x < width && y < height) tile", "tile"), ("if (across < height && down < width) out", "out")),
        "soundness",
        "out of bounds",
    ),
    Wrong("no padding", (("[TILE + 1]", "[TILE]"),), "efficiency", _CONFLICTS),
    Wrong("padded by two", (("[TILE + 1]", "[TILE + 2]"),), "efficiency", _CONFLICTS),
    Wrong("no barrier", (("    __syncthreads();\n", ""),), "soundness", "race"),
    Wrong(
        "the block is not swapped",
        (("blockIdx.y * TILE + threadIdx.x, down = blockIdx.x", "blockIdx.x * TILE + threadIdx.x, down = blockIdx.y"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "the tile is not transposed",
        (("tile[threadIdx.x][threadIdx.y];", "tile[threadIdx.y][threadIdx.x];"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "the guard of the load for the store",
        (("across < height && down < width", "x < width && y < height"),),
        "soundness",
        "out of bounds",
    ),
    Wrong(
        "no guard at the store", (("if (across < height && down < width) out", "out"),), "soundness", "out of bounds"
    ),
    Wrong(
        "stored down a column all the same",
        ((_OUT, "if (x < width && y < height) out[x * height + y] = tile[threadIdx.y][threadIdx.x];"),),
        "efficiency",
        _STORED,
    ),
    Wrong(
        "one warp stores",
        (
            (
                _OUT,
                "if (threadIdx.y == 0)\n        for (int r = 0; r < TILE; r++)\n"
                "            if (across < height && blockIdx.x * TILE + r < width)\n"
                "                out[(blockIdx.x * TILE + r) * height + across] = tile[threadIdx.x][r];",
            ),
        ),
        "efficiency",
        _BUSIEST,
        cheat=True,
    ),
    Wrong(
        "doubled traffic",
        (
            (
                "= in[y * width + x];",
                "= ((volatile const float*)in)[y * width + x] * 0.0f + ((volatile const float*)in)[y * width + x];",
            ),
        ),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        cheat=True,
    ),
    Wrong(
        "an index of 16 bits",
        (("in[y * width + x]", "in[(unsigned short)(y * width + x)]"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    *kernel_cheats("06.3", only=("nothing done in large grids",)),
    Right(
        "transposed when it is stored into the tile",
        (
            ("tile[threadIdx.y][threadIdx.x] = in", "tile[threadIdx.x][threadIdx.y] = in"),
            ("tile[threadIdx.x][threadIdx.y];", "tile[threadIdx.y][threadIdx.x];"),
        ),
    ),
    Right(
        "a tile that is skewed instead of padded",
        (
            ("tile[TILE][TILE + 1]", "tile[TILE][TILE]"),
            ("tile[threadIdx.y][threadIdx.x] = in", "tile[threadIdx.y][(threadIdx.x + threadIdx.y) % TILE] = in"),
            ("tile[threadIdx.x][threadIdx.y];", "tile[threadIdx.x][(threadIdx.y + threadIdx.x) % TILE];"),
        ),
    ),
    Right(
        "a flat tile",
        (
            ("tile[TILE][TILE + 1]", "tile[TILE * 33]"),
            ("tile[threadIdx.y][threadIdx.x] = in", "tile[threadIdx.y * 33 + threadIdx.x] = in"),
            ("tile[threadIdx.x][threadIdx.y];", "tile[threadIdx.x * 33 + threadIdx.y];"),
        ),
    ),
)

# --- 06.4 ---

_LOAD = "    part[threadIdx.x] = i < n ? x[i] : 0.0f;\n    __syncthreads();\n"
_STEP = "        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];\n        __syncthreads();\n"

ANSWERS_06_4 = table(
    "06.4",
    Wrong(
        "an atomic for each element",
        (),
        "efficiency",
        "atomics on global memory for each block",
        most=1,
        source="""
extern "C" __global__ void block_sums(const float* x, float* sums, int n) {
    if (threadIdx.x == 0) sums[blockIdx.x] = 0.0f;
    __syncthreads();
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(&sums[blockIdx.x], x[i]);
}
""",
    ),
    Wrong(
        "one thread adds up global memory, and nothing is shared",
        (),
        "efficiency",
        _BUSIEST,
        most=1,
        cheat=True,
        source="""
extern "C" __global__ void block_sums(const float* x, float* sums, int n) {
    if (threadIdx.x > 0) return;
    float sum = 0.0f;
    for (int i = blockIdx.x * 256; i < n && i < blockIdx.x * 256 + 256; i++) sum += x[i];
    sums[blockIdx.x] = sum;
}
""",
    ),
    Wrong(
        "no barrier before the first step", ((_LOAD, _LOAD.replace("    __syncthreads();\n", "")),), "soundness", "race"
    ),
    Wrong("no barrier behind a step", ((_STEP, _STEP.replace("        __syncthreads();\n", "")),), "soundness", "race"),
    Wrong(
        "the barrier in the branch",
        (
            (
                _STEP,
                "        if (threadIdx.x < half) {\n"
                "            part[threadIdx.x] += part[threadIdx.x + half];\n"
                "            __syncthreads();\n"
                "        }\n",
            ),
        ),
        "soundness",
        "barrier after exit",
    ),
    Wrong("leaves early", ((_LOAD, "    if (i >= n) return;\n" + _LOAD),), "soundness", "uninitialised read"),
    Wrong(
        "nothing where there is no element",
        (("part[threadIdx.x] = i < n ? x[i] : 0.0f;", "if (i < n) part[threadIdx.x] = x[i];"),),
        "soundness",
        "uninitialised read",
    ),
    Wrong("no guard", (("i < n ? x[i] : 0.0f", "x[i]"),), "soundness", "out of bounds"),
    Wrong("from 64 on", (("half = 128", "half = 64"),), "correctness", "wrong values"),
    Wrong("stops at two", (("half > 0", "half > 1"),), "correctness", "wrong values"),
    Wrong(
        "each step by all",
        (("if (threadIdx.x < half) part", "if (threadIdx.x + half < 256) part"),),
        "soundness",
        "race",
    ),
    Wrong(
        "one thread adds up",
        (
            (
                "    for (int half = 128; half > 0; half /= 2) {\n" + _STEP + "    }\n",
                "    if (threadIdx.x == 0)\n"
                "        for (int k = 1; k < 256; k++) if (i + k < n) part[0] += x[i + k];\n",
            ),
        ),
        "efficiency",
        _BUSIEST,
        most=1,
        cheat=True,
    ),
    Wrong(
        "one thread adds up shared memory",
        (
            (
                "    for (int half = 128; half > 0; half /= 2) {\n" + _STEP + "    }\n",
                "    if (threadIdx.x == 0)\n        for (int k = 1; k < 256; k++) part[0] += part[k];\n",
            ),
        ),
        "efficiency",
        "bytes of shared memory that the busiest thread moves",
        most=1,
        cheat=True,
    ),
    Wrong(
        "one thread adds up shared memory, by a pointer without its space",
        (
            (
                "    for (int half = 128; half > 0; half /= 2) {\n" + _STEP + "    }\n",
                "    const float* from = part;\n"
                '    asm volatile("" : "+l"(from));\n'
                "    if (threadIdx.x == 0)\n        for (int k = 1; k < 256; k++) part[0] += from[k];\n",
            ),
        ),
        "efficiency",
        "bytes of shared memory that the busiest thread moves",
        most=1,
        cheat=True,
    ),
    Wrong(
        "barriers in every line",
        ((_STEP, _STEP + "        __syncthreads();\n"),),
        "efficiency",
        "barriers of a warp",
        cheat=True,
    ),
    Wrong(
        "first elements only",
        (("__shared__ float part[256];", "__shared__ float part[256];\n    if (blockIdx.x > 1) return;"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "doubled traffic",
        (
            (
                "i < n ? x[i] : 0.0f",
                "i < n ? ((volatile const float*)x)[i] * 0.0f + ((volatile const float*)x)[i] : 0.0f",
            ),
        ),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        cheat=True,
    ),
    Right(
        "shuffles in the last warp",
        (
            ("half > 0", "half > 16"),
            (
                "    if (threadIdx.x == 0) sums",
                "    float total = part[threadIdx.x % 32];\n"
                "    for (int half = 16; half > 0; half /= 2) total += __shfl_down_sync(0xffffffffu, total, half);\n"
                "    if (threadIdx.x == 0) sums",
            ),
            ("] = part[0];", "] = total;"),
        ),
    ),
    Right(
        "warps first",
        source="""
extern "C" __global__ void block_sums(const float* x, float* sums, int n) {
    __shared__ float part[8];
    int i = blockIdx.x * 256 + threadIdx.x;
    float total = 0.0f;
    if (i < n) total = x[i];
    for (int step = 16; step > 0; step /= 2) total += __shfl_down_sync(0xffffffffu, total, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        total = 0.0f;
        for (int w = 0; w < 8; w++) total += part[w];
        sums[blockIdx.x] = total;
    }
}
""",
    ),
    Right(
        "sixteen threads, then one",
        source="""
extern "C" __global__ void block_sums(const float* x, float* sums, int n) {
    __shared__ float part[256], rows[16];
    int i = blockIdx.x * 256 + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    float total = 0.0f;
    if (threadIdx.x < 16) {
        for (int k = 0; k < 16; k++) total += part[16 * k + threadIdx.x];
        rows[threadIdx.x] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        total = 0.0f;
        for (int k = 0; k < 16; k++) total += rows[k];
        sums[blockIdx.x] = total;
    }
}
""",
    ),
    Right(
        "a step a line",
        (
            (
                "if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];",
                "float other = threadIdx.x < half ? part[threadIdx.x + half] : 0.0f;\n"
                "        if (threadIdx.x < half) part[threadIdx.x] += other;",
            ),
        ),
    ),
)
