"""The clock, the conditions, and a kernel that keeps the device busy while the host enqueues."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

import cudalab
from cudalab import backend, cp, cudart

ONE = (1,)
SOURCE = r"""
extern "C" __global__ void wait(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - start < nanoseconds);
}
extern "C" __global__ void empty() { }
extern "C" __global__ void one(int a) { }
extern "C" __global__ void two(float* a, int b) { }
extern "C" __global__ void four(float* a, float* b, float* c, int d) { }
extern "C" __global__ void numbers(int a, int b, int c, int d) { }
extern "C" __global__ void eight(int a, int b, int c, int d, int e, int f, int g, int h) { }
extern "C" __global__ void approach(const float* in, float* out, int n, int steps) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        float v = in[i], x = v;
        for (int k = 0; k < steps; ++k) x = 0.5f * x + 0.25f * v;
        out[i] = x;
    }
}
"""


def is_gpu() -> bool:
    return bool(backend.choice().kind == "gpu")


if is_gpu():
    now: Callable[[], int] = time.perf_counter_ns
    """The host's clock, ns."""
else:

    def now() -> int:
        return round(cudalab.clock() * 1000)


def checked(answer: Any) -> Any:
    """The value of a call of ``cuda.bindings``. Raises ``RuntimeError`` when it failed."""
    code, *values = answer
    if int(code) != 0:
        raise RuntimeError(f"a call failed: {code!r}")
    return values[0] if len(values) == 1 else tuple(values)


def pinned(size: int) -> np.ndarray:
    """Page-locked bytes, as chapters make them."""
    return np.frombuffer(cp.cuda.alloc_pinned_memory(size), np.uint8, size)


def summary(figures: list[float]) -> dict[str, float]:
    """Median, quartiles and extremes, rounded to the nanosecond."""
    ordered = sorted(figures)
    count = len(ordered)
    return {
        "median": round(statistics.median(ordered), 3),
        "low": round(ordered[count // 4], 3),
        "high": round(ordered[(3 * count) // 4], 3),
        "least": round(ordered[0], 3),
        "most": round(ordered[-1], 3),
        "count": count,
    }


@contextmanager
def _records() -> Iterator[None]:
    """CUPTI's records as in a trace, without following lines."""
    from cudalab.timeline import cupti

    collector = cupti.collector()
    start, collector.lines.start = collector.lines.start, lambda frame: None  # type: ignore[method-assign]
    try:
        collector.open(None)
        try:
            yield
        finally:
            collector.close()
            collector.flush()
            collector.forget()
    finally:
        collector.lines.start = start  # type: ignore[method-assign]


@contextmanager
def _trace() -> Iterator[Any]:
    """``cudalab.trace()``, whose records are dropped at once where nobody has looked at them."""
    with cudalab.trace() as timeline:
        yield timeline
    if is_gpu():
        from cudalab.timeline import cupti

        cupti._waiting.clear()
        collector = cupti.collector()
        collector.flush()
        collector.forget()


def conditions() -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    """By name: what is on while calls are timed."""
    found: dict[str, Callable[[], AbstractContextManager[Any]]] = {"plain": nullcontext}
    if is_gpu():
        found["cupti"] = _records
    found["trace"] = _trace
    return found


class Bench:
    """The device of this process with a stream, memory and kernels."""

    def __init__(self) -> None:
        self.module = cp.RawModule(code=SOURCE)
        self.kernels = {
            name: self.module.get_function(name)
            for name in ("wait", "empty", "one", "two", "four", "numbers", "eight", "approach")
        }
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.other = cp.cuda.Stream(non_blocking=True)
        self.memory = cp.empty(64 << 20, cp.uint8)
        self.host, self.pageable = pinned(4 << 20), np.ones(4 << 20, np.uint8)
        self.rounds = 21 if is_gpu() else 2
        self.wait(1000)
        self.synchronize()

    def synchronize(self) -> None:
        checked(cudart.cudaDeviceSynchronize())

    def wait(self, nanoseconds: int, stream: Any = None) -> None:
        """Keep a stream busy, the one in which most is measured where none is given."""
        with self.stream if stream is None else stream:
            self.kernels["wait"](ONE, ONE, (np.uint64(nanoseconds),))

    def idle(self, call: Callable[[], Any]) -> dict[str, float]:
        """µs of one call, with nothing on the device before it."""
        figures = []
        for _ in range(self.rounds + 2):
            self.synchronize()
            before = now()
            call()
            after = now()
            figures.append((after - before) / 1000)
        self.synchronize()
        return summary(figures[2:])

    def queued(self, call: Callable[[], Any], count: int) -> dict[str, float]:
        """µs of one call among ``count``, behind a kernel that lasts longer than they do."""
        begin = now()
        call()
        once = now() - begin
        length = min(20_000_000, 200_000 + 4 * count * once)
        figures = []
        for _ in range(self.rounds + 1):
            self.synchronize()
            self.wait(length)
            before = now()
            for _ in range(count):
                call()
            after = now()
            figures.append((after - before) / count / 1000)
        self.synchronize()
        return summary(figures[1:])
