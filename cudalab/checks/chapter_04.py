"""The exercises of chapter 04: a guard for every size, a coalesced column sum, rows that start at their pitch."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.checks.bench import KernelBench, Known
from cudalab.checks.exercise import Exercise, Mutant

# --- 04.1 ------------------------------------------------------------------------------------------------------------

REVERSE_SIZES = (1, 31, 32, 33, 100, 255, 256, 257, 1000, 4097)
REVERSE_BLOCKS = (32, 96, 256)


def _reverse(bench: KernelBench) -> None:
    for size in REVERSE_SIZES:
        for block in REVERSE_BLOCKS:
            x = bench.random(size)
            source, out = bench.input("x", x), bench.output("y", (size,), np.float32)
            # One block more than needed: a guard has to hold whole blocks back, too.
            grid = (size + block - 1) // block + 1
            bench.launch((grid,), (block,), (source, out, np.int32(size)), f"n = {size}, {block} threads a block")
            bench.expect(
                out,
                x[::-1],
                known=(
                    Known("the values are copied in order, not reversed", x),
                    Known("the first and last elements are left out", _without_ends(x[::-1])),
                    Known("the last element is left out", _without_last(x[::-1])),
                ),
            )
    empty = bench.output("y", (1,), np.float32)
    bench.launch((1,), (32,), (bench.input("x", np.zeros(1, np.float32)), empty, np.int32(0)), "n = 0")
    bench.untouched(empty, "n is 0, so nothing may be written")


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
    points={"correctness": 2, "soundness": 1},
    examine=_reverse,
    mutants=(
        Mutant("no guard", (("if (i < n) ", ""),), "soundness", "out of bounds"),
        Mutant("guard one too wide", (("i < n", "i <= n"),), "soundness", "out of bounds"),
        Mutant("guard one too narrow", (("i < n", "i < n - 1"),), "correctness", "wrong values"),
        Mutant("hard-coded size of the sample", (("i < n", "i < 1000"),), "soundness", "out of bounds"),
        Mutant("whole blocks only", (("i < n", "i < n / blockDim.x * blockDim.x"),), "correctness", "wrong values"),
        Mutant("off by one in the index", (("n - 1 - i", "n - i"),), "soundness", "out of bounds"),
        Mutant("copied, not reversed", (("y[n - 1 - i]", "y[i]"),), "correctness", "wrong values"),
        Mutant(
            "guard on the thread, not on the element", (("i < n", "threadIdx.x < n"),), "soundness", "out of bounds"
        ),
        Mutant(
            "changes its input",
            (("y[n - 1 - i] = x[i]", "{ y[n - 1 - i] = x[i]; ((float*)x)[i] = 0.0f; }"),),
            "correctness",
            "input changed",
        ),
    ),
)

# --- 04.2 ------------------------------------------------------------------------------------------------------------

SUM_SHAPES = ((1, 1), (3, 5), (64, 64), (100, 33), (33, 100), (257, 31))


def _column_sum(bench: KernelBench) -> None:
    for rows, columns in SUM_SHAPES:
        for block in (32, 128):
            matrix = bench.random((rows, columns))
            m, sums = bench.input("m", matrix), bench.zeroed("sums", (columns,), np.float32)
            grid = (max(rows, columns) + block - 1) // block
            arguments = (m, sums, np.int32(rows), np.int32(columns))
            bench.launch((grid,), (block,), arguments, f"{rows} rows x {columns} columns, {block} threads a block")
            bench.expect(
                sums,
                matrix.sum(axis=0, dtype=np.float64),
                tolerance=1e-5,
                known=_sum_mistakes(matrix),
            )
    rows, columns = 96, 256
    matrix = bench.random((rows, columns))
    m, sums = bench.input("m", matrix), bench.zeroed("sums", (columns,), np.float32)
    counts = bench.profile(
        (2,), (128,), (m, sums, np.int32(rows), np.int32(columns)), f"{rows} rows x {columns} columns"
    )
    bench.gate("sectors per request of the global loads", counts.global_loads.sectors_per_request, 4, baseline=32)
    # One lane alone also makes few sectors a request, so the requests are counted, too.
    needed = rows * columns // 32
    bench.gate("requests of the global loads", counts.global_loads.requests, needed * 1.25, baseline=needed)


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
    points={"correctness": 0, "soundness": 0, "efficiency": 3},
    examine=_column_sum,
    mutants=(
        Mutant("no guard", (("if (c >= columns) return;", ""),), "soundness", "out of bounds"),
        Mutant("rows and columns swapped", (("m[r * columns + c]", "m[c * rows + r]"),), "correctness", "wrong values"),
        Mutant("first row left out", (("int r = 0", "int r = 1"),), "correctness", "wrong values"),
        Mutant("one row too many", (("r < rows", "r <= rows"),), "soundness", "out of bounds"),
        Mutant("hard-coded width", (("r * columns + c", "r * 64 + c"),), "soundness", "out of bounds"),
        Mutant("result overwritten at each row", (("total +=", "total ="),), "correctness", "wrong values"),
        Mutant(
            "one thread does it all",
            (
                ("if (c >= columns) return;", "if (c != 0) return;\n    for (c = 0; c < columns; c++) {"),
                ("sums[c] = total;", "sums[c] = total;\n    }"),
            ),
            "efficiency",
            "requests of the global loads",
        ),
        Mutant(
            "a thread for each row, again",
            (
                ("if (c >= columns) return;", "int row = c;\n    if (row >= rows) return;"),
                ("float total = 0.0f;", ""),
                ("for (int r = 0; r < rows; r++) total += m[r * columns + c];", "for (c = 0; c < columns; c++)"),
                ("sums[c] = total;", "atomicAdd(&sums[c], m[row * columns + c]);"),
            ),
            "efficiency",
            "sectors per request of the global loads",
        ),
        Mutant(
            "adds up without atomics",
            (
                ("if (c >= columns) return;", "int row = c;\n    if (row >= rows) return;"),
                ("float total = 0.0f;", ""),
                ("for (int r = 0; r < rows; r++) total += m[r * columns + c];", "for (c = 0; c < columns; c++)"),
                ("sums[c] = total;", "sums[c] += m[row * columns + c];"),
            ),
            "soundness",
            "race",
        ),
    ),
)

# --- 04.3 ------------------------------------------------------------------------------------------------------------

IMAGE_SHAPES = ((1, 1), (1, 40), (40, 1), (16, 16), (30, 50), (33, 129))  # height, width


def _smooth(image: np.ndarray) -> np.ndarray:
    wide = np.pad(image.astype(np.float64), 1, mode="edge")
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return (around + wide[1:-1, 1:-1]) / 5


def _pitched_smooth(bench: KernelBench) -> None:
    for height, width in IMAGE_SHAPES:
        for block in ((16, 16), (32, 4)):
            image = bench.random((height, width))
            # The two pitches differ, as they may when the images come from different allocations.
            source = bench.input("source", image, pitch=512 * (1 + width * 4 // 512))
            result = bench.output("result", (height, width), np.float32, pitch=512 * (2 + width * 4 // 512))
            grid = ((width + block[0] - 1) // block[0], (height + block[1] - 1) // block[1])
            case = f"{width} x {height} pixels, blocks of {block[0]} x {block[1]}"
            bench.launch(grid, block, _smooth_arguments(source, result, width, height), case)
            bench.expect(
                result,
                _smooth(image),
                tolerance=1e-5,
                known=(
                    Known("the image comes out unchanged", image),
                    Known(
                        "x and y are swapped", _smooth(image.T).reshape(height, width) if height == width else image * 0
                    ),
                ),
                look="how a row's address is computed: (const float*)((const char*)base + row * pitch), pitch in bytes",
            )
    height, width = 32, 256
    image = bench.random((height, width))
    source = bench.input("source", image, pitch=1536)
    result = bench.output("result", (height, width), np.float32, pitch=2048)
    counts = bench.profile(
        (16, 2), (16, 16), _smooth_arguments(source, result, width, height), f"{width} x {height} pixels"
    )
    bench.gate("sectors per request of the global loads", counts.global_loads.sectors_per_request, 6, baseline=32)
    bench.gate("sectors per request of the global stores", counts.global_stores.sectors_per_request, 4, baseline=32)


def _smooth_arguments(source: object, result: object, width: int, height: int) -> tuple[Any, ...]:
    s, r = source, result
    return (s, np.uint64(s.pitch), r, np.uint64(r.pitch), np.int32(width), np.int32(height))  # type: ignore[attr-defined]


SMOOTH = Exercise(
    id="04.3",
    title="Repair a filter that ignores the pitch",
    kernel="smooth",
    points={"correctness": 3, "soundness": 1, "efficiency": 1},
    examine=_pitched_smooth,
    mutants=(
        Mutant(
            "source pitch ignored", (("y * source_pitch", "y * width * sizeof(float)"),), "correctness", "wrong values"
        ),
        Mutant(
            "result pitch ignored", (("y * result_pitch", "y * width * sizeof(float)"),), "correctness", "wrong values"
        ),
        Mutant("one pitch used for both", (("y * result_pitch", "y * source_pitch"),), "correctness", "wrong values"),
        Mutant(
            "pitch counted in elements",
            (("(const float*)((const char*)source + y * source_pitch)", "source + y * source_pitch"),),
            "soundness",
            "out of bounds",
        ),
        Mutant("no guard in y", (("x >= width || y >= height", "x >= width"),), "soundness", "out of bounds"),
        Mutant("edges not clamped", (("max(y - 1, 0)", "y - 1"),), "soundness", "out of bounds"),
        Mutant("right edge not clamped", (("min(x + 1, width - 1)", "x + 1"),), "correctness", "wrong values"),
        Mutant("centre left out", (("row(y)[x] + ", ""),), "correctness", "wrong values"),
        Mutant(
            "threads walk down the columns",
            (
                ("int x = blockIdx.x * blockDim.x + threadIdx.x;", "int x = blockIdx.x * blockDim.x + threadIdx.y;"),
                ("int y = blockIdx.y * blockDim.y + threadIdx.y;", "int y = blockIdx.y * blockDim.y + threadIdx.x;"),
            ),
            "correctness",
            "wrong values",
        ),
    ),
)

EXERCISES = (REVERSE, COLUMN_SUM, SMOOTH)
