"""Chapter 11's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation, Printed, Sentence

LEAST_COMPARED = 9
BASE = ["ok", "kernel-spin"]
STREAMS = [*BASE, "predict-two", "two-streams"]
CHAPTER = Chapter(
    "11_streams.ipynb",
    {
        "destroy": BASE,
        "right-values": [*BASE, "data", "depth-first", "one-stream"],
        "per-thread": BASE,
        "explicit": STREAMS,
        "implicit": [*STREAMS, "explicit", "implicit-calls"],
        "host-function": STREAMS,
        "host-function-cuda": STREAMS,
        "mended": [*STREAMS, "forgotten"],
        "letterbox-mended": [*STREAMS, "data", "letterbox"],
    },
)

MUTATIONS = [
    Mutation("destroy", "destroy", "spin_for(5000, 0, 7)", "spin_for(5000, 1, 7)"),
    Mutation("destroy", "destroy", "return 0, self.handle", "return 0, cudart.cudaStreamPerThread"),
    Mutation("destroy", "kernel-spin", "*out = value", "*out = value + 1"),
    Mutation("right-values", "depth-first", "offset = 4 * begin  # addresses count bytes", "offset = begin"),
    Mutation("right-values", "depth-first", "d_out[begin:]", "d_out[: n - begin]"),
    Mutation("right-values", "depth-first", "(copy_in, compute, copy_out)", "(copy_in, copy_out, compute)"),
    Mutation("right-values", "data", "0.25f * v", "0.125f * v"),
    Mutation("per-thread", "per-thread", "non_blocking=True", "non_blocking=False"),
    Mutation("per-thread", "per-thread", "default.record().synchronize()", "stream.record().synchronize()"),
    Mutation("per-thread", "per-thread", "cp.cuda.Stream.ptds):", "cp.cuda.Stream.null):"),
    Mutation("explicit", "explicit", "b.wait_event(done)  #", "b.wait_event(b.record())  #"),
    Mutation("explicit", "explicit", "done = a.record()", "done = b.record()"),
    Mutation("explicit", "explicit", "spin_for(100, 1, 2)\nb.synchronize()", "spin_for(100, 1, 2)\na.synchronize()"),
    Mutation("implicit", "implicit", "p, q = cp.cuda.Stream(), cp.cuda.Stream()", "p, q = a, b"),
    Mutation("implicit", "implicit-calls", "lambda: spin_for(1, 2, 0)", "lambda: None"),
    Mutation("host-function", "host-function", "a.synchronize()\n", ""),
    Mutation("host-function", "host-function", "a.launch_host_func(lines.append,", "lines.append("),
    Mutation("host-function-cuda", "host-function-cuda", "a.launch_host_func(ask, a.ptr)", "ask(a.ptr)"),
    Mutation("mended", "mended", "b.wait_event(produced)", ""),
    Mutation("mended", "mended", "produced = a.record()", "produced = b.record()"),
    Mutation("letterbox-mended", "letterbox", "            a.synchronize()", "            b.synchronize()"),
    Mutation("letterbox-mended", "letterbox", "box[:] = row + 1", "box[:] = row"),
]


def _times(run: Printed) -> dict[int, float]:
    """By number of streams, from the rows of the table: streams, time, ideal."""
    numbers = run.numbers
    return {int(streams): time for streams, time in zip(numbers[::3], numbers[1::3], strict=True)}


SENTENCES = [
    Sentence(
        "s2-kernel",
        "That makes it take more than half as long as a copy",
        "bounds",
        lambda run: run.after("K") > 0.5 * max(run.after("H"), run.after("D")),
    ),
    Sentence(
        "s2-rules",
        "The results are equal to the last bit.",
        "right-values",
        lambda run: run.after("differ from NumPy's:") == 0,
    ),
    Sentence(
        "s3",
        "so nothing gets below *H* or *D*",
        ("why-not", "bounds"),
        lambda run, bounds: min(_times(run).values()) > max(bounds.after("H"), bounds.after("D")),
    ),
    Sentence(
        "s3-explain",
        "from four on, each doubling gains less than a tenth, or loses",
        "why-not",
        lambda run: _times(run)[8] > 0.9 * _times(run)[4] and _times(run)[16] > 0.9 * _times(run)[8],
    ),
    Sentence(
        "s3-explain",
        "Sixteen streams are slower than four",
        "why-not",
        lambda run: _times(run)[16] > 1.3 * _times(run)[4],
    ),
    Sentence(
        "s4-explain",
        "With one engine, depth-first order gives no overlap at all, and breadth-first order does.",
        "one-engine",
        lambda run: run.after("depth-first:", 1) == 0 < run.after("breadth-first:", 1),
    ),
    Sentence(
        "s5-rules",
        "So one forgotten stream argument, somewhere in the middle, takes all overlap away.",
        "sandwich",
        lambda run: run.after("kernels overlap for") == 0 and run.after("times as fast), kernels overlap for") > 50,
    ),
    Sentence(
        "s6",
        "Only the legacy default stream waits, and only for the plain stream.",
        "per-thread",
        lambda run: [line.endswith("cudaSuccess") for line in run.text.splitlines()] == [True, False, False, False],
    ),
    Sentence(
        "s7-explain",
        "Only `cudaFree` does so with non-blocking streams.",
        "implicit",
        lambda run: [line.split()[0] for line in run.text.splitlines() if line.endswith("waits")] == ["cudaFree"],
    ),
    Sentence(
        "s9-hazard",
        "The result is wrong, and no call failed.",
        "forgotten",
        lambda run: run.after("sum:") != run.after("expected:"),
    ),
    Sentence(
        "s9-pageable-explain",
        "The copies no longer overlap with anything",
        "pageable",
        lambda run: "Copies and kernels never overlap" in run.text,
    ),
    Sentence(
        "s9-letterbox",
        "When the first copy began, the last letter lay in the box.",
        "letterbox",
        lambda run: [run.after("got [", place) for place in range(4)] == [4, 4, 4, 4],
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES
    in_words = ("host-function",)
