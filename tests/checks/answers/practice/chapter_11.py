"""Chapter 11."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

_WAITS = "waits and queries of the host"
_APART = "pairs of kernels that nothing orders (%)"

WRONG = (
    *table(
        "11.together",
        Wrong("both in a", (("second(b)", "second(a)"),), "efficiency", _APART),
        Wrong(
            "one waits for the other",
            (("    second", "    b.wait_event(a.record())\n    second"),),
            "efficiency",
            _APART,
        ),
        Wrong("waits at the end", (("second(b)", "second(b)\n    b.synchronize()"),), "efficiency", _WAITS),
        Wrong("only one", (("    second(b)", ""),), "correctness", "wrong launches"),
    ),
    *table(
        "11.bytes",
        Wrong("another stream", (("stream.ptr", "0"),), "correctness", "another stream"),
        Wrong(
            "from a copy in ordinary memory",
            (),
            "efficiency",
            "copies from or to pageable memory",
            source="def copy_piece(d, h, begin, end, stream):\n"
            "    part = np.array(h[begin:end])\n    d[begin:end].set(part, stream=stream)\n",
        ),
        Wrong("the size in elements", (("4 * (end - begin)", "end - begin"),), "correctness", "wrong values"),
        Wrong("the addresses in elements", (("4 * begin", "begin"),), "correctness", "wrong values"),
        Wrong("the host waits", (("cudaMemcpyAsync(", "cudaMemcpy("), (", stream.ptr", "")), "efficiency", _WAITS),
    ),
    *table(
        "11.ideal",
        Wrong(
            "divided by the pieces",
            (("h + k + d + (pieces - 1) * max(h, k, d)", "h + k + d"),),
            "correctness",
            "wrong values",
            mistake="one piece at a time",
        ),
        Wrong("one piece too many", (("pieces - 1", "pieces"),), "correctness", "wrong values"),
    ),
    *table(
        "11.apart",
        Wrong(
            "second in a stream of its own",
            (("second(cp.cuda.Stream.null)", "second(cp.cuda.Stream())"), ("non_blocking=True", "")),
            "correctness",
            "another stream",
        ),
        Wrong("plain streams", (("(non_blocking=True)", "()"),), "efficiency", _APART),
        Wrong(
            "one of them plain",
            (("a = cp.cuda.Stream(non_blocking=True)", "a = cp.cuda.Stream()"),),
            "efficiency",
            _APART,
        ),
        Wrong("all in one stream", (("third(b)", "third(a)"),), "efficiency", _APART),
    ),
    *table(
        "11.tell",
        Wrong(
            "at once", (("stream.launch_host_func(lines.append, ", "lines.append("),), "correctness", "no host function"
        ),
        Wrong(
            "the NULL stream",
            (("stream.launch_host_func", "cp.cuda.Stream.null.launch_host_func"),),
            "correctness",
            "another stream",
        ),
        Wrong(
            "a stream of its own",
            (("stream.launch_host_func", "cp.cuda.Stream(non_blocking=True).launch_host_func"),),
            "correctness",
            "another stream",
        ),
        Wrong("another word", (('"done"', '"ready"'),), "correctness", "wrong values"),
        Wrong("the host waits as well", (('"done")', '"done")\n    stream.synchronize()'),), "efficiency", _WAITS),
    ),
)
