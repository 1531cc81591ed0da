"""``cudaLaunchHostFunc``: a function of the host that runs in stream order and must not call CUDA."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from cudalab.sim.device.caller import Place, is_ours
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.operation import Operation, Work
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.reports.faults import RAISE_TIME_LIMIT

_running: list[Operation] = []


def running() -> Operation | None:
    """The host function that runs now, in whatever thread."""
    return _running[-1] if _running else None


class HostFunction(Work[Operation], Struct, frozen=True, eq=False):
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


def ignored(function: Callable[..., Any], error: BaseException) -> str:
    """What is shown of an exception in a host function. ``function`` may wrap the program's (``functools.wraps``)."""
    frames = error.__traceback__
    while frames is not None and is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    lines = [
        f"Exception in the host function {_name(function)}. CUDA ignores what a host function raises, and the stream "
        "goes on:"
    ]
    lines += traceback.format_exception(type(error), error, frames)
    if frames is None and isinstance(error, TypeError):  # it was not even entered
        lines.append("launch_host_func calls function(arg), and add_callback calls function(stream, status, arg).")
    return "\n".join(line.rstrip("\n") for line in lines)


def endless(function: Callable[..., Any], time_limit: float) -> str:
    """What the error says when a host function does not return."""
    return (
        f"the host function {_name(function)} has not returned after {time_limit:g} seconds. On a GPU its stream waits "
        "for ever. It is left behind in its thread, and the stream goes on without it. A host function must not wait "
        "for what the program does later: on the simulated device the program waits in this call meanwhile. One that "
        f"needs longer gets it with {RAISE_TIME_LIMIT}"
    )


def _name(function: Callable[..., Any]) -> str:
    """The function that the program gave, and where it is defined."""
    given = inspect.unwrap(function)
    name = getattr(given, "__qualname__", None) or type(given).__qualname__
    code = getattr(given, "__code__", None)
    return f"{name!r} ({Place(code, code.co_firstlineno)})" if code is not None else repr(name)
