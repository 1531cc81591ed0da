"""Experiments with graphs: making, instantiating, launching and updating them, by number of nodes, shape and kind.

Kernels are empty unless an experiment says otherwise, so overheads are what counts. Device times are those of a launch
that the host has enqueued long before it begins. Constants of graphs come from those that are declared to be on the
calibration side.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, Literal

import numpy as np

from bench import graph_nodes as nodes
from bench.fidelity.experiment import Side, experiment
from bench.fidelity.laboratory import Laboratory
from bench.graph_nodes import IF, WHILE, HostFunction, Node, checked, launch_of
from cudalab import cp, cudart, driver

Result = Iterator[tuple[str, float]]
Shape = Literal["chain", "parallel", "diamonds", "rows", "wide rows"]
NOTHING = HostFunction(lambda _: None)
CYCLES = 20_000
"""Of the kernel ``spin``: 10 us of an H200."""
WIDTHS: dict[Shape, tuple[int, ...]] = {
    "chain": (1,),
    "parallel": (),
    "diamonds": (4,),
    "rows": (4, 1),
    "wide rows": (16, 1),
}
"""Nodes of the rows of a shape, over and over; of one without any, all nodes are one row."""
ROUNDS = 900
"""Of the kernel ``busy``: about 2 us."""
KIB = 1024


def graph() -> Any:
    return checked(cudart.cudaGraphCreate(0))


def instantiated(made: Any) -> Any:
    return checked(cudart.cudaGraphInstantiate(made, 0))


class Builder:
    """Adds nodes to graphs; each method returns the last new one."""

    def __init__(self, lab: Laboratory) -> None:
        self.lab = lab
        self.out = lab.buffer("graphs", 1 << 22).data.ptr

    def launch_params(self, name: str, *args: tuple[Any, Any], topic: str = "launches") -> Any:
        return launch_of(self.lab.kernel_of(topic, name), *args)

    def kernel(self, made: Any, after: Sequence[Node]) -> Node:
        return nodes.kernel(made, after, self.launch_params("empty"))

    def spin(self, made: Any, after: Sequence[Node]) -> Node:
        return nodes.kernel(made, after, self.launch_params("spin", (CYCLES, ctypes.c_longlong)))

    def busy(self, made: Any, after: Sequence[Node]) -> Node:
        return nodes.kernel(
            made, after, self.launch_params("busy", (self.out, ctypes.c_void_p), (ROUNDS, ctypes.c_int))
        )

    def memset(self, made: Any, after: Sequence[Node]) -> Node:
        return nodes.memset(made, after, self.out, 0, KIB)

    def memcpy(self, made: Any, after: Sequence[Node]) -> Node:
        return nodes.copy(made, after, self.out + 4 * KIB, self.out, KIB)

    def host(self, made: Any, after: Sequence[Node]) -> Node:
        return nodes.host(made, after, NOTHING)

    def child(self, made: Any, after: Sequence[Node]) -> Node:
        inner = graph()
        self.kernel(inner, [])
        return nodes.child(made, after, inner)

    def memory(self, made: Any, after: Sequence[Node]) -> Node:
        """A MiB that is allocated, and freed behind a kernel."""
        allocated, pointer = nodes.allocation(made, after, KIB * KIB)
        return nodes.free(made, [self.kernel(made, [allocated])], pointer)

    def of(self, count: int, shape: Shape = "chain", add: Callable[..., Node] | None = None) -> Any:
        """``count`` nodes, row by row: each node of a row comes behind all of the row before."""
        made = graph()
        before: list[Node] = []
        row: list[Node] = []
        widths = cycle(WIDTHS[shape] or (count,))
        width = next(widths)
        for _ in range(count):
            row.append((add or self.kernel)(made, before))
            if len(row) == width:
                before, row, width = row, [], next(widths)
        return made


def destroyed(*executables: Any) -> None:
    cudart.cudaDeviceSynchronize()
    for each in executables:
        cudart.cudaGraphExecDestroy(each)


def on_device(lab: Laboratory, made: Any) -> float:
    """Microseconds of one launch, without those of the events around it."""
    executable = instantiated(made)
    found = launch_time(lab, executable)
    destroyed(executable)
    return found


def launch_time(lab: Laboratory, executable: Any) -> float:
    return lab.queued(lambda: checked(cudart.cudaGraphLaunch(executable, 0))) - lab.queued(lambda: None)


def repeats_of(lab: Laboratory, count: int) -> int:
    """How often what takes as long as a graph has nodes is repeated."""
    return min(lab.repeats, max(3, 2000 // count))


# -- by number of nodes and by shape -----------------------------------------------------------------------------------

NODES: dict[Shape, tuple[int, ...]] = {
    "chain": (1, 2, 5, 10, 20, 50, 100, 500, 1000),
    "parallel": (2, 5, 10, 20, 50, 100, 500),
    "diamonds": (20, 100, 500),
    "rows": (5, 20, 100, 500),
    "wide rows": (17, 102, 510),
}


def by_nodes(shape: Shape, measure: Callable[[Laboratory, Any, int], float]) -> Callable[[Laboratory], Result]:
    """A program that measures graphs of one shape by number of nodes."""

    def program(lab: Laboratory) -> Result:
        builder = Builder(lab)
        for count in NODES[shape]:
            made = builder.of(count, shape)
            yield f"{count} nodes", measure(lab, made, count)
            cudart.cudaGraphDestroy(made)

    return program


def launched(lab: Laboratory, made: Any, count: int) -> float:
    return on_device(lab, made)


def instantiation(lab: Laboratory, made: Any, count: int) -> float:
    kept: list[Any] = []
    found = lab.calls(lambda: kept.append(instantiated(made)), repeats=repeats_of(lab, count))
    destroyed(*kept)
    return found


def first_launch(lab: Laboratory, made: Any, count: int) -> float:
    repeats = repeats_of(lab, count)
    executables = [instantiated(made) for _ in range(repeats + 2)]
    unused = iter(executables)
    found = lab.calls(lambda: checked(cudart.cudaGraphLaunch(next(unused), 0)), repeats=repeats)
    destroyed(*executables)
    return found


def later_launch(lab: Laboratory, made: Any, count: int) -> float:
    executable = instantiated(made)
    checked(cudart.cudaGraphLaunch(executable, 0))
    found = lab.calls(lambda: checked(cudart.cudaGraphLaunch(executable, 0)))
    destroyed(executable)
    return found


def whole_update(lab: Laboratory, made: Any, count: int) -> float:
    executable = instantiated(made)
    found = lab.calls(lambda: cudart.cudaGraphExecUpdate(executable, made), repeats=repeats_of(lab, count))
    destroyed(executable)
    return found


MEASURES: dict[str, tuple[Callable[[Laboratory, Any, int], float], tuple[Shape, ...]]] = {
    "launch, device time": (launched, ("chain", "parallel", "diamonds", "rows", "wide rows")),
    "instantiation, host time": (instantiation, ("chain", "parallel", "diamonds", "rows", "wide rows")),
    "first launch, host time": (first_launch, ("chain", "parallel", "rows", "wide rows")),
    "later launch, host time": (later_launch, ("chain", "parallel", "diamonds", "rows", "wide rows")),
    "whole update, host time": (whole_update, ("chain", "parallel", "rows", "wide rows")),
}
HALVES: dict[Shape, Side] = {shape: "validation" if shape == "diamonds" else "calibration" for shape in NODES}
for _what, (_measure, _shapes) in MEASURES.items():
    for _shape in _shapes:
        experiment(f"graphs, {_shape}: {_what}", half=HALVES[_shape])(by_nodes(_shape, _measure))


# -- by kind of node, and what changes ---------------------------------------------------------------------------------


@experiment("graphs: chains of other nodes", half="calibration")
def kinds(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for kind, add in (("memset", builder.memset), ("memcpy", builder.memcpy)):
        for count in (1, 10, 100):
            yield f"{count} {kind} nodes", on_device(lab, builder.of(count, "chain", add))


@experiment("graphs: chains of ten memsets", half="calibration")
def memsets(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for size, element in ((4, 1), (KIB, 1), (KIB, 4), (4 * KIB, 1), (8 * KIB, 1), (64 * KIB, 1), (KIB * KIB, 1)):

        def add(made: Any, after: Sequence[Node], size: int = size, element: int = element) -> Node:
            return nodes.memset(made, after, builder.out, 0, size, element)

        yield f"{size} bytes, {element} an element", on_device(lab, builder.of(10, "chain", add))


@experiment("graphs: host, child and memory nodes")
def further_kinds(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for kind, add in (("host", builder.host), ("child", builder.child), ("memory", builder.memory)):
        for count in (1, 4):
            yield f"{count} {kind} nodes", on_device(lab, builder.of(count, "chain", add))


BUSY_SHAPES: tuple[Shape, ...] = ("chain", "parallel", "diamonds")


@experiment("graphs: kernels of 10 us by shape", half="calibration")
def busy_kernels(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for shape in BUSY_SHAPES:
        for count in (4, 8, 32):
            yield f"{shape}, {count}", on_device(lab, builder.of(count, shape, builder.spin))


@experiment("graphs: conditional nodes")
def conditional_nodes(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for value in (0, 1):
        made = graph()
        _, body, _ = nodes.conditional(made, [], IF, value)
        builder.kernel(body, [])
        yield f"IF, value {value}", on_device(lab, made)
    counter = cp.zeros(1, cp.int32).data.ptr
    for rounds in (1, 10, 100):
        made = graph()
        _, body, handle = nodes.conditional(made, [nodes.memset(made, [], counter, 0, 4)], WHILE, 1)
        count = builder.launch_params(
            "count", (handle, ctypes.c_ulonglong), (counter, ctypes.c_void_p), (rounds, ctypes.c_int),
            topic="conditions",
        )  # fmt: skip
        nodes.kernel(body, [], count)
        yield f"WHILE, {rounds} rounds", on_device(lab, made)


@experiment("graphs: nodes that are switched off")
def switched_off(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for off in (0, 50, 100):
        made, chain = graph(), list[Node]()
        for _ in range(100):
            chain.append(builder.kernel(made, chain[-1:]))
        executable = instantiated(made)
        for node in chain[:off]:
            checked(cudart.cudaGraphNodeSetEnabled(executable, node, 0))
        yield f"{off} of 100", launch_time(lab, executable)
        destroyed(executable)


@experiment("graphs: calls, host time", half="calibration")
def calls(lab: Laboratory) -> Result:
    builder = Builder(lab)
    made = graph()
    node = builder.kernel(made, [])
    executable, params = instantiated(made), builder.launch_params("empty")
    handles = driver.CUgraphExec(int(executable)), driver.CUgraphNode(int(node))
    plain = driver.CUgraph(int(made))
    yield "create", lab.calls(lambda: cudart.cudaGraphCreate(0))
    yield "add a kernel node", lab.calls(lambda: driver.cuGraphAddKernelNode(plain, [], 0, params))
    yield "add an empty node", lab.calls(lambda: cudart.cudaGraphAddEmptyNode(made, [], 0))
    yield "set a node's launch", lab.calls(lambda: driver.cuGraphExecKernelNodeSetParams(*handles, params))
    yield "switch a node on", lab.calls(lambda: cudart.cudaGraphNodeSetEnabled(executable, node, 1))
    chain = builder.of(100)
    clones: list[Any] = []
    yield "clone of 100 nodes", lab.calls(lambda: clones.append(checked(cudart.cudaGraphClone(chain))))
    fresh = [instantiated(chain) for _ in clones]
    for what, things, call in (
        ("upload", fresh, lambda each: cudart.cudaGraphUpload(each, 0)),
        ("destroy an executable", fresh, cudart.cudaGraphExecDestroy),
        ("destroy a graph", clones, cudart.cudaGraphDestroy),
    ):
        unused = iter(things)
        yield f"{what} of 100 nodes", lab.calls(lambda call=call, unused=unused: checked(call(next(unused))))
    destroyed(executable)


@experiment("graphs: capturing a launch, host time", half="calibration")
def capturing(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("launches", "empty")
    stream = cp.cuda.Stream(non_blocking=True)
    relaxed = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
    kept: list[Any] = []

    def launches(count: int) -> None:
        with stream:
            for _ in range(count):
                kernel((1,), (32,), ())

    def captured(count: int) -> None:
        checked(cudart.cudaStreamBeginCapture(stream.ptr, relaxed))
        launches(count)
        kept.append(checked(cudart.cudaStreamEndCapture(stream.ptr)))

    for count in (10, 1000):
        yield f"{count} launches, captured", lab.calls(lambda count=count: captured(count), count, repeats=9)
        yield f"{count} launches, plain", lab.calls(lambda count=count: launches(count), count, repeats=9)


@experiment("graphs: launches or one graph, until done")
def launches_or_graph(lab: Laboratory) -> Result:
    """Kernels of about 2 us in one stream: launched one by one, and as a graph."""
    builder, kernel = Builder(lab), lab.kernel_of("launches", "busy")
    for count in (1, 10, 100):
        executable = instantiated(builder.of(count, add=builder.busy))
        checked(cudart.cudaGraphLaunch(executable, 0))

        def launches(count: int = count) -> None:
            for _ in range(count):
                kernel((1,), (32,), (builder.out, np.int32(ROUNDS)))

        yield f"{count} launches", lab.until_done(launches)
        yield (
            f"graph of {count}",
            lab.until_done(lambda executable=executable: checked(cudart.cudaGraphLaunch(executable, 0))),
        )
        destroyed(executable)


@experiment("graphs: launches back to back", half="calibration")
def back_to_back(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for count in (1, 10, 100):
        executable = instantiated(builder.of(count))
        checked(cudart.cudaGraphLaunch(executable, 0))

        def work(executable: Any = executable) -> None:
            for _ in range(20):
                cudart.cudaGraphLaunch(executable, 0)

        yield f"20 graphs of {count}", lab.until_done(work)
        destroyed(executable)
