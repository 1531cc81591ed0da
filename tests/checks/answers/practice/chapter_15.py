"""Chapter 15."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

WRONG = (
    *table(
        "15.capture",
        Wrong(
            "launches it as well",
            (
                (
                    "return stream.end_capture()",
                    "graph = stream.end_capture()\n    graph.launch(stream)\n    return graph",
                ),
            ),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "ends too early",
            (
                (
                    "    work(stream)\n    return stream.end_capture()",
                    "    graph = stream.end_capture()\n    work(stream)\n    return graph",
                ),
            ),
            "correctness",
            "wrong values",
        ),
        Wrong("keeps the graph", (("return stream.end_capture()", "stream.end_capture()"),), "correctness", "no graph"),
    ),
    *table(
        "15.replay",
        Wrong(
            "one launch",
            (("    for _ in range(frames):\n        graph.launch(stream)", "    graph.launch(stream)"),),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "no graph",
            (
                ("    stream.begin_capture()\n    work(stream)\n    graph = stream.end_capture()\n", ""),
                ("graph.launch(stream)", "work(stream)"),
            ),
            "efficiency",
            "launches of a graph, of those wanted (%)",
        ),
        Wrong(
            "all frames in one graph",
            (
                ("    work(stream)\n", "    for _ in range(frames):\n        work(stream)\n"),
                ("    for _ in range(frames):\n        graph.launch(stream)", "    graph.launch(stream)"),
            ),
            "efficiency",
            "launches of a graph, of those wanted (%)",
        ),
    ),
    *table(
        "15.join",
        Wrong("the wrong way round", (("four, [last] * 4", "[last] * 4, four"),), "correctness", "missing edge"),
        Wrong(
            "three of four",
            (("four, [last] * 4, None, 4", "four, [last] * 4, None, 3"),),
            "correctness",
            "missing edge",
        ),
        Wrong(
            "the last waits for itself: refused",
            (("four, [last] * 4, None, 4", "five, [last] * 5, None, 5"),),
            "soundness",
            "cudaErrorInvalidValue",
        ),
        Wrong(
            "the four in a chain",
            (("graph, four, [last] * 4, None, 4)", "graph, five[:-1], five[1:], None, 4)"),),
            "correctness",
            "needless edge",
        ),
    ),
    *table(
        "15.side-by-side",
        Wrong(
            "no fork",
            (("    b.wait_event(a.record())\n", ""), ("right(b)", "right(a)"), ("    a.wait_event(b.record())\n", "")),
            "efficiency",
            "branches that may run side by side",
        ),
        Wrong(
            "forks too late",
            (("    b.wait_event(a.record())\n    left(a)", "    left(a)\n    b.wait_event(a.record())"),),
            "efficiency",
            "branches that may run side by side",
        ),
        Wrong("no join", (("    a.wait_event(b.record())\n", ""),), "soundness", "cudaErrorStreamCaptureUnjoined"),
        Wrong(
            "joins behind last",
            (("    a.wait_event(b.record())\n    last(a)", "    last(a)\n    a.wait_event(b.record())"),),
            "soundness",
            "hazard",
        ),
    ),
    *table(
        "15.frame",
        Wrong(
            "only asks",
            (("    copy_in(stream)\n", "    copy_in(stream)\n    stream.done\n"),),
            "soundness",
            "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        ),
        Wrong(
            "copies outside",
            (
                (
                    "    stream.begin_capture()\n    copy_in(stream)\n",
                    "    copy_in(stream)\n    stream.begin_capture()\n",
                ),
            ),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "the work first",
            (("    copy_in(stream)\n    work(stream)\n", "    work(stream)\n    copy_in(stream)\n"),),
            "correctness",
            "wrong values",
        ),
    ),
)
