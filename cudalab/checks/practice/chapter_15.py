"""What chapter 15 asks in between: capture, launch again, edges, fork and join, and what may not be captured."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.checks.bench import Stop
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.sim import cupy
from cudalab.sim.cudart.graph_nodes import cudaGraphAddEmptyNode
from cudalab.sim.cudart.graphs import cudaGraphCreate, cudaGraphGetEdges

_ADD = r"""
extern "C" __global__ void NAME(const float* x, float* y, float value) { *y = *x + value; }
"""


def _number(trial: Trial, value: float = 0) -> Any:
    return trial.array(np.full(1, value, np.float32))


def _add(trial: Trial, x: Any, y: Any, value: float, name: str = "add") -> Any:
    """``launch(stream)``: y = x + value."""
    return trial.launcher(trial.kernel(_ADD.replace("NAME", name), name), (1,), (1,), (x, y, np.float32(value)))


def _graph(bench: StreamBench, trial: Trial) -> Any:
    """The graph that the function returned."""
    if not isinstance(trial.value, cupy.cuda.Graph):
        text = f"the function returned {type(trial.value).__name__}; wanted is the graph that end_capture() returns"
        bench.find("correctness", "no graph", text, look="what stream.end_capture() returns, and the line return …")
        raise Stop
    return trial.value


# --- capture ---------------------------------------------------------------------------------------------------------


def _capture(bench: StreamBench) -> None:
    for count in (1, bench.between(3, 6)):
        with bench.case(f"{count} launch{'es' * (count > 1)}") as trial:
            total = _number(trial)
            launch = _add(trial, total, total, 1)

            def work(stream: Any) -> None:
                for _ in range(count):  # noqa: B023  # called at once
                    launch(stream)  # noqa: B023

            stream = trial.stream("the stream")
            trial.call(work, stream)
            graph = _graph(bench, trial)
            trial.expect(
                "total, when the capture has ended,", total, np.zeros(1, np.float32), look="nothing runs in a capture"
            )
            for _ in range(2):
                graph.launch(stream)
            stream.synchronize()
            trial.expect("what two launches of the graph add", total, np.full(1, 2 * count, np.float32))


# --- one graph, many launches ----------------------------------------------------------------------------------------

MADE = Gate("graphs that are made", most=1, look="what has to be done once only, before the loop")
BY_GRAPH = Gate(
    "launches of a graph, of those wanted (%)", least=100, most=100, look="graph.launch(stream), once a frame"
)


def _replay(bench: StreamBench) -> None:
    frames = bench.between(4, 9)
    with bench.case(f"{frames} frames") as trial:
        total = _number(trial)
        trial.call(_add(trial, total, total, 1), frames, trial.stream("the stream"))
        trial.expect(
            "total, after all frames,", total, np.full(1, frames, np.float32), look="one launch for each frame"
        )
        made = sum(call.name == "graph_instantiate" for call in trial.calls)
        launched = sum(call.name == "graph_launch" for call in trial.calls)
        bench.measure(MADE, made)
        bench.measure(BY_GRAPH, 100 * launched / frames)


# --- edges by hand ---------------------------------------------------------------------------------------------------


def _join(bench: StreamBench) -> None:
    with bench.case("five nodes") as trial:
        _, graph = cudaGraphCreate(0)
        five = [cudaGraphAddEmptyNode(graph, None, 0)[1] for _ in range(5)]
        trial.call(graph, five)
        if refused := trial.refused:
            text = f"a call returned {refused[0]}"
            look = "the error code: each edge may be added once, and no node depends on itself"
            bench.find("soundness", refused[0], text, look=look)
        _, first, second, _, count = cudaGraphGetEdges(graph, 32)
        place = {int(node): number for number, node in enumerate(five)}
        edges = {(place[int(a)], place[int(b)]) for a, b in zip(first[:count], second[:count], strict=True)}
        missing = [number for number in range(4) if (number, 4) not in _paths(edges)]
        if missing:
            text = f"the last node does not depend on five[{missing[0]}]"
            bench.find("correctness", "missing edge", text, look="an edge leads from the node that comes first")
        wrong = sorted((a, b) for a, b in _paths(edges) if b != 4)
        if wrong:
            text = f"five[{wrong[0][1]}] depends on five[{wrong[0][0]}]; the four should wait for nobody"
            bench.find(
                "correctness", "needless edge", text, look="which two nodes stand at the same place in both lists"
            )


def _paths(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """All pairs of nodes with a path from the first to the second."""
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


# --- fork and join in a capture --------------------------------------------------------------------------------------

APART = Gate(
    "branches that may run side by side",
    least=1,
    look="the stream of right, and where the event of the fork is recorded",
)


def _side_by_side(bench: StreamBench) -> None:
    with bench.case("left, right and last") as trial:
        start = float(bench.between(1, 99))
        given, one, two, last = (_number(trial, value) for value in (start, 0, 0, 0))
        left, right = _add(trial, given, one, 1, "left"), _add(trial, given, two, 2, "right")
        source = 'extern "C" __global__ void last(const float* x, const float* y, float* z) { *z = *x * *y; }'
        combine = trial.launcher(trial.kernel(source, "last"), (1,), (1,), (one, two, last))
        a, b = trial.stream("a"), trial.stream("b")

        def launched(function: Any) -> Any:
            graph = function(left, right, combine, a, b)
            if isinstance(graph, cupy.cuda.Graph):
                graph.launch(a)
            return graph

        trial.call(around=launched)
        _graph(bench, trial)
        expected = np.full(1, (start + 1) * (start + 2), np.float32)
        trial.expect("what last writes, when the graph is launched", last, expected)
        if bench.fine:
            bench.measure(APART, float(trial.order.unordered(*trial.kernels("left"), *trial.kernels("right"))))
            bench.measure(HOST, len(trial.waits) + len(trial.polls))


# --- what may not be captured ----------------------------------------------------------------------------------------


def _frame(bench: StreamBench) -> None:
    with bench.case("a copy and a kernel") as trial:
        host = trial.pinned(bench.random(1))
        there, result = _number(trial), _number(trial)
        stream = trial.stream("the stream")

        def copy_in(stream: Any) -> None:
            there.data.copy_from_host_async(host.ctypes.data, host.nbytes, stream)

        trial.call(copy_in, _add(trial, there, result, 1), stream)
        graph = _graph(bench, trial)
        for value in (3.0, 7.0):
            host[:] = value
            graph.launch(stream)
            stream.synchronize()
            trial.expect(
                "the result of a launch", result, np.full(1, value + 1, np.float32), look="both calls, in order"
            )


EXERCISES = (
    Exercise("15.capture", "Capture what a function does", "capture", _capture, answer="function"),
    Exercise("15.replay", "One graph for all frames", "replay", _replay, gates=(MADE, BY_GRAPH), answer="function"),
    Exercise("15.join", "Four nodes, and one behind them", "join", _join, answer="function"),
    Exercise(
        "15.side-by-side",
        "Fork and join in a capture",
        "side_by_side",
        _side_by_side,
        gates=(APART, HOST),
        answer="function",
    ),
    Exercise("15.frame", "What may not be captured", "frame", _frame, answer="function"),
)
