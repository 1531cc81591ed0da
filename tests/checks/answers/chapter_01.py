"""Answers to the exercises of chapter 01."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table
from tests.checks.answers.cheats import kernel_cheats

_COLUMNS = "for (int column = blockIdx.x * blockDim.x + threadIdx.x; column < width; column += wide)"
_ZERO = "for (int k = threadIdx.x; k < 26; k += blockDim.x) mine[k] = 0;"
_ROWS = "for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < height; row += high)"
_ADD = "for (int k = threadIdx.x; k < 26; k += blockDim.x) atomicAdd(&counts[k], mine[k]);"

# --- 01.1 ---

ANSWERS_01_1 = table(
    "01.1",
    Wrong(
        "columns counted in a byte",
        (("width - 1 - column]", "(unsigned char)(width - 1 - column)]"),),
        "correctness",
        "wrong values",
    ),
    Wrong("one column a thread", ((_COLUMNS, _COLUMNS.replace("wide", "width")),), "correctness", "wrong values"),
    Wrong("one row a thread", ((_ROWS, _ROWS.replace("high)", "height)")),), "correctness", "wrong values"),
    Wrong("one column too many", (("column < width;", "column <= width;"),), "soundness", "race"),
    Wrong("one row too many", (("row < height;", "row <= height;"),), "soundness", "out of bounds"),
    Wrong("one column short", (("column < width;", "column < width - 1;"),), "correctness", "wrong values"),
    Wrong(
        "x counts rows",
        (("blockIdx.y * blockDim.y + threadIdx.y", "blockIdx.x * blockDim.y + threadIdx.y"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "every block does everything",
        (("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"),),
        "soundness",
        "race",
    ),
    Wrong("steps of a block", (("wide = gridDim.x * blockDim.x", "wide = blockDim.x"),), "soundness", "race"),
    Wrong("width and height exchanged", (("out[row * width", "out[row * height"),), "correctness", "wrong values"),
    Wrong("mirrored one byte off", (("width - 1 - column", "width - column"),), "soundness", "out of bounds"),
    Wrong(
        "stands on its head",
        (("in[row * width + width - 1 - column]", "in[(height - 1 - row) * width + column]"),),
        "correctness",
        "wrong values",
    ),
    Wrong("not mirrored", (("width - 1 - column", "column"),), "correctness", "wrong values"),
    Right(
        "one index over all pixels",
        source="""typedef unsigned char byte;
        extern "C" __global__ void mirror(const byte* in, byte* out, int height, int width) {
            int threads = gridDim.x * gridDim.y * blockDim.x * blockDim.y;
            int me = ((blockIdx.y * gridDim.x + blockIdx.x) * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
            for (int i = me; i < width * height; i += threads) {
                int row = i / width, column = i % width;
                out[i] = in[row * width + width - 1 - column];
            }
        }""",
    ),
    Right(
        "reads in order, writes mirrored",
        (
            (
                "out[row * width + column] = in[row * width + width - 1 - column]",
                "out[row * width + width - 1 - column] = in[row * width + column]",
            ),
        ),
    ),
    Right(
        "both loops with while",
        source="""typedef unsigned char byte;
        extern "C" __global__ void mirror(const byte* in, byte* out, int height, int width) {
            unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
            while (row < height) {
                unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
                while (column < width) {
                    out[row * width + column] = in[(row + 1) * width - 1 - column];
                    column += gridDim.x * blockDim.x;
                }
                row += gridDim.y * blockDim.y;
            }
        }""",
    ),
    Wrong(
        "an index of 16 bits",
        (("out[row * width + column]", "out[(unsigned short)(row * width + column)]"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "an index of 8 bits",
        (("for (int column", "for (unsigned char column"),),
        "soundness",
        "endless loop",
        cheat=True,
    ),
    *kernel_cheats("01.1"),
)

# --- 01.2 ---

ANSWERS_01_2 = table(
    "01.2",
    Wrong(
        "an atomic for each character",
        (("&mine[letter], 1", "&counts[letter], 1"),),
        "efficiency",
        "atomics on global memory for each block",
    ),
    Wrong(
        "shared counters without atomics",
        (("atomicAdd(&mine[letter], 1)", "mine[letter] += 1"),),
        "soundness",
        "race",
    ),
    Wrong("counts without atomics", (("atomicAdd(&counts[k], mine[k])", "counts[k] += mine[k]"),), "soundness", "race"),
    Wrong(
        "counts of one block only",
        (("atomicAdd(&counts[k], mine[k])", "counts[k] = mine[k]"),),
        "soundness",
        "race",
    ),
    Wrong("no barrier after the zeros", (("__syncthreads();  // all 26 are 0", ""),), "soundness", "race"),
    Wrong("no barrier before adding up", (("__syncthreads();  // everything is counted", ""),), "soundness", "race"),
    Wrong(
        "a warp's wait for a block's",
        (("__syncthreads();  // everything", "__syncwarp();  // everything"),),
        "soundness",
        "race",
    ),
    Wrong("counters never set to 0", ((_ZERO, ""),), "soundness", "uninitialised read"),
    Wrong(
        "the first threads set them to 0",
        ((_ZERO, "if (threadIdx.x < 26) mine[threadIdx.x] = 0;"),),
        "soundness",
        "uninitialised read",
    ),
    Wrong(
        "the first threads add up",
        ((_ADD, "if (threadIdx.x < 26) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "a added up twice",
        (
            (
                _ADD,
                "for (int k = threadIdx.x; k < 27; k += blockDim.x) atomicAdd(&counts[k % 26], mine[k % 26]);",
            ),
        ),
        "correctness",
        "wrong values",
    ),
    Wrong("no lower bound", (("letter >= 0 && letter < 26", "letter < 26"),), "soundness", "out of bounds"),
    Wrong("no upper bound", (("letter >= 0 && letter < 26", "letter >= 0"),), "soundness", "out of bounds"),
    Wrong("z is not counted", (("letter < 26", "letter < 25"),), "correctness", "wrong values"),
    Wrong("one character a thread", (("i += threads", "i += n"),), "correctness", "wrong values"),
    Wrong("capitals counted", (("text[i] - 'a'", "(text[i] | 32) - 'a'"),), "correctness", "wrong values"),
    Wrong("one character too many", (("i < n;", "i <= n;"),), "soundness", "out of bounds"),
    Wrong(
        "a look and an exchange",
        (("atomicAdd(&mine[letter], 1)", "atomicExch(&mine[letter], atomicAdd(&mine[letter], 0) + 1)"),),
        "soundness",
        "lost update",
    ),
    Wrong(
        "a swap that may fail",
        (("atomicAdd(&mine[letter], 1)", "atomicCAS(&mine[letter], mine[letter], mine[letter] + 1)"),),
        "soundness",
        "lost update",
    ),
    Right(
        "swapped until nobody came between",
        (
            (
                "atomicAdd(&mine[letter], 1);",
                "for (int old = 0, seen = -1; seen != old;)\n"
                "            seen = old, old = atomicCAS(&mine[letter], seen, seen + 1);",
            ),
        ),
    ),
    Right(
        "counters for each warp",
        source="""extern "C" __global__ void letters(const char* text, int n, int* counts) {
            __shared__ int mine[32][26];
            int warps = (blockDim.x + 31) / 32, warp = threadIdx.x / 32;
            for (int k = threadIdx.x; k < 26 * warps; k += blockDim.x) mine[k / 26][k % 26] = 0;
            __syncthreads();
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                if (text[i] >= 'a' && text[i] <= 'z') atomicAdd(&mine[warp][text[i] - 'a'], 1);
            __syncthreads();
            for (int k = threadIdx.x; k < 26; k += blockDim.x) {
                int sum = 0;
                for (int w = 0; w < warps; w++) sum += mine[w][k];
                atomicAdd(&counts[k], sum);
            }
        }""",
    ),
    Right(
        "one thread sets zeros and adds up",
        (
            (_ZERO, "if (threadIdx.x == 0) for (int k = 0; k < 26; k++) mine[k] = 0;"),
            (_ADD, "if (threadIdx.x == 0) for (int k = 0; k < 26; k++) if (mine[k]) atomicAdd(&counts[k], mine[k]);"),
        ),
    ),
    Right(
        "each block a stretch of the text",
        source="""extern "C" __global__ void letters(const char* text, int n, int* counts) {
            __shared__ int mine[26];
            for (int k = threadIdx.x; k < 26; k += blockDim.x) mine[k] = 0;
            __syncthreads();
            int each = (n + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * each, end = min(n, begin + each);
            for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
                unsigned letter = text[i] - 'a';
                if (letter < 26) atomicAdd(mine + letter, 1);
            }
            __syncthreads();
            for (int k = threadIdx.x; k < 26; k += blockDim.x) atomicAdd(counts + k, mine[k]);
        }""",
    ),
    Wrong(
        "26 threads that each read the whole text",
        (),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        source="""extern "C" __global__ void letters(const char* text, int n, int* counts) {
            if (blockIdx.x) return;
            for (int k = threadIdx.x; k < 26; k += blockDim.x) {
                int count = 0;
                for (int i = 0; i < n; i++) count += text[i] == 'a' + k;
                counts[k] = count;
            }
        }""",
        cheat=True,
    ),
    Wrong(
        "one thread",
        (),
        "efficiency",
        "bytes that the busiest thread moves, over what one thread may need",
        source="""extern "C" __global__ void letters(const char* text, int n, int* counts) {
            if (blockIdx.x || threadIdx.x) return;
            for (int i = 0; i < n; i++) {
                int letter = text[i] - 'a';
                if (letter >= 0 && letter < 26) counts[letter] += 1;
            }
        }""",
        cheat=True,
    ),
    Wrong(
        "one block",
        (
            (
                "int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads",
                "int i = threadIdx.x + (blockIdx.x ? n : 0); i < n; i += blockDim.x",
            ),
        ),
        "efficiency",
        "bytes that the busiest thread moves, over what one thread may need",
        cheat=True,
    ),
    Wrong(
        "an index of 16 bits",
        (("text[i] - 'a'", "text[(unsigned short)i] - 'a'"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "doubled traffic",
        (
            (
                "int letter = text[i] - 'a';",
                "const volatile char* twice = text;\n        int letter = twice[i] - 'a' + (twice[i] == 1);",
            ),
        ),
        "efficiency",
        "bytes loaded, over the bytes that are needed",
        cheat=True,
    ),
    *kernel_cheats("01.2", only=("nothing done in large grids",)),
)


ANSWERS = (*ANSWERS_01_1, *ANSWERS_01_2)
