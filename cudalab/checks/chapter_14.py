"""The exercises of chapter 14: time a kernel right, and fork and join two streams."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise, Mutant
from cudalab.checks.streams import StreamBench, Trial

# One thread that takes its time: `steps` dependent multiply-adds, a few clock cycles each.
_BUSY = r"""
extern "C" __global__ void busy(float* x, int steps) {
    float v = *x;
    for (int s = 0; s < steps; s++) v = 0.5f * v + 1.0f;
    *x = v;
}
"""

WAITS = "waits of the host"

# --- 14.1 ------------------------------------------------------------------------------------------------------------

TIMED_RUNS = ((1, True), (2, False), (5, True), (20, False), (20, True))
"""How many repeats, and whether the stream is a non-blocking one."""
COLD, USUAL, OUTLIER = 300_000, 10_000, 400_000
"""Steps of the first launch, of most of the others, and of the odd one that something disturbed."""
TOLERANCE, EVENT_PAIR = 0.03, 5.0
"""How far the answer may be from the kernels' own spans: a share, and µs for the pair of events itself."""


def _median_time(bench: StreamBench) -> None:
    for repeats, non_blocking in TIMED_RUNS:
        times = f"{repeats} repeat{'s' * (repeats > 1)}"
        with bench.case(f"{times} in a {'non-' if non_blocking else ''}blocking stream") as trial:
            _time_once(bench, trial, repeats, non_blocking)


def _time_once(bench: StreamBench, trial: Trial, repeats: int, non_blocking: bool) -> None:
    kernel, x = trial.kernel(_BUSY, "busy"), trial.array(np.zeros(1, np.float32))
    stream = trial.stream("stream", non_blocking=non_blocking)
    # Every run takes its own time, so that only the right runs, and all of them, have the right median.
    steps = [COLD, *(USUAL * (1 + number) for number in bench.integers(0, 10, 4 * repeats + 8))]
    for disturbed in range(4, len(steps), 5):
        steps[disturbed] = OUTLIER
    launched = iter(steps)

    def launch() -> None:
        kernel((1,), (1,), (x, np.int32(next(launched, USUAL))), stream=stream)

    value = trial.call(launch, stream, repeats)
    runs = _timed_runs(trial)
    if not _records_are_right(bench, trial, repeats, runs):
        return
    _value_is_right(bench, value, runs)
    if repeats < 20:
        return
    bench.gate(
        WAITS,
        len(trial.waits),
        2,
        baseline=repeats,
        look="a wait after each run lets the queue run dry, and the next pair of events times the host's launch as "
        "well: enqueue all runs, wait once, and then read the times",
    )


@dataclass(frozen=True)
class _Run:
    """One pair of events of which the answer asked the time between."""

    kernels: tuple[Any, ...]
    """The launches between the two records."""
    in_order: bool
    """Are both records in the kernels' stream?"""
    milliseconds: float


def _timed_runs(trial: Trial) -> list[_Run]:
    """What each pair of events had between it, in the order in which their times were read."""
    stream = trial.kernels()[0].stream if trial.kernels() else None
    runs = []
    for first, last, milliseconds in trial.elapsed:
        between = tuple(k for k in trial.kernels() if first.sequence < k.sequence < last.sequence)
        runs.append(_Run(between, first.stream is stream and last.stream is stream, milliseconds))
    return runs


def _records_are_right(bench: StreamBench, trial: Trial, repeats: int, runs: list[_Run]) -> bool:
    """Does each repeat lie between two events of its own, in the right stream, behind a warm-up?"""
    launches = trial.kernels()
    if not runs:
        bench.find(
            "correctness",
            "no events",
            "the time between two events was never asked for",
            look="record an event before and one behind each launch; cp.cuda.get_elapsed_time gives the ms between",
        )
        return False
    if not all(run.in_order for run in runs):
        bench.find(
            "correctness",
            "wrong stream",
            "an event was recorded in another stream than the kernel's",
            look="event.record(stream): without an argument it goes to the current stream",
        )
        return False
    if [len(run.kernels) for run in runs] != [1] * repeats:
        counts = ", ".join(str(len(run.kernels)) for run in runs[:6]) + (", …" if len(runs) > 6 else "")
        bench.find(
            "correctness",
            "wrong runs",
            f"{repeats} repeats are wanted, each between two events of its own; the pairs read hold {counts} launches",
            look="how many pairs of events you record, and what lies between the two of a pair",
        )
        return False
    if any(launches[0] in run.kernels for run in runs):
        bench.find(
            "correctness",
            "no warm-up",
            "the very first launch is among those that were timed",
            look="a first launch may load the kernel and find cold caches; run it once before you time anything",
        )
        return False
    return True


def _value_is_right(bench: StreamBench, value: object, runs: list[_Run]) -> None:
    times = [(run.kernels[0].end - run.kernels[0].start) / 1000 for run in runs]
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
    }
    mistake = next((text for text, figure in known.items() if _near(got, figure)), "")
    bench.find(
        "correctness",
        "wrong values",
        f"returned {got:.4g} µs; the median of the {len(times)} timed kernels is {wanted:.4g} µs (modelled)",
        look="which runs the number comes from, and its unit",
        mistake=mistake,
    )


def _near(got: float, wanted: float) -> bool:
    return wanted * (1 - TOLERANCE) <= got <= wanted * (1 + TOLERANCE) + (EVENT_PAIR if wanted > EVENT_PAIR else 0)


TIME_RIGHT = Exercise(
    id="14.1",
    title="Time a kernel right",
    kernel="median_time",
    points={"correctness": 2, "soundness": 0, "efficiency": 1},
    examine=_median_time,
    python=True,
    mutants=(
        Mutant("no warm-up", (("    launch()  # not timed\n", ""),), "correctness", "no warm-up"),
        Mutant("does not wait before it reads", (("    end.synchronize()\n", ""),), "soundness", "cudaErrorNotReady"),
        Mutant(
            "start recorded in the current stream",
            (("start.record(stream)", "start.record()"),),
            "correctness",
            "wrong stream",
        ),
        Mutant(
            "end recorded in the current stream",
            (("end.record(stream)", "end.record()"),),
            "correctness",
            "wrong stream",
        ),
        Mutant(
            "both recorded before the launch",
            (("        launch()\n        end.record(stream)", "        end.record(stream)\n        launch()"),),
            "correctness",
            "wrong runs",
        ),
        Mutant("mean", (("np.median", "np.mean"),), "correctness", "wrong values"),
        Mutant("the best run", (("np.median", "np.min"),), "correctness", "wrong values"),
        Mutant("a number from another day", (("float(np.median(times))", "46.0"),), "correctness", "wrong values"),
        Mutant("milliseconds", (("1000 * ", ""),), "correctness", "wrong values"),
        Mutant(
            "waits after every run",
            (("        pairs.append", "        end.synchronize()\n        pairs.append"),),
            "efficiency",
            WAITS,
        ),
        Mutant(
            "waits for the device after every run",
            (("        pairs.append", "        cp.cuda.Device().synchronize()\n        pairs.append"),),
            "efficiency",
            WAITS,
        ),
        Mutant("one run too few", (("range(repeats)", "range(max(repeats - 1, 1))"),), "correctness", "wrong runs"),
        Mutant(
            "host clock around a launch and a wait",
            (
                ("        start, end = cp.cuda.Event(), cp.cuda.Event()\n", "        begin = cudalab.clock()\n"),
                ("        start.record(stream)\n", ""),
                ("        end.record(stream)\n", "        stream.synchronize()\n"),
                ("(start, end)", "cudalab.clock() - begin"),
                ("    end.synchronize()\n", ""),
                ("1000 * cp.cuda.get_elapsed_time(*pair)", "pair"),
            ),
            "correctness",
            "no events",
        ),
        Mutant(
            "without timing",
            (
                (
                    "cp.cuda.Event(), cp.cuda.Event()",
                    "cp.cuda.Event(disable_timing=True), cp.cuda.Event(disable_timing=True)",
                ),
            ),
            "soundness",
            "cudaErrorInvalidResourceHandle",
        ),
    ),
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
"""
OVERLAP = "overlap of left and right (% of the shorter one)"
POLLS = "queries of the host"
ELEMENTS, SHORT, LONG = 32, 20_000, 60_000
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
    seed = bench.random(ELEMENTS)
    source = trial.array(seed, "seed")
    x, y, z, out = (trial.empty((ELEMENTS,), np.float32) for _ in range(4))
    count = np.int32(ELEMENTS)
    long = [np.int32(number) for number in steps]
    arguments = {
        "prepare": (x, source, count, long[0]),
        "left": (x, y, count, long[1]),
        "right": (x, z, count, long[2]),
        "combine": (y, z, out, count),
    }
    launches = [
        trial.launcher(trial.kernel(_FORK, name), (1,), (ELEMENTS,), given) for name, given in arguments.items()
    ]
    main, side = (trial.stream(name, non_blocking=non_blocking) for name in ("main", "side"))
    trial.call(*launches, main, side, times=times)
    prepared = np.float32(2) * seed
    nothing = np.full(ELEMENTS, np.nan, np.float32)
    expected = prepared + 1 - np.float32(3) * prepared
    known = (Known("combine ran before one of the two kernels had written its result", nothing),)
    trial.expect("out", out, expected, tolerance=1e-5, known=known)
    for name in arguments:
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
    shorter = min(sum(k.end - k.start for k in trial.kernels(name)) for name in ("left", "right")) / 1000
    bench.gate(
        OVERLAP,
        round(100 * trial.overlap("left", "right") / shorter),
        80,
        baseline=0,
        at_least=True,
        look="which stream each of the two is in, and what it waits for before it may start",
    )
    bench.gate(
        WAITS,
        len(trial.waits),
        0,
        baseline=2 * times,
        look="stream.wait_event(event) lets a stream wait; the host goes on",
    )
    bench.gate(
        POLLS,
        len(trial.polls),
        0,
        baseline=0,
        look="asking again and again whether work is done is waiting, too: let the stream wait",
    )


FORK_AND_JOIN = Exercise(
    id="14.2",
    title="Fork and join",
    kernel="fork_and_join",
    points={"correctness": 0, "soundness": 0, "efficiency": 4},
    examine=_fork_join,
    python=True,
    mutants=(
        Mutant("no fork", (("    side.wait_event(ready)\n", ""),), "soundness", "hazard"),
        Mutant("no join", (("    main.wait_event(done)\n", ""),), "soundness", "hazard"),
        Mutant(
            "fork recorded too early",
            (("    prepare(main)\n", ""), ("    ready.record(main)\n", "    ready.record(main)\n    prepare(main)\n")),
            "soundness",
            "hazard",
        ),
        Mutant(
            "waits before the record",
            (
                (
                    "    ready.record(main)\n    side.wait_event(ready)\n",
                    "    side.wait_event(ready)\n    ready.record(main)\n",
                ),
            ),
            "soundness",
            "hazard",
        ),
        Mutant(
            "join recorded too early",
            (("    right(side)\n", ""), ("    done.record(side)\n", "    done.record(side)\n    right(side)\n")),
            "soundness",
            "hazard",
        ),
        Mutant(
            "the wrong stream waits",
            (("side.wait_event(ready)", "main.wait_event(ready)"),),
            "soundness",
            "hazard",
        ),
        Mutant("combines in the other stream", (("combine(main)", "combine(side)"),), "soundness", "hazard"),
        Mutant("one stream for all", (("right(side)", "right(main)"),), "efficiency", OVERLAP),
        Mutant(
            "forks behind left",
            (("    left(main)\n", ""), ("    ready.record(main)\n", "    left(main)\n    ready.record(main)\n")),
            "efficiency",
            OVERLAP,
        ),
        Mutant("host waits for the stream", (("main.wait_event(done)", "side.synchronize()"),), "efficiency", WAITS),
        Mutant("host waits for the event", (("main.wait_event(done)", "done.synchronize()"),), "efficiency", WAITS),
        Mutant(
            "host waits for the device",
            (("main.wait_event(done)", "cp.cuda.Device().synchronize()"),),
            "efficiency",
            WAITS,
        ),
        Mutant(
            "host polls",
            (("    main.wait_event(done)\n", "    while not done.done:\n        pass\n"),),
            "efficiency",
            POLLS,
        ),
    ),
)

EXERCISES = (TIME_RIGHT, FORK_AND_JOIN)
