"""``cupy.cuda.stream``: streams and events.

The current stream belongs to a host thread: ``with stream:`` makes it current for the block, ``stream.use()`` until
another one is. Array functions and kernels go to the current stream unless told otherwise.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import epoch, from_destructor, shutting_down
from cudalab.sim.cupy.cuda import runtime

_LEGACY, _PER_THREAD = 1, 2
_BLOCKING_SYNC, _DISABLE_TIMING, _INTERPROCESS = 1, 2, 4


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.stream", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.stream", globals())


_PER_THREAD_IS_DEFAULT = os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0").strip() == "1"
"""Read once, as CuPy does."""


class _Current(threading.local):
    """Each host thread's current stream, and those that ``with`` put aside."""

    def __init__(self) -> None:
        self.stream: _BaseStream = Stream.ptds if _PER_THREAD_IS_DEFAULT else Stream.null
        self.stack: list[_BaseStream] = []


def get_current_stream(device_id: int = -1) -> Any:
    """The stream that work goes to now."""
    return _current.stream


def current_pointer(stream: Any = None) -> int:
    """Handle of ``stream``, or of the current one for None."""
    return int(_current.stream.ptr if stream is None else stream.ptr)


class Event:
    """A point in a stream (guide, "Events").

    Args:
        block: ``synchronize`` sleeps instead of spinning.
        disable_timing: no time is kept; cheaper, and enough for dependencies.
        interprocess: for other processes; needs ``disable_timing``.
    """

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.ptr = 0
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        flags = _BLOCKING_SYNC * bool(block) | _DISABLE_TIMING * bool(disable_timing)
        self._epoch = epoch()
        self.ptr = runtime.eventCreateWithFlags(flags | _INTERPROCESS * bool(interprocess))

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        pointer = getattr(self, "ptr", 0)  # an interrupt may have come first
        if pointer and not _over:
            from_destructor(lambda: runtime.eventDestroy(pointer), self._epoch)

    @property
    def done(self) -> bool:
        """Has everything before its last record ended? An event that was never recorded is done."""
        return runtime.eventQuery(self.ptr) == 0

    def record(self, stream: Any = None) -> None:
        """Record it in ``stream``, or in the current one."""
        runtime.eventRecord(self.ptr, current_pointer(stream))

    def synchronize(self) -> None:
        """Wait on the host until it is done."""
        runtime.eventSynchronize(self.ptr)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two recorded events. Modelled."""
    return runtime.eventElapsedTime(start_event.ptr, end_event.ptr)


class _BaseStream:
    """What all streams can do."""

    ptr: int
    device_id: int

    def __init__(self, ptr: int, device_id: int) -> None:
        self.ptr = ptr
        self.device_id = device_id

    def __eq__(self, other: object) -> bool:
        return self.ptr == other.ptr if isinstance(other, _BaseStream) else False

    def __hash__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def __enter__(self) -> _BaseStream:
        _current.stack.append(_current.stream)
        _current.stream = self
        return self

    def __exit__(self, *_: object) -> None:
        _current.stream = _current.stack.pop()

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    def use(self) -> _BaseStream:
        """Make it the current stream until another one is."""
        _current.stream = self
        return self

    @property
    def done(self) -> bool:
        """Has all its work ended?"""
        return runtime.streamQuery(self.ptr) == 0

    def synchronize(self) -> None:
        """Wait on the host until all its work has ended."""
        runtime.streamSynchronize(self.ptr)

    def add_callback(self, callback: Callable[[Any, int, Any], None], arg: Any) -> None:
        """Call ``callback(stream, status, arg)`` on the host when the work before it has ended."""
        call = functools.wraps(callback)(lambda _stream, status, _arg: callback(self, status, arg))
        runtime.streamAddCallback(self.ptr, call, 0)

    def launch_host_func(self, callback: Callable[[Any], None], arg: Any) -> None:
        """Call ``callback(arg)`` on the host when the work before it has ended; it must not call CUDA."""
        runtime.launchHostFunc(self.ptr, callback, arg)

    def record(self, event: Event | None = None) -> Event:
        """Record ``event`` (a new one for None) in the stream and return it."""
        if event is None:
            event = Event()
        runtime.eventRecord(event.ptr, self.ptr)
        return event

    def wait_event(self, event: Event) -> None:
        """Work that follows in the stream waits for ``event``."""
        runtime.streamWaitEvent(self.ptr, event.ptr)

    def begin_capture(self, mode: int | None = None) -> None:
        """Stream capture comes with the chapter on graphs."""
        if self.ptr in (0, _LEGACY):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        raise catalogue.missing("cupy.cuda", "Graph")

    def end_capture(self) -> Any:
        """See :meth:`begin_capture`."""
        raise catalogue.missing("cupy.cuda", "Graph")

    def is_capturing(self) -> bool:
        """Is a graph being captured from it?"""
        return runtime.streamIsCapturing(self.ptr)

    @property
    def is_non_blocking(self) -> bool:
        """Does it ignore the legacy default stream?"""
        return bool(runtime.streamGetFlags(self.ptr) & 1)

    @property
    def priority(self) -> int:
        """Lower numbers go first."""
        return runtime.streamGetPriority(self.ptr)


class Stream(_BaseStream):
    """A stream (guide, "Streams").

    Args:
        null: the legacy default stream.
        non_blocking: no implicit synchronisation with the legacy default stream.
        ptds: the calling thread's own default stream.
        priority: lower numbers go first; clamped to the device's range.
    """

    null: Stream
    ptds: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        self.ptr = 0
        self._epoch: Any = None
        self._foreign: Any = None  # the last of the three: the destructor looks for it
        if null:
            super().__init__(0, -1)
        elif ptds:
            super().__init__(_PER_THREAD, -1)
        else:
            self._epoch = epoch()  # the default streams are made at import, before anybody has chosen a device
            super().__init__(runtime.streamCreateWithPriority(int(bool(non_blocking)), priority or 0), 0)

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        if getattr(self, "_foreign", self) is None and self.ptr not in (0, _LEGACY, _PER_THREAD):
            pointer = self.ptr
            from_destructor(lambda: runtime.streamDestroy(pointer), self._epoch)

    @classmethod
    def from_external(cls, obj: Any) -> Stream:
        """A stream object for one of another library that has ``__cuda_stream__``."""
        if not hasattr(obj, "__cuda_stream__"):
            raise TypeError(
                f"Object of type {type(obj).__name__} does not implement the CUDA stream protocol "
                "(__cuda_stream__ method)"
            )
        _version, pointer = obj.__cuda_stream__()
        stream = cls.__new__(cls)
        _BaseStream.__init__(stream, int(pointer), -1)
        stream._foreign = obj
        return stream


class ExternalStream(_BaseStream):
    """A stream that CuPy did not make, by its handle. Deprecated: use :meth:`Stream.from_external`."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        warnings.warn(
            "ExternalStream is deprecated. Use Stream.from_external() instead to interoperate with external streams "
            "that implement the CUDA stream protocol.",
            DeprecationWarning,
            stacklevel=2,
        )
        super().__init__(int(ptr), device_id)


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)
_current = _Current()
