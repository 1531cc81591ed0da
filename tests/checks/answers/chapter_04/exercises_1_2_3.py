"""Answers to the exercises of chapter 04."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table
from tests.checks.answers.cheats import kernel_cheats

# --- 04.1 ---

ANSWERS_04_1 = table(
    "04.1",
    Wrong("no guard", (("if (i < n) ", ""),), "soundness", "out of bounds"),
    Wrong("guard one too wide", (("i < n", "i <= n"),), "soundness", "out of bounds"),
    Wrong("guard one too narrow", (("i < n", "i < n - 1"),), "correctness", "wrong values"),
    Wrong("hard-coded size of the sample", (("i < n", "i < 1000"),), "soundness", "out of bounds"),
    Wrong("whole blocks only", (("i < n", "i < n / blockDim.x * blockDim.x"),), "correctness", "wrong values"),
    Wrong("off by one in the index", (("n - 1 - i", "n - i"),), "soundness", "out of bounds"),
    Wrong("copied, not reversed", (("y[n - 1 - i]", "y[i]"),), "correctness", "wrong values"),
    Wrong("guard on the thread, not on the element", (("i < n", "threadIdx.x < n"),), "soundness", "out of bounds"),
    Wrong(
        "changes its input",
        (("y[n - 1 - i] = x[i]", "{ y[n - 1 - i] = x[i]; ((float*)x)[i] = 0.0f; }"),),
        "correctness",
        "input changed",
    ),
    Right(
        "grid-stride loop",
        (("if (i < n) y[n - 1 - i] = x[i];", "for (; i < n; i += gridDim.x * blockDim.x) y[n - 1 - i] = x[i];"),),
    ),
    Right("early return", (("if (i < n) y", "if (i >= n) return;\n    y"),)),
    Right(
        "four neighbours a thread",
        (("if (i < n) y[n - 1 - i] = x[i];", "for (int k = 4 * i; k < n && k < 4 * i + 4; k++) y[n - 1 - k] = x[k];"),),
    ),
    Right("from the other end", (("y[n - 1 - i] = x[i]", "y[i] = x[n - 1 - i]"),)),
    Wrong("an index of 16 bits", (("int i =", "short i ="),), "soundness", "out of bounds", cheat=True),
    Wrong(
        "an unsigned index of 16 bits", (("int i =", "unsigned short i ="),), "correctness", "wrong values", cheat=True
    ),
    Wrong("an index of 8 bits", (("int i =", "unsigned char i ="),), "correctness", "wrong values", cheat=True),
    *kernel_cheats("04.1"),
)

# --- 04.2 ---

ANSWERS_04_2 = table(
    "04.2",
    Wrong(
        "two rows at a time, and an odd one lost", (("r < rows", "r < rows / 2 * 2"),), "correctness", "wrong values"
    ),
    Wrong("no guard", (("if (c >= columns) return;", ""),), "soundness", "out of bounds"),
    Wrong("rows and columns swapped", (("m[r * columns + c]", "m[c * rows + r]"),), "correctness", "wrong values"),
    Wrong("first row left out", (("int r = 0", "int r = 1"),), "correctness", "wrong values"),
    Wrong("one row too many", (("r < rows", "r <= rows"),), "soundness", "out of bounds"),
    Wrong("hard-coded width", (("r * columns + c", "r * 64 + c"),), "soundness", "out of bounds"),
    Wrong(
        "stored at each row",
        (("total += m[r * columns + c];", "{ total += m[r * columns + c]; ((volatile float*)sums)[c] = total; }"),),
        "efficiency",
        "bytes stored for each byte of output",
    ),
    Wrong(
        "each sum kept in memory",
        (("    float total = 0.0f;\n", ""), ("total += m", "sums[c] += m"), ("    sums[c] = total;\n", "")),
        "efficiency",
        "bytes stored for each byte of output",
    ),
    Wrong("result overwritten at each row", (("total +=", "total ="),), "correctness", "wrong values"),
    Wrong(
        "one thread does it all",
        (
            ("if (c >= columns) return;", "if (c != 0) return;\n    for (c = 0; c < columns; c++) {"),
            ("sums[c] = total;", "sums[c] = total;\n    }"),
        ),
        "efficiency",
        "bytes that the busiest thread moves, over what one thread may need",
    ),
    Wrong(
        "a thread for each row, again",
        (
            ("if (c >= columns) return;", "int row = c;\n    if (row >= rows) return;"),
            ("float total = 0.0f;", ""),
            ("for (int r = 0; r < rows; r++) total += m[r * columns + c];", "for (c = 0; c < columns; c++)"),
            ("sums[c] = total;", "atomicAdd(&sums[c], m[row * columns + c]);"),
        ),
        "efficiency",
        "sectors for each 128 bytes loaded",
    ),
    Wrong(
        "adds up without atomics",
        (
            ("if (c >= columns) return;", "int row = c;\n    if (row >= rows) return;"),
            ("float total = 0.0f;", ""),
            ("for (int r = 0; r < rows; r++) total += m[r * columns + c];", "for (c = 0; c < columns; c++)"),
            ("sums[c] = total;", "sums[c] += m[row * columns + c];"),
        ),
        "soundness",
        "race",
    ),
    Right(
        "float4 loads",
        source="""extern "C" __global__ void column_sum(const float* m, float* sums, int rows, int columns) {
            int t = blockIdx.x * blockDim.x + threadIdx.x;
            if (columns % 4 == 0) {
                if (4 * t >= columns) return;
                float4 sum = make_float4(0, 0, 0, 0);
                for (int r = 0; r < rows; r++) {
                    float4 v = *(const float4*)&m[r * columns + 4 * t];
                    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
                }
                *(float4*)&sums[4 * t] = sum;
            } else if (t < columns) {
                float sum = 0;
                for (int r = 0; r < rows; r++) sum += m[r * columns + t];
                sums[t] = sum;
            }
        }""",
    ),
    Right(
        "several threads share a column",
        source="""extern "C" __global__ void column_sum(const float* m, float* sums, int rows, int columns) {
            int t = blockIdx.x * blockDim.x + threadIdx.x, slices = gridDim.x * blockDim.x / columns;
            int c = t % columns, slice = t / columns;
            if (slice >= slices) return;
            float sum = 0;
            for (int r = slice; r < rows; r += slices) sum += m[r * columns + c];
            atomicAdd(&sums[c], sum);
        }""",
    ),
    Right("from the last row", (("int r = 0; r < rows; r++", "int r = rows - 1; r >= 0; r--"),)),
    Right("unrolled", (("for (int r = 0", "#pragma unroll 4\n    for (int r = 0"),)),
    Wrong(
        "loads hidden in atomics",
        (("total += m[r * columns + c]", "total += atomicAdd((float*)&m[r * columns + c], 0.0f)"),),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        cheat=True,
    ),
    Wrong(
        "an index of 16 bits",
        (("m[r * columns + c]", "m[(unsigned short)(r * columns + c)]"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    *kernel_cheats("04.2"),
)

# --- 04.3 ---

ANSWERS_04_3 = table(
    "04.3",
    Wrong("source pitch ignored", (("y * source_pitch", "y * width * sizeof(float)"),), "correctness", "wrong values"),
    Wrong("result pitch ignored", (("y * result_pitch", "y * width * sizeof(float)"),), "correctness", "wrong values"),
    Wrong("one pitch used for both", (("y * result_pitch", "y * source_pitch"),), "correctness", "wrong values"),
    Wrong(
        "pitch counted in elements",
        (("(const float*)((const char*)source + y * source_pitch)", "source + y * source_pitch"),),
        "correctness",
        "wrong values",
        mistake="counts elements",
    ),
    Wrong("no guard in y", (("x >= width || y >= height", "x >= width"),), "soundness", "out of bounds"),
    Wrong("edges not clamped", (("max(y - 1, 0)", "y - 1"),), "soundness", "out of bounds"),
    Wrong("right edge not clamped", (("min(x + 1, width - 1)", "x + 1"),), "correctness", "wrong values"),
    Wrong("centre left out", (("row(y)[x] + ", ""),), "correctness", "wrong values"),
    Wrong(
        "threads walk down the columns",
        (
            ("int x = blockIdx.x * blockDim.x + threadIdx.x;", "int x = blockIdx.x * blockDim.x + threadIdx.y;"),
            ("int y = blockIdx.y * blockDim.y + threadIdx.y;", "int y = blockIdx.y * blockDim.y + threadIdx.x;"),
        ),
        "correctness",
        "wrong values",
    ),
    Right(
        "a halo tile",
        source="""extern "C" __global__ void smooth(const float* source, size_t source_pitch,
                                          float* result, size_t result_pitch, int width, int height) {
            __shared__ float tile[20 * 40];
            auto row = [=](int y) { return (const float*)((const char*)source + y * source_pitch); };
            int w = blockDim.x + 2, h = blockDim.y + 2, x0 = blockIdx.x * blockDim.x, y0 = blockIdx.y * blockDim.y;
            for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < w * h; i += blockDim.x * blockDim.y)
                tile[i] = row(min(max(y0 - 1 + i / w, 0), height - 1))[min(max(x0 - 1 + i % w, 0), width - 1)];
            __syncthreads();
            int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
            if (x >= width || y >= height) return;
            const float* me = tile + (threadIdx.y + 1) * w + threadIdx.x + 1;
            float sum = me[0] + me[-w] + me[w] + me[-1] + me[1];
            ((float*)((char*)result + y * result_pitch))[x] = sum / 5.0f;
        }""",
    ),
    Right(
        "pointers to three rows",
        (
            (
                "float sum = row(y)[x] + row(max(y - 1, 0))[x] + row(min(y + 1, height - 1))[x]",
                "const float *up = row(max(y - 1, 0)), *down = row(min(y + 1, height - 1));\n"
                "    float sum = row(y)[x] + up[x] + down[x]",
            ),
        ),
    ),
    Right(
        "conditions at the border",
        (("max(x - 1, 0)", "x ? x - 1 : 0"), ("min(x + 1, width - 1)", "x + 1 < width ? x + 1 : x")),
    ),
    Right("multiplied by 0.2", (("sum / 5.0f", "sum * 0.2f"),)),
    Wrong(
        "an offset of 16 bits",
        (("source + y * source_pitch", "source + (unsigned short)(y * source_pitch)"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    *kernel_cheats("04.3"),
)
