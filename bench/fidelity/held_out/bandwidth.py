"""Launches that move much memory: vectors, images, matrices, passes of scans and sorts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import Laboratory

Result = Iterator[tuple[str, float]]
I, F = np.int32, np.float32  # noqa: E741
TOPIC = "held_out_bandwidth"


@experiment("held out: a x + y")
def axpy(lab: Laboratory) -> Result:
    for n in (1 << 18, 1 << 20, 1 << 23, 1 << 25):
        x, y = lab.zeros("x", 4 * n), lab.zeros("y", 4 * n)
        yield f"{n >> 10} K floats", lab.kernel(TOPIC, "saxpy", n // 256, 256, F(2), x, y, I(n))
    n = 1 << 25
    yield "float4", lab.kernel(TOPIC, "saxpy4", n // 1024, 256, F(2), x, y, I(n // 4))
    yield "doubles", lab.kernel(TOPIC, "daxpy", n // 512, 256, np.float64(2), x, y, I(n // 2))


@experiment("held out: moving particles")
def particles(lab: Laboratory) -> Result:
    n = 1 << 22
    yield "structures", lab.kernel(TOPIC, "move_structs", n // 256, 256, lab.zeros("p", 32 * n), F(0.1), I(n))
    parts = [lab.zeros(name, 4 * n) for name in ("x", "y", "z", "vx", "vy", "vz")]
    yield "arrays", lab.kernel(TOPIC, "move_arrays", n // 256, 256, *parts, F(0.1), I(n))


@experiment("held out: images, pixel by pixel")
def pixels(lab: Laboratory) -> Result:
    for w in (1024, 4096):
        n = w * w
        rgb, grey = lab.zeros("rgb", 4 * n), lab.zeros("grey", n)
        yield f"grey from 3 bytes, {w}", lab.kernel(TOPIC, "grey_bytes", n // 256, 256, rgb, grey, I(n))
        yield f"grey from uchar4, {w}", lab.kernel(TOPIC, "grey_words", n // 256, 256, rgb, grey, I(n))
        yield f"brighter, {w}", lab.kernel(TOPIC, "brighten", n // 256, 256, grey, rgb, I(20), I(n))
    n = 2048 * 2048
    images = [lab.zeros(name, 16 * n) for name in "abc"]
    yield "blend, 2048", lab.kernel(TOPIC, "blend", n // 256, 256, *images, I(n))


@experiment("held out: filters of images")
def filters(lab: Laboratory) -> Result:
    w = 2048
    a, b = lab.zeros("a", 4 * w * w), lab.zeros("b", 4 * w * w)
    grid, block = (w // 32, w // 8), (32, 8)
    for r in (1, 4):
        yield f"box of radius {r}", lab.kernel(TOPIC, "blur_naive", grid, block, a, b, I(w), I(w), I(r))
    yield "rows of radius 8", lab.kernel(TOPIC, "blur_rows", grid, block, a, b, I(w), I(w), I(8))
    yield "columns of radius 8", lab.kernel(TOPIC, "blur_columns", grid, block, a, b, I(w), I(w), I(8))
    yield "columns, 8 x 32", lab.kernel(TOPIC, "blur_columns", (w // 8, w // 32), (8, 32), a, b, I(w), I(w), I(8))
    yield "Sobel on bytes", lab.kernel(TOPIC, "sobel", grid, block, a, b, I(w), I(w))


@experiment("held out: images turned and resized")
def turned(lab: Laboratory) -> Result:
    n = 2048
    a, b = lab.zeros("a", 16 * n * n), lab.zeros("b", 16 * n * n)
    block = (32, 8)
    for name, ow in (("half", n // 2), ("double", 2 * n)):
        yield (
            f"to {name} the size",
            lab.kernel(TOPIC, "resize", (ow // 32, ow // 8), block, a, b, I(n), I(n), I(ow), I(ow)),
        )
    for degrees in (30, 90):
        c, s = F(np.cos(np.radians(degrees))), F(np.sin(np.radians(degrees)))
        yield f"by {degrees} degrees", lab.kernel(TOPIC, "rotate", (n // 32, n // 8), block, a, b, I(n), c, s)


@experiment("held out: transposes of doubles")
def transposes(lab: Laboratory) -> Result:
    for n in (512, 2048):
        a, b = lab.zeros("a", 8 * n * n), lab.zeros("b", 8 * n * n)
        yield f"naive, {n}", lab.kernel(TOPIC, "transpose_naive", (n // 32, n // 8), (32, 8), a, b, I(n))
        yield f"by tiles, {n}", lab.kernel(TOPIC, "transpose_tile", (n // 32, n // 32), (32, 8), a, b, I(n))


@experiment("held out: gather and scatter by a permutation")
def permutations(lab: Laboratory) -> Result:
    rng = np.random.default_rng(1)
    for n in (1 << 19, 1 << 24):
        index = lab.array(rng.permutation(n).astype(np.int32))
        a, b = lab.zeros("a", 4 * n), lab.zeros("b", 4 * n)
        for name in ("gather", "scatter"):
            yield f"{name}, {n >> 10} K", lab.kernel(TOPIC, name, n // 256, 256, a, index, b, I(n))


@experiment("held out: heat in plates and blocks")
def heat(lab: Laboratory) -> Result:
    for n in (512, 4096):
        a, b = lab.zeros("a", 4 * n * n), lab.zeros("b", 4 * n * n)
        yield f"a plate of {n}", lab.kernel(TOPIC, "heat_plate", (n // 32, n // 8), (32, 8), a, b, I(n))
    n = 256
    a, b = lab.zeros("a", 4 * n**3), lab.zeros("b", 4 * n**3)
    yield "a block, a thread each", lab.kernel(TOPIC, "heat_block", (n // 32, n // 8, n), (32, 8), a, b, I(n))
    yield "a block, a thread a column", lab.kernel(TOPIC, "heat_march", (n // 32, n // 8), (32, 8), a, b, I(n))


@experiment("held out: sums along rows and columns")
def sums(lab: Laboratory) -> Result:
    n = 4096
    m, out = lab.zeros("m", 4 * n * n), lab.zeros("out", 4 * n)
    yield "columns", lab.kernel(TOPIC, "column_sums", n // 64, 64, m, out, I(n), I(n))
    yield "rows", lab.kernel(TOPIC, "row_sums", n // 64, 64, m, out, I(n), I(n))


@experiment("held out: rows normalised")
def rows(lab: Laboratory) -> Result:
    for count, columns in ((4096, 1024), (256, 8192)):
        a, b = lab.zeros("a", 4 * count * columns), lab.zeros("b", 4 * count * columns)
        for name in ("softmax", "normalise"):
            yield f"{name}, {count} x {columns}", lab.kernel(TOPIC, name, count, 256, a, b, I(columns))


@experiment("held out: passes of scans and sorts")
def passes(lab: Laboratory) -> Result:
    n = 1 << 23
    keys = lab.array(np.random.default_rng(2).integers(0, 1 << 32, n, dtype=np.uint32))
    out, some = lab.zeros("out", 4 * n), lab.zeros("some", 4 * n // 16)
    yield "scan of blocks", lab.kernel(TOPIC, "scan_blocks", n // 512, 512, keys, out, some)
    yield "offsets added", lab.kernel(TOPIC, "add_offsets", n // 512, 512, out, some)
    yield "digits counted", lab.kernel(TOPIC, "digit_counts", n // 256, 256, keys, some, I(8), I(n))
    for j in (1 << 20, 4):
        yield f"bitonic step {j}", lab.kernel(TOPIC, "bitonic_step", n // 256, 256, keys, I(j), I(1 << 21))


@experiment("held out: arithmetic on long arrays")
def arithmetic(lab: Laboratory) -> Result:
    n = 1 << 22
    a, b, c = (lab.zeros(name, 16 * n) for name in "abc")
    yield "4 x 4 products", lab.kernel(TOPIC, "small_products", n // 4 // 128, 128, a, b, c, I(n // 4))
    yield "complex products", lab.kernel(TOPIC, "complex_product", n // 256, 256, a, b, c, I(n))
    yield "smallest and largest", lab.kernel(TOPIC, "minimum_maximum", 1056, 256, a, b, c, I(4 * n))
    centres = lab.array(np.random.default_rng(3).random((32, 2), np.float32))
    yield "nearest of 32 centres", lab.kernel(TOPIC, "nearest_centre", n // 256, 256, a, b, centres, c, I(32), I(n))


@experiment("held out: gravity between bodies")
def bodies(lab: Laboratory) -> Result:
    for n in (2048, 16384):
        place = lab.array(np.random.default_rng(4).random((n, 4), np.float32))
        yield f"{n} bodies", lab.kernel(TOPIC, "bodies", n // 128, 128, place, lab.buffer("force", 16 * n), I(n))
