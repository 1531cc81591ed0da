"""Answers to 14.3, 14.4 and 14.5."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_HOST = "waits and queries of the host"

# --- 14.3 ---

_EARLY = "pairs of a consumer and a later producer that may overlap (%)"
_WAIT = "        second.wait_event(first.record())\n"

ANSWERS_14_3 = table(
    "14.3",
    Wrong("no wait", ((_WAIT, ""),), "soundness", "hazard", mistake="second never waits"),
    Wrong(
        "waits behind the consumer",
        ((_WAIT, ""), ("        consume(k, second)\n", "        consume(k, second)\n" + _WAIT)),
        "soundness",
        "hazard",
        mistake="too late",
    ),
    Wrong(
        "records before the producer",
        (("        produce(k, first)\n" + _WAIT, _WAIT + "        produce(k, first)\n"),),
        "soundness",
        "hazard",
        mistake="too early",
    ),
    Wrong(
        "records in the other stream",
        (("first.record()", "second.record()"),),
        "soundness",
        "hazard",
        mistake="another stream than the producer",
    ),
    Wrong(
        "consumes in the first stream",
        (("consume(k, second)", "consume(k, first)"),),
        "correctness",
        "wrong stream",
    ),
    Wrong(
        "the first stream waits, too",
        (("        consume(k, second)\n", "        consume(k, second)\n        first.wait_event(second.record())\n"),),
        "efficiency",
        "waits of first for second",
    ),
    Wrong("the host waits", (("second.wait_event(first.record())", "first.synchronize()"),), "efficiency", _HOST),
    Wrong(
        "one event for all, recorded last",
        (),
        "efficiency",
        _EARLY,
        source="""
def relay(count, produce, consume, first, second):
    for k in range(count):
        produce(k, first)
    second.wait_event(first.record())
    for k in range(count):
        consume(k, second)
""",
    ),
    Wrong(
        "polls",
        ((_WAIT, "        event = first.record()\n        while not event.done:\n            pass\n"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong(
        "consumes twice",
        (("        consume(k, second)\n", 2 * "        consume(k, second)\n"),),
        "correctness",
        "wrong launches",
        cheat=True,
    ),
    Wrong("six items only", (("range(count)", "range(min(count, 6))"),), "correctness", "wrong values", cheat=True),
    Wrong(
        "produces only",
        (("        consume(k, second)\n", ""),),
        "correctness",
        "wrong values",
        mistake="no item is consumed",
        cheat=True,
    ),
    Right(
        "one event, in turn",
        (
            ("    for k", "    event = cp.cuda.Event(disable_timing=True)\n    for k"),
            ("second.wait_event(first.record())", "event.record(first)\n        second.wait_event(event)"),
        ),
    ),
    Right(
        "a list of events",
        source="""
def relay(count, produce, consume, first, second):
    events = []
    for k in range(count):
        produce(k, first)
        events.append(first.record())
    for k, event in enumerate(events):
        second.wait_event(event)
        consume(k, second)
""",
    ),
    Right(
        "runtime calls",
        source="""
def relay(count, produce, consume, first, second):
    for k in range(count):
        produce(k, first)
        _, event = cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)
        cudart.cudaEventRecord(event, first.ptr)
        cudart.cudaStreamWaitEvent(second.ptr, event, 0)
        consume(k, second)
""",
    ),
)

# --- 14.4 ---

_RETURN = "    return 3 * 4 * n / (milliseconds * 1e-3) / 1e9\n"

ANSWERS_14_4 = table(
    "14.4",
    Wrong("no warm-up", (("    launch()  # not timed\n", ""),), "correctness", "no warm-up"),
    Wrong("GiB", (("/ 1e9", "/ 2**30"),), "correctness", "wrong values", mistake="GiB"),
    Wrong(
        "milliseconds",
        (("(milliseconds * 1e-3)", "milliseconds"),),
        "correctness",
        "wrong values",
        mistake="milliseconds are taken",
    ),
    Wrong("one array", (("3 * 4 * n", "4 * n"),), "correctness", "wrong values", mistake="one of the three"),
    Wrong("two arrays", (("3 * 4 * n", "2 * 4 * n"),), "correctness", "wrong values", mistake="two of the three"),
    Wrong("elements", (("3 * 4 * n", "n"),), "correctness", "wrong values", mistake="elements are counted"),
    Wrong("megabytes", (("/ 1e9", "/ 1e6"),), "correctness", "wrong values", mistake="megabytes"),
    Wrong(
        "the host's clock",
        (),
        "correctness",
        "no events",
        source="""
def bandwidth(launch, stream, n):
    launch()
    begin = cudalab.clock()
    launch()
    stream.synchronize()
    return 12 * n / (cudalab.clock() - begin) / 1e3
""",
    ),
    Wrong(
        "the wrong stream",
        (("start.record(stream)", "start.record()"), ("end.record(stream)", "end.record()")),
        "correctness",
        "wrong stream",
    ),
    Wrong(
        "a number from the data sheet",
        (),
        "correctness",
        "no events",
        source="def bandwidth(launch, stream, n):\n    return 4800.0\n",
        cheat=True,
    ),
    Wrong(
        "the number for 100,000",
        ((_RETURN, "    return 3 * 4 * 100_000 / (milliseconds * 1e-3) / 1e9\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "an empty interval",
        (("    start.record(stream)\n    launch()\n", "    launch()\n    start.record(stream)\n"),),
        "correctness",
        "no warm-up",
        cheat=True,
    ),
    Wrong(
        "polls",
        (("    end.synchronize()\n", "    while not end.done:\n        pass\n"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong(
        "empties the queue first",
        (("    start.record(stream)\n", "    stream.synchronize()\n    start.record(stream)\n"),),
        "efficiency",
        _HOST,
    ),
    Right(
        "ten runs between two events",
        (
            ("    launch()\n    end.record", "    for _ in range(10):\n        launch()\n    end.record"),
            ("3 * 4 * n", "10 * 3 * 4 * n"),
        ),
    ),
    Right(
        "the median of five",
        source="""
def bandwidth(launch, stream, n):
    launch()
    events = [cp.cuda.Event() for _ in range(6)]
    events[0].record(stream)
    for event in events[1:]:
        launch()
        event.record(stream)
    stream.synchronize()
    times = [cp.cuda.get_elapsed_time(a, b) for a, b in zip(events, events[1:])]
    return 12e-6 * n / np.median(times)
""",
    ),
    Right(
        "runtime calls",
        (("cp.cuda.get_elapsed_time(start, end)", "cudart.cudaEventElapsedTime(start.ptr, end.ptr)[1]"),),
    ),
)

# --- 14.5 ---

_NEW = "waits that say nothing new"
_FREE = "pairs of tasks that may overlap, of those possible (%)"
_IF = "            if other not in mine:\n"

ANSWERS_14_5 = table(
    "14.5",
    Wrong("not for its own stream", ((_IF, "            if place[other] != place[k]:\n"),), "efficiency", _NEW),
    Wrong("forgets what a wait says besides", (("mine |= before[other]", "mine.add(other)"),), "efficiency", _NEW),
    Wrong("the oldest first", ((", reverse=True", ""),), "efficiency", _NEW),
    Wrong(
        "only the last of them", (("sorted(needs[k], reverse=True)", "sorted(needs[k])[-1:]"),), "soundness", "hazard"
    ),
    Wrong("no waits", ((_IF, "            if False:\n"),), "soundness", "hazard"),
    Wrong(
        "one set for all streams",
        (("[set() for _ in streams]", "[set()] * len(streams)"),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "the event before the task",
        (
            ("        events.append(stream.record())\n", ""),
            ("        task(stream)\n", "        events.append(stream.record())\n        task(stream)\n"),
        ),
        "soundness",
        "hazard",
    ),
    Wrong(
        "records when it is needed",
        (("stream.wait_event(events[other])", "stream.wait_event(streams[place[other]].record())"),),
        "efficiency",
        _FREE,
    ),
    Wrong(
        "the host waits",
        (("stream.wait_event(events[other])", "events[other].synchronize()"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong(
        "all in one stream",
        (),
        "correctness",
        "wrong stream",
        source="def run(tasks, needs, place, streams):\n    for task in tasks:\n        task(streams[0])\n",
        cheat=True,
    ),
    Wrong(
        "other streams, as many",
        (
            ("streams[place[k]], known[place[k]]", "streams[turned[k]], known[turned[k]]"),
            ("    events, before", "    turned = [(p + 1) % len(streams) for p in place]\n    events, before"),
        ),
        "correctness",
        "wrong stream",
        cheat=True,
    ),
    Wrong("six tasks only", (("enumerate(tasks)", "enumerate(tasks[:6])"),), "correctness", "wrong values", cheat=True),
    Wrong(
        "each twice",
        (("        task(stream)\n", 2 * "        task(stream)\n"),),
        "correctness",
        "wrong launches",
        cheat=True,
    ),
    Right(
        "by bits",
        source="""
def run(tasks, needs, place, streams):
    events, before, known = [], [], [0] * len(streams)
    for k, task in enumerate(tasks):
        s = place[k]
        for other in sorted(needs[k])[::-1]:
            if not known[s] >> other & 1:
                streams[s].wait_event(events[other])
                known[s] |= before[other]
        task(streams[s])
        known[s] |= 1 << k
        before.append(known[s])
        events.append(streams[s].record())
""",
    ),
    Right(
        "vector clocks",
        source="""
def run(tasks, needs, place, streams):
    clocks = [[-1] * len(streams) for _ in streams]
    stamps, events = [], []
    for k, task in enumerate(tasks):
        mine = clocks[place[k]]
        for other in sorted(needs[k], reverse=True):
            if mine[place[other]] < other:
                streams[place[k]].wait_event(events[other])
                mine[:] = map(max, mine, stamps[other])
        task(streams[place[k]])
        mine[place[k]] = k
        stamps.append(list(mine))
        events.append(streams[place[k]].record())
""",
    ),
    Right(
        "runtime calls",
        (
            ("stream.wait_event(events[other])", "cudart.cudaStreamWaitEvent(stream.ptr, events[other], 0)"),
            (
                "        events.append(stream.record())\n",
                "        events.append(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)[1])\n"
                "        cudart.cudaEventRecord(events[k], stream.ptr)\n",
            ),
        ),
    ),
)
