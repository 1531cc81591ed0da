"""Answers to 12.4 and 12.5."""

from __future__ import annotations

from cudalab.checks.chapter_12.starts import CALLS, LATE, OVERTAKING
from cudalab.checks.streams import HOST
from tests.checks.answers.answer import Right, Wrong, table

_C, _E, _V = "correctness", "efficiency", "wrong values"

# --- 12.4 ---

_CLAMP = "max(greatest, min(least, rest[-1]))"
_KEY = "key=lambda each: each[0]"
ANSWERS_12_4 = table(
    "12.4",
    Right("with NumPy", ((_CLAMP, "int(np.clip(rest[-1], greatest, least))"),)),
    Right(
        "one pending kernel after the other",
        source="""
def start_order(steps, least, greatest):
    streams, pending, order = [], [], []
    for step in steps:
        match step:
            case ("stream", asked):
                streams.append(sorted((greatest, asked, least))[1])
            case ("change", stream, asked):
                streams[stream] = sorted((greatest, asked, least))[1]
            case ("launch", name, stream):
                pending.append((name, streams[stream]))
    while pending:
        first = min(pending, key=lambda each: each[1])
        pending.remove(first)
        order.append(first[0])
    return order
""",
    ),
    Right(
        "a list for each priority",
        source="""
def start_order(steps, least, greatest):
    queues, streams = {level: [] for level in range(greatest, least + 1)}, {}
    for what, *rest in steps:
        if what == "launch":
            queues[streams[rest[1]]].append(rest[0])
        else:
            number = len(streams) if what == "stream" else rest[0]
            streams[number] = min(max(rest[-1], greatest), least)
    return sum(queues.values(), [])
""",
    ),
    Wrong("the largest first", ((_KEY, "key=lambda each: -each[0]"),), _C, _V, mistake="the largest number first"),
    Wrong("equal ones by name", ((_KEY, "key=None"),), _C, _V, mistake="not that of the names"),
    Wrong(
        "a number outside of the range counts as the default",
        ((_CLAMP, "rest[-1] if greatest <= rest[-1] <= least else 0"),),
        _C,
        _V,
    ),
    Wrong("not clamped", ((_CLAMP, "rest[-1]"),), _C, _V, mistake="they are clamped"),
    Wrong("clamped at one end", ((_CLAMP, "min(least, rest[-1])"),), _C, _V),
    Wrong("the range of one device", ((_CLAMP, "max(-5, min(0, rest[-1]))"),), _C, _V),
    Wrong(
        "no change",
        (("            priorities[rest[0]] = got\n", "            pass\n"),),
        _C,
        _V,
        mistake="a change of a priority holds for what comes",
    ),
    Wrong(
        "changes reach what is launched",
        (
            ("launched.append((priorities[stream], name))", "launched.append((stream, name))"),
            (_KEY, "key=lambda each: priorities[each[0]]"),
        ),
        _C,
        _V,
        mistake="says nothing to what is in the stream already",
    ),
    Wrong(
        "by the stream's number",
        (("launched.append((priorities[stream], name))", "launched.append(((priorities[stream], stream), name))"),),
        _C,
        _V,
        mistake="not that in which the streams were made",
    ),
    Wrong(
        "equal ones the other way round",
        (("    return [", "    launched = sorted(reversed(launched), key=lambda each: each[0])\n    return ["),),
        _C,
        _V,
    ),
    Wrong("priorities as well", (("[name for _, name in launched]", "launched"),), _C, "wrong shape"),
    Wrong("the first only", (("in launched]", "in launched[:1]]"),), _C, "wrong shape"),
    Wrong(
        "the order of the calls",
        (("    launched.sort(", "    list.sort([], "),),
        _C,
        _V,
        mistake="among pending kernels the priority decides",
        cheat=True,
    ),
    Wrong(
        "the example's", (), _C, "wrong shape", source='def start_order(*given):\n    return ["b", "a"]\n', cheat=True
    ),
    Wrong(
        "asks the device",
        (
            (
                "    priorities, launched",
                "    _, least, greatest = cudart.cudaDeviceGetStreamPriorityRange()\n    priorities, launched",
            ),
        ),
        _E,
        CALLS.name,
        cheat=True,
    ),
    Wrong(
        "makes the streams",
        (
            (
                '        if what == "stream":\n',
                '        if what == "stream":\n            cp.cuda.Stream(non_blocking=True, priority=got)\n',
            ),
        ),
        _E,
        CALLS.name,
        cheat=True,
    ),
    Wrong(
        "nothing",
        (("    priorities, launched", "    return\n    priorities, launched"),),
        _C,
        "wrong shape",
        cheat=True,
    ),
)

# --- 12.5 ---

_INHERIT = """    for number in reversed(range(len(tasks))):
        if hurry[number]:
            for need in tasks[number][1]:
                hurry[need] = True
"""
_JOIN = "    low.wait_event(high.record())"
_LAUNCH = "        launch(stream)\n"
_WAITS = "            stream.wait_event(done[need])\n"
ANSWERS_12_5 = table(
    "12.5",
    Right(
        "from each urgent task back",
        (
            (
                _INHERIT,
                "    left = [number for number in range(len(tasks)) if hurry[number]]\n"
                "    while left:\n"
                "        for need in tasks[left.pop()][1]:\n"
                "            if not hurry[need]:\n"
                "                hurry[need] = True\n"
                "                left.append(need)\n",
            ),
        ),
    ),
    Right("no wait within a stream", ((_WAITS, "            if hurry[need] != hurry[number]:\n    " + _WAITS),)),
    Right(
        "those in a hurry first, then one event",
        (
            (
                "    done = []\n",
                """    for (launch, needs, _), fast in zip(tasks, hurry):
        if fast:
            launch(high)
    low.wait_event(high.record())
    for (launch, needs, _), fast in zip(tasks, hurry):
        if not fast:
            launch(low)
    return
    done = []
""",
            ),
        ),
    ),
    Right(
        "a stream of its own for each",
        source="""
def run_tasks(tasks, low, high):
    def mark(number):
        hurry.add(number)
        for need in tasks[number][1]:
            mark(need)
    hurry, done = set(), []
    for number, task in enumerate(tasks):
        if task[2]:
            mark(number)
    for number, (launch, needs, _) in enumerate(tasks):
        own = cp.cuda.Stream(non_blocking=True, priority=(high if number in hurry else low).priority)
        for need in needs:
            own.wait_event(done[need])
        launch(own)
        done.append(own.record())
    for event in done:
        low.wait_event(event)
""",
    ),
    Wrong(
        "what it needs itself, and no more",
        ((_INHERIT, _INHERIT.replace("reversed(range(len(tasks)))", "range(len(tasks))")),),
        _E,
        LATE.name,
    ),
    Wrong("nothing inherited", ((_INHERIT, ""),), _E, LATE.name),
    Wrong(
        "what needs an urgent one is urgent",
        (
            (
                _INHERIT,
                "    for number, task in enumerate(tasks):\n"
                "        hurry[number] |= any(hurry[need] for need in task[1])\n",
            ),
        ),
        _E,
        LATE.name,
    ),
    Wrong("turned round", (("high if hurry", "low if hurry"), ("] else low", "] else high")), _E, LATE.name),
    Wrong("all in low", (("high if hurry[number] else low", "low"),), _E, LATE.name),
    Wrong(
        "high waits for low before each urgent task",
        ((_LAUNCH, "        if hurry[number]:\n            high.wait_event(low.record())\n" + _LAUNCH),),
        _E,
        LATE.name,
    ),
    Wrong("no waits", ((_WAITS, "            pass\n"),), "soundness", "hazard"),
    Wrong("low goes on without high", ((_JOIN, ""),), "soundness", "hazard"),
    Wrong("joined the wrong way", ((_JOIN, "    high.wait_event(low.record())"),), "soundness", "hazard"),
    Wrong(
        "the event in front of the task",
        ((_LAUNCH + "        done.append(stream.record())", "        done.append(stream.record())\n" + _LAUNCH),),
        "soundness",
        "hazard",
    ),
    Wrong("urgent ones alone", ((_LAUNCH, "        if hurry[number]:\n    " + _LAUNCH),), _C, "wrong launches"),
    Wrong("all in high", (("high if hurry[number] else low", "high"),), _E, OVERTAKING.name, cheat=True),
    Wrong("everything twice", ((_LAUNCH, 2 * _LAUNCH),), _C, "wrong launches", cheat=True),
    Wrong("nothing", (("    done = []\n", "    return\n    done = []\n"),), _C, "wrong launches", cheat=True),
    Wrong(
        "the batch is waited for",
        (("    done = []\n", "    cp.cuda.Device().synchronize()\n    done = []\n"),),
        _E,
        HOST.name,
        cheat=True,
    ),
    Wrong(
        "polls",
        ((_JOIN, "    while not high.done:\n        pass\n" + _JOIN),),
        _E,
        HOST.name,
        cheat=True,
    ),
    Wrong(
        "those in no hurry are as urgent, in a stream of their own",
        (
            ("    done = []\n", "    low, last = cp.cuda.Stream(non_blocking=True, priority=-5), low\n    done = []\n"),
            (_JOIN, _JOIN + "\n    last.wait_event(low.record())"),
        ),
        _E,
        OVERTAKING.name,
        cheat=True,
    ),
)
