"""Stream capture: calls of a stream become nodes of a graph, and nothing runs.

A capture begins in one stream and takes in every stream that waits for an event recorded in it (a *fork*); each of its
streams keeps the nodes that its next one will depend on. It ends in the stream in which it began, which must by then
come after all others (*joined*). A call that cannot be part of a graph, or that would have to wait for work that does
not run, is refused, and *invalidates* the capture: its streams refuse everything until ``cudaStreamEndCapture`` (CUDA
Programming Guide, "Prohibited and Unhandled Operations").
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.content import Content
from cudalab.sim.device.graphs.graph import PLAIN, Edge, Graph, Node, ancestors, edge_error

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Stream, Work
    from cudalab.sim.device.queue.stream import Event

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
_CAPTURED = (
    "the event was last recorded in a stream that captures a graph, so it stands for a place in the graph and never "
    "completes. Record it behind the launch of the graph"
)
_LEGACY = (
    "the legacy default stream would have to wait for a stream that captures a graph. Capture from a stream made with "
    "cudaStreamNonBlocking, or use another stream for this"
)
_MODES = ("Global", "ThreadLocal", "Relaxed")

AddNode = Callable[[Graph, Iterable[Node], Content, "Work[Any] | None"], Node]
Ends = dict[Node, Edge]
"""What the next node of a stream depends on, and the data of those edges."""


class CaptureSequence:
    """One capture, from its begin to its end."""

    def __init__(self, number: int, mode: int, origin: Stream, graph: Graph, add: AddNode, *, own: bool) -> None:
        self.number = number
        """What ``cudaStreamGetCaptureInfo`` calls its id."""
        self.mode = mode
        self.thread = threading.get_ident()
        self.origin = origin
        self.graph = graph
        self.own_graph = own
        """Was the graph made for this capture?"""
        self.why = ""
        """What invalidated it; empty while it is valid."""
        self.active = True
        self.ends: dict[Stream, Ends] = {origin: {}}
        """Its streams, and what the next node of each depends on."""
        self._add = add

    @property
    def valid(self) -> bool:
        return not self.why

    def check(self, name: str) -> None:
        """Raise ``cudaErrorStreamCaptureInvalidated`` when it is not valid any more."""
        if self.why:
            raise CudaError(
                cudaError_t.cudaErrorStreamCaptureInvalidated,
                f"{name}: the capture was invalidated before, by {self.why}. cudaStreamEndCapture ends it, with an "
                "error and without a graph",
            )

    def refuse(self, name: str, code: cudaError_t, why: str) -> CudaError:
        """The capture is invalid from here on; raise what is returned."""
        if not self.why:
            self.why = name
        return CudaError(code, f"{name}: {why}")

    def add(self, stream: Stream, content: Content, work: Work[Any] | None, edge: Edge = PLAIN) -> Node:
        """A call of one of its streams becomes a node, behind edges like ``edge`` where nodes can have such."""
        before = self.ends[stream]
        node = self._add(self.graph, before, content, work)
        for other, data in before.items():
            wanted = edge if data == PLAIN else data
            if wanted != PLAIN and not edge_error(other, node, wanted):
                self.graph.connect(other, node, wanted)
        self.ends[stream] = {node: PLAIN}
        return node

    def join(self, stream: Stream, nodes: Iterable[Node]) -> None:
        """The next node of ``stream`` comes after ``nodes``, too; the stream may be new."""
        stream.capture = self
        ends = self.ends.setdefault(stream, {})
        for node in nodes:
            ends.setdefault(node, PLAIN)

    def unjoined(self) -> list[Node]:
        """The last nodes of streams that its first stream does not come after."""
        joined = ancestors(self.ends[self.origin])
        return [node for nodes in self.ends.values() for node in nodes if node not in joined]

    def leave(self) -> None:
        """Its streams do not capture any more."""
        self.active = False
        for stream in self.ends:
            stream.capture = None


class Captures:
    """All captures of a device, and what they forbid."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.active: list[CaptureSequence] = []
        self._modes: dict[int, int] = {}

    def exchange_mode(self, mode: int) -> int:
        """The calling thread's mode becomes ``mode``; returns what it was."""
        thread = threading.get_ident()
        before = self._modes.get(thread, GLOBAL)
        self._modes[thread] = mode
        return before

    def begin(self, capture: CaptureSequence) -> None:
        self.active.append(capture)
        capture.origin.capture = capture

    def end(self, capture: CaptureSequence) -> None:
        self.active.remove(capture)
        capture.leave()

    @staticmethod
    def add(stream: Stream, content: Content, work: Work[Any] | None, edge: Edge = PLAIN) -> None:
        """A call of a capturing stream becomes a node; raises when the capture is not valid any more."""
        assert stream.capture is not None
        stream.capture.check(work.title if work is not None else content.kind.title)
        stream.capture.add(stream, content, work, edge)

    @property
    def forbids_legacy(self) -> bool:
        """Does a stream capture that the legacy default stream would have to wait for?"""
        return any(stream.blocking for capture in self.active for stream in capture.ends)

    def refuse_legacy(self) -> None:
        """The legacy default stream is used: raise ``cudaErrorStreamCaptureImplicit`` when a blocking stream
        captures."""
        concerned = [capture for capture in self.active if any(stream.blocking for stream in capture.ends)]
        if concerned:
            raise self._refuse(
                concerned,
                "a call that uses the legacy default stream",
                cudaError_t.cudaErrorStreamCaptureImplicit,
                _LEGACY,
            )

    def look_at_legacy(self, name: str) -> None:
        """A call asks whether the legacy default stream captures: the same error, and the capture stays valid."""
        if self.forbids_legacy:
            raise CudaError(cudaError_t.cudaErrorStreamCaptureImplicit, f"{name}: {_LEGACY}")

    @staticmethod
    def refuse_wait_of_legacy(capture: CaptureSequence, name: str) -> CudaError:
        """The legacy default stream waits for an event of a capture."""
        return capture.refuse(name, cudaError_t.cudaErrorStreamCaptureImplicit, _LEGACY)

    def refuse_everything(self, name: str) -> None:
        """A call waits for the whole device: raise ``cudaErrorStreamCaptureUnsupported`` while anything captures."""
        if self.active:
            raise self._refuse(
                self.active,
                name,
                cudaError_t.cudaErrorStreamCaptureUnsupported,
                "the device cannot be waited for while a stream captures a graph, because what is captured does not "
                "run. Wait after cudaStreamEndCapture",
            )

    def refuse_unsafe(self, name: str) -> None:
        """A call may be unsafe while a graph is captured: raise ``cudaErrorStreamCaptureUnsupported`` where the modes
        of the captures and of this thread forbid it."""
        thread = threading.get_ident()
        mode = self._modes.get(thread, GLOBAL)
        if mode == RELAXED:
            return
        concerned = [
            capture
            for capture in self.active
            if (capture.thread == thread and capture.mode != RELAXED) or (mode == GLOBAL and capture.mode == GLOBAL)
        ]
        if concerned:
            raise self._refuse(
                concerned,
                name,
                cudaError_t.cudaErrorStreamCaptureUnsupported,
                f"may wait for work that is being captured, so a capture of mode cudaStreamCaptureMode"
                f"{_MODES[concerned[0].mode]} forbids it. Call it before the capture begins, or capture with "
                "cudaStreamCaptureModeRelaxed",
            )

    @staticmethod
    def _refuse(captures: Iterable[CaptureSequence], name: str, code: cudaError_t, why: str) -> CudaError:
        return [capture.refuse(name, code, why) for capture in captures][0]

    def refuse_stream(self, stream: Stream, name: str) -> None:
        """A call asks for the state of a stream: raise ``cudaErrorStreamCaptureUnsupported`` when it captures."""
        capture = stream.capture
        if capture is not None:
            raise capture.refuse(
                name,
                cudaError_t.cudaErrorStreamCaptureUnsupported,
                "the stream captures a graph, so what was put into it does not run and can be neither waited for nor "
                "asked about. End the capture, launch the graph, and wait for that",
            )

    def refuse_work(self, stream: Stream, name: str) -> None:
        """A stream captures, and work comes that cannot be a node: raise ``cudaErrorStreamCaptureUnsupported``."""
        assert stream.capture is not None
        stream.capture.check(name)
        raise stream.capture.refuse(
            name,
            cudaError_t.cudaErrorStreamCaptureUnsupported,
            "graphs have no node for this, so it cannot be captured. Do it before the capture, or behind the launch; a "
            "graph becomes part of another as a child graph node (cudaGraphAddChildGraphNode)",
        )

    @staticmethod
    def refuse_event(event: Event, name: str, *, invalidates: bool = True) -> None:
        """A call asks for the state of an event: raise ``cudaErrorCapturedEvent`` when its record is a captured one,
        and ``cudaErrorInvalidValue`` when that capture has ended."""
        if event.captured is None:
            return
        capture, why = event.captured.capture, f"{name}: {_CAPTURED}"
        if not capture.active:
            raise invalid_value(why)
        if invalidates:
            raise capture.refuse(name, cudaError_t.cudaErrorCapturedEvent, _CAPTURED)
        raise CudaError(cudaError_t.cudaErrorCapturedEvent, why)
