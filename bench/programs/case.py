"""One program of the benchmarks at one size, and what programs share.

`arrays(n)` makes the inputs (NumPy, seeded); `launch(n)` gives grid and block; `numpy_form(inputs, n)` is both the
competitor and the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

MILLION = 1 << 20
Arrays = tuple[list[np.ndarray], np.ndarray]
Shape = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    name: str
    size: int  # of the timed run
    small: int  # of the run against Numba's CUDA simulator
    cuda: str
    c: str  # defines `void run(inputs…, output, int n)`
    arrays: Callable[[int], Arrays]  # inputs, output (zeroed)
    launch: Callable[[int], Shape]
    numpy_form: Callable[[list[np.ndarray], int], np.ndarray]  # also the oracle
    numba: str  # source of `kernel(inputs…, output, n)` under numba.cuda
    in_table: bool  # one of the programs of the design's speed table
    tolerance: float = 1e-5

    @property
    def label(self) -> str:
        return f"{self.name} {self.size}"


def rng() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(2026)


def blocks(n: int, block: int) -> int:
    """Blocks of ``block`` threads for ``n`` threads."""
    return (n + block - 1) // block


def line(n: int) -> Shape:
    """Grid and block of ``n`` threads in a row."""
    return (blocks(n, 256),), (256,)


def square(n: int) -> Shape:
    """Grid and block of ``n`` x ``n`` threads."""
    return (blocks(n, 16), blocks(n, 16)), (16, 16)
