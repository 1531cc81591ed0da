"""06.7: rows that a block keeps in more shared memory than a kernel gets unasked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cudalab.checks.bench import Known, counted
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.provenance import GRADED, Origin
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim.device.profile import Profile, load
from cudalab.sim.device.queue.kernel_launch import KernelOperation

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import Launch

CENTER = r"""
extern "C" __global__ void center(const float* x, float* y, int n, int kept) {
    extern __shared__ float row[];  // the first `kept` elements of this block's row
    __shared__ float part[256];
    const float* from = x + (size_t)blockIdx.x * n;
    float* to = y + (size_t)blockIdx.x * n;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) {
        float value = from[i];
        if (i < kept) row[i] = value;
        sum += value;
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    float mean = part[0] / n;
    for (int i = threadIdx.x; i < n; i += 256) to[i] = (i < kept ? row[i] : from[i]) - mean;
}
"""
STATIC = 4 * 256
"""Bytes of its static array, which count as shared memory of the block, too."""
UNASKED = 48 * 1024
ROWS = 2
LOADS = Gate(
    "elements loaded from x, for each load that is needed",
    points=3,
    most=1,
    least=1,
    baseline=1.86,
    look="kept: whatever of a row fits into shared memory need not be loaded again. How much is it on this device, if "
    "the kernel's static array has its part?",
)
ASKED = Gate(
    "bytes of dynamic shared memory, for each byte that is kept",
    points=1,
    least=1,
    most=1.05,
    baseline=1,
    look="what a launch asks for it has, used or not, and that costs resident blocks: 4 bytes for each element kept",
)
OTHERS = Gate(
    "launches of other kernels than that of code",
    most=0,
    baseline=0,
    look="the text that the kernel is made from: it stays code, as it was handed over",
)
LAUNCHES = Gate("launches", least=1, most=1, baseline=1, look="one launch for all rows: a block has one of them")


def _center(bench: StreamBench) -> None:
    most = _room(232_448)
    long, longer = 18_000 + bench.between(0, 2000), most + bench.between(1, 3000)
    for n in (long, 100, _room(UNASKED) + 1, most, longer):
        with bench.case(f"rows of {counted(n, 'element')}") as trial:
            _center_once(bench, trial, n)
    for limit in (99, bench.between(60, 90)):
        n = _room(1024 * limit) + bench.between(1, 9000)
        with bench.case(
            f"rows of {n} elements, at most {limit} KiB for a block", profile=_device(1024 * limit)
        ) as trial:
            _center_once(bench, trial, n)


def _device(limit: int) -> Profile:
    """One that gives a block so many bytes of shared memory."""
    h200 = load("h200")
    properties = {**h200.properties, "sharedMemPerBlockOptin": limit}
    return replace(h200, properties=properties, attributes={**h200.attributes, "MaxSharedMemoryPerBlockOptin": limit})


def _room(limit: int) -> int:
    """Elements of a row that a block can keep."""
    return (limit - STATIC) // 4


def _center_once(bench: StreamBench, trial: Trial, n: int) -> None:
    values = bench.random((ROWS, n)) + np.float32(1)
    x, y = trial.array(values, "x"), trial.empty((ROWS, n), np.float32)
    trial.call(CENTER, x, y)
    right = values - values.mean(axis=1, dtype=np.float64, keepdims=True)
    known = (
        Known("nothing was launched", np.full_like(values, np.nan)),
        Known("one row only has been centered: each block has a row", np.where([[True], [False]], right, np.nan)),
    )
    look = "the arguments of the launch: x, y, the length of a row, and how many of its elements are kept"
    trial.expect("y", y, right, tolerance=1e-4, known=known, look=look, by=GRADED | {Origin.OWN_KERNEL})
    kernels = [one for one in trial.kernels() if isinstance(one, KernelOperation)]
    given = [one.launch for one in kernels if one.kernel.module.program.source == CENTER]
    bench.measure(OTHERS, len(kernels) - len(given))
    bench.measure(LAUNCHES, len(given))
    for launch in given:
        kept = min(_kept(launch), n)
        most = min(n, _room(int(trial.device.properties["sharedMemPerBlockOptin"])))
        bench.measure(LOADS, (2 * n - kept) / (2 * n - most))
        if most > _room(UNASKED):
            bench.measure(ASKED, launch.config.shared / (4 * kept) if kept > 0 else 0)


def _kept(launch: Launch) -> int:
    """The argument ``kept`` of a launch."""
    offset = launch.kernel.kernel.parameters[3].offset
    return int(np.frombuffer(launch.args, np.int32, 1, offset)[0])


WHOLE_ROWS = Exercise(
    id="06.7",
    title="More shared memory, on request",
    kernel="center_rows",
    examine=_center,
    gates=(LOADS, ASKED, OTHERS, LAUNCHES),
    answer="function",
)
