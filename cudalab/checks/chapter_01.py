"""The exercises of chapter 01: an image mirrored by any grid, and letters counted by atomics."""

from __future__ import annotations

import numpy as np

from cudalab.checks.advice import refuse_lost_updates
from cudalab.checks.bench import KernelBench, Known, counted
from cudalab.checks.exercise import Exercise
from cudalab.checks.work import ATOMICS, BUSIEST, LOADED, STORED, Needs

# --- 01.1 ------------------------------------------------------------------------------------------------------------

IMAGES = (  # height, width, grid, block
    (1, 1, (1, 1), (1, 1)),
    (16, 48, (3, 1), (16, 16)),
    (13, 50, (1, 1), (33, 2)),
    (50, 13, (1, 1), (1, 1)),
    (9, 31, (4, 3), (16, 16)),
    (40, 7, (2, 3), (4, 5)),
)
GRID, BLOCK = (3, 4), (16, 8)
"""Of the launch that is counted: too few threads, so that each has several pixels."""


def _mirror(bench: KernelBench) -> None:
    for height, width, grid, block in IMAGES:
        _mirror_once(bench, height, width, grid, block)
    height, width = bench.between(60, 70), bench.between(150, 160)
    high, wide = (count * threads for count, threads in zip(GRID[::-1], BLOCK[::-1], strict=True))
    each = -(-height // high) * -(-width // wide)
    _mirror_once(bench, height, width, GRID, BLOCK, Needs(height * width, height * width, share=2 * each))
    if bench.fine:  # more than 65,536 pixels, in rows of more than 256: indices of 8 and 16 bits are too short
        _mirror_once(bench, bench.between(240, 270), bench.between(280, 310), GRID, BLOCK)


def _mirror_once(
    bench: KernelBench,
    height: int,
    width: int,
    grid: tuple[int, int],
    block: tuple[int, int],
    needs: Needs | None = None,
) -> None:
    image = bench.bytes((height, width))
    out = bench.output("out", image.shape, np.uint8)
    sizes = (np.int32(height), np.int32(width))
    case = f"{counted(height, 'row')} of {width}, grid {grid}, block {block}"
    bench.launch(grid, block, (bench.input("in", image), out, *sizes), case, needs=needs)
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


MIRROR = Exercise(
    id="01.1",
    title="Mirror an image",
    kernel="mirror",
    examine=_mirror,
    correctness=2,
    soundness=1,
    gates=(BUSIEST.of(2), LOADED.of(), STORED.of()),
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
    refuse_lost_updates(bench)
    for characters, blocks, threads in TEXTS:
        _count_once(bench, characters, blocks, threads)
    characters, blocks, threads = bench.between(23_000, 24_000), bench.between(7, 9), 128
    share = -(-characters // (blocks * threads)) + LETTERS  # one thread may add up for its block
    _count_once(bench, characters, blocks, threads, Needs(characters, 4 * LETTERS, share))
    if bench.fine:  # longer than 65,536 characters: indices of 16 bits are too short
        _count_once(bench, bench.between(66_000, 70_000), blocks, threads)


def _count_once(bench: KernelBench, characters: int, blocks: int, threads: int, needs: Needs | None = None) -> None:
    text = _text(bench, characters)
    held = bench.input("text", text if characters else np.zeros(1, np.int8))
    counts = bench.zeroed("counts", (LETTERS,), np.int32)
    case = f"{characters} characters, {counted(blocks, 'block')} of {counted(threads, 'thread')}"
    bench.launch((blocks,), (threads,), (held, np.int32(characters), counts), case, needs=needs)
    lower = np.where((text >= ord("A")) & (text <= ord("Z")), text + 32, text)
    bench.expect(
        counts,
        _counted(text),
        known=(Known("capitals are counted as well", _counted(lower)),),
        look="which characters count, who counts them, and who adds the numbers of a block to those of all",
    )


COUNT = Exercise(
    id="01.2",
    title="Count letters",
    kernel="letters",
    examine=_letters,
    correctness=2,
    soundness=1,
    gates=(ATOMICS.of(2, most=LETTERS), LOADED.of(1), BUSIEST.of(most=3)),
)

EXERCISES = (MIRROR, COUNT)
