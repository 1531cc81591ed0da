"""Stream capture as runtime calls (``graphs/capture.py`` has the rules)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.device.calls.graphs.graphs import GraphCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Handle
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.capture import RELAXED, CaptureSequence, Ends
from cudalab.sim.device.graphs.graph import Edge, Graph
from cudalab.sim.device.queue.operation import Stream
from cudalab.sim.device.queue.stream import LEGACY, LEGACY_HANDLE
from cudalab.sim.device.state import DeviceState

NONE, ACTIVE, INVALIDATED = range(3)
_ADD, _SET = 0, 1


class CaptureInfo(Struct, frozen=True):
    """What ``cudaStreamGetCaptureInfo`` says."""

    status: int
    """0: none; 1: it captures; 2: the capture is invalid."""
    number: int = 0
    graph: Handle = 0
    nodes: tuple[tuple[Handle, int, int, int], ...] = ()
    """What the stream's next node will depend on, each with the data of the edge."""


class StreamCaptureCalls(CallGroup):
    """Streams that capture graphs."""

    def __init__(self, state: DeviceState, graphs: GraphCalls) -> None:
        super().__init__(state)
        self._graphs = graphs

    def clear(self) -> None:
        self._numbers = itertools.count(1)

    @call("cudaStreamBeginCapture", "cuStreamBeginCapture", cost="capture_begin")
    def capture_begin(self, stream: Handle, mode: int = 0) -> None:
        """What is put into the stream from now on becomes nodes of a new graph."""
        queue = self._ready("cudaStreamBeginCapture", stream, mode)
        self._begin(queue, mode, self._graphs.new_graph(), {}, own=True)

    @call("cudaStreamBeginCaptureToGraph", "cuStreamBeginCaptureToGraph", cost="capture_begin")
    def capture_begin_to_graph(
        self, stream: Handle, graph: Handle, after: Sequence[Handle], mode: int = 0, edges: Sequence[Edge] | None = None
    ) -> None:
        """The same into a graph that is there; the first node depends on the nodes ``after``."""
        name = "cudaStreamBeginCaptureToGraph"
        queue = self._ready(name, stream, mode)
        found = self._graphs.graph(graph, name)
        self._begin(queue, mode, found, self._graphs.own_nodes(found, after, name, edges), own=False)

    def _ready(self, name: str, stream: int, mode: int) -> Stream:
        queue = self.state.scheduler.streams.find(stream)
        if not 0 <= mode <= RELAXED:
            raise invalid_value(f"{name}: {mode} is no cudaStreamCaptureMode")
        if self.state.scheduler.streams.is_legacy(queue):
            raise CudaError(
                cudaError_t.cudaErrorStreamCaptureUnsupported,
                f"{name}: the legacy default stream cannot capture, because other streams wait for it. Make a stream, "
                "best with cudaStreamNonBlocking",
            )
        if queue.capture is not None:
            raise CudaError(cudaError_t.cudaErrorIllegalState, f"{name}: the stream captures already")
        return queue

    def _begin(self, stream: Stream, mode: int, graph: Graph, after: Ends, *, own: bool) -> None:
        capture = CaptureSequence(next(self._numbers), mode, stream, graph, self._graphs.add, own=own)
        capture.ends[stream] = after
        self.state.captures.begin(capture)
        self.state.captures_changed()

    @call("cudaStreamEndCapture", "cuStreamEndCapture", cost="capture_end")
    def capture_end(self, stream: Handle) -> Handle:
        """The stream runs its work again; returns the graph. A capture that is invalid, or has work in streams that
        this one does not come after, ends without a graph and with an error."""
        name = "cudaStreamEndCapture"
        queue = self.state.scheduler.streams.find(stream)
        capture = queue.capture
        if capture is None:
            raise CudaError(cudaError_t.cudaErrorIllegalState, f"{name}: the stream does not capture")
        if capture.mode != RELAXED and capture.thread != threading.get_ident():
            self._close(capture)
            raise CudaError(
                cudaError_t.cudaErrorStreamCaptureWrongThread,
                f"{name}: the thread that began the capture must end it, unless its mode is "
                "cudaStreamCaptureModeRelaxed",
            )
        if capture.origin is not queue:
            raise capture.refuse(
                name,
                cudaError_t.cudaErrorStreamCaptureUnmatched,
                "the capture began in another stream and must end there",
            )
        self._close(capture)
        self.state.spend(len(capture.graph.nodes) * self.state.profile.host["capture_end_node"])
        try:
            capture.check(name)
            left = capture.unjoined()
            if left:
                raise CudaError(
                    cudaError_t.cudaErrorStreamCaptureUnjoined,
                    f"{name}: the stream in which the capture began does not come after "
                    f"{', '.join(node.label for node in left)}. Record an event behind that and let the first stream "
                    "wait for it (cudaStreamWaitEvent, stream.wait_event) before the end",
                )
        except CudaError:
            if capture.own_graph:
                self._graphs.forget(capture.graph)
            raise
        return capture.graph.handle

    def _close(self, capture: CaptureSequence) -> None:
        self.state.captures.end(capture)
        self.state.captures_changed()

    @call("cudaStreamIsCapturing", "cuStreamIsCapturing")
    def stream_is_capturing(self, stream: Handle) -> int:
        """0: no; 1: yes; 2: the capture is invalid."""
        return self._status(self._asked("cudaStreamIsCapturing", stream))

    def _asked(self, name: str, stream: int) -> Stream:
        """The stream of a question, which does not invalidate a capture."""
        if stream in (LEGACY, LEGACY_HANDLE):
            self.state.captures.look_at_legacy(name)
            return self.state.scheduler.streams.legacy
        return self.state.scheduler.streams.find(stream)

    @staticmethod
    def _status(stream: Stream) -> int:
        if stream.capture is None:
            return NONE
        return ACTIVE if stream.capture.valid else INVALIDATED

    @call("cudaStreamGetCaptureInfo", "cuStreamGetCaptureInfo")
    def capture_info(self, stream: Handle) -> CaptureInfo:
        """The capture that the stream is part of: its graph, and what the next node depends on."""
        queue = self._asked("cudaStreamGetCaptureInfo", stream)
        status, capture = self._status(queue), queue.capture
        if capture is None or status == INVALIDATED:
            return CaptureInfo(status)
        nodes = tuple((node.handle, *data) for node, data in capture.ends[queue].items())
        return CaptureInfo(status, capture.number, capture.graph.handle, nodes)

    @call("cudaStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies")
    def capture_update_dependencies(
        self, stream: Handle, nodes: Sequence[Handle], flags: int = 0, edges: Sequence[Edge] | None = None
    ) -> None:
        """The stream's next node depends on ``nodes``, too (0), or on nothing else (1)."""
        name = "cudaStreamUpdateCaptureDependencies"
        queue = self.state.scheduler.streams.find(stream)
        if flags not in (_ADD, _SET):
            raise invalid_value(f"{name}: flags must be cudaStreamAddCaptureDependencies (0) or Set (1), got {flags}")
        capture = queue.capture
        if capture is None:
            raise CudaError(cudaError_t.cudaErrorIllegalState, f"{name}: the stream does not capture")
        capture.check(name)
        found = self._graphs.own_nodes(capture.graph, nodes, name, edges)
        capture.ends[queue] = found if flags == _SET else capture.ends[queue] | found

    @call("cudaThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode")
    def capture_mode(self, mode: int) -> int:
        """What the calling thread may do while others capture: set it, and get what it was."""
        if not 0 <= mode <= RELAXED:
            raise invalid_value(f"cudaThreadExchangeStreamCaptureMode: {mode} is no cudaStreamCaptureMode")
        return self.state.captures.exchange_mode(mode)
