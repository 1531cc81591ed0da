"""Launches that leave most of the GPU idle, or wait for one result after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory

Result = Iterator[tuple[str, float]]
I = np.int32  # noqa: E741
TOPIC = "held_out_latency"


def numbers(lab: Laboratory, count: int, seed: int = 1) -> object:
    """Floats between 1 and 2."""
    return lab.array(np.random.default_rng(seed).random(count, np.float32) + 1)


@experiment("held out: walks of linked lists")
def lists(lab: Laboratory) -> Result:
    rng = np.random.default_rng(3)
    for size, name in ((4 << 10, "4 KB"), (1 * MB, "1 MB"), (128 * MB, "128 MB")):
        order = rng.permutation(size // 4)
        following = np.empty_like(order)
        following[order] = np.roll(order, -1)
        chain = lab.array(following.astype(np.int32))
        yield f"one warp, {name}", lab.kernel(TOPIC, "walk_list", 1, 32, chain, lab.buffer("out", 4096), I(500))
        yield f"one thread, {name}", lab.kernel(TOPIC, "walk_list", 1, 1, chain, lab.buffer("out", 4096), I(500))


@experiment("held out: prefix sums of one block")
def scans(lab: Laboratory) -> Result:
    x, y = numbers(lab, 1 << 16), lab.buffer("y", 4 << 16)
    yield "Hillis and Steele, 256", lab.kernel(TOPIC, "scan_hillis", 1, 256, x, y, I(256), shared=1024)
    yield "Hillis and Steele, 1024", lab.kernel(TOPIC, "scan_hillis", 1, 1024, x, y, I(1024), shared=4096)
    yield "Hillis and Steele, 60 blocks", lab.kernel(TOPIC, "scan_hillis", 60, 1024, x, y, I(1024), shared=4096)
    yield "Blelloch, 1024", lab.kernel(TOPIC, "scan_blelloch", 1, 512, x, y, I(1024), shared=4096)
    yield "shuffles, 1024", lab.kernel(TOPIC, "scan_shuffle", 1, 1024, x, y)


@experiment("held out: bitonic sorts of one block")
def sorts(lab: Laboratory) -> Result:
    keys = lab.array(np.random.default_rng(5).integers(0, 1 << 30, 1 << 17, dtype=np.int32))
    out = lab.buffer("out", 4 << 17)
    for n in (128, 512, 1024):
        yield f"{n} keys", lab.kernel(TOPIC, "sort_bitonic", 1, n, keys, out, I(n), shared=4 * n)
    yield "100 blocks of 1024", lab.kernel(TOPIC, "sort_bitonic", 100, 1024, keys, out, I(1024), shared=4096)


@experiment("held out: tridiagonal systems, a thread each")
def tridiagonal(lab: Laboratory) -> Result:
    length = 64
    for systems in (32, 1024, 16384):
        a, c, d = (numbers(lab, length * systems, seed) for seed in (1, 2, 3))
        b = lab.array(np.random.default_rng(4).random(length * systems, np.float32) + 4)
        x, work = lab.buffer("x", 4 * length * systems), lab.buffer("work", 4 * length * systems)
        yield (
            f"{systems} systems",
            lab.kernel(
                TOPIC, "tridiagonal", -(-systems // 64), min(64, systems), a, b, c, d, x, work, I(length), I(systems)
            ),
        )


@experiment("held out: chains of functions")
def chains(lab: Laboratory) -> Result:
    x, y = numbers(lab, 1 << 16), lab.buffer("y", 8 << 16)
    doubles = lab.array(np.random.default_rng(1).random(1 << 16) + 1)
    for name in ("sine", "exponential", "root"):
        yield f"{name}, one warp", lab.kernel(TOPIC, f"chain_{name}", 1, 32, x, y, I(200))
    yield "sine, 132 blocks of 64", lab.kernel(TOPIC, "chain_sine", 132, 64, x, y, I(200))
    yield "division of doubles, one warp", lab.kernel(TOPIC, "chain_division", 1, 32, doubles, y, I(100))
    yield "remainder, one warp", lab.kernel(TOPIC, "chain_remainder", 1, 32, x, y, I(300), np.uint32(1000003))


@experiment("held out: a dot product in one block")
def dot(lab: Laboratory) -> Result:
    for n in (4 << 10, 64 << 10, 1 << 20):
        a, b = numbers(lab, n, 1), numbers(lab, n, 2)
        yield f"{n >> 10} K numbers", lab.kernel(TOPIC, "dot_one_block", 1, 256, a, b, lab.buffer("o", 64), I(n))


@experiment("held out: small matrix products")
def products(lab: Laboratory) -> Result:
    for n in (32, 64, 128, 256):
        a, b, c = numbers(lab, n * n, 1), numbers(lab, n * n, 2), lab.buffer("c", 4 * n * n)
        for form in ("naive", "tiled"):
            yield (
                f"{form}, {n}",
                lab.kernel(TOPIC, f"product_{form}", (n // 16, n // 16), (16, 16), a, b, c, I(n)),
            )


@experiment("held out: Cholesky factors of 32 x 32")
def cholesky(lab: Laboratory) -> Result:
    rng = np.random.default_rng(6)
    m = rng.random((1000, 32, 32), np.float32)
    positive = m @ m.transpose(0, 2, 1) + 32 * np.eye(32, dtype=np.float32)
    a, out = lab.array(positive.astype(np.float32)), lab.buffer("out", 4 * m.size)
    for count in (1, 132, 1000):
        yield f"{count} matrices", lab.kernel(TOPIC, "cholesky32", count, (32, 32), a, out)


@experiment("held out: Fourier transforms of 256")
def fourier(lab: Laboratory) -> Result:
    x, y = numbers(lab, 512 * 1024), lab.buffer("y", 2048 * 1024)
    for count in (1, 64, 1024):
        yield f"{count} transforms", lab.kernel(TOPIC, "fourier256", count, 128, x, y)


@experiment("held out: edit distances")
def edits(lab: Laboratory) -> Result:
    rng = np.random.default_rng(7)
    for n in (128, 512):
        a, b = (lab.array(rng.integers(97, 101, n, dtype=np.int8)) for _ in range(2))
        yield (
            f"{n} characters",
            lab.kernel(TOPIC, "edit_distance", 1, n, a, b, lab.buffer("o", 64), I(n), shared=12 * (n + 1)),
        )


@experiment("held out: rounds in shared memory")
def rounds(lab: Laboratory) -> Result:
    field = lab.array(np.random.default_rng(8).integers(0, 2, 1024, dtype=np.uint8))
    yield "game of life, 50 rounds", lab.kernel(TOPIC, "life_rounds", 1, (32, 32), field, lab.buffer("o", 4096), I(50))
    rod, out = numbers(lab, 1 << 17), lab.buffer("out", 4 << 17)
    yield "heat, 200 rounds of 256", lab.kernel(TOPIC, "heat_rod", 1, 256, rod, out, I(200))
    yield "heat, 200 rounds of 1024", lab.kernel(TOPIC, "heat_rod", 1, 1024, rod, out, I(200))
    yield "heat, 200 rounds, 120 blocks", lab.kernel(TOPIC, "heat_rod", 120, 1024, rod, out, I(200))


@experiment("held out: one thread alone")
def alone(lab: Laboratory) -> Result:
    x, out = numbers(lab, 4096), lab.buffer("out", 4096)
    yield "a sum of 4096", lab.kernel(TOPIC, "serial_sum", 1, 1, x, out, I(4096))
    yield "Fibonacci, 2000 terms", lab.kernel(TOPIC, "fibonacci", 1, 1, out, I(2000))
    yield "Fibonacci, 2000 terms, 256 threads", lab.kernel(TOPIC, "fibonacci", 1, 256, out, I(2000))


@experiment("held out: rounds of shuffles, barriers and tickets")
def waits(lab: Laboratory) -> Result:
    x, y = numbers(lab, 1 << 16), lab.buffer("y", 4 << 16)
    yield "shuffles, one warp", lab.kernel(TOPIC, "shuffle_rounds", 1, 32, x, y, I(100))
    yield "shuffles, 32 warps", lab.kernel(TOPIC, "shuffle_rounds", 1, 1024, x, y, I(100))
    yield "barriers, 64 threads", lab.kernel(TOPIC, "barrier_rounds", 1, 64, x, y, I(200))
    yield "barriers, 1024 threads", lab.kernel(TOPIC, "barrier_rounds", 1, 1024, x, y, I(200))
    counter = lab.array(np.zeros(2, np.int32))
    yield "tickets, one warp", lab.kernel(TOPIC, "ticket_rounds", 1, 32, counter, y, I(100))
    yield "tickets, one thread", lab.kernel(TOPIC, "ticket_rounds", 1, 1, counter, y, I(100))


@experiment("held out: polynomials by Horner's rule")
def horner(lab: Laboratory) -> Result:
    c, x, y = numbers(lab, 256), numbers(lab, 1 << 20), lab.buffer("y", 4 << 20)
    for n in (32, 8 << 10, 1 << 20):
        yield f"{n} points", lab.kernel(TOPIC, "horner", -(-n // 128), min(n, 128), c, x, y, I(200), I(n))
