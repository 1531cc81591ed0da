"""``cupy.cuda.stream``: streams, events, and the graphs that are captured from streams.

The current stream belongs to a host thread and a device: ``with stream:`` makes it current for the block,
``stream.use()`` until another one is. Array functions and kernels go to the current stream unless told otherwise.
"""

from __future__ import annotations

import functools
import os
import tempfile
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import device, epoch, from_destructor, own_work, shutting_down
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
    """Each host thread's current streams, by device, and those that ``with`` put aside."""

    def __init__(self) -> None:
        default: _BaseStream = Stream.ptds if _PER_THREAD_IS_DEFAULT else Stream.null
        self.streams: defaultdict[int, _BaseStream] = defaultdict(lambda: default)
        self.stack: list[tuple[int, _BaseStream]] = []


def get_current_stream(device_id: int = -1) -> Any:
    """The stream that work goes to now, on a device, by default the current one."""
    return _current.streams[runtime.getDevice() if device_id < 0 else device_id]


def current_pointer(stream: Any = None) -> int:
    """Handle of ``stream``, or of the current one for None."""
    return int(_current.streams[runtime.getDevice()].ptr if stream is None else stream.ptr)


def refuse_capture(direction: str, stream: Any = None) -> None:
    """Raise when ``stream``, or the current one, captures a graph: CuPy copies between its arrays and NumPy's only
    outside of captures. ``direction``: ``H2D`` or ``D2H``."""
    if device().capturing and runtime.streamIsCapturing(current_pointer(stream)):
        raise RuntimeError(f"the current stream is capturing, so {direction} transfers are disallowed")


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
        own_work("event_object")
        self._create(flags | _INTERPROCESS * bool(interprocess))

    def _create(self, flags: int = 0) -> None:
        self._epoch = epoch()
        self.ptr = runtime.eventCreateWithFlags(flags)

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


class Graph:
    """A captured graph, instantiated: ``stream.end_capture()`` returns it.

    ``graph`` and ``graphExec`` are the handles of the graph and of the executable graph; ``host_funcargs`` keeps what
    its host functions need alive.
    """

    graph: int
    graphExec: int
    host_funcargs: list[Any]
    _epoch: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "currently this class cannot be initiated by the user and must be created via stream capture"
        )

    @classmethod
    def _from_handle(cls, graph: int) -> Graph:
        """Instantiate a graph, which belongs to the object from now on."""
        made = cls.__new__(cls)
        made.graph, made.graphExec, made.host_funcargs, made._epoch = graph, 0, [], epoch()
        made.graphExec = runtime.graphInstantiate(graph)
        return made

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over or not getattr(self, "graph", 0):
            return
        graph, executable = self.graph, self.graphExec

        def destroy() -> None:
            runtime.graphDestroy(graph)
            if executable:
                runtime.graphExecDestroy(executable)

        from_destructor(destroy, self._epoch)

    def launch(self, stream: Any = None) -> None:
        """Launch it in ``stream``, or in the current one."""
        runtime.graphLaunch(self.graphExec, current_pointer(stream))

    def upload(self, stream: Any = None) -> None:
        """Bring what a launch needs to the device, in ``stream`` or the current one."""
        runtime.graphUpload(self.graphExec, current_pointer(stream))

    def debug_dot_str(self, flags: int = 0) -> str:
        """The graph as text for Graphviz; ``flags`` are ``cudaGraphDebugDotFlags…`` of the runtime."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.dot")
            runtime.graphDebugDotPrint(self.graph, path, flags)
            with open(path, encoding="utf-8") as file:
                return file.read()


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two recorded events. Modelled."""
    own_work("elapsed_of_events")
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
        own_work("stream_block")
        device = self._checked_device()
        _current.stack.append((device, _current.streams[device]))
        _current.streams[device] = self
        return self

    def __exit__(self, *_: object) -> None:
        device, before = _current.stack.pop()
        _current.streams[device] = before

    def _checked_device(self) -> int:
        """The current device, which must be the stream's."""
        current = runtime.getDevice()
        if self.device_id not in (-1, current):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with the current device "
                f"({current})"
            )
        return current

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    def use(self) -> _BaseStream:
        """Make it the current stream until another one is."""
        _current.streams[self._checked_device()] = self
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
            event = Event.__new__(Event)  # without what a call of the class from Python takes
            event._create()
        runtime.eventRecord(event.ptr, self.ptr)
        return event

    def wait_event(self, event: Event) -> None:
        """Work that follows in the stream waits for ``event``."""
        runtime.streamWaitEvent(self.ptr, event.ptr)

    def begin_capture(self, mode: int | None = None) -> None:
        """What is put into the stream from now on becomes a graph, and does not run. The mode is relaxed unless given,
        so that memory can be allocated meanwhile."""
        if self.ptr in (0, _LEGACY):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        runtime.streamBeginCapture(self.ptr, runtime.streamCaptureModeRelaxed if mode is None else mode)

    def end_capture(self) -> Any:
        """The :class:`~cupy.cuda.Graph` of what was put into the stream since :meth:`begin_capture`, instantiated."""
        return Graph._from_handle(runtime.streamEndCapture(self.ptr))

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
            own_work("stream_object")
            pointer = runtime.streamCreateWithPriority(int(bool(non_blocking)), priority or 0)
            super().__init__(pointer, runtime.getDevice())

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
