"""Experiments in which instructions, divergence and shared memory decide."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory

Result = Iterator[tuple[str, float]]
I = np.int32  # noqa: E741


@experiment("dependent arithmetic by blocks an SM")
def by_blocks(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for per in (1, 2, 4, 8):
        yield f"{per} blocks", lab.kernel("arithmetic", "fma_float", 132 * per, 256, out, I(4096))


@experiment("dependent arithmetic by threads")
def by_threads(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for threads in (32, 128, 256, 512, 1024):
        yield f"{threads} threads", lab.kernel("arithmetic", "fma_float", 132, threads, out, I(4096))


@experiment("independent chains of arithmetic")
def chains(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for count in (1, 2, 4):
        yield f"{count} chains", lab.kernel("arithmetic", f"chains{count}", 132, 128, out, I(8192))


OPERATIONS = (
    "fma_float",
    "fma_double",
    "mad_int",
    "xor_int",
    "mad_long",
    "divide_int",
    "divide_float",
    "sqrt_float",
    "fast_sin",
    "full_sin",
    "full_exp",
    "divide_double",
)


@experiment("operations by kind, full SMs")
def kinds(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for name in OPERATIONS:
        yield name, lab.kernel("arithmetic", name, 264, 1024, out, I(512))


@experiment("operations by kind, one warp")
def latencies(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for name in OPERATIONS:
        yield name, lab.kernel("arithmetic", name, 1, 32, out, I(2048))


@experiment("divergence by number of ways")
def divergence(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for ways in (1, 2, 4, 8, 16, 32):
        yield f"{ways} ways", lab.kernel("arithmetic", "diverge", 1056, 256, out, I(512), I(ways))


@experiment("branches between lanes or between warps")
def branches(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    yield "lanes", lab.kernel("arithmetic", "branch_lane", 2112, 256, out, I(1024))
    yield "warps", lab.kernel("arithmetic", "branch_warp", 2112, 256, out, I(1024))
    yield "neither", lab.kernel("arithmetic", "fma_float", 2112, 256, out, I(1024))
    yield "uneven lanes", lab.kernel("arithmetic", "uneven", 2112, 256, out, I(1024))


@experiment("branches on data")
def branch_data(lab: Laboratory) -> Result:
    n = 2112 * 256
    out = lab.buffer("out", 4 * n)
    generator = np.random.default_rng(5)
    for label, flags in (
        ("never", np.zeros(n)),
        ("every other warp", np.arange(n) // 32 % 2),
        ("random lanes", generator.integers(0, 2, n)),
        ("always", np.ones(n)),
    ):
        yield label, lab.kernel("arithmetic", "branch_data", n // 256, 256, lab.array(flags.astype(I)), out, I(1024))


@experiment("bank conflicts by stride")
def banks(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for stride in (1, 2, 4, 8, 16, 32, 33):
        yield f"stride {stride}", lab.kernel("arithmetic", "banks", 132, 1024, out, I(512), I(stride))


@experiment("bank conflicts of stores")
def bank_stores(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for stride in (1, 2, 8, 32):
        yield f"stride {stride}", lab.kernel("arithmetic", "bank_stores", 264, 512, out, I(1024), I(stride))


@experiment("shared loads by width")
def shared_widths(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for width in (1, 4):
        yield f"float{width}", lab.kernel("arithmetic", f"shared_wide{width}", 264, 256, out, I(512))


@experiment("barriers by threads a block")
def barriers(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for threads in (32, 128, 256, 512, 1024):
        yield f"{threads} threads", lab.kernel("arithmetic", "barriers", 132, threads, out, I(1000))


@experiment("shuffles by threads a block")
def shuffles(lab: Laboratory) -> Result:
    out = lab.buffer("out", 16 * MB)
    for threads in (32, 256, 1024):
        yield f"{threads} threads", lab.kernel("arithmetic", "shuffles", 132, threads, out, I(1000))


@experiment("polynomials by degree")
def polynomials(lab: Laboratory) -> Result:
    n = 8 * MB
    x, y = lab.buffer("x", 8 * n), lab.buffer("y", 8 * n)
    for degree in (1, 16, 64, 256):
        yield (
            f"float, degree {degree}",
            lab.kernel("arithmetic", "polynomial_float", n // 256, 256, x, y, I(n), I(degree)),
        )
    for degree in (1, 64):
        yield (
            f"double, degree {degree}",
            lab.kernel("arithmetic", "polynomial_double", n // 256, 256, x, y, I(n), I(degree)),
        )


@experiment("Mandelbrot set by limit")
def mandelbrot(lab: Laboratory) -> Result:
    """A window inside the set, where every thread runs to the limit, and one outside it."""
    out = lab.buffer("out", 16 * MB)
    f = np.float32
    for limit in (64, 512):
        args = (out, I(1024), I(1024), f(-0.2), f(-0.2), f(0.0002), I(limit))
        yield f"inside, limit {limit}", lab.kernel("arithmetic", "mandelbrot", (32, 128), (32, 8), *args)
    args = (out, I(1024), I(1024), f(1.0), f(1.0), f(0.0002), I(512))
    yield "outside, limit 512", lab.kernel("arithmetic", "mandelbrot", (32, 128), (32, 8), *args)
