"""Experiments in which global memory, its caches and the ways of reaching it decide."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory
from bench.fidelity.peers import reads_of

Result = Iterator[tuple[str, float]]
I = np.int32  # noqa: E741


@experiment("vector addition by block size")
def by_block(lab: Laboratory) -> Result:
    n = 64 * MB
    a, b, c = (lab.buffer(name, 4 * n) for name in "abc")
    for threads in (32, 64, 128, 256, 512, 1024):
        yield f"{threads} threads", lab.kernel("memory", "add", n // threads, threads, a, b, c, I(n))


@experiment("vector addition by length")
def by_length(lab: Laboratory) -> Result:
    a, b, c = (lab.buffer(name, 256 * MB) for name in "abc")
    for n in (1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26):
        x, y, z = (v[:n] for v in (a, b, c))
        yield f"{n} elements", lab.kernel("memory", "add", n // 256, 256, x, y, z, I(n))


@experiment("strided loads")
def strided(lab: Laboratory) -> Result:
    n = 8 * MB
    a, b = (lab.buffer(name, 1024 * MB) for name in "ab")
    for stride in (1, 2, 4, 8, 16, 32):
        yield f"stride {stride}", lab.kernel("memory", "strided", n // 256, 256, a, b, I(n), I(stride))


@experiment("strided stores")
def strided_stores(lab: Laboratory) -> Result:
    n = 8 * MB
    a, b = (lab.buffer(name, 1024 * MB) for name in "ab")
    for stride in (1, 2, 4, 8, 32):
        yield f"stride {stride}", lab.kernel("memory", "strided_store", n // 256, 256, a, b, I(n), I(stride))


@experiment("misaligned loads")
def offsets(lab: Laboratory) -> Result:
    n = 32 * MB
    a, b = (lab.buffer(name, 256 * MB) for name in "ab")
    for offset in (0, 1, 8, 16, 32):
        yield f"offset {offset}", lab.kernel("memory", "offset_copy", n // 256, 256, a, b, I(n), I(offset))


@experiment("copies by width of a load")
def widths(lab: Laboratory) -> Result:
    a, b = (lab.buffer(name, 256 * MB) for name in "ab")
    for width, name in ((1, "copy1"), (2, "copy2"), (4, "copy4")):
        n = 64 * MB // width
        yield f"float{width}", lab.kernel("memory", name, n // 256, 256, a, b, I(n))


@experiment("copies by width of a load, data in the L2")
def widths_small(lab: Laboratory) -> Result:
    a, b = (lab.buffer(name, 8 * MB) for name in "ab")
    for width, name in ((1, "copy1"), (2, "copy2"), (4, "copy4")):
        n = 2 * MB // width
        yield f"float{width}", lab.kernel("memory", name, n // 256, 256, a, b, I(n))


@experiment("repeated reads by size of the data")
def l2_reads(lab: Laboratory) -> Result:
    out = lab.buffer("out", MB)
    for megabytes in (4, 16, 32, 128, 512):
        x = lab.buffer("x", megabytes * MB)
        n = megabytes * MB // 16
        yield f"{megabytes} MB", lab.kernel("memory", "read4", 132 * 8, 256, x, out, I(n))


@experiment("grid-stride loop by number of blocks")
def grid_stride(lab: Laboratory) -> Result:
    n = 32 * MB
    a, b = (lab.buffer(name, 4 * n) for name in "ab")
    for per in (1, 2, 4, 8, 32):
        yield f"{per} blocks an SM", lab.kernel("memory", "grid_stride", 132 * per, 256, a, b, I(n))


@experiment("occupancy limited by shared memory")
def occupancy(lab: Laboratory) -> Result:
    n = 64 * MB
    a, b, c = (lab.buffer(name, 4 * n) for name in "abc")
    for kilobytes in (0, 32, 44, 56, 76, 112, 200):
        yield (
            f"{kilobytes} KB a block",
            lab.kernel("memory", "add", n // 256, 256, a, b, c, I(n), shared=kilobytes << 10),
        )


@experiment("array of structures or structure of arrays")
def structures(lab: Laboratory) -> Result:
    n = 16 * MB
    p, out = lab.buffer("p", 16 * n), lab.buffer("out", 4 * n)
    fields = [p[n * k : n * (k + 1)] for k in range(4)]
    yield "AoS, one field", lab.kernel("memory", "aos_one", n // 256, 256, p, out, I(n))
    yield "SoA, one field", lab.kernel("memory", "soa_one", n // 256, 256, fields[0], out, I(n))
    yield "AoS, all fields", lab.kernel("memory", "aos_all", n // 256, 256, p, out, I(n))
    yield "SoA, all fields", lab.kernel("memory", "soa_all", n // 256, 256, *fields, out, I(n))


def indices(kind: str, n: int, length: int) -> np.ndarray:
    generator = np.random.default_rng(7)
    if kind == "in order":
        return np.arange(n, dtype=np.int32)
    if kind == "shuffled within 32":
        return (
            np.arange(n) // 32 * 32 + generator.permuted(np.tile(np.arange(32), (n // 32, 1)), axis=1).ravel()
        ).astype(np.int32)
    if kind == "reversed":
        return np.arange(n - 1, -1, -1, dtype=np.int32)
    return generator.integers(0, length // 4, n, dtype=np.int32)


@experiment("gathers by order of the indices")
def gathers(lab: Laboratory) -> Result:
    n = 4 * MB
    y = lab.buffer("y", 4 * n)
    for kind, length in (
        ("in order", 16 * MB),
        ("reversed", 16 * MB),
        ("shuffled within 32", 16 * MB),
        ("random in 1 MB", MB),
        ("random in 16 MB", 16 * MB),
        ("random in 512 MB", 512 * MB),
    ):
        x = lab.buffer("x", length)
        index = lab.array(indices(kind, n, length))
        yield kind, lab.kernel("memory", "gather", n // 256, 256, x, index, y, I(n))


@experiment("scatters by order of the indices")
def scatters(lab: Laboratory) -> Result:
    n = 4 * MB
    x = lab.buffer("x", 4 * n)
    for kind, length in (("in order", 16 * MB), ("random in 16 MB", 16 * MB), ("random in 512 MB", 512 * MB)):
        y = lab.buffer("y", length)
        index = lab.array(indices(kind, n, length))
        yield kind, lab.kernel("memory", "scatter", n // 256, 256, x, index, y, I(n))


@experiment("dependent loads by size of the data")
def chases(lab: Laboratory) -> Result:
    out = lab.buffer("out", MB)
    for label, size, stride in (
        ("16 KB", 16 << 10, 32),
        ("1 MB", MB, 32),
        ("16 MB", 16 * MB, 1056),
        ("512 MB", 512 * MB, 33056),
    ):
        x = lab.zeros("zeros", size)
        args = (x, out, I(16384), I(stride), I(size // 4 - 1))
        yield label, lab.kernel("memory", "chase", 1, 1, *args)


@experiment("one-dimensional stencil")
def stencil(lab: Laboratory) -> Result:
    n = 16 * MB
    a, b = (lab.buffer(name, 4 * n) for name in "ab")
    for radius in (1, 4, 16):
        yield f"global, radius {radius}", lab.kernel("memory", "stencil_global", n // 256, 256, a, b, I(n), I(radius))
        yield (
            f"shared, radius {radius}",
            lab.kernel("memory", "stencil_shared", n // 256, 256, a, b, I(n), I(radius), shared=4 * (256 + 2 * radius)),
        )


@experiment("two-dimensional stencil")
def heat(lab: Laboratory) -> Result:
    w = h = 4096
    a, b = (lab.buffer(name, 4 * w * h) for name in "ab")
    for bx, by in ((32, 8), (16, 16), (8, 32), (256, 1)):
        yield f"global, {bx} x {by}", lab.kernel("memory", "heat", (w // bx, h // by), (bx, by), a, b, I(w), I(h))
    yield "shared, 32 x 8", lab.kernel("memory", "heat_shared", (w // 32, h // 32), (32, 8), a, b, I(w), I(h))


@experiment("transposes")
def transposes(lab: Laboratory) -> Result:
    n = 4096
    a, b = (lab.buffer(name, 4 * n * n) for name in "ab")
    for name in ("copy", "naive", "reads", "tiled", "padded"):
        yield name, lab.kernel("memory", f"transpose_{name}", (n // 32, n // 32), (32, 8), a, b, I(n))


@experiment("transposes by block shape")
def transpose_shapes(lab: Laboratory) -> Result:
    n = 4096
    a, b = (lab.buffer(name, 4 * n * n) for name in "ab")
    for rows in (2, 8, 32):
        yield f"padded, 32 x {rows}", lab.kernel("memory", "transpose_padded", (128, 128), (32, rows), a, b, I(n))
        yield f"naive, 32 x {rows}", lab.kernel("memory", "transpose_naive", (128, 128), (32, rows), a, b, I(n))


@experiment("small transposes, data in the L2")
def small_transposes(lab: Laboratory) -> Result:
    n = 1024
    a, b = (lab.buffer(name, 4 * n * n) for name in "ab")
    for name in ("copy", "naive", "tiled", "padded"):
        yield name, lab.kernel("memory", f"transpose_{name}", (n // 32, n // 32), (32, 8), a, b, I(n))


@experiment("tables in constant and global memory")
def tables(lab: Laboratory) -> Result:
    n = 4 * MB
    y = lab.buffer("y", 4 * n)
    for spread in (1, 4, 32):
        for kind in ("constant", "global"):
            yield (
                f"{kind}, {spread} addresses a warp",
                lab.kernel("memory", f"lookup_{kind}", n // 256, 256, y, y, I(n), I(spread)),
            )


@experiment("sums of rows and columns")
def sums(lab: Laboratory) -> Result:
    n = 4096
    x, y = lab.buffer("x", 4 * n * n), lab.buffer("y", 4 * n)
    yield "rows, a thread each", lab.kernel("memory", "row_sums", n // 128, 128, x, y, I(n), I(n))
    yield "columns, a thread each", lab.kernel("memory", "column_sums", n // 128, 128, x, y, I(n), I(n))
    yield "rows, a warp each", lab.kernel("memory", "row_sums_warp", n // 8, 256, x, y, I(n), I(n))


@experiment("elements a thread")
def elements(lab: Laboratory) -> Result:
    n = 16 * MB
    a, b = (lab.buffer(name, 4 * n) for name in "ab")
    for each in (1, 2, 4, 16, 64):
        yield f"{each} elements", lab.kernel("memory", "grid_stride", n // each // 256, 256, a, b, I(n))


@experiment("own memory, read as a peer's")
def own_memory(lab: Laboratory) -> Result:
    """The work of ``peers: kernels that read a peer's memory``, on one device."""
    yield from reads_of(lab, lab.zeros("own", 256 * MB).data.ptr)
