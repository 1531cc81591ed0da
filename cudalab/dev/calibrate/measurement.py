"""Measuring the microbenchmarks, and what calls and copies cost, on the device of this process.

A kernel's time is what two further launches behind a first one add between two events, halved, with a waiting kernel
in front so that the host is not what is timed. Copies and calls are timed as their names say. On the simulated device
the same program gives modelled figures.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

import cudalab
from cudalab import backend, cp
from cudalab.dev.calibrate import access_sources, cooperation_sources, sources
from cudalab.dev.calibrate.microbenchmark import Buffer, Microbenchmark

KB, MB = 1 << 10, 1 << 20
COOPERATIVE = "grid"
"""The module whose kernels are launched as cooperative."""
_NUMBERS: dict[str, Any] = {"i": np.int32, "I": np.uint32, "q": np.int64, "f": np.float32, "d": np.float64}


def module_sources() -> dict[str, str]:
    """The kernels of the microbenchmarks: CUDA C++ by name of the module."""
    return {
        "apart": sources.source(),
        "accesses": access_sources.source(),
        "together": cooperation_sources.source(),
        COOPERATIVE: cooperation_sources.GRID,
    }


class Measurement:
    """The device of this process."""

    def __init__(self) -> None:
        self.is_gpu = backend.choice().kind == "gpu"
        if not self.is_gpu:
            backend.simulated_device().memory.capacity = 1 << 42
        self._modules = {
            name: cp.RawModule(code=code, enable_cooperative_groups=name == COOPERATIVE)
            for name, code in module_sources().items()
        }
        self._memory: dict[str, Any] = {}

    def kernels(self, benchmarks: Iterable[Microbenchmark], report: Callable[[str], None]) -> dict[str, float]:
        """Microseconds of each, by name."""
        found = {}
        for each in benchmarks:
            found[each.name] = round(self._kernel(each), 4)
            report(f"{each.name}: {found[each.name]:.3f} us")
        return found

    def _kernel(self, each: Microbenchmark) -> float:
        kernel = self._modules[each.module].get_function(each.kernel)
        if each.shared > 48 * KB:
            kernel.max_dynamic_shared_size_bytes = each.shared
        arguments = [
            self._buffer(value) if isinstance(value, Buffer) else _NUMBERS[value[0]](value[1])
            for value in each.arguments
        ]
        grid, block = (each.blocks,), (each.threads,)
        if not self.is_gpu:
            return cudalab.benchmark(kernel, grid, block, arguments, shared_mem=each.shared).microseconds

        def launches(count: int) -> None:
            for _ in range(count):
                kernel(grid, block, arguments, shared_mem=each.shared)

        one, three = (cudalab.benchmark(partial(launches, count)).microseconds for count in (1, 3))
        return (three - one) / 2

    def _buffer(self, wanted: Buffer) -> int:
        """Zeros. Kernels that write use other buffers than those that read what they depend on."""
        known = self._memory.get(wanted.name)
        if known is None or known.nbytes < wanted.size or (not self.is_gpu and known.nbytes != wanted.size):
            self._memory.pop(wanted.name, None)
            known = self._memory[wanted.name] = _zeros(wanted.size, touched=self.is_gpu)
        return int(known.data.ptr)


def _zeros(size: int, *, touched: bool) -> Any:
    """New memory of the simulated device reads as zeros without being touched."""
    array = cp.empty(size, dtype=cp.uint8)
    if touched:
        array[:] = 0
    return array


def pack(each: Microbenchmark, addresses: dict[str, int]) -> bytes:
    """The parameter buffer of a launch with buffers at these addresses."""
    layout = "".join("Q" if isinstance(value, Buffer) else value[0] for value in each.arguments)
    values = [
        addresses[value.name] if isinstance(value, Buffer) else _NUMBERS[value[0]](value[1]).item()
        for value in each.arguments
    ]
    return struct.pack(layout, *values)
