"""What experiments measure with, on both devices: kernels, work between events, calls, and work until it is done.

On a GPU each figure is the median of repeated runs; the simulated device gives the same figure every time, so one run
does. A kernel's time on a GPU is what two further launches behind the first add to what ``cudalab.benchmark`` reports,
halved: so the events around it do not count, which the modelled time of a kernel does not have. Work that Python needs
longer to enqueue than the device to do is timed behind a kernel that only waits (``queued``).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import cudalab
from bench.graph_nodes import checked
from cudalab import backend, cp, cudart
from cudalab.benchmark import waiting_kernel

MB = 1 << 20
REPEATS = 25
AHEAD = 60.0
"""Microseconds by which the host is ahead of the device at least, where it is to be ahead."""
READING = 0.242
"""Microseconds between two looks at the clock of an H200's host, with a call of an empty function between them: median
of ten medians of 25, 0.235 to 0.273, on 2026-11-24. The modelled clock is read in no time."""
COOPERATIVE = "grids"
"""Kernels that are launched as cooperative."""
SOURCES = Path(__file__).parent / "kernels"


class Laboratory:
    """The device of this process, and its instruments."""

    def __init__(self) -> None:
        self.devices = int(checked(cudart.cudaGetDeviceCount()))
        self.is_gpu = backend.choice().kind == "gpu"
        self.repeats = REPEATS if self.is_gpu else 1
        if not self.is_gpu:
            backend.simulated_device().memory.capacity = 1 << 40  # most experiments touch little of what they allocate
        self._buffers: dict[tuple[str, int], Any] = {}
        self.kernel_of = cache(self._kernel_of)

    # -- what experiments need -----------------------------------------------------------------------------------------

    def buffer(self, name: str, size: int) -> Any:
        """Device memory of ``size`` bytes as floats, the same for the same name and size, with any contents."""
        if (name, size) not in self._buffers:
            self._buffers[name, size] = cp.empty(max(1, size // 4), dtype=cp.float32)
        return self._buffers[name, size]

    def zeros(self, name: str, size: int) -> Any:
        """The same, filled with zeros."""
        if (name, size) not in self._buffers:
            self._buffers[name, size] = cp.zeros(max(1, size // 4), dtype=cp.float32)
        return self._buffers[name, size]

    def array(self, values: np.ndarray) -> Any:
        """A copy of ``values`` on the device."""
        return cp.asarray(values)

    def forget_buffers(self) -> None:
        """Free what the experiments of one topic needed."""
        self._buffers.clear()

    def large_shared(self, topic: str, name: str, size: int) -> Any:
        """The kernel, allowed to take ``size`` bytes of dynamic shared memory."""
        kernel = self.kernel_of(topic, name)
        kernel.max_dynamic_shared_size_bytes = size
        return kernel

    def _kernel_of(self, topic: str, name: str) -> Any:
        return self._module(topic).get_function(name)

    @cache  # noqa: B019 (one laboratory lives as long as its process)
    def _module(self, topic: str) -> Any:
        code = (SOURCES / f"{topic}.cu").read_text(encoding="utf-8")
        options = ("--std=c++17",) if "#include" in code else ()
        return cp.RawModule(code=code, options=options, enable_cooperative_groups=topic == COOPERATIVE)

    # -- instruments ---------------------------------------------------------------------------------------------------

    def kernel(
        self, topic: str, name: str, grid: Sequence[int] | int, block: Sequence[int] | int, *args: Any, shared: int = 0
    ) -> float:
        """Microseconds of one launch on the device."""
        kernel = self.large_shared(topic, name, shared) if shared > 48 << 10 else self.kernel_of(topic, name)
        grid_ = (grid,) if isinstance(grid, int) else tuple(grid)
        block_ = (block,) if isinstance(block, int) else tuple(block)
        addresses = tuple(each.data.ptr if isinstance(each, cp.ndarray) else each for each in args)
        if not self.is_gpu:
            return cudalab.benchmark(kernel, grid_, block_, addresses, shared_mem=shared).microseconds

        def launches(count: int) -> None:
            for _ in range(count):
                kernel(grid_, block_, addresses, shared_mem=shared)

        one, three = (cudalab.benchmark(partial(launches, count)).microseconds for count in (1, 3))
        return (three - one) / 2

    def events(self, work: Callable[[], Any]) -> float:
        """Microseconds between an event recorded before ``work()`` and one recorded behind it, in the null stream."""
        start, end = cp.cuda.Event(), cp.cuda.Event()

        def once() -> float:
            cudart.cudaDeviceSynchronize()
            start.record()
            work()
            end.record()
            end.synchronize()
            return float(cp.cuda.get_elapsed_time(start, end)) * 1000

        return self.median(once)

    def queued(self, work: Callable[[], Any], stream: Any = None, repeats: int | None = None) -> float:
        """Microseconds between events around ``work()``, all of which the host has enqueued before the first begins; in
        the null stream, or one of the current device."""
        cudart.cudaDeviceSynchronize()
        before = cudalab.clock()
        work()
        ahead = AHEAD + 3 * (cudalab.clock() - before)
        return self.median(lambda: self.queued_once(work, stream, ahead), repeats)

    @staticmethod
    def queued_once(work: Callable[[], Any], stream: Any = None, ahead: float = AHEAD) -> float:
        """The same of one run, behind a kernel that only waits, for ``ahead`` microseconds."""
        queue = cp.cuda.Stream.null if stream is None else stream
        start, end = cp.cuda.Event(), cp.cuda.Event()
        cudart.cudaDeviceSynchronize()
        with queue:
            waiting_kernel()((1,), (1,), (np.uint64(1000 * ahead),))
        start.record(queue)
        work()
        end.record(queue)
        end.synchronize()
        return float(cp.cuda.get_elapsed_time(start, end)) * 1000

    def calls(self, work: Callable[[], Any], count: int = 1, repeats: int | None = None) -> float:
        """Microseconds that the host is kept by ``work()``, over ``count``, with the looks at the clock; the device is
        idle at the start."""
        reading = 0.0 if self.is_gpu else READING

        def once() -> float:
            cudart.cudaDeviceSynchronize()
            before = cudalab.clock()
            work()
            return (cudalab.clock() - before + reading) / count

        return self.median(once, repeats)

    def until_done(self, work: Callable[[], Any]) -> float:
        """Microseconds from the first call of ``work()`` until the device has done everything."""

        def once() -> float:
            cudart.cudaDeviceSynchronize()
            before = cudalab.clock()
            work()
            cudart.cudaDeviceSynchronize()
            return cudalab.clock() - before

        return self.median(once)

    def median(self, once: Callable[[], float], repeats: int | None = None) -> float:
        """The median of repeated runs of ``once()``, which returns a figure in microseconds."""
        if self.is_gpu:
            once()  # the first runs pay for what is loaded lazily
            once()
        figures = [once() for _ in range(min(repeats or self.repeats, self.repeats))]
        cudart.cudaDeviceSynchronize()
        return statistics.median(figures)
