"""Experiments in which threads wait for each other or for copies: grids, clusters, pipelines, barriers, sleep, heap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory

Result = Iterator[tuple[str, float]]
I = np.int32  # noqa: E741
HERE = "cooperation"


@experiment("grid barriers by number of blocks")
def grid_blocks(lab: Laboratory) -> Result:
    a, b = lab.zeros("a", MB), lab.zeros("b", MB)
    for blocks in (1, 16, 66, 132, 264, 528):
        yield f"{blocks} blocks", lab.kernel("grids", "diffuse", blocks, 128, a, b, I(blocks * 128), I(50))


@experiment("grid barriers by threads a block")
def grid_threads(lab: Laboratory) -> Result:
    a, b = lab.zeros("a", MB), lab.zeros("b", MB)
    for threads in (32, 256, 1024):
        yield f"{threads} threads", lab.kernel("grids", "diffuse", 132, threads, a, b, I(132 * threads), I(50))


@experiment("steps: grid barriers or launches")
def grid_or_launches(lab: Laboratory) -> Result:
    n = 132 * 256
    a, b = lab.zeros("a", MB), lab.zeros("b", MB)
    yield "grid barriers, 20 steps", lab.kernel("grids", "diffuse", 132, 256, a, b, I(n), I(20))
    yield "grid barriers, 100 steps", lab.kernel("grids", "diffuse", 132, 256, a, b, I(n), I(100))
    step = lab.kernel(HERE, "diffuse_step", 132, 256, a, b, I(n))
    yield "one step in a launch", step


@experiment("a sum in one cooperative launch")
def grid_sum(lab: Laboratory) -> Result:
    parts, out = lab.zeros("parts", MB), lab.zeros("out", MB)
    for size in (1, 16, 256):
        x = lab.buffer("x", size * MB)
        yield f"{size} MB", lab.kernel("grids", "total", 264, 512, x, parts, out, I(size * MB // 4))


@experiment("rings of blocks by size of the cluster")
def rings(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for size in (2, 4, 8):
        yield f"{size} blocks", lab.kernel(HERE, f"ring_{size}", 112, 256, out, I(50))


@experiment("histograms by size of the cluster")
def histograms(lab: Laboratory) -> Result:
    n = 4 * MB
    x = lab.array(np.random.default_rng(8).integers(0, 4096, n).astype(I))
    bins = lab.zeros("bins", MB)
    for size in (1, 2, 4, 8):
        yield f"{size} blocks", lab.kernel(HERE, f"histogram_{size}", 112, 512, x, bins, I(n))


@experiment("reading all tiles of a cluster")
def gathers(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for size in (2, 4, 8):
        yield f"{size} blocks", lab.kernel(HERE, f"gather_{size}", 112, 256, out, I(20))


WAYS = ("registers", "async", "pipeline_2", "pipeline_4", "bulk_1", "bulk_2", "bulk_4")


@experiment("tiles by way into shared memory, from DRAM")
def tiles(lab: Laboratory) -> Result:
    x, y = lab.buffer("x", 128 * MB), lab.buffer("y", 128 * MB)
    for way in WAYS:
        yield way, lab.kernel(HERE, f"tiles_{way}", 264, 256, x, y, I(128 * MB // 4096))


@experiment("tiles by way into shared memory, from the L2")
def near_tiles(lab: Laboratory) -> Result:
    x, y = lab.buffer("x", 8 * MB), lab.buffer("y", 8 * MB)
    for way in WAYS:
        yield way, lab.kernel(HERE, f"tiles_{way}", 132, 256, x, y, I(8 * MB // 4096))


@experiment("asynchronous copies by bytes of one")
def pieces(lab: Laboratory) -> Result:
    x, out = lab.buffer("x", 64 * MB), lab.buffer("out", 16 * MB)
    for size in (4, 8, 16):
        for blocks in (132, 1056):
            rounds = 16 * MB // (blocks * 1024 * size)
            yield f"{size} bytes, {blocks} blocks", lab.kernel(HERE, f"pieces_{size}", blocks, 256, x, out, I(rounds))


@experiment("matrix products with asynchronous copies")
def matmul(lab: Laboratory) -> Result:
    for n in (512, 1024):
        a, b, c = (lab.buffer(name, 4 * n * n) for name in "abc")
        for way in ("tiles", "async"):
            yield f"{way}, {n}", lab.kernel(HERE, f"matmul_{way}", (n // 16, n // 16), (16, 16), a, b, c, I(n))


@experiment("barriers of a block by kind")
def meetings(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for kind in ("block", "parts", "object"):
        for threads in (64, 256, 1024):
            yield f"{kind}, {threads} threads", lab.kernel(HERE, f"meet_{kind}", 132, threads, out, I(200))


@experiment("producers and consumers by rounds")
def producers(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for rounds in (100, 400):
        yield f"{rounds} rounds", lab.kernel(HERE, "hand_over", 132, 256, out, I(rounds))


@experiment("backing off")
def back_off(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for times in (4, 8, 12):
        yield f"{times} times", lab.kernel(HERE, "back_off", 1, 32, out, I(times))


@experiment("lists on the device's heap")
def lists(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for blocks, threads in ((1, 1), (1, 32), (1, 256), (132, 32)):
        yield f"{blocks} x {threads}", lab.kernel(HERE, "lists", blocks, threads, out, I(10))
