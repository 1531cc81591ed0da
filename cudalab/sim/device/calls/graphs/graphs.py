"""Graphs as runtime calls: nodes, edges, copies of graphs, and questions about them.

Errors are those of CUDA: whatever a graph cannot have, or a handle that names nothing, is ``cudaErrorInvalidValue``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.caller import UNKNOWN, place_of_call
from cudalab.sim.device.calls.graphs.graph_memory import GraphMemoryCalls
from cudalab.sim.device.calls.graphs.graph_work import WorkMaker
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Handle, HostCallback
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs import graph as graphs
from cudalab.sim.device.graphs.conditional import ConditionalKind
from cudalab.sim.device.graphs.content import ConditionalContent, Content, NodeKind
from cudalab.sim.device.graphs.dot import dot
from cudalab.sim.device.graphs.graph import PLAIN, Edge, Graph, Node, edge_error
from cudalab.sim.device.queue.operation import Work
from cudalab.sim.device.state import DeviceState

_FIRST, _STEP = 0x0F00_0000, 0x40


class GraphCalls(CallGroup):
    """Graphs as data."""

    def __init__(self, state: DeviceState, maker: WorkMaker, memory: GraphMemoryCalls) -> None:
        super().__init__(state)
        self._maker, self._memory = maker, memory

    def clear(self) -> None:
        self._graphs: dict[int, Graph] = {}
        self._nodes: dict[int, Node] = {}
        self._handles = itertools.count(_FIRST, _STEP)
        self._numbers = itertools.count(1)

    # -- graphs --------------------------------------------------------------------------------------------------------

    @call("cudaGraphCreate", "cuGraphCreate", cost="graph_create", when_lost=True)
    def graph_create(self, flags: int = 0) -> Handle:
        """Create an empty graph: a handle. ``flags`` must be 0."""
        if flags:
            raise invalid_value(f"cudaGraphCreate: flags must be 0 (got {flags})")
        return self.new_graph().handle

    @call("cudaGraphDestroy", "cuGraphDestroy", cost="graph_create")
    def graph_destroy(self, graph: Handle) -> None:
        """Destroy a graph and its nodes. Executable graphs made from it stay."""
        found = self.graph(graph, "cudaGraphDestroy")
        if found.owner is not None:
            raise invalid_value("cudaGraphDestroy: the graph belongs to a child graph node, which is destroyed instead")
        self.state.spend(len(found.nodes) * self.state.profile.host["graph_destroy_node"])
        self.forget(found)

    def forget(self, graph: Graph) -> None:
        """The graph and its nodes are gone."""
        self._memory.gone(node.content for node in graph.nodes.values())
        graph.references.give_all_back()
        for handle in graph.handles:
            handle.drop()
        for node in graph.nodes.values():
            if node.updatable is not None:
                node.updatable.drop()
            del self._nodes[node.handle]
            for inner in node.graphs:
                self.forget(inner)
        del self._graphs[graph.handle]

    @call("cudaGraphClone", "cuGraphClone", cost="graph_create")
    def graph_clone(self, graph: Handle) -> Handle:
        """A copy of a graph, child graphs included: a handle."""
        found = self.graph(graph, "cudaGraphClone")
        self.refuse_copy("cudaGraphClone", found, "be cloned")
        self.state.spend(len(found.nodes) * self.state.profile.host["graph_clone_node"])
        return self.copy_of(found).handle

    @call("cudaGraphGetId", "cuGraphGetId")
    def graph_get_id(self, graph: Handle) -> int:
        """A number that no other graph of the process has."""
        return self.graph(graph, "cudaGraphGetId").number

    def new_graph(self) -> Graph:
        graph = Graph(next(self._handles), next(self._numbers))
        self._graphs[graph.handle] = graph
        return graph

    def copy_of(self, graph: Graph, owner: Node | None = None) -> Graph:
        """A copy of ``graph``, which belongs to ``owner`` if that is given."""
        copy = Graph(next(self._handles), next(self._numbers), owner)
        copy.fill_from(graph, self._handles, self._new_ids())
        self._register(copy)
        return copy

    def _new_ids(self) -> Iterator[tuple[int, int]]:
        return zip(self._handles, self._numbers, strict=False)

    def _register(self, graph: Graph) -> None:
        self._graphs[graph.handle] = graph
        self._nodes.update(graph.nodes)
        for node in graph.nodes.values():
            if node.inner is not None:
                self._register(node.inner)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    @call(
        "cudaGraphAddNode",
        "cudaGraphAddKernelNode",
        "cudaGraphAddMemcpyNode",
        "cudaGraphAddMemsetNode",
        "cudaGraphAddHostNode",
        "cudaGraphAddChildGraphNode",
        "cudaGraphAddEmptyNode",
        "cudaGraphAddEventRecordNode",
        "cudaGraphAddEventWaitNode",
        "cudaGraphAddMemAllocNode",
        "cudaGraphAddMemFreeNode",
        "cuGraphAddNode",
        cost="graph_add_node",
    )
    def graph_add_node(
        self,
        graph: Handle,
        after: Sequence[Handle],
        content: Content,
        function: HostCallback | None = None,
        edges: Sequence[Edge] | None = None,
    ) -> Handle:
        """Add a node that depends on the nodes ``after``: a handle. ``function`` is what a host node calls. Values that
        kernel parameters point to are copied now."""
        name = "cudaGraphAddNode"
        found = self.graph(graph, name)
        before = [self._own(found, handle, name) for handle in after]
        if len(set(before)) < len(before):
            raise invalid_value(f"{name}: a node is named twice among those that the new one depends on")
        data = self._edge_data(name, edges, len(before))
        child = self.graph(content.graph, name) if content.kind is NodeKind.GRAPH else None
        if child is not None and child is found:
            raise invalid_value(f"{name}: a graph cannot be a child of itself")
        if child is not None:
            self.refuse_copy(name, child, "be a child graph")
        if content.conditional is not None:
            self._check_conditional(name, found, content.conditional)
        content = self._memory.prepared(name, found, content)
        work = self._maker.of(name, content, function)
        probe = Node(found, 0, -1, content, work, UNKNOWN)
        for other, edge in zip(before, data, strict=True):
            self._check_edge(name, other, probe, edge)
        return self.add(found, before, content, work, data, child).handle

    def add(
        self,
        graph: Graph,
        before: Iterable[Node],
        content: Content,
        work: Work[Any] | None,
        edges: Sequence[Edge] = (),
        child: Graph | None = None,
    ) -> Node:
        """A new node of ``graph``; a child graph is copied into it."""
        place = self.state.scheduler.place
        if place is None:
            place = self.state.scheduler.place = place_of_call()
        node = graph.add(next(self._handles), content, work, place)
        self._memory.added(content)
        self._nodes[node.handle] = node
        for index, other in enumerate(before):
            graph.connect(other, node, edges[index] if edges else PLAIN)
        if child is not None:
            node.inner = self.copy_of(child, node)
        if content.conditional is not None:
            for _ in range(content.conditional.size):
                body = Graph(next(self._handles), next(self._numbers), node)
                self._graphs[body.handle] = body
                node.bodies.append(body)
        return node

    def refuse_copy(self, name: str, graph: Graph, what: str) -> None:
        """Raise ``cudaErrorNotSupported`` for a graph that there can be one of only: one with memory nodes, with
        conditional nodes or with nodes that kernels update, or the body of one."""
        self._memory.refuse(name, graph, what)
        if graph.owner is not None and graph in graph.owner.bodies:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"{name}: the graph is a body of {graph.owner.label}, and cannot {what}",
            )
        if any(node.kind is NodeKind.CONDITIONAL for node in graph.all_nodes()):
            raise CudaError(cudaError_t.cudaErrorNotSupported, f"{name}: a graph with conditional nodes cannot {what}")
        if graph.device_nodes:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported, f"{name}: a graph with nodes that kernels may update cannot {what}"
            )

    @staticmethod
    def _check_conditional(name: str, graph: Graph, wanted: ConditionalContent) -> None:
        if all(handle.address != wanted.handle for handle in graph.root.handles):
            raise invalid_value(
                f"{name}: {wanted.handle:#x} is no conditional handle of this graph (cudaGraphConditionalHandleCreate)"
            )
        others = (node.content.conditional for node in graph.root.all_nodes())
        if any(other is not None and other.handle == wanted.handle for other in others):
            raise invalid_value(f"{name}: another conditional node uses the handle {wanted.handle:#x} already")
        kinds = [int(kind) for kind in ConditionalKind]
        if wanted.kind not in kinds or not ConditionalKind(wanted.kind).allows(wanted.size):
            raise invalid_value(
                f"{name}: a conditional node of type {wanted.kind} with {wanted.size} bodies; IF has one or two, WHILE "
                "one, SWITCH any number from one"
            )

    @staticmethod
    def _edge_data(name: str, edges: Sequence[Edge] | None, count: int) -> Sequence[Edge]:
        """What is said of each edge."""
        if edges is not None and len(edges) < count:
            raise invalid_value(f"{name}: data of {len(edges)} edges for {count} dependencies")
        return [PLAIN] * count if edges is None else list(edges[:count])

    @staticmethod
    def _check_edge(name: str, before: Node, after: Node, data: Edge) -> None:
        wrong = edge_error(before, after, data)
        if wrong:
            raise invalid_value(f"{name}: from {before.label} to {after.label}: {wrong}")

    @call("cudaGraphDestroyNode", "cuGraphDestroyNode", cost="graph_add_node")
    def graph_destroy_node(self, node: Handle) -> None:
        """Remove a node and its edges from its graph."""
        found = self.node(node, "cudaGraphDestroyNode")
        self._memory.refuse("cudaGraphDestroyNode", found.graph, "lose nodes")
        if found.updatable is not None:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"cudaGraphDestroyNode: {found.label}, which kernels may update, stays as long as its graph",
            )
        found.graph.remove(found)
        del self._nodes[node]
        for inner in found.graphs:
            self.forget(inner)

    @call("cudaGraphNodeGetType", "cuGraphNodeGetType")
    def graph_node_type(self, node: Handle) -> int:
        """A number of ``cudaGraphNodeType``."""
        return int(self.node(node, "cudaGraphNodeGetType").kind)

    @call("cudaGraphNodeGetLocalId", "cuGraphNodeGetLocalId")
    def graph_node_number(self, node: Handle) -> int:
        """The number of the node in its graph."""
        return self.node(node, "cudaGraphNodeGetLocalId").number

    @call("cudaGraphNodeGetContainingGraph", "cuGraphNodeGetContainingGraph")
    def graph_of_node(self, node: Handle) -> Handle:
        """The graph that the node belongs to."""
        return self.node(node, "cudaGraphNodeGetContainingGraph").graph.handle

    @call("cudaGraphNodeFindInClone", "cuGraphNodeFindInClone")
    def graph_find_in_clone(self, node: Handle, clone: Handle) -> Handle:
        """The node of a clone that was copied from ``node``."""
        name = "cudaGraphNodeFindInClone"
        self.node(node, name)
        copy = self.graph(clone, name).clones.get(node)
        if copy is None or copy.handle not in self._nodes:
            raise invalid_value(f"{name}: the graph is no clone of the node's graph, or lost its copy of the node")
        return copy.handle

    @call("cudaGraphChildGraphNodeGetGraph", "cuGraphChildGraphNodeGetGraph")
    def graph_child(self, node: Handle) -> Handle:
        """The graph of a child graph node. It belongs to the node; changing it changes what the node does."""
        found = self.node(node, "cudaGraphChildGraphNodeGetGraph")
        if found.inner is None:
            raise invalid_value(f"cudaGraphChildGraphNodeGetGraph: {found.label} is no child graph node")
        return found.inner.handle

    def graph_bodies(self, node: int) -> list[int]:
        """The bodies of a conditional node. No call, takes no modelled time."""
        return [body.handle for body in self.node(node, "cudaGraphAddNode").bodies]

    # -- edges ---------------------------------------------------------------------------------------------------------

    @call("cudaGraphAddDependencies", "cuGraphAddDependencies", cost="graph_add_node")
    def graph_add_dependencies(
        self, graph: Handle, before: Sequence[Handle], after: Sequence[Handle], edges: Sequence[Edge] | None = None
    ) -> None:
        """``after[i]`` depends on ``before[i]``. An edge that is there already is an error."""
        name = "cudaGraphAddDependencies"
        pairs = self._pairs(name, graph, before, after)
        data = self._edge_data(name, edges, len(pairs))
        for index, (one, other) in enumerate(pairs):  # those before one that is refused are added
            if one is other:
                raise invalid_value(f"{name}: {one.label} cannot depend on itself")
            if other in one.after:
                raise invalid_value(f"{name}: there is an edge from {one.label} to {other.label} already")
            self._check_edge(name, one, other, data[index])
            Graph.connect(one, other, data[index])

    @call("cudaGraphRemoveDependencies", "cuGraphRemoveDependencies", cost="graph_add_node")
    def graph_remove_dependencies(
        self, graph: Handle, before: Sequence[Handle], after: Sequence[Handle], edges: Sequence[Edge] | None = None
    ) -> None:
        """``after[i]`` depends on ``before[i]`` no more. An edge that is not there is an error."""
        name = "cudaGraphRemoveDependencies"
        pairs = self._pairs(name, graph, before, after)
        self._memory.refuse(name, self.graph(graph, name), "lose edges")
        data = self._edge_data(name, edges, len(pairs))
        for (one, other), wanted in zip(pairs, data, strict=True):
            if other not in one.after or (edges is not None and one.after[other] != wanted):
                raise invalid_value(
                    f"{name}: there is no edge from {one.label} to {other.label}"
                    + (f" with the data {wanted}" if other in one.after else "")
                )
        for one, other in pairs:
            Graph.disconnect(one, other)

    def _pairs(self, name: str, graph: int, before: Sequence[int], after: Sequence[int]) -> list[tuple[Node, Node]]:
        found = self.graph(graph, name)
        return [
            (self._own(found, one, name), self._own(found, other, name))
            for one, other in zip(before, after, strict=True)
        ]

    # -- questions -----------------------------------------------------------------------------------------------------

    @call("cudaGraphGetNodes", "cuGraphGetNodes")
    def graph_nodes(self, graph: Handle) -> list[Handle]:
        """The nodes of a graph, in the order in which they were added."""
        return list(self.graph(graph, "cudaGraphGetNodes").nodes)

    @call("cudaGraphGetRootNodes", "cuGraphGetRootNodes")
    def graph_root_nodes(self, graph: Handle) -> list[Handle]:
        """The nodes that depend on none."""
        return [node.handle for node in self.graph(graph, "cudaGraphGetRootNodes").roots]

    @call("cudaGraphGetEdges", "cuGraphGetEdges")
    def graph_edges(self, graph: Handle) -> list[tuple[Handle, Handle, int, int, int]]:
        """Each edge as ``(before, after, from_port, to_port, type)``."""
        return [(one.handle, other.handle, *data) for one, other, data in self.graph(graph, "cudaGraphGetEdges").edges]

    @call("cudaGraphNodeGetDependencies", "cuGraphNodeGetDependencies")
    def graph_dependencies(self, node: Handle) -> list[tuple[Handle, int, int, int]]:
        """What the node depends on, each with the data of the edge."""
        found = self.node(node, "cudaGraphNodeGetDependencies")
        return [(other.handle, *data) for other, data in found.before.items()]

    @call("cudaGraphNodeGetDependentNodes", "cuGraphNodeGetDependentNodes")
    def graph_dependents(self, node: Handle) -> list[tuple[Handle, int, int, int]]:
        """What depends on the node, each with the data of the edge."""
        found = self.node(node, "cudaGraphNodeGetDependentNodes")
        return [(other.handle, *data) for other, data in found.after.items()]

    @call("cudaGraphDebugDotPrint", "cuGraphDebugDotPrint", cost="graph_create")
    def graph_dot(self, graph: Handle, flags: int = 0) -> str:
        """The graph as text for Graphviz."""
        return dot(self.graph(graph, "cudaGraphDebugDotPrint"), flags)

    # -- for the other groups ------------------------------------------------------------------------------------------

    def graph(self, handle: int, name: str) -> Graph:
        """The graph that a handle names; ``cudaErrorInvalidValue`` when there is none."""
        found = self._graphs.get(handle)
        if found is None:
            raise invalid_value(f"{name}: {handle:#x} is no graph of this device; it was destroyed, or never made")
        return found

    def node(self, handle: int, name: str) -> Node:
        return graphs.find(self._nodes, handle, name)

    def _own(self, graph: Graph, handle: int, name: str) -> Node:
        node = self.node(handle, name)
        if node.graph is not graph:
            raise invalid_value(f"{name}: {node.label} belongs to another graph")
        return node

    def own_nodes(
        self, graph: Graph, handles: Sequence[int], name: str, edges: Sequence[Edge] | None
    ) -> dict[Node, Edge]:
        """Nodes of ``graph`` by their handles, with the data of the edges from them."""
        nodes = [self._own(graph, handle, name) for handle in handles]
        return dict(zip(nodes, self._edge_data(name, edges, len(nodes)), strict=True))
