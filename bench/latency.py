"""Time from an edited cell to its first result, cold and cached, and from a notebook kernel's start to its first.

    python -m bench.latency [--repeats 9] [--json FILE]

An *edited cell* is source text never compiled before, with the compiler helper warm: NVRTC, parsing, lowering, LLVM,
the timing sample, the launch and the copy back. *Cached* is the same text, compiled before, in a process that has not
seen it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("CUDALAB_DEVICE", "sim")

CELL = """
import sys, time, numpy as np
from cudalab import cp
from bench.programs import cases
case = next(c for c in cases() if c.label == sys.argv[1])
def run(source):
    inputs, output = case.arrays(case.small)
    start = time.perf_counter()
    kernel = cp.RawKernel(source, "kernel")
    arrays = [cp.asarray(a) for a in inputs]
    out = cp.zeros(output.shape, output.dtype)
    kernel(*case.launch(case.small), (*arrays, out, np.int32(case.small)))
    out.get()
    return (time.perf_counter() - start) * 1e3
warm = "// " + sys.argv[2] + " warm\\n" + case.cuda
run(warm)
for i in range(int(sys.argv[3])):
    print(run("// " + sys.argv[2] + str(i) + "\\n" + case.cuda.replace("kernel(", "kernel(", 1)))
"""

GROUPS_CELL = """
import sys, time, numpy as np
from cudalab import cp
source = '''#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void sum(const float* x, float* y) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    float v = cg::reduce(tile, x[block.thread_rank()] * FACTOR, cg::plus<float>());
    if (tile.thread_rank() == 0) y[tile.meta_group_rank()] = v;
}'''
x, y = cp.ones(256, np.float32), cp.zeros(8, np.float32)
def run(factor):
    start = time.perf_counter()
    kernel = cp.RawKernel(source.replace("FACTOR", str(factor)), "sum")
    kernel((1,), (256,), (x, y))
    assert (y.get() == 32 * factor).all()
    return (time.perf_counter() - start) * 1e3
print(run(int(sys.argv[1])))
for i in range(1, int(sys.argv[2]) + 1):
    time.sleep(float(sys.argv[3]))
    print(run(int(sys.argv[1]) + i))
"""

FIRST = """
import time
start = time.perf_counter()
from cudalab import cp
import numpy as np
kernel = cp.RawKernel('extern "C" __global__ void f(float *x) { x[threadIdx.x] = threadIdx.x; }', "f")
x = cp.zeros(32, np.float32)
kernel((1,), (32,), (x,))
assert (x.get() == np.arange(32)).all()
print((time.perf_counter() - start) * 1e3)
"""


def cell(label: str, tag: str, repeats: int) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", CELL, label, tag, str(repeats)], capture_output=True, text=True, check=True
    )
    return [float(line) for line in done.stdout.split()]


def groups_cell(repeats: int, thinking: float = 5.0) -> list[float]:
    """Milliseconds of a cell with cooperative groups: a notebook's first, then edited ones after a pause each."""
    tag = str(time.time_ns() // 1000 % 100_000)
    done = subprocess.run(
        [sys.executable, "-c", GROUPS_CELL, tag, str(repeats), str(thinking)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(line) for line in done.stdout.split()]


def chapter_first_result() -> float:
    """Milliseconds from starting a Jupyter kernel to the first launch's result printed."""
    from jupyter_client.manager import start_new_kernel

    start = time.perf_counter()
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        reply = client.execute_interactive(FIRST, timeout=60, output_hook=lambda message: None)
        if reply["content"]["status"] != "ok":
            raise RuntimeError(reply["content"]["evalue"])
        return (time.perf_counter() - start) * 1e3
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = {}
    for label in ("vector add 1048576", "tiled matmul 256", "block reduction, shared 1048576"):
        tag = f"{time.time_ns()}"
        cold = cell(label, tag, options.repeats)
        cached = cell(label, tag, options.repeats)
        rows[label] = {"edited_ms": statistics.median(cold), "cached_ms": statistics.median(cached)}
        print(f"{label:34} edited {rows[label]['edited_ms']:7.1f} ms   cached {rows[label]['cached_ms']:6.2f} ms")
    groups = groups_cell(min(options.repeats, 5))
    rows["cooperative groups"] = {"first_ms": groups[0], "edited_ms": statistics.median(groups[1:])}
    print(f"{'cooperative groups':34} edited {statistics.median(groups[1:]):7.1f} ms   first {groups[0]:8.1f} ms")
    first = [chapter_first_result() for _ in range(3)]
    rows["kernel start to first result"] = {"ms": statistics.median(first)}
    print(f"{'Jupyter kernel start to first result':34} {statistics.median(first):7.0f} ms")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
