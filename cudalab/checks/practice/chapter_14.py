"""What chapter 14 asks in between: events asked, timed, waited for, and recorded again."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.sim import cupy

# One thread that takes its time: some nanoseconds a step.
_SLOW = r"""
extern "C" __global__ void NAME(const float* x, float* y, int steps) {
    float v = *x;
    for (int s = 0; s < steps; s++) v = 0.5f * v + 0.5f * *x;
    *y = v + 1.0f;
}
"""
STEPS = 2000
LONG = 50_000
"""Steps of a kernel that still runs whatever the host does meanwhile: hundreds of µs, where a call takes a few."""
WAITS = Gate("waits of the host", most=0, look="calls that keep the host until work is done; event.done only asks")


def _slow(trial: Trial, x: Any, y: Any, name: str = "slow", steps: int = STEPS) -> Any:
    """``launch(stream)``: y = x + 1, after a while."""
    return trial.launcher(trial.kernel(_SLOW.replace("NAME", name), name), (1,), (1,), (x, y, np.int32(steps)))


def _number(trial: Trial, value: float = 0) -> Any:
    return trial.array(np.full(1, value, np.float32))


# --- ask without waiting ---------------------------------------------------------------------------------------------


def _count_done(bench: StreamBench) -> None:
    for done, running in ((bench.between(2, 5), bench.between(1, 4)), (0, 2), (3, 0)):
        with bench.case(f"{done} complete, {running} not") as trial:
            _count_once(bench, trial, done, running)


def _count_once(bench: StreamBench, trial: Trial, done: int, running: int) -> None:
    events: list[Any] = []
    launch = _slow(trial, _number(trial), _number(trial), steps=LONG)
    stream, empty = trial.stream(), trial.stream()

    def before() -> None:
        complete = [empty.record() for _ in range(done)]
        empty.synchronize()
        launch(stream)
        behind = [stream.record() for _ in range(running)]
        # Complete ones stand before and behind those that are not: the first that is not done says nothing of others.
        events.extend([*complete[:1], *behind, *complete[1:]])

    trial.call(events, before=before)
    trial.expect_value(done, look="event.done: True when the event is complete")
    bench.measure(WAITS, len(trial.waits))


# --- read a time -----------------------------------------------------------------------------------------------------


def _rate(bench: StreamBench) -> None:
    with bench.case("a copy between two events") as trial:
        count = bench.between(60_000, 90_000)
        host, there, stream = trial.pinned(bench.random(count)), trial.empty((count,), np.float32), trial.stream()
        start, end = cupy.cuda.Event(), cupy.cuda.Event()

        def before() -> None:
            start.record(stream)
            there.set(host, stream=stream)
            end.record(stream)

        trial.call(start, end, there.nbytes, before=before)
        right = there.nbytes / cupy.cuda.get_elapsed_time(start, end) / 1e6
        known = (
            Known("the milliseconds are taken for microseconds", np.asarray(1000 * right)),
            Known("milliseconds are taken for seconds", np.asarray(right / 1000)),
            Known("bytes for each millisecond, not GB for each second", np.asarray(1e6 * right)),
        )
        look = "the unit of get_elapsed_time: 1 GB/s is a million bytes in a millisecond"
        trial.expect_value(right, tolerance=1e-4, known=known, look=look)


# --- many launches between one pair ----------------------------------------------------------------------------------


FEW_WAITS = Gate(
    "waits of the host, queries included",
    most=2,
    look="a wait after each launch empties the queue, and the time between two launches is the host's: "
    "wait once, behind the second event",
)


def _time_each(bench: StreamBench) -> None:
    for launches in (bench.between(5, 9), 1):
        with bench.case(f"{launches} launch{'es' * (launches > 1)}") as trial:
            stream = trial.stream()
            trial.call(_slow(trial, _number(trial), _number(trial)), stream, launches)
            _one_pair(bench, trial, launches)
            if launches > 1:
                bench.measure(FEW_WAITS, len(trial.waits) + len(trial.polls))


def _one_pair(bench: StreamBench, trial: Trial, launches: int) -> None:
    """Is there one pair of events, in the kernels' stream, with all of the launches between its two?"""
    if len(trial.elapsed) != 1:
        text = f"the time between two events was asked for {len(trial.elapsed)} times; wanted is one pair"
        bench.find("correctness", "wrong pairs", text, look="one event before all launches, one behind them")
        return
    ((first, last, milliseconds),) = trial.elapsed
    timed = [k for k in trial.kernels() if first.sequence < k.sequence < last.sequence]
    before = [k for k in trial.kernels() if k.sequence < first.sequence]
    if any(mark.stream is not kernel.stream for mark in (first, last) for kernel in trial.kernels()):
        bench.find(
            "correctness", "wrong stream", "an event is in another stream than the launches", look="record(stream)"
        )
    elif len(timed) != launches:
        text = f"launches between the two events: {len(timed)}; wanted: {launches}"
        bench.find("correctness", "wrong launches", text, look="what stands between the two records")
    elif not before:
        text = "the very first launch is among those that were timed"
        bench.find("correctness", "no warm-up", text, look="one launch before the first record, which is not timed")
    else:
        right = 1000 * milliseconds / launches
        known = (
            Known("the time of all launches together", np.asarray(1000 * milliseconds)),
            Known("milliseconds, as get_elapsed_time gives them", np.asarray(milliseconds / launches)),
        )
        trial.expect_value(right, tolerance=1e-3, known=known, look="the unit, and how many launches it is for")


# --- let a stream wait -----------------------------------------------------------------------------------------------


def _wait_for(bench: StreamBench) -> None:
    for non_blocking in (True, False):
        with bench.case(f"{'non-' if non_blocking else ''}blocking streams") as trial:
            start = float(bench.between(1, 99))
            first, middle, last = _number(trial, start), _number(trial), _number(trial)
            make, use = _slow(trial, first, middle, "make"), _slow(trial, middle, last, "use")
            a, b = trial.stream("a", non_blocking=non_blocking), trial.stream("b", non_blocking=non_blocking)
            trial.call(a, b, before=lambda: make(a), after=lambda: use(b))  # noqa: B023  # called at once
            trial.expect("what b reads", last, np.full(1, start + 2, np.float32))
            bench.measure(HOST, len(trial.waits) + len(trial.polls))


# --- one event for a loop --------------------------------------------------------------------------------------------

APART = Gate(
    "pieces that b uses while a may make the next one (%)",
    least=100,
    look="which stream each launch is in, and which record each wait refers to: the last one at the time of the call",
)


def _pieces(bench: StreamBench) -> None:
    number = bench.between(3, 5)
    with bench.case(f"{number} pieces") as trial:
        values = bench.random(number)
        given = [_number(trial, value) for value in values]
        made, used = ([_number(trial) for _ in values] for _ in range(2))
        makes = [_slow(trial, x, y, "make") for x, y in zip(given, made, strict=True)]
        uses = [_slow(trial, x, y, "use") for x, y in zip(made, used, strict=True)]
        trial.call(makes, uses, trial.stream("a"), trial.stream("b"))
        for piece, (array, value) in enumerate(zip(used, values, strict=True)):
            trial.expect(f"piece {piece}", array, np.full(1, value + 2, np.float32), tolerance=1e-5)
        if bench.fine:
            order = zip(trial.kernels("use")[:-1], trial.kernels("make")[1:], strict=True)
            bench.measure(APART, 100 * sum(trial.order.unordered(*pair) for pair in order) / (number - 1))
            bench.measure(HOST, len(trial.waits) + len(trial.polls))


EXERCISES = (
    Exercise(
        "14.count-done", "Count the complete events", "count_done", _count_done, gates=(WAITS,), answer="function"
    ),
    Exercise("14.rate", "From events to GB/s", "gigabytes_per_second", _rate, answer="function"),
    Exercise(
        "14.many",
        "Many launches, one pair of events",
        "time_each",
        _time_each,
        gates=(FEW_WAITS,),
        answer="function",
    ),
    Exercise("14.wait-for", "Let one stream wait for another", "wait_for", _wait_for, gates=(HOST,), answer="function"),
    Exercise("14.pieces", "One event for a loop", "pass_on", _pieces, gates=(APART, HOST), answer="function"),
)
