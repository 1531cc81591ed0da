"""Time matrix products on one worker and on two, in one run.

    python -m bench.workers [--repeats 7] [--json FILE]

Workers are threads that run a launch's blocks side by side. Launches have one by default, so that results do not
depend on the order of atomics; `Standalone(workers=2)` asks for more. Repeats are taken in turn and the best of each is
kept. The first ratio is of wall-clock time. The second is of processor time, twice that of one worker over the sum of
the two: the same on an idle machine, and what is left to compare on a busy one.
"""

from __future__ import annotations

import argparse
import json
import math
import struct
import time
from pathlib import Path

import numpy as np

from bench.programs import Case, cases
from cudalab.sim.compiler import compile
from cudalab.sim.device.profile import load
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory

LABELS = ("naive matmul 512", "tiled matmul 512")


def measure(case: Case, repeats: int) -> dict[str, float]:
    """Milliseconds on one and on two workers, and the ratios of wall-clock and of processor time."""
    memory = Memory(capacity=1 << 32)
    kernel = Module(compile(case.cuda), memory, load().launch_limits).kernel("kernel")
    inputs, output = case.arrays(case.size)
    pointers = []
    for array in (*inputs, output):
        pointers.append(memory.allocate(array.nbytes, "device"))
        memory.view(pointers[-1], array.nbytes)[:] = array.tobytes()
    arguments = struct.pack(f"<{len(pointers)}Qi", *pointers, case.size)
    grid, block = case.launch(case.size)
    best, spent = {1: math.inf, 2: math.inf}, {1: math.inf, 2: math.inf}
    for _ in range(repeats + 1):
        for workers in (1, 2):
            start, used = time.perf_counter(), time.process_time()
            outcome = execute(kernel.launch(grid, block, arguments), Standalone(workers=workers))
            best[workers] = min(best[workers], time.perf_counter() - start)
            spent[workers] = min(spent[workers], time.process_time() - used)
            if outcome.fault is not None:
                raise RuntimeError(str(outcome.fault))
    got = np.frombuffer(bytes(memory.view(pointers[-1], output.nbytes)), output.dtype).reshape(output.shape)
    np.testing.assert_allclose(got, case.numpy_form(inputs, case.size), rtol=1e-4)
    return {
        "one_ms": best[1] * 1e3,
        "two_ms": best[2] * 1e3,
        "ratio": best[1] / best[2],
        "ratio_of_processor_time": 2 * spent[1] / spent[2],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = {}
    for case in cases():
        if case.label in LABELS:
            row = rows[case.label] = measure(case, options.repeats)
            print(
                f"{case.label:20} one worker {row['one_ms']:7.1f} ms   two {row['two_ms']:7.1f} ms   "
                f"{row['ratio']:.2f}x   by processor time {row['ratio_of_processor_time']:.2f}x"
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
