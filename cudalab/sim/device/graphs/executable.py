"""An instantiated graph, and its launch: one operation to its stream, many to the engines.

Instantiation flattens the graph: child graphs become nodes between two markers, and every node belongs to a *branch*, a
chain of nodes that depend on each other. A launch issues an operation that stands for the whole, which waits for the
stream as any other, then one operation for each node, which waits for the nodes before it, and one that comes behind
the last of them. What is issued to the stream later waits for that. A branch is a queue of its own, which the hazard
report follows as it follows streams; launches of one executable graph never overlap, so its order holds across them.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.device.caller import UNKNOWN, Place
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.graphs.conditional import CONDITIONAL_END, Bodies, ConditionalHandle
from cudalab.sim.device.graphs.content import MEMORY_NODES, Content, NodeKind
from cudalab.sim.device.graphs.graph import PROGRAMMATIC_TYPE, STARTED, Graph, Node
from cudalab.sim.device.graphs.updatable import DeviceNode, UpdatableLaunch
from cudalab.sim.device.graphs.user_object import References
from cudalab.sim.device.queue.kernel_launch import KernelLaunch
from cudalab.sim.device.queue.operation import NON_BLOCKING, Operation, Stream, Work
from cudalab.sim.device.queue.ordering import EMPTY
from cudalab.sim.device.queue.transfer import Memset

DEVICE_LAUNCH, NODE_PRIORITY = 4, 8
EDGE, GRAPH = "graph edge", "graph"
_IN_PASSING = (NodeKind.EMPTY, NodeKind.GRAPH, *MEMORY_NODES)
"""Nodes that take the device no time: their edges are those of what lies around them."""


class GraphStart(Work[Operation], Struct, frozen=True, eq=False):
    """The launch of a graph has come to its turn in the stream: its first nodes may run after ``duration`` ns."""

    kind = "graph"
    works_on_memory = False

    name: str
    duration: int
    handles: tuple[ConditionalHandle, ...] = ()
    """Values of conditional nodes, of which some have a default."""

    def begin(self, operation: Operation) -> int:
        return self.duration

    def run(self, operation: Operation) -> None:
        for handle in self.handles:
            if handle.default is not None:
                handle.set(handle.default)


class HeldOperation(Operation):
    """A place in a launch that comes when something has happened that is no operation."""

    waiting = 1  # for that; what comes before it comes on top


class DeviceStart(GraphStart, frozen=True, eq=False):
    """The same of a launch by a kernel, which the device starts."""

    operation_class = HeldOperation


class GraphEnd(Work[Operation], Struct, frozen=True, eq=False):
    """The last nodes of a graph have ended."""

    kind = "graph end"
    works_on_memory = False

    name: str
    start: int
    """The sequence number of the operation that stands for the whole."""
    duration: int = 0

    def begin(self, operation: Operation) -> int:
        return self.duration


class LaunchEnd(GraphEnd, frozen=True, eq=False):
    """The same, and all graphs that its kernels launched have ended."""

    operation_class = HeldOperation


class Endless(Work[Operation], Struct, frozen=True, eq=False):
    """A launch that would never end on a GPU."""

    kind = "graph"
    works_on_memory = False

    name: str
    why: str

    def run(self, operation: Operation) -> None:
        raise CudaError(cudaError_t.cudaErrorLaunchTimeout, f"{self.name} would never end: {self.why}", sticky=True)


class RunEnd(GraphEnd, frozen=True, eq=False, kw_only=True):
    """The last nodes of a graph have ended that kernels may launch, or whose kernels may launch others."""

    ended: Callable[[Operation], None]

    def run(self, operation: Operation) -> None:
        self.ended(operation)


class Branch(Stream):
    """A chain of nodes of an executable graph. Each launch issues every one of them once, in order."""

    def __init__(self, handle: int, graph: int) -> None:
        super().__init__(handle, flags=NON_BLOCKING)
        self.graph = graph
        """The number of the graph."""
        self.nodes: list[ExecutableNode] = []
        self.launched_in: Stream = self
        """The stream of the last launch."""
        self.launch_line: Place = UNKNOWN
        """The line of that."""

    @property
    def seen_as(self) -> Stream:
        return self.launched_in

    @property
    def launched_at(self) -> Place:
        return self.launch_line

    def node_label(self, number: int) -> str:
        return self.nodes[(number - 1) % len(self.nodes)].label if self.nodes else ""


class ExecutableNode:
    """A node that is ready to run."""

    __slots__ = (
        "before",
        "bodies",
        "branch",
        "changed",
        "content",
        "continues",
        "enabled",
        "follows_host",
        "label",
        "node",
        "place",
        "programmatic",
        "turn",
        "work",
    )

    def __init__(self, node: Node, work: Work[Any], before: list[int]) -> None:
        self.node = node
        """The node of the graph that was instantiated."""
        if node.updatable is not None and isinstance(work, KernelLaunch):
            work = UpdatableLaunch.of(work, node.updatable)
        self.work = work
        self.content: Content = node.content
        self.before = before
        """The nodes that it waits for, by their places in the order of execution."""
        self.programmatic: tuple[int, bool] | None = None
        """The kernel before it by a programmatic edge, by its place, and whether it waits for the start of that one's
        blocks instead of their triggers."""
        self.enabled = True
        self.changed = True
        """Has the host said anew what it does since it was uploaded?"""
        self.turn = 0
        """How many others start before it of those that wait for the same node, or for the launch."""
        self.continues = False
        """Is it a kernel, or a copy within the device, behind such? What takes no time may lie between them."""
        self.follows_host = False
        """Has the host just called another function when this node is due?"""
        self.label = node.label
        self.bodies: Bodies | None = None
        """What a conditional node may run."""
        self.place: Place = node.place
        self.branch: Branch

    @property
    def launches_kernel(self) -> bool:
        """Is it a kernel that is switched on, and no array function?"""
        return self.enabled and isinstance(self.work, KernelLaunch)


class ExecutableGraph:
    """What ``cudaGraphInstantiate`` makes. ``name`` is what the timeline calls a launch of it."""

    def __init__(self, handle: int, number: int, graph: Graph, flags: int) -> None:
        self.handle = handle
        self.number = number
        self.flags = flags
        self.source = graph.number
        self.name = f"graph {graph.number}"
        self.nodes: list[ExecutableNode] = []
        """In the order of execution."""
        self.by_node: dict[Node, ExecutableNode] = {}
        self.references = References()
        """The references to user objects that it holds."""
        self.last: Operation | None = None
        """The end of its last launch."""
        self.for_device = bool(flags & DEVICE_LAUNCH)
        """May kernels launch it, once it is uploaded?"""
        self.uploaded = False
        """Is all there that a launch needs, as it is now?"""
        self.on_device: list[ExecutableNode] = []
        """What kernels launch: its nodes as they were when it was uploaded last."""
        self.stuck = ""
        """Why a GPU would never end its next launch by the host."""
        self.queued = False
        """Has a kernel launched it, and it has not begun to run?"""
        self.runs = 0
        """How many launches, of which the host can enqueue several, hold their environments: they are to run, or it or
        what it has launched beside itself does."""
        self.entry = Branch(handle, graph.number)
        """The queue of its begins and ends where kernels launch it."""
        self.handles: tuple[ConditionalHandle, ...] = ()
        self.device_nodes: list[DeviceNode] = graph.device_nodes
        """Those of its nodes that kernels update."""
        self.branches = 0
        """Into how many chains the nodes fall."""
        self._flatten(graph, [])
        self.roots = sum(not node.before for node in self.nodes)
        self.joins: list[int] = []
        """Edges of nodes beyond the first of each, where no two of the nodes before are waited for by others, too."""
        self.crossings: list[int] = []
        """Edges of the other nodes that wait for several: those from nodes that others wait for."""
        self._count_edges()
        self.memory_contents = [node.content for node in self.nodes if node.content.kind in MEMORY_NODES]
        """What its allocation and free nodes do, in the order of execution."""
        self._leaves = self._find_leaves()
        self._launches_graphs: bool | None = None
        self._line_up()
        self._divide()

    def _flatten(self, graph: Graph, entry: list[int]) -> list[int]:
        """Append the nodes of ``graph``, whose roots come after ``entry``; returns what its end comes after."""
        places: dict[Node, int] = {}
        for node in graph.in_order():
            before = [places[other] for other in node.before] or entry
            place = self._append(node, node.work if node.work is not None else EMPTY, before)
            self.by_node[node] = made = self.nodes[place]
            for other, (port, _, kind) in node.before.items():
                if kind == PROGRAMMATIC_TYPE:
                    made.programmatic = places[other], port == STARTED
            if node.inner is not None:
                ends = self._flatten(node.inner, [place])
                place = self._append(node, EMPTY, ends)
            elif node.bodies:
                self.nodes[place].bodies = self._bodies(node, self.nodes[place])
                place = self._append(node, CONDITIONAL_END, [place])
            places[node] = place
        return [places[node] for node in graph.leaves] or entry

    def _append(self, node: Node, work: Work[Any], before: list[int]) -> int:
        self.nodes.append(ExecutableNode(node, work, before))
        return len(self.nodes) - 1

    def _bodies(self, node: Node, decision: ExecutableNode) -> Bodies:
        """The bodies of a conditional node."""
        graphs = [ExecutableGraph(self.handle, self.number, body, self.flags) for body in node.bodies]
        for each in graphs:
            self.by_node.update(each.by_node)
            self.branches += each.branches
        rounds = Branch(self.handle, self.source)
        rounds.nodes.append(decision)
        return Bodies(graphs, rounds)

    def _count_edges(self) -> None:
        behind = Counter(place for node in self.nodes for place in node.before)
        for node in self.nodes:
            if len(node.before) > 1:
                crossing = sum(behind[place] > 1 for place in node.before)
                if crossing > 1:
                    self.crossings.append(crossing)
                else:
                    self.joins.append(len(node.before) - 1)

    def _find_leaves(self) -> list[int]:
        waited_for = {place for node in self.nodes for place in node.before}
        return [place for place in range(len(self.nodes)) if place not in waited_for]

    def _line_up(self) -> None:
        """Find out which nodes start together and which follow each other on the SMs."""
        started: dict[int, int] = {}
        on_sms: list[bool] = []
        for node in self.nodes:
            last = node.before[-1] if node.before else -1
            node.turn = started.get(last, 0)
            started[last] = node.turn + 1
            follows = any(on_sms[place] for place in node.before)
            node.continues = follows and not isinstance(node.work, Memset)
            node.follows_host = bool(node.before) and all(self._calls_host(place) for place in node.before)
            on_sms.append(node.work.engine == "sm" or (follows and node.content.kind in _IN_PASSING))

    def _calls_host(self, place: int) -> bool:
        return self.nodes[place].content.kind is NodeKind.HOST

    def _divide(self) -> None:
        """Give every node a branch: that of a node it waits for and that nobody else continues, else a new one."""
        continued: set[int] = set()
        for place, node in enumerate(self.nodes):
            before = next((other for other in node.before if other not in continued), None)
            if before is None:
                node.branch = Branch(self.handle, self.source)
                self.branches += 1
            else:
                continued.add(before)
                node.branch = self.nodes[before].branch
            node.branch.nodes.append(self.nodes[place])

    def upload(self) -> None:
        """Bring what a launch needs to the device."""
        self.uploaded = True
        for node in self.all_nodes() if self.device_nodes else ():
            if isinstance(node.work, UpdatableLaunch) and node.changed:
                node.work.node.write(node.work.launch, node.enabled)
                node.changed = False
        if self.for_device:
            self.on_device = [copy.copy(node) for node in self.nodes]

    def contents_changed(self) -> None:
        """Nodes do something else than before. Kernels launch what was uploaded until it is uploaded again."""
        self.uploaded = self.uploaded and not self.for_device and not self.device_nodes
        self._launches_graphs = None

    @property
    def launches_graphs(self) -> bool:
        """May its kernels launch graphs?"""
        if self._launches_graphs is None:
            self._launches_graphs = any(
                isinstance(node.work, KernelLaunch) and node.work.launch.kernel.kernel.launches_graphs
                for node in self.all_nodes()
            )
        return self._launches_graphs

    def entry_in(self, stream: Stream) -> Branch:
        """The queue of its begins and ends, in a launch into a stream."""
        self.entry.launched_in, self.entry.device = stream, stream.device
        return self.entry

    @property
    def launchable(self) -> bool:
        """May kernels launch it?"""
        return bool(self.on_device)

    @property
    def is_busy(self) -> bool:
        """Does it run, or is it about to?"""
        return self.queued or self.runs > 0

    def allocates(self) -> Counter[int]:
        """The bytes that its nodes allocate, by device."""
        found = Counter[int]()
        for content in self.memory_contents:
            if content.allocation is not None:
                found[content.allocation.device] += content.allocation.size
        return found

    def all_nodes(self) -> Iterator[ExecutableNode]:
        """Its nodes and those of its bodies."""
        for node in self.nodes:
            yield node
            for body in node.bodies.graphs if node.bodies is not None else ():
                yield from body.all_nodes()

    @property
    def leaves(self) -> Iterable[int]:
        """Nodes that no other waits for, by their places."""
        return self._leaves
