"""14.2, 14.3 and 14.5: fork and join two streams, an event that is recorded again, and waits that say nothing new."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial

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
    trial.expect("out", kept, expected, tolerance=1e-5, known=known, behind=out)
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

# --- 14.3 ------------------------------------------------------------------------------------------------------------

_RELAY = r"""
extern "C" __global__ void produce(float* x, float value) { *x = 2.0f * value; }
extern "C" __global__ void consume(const float* x, float* y) { *y = *x + 1.0f; }
"""
EARLY = Gate(
    "pairs of a consumer and a later producer that may overlap (%)",
    points=3,
    least=100,
    baseline=0,
    look="what the event stands for when the wait is called: its last record, not its first",
)
HELD_UP = Gate(
    "waits of first for second",
    most=0,
    baseline=0,
    look="what first waits for: a producer needs nothing of the consumers",
)
HOST_14_3 = HOST.of(baseline=0)


def _relay(bench: StreamBench) -> None:
    for count in (6, 1, bench.between(7, 11)):
        with bench.case(f"{count} item{'s' * (count > 1)}") as trial:
            _relay_once(bench, trial, count)


def _relay_once(bench: StreamBench, trial: Trial, count: int) -> None:
    values = bench.random(count)
    x, y = (trial.empty((count,), np.float32) for _ in range(2))
    making, taking = (trial.kernel(_RELAY, name) for name in ("produce", "consume"))
    makes = [trial.launcher(making, (1,), (1,), (x[k : k + 1], values[k])) for k in range(count)]
    takes = [trial.launcher(taking, (1,), (1,), (x[k : k + 1], y[k : k + 1])) for k in range(count)]

    def produce(k: int, stream: Any) -> None:
        makes[k](stream)

    def consume(k: int, stream: Any) -> None:
        takes[k](stream)

    first, second = trial.stream("first"), trial.stream("second")
    trial.call(count, produce, consume, first, second, mistakes=_relay_mistake)
    made, taken = trial.kernels("produce"), trial.kernels("consume")
    early = "the consumers ran before their producers" if taken else "no item is consumed"
    known = (Known(early, np.full(count, np.nan, np.float32)),)
    trial.expect("y", y, 2 * values + 1, tolerance=1e-6, known=known)
    if len(made) != count or len(taken) != count:
        text = f"produce ran {len(made)} times and consume {len(taken)} times; {count} times each are wanted"
        bench.find("correctness", "wrong launches", text, look="each item is produced once and consumed once")
        return
    for kernels, stream, name in ((made, first, "first"), (taken, second, "second")):
        if astray := sum(one.stream.handle != stream.ptr for one in kernels):
            text = f"{astray} of {count} {kernels[0].name} kernels ran in another stream than {name}"
            bench.find("correctness", "wrong stream", text, look="items are produced in first and consumed in second")
    pairs = [(taken[k], later) for k in range(count) for later in made[k + 1 :]]
    if pairs:
        bench.measure(EARLY, round(100 * sum(trial.order.unordered(*pair) for pair in pairs) / len(pairs)))
    waits = [one for one in trial.operations if one.kind == "wait"]
    bench.measure(HELD_UP, sum(one.stream.handle == first.ptr for one in waits))
    bench.measure(HOST_14_3, len(trial.waits) + len(trial.polls))


def _relay_mistake(trial: Trial) -> str:
    """Why a consumer is unordered with its producer, where an event is not merely early or late."""
    if not any(one.kind == "wait" for one in trial.operations):
        return "second never waits for an event"
    made = {one.stream for one in trial.kernels("produce")}
    if not any(one.stream in made for one in trial.operations if one.kind == "record"):
        return "the event is recorded in another stream than the producer: it says nothing about first"
    return ""


RECORDED_AGAIN = Exercise(
    id="14.3",
    title="An event that is recorded again",
    kernel="relay",
    examine=_relay,
    gates=(EARLY, HELD_UP, HOST_14_3),
    answer="function",
)

# --- 14.5 ------------------------------------------------------------------------------------------------------------

_TASK = r"""
extern "C" __global__ void task(float* out, int k, int a, int b, int c) {
    out[k] = 1.0f + (a < 0 ? 0 : out[a]) + (b < 0 ? 0 : out[b]) + (c < 0 ? 0 : out[c]);
}
"""
NOTHING_NEW = Gate(
    "waits that say nothing new",
    points=3,
    most=0,
    look="what a stream already comes after: its own work, what it waited for before, and all that this came after",
)
FREE = Gate(
    "pairs of tasks that may overlap, of those possible (%)",
    points=1,
    least=100,
    baseline=100,
    look="where the event of a task is recorded: directly behind it",
)
HOST_14_5 = HOST.of(baseline=0)


def _tasks(bench: StreamBench) -> None:
    diamond: list[list[int]] = [[], [0], [0], [0, 1, 2], [3], [0, 3, 4]]
    fixed = ("a diamond and a tail in two streams", diamond, [0, 0, 1, 0, 1, 1])
    alone = ("one task", diamond[:1], [0])
    for text, needs, place in (fixed, _random_tasks(bench, 12, 3), _random_tasks(bench, 25, 4), alone):
        with bench.case(text) as trial:
            _tasks_once(bench, trial, needs, place)


def _random_tasks(bench: StreamBench, count: int, streams: int) -> tuple[str, list[list[int]], list[int]]:
    needs = [sorted({bench.between(0, k - 1) for _ in range(bench.between(1, 3))}) if k else [] for k in range(count)]
    return f"{count} tasks in {streams} streams", needs, [bench.between(0, streams - 1) for _ in range(count)]


def _tasks_once(bench: StreamBench, trial: Trial, needs: list[list[int]], place: list[int]) -> None:
    out = trial.empty((len(needs),), np.float32)
    kernel = trial.kernel(_TASK, "task")
    expected = np.zeros(len(needs), np.float32)
    called: list[int] = []

    def task_of(k: int) -> Any:
        given = [np.int32(number) for number in (k, *needs[k], *(-1,) * (3 - len(needs[k])))]
        launch = trial.launcher(kernel, (1,), (1,), (out, *given))

        def task(stream: Any) -> None:
            launch(stream)
            called.append(k)

        return task

    for k, others in enumerate(needs):
        expected[k] = 1 + expected[others].sum()
    streams = [trial.stream(f"streams[{i}]") for i in range(max(place) + 1)]
    trial.call([task_of(k) for k in range(len(needs))], needs, place, streams)
    trial.expect("out", out, expected, tolerance=1e-5)
    if sorted(called) != list(range(len(needs))):
        text = f"{len(called)} tasks were launched; wanted is each of {len(needs)} once"
        bench.find("correctness", "wrong launches", text, look="tasks[k](…), once for each k")
        return
    ran = [kernel for _, kernel in sorted(zip(called, trial.kernels("task"), strict=True), key=lambda pair: pair[0])]
    astray = [k for k, one in enumerate(ran) if one.stream.handle != streams[place[k]].ptr]
    if astray:
        text = f"task {astray[0]} did not run in streams[{place[astray[0]]}], where it has to; {len(astray)} in all"
        bench.find("correctness", "wrong stream", text, look="task k goes into streams[place[k]]")
    waits, before = _needed(needs, place)
    apart = [(a, b) for b in range(len(needs)) for a in range(b) if a not in before[b]]
    bench.measure(NOTHING_NEW, sum(call.name == "stream_wait_event" for call in trial.calls) - waits)
    if apart and bench.fine:
        free = sum(trial.order.unordered(ran[a], ran[b]) for a, b in apart)
        bench.measure(FREE, round(100 * free / len(apart)))
    bench.measure(HOST_14_5, len(trial.waits) + len(trial.polls))


def _needed(needs: list[list[int]], place: list[int]) -> tuple[int, list[set[int]]]:
    """How many waits between streams there have to be, and what each task comes behind then."""
    waits, before = 0, list[set[int]]()
    known: dict[int, set[int]] = {}
    for k, others in enumerate(needs):
        mine = known.setdefault(place[k], set())
        for other in sorted(others, reverse=True):
            if other not in mine:
                waits += 1
                mine |= before[other] | {other}
        before.append(set(mine))
        mine.add(k)
    return waits, before


FEW_WAITS = Exercise(
    id="14.5",
    title="No wait that says nothing new",
    kernel="run",
    examine=_tasks,
    gates=(NOTHING_NEW, FREE, HOST_14_5),
    answer="function",
)
