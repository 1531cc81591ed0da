"""Chapter 14's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation, Sentence

LEAST_COMPARED = 6
CHAPTER = Chapter(
    "14_events.ipynb",
    {
        "life": ["ok", "kernel-put"],
        "null-stream": ["kernel-put"],
        "codes": ["ok", "kernel-put"],
        "fork-values": ["kernel-put", "kernel-add", "one-stream", "two-streams"],
        "last-record": ["kernel-put"],
        "record-first": ["kernel-put", "wait-first"],
    },
)

MUTATIONS = [
    Mutation("life", "life", "ok(cudart.cudaEventSynchronize(event))", ""),
    Mutation("life", "life", "ok(cudart.cudaEventRecord(event, a.ptr))", ""),
    Mutation("life", "life", "cudart.cudaEventDestroy(event)", "cudart.cudaEventDestroy(0)"),
    Mutation("null-stream", "null-stream", "cp.cuda.Stream.null.record()", "stream.record()"),
    Mutation("null-stream", "null-stream", "cp.cuda.Stream(),", "cp.cuda.Stream(non_blocking=True),"),
    Mutation("null-stream", "null-stream", "host_work(1000)", "host_work(10_000)"),
    Mutation("null-stream", "kernel-put", "steps=2_000_000", "steps=200"),
    Mutation("codes", "codes", "(cudart.cudaEventDisableTiming)", "(cudart.cudaEventBlockingSync)"),
    Mutation("codes", "codes", "never.record(a)", "pass"),
    Mutation("codes", "codes", 'a.synchronize()\nprint("after', 'print("after'),
    Mutation("codes", "codes", "timed.record(a)", "never.record(a)"),
    Mutation("fork-values", "kernel-add", "*a + *b, v", "*a - *b, v"),
    Mutation("fork-values", "one-stream", '"right", 1, 1, 3)', '"right", 1, 0, 3)'),
    Mutation("fork-values", "two-streams", "    b.wait_event(ready)", "    b.done"),
    Mutation("fork-values", "two-streams", '"right", 1, 1, 3)', '"right", 1, 0, 3)'),
    Mutation("last-record", "last-record", "b.wait_event(mark)", ""),
    Mutation("last-record", "last-record", "mark.record(a)  # the same event, again", ""),
    Mutation("last-record", "last-record", "put_slowly(2, 3, a)", "put_slowly(2, 4, a)"),
    Mutation(
        "record-first", "record-first", "mark.record(a)\nb.wait_event(mark)", "b.wait_event(mark)\nmark.record(a)"
    ),
    Mutation("record-first", "record-first", "mark.record(a)", "mark.record(b)"),
    Mutation("record-first", "wait-first", "(x.data, y.nbytes", "(x[1:].data, y.nbytes"),
]


SENTENCES = [
    Sentence(
        "s1",
        "Two million steps take between four and five milliseconds.",
        "elapsed",
        lambda run: 4 < run.numbers[0] < 5,
    ),
    Sentence(
        "s2-predict",
        "They do, for the end of one part is the start of the next.",
        "marks",
        lambda run: abs(run.after("sum") - run.after("first mark to last")) < 0.2,
    ),
    Sentence(
        "s2-host",
        "the host's three milliseconds lie before `start`, and no event saw them",
        "host-between",
        lambda run: run.after("behind the host's work:") < 1000 < 3000 < run.after("before the host's work:"),
    ),
    Sentence(
        "s2-neighbours",
        "The kernel did not change, and yet it took longer",
        "neighbours",
        lambda run: run.after("20 kernels in stream b:") > 1.5 * run.after(" 0 kernels in stream b:"),
    ),
    Sentence(
        "s2-overhead",
        "A pair of events takes more than a microsecond, even around nothing, and in an empty queue a single empty "
        "kernel between the two makes it more than four.",
        "overhead",
        lambda run: run.after("  0 empty kernels:") > 1 and run.after("  1 empty kernels:") > 4,
    ),
    Sentence(
        "s2-overhead",
        "From an empty queue a hundred empty kernels need more than three microseconds each",
        "overhead",
        lambda run: run.after("100 empty kernels:") > 300,
    ),
    Sentence(
        "s2-overhead",
        "7 µs on the one that recorded this notebook; the simulated one takes 5",
        "overhead",
        lambda run: (
            abs(run.after("100 empty kernels: from an empty queue") / 100 - (5 if "modelled" in run.text else 7)) < 0.5
        ),
    ),
    Sentence(
        "s2-overhead",
        "From a full queue the device finds everything ready, and ten take less than half as long as from an empty "
        "one.",
        "overhead",
        lambda run: run.after(" 10 empty kernels:", 1) < run.after(" 10 empty kernels:") / 2,
    ),
    Sentence(
        "s3",
        "With one launch the pair's own cost is in the figure",
        "tuner",
        lambda run: run.after("; 1 takes") > 1.2,
    ),
    Sentence(
        "s3",
        "4 M elements take the device some 6 µs, as from a full queue, above",
        ("tuner", "neighbours"),
        lambda tuner, neighbours: (
            "measured" in tuner.text
            or abs(tuner.after("so far is launches = 50 with") / neighbours.after(" 0 kernels in stream b:") - 1) < 0.05
        ),
    ),
    Sentence(
        "s3",
        "9.7 µs here, 7.0 µs above, from a full queue",
        ("tuner", "neighbours"),
        lambda tuner, neighbours: (
            "modelled" in tuner.text
            or (tuner.after("launches = 50 with"), neighbours.after(" 0 kernels in stream b:")) == (9.74, 7.0)
        ),
    ),
    Sentence(
        "s4",
        "On the simulated device all ten are alike",
        "fresh",
        lambda run: "measured" in run.text or run.after("first") < 1.02 * run.after("best"),
    ),
    Sentence(
        "s4",
        "On a GPU the first run is the longest",
        "fresh",
        lambda run: "modelled" in run.text or run.after("first") == max(run.numbers),
    ),
    Sentence(
        "s4",
        "A single disturbed run moves the mean, not the median.",
        "fresh",
        lambda run: run.after("mean") >= run.after("median"),
    ),
    Sentence(
        "s4-both",
        "Both figures are within a quarter of each other.",
        "both",
        lambda run: abs(run.after("by hand:") / run.after("cudalab.benchmark:") - 1) < 0.25,
    ),
    Sentence(
        "s4-both",
        "the pair's own cost, a microsecond or so, is not in its figure",
        "both",
        lambda run: "measured" in run.text or 0.8 < run.after("by hand:") - run.after("cudalab.benchmark:") < 2,
    ),
    Sentence(
        "s4-both",
        "The ten single runs above took clearly longer, also after the first",
        ("fresh", "both"),
        lambda fresh, both: fresh.after("best") > 1.3 * both.after("by hand:"),
    ),
    Sentence(
        "s6",
        "On a GPU the second wait is longer",
        "blocking",
        lambda run: run.after("block=True : the host waited") >= run.after("block=False: the host waited"),
    ),
    Sentence(
        "s6",
        "takes a little less than a millisecond",
        "fork-trace",
        lambda run: 800 < run.after("one stream") / 4 < 1000,
    ),
    Sentence(
        "s6-rules",
        "Both give the same values.",
        "fork-values",
        lambda run: run.numbers[:5] == run.numbers[5:],
    ),
    Sentence(
        "s8-clock",
        "both marks were passed while the kernel had hardly begun",
        "wrong-stream",
        lambda run: 10 * run.after("current stream:") < run.after("kernel's:"),
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES
