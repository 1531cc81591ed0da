"""Time the simulated device against `gcc -O2` scalar C, NumPy, and Numba's CUDA simulator, in one run.

    python -m bench.speed [--repeats 7] [--numba] [--json FILE]

A simulated run is the whole of what a learner's launch does by default: `kernel(grid, block, args)` and a
synchronisation, with every check and the timing sample on, one worker. Each figure is the best of the repeats, taken in
turn with its competitors so that a slow spell of the machine hits all of them. Results are compared with NumPy first.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.programs import Case, cases, unnamed

os.environ.setdefault("CUDALAB_DEVICE", "sim")


def best_of(functions: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Milliseconds, the best of `repeats`, the functions taken in turn after one warm-up each."""
    for function in functions.values():
        function()
    best = dict.fromkeys(functions, math.inf)
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def compile_c(case: Case, folder: Path) -> ctypes.CDLL:
    stem = folder / case.label.replace(" ", "_").replace(",", "")
    stem.with_suffix(".c").write_text(case.c)
    library = stem.with_suffix(".so")
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(stem.with_suffix(".c")), "-lm"], check=True
    )
    return ctypes.CDLL(str(library))


def measure(case: Case, repeats: int, folder: Path) -> dict[str, float]:
    """Milliseconds of the simulated device, C and NumPy on the case's full size."""
    from cudalab import cp

    inputs, output = case.arrays(case.size)
    expected = case.numpy_form(inputs, case.size)
    library = compile_c(case, folder)
    c_arguments = [ctypes.c_void_p(a.ctypes.data) for a in (*inputs, output)] + [ctypes.c_int(case.size)]

    kernel = cp.RawKernel(case.cuda, "kernel")
    grid, block = case.launch(case.size)
    device_inputs = [cp.asarray(a) for a in inputs]
    device_output = cp.zeros(output.shape, output.dtype)
    arguments = (*device_inputs, device_output, np.int32(case.size))
    stream = cp.cuda.get_current_stream()

    def simulated() -> None:
        kernel(grid, block, arguments)
        stream.synchronize()

    def numpy_run() -> None:
        case.numpy_form(inputs, case.size)

    simulated()
    got = device_output.get()
    agree = got == expected if expected.dtype.kind == "i" else np.isclose(got, expected, rtol=case.tolerance)
    # A float comparison at Mandelbrot's boundary may flip where C or NumPy contracts differently.
    if agree.mean() < 0.999:
        raise AssertionError(f"{case.label}: {np.count_nonzero(~agree)} of {agree.size} results differ from NumPy")
    return best_of(
        {
            "simulated": simulated,
            "gcc -O2": lambda: library.run(*c_arguments),
            "NumPy": numpy_run,
        },
        repeats,
    )


NUMBA_PROGRAM = """
import math, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from numba import cuda, float32, int32
from bench.programs import cases
case = next(c for c in cases() if c.label == sys.argv[1])
scope = dict(cuda=cuda, float32=float32, int32=int32, math=math)
exec(case.numba, scope)
kernel = cuda.jit(scope["kernel"])
inputs, output = case.arrays(case.small)
arrays = [cuda.to_device(a) for a in (*inputs, output)]
grid, block = case.launch(case.small)
start = time.perf_counter()
kernel[grid, block](*arrays, case.small)
print((time.perf_counter() - start) * 1e3)
"""


def measure_numba(case: Case, repeats: int) -> tuple[float, float] | None:
    """Milliseconds of Numba's simulator and of ours at the small size; None where Numba's cannot run it."""
    from cudalab import cp

    if not case.numba:
        return None
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(
        [sys.executable, "-c", NUMBA_PROGRAM, case.label], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{case.label} under Numba's simulator:\n{done.stderr[-2000:]}")
    inputs, output = case.arrays(case.small)
    kernel = cp.RawKernel(case.cuda, "kernel")
    grid, block = case.launch(case.small)
    arguments = (*[cp.asarray(a) for a in inputs], cp.zeros(output.shape, output.dtype), np.int32(case.small))

    def simulated() -> None:
        kernel(grid, block, arguments)
        cp.cuda.get_current_stream().synchronize()

    return float(done.stdout), best_of({"simulated": simulated}, repeats)["simulated"]


GROUPS = ("the design's table", "the other programs", "programs named nowhere")


def group_of(case: Case) -> str:
    """Which of ``GROUPS`` a case belongs to."""
    if case.in_table:
        return GROUPS[0]
    return GROUPS[2] if case.label in {each.label for each in unnamed()} else GROUPS[1]


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--numba", action="store_true", help="also time Numba's CUDA simulator (needs numba)")
    parser.add_argument("--only", default="", help="run cases whose label contains this")
    parser.add_argument("--json", type=Path, help="store the figures here")
    options = parser.parse_args()
    rows = []
    print(f"{'program':32} {'simulated':>10} {'gcc -O2':>9} {'NumPy':>9}   sim/gcc")
    with tempfile.TemporaryDirectory() as folder:
        for case in (*cases(), *unnamed()):
            if options.only not in case.label:
                continue
            times = measure(case, options.repeats, Path(folder))
            row = {"program": case.label, "group": group_of(case), **times}
            row["ratio"] = times["simulated"] / times["gcc -O2"]
            if options.numba and (pair := measure_numba(case, options.repeats)):
                row["numba_small"], row["simulated_small"] = pair
            rows.append(row)
            tail = (
                f"   Numba's simulator: {row['numba_small'] / row['simulated_small']:,.0f}x"
                if "numba_small" in row
                else ""
            )
            print(
                f"{case.label:32} {times['simulated']:8.2f} ms {times['gcc -O2']:6.2f} ms {times['NumPy']:6.2f} ms"
                f" {row['ratio']:8.2f}x{tail}",
                flush=True,
            )
    summary = {}
    for name in GROUPS:
        chosen = [row for row in rows if row["group"] == name]
        if chosen:
            summary[name] = geometric_mean([float(r["ratio"]) for r in chosen])
            print(f"geometric mean over {name}: {summary[name]:.2f}x gcc -O2")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "geometric_mean": summary}, indent=1) + "\n")


if __name__ == "__main__":
    main()
