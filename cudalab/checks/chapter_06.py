"""The exercises of chapter 06: barriers and guards for a tiled product, and a tile without bank conflicts."""

from __future__ import annotations

import numpy as np

from cudalab.checks.bench import KernelBench, Known
from cudalab.checks.exercise import Exercise, Mutant

# --- 06.1 ------------------------------------------------------------------------------------------------------------

TILE = 16
PRODUCT_SIZES = ((1, 1, 1), (16, 32, 16), (17, 5, 40), (20, 33, 15), (7, 7, 2))  # height, depth, width
TOLERANCE = 1e-5


def _product(bench: KernelBench) -> None:
    for height, depth, width in PRODUCT_SIZES:
        a, b = bench.random((depth, height)), bench.random((depth, width))
        out = bench.output("C", (height, width), np.float32)
        # One block more than needed each way: whole blocks have to be held back, too.
        grid = (-(-width // TILE) + 1, -(-height // TILE) + 1)
        sizes = tuple(np.int32(size) for size in (height, depth, width))
        case = f"height {height}, depth {depth}, width {width}"
        bench.launch(grid, (TILE, TILE), (bench.input("A", a), bench.input("B", b), out, *sizes), case)
        bench.expect(
            out,
            _exact(a.T, b),
            tolerance=TOLERANCE,
            known=_product_mistakes(a, b),
            look="the element of A and of B that each thread loads, and what it loads beyond the edge",
        )
    n = 48
    arrays = (bench.input("A", bench.random((n, n))), bench.input("B", bench.random((n, n))))
    out = bench.output("C", (n, n), np.float32)
    counts = bench.profile((n // TILE,) * 2, (TILE, TILE), (*arrays, out, *3 * [np.int32(n)]), f"{n} x {n}")
    bench.gate(
        "loads from global memory for each element of C",
        counts.global_loads.accesses / (n * n),
        2 * n / TILE,
        baseline=2 * n,
        look="that each thread loads one element of either tile a round, and the rest comes from shared memory",
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


_A_LOAD = "k < depth && across < height ? A[k * height + across] : 0.0f"
_SUM = "for (int i = 0; i < TILE; i++) sum += As[i][threadIdx.y] * Bs[i][threadIdx.x];"

PRODUCT = Exercise(
    id="06.1",
    title="Put barriers and guards into a tiled product",
    kernel="transposed_product",
    points={"correctness": 2, "soundness": 2, "efficiency": 1},
    examine=_product,
    mutants=(
        Mutant(
            "no barrier before the tile is read", ((f"__syncthreads();\n        {_SUM}", _SUM),), "soundness", "race"
        ),
        Mutant(
            "no barrier before the tile is overwritten",
            ((f"{_SUM}\n        __syncthreads();", _SUM),),
            "soundness",
            "race",
        ),
        Mutant(
            "warps taken for blocks",
            ((f"__syncthreads();\n        {_SUM}", f"__syncwarp();\n        {_SUM}"),),
            "soundness",
            "race",
        ),
        Mutant(
            "threads outside return before the barrier",
            (("float sum = 0.0f;", "float sum = 0.0f;\n    if (row >= height || column >= width) return;"),),
            "soundness",
            "barrier after exit",
        ),
        Mutant(
            "barrier inside the guard",
            (
                (
                    f"__syncthreads();\n        {_SUM}",
                    f"if (row < height && column < width) {{\n        __syncthreads();\n        {_SUM}\n        }}",
                ),
            ),
            "soundness",
            "divergent barrier",
        ),
        Mutant(
            "nothing loaded beyond the edge, not even 0",
            (
                (
                    f"As[threadIdx.y][threadIdx.x] = {_A_LOAD};",
                    "if (k < depth && across < height) As[threadIdx.y][threadIdx.x] = A[k * height + across];",
                ),
            ),
            "soundness",
            "uninitialised read",
        ),
        Mutant("no guard on the loads of A", ((_A_LOAD, "A[k * height + across]"),), "soundness", "out of bounds"),
        Mutant(
            "A guarded by row, not by the column it loads",
            (("across < height ?", "row < height ?"),),
            "correctness",
            "wrong values",
        ),
        Mutant("no guard on the depth", (("k < depth && column", "column"),), "soundness", "out of bounds"),
        Mutant(
            "the store guarded in one direction only",
            (("if (row < height && column < width)", "if (row < height)"),),
            "soundness",
            "out of bounds",
        ),
        Mutant(
            "last tile left out",
            (("t < depth; t += TILE", "t + TILE <= depth; t += TILE"),),
            "correctness",
            "wrong values",
        ),
        Mutant("A not transposed", (("As[i][threadIdx.y]", "As[threadIdx.y][i]"),), "correctness", "wrong values"),
        Mutant(
            "every thread fetches its own",
            (
                (
                    _SUM,
                    "if (row < height && column < width)\n            for (int i = 0; i < min(TILE, depth - t); i++)\n"
                    "                sum += A[(t + i) * height + row] * B[(t + i) * width + column];",
                ),
            ),
            "efficiency",
            "loads from global memory for each element of C",
        ),
    ),
)

# --- 06.2 ------------------------------------------------------------------------------------------------------------

SIDE = 32
POINTS = ((1, 1, 1), (33, 7, 40), (5, 40, 32))  # m, n, depth


def _distances(bench: KernelBench) -> None:
    for m, n, depth in POINTS:
        x, y = bench.random((m, depth)), bench.random((n, depth))
        out = bench.output("D", (m, n), np.float32)
        arguments = (bench.input("X", x), bench.input("Y", y), out, np.int32(m), np.int32(n), np.int32(depth))
        grid = (-(-n // SIDE), -(-m // SIDE))
        bench.launch(grid, (SIDE, SIDE), arguments, f"m {m}, n {n}, depth {depth}")
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
    m, n, depth = 64, 64, 32
    arrays = (bench.input("X", bench.random((m, depth))), bench.input("Y", bench.random((n, depth))))
    out = bench.output("D", (m, n), np.float32)
    counts = bench.profile(
        (n // SIDE, m // SIDE),
        (SIDE, SIDE),
        (*arrays, out, np.int32(m), np.int32(n), np.int32(depth)),
        f"m {m}, n {n}, depth {depth}",
    )
    bench.gate("sectors per request of the global loads", counts.global_loads.sectors_per_request, 4, baseline=32)
    # One lane alone also makes few sectors a request, so the requests are counted, too.
    needed = 2 * depth / SIDE * m * n / 32
    bench.gate("requests of the global loads", counts.global_loads.requests, needed * 1.25, baseline=needed)
    bench.gate(
        "loads from global memory for each element of D",
        counts.global_loads.accesses / (m * n),
        2 * depth / SIDE,
        baseline=2 * depth,
        look="that each thread loads one element of either tile a round, and the rest comes from shared memory",
    )
    bench.gate(
        "bank conflicts",
        counts.bank_conflicts,
        0,
        baseline=134912,
        look="the 32 words of one request to shared memory: word number modulo 32 is the bank; loads and stores count",
    )


DISTANCES = Exercise(
    id="06.2",
    title="Distances without bank conflicts",
    kernel="distances",
    points={"correctness": 0, "soundness": 0, "efficiency": 4},
    examine=_distances,
    mutants=(
        Mutant("no padding", (("Ys[TILE][TILE + 1]", "Ys[TILE][TILE]"),), "efficiency", "bank conflicts"),
        Mutant(
            "the other tile padded",
            (("Xs[TILE][TILE], Ys[TILE][TILE + 1]", "Xs[TILE][TILE + 1], Ys[TILE][TILE]"),),
            "efficiency",
            "bank conflicts",
        ),
        Mutant(
            "Y still loaded down its columns",
            (
                ("int other = blockIdx.x * TILE + threadIdx.y;", "int other = blockIdx.x * TILE + threadIdx.x, ky;"),
                (
                    "Ys[threadIdx.y][threadIdx.x] = other < n && k < depth ? Y[other * depth + k] : 0.0f;",
                    "ky = t + threadIdx.y;\n        "
                    "Ys[threadIdx.x][threadIdx.y] = other < n && ky < depth ? Y[other * depth + ky] : 0.0f;",
                ),
            ),
            "efficiency",
            "sectors per request of the global loads",
        ),
        Mutant(
            "every thread fetches its own X",
            (
                (
                    "float difference = Xs[threadIdx.y][i]",
                    "float difference = (row < m && t + i < depth ? X[row * depth + t + i] : 0.0f)",
                ),
            ),
            "efficiency",
            "loads from global memory for each element of D",
        ),
        Mutant("no barrier before the tiles are read", (("__syncthreads();  // complete", ""),), "soundness", "race"),
        Mutant(
            "no barrier before they are overwritten", (("__syncthreads();  // done with", ""),), "soundness", "race"
        ),
        Mutant("no guard on the depth", (("row < m && k < depth ?", "row < m ?"),), "soundness", "out of bounds"),
        Mutant("tile of Y read by row", (("Ys[threadIdx.x][i]", "Ys[i][threadIdx.x]"),), "correctness", "wrong values"),
        Mutant(
            "X and Y change places in D",
            (("D[row * n + column]", "D[column * m + row]"),),
            "correctness",
            "wrong values",
        ),
        Mutant(
            "differences not squared",
            (("sum += difference * difference", "sum += difference"),),
            "correctness",
            "wrong values",
        ),
    ),
)

EXERCISES = (PRODUCT, DISTANCES)
