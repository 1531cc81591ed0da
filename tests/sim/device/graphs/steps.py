"""Random programs of steps that read and write cells of one buffer: run in one stream, as a graph, or captured.

Two steps that touch the same cell, one of them writing, must keep their order; nothing else is ordered. So a graph with
an edge for each such pair gives what one stream gives, and a graph that lacks one is a hazard.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.graphs.content import (
    AllocationContent,
    ConditionalContent,
    Content,
    CopyContent,
    KernelContent,
    MemsetContent,
    NodeKind,
)

CELL = 128
CELLS = 24
THREADS = CELL // 4
SOURCE = r"""
extern "C" __global__ void mix(unsigned* to, const unsigned* from, unsigned value) {
    to[threadIdx.x] = to[threadIdx.x] * 3 + from[threadIdx.x] * 5 + value;
}"""
SOURCE += r"""
extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);
extern "C" __global__ void set(cudaGraphConditionalHandle handle, unsigned value) {
    if (!threadIdx.x) cudaGraphSetConditional(handle, value);
}"""
KINDS = ("kernel", "kernel", "kernel", "copy", "memset", "upload", "host", "empty", "child", "scratch", "if", "while")
"""What steps are: ``scratch`` goes through memory of the graph's own, ``if`` and ``while`` are kernels in the body of a
conditional node, which runs once."""
IN_BODIES = ("if", "while")


@dataclass(frozen=True)
class Step:
    """One piece of work on cells."""

    kind: str
    number: int
    target: int
    source: int

    @property
    def reads(self) -> set[int]:
        return {self.source, self.target} if self.kind in ("kernel", "child", *IN_BODIES) else self._sources

    @property
    def _sources(self) -> set[int]:
        return {self.source} if self.kind in ("copy", "scratch") else set()

    @property
    def writes(self) -> set[int]:
        return {self.target} if self.kind not in ("host", "empty") else set()

    def conflicts(self, other: Step) -> bool:
        return bool(self.writes & (other.reads | other.writes) or other.writes & self.reads)


def random_steps(count: int, seed: int) -> list[Step]:
    generator = np.random.default_rng(seed)
    steps = []
    for number in range(count):
        target, source = generator.choice(CELLS, 2, replace=False)
        steps.append(Step(str(generator.choice(KINDS)), number, int(target), int(source)))
    return steps


def edges_of(steps: list[Step]) -> list[tuple[int, int]]:
    """Pairs that must keep their order and that no others keep in order."""
    before: list[set[int]] = []
    edges = []
    for number, step in enumerate(steps):
        mine: set[int] = set()
        for other in range(number - 1, -1, -1):
            if other not in mine and step.conflicts(steps[other]):
                edges.append((other, number))
                mine |= before[other] | {other}
        before.append(mine)
    return edges


@dataclass
class Machine:
    """A device with a buffer of cells."""

    device: Device = field(default_factory=Device)
    calls: list[int] = field(default_factory=list)
    """Numbers of the host steps that ran."""

    def __post_init__(self) -> None:
        device = self.device
        start = np.arange(CELLS * CELL // 4, dtype=np.uint32)
        self.buffer = device.malloc(start.nbytes)
        device.memcpy(self.buffer, start.ctypes.data, start.nbytes, 1)
        module = device.load_module(compile(SOURCE))
        self.function, self.setter = (device.get_function(module, name) for name in ("mix", "set"))
        self.uploads: dict[int, np.ndarray] = {}
        device.synchronize()

    def cell(self, number: int) -> int:
        return self.buffer + number * CELL

    def arguments(self, step: Step) -> bytes:
        return struct.pack("QQI", self.cell(step.target), self.cell(step.source), step.number)

    def host_data(self, step: Step) -> int:
        data = self.uploads.setdefault(step.number, np.full(CELL, step.number % 251, np.uint8))
        return int(data.ctypes.data)

    def put(self, step: Step, stream: int) -> None:
        """The step in a stream."""
        device, target = self.device, self.cell(step.target)
        if step.kind in ("kernel", "child", *IN_BODIES):
            device.launch(self.function, (1, 1, 1), (THREADS, 1, 1), self.arguments(step), 0, stream)
        elif step.kind == "scratch":
            memory = device.malloc_async(CELL, stream)
            device.memcpy(memory, self.cell(step.source), CELL, 3, stream, True)
            device.memcpy(target, memory, CELL, 3, stream, True)
            device.free_async(memory, stream)
        elif step.kind == "copy":
            device.memcpy(target, self.cell(step.source), CELL, 3, stream, True)
        elif step.kind == "memset":
            device.memset(target, step.number, CELL, stream, True)
        elif step.kind == "upload":
            device.memcpy(target, self.host_data(step), CELL, 1, stream, True)
        elif step.kind == "host":
            device.launch_host_function(lambda: self.calls.append(step.number), stream)

    def content(self, step: Step) -> Content:
        """The step as what a node does."""
        target = self.cell(step.target)
        if step.kind == "kernel":
            launch = KernelContent(self.function, (1, 1, 1), (THREADS, 1, 1), self.arguments(step))
            return Content(NodeKind.KERNEL, launch)
        if step.kind == "copy":
            return self._copy(target, self.cell(step.source))
        if step.kind == "upload":
            return self._copy(target, self.host_data(step))
        if step.kind == "memset":
            return Content(NodeKind.MEMSET, memset=MemsetContent(target, step.number, CELL))
        if step.kind == "child":
            child = self.device.graph_create()
            inner = Step("kernel", step.number, step.target, step.source)
            self.device.graph_add_node(child, [], self.content(inner))
            return Content(NodeKind.GRAPH, graph=child)
        return Content(NodeKind.HOST if step.kind == "host" else NodeKind.EMPTY)

    @staticmethod
    def _copy(target: int, source: int) -> Content:
        return Content(NodeKind.MEMCPY, copy=CopyContent((target, CELL, CELL), (source, CELL, CELL), (CELL, 1, 1)))

    def graph(self, steps: list[Step], edges: list[tuple[int, int]]) -> int:
        """A graph of the steps."""
        graph = self.device.graph_create()
        self.nodes: list[list[int]] = []
        """Of each step, in their order."""
        for number, step in enumerate(steps):
            after = [self.nodes[before][-1] for before, behind in edges if behind == number]
            self.nodes.append(self._add(graph, after, step))
        return graph

    def _add(self, graph: int, after: list[int], step: Step) -> list[int]:
        """The nodes of a step, one behind the other."""
        add = self.device.graph_add_node
        if step.kind in IN_BODIES:
            return [self._conditional(graph, after, step)]
        if step.kind != "scratch":
            call = (lambda: self.calls.append(step.number)) if step.kind == "host" else None
            return [add(graph, after, self.content(step), call)]
        nodes = [add(graph, after, Content(NodeKind.MEM_ALLOC, allocation=AllocationContent(0, CELL)))]
        made = self.device.graph_node_content(nodes[0], NodeKind.MEM_ALLOC).allocation
        assert made is not None
        for to, source in ((made.pointer, self.cell(step.source)), (self.cell(step.target), made.pointer)):
            nodes.append(add(graph, nodes[-1:], self._copy(to, source)))
        return [*nodes, add(graph, nodes[-1:], Content(NodeKind.MEM_FREE, pointer=made.pointer))]

    def _conditional(self, graph: int, after: list[int], step: Step) -> int:
        """A kernel in the body of a conditional node, whose value is 1 at first and 0 behind it."""
        device = self.device
        handle = device.graph_conditional_handle(graph, 1, 1)
        wanted = ConditionalContent(handle, IN_BODIES.index(step.kind))
        node = device.graph_add_node(graph, after, Content(NodeKind.CONDITIONAL, conditional=wanted))
        (body,) = device.graph_bodies(node)
        inner = Step("kernel", step.number, step.target, step.source)
        kernel = device.graph_add_node(body, [], self.content(inner))
        ends = KernelContent(self.setter, (1, 1, 1), (1, 1, 1), struct.pack("QI", handle, 0))
        device.graph_add_node(body, [kernel], Content(NodeKind.KERNEL, ends))
        return node

    def capture(self, step: Step, stream: int) -> None:
        """The step in a stream that captures: a conditional node is put behind what the stream has, by its graph."""
        if step.kind not in IN_BODIES:
            return self.put(step, stream)
        found = self.device.capture_info(stream)
        node = self._conditional(found.graph, [before for before, *_ in found.nodes], step)
        self.device.capture_update_dependencies(stream, [node], 1)
        return None

    def captured(self, steps: list[Step], edges: list[tuple[int, int]], seed: int) -> int:
        """The steps captured from four streams, with an event for each edge between two of them."""
        device, generator = self.device, np.random.default_rng(seed)
        streams = [device.stream_create(1) for _ in range(4)]
        events = [device.event_create(2) for _ in range(len(steps) + 5)]
        device.capture_begin(streams[0], 0)
        device.event_record(events[-1], streams[0])
        for stream in streams[1:]:
            device.stream_wait_event(stream, events[-1])
        where = generator.integers(0, 4, len(steps)).tolist()
        for number, step in enumerate(steps):
            stream = streams[where[number]]
            for before, behind in edges:
                if behind == number and where[before] != where[number]:
                    device.stream_wait_event(stream, events[before])
            self.capture(step, stream)
            device.event_record(events[number], stream)
        for index, stream in enumerate(streams[1:]):
            device.event_record(events[-2 - index], stream)
            device.stream_wait_event(streams[0], events[-2 - index])
        return device.capture_end(streams[0])

    def launch(self, graph: int, times: int = 1) -> None:
        executable = self.device.graph_instantiate(graph)
        for _ in range(times):
            self.device.graph_launch(executable, self.device.stream_create(1))
        self.device.synchronize()

    def contents(self) -> bytes:
        self.device.synchronize()
        return bytes(self.device.view(self.buffer, CELLS * CELL))


def in_one_stream(steps: list[Step], times: int = 1) -> tuple[bytes, list[int]]:
    """What the steps give one after another, and the host steps that ran."""
    machine = Machine(Device(hazards=False))
    for _ in range(times):
        for step in steps:
            machine.put(step, 0)
    return machine.contents(), machine.calls
