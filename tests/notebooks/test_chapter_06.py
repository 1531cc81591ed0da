"""Chapter 06's compared cells: each notices a mistake in the code that feeds it.

That each agrees with its stored output as it stands is what the run of the whole notebook says (test_notebooks.py).
"""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation, Printed, Sentence

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


def depths(run: Printed) -> list[float]:
    """Microseconds of each slab, in order of its depth."""
    return [float(line.split()[-3]) for line in run.text.splitlines()[1:]]


def wavefronts(run: Printed, rung: str) -> float:
    return run.after(f"{rung:9}:")


def speedup(run: Printed, slow: str, fast: str) -> float:
    return run.after(f"{slow:9}:") / run.after(f"{fast:9}:")


SENTENCES = [
    Sentence(
        "s1-levels",
        "so it is loaded `B.width` times. Element (k, c) of *B* is loaded `A.height` times.",
        "naive-count",
        lambda run: run.text.count("each element 64 times") == 2,
    ),
    Sentence(
        "s1-explain",
        "the lanes ask for 2 · 64³ loads of 4 bytes. The warps request half of that",
        "naive-levels",
        lambda run: 2 * 64**3 * 4 / 1024 == run.after("by threads") == 2 * run.after("all requests"),
    ),
    Sentence(
        "s1-shape",
        "more than ten times the time of the best",
        "tune-shape",
        lambda run: run.after("; 1 takes") > 10,
    ),
    Sentence(
        "s1-shape",
        "Blocks 16 wide need only 4 sectors, and are slower all the same.",
        ("tune-shape", "draw-shapes"),
        lambda timed, drawn: (
            timed.after("width (threads) =") >= 32 and drawn.after("16 wide:") == drawn.after("16 wide:", 1) == 2
        ),
    ),
    Sentence(
        "s2-explain",
        "loads by threads are divided by the tile's width, exactly",
        "tiled-count",
        lambda run: all(run.after(f"tile {tile:2}:") * tile == 524288 for tile in (4, 8, 16, 32)),
    ),
    Sentence(
        "s2-explain",
        "The plain kernel's 524,288 loads cost 32,768 sectors, thanks to broadcast. Tiles of 16 request 4,096, an "
        "eighth. Tiles of 4 request as many as the plain kernel",
        ("tiled-count", "naive-levels"),
        lambda run, plain: (
            run.after("tile  4:", 2) == plain.after("all requests") * 1024 / 32 == 8 * run.after("tile 16:", 2) == 32768
        ),
    ),
    Sentence(
        "s2-tile",
        "half a warp, the other half does nothing. At most 32 such blocks fit an SM",
        "tile-occupancy",
        lambda run: run.after("128 bytes") == 50 and run.after("128 bytes", 1) == 32,
    ),
    Sentence(
        "s2-tile",
        "it takes more than five times as long as the best",
        "tune-tile",
        lambda run: run.after("; 4 takes") > 5,
    ),
    Sentence(
        "s3-explain",
        "nearly every element is wrong",
        "ragged-wrong",
        lambda run: 2250 < run.after("wrong elements:") < 2500,
    ),
    Sentence(
        "s4-explain",
        "32 different words, 32 turns.",
        "banks",
        lambda run: [run.after(f"rows of {length}:") for length in (32, 33, 34, 36)] == [32, 1, 2, 4],
    ),
    Sentence(
        "s4-times",
        "saves 31 of 32 turns, and four fifths of the time",
        "time-banks",
        lambda run: abs(run.after("rows of 33:  ") / run.after("rows of 32:  ") - 0.2) < 0.03,
    ),
    Sentence(
        "s4-times",
        "rows of 34 do not take twice, and rows of 36 not four times as long as rows of 33",
        "time-banks",
        lambda run: (
            run.after("rows of 34:  ") < 1.7 * run.after("rows of 33:  ")
            and run.after("rows of 36:  ") < 1.5 * run.after("rows of 33:  ")
        ),
    ),
    Sentence(
        "s4-times",
        "The table counts the wavefronts of the loads that you wrote, of one word each.",
        "banks",
        lambda run: all(run.after(f"rows of {length}:") == count for length, count in ((33, 1), (34, 2), (36, 4))),
    ),
    Sentence(
        "s4-times",
        "Rows of 32 suffer either way.",
        ("banks", "time-banks"),
        lambda counted, timed: (
            counted.after("rows of 32:") == 32 and timed.after("rows of 32:  ") == max(timed.numbers)
        ),
    ),
    Sentence(
        "s5-explain",
        "the times lie within a quarter of each other",
        "slab-depth",
        lambda run: max(depths(run)) < 1.25 * min(depths(run)),
    ),
    Sentence(
        "s5-explain",
        "At the end only one block fits an SM",
        "slab-depth",
        lambda run: [run.after(f"{deep} ", 1) for deep in (32, 256, 512)] == [2, 2, 1],
    ),
    Sentence(
        "s6-count",
        "for the tile of 32 they add 0.06 to the 1.5",
        "rungs",
        lambda run: wavefronts(run, "tiled") == 1.56,
    ),
    Sentence(
        "s6",
        "and a sixth of the peak",
        "ladder",
        lambda run: run.after("tiled    :", 2) <= 100 / 6,
    ),
    Sentence(
        "s6",
        "at best an eighth of the peak",
        "ladder",
        lambda run: run.after("naive    :", 2) <= 100 / 8,
    ),
    Sentence(
        "s6-explain",
        "3.2, 8 and 32 operations a byte",
        "rungs",
        lambda run: [run.after(f"{rung:9}:", 1) for rung in ("naive", "tiled", "registers")] == [3.2, 8, 32],
    ),
    Sentence(
        "s6-explain",
        "There the roof is flat, and all three rungs stay well below it.",
        "roofline",
        lambda run: all(run.after(f"{rung} reaches") < 60 for rung in ("naive", "tiled", "registers")),
    ),
    Sentence(
        "s6-explain",
        "memory would still allow more than each rung reaches",
        ("rungs", "ladder", "setup"),
        lambda counted, timed, device: all(
            counted.after(f"{rung:9}:", 1) * device.after("memory bandwidth") / 1e3 > timed.after(f"{rung:9}:", 1)
            for rung in ("naive", "tiled", "registers")
        ),
    ),
    Sentence(
        "s6-explain",
        "32 times fewer loads, and not even four times the speed",
        ("tiled-count", "ladder"),
        lambda counted, timed: counted.after("tile 32:", 1) == 32 and 1 < speedup(timed, "naive", "tiled") < 4,
    ),
    Sentence(
        "s6-explain",
        "*Registers* turn 1.56 wavefronts a multiply-add into 0.27, and more than three times the speed.",
        ("rungs", "ladder"),
        lambda counted, timed: (
            (wavefronts(counted, "tiled"), wavefronts(counted, "registers")) == (1.56, 0.27)
            and 3.0 < speedup(timed, "tiled", "registers") < 4.0
        ),
    ),
    Sentence(
        "s7-race",
        "nothing between them that orders them. A *race*, here a read after a write (RAW).",
        "missing-mended",
        lambda run: run.text.count("16 blocks looked at, found: race") == 2,
    ),
    Sentence(
        "s7-explain",
        "224 of 256 threads of such a block never come to it",
        "early-return",
        lambda run: "32 of 256 threads wait" in run.text,
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES
