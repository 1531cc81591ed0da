"""04.1, 04.2, 04.3 and 04.6: a guard for every size, a coalesced column sum, rows that start at their pitch, and
structures taken apart into arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.checks.bench import KernelBench, Known, counted
from cudalab.checks.exercise import Exercise
from cudalab.checks.work import ATOMICS_EACH, BUSIEST, LOADED, SECTORS_LOADED, SECTORS_STORED, STORED, Needs

# --- 04.1 ------------------------------------------------------------------------------------------------------------

REVERSE_SIZES = (1, 31, 32, 33, 100, 255, 256, 257, 1000, 4097)
REVERSE_BLOCKS = (32, 96, 256)


def _reverse(bench: KernelBench) -> None:
    for size in REVERSE_SIZES:
        for block in REVERSE_BLOCKS:
            _reverse_once(bench, size, block)
    size = bench.between(4000, 5000)
    _reverse_once(bench, size, 64, Needs(4 * size, 4 * size, share=8))
    if bench.fine:  # more than 65,536 elements: an index of 16 bits is too short
        _reverse_once(bench, bench.between(66_000, 70_000), 256)
    empty = bench.output("y", (1,), np.float32)
    bench.launch((1,), (32,), (bench.input("x", np.zeros(1, np.float32)), empty, np.int32(0)), "n = 0")
    bench.untouched(empty, "n is 0, so nothing may be written")


def _reverse_once(bench: KernelBench, size: int, block: int, needs: Needs | None = None) -> None:
    x = bench.random(size)
    source, out = bench.input("x", x), bench.output("y", (size,), np.float32)
    # One block more than needed: a guard has to hold whole blocks back, too.
    grid, case = (size + block - 1) // block + 1, f"n = {size}, {counted(block, 'thread')} per block"
    bench.launch((grid,), (block,), (source, out, np.int32(size)), case, needs=needs)
    bench.expect(
        out,
        x[::-1],
        known=(
            Known("the values are copied in order, not reversed", x),
            Known("the first and last elements are left out", _without_ends(x[::-1])),
            Known("the last element is left out", _without_last(x[::-1])),
        ),
    )


def _without_ends(x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    out[1:-1] = x[1:-1]
    return out


def _without_last(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[0] = np.nan  # the thread of the last input element writes the first output
    return out


REVERSE = Exercise(
    id="04.1",
    title="Guard every size",
    kernel="reverse",
    examine=_reverse,
    correctness=1,
    soundness=1,
    gates=(BUSIEST.of(1), LOADED.of(), STORED.of()),
)

# --- 04.2 ------------------------------------------------------------------------------------------------------------

SUM_SHAPES = ((1, 1), (3, 5), (64, 64), (100, 33), (33, 100), (257, 31))


def _column_sum(bench: KernelBench) -> None:
    for rows, columns in SUM_SHAPES:
        for block in (32, 128):
            _sum_once(bench, rows, columns, block)
    rows, columns = bench.between(96, 104), 32 * bench.between(7, 9)
    _sum_once(bench, rows, columns, 32, Needs(4 * rows * columns, 4 * columns, share=4 * (rows + 1)))
    if bench.fine:  # more than 65,536 elements: an index of 16 bits is too short
        _sum_once(bench, bench.between(300, 310), columns, 32)


def _sum_once(bench: KernelBench, rows: int, columns: int, block: int, needs: Needs | None = None) -> None:
    matrix = bench.random((rows, columns))
    m, sums = bench.input("m", matrix), bench.zeroed("sums", (columns,), np.float32)
    grid = (max(rows, columns) + block - 1) // block
    arguments = (m, sums, np.int32(rows), np.int32(columns))
    case = f"{counted(rows, 'row')} of {columns}, {counted(block, 'thread')} per block"
    bench.launch((grid,), (block,), arguments, case, needs=needs)
    bench.expect(sums, matrix.sum(axis=0, dtype=np.float64), tolerance=1e-4, known=_sum_mistakes(matrix))


def _sum_mistakes(matrix: np.ndarray) -> tuple[Known, ...]:
    rows, columns = matrix.shape
    found = [
        Known("only the last row is added", matrix[-1]),
        Known("the first row is left out", matrix[1:].sum(axis=0)),
    ]
    if rows == columns:
        found.append(Known("rows are summed, not columns: row and column are swapped", matrix.sum(axis=1)))
    elif rows > columns:
        swapped = matrix.ravel()[: columns * rows].reshape(columns, rows).sum(axis=1)
        found.append(Known("the row length is taken for the number of rows", swapped))
    return tuple(found)


COLUMN_SUM = Exercise(
    id="04.2",
    title="Sum columns with coalesced loads",
    kernel="column_sum",
    examine=_column_sum,
    gates=(
        SECTORS_LOADED.of(2, baseline=32),
        ATOMICS_EACH.of(1, most=16, baseline=100),
        LOADED.of(),
        STORED.of(least=0, baseline=0),  # partial sums may be added by atomics
        BUSIEST.of(),
    ),
)

# --- 04.3 ------------------------------------------------------------------------------------------------------------

IMAGE_SHAPES = ((1, 1), (1, 40), (40, 1), (16, 16), (30, 50), (33, 129))  # height, width


def _smooth(image: np.ndarray) -> np.ndarray:
    wide = np.pad(image.astype(np.float64), 1, mode="edge")
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return (around + wide[1:-1, 1:-1]) / 5


def _pitched_smooth(bench: KernelBench) -> None:
    _smooth_top(bench)
    for height, width in IMAGE_SHAPES:
        for block in ((16, 16), (32, 4)):
            _smooth_once(bench, height, width, block)
    height, width = bench.between(25, 32), 32 * bench.between(3, 4)
    size = 4 * height * width
    _smooth_once(bench, height, width, (32, 8), Needs(size, size, share=4 * 6))
    if bench.fine:  # more than 65,536 bytes in either image: an offset of 16 bits is too short
        _smooth_once(bench, bench.between(90, 110), 32 * bench.between(6, 8), (32, 8))


def _smooth_top(bench: KernelBench) -> None:
    """Only the top quarter of two tall images: a pitch that counts elements leads to every fourth row, not out of the
    image, and so can be told from other mistakes."""
    height, width, pitch = 4, 24, 512
    image = bench.random((4 * height, width))
    source = bench.input("source", image, pitch=pitch)
    result = bench.output("result", image.shape, np.float32, pitch=pitch)
    case = f"the top {width} x {height} pixels of taller images, blocks of 16 x 16"
    bench.launch((2, 1), (16, 16), _smooth_arguments(source, result, width, height), case)
    mistake = "the pitch, which is in bytes, is added to a float*, which counts elements"

    def shown(step_in: int, step_out: int) -> np.ndarray:
        out = np.full(image.shape, np.nan)
        out[: height * step_out : step_out] = _smooth(image[: height * step_in : step_in])
        return out

    bench.expect(
        result,
        shown(1, 1),
        tolerance=1e-5,
        known=tuple(Known(mistake, shown(*steps)) for steps in ((4, 1), (1, 4), (4, 4))),
        look="how a row's address is computed: (const float*)((const char*)base + row * pitch), pitch in bytes",
    )


def _smooth_once(
    bench: KernelBench, height: int, width: int, block: tuple[int, int], needs: Needs | None = None
) -> None:
    image = bench.random((height, width))
    # The two pitches differ, as they may when the images come from different allocations.
    source = bench.input("source", image, pitch=512 * (1 + width * 4 // 512))
    result = bench.output("result", (height, width), np.float32, pitch=512 * (2 + width * 4 // 512))
    grid = ((width + block[0] - 1) // block[0], (height + block[1] - 1) // block[1])
    case = f"{width} x {height} pixels, blocks of {block[0]} x {block[1]}"
    bench.launch(grid, block, _smooth_arguments(source, result, width, height), case, needs=needs)
    swapped = _smooth(image.T).reshape(height, width) if height == width else image * 0
    bench.expect(
        result,
        _smooth(image),
        tolerance=1e-5,
        known=(Known("the image comes out unchanged", image), Known("x and y are swapped", swapped)),
        look="how a row's address is computed: (const float*)((const char*)base + row * pitch), pitch in bytes",
    )


def _smooth_arguments(source: object, result: object, width: int, height: int) -> tuple[Any, ...]:
    s, r = source, result
    return (s, np.uint64(s.pitch), r, np.uint64(r.pitch), np.int32(width), np.int32(height))  # type: ignore[attr-defined]


SMOOTH = Exercise(
    id="04.3",
    title="Repair a filter that ignores the pitch",
    kernel="smooth",
    examine=_pitched_smooth,
    correctness=2,
    soundness=1,
    gates=(SECTORS_LOADED.of(2, most=7), SECTORS_STORED.of(), BUSIEST.of(), LOADED.of(most=5.1), STORED.of()),
)

# --- 04.6 ------------------------------------------------------------------------------------------------------------

FIELDS = ("x", "y", "z", "mass")
PARTICLES = (1, 7, 31, 32, 33, 255, 257, 1000, 4097)


def _to_arrays(bench: KernelBench) -> None:
    for count in PARTICLES:
        for block in (32, 96, 256):
            _to_arrays_once(bench, count, block)
    count = 32 * bench.between(90, 110)
    _to_arrays_once(bench, count, 128, Needs(16 * count, 16 * count, share=32))
    if bench.fine:  # more than 65,536 particles: an index of 16 bits is too short
        _to_arrays_once(bench, bench.between(66_000, 70_000), 256)


def _to_arrays_once(bench: KernelBench, count: int, block: int, needs: Needs | None = None) -> None:
    values = bench.random((count, len(FIELDS)))
    particles = bench.input("particles", values)
    made = [bench.output(field, (count,), np.float32) for field in FIELDS]
    grid, case = -(-count // block) + 1, f"{counted(count, 'particle')}, {counted(block, 'thread')} per block"
    bench.launch((grid,), (block,), (particles, *made, np.int32(count)), case, needs=needs)
    flat = values.ravel()
    for number, (array, right) in enumerate(zip(made, values.T, strict=True)):
        others = [
            Known(f"{array.name} gets what belongs to {field}", values[:, other])
            for other, field in enumerate(FIELDS)
            if other != number
        ]
        as_it_lies = Known(
            "particles is read as if its arrays already followed each other", flat[number * count :][:count]
        )
        bench.expect(
            array, right, known=(*others, as_it_lies), look="where field number f of particle i lies: 4 * i + f floats"
        )


_WHOLE = f"{SECTORS_LOADED.look}; a struct of floats is loaded float by float, float4 is loaded as a whole"

TO_ARRAYS = Exercise(
    id="04.6",
    title="A structure of arrays",
    kernel="to_arrays",
    examine=_to_arrays,
    gates=(SECTORS_LOADED.of(3, baseline=16, look=_WHOLE), SECTORS_STORED.of(), LOADED.of(), STORED.of(), BUSIEST.of()),
)
