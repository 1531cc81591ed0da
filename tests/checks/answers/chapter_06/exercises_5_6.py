"""Answers to 06.5 and 06.6."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table
from tests.checks.answers.cheats import kernel_cheats

# --- 06.5 ---

_SHARED = "words loaded from shared memory for each multiply-add"
_LOADED = "bytes loaded, over the bytes that are needed"
_CONFLICTS = "bank conflicts for each request to shared memory"
_READ = "a[i] = As[threadIdx.y + 16 * i][k], b[i] = Bs[k][threadIdx.x + 16 * i];"
_STORE = "if (row + 16 * i < height && column + 16 * j < width)\n"
_HEAD = """
extern "C" __global__ void register_product(const float* A, const float* B, float* C,
                                            int height, int depth, int width) {
"""

ANSWERS_06_5 = table(
    "06.5",
    Wrong(
        "whole steps only",
        ((" && across < depth ?", " ?"), ("down < depth && c < width", "c < width")),
        "soundness",
        "out of bounds",
    ),
    Wrong(
        "each product reads both",
        (
            ("__shared__ float As", "__shared__ volatile float As"),
            ("float a[4], b[4];", ""),
            (f"for (int i = 0; i < 4; i++) {_READ}", ""),
            ("a[i] * b[j]", "As[threadIdx.y + 16 * i][k] * Bs[k][threadIdx.x + 16 * j]"),
        ),
        "efficiency",
        _SHARED,
    ),
    Wrong(
        "four sums at a time",
        (),
        "efficiency",
        _SHARED,
        source=_HEAD
        + """
    __shared__ float As[16][16], Bs[16][64];
    int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 64 + x;
    for (int part = 0; part < 4; part++) {
        int row = blockIdx.y * 64 + part * 16 + y;
        float sum[4] = {};
        for (int t = 0; t < depth; t += 16) {
            As[y][x] = row < height && t + x < depth ? A[row * depth + t + x] : 0.0f;
            for (int j = 0; j < 64; j += 16)
                Bs[y][x + j] = t + y < depth && column + j < width ? B[(t + y) * width + column + j] : 0.0f;
            __syncthreads();
            for (int k = 0; k < 16; k++)
                for (int j = 0; j < 4; j++) sum[j] += As[y][k] * Bs[k][x + 16 * j];
            __syncthreads();
        }
        for (int j = 0; j < 4; j++)
            if (row < height && column + 16 * j < width) C[row * width + column + 16 * j] = sum[j];
    }
}
""",
    ),
    Wrong(
        "no barrier before the tile is used",
        (("        }\n        __syncthreads();\n        for (int k", "        }\n        for (int k"),),
        "soundness",
        "race",
    ),
    Wrong(
        "no barrier before the next tile",
        (("        }\n        __syncthreads();\n    }\n", "        }\n    }\n"),),
        "soundness",
        "race",
    ),
    Wrong("no guard of A's rows", (("r < height && across", "across"),), "soundness", "out of bounds"),
    Wrong("no guard where C is stored", ((_STORE, ""),), "soundness", "out of bounds"),
    Wrong(
        "threads beyond the edge leave",
        (("    float sum[4][4]", "    if (row >= height || column >= width) return;\n    float sum[4][4]"),),
        "soundness",
        "uninitialised read",
    ),
    Wrong(
        "complete steps only",
        (("t < depth; t += STEP", "t + STEP <= depth; t += STEP"),),
        "correctness",
        "wrong values",
        mistake="the last, incomplete step",
    ),
    Wrong(
        "neighbouring rows in the tile",
        (("As[threadIdx.y + 16 * i][k]", "As[4 * threadIdx.y + i][k]"),),
        "correctness",
        "wrong values",
        mistake="other rows than it stores",
    ),
    Wrong(
        "one sum for each thread",
        (("            if (row + 16", "            if (i + j == 0 && row + 16"),),
        "correctness",
        "wrong values",
        mistake="only the first 16 x 16",
    ),
    Wrong(
        "A down its columns",
        (
            ("across = t + threadIdx.x", "across = t + threadIdx.y"),
            ("int r = row + 16 * i,", "int r = blockIdx.y * 64 + threadIdx.x + 16 * i,"),
            ("As[threadIdx.y + 16 * i][threadIdx.x] =", "As[threadIdx.x + 16 * i][threadIdx.y] ="),
        ),
        "efficiency",
        _CONFLICTS,
    ),
    Wrong(
        "the tile of A transposed, without padding",
        (
            ("As[64][STEP]", "As[STEP][64]"),
            ("As[threadIdx.y + 16 * i][threadIdx.x] =", "As[threadIdx.x][threadIdx.y + 16 * i] ="),
            ("As[threadIdx.y + 16 * i][k]", "As[k][threadIdx.y + 16 * i]"),
        ),
        "efficiency",
        _CONFLICTS,
    ),
    Wrong(
        "sums in local memory",
        (
            (
                "            for (int i = 0; i < 4; i++)\n                for",
                "#pragma unroll 1\n            for (int i = 0; i < 4; i++)\n                for",
            ),
        ),
        "efficiency",
        "requests to local memory",
    ),
    Wrong(
        "without tiles",
        (),
        "efficiency",
        _LOADED,
        source=_HEAD
        + """
    int row = blockIdx.y * 64 + threadIdx.y, column = blockIdx.x * 64 + threadIdx.x;
    float sum[4][4] = {};
    for (int k = 0; k < depth; k++) {
        float a[4], b[4];
        for (int i = 0; i < 4; i++) {
            a[i] = row + 16 * i < height ? A[(row + 16 * i) * depth + k] : 0.0f;
            b[i] = column + 16 * i < width ? B[k * width + column + 16 * i] : 0.0f;
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) sum[i][j] += a[i] * b[j];
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (row + 16 * i < height && column + 16 * j < width)
                C[(row + 16 * i) * width + column + 16 * j] = sum[i][j];
}
""",
        cheat=True,
    ),
    Wrong(
        "one thread",
        (),
        "efficiency",
        _LOADED,
        source=_HEAD
        + """
    if (threadIdx.x || threadIdx.y || blockIdx.x || blockIdx.y) return;
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) {
            float sum = 0.0f;
            for (int k = 0; k < depth; k++) sum += A[r * depth + k] * B[k * width + c];
            C[r * width + c] = sum;
        }
}
""",
        cheat=True,
    ),
    Wrong(
        "doubled traffic",
        (
            (
                "? A[r * depth + across] : 0.0f",
                "? ((volatile const float*)A)[r * depth + across] * 0.0f\n"
                "                + ((volatile const float*)A)[r * depth + across] : 0.0f",
            ),
        ),
        "efficiency",
        _LOADED,
        cheat=True,
    ),
    Wrong(
        "an index of 16 bits",
        (("A[r * depth + across]", "A[(unsigned short)(r * depth + across)]"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    *kernel_cheats("06.5", only=("nothing done in large grids",)),
    Right("rows of B's tile 16 banks apart", (("Bs[STEP][64]", "Bs[STEP][64 + 16]"),)),
    Right(
        "the tile of A transposed, rows of 66",
        (
            ("As[64][STEP]", "As[STEP][66]"),
            ("As[threadIdx.y + 16 * i][threadIdx.x] =", "As[threadIdx.x][threadIdx.y + 16 * i] ="),
            ("As[threadIdx.y + 16 * i][k]", "As[k][threadIdx.y + 16 * i]"),
        ),
    ),
    Right(
        "steps of eight",
        source=_HEAD
        + """
    __shared__ float As[64][8], Bs[8][64];
    int thread = threadIdx.y * 16 + threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int t = 0; t < depth; t += 8) {
        for (int i = thread; i < 512; i += 256) {
            int r = row + i / 8, k = t + i % 8;
            As[i / 8][i % 8] = r < height && k < depth ? A[r * depth + k] : 0.0f;
            int c = column + i % 64, down = t + i / 64;
            Bs[i / 64][i % 64] = down < depth && c < width ? B[down * width + c] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 8; k++) {
            float b[4];
            for (int j = 0; j < 4; j++) b[j] = Bs[k][threadIdx.x + 16 * j];
            for (int i = 0; i < 4; i++) {
                float a = As[threadIdx.y + 16 * i][k];
                for (int j = 0; j < 4; j++) sum[i][j] += a * b[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int r = row + threadIdx.y + 16 * i, c = column + threadIdx.x + 16 * j;
            if (r < height && c < width) C[r * width + c] = sum[i][j];
        }
}
""",
    ),
    Right(
        "tiles twice as deep, padded",
        source=_HEAD
        + """
    __shared__ float As[64][33], Bs[32][64];
    int thread = threadIdx.y * 16 + threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int t = 0; t < depth; t += 32) {
        for (int i = thread; i < 2048; i += 256) {
            int r = row + i / 32, k = t + i % 32, c = column + i % 64, down = t + i / 64;
            As[i / 32][i % 32] = r < height && k < depth ? A[r * depth + k] : 0.0f;
            Bs[i / 64][i % 64] = down < depth && c < width ? B[down * width + c] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 32; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum[i][j] += As[threadIdx.y + 16 * i][k] * Bs[k][threadIdx.x + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int r = row + threadIdx.y + 16 * i, c = column + threadIdx.x + 16 * j;
            if (r < height && c < width) C[r * width + c] = sum[i][j];
        }
}
""",
    ),
    Right(
        "neighbouring columns, by loads of 16 bytes",
        (
            ("__shared__ float As[64][STEP], Bs", "__shared__ alignas(16) float As[64][STEP], Bs"),
            (
                f"for (int i = 0; i < 4; i++) {_READ}",
                "for (int i = 0; i < 4; i++) a[i] = As[threadIdx.y + 16 * i][k];\n"
                "            float4 four = *(const float4*)&Bs[k][4 * threadIdx.x];\n"
                "            b[0] = four.x, b[1] = four.y, b[2] = four.z, b[3] = four.w;",
            ),
            (
                "if (row + 16 * i < height && column + 16 * j < width)",
                "if (int c = blockIdx.x * 64 + 4 * threadIdx.x + j; row + 16 * i < height && c < width)",
            ),
            ("C[(row + 16 * i) * width + column + 16 * j]", "C[(row + 16 * i) * width + c]"),
        ),
    ),
    Right(
        "the next tile ahead, in registers",
        source=_HEAD
        + """
    __shared__ float As[64][16], Bs[16][64];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 64 + y, column = blockIdx.x * 64 + x;
    float sum[4][4] = {}, a[4], b[4];
    for (int t = -16; t < depth; t += 16) {
        int next = t + 16;
        float ahead_a[4], ahead_b[4];
        for (int i = 0; i < 4; i++) {
            int r = row + 16 * i, c = column + 16 * i;
            ahead_a[i] = r < height && next + x < depth ? A[r * depth + next + x] : 0.0f;
            ahead_b[i] = next + y < depth && c < width ? B[(next + y) * width + c] : 0.0f;
        }
        if (t >= 0)
            for (int k = 0; k < 16; k++) {
                for (int i = 0; i < 4; i++) a[i] = As[y + 16 * i][k], b[i] = Bs[k][x + 16 * i];
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++) sum[i][j] += a[i] * b[j];
            }
        __syncthreads();
        for (int i = 0; i < 4; i++) As[y + 16 * i][x] = ahead_a[i], Bs[y][x + 16 * i] = ahead_b[i];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (row + 16 * i < height && column + 16 * j < width)
                C[(row + 16 * i) * width + column + 16 * j] = sum[i][j];
}
""",
    ),
)

# --- 06.6 ---

_SET = "{word for word in words if word is not None}"
_COUNT = "banks.count(bank) for bank in banks"
_RETURN = "    return max((banks.count(bank) for bank in banks), default=0)\n"

ANSWERS_06_6 = table(
    "06.6",
    Wrong(
        "lanes, not words",
        ((_SET, "[word for word in words if word is not None]"),),
        "correctness",
        "wrong values",
        mistake="the lanes that want the busiest bank",
    ),
    Wrong(
        "all different words",
        ((_RETURN, "    return len(read)\n"),),
        "correctness",
        "wrong values",
        mistake="this counts the words",
    ),
    Wrong(
        "all banks",
        ((_RETURN, "    return len(set(banks))\n"),),
        "correctness",
        "wrong values",
        mistake="the banks that are used",
    ),
    Wrong(
        "conflicts",
        ((_RETURN, "    return max((banks.count(bank) for bank in banks), default=1) - 1\n"),),
        "correctness",
        "wrong values",
        mistake="conflicts are counted",
    ),
    Wrong(
        "lanes that are off read word 0",
        ((_SET, "{word or 0 for word in words}"),),
        "correctness",
        "wrong values",
        mistake="that take no part",
    ),
    Wrong(
        "word 0 is no word",
        ((_SET, "{word for word in words if word}"),),
        "correctness",
        "wrong values",
        mistake="word 0 is left out",
    ),
    Wrong("sixteen banks", (("word % 32", "word % 16"),), "correctness", "wrong values"),
    Wrong("bytes, not words", (("word % 32", "word // 4 % 32"),), "correctness", "wrong values"),
    Wrong("fails without lanes", ((", default=0", ""),), "soundness", "ValueError"),
    Wrong(
        "the first lane's bank", ((_COUNT, "banks.count(banks[0]) for bank in banks"),), "correctness", "wrong values"
    ),
    Wrong(
        "by the distance of the first two lanes",
        (),
        "correctness",
        "wrong values",
        source="""
import math


def wavefronts(words):
    first, second = words[:2]
    return 0 if first is None or second is None else math.gcd(second - first, 32)
""",
        cheat=True,
    ),
    Wrong("always one", ((_RETURN, "    return 1\n"),), "correctness", "wrong values", cheat=True),
    Wrong("always all", ((_RETURN, "    return 32\n"),), "correctness", "wrong values", cheat=True),
    Wrong(
        "the numbers of the chapter",
        ((_RETURN, "    return {32: 32, 33: 1, 34: 2, 36: 4}.get((words[1] or 0) - (words[0] or 0), 1)\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Right(
        "a set for each bank",
        source="""
def wavefronts(words):
    banks = [set() for _ in range(32)]
    for word in words:
        if word is not None:
            banks[word % 32].add(word)
    return max(map(len, banks))
""",
    ),
    Right(
        "NumPy",
        source="""
def wavefronts(words):
    read = np.unique(np.array([word for word in words if word is not None], dtype=np.int64))
    return int(np.bincount(read % 32, minlength=32).max())
""",
    ),
    Right(
        "turn by turn",
        source="""
def wavefronts(words):
    left = {word for word in words if word is not None}
    turns = 0
    while left:
        turns += 1
        for bank in range(32):
            served = next((word for word in left if word % 32 == bank), None)
            left.discard(served)
    return turns
""",
    ),
)
