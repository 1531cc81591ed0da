"""Answers to the exercises of chapter 06."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table
from tests.checks.answers.cheats import kernel_cheats

_A_LOAD = "k < depth && across < height ? A[k * height + across] : 0.0f"
_SUM = "for (int i = 0; i < TILE; i++) sum += As[i][threadIdx.y] * Bs[i][threadIdx.x];"

# --- 06.1 ---

ANSWERS_06_1 = table(
    "06.1",
    Wrong("no barrier before the tile is read", ((f"__syncthreads();\n        {_SUM}", _SUM),), "soundness", "race"),
    Wrong(
        "no barrier before the tile is overwritten",
        ((f"{_SUM}\n        __syncthreads();", _SUM),),
        "soundness",
        "race",
    ),
    Wrong(
        "warps taken for blocks",
        ((f"__syncthreads();\n        {_SUM}", f"__syncwarp();\n        {_SUM}"),),
        "soundness",
        "race",
    ),
    Wrong(
        "threads outside return before the barrier",
        (("float sum = 0.0f;", "float sum = 0.0f;\n    if (row >= height || column >= width) return;"),),
        "soundness",
        "barrier after exit",
    ),
    Wrong(
        "barrier inside the guard",
        (
            (
                f"__syncthreads();\n        {_SUM}",
                f"if (row < height && column < width) {{\n        __syncthreads();\n        {_SUM}\n        }}",
            ),
        ),
        "soundness",
        "divergent barrier",
    ),
    Wrong(
        "nothing loaded beyond the edge, not even 0",
        (
            (
                f"As[threadIdx.y][threadIdx.x] = {_A_LOAD};",
                "if (k < depth && across < height) As[threadIdx.y][threadIdx.x] = A[k * height + across];",
            ),
        ),
        "soundness",
        "uninitialised read",
    ),
    Wrong("no guard on the loads of A", ((_A_LOAD, "A[k * height + across]"),), "soundness", "out of bounds"),
    Wrong(
        "A guarded by row, not by the column it loads",
        (("across < height ?", "row < height ?"),),
        "correctness",
        "wrong values",
    ),
    Wrong("no guard on the depth", (("k < depth && column", "column"),), "soundness", "out of bounds"),
    Wrong(
        "the store guarded in one direction only",
        (("if (row < height && column < width)", "if (row < height)"),),
        "soundness",
        "out of bounds",
    ),
    Wrong(
        "last tile left out",
        (("t < depth; t += TILE", "t + TILE <= depth; t += TILE"),),
        "correctness",
        "wrong values",
    ),
    Wrong("A not transposed", (("As[i][threadIdx.y]", "As[threadIdx.y][i]"),), "correctness", "wrong values"),
    Wrong(
        "every thread fetches its own",
        (
            (
                _SUM,
                "if (row < height && column < width)\n            for (int i = 0; i < min(TILE, depth - t); i++)\n"
                "                sum += A[(t + i) * height + row] * B[(t + i) * width + column];",
            ),
        ),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
    ),
    Right(
        "dynamic shared memory",
        (
            (
                "__shared__ float As[TILE][TILE], Bs[TILE][TILE];",
                "extern __shared__ float tiles[];\n    auto As = (float(*)[TILE])tiles, Bs = As + TILE;",
            ),
        ),
    ),
    Right("padded tiles", (("As[TILE][TILE], Bs[TILE][TILE]", "As[TILE][TILE + 1], Bs[TILE][TILE + 1]"),)),
    Right(
        "two tiles in turn, one barrier",
        (
            ("As[TILE][TILE], Bs[TILE][TILE]", "A2[2][TILE][TILE], B2[2][TILE][TILE]"),
            (
                "int k = t + threadIdx.y;",
                "auto As = A2[t / TILE % 2], Bs = B2[t / TILE % 2];\n        int k = t + threadIdx.y;",
            ),
            (f"{_SUM}\n        __syncthreads();", _SUM),
        ),
    ),
    Right(
        "zeros first, then loads",
        (
            (
                f"As[threadIdx.y][threadIdx.x] = {_A_LOAD};",
                "As[threadIdx.y][threadIdx.x] = 0.0f;\n"
                "        if (k < depth && across < height) As[threadIdx.y][threadIdx.x] = A[k * height + across];",
            ),
        ),
    ),
    Wrong(
        "naive, without tiles",
        (),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        source="""extern "C" __global__ void transposed_product(const float* A, const float* B, float* C,
                                                          int height, int depth, int width) {
            int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
            if (row >= height || column >= width) return;
            float sum = 0.0f;
            for (int k = 0; k < depth; k++) sum += A[k * height + row] * B[k * width + column];
            C[row * width + column] = sum;
        }""",
        cheat=True,
    ),
    Wrong(
        "one thread",
        (),
        "efficiency",
        "bytes that the busiest thread moves, over what one thread may need",
        source="""extern "C" __global__ void transposed_product(const float* A, const float* B, float* C,
                                                          int height, int depth, int width) {
            if (blockIdx.x || blockIdx.y || threadIdx.x || threadIdx.y) return;
            for (int row = 0; row < height; row++)
                for (int column = 0; column < width; column++) {
                    float sum = 0.0f;
                    for (int k = 0; k < depth; k++) sum += A[k * height + row] * B[k * width + column];
                    C[row * width + column] = sum;
                }
        }""",
        cheat=True,
    ),
    Wrong(
        "one thread loads both tiles",
        (
            ("int k = t + threadIdx.y;  // the row of A and of B that it loads\n", ""),
            (
                f"As[threadIdx.y][threadIdx.x] = {_A_LOAD};\n"
                "        Bs[threadIdx.y][threadIdx.x] = k < depth && column < width ? B[k * width + column] : 0.0f;",
                """if (threadIdx.x == 0 && threadIdx.y == 0)
            for (int j = 0; j < TILE; j++)
                for (int i = 0; i < TILE; i++) {
                    int k = t + j, across = blockIdx.y * TILE + i, column = blockIdx.x * TILE + i;
                    As[j][i] = k < depth && across < height ? A[k * height + across] : 0.0f;
                    Bs[j][i] = k < depth && column < width ? B[k * width + column] : 0.0f;
                }""",
            ),
        ),
        "efficiency",
        "bytes that the busiest thread moves, over what one thread may need",
        cheat=True,
    ),
    Wrong(
        "a barrier in every step",
        ((_SUM, _SUM.replace("sum +=", "{ __syncthreads(); sum +=") + " }"),),
        "efficiency",
        "barriers of a warp for each tile",
        cheat=True,
    ),
    Wrong(
        "blocks beyond 2 x 2 skipped",
        (("float sum = 0.0f;", "float sum = 0.0f;\n    if (blockIdx.x > 1 || blockIdx.y > 1) return;"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "an index of 16 bits",
        (("A[k * height + across]", "A[(unsigned short)(k * height + across)]"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "doubled traffic",
        (
            (
                "k < depth && column < width ? B[k * width + column]",
                "k < depth && column < width ? ((const volatile float*)B)[k * width + column] * 0.0f"
                " + ((const volatile float*)B)[k * width + column]",
            ),
        ),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        cheat=True,
    ),
    *kernel_cheats("06.1", only=("nothing done in large grids",)),
)

# --- 06.2 ---

ANSWERS_06_2 = table(
    "06.2",
    Wrong(
        "no padding",
        (("Ys[TILE][TILE + 1]", "Ys[TILE][TILE]"),),
        "efficiency",
        "bank conflicts for each request to shared memory",
    ),
    Wrong(
        "the other tile padded",
        (("Xs[TILE][TILE], Ys[TILE][TILE + 1]", "Xs[TILE][TILE + 1], Ys[TILE][TILE]"),),
        "efficiency",
        "bank conflicts for each request to shared memory",
    ),
    Wrong(
        "Y still loaded down its columns",
        (
            ("int other = blockIdx.x * TILE + threadIdx.y;", "int other = blockIdx.x * TILE + threadIdx.x, ky;"),
            (
                "Ys[threadIdx.y][threadIdx.x] = other < n && k < depth ? Y[other * depth + k] : 0.0f;",
                "ky = t + threadIdx.y;\n        "
                "Ys[threadIdx.x][threadIdx.y] = other < n && ky < depth ? Y[other * depth + ky] : 0.0f;",
            ),
        ),
        "efficiency",
        "sectors for each 128 bytes loaded",
    ),
    Wrong(
        "every thread fetches its own X",
        (
            (
                "float difference = Xs[threadIdx.y][i]",
                "float difference = (row < m && t + i < depth ? X[row * depth + t + i] : 0.0f)",
            ),
        ),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
    ),
    Wrong("no barrier before the tiles are read", (("__syncthreads();  // complete", ""),), "soundness", "race"),
    Wrong("no barrier before they are overwritten", (("__syncthreads();  // done with", ""),), "soundness", "race"),
    Wrong("no guard on the depth", (("row < m && k < depth ?", "row < m ?"),), "soundness", "out of bounds"),
    Wrong("tile of Y read by row", (("Ys[threadIdx.x][i]", "Ys[i][threadIdx.x]"),), "correctness", "wrong values"),
    Wrong(
        "X and Y change places in D",
        (("D[row * n + column]", "D[column * m + row]"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "differences not squared",
        (("sum += difference * difference", "sum += difference"),),
        "correctness",
        "wrong values",
    ),
    Right(
        "float4 loads",
        source="""const int TILE = 32;
        extern "C" __global__ void distances(const float* X, const float* Y, float* D, int m, int n, int depth) {
            __shared__ float Xs[TILE][TILE + 1], Ys[TILE][TILE + 1];
            int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
            int me = threadIdx.y * TILE + threadIdx.x;
            bool wide = depth % 4 == 0;
            float sum = 0.0f;
            for (int t = 0; t < depth; t += TILE) {
                for (int i = me; i < 2 * TILE * TILE / (wide ? 4 : 1); i += TILE * TILE) {
                    int each = wide ? TILE / 4 : TILE, line = i / each % TILE, k = (i % each) * (wide ? 4 : 1);
                    bool y = i >= TILE * each;
                    int point = (y ? blockIdx.x : blockIdx.y) * TILE + line, points = y ? n : m;
                    const float* from = (y ? Y : X) + point * depth + t + k;
                    float* to = y ? &Ys[line][k] : &Xs[line][k];
                    bool inside = point < points && t + k < depth;
                    if (wide) {
                        float4 v = inside ? *(const float4*)from : make_float4(0, 0, 0, 0);
                        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
                    } else {
                        *to = inside ? *from : 0.0f;
                    }
                }
                __syncthreads();
                for (int i = 0; i < TILE; i++) {
                    float difference = Xs[threadIdx.y][i] - Ys[threadIdx.x][i];
                    sum += difference * difference;
                }
                __syncthreads();
            }
            if (row < m && column < n) D[row * n + column] = sum;
        }""",
    ),
    Right("both tiles padded", (("Xs[TILE][TILE], Ys", "Xs[TILE][TILE + 1], Ys"),)),
    Right(
        "Y's tile stored across",
        (
            ("Ys[TILE][TILE + 1]", "Ys[TILE][TILE + 1], spare"),
            ("Ys[threadIdx.y][threadIdx.x] =", "Ys[threadIdx.x][threadIdx.y] ="),
            ("Ys[threadIdx.x][i]", "Ys[i][threadIdx.x]"),
        ),
    ),
    Right(
        "two tiles in turn",
        (
            ("Xs[TILE][TILE], Ys[TILE][TILE + 1]", "X2[2][TILE][TILE], Y2[2][TILE][TILE + 1]"),
            (
                "int k = t + threadIdx.x;",
                "auto Xs = X2[t / TILE % 2];\n        auto Ys = Y2[t / TILE % 2];\n        int k = t + threadIdx.x;",
            ),
            ("        __syncthreads();  // done with\n", ""),
        ),
    ),
    Wrong(
        "naive, without tiles",
        (),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        source="""extern "C"
        __global__ void distances(const float* X, const float* Y, float* D, int m, int n, int depth) {
            int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
            if (row >= m || column >= n) return;
            float sum = 0.0f;
            for (int k = 0; k < depth; k++) {
                float difference = X[row * depth + k] - Y[column * depth + k];
                sum += difference * difference;
            }
            D[row * n + column] = sum;
        }""",
        cheat=True,
    ),
    Wrong(
        "one thread",
        (),
        "efficiency",
        "bytes that the busiest thread moves, over what one thread may need",
        source="""extern "C"
        __global__ void distances(const float* X, const float* Y, float* D, int m, int n, int depth) {
            if (blockIdx.x || blockIdx.y || threadIdx.x || threadIdx.y) return;
            for (int row = 0; row < m; row++)
                for (int column = 0; column < n; column++) {
                    float sum = 0.0f;
                    for (int k = 0; k < depth; k++) {
                        float difference = X[row * depth + k] - Y[column * depth + k];
                        sum += difference * difference;
                    }
                    D[row * n + column] = sum;
                }
        }""",
        cheat=True,
    ),
    Wrong(
        "one warp loads both tiles",
        (
            (
                "Xs[threadIdx.y][threadIdx.x] = row < m && k < depth ? X[row * depth + k] : 0.0f;",
                "if (threadIdx.y == 0)\n#pragma unroll 1\n        for (int j = 0; j < TILE; j++)"
                " Xs[j][threadIdx.x] = row + j < m && k < depth ? X[(row + j) * depth + k] : 0.0f;",
            ),
            (
                "Ys[threadIdx.y][threadIdx.x] = other < n && k < depth ? Y[other * depth + k] : 0.0f;",
                "if (threadIdx.y == 0)\n#pragma unroll 1\n        for (int j = 0; j < TILE; j++)"
                " Ys[j][threadIdx.x] = other + j < n && k < depth ? Y[(other + j) * depth + k] : 0.0f;",
            ),
        ),
        "efficiency",
        "bytes that the busiest thread moves, over what one thread may need",
        cheat=True,
    ),
    Wrong(
        "a barrier in every step",
        (("sum += difference * difference;", "sum += difference * difference;\n            __syncthreads();"),),
        "efficiency",
        "barriers of a warp for each tile",
        cheat=True,
    ),
    Wrong(
        "blocks beyond 2 x 2 skipped",
        (("float sum = 0.0f;", "float sum = 0.0f;\n    if (blockIdx.x > 1 || blockIdx.y > 1) return;"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "an index of 16 bits",
        (("X[row * depth + k]", "X[(unsigned short)(row * depth + k)]"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "doubled traffic",
        (
            (
                "k < depth ? Y[other * depth + k]",
                "k < depth ? ((const volatile float*)Y)[other * depth + k] * 0.0f"
                " + ((const volatile float*)Y)[other * depth + k]",
            ),
        ),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        cheat=True,
    ),
    *kernel_cheats("06.2", only=("nothing done in large grids",)),
)
