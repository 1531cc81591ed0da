"""A graph as data: nodes that say what is to be done, and edges that say what comes before what.

A graph does nothing by itself; ``executable.py`` makes something of it that can be launched. A child graph is cloned
into its node, so later changes of the graph that it came from do not reach it (CUDA Programming Guide, "CUDA Graphs").
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cudalab.sim.device.caller import UNKNOWN, Place
from cudalab.sim.device.error import invalid_value
from cudalab.sim.device.graphs.conditional import ConditionalHandle
from cudalab.sim.device.graphs.content import Content, NodeKind
from cudalab.sim.device.graphs.user_object import References

if TYPE_CHECKING:
    from cudalab.sim.device.graphs.updatable import DeviceNode
    from cudalab.sim.device.queue.operation import Work

Edge = tuple[int, int, int]
"""``cudaGraphEdgeData``: ``from_port``, ``to_port``, ``type``."""
PLAIN: Edge = (0, 0, 0)
"""All of the node before must have ended."""
PROGRAMMATIC: Edge = (1, 0, 1)
"""All blocks of the kernel before have triggered (``griddepcontrol.launch_dependents``), or have ended."""
TRIGGERED, STARTED = 1, 2
"""Ports of a kernel: its blocks have triggered, or have started."""
PROGRAMMATIC_TYPE = 1
"""``cudaGraphDependencyTypeProgrammatic``"""


def edge_error(before: Node, after: Node, data: Edge) -> str:
    """Why two nodes cannot have an edge with these data; empty when they can (CUDA Runtime API, "Edge data")."""
    port, to, kind = data
    if data == PLAIN:
        return ""
    if before.kind is not NodeKind.KERNEL or after.kind is not NodeKind.KERNEL:
        return "only an edge between two kernels has ports or a type; all other edges are zeros"
    if to:
        return f"nodes have one incoming port, 0 (got {to})"
    if kind == PROGRAMMATIC_TYPE and port in (TRIGGERED, STARTED):
        return ""
    if kind == 0 and port == STARTED:
        return ""
    return (
        f"an edge from port {port} of type {kind}: a programmatic edge (type 1) comes from the port "
        "cudaGraphKernelNodePortProgrammatic (1) or cudaGraphKernelNodePortLaunchCompletion (2)"
    )


class Node:
    """One node of a graph."""

    __slots__ = (
        "after", "before", "bodies", "content", "graph", "handle", "inner", "number", "place", "updatable", "work",
    )  # fmt: skip

    def __init__(
        self, graph: Graph, handle: int, number: int, content: Content, work: Work[Any] | None, place: Place
    ) -> None:
        self.graph = graph
        self.handle = handle
        self.number = number
        """Counts the nodes of its graph; a clone of it has the same."""
        self.content = content
        self.work = work
        """What is issued for it; ``None`` where that is decided when the graph is launched."""
        self.place = place
        """The line of the program that made it."""
        self.inner: Graph | None = None
        """A child graph node's own graph."""
        self.bodies: list[Graph] = []
        """The graphs of a conditional node."""
        self.updatable: DeviceNode | None = None
        """Where kernels update it."""
        self.before: dict[Node, Edge] = {}
        """The nodes that it depends on."""
        self.after: dict[Node, Edge] = {}
        """The nodes that depend on it."""

    @property
    def kind(self) -> NodeKind:
        return self.content.kind

    @property
    def graphs(self) -> list[Graph]:
        """The graphs that belong to it."""
        return [*self.bodies, self.inner] if self.inner is not None else self.bodies

    @property
    def label(self) -> str:
        """What a report calls it."""
        title = self.work.title if self.work is not None else self.kind.title
        return f"{title} (node {self.number})"

    def __repr__(self) -> str:
        return f"<{self.label} of graph {self.graph.number}>"


class Graph:
    """Nodes by their handles, in the order in which they were added."""

    def __init__(self, handle: int, number: int, owner: Node | None = None) -> None:
        self.handle = handle
        self.number = number
        """What ``cudaGraphGetId`` gives."""
        self.owner = owner
        """The child graph node, or the conditional node, that it belongs to."""
        self.handles: list[ConditionalHandle] = []
        """The values that its conditional nodes, or those of its bodies, decide by."""
        self.nodes: dict[int, Node] = {}
        self.clones: dict[int, Node] = {}
        """Of a clone: its nodes by the handles of those that they were cloned from."""
        self.origin: Graph | None = None
        """What it is a clone of."""
        self.references = References()
        """The references to user objects that it holds; those of child graphs are their own."""
        self._numbers = itertools.count()

    def add(self, handle: int, content: Content, work: Work[Any] | None, place: Place = UNKNOWN) -> Node:
        node = Node(self, handle, next(self._numbers), content, work, place)
        self.nodes[handle] = node
        return node

    @staticmethod
    def connect(before: Node, after: Node, data: Edge = PLAIN) -> None:
        """``after`` comes after ``before``."""
        before.after[after] = data
        after.before[before] = data

    @staticmethod
    def disconnect(before: Node, after: Node) -> None:
        del before.after[after], after.before[before]

    def remove(self, node: Node) -> None:
        """The node is gone, and its edges with it."""
        for other in list(node.before):
            self.disconnect(other, node)
        for other in list(node.after):
            self.disconnect(node, other)
        del self.nodes[node.handle]

    @property
    def roots(self) -> list[Node]:
        """Nodes that depend on none."""
        return [node for node in self.nodes.values() if not node.before]

    @property
    def leaves(self) -> list[Node]:
        """Nodes that none depends on."""
        return [node for node in self.nodes.values() if not node.after]

    @property
    def edges(self) -> Iterator[tuple[Node, Node, Edge]]:
        for node in self.nodes.values():
            for other, data in node.after.items():
                yield node, other, data

    def all_nodes(self) -> Iterator[Node]:
        """Its nodes and those of its child graphs and bodies."""
        for node in self.nodes.values():
            yield node
            for inner in node.graphs:
                yield from inner.all_nodes()

    def all_graphs(self) -> Iterator[Graph]:
        """It, its child graphs and bodies."""
        yield self
        for node in self.nodes.values():
            for inner in node.graphs:
                yield from inner.all_graphs()

    @property
    def device_nodes(self) -> list[DeviceNode]:
        """Those of its nodes that kernels update."""
        return [node.updatable for node in self.all_nodes() if node.updatable is not None]

    @property
    def root(self) -> Graph:
        """The graph that it is a part of, at last: itself, where it is no part."""
        return self if self.owner is None else self.owner.graph.root

    def in_order(self) -> list[Node]:
        """All nodes, each behind those that it depends on, otherwise in the order in which they were added. Raises
        ``cudaErrorInvalidValue`` when the edges go round in a circle."""
        waiting = {node: len(node.before) for node in self.nodes.values()}
        ready = [node for node, count in waiting.items() if not count]
        for node in ready:  # grows meanwhile
            for other in node.after:
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        if len(ready) < len(self.nodes):
            circle = ", ".join(node.label for node, count in waiting.items() if count)
            raise invalid_value(f"the edges of the graph go round in a circle; these wait for each other: {circle}")
        return ready

    def fill_from(self, other: Graph, handles: Iterator[int], graphs: Iterator[tuple[int, int]]) -> None:
        """Make this new graph a copy of ``other``: handles of nodes, handles and numbers of graphs come from there."""
        self.origin = other
        self.references.copy_of(other.references)
        copies: dict[Node, Node] = {}
        for node in other.nodes.values():
            copy = copies[node] = Node(self, next(handles), node.number, node.content, node.work, node.place)
            self.nodes[copy.handle] = self.clones[node.handle] = copy
            if node.inner is not None:
                handle, number = next(graphs)
                copy.inner = Graph(handle, number, copy)
                copy.inner.fill_from(node.inner, handles, graphs)
        for node, copy in copies.items():
            for after, data in node.after.items():
                self.connect(copy, copies[after], data)
        self._numbers = itertools.count(max((node.number for node in copies), default=-1) + 1)


def ancestors(nodes: Iterable[Node]) -> set[Node]:
    """``nodes`` and all that they depend on."""
    found = set(nodes)
    todo = list(found)
    while todo:
        for before in todo.pop().before:
            if before not in found:
                found.add(before)
                todo.append(before)
    return found


def find(nodes: Mapping[int, Node], handle: int, name: str) -> Node:
    """The node that a handle names; ``cudaErrorInvalidValue`` when there is none."""
    node = nodes.get(handle)
    if node is None:
        raise invalid_value(
            f"{name}: {handle:#x} is no node of a graph of this device; it was destroyed, or its graph was"
        )
    return node
