"""Chapter 06's compared cells: each notices a mistake in the code that feeds it.

That each agrees with its stored output as it stands is what the run of the whole notebook says (test_notebooks.py).
"""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation

LEAST_COMPARED = 12
CHAPTER = Chapter(
    "06_shared_memory_matmul.ipynb",
    {
        "naive-check": ["kernel-naive", "operands"],
        "tolerance": ["kernel-naive"],
        "naive-count": ["kernel-naive", "operands"],
        "naive-levels": ["kernel-naive", "operands", "naive-count"],
        "tiled-check": ["operands", "kernel-tiled"],
        "tiled-count": ["kernel-naive", "operands", "naive-count", "kernel-tiled"],
        "ragged": ["operands", "kernel-any"],
        "banks": ["kernel-rows"],
        "opt-in": ["operands", "kernel-slab"],
        "registers-check": ["operands", "kernel-registers"],
        "rungs": ["kernel-naive", "kernel-tiled", "kernel-registers"],
        "missing-mended": ["operands", "kernel-any", "missing"],
        "early-mended": ["operands", "kernel-any", "early-return"],
    },
)

MUTATIONS = [
    Mutation("naive-check", "kernel-naive", "k < depth", "k < depth - 1"),
    Mutation("naive-check", "naive-check", "(5, 3), (16, 16)", "(4, 3), (16, 16)"),
    Mutation("tolerance", "kernel-naive", "sum += a * b;", "sum += a * b * 1.00001f;"),
    Mutation("tolerance", "tolerance", "2.0**-24", "2.0**-30"),
    Mutation("naive-count", "kernel-naive", "float b = B[k * width + column];", "float b = B[k * width];"),
    Mutation("naive-count", "kernel-naive", "k < depth", "k < depth / 2"),
    Mutation("naive-levels", "kernel-naive", "A[row * depth + k]", "A[k * depth + row]"),
    Mutation("naive-levels", "naive-count", "(16, 16), arguments)", "(32, 8), arguments)"),
    Mutation("tiled-check", "kernel-tiled", "row * M.stride + column", "row * TILE + column"),
    Mutation("tiled-check", "kernel-tiled", "(B, t, blockIdx.x)", "(B, blockIdx.x, t)"),
    Mutation("tiled-check", "kernel-tiled", "        __syncthreads();  // the tiles are complete\n", ""),
    Mutation("tiled-count", "kernel-tiled", "+= As[row][k] *", "+= Asub.elements[row * Asub.stride + k] *"),
    Mutation("ragged", "kernel-any", "row < height && ka < depth ?", "row < height ?"),
    Mutation("ragged", "kernel-any", "t < depth; t += TILE", "t + TILE <= depth; t += TILE"),
    Mutation("ragged", "kernel-any", "if (row < height && column < width)", "if (row < height)"),
    Mutation("banks", "kernel-rows", "[32 + PAD]", "[32]"),
    Mutation("opt-in", "opt-in", "slab.max_dynamic_shared_size_bytes = 64", "slab.max_dynamic_shared_size_bytes = 32"),
    Mutation("opt-in", "kernel-slab", "memory + 32 * deep", "memory + 32"),
    Mutation("registers-check", "kernel-registers", "b[j];", "b[i];"),
    Mutation("registers-check", "registers-check", "bigA[:150, :45], bigB[:45, :70] = A, B", "bigA[:150, :45] = A"),
    Mutation("rungs", "kernel-registers", "EACH = 8, STEP = 16", "EACH = 4, STEP = 32"),
    Mutation("missing-mended", "missing-mended", 'first + "__syncthreads();" + second + end', "any_size.code"),
    Mutation(
        "early-mended",
        "early-return",
        '"    float sum", guard + "    float sum"',
        '"    if (row", guard + "    if (row"',
    ),
    Mutation("early-mended", "kernel-any", "if (row < height && column < width)", "if (column < width)"),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least = CHAPTER, MUTATIONS, LEAST_COMPARED
