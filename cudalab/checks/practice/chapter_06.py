"""What chapter 06 asks of its learners between two sections: neighbours in a product, a barrier, padding, four elements
a thread, and a guard in the right place."""

from __future__ import annotations

import numpy as np

from cudalab.checks.bench import KernelBench, Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.work import BARRIERS, CONFLICTS, LOADED, SECTORS_LOADED, SECTORS_STORED, Needs

TOLERANCE = 1e-4

# --- neighbours ------------------------------------------------------------------------------------------------------


_SQUARE = (16, 16)
_WIDE = (32, 8)
"""Threads of a block: of this one it matters which index each of `blockIdx`, `blockDim` and `threadIdx` belongs to."""


def _product(bench: KernelBench) -> None:
    deep = 16 * bench.between(2, 3)
    for height, depth, width, grid, block in (
        (16, 5, 16, (1, 1), _SQUARE),
        (48, deep, 48, (3, 3), _SQUARE),
        (48, 5, 80, (3, 10), _WIDE),  # 96 × 80 threads: enough whichever way rows lie, and too many
    ):
        a, b = bench.random((height, depth)), bench.random((depth, width))
        out = bench.output("C", (height, width), np.float32)
        needs = Needs(4 * depth * 2 * width, 4 * height * width, share=4 * (2 * depth + 1)) if depth > 5 else None
        sizes = tuple(np.int32(size) for size in (height, depth, width))
        arguments = (bench.input("A", a), bench.input("B", b), out, *sizes)
        case = f"{height} × {depth} times {depth} × {width}, blocks of {block[0]} × {block[1]}"
        bench.launch(grid, block, arguments, case, needs=needs)
        exact = a.astype(np.float64) @ b
        known = (Known("C is transposed", exact.T),)
        bench.expect(out, exact, tolerance=TOLERANCE, known=known, look="which index comes from x and which from y")


PRODUCT = Exercise(
    "06.neighbours",
    "Let neighbours lie in a row of C",
    "product",
    _product,
    gates=(SECTORS_LOADED.of(baseline=9), SECTORS_STORED.of(baseline=16)),
)

# --- a barrier -------------------------------------------------------------------------------------------------------

SIDE = 256


def _mirror(bench: KernelBench) -> None:
    for blocks in (1, bench.between(3, 5)):
        x = bench.random(SIDE * blocks)
        source, out = bench.input("x", x), bench.output("y", x.shape, np.float32)
        needs = Needs(x.nbytes, x.nbytes, share=8)
        bench.launch((blocks,), (SIDE,), (source, out), f"{blocks} block{'s' * (blocks > 1)}", needs=needs)
        bench.expect(
            out,
            x.reshape(blocks, SIDE)[:, ::-1].ravel(),
            known=(Known("nothing is reversed", x),),
            look="which thread writes the word that a thread reads, and what makes the one wait for the other",
        )


MIRROR = Exercise("06.mirror", "Wait for the other threads", "mirror", _mirror, gates=(BARRIERS.of(),))

# --- padding ---------------------------------------------------------------------------------------------------------


def _transpose(bench: KernelBench) -> None:
    for blocks in (1, bench.between(2, 3)):
        side = 32 * blocks
        matrix = bench.random((side, side))
        source, out = bench.input("in", matrix), bench.output("out", matrix.shape, np.float32)
        needs = Needs(matrix.nbytes, matrix.nbytes, share=8)
        bench.launch((blocks, blocks), (32, 32), (source, out, np.int32(side)), f"{side} × {side}", needs=needs)
        bench.expect(out, matrix.T, known=(Known("the matrix is copied, not transposed", matrix),))


TRANSPOSE = Exercise(
    "06.padding",
    "Pad a tile",
    "transpose",
    _transpose,
    gates=(CONFLICTS.of(baseline=15.5), SECTORS_LOADED, SECTORS_STORED),
)

# --- four elements a thread ------------------------------------------------------------------------------------------

EACH = 4


def _four(bench: KernelBench) -> None:
    side, depth = 32 * bench.between(1, 2), bench.between(20, 30)
    a, b = bench.random((side, depth)), bench.random((depth, side))
    out = bench.output("C", (side, side), np.float32)
    # A thread needs 4 numbers of A and 1 of B in each step.
    loaded = 4 * side * side // EACH * depth * (EACH + 1)
    needs = Needs(loaded, 4 * side * side, share=4 * (depth * (EACH + 1) + EACH))
    sizes = (np.int32(side), np.int32(depth), np.int32(side))
    arguments = (bench.input("A", a), bench.input("B", b), out, *sizes)
    bench.launch((side // 32, side // 32), (32, 8), arguments, f"{side} × {depth} times {depth} × {side}", needs=needs)
    bench.expect(
        out, a.astype(np.float64) @ b, tolerance=TOLERANCE, look="which rows of C are the thread's: row + 8 * e"
    )


FOUR = Exercise(
    "06.four",
    "Load once for four elements",
    "four",
    _four,
    gates=(LOADED.of(baseline=1.6, look="loads of B: one number of B serves all four elements of the thread"),),
)

# --- a guard ---------------------------------------------------------------------------------------------------------


def _turn(bench: KernelBench) -> None:
    for height, width in ((48, 32), (1, 20), (33, 17), (bench.between(40, 50), bench.between(20, 30))):
        matrix = bench.random((height, width))
        source, out = bench.input("in", matrix), bench.output("out", (width, height), np.float32)
        grid, case = (-(-width // 16), -(-height // 16)), f"{height} rows of {width}, blocks of 16 × 16"
        needs = Needs(matrix.nbytes, matrix.nbytes, share=8) if height == 48 and width == 32 else None
        bench.launch(grid, (16, 16), (source, out, np.int32(height), np.int32(width)), case, needs=needs)
        bench.expect(out, matrix.T, look="which guard belongs to the load and which to the store: they differ")


TURN = Exercise(
    "06.edge",
    "Guard the accesses, not the barrier",
    "turn",
    _turn,
    gates=(BARRIERS.of(), SECTORS_LOADED, SECTORS_STORED),
)

EXERCISES = (PRODUCT, MIRROR, TRANSPOSE, FOUR, TURN)
