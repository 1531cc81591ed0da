"""Instantiating graphs and launching them, as runtime calls."""

from __future__ import annotations

import itertools

from cudalab.sim.device.calls.graphs.conditional_nodes import check_runnable
from cudalab.sim.device.calls.graphs.graph_launches import GraphLauncher
from cudalab.sim.device.calls.graphs.graph_memory import GraphMemoryCalls
from cudalab.sim.device.calls.graphs.graphs import GraphCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Handle, InCapture
from cudalab.sim.device.error import invalid_value
from cudalab.sim.device.graphs.device_launchable import check_launchable, check_one_device
from cudalab.sim.device.graphs.executable import DEVICE_LAUNCH, NODE_PRIORITY, ExecutableGraph
from cudalab.sim.device.graphs.graph import Graph
from cudalab.sim.device.graphs.memory import Release
from cudalab.sim.device.graphs.user_object import References
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.state import DeviceState

AUTO_FREE = 1
_MANY_EDGES = 8
"""Edges from which on each takes less: 6 of them keep the host longer than 8."""
_FIRST, _STEP = 0x1000_0000, 0x40


class GraphExecutionCalls(CallGroup):
    """Executable graphs."""

    def __init__(self, state: DeviceState, graphs: GraphCalls, memory: GraphMemoryCalls) -> None:
        super().__init__(state)
        self._graphs, self._memory = graphs, memory
        self._launcher = GraphLauncher(state, lambda handle: self._executables.get(handle))

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
        if any(other.source == found.number for other in self._executables.values()):
            self._graphs.refuse_copy(name, found, "be instantiated again before its executable graph is destroyed")
        if found.owner is not None:
            self._graphs.refuse_copy(name, found, "be instantiated by itself")
        check_runnable(name, found)
        if flags & DEVICE_LAUNCH:
            if flags & AUTO_FREE:
                raise invalid_value(
                    f"{name}: a graph that kernels are to launch (cudaGraphInstantiateFlagDeviceLaunch) has no memory "
                    "nodes, so the flag for automatic frees cannot stand beside"
                )
            check_launchable(name, found, self.state.memory)
        else:
            check_one_device(name, list(found.all_nodes()), launching=True)
        made = ExecutableGraph(next(self._handles), next(self._numbers), found, flags)
        for node in made.nodes:
            self._memory.added(node.content)
        self.take_handles(made, found)
        for each in found.all_graphs():
            made.references.copy_of(each.references)
        for device_node in made.device_nodes:
            device_node.users += 1
        self.state.spend(self._instantiation_time(made))
        self._executables[made.handle] = made
        return made.handle

    def _instantiation_time(self, made: ExecutableGraph) -> float:
        """ns: nodes and branches, of both of which many take longer each, and edges that join branches."""
        host = self.state.profile.host
        branches = max(0, made.branches - 1)
        further = max(0.0, branches - host["graph_instantiate_branches"])
        edge, most = host["graph_instantiate_edge"], host["graph_instantiate_join"]
        time = len(made.nodes) * host["graph_instantiate_node"] + sum(min(each * edge, most) for each in made.joins)
        time += max(0.0, len(made.nodes) - host["graph_instantiate_many"]) * host["graph_instantiate_many_node"]
        time += (branches - further) * host["graph_instantiate_branch"] + further * host["graph_instantiate_further"]
        time += sum(self._crossing_time(each, len(made.nodes)) for each in made.crossings)
        return host["graph_instantiate"] + time + made.for_device * host["device_graph_instantiate"]

    def _crossing_time(self, edges: int, nodes: int) -> float:
        """ns for a node with so many edges from nodes that others wait for, too, in a graph of so many nodes."""
        host = self.state.profile.host
        if edges >= _MANY_EDGES:
            return (edges - 1) * host["graph_instantiate_cross_many"]
        time = host["graph_instantiate_cross"] + (edges - 2) * host["graph_instantiate_cross_edge"]
        return time * (1.0 + nodes / host["graph_instantiate_cross_nodes"])

    @call("cudaGraphExecDestroy", "cuGraphExecDestroy", cost="graph_create")
    def graph_exec_destroy(self, executable: Handle) -> None:
        """Destroy an executable graph. Launches of it that are under way complete."""
        found = self.executable(executable, "cudaGraphExecDestroy")
        self.state.spend(len(found.nodes) * self.state.profile.host["graph_exec_destroy_node"])
        self._memory.gone(each.content for each in found.nodes)
        for handle in found.handles:
            handle.drop()
        for node in found.device_nodes:
            node.drop()
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
        host = self.state.profile.host
        graph.upload()
        roots, branches = graph.roots, graph.branches - graph.roots
        time = len(graph.nodes) * host["graph_upload_node"] + roots * host["graph_upload_root"]
        time += branches * host["graph_upload_branch"]
        memory = self.state.graph_memory
        for device, size in graph.allocates().items():
            memory.usage(device).take(size, memory.held(device))
        self.state.spend(host["graph_upload"] + time + graph.for_device * host["device_graph_upload"])

    @call("cudaGraphLaunch", "cuGraphLaunch", cost=None)
    def graph_launch(self, executable: Handle, stream: Handle = 0) -> None:
        """Launch an executable graph: behind what is in the stream, and behind its own launch before. A launch that has
        to upload it first takes the host as long as the upload."""
        found = self.executable(executable, "cudaGraphLaunch")
        queue = self.state.scheduler.streams.find(stream)
        if queue.capture is not None:
            self.state.captures.refuse_work(queue, "cudaGraphLaunch")
        host = self.state.profile.host
        uploads = not found.uploaded
        if uploads:
            self._upload(found)
        first = self._memory.launched(found.memory_contents, auto_free=bool(found.flags & AUTO_FREE))
        if not uploads:
            roots = max(0, found.roots - 1) * host["graph_launch_root"]
            roots += found.for_device * host["device_graph_launch"]
            self.state.spend(host["graph_launch"] + len(found.nodes) * host["graph_launch_node"] + roots)
        self.state.flush_prints()
        for allocation in first:
            self.state.issue(Release(allocation), queue)
        self._launcher.launch(found, queue)

    @staticmethod
    def take_handles(executable: ExecutableGraph, graph: Graph) -> None:
        """The values of a graph's conditional nodes are those of an executable graph from here on."""
        before, executable.handles = executable.handles, tuple(graph.handles)
        for handle in executable.handles:
            handle.users += 1
        for handle in before:
            handle.drop()

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
