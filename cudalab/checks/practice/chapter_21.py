"""What chapter 21 asks in between: fewer loads, the pace of overlapped frames, turns, and frames for a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.streams import StreamBench
from cudalab.sim import cupy

_COPY = r"""
extern "C" __global__ void negative(const float* x, float* y) { y[threadIdx.x] = -x[threadIdx.x]; }
"""


def _loads(bench: StreamBench) -> None:
    for tile, reach in ((32, 4), (16, 1), (bench.between(8, 40), bench.between(2, 7))):
        with bench.case(f"tiles of {tile} × {tile}, {reach} around") as trial:
            trial.call(tile, reach)
            window, edge = (2 * reach + 1) ** 2, tile + 2 * reach
            known = (
                Known("the border is forgotten: a block loads more than its own pixels", np.asarray(float(window))),
                Known("the border is on one side only", np.asarray(tile**2 * window / (tile + reach) ** 2)),
                Known(
                    "that is turned round: the block's loads over those of plain",
                    np.asarray(edge**2 / tile**2 / window),
                ),
                Known(
                    "that is what a block loads for a pixel; plain loads more than one", np.asarray(edge**2 / tile**2)
                ),
            )
            look = "what plain loads for tile² pixels, over what the block loads"
            trial.expect_value(tile**2 * window / edge**2, tolerance=1e-6, known=known, look=look)


def _pace(bench: StreamBench) -> None:
    for engines in (1, 2):
        for kernel in (bench.between(5, 20), bench.between(200, 300)):
            with bench.case(f"engines: {engines}, kernel: {kernel} µs") as trial:
                up, down = bench.between(30, 60), bench.between(20, 90)
                trial.call(up, kernel, down, engines)
                copies = max(up, down) if engines == 2 else up + down
                known = (
                    Known("nothing overlaps", np.asarray(float(up + kernel + down))),
                    Known("one engine cannot copy both ways at once", np.asarray(float(max(up, kernel, down)))),
                    Known("two engines copy both ways at once", np.asarray(float(max(up + down, kernel)))),
                    Known(
                        "each direction has one engine, which the other does not help",
                        np.asarray(float(max((up + down) / 2, kernel))),
                    ),
                )
                look = "which parts can happen at the same time"
                trial.expect_value(max(copies, kernel), tolerance=1e-6, known=known, look=look)


def _turn(bench: StreamBench) -> None:
    frame, rate = 2 << 20, 2.5e6
    for copy, kernel in ((45.0, 16.0), (20.0, 30.0), (float(bench.between(60, 90)), float(bench.between(10, 40)))):
        with bench.case(f"copy {copy:.0f} µs, filter {kernel:.0f} µs") as trial:
            trial.call(copy, kernel, frame, rate)
            left = (copy - kernel) * rate / frame
            right = max(0, int(left))
            known = (
                Known("the filter takes its part of the time", np.asarray(int(copy * rate // frame))),
                Known("fewer frames than none are none", np.asarray(left // 1)),
                Known("only whole frames count", np.asarray(left)),
                Known("only whole frames count: one that does not fit is not begun", np.asarray(left // 1 + 1)),
            )
            trial.expect_value(right, known=known, look="what is left beside the filter, and whole frames of it")


def _next(bench: StreamBench) -> None:
    with bench.case("two rounds") as trial:
        camera, pictures = trial.pinned(bench.random(64)), trial.pinned(np.zeros(64, np.float32))
        raw, out = trial.empty((64,), np.float32), trial.empty((64,), np.float32)
        stream = trial.stream("the stream")
        launch = trial.launcher(trial.kernel(_COPY, "negative"), (1,), (64,), (raw, out))
        graph = _captured(stream, launch, raw, out, camera, pictures)
        done: list[bool] = []

        def returned() -> None:
            done.extend(trial.order.host_knows(one) for one in trial.operations if one.kind in ("copy", "kernel"))

        for _ in range(2):
            frames = bench.random(64)
            trial.call(graph, stream, camera, frames, after=returned)
            if not all(done):
                text = "next_round returns while the graph is still at work"
                bench.find("correctness", "returned too early", text, look="a wait for the stream, behind the launch")
            if not np.array_equal(pictures, -frames):
                text = (
                    f"{np.count_nonzero(pictures != -frames)} of {frames.size} pixels are not those of the new frames"
                )
                bench.find(
                    "correctness", "wrong values", text, look="where the graph's copy reads, and when it is done"
                )


def _captured(stream: Any, launch: Any, raw: Any, out: Any, camera: np.ndarray, pictures: np.ndarray) -> Any:
    """A graph that copies ``camera`` up, runs the kernel, and copies its result into ``pictures``."""
    stream.begin_capture()
    raw.data.copy_from_host_async(camera.ctypes.data, camera.nbytes, stream)
    launch(stream)
    out.data.copy_to_host_async(pictures.ctypes.data, pictures.nbytes, stream)
    graph = stream.end_capture()
    assert isinstance(graph, cupy.cuda.Graph)
    return graph


EXERCISES = (
    Exercise("21.loads", "Fewer loads from the table", "times_fewer", _loads, answer="function"),
    Exercise("21.pace", "The pace of overlapped frames", "best_pace", _pace, answer="function"),
    Exercise("21.turn", "What fits into a turn", "frames_a_turn", _turn, answer="function"),
    Exercise("21.next", "New frames for a graph", "next_round", _next, answer="function"),
)
