"""Random programs of steps that read and write cells of one buffer: run in one stream, as a graph, or captured; on a
GPU or the simulated device, whichever ``cudalab`` has.

Two steps that touch the same cell, one of them writing, must keep their order; nothing else is ordered. So a graph with
an edge for each such pair gives what one stream gives, and a graph that lacks one is a hazard.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import graph_nodes as nodes
from bench.graph_nodes import IF, WHILE, HostFunction, checked, launch_of
from cudalab import cp, cudart

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
IN_BODIES = {"if": IF, "while": WHILE}
SET_DEPENDENCIES = 1
"""``cudaStreamSetCaptureDependencies``: these instead of what the stream has."""


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


def size_of(seed: int) -> int:
    """How many steps the graph with that seed has: 2 to 200."""
    return 2 + seed * 67 % 199


class Machine:
    """The current device with a buffer of cells."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        """Numbers of the host steps that ran."""
        self.buffer = cp.arange(CELLS * CELL // 4, dtype=cp.uint32)
        self.uploads = np.frombuffer(cp.cuda.alloc_pinned_memory(256 * CELL), np.uint8, 256 * CELL)
        self.uploads[:] = np.repeat(np.arange(256, dtype=np.uint8), CELL)
        module = cp.RawModule(code=SOURCE)
        self.mix, self.setter = (module.get_function(name) for name in ("mix", "set"))
        self._call = HostFunction(lambda number: self.calls.append(number or 0))
        checked(cudart.cudaDeviceSynchronize())

    def cell(self, number: int) -> int:
        return int(self.buffer.data.ptr) + number * CELL

    def upload(self, step: Step) -> int:
        """Page-locked memory with the bytes that the step brings."""
        return int(self.uploads.ctypes.data) + step.number % 251 * CELL

    def put(self, step: Step, stream: Any) -> None:
        """The step in a stream."""
        target, source = self.cell(step.target), self.cell(step.source)
        if step.kind in ("kernel", "child", *IN_BODIES):
            with stream:
                self.mix((1,), (THREADS,), (target, source, np.uint32(step.number)))
        elif step.kind == "scratch":
            memory = checked(cudart.cudaMallocAsync(CELL, stream.ptr))
            copied(memory, source, stream)
            copied(target, memory, stream)
            checked(cudart.cudaFreeAsync(memory, stream.ptr))
        elif step.kind == "copy":
            copied(target, source, stream)
        elif step.kind == "memset":
            checked(cudart.cudaMemsetAsync(target, step.number, CELL, stream.ptr))
        elif step.kind == "upload":
            copied(target, self.upload(step), stream)
        elif step.kind == "host":
            checked(cudart.cudaLaunchHostFunc(stream.ptr, cudart.cudaHostFn_t(address_of(self._call)), step.number))

    def launch_of(self, step: Step) -> Any:
        arguments = (self.cell(step.target), ctypes.c_void_p), (self.cell(step.source), ctypes.c_void_p)
        return launch_of(self.mix, *arguments, (step.number, ctypes.c_uint), threads=THREADS)

    def graph(self, steps: list[Step], edges: list[tuple[int, int]]) -> Any:
        """A graph of the steps."""
        graph = checked(cudart.cudaGraphCreate(0))
        self.nodes: list[list[Any]] = []
        """Of each step, in their order."""
        for number, step in enumerate(steps):
            after = [self.nodes[before][-1] for before, behind in edges if behind == number]
            self.nodes.append(self._add(graph, after, step))
        return graph

    def _add(self, graph: Any, after: list[Any], step: Step) -> list[Any]:
        """The nodes of a step, one behind the other."""
        target, source = self.cell(step.target), self.cell(step.source)
        if step.kind == "scratch":
            first, pointer = nodes.allocation(graph, after, CELL)
            inwards = nodes.copy(graph, [first], pointer, source, CELL)
            outwards = nodes.copy(graph, [inwards], target, pointer, CELL)
            return [first, inwards, outwards, nodes.free(graph, [outwards], pointer)]
        if step.kind == "kernel":
            node = nodes.kernel(graph, after, self.launch_of(step))
        elif step.kind in IN_BODIES:
            node = self._conditional(graph, after, step)
        elif step.kind == "child":
            inner = checked(cudart.cudaGraphCreate(0))
            nodes.kernel(inner, [], self.launch_of(step))
            node = nodes.child(graph, after, inner)
        elif step.kind == "copy":
            node = nodes.copy(graph, after, target, source, CELL)
        elif step.kind == "upload":
            node = nodes.copy(graph, after, target, self.upload(step), CELL)
        elif step.kind == "memset":
            node = nodes.memset(graph, after, target, step.number, CELL)
        elif step.kind == "host":
            node = nodes.host(graph, after, self._call, step.number)
        else:
            node = nodes.empty(graph, after)
        return [node]

    def _conditional(self, graph: Any, after: list[Any], step: Step) -> Any:
        """A kernel in the body of a conditional node, whose value is 1 at first and 0 behind it."""
        node, body, handle = nodes.conditional(graph, after, IN_BODIES[step.kind], 1)
        kernel = nodes.kernel(body, [], self.launch_of(step))
        ends = launch_of(self.setter, (handle, ctypes.c_ulonglong), (0, ctypes.c_uint), threads=1)
        nodes.kernel(body, [kernel], ends)
        return node

    def capture(self, step: Step, stream: Any) -> None:
        """The step in a stream that captures. A conditional node is put behind what the stream has, by its graph; so is
        a host node, because a captured ``cudaLaunchHostFunc`` of ``cuda.bindings`` can run once only: before 13.5 it
        frees what it has handed to the driver when the function has been called (NVIDIA/cuda-python, issue 790)."""
        if step.kind not in (*IN_BODIES, "host"):
            return self.put(step, stream)
        _, _, graph, before, *_ = checked(cudart.cudaStreamGetCaptureInfo(stream.ptr))
        (node,) = self._add(graph, list(before or []), step)
        checked(cudart.cudaStreamUpdateCaptureDependencies(stream.ptr, [node], None, 1, SET_DEPENDENCIES))
        return None

    def captured(self, steps: list[Step], edges: list[tuple[int, int]], seed: int) -> Any:
        """The steps captured from four streams, with an event for each edge between two of them."""
        generator = np.random.default_rng(seed)
        streams = [new_stream() for _ in range(4)]
        events = [checked(cudart.cudaEventCreateWithFlags(2)) for _ in range(len(steps) + 5)]
        checked(cudart.cudaStreamBeginCapture(streams[0].ptr, cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal))
        checked(cudart.cudaEventRecord(events[-1], streams[0].ptr))
        for stream in streams[1:]:
            checked(cudart.cudaStreamWaitEvent(stream.ptr, events[-1], 0))
        where = generator.integers(0, 4, len(steps)).tolist()
        for number, step in enumerate(steps):
            stream = streams[where[number]]
            for before, behind in edges:
                if behind == number and where[before] != where[number]:
                    checked(cudart.cudaStreamWaitEvent(stream.ptr, events[before], 0))
            self.capture(step, stream)
            checked(cudart.cudaEventRecord(events[number], stream.ptr))
        for index, stream in enumerate(streams[1:]):
            checked(cudart.cudaEventRecord(events[-2 - index], stream.ptr))
            checked(cudart.cudaStreamWaitEvent(streams[0].ptr, events[-2 - index], 0))
        return checked(cudart.cudaStreamEndCapture(streams[0].ptr))

    def launch(self, graph: Any, times: int = 1) -> None:
        executable = checked(cudart.cudaGraphInstantiate(graph, 0))
        for stream in [new_stream() for _ in range(times)]:
            checked(cudart.cudaGraphLaunch(executable, stream.ptr))
        checked(cudart.cudaDeviceSynchronize())
        checked(cudart.cudaGraphExecDestroy(executable))

    def contents(self) -> bytes:
        checked(cudart.cudaDeviceSynchronize())
        return self.buffer.get().tobytes()


def address_of(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def copied(to: int, source: int, stream: Any) -> None:
    checked(cudart.cudaMemcpyAsync(to, source, CELL, cudart.cudaMemcpyKind.cudaMemcpyDefault, stream.ptr))


def new_stream() -> Any:
    return cp.cuda.Stream(non_blocking=True)


def in_one_stream(steps: list[Step], times: int = 1) -> tuple[bytes, list[int]]:
    """What the steps give one after another, and the host steps that ran."""
    machine, stream = Machine(), new_stream()
    for _ in range(times):
        for step in steps:
            machine.put(step, stream)
    return machine.contents(), machine.calls
