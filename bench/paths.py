"""How far a reader travels through the library's modules to follow one piece of work from the cell to its result.

    python -m bench.paths [--show] [--json FILE] [PATH ...]

Three paths: ``launch`` (from ``kernel(grid, block, args)`` to the array), ``trace`` (two streams, to the picture) and
``check`` (from ``cudalab.check`` to its points). Each runs in a process of its own, once to warm every cache (compiled
code, parameter types, fonts, imports), then once more with a profile function in all threads, which notes each function
of cudalab when it is first called. That order is how somebody reads the code, thread by thread.

*Modules* are the distinct modules in it. *Returns* count how often the order goes back to a module that it had left
before. Both are given for the whole path and for the part above the simulated device (facades, course library). What a
warm run does not do is not in it: NVRTC, parsing, code generation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

BELOW = tuple(f"cudalab.sim.{layer}." for layer in ("compiler", "machine", "device", "cudart", "driver"))

SCALE = r"""
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
REVERSE = r"""
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[n - 1 - i] = x[i];
}
"""


def launch() -> None:
    """A launch of a new ``RawKernel``, and the copy of its result."""
    import numpy as np

    from cudalab import cp

    x, y = cp.ones(1000, np.float32), cp.empty(1000, np.float32)
    kernel = cp.RawKernel(SCALE, "scale")
    cp.cuda.Device().synchronize()
    recorder.on = True
    kernel((4,), (256,), (x, y, np.int32(1000)))
    y.get()
    recorder.on = False


def trace() -> None:
    """Two streams with a copy, a launch and a copy each, and the SVG of their timeline."""
    import numpy as np

    import cudalab
    from cudalab import cp

    kernel = cp.RawKernel(SCALE, "scale")
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    inputs = [np.ones(1 << 16, np.float32) for _ in streams]
    arrays = [(cp.empty(1 << 16, np.float32), cp.empty(1 << 16, np.float32)) for _ in streams]
    recorder.on = True
    with cudalab.trace() as t:
        for stream, host, (x, y) in zip(streams, inputs, arrays, strict=True):
            x.set(host, stream=stream)
            kernel((256,), (256,), (x, y, np.int32(1 << 16)), stream=stream)
            y.get(stream=stream)
    cudalab.plot.timeline(t).svg()
    recorder.on = False


def check() -> None:
    """An exercise's check of a right answer, and its points."""
    import cudalab

    recorder.on = True
    points = cudalab.check("04.1", REVERSE, seed=1).points
    recorder.on = False
    assert points == 3


PATHS: dict[str, Callable[[], None]] = {"launch": launch, "trace": trace, "check": check}


class Recorder:
    """Profile function of every thread: notes the functions of cudalab in the order of their first call."""

    def __init__(self) -> None:
        self.on = False
        self._order: dict[int, dict[CodeType, None]] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self.on and event == "call":
            self._order.setdefault(threading.get_ident(), {}).setdefault(frame.f_code)

    def functions(self, root: Path) -> list[tuple[str, str]]:
        """Module and name of each, those of the main thread first. Comprehensions belong to their function."""
        main = threading.main_thread().ident
        found: dict[tuple[str, str], None] = {}
        for thread in sorted(self._order, key=lambda thread: thread != main):
            for code in self._order[thread]:
                file = Path(code.co_filename)
                if not code.co_name.startswith("<") and file.is_relative_to(root / "cudalab"):
                    module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
                    found.setdefault((module, code.co_qualname))
        return list(found)


recorder = Recorder()


@dataclass(frozen=True)
class Reading:
    """How much code a path leads through."""

    functions: int
    modules: int
    returns: int

    @classmethod
    def of(cls, functions: Sequence[tuple[str, str]]) -> Reading:
        seen: set[str] = set()
        returns, at = 0, ""
        for module, _ in functions:
            returns += module != at and module in seen
            seen.add(module)
            at = module
        return cls(len(functions), len(seen), returns)


def is_above(module: str) -> bool:
    """Does the module stand above the simulated device?"""
    return not f"{module}.".startswith(BELOW)


def measure(name: str, show: bool) -> dict[str, dict[str, int]]:
    """Run one path twice in this process; the second time is noted."""
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    PATHS[name]()
    recorder._order.clear()
    PATHS[name]()
    sys.setprofile(None)
    functions = recorder.functions(Path.cwd())
    if show:
        at = ""
        for module, function in functions:
            print(f"{'' if module == at else module:<60}{function}", file=sys.stderr)
            at = module
    above = [entry for entry in functions if is_above(entry[0])]
    return {"whole": vars(Reading.of(functions)), "above the device": vars(Reading.of(above))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*", choices=[*PATHS, []], help="(default: all)")
    parser.add_argument("--show", action="store_true", help="the functions in their order, on standard error")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # one path, in this process
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.paths[0], options.show)))
        return
    figures = {}
    for name in options.paths or PATHS:
        command = [sys.executable, "-m", "bench.paths", "--here", name, *(["--show"] if options.show else [])]
        answer = subprocess.run(
            command, env=os.environ | {"CUDALAB_DEVICE": "sim"}, stdout=subprocess.PIPE, check=True, text=True
        )
        figures[name] = json.loads(answer.stdout)
    print(f"{'path':<8} {'part':<18} {'functions':>9} {'modules':>8} {'returns':>8}")
    for name, parts in figures.items():
        for part, reading in parts.items():
            print(f"{name:<8} {part:<18} {reading['functions']:>9} {reading['modules']:>8} {reading['returns']:>8}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
