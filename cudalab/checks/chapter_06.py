"""The exercises of chapter 06: barriers and guards for a tiled product, and a tile without bank conflicts."""

from __future__ import annotations

import numpy as np

from cudalab.checks.bench import KernelBench, Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.work import BARRIERS, BUSIEST, CONFLICTS, LOADED, SECTORS_LOADED, STORED, Needs

# --- 06.1 ------------------------------------------------------------------------------------------------------------

TILE = 16
PRODUCT_SIZES = ((1, 1, 1), (16, 32, 16), (17, 5, 40), (20, 33, 15), (7, 7, 2))  # height, depth, width
TOLERANCE = 1e-4


DYNAMIC = 2 * 4 * TILE * (TILE + 1)
"""Bytes of dynamic shared memory: two tiles, with padding."""
BLOCKS = 3
"""Blocks in each direction, in the launch that is counted."""


def _product(bench: KernelBench) -> None:
    for height, depth, width in PRODUCT_SIZES:
        _product_once(bench, height, depth, width)
    height, width = (TILE * (BLOCKS - 1) + bench.between(9, TILE) for _ in range(2))
    depth = TILE * 2 + bench.between(9, TILE)
    # Tiles are loaded by as many blocks as there are beside or above each other.
    needs = Needs(4 * depth * (height + width), 4 * height * width, share=4 * (2 * 3 + 1), rounds=3)
    _product_once(bench, height, depth, width, needs)
    if bench.fine:  # A has more than 65,536 elements: an index of 16 bits is too short
        _product_once(bench, bench.between(100, 120), bench.between(660, 700), bench.between(2, 5))


def _product_once(bench: KernelBench, height: int, depth: int, width: int, needs: Needs | None = None) -> None:
    a, b = bench.random((depth, height)), bench.random((depth, width))
    out = bench.output("C", (height, width), np.float32)
    # One block more than needed each way: whole blocks have to be held back, too.
    grid = (-(-width // TILE) + (needs is None), -(-height // TILE) + (needs is None))
    sizes = tuple(np.int32(size) for size in (height, depth, width))
    case = f"height {height}, depth {depth}, width {width}"
    arguments = (bench.input("A", a), bench.input("B", b), out, *sizes)
    bench.launch(grid, (TILE, TILE), arguments, case, shared=DYNAMIC, needs=needs)
    bench.expect(
        out,
        _exact(a.T, b),
        tolerance=TOLERANCE,
        known=_product_mistakes(a, b),
        look="the element of A and of B that each thread loads, and what it loads beyond the edge",
    )


def _exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def _product_mistakes(a: np.ndarray, b: np.ndarray) -> tuple[Known, ...]:
    depth, height = a.shape
    whole = depth // TILE * TILE
    found = []
    if whole != depth:
        found.append(Known("the last, incomplete tile is left out of every sum", _exact(a[:whole].T, b[:whole])))
    if depth == height:
        found.append(Known("A is not transposed", _exact(a, b)))
    return tuple(found)


PRODUCT = Exercise(
    id="06.1",
    title="Put barriers and guards into a tiled product",
    kernel="transposed_product",
    examine=_product,
    correctness=1,
    soundness=1,
    gates=(LOADED.of(2, most=BLOCKS), BARRIERS.of(1), BUSIEST.of(), STORED.of()),
)

# --- 06.2 ------------------------------------------------------------------------------------------------------------

SIDE = 32
POINTS = ((1, 1, 1), (33, 7, 40), (5, 40, 32))  # m, n, depth


def _distances(bench: KernelBench) -> None:
    for m, n, depth in POINTS:
        _distances_once(bench, m, n, depth)
    m, n = (SIDE * (BLOCKS - 1) + bench.between(25, SIDE) for _ in range(2))
    needs = Needs(4 * SIDE * (m + n), 4 * m * n, share=4 * (2 + 1))
    _distances_once(bench, m, n, SIDE, needs)
    if bench.fine:  # X has more than 65,536 elements
        _distances_once(bench, bench.between(100, 120), bench.between(2, 5), bench.between(660, 700))


def _distances_once(bench: KernelBench, m: int, n: int, depth: int, needs: Needs | None = None) -> None:
    x, y = bench.random((m, depth)), bench.random((n, depth))
    out = bench.output("D", (m, n), np.float32)
    arguments = (bench.input("X", x), bench.input("Y", y), out, np.int32(m), np.int32(n), np.int32(depth))
    grid = (-(-n // SIDE), -(-m // SIDE))
    bench.launch(grid, (SIDE, SIDE), arguments, f"m {m}, n {n}, depth {depth}", needs=needs)
    differences = x[:, None, :].astype(np.float64) - y[None, :, :]
    squares = (differences**2).sum(axis=2)
    bench.expect(
        out,
        squares,
        tolerance=TOLERANCE,
        known=(
            Known("differences are added up, not their squares", differences.sum(axis=2)),
            Known("the root is taken, but the exercise asks for squares", np.sqrt(squares)),
            *([Known("X and Y have changed places", squares.T)] if m == n else []),
        ),
        look="which point and which coordinate each thread loads, and which it reads from the tiles",
    )


DISTANCES = Exercise(
    id="06.2",
    title="Distances without bank conflicts",
    kernel="distances",
    examine=_distances,
    gates=(
        SECTORS_LOADED.of(2, baseline=32),
        CONFLICTS.of(2, baseline=16),
        LOADED.of(most=BLOCKS),
        BUSIEST.of(),
        BARRIERS.of(),
    ),
)

EXERCISES = (PRODUCT, DISTANCES)
