"""Execution environments: graphs that kernels of graphs launch, and what waits for which.

A kernel of a graph may launch other graphs, if they were instantiated for that and uploaded. A graph launched *fire and
forget* runs beside the one that launched it. A *tail launch* takes that one's place when it and all that it has
launched beside itself have ended; tail launches run one after the other in the order of the calls, and those that the
first of them makes come before the second. A graph may put itself at the end that way, once in each run. A *sibling*
runs beside, too, but belongs to the environment around, so that tail launches do not wait for it. What comes behind the
host's launch in its stream waits for everything (CUDA Programming Guide, "Device Graph Launch").

An environment is one place in that tree, which one graph after the other holds. Times, limits and codes are an H200's
(driver 580).

A kernel that launches a graph which was not uploaded is told so, and on an H200 the next launch of its own graph, or of
the other one, never ends. Here that one fails and says why.

What is simplified: a kernel that does not poll memory makes its launches when it starts, however long it takes to come
there. If any of them runs beside it, all that it stores is visible to everybody from then on. The hazard report takes
what a kernel launches for something that comes behind the whole of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct, field

from cudalab.sim.device.error import CudaError

if TYPE_CHECKING:
    from cudalab.sim.device.graphs.executable import ExecutableGraph
    from cudalab.sim.device.queue.operation import Operation, Stream

MOST_CHILDREN, MOST_TAILS = 120, 255
"""Graphs that may be launched beside one run of a graph, and tail launches that may be pending."""
_SUCCESS, _INVALID = int(cudaError_t.cudaSuccess), int(cudaError_t.cudaErrorInvalidValue)


class Into(IntEnum):
    """The streams that device code launches graphs into: ``cudaStreamGraph…``, by their highest byte."""

    TAIL = 1
    FIRE_AND_FORGET = 2
    SIBLING = 3

    @property
    def rule(self) -> str:
        """What a timeline says the launch waited for."""
        return "tail launch" if self is Into.TAIL else "device launch"

    @property
    def latency(self) -> str:
        """The constant of the profile with the time until the graph begins."""
        return "device_graph_tail" if self is Into.TAIL else "device_graph_fire"

    @property
    def call(self) -> str:
        """The constant with what the call takes."""
        return "device_graph_tail_call" if self is Into.TAIL else "device_graph_fire_call"


class HostLaunch(Struct, eq=False):
    """The launch of a graph by the host, and what kernels bring about in it."""

    stream: Stream
    first: Operation
    """The operation that stands for the whole."""
    last: Operation | None = None
    """The one that ends it."""
    parts: list[Operation] = field(default_factory=list)
    """What launches by kernels have issued."""


class Environment:
    """One execution environment: the graph that runs in it, and what that has launched."""

    def __init__(self, parent: Environment | None, host: HostLaunch) -> None:
        self.parent = parent
        """The environment around it; ``None``: it is that of the host's launch, and has no graph of its own."""
        self.host = host
        self.graph: ExecutableGraph | None = None
        self.open = 0
        """Graphs in it that have not ended: its own, and the environments within it."""
        self.children = 0
        """Graphs that were launched beside the one that runs: by itself fire and forget, by those as siblings."""
        self.relaunched = False
        """Has the one that runs launched itself again?"""
        self.made: list[ExecutableGraph] = []
        """Tail launches of the one that runs."""
        self.pending: deque[ExecutableGraph] = deque()
        """Those that were made before it ran."""
        self.ended: list[Operation] = []
        """What has ended since the last tail launch: the next one comes behind it."""

    @property
    def tails(self) -> int:
        return len(self.made) + len(self.pending)

    def enter(self, graph: ExecutableGraph) -> None:
        """A graph begins to run."""
        graph.runs += 1
        self.graph, self.open, self.children, self.relaunched, self.made = graph, 1, 0, False, []


class Launches:
    """What one kernel of a graph launches."""

    def __init__(self, environments: Environments, environment: Environment, kernel: Operation) -> None:
        self._environments, self._environment = environments, environment
        self._kernel = kernel
        self._calls: list[Into] = []
        """Those that it has made since it last ran."""
        self._wanted: list[tuple[int, Environment, ExecutableGraph]] = []
        """What begins beside it, each with the number of its call."""
        self._wrong: ExecutableGraph | None = None
        self.beside = False
        """Has it launched anything that runs beside it?"""

    @property
    def current_graph(self) -> int:
        graph = self._environment.graph
        return graph.handle if graph is not None and graph.for_device else 0

    def launch_graph(self, graph: int, stream: int) -> int:
        """A thread calls ``cudaGraphLaunch``; returns the code."""
        found, here = self._environments.find(graph), self._environment
        if found is not None and not found.for_device:
            self._wrong = found
        if found is None or not found.launchable or stream not in _STREAMS:
            if found is not None and found.for_device and stream in _STREAMS:
                self._refused(found)
            return _INVALID
        into = Into(stream >> 56)
        self._calls.append(into)
        if into is Into.TAIL:
            return self._tail(found)
        around = here if into is Into.FIRE_AND_FORGET else here.parent
        assert around is not None
        if found.is_busy or around.children >= MOST_CHILDREN:
            return _INVALID
        around.children += 1
        around.open += 1
        found.queued = self.beside = True
        self._wanted.append((len(self._calls), Environment(around, here.host), found))
        return _SUCCESS

    def _refused(self, graph: ExecutableGraph) -> None:
        """A graph was not uploaded. Neither it nor that of the kernel ends on an H200 when it is launched next."""
        why = (
            f"kernel {self._kernel.name} has launched {graph.name}, which was not uploaded (cudaErrorInvalidValue). "
            "An H200 ends neither graph after that when it is launched again. Upload it before: cudaGraphUpload"
        )
        graph.stuck = why
        if self._environment.graph is not None:
            self._environment.graph.stuck = why

    def _tail(self, graph: ExecutableGraph) -> int:
        here = self._environment
        itself = graph is here.graph
        if here.tails >= MOST_TAILS or (here.relaunched if itself else graph.is_busy):
            return _INVALID
        here.made.append(graph)
        if itself:
            here.relaunched = True
        else:
            graph.queued = True
        return _SUCCESS

    def carry_out(self) -> None:
        """The kernel has run, or waits for memory to change: what it has launched begins."""
        if self._wrong is not None:
            raise CudaError(
                cudaError_t.cudaErrorIllegalAddress,
                f"kernel {self._kernel.name} launches {self._wrong.name}, which was instantiated for the "
                "host. On a GPU that is an illegal address: instantiate it with cudaGraphInstantiateFlagDeviceLaunch, "
                "and upload it",
                sticky=True,
            )
        (calls, self._calls), (wanted, self._wanted) = (self._calls, []), (self._wanted, [])
        times = [self._environments.time_of_call(into) for into in calls]
        self._kernel.saved -= round(sum(times))
        for number, environment, graph in wanted:
            delay = round(sum(times[: number - 1]))
            self._environments.run(environment, graph, Into.FIRE_AND_FORGET, self._kernel, delay)


_STREAMS = frozenset(each << 56 for each in Into)


class Environments:
    """Lets graphs run in environments.

    Args:
        find: the executable graph that a handle names.
        begin: issues the nodes of a graph in an environment, launched by an operation, so many ns after now; each run
            ends with a call of :meth:`ended`.
        over: all that a launch by the host has brought about has ended.
        time_of_call: what a call takes, ns.
        later: calls something when the environment around has heard of an end.
    """

    def __init__(
        self,
        find: Callable[[int], ExecutableGraph | None],
        begin: Callable[[Environment, ExecutableGraph, Into, Operation, int], None],
        over: Callable[[HostLaunch], None],
        time_of_call: Callable[[Into], float],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self.find, self.time_of_call, self._later = find, time_of_call, later
        self._begin, self._over = begin, over

    def of_launch(self, graph: ExecutableGraph, stream: Stream, first: Operation) -> Environment:
        """The environment of a graph that the host launches, in one of its own."""
        outer = Environment(None, HostLaunch(stream, first))
        outer.open = 1
        made = Environment(outer, outer.host)
        made.enter(graph)
        return made

    def run(
        self, environment: Environment, graph: ExecutableGraph, into: Into, cause: Operation, delay: int = 0
    ) -> None:
        """A graph runs, launched by a kernel, or because all before it has ended."""
        graph.queued = False
        environment.enter(graph)
        self._begin(environment, graph, into, cause, delay)

    def ended(self, environment: Environment, operation: Operation) -> None:
        """The nodes of the graph that runs in an environment have ended, ``operation`` the last of them; or an
        environment within has."""
        environment.ended.append(operation)
        environment.open -= 1
        if environment.open:
            return
        if environment.graph is not None:
            environment.graph.runs -= 1
        environment.pending.extendleft(reversed(environment.made))
        environment.made = []
        if environment.pending:
            self.run(environment, environment.pending.popleft(), Into.TAIL, operation)
            return
        around = environment.parent
        if around is None:
            self._over(environment.host)
            return
        around.ended += environment.ended[:-1]
        if around.parent is None:
            self.ended(around, operation)
        else:
            self._later(partial(self.ended, around, operation))
