"""Chapter 12's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Gain, Mutation, Printed, Sentence

LEAST_COMPARED = 6
_RUN = ["ok", "kernels", "work", "range", "alone"]
CHAPTER = Chapter(
    "12_stream_priorities.ipynb",
    {
        "range": ["ok"],
        "clamped": ["ok"],
        "defaults": ["ok"],
        "done-first": _RUN,
        "one-round": [*_RUN, "done-first"],
        "wrong-number": [*_RUN, "done-first"],
        "forgotten-stream": _RUN,
        "null-between": [*_RUN],
    },
)

MUTATIONS = [
    Mutation("range", "range", "least, greatest = ok", "greatest, least = ok"),
    Mutation("clamped", "clamped", "cudaStreamGetPriority", "cudaStreamGetFlags"),
    Mutation("clamped", "clamped", "cudaStreamNonBlocking, asked", "cudaStreamNonBlocking, -asked"),
    Mutation("defaults", "defaults", "value.priority = -3", "value.priority = 3"),
    Mutation("defaults", "defaults", "cp.cuda.Stream(non_blocking=True)", "cp.cuda.Stream(priority=-1)"),
    Mutation("done-first", "done-first", "    stream.synchronize()", "    low.synchronize()"),
    Mutation("done-first", "done-first", "also_high, high", "low, high"),
    Mutation("done-first", "work", "(rounds * places,)", "(places,)"),
    Mutation("done-first", "alone", ", priority=greatest", ""),
    Mutation("one-round", "one-round", "(10, 1)", "(10, 20)"),
    Mutation("one-round", "done-first", "start_batch(low, rounds)", "start_batch(low, 10)"),
    Mutation("wrong-number", "wrong-number", "priority=10", "priority=-10"),
    Mutation("wrong-number", "wrong-number", "priority=greatest", "priority=-greatest"),
    Mutation("forgotten-stream", "forgotten-stream", "high.synchronize()", "low.synchronize()"),
    Mutation("forgotten-stream", "forgotten-stream", "cp.cuda.Stream.null.synchronize()", ""),
    Mutation("forgotten-stream", "alone", ", priority=greatest", ""),
    Mutation("null-between", "null-between", "    ask(cp.cuda.Stream.null, steps=1, where=1)\n", ""),
    Mutation("null-between", "null-between", "(least, greatest)", "(least, least)"),
    Mutation("null-between", "null-between", "(non_blocking=non_blocking,", "(non_blocking=True,"),
]


def _rows(table: Printed) -> list[list[float]]:
    """Rounds, how long a block runs, and both latencies."""
    numbers = table.numbers
    return [numbers[at : at + 4] for at in range(0, len(numbers), 4)]


SENTENCES = [
    Sentence("s1-kernel", "about 2.3 ns a step", "alone", lambda run: 2 < run.after("batch:") / 260 < 2.6),
    Sentence(
        "s2-rules",
        "The last call went first. And the streams made with 5 and with 0 kept the order of the calls",
        "numbers",
        lambda run: run.text.splitlines()[0].endswith(": -5, 5, 0"),
    ),
    Sentence(
        "s3-equal",
        "`urgent` itself runs for about 10 µs",
        ("both-tables", "alone"),
        lambda run, alone: 8 < run.after(" urgent ", 1) < min(12, alone.after("urgent:")),
    ),
    Sentence(
        "s3-why",
        "The later you call it, the less of the batch is left to wait for.",
        "equal",
        lambda run: run.numbers[:5] == sorted(run.numbers[:5], reverse=True),
    ),
    Sentence(
        "s3-why",
        "Only when the last of them has started does `urgent` get its turn.",
        ("equal", "alone"),
        lambda run, alone: min(run.numbers[:5]) > alone.after("batch:") - 260 - alone.after("takes"),
    ),
    Sentence(
        "s3-higher",
        "it is never longer than a block runs",
        ("higher", "alone"),
        # a tenth of the batch is the block; the latency and `urgent` are printed to half a microsecond each
        lambda run, alone: run.after("The run says") <= alone.after("batch:") / 10 + alone.after("urgent:") + 1,
    ),
    Sentence(
        "s3-rules",
        "The batch pays little",
        "both-timelines",
        lambda run: run.after("higher priority:", 1) < 1.05 * run.after("equal priority:", 1),
    ),
    Sentence(
        "s4-explain",
        "`urgent` waits until the first block ends; the priority has nothing to decide",
        "blocks-table",
        lambda run: abs(_rows(run)[0][2] / _rows(run)[0][3] - 1) < 0.05 and _rows(run)[0][3] > 300,
    ),
    Sentence(
        "s4-explain",
        "With more rounds a place comes free sooner: the wait is never longer than one block runs.",
        ("blocks-table", "alone"),
        lambda run, alone: all(higher < block + 2 * alone.after("urgent:") + 20 for _, block, _, higher in _rows(run)),
    ),
    Sentence(
        "s4-explain",
        "With equal priority the number of rounds changes next to nothing",
        "blocks-table",
        lambda run: max(row[2] for row in _rows(run)) < 1.1 * min(row[2] for row in _rows(run)),
    ),
    Sentence(
        "s4-explain",
        "next to that the start of a block costs little",
        "blocks-table",
        lambda run: _rows(run)[3][2] < 1.05 * _rows(run)[0][2],
    ),
    Sentence(
        "s5-copies",
        "the large one, which takes nearly all of that time",
        "copies",
        lambda run: run.after("equal  priority:", 1) > 0.9 * run.after("equal  priority:"),
    ),
    Sentence(
        "s5-copies",
        "They have no effect on copies between host and device.",
        "copies",
        lambda run: abs(run.after("higher priority:") / run.after("equal  priority:") - 1) < 0.1,
    ),
    Sentence(
        "s5-inversion",
        "In effect the urgent work has the lowest priority.",
        ("inversion", "alone"),
        lambda run, alone: run.numbers[0] > alone.after("batch:") - 260 - alone.after("takes"),
    ),
    Sentence(
        "s5-mended",
        "Two kernels in a row may wait for two blocks",
        ("mended", "alone"),
        lambda run, alone: run.after("done after") < 2 * alone.after("takes") + 2 * alone.after("urgent:"),
    ),
]


GAINS = [
    Gain(
        "latency with the highest priority against the same one",
        ("equal", "higher"),
        lambda equal, higher: equal.after("median of 20:") / higher.after("median of 20:"),
        least=4,
        most_off=0.35,  # both have what a host takes to record, launch and record again: 38 µs, modelled 19
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences, gains = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES, GAINS
