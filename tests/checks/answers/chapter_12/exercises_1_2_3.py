"""Answers to 12.1, 12.2 and 12.3."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_HOST = "waits and queries of the host"

# --- 12.1 ---

_TURN = "pairs of pending kernels of which the more urgent one starts first (%)"
_NULL = "kernels that something orders with one in the NULL stream"

ANSWERS_12_1 = table(
    "12.1",
    Wrong("the range turned round", (("error, least, greatest", "error, greatest, least"),), "efficiency", _TURN),
    Wrong(
        "large numbers",
        (("priority=least", "priority=1"), ("(least + greatest) // 2", "5"), ("priority=greatest", "priority=10")),
        "efficiency",
        _TURN,
    ),
    Wrong(
        "the numbers of one device",
        (("priority=least", "priority=0"), ("(least + greatest) // 2", "-2"), ("priority=greatest", "priority=-5")),
        "efficiency",
        _TURN,
    ),
    Wrong("normal like background", (("(least + greatest) // 2", "least"),), "efficiency", _TURN),
    Wrong("normal like urgent", (("(least + greatest) // 2", "greatest - 10"),), "efficiency", _TURN),
    Wrong("no priority at all", ((", priority=greatest", ""),), "efficiency", _TURN),
    Wrong(
        "returned in the wrong order",
        (("return background, normal,", "return normal, background,"),),
        "efficiency",
        _TURN,
    ),
    Wrong("all blocking", (("non_blocking=True, ", ""),), "efficiency", _NULL),
    Wrong("one blocking", (("non_blocking=True, priority=greatest", "priority=greatest"),), "efficiency", _NULL),
    Wrong(
        "two streams",
        (("return background, normal, urgent", "return background, urgent"),),
        "correctness",
        "no streams",
    ),
    Wrong(
        "priorities, not streams",
        (("return background, normal, urgent", "return 0, -2, -5"),),
        "correctness",
        "no streams",
    ),
    Wrong(
        "a wrong flag",
        (
            (
                "cp.cuda.Stream(non_blocking=True, priority=greatest)",
                "cudart.cudaStreamCreateWithPriority(2, greatest)[1].x",
            ),
        ),
        "soundness",
        "AttributeError",
    ),
    Right("numbers", (("least)", "0)"), ("(least + greatest) // 2", "-1"), ("priority=greatest", "priority=-2"))),
    Right("clamped", (("priority=greatest", "priority=-1000"), ("priority=least", "priority=1000"))),
    Right(
        "runtime calls",
        source="""
class Made:
    def __init__(self, handle):
        self.handle = int(handle)
    def __cuda_stream__(self):
        return 0, self.handle

def three_streams():
    error, least, greatest = cudart.cudaDeviceGetStreamPriorityRange()
    made = []
    for priority in (least, (least + greatest) // 2, greatest):
        error, stream = cudart.cudaStreamCreateWithPriority(cudart.cudaStreamNonBlocking, priority)
        made.append(cp.cuda.Stream.from_external(Made(stream)))
    return made
""",
    ),
    Right(
        "set afterwards",
        source="""
def three_streams():
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
    for stream, priority in zip(streams, (0, -1, -5)):
        value = cudart.cudaStreamAttrValue()
        value.priority = priority
        cudart.cudaStreamSetAttribute(stream.ptr, cudart.cudaStreamAttrID.cudaLaunchAttributePriority, value)
    return tuple(streams)
""",
    ),
    Wrong(
        "one stream for all",
        (("return background, normal, urgent", "return urgent, urgent, urgent"),),
        "correctness",
        "no streams",
        cheat=True,
    ),
    Wrong(
        "the NULL stream in the background",
        (("return background,", "return cp.cuda.Stream.null,"),),
        "efficiency",
        _NULL,
        cheat=True,
    ),
    Wrong(
        "waits",
        (("    return", "    cp.cuda.Device().synchronize()\n    urgent.record().synchronize()\n    return"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong(
        "polls",
        (("    return", "    while not urgent.done:\n        pass\n    return"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong("nothing", (("    error,", "    return\n    error,"),), "correctness", "no streams", cheat=True),
)

# --- 12.2 ---

_FREE = "calls in which nothing orders reply behind crunch (%)"
_AHEAD = "kernels of the batch that start between the call of reply and its start"
_OVERTAKEN = "kernels of the batch that crunch overtakes"
_BODY = """def respond(produce, crunch, reply, low, high):
"""

ANSWERS_12_2 = table(
    "12.2",
    Wrong(
        "the event in front of crunch, produce in low",
        (),
        "efficiency",
        _AHEAD,
        source=_BODY
        + """    produce(low)
    high.wait_event(low.record())
    crunch(low)
    reply(high)
    low.wait_event(high.record())
""",
    ),
    Wrong(
        "produce is urgent, the event still behind crunch",
        (),
        "efficiency",
        _FREE,
        source=_BODY
        + """    produce(high)
    low.wait_event(high.record())
    crunch(low)
    high.wait_event(low.record())
    reply(high)
    low.wait_event(high.record())
""",
    ),
    Wrong(
        "low does not wait for produce",
        (("    low.wait_event(high.record())  # crunch reads what produce writes\n", ""),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "low does not wait for reply",
        (("    low.wait_event(high.record())  # later work in low reads what reply writes\n", ""),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "waits the wrong way round",
        (("low.wait_event(high.record())  # crunch", "high.wait_event(low.record())  # crunch"),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "an event that was never recorded",
        (("low.wait_event(high.record())  # crunch", "low.wait_event(cp.cuda.Event())  # crunch"),),
        "soundness",
        "hazard",
        mistake="had not been recorded",
    ),
    Wrong("all in low", (("produce(high)", "produce(low)"), ("reply(high)", "reply(low)")), "efficiency", _AHEAD),
    Wrong(
        "a stream of its own without priority",
        (
            (
                "produce(high)",
                "aside = cp.cuda.Stream(non_blocking=True)\n    produce(aside)\n    high.wait_event(aside.record())",
            ),
        ),
        "efficiency",
        _AHEAD,
    ),
    Wrong("reply left out", (("    reply(high)\n", ""),), "correctness", "wrong values"),
    Wrong(
        "the host waits for produce",
        (("low.wait_event(high.record())  # crunch", "high.synchronize()  # crunch"),),
        "efficiency",
        _HOST,
    ),
    Right(
        "reply first, one event for both",
        source=_BODY
        + """    produce(high)
    reply(high)
    low.wait_event(high.record())
    crunch(low)
""",
    ),
    Right(
        "a stream of the highest priority of its own",
        source=_BODY
        + """    error, least, greatest = cudart.cudaDeviceGetStreamPriorityRange()
    aside = cp.cuda.Stream(non_blocking=True, priority=greatest)
    produce(aside)
    made = aside.record()
    low.wait_event(made)
    high.wait_event(made)
    crunch(low)
    reply(high)
    low.wait_event(high.record())
""",
    ),
    Right(
        "runtime calls, crunch in a stream of low priority of its own",
        source=_BODY
        + """    events = [cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)[1] for _ in range(3)]
    made, replied, done = events
    aside = cp.cuda.Stream(non_blocking=True)
    produce(high)
    cudart.cudaEventRecord(made, high.ptr)
    cudart.cudaStreamWaitEvent(aside.ptr, made, 0)
    crunch(aside)
    cudart.cudaEventRecord(done, aside.ptr)
    reply(high)
    cudart.cudaEventRecord(replied, high.ptr)
    for event in (replied, done):
        cudart.cudaStreamWaitEvent(low.ptr, event, 0)
""",
    ),
    Wrong(
        "all in high",
        (),
        "efficiency",
        _OVERTAKEN,
        source=_BODY
        + """    produce(high)
    reply(high)
    crunch(high)
    low.wait_event(high.record())
""",
        cheat=True,
    ),
    Wrong(
        "the batch is waited for",
        (("    produce(high)\n", "    cp.cuda.Device().synchronize()\n    produce(high)\n"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong(
        "polls",
        (("    reply(high)\n", "    while not high.done:\n        pass\n    reply(high)\n"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong(
        "nothing",
        (("    produce(high)\n", "    return\n    produce(high)\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "everything twice",
        (("    produce(high)\n", "    produce(high)\n    produce(high)\n"),),
        "correctness",
        "wrong launches",
        cheat=True,
    ),
)

# --- 12.3 ---

_EARLY = "urgent kernels that are done before the batch is (%)"
_BUSIEST = "items that one block takes"
_SOLUTION = "    work(0, count, -(-count // 4), stream)"

ANSWERS_12_3 = table(
    "12.3",
    Wrong("twice as many blocks", (("-(-count // 4)", "2 * places"),), "efficiency", _BUSIEST),
    Wrong("fewer blocks", (("-(-count // 4)", "max(1, places // 2)"),), "efficiency", _BUSIEST),
    Wrong("a single block", (("-(-count // 4)", "1"),), "efficiency", _BUSIEST),
    Wrong("rounded down", (("-(-count // 4)", "count // 4"),), "soundness", "ValueError"),
    Wrong(
        "the last items left out",
        (("0, count, -(-count // 4)", "0, count // 4 * 4, max(1, count // 4)"),),
        "correctness",
        "wrong items",
    ),
    Wrong(
        "pieces that overlap",
        (
            (
                _SOLUTION,
                "    half = count // 2\n    work(0, half + 1, half + 1, stream)\n    work(half, count, count, stream)",
            ),
        ),
        "correctness",
        "wrong items",
    ),
    Wrong(
        "a launch for each item",
        ((_SOLUTION, "    for item in range(count):\n        work(item, item + 1, 1, stream)"),),
        "soundness",
        "RuntimeError",
    ),
    Wrong(
        "a launch for each hundred items",
        ((_SOLUTION, "    for at in range(0, count, 100):\n        work(at, min(count, at + 100), 100, stream)"),),
        "efficiency",
        "launches",
    ),
    Wrong(
        "a stream of its own",
        ((_SOLUTION, "    aside = cp.cuda.Stream(non_blocking=True)\n    work(0, count, -(-count // 4), aside)"),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "as urgent as the urgent kernel",
        (
            (
                _SOLUTION,
                "    own = cp.cuda.Stream(non_blocking=True, priority=-5)\n    work(0, count, -(-count // 4), own)\n"
                "    stream.wait_event(own.record())",
            ),
        ),
        "efficiency",
        _EARLY,
    ),
    Right("one item for each block", (("-(-count // 4)", "count"),)),
    Right("rounds of places", (("-(-count // 4)", "max(1, 8 * places)"),)),
    *(
        Right(
            f"{parts} launches, one behind the other",
            (
                (
                    _SOLUTION,
                    f"    cuts = [count * part // {parts} for part in range({parts + 1})]\n"
                    "    for begin, end in zip(cuts[:-1], cuts[1:]):\n"
                    "        if end > begin:\n            work(begin, end, min(places, end - begin), stream)",
                ),
            ),
        )
        for parts in (12, 24, 32)
    ),
    Right(
        "pieces, one behind the other",
        (
            (
                _SOLUTION,
                "    for begin in range(0, count, 3 * places):\n"
                "        end = min(count, begin + 3 * places)\n        work(begin, end, places, stream)",
            ),
        ),
    ),
    Right(
        "a stream of its own, joined",
        (
            (
                _SOLUTION,
                "    aside = cp.cuda.Stream(non_blocking=True)\n    aside.wait_event(stream.record())\n"
                "    work(0, count, count, aside)\n    stream.wait_event(aside.record())",
            ),
        ),
    ),
    Wrong(
        "nothing where it is measured",
        (("    work(", "    if count > 10 * places:\n        return\n    work("),),
        "correctness",
        "wrong items",
        cheat=True,
    ),
    Wrong("everything twice", ((_SOLUTION, _SOLUTION + "\n" + _SOLUTION),), "correctness", "wrong items", cheat=True),
    Wrong("waits", ((_SOLUTION, _SOLUTION + "\n    stream.synchronize()"),), "efficiency", _HOST, cheat=True),
    Wrong(
        "polls",
        ((_SOLUTION, _SOLUTION + "\n    while not stream.done:\n        pass"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong(
        "one block of many items, the rest of few",
        (
            (
                _SOLUTION,
                "    half = count // 2\n    if half:\n        work(0, half, 1, stream)\n"
                "    work(half, count, count - half, stream)",
            ),
        ),
        "efficiency",
        _BUSIEST,
        cheat=True,
    ),
)
