"""Kernels that take up a whole device, and which of several kernels gets its places first.

What is judged is an order: which kernels were called, started and ended before which, as the device saw it. Kernels
that fill the device make that order the same on every profile, for then one starts only when blocks of another end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cudalab.sim.device.observer import Observer

if TYPE_CHECKING:
    from cudalab.checks.bench import Bench
    from cudalab.checks.streams import Trial
    from cudalab.sim.device.device import Device
    from cudalab.sim.device.queue.operation import Operation

THREADS = 1024
"""Of a block: an SM has room for one or two."""
# Blocks take the items from `begin` to `end` in turn. One thread computes, and the others keep the block's place.
_SOURCE = r"""
extern "C" __global__ void NAME(const float* in, float* out, int begin, int end, int steps) {
    for (int i = begin + blockIdx.x; i < end; i += gridDim.x) {
        if (threadIdx.x == 0) {
            float x = in[i], v = x;
            for (int s = 0; s < steps; s++) v = 0.5f * v + 0.5f * x;
            out[i] = v;
        }
        __syncthreads();
    }
}
"""
SHORT, LONG = 500, 20_000
"""Steps of an item: about one and some fifty µs."""

Moment = Literal["called", "started", "ended"]


def places(device: Device) -> int:
    """Blocks of 1024 threads that a device can run at once."""
    return device.profile.sms * (int(device.properties["maxThreadsPerMultiProcessor"]) // THREADS)


def copier(trial: Trial, name: str) -> Any:
    """A kernel ``(in, out, begin, end, steps)`` that copies, item by item, and takes its time."""
    return trial.kernel(_SOURCE.replace("NAME", name), name)


def launcher(trial: Trial, name: str, given: Any, made: Any, steps: int = SHORT, *, blocks: int = 0) -> Any:
    """``launch(stream)`` of a kernel that copies ``given`` to ``made``; by default one block for each item."""
    arguments = (given, made, np.int32(0), np.int32(given.size), np.int32(steps))
    return trial.launcher(copier(trial, name), (blocks or int(given.size),), (THREADS,), arguments)


class Turns(Observer):
    """The order in which the kernels of a case were called, started and ended, the caller's own ones included."""

    def __init__(self, trial: Trial) -> None:
        self._moments: list[tuple[Moment, Operation]] = []
        trial.device.observers.append(self)

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        self._note("called", operation)

    def started(self, operation: Operation) -> None:
        self._note("started", operation)

    def ended(self, operation: Operation) -> None:
        self._note("ended", operation)

    def _note(self, moment: Moment, operation: Operation) -> None:
        if operation.kind == "kernel":
            self._moments.append((moment, operation))

    def at(self, moment: Moment, operation: Operation) -> int:
        """Where this moment stands in the order of all."""
        return self._moments.index((moment, operation))

    def kernels(self, name: str) -> list[Operation]:
        """All kernels of this name, in the order in which they started."""
        return [operation for moment, operation in self._moments if moment == "started" and operation.name == name]

    def ahead_of(self, operation: Operation, name: str) -> int:
        """Kernels of this name that start between the call of ``operation`` and its start: they were pending, and it
        did not overtake them."""
        begin, end = self.at("called", operation), self.at("started", operation)
        return sum(begin < self.at("started", other) < end for other in self.kernels(name) if other is not operation)


def ran(bench: Bench, trial: Trial, *names: str, times: int = 1) -> bool:
    """Has the function launched each of these kernels as often as it should? A finding where it has not."""
    for name in names:
        if (count := len(trial.kernels(name))) != times:
            bench.find(
                "correctness",
                "wrong launches",
                f"{name} ran {count} times where {times} were wanted",
                look="each of them is to be launched once for each call of your function",
            )
            return False
    return True
