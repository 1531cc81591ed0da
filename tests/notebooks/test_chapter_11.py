"""Chapter 11's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Mutation

LEAST_COMPARED = 9
BASE = ["ok", "kernel-spin"]
STREAMS = [*BASE, "predict-two", "two-streams"]
CHAPTER = Chapter(
    "11_streams.ipynb",
    {
        "destroy": BASE,
        "right-values": [*BASE, "data", "depth-first", "one-stream"],
        "null-query": BASE,
        "per-thread": STREAMS,
        "explicit": STREAMS,
        "implicit": [*STREAMS, "explicit"],
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
    Mutation("null-query", "null-query", "non_blocking=True", "non_blocking=False"),
    Mutation("null-query", "null-query", "with cp.cuda.Stream.null", "with cp.cuda.Stream(non_blocking=True)"),
    Mutation("per-thread", "per-thread", "with a:", "with cp.cuda.Stream.ptds:"),
    Mutation("explicit", "explicit", "b.wait_event(done)  #", "b.wait_event(b.record())  #"),
    Mutation("explicit", "explicit", "done = a.record()", "done = b.record()"),
    Mutation("explicit", "explicit", "spin_for(100, 1, 2)\nb.synchronize()", "spin_for(100, 1, 2)\na.synchronize()"),
    Mutation("implicit", "implicit", "x, y = cp.cuda.Stream(), cp.cuda.Stream()", "x, y = a, b"),
    Mutation("implicit", "implicit", "lambda: spin_for(1, 2, 0)", "lambda: None"),
    Mutation("host-function", "host-function", "a.synchronize()\n", ""),
    Mutation("host-function", "host-function", "a.launch_host_func(lines.append,", "lines.append("),
    Mutation("host-function-cuda", "host-function-cuda", "a.launch_host_func(ask, a.ptr)", "ask(a.ptr)"),
    Mutation("mended", "mended", "b.wait_event(produced)", ""),
    Mutation("mended", "mended", "produced = a.record()", "produced = b.record()"),
    Mutation("letterbox-mended", "letterbox", "            a.synchronize()", "            b.synchronize()"),
    Mutation("letterbox-mended", "letterbox", "box[:] = row + 1", "box[:] = row"),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least = CHAPTER, MUTATIONS, LEAST_COMPARED
    in_words = ("host-function",)
