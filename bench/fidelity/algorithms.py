"""Experiments with whole algorithms in several forms, as the course teaches them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory

Result = Iterator[tuple[str, float]]
I = np.int32  # noqa: E741


@experiment("matrix products of 1024")
def matmul(lab: Laboratory) -> Result:
    n = 1024
    a, b, c = (lab.buffer(name, 8 * n * n) for name in "abc")
    args = (a, b, c, I(n))
    yield "naive, 32 x 8", lab.kernel("algorithms", "matmul_naive", (n // 32, n // 8), (32, 8), *args)
    yield "naive, 16 x 16", lab.kernel("algorithms", "matmul_naive", (n // 16, n // 16), (16, 16), *args)
    yield "swapped, 16 x 16", lab.kernel("algorithms", "matmul_swapped", (n // 16, n // 16), (16, 16), *args)
    yield "swapped, 32 x 8", lab.kernel("algorithms", "matmul_swapped", (n // 32, n // 8), (32, 8), *args)
    for tile in (8, 16, 32):
        yield (
            f"tiled {tile}",
            lab.kernel("algorithms", f"matmul_tiled{tile}", (n // tile, n // tile), (tile, tile), *args),
        )
    yield "four rows a thread", lab.kernel("algorithms", "matmul_registers", (n // 32, n // 32), (32, 8), *args)
    yield "naive, double", lab.kernel("algorithms", "matmul_double", (n // 32, n // 8), (32, 8), *args)


@experiment("matrix products with a transposed factor")
def matmul_transposed(lab: Laboratory) -> Result:
    n = 1024
    args = (*(lab.buffer(name, 8 * n * n) for name in "abc"), I(n))
    for name in ("conflicts", "padded"):
        yield name, lab.kernel("algorithms", f"matmul_{name}", (n // 32, n // 32), (32, 32), *args)


@experiment("tiled matrix products by size")
def matmul_sizes(lab: Laboratory) -> Result:
    for n in (128, 256, 512, 1024, 2048):
        args = (*(lab.buffer(name, 4 * n * n) for name in "abc"), I(n))
        yield f"{n}", lab.kernel("algorithms", "matmul_tiled16", (n // 16, n // 16), (16, 16), *args)


@experiment("naive matrix products by block shape")
def matmul_shapes(lab: Laboratory) -> Result:
    n = 1024
    args = (*(lab.buffer(name, 8 * n * n) for name in "abc"), I(n))
    for x, y in ((1, 256), (4, 64), (16, 16), (64, 4), (256, 1)):
        yield f"{x} x {y}", lab.kernel("algorithms", "matmul_naive", (n // x, n // y), (x, y), *args)


@experiment("matrix times vector")
def matvec(lab: Laboratory) -> Result:
    n = 4096
    args = (lab.buffer("a", 4 * n * n), lab.buffer("x", 4 * n), lab.buffer("y", 4 * n), I(n))
    yield "a thread a row", lab.kernel("algorithms", "vector_thread", n // 128, 128, *args)
    yield "a warp a row", lab.kernel("algorithms", "vector_warp", n // 8, 256, *args)
    yield "a block a row", lab.kernel("algorithms", "vector_block", n, 256, *args)


@experiment("reductions")
def reductions(lab: Laboratory) -> Result:
    n = 16 * MB
    x, out = lab.buffer("x", 4 * n), lab.buffer("out", MB)
    for name in ("interleaved", "conflicts", "sequential", "shuffle", "warp_atomic"):
        yield name, lab.kernel("algorithms", f"reduce_{name}", n // 256, 256, x, out, I(n))
    yield "grid-stride", lab.kernel("algorithms", "reduce_loop", 132 * 8, 256, x, out, I(n))
    yield "atomic", lab.kernel("algorithms", "reduce_atomic", n // 256, 256, x, out, I(n))


@experiment("reductions of little data")
def small_reductions(lab: Laboratory) -> Result:
    n = 64 << 10
    x, out = lab.buffer("x", 4 * n), lab.buffer("out", MB)
    for name in ("interleaved", "sequential", "shuffle", "warp_atomic", "atomic"):
        yield name, lab.kernel("algorithms", f"reduce_{name}", n // 256, 256, x, out, I(n))


def values(kind: str, n: int) -> np.ndarray:
    generator = np.random.default_rng(3)
    if kind == "uniform":
        return generator.integers(0, 256, n, dtype=np.uint8)
    if kind == "skewed":
        return np.minimum(generator.geometric(0.3, n), 255).astype(np.uint8)
    return np.full(n, 7, np.uint8)


@experiment("histograms by data, global atomics")
def histograms_global(lab: Laboratory) -> Result:
    n = 4 * MB
    bins = lab.buffer("bins", 1024)
    for kind in ("uniform", "skewed", "constant"):
        yield kind, lab.kernel("algorithms", "histogram_global", n // 256, 256, lab.array(values(kind, n)), bins, I(n))


@experiment("histograms by data, shared atomics")
def histograms_shared(lab: Laboratory) -> Result:
    n = 4 * MB
    bins = lab.buffer("bins", 1024)
    for kind in ("uniform", "skewed", "constant"):
        x = lab.array(values(kind, n))
        yield f"one table, {kind}", lab.kernel("algorithms", "histogram_shared", 1056, 256, x, bins, I(n))
        yield f"a table a warp, {kind}", lab.kernel("algorithms", "histogram_warps", 1056, 256, x, bins, I(n))


@experiment("histograms: global or shared")
def histograms(lab: Laboratory) -> Result:
    n = 16 * MB
    bins, x = lab.buffer("bins", 1024), lab.array(values("uniform", n))
    yield "global", lab.kernel("algorithms", "histogram_global", n // 256, 256, x, bins, I(n))
    yield "shared", lab.kernel("algorithms", "histogram_shared", 1056, 256, x, bins, I(n))
    yield "shared, 132 blocks", lab.kernel("algorithms", "histogram_shared", 132, 256, x, bins, I(n))


@experiment("global atomics by spread")
def piles(lab: Laboratory) -> Result:
    counts = lab.buffer("counts", MB)
    for spread in (1, 8, 32, 256, 1024, 32768):
        yield f"{spread} addresses", lab.kernel("algorithms", "pile", 4096, 256, counts, I(spread))


@experiment("global atomics on floats by spread")
def float_piles(lab: Laboratory) -> Result:
    counts = lab.zeros("sums", MB)
    for spread in (1, 32, 1024, 32768):
        yield f"{spread} addresses", lab.kernel("algorithms", "pile_float", 4096, 256, counts, I(spread))


@experiment("shared atomics by spread")
def shared_piles(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for spread in (1, 4, 32, 1024):
        args = (out, I(512), I(spread), np.uint32(3))
        yield f"{spread} addresses", lab.kernel("algorithms", "shared_pile", 264, 256, *args)


@experiment("scans of blocks")
def scans(lab: Laboratory) -> Result:
    n = 8 * MB
    x, y = lab.buffer("x", 4 * n), lab.buffer("y", 4 * n)
    for name in ("steps", "shuffle", "serial"):
        yield name, lab.kernel("algorithms", f"scan_{name}", n // 256, 256, x, y, I(n))


@experiment("softmax of rows")
def softmax(lab: Laboratory) -> Result:
    rows, n = 8192, 512
    x, y = lab.zeros("x", 4 * rows * n), lab.buffer("y", 4 * rows * n)
    yield "a thread a row", lab.kernel("algorithms", "softmax_thread", rows // 128, 128, x, y, I(rows), I(n))
    yield "a warp a row", lab.kernel("algorithms", "softmax_warp", rows // 8, 256, x, y, I(rows), I(n))


@experiment("bodies that attract each other")
def bodies(lab: Laboratory) -> Result:
    for n in (4096, 16384):
        p, out = lab.zeros("p", 16 * n), lab.buffer("out", 16 * n)
        for name in ("global", "shared"):
            yield f"{name}, {n}", lab.kernel("algorithms", f"bodies_{name}", n // 256, 256, p, out, I(n))
