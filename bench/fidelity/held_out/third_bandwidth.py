"""The third set's launches that move much memory: vectors, matrices, images, fields, particles, passes of sorts and
scans, layers of networks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import Laboratory

Result = Iterator[tuple[str, float]]
I, F = np.int32, np.float32  # noqa: E741
TOPIC = "third_bandwidth"


def blocks(n: int, block: int) -> int:
    """How many blocks it takes for ``n`` threads."""
    return -(-n // block)


def floats(lab: Laboratory, count: int, seed: int) -> object:
    """Floats between 0 and 1."""
    return lab.array(np.random.default_rng(seed).random(count, np.float32))


@experiment("third: triads")
def triads(lab: Laboratory) -> Result:
    for n in (150_000, 3_000_000, 21_000_000):
        args = (floats(lab, n, 301), floats(lab, n, 302), lab.buffer("a", 4 * n), F(3))
        yield f"{n} floats", lab.kernel(TOPIC, "triad", blocks(n, 160), 160, *args, I(n))
        if n == 3_000_000:
            yield f"{n} floats, 264 blocks", lab.kernel(TOPIC, "triad_loop", 264, 512, *args, I(n))
            yield f"{n} floats, 8 a thread", lab.kernel(TOPIC, "triad_part", n // 8 // 125, 125, *args, I(8))
            yield f"{n} floats, 40 a thread", lab.kernel(TOPIC, "triad_part", n // 40 // 125, 125, *args, I(40))


@experiment("third: copies by type")
def copies(lab: Laboratory) -> Result:
    n = 12_000_000
    x, y = floats(lab, 3 * n, 303), lab.buffer("y", 12 * n)
    for form in ("bytes", "shorts", "triples"):
        yield form, lab.kernel(TOPIC, f"copy_{form}", blocks(n, 384), 384, x, y, I(n))


@experiment("third: arrays turned round")
def turned_round(lab: Laboratory) -> Result:
    for n in (640_000, 12_800_000):
        x = lab.array(np.random.default_rng(304).integers(0, 1 << 30, n, dtype=np.int32))
        y = lab.buffer("y", 4 * n)
        yield f"{n}", lab.kernel(TOPIC, "reverse", n // 256, 256, x, y, I(n))
        yield f"{n}, by shared memory", lab.kernel(TOPIC, "reverse_shared", n // 256, 256, x, y, I(n))


@experiment("third: types and planes")
def conversions(lab: Laboratory) -> Result:
    n = 5_000_000
    x = floats(lab, 2 * n, 305)
    bytes_ = lab.array(np.random.default_rng(306).integers(0, 256, 3 * n, dtype=np.uint8))
    parts = [lab.buffer(name, 4 * n) for name in ("p", "q", "r")]
    grid = blocks(n, 288)
    yield "complex to planes", lab.kernel(TOPIC, "take_apart", grid, 288, x, *parts[:2], I(n))
    yield "colours to planes", lab.kernel(TOPIC, "planes", grid, 288, bytes_, *parts, I(n))
    yield "bytes to floats", lab.kernel(TOPIC, "widen", grid, 288, bytes_, parts[0], I(n))
    doubles = lab.array(np.random.default_rng(307).random(n))
    yield "doubles to floats", lab.kernel(TOPIC, "narrow", grid, 288, doubles, parts[0], I(n))


@experiment("third: matrices element by element")
def matrices(lab: Laboratory) -> Result:
    w, h = 2500, 1800
    a, b, c = floats(lab, w * h, 308), floats(lab, w * h, 309), lab.buffer("c", 4 * w * h)
    for x, y in ((128, 2), (12, 12), (4, 48)):
        grid = (blocks(w, x), blocks(h, y))
        yield f"sums, {x} x {y}", lab.kernel(TOPIC, "add_matrices", grid, (x, y), a, b, c, I(w), I(h))
    grid = (blocks(w, 32), blocks(h, 4))
    yield "outer product", lab.kernel(TOPIC, "outer_product", grid, (32, 4), a, b, c, I(w), I(h))
    size = (I(1111), I(900))
    yield "a piece", lab.kernel(TOPIC, "cut_out", (35, 225), (32, 4), a, c, I(w), I(777), I(555), *size)


@experiment("third: axes of a block exchanged")
def axes(lab: Laboratory) -> Result:
    for nx, ny, nz in ((96, 80, 72), (300, 150, 200)):
        n = nx * ny * nz
        x, y = floats(lab, n, 310), lab.buffer("y", 4 * n)
        for form in ("outer", "ends"):
            grid = (blocks(nx, 96), ny, nz)
            yield (
                f"{form}, {nx} x {ny} x {nz}",
                lab.kernel(TOPIC, f"swap_{form}", grid, 96, x, y, I(nx), I(ny), I(nz)),
            )


@experiment("third: matrices of diagonals")
def diagonals(lab: Laboratory) -> Result:
    n = 1_200_000
    x, y = floats(lab, n, 311), lab.buffer("y", 4 * n)
    for name, offsets in (("3 near", (-1, 0, 1)), ("7 far", (-90_000, -300, -1, 0, 1, 300, 90_000))):
        value = floats(lab, n * len(offsets), 312)
        offset = lab.array(np.array(offsets, np.int32))
        args = (value, offset, I(len(offsets)), x, y, I(n))
        yield name, lab.kernel(TOPIC, "diagonals", blocks(n, 128), 128, *args)


@experiment("third: Gauss filters")
def gauss_filters(lab: Laboratory) -> Result:
    for w, h in ((300, 200), (3000, 1700)):
        a, b = floats(lab, w * h, 313), lab.buffer("b", 4 * w * h)
        for form in ("global", "tile"):
            grid = (blocks(w, 16), blocks(h, 16))
            yield f"{form}, {w} x {h}", lab.kernel(TOPIC, f"gauss_{form}", grid, (16, 16), a, b, I(w), I(h))


@experiment("third: pictures mirrored, turned and shrunk")
def pictures(lab: Laboratory) -> Result:
    w, h = 2400, 1600
    a, b = floats(lab, w * h, 314), lab.buffer("b", 4 * w * h)
    for form in ("mirror", "quarter_turn"):
        for x, y in ((32, 4), (8, 16)):
            grid = (w // x, h // y)
            yield f"{form}, {x} x {y}", lab.kernel(TOPIC, form, grid, (x, y), a, b, I(w), I(h))
    grid = (blocks(w // 4, 32), blocks(h // 4, 4))
    yield "a quarter of the size", lab.kernel(TOPIC, "shrink", grid, (32, 4), a, b, I(w // 4), I(h // 4))


@experiment("third: tables and powers for pixels")
def tables(lab: Laboratory) -> Result:
    n = 7_000_000
    rng = np.random.default_rng(315)
    pixels, table = (
        lab.array(rng.integers(0, 256, n, dtype=np.uint8)),
        lab.array(np.arange(256, dtype=np.uint8)[::-1].copy()),
    )
    out = lab.buffer("out", 4 * n)
    for form in ("look_up", "look_up_shared"):
        yield form, lab.kernel(TOPIC, form, blocks(n, 256), 256, pixels, table, out, I(n))
    yield "powers", lab.kernel(TOPIC, "gamma_power", blocks(n, 256), 256, floats(lab, n, 316), out, F(2.2), I(n))


@experiment("third: waves and fields")
def fields(lab: Laboratory) -> Result:
    for w, h in ((640, 480), (2600, 2000)):
        parts = [floats(lab, w * h, seed) for seed in (317, 318, 319)]
        out, size, grid = lab.buffer("out", 8 * w * h), (I(w), I(h)), (blocks(w, 64), blocks(h, 4))
        yield f"waves, {w}", lab.kernel(TOPIC, "wave", grid, (64, 4), *parts[:2], out, *size)
        yield f"magnetic fields, {w}", lab.kernel(TOPIC, "magnetic_step", grid, (64, 4), *parts, out, *size)
        yield f"wind, {w}", lab.kernel(TOPIC, "upwind", grid, (64, 4), *parts, out, *size)
        doubles = lab.array(np.random.default_rng(320).random(w * h))
        yield f"13 points of doubles, {w}", lab.kernel(TOPIC, "wide_star", grid, (64, 4), doubles, out, *size)


@experiment("third: particles in flight")
def particles(lab: Laboratory) -> Result:
    n = 1_500_000
    place, speed, force = (floats(lab, 4 * n, seed) for seed in (321, 322, 323))
    to, faster = lab.buffer("to", 16 * n), lab.buffer("faster", 16 * n)
    grid = blocks(n, 128)
    yield "leapfrog", lab.kernel(TOPIC, "leapfrog", grid, 128, place, speed, force, to, faster, F(0.01), I(n))
    yield "between walls", lab.kernel(TOPIC, "bounce", grid, 128, place, speed, to, F(0.5), I(n))
    yield "energy", lab.kernel(TOPIC, "kinetic", 660, 128, speed, to, I(n))
    yield "cells", lab.kernel(TOPIC, "cell_numbers", grid, 128, place, to, I(50), I(n))


@experiment("third: steps of sorts")
def sort_steps(lab: Laboratory) -> Result:
    n = 6_400_000
    rng = np.random.default_rng(324)
    key = rng.integers(0, 1 << 31, n, dtype=np.uint32)
    held, out = lab.array(key), lab.buffer("out", 4 * n)
    yield "odd-even pass", lab.kernel(TOPIC, "odd_even_pass", blocks(n // 2, 256), 256, held, out, I(1), I(n))
    yield "flags of a bit", lab.kernel(TOPIC, "bit_flags", n // 256, 256, held, out, I(7), I(n))
    flag = 1 - (key >> 7 & 1).astype(np.int32)
    before = lab.array((np.cumsum(flag, dtype=np.int32) - flag).astype(np.int32))
    args = (held, before, out, I(7), I(int(flag.sum())), I(n))
    yield "split by a bit", lab.kernel(TOPIC, "split_by_bit", n // 256, 256, *args)
    for run in (4, 64):
        runs = lab.array(np.sort(key.astype(np.int32).reshape(-1, run), axis=1))
        grid = blocks(n // (2 * run), 128)
        yield f"merges of {run}", lab.kernel(TOPIC, "merge_runs", grid, 128, runs, out, I(run), I(n))


@experiment("third: scans of parts")
def scans(lab: Laboratory) -> Result:
    for n in (384_000, 7_680_000):
        x = lab.array(np.random.default_rng(325).integers(-9, 10, n, dtype=np.int32))
        y, sums = lab.buffer("y", 4 * n), lab.buffer("sums", n)
        yield f"warps, {n}", lab.kernel(TOPIC, "scan_warps", n // 256, 256, x, y, sums, I(n))
        yield f"four a thread, {n}", lab.kernel(TOPIC, "scan_fours", n // 512, 128, x, y, sums)


@experiment("third: rows of a table for words")
def embeddings(lab: Laboratory) -> Result:
    rng = np.random.default_rng(326)
    width, words, many = 48, 40_000, 60_000
    table, out, n = floats(lab, width * words, 327), lab.buffer("out", 4 * width * many), width * many
    asked = rng.integers(0, words, many, dtype=np.int32)
    chosen = {"by lot": asked, "in order": np.sort(asked), "a few words": asked % 100}
    for name, word in chosen.items():
        args = (table, lab.array(word), out, I(width), I(n))
        yield name, lab.kernel(TOPIC, "embed", blocks(n, 240), 240, *args)


@experiment("third: sums and counts of long arrays")
def sums(lab: Laboratory) -> Result:
    n = 9_000_000
    a, b, out, more = floats(lab, n, 328), floats(lab, n, 329), lab.buffer("out", n), lab.zeros("more", n)
    yield "counts by votes", lab.kernel(TOPIC, "count_above", blocks(n, 256), 256, a, out, F(0.7), I(n))
    yield "moments", lab.kernel(TOPIC, "moments", 528, 192, a, out, more, I(n))
    for grid in (66, 1320):
        yield f"dot product, {grid} blocks", lab.kernel(TOPIC, "dot_atomic", grid, 256, a, b, more, I(n))


@experiment("third: layers of a network")
def layers(lab: Laboratory) -> Result:
    pixels, channels, pictures = 28 * 28, 24, 120
    n = pixels * channels * pictures
    x, out = floats(lab, n, 330), lab.buffer("out", 4 * n)
    scale, shift = floats(lab, channels, 331), floats(lab, channels, 332)
    yield "sigmoid", lab.kernel(TOPIC, "sigmoid", blocks(n, 256), 256, x, out, I(n))
    args = (x, scale, shift, out, I(pixels), I(channels), I(n))
    yield "scaled channels", lab.kernel(TOPIC, "scale_channels", blocks(n, 256), 256, *args)
    size = (I(700), I(650))
    yield "largest of four", lab.kernel(TOPIC, "max_pool", (22, 163), (32, 4), x, out, *size)
    for w, k in ((400, 3), (200, 7)):
        grid = blocks((w - k + 1) ** 2, 128)
        yield f"patches of {k} x {k}", lab.kernel(TOPIC, "patches", grid, 128, x, out, I(w), I(k))
