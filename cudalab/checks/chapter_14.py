"""The exercises of chapter 14: time a kernel right, and fork and join two streams."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial

# --- 14.1 ------------------------------------------------------------------------------------------------------------

TIMED_RUNS = ((20, False), (1, True), (2, False), (5, True), (20, True))
"""How many repeats, and whether the stream is a non-blocking one."""
COLD, USUAL, OUTLIER = 30_000, 1000, 40_000
"""Steps of the first launch, of most of the others, and of the odd one that something disturbed."""
TOLERANCE = 0.005
"""How far the answer may be from the median of the times that it read: for sums of ms as 32-bit floats."""
HOST_14_1 = HOST.of(
    1,
    most=2,
    look="a wait or a query after each run lets the queue run dry, and the next pair of events times the host's launch "
    "as well: enqueue all runs, wait once, and then read the times",
)


def _median_time(bench: StreamBench) -> None:
    for repeats, non_blocking in TIMED_RUNS:
        times = f"{repeats} repeat{'s' * (repeats > 1)}"
        with bench.case(f"{times} in a {'non-' if non_blocking else ''}blocking stream") as trial:
            _time_once(bench, trial, repeats, non_blocking)


def _time_once(bench: StreamBench, trial: Trial, repeats: int, non_blocking: bool) -> None:
    kernel, x = trial.busy_kernel(), trial.array(np.zeros(1, np.float32))
    stream = trial.stream("stream", non_blocking=non_blocking)
    # Every run takes its own time, so that only the right runs, and all of them, have the right median.
    # No two take the same, so that the two in the middle of an even number of runs differ.
    steps = [COLD, *(USUAL + 100 * number for number in bench.shuffled(4 * repeats + 8))]
    for disturbed in range(4, len(steps), 5):
        steps[disturbed] += OUTLIER
    launched = iter(steps)

    def launch() -> None:
        kernel((1,), (1,), (x, np.int32(next(launched, USUAL))), stream=stream)

    value = trial.call(launch, stream, repeats)
    runs = _timed_runs(bench, trial, repeats)
    if runs:
        _value_is_right(bench, value, runs)
        if repeats >= 20:
            bench.measure(HOST_14_1, len(trial.waits) + len(trial.polls))


@dataclass(frozen=True)
class _Run:
    """One pair of events of which the answer asked the time between."""

    kernels: tuple[Any, ...]
    """The launches between the two records."""
    in_order: bool
    """Are both records in the kernels' stream?"""
    milliseconds: float


def _all_runs(trial: Trial) -> list[_Run]:
    """What each pair of events had between it, in the order in which their times were read."""
    stream = trial.kernels()[0].stream if trial.kernels() else None
    runs = []
    for first, last, milliseconds in trial.elapsed:
        between = tuple(k for k in trial.kernels() if first.sequence < k.sequence < last.sequence)
        runs.append(_Run(between, first.stream is stream and last.stream is stream, milliseconds))
    return runs


def _timed_runs(bench: StreamBench, trial: Trial, repeats: int) -> list[_Run]:
    """The repeats, each between two events of its own, in the right stream, behind a warm-up; none where something is
    wrong. Pairs that are read twice count once; times of the warm-up, and of several runs together, may be read too."""
    runs = _all_runs(trial)
    if not runs:
        bench.find(
            "correctness",
            "no events",
            "the time between two events was never asked for",
            look="record an event before and one behind each launch; cp.cuda.get_elapsed_time gives the ms between",
        )
        return []
    if not all(run.in_order for run in runs):
        bench.find(
            "correctness",
            "wrong stream",
            "an event was recorded in another stream than the kernel's",
            look="event.record(stream): without an argument it goes to the current stream",
        )
        return []
    warm_up = trial.kernels()[0]
    single = {run.kernels[0]: run for run in runs if len(run.kernels) == 1}
    timed = [run for kernel, run in single.items() if kernel is not warm_up]
    if len(timed) == repeats:
        return timed
    if warm_up in single and len(single) == repeats:
        bench.find(
            "correctness",
            "no warm-up",
            "the very first launch is among those that were timed",
            look="a first launch may load the kernel and find cold caches; run it once before you time anything",
        )
        return []
    counts = ", ".join(str(len(run.kernels)) for run in runs[:6]) + (", …" if len(runs) > 6 else "")
    bench.find(
        "correctness",
        "wrong runs",
        f"{repeats} repeats are wanted, each between two events of its own; the pairs read hold {counts} launches",
        look="how many pairs of events you record, and what lies between the two of a pair",
    )
    return []


def _value_is_right(bench: StreamBench, value: object, runs: list[_Run]) -> None:
    times = [1000 * run.milliseconds for run in runs]
    wanted = statistics.median(times)
    try:
        got = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        bench.find("correctness", "wrong values", f"the function returned {value!r}, not a number of microseconds")
        return
    if _near(got, wanted):
        return
    known = {
        "the mean of the runs, which one slow run spoils": statistics.fmean(times),
        "milliseconds, as get_elapsed_time gives them, not microseconds": wanted / 1000,
        "the time of all runs together": sum(times),
        "the fastest run": min(times),
        "the slowest run": max(times),
        "the upper one of the two runs in the middle, not the mean of both": statistics.median_high(times),
        "the lower one of the two runs in the middle, not the mean of both": statistics.median_low(times),
    }
    mistake = next((text for text, figure in known.items() if _near(got, figure)), "")
    bench.find(
        "correctness",
        "wrong values",
        f"returned {got:.4g} µs; the median of the {len(times)} times is {wanted:.4g} µs (modelled)",
        look="which runs the number comes from, and its unit",
        mistake=mistake,
    )


def _near(got: float, wanted: float) -> bool:
    return abs(got - wanted) <= TOLERANCE * abs(wanted)


TIME_RIGHT = Exercise(
    id="14.1",
    title="Time a kernel right",
    kernel="median_time",
    examine=_median_time,
    correctness=2,
    gates=(HOST_14_1,),
    answer="function",
)

# --- 14.2 ------------------------------------------------------------------------------------------------------------

_FORK = r"""
__device__ float slow(float x, int steps) {  // x, after a while
    float v = x;
    for (int s = 0; s < steps; s++) v = 0.5f * v + 0.5f * x;
    return v;
}
extern "C" __global__ void prepare(float* x, const float* seed, int n, int steps) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = slow(2.0f * seed[i], steps);
}
extern "C" __global__ void left(const float* x, float* y, int n, int steps) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = slow(x[i] + 1.0f, steps);
}
extern "C" __global__ void right(const float* x, float* z, int n, int steps) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) z[i] = slow(3.0f * x[i], steps);
}
extern "C" __global__ void combine(const float* y, const float* z, float* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = y[i] - z[i];
}
extern "C" __global__ void earlier(float* seed, const float* values, int n, int steps) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) seed[i] = slow(values[i], steps);
}
extern "C" __global__ void later(float* seed, float* x, float* y, float* z, const float* out, float* kept, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        kept[i] = out[i];
        seed[i] = x[i] = y[i] = z[i] = 0.0f;
    }
}
"""
OVERLAP = Gate(
    "calls in which nothing orders left and right (%)",
    points=3,
    least=100,
    baseline=0,
    look="which stream each of the two is in, and what it waits for before it may start",
)
HOST_14_2 = HOST.of(
    1, baseline=0, look="stream.wait_event(event) lets a stream wait; the host goes on, and asks nothing"
)
ELEMENTS, SHORT, LONG = 32, 200, 2000
FORKS = (  # steps of prepare, left and right; how often the function is called; are the streams non-blocking?
    ("left takes longer, non-blocking streams", (LONG, LONG, SHORT), 1, True),
    ("right takes longer, blocking streams", (LONG, SHORT, LONG), 1, False),
    ("called twice with the same buffers, non-blocking streams", (SHORT, LONG, LONG), 2, True),
)


def _fork_join(bench: StreamBench) -> None:
    for text, steps, times, non_blocking in FORKS:
        with bench.case(text) as trial:
            _fork_once(bench, trial, steps, times, non_blocking)


def _fork_once(bench: StreamBench, trial: Trial, steps: tuple[int, ...], times: int, non_blocking: bool) -> None:
    values = bench.random(ELEMENTS)
    seed, x, y, z, out, kept = (trial.empty((ELEMENTS,), np.float32) for _ in range(6))
    count = np.int32(ELEMENTS)
    long = [np.int32(number) for number in steps]
    arguments = {
        "prepare": (x, seed, count, long[0]),
        "left": (x, y, count, long[1]),
        "right": (x, z, count, long[2]),
        "combine": (y, z, out, count),
        # What main has to do before the call and after it: that is in order with all of the function's work, too.
        "earlier": (seed, trial.array(values, "values"), count, np.int32(LONG)),
        "later": (seed, x, y, z, out, kept, count),
    }
    *launches, earlier, later = (
        trial.launcher(trial.kernel(_FORK, name), (1,), (ELEMENTS,), given) for name, given in arguments.items()
    )
    main, side = (trial.stream(name, non_blocking=non_blocking) for name in ("main", "side"))
    trial.call(*launches, main, side, times=times, before=lambda: earlier(main), after=lambda: later(main))
    prepared = np.float32(2) * values
    nothing = np.full(ELEMENTS, np.nan, np.float32)
    expected = prepared + 1 - np.float32(3) * prepared
    known = (Known("combine ran before one of the two kernels had written its result", nothing),)
    trial.expect("out", kept, expected, tolerance=1e-5, known=known)
    for name in ("prepare", "left", "right", "combine"):
        if len(trial.kernels(name)) != times:
            bench.find(
                "correctness",
                "wrong launches",
                f"{name} ran {len(trial.kernels(name))} times where {times} were wanted",
                look="each of the four is to be launched once for each call of your function",
            )
            return
    _fork_gates(bench, trial, times)


def _fork_gates(bench: StreamBench, trial: Trial, times: int) -> None:
    pairs = zip(trial.kernels("left"), trial.kernels("right"), strict=True)
    bench.measure(OVERLAP, round(100 * sum(trial.order.unordered(left, right) for left, right in pairs) / times))
    bench.measure(HOST_14_2, len(trial.waits) + len(trial.polls))


FORK_AND_JOIN = Exercise(
    id="14.2",
    title="Fork and join",
    kernel="fork_and_join",
    examine=_fork_join,
    gates=(OVERLAP, HOST_14_2),
    answer="function",
)

EXERCISES = (TIME_RIGHT, FORK_AND_JOIN)
