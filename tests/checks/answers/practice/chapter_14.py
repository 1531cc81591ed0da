"""Chapter 14."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

_WAITS = "waits and queries of the host"

WRONG = (
    *table(
        "14.count-done",
        Wrong("waits for each", (("event.done", "event.synchronize() is None"),), "correctness", "wrong values"),
        Wrong(
            "stops at the first that is not",
            (
                (
                    "    return sum(event.done for event in events)",
                    "    for number, event in enumerate(events):\n        if not event.done:\n"
                    "            return number\n    return len(events)",
                ),
            ),
            "correctness",
            "wrong values",
        ),
        Wrong("those that are not", (("event.done", "not event.done"),), "correctness", "wrong values"),
        Wrong(
            "asks, and waits as well",
            (
                (
                    "    return sum(event.done for event in events)",
                    "    done = sum(event.done for event in events)\n    events[-1].synchronize()\n    return done",
                ),
            ),
            "efficiency",
            "waits of the host",
        ),
    ),
    *table(
        "14.rate",
        Wrong("as if in microseconds", (("1e6", "1e3"),), "correctness", "wrong values", mistake="microseconds"),
        Wrong(
            "as if in seconds",
            (("1e6", "1e9"),),
            "correctness",
            "wrong values",
            mistake="milliseconds are taken for seconds",
        ),
        Wrong("read too early", (("    end.synchronize()\n", ""),), "soundness", "cudaErrorNotReady"),
        Wrong(
            "waits for the first only", (("end.synchronize", "start.synchronize"),), "soundness", "cudaErrorNotReady"
        ),
    ),
    *table(
        "14.many",
        Wrong("all of them", ((" / launches", ""),), "correctness", "wrong values", mistake="all launches together"),
        Wrong("milliseconds", (("1000 * ", ""),), "correctness", "wrong values", mistake="milliseconds"),
        Wrong(
            "the warm-up is timed, too",
            (("    launch(stream)\n    start.record(stream)\n", "    start.record(stream)\n    launch(stream)\n"),),
            "correctness",
            "wrong launches",
        ),
        Wrong(
            "no warm-up",
            (("    launch(stream)\n    start.record(stream)\n", "    start.record(stream)\n"),),
            "correctness",
            "no warm-up",
        ),
        Wrong("the current stream", (("record(stream)", "record()"),), "correctness", "wrong stream"),
        Wrong(
            "waits behind each launch",
            (("        launch(stream)\n", "        launch(stream)\n        stream.synchronize()\n"),),
            "efficiency",
            "waits of the host, queries included",
        ),
    ),
    *table(
        "14.wait-for",
        Wrong(
            "the wrong way round", (("b.wait_event(a.record())", "a.wait_event(b.record())"),), "soundness", "hazard"
        ),
        Wrong(
            "waits before the record",
            (("b.wait_event(a.record())", "e = cp.cuda.Event()\n    b.wait_event(e)\n    e.record(a)"),),
            "soundness",
            "hazard",
            mistake="orders nothing",
        ),
        Wrong("the host asks", (("b.wait_event(a.record())", "while not a.done: pass"),), "efficiency", _WAITS),
    ),
    *table(
        "14.pieces",
        Wrong(
            "recorded in b",
            (("ready.record(a)", "ready.record(b)"),),
            "soundness",
            "hazard",
        ),
        Wrong(
            "all are made first",
            (("        make(a)\n", ""), ("    for make", "    for make in makes:\n        make(a)\n    for make")),
            "efficiency",
            "pieces that b uses while a may make the next one (%)",
        ),
        Wrong("the host waits", (("b.wait_event(ready)", "ready.synchronize()"),), "efficiency", _WAITS),
    ),
)
