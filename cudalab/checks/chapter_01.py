"""The exercises of chapter 01: an image mirrored by any grid, and letters counted by atomics."""

from __future__ import annotations

import numpy as np

from cudalab.checks.bench import KernelBench, Known
from cudalab.checks.exercise import Exercise, Mutant

# --- 01.1 ------------------------------------------------------------------------------------------------------------

IMAGES = (  # height, width, grid, block
    (1, 1, (1, 1), (1, 1)),
    (16, 48, (3, 1), (16, 16)),
    (13, 50, (1, 1), (33, 2)),
    (50, 13, (1, 1), (1, 1)),
    (9, 31, (4, 3), (16, 16)),
    (40, 7, (2, 3), (4, 5)),
)


def _mirror(bench: KernelBench) -> None:
    for height, width, grid, block in IMAGES:
        image = np.array(bench.integers(0, 256, height * width), np.uint8).reshape(height, width)
        out = bench.output("out", image.shape, np.uint8)
        sizes = (np.int32(width), np.int32(height))
        case = f"{height} rows of {width}, grid {grid}, block {block}"
        bench.launch(grid, block, (bench.input("in", image), out, *sizes), case)
        bench.expect(
            out,
            image[:, ::-1],
            known=(
                Known("the image stands on its head: rows are mirrored, not columns", image[::-1]),
                Known("rows are mirrored as well as columns", image[::-1, ::-1]),
                Known("nothing is mirrored", image),
            ),
            look="which pixel a thread begins with, and how far it is to its next one",
        )


_ROWS = "for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < height; row += high)"
_COLUMNS = "for (int column = blockIdx.x * blockDim.x + threadIdx.x; column < width; column += wide)"

MIRROR = Exercise(
    id="01.1",
    title="Mirror an image",
    kernel="mirror",
    points={"correctness": 3, "soundness": 2},
    examine=_mirror,
    mutants=(
        Mutant("one column a thread", ((_COLUMNS, _COLUMNS.replace("wide", "width")),), "correctness", "wrong values"),
        Mutant("one row a thread", ((_ROWS, _ROWS.replace("high)", "height)")),), "correctness", "wrong values"),
        Mutant("one column too many", (("column < width;", "column <= width;"),), "soundness", "race"),
        Mutant("one row too many", (("row < height;", "row <= height;"),), "soundness", "out of bounds"),
        Mutant("one column short", (("column < width;", "column < width - 1;"),), "correctness", "wrong values"),
        Mutant(
            "x counts rows",
            (("blockIdx.y * blockDim.y + threadIdx.y", "blockIdx.x * blockDim.y + threadIdx.y"),),
            "correctness",
            "wrong values",
        ),
        Mutant(
            "every block does everything",
            (("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"),),
            "soundness",
            "race",
        ),
        Mutant("steps of a block", (("wide = gridDim.x * blockDim.x", "wide = blockDim.x"),), "soundness", "race"),
        Mutant("width and height exchanged", (("out[row * width", "out[row * height"),), "correctness", "wrong values"),
        Mutant("mirrored one byte off", (("width - 1 - column", "width - column"),), "soundness", "out of bounds"),
        Mutant(
            "stands on its head",
            (("in[row * width + width - 1 - column]", "in[(height - 1 - row) * width + column]"),),
            "correctness",
            "wrong values",
        ),
        Mutant("not mirrored", (("width - 1 - column", "column"),), "correctness", "wrong values"),
    ),
)

# --- 01.2 ------------------------------------------------------------------------------------------------------------

LETTERS = 26
TEXTS = (
    (0, 1, 32),
    (1, 2, 64),
    (1000, 3, 64),
    (777, 2, 16),
    (500, 1, 1),
    (3000, 4, 100),
)  # characters, blocks, threads


def _text(bench: KernelBench, characters: int) -> np.ndarray:
    """Letters, the more frequent the earlier in the alphabet, among blanks, capitals, digits and bytes above 127."""
    first, second, kind = (np.array(bench.integers(0, 104, characters), int) for _ in range(3))
    others = np.frombuffer(b" .,;:'\n\t@AZ`{~09\xc8", np.uint8)
    chosen = np.where(kind < 78, ord("a") + np.minimum(first, second) // 4, others[second % others.size])
    result: np.ndarray = chosen.astype(np.uint8).view(np.int8)
    return result


def _counted(text: np.ndarray) -> np.ndarray:
    return np.array([(text == ord("a") + k).sum() for k in range(LETTERS)], np.int32)


def _letters(bench: KernelBench) -> None:
    for characters, blocks, threads in TEXTS:
        text = _text(bench, characters)
        held = bench.input("text", text if characters else np.zeros(1, np.int8))
        counts = bench.zeroed("counts", (LETTERS,), np.int32)
        case = f"{characters} characters, {blocks} blocks of {threads} threads"
        bench.launch((blocks,), (threads,), (held, np.int32(characters), counts), case)
        lower = np.where((text >= ord("A")) & (text <= ord("Z")), text + 32, text)
        bench.expect(
            counts,
            _counted(text),
            known=(Known("capitals are counted as well", _counted(lower)),),
            look="which characters count, who counts them, and who adds the numbers of a block to those of all",
        )
    text, blocks = _text(bench, 4096), 4
    counts = bench.zeroed("counts", (LETTERS,), np.int32)
    arguments = (bench.input("text", text), np.int32(text.size), counts)
    found = bench.profile((blocks,), (128,), arguments, f"{text.size} characters, {blocks} blocks of 128 threads")
    bench.gate(
        "atomics on global memory for each block",
        found.global_atomics.accesses / blocks,
        LETTERS,
        baseline=float(_counted(text).sum()) / blocks,
        look="that a block counts in shared memory, and adds each of its 26 numbers to counts once",
    )


_ZERO = "for (int k = threadIdx.x; k < 26; k += blockDim.x) mine[k] = 0;"
_ADD = "for (int k = threadIdx.x; k < 26; k += blockDim.x) atomicAdd(&counts[k], mine[k]);"

COUNT = Exercise(
    id="01.2",
    title="Count letters",
    kernel="letters",
    points={"correctness": 2, "soundness": 2, "efficiency": 2},
    examine=_letters,
    mutants=(
        Mutant(
            "an atomic for each character",
            (("&mine[letter], 1", "&counts[letter], 1"),),
            "efficiency",
            "atomics on global memory for each block",
        ),
        Mutant(
            "shared counters without atomics",
            (("atomicAdd(&mine[letter], 1)", "mine[letter] += 1"),),
            "soundness",
            "race",
        ),
        Mutant(
            "counts without atomics", (("atomicAdd(&counts[k], mine[k])", "counts[k] += mine[k]"),), "soundness", "race"
        ),
        Mutant(
            "counts of one block only",
            (("atomicAdd(&counts[k], mine[k])", "counts[k] = mine[k]"),),
            "soundness",
            "race",
        ),
        Mutant("no barrier after the zeros", (("__syncthreads();  // all 26 are 0", ""),), "soundness", "race"),
        Mutant(
            "no barrier before adding up", (("__syncthreads();  // everything is counted", ""),), "soundness", "race"
        ),
        Mutant(
            "a warp's wait for a block's",
            (("__syncthreads();  // everything", "__syncwarp();  // everything"),),
            "soundness",
            "race",
        ),
        Mutant("counters never set to 0", ((_ZERO, ""),), "soundness", "uninitialised read"),
        Mutant(
            "the first threads set them to 0",
            ((_ZERO, "if (threadIdx.x < 26) mine[threadIdx.x] = 0;"),),
            "soundness",
            "uninitialised read",
        ),
        Mutant(
            "the first threads add up",
            ((_ADD, "if (threadIdx.x < 26) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);"),),
            "correctness",
            "wrong values",
        ),
        Mutant(
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
        Mutant("no lower bound", (("letter >= 0 && letter < 26", "letter < 26"),), "soundness", "out of bounds"),
        Mutant("no upper bound", (("letter >= 0 && letter < 26", "letter >= 0"),), "soundness", "out of bounds"),
        Mutant("z is not counted", (("letter < 26", "letter < 25"),), "correctness", "wrong values"),
        Mutant("one character a thread", (("i += threads", "i += n"),), "correctness", "wrong values"),
        Mutant("capitals counted", (("text[i] - 'a'", "(text[i] | 32) - 'a'"),), "correctness", "wrong values"),
        Mutant("one character too many", (("i < n;", "i <= n;"),), "soundness", "out of bounds"),
    ),
)

EXERCISES = (MIRROR, COUNT)
