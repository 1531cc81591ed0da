"""Wrong answers to the *Now you* cells of chapter 06."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

_TURNED = """extern "C" __global__ void turn(const float* in, float* out, int height, int width) {{
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    {}
    if (y < height && x < width) out[x * height + y] = in[y * width + x];
}}"""

WRONG = (
    *table(
        "06.neighbours",
        Wrong(
            "only one line changed",
            (("row = blockIdx.y * blockDim.y + threadIdx.y", "row = blockIdx.x * blockDim.x + threadIdx.x"),),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "the result transposed in place of the lanes",
            (
                ("row = blockIdx.y * blockDim.y + threadIdx.y", "row = blockIdx.x * blockDim.x + threadIdx.x"),
                ("column = blockIdx.x * blockDim.x + threadIdx.x", "column = blockIdx.y * blockDim.y + threadIdx.y"),
                ("C[row * width + column]", "C[column * width + row]"),
            ),
            "correctness",
            "wrong values",
            mistake="C is transposed",
        ),
        Wrong(
            "threads swapped, blocks not",
            (
                ("blockDim.y + threadIdx.y", "blockDim.y + threadIdx.x"),
                ("blockDim.x + threadIdx.x;\n    if", "blockDim.x + threadIdx.y;\n    if"),
            ),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "blocks and threads swapped, their sizes not",
            (
                ("blockIdx.y * blockDim.y + threadIdx.y", "blockIdx.y * blockDim.x + threadIdx.y"),
                ("blockIdx.x * blockDim.x + threadIdx.x;\n    if", "blockIdx.x * blockDim.y + threadIdx.x;\n    if"),
            ),
            "correctness",
            "wrong values",
        ),
        Wrong("no guard", (("    if (row >= height || column >= width) return;\n", ""),), "soundness", "out of bounds"),
    ),
    *table(
        "06.mirror",
        Wrong("no barrier", (("    __syncthreads();\n", ""),), "soundness", "race"),
        Wrong("only the warp waits", (("__syncthreads", "__syncwarp"),), "soundness", "race"),
        Wrong(
            "half of the threads wait",
            (("__syncthreads();", "if (threadIdx.x < 128) __syncthreads();"),),
            "soundness",
            "barrier after exit",
        ),
        Wrong(
            "without shared memory",
            (("part[255 - threadIdx.x]", "x[first + 255 - threadIdx.x]"), ("    __syncthreads();\n", "")),
            "efficiency",
            "barriers of a warp for each tile",
        ),
    ),
    *table(
        "06.padding",
        Wrong(
            "padded by two",
            (("[32][33]", "[32][34]"),),
            "efficiency",
            "bank conflicts for each request to shared memory",
        ),
        Wrong(
            "one row more",
            (("[32][33]", "[33][32]"),),
            "efficiency",
            "bank conflicts for each request to shared memory",
        ),
        Wrong(
            "the store takes the conflicts' place",
            (
                ("tile[threadIdx.x][threadIdx.y]", "tile[threadIdx.y][threadIdx.x]"),
                (
                    "out[(left + threadIdx.y) * n + top + threadIdx.x]",
                    "out[(left + threadIdx.x) * n + top + threadIdx.y]",
                ),
            ),
            "efficiency",
            "sectors for each 128 bytes stored",
        ),
    ),
    *table(
        "06.four",
        Wrong(
            "still a load for each product",
            (
                ("        float b = B[k * width + column];\n", ""),
                (
                    "+= A[(row + 8 * e) * depth + k] * b;",
                    "+= A[(row + 8 * e) * depth + k] * ((const volatile float*)B)[k * width + column];",
                ),
            ),
            "efficiency",
            "bytes loaded, over the bytes that are needed",
        ),
        Wrong(
            "four neighbours of a row",
            (
                ("sum[e] += A[(row + 8 * e) * depth", "sum[e] += A[row * depth"),
                ("C[(row + 8 * e) * width + column]", "C[row * width + column + e]"),
            ),
            "correctness",
            "wrong values",
        ),
        Wrong("four rows in a row", (("row + 8 * e", "row + e"),), "correctness", "wrong values"),
    ),
    *table(
        "06.edge",
        Wrong(
            "the load's guard for the store",
            (
                (
                    "if (left + threadIdx.y < width && top + threadIdx.x < height)",
                    "if (top + threadIdx.y < height && left + threadIdx.x < width)",
                ),
            ),
            "soundness",
            "out of bounds",
        ),
        Wrong(
            "the barrier in the guard",
            (
                ("    __syncthreads();\n", ""),
                ("+ threadIdx.x];\n    if (left", "+ threadIdx.x], __syncthreads();\n    if (left"),
            ),
            "soundness",
            "barrier after exit",
        ),
        Wrong(
            "the store not guarded",
            (("    if (left + threadIdx.y < width && top + threadIdx.x < height)\n", ""),),
            "soundness",
            "out of bounds",
        ),
        Wrong("without a tile", (), "efficiency", "barriers of a warp for each tile", source=_TURNED.format("")),
        Wrong(
            "a barrier, and no tile",
            (),
            "efficiency",
            "sectors for each 128 bytes stored",
            source=_TURNED.format("__syncthreads();"),
        ),
    ),
)
