"""Time launches that keep a footprint against plain ones, in one run.

    python -m bench.footprint [--repeats 15] [--workers 1]

A launch is `machine.launch.launch`, everything included: running the blocks, reading the maps and wiping them. Each
figure is the best of the repeats, plain and footprint taken in turn so that a slow spell of the machine hits both. The
last lines are a launch of one block (its overhead) and the time to generate both variants of the code.
"""

from __future__ import annotations

import argparse
import functools
import struct
import time

import numpy as np

from bench.programs import Case, cases
from bench.speed import best_of, geometric_mean
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.build import generate
from cudalab.sim.device.profile import load
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch.module import Launch, LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory

TARGET = ("vector add", "naive matmul", "tiled matmul")
"""Programs whose ratio is to be at most about two."""


def _put(memory: Memory, array: np.ndarray) -> int:
    pointer = memory.allocate(array.nbytes)
    memory.array(pointer, array.nbytes)[:] = array.reshape(-1).view(np.uint8)
    return pointer


def _prepare(memory: Memory, case: Case) -> tuple[LoadedKernel, bytes]:
    kernel = Module(compile(case.cuda), memory, load().launch_limits).kernel("kernel")
    inputs, output = case.arrays(case.size)
    pointers = [_put(memory, array) for array in (*inputs, output)]
    return kernel, struct.pack(f"<{len(pointers)}Qi", *pointers, case.size)


def _times(launch: Launch, options: argparse.Namespace) -> dict[str, float]:
    run = functools.partial(execute, launch, Standalone(workers=options.workers))
    return best_of({"plain": run, "footprint": functools.partial(run, footprint=True)}, options.repeats)  # type: ignore[dict-item]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    ratios = []
    print(f"{'program':36} {'plain':>9} {'footprint':>9}   ratio")
    for case in cases():
        memory = Memory(2 << 30)
        kernel, args = _prepare(memory, case)
        grid, block = case.launch(case.size)
        took = _times(kernel.launch(grid, block, args), options)
        ratios.append(took["footprint"] / took["plain"])
        aim = "  (aim: 2)" if case.name.startswith(TARGET) else ""
        print(
            f"{case.label:36} {took['plain']:7.2f} ms {took['footprint']:6.2f} ms   {ratios[-1]:.2f}{aim}", flush=True
        )
    print(f"geometric mean {geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")
    memory = Memory(2 << 30)
    kernel, args = _prepare(memory, cases()[0])
    took = _times(kernel.launch(1, 32, args), options)
    print(f"one block: {took['plain'] * 1e3:.0f} us plain, {took['footprint'] * 1e3:.0f} us with a footprint")
    for case in (c for c in cases() if c.name.startswith(TARGET)):
        ptx = compile(case.cuda).ptx
        spent = {}
        for variant in ("plain", "footprint"):
            generate(ptx, variant)
            begin = time.perf_counter()
            generate(ptx, variant)
            spent[variant] = (time.perf_counter() - begin) * 1e3
        print(f"code of {case.label}: {spent['plain']:.0f} ms plain, {spent['footprint']:.0f} ms footprint")


if __name__ == "__main__":
    main()
