"""Runs the text of a program on a fresh simulated device and gives the hazards that it has.

A program is what a learner would write in a cell; the names of :func:`names` are there. The device is idle when it
starts. When it has ended, the device is given time to end what is left, without a wait of the host.
"""

from __future__ import annotations

import itertools
import linecache
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from cudalab.sim import cudart, cupy, driver
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.program import Program
from cudalab.sim.device import Device
from cudalab.sim.device.current import set_current_device
from cudalab.sim.device.hazards import Hazard, HazardWarning

KERNELS = r"""
extern "C" __global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void increment(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
extern "C" __global__ void rows(float *x, int width, int height, int first, int step) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = first + step * blockIdx.y;
    if (column < width && row < height) x[row * width + column] += 1;
}
extern "C" __global__ void columns(float *x, int width, int height, int first, int count) {
    int column = threadIdx.x, row = blockIdx.x;
    if (column < count) x[row * width + first + column] += 1;
}
extern "C" __global__ void tally(int *bins, const int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[values[i]], 1);
}
__device__ float factor = 2;
extern "C" __global__ void by_factor(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
extern "C" __global__ void set_factor(float value) { factor = value; }
"""
KERNEL_NAMES = ("scale", "add", "increment", "rows", "columns", "tally", "by_factor", "set_factor")
N = 4096


@cache
def compiled() -> Program:
    """The kernels, compiled once for all devices."""
    return compile(KERNELS)


class Kernel:
    """A kernel of :data:`KERNELS`: ``kernel(grid, block, arguments, stream=None)`` as a ``RawKernel``."""

    def __init__(self, module: Any, name: str) -> None:
        self._function = module.get_function(name)

    def __call__(self, *arguments: Any, **options: Any) -> None:
        self._function(*arguments, **options)


def names(device: Device) -> dict[str, Any]:
    """What a program sees."""
    module = cupy.RawModule(code=KERNELS)
    found: dict[str, Any] = {"np": np, "cp": cupy, "cudart": cudart, "driver": driver, "N": N, "BYTES": 4 * N}
    found.update({name: module.get_function(name) for name in KERNEL_NAMES})
    found["G"], found["B"] = (N // 256,), (256,)
    found["module"], found["device"] = module, device
    found["pinned"] = pinned
    found["work"] = device.host_work
    found["H2D"], found["D2H"], found["D2D"] = (
        cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
        cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
        cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
    )
    return found


def pinned(count: int = N, dtype: Any = np.float32, value: float = 0) -> np.ndarray:
    """A NumPy array in page-locked memory."""
    memory = cupy.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    array = np.frombuffer(memory, dtype, count)
    array[:] = value
    return array


_numbers = itertools.count()


class Ran:
    """What came out of one program."""

    def __init__(self, device: Device, warned: Sequence[warnings.WarningMessage], error: BaseException | None) -> None:
        assert device.hazard_report is not None
        self.hazards: list[Hazard] = list(device.hazards)
        self.warnings = [str(w.message) for w in warned if issubclass(w.category, HazardWarning)]
        self.error = error


def run(text: str, *, name: str = "program", setup: str = "") -> Ran:
    """Run ``setup``, wait, and run ``text``; its lines count from 1. An exception ends the program and is kept."""
    device = Device()
    before = set_current_device(device)
    try:
        scope = names(device)
        exec(compile_text(setup, "setup"), scope)
        device.synchronize()
        error: BaseException | None = None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                exec(compile_text(text, name), scope)
                device.run_ahead(lambda: True)
            except Exception as raised:
                error = raised
        return Ran(device, warned, error)
    finally:
        set_current_device(before)


def compile_text(text: str, name: str) -> Any:
    """Code whose lines a report can show."""
    import builtins

    file = f"<{name} {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return builtins.compile(text, file, "exec")
