"""Chapter 06's compared cells: each notices a mistake in the code that feeds it.

That each agrees with its stored output as it stands is what the run of the whole notebook says (test_notebooks.py).
"""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.notebooks.chapter import Chapter, ComparedCells, Gain, Mutation, Printed, Sentence

LEAST_COMPARED = 12
UPPER = ("kernel-registers", "kernel-pieces", "kernel-wide", "kernel-fetch", "kernel-copies")
RUNGS = ("naive", "tiled", "registers", "vectors", "warps", "copies")
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
        "upper-check": ["operands", *UPPER],
        "rungs": ["kernel-naive", "operands", "kernel-tiled", *UPPER, "upper-check"],
        "missing-mended": ["operands", "kernel-any", "missing"],
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
    Mutation("upper-check", "kernel-registers", "b[j];", "b[i];"),
    Mutation("upper-check", "kernel-pieces", "a[i] * b[j]", "a[j] * b[j]"),
    Mutation("upper-check", "kernel-wide", "id % 4 * 4 + e]", "id % 4 * 4]"),
    Mutation("upper-check", "kernel-fetch", "m += 32", "m += 64"),
    Mutation("upper-check", "kernel-copies", "A += DEEP", "A"),
    Mutation("upper-check", "upper-check", "bigA[:150, :45], bigB[:45, :70] = A, B", "bigA[:150, :45] = A"),
    Mutation("rungs", "kernel-pieces", "j < 8; j += 4) quad(b[j])", "j < 8; j += 8) quad(b[j])"),
    Mutation("rungs", "upper-check", '"wide", wide, 8, 2', '"wide", wide, 8, 8'),
    Mutation("missing-mended", "missing-mended", 'first + "__syncthreads();" + second + end', "any_size.code"),
]


def counted(run: Printed, place: int) -> list[float]:
    """Of all rungs: their wavefronts (0), instructions (1), operations a byte (2) and warps (3)."""
    return [run.after(f"{rung:9}:", place) for rung in RUNGS]


def speedup(run: Printed, slow: str, fast: str) -> float:
    return run.after(f"4096, {slow:9}:") / run.after(f"4096, {fast:9}:")


def share(run: Printed, rung: str) -> float:
    """Of the float peak, percent."""
    return run.after(f"4096, {rung:9}:", 2)


def of_library(run: Printed, n: int) -> float:
    """The last rung's speed, percent of cuBLAS's; where cuBLAS is not timed, of what an H200 needs for it."""
    if "cp.matmul" in run.text:
        return run.after(f"{n}, copies   :", 3)
    return 100 * {2048: 0.3416, 4096: 2.663}[n] / run.after(f"{n}, copies   :")


SENTENCES = [
    Sentence(
        "s1-levels",
        "so it is loaded `width` times. Element (k, c) of *B* is loaded `height` times.",
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
        "it takes more than five times as long as the best on an H200",
        "tune-tile",
        lambda run: run.after("; 4 takes") > (4.5 if "modelled" in run.text else 5),
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
        "Rows of 36 take a sixth longer than rows of 33 on an H200 all the same.",
        "time-banks",
        lambda run: run.after("rows of 36:  ") / run.after("rows of 33:  ") == pytest.approx(1 + 1 / 6, abs=0.05),
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
        "s6-count",
        "for the tile of 32 they add 0.06 to the 1.5",
        "rungs",
        lambda run: counted(run, 0)[1] == 1.56,
    ),
    Sentence(
        "s6",
        "and a sixth of the peak",
        "ladder",
        lambda run: share(run, "tiled") <= 100 / 6,
    ),
    Sentence(
        "s6",
        "That would allow a sixth; the kernel reaches about four fifths of it.",
        "ladder",
        lambda run: share(run, "tiled") == pytest.approx(0.8 * 100 / 6, abs=1),
    ),
    Sentence(
        "s6",
        "an eighth of the peak",
        "ladder",
        lambda run: share(run, "naive") <= 100 / 8,
    ),
    Sentence(
        "s6-explain",
        "it would allow more than each rung reaches",
        ("rungs", "ladder", "setup"),
        lambda counts, timed, device: all(
            operations * device.after("memory bandwidth") / 1e3 > timed.after(f"4096, {rung:9}:", 1)
            for rung, operations in zip(RUNGS, counted(counts, 2), strict=True)
        ),
    ),
    Sentence(
        "s6-explain",
        "32 times fewer loads, and 1.6 times the speed, measured on an H200 (the simulated device says about twice)",
        ("tiled-count", "ladder"),
        lambda loads, timed: (
            loads.after("tile 32:", 1) == 32
            and speedup(timed, "naive", "tiled") == pytest.approx(2.1 if "modelled" in timed.text else 1.6, abs=0.2)
        ),
    ),
    Sentence(
        "s6-explain",
        "The tiled kernel lies close to the slope",
        "roofline",
        lambda run: run.after("tiled reaches") > 75,
    ),
    Sentence(
        "s6-explain",
        "*Registers* turn 1.56 wavefronts a multiply-add into 0.27, and about three times the speed.",
        ("rungs", "ladder"),
        lambda counts, timed: (
            counted(counts, 0)[1:3] == [1.56, 0.27] and 2.7 < speedup(timed, "tiled", "registers") < 3.4
        ),
    ),
    Sentence(
        "s6-explain",
        "with 1.87 instructions for each multiply-add, little more than half of the peak is in reach",
        ("rungs", "ladder"),
        lambda counts, timed: counted(counts, 1)[2] == 1.87 and share(timed, "registers") < 100 / 1.87,
    ),
    Sentence(
        "s6-explain",
        "*Vectors* need 1.11 instructions, and take more than a third less time.",
        ("rungs", "ladder"),
        lambda counts, timed: counted(counts, 1)[3] == 1.11 and 1.5 < speedup(timed, "registers", "vectors") < 1.9,
    ),
    Sentence(
        "s6-explain",
        "*Warps* save a third of the wavefronts, and hardly any time",
        ("rungs", "ladder"),
        lambda counts, timed: (
            counted(counts, 0)[3:5] == [0.19, 0.13] and 1.0 < speedup(timed, "vectors", "warps") < 1.06
        ),
    ),
    Sentence(
        "s6-explain",
        "Sixteen warps an SM do not fill every gap",
        "rungs",
        lambda counts: counted(counts, 3) == [64, 64, 16, 16, 16, 16],
    ),
    Sentence(
        "s6-explain",
        "*Copies* take the waits away, on an H200 a tenth of the time.",
        "ladder",
        lambda run: "modelled" in run.text or 1.07 < speedup(run, "warps", "copies") < 1.14,
    ),
    Sentence(
        "s6-beyond",
        "more than nine tenths of the speed of cuBLAS, at 2048 as at 4096",
        "ladder",
        lambda run: all(of_library(run, n) > 90 for n in (2048, 4096)),
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


GAINS = [
    Gain("the last rung against tiles of 32", "ladder", lambda run: speedup(run, "tiled", "copies"), least=5),
    Gain("the last rung of cuBLAS at 4096", "ladder", lambda run: of_library(run, 4096) / 100, least=0.92, share=True),
    Gain("the last rung of cuBLAS at 2048", "ladder", lambda run: of_library(run, 2048) / 100, least=0.90, share=True),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences, gains = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES, GAINS

    def test_the_last_rung_reads_nothing_that_nobody_wrote(self, shell: InteractiveShell) -> None:
        """With one tile only there is no next one, whose place is still empty."""
        CHAPTER.run(shell, "upper-check")
        one_tile = "(bigA[:, :16].copy(), bigB[:16].copy(), bigC, np.int32(128), np.int32(16), np.int32(128))"
        shell.run_cell(f"report = cudalab.sanitize(upper['copies'][0], (1, 1), (256,), {one_tile})")
        assert shell.user_ns["report"].ok, shell.user_ns["report"]
