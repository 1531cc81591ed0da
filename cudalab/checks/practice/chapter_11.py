"""What chapter 11 asks in between: streams side by side, bytes and elements, the best to hope for, the NULL stream, and
a function in the queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.chapter_11.pipelines import PAGEABLE
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.sim.device.queue.stream import LEGACY

# One thread that takes its time, and then writes how often it ran.
_SLOW = r"""
extern "C" __global__ void NAME(float* x, int steps) {
    float v = *x;
    for (int s = 0; s < steps; s++) v = 0.5f * v + 0.5f * *x;
    *x = v + 1.0f;
}
"""
APART = Gate(
    "pairs of kernels that nothing orders (%)",
    least=100,
    look="which stream each kernel is in, and which streams the NULL stream takes part with",
)
TOGETHER = APART.of(look="what stands between the two launches, and which stream each kernel is in")
NO_COPY_WAITS = HOST.of(
    look="calls that wait: synchronize(), and cudaMemcpy, which takes no stream; cudaMemcpyAsync goes on, and takes "
    "the stream as its last argument"
)
NO_WAIT = HOST.of(look="neither kernel needs what the other makes, so nobody has to wait")


def _slow(trial: Trial, name: str) -> Any:
    """``launch(stream)`` of a kernel with memory of its own."""
    x = trial.array(np.zeros(1, np.float32))
    return trial.launcher(trial.kernel(_SLOW.replace("NAME", name), name), (1,), (1,), (x, np.int32(2000)))


def _all_apart(bench: StreamBench, trial: Trial, names: Sequence[str], waits: Gate = HOST) -> None:
    """Did each kernel run once, and does nothing order any two of them?"""
    found = [kernel.name for kernel in trial.kernels()]
    if sorted(found) != sorted(names):
        text = f"launched: {', '.join(found) or 'nothing'}; wanted once each: {', '.join(names)}"
        bench.find("correctness", "wrong launches", text, look="each of the given functions is called once")
        return
    pairs = list(combinations(trial.kernels(), 2))
    bench.measure(APART, 100 * sum(trial.order.unordered(*pair) for pair in pairs) / len(pairs))
    bench.measure(waits, len(trial.waits) + len(trial.polls))


def _together(bench: StreamBench) -> None:
    for non_blocking in (True, False):
        with bench.case(f"{'non-' if non_blocking else ''}blocking streams") as trial:
            a, b = trial.stream("a", non_blocking=non_blocking), trial.stream("b", non_blocking=non_blocking)
            trial.call(_slow(trial, "first"), _slow(trial, "second"), a, b)
            _all_apart(bench, trial, ("first", "second"), NO_WAIT)


def _bytes(bench: StreamBench) -> None:
    count = bench.between(1000, 1500)
    for begin, end in ((0, count), (bench.between(10, 90), bench.between(500, 900)), (count - 1, count)):
        with bench.case(f"elements {begin} to {end} of {count}") as trial:
            values, stream = bench.random(count), trial.stream()
            h, d = trial.pinned(values), trial.array(np.zeros(count, np.float32))
            trial.call(d, h, begin, end, stream)
            expected = np.zeros(count, np.float32)
            expected[begin:end] = values[begin:end]
            known = _in_elements(values, begin, end)
            look = "an address counts bytes, and so does the size of a copy; a float32 has four"
            trial.expect("d", d, expected, known=(Known("elements where bytes are meant", known),), look=look)
            others = any(one.stream.handle != stream.ptr for one in trial.operations if one.kind == "copy")
            if others and not trial.waits:
                text = "the piece is copied in another stream than the one that was given"
                bench.find("correctness", "another stream", text, look="the last argument of cudaMemcpyAsync")
            bench.measure(NO_COPY_WAITS, len(trial.waits) + len(trial.polls))
            bench.measure(PAGEABLE, sum("pageable" in one.name for one in trial.operations if one.kind == "copy"))


def _in_elements(values: np.ndarray, begin: int, end: int) -> np.ndarray:
    """What comes of counting elements where bytes are meant."""
    copied = np.zeros_like(values)
    copied.view(np.uint8)[begin:end] = values.view(np.uint8)[begin:end]
    return copied


def _ideal(bench: StreamBench) -> None:
    for pieces in (1, 4, bench.between(5, 20)):
        with bench.case(f"{pieces} piece{'s' * (pieces > 1)}") as trial:
            h, k, d = (float(time) for time in bench.integers(50, 400, 3))
            trial.call(h, k, d, pieces)
            serial, busiest = h + k + d, max(h, k, d)
            known = (
                Known(
                    "the busiest engine alone: the first copy in and the last copy out take part", np.asarray(busiest)
                ),
                Known(
                    "all three divided by the pieces: an engine takes one piece at a time", np.asarray(serial / pieces)
                ),
            )
            look = "one piece goes through all three steps; the others keep the busiest engine at work"
            trial.expect_value(serial / pieces + (1 - 1 / pieces) * busiest, tolerance=1e-6, known=known, look=look)


def _apart(bench: StreamBench) -> None:
    names = ("first", "second", "third")
    with bench.case("three kernels") as trial:
        trial.call(*(_slow(trial, name) for name in names))
        if any(one.stream.handle != LEGACY for one in trial.kernels("second")):
            text = "second is in another stream than the NULL stream"
            bench.find("correctness", "another stream", text, look="second(cp.cuda.Stream.null), as it was")
        _all_apart(bench, trial, names)


def _tell(bench: StreamBench) -> None:
    with bench.case("behind a kernel") as trial:
        stream, lines = trial.stream("stream"), list[str]()
        launch = _slow(trial, "work")

        def before() -> None:
            launch(stream)

        trial.call(stream, lines, before=before)
        if lines != ["done"]:
            text = f"the list holds {lines} when the stream has done its work; wanted is ['done']"
            bench.find("correctness", "wrong values", text, look="stream.launch_host_func(function, argument)")
        if not any(one.kind == "host" for one in trial.operations):
            text = "no function of the host is in the stream"
            bench.find("correctness", "no host function", text, look="stream.launch_host_func(function, argument)")
        kernel = next(one for one in trial.callers if one.kind == "kernel")
        if any(one.kind == "host" and not trial.order.before(kernel, one) for one in trial.operations):
            text = "the function is in another stream: nothing puts it behind the kernel that was there before"
            bench.find("correctness", "another stream", text, look="the stream that the function is put into")
        bench.measure(HOST, len(trial.waits) + len(trial.polls))


EXERCISES = (
    Exercise("11.together", "Two kernels at once", "together", _together, gates=(TOGETHER, NO_WAIT), answer="function"),
    Exercise("11.bytes", "Copy one piece", "copy_piece", _bytes, gates=(NO_COPY_WAITS, PAGEABLE), answer="function"),
    Exercise("11.ideal", "The best to hope for", "ideal_time", _ideal, answer="function"),
    Exercise("11.apart", "Out of the NULL stream's way", "independent", _apart, gates=(APART, HOST), answer="function"),
    Exercise("11.tell", "Tell when it is done", "tell", _tell, gates=(HOST,), answer="function"),
)
