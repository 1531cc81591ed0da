"""The launch of an executable graph: its nodes become operations, those of conditional bodies when they are due."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cudalab.sim.device.graphs.conditional import CONDITIONAL_END, ConditionalEnd, Decision, Turn
from cudalab.sim.device.graphs.content import NodeKind
from cudalab.sim.device.graphs.executable import (
    EDGE,
    GRAPH,
    NODE_PRIORITY,
    ExecutableGraph,
    ExecutableNode,
    GraphEnd,
    GraphStart,
)
from cudalab.sim.device.queue.operation import Operation, Work
from cudalab.sim.device.queue.ordering import EMPTY
from cudalab.sim.device.state import DeviceState

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Stream


class GraphLauncher:
    """Issues the operations of launches."""

    def __init__(self, state: DeviceState) -> None:
        self._state = state

    def launch(self, graph: ExecutableGraph, stream: Stream) -> None:
        """Behind what is in the stream, and behind its own launch before."""
        scheduler, issue = self._state.scheduler, self._state.issue
        before = [graph.last] if graph.last is not None else []
        constants = self._state.profile.device
        frees = any(content.kind is NodeKind.MEM_FREE for content in graph.memory_contents)
        duration = round(constants["graph_start"] + (constants["graph_memory"] if frees else 0))
        start = issue(GraphStart(graph.name, duration, graph.handles), stream, before, GRAPH)
        place = start.place
        made = self._issue_nodes(graph, graph, stream, start)
        scheduler.place = place
        graph.last = issue(GraphEnd(graph.name, start.sequence), stream, [made[index] for index in graph.leaves], GRAPH)

    def _issue_nodes(
        self, nodes: ExecutableGraph, whole: ExecutableGraph, stream: Stream, start: Operation, root: Turn | None = None
    ) -> list[Operation]:
        """The nodes of a graph, or of a body of the graph ``whole``, behind ``start``. ``root``: the outermost
        conditional node that they are part of."""
        scheduler, constants = self._state.scheduler, self._state.profile.device
        overlap, fork = round(constants["graph_overlap"]), round(constants["graph_fork"])
        own = bool(whole.flags & NODE_PRIORITY)
        made: list[Operation] = []
        turns: dict[int, Turn] = {}
        for place, node in enumerate(nodes.nodes):
            scheduler.place = node.place
            node.branch.launched_in, node.branch.device = stream, stream.device
            after = [made[index] for index in node.before] or [start]
            if node.bodies is not None:
                turn = turns[place] = Turn(node, whole, stream, root, self._state.time_limit)
                operation = self._begin(turn, after)
            elif node.work is CONDITIONAL_END:
                turn = turns[node.before[0]]
                operation = turn.end = self._issue(ConditionalEnd(partial(self._ended, turn)), node, after)
            else:
                operation = self._issue_node(node, after)
            if operation.engine == "sm":
                operation.delay = node.turn * fork
                kernel = node.content.kernel
                operation.priority = kernel.priority if own and kernel is not None else stream.priority
                if node.continues:
                    operation.saved = overlap
            made.append(operation)
        return made

    def _issue_node(self, node: ExecutableNode, after: list[Operation]) -> Operation:
        if not node.enabled:
            return self._issue(EMPTY, node, after)
        kind, event = node.content.kind, None
        if kind in (NodeKind.EVENT_RECORD, NodeKind.WAIT_EVENT):
            event = self._state.scheduler.streams.find_event(node.content.event)
        if kind is NodeKind.WAIT_EVENT and event is not None and event.record is not None:
            after = [*after, event.record]
        operation: Operation = self._issue(node.work, node, after)
        if kind is NodeKind.EVENT_RECORD and event is not None:
            event.record, event.captured = operation, None
        return operation

    def _issue(self, work: Work[Any], node: ExecutableNode, after: list[Operation]) -> Operation:
        operation: Operation = self._state.issue(work, node.branch, after, EDGE, in_order=False)
        return operation

    # -- conditional nodes ---------------------------------------------------------------------------------------------

    def _begin(self, turn: Turn, after: list[Operation]) -> Operation:
        """A conditional node decides when its turn comes."""
        duration = round(self._state.profile.device["graph_decision"])
        work = Decision(turn.node.label, duration, turn.handle, partial(self._decide, turn))
        turn.first = self._issue(work, turn.node, after)
        return turn.first

    def _decide(self, turn: Turn, operation: Operation) -> None:
        """Its value is asked for: run a body, or let the node end."""
        scheduler, bodies = self._state.scheduler, turn.node.bodies
        assert bodies is not None and turn.end is not None
        self._absorb(turn)
        chosen = turn.chosen(self._state.memory)
        turn.parts = [operation] if operation is not turn.first else []
        if chosen < 0:
            scheduler.let_go(turn.end)
            return
        body, place = bodies.graphs[chosen], scheduler.place
        made = self._issue_nodes(body, turn.whole, turn.stream, operation, turn.root)
        scheduler.place = turn.node.place
        ends = [made[index] for index in body.leaves] or [operation]
        duration = round(self._state.profile.device["graph_round"])
        work = Decision(turn.node.label, duration, turn.handle, partial(self._decide, turn))
        bodies.rounds.launched_in, bodies.rounds.device = turn.stream, turn.stream.device
        again: Operation = self._state.issue(work, bodies.rounds, ends, EDGE, in_order=False)
        scheduler.place = place
        turn.parts += made
        now = scheduler.loop.now
        for each in (*made, again):  # the device goes on by itself: they wait for the decision, not for a call
            each.enqueued, each.earliest = now, now - 1

    def _ended(self, turn: Turn, operation: Operation) -> None:
        self._absorb(turn)

    def _absorb(self, turn: Turn) -> None:
        """What ran of a body comes before all that comes behind the node."""
        first = turn.root.first
        if turn.parts and first is not None:
            for observer in self._state.observers:
                observer.absorbed(turn.parts, first)
        turn.parts = []
