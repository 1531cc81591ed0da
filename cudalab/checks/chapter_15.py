"""The exercises of chapter 15: a graph that is launched for each frame, and a tree of nodes made by hand.

Judged are results, hazards, calls of the host, and which node depends on which; never a time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from cuda.bindings.driver import CUDA_KERNEL_NODE_PARAMS

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.sim import cupy
from cudalab.sim.cudart.graphs import cudaGraphCreate, cudaGraphInstantiate, cudaGraphLaunch
from cudalab.sim.driver.graph_nodes import cuGraphAddKernelNode

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
        trial.expect(f"result {number}", result, wanted.astype(np.float32), tolerance=1e-5, known=known)
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

EXERCISES = (FRAME_BY_FRAME, TREE)
