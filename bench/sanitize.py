"""What the sanitizer costs: every program of `bench/programs` at full size, plain and checked, in one run.

    python -m bench.sanitize [--repeats 5] [--only LABEL] [--json FILE]

*Plain* is a learner's launch: `kernel(grid, block, args)` and a synchronisation, one worker. *racecheck* and *all
tools* are `cudalab.sanitize` on the same launch, everything included: the copies of what the kernel writes, the run,
putting the copies back. Figures are the best of the repeats, taken in turn. The programs are correct, so that a finding
is an error here.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np

from bench.programs import Case, cases
from bench.speed import best_of, geometric_mean

os.environ.setdefault("CUDALAB_DEVICE", "sim")
WAYS = {"racecheck": ("racecheck",), "all tools": ("memcheck", "racecheck", "initcheck", "synccheck")}


def measure(case: Case, repeats: int) -> dict[str, float]:
    """Milliseconds of the plain launch and of the checked ones."""
    import cudalab
    from cudalab import cp

    inputs, output = case.arrays(case.size)
    kernel = cp.RawKernel(case.cuda, "kernel")
    grid, block = case.launch(case.size)
    arguments = (*[cp.asarray(a) for a in inputs], cp.zeros(output.shape, output.dtype), np.int32(case.size))
    stream = cp.cuda.get_current_stream()

    def plain() -> None:
        kernel(grid, block, arguments)
        stream.synchronize()

    def checked(tools: tuple[str, ...]) -> None:
        report = cudalab.sanitize(kernel, grid, block, arguments, tools=tools)
        if not report.ok or report.notes:
            raise AssertionError(f"{case.label}: {report!r}")

    ways = {name: lambda tools=tools: checked(tools) for name, tools in WAYS.items()}
    return best_of({"plain": plain, **ways}, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="run cases whose label contains this")
    parser.add_argument("--json", type=Path, help="store the figures here")
    options = parser.parse_args()
    rows = []
    print(f"{'program':32} {'plain':>10} {'racecheck':>12} {'all tools':>12}   racecheck/plain")
    for case in cases():
        if options.only not in case.label:
            continue
        times = measure(case, options.repeats)
        row = {"program": case.label, **times, **{f"{way} ratio": times[way] / times["plain"] for way in WAYS}}
        rows.append(row)
        print(
            f"{case.label:32} {times['plain']:7.2f} ms {times['racecheck']:9.2f} ms {times['all tools']:9.2f} ms"
            f" {row['racecheck ratio']:10.2f}x",
            flush=True,
        )
    means = {way: geometric_mean([float(row[f"{way} ratio"]) for row in rows]) for way in WAYS}
    print("geometric mean: " + ", ".join(f"{way} {mean:.2f}x" for way, mean in means.items()) + " a plain launch")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "geometric_mean": means}, indent=1) + "\n")


if __name__ == "__main__":
    main()
