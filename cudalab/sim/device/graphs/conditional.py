"""Conditional nodes: bodies that run or not, or again and again, by a value that kernels set.

A handle stands for the value; kernels set it with ``cudaGraphSetConditional``, and a default may be assigned at the
start of each launch. The node looks at it when its turn comes: IF runs its body when it is not zero, and its second
body, if there is one, when it is; WHILE runs its body until it is zero; SWITCH runs the body that the value counts, or
none (CUDA Programming Guide, "Conditional Graph Nodes").

What is simplified: a handle is the address of the value (``compiler/ptx/device_runtime.py``). The launch of a graph
issues the nodes of a body when the node decides for it; the hazard report compares them with each other and with what
runs beside the node, and counts them as part of the node for everything behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.byte_ranges import Touched, run
from cudalab.sim.device.queue.operation import Operation, Work
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.reports.faults import RAISE_TIME_LIMIT

if TYPE_CHECKING:
    from cudalab.sim.device.graphs.environment import Environment
    from cudalab.sim.device.graphs.executable import Branch, ExecutableGraph, ExecutableNode
    from cudalab.sim.device.queue.operation import Stream

VALUE_BYTES = 4


class ConditionalKind(IntEnum):
    """``cudaGraphConditionalNodeType``"""

    IF = 0
    WHILE = 1
    SWITCH = 2

    def allows(self, bodies: int) -> bool:
        """May a node of it have so many bodies?"""
        return bodies >= 1 and (self is ConditionalKind.SWITCH or bodies <= (2 if self is ConditionalKind.IF else 1))

    def choose(self, value: int, bodies: int) -> int:
        """Which body a value chooses; -1 for none."""
        if self is ConditionalKind.SWITCH:
            return value if value < bodies else -1
        if value:
            return 0
        return 1 if bodies > 1 else -1


class ConditionalHandle:
    """The value that a conditional node decides by."""

    def __init__(self, memory: Memory, default: int | None) -> None:
        self.address = memory.allocate(VALUE_BYTES, "global", "value of a conditional handle")
        self._memory = memory
        self.default = default
        """Assigned at the start of each launch, unless that is None."""
        self.users = 1
        """Its graph, and the executable graphs made from that."""
        self.set(0)

    def set(self, value: int) -> None:
        self._memory.array(self.address, 1, np.uint32)[0] = value

    def drop(self) -> None:
        """One user less; the last takes the value along."""
        self.users -= 1
        if not self.users and self._memory.find(self.address) is not None:
            self._memory.free(self.address, where="cudaGraphDestroy")


class Decision(Work[Operation], Struct, frozen=True, eq=False):
    """A conditional node looks at its value, and decides what comes next."""

    kind = "conditional"
    works_on_memory = False

    name: str
    duration: int
    address: int
    decide: Callable[[Operation], None]

    def begin(self, operation: Operation) -> int:
        return self.duration

    def run(self, operation: Operation) -> None:
        self.decide(operation)

    def touched(self) -> Touched:
        return Touched((run(self.address, VALUE_BYTES),))


class ConditionalEndOperation(Operation):
    """One end of a conditional node."""

    waiting = 1  # for the last of its bodies; the begin of the node comes on top


class ConditionalEnd(Work[ConditionalEndOperation], Struct, frozen=True, eq=False):
    """No body of the node runs any more."""

    kind = "conditional"
    works_on_memory = False
    operation_class = ConditionalEndOperation
    name = "end of a conditional node"

    ended: Callable[[Operation], None]

    def run(self, operation: Operation) -> None:
        self.ended(operation)


CONDITIONAL_END = ConditionalEnd(lambda operation: None)
"""Stands for the end of a conditional node; each launch has one of its own."""


class Bodies:
    """What a conditional node may run, ready to run."""

    def __init__(self, graphs: list[ExecutableGraph], rounds: Branch) -> None:
        self.graphs = graphs
        self.rounds = rounds
        """The queue of the decisions behind each run of a body."""


class Turn:
    """One run of a conditional node, from its first decision to its end."""

    def __init__(
        self,
        node: ExecutableNode,
        whole: ExecutableGraph,
        stream: Stream,
        root: Turn | None,
        environment: Environment | None,
        time_limit: float,
    ) -> None:
        self.node, self.whole, self.stream = node, whole, stream
        self.environment = environment
        """Where its kernels launch graphs."""
        self.root = root if root is not None else self
        """That of the outermost conditional node that it is part of."""
        conditional = node.content.conditional
        assert conditional is not None
        self.handle = conditional.handle
        self._kind = ConditionalKind(conditional.kind)
        self.first: Operation | None = None
        self.end: Operation | None = None
        self.parts: list[Operation] = []
        """What has been issued of a body and is not yet counted as part of the node."""
        self._rounds = 0
        self._limit, self._began = time_limit, time.process_time()

    def chosen(self, memory: Memory) -> int:
        """The number of the body that runs next; -1 for none. Raises ``cudaErrorLaunchTimeout``."""
        assert self.node.bodies is not None
        if self._rounds and self._kind is not ConditionalKind.WHILE:
            return -1
        value = int(memory.array(self.handle, 1, np.uint32, write=False)[0])
        found = self._kind.choose(value, len(self.node.bodies.graphs))
        self._rounds += found >= 0
        if found >= 0 and time.process_time() - self._began > self._limit:
            raise CudaError(
                cudaError_t.cudaErrorLaunchTimeout,
                f"{self.node.label} has run its body {self._rounds} times, and its value is still not zero. On a GPU "
                "the graph would never end: let a kernel of the body call cudaGraphSetConditional(handle, 0) at last. "
                f"A loop that needs longer gets it with {RAISE_TIME_LIMIT}",
                sticky=True,
            )
        return found
