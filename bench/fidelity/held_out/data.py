"""Launches whose work depends on the data: early exits, rows of uneven length, places that many threads want."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import Laboratory

Result = Iterator[tuple[str, float]]
I, F = np.int32, np.float32  # noqa: E741
TOPIC = "held_out_data"


@experiment("held out: Mandelbrot pictures")
def mandelbrot(lab: Laboratory) -> Result:
    w = 512
    out = lab.buffer("out", 4 * w * w)
    for most in (20, 200, 2000):
        yield (
            f"{most} rounds, 16 x 16",
            lab.kernel(TOPIC, "mandelbrot", (w // 16, w // 16), (16, 16), out, I(w), I(w), I(most)),
        )
    yield "2000 rounds, 256 x 1", lab.kernel(TOPIC, "mandelbrot", (2, w), (256, 1), out, I(w), I(w), I(2000))
    yield "2000 rounds, 8 x 4", lab.kernel(TOPIC, "mandelbrot", (w // 8, w // 4), (8, 4), out, I(w), I(w), I(2000))


@experiment("held out: Julia sets and Newton's method")
def fractals(lab: Laboratory) -> Result:
    w = 1024
    out = lab.buffer("out", 4 * w * w)
    args = (I(300),)
    yield "a thick set", lab.kernel(TOPIC, "julia", w * w // 256, 256, out, I(w), F(-0.4), F(0.6), *args)
    yield "dust", lab.kernel(TOPIC, "julia", w * w // 256, 256, out, I(w), F(0.4), F(0.4), *args)
    yield "Newton, loose", lab.kernel(TOPIC, "newton_fractal", (w // 32, w // 8), (32, 8), out, I(w), F(1e-2))
    yield "Newton, tight", lab.kernel(TOPIC, "newton_fractal", (w // 32, w // 8), (32, 8), out, I(w), F(1e-10))


@experiment("held out: integers with loops of their own")
def integers(lab: Laboratory) -> Result:
    rng = np.random.default_rng(1)
    n = 1 << 18
    out = lab.buffer("out", 4 * n)
    a, b = (lab.array(rng.integers(1, 1 << 30, n, dtype=np.int32)) for _ in range(2))
    yield "Collatz", lab.kernel(TOPIC, "collatz", n // 256, 256, out, I(n))
    yield "primes", lab.kernel(TOPIC, "primes", n // 256, 256, out, I(n))
    yield "common divisors", lab.kernel(TOPIC, "common_divisor", n // 256, 256, a, b, out, I(n))


def matrix(lab: Laboratory, lengths: np.ndarray, columns: int) -> tuple[Any, ...]:
    """A sparse matrix with rows of these lengths: starts, columns, values, a vector, a result."""
    rng = np.random.default_rng(2)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    count = int(start[-1])
    return (
        lab.array(start),
        lab.array(rng.integers(0, columns, count, dtype=np.int32)),
        lab.array(rng.random(count, np.float32)),
        lab.array(rng.random(columns, np.float32)),
        lab.buffer("y", 4 * len(lengths)),
        I(len(lengths)),
    )


@experiment("held out: sparse matrix times vector")
def sparse(lab: Laboratory) -> Result:
    rows = 1 << 15
    rng = np.random.default_rng(3)
    shapes = {
        "even rows": np.full(rows, 16),
        "skewed rows": np.minimum(4000, rng.pareto(1.2, rows) * 4 + 1).astype(int),
        "one heavy row": np.where(np.arange(rows) == 777, 20_000, 8),
    }
    for name, lengths in shapes.items():
        args = matrix(lab, lengths, rows)
        yield f"{name}, a thread each", lab.kernel(TOPIC, "sparse_rows", rows // 128, 128, *args)
        yield f"{name}, a warp each", lab.kernel(TOPIC, "sparse_warps", rows // 4, 128, *args)


def graph(lab: Laboratory, kind: str, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and edges of a graph: ``random`` with 8 neighbours, a ``star``, or ``skewed``."""
    rng = np.random.default_rng(4)
    if kind == "star":
        degree = np.where(np.arange(nodes) == 0, nodes - 1, 1)
        edges = np.concatenate([np.arange(1, nodes), np.zeros(nodes - 1, int)])
    else:
        degree = np.full(nodes, 8) if kind == "random" else np.minimum(5000, rng.pareto(1.1, nodes) * 3 + 1).astype(int)
        edges = rng.integers(0, nodes, int(degree.sum()))
        if kind == "skewed":
            edges = (edges.astype(np.float64) ** 2 / nodes).astype(int)
    return np.concatenate([[0], np.cumsum(degree)]).astype(np.int32), edges.astype(np.int32)


@experiment("held out: a level of breadth-first search, a push of page ranks")
def graphs(lab: Laboratory) -> Result:
    nodes = 1 << 16
    rng = np.random.default_rng(5)
    for kind in ("random", "star", "skewed"):
        start, edges = (lab.array(part) for part in graph(lab, kind, nodes))
        level = np.where(rng.random(nodes) < 0.2, 3, np.where(rng.random(nodes) < 0.5, 1, -1)).astype(np.int32)
        level[0] = 3
        given, found = lab.array(level), lab.array(level)
        yield (
            f"search, {kind}",
            lab.kernel(TOPIC, "search_level", nodes // 256, 256, start, edges, given, found, I(3), I(nodes)),
        )
        rank, following = lab.array(np.ones(nodes, np.float32)), lab.zeros("next", 4 * nodes)
        yield (
            f"push, {kind}",
            lab.kernel(TOPIC, "push_rank", nodes // 256, 256, start, edges, rank, following, I(nodes)),
        )


@experiment("held out: histograms of bytes")
def histograms(lab: Laboratory) -> Result:
    rng = np.random.default_rng(6)
    n = 1 << 22
    texts = {
        "even": rng.integers(0, 256, n, dtype=np.uint8),
        "mostly one": np.where(rng.random(n) < 0.9, 7, rng.integers(0, 256, n)).astype(np.uint8),
        "all equal": np.full(n, 7, np.uint8),
    }
    bins = lab.zeros("bins", 1024)
    for name, text in texts.items():
        x = lab.array(text)
        for form in ("global", "shared"):
            yield f"{name}, {form}", lab.kernel(TOPIC, f"histogram_{form}", 528, 256, x, bins, I(n))


@experiment("held out: searches")
def searches(lab: Laboratory) -> Result:
    rng = np.random.default_rng(7)
    n, queries = 1 << 22, 1 << 18
    table = np.sort(rng.integers(0, 1 << 30, n, dtype=np.int32))
    wanted = rng.integers(0, 1 << 30, queries, dtype=np.int32)
    held, out = lab.array(table), lab.buffer("out", 4 * queries)
    for name, keys in (("in any order", wanted), ("in order", np.sort(wanted))):
        yield (
            f"binary, {name}",
            lab.kernel(TOPIC, "lower_bound", queries // 256, 256, held, I(n), lab.array(keys), out, I(queries)),
        )
    for load in (0.5, 0.95):
        size = 1 << 16
        slots = np.zeros(size, np.uint32)
        keys = rng.choice(np.arange(1, 1 << 24, dtype=np.uint32), int(size * load), replace=False)
        for key in keys:
            slot = int(key) * 2654435761 & 0xFFFFFFFF & (size - 1)
            while slots[slot]:
                slot = slot + 1 & (size - 1)
            slots[slot] = key
        asked = lab.array(rng.choice(keys, queries))
        yield (
            f"hash table, {load:.0%} full",
            lab.kernel(
                TOPIC, "table_find", queries // 256, 256, lab.array(slots), np.uint32(size - 1), asked, out, I(queries)
            ),
        )


@experiment("held out: a word in a text")
def words(lab: Laboratory) -> Result:
    n = 1 << 22
    text = np.random.default_rng(8).integers(97, 123, n, dtype=np.int8)
    word = lab.array(np.frombuffer(b"a" * 24 + b"bcdefgh", np.int8))
    found = lab.array(np.zeros(1, np.int32))
    for name, letters in (("of letters drawn by lot", text), ("of nothing but a", np.full(n, 97, np.int8))):
        yield name, lab.kernel(TOPIC, "find_word", n // 256, 256, lab.array(letters), I(n), word, I(31), found)


@experiment("held out: reflecting spheres")
def rays(lab: Laboratory) -> Result:
    rng = np.random.default_rng(9)
    for count, w in ((8, 512), (64, 512), (64, 128)):
        sphere = np.concatenate([rng.uniform(-1.5, 1.5, (count, 3)), rng.uniform(0.1, 0.4, (count, 1))], axis=1)
        picture = lab.buffer("picture", 4 * w * w)
        args = (lab.array(sphere.astype(np.float32)), I(count), picture, I(w))
        yield f"{count} spheres, {w} x {w}", lab.kernel(TOPIC, "spheres", (w // 8, w // 8), (8, 8), *args)


@experiment("held out: neighbours of particles")
def particles(lab: Laboratory) -> Result:
    rng = np.random.default_rng(10)
    n, cells = 1 << 15, 64
    for name in ("spread evenly", "in a cluster"):
        place = rng.random((n, 2), np.float32)
        if name == "in a cluster":
            place = (0.5 + 0.5 * (place - 0.5) ** 3 * 4).astype(np.float32).clip(0, 0.999)
        cell = (place[:, 1] * cells).astype(int) * cells + (place[:, 0] * cells).astype(int)
        order = np.argsort(cell, kind="stable")
        first = np.searchsorted(cell[order], np.arange(cells * cells + 1)).astype(np.int32)
        args = (lab.array(place[order]), lab.array(first), I(cells), F(0.01), lab.buffer("count", 4 * n), I(n))
        yield name, lab.kernel(TOPIC, "neighbours", n // 128, 128, *args)


@experiment("held out: elements below a bound, gathered by an atomic counter")
def selections(lab: Laboratory) -> Result:
    n = 1 << 20
    x = lab.array(np.random.default_rng(11).integers(0, 1000, n, dtype=np.int32))
    out, count = lab.buffer("out", 4 * n), lab.array(np.zeros(1, np.int32))
    for share in (10, 500, 990):
        yield f"{share / 10:g} %", lab.kernel(TOPIC, "compact", n // 256, 256, x, out, count, I(share), I(n))


@experiment("held out: blocks and lanes with uneven work")
def uneven(lab: Laboratory) -> Result:
    rng = np.random.default_rng(12)
    blocks = 2000
    out = lab.buffer("out", 4 * blocks * 128)
    works = {
        "growing": np.arange(blocks),
        "drawn by lot": rng.permutation(blocks),
        "one heavy block": np.where(np.arange(blocks) == 100, 100_000, 100),
        "a heavy last block": np.where(np.arange(blocks) == blocks - 1, 50_000, 1000),
    }
    for name, work in works.items():
        yield name, lab.kernel(TOPIC, "uneven", blocks, 128, lab.array(work.astype(np.int32)), out)
    n = 1 << 16
    lanes = {"a heavy lane a warp": np.where(np.arange(n) % 32 == 5, 2000, 20), "lanes by lot": rng.integers(0, 500, n)}
    for name, work in lanes.items():
        yield name, lab.kernel(TOPIC, "uneven_lanes", n // 128, 128, lab.array(work.astype(np.int32)), out)


@experiment("held out: insertion sorts, a thread each")
def insertions(lab: Laboratory) -> Result:
    length, segments = 48, 8192
    rng = np.random.default_rng(13)
    keys = rng.integers(0, 1 << 20, (length, segments), dtype=np.int32)
    out = lab.buffer("out", 4 * length * segments)
    for name, given in (("by lot", keys), ("sorted", np.sort(keys, 0)), ("reversed", np.sort(keys, 0)[::-1])):
        x = lab.array(np.ascontiguousarray(given))
        yield name, lab.kernel(TOPIC, "insertion_sort", segments // 128, 128, x, out, I(length), I(segments))


@experiment("held out: walks and darts by lot")
def chance(lab: Laboratory) -> Result:
    n = 1 << 16
    for border in (5, 25):
        yield (
            f"walks to {border}",
            lab.kernel(TOPIC, "random_walk", n // 128, 128, lab.buffer("out", 4 * n), I(border), I(n)),
        )
    hits = lab.array(np.zeros(1, np.uint32))
    yield "darts, 500 throws", lab.kernel(TOPIC, "dart_board", 1056, 256, hits, I(500))
