"""Exercises 12.1 to 12.3: three classes of work, an inversion, and a batch that lets others in.

Judged is who starts before whom, and what nothing orders; never a time. The kernels fill the device (places.py), so a
kernel starts only when blocks of another one end, on every profile.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.places import LONG, THREADS, Turns, copier, launcher, places, ran
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.sim import cupy
from cudalab.sim.device.profile import load

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Operation

# --- 12.1 ------------------------------------------------------------------------------------------------------------

CLASSES = ("background", "normal", "urgent")
"""In the order of the calls; the last is to start first."""
EACH = 3
TURN = Gate(
    "pairs of pending kernels of which the more urgent one starts first (%)",
    points=3,
    least=100,
    baseline=33,
    look="stream.priority of each of the three: what they got, not what you asked for",
)
APART = Gate(
    "kernels that something orders with one in the NULL stream",
    points=1,
    most=0,
    baseline=3 * EACH,
    look="blocking streams wait for the NULL stream, and it for them: non_blocking=True",
)


def _classes(bench: StreamBench) -> None:
    """On devices of two ranges as well: numbers that are three classes on the one need not be on the other."""
    for greatest, null in ((-5, False), (-5, True), (-2, False)):
        profile = replace(load("h200"), priorities={"least": 0, "greatest": greatest})
        case = "a kernel in the NULL stream in between" if null else f"kernels of three classes, from 0 to {greatest}"
        with bench.case(case, profile=profile) as trial:
            _classes_once(bench, trial, null)


def _classes_once(bench: StreamBench, trial: Trial, null: bool) -> None:
    turns, count = Turns(trial), places(trial.device)
    values = trial.array(bench.random(count))

    def filling(name: str) -> Any:
        """``launch(stream)`` of a kernel that takes all places for some fifty µs."""
        return launcher(trial, name, values, trial.empty((count,), np.float32), LONG)

    earlier, between = filling("earlier"), filling("between")
    rounds = [[filling(name) for name in CLASSES] for _ in range(EACH)]
    trial.call()
    made = trial.value
    if not isinstance(made, (tuple, list)) or len(made) != len(CLASSES):
        bench.find("correctness", "no streams", f"returned {made!r}; wanted are three streams", look="the return line")
        return
    if len({getattr(stream, "ptr", id(made)) for stream in made}) != len(CLASSES):
        bench.find(
            "correctness", "no streams", "the three are not three streams", look="cp.cuda.Stream(…), three times"
        )
        return
    bench.measure(HOST, len(trial.waits) + len(trial.polls))
    aside = trial.stream()
    earlier(aside)
    for launches in rounds:
        for launch, stream in zip(launches, made, strict=True):
            launch(stream)
    if null:
        between(cupy.cuda.Stream.null)
    trial.device.synchronize()
    classes = [turns.kernels(name) for name in CLASSES]
    if null:
        (other,) = turns.kernels("between")
        bench.measure(APART, sum(not trial.order.unordered(each, other) for kernels in classes for each in kernels))
    else:
        bench.measure(TURN, round(100 * _in_turn(classes, turns)))


def _in_turn(classes: list[list[Operation]], turns: Turns) -> float:
    """The part of all pairs of different classes in which the more urgent kernel starts first."""
    pairs = [
        turns.at("started", later) < turns.at("started", sooner)
        for less, more in ((0, 1), (0, 2), (1, 2))
        for sooner, later in product(classes[less], classes[more])
    ]
    return sum(pairs) / len(pairs)


THREE_CLASSES = Exercise(
    id="12.1",
    title="Three classes of work",
    kernel="three_streams",
    examine=_classes,
    gates=(TURN, APART, HOST),
    answer="function",
)

# --- 12.2 ------------------------------------------------------------------------------------------------------------

BATCH = 5
FREE = Gate(
    "calls in which nothing orders reply behind crunch (%)",
    points=2,
    least=100,
    baseline=0,
    look="where the event is recorded that high waits for: only what stands before it has to be done",
)
AHEAD = Gate(
    "kernels of the batch that start between the call of reply and its start",
    points=3,
    most=1,
    baseline=BATCH - 1,
    look="the priority of each kernel that reply waits for",
)
CRUNCH = Gate(
    "kernels of the batch that crunch overtakes",
    most=0,
    look="crunch is in no hurry: it belongs into low, where nobody's priority is higher than the batch's",
)


def _inversion(bench: StreamBench) -> None:
    with bench.case(f"a batch of {BATCH} kernels in other streams of low priority") as trial:
        turns, count = Turns(trial), places(trial.device)
        seed = trial.array(bench.random(count), "seed")
        table, results = (trial.empty((count,), np.float32) for _ in range(2))
        answer, kept = (trial.empty((4,), np.float32) for _ in range(2))
        produce = launcher(trial, "produce", seed, table, 10, blocks=4)
        crunch = launcher(trial, "crunch", table, results, LONG)
        reply = launcher(trial, "reply", table[:4], answer)
        later = launcher(trial, "later", answer, kept)
        low, high = trial.stream("low"), trial.stream("high", priority=trial.device.stream_priority_range()[1])
        batch = [launcher(trial, "batch", seed, trial.empty((count,), np.float32), 2 * LONG) for _ in range(BATCH)]
        others = [trial.stream() for _ in batch]

        def before() -> None:
            for launch, stream in zip(batch, others, strict=True):
                launch(stream)

        trial.call(produce, crunch, reply, low, high, before=before, after=lambda: later(low))
        trial.expect("what crunch writes", results, seed.get(), tolerance=1e-5)
        trial.expect("what reply writes", kept, seed[:4].get(), tolerance=1e-5, behind=answer)
        if bench.fine and ran(bench, trial, "produce", "crunch", "reply"):
            _measure_inversion(bench, trial, turns)


def _measure_inversion(bench: StreamBench, trial: Trial, turns: Turns) -> None:
    (crunch,), (reply,) = trial.kernels("crunch"), trial.kernels("reply")
    bench.measure(FREE, 100 * (not trial.order.before(crunch, reply)))
    bench.measure(AHEAD, turns.ahead_of(reply, "batch"))
    begun = turns.at("started", crunch)
    bench.measure(CRUNCH, sum(turns.at("started", kernel) > begun for kernel in turns.kernels("batch")))
    bench.measure(HOST, len(trial.waits) + len(trial.polls))


INVERSION = Exercise(
    id="12.2",
    title="Undo an inversion",
    kernel="respond",
    examine=_inversion,
    gates=(FREE, AHEAD, CRUNCH, HOST),
    answer="function",
)

# --- 12.3 ------------------------------------------------------------------------------------------------------------

ROUNDS = 24
"""Items for each place, where a batch is measured."""
ITEM_STEPS = np.int32(LONG // 3)
"""Some 16 µs an item, so that the batch is under way for longer than the host takes to launch it in as many parts as
are allowed: points never depend on how long a call takes."""
BUSIEST = Gate(
    "items that one block takes",
    points=2,
    most=4,
    baseline=ROUNDS,
    look="items divided by blocks: a block that has more than a few keeps its place for long",
)
EARLY = Gate(
    "urgent kernels that are done before the batch is (%)",
    points=3,
    least=100,
    baseline=0,
    look="whether blocks are still pending when the urgent kernel is called, right after the batch",
)
MOST_LAUNCHES = 256
"""Where a check gives up: each launch takes it some time."""
LAUNCHES = Gate("launches", most=32, look="each launch costs the host some microseconds: let one have many blocks")


def _polite(bench: StreamBench) -> None:
    for per_place, more in ((ROUNDS, 0), (3, bench.between(1, 9)), (0, 1)):
        text = f"{per_place} items for each place" + (f", and {more} more" if more else "")
        with bench.case(text if per_place else "one item") as trial:
            _polite_once(bench, trial, per_place, more)


def _polite_once(bench: StreamBench, trial: Trial, per_place: int, more: int) -> None:
    turns, room = Turns(trial), places(trial.device)
    count = per_place * room + more
    given = trial.array(bench.random(count), "the input")
    made, kept, answer = (trial.empty((size,), np.float32) for size in (count, count, 1))
    kernel, taken = copier(trial, "batch"), np.zeros(count, np.int32)
    shares: list[int] = []

    def work(begin: int, end: int, blocks: int, stream: Any) -> None:
        """Items ``begin`` to ``end``, dealt out to ``blocks`` blocks."""
        if len(shares) == MOST_LAUNCHES:
            raise RuntimeError(
                f"work was called {MOST_LAUNCHES} times, and {LAUNCHES.most} launches are wanted at most"
            )
        if blocks < 1:
            raise ValueError(f"work was called with {blocks} blocks for items {begin} to {end}: at least one is needed")
        taken[begin:end] += 1
        shares.append(-(-(end - begin) // blocks))
        kernel((blocks,), (THREADS,), (given, made, np.int32(begin), np.int32(end), ITEM_STEPS), stream=stream)

    urgent = launcher(trial, "urgent", given[:1], answer)
    later = launcher(trial, "later", made, kept, 1, blocks=room)
    stream, high = trial.stream("stream"), trial.stream(priority=trial.device.stream_priority_range()[1])

    def after() -> None:
        urgent(high)
        later(stream)

    trial.call(work, count, room, stream, after=after)
    if (taken != 1).any():
        first, wrong = int(np.argmax(taken != 1)), int((taken != 1).sum())
        text = f"item {first} was taken {taken[first]} times, once is wanted; {wrong} of {count} are wrong"
        bench.find("correctness", "wrong items", text, look="begin and end of each call of work")
        return
    trial.expect("the output", kept, given.get(), tolerance=1e-5, behind=made)
    if bench.fine and per_place == ROUNDS:
        last = max(turns.at("ended", one) for one in turns.kernels("batch"))
        bench.measure(BUSIEST, max(shares))
        bench.measure(EARLY, 100 * (turns.at("ended", turns.kernels("urgent")[0]) < last))
        bench.measure(LAUNCHES, len(shares))
        bench.measure(HOST, len(trial.waits) + len(trial.polls))


LET_OTHERS_IN = Exercise(
    id="12.3",
    title="Let others in",
    kernel="run_batch",
    examine=_polite,
    gates=(EARLY, BUSIEST, LAUNCHES, HOST),
    answer="function",
)
