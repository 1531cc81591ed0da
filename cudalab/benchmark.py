"""Timing done right: ``cudalab.benchmark()``.

On a GPU a launch returns before the kernel has run, and the first launch pays for compilation and for cold caches. So
events are recorded around each launch on the device, after a warm-up, and the median of many runs is what counts
(guide, "Asynchronous Concurrent Execution", "Events"). Python needs longer to enqueue a launch than a short kernel
runs; a kernel that only waits goes first, so that the queue is full when the clock starts and the host is not what is
timed. An event pair adds a few microseconds of its own: compare only kernels that take clearly longer.

On the simulated device the time is modelled: blocks of the launch run, what they did is counted, and the cost model
does the rest. Where blocks may differ all of them run, as far as half a second allows; from there on the rest is
extrapolated, and the result says so. Nothing that a kernel computes there is kept, and repeating would give the same
figure, so there is one. Every result says whether it is measured or modelled.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from cudalab import backend

WARM_UP = 3
MOST_REPEATS = 50
FEWEST_REPEATS = 5
TIME_BUDGET = 500_000.0  # microseconds for all repeats together
EVENT_PAIR = 10_000  # nanoseconds that the host needs to record two events from Python
LONGEST_WAIT = 50_000_000  # nanoseconds

_WAIT = r"""
__device__ unsigned long long now() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}
extern "C" __global__ void wait(unsigned long long nanoseconds) {
    for (unsigned long long start = now(); now() - start < nanoseconds;) { }
}
"""


@dataclass(frozen=True)
class Timing:
    """How long a launch takes on the device."""

    times: tuple[float, ...]
    """Microseconds, one for each repeat; a single one where the time is modelled."""

    kind: str
    """``measured`` or ``modelled``."""

    bound: str = ""
    """What holds the kernel up, where the cost model knows it: its largest term."""

    terms: dict[str, float] = field(default_factory=dict)
    """The cost model's terms in microseconds, by name; empty where the time is measured."""

    extrapolated: str = ""
    """What of a modelled launch was not counted but extrapolated, and why its time comes from the PTX and not from the
    machine code where it does, as a sentence; empty when neither holds."""

    unit = "µs"

    @property
    def microseconds(self) -> float:
        """The median."""
        return statistics.median(self.times)

    median = microseconds

    @property
    def spread(self) -> float:
        """Difference of the slowest and the fastest repeat, microseconds."""
        return max(self.times) - min(self.times)

    def gigabytes_per_second(self, moved: float) -> float:
        """The rate at which ``moved`` bytes went by, in GB/s (10⁹ bytes a second)."""
        return moved / self.microseconds / 1e3

    def __repr__(self) -> str:
        repeats = f", median of {len(self.times)}, spread {self.spread:.3g} µs" if len(self.times) > 1 else ""
        bound = f", bound by {self.bound}" if self.bound else ""
        how = f"; {self.extrapolated}" if self.extrapolated else ""
        return f"{self.microseconds:.4g} {self.unit} ({self.kind}{repeats}{bound}{how})"


def benchmark(
    kernel: Any,
    grid: Sequence[int] | None = None,
    block: Sequence[int] | None = None,
    args: Sequence[Any] = (),
    *,
    shared_mem: int = 0,
    repeats: int | None = None,
    warm_up: int = WARM_UP,
) -> Timing:
    """Time one launch: ``cudalab.benchmark(kernel, grid, block, args)`` takes what the launch takes.

    ``shared_mem`` is dynamic shared memory in bytes. On a GPU the kernel runs ``warm_up`` + ``repeats`` times (as many
    repeats as fit into half a second when left out, 5 to 50); so what it writes in place is written that often. On the
    simulated device memory stays as it is, unless the first, the middle or the last block touches memory that it may
    not: then the launch is made, and ends with its error.

    Work that is no kernel is timed as ``benchmark(work)``, where ``work()`` enqueues it on the current stream (copies,
    array operations). It runs for real on both devices.

    A launch is timed as one of many: what it touches is in the L2, as far as that stays there (a *warm* cache). On the
    simulated device ``work()`` runs once and finds what earlier work has left, which may be nothing (a *cold* one).

    Raises ``TypeError`` when only one of ``grid`` and ``block`` is given, or nothing that can be called, ``ValueError``
    for counts below 1, and what the launch itself raises.
    """
    if (grid is None) != (block is None):
        raise TypeError("benchmark: give both grid and block, as for a launch, or neither to time work()")
    if repeats is not None and repeats < 1 or warm_up < 0:
        raise ValueError(f"benchmark: repeats must be at least 1 and warm_up at least 0, got {repeats} and {warm_up}")
    if grid is None or block is None:
        if args or shared_mem:
            raise TypeError("benchmark: args and shared_mem belong to a kernel; work() takes no arguments")
        if not callable(kernel):
            raise TypeError(
                f"benchmark: expected a kernel with grid, block and args, or work() without them, got "
                f"{type(kernel).__name__}; to time a statement, write benchmark(lambda: ...)"
            )
        work: Callable[[], Any] = kernel
    elif backend.choice().kind == "sim":
        return modelled(kernel, grid, block, args, shared_mem)
    else:

        def work() -> None:
            kernel(grid, block, args, shared_mem=shared_mem)

    if backend.choice().kind == "sim":
        return Timing((_between_events(work),), "modelled")
    return measured(work, repeats, warm_up)


def modelled(kernel: Any, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int) -> Timing:
    """The cost model's time of a launch whose blocks leave no trace in memory."""
    from cudalab.sim.cupy._base.call import driver_errors
    from cudalab.sim.cupy.cuda._arguments import pack

    device, function = backend.simulated_device(), kernel.kernel
    declared = device.function_info(function.ptr).kernel
    packed = pack(function.name, declared.parameters, tuple(args), declared.parameter_bytes)
    launch = (function.ptr, _three(grid), _three(block), packed, shared_mem)
    stream, cooperative = (
        backend.cp.cuda.get_current_stream(),
        bool(getattr(kernel, "enable_cooperative_groups", False)),
    )
    with driver_errors():  # as a launch raises them
        device.synchronize()  # what the kernel reads must be there, as it is when a launch follows earlier work
        faults = device.ends_fault(*launch, cooperative=cooperative)
    if faults:
        kernel(grid, block, args, shared_mem=shared_mem)
        stream.synchronize()  # raises what the launch ends with
    with driver_errors():
        found = device.time_launch(*launch, stream=int(stream.ptr), cooperative=cooperative)
    terms = {name: nanoseconds / 1000 for name, nanoseconds in found.terms.items()}
    return Timing((found.ns / 1000,), "modelled", found.bound, terms, found.extrapolated)


def _three(dimensions: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*dimensions, 1, 1)[:3]
    return int(x), int(y), int(z)


def measured(work: Callable[[], Any], repeats: int | None, warm_up: int) -> Timing:
    """Times on the GPU, between events."""
    for _ in range(warm_up):
        work()
    first = _between_events(work)
    count = repeats or max(FEWEST_REPEATS, min(MOST_REPEATS, int(TIME_BUDGET / max(first, 1.0))))
    stream = backend.cp.cuda.get_current_stream()
    before = time.perf_counter_ns()
    work()
    enqueue = time.perf_counter_ns() - before + EVENT_PAIR
    stream.synchronize()
    pairs = []
    waiting_kernel()((1,), (1,), (np.uint64(min(2 * count * enqueue, LONGEST_WAIT)),))
    for _ in range(count):
        start, end = backend.cp.cuda.Event(), backend.cp.cuda.Event()
        start.record(stream)
        work()
        end.record(stream)
        pairs.append((start, end))
    stream.synchronize()
    elapsed = backend.cp.cuda.get_elapsed_time
    return Timing(tuple(elapsed(start, end) * 1000 for start, end in pairs), "measured")


@cache
def waiting_kernel() -> Any:
    """A kernel that does nothing for as many nanoseconds as its argument says."""
    return backend.cp.RawKernel(_WAIT, "wait")


def _between_events(work: Callable[[], Any]) -> float:
    """Microseconds of the device's time for one run."""
    cuda = backend.cp.cuda
    stream, start, end = cuda.get_current_stream(), cuda.Event(), cuda.Event()
    start.record(stream)
    work()
    end.record(stream)
    end.synchronize()
    return float(cuda.get_elapsed_time(start, end)) * 1000
