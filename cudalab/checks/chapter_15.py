"""The exercises of chapter 15: a graph that is launched for each frame, a tree of nodes made by hand, a capture with
missing edges, copies inside graphs, and the longest path of a graph that somebody else made.

Judged are results, hazards, calls of the host, and which node depends on which; never a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings.driver import CUDA_KERNEL_NODE_PARAMS

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.provenance import GRADED, Origin
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.sim import cupy
from cudalab.sim.cudart.graph_nodes import cudaGraphAddEmptyNode
from cudalab.sim.cudart.graphs import (
    cudaGraphAddDependencies,
    cudaGraphCreate,
    cudaGraphInstantiate,
    cudaGraphLaunch,
)
from cudalab.sim.device.observer import Observer
from cudalab.sim.driver.graph_nodes import cuGraphAddKernelNode

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Operation

# --- 15.1 ------------------------------------------------------------------------------------------------------------

_PASSES = r"""
extern "C" __global__ void halve(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = 0.5f * x[i];
}
extern "C" __global__ void sum(float* y, int n) {  // running sums of eight
    if (8 * threadIdx.x + 7 < n)
        for (int i = 1; i < 8; i++) y[8 * threadIdx.x + i] += y[8 * threadIdx.x + i - 1];
}
extern "C" __global__ void shift(float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] += 1.0f;
}
"""
SAMPLES = 64
MADE = Gate("graphs that are made", points=1, least=1, most=1, look="what can be done once, before the first frame")
BY_GRAPH = Gate(
    "frames that a graph works on (%)",
    points=1,
    least=100,
    most=100,
    baseline=0,
    look="graph.launch(stream), once for each frame",
)
HOST_15_1 = HOST.of(
    1,
    baseline=1,
    look="get(blocking=False) into page-locked memory returns at once; the stream keeps the copies in order. "
    "The caller waits when your function has returned",
)


def _frames(bench: StreamBench) -> None:
    for count in (6, 1, bench.between(7, 12)):
        with bench.case(f"{count} frame{'s' * (count > 1)}") as trial:
            _frames_once(bench, trial, count)


def _frames_once(bench: StreamBench, trial: Trial, count: int) -> None:
    given = [bench.random(SAMPLES) for _ in range(count)]
    frames = [trial.pinned(values) for values in given]
    results = [trial.pinned(np.full(SAMPLES, np.nan, np.float32)) for _ in range(count)]
    x, y, size = trial.empty((SAMPLES,), np.float32), trial.empty((SAMPLES,), np.float32), np.int32(SAMPLES)
    arguments = {"halve": (x, y, size), "sum": (y, size), "shift": (y, size)}
    launches = [trial.launcher(trial.kernel(_PASSES, name), (1,), (32,), given) for name, given in arguments.items()]

    def work(stream: Any) -> None:
        for launch in launches:
            launch(stream)

    trial.call(frames, results, x, y, work, trial.stream("the stream"))
    expected = [1 + np.cumsum((values / 2).reshape(-1, 8), axis=1).reshape(-1) for values in given]
    for number, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        known = (
            Known("this is the result of the first frame: a captured copy keeps its addresses", expected[0]),
            Known("this is the result of the last frame", expected[-1]),
            Known("nothing was copied back", np.full(SAMPLES, np.nan, np.float32)),
        )
        look = "which addresses a captured copy has, and its stream: one in another stream comes when it likes"
        trial.expect(f"result {number}", result, wanted.astype(np.float32), tolerance=1e-5, known=known, look=look)
    bench.measure(MADE, sum(call.name == "graph_instantiate" for call in trial.calls))
    bench.measure(BY_GRAPH, 100 * sum(call.name == "graph_launch" for call in trial.calls) / count)
    bench.measure(HOST_15_1, (len(trial.waits) + len(trial.polls)) / count)


FRAME_BY_FRAME = Exercise(
    id="15.1",
    title="One graph, many frames",
    kernel="process",
    examine=_frames,
    gates=(MADE, BY_GRAPH, HOST_15_1),
    answer="function",
)

# --- 15.2 ------------------------------------------------------------------------------------------------------------

_ADD = r"""
extern "C" __global__ void add(float* x, int to, int first, int second) { x[to] = x[first] + x[second]; }
"""
LONGEST = Gate(
    "nodes on the longest path, for each that is needed",
    points=3,
    least=1,
    most=1,
    baseline=15 / 4,
    look="which sums need each other: pairs, pairs of pairs, and so on",
)
NODES = Gate("nodes, for each that is needed", points=1, least=1, most=1, baseline=1, look="count - 1 sums are enough")


def _tree(bench: StreamBench) -> None:
    for count in (16, 2, bench.between(5, 7), bench.between(9, 13)):
        with bench.case(f"{count} numbers") as trial:
            _tree_once(bench, trial, count)


def _tree_once(bench: StreamBench, trial: Trial, count: int) -> None:
    values = bench.random(count)
    x = trial.array(values)
    kernel = trial.kernel(_ADD, "add")
    _, graph = cudaGraphCreate(0)
    depth: dict[int, int] = {}

    def add(after: Any, to: int, first: int, second: int) -> Any:
        params = CUDA_KERNEL_NODE_PARAMS()
        params.func = kernel.kernel.ptr
        params.gridDimX = params.gridDimY = params.gridDimZ = 1
        params.blockDimX = params.blockDimY = params.blockDimZ = 1
        given: list[np.ndarray] = [
            np.array([x.data.ptr], np.uint64),
            *(np.array([number], np.int32) for number in (to, first, second)),
        ]
        addresses = np.array([value.ctypes.data for value in given], np.uint64)
        params.kernelParams = addresses.ctypes.data
        needs = list(after)
        error, node = cuGraphAddKernelNode(graph, needs, len(needs), params)
        if int(error):
            raise ValueError(f"add: {error.name}; the nodes in `after` are what earlier calls of add returned")
        depth[int(node)] = 1 + max((depth[int(before)] for before in needs), default=0)
        return node

    def launched(function: Any) -> None:
        function(add, count)
        if depth:
            stream = cupy.cuda.Stream(non_blocking=True)
            _, executable = cudaGraphInstantiate(graph, 0)
            cudaGraphLaunch(executable, stream.ptr)
            stream.synchronize()

    trial.call(around=launched)
    known = (Known("x[0] is what it was: no node has run", values[:1]),)
    total = np.array([values.sum()], np.float32)
    trial.expect("x[0]", x[:1], total, tolerance=1e-5, known=known, look="which sums go where; all of it ends in x[0]")
    bench.measure(LONGEST, max(depth.values(), default=0) / math.ceil(math.log2(count)))
    bench.measure(NODES, len(depth) / (count - 1))


TREE = Exercise(
    id="15.2",
    title="A tree by hand",
    kernel="tree",
    examine=_tree,
    gates=(LONGEST, NODES),
    answer="function",
)

# --- 15.3 ------------------------------------------------------------------------------------------------------------

_ROUND = r"""
extern "C" __global__ void blur(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = 0.5f * x[i];
}
extern "C" __global__ void edges(const float* x, float* z, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) z[i] = x[i] - x[i ? i - 1 : 0];
}
extern "C" __global__ void mix(const float* y, const float* z, float* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = y[i] + 0.25f * z[i];
}
"""
APART = Gate(
    "rounds whose blur and edges may run side by side (%)",
    points=2,
    least=100,
    look="what blur and edges of one round really have to wait for: the mix before, not each other",
)
KERNELS = Gate("kernels in the graph, for each that is needed", least=1, most=1, look="three kernels for each round")
HOST_15_3 = HOST.of(look="no call may wait: nothing runs while a stream is captured")


def _rounds(bench: StreamBench) -> None:
    for count in (4, 1, bench.between(5, 9)):
        with bench.case(f"{count} round{'s' * (count > 1)}") as trial:
            _rounds_once(bench, trial, count)


def _rounds_once(bench: StreamBench, trial: Trial, count: int) -> None:
    values = bench.random(SAMPLES)
    x, size = trial.array(values), np.int32(SAMPLES)
    y, z = trial.empty((SAMPLES,), np.float32), trial.empty((SAMPLES,), np.float32)
    arguments = {"blur": (x, y, size), "edges": (x, z, size), "mix": (y, z, x, size)}
    launches = [trial.launcher(trial.kernel(_ROUND, name), (1,), (32,), given) for name, given in arguments.items()]
    a, b = trial.stream("a"), trial.stream("b")

    def launched(function: Any) -> Any:
        graph = function(count, *launches, a, b)
        if ran := len(trial.kernels()):
            text = f"{ran} kernels ran when the function was called; captured, they would be nodes and wait"
            bench.find("correctness", "not captured", text, look="which launches stand behind a.begin_capture()")
        if isinstance(graph, cupy.cuda.Graph):
            graph.launch(a)
        return graph

    trial.call(around=launched)
    if not isinstance(trial.value, cupy.cuda.Graph):
        text = f"the function returned {type(trial.value).__name__}; wanted is the graph that end_capture() returns"
        bench.find("correctness", "no graph", text, look="the line return …")
        return
    expected = values
    for _ in range(count):
        before = np.concatenate([expected[:1], expected[:-1]])
        expected = (0.5 * expected + 0.25 * (expected - before)).astype(np.float32)
    known = (Known("no round has run: x is what it was", values),)
    trial.expect("x", x, expected, tolerance=1e-5, known=known, look="which kernel needs what which kernel has written")
    apart = [trial.order.unordered(*pair) for pair in zip(trial.kernels("blur"), trial.kernels("edges"), strict=False)]
    bench.measure(APART, 100 * sum(apart) / count)
    bench.measure(KERNELS, len(trial.kernels()) / (3 * count))
    bench.measure(HOST_15_3, len(trial.waits) + len(trial.polls))


LATE_JOIN = Exercise(
    id="15.3",
    title="Find the bug: a capture that lost its edges",
    kernel="capture",
    examine=_rounds,
    correctness=1,
    soundness=2,
    gates=(APART, KERNELS, HOST_15_3),
    answer="function",
)

# --- 15.4 ------------------------------------------------------------------------------------------------------------

GRAPHS = Gate(
    "graphs that are made", least=1, most=2, baseline=1, look="one graph for each slot, before the first frame"
)
BY_GRAPH_15_4 = BY_GRAPH.of(baseline=100)
COPIES = Gate("calls that copy", most=4, baseline=2, look="the copies belong into the graphs: two calls for each slot")
AHEAD = Gate(
    "frames that are launched while the one before may be at work (%)",
    points=3,
    least=100,
    baseline=0,
    look="which frame the host waits for before it launches the next: there are two slots",
)
POLLS = Gate("queries of the host", most=0, baseline=0, look="wait for an event instead of asking again and again")


class _Ahead(Observer):
    """Counts the frames that were launched before the host knew the one before to be done."""

    def __init__(self, trial: Trial) -> None:
        self._order = trial.order
        self._last: Operation | None = None
        self.count = 0

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        if operation.kind == "kernel":
            self.count += self._last is not None and not self._order.host_knows(self._last)
            self._last = operation


def _slots(bench: StreamBench) -> None:
    for count in (6, 1, bench.between(7, 12)):
        with bench.case(f"{count} frame{'s' * (count > 1)}") as trial:
            _slots_once(bench, trial, count)


def _slots_once(bench: StreamBench, trial: Trial, count: int) -> None:
    frames = [bench.random(SAMPLES) for _ in range(count)]
    results = [np.full(SAMPLES, np.nan, np.float32) for _ in range(count)]
    inbox, outbox = ([trial.pinned(np.full(SAMPLES, np.nan, np.float32)) for _ in range(2)] for _ in range(2))
    x, y = ([trial.empty((SAMPLES,), np.float32) for _ in range(2)] for _ in range(2))
    halve = trial.kernel(_PASSES, "halve")
    arguments = [(x[slot], y[slot], np.int32(SAMPLES)) for slot in range(2)]
    launches = [trial.launcher(halve, (1,), (32,), given) for given in arguments]

    def work(slot: int, stream: Any) -> None:
        launches[slot](stream)

    ahead = _Ahead(trial)
    trial.device.observers.append(ahead)
    trial.call(frames, results, inbox, outbox, x, y, work, trial.stream("the stream"))
    trial.device.observers.remove(ahead)
    by = GRADED | {Origin.HOST}  # it takes them out of the outbox
    for number, (result, frame) in enumerate(zip(results, frames, strict=True)):
        known = (
            Known(
                "nothing was taken out of the outbox, or it was taken before the graph had filled it",
                np.full(SAMPLES, np.nan, np.float32),
            ),
            *(Known(f"this is the result of frame {k}", other / 2) for k, other in enumerate(frames) if k != number),
        )
        trial.expect(f"result {number}", result, frame / 2, tolerance=1e-6, known=known, by=by)
    bench.measure(GRAPHS, sum(call.name == "graph_instantiate" for call in trial.calls))
    bench.measure(BY_GRAPH_15_4, 100 * sum(call.name == "graph_launch" for call in trial.calls) / count)
    bench.measure(COPIES, sum(call.name.startswith("memcpy") for call in trial.calls))
    bench.measure(POLLS, len(trial.polls))
    bench.measure(AHEAD, 100 if count == 1 else 100 * ahead.count / (count - 1))


TWO_SLOTS = Exercise(
    id="15.4",
    title="Two slots, and the copies in the graph",
    kernel="two_slots",
    examine=_slots,
    gates=(AHEAD, GRAPHS, BY_GRAPH_15_4, COPIES, POLLS),
    answer="function",
)

# --- 15.5 ------------------------------------------------------------------------------------------------------------


def _read(bench: StreamBench) -> None:
    for count in (1, 4, bench.between(8, 14), bench.between(40, 60)):
        with bench.case(f"{count} node{'s' * (count > 1)}") as trial:
            _read_once(bench, trial, count)


def _read_once(bench: StreamBench, trial: Trial, count: int) -> None:
    """Nodes whose order in the graph is not that of their edges, each behind up to three others."""
    _, graph = cudaGraphCreate(0)
    nodes = [cudaGraphAddEmptyNode(graph, None, 0)[1] for _ in range(count)]
    place = bench.shuffled(count)
    length = [1] * count
    for number in range(1, count):
        for before in {bench.between(max(0, number - 5), number - 1) for _ in range(bench.between(0, 3))}:
            cudaGraphAddDependencies(graph, [nodes[place[before]]], [nodes[place[number]]], None, 1)
            length[number] = max(length[number], length[before] + 1)
    trial.call(graph)
    known = (
        Known("this is the number of nodes", np.array(count)),
        Known("this counts edges, not nodes", np.array(max(length) - 1)),
    )
    trial.expect_value(max(length), known=known, look="a node comes one behind the last of those it depends on")
    bench.measure(HOST, len(trial.waits) + len(trial.polls))


LONGEST_PATH = Exercise(
    id="15.5",
    title="Read a graph",
    kernel="longest",
    examine=_read,
    correctness=2,
    gates=(HOST.of(1, look="nothing has to run, so there is nothing to wait for: what a graph is made of is known"),),
    answer="function",
)

EXERCISES = (FRAME_BY_FRAME, TREE, LATE_JOIN, TWO_SLOTS, LONGEST_PATH)
