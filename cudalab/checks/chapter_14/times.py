"""14.1 and 14.4: time a kernel right, and a bandwidth in its unit."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.checks.exercise import Exercise
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


def _no_run(bench: StreamBench, runs: list[_Run]) -> None:
    """A finding: why none of the pairs of events times what it should."""
    if not runs:
        bench.find(
            "correctness",
            "no events",
            "the time between two events was never asked for",
            look="record an event before and one behind each launch; cp.cuda.get_elapsed_time gives the ms between",
        )
    elif not all(run.in_order for run in runs):
        bench.find(
            "correctness",
            "wrong stream",
            "an event was recorded in another stream than the kernel's",
            look="event.record(stream): without an argument it goes to the current stream",
        )
    else:
        bench.find(
            "correctness",
            "no warm-up",
            "each pair of events has the very first launch between its two, or no launch at all",
            look="launch once before anything is timed; event.record(stream) before and behind a later launch",
        )


def _timed_runs(bench: StreamBench, trial: Trial, repeats: int) -> list[_Run]:
    """The repeats, each between two events of its own, in the right stream, behind a warm-up; none where something is
    wrong. Pairs that are read twice count once; times of the warm-up, and of several runs together, may be read too."""
    runs = _all_runs(trial)
    if not (runs and all(run.in_order for run in runs)):
        _no_run(bench, runs)
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

# --- 14.4 ------------------------------------------------------------------------------------------------------------

_TRIAD = r"""
extern "C" __global__ void triad(const float* x, const float* y, float* z, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) z[i] = x[i] + 3.0f * y[i];
}
"""
HOST_14_4 = HOST.of(
    1,
    most=1,
    look="enqueue all runs, wait once, and then read the times: a wait between the first launch and the first event "
    "empties the queue, and the host's launch is timed as well",
)


def _bandwidth(bench: StreamBench) -> None:
    for count in (100_000, bench.between(3000, 9000)):
        with bench.case(f"{count} elements") as trial:
            x, y, z = (trial.array(bench.random(count)) for _ in range(3))
            launch = trial.launcher(trial.kernel(_TRIAD, "triad"), (32,), (128,), (x, y, z, np.int32(count)))
            stream = trial.stream("stream")
            value = trial.call(lambda launch=launch, stream=stream: launch(stream), stream, count)
            _rate_is_right(bench, trial, value, count)
            bench.measure(HOST_14_4, len(trial.waits) + len(trial.polls))


def _rate_is_right(bench: StreamBench, trial: Trial, value: object, count: int) -> None:
    """Does the value follow from a time that the answer read, of whatever runs behind the first?"""
    runs = _all_runs(trial)
    warm = [run for run in runs if run.kernels and trial.kernels()[0] not in run.kernels]
    if not (warm and all(run.in_order for run in runs)):
        _no_run(bench, runs)
        return
    try:
        got = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        bench.find("correctness", "wrong values", f"the function returned {value!r}, not a number of GB/s")
        return
    each = [run.milliseconds / len(run.kernels) for run in warm]
    rates = [12 * count / time / 1e6 for time in (*each, statistics.median(each), statistics.fmean(each))]
    if any(_near(got, rate) for rate in rates):
        return
    known = {
        "GiB (2**30 bytes) a second, and a GB is 10**9 bytes": 1e9 / 2**30,
        "milliseconds are taken for seconds": 1e-3,
        "milliseconds are taken for seconds, and GiB for GB": 1e-3 * 1e9 / 2**30,
        "a thread reads two floats and writes one; one of the three is counted": 1 / 3,
        "a thread reads two floats and writes one; two of the three are counted": 2 / 3,
        "elements are counted, not bytes": 1 / 12,
        "megabytes, not gigabytes": 1e3,
        "bits, not bytes": 8,
    }
    mistake = next((text for text, factor in known.items() if any(_near(got, factor * rate) for rate in rates)), "")
    bench.find(
        "correctness",
        "wrong values",
        f"returned {got:.4g}; by the times that it read, {rates[-2]:.4g} GB/s is right (modelled)",
        look="the bytes that a launch reads and writes, the unit of the time, and what a gigabyte is",
        mistake=mistake,
    )


RATE = Exercise(
    id="14.4",
    title="Bytes over time",
    kernel="bandwidth",
    examine=_bandwidth,
    correctness=2,
    gates=(HOST_14_4,),
    answer="function",
)
