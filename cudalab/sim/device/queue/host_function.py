"""``cudaLaunchHostFunc``: a function of the host that runs in stream order and must not call CUDA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.operation import Operation, Work
from cudalab.sim.machine.memory import host_watch

_running: list[Operation] = []


def running() -> Operation | None:
    """The host function that runs now, in whatever thread."""
    return _running[-1] if _running else None


@dataclass(frozen=True, slots=True, eq=False)
class HostFunction(Work[Operation]):
    """A function that is called when the work before it in the stream has ended; later work waits for it."""

    kind = "host"
    name = "host function"

    call: Callable[[], None]
    duration: int = 0
    on_fault: Callable[[CudaError], None] | None = None
    """What is called instead when the device is lost first."""

    def begin(self, operation: Operation) -> int:
        return self.duration

    def run(self, operation: Operation) -> None:
        _running.append(operation)
        try:
            with host_watch.listening():  # the program's own code, in the midst of a call
                self.call()
        finally:
            _running.pop()
