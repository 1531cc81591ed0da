"""The launch of an executable graph: its nodes become operations, those of conditional bodies when they are due."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.error import CudaError
from cudalab.sim.device.graphs.conditional import CONDITIONAL_END, ConditionalEnd, Decision, Turn
from cudalab.sim.device.graphs.content import NodeKind
from cudalab.sim.device.graphs.environment import Environment, Environments, HostLaunch, Into, Launches
from cudalab.sim.device.graphs.executable import (
    EDGE,
    GRAPH,
    NODE_PRIORITY,
    DeviceStart,
    Endless,
    ExecutableGraph,
    ExecutableNode,
    GraphEnd,
    GraphStart,
    LaunchEnd,
    RunEnd,
)
from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.device.queue.operation import Operation, Work
from cudalab.sim.device.queue.ordering import EMPTY, SwitchedOff
from cudalab.sim.device.queue.transfer import Memset
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.reports.faults import RAISE_TIME_LIMIT

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Stream


_NO_LAUNCH = -1
"""Instead of the number of a start: the run of a graph that the host launched ends before its launch does."""


_TOGETHER = 2
"""Branches that a launch begins with; for more of them the device turns to further queues first."""


class GraphLauncher:
    """Issues the operations of launches."""

    def __init__(self, state: DeviceState, find: Callable[[int], ExecutableGraph | None]) -> None:
        """``find``: the executable graph that a handle names."""
        self._state = state
        constants = state.profile.device
        self._environments = Environments(find, self._run, self._over, lambda into: constants[into.call], self._later)
        self._runs, self._since, self._host_ns = 0, 0.0, -1

    def launch(self, graph: ExecutableGraph, stream: Stream) -> None:
        """Behind what is in the stream, and behind its own launch before."""
        scheduler, issue = self._state.scheduler, self._state.issue
        if graph.stuck:
            graph.last = issue(Endless(graph.name, graph.stuck), stream)
            return
        before = [graph.last] if graph.last is not None else []
        constants = self._state.profile.device
        frees = any(content.kind is NodeKind.MEM_FREE for content in graph.memory_contents)
        duration = round(
            constants["graph_start"]
            + (constants["graph_memory"] if frees else 0)
            + (constants["graph_conditional"] if graph.handles else 0)
            + (constants["device_graph_start"] if graph.for_device else 0)
        )
        start = issue(GraphStart(graph.name, duration, graph.handles), stream, before, GRAPH)
        place = start.place
        own = graph.launches_graphs or graph.for_device
        environment = self._environments.of_launch(graph, stream, start) if own else None
        made = self._issue_nodes(graph.nodes, graph, stream, start, environment)
        scheduler.place = place
        leaves = [made[index] for index in graph.leaves] or [start]
        if environment is None:
            graph.last = issue(GraphEnd(graph.name, start.sequence), stream, leaves, GRAPH)
            return
        over = round(constants["device_graph_over"])
        ended = RunEnd(graph.name, _NO_LAUNCH, ended=partial(self._environments.ended, environment))
        issue(ended, graph.entry_in(stream), leaves, GRAPH, in_order=False)
        graph.last = environment.host.last = issue(LaunchEnd(graph.name, start.sequence, over), stream, leaves, GRAPH)

    def _issue_nodes(
        self,
        nodes: list[ExecutableNode],
        whole: ExecutableGraph,
        stream: Stream,
        start: Operation,
        environment: Environment | None,
        root: Turn | None = None,
        by_kernel: bool = False,
    ) -> list[Operation]:
        """The nodes of a graph, or of a body of the graph ``whole``, behind ``start``. ``root``: the outermost
        conditional node that they are part of. ``by_kernel``: a kernel launched it."""
        scheduler, constants = self._state.scheduler, self._state.profile.device
        overlap = round(constants["device_graph_overlap" if by_kernel else "graph_overlap"])
        own = bool(whole.flags & NODE_PRIORITY)
        made: list[Operation] = []
        nothing: list[bool] = []  # is it a memset that is switched off, with nothing but such before it?
        turns: dict[int, Turn] = {}
        for place, node in enumerate(nodes):
            scheduler.place = node.place
            node.branch.launched_in, node.branch.device = stream, stream.device
            node.branch.launch_line = start.place
            after = [made[index] for index in node.before] or [start]
            if node.bodies is not None:
                turn = turns[place] = Turn(node, whole, stream, root, environment, self._state.time_limit)
                operation = self._begin(turn, after)
            elif node.work is CONDITIONAL_END:
                turn = turns[node.before[0]]
                operation = turn.end = self._issue(ConditionalEnd(partial(self._ended, turn)), node, after)
            elif node.programmatic is not None and self._overlaps(node, nodes[node.programmatic[0]]):
                primary, at_start = made[node.programmatic[0]], node.programmatic[1]
                rest = [other for other in after if other is not primary]
                operation = self._issue(node.work, node, rest, primary=primary, at_start=at_start)
            else:
                operation = self._issue_node(node, after)
            if operation.engine == "sm":
                operation.delay = self._delay(node)
                kernel = node.content.kernel
                operation.priority = kernel.priority if own and kernel is not None else stream.priority
                if operation.prerequisite is not None and node.programmatic is not None:
                    edge = "graph_edge_start" if node.programmatic[1] else "graph_edge_trigger"
                    operation.delay += round(constants[edge])
                elif node.continues and not all(nothing[index] for index in node.before):
                    operation.saved = overlap
                if environment is not None and isinstance(operation, KernelOperation):
                    operation.graphs = Launches(self._environments, environment, operation)
            elif isinstance(operation.work, SwitchedOff):
                operation.delay = self._delay(node)
            elif node.follows_host and node.content.kind is NodeKind.HOST:
                operation.saved = round(constants["host_function_notice"] - constants["host_function_next"])
            made.append(operation)
            off = not node.enabled and isinstance(node.work, Memset)
            nothing.append(off and all(nothing[index] for index in node.before))
        return made

    def _delay(self, node: ExecutableNode) -> int:
        """ns that a node starts after what it waits for: those that are due together start in turn."""
        constants = self._state.profile.device
        if len(node.before) > 1:
            first = (node.turn > 0) * constants["graph_fork_joined_first"]
            return round(first + max(0, node.turn - 1) * constants["graph_fork_joined"])
        if node.before:
            return round(node.turn * constants["graph_fork_behind"])
        return round(node.turn * constants["graph_fork"] + (node.turn >= _TOGETHER) * constants["graph_fan"])

    @staticmethod
    def _overlaps(node: ExecutableNode, before: ExecutableNode) -> bool:
        """May a node start before that one has ended, to which it has a programmatic edge?"""
        return node.launches_kernel and before.launches_kernel

    def _issue_node(self, node: ExecutableNode, after: list[Operation]) -> Operation:
        if not node.enabled and isinstance(node.work, Memset):
            return self._issue(EMPTY, node, after)
        if not node.enabled:
            return self._issue(SwitchedOff(round(self._state.profile.device["graph_node_off"])), node, after)
        kind, event = node.content.kind, None
        if kind in (NodeKind.EVENT_RECORD, NodeKind.WAIT_EVENT):
            event = self._state.scheduler.streams.find_event(node.content.event)
        if kind is NodeKind.WAIT_EVENT and event is not None and event.record is not None:
            after = [*after, event.record]
        operation: Operation = self._issue(node.work, node, after)
        if kind is NodeKind.EVENT_RECORD and event is not None:
            event.record, event.captured = operation, None
        return operation

    def _issue(
        self,
        work: Work[Any],
        node: ExecutableNode,
        after: list[Operation],
        primary: Operation | None = None,
        at_start: bool = False,
    ) -> Operation:
        operation: Operation = self._state.issue(
            work, node.branch, after, EDGE, in_order=False, primary=primary, at_start=at_start
        )
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
        made = self._issue_nodes(body.nodes, turn.whole, turn.stream, operation, turn.environment, turn.root)
        scheduler.place = turn.node.place
        ends = [made[index] for index in body.leaves] or [operation]
        duration = round(self._state.profile.device["graph_round"])
        work = Decision(turn.node.label, duration, turn.handle, partial(self._decide, turn))
        bodies.rounds.launched_in, bodies.rounds.device = turn.stream, turn.stream.device
        again: Operation = self._state.issue(work, bodies.rounds, ends, EDGE, in_order=False)
        scheduler.place = place
        turn.parts += made
        self._without_host(*made, again)

    def _without_host(self, *operations: Operation) -> None:
        """The device goes on by itself: what it issues waits for no call."""
        now = self._state.scheduler.loop.now
        for each in operations:
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

    # -- graphs that kernels launch ------------------------------------------------------------------------------------

    def _run(self, environment: Environment, graph: ExecutableGraph, into: Into, cause: Operation, delay: int) -> None:
        """A graph begins, launched by the kernel ``cause``, or behind all that ended before it, ``cause`` the last."""
        self._check_limit(environment)
        scheduler, issue, stream = self._state.scheduler, self._state.issue, environment.host.stream
        before, place, beside = environment.ended, scheduler.place, into is not Into.TAIL
        environment.ended = []
        scheduler.place = cause.place
        latency, start_time = (round(self._state.profile.device[name]) for name in (into.latency, "graph_start"))
        work = DeviceStart(graph.name, start_time, graph.handles)
        queue = graph.entry_in(stream)
        launched_by = cause if beside else None
        start: Operation = issue(work, queue, before, GRAPH, in_order=False, launched_by=launched_by)
        made = self._issue_nodes(graph.on_device, graph, stream, start, environment, by_kernel=True)
        leaves = [made[index] for index in graph.leaves] or [start]
        end_work = RunEnd(graph.name, start.sequence, ended=partial(self._environments.ended, environment))
        end = issue(end_work, queue, leaves, GRAPH, in_order=False)
        scheduler.place = place
        self._without_host(start, *made, end)
        start.earliest = scheduler.loop.now + latency + delay
        start.wait_reason, start.wait_cause = into.rule, cause
        environment.host.parts += (start, *made, end)
        scheduler.let_go(start)

    def _check_limit(self, environment: Environment) -> None:
        """Raise when graphs have launched each other for too long while the host waits in one call."""
        scheduler, now = self._state.scheduler, time.process_time()
        if scheduler.host_ns != self._host_ns:
            self._runs, self._since, self._host_ns = 0, now, scheduler.host_ns
        self._runs += 1
        if now - self._since > self._state.time_limit:
            raise CudaError(
                cudaError_t.cudaErrorLaunchTimeout,
                f"kernels of {environment.host.first.name} have launched graphs {self._runs} times, without an end. "
                "On a GPU it would go on for ever: let the graph that launches itself again, or another that launches "
                f"it, stop at last. What needs longer gets it with {RAISE_TIME_LIMIT}",
                sticky=True,
            )

    def _later(self, action: Callable[[], None]) -> None:
        """Do something when a graph has heard that one has ended which it launched fire and forget."""
        loop = self._state.scheduler.loop
        loop.at(loop.now + round(self._state.profile.device["device_graph_end"]), action)

    def _over(self, launch: HostLaunch) -> None:
        """All that a launch by the host has brought about has ended."""
        assert launch.last is not None
        for observer in self._state.observers:
            observer.absorbed(launch.parts, launch.first)
        self._state.scheduler.let_go(launch.last)
