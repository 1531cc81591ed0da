"""What nodes of graphs and of executable graphs do: asked and changed by runtime calls."""

from __future__ import annotations

from collections.abc import Sequence

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.device.calls.graphs.graph_execution import GraphExecutionCalls
from cudalab.sim.device.calls.graphs.graph_work import WorkMaker
from cudalab.sim.device.calls.graphs.graphs import GraphCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Handle, HostCallback
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.content import MEMORY_NODES, Content, NodeKind
from cudalab.sim.device.graphs.device_launchable import unsupported
from cudalab.sim.device.graphs.executable import ExecutableGraph, ExecutableNode
from cudalab.sim.device.graphs.update import Difference, UpdateResult, change, difference
from cudalab.sim.device.graphs.user_object import References
from cudalab.sim.device.queue.ordering import EMPTY
from cudalab.sim.device.state import DeviceState

_SWITCHED = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)


class Update(Struct, frozen=True):
    """What ``cudaGraphExecUpdate`` says of the last update."""

    result: int = 0
    node: Handle = 0
    other: Handle = 0


def _kept(content: Content, before: Content) -> Content:
    """New parameters of a node, which keep the attributes that it had."""
    if content.kernel is None or before.kernel is None:
        return content
    return Content(NodeKind.KERNEL, content.kernel.with_attributes_of(before.kernel))


def _refuse_memory(name: str, content: Content) -> None:
    if content.kind in MEMORY_NODES:
        raise CudaError(
            cudaError_t.cudaErrorNotSupported, f"{name}: memory nodes keep the parameters they were made with"
        )


def _refuse_updatable(name: str, *graphs: ExecutableGraph) -> None:
    """Raise when one of the executable graphs has nodes that kernels update."""
    node = next((each.node for graph in graphs for each in graph.all_nodes() if each.node.updatable is not None), None)
    if node is not None:
        raise CudaError(
            cudaError_t.cudaErrorNotSupported,
            f"{name}: kernels may update {node.label}; update the nodes one by one, or instantiate again",
        )


class GraphParameterCalls(CallGroup):
    """Parameters of nodes."""

    def __init__(
        self, state: DeviceState, graphs: GraphCalls, execution: GraphExecutionCalls, maker: WorkMaker
    ) -> None:
        super().__init__(state)
        self._graphs, self._execution, self._maker = graphs, execution, maker

    def clear(self) -> None:
        self._last_update = Update()

    @call(
        "cudaGraphKernelNodeGetParams",
        "cudaGraphMemcpyNodeGetParams",
        "cudaGraphMemsetNodeGetParams",
        "cudaGraphEventRecordNodeGetEvent",
        "cudaGraphEventWaitNodeGetEvent",
        "cudaGraphMemAllocNodeGetParams",
        "cudaGraphMemFreeNodeGetParams",
    )
    def graph_node_content(self, node: Handle, kind: int) -> Content:
        """What a node of that kind does; an array function of CuPy has parameters that are not simulated."""
        name = "cudaGraphNodeGetParams"
        found = self._graphs.node(node, name)
        if found.kind != kind:
            raise invalid_value(f"{name}: {found.label} is no {NodeKind(kind).title} node")
        if found.kind is NodeKind.KERNEL and found.content.kernel is None:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"{name}: {found.label} is an array function of CuPy, which is no kernel on the simulated device; put "
                "a RawKernel into the graph instead",
            )
        return found.content

    @call(
        "cudaGraphNodeSetParams",
        "cudaGraphKernelNodeSetParams",
        "cudaGraphMemcpyNodeSetParams",
        "cudaGraphMemsetNodeSetParams",
        "cudaGraphHostNodeSetParams",
        "cudaGraphEventRecordNodeSetEvent",
        "cudaGraphEventWaitNodeSetEvent",
        "cuGraphNodeSetParams",
        cost="graph_add_node",
    )
    def graph_set_content(self, node: Handle, content: Content, function: HostCallback | None = None) -> None:
        """Change what a node does. Executable graphs made from the graph before do not change."""
        name = "cudaGraphNodeSetParams"
        found = self._graphs.node(node, name)
        _refuse_memory(name, content)
        if found.kind is not content.kind or content.kind is NodeKind.GRAPH:
            raise invalid_value(f"{name}: {found.label} cannot get the parameters of a {content.kind.title} node")
        content = _kept(content, found.content)
        found.work = self._maker.of(name, content, function)
        found.content = content

    @call(
        "cudaGraphExecNodeSetParams",
        "cudaGraphExecKernelNodeSetParams",
        "cudaGraphExecMemcpyNodeSetParams",
        "cudaGraphExecMemsetNodeSetParams",
        "cudaGraphExecHostNodeSetParams",
        "cudaGraphExecChildGraphNodeSetParams",
        "cudaGraphExecEventRecordNodeSetEvent",
        "cudaGraphExecEventWaitNodeSetEvent",
        "cuGraphExecNodeSetParams",
        cost="graph_set_node",
    )
    def graph_exec_set_content(
        self, executable: Handle, node: Handle, content: Content, function: HostCallback | None = None
    ) -> None:
        """Change what a node of an executable graph does in later launches; ``node`` is that of the graph which was
        instantiated. The graph itself does not change."""
        name = "cudaGraphExecNodeSetParams"
        graph = self._execution.executable(executable, name)
        target = self._node_of(name, graph, node)
        _refuse_memory(name, content)
        if target.content.kind is not content.kind:
            raise invalid_value(f"{name}: {target.label} cannot get the parameters of a {content.kind.title} node")
        if content.kind is NodeKind.GRAPH:
            return self._set_child(name, graph, target, content)
        content = _kept(content, target.content)
        work = self._maker.of(name, content, function)
        assert work is not None
        wanted = ExecutableNode(target.node, work, target.before)
        wanted.content = content
        wrong = change(target, wanted, graph.for_device)
        if wrong is not None:
            raise invalid_value(f"{name}: {target.label}: {wrong[1]}")
        not_launchable = self._not_launchable(graph, [wanted])
        if not_launchable is not None:
            raise invalid_value(f"{name}: {not_launchable.why}")
        target.work, target.content, target.changed = wanted.work, content, True
        graph.contents_changed()
        return None

    def _set_child(self, name: str, graph: ExecutableGraph, target: ExecutableNode, content: Content) -> None:
        """The nodes of a child graph take over what those of another one do."""
        inner = target.node.inner
        assert inner is not None
        old = ExecutableGraph(0, 0, inner, 0)
        new = ExecutableGraph(0, 0, self._graphs.graph(content.graph, name), 0)
        wrong = difference(old, new)
        if wrong is not None:
            raise CudaError(cudaError_t.cudaErrorGraphExecUpdateFailure, f"{name}: {wrong.why}")
        for one, other in zip(old.nodes, new.nodes, strict=True):
            mine = graph.by_node.get(one.node)
            if mine is not None:
                mine.work, mine.content = other.work, other.content
        graph.contents_changed()

    @call("cudaGraphExecUpdate", "cuGraphExecUpdate", cost=None)
    def graph_exec_update(self, executable: Handle, graph: Handle) -> None:
        """Let an executable graph do what another graph of the same shape does. What cannot be taken over is
        ``cudaErrorGraphExecUpdateFailure``, and then nothing changes."""
        name = "cudaGraphExecUpdate"
        old = self._execution.executable(executable, name)
        new = ExecutableGraph(0, 0, self._graphs.graph(graph, name), 0)
        host = self.state.profile.host
        self.state.spend(host["graph_update"] + len(new.nodes) * host["graph_update_node"])
        _refuse_updatable(name, old, new)
        wrong = difference(old, new) or self._not_launchable(old, new.nodes)
        if wrong is not None:
            handles = (node.handle if node is not None else 0 for node in (wrong.node, wrong.depends_on))
            self._last_update = Update(int(wrong.result), *handles)
            raise CudaError(cudaError_t.cudaErrorGraphExecUpdateFailure, f"{name}: {wrong.why}")
        self._last_update = Update(int(UpdateResult.SUCCESS))
        for one, other in zip(old.all_nodes(), new.all_nodes(), strict=True):
            one.work, one.content = other.work, other.content
        old.contents_changed()
        self._execution.take_handles(old, self._graphs.graph(graph, name))
        before, old.references = old.references, References()
        for each in self._graphs.graph(graph, name).all_graphs():
            old.references.copy_of(each.references)
        self._execution.let_go(before, old)

    def _not_launchable(self, graph: ExecutableGraph, nodes: Sequence[ExecutableNode]) -> Difference | None:
        """Why kernels could not launch an executable graph any more if it had these nodes."""
        if not graph.for_device:
            return None
        for node in nodes:
            why = unsupported(node.content, self.state.memory)
            if why:
                rest = "and kernels may launch the graph (cudaGraphInstantiateFlagDeviceLaunch)"
                return Difference(UpdateResult.NOT_SUPPORTED, f"{node.label} {why}, {rest}", node.node)
        return None

    def graph_update_result(self) -> Update:
        """What the last update came to. No call, takes no modelled time."""
        return self._last_update

    # -- switching nodes off -------------------------------------------------------------------------------------------

    @call("cudaGraphNodeSetEnabled", "cuGraphNodeSetEnabled", cost="graph_switch_node")
    def graph_set_enabled(self, executable: Handle, node: Handle, enabled: bool) -> None:
        """A kernel, memcpy or memset node that is switched off does nothing in later launches but order others."""
        name = "cudaGraphNodeSetEnabled"
        found = self._switched(name, executable, node)
        found.enabled, found.changed = enabled, True
        self._execution.executable(executable, name).contents_changed()

    @call("cudaGraphNodeGetEnabled", "cuGraphNodeGetEnabled")
    def graph_get_enabled(self, executable: Handle, node: Handle) -> bool:
        """Is a node of an executable graph switched on?"""
        return self._switched("cudaGraphNodeGetEnabled", executable, node).enabled

    def _switched(self, name: str, executable: int, node: int) -> ExecutableNode:
        found = self._node_of(name, self._execution.executable(executable, name), node)
        if found.content.kind not in _SWITCHED or found.work is EMPTY:
            raise invalid_value(f"{name}: only kernel, memcpy and memset nodes can be switched off, not {found.label}")
        return found

    def _node_of(self, name: str, graph: ExecutableGraph, handle: int) -> ExecutableNode:
        found = graph.by_node.get(self._graphs.node(handle, name))
        if found is None:
            raise invalid_value(f"{name}: the node is of no graph that this executable graph was made from")
        return found
