"""Chapter 12."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

_AHEAD = "kernels of the batch that start between the call of reply and its start"

WRONG = (
    *table(
        "12.most-urgent",
        Wrong("the least urgent", (("priority=greatest", "priority=least"),), "correctness", "wrong priority"),
        Wrong("a large number", (("priority=greatest", "priority=100"),), "correctness", "wrong priority"),
        Wrong("the number of one device", (("priority=greatest", "priority=-5"),), "correctness", "wrong priority"),
        Wrong("blocking", (("non_blocking=True, ", ""),), "correctness", "a blocking stream"),
        Wrong(
            "returns the number", (("    return cp", "    return greatest\n    return cp"),), "correctness", "no stream"
        ),
    ),
    *table(
        "12.order",
        Wrong(
            "not clamped",
            (('["b", "e",', '["e", "b",'), ('"a", "c"]', '"a", "c"]')),
            "correctness",
            "wrong values",
            mistake="both are clamped",
        ),
        Wrong(
            "the largest first",
            (('"b", "e", "d", "a", "c"', '"c", "a", "d", "b", "e"'),),
            "correctness",
            "wrong values",
            mistake="a large number",
        ),
        Wrong("one left out", ((', "c"]', "]"),), "correctness", "wrong shape"),
    ),
    *table(
        "12.rounds",
        Wrong(
            "half more, rounded", (("-(-total // most)", "round(total / most + 0.5)"),), "correctness", "wrong values"
        ),
        Wrong("rounded down", (("-(-total // most)", "total // most"),), "correctness", "wrong values"),
        Wrong("one more than needed", (("-(-total // most)", "total // most + 1"),), "correctness", "wrong values"),
        Wrong("not an integer", (("-(-total // most)", "total / most"),), "correctness", "wrong values"),
    ),
    *table(
        "12.respond",
        Wrong(
            "a stream of low priority, an event",
            (
                (
                    "    prepare(high)\n",
                    "    aside = cp.cuda.Stream(non_blocking=True)\n    prepare(aside)\n"
                    "    high.wait_event(aside.record())\n",
                ),
            ),
            "efficiency",
            _AHEAD,
        ),
        Wrong("no order", (("prepare(high)", "prepare(low)"),), "soundness", "hazard"),
        Wrong(
            "the host waits",
            (("    reply(high)", "    high.synchronize()\n    reply(high)"),),
            "efficiency",
            "waits and queries of the host",
        ),
        Wrong("all in low", (("(high)", "(low)"),), "efficiency", _AHEAD),
        Wrong(
            "twice",
            (("    prepare(high)\n", "    prepare(high)\n    prepare(high)\n"),),
            "correctness",
            "wrong launches",
        ),
    ),
    *table(
        "12.reach",
        Wrong(
            "a wait raises a priority",
            (("False,  # behind_low", "True,  # behind_low"),),
            "correctness",
            "wrong values",
            mistake="does not raise",
        ),
        Wrong(
            "a priority goes against an order",
            (("False,  # behind_event", "True,  # behind_event"),),
            "correctness",
            "wrong values",
            mistake="goes against an order",
        ),
        Wrong(
            "a copy takes the priority away",
            (("True,  # behind_copy", "False,  # behind_copy"),),
            "correctness",
            "wrong values",
            mistake="as urgent as it was",
        ),
    ),
)
