"""Chapter 21."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

WRONG = (
    *table(
        "21.loads",
        Wrong(
            "a border on one side",
            (("(tile + 2 * reach)", "(tile + reach)"),),
            "correctness",
            "wrong values",
            mistake="one side only",
        ),
        Wrong(
            "no border",
            (("(tile + 2 * reach)", "tile"),),
            "correctness",
            "wrong values",
            mistake="border is forgotten",
        ),
        Wrong(
            "turned round",
            (
                (
                    "tile**2 * (2 * reach + 1) ** 2 / (tile + 2 * reach) ** 2",
                    "(tile + 2 * reach) ** 2 / (tile * (2 * reach + 1)) ** 2",
                ),
            ),
            "correctness",
            "wrong values",
            mistake="turned round",
        ),
        Wrong(
            "loads a pixel",
            (("tile**2 * (2 * reach + 1) ** 2 / (tile + 2 * reach) ** 2", "(tile + 2 * reach) ** 2 / tile**2"),),
            "correctness",
            "wrong values",
            mistake="what a block loads for a pixel",
        ),
    ),
    *table(
        "21.pace",
        Wrong(
            "two engines always",
            ((" if engines == 2 else up + down", ""),),
            "correctness",
            "wrong values",
            mistake="both ways at once",
        ),
        Wrong(
            "one engine always",
            (("max(up, down) if engines == 2 else ", ""),),
            "correctness",
            "wrong values",
            mistake="two engines copy both ways",
        ),
        Wrong(
            "half to each engine",
            (("max(up, down) if engines == 2 else up + down", "(up + down) / engines"),),
            "correctness",
            "wrong values",
            mistake="each direction has one engine",
        ),
        Wrong("without the kernel", (("max(copies, kernel)", "copies"),), "correctness", "wrong values"),
    ),
    *table(
        "21.turn",
        Wrong(
            "without the filter",
            (("(copy - filter_time)", "copy"),),
            "correctness",
            "wrong values",
            mistake="its part of the time",
        ),
        Wrong(
            "less than none",
            (("max(0, int(", "(int("),),
            "correctness",
            "wrong values",
            mistake="fewer frames than none",
        ),
        Wrong(
            "parts of frames",
            (("int((copy - filter_time) * rate // frame)", "(copy - filter_time) * rate / frame"),),
            "correctness",
            "wrong values",
            mistake="whole frames",
        ),
    ),
    *table(
        "21.next",
        Wrong("another array", (("camera[:] = frames", "camera = frames"),), "correctness", "wrong values"),
        Wrong(
            "written too late",
            (
                ("    camera[:] = frames\n", ""),
                ("    stream.synchronize()", "    stream.synchronize()\n    camera[:] = frames"),
            ),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "no wait",
            (("\n    stream.synchronize()", ""),),
            "correctness",
            "returned too early",
        ),
        Wrong("only launched", (("    graph.launch(stream)\n", ""),), "correctness", "wrong values"),
    ),
)
