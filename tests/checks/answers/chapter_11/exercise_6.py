"""Answers to 11.6."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_FREE = "pairs of stages that may overlap, of those possible (%)"
_WAITED = "waits and queries of the host"
_WAIT = "        if k >= 2:\n            loading.wait_event(converted[slot])\n"
_LOAD = "        load(k, loading)\n"

ANSWERS_11_6 = table(
    "11.6",
    Wrong("behind the load", ((_WAIT, ""), (_LOAD, _LOAD + _WAIT)), "soundness", "hazard", mistake="too late"),
    Wrong("for its own load", (("wait_event(converted", "wait_event(loaded"),), "soundness", "hazard"),
    Wrong("in another stream", (("loading.wait_event(conv", "storing.wait_event(conv"),), "soundness", "hazard"),
    Wrong(
        "for the frame before",
        (("loading.wait_event(converted[slot])", "loading.wait_event(converted[1 - slot])"),),
        "efficiency",
        _FREE,
    ),
    Wrong("for the store", (("loading.wait_event(converted", "loading.wait_event(stored"),), "efficiency", _FREE),
    Wrong(
        "one event for both slots",
        (
            (
                "range(2)] for _ in range(3))",
                "range(2)] for _ in range(3))\n    last = cp.cuda.Event(disable_timing=True)",
            ),
            (_WAIT, "        loading.wait_event(last)\n"),
            ("        convert(k, working)\n", "        convert(k, working)\n        last.record(working)\n"),
        ),
        "efficiency",
        _FREE,
    ),
    Wrong(
        "not for the store any more",
        (("        if k >= 2:\n            working.wait_event(stored[slot])\n", ""),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "recorded before the kernel",
        (
            ("        converted[slot].record(working)\n", ""),
            ("        convert(k, working)\n", "        converted[slot].record(working)\n        convert(k, working)\n"),
        ),
        "soundness",
        "hazard",
        mistake="too early",
    ),
    Wrong("stores in the stream of the kernels", (("store(k, storing)", "store(k, working)"),), "efficiency", _FREE),
    Wrong("the host waits", ((_WAIT, "        converted[slot].synchronize()\n"),), "efficiency", _WAITED),
    Wrong(
        "all in one stream",
        (),
        "efficiency",
        _FREE,
        source="""
def convert_all(count, load, convert, store, loading, working, storing):
    for k in range(count):
        load(k, working)
        convert(k, working)
        store(k, working)
""",
        cheat=True,
    ),
    Wrong(
        "polls",
        ((_WAIT, "        while not converted[slot].done:\n            pass\n"),),
        "efficiency",
        _WAITED,
        cheat=True,
    ),
    Wrong("loads twice", ((_LOAD, 2 * _LOAD),), "correctness", "wrong launches", cheat=True),
    Wrong("five frames only", (("range(count)", "range(min(count, 5))"),), "correctness", "wrong values", cheat=True),
    Wrong(
        "converts frames of slot 0 only",
        (("        convert(k, working)\n", "        if not slot:\n            convert(k, working)\n"),),
        "correctness",
        "wrong launches",
        cheat=True,
    ),
    Right(
        "new events for each frame",
        source="""
def convert_all(count, load, convert, store, loading, working, storing):
    converted, stored = [], []
    for k in range(count):
        if k >= 2:
            loading.wait_event(converted[k - 2])
            working.wait_event(stored[k - 2])
        load(k, loading)
        working.wait_event(loading.record())
        convert(k, working)
        converted.append(working.record())
        storing.wait_event(converted[k])
        store(k, storing)
        stored.append(storing.record())
""",
    ),
    Right(
        "runtime calls",
        ((_WAIT, "        cudart.cudaStreamWaitEvent(loading.ptr, converted[slot].ptr, 0)\n"),),
    ),
    Right(
        "all loads of a pair first",
        source="""
def convert_all(count, load, convert, store, loading, working, storing):
    converted, stored = {}, {}
    for first in range(0, count, 2):
        pair = range(first, min(first + 2, count))
        loaded = {}
        for k in pair:
            if k - 2 in converted:
                loading.wait_event(converted[k - 2])
            load(k, loading)
            loaded[k] = loading.record()
        for k in pair:
            working.wait_event(loaded[k])
            if k - 2 in stored:
                working.wait_event(stored[k - 2])
            convert(k, working)
            converted[k] = working.record()
        for k in pair:
            storing.wait_event(converted[k])
            store(k, storing)
            stored[k] = storing.record()
""",
    ),
)
