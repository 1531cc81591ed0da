"""06.1 to 06.6: barriers and guards for a tiled product, a tile without bank conflicts, a transpose, a
barrier that not all threads reach, sums in registers, and the turns of the banks predicted."""

from __future__ import annotations

import numpy as np

from cudalab.checks.bench import KernelBench, Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.streams import StreamBench
from cudalab.checks.work import (
    ATOMICS,
    BARRIERS,
    BUSIEST,
    BUSIEST_SHARED,
    CONFLICTS,
    LOADED,
    LOCAL,
    SECTORS_LOADED,
    SECTORS_STORED,
    SHARED_LOADED,
    STORED,
    Needs,
)
from cudalab.sim.abi import WARP
from cudalab.sim.machine.counters.bank_conflicts import BANKS, count_wavefronts

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

# --- 06.3 ------------------------------------------------------------------------------------------------------------


def _transpose(bench: KernelBench) -> None:
    for height, width in ((1, 1), (33, 40), (7, 70)):
        _transpose_once(bench, height, width)
    height, width = (SIDE * bench.between(2, 3) for _ in range(2))
    _transpose_once(bench, height, width, Needs(4 * height * width, 4 * height * width, share=4 * 2))
    if bench.fine:  # more than 65,536 elements
        _transpose_once(bench, bench.between(100, 120), bench.between(660, 700))


def _transpose_once(bench: KernelBench, height: int, width: int, needs: Needs | None = None) -> None:
    values = bench.random((height, width))
    out = bench.output("out", (width, height), np.float32)
    arguments = (bench.input("in", values), out, np.int32(height), np.int32(width))
    grid = (-(-width // SIDE), -(-height // SIDE))
    bench.launch(grid, (SIDE, SIDE), arguments, f"{height} x {width}", needs=needs)
    same = [Known("the matrix comes out as it went in", values)] if height == width else []
    bench.expect(out, values.T, known=same, look="which element of the tile a thread writes, and to which row of out")


TRANSPOSE = Exercise(
    id="06.3",
    title="Transpose through shared memory",
    kernel="transpose",
    examine=_transpose,
    gates=(
        SECTORS_STORED.of(2, baseline=32),
        CONFLICTS.of(1, baseline=0),
        SECTORS_LOADED.of(baseline=4),
        LOADED.of(baseline=1),
        STORED.of(baseline=1),
        BUSIEST.of(baseline=1),
        ATOMICS.of(most=0, baseline=0, look="what a block's threads wait for each other with: a barrier"),
    ),
)

# --- 06.4 ------------------------------------------------------------------------------------------------------------

LANES = 256


def _block_sums(bench: KernelBench) -> None:
    for n in (1, LANES, LANES + 1, bench.between(600, 700)):
        _block_sums_once(bench, n)
    n = 3 * LANES
    _block_sums_once(bench, n, Needs(4 * n, 4 * 3, share=4 * 2))


def _block_sums_once(bench: KernelBench, n: int, needs: Needs | None = None) -> None:
    values = bench.random(n)
    blocks = -(-n // LANES)
    out = bench.output("sums", (blocks,), np.float32)
    bench.launch((blocks,), (LANES,), (bench.input("x", values), out, np.int32(n)), f"{n} elements", needs=needs)
    padded = np.zeros(blocks * LANES)
    padded[:n] = values
    parts = padded.reshape(blocks, LANES)
    bench.expect(
        out,
        parts.sum(axis=1),
        tolerance=TOLERANCE,
        known=(Known("only the first number of each block arrives: nothing is added", parts[:, 0]),),
        look="which threads put a number into part, and which of them meet at each barrier",
    )


BLOCK_SUMS = Exercise(
    id="06.4",
    title="Find the bug: a barrier that not all reach",
    kernel="block_sums",
    examine=_block_sums,
    correctness=1,
    gates=(  # without a tree nothing is left to mend: points for an answer that is sound are here, behind the guards
        BARRIERS.of(1, name="barriers of a warp", least=1, most=10),
        LOADED.of(2),
        BUSIEST.of(),
        ATOMICS.of(most=LANES // WARP),  # a warp's sum each
        BUSIEST_SHARED.of(most=LANES),  # a tree takes 104: two loads and a store in each of eight steps
        CONFLICTS.of(most=1),
    ),
)

# --- 06.5 ------------------------------------------------------------------------------------------------------------

WIDE = 64
"""Rows and columns of a block's part of the product; each of 16 x 16 threads has 4 x 4 of its elements."""


def _register_product(bench: KernelBench) -> None:
    for height, depth, width in ((1, 1, 1), (64, 16, 64), (70, 21, 33), (9, 40, 65)):
        _register_product_once(bench, height, depth, width)
    height, width, depth = 2 * WIDE, 2 * WIDE, 2 * TILE * bench.between(1, 2)  # tiles twice as deep fit as well
    loaded = 4 * depth * (height * (width // WIDE) + width * (height // WIDE))  # each block its strips of A and B
    share = 4 * (8 * depth // TILE + 16)
    needs = Needs(loaded, 4 * height * width, share, rounds=depth // TILE, multiply_adds=height * depth * width)
    _register_product_once(bench, height, depth, width, needs)
    if bench.fine:  # A has more than 65,536 elements: an index of 16 bits is too short
        _register_product_once(bench, bench.between(100, 120), bench.between(660, 700), bench.between(2, 5))


def _register_product_once(bench: KernelBench, height: int, depth: int, width: int, needs: Needs | None = None) -> None:
    a, b = bench.random((height, depth)), bench.random((depth, width))
    out = bench.output("C", (height, width), np.float32)
    grid = (-(-width // WIDE) + (needs is None), -(-height // WIDE) + (needs is None))
    sizes = tuple(np.int32(size) for size in (height, depth, width))
    case = f"height {height}, depth {depth}, width {width}"
    bench.launch(grid, (TILE, TILE), (bench.input("A", a), bench.input("B", b), out, *sizes), case, needs=needs)
    product = _exact(a, b)
    bench.expect(
        out,
        product,
        tolerance=TOLERANCE,
        known=_register_mistakes(product, a, b),
        look="which rows of A, columns of B and elements of C belong to a thread, and what is loaded beyond the edge",
    )


def _register_mistakes(product: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[Known, ...]:
    height, width = product.shape
    whole = a.shape[1] // TILE * TILE
    first = np.full(product.shape, np.nan)
    for row in range(0, height, WIDE):
        for column in range(0, width, WIDE):
            first[row : row + TILE, column : column + TILE] = product[row : row + TILE, column : column + TILE]
    found = [Known("of each 64 x 64 elements only the first 16 x 16 are written: a thread has 16 of them", first)]
    if whole != a.shape[1]:
        found.append(Known("the last, incomplete step is left out of every sum", _exact(a[:, :whole], b[:whole])))
    if height == width == WIDE:
        apart = np.arange(WIDE).reshape(TILE, 4).T.ravel()  # row 16 * i + y of C gets row 4 * y + i of the product
        rows = "computes other rows than it stores: 4 * y + i in one place and y + 16 * i in the other"
        found.append(Known(f"a thread {rows}", product[apart]))
        found.append(Known(f"a thread {rows}, and so with columns", product[apart][:, apart]))
    return tuple(found)


REGISTER_PRODUCT = Exercise(
    id="06.5",
    title="Sixteen sums in registers",
    kernel="register_product",
    examine=_register_product,
    gates=(
        SHARED_LOADED.of(3, most=0.5, baseline=2),
        LOADED.of(1, baseline=4),
        CONFLICTS.of(most=0.1, baseline=0),
        SECTORS_LOADED.of(baseline=4),
        STORED.of(baseline=1),
        BUSIEST.of(),
        LOCAL.of(baseline=0),
    ),
)

# --- 06.6 ------------------------------------------------------------------------------------------------------------

Words = list[int | None]
"""By lane: the word that it reads; None for a lane that takes no part."""


def _wavefronts(bench: StreamBench) -> None:
    for text, words in _requests(bench):
        with bench.case(text) as trial:
            trial.call(words)
            known = tuple(Known(mistake, np.array(value)) for mistake, value in _miscounted(words).items())
            look = "which words lie in one bank, and which lanes are served together: those that want the same word"
            trial.expect_value(_turns(words), known=known, look=look)


def _requests(bench: StreamBench) -> list[tuple[str, Words]]:
    lanes = range(WARP)
    lengths = [32, 33, 2 * bench.between(17, 40), 2 * bench.between(17, 40) + 1, 4 * bench.between(9, 20)]
    columns: list[tuple[str, Words]] = [
        (f"a column of a tile with rows of {length} words", [length * lane + first for lane in lanes])
        for length, first in zip(lengths, bench.integers(1, 32, len(lengths)), strict=True)
    ]
    pitch, few = 16 * bench.between(3, 7), bench.between(40, 80)
    far, near = bench.integers(0, 4000, WARP), bench.integers(0, few, WARP)
    off = [1 + lane for lane in bench.shuffled(WARP - 1)[: bench.between(5, 12)]]  # lane 0 reads word 0, which counts
    return [
        *columns,
        ("32 neighbours", list(lanes)),
        ("one word for all lanes", [7 for _ in lanes]),
        ("the same word for two lanes each, every other word", [lane // 2 * 2 for lane in lanes]),
        (f"two rows of 16 words, {pitch} words apart", [lane // 16 * pitch + lane % 16 for lane in lanes]),
        ("the first lane alone in its bank, all others in the next", [0, *(32 * lane + 1 for lane in lanes[1:])]),
        ("32 of 4000 words", [*far]),
        (f"32 of {few} words", [*near]),
        (f"rows of 32 words, {len(off)} lanes off", [None if lane in off else 32 * lane for lane in lanes]),
        (f"32 of {few} words, {len(off)} lanes off", [None if lane in off else near[lane] for lane in lanes]),
        ("no lane takes part", [None for _ in lanes]),
    ]


def _turns(words: Words) -> int:
    addresses = np.array([[4 * (word or 0) for word in words]], np.uint64)
    return int(count_wavefronts(addresses, np.array([[word is not None for word in words]]), 4)[0][0])


def _miscounted(words: Words) -> dict[str, int]:
    read = [word for word in words if word is not None]
    banks = [word % BANKS for word in read]
    return {
        "these are the lanes that want the busiest bank; lanes that want the same word are served together": max(
            map(banks.count, banks), default=0
        ),
        "this counts the words, and words of different banks are served together": len(set(read)),
        "this counts the banks that are used": len(set(banks)),
        "word 0 is left out: a lane that takes no part has None, which is another thing than 0": _turns(
            [word or None for word in words]
        ),
        "conflicts are counted, not wavefronts: the first turn is one, too": max(0, _turns(words) - 1),
        "lanes that take no part are counted as if they read word 0": _turns([word or 0 for word in words]),
    }


WAVEFRONTS = Exercise(
    id="06.6",
    title="Predict the turns of the banks",
    kernel="wavefronts",
    examine=_wavefronts,
    correctness=3,
    answer="function",
)
