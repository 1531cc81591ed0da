"""What chapter 00 asks: the first lines of CUDA C++ that a learner changes."""

from __future__ import annotations

import numpy as np

from cudalab.checks.bench import KernelBench, Known
from cudalab.checks.exercise import Exercise


def _cube(bench: KernelBench) -> None:
    for size in (10, 32, bench.between(100, 200)):
        x = np.array(bench.integers(-50, 50, size), np.int32)
        source, out = bench.input("in", x), bench.output("out", (size,), np.int32)
        bench.launch((-(-size // 32) + 1,), (32,), (source, out, np.int32(size)), f"{size} elements")
        known = (Known("the numbers are squared", x * x), Known("the numbers are tripled", 3 * x))
        bench.expect(out, x**3, known=known, look="what stands on the right of the = sign")


CUBE = Exercise("00.cube", "Change a kernel", "cube", _cube)

EXERCISES = (CUBE,)
