"""What chapter 12 asks in between: numbers that are priorities, blocks that let others in, and an inversion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.places import LONG, Turns, launcher, places, ran
from cudalab.checks.streams import HOST, StreamBench
from cudalab.checks.value import ValueBench
from cudalab.sim.device.profile import load

# --- a stream that goes first ----------------------------------------------------------------------------------------


def _most_urgent(bench: StreamBench) -> None:
    """On devices of two ranges: one number can't be the end of both."""
    for greatest in (-5, -bench.between(300, 900)):
        profile = replace(load("h200"), priorities={"least": 0, "greatest": greatest})
        with bench.case(f"a device whose range is 0 to {greatest}", profile=profile) as trial:
            made = trial.call()
            if not hasattr(made, "ptr"):
                bench.find("correctness", "no stream", f"returned {made!r}; wanted is a CuPy stream", look="return")
            elif (got := trial.device.stream_get_priority(made.ptr)) != greatest:
                bench.find(
                    "correctness",
                    "wrong priority",
                    f"the stream has priority {got}; the range is 0 to {greatest}",
                    look="which end of the device's own range is the most urgent one",
                )
            elif not trial.device.stream_get_flags(made.ptr):
                bench.find(
                    "correctness", "a blocking stream", "the stream waits for the NULL stream", look="non_blocking=True"
                )


# --- who is first ----------------------------------------------------------------------------------------------------

ASKED = {"a": 0, "b": -5, "c": 7, "d": -2, "e": -9}
LEAST, GREATEST = 0, -5


def _order(bench: ValueBench) -> None:
    right = sorted(ASKED, key=lambda name: min(max(ASKED[name], GREATEST), LEAST))
    bench.expect(
        right,
        known=(
            Known("−9 counts as more urgent than −5; both are clamped to −5", np.asarray(sorted(ASKED, key=ASKED.get))),  # type: ignore[arg-type]
            Known("a large number counts as urgent", np.asarray(sorted(ASKED, key=lambda name: -ASKED[name]))),
        ),
        look="clamp each number to the range first; equal ones keep the order of the calls",
    )


# --- short blocks ----------------------------------------------------------------------------------------------------


def _rounds(bench: StreamBench) -> None:
    for total, most in ((600, 70), (600, 60), (660, 60), (50, 100), (bench.between(900, 4000), bench.between(11, 97))):
        with bench.case(f"{total} µs, blocks of at most {most} µs") as trial:
            trial.call(total, most)
            trial.expect_value(
                -(-total // most),
                known=(Known("not rounded up: blocks are longer than allowed", np.asarray(float(total // most))),),
                look="total / rounds is what a block takes",
            )


# --- an inversion ----------------------------------------------------------------------------------------------------

AHEAD = Gate(
    "kernels of the batch that start between the call of reply and its start",
    most=1,
    look="the stream of each kernel that reply waits for: its priority, and what stands before it there",
)
NO_WAIT = HOST.of(look="leave the wait out: in one stream the order needs none, and a stream can wait for an event")
BATCH = 5


def _respond(bench: StreamBench) -> None:
    with bench.case(f"a batch of {BATCH} kernels, the last of them in low") as trial:
        turns, count = Turns(trial), places(trial.device)
        given = trial.array(np.full(count, bench.between(1, 99), np.float32))
        table, answer = trial.empty((1,), np.float32), trial.empty((1,), np.float32)
        prepare = launcher(trial, "prepare", given[:1], table)
        reply = launcher(trial, "reply", table, answer)
        low, high = trial.stream("low"), trial.stream("high", priority=trial.device.stream_priority_range()[1])
        batch = [launcher(trial, "batch", given, trial.empty((count,), np.float32), LONG) for _ in range(BATCH)]
        streams = [*(trial.stream() for _ in batch[1:]), low]

        def before() -> None:
            for launch, stream in zip(batch, streams, strict=True):
                launch(stream)

        missing = "reply reads what prepare writes, and they are in two streams: let both be in one"
        trial.call(prepare, reply, low, high, before=before, mistakes=lambda trial: missing)
        trial.expect("what reply writes", answer, given[:1].get())
        if bench.fine and ran(bench, trial, "prepare", "reply"):
            (urgent,) = trial.kernels("reply")
            bench.measure(AHEAD, turns.ahead_of(urgent, "batch"))
            bench.measure(NO_WAIT, len(trial.waits) + len(trial.polls))


# --- what a priority reaches -----------------------------------------------------------------------------------------


def _reach(bench: ValueBench) -> None:
    bench.expect(
        [True, False, True, False],
        known=(
            Known("a wait does not raise the priority of what is waited for", np.asarray([1.0, 0, 1, 1])),
            Known("no priority goes against an order", np.asarray([1.0, 1, 1, 0])),
            Known("a copy that is done leaves the kernel behind it as urgent as it was", np.asarray([1.0, 0, 0, 0])),
        ),
        look="what each kernel waits for, and whose priority that has",
    )


EXERCISES = (
    Exercise("12.most-urgent", "A stream that goes first", "most_urgent_stream", _most_urgent, answer="function"),
    Exercise("12.order", "Who gets a place first", "start_order", _order, answer="value"),
    Exercise("12.rounds", "Blocks short enough", "rounds_for", _rounds, answer="function"),
    Exercise("12.respond", "Undo an inversion", "respond", _respond, gates=(AHEAD, NO_WAIT), answer="function"),
    Exercise("12.reach", "What a priority reaches", "starts_early", _reach, answer="value"),
)
