"""Exercises 12.4 and 12.5: the order of starts told in advance, and tasks that are urgent because another one is.

Judged is who starts before whom; never a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings.runtime import cudaLaunchAttributeID

from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate, no_calls
from cudalab.checks.places import LONG, SHORT, THREADS, Turns, launcher, places
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.checks.value import texts
from cudalab.sim.device.profile import Profile, load

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Operation

# --- 12.4 ------------------------------------------------------------------------------------------------------------

CALLS = no_calls("the function only works the order out: what it has to know of the device are its arguments")
Step = tuple[Any, ...]
"""``("stream", asked)``, ``("change", stream, asked)`` or ``("launch", name, stream)``."""
_PRIORITY = int(cudaLaunchAttributeID.cudaLaunchAttributePriority)
_LEAST = 0


def _start_order(bench: StreamBench) -> None:
    for steps, greatest in _programs(bench):
        with bench.case(
            f"{len(steps)} steps, priorities from {_LEAST} to {greatest}", profile=_small(greatest)
        ) as trial:
            trial.call(list(steps), _LEAST, greatest, fresh=True)
            said = texts(trial.value)  # as it is now: nothing that comes later counts
            _compare_order(bench, steps, greatest, said, _started(trial, steps))
            bench.measure(CALLS, len(trial.calls))


def _programs(bench: StreamBench) -> list[tuple[tuple[Step, ...], int]]:
    """Steps, and the device's highest priority; no range comes twice as often as others."""
    programs: list[list[Step]] = [
        [("stream", 0), ("stream", -2), ("stream", -1), ("launch", "a", 0), ("launch", "b", 1), ("launch", "c", 2)],
        [("stream", 7), ("stream", 0), ("stream", -1), ("launch", "a", 1), ("launch", "b", 0), ("launch", "c", 2)],
        [("stream", -8), ("stream", -30), ("stream", -1), ("launch", "a", 2), ("launch", "b", 0), ("launch", "c", 1)],
        [("stream", 0), ("stream", -1), ("stream", -1), ("launch", "a", 0), ("launch", "c", 1), ("launch", "b", 2)],
        [("stream", -1), ("stream", 0), ("launch", "a", 1), ("launch", "b", 0), ("change", 1, -2)],
        [("stream", -1), ("stream", 0), ("change", 1, -2), ("launch", "a", 0), ("launch", "b", 1), ("change", 0, -9)],
    ]
    ranges = [-2 - number for number in bench.shuffled(5)]
    programs += [_program(bench) for _ in range(3)]
    edges = [_at_the_edge(greatest) for greatest in ranges[:2]]
    return [*zip(map(tuple, programs), [*ranges, *ranges], strict=False), *zip(map(tuple, edges), ranges, strict=False)]


def _at_the_edge(greatest: int) -> list[Step]:
    """Priorities beside the highest: by another range equal ones differ, or different ones are equal."""
    asked: list[Step] = [("stream", greatest + beside) for beside in (1, 0, -1)]
    return [*asked, ("launch", "a", 0), ("launch", "b", 1), ("launch", "c", 2)]


def _small(greatest: int) -> Profile:
    """A device with two SMs and this range of priorities: kernels that fill it take the check little time."""
    full = load("h200")
    properties = {**full.properties, "multiProcessorCount": 2}
    return replace(full, properties=properties, priorities={"least": _LEAST, "greatest": greatest})


def _program(bench: StreamBench) -> list[Step]:
    """Streams that are made, changed, and used once each, in an order by the seed."""
    count = bench.between(4, 7)
    steps: list[Step] = [("stream", asked) for asked in bench.integers(-8, 4, count)]
    for name, stream in zip(["abcdefg"[at] for at in bench.shuffled(count)], bench.shuffled(count), strict=True):
        steps.append(("launch", name, stream))
        if bench.between(0, 1):
            steps.append(("change", bench.between(0, count - 1), bench.between(-8, 3)))
    return steps


def _started(trial: Trial, steps: Sequence[Step]) -> list[str]:
    """The names in the order in which the kernels start. Another one has all places while the calls are made."""
    turns, count = Turns(trial), places(trial.device)
    given, made, names = trial.array(np.ones(count, np.float32)), trial.empty((count,), np.float32), list[str]()
    work, full = launcher(trial, "work", given, made), launcher(trial, "full", given, made, 2 * LONG)
    aside, streams = trial.stream(), [trial.stream(priority=step[1]) for step in steps if step[0] == "stream"]
    trial.device.synchronize()
    full(aside)
    for what, *rest in steps:
        if what == "change":
            trial.device.stream_set_attribute(streams[rest[0]].ptr, _PRIORITY, (rest[1],))
        elif what == "launch":
            names.append(rest[0])
            work(streams[rest[1]])
    trial.device.synchronize()
    called = sorted(turns.kernels("work"), key=lambda kernel: turns.at("called", kernel))
    return [names[called.index(kernel)] for kernel in turns.kernels("work")]


def _told(
    steps: Sequence[Step],
    greatest: int,
    *,
    clamped: bool = True,
    sign: int = 1,
    changed: bool = True,
    late: bool = False,
    ties: str = "calls",
) -> list[str]:
    """The order by the rules; each option leaves one of them out."""
    priorities: list[int] = []
    launched: list[tuple[str, int, int]] = []
    for what, *rest in steps:
        if what == "launch":
            launched.append((rest[0], rest[1], priorities[rest[1]]))
            continue
        asked = min(_LEAST, max(greatest, rest[-1])) if clamped else rest[-1]
        if what == "stream":
            priorities.append(asked)
        elif changed:
            priorities[rest[0]] = asked

    def rank(launch: tuple[str, int, int]) -> tuple[int, Any]:
        name, stream, priority = launch
        return sign * (priorities[stream] if late else priority), {"streams": stream, "names": name}.get(ties)

    return [name for name, _, _ in sorted(launched, key=rank)]


_MISTAKES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a change is left out: a change of a priority holds for what comes into the stream later", {"changed": False}),
    ("a change reaches back: a change of a priority says nothing to what is in the stream already", {"late": True}),
    ("the largest number first: a lower number is a higher priority", {"sign": -1}),
    ("numbers outside of the range are compared as they are: they are clamped to its ends", {"clamped": False}),
    ("equal priorities keep the order of the calls, not that in which the streams were made", {"ties": "streams"}),
    (
        "equal priorities keep the order of the calls, not that of the names: sort by the priority alone",
        {"ties": "names"},
    ),
    ("this is the order of the calls: among pending kernels the priority decides", {"sign": 0}),
)


def _compare_order(
    bench: StreamBench, steps: Sequence[Step], greatest: int, said: list[str] | None, right: list[str]
) -> None:
    if said is None or sorted(said) != sorted(right):
        returned = "no list" if said is None else f"{said!r:.60}"
        text = f"the function returned {returned}; wanted are the {len(right)} names, once each"
        bench.find(
            "correctness", "wrong shape", text, look="a list of the names of all kernels, the first to start first"
        )
    elif said != right:
        bench.find(
            "correctness",
            "wrong values",
            f"the kernels start in the order {', '.join(right)}; the function says {', '.join(said)}. The steps: "
            f"{'; '.join(' '.join(map(str, step)) for step in steps)}",
            look="the priority that each stream has when its kernel is launched, within the range",
            mistake=next((text for text, left in _MISTAKES if _told(steps, greatest, **left) == said), ""),
        )


START_ORDER = Exercise(
    id="12.4",
    title="Tell the order in advance",
    kernel="start_order",
    examine=_start_order,
    correctness=3,
    gates=(CALLS,),
    answer="function",
)

# --- 12.5 ------------------------------------------------------------------------------------------------------------

_TASK = r"""
extern "C" __global__ void task(const float* one, const float* other, float* out, int steps) {
    if (threadIdx.x == 0) {
        float x = *one + *other + 1.0f, v = x;
        for (int s = 0; s < steps; s++) v = 0.5f * v + 0.5f * x;  // takes a while, and stays x
        *out = v;
    }
    __syncthreads();
}
"""
BATCH = 8
LATE = Gate(
    "urgent tasks that start behind more of the batch than they have to",
    points=4,
    most=0,
    baseline=1,
    look="every task that an urgent one needs, directly or by others: it is as urgent, whatever the list says of it",
)
OVERTAKING = Gate(
    "tasks in no hurry that overtake the batch",
    most=0,
    baseline=0,
    look="which tasks are in high: only those that are urgent, and those that an urgent one needs",
)
Task = tuple[tuple[int, ...], bool]
"""The numbers of the tasks that it needs, at most two, and whether it is urgent."""


def _urgent_tasks(bench: StreamBench) -> None:
    chain: list[Task] = [
        ((), False),
        ((0,), False),
        ((1,), False),
        ((1,), False),
        ((2,), True),
        ((3, 4), False),
        ((), False),
    ]
    cases: tuple[tuple[str, list[Task]], ...] = (
        ("an urgent task at the end of a chain, and others beside it", chain),
        ("tasks by the seed, some of them urgent", _tasks(bench, bench.between(4, 5))),
        ("no task is urgent", [((), False), ((0,), False), ((), False), ((1, 2), False)]),
        ("every task is urgent", [((), True), ((0,), True), ((0, 1), True)]),
        ("no tasks", []),
    )
    for text, tasks in cases:
        with bench.case(text, profile=_small(-5)) as trial:
            _run_tasks(bench, trial, tasks)


def _tasks(bench: StreamBench, count: int) -> list[Task]:
    """Each needs up to two of those before it; the last but one of these is urgent."""
    tasks: list[Task] = [((), False)]
    for number in range(1, count):
        needs = {bench.between(0, number - 1) for _ in range(bench.between(0, 2))}
        tasks.append((tuple(sorted(needs)), number == count - 2))
    return [*tasks, ((count - 2,), False)]


def _run_tasks(bench: StreamBench, trial: Trial, tasks: Sequence[Task]) -> None:
    turns, count = Turns(trial), places(trial.device)
    seed = trial.array(np.ones(count, np.float32), "the batch's input")
    results, kept = trial.array(np.full(len(tasks) + 1, -1, np.float32)), trial.empty((len(tasks) + 1,), np.float32)
    kernel = trial.kernel(_TASK, "task")
    zero, made = trial.array(np.zeros(1, np.float32)), list[int]()

    def launching(number: int) -> Any:
        used = [results[need : need + 1] for need in tasks[number][0]]
        one, other = [*used, zero, zero][:2]

        def launch(stream: Any) -> None:
            made.append(number)
            kernel((1,), (THREADS,), (one, other, results[number : number + 1], np.int32(SHORT)), stream=stream)

        return launch

    later = launcher(trial, "later", results, kept, 1)
    low, high = trial.stream("low"), trial.stream("high", priority=trial.device.stream_priority_range()[1])
    batch = [launcher(trial, "batch", seed, trial.empty((count,), np.float32), LONG) for _ in range(BATCH)]
    others = [trial.stream() for _ in batch]

    def before() -> None:
        for launch, stream in zip(batch, others, strict=True):
            launch(stream)

    given = [(launching(number), list(needs), urgent) for number, (needs, urgent) in enumerate(tasks)]
    trial.call(given, low, high, before=before, after=lambda: later(low))
    if sorted(made) != list(range(len(tasks))):
        text = f"the tasks were launched in this order: {made}; wanted is each once"
        bench.find("correctness", "wrong launches", text, look="the loop over the tasks")
        return
    trial.expect(
        "the results", kept, _results(tasks), look="what has to be done before each task, and before low goes on"
    )
    if bench.fine and tasks:
        _measure_tasks(bench, trial, turns, tasks, dict(zip(made, trial.kernels("task"), strict=True)))


def _results(tasks: Sequence[Task]) -> np.ndarray:
    """What the tasks write, and the place behind, which stays."""
    values: list[float] = []
    for needs, _ in tasks:
        values.append(1 + sum(values[need] for need in needs))
    return np.array([*values, -1], np.float32)


def _measure_tasks(
    bench: StreamBench, trial: Trial, turns: Turns, tasks: Sequence[Task], kernels: dict[int, Operation]
) -> None:
    needed = [urgent for _, urgent in tasks]
    for number in reversed(range(len(tasks))):
        for need in tasks[number][0]:
            needed[need] |= needed[number]
    # Whenever one of the tasks in a hurry ends, blocks of the batch take its place. The next one, which may be in the
    # same stream, waits until others end.
    late = [
        number
        for number, (_, urgent) in enumerate(tasks)
        if urgent and turns.ahead_of(kernels[number], "batch") > max(1, sum(needed[:number]))
    ]
    bench.measure(LATE, len(late))
    last = max(turns.at("started", each) for each in turns.kernels("batch"))
    early = [number for number, hurry in enumerate(needed) if not hurry and turns.at("started", kernels[number]) < last]
    bench.measure(OVERTAKING, len(early))
    bench.measure(HOST, len(trial.waits) + len(trial.polls))


URGENT_TASKS = Exercise(
    id="12.5",
    title="As urgent as what waits for it",
    kernel="run_tasks",
    examine=_urgent_tasks,
    gates=(LATE, OVERTAKING, HOST),
    answer="function",
)
