"""The third set's launches that leave most of the GPU idle, or wait for one result after the other."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import Laboratory

Result = Iterator[tuple[str, float]]
I, F = np.int32, np.float32  # noqa: E741
TOPIC = "third_latency"


@experiment("third: odd-even sorts of one block")
def odd_even_sorts(lab: Laboratory) -> Result:
    rng = np.random.default_rng(101)
    for n, blocks in ((60, 1), (300, 1), (900, 1), (300, 40)):
        keys = lab.array(rng.random(n * blocks, np.float32))
        out = lab.buffer("out", 4 * n * blocks)
        threads = -(-n // 64) * 32
        yield (
            f"{n} keys, {blocks} blocks",
            lab.kernel(TOPIC, "odd_even_sort", blocks, threads, keys, out, I(n), shared=4 * n),
        )


@experiment("third: merge sorts of one block")
def merge_sorts(lab: Laboratory) -> Result:
    rng = np.random.default_rng(102)
    for n, threads in ((320, 32), (2000, 256), (2000, 1000)):
        keys, out = lab.array(rng.integers(0, 1 << 20, n, dtype=np.int32)), lab.buffer("out", 4 * n)
        yield (
            f"{n} keys, {threads} threads",
            lab.kernel(TOPIC, "merge_sort", 1, threads, keys, out, I(n), shared=8 * n),
        )


@experiment("third: prefix sums of one block, a part each")
def scans(lab: Laboratory) -> Result:
    n = 6144
    x = lab.array(np.random.default_rng(103).integers(-9, 10, n, dtype=np.int32))
    for threads in (48, 192, 768):
        yield f"{threads} threads", lab.kernel(TOPIC, "scan_parts", 1, threads, x, lab.buffer("y", 4 * n), I(n))


@experiment("third: where the largest number is")
def largest(lab: Laboratory) -> Result:
    for n in (700, 30_000):
        x, best = lab.array(np.random.default_rng(105).random(n)[:n].astype(np.float32)), lab.buffer("best", 64)
        yield f"a warp, {n}", lab.kernel(TOPIC, "argmax_warp", 1, 32, x, best, I(n))
        yield f"a block, {n}", lab.kernel(TOPIC, "argmax_block", 1, 512, x, best, I(n))


@experiment("third: inverses by Gauss and Jordan")
def inverses(lab: Laboratory) -> Result:
    rng = np.random.default_rng(106)
    for n, count in ((12, 1), (24, 1), (24, 66), (24, 500)):
        a = rng.random((count, n, n), np.float32) + n * np.eye(n, dtype=np.float32)
        out = lab.buffer("out", 4 * a.size)
        yield f"{count} of {n}", lab.kernel(TOPIC, "gauss_jordan", count, (n, n), lab.array(a), out, I(n))


@experiment("third: triangular systems in one block")
def substitutions(lab: Laboratory) -> Result:
    rng = np.random.default_rng(107)
    for n in (96, 384):
        a = np.tril(rng.random((n, n), np.float32) / n) + np.eye(n, dtype=np.float32)
        b, x = lab.array(rng.random(n, np.float32)), lab.buffer("x", 4 * n)
        yield f"by rows, {n}", lab.kernel(TOPIC, "substitute_forward", 1, n, lab.array(a), b, x, I(n))
        turned = lab.array(np.ascontiguousarray(a.T))
        yield f"by columns, {n}", lab.kernel(TOPIC, "substitute_by_columns", 1, n, turned, b, x, I(n))


@experiment("third: conjugate gradients in one block")
def gradients(lab: Laboratory) -> Result:
    rng = np.random.default_rng(108)
    for n in (32, 128):
        m = rng.random((n, n))
        a, b = lab.array(m @ m.T / n + np.eye(n)), lab.array(rng.random(n))
        yield (
            f"{n} unknowns",
            lab.kernel(TOPIC, "conjugate_gradients", 1, n, a, b, lab.buffer("x", 8 * n), I(n), I(12)),
        )


@experiment("third: chains of 32 states")
def markov(lab: Laboratory) -> Result:
    rng = np.random.default_rng(109)
    chance = rng.random((32, 32), np.float32)
    p = lab.array(chance / chance.sum(1, keepdims=True, dtype=np.float32))
    for chains, block in ((1, 32), (24, 96), (2400, 96)):
        start = lab.array(np.full(chains * 32, 1 / 32, np.float32))
        end = lab.buffer("end", 128 * chains)
        yield (
            f"{chains} chains",
            lab.kernel(TOPIC, "markov_steps", chains * 32 // block, block, p, start, end, I(15)),
        )


@experiment("third: shortest paths between 32 nodes")
def paths(lab: Laboratory) -> Result:
    rng = np.random.default_rng(110)
    for graphs in (1, 90):
        d = rng.integers(1, 1000, (graphs, 32, 32), dtype=np.int32)
        d[:, range(32), range(32)] = 0
        given, out = lab.array(d), lab.buffer("out", 4 * d.size)
        for form in ("shared", "global"):
            yield f"{form}, {graphs}", lab.kernel(TOPIC, f"all_paths_{form}", graphs, (32, 32), given, out)


@experiment("third: knapsacks of one block")
def knapsacks(lab: Laboratory) -> Result:
    rng = np.random.default_rng(111)
    items = 70
    weight, worth = (lab.array(rng.integers(1, most, items, dtype=np.int32)) for most in (60, 500))
    for wide in (160, 1024):
        given = (weight, worth, I(items), I(wide - 1))
        best, table = lab.buffer("best", 64), lab.buffer("table", 4 * wide * (items + 1))
        yield f"shared, {wide}", lab.kernel(TOPIC, "knapsack_shared", 1, wide, *given, best)
        yield f"global, {wide}", lab.kernel(TOPIC, "knapsack_global", 1, wide, *given, table, best)


def search_tree(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left and right children of the nodes of a binary search tree into which ``keys`` were put in this order."""
    left, right = np.full(len(keys), -1, np.int32), np.full(len(keys), -1, np.int32)
    for new in range(1, len(keys)):
        node = 0
        while True:
            side = left if keys[new] < keys[node] else right
            if side[node] < 0:
                side[node] = new
                break
            node = side[node]
    return left, right


@experiment("third: look-ups in a tree")
def trees(lab: Laboratory) -> Result:
    rng = np.random.default_rng(112)
    keys = rng.permutation(20_000).astype(np.int32)
    nodes = [lab.array(part) for part in (keys, *search_tree(keys))]
    wanted = rng.integers(0, 20_000, 40_000, dtype=np.int32)
    for count in (1, 32, 2048, 40_000):
        out = lab.buffer("depth", 4 * count)
        threads = min(64, count)
        yield (
            f"{count} keys",
            lab.kernel(TOPIC, "tree_lookup", -(-count // 64), threads, *nodes, lab.array(wanted), out, I(count)),
        )


@experiment("third: Kepler's equation")
def kepler(lab: Laboratory) -> Result:
    m = np.random.default_rng(113).uniform(0, 3, 33 * 96)
    single, double = lab.array(m.astype(np.float32)), lab.array(m)
    out = lab.buffer("out", 8 * m.size)
    yield "floats, one warp", lab.kernel(TOPIC, "kepler_float", 1, 32, single, out, F(0.3), I(30))
    yield "doubles, one warp", lab.kernel(TOPIC, "kepler_double", 1, 32, double, out, np.float64(0.3), I(30))
    yield "doubles, 33 blocks of 96", lab.kernel(TOPIC, "kepler_double", 33, 96, double, out, np.float64(0.3), I(30))


@experiment("third: generators of random numbers, one warp")
def generators(lab: Laboratory) -> Result:
    out = lab.buffer("state", 16 * 32)
    yield "linear, 64 bits", lab.kernel(TOPIC, "lcg64", 1, 32, out, I(700))
    yield "xorshift, 128 bits", lab.kernel(TOPIC, "xorshift128", 1, 32, out, I(700))
    yield "Philox, 700 rounds", lab.kernel(TOPIC, "philox", 1, 32, out, np.uint32(1234), I(700))


@experiment("third: pendulums and springs")
def pendulums(lab: Laboratory) -> Result:
    x = np.random.default_rng(114).uniform(-1, 1, 4000)
    single, double, out = lab.array(x.astype(np.float32)), lab.array(x), lab.buffer("out", 8 * x.size)
    yield "pendulums, 20", lab.kernel(TOPIC, "pendulum_float", 1, 20, single, out, F(0.01), I(60))
    yield "pendulums, 4000", lab.kernel(TOPIC, "pendulum_float", 40, 100, single, out, F(0.01), I(60))
    yield "springs of doubles, 20", lab.kernel(TOPIC, "spring_double", 1, 20, double, out, np.float64(0.01), I(400))
    yield "springs of doubles, 4000", lab.kernel(TOPIC, "spring_double", 40, 100, double, out, np.float64(0.01), I(400))


@experiment("third: small clusters of stars, step by step")
def clusters(lab: Laboratory) -> Result:
    place = np.random.default_rng(115).random((10_000, 4), np.float32)
    place[:, 3] /= 256
    stars = lab.array(place)
    for n, blocks in ((40, 1), (200, 1), (200, 50)):
        out = lab.buffer("out", 16 * n * blocks)
        yield f"{blocks} of {n}", lab.kernel(TOPIC, "small_cluster", blocks, n, stars, out, I(n), F(0.01), I(6))


@experiment("third: low-pass filters, a channel each")
def low_passes(lab: Laboratory) -> Result:
    samples = 600
    x = lab.array(np.random.default_rng(116).random(samples * 320, np.float32))
    for channels in (16, 320):
        block = min(80, channels)
        out = lab.buffer("out", 4 * samples * channels)
        shapes = {"side by side": (I(channels), I(1)), "one behind the other": (I(1), I(samples))}
        for name, strides in shapes.items():
            yield (
                f"{channels} {name}",
                lab.kernel(TOPIC, "low_pass", channels // block, block, x, out, I(samples), *strides),
            )


@experiment("third: checksums of messages")
def checksums(lab: Laboratory) -> Result:
    length = 300
    text = lab.array(np.random.default_rng(117).integers(0, 256, length * 64, dtype=np.uint8))
    table = lab.array(np.array([zlib.crc32(bytes([b]), 0xFFFFFFFF) ^ 0xFFFFFFFF for b in range(256)], np.uint32))
    crc = lab.buffer("crc", 256)
    yield "bit by bit", lab.kernel(TOPIC, "crc_bits", 1, 64, text, crc, I(length))
    yield "table in global memory", lab.kernel(TOPIC, "crc_table", 1, 64, text, table, crc, I(length))
    yield "table in shared memory", lab.kernel(TOPIC, "crc_shared", 1, 64, text, table, crc, I(length))
