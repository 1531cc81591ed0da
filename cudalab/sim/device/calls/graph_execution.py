"""Instantiating graphs and launching them, as runtime calls."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.calls.graph_memory import GraphMemoryCalls
from cudalab.sim.device.calls.graphs import GraphCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Handle, InCapture
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.content import NodeKind
from cudalab.sim.device.graphs.executable import EDGE, GRAPH, ExecutableGraph, ExecutableNode, GraphEnd, GraphStart
from cudalab.sim.device.graphs.memory import Release
from cudalab.sim.device.graphs.user_object import References
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.queue.ordering import EMPTY
from cudalab.sim.device.state import DeviceState

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Stream

AUTO_FREE, DEVICE_LAUNCH, NODE_PRIORITY = 1, 4, 8
_FIRST, _STEP = 0x1000_0000, 0x40


class GraphExecutionCalls(CallGroup):
    """Executable graphs."""

    def __init__(self, state: DeviceState, graphs: GraphCalls, memory: GraphMemoryCalls) -> None:
        super().__init__(state)
        self._graphs, self._memory = graphs, memory

    def clear(self) -> None:
        self._executables: dict[int, ExecutableGraph] = {}
        self._handles = itertools.count(_FIRST, _STEP)
        self._numbers = itertools.count(1)

    @call(
        "cudaGraphInstantiate",
        "cudaGraphInstantiateWithFlags",
        "cudaGraphInstantiateWithParams",
        "cuGraphInstantiate",
        "cuGraphInstantiateWithParams",
        cost=None,
        in_capture=InCapture.UNSAFE,
    )
    def graph_instantiate(self, graph: Handle, flags: int = 0) -> Handle:
        """Make an executable graph of what the graph is now: a handle. Later changes of the graph do not reach it."""
        name = "cudaGraphInstantiate"
        found = self._graphs.graph(graph, name)
        if flags & ~(AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY):
            raise invalid_value(
                f"{name}: flags {flags:#x} are none of cudaGraphInstantiateFlag…; the one for an upload takes "
                "cudaGraphInstantiateWithParams, which knows the stream"
            )
        if flags & DEVICE_LAUNCH:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"{name}: graphs that kernels launch (cudaGraphInstantiateFlagDeviceLaunch) are not simulated; launch "
                "from the host with cudaGraphLaunch",
            )
        if any(other.source == found.number for other in self._executables.values()):
            self._memory.refuse(name, found, "be instantiated again before its executable graph is destroyed")
        made = ExecutableGraph(next(self._handles), next(self._numbers), found, flags)
        for node in made.nodes:
            self._memory.added(node.content)
        for each in found.all_graphs():
            made.references.copy_of(each.references)
        host = self.state.profile.host
        time = len(made.nodes) * host["graph_instantiate_node"] + made.branches * host["graph_instantiate_branch"]
        self.state.spend(host["graph_instantiate"] + time)
        self._executables[made.handle] = made
        return made.handle

    @call("cudaGraphExecDestroy", "cuGraphExecDestroy", cost="graph_create")
    def graph_exec_destroy(self, executable: Handle) -> None:
        """Destroy an executable graph. Launches of it that are under way complete."""
        found = self.executable(executable, "cudaGraphExecDestroy")
        self.state.spend(len(found.nodes) * self.state.profile.host["graph_exec_destroy_node"])
        self._memory.gone(node.content for node in found.nodes)
        del self._executables[executable]
        self.let_go(found.references, found)

    @call("cudaGraphExecGetFlags", "cuGraphExecGetFlags")
    def graph_exec_flags(self, executable: Handle) -> int:
        """The flags that it was instantiated with."""
        return self.executable(executable, "cudaGraphExecGetFlags").flags & ~NODE_PRIORITY

    @call("cudaGraphExecGetId", "cuGraphExecGetId")
    def graph_exec_get_id(self, executable: Handle) -> int:
        """A number that no other executable graph of the process has."""
        return self.executable(executable, "cudaGraphExecGetId").number

    @call("cudaGraphUpload", "cuGraphUpload", cost=None)
    def graph_upload(self, executable: Handle, stream: Handle = 0) -> None:
        """Bring what a launch needs to the device, so that the first launch is as quick as later ones."""
        found = self.executable(executable, "cudaGraphUpload")
        queue = self.state.scheduler.streams.find(stream)
        if queue.capture is not None:
            self.state.captures.refuse_work(queue, "cudaGraphUpload")
        self._upload(found)

    def _upload(self, graph: ExecutableGraph) -> None:
        """What a launch needs goes to the device, unless it is there."""
        host, graph.uploaded = self.state.profile.host, True
        nodes, branches = len(graph.nodes), graph.branches
        time = nodes * host["graph_upload_node"] + branches * host["graph_upload_branch"]
        memory = self.state.graph_memory
        for device, size in graph.allocates().items():
            memory.usage(device).take(size, memory.held(device))
        self.state.spend(host["graph_upload"] + time)

    @call("cudaGraphLaunch", "cuGraphLaunch", cost=None)
    def graph_launch(self, executable: Handle, stream: Handle = 0) -> None:
        """Launch an executable graph: behind what is in the stream, and behind its own launch before."""
        found = self.executable(executable, "cudaGraphLaunch")
        queue = self.state.scheduler.streams.find(stream)
        if queue.capture is not None:
            self.state.captures.refuse_work(queue, "cudaGraphLaunch")
        host = self.state.profile.host
        if not found.uploaded:
            self._upload(found)
        first = self._memory.launched(found.memory_contents, auto_free=bool(found.flags & AUTO_FREE))
        roots = max(0, found.roots - 1) * host["graph_launch_root"]
        self.state.spend(host["graph_launch"] + len(found.nodes) * host["graph_launch_node"] + roots)
        self.state.flush_prints()
        for allocation in first:
            self.state.issue(Release(allocation), queue)
        self._issue(found, queue)

    def _issue(self, graph: ExecutableGraph, stream: Stream) -> None:
        scheduler, issue = self.state.scheduler, self.state.issue
        constants = self.state.profile.device
        duration, overlap, fork = (round(constants[name]) for name in ("graph_start", "graph_overlap", "graph_fork"))
        before = [graph.last] if graph.last is not None else []
        start = issue(GraphStart(graph.name, duration), stream, before, GRAPH)
        place = start.place
        made: list[Operation] = []
        own = bool(graph.flags & NODE_PRIORITY)
        for node in graph.nodes:
            scheduler.place = node.place
            node.branch.launched_in, node.branch.device = stream, stream.device
            after = [made[index] for index in node.before] or [start]
            operation = self._issue_node(node, after)
            if operation.engine == "sm":
                operation.delay = node.turn * fork
                kernel = node.content.kernel
                operation.priority = kernel.priority if own and kernel is not None else stream.priority
                if node.continues:
                    operation.saved = overlap
            made.append(operation)
        scheduler.place = place
        graph.last = issue(GraphEnd(graph.name, start.sequence), stream, [made[index] for index in graph.leaves], GRAPH)

    def _issue_node(self, node: ExecutableNode, after: list[Operation]) -> Operation:
        if not node.enabled:
            return self.state.issue(EMPTY, node.branch, after, EDGE, in_order=False)
        kind, event = node.content.kind, None
        if kind in (NodeKind.EVENT_RECORD, NodeKind.WAIT_EVENT):
            event = self.state.scheduler.streams.find_event(node.content.event)
        if kind is NodeKind.WAIT_EVENT and event is not None and event.record is not None:
            after = [*after, event.record]
        operation: Operation = self.state.issue(node.work, node.branch, after, EDGE, in_order=False)
        if kind is NodeKind.EVENT_RECORD and event is not None:
            event.record, event.captured = operation, None
        return operation

    def let_go(self, references: References, graph: ExecutableGraph) -> None:
        """Give references to user objects back, once the launches of an executable graph have ended."""
        last = graph.last
        if not references or last is None or last.done:
            return references.give_all_back()

        def ended(operation: Operation) -> None:
            if operation is last:
                self.state.on_end.remove(ended)
                references.give_all_back()

        self.state.on_end.append(ended)
        return None

    def executable(self, handle: int, name: str) -> ExecutableGraph:
        """The executable graph that a handle names; ``cudaErrorInvalidValue`` when there is none."""
        found = self._executables.get(handle)
        if found is None:
            raise invalid_value(f"{name}: {handle:#x} is no executable graph of this device; it was destroyed")
        return found
