"""Answers to 15.3, 15.4 and 15.5."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

# --- 15.3 ---

_APART = "rounds whose blur and edges may run side by side (%)"
_START = "        start.record(a)\n        b.wait_event(start)\n"
_DONE = "        done.record(b)\n        a.wait_event(done)\n"

ANSWERS_15_3 = table(
    "15.3",
    Wrong(
        "the join before edges",
        (
            ("        edges(b)\n        done.record(b)\n", "        done.record(b)\n        edges(b)\n"),
            ("    return", "    done.record(b)\n    a.wait_event(done)\n    return"),
        ),
        "soundness",
        "hazard",
    ),
    Wrong(
        "the fork once",
        ((_START, ""), ("    for", "    start.record(a)\n    b.wait_event(start)\n    for")),
        "soundness",
        "hazard",
    ),
    Wrong(
        "no join at the end of a round",
        ((_DONE, ""), ("    return", "    done.record(b)\n    a.wait_event(done)\n    return")),
        "soundness",
        "hazard",
    ),
    Wrong("no join at all", ((_DONE, ""),), "soundness", "cudaErrorStreamCaptureUnjoined"),
    Wrong("one stream", (("edges(b)", "edges(a)"),), "efficiency", _APART),
    Wrong(
        "edges behind blur",
        ((_START, ""), ("        blur(a)\n", "        blur(a)\n" + _START)),
        "efficiency",
        _APART,
    ),
    Wrong(
        "mix in the other stream",
        (("        mix(a)\n", "        mix(b)\n"),),
        "soundness",
        "cudaErrorStreamCaptureUnjoined",
    ),
    Wrong("no graph", (("return a.end_capture()", "a.end_capture()"),), "correctness", "no graph"),
    Wrong("one round", (("range(rounds)", "range(1)"),), "correctness", "wrong values", cheat=True),
    Wrong(
        "nothing for many rounds",
        (("range(rounds)", "range(rounds if rounds < 5 else 1)"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "runs instead of capturing",
        (("    a.begin_capture()\n", ""), ("    return", "    a.begin_capture()\n    return")),
        "correctness",
        "not captured",
        cheat=True,
    ),
    Wrong(
        "waits for the device",
        ((_DONE, "        cp.cuda.Device().synchronize()\n"),),
        "soundness",
        "cudaErrorStreamCaptureUnsupported",
        cheat=True,
    ),
    Right("events of its own in each round", (("        start.record(a)\n", "        start = a.record()\n"),)),
    Right(
        "edges in the first stream",
        (("blur(a)", "blur(b)"), ("        edges(b)\n", "        edges(a)\n")),
    ),
    Right(
        "runtime calls",
        source="""
def capture(rounds, blur, edges, mix, a, b):
    _, start = cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)
    _, done = cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)
    a.begin_capture()
    for _ in range(rounds):
        cudart.cudaEventRecord(start, a.ptr)
        cudart.cudaStreamWaitEvent(b.ptr, start, 0)
        edges(b)
        blur(a)
        cudart.cudaEventRecord(done, b.ptr)
        cudart.cudaStreamWaitEvent(a.ptr, done, 0)
        mix(a)
    return a.end_capture()
""",
    ),
)

# --- 15.4 ---

_AHEAD = "frames that are launched while the one before may be at work (%)"
_WAIT = "            ended[slot].synchronize()\n"
_RECORD = "            ended[slot].record(stream)\n"

ANSWERS_15_4 = table(
    "15.4",
    Wrong(
        "waits for all of the stream", (("ended[slot].synchronize()", "stream.synchronize()"),), "efficiency", _AHEAD
    ),
    Wrong(
        "waits behind each launch", ((_RECORD, _RECORD + "            stream.synchronize()\n"),), "efficiency", _AHEAD
    ),
    Wrong("no wait", ((_WAIT, ""),), "soundness", "hazard"),
    Wrong(
        "waits for the other slot",
        (("ended[slot].synchronize()", "ended[1 - slot].synchronize()"),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "the event before the launch",
        (
            (_RECORD, ""),
            (
                "            graphs[slot].launch",
                "            ended[slot].record(stream)\n            graphs[slot].launch",
            ),
        ),
        "soundness",
        "hazard",
    ),
    Wrong(
        "fills before it waits",
        (),
        "soundness",
        "hazard",
        source="""
def two_slots(frames, results, inbox, outbox, x, y, work, stream):
    graphs, ended = [], [cp.cuda.Event(), cp.cuda.Event()]
    for slot in range(2):
        stream.begin_capture()
        x[slot].data.copy_from_host_async(inbox[slot].ctypes.data, x[slot].nbytes, stream)
        work(slot, stream)
        y[slot].data.copy_to_host_async(outbox[slot].ctypes.data, y[slot].nbytes, stream)
        graphs.append(stream.end_capture())
    for number, frame in enumerate(frames):
        slot = number % 2
        inbox[slot][:] = frame
        if number >= 2:
            ended[slot].synchronize()
            results[number - 2][:] = outbox[slot]
        graphs[slot].launch(stream)
        ended[slot].record(stream)
    stream.synchronize()
    for number in range(max(0, len(frames) - 2), len(frames)):
        results[number][:] = outbox[number % 2]
""",
    ),
    Wrong(
        "the last two stay in their outbox",
        (("range(count + 2)", "range(count)"),),
        "correctness",
        "wrong values",
        mistake="nothing was taken out",
    ),
    Wrong(
        "both graphs for slot 0",
        (("inbox[slot].ctypes", "inbox[0].ctypes"), ("outbox[slot].ctypes", "outbox[0].ctypes")),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "copies outside of the graphs",
        (),
        "efficiency",
        "calls that copy",
        source="""
def two_slots(frames, results, inbox, outbox, x, y, work, stream):
    graphs, ended = [], [cp.cuda.Event(), cp.cuda.Event()]
    for slot in range(2):
        stream.begin_capture()
        work(slot, stream)
        graphs.append(stream.end_capture())
    count = len(frames)
    for number in range(count + 2):
        slot = number % 2
        if number >= 2:
            ended[slot].synchronize()
            results[number - 2][:] = outbox[slot]
        if number < count:
            inbox[slot][:] = frames[number]
            x[slot].set(inbox[slot], stream=stream)
            graphs[slot].launch(stream)
            y[slot].get(stream=stream, out=outbox[slot], blocking=False)
            ended[slot].record(stream)
""",
    ),
    Wrong(
        "a graph for each frame",
        (),
        "efficiency",
        "graphs that are made",
        source="""
def two_slots(frames, results, inbox, outbox, x, y, work, stream):
    ended = [cp.cuda.Event(), cp.cuda.Event()]
    graphs = []
    count = len(frames)
    for number in range(count + 2):
        slot = number % 2
        if number >= 2:
            ended[slot].synchronize()
            results[number - 2][:] = outbox[slot]
        if number < count:
            inbox[slot][:] = frames[number]
            stream.begin_capture()
            x[slot].data.copy_from_host_async(inbox[slot].ctypes.data, x[slot].nbytes, stream)
            work(slot, stream)
            y[slot].data.copy_to_host_async(outbox[slot].ctypes.data, y[slot].nbytes, stream)
            graphs.append(stream.end_capture())
            graphs[-1].launch(stream)
            ended[slot].record(stream)
""",
        cheat=True,
    ),
    Wrong(
        "polls",
        ((_WAIT, "            while not ended[slot].done:\n                pass\n"),),
        "efficiency",
        "queries of the host",
        cheat=True,
    ),
    Wrong(
        "computed on the host",
        (
            ("results[number - 2][:] = outbox[slot]", "results[number - 2][:] = frames[number - 2] / 2"),
            ("            graphs[slot].launch(stream)\n", ""),
        ),
        "efficiency",
        "frames that a graph works on (%)",
        cheat=True,
    ),
    Wrong(
        "each frame twice",
        (
            (
                "            graphs[slot].launch(stream)\n",
                "            graphs[slot].launch(stream)\n            graphs[slot].launch(stream)\n",
            ),
        ),
        "efficiency",
        "frames that a graph works on (%)",
        cheat=True,
    ),
    Wrong(
        "nothing when there is much",
        (("    count = len(frames)\n", "    count = len(frames)\n    if count > 6:\n        return\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Right(
        "takes the results behind the launch",
        source="""
def two_slots(frames, results, inbox, outbox, x, y, work, stream):
    def captured(slot):
        stream.begin_capture()
        x[slot].data.copy_from_host_async(inbox[slot].ctypes.data, x[slot].nbytes, stream)
        work(slot, stream)
        y[slot].data.copy_to_host_async(outbox[slot].ctypes.data, y[slot].nbytes, stream)
        return stream.end_capture()

    graphs = captured(0), captured(1)
    pending = None
    for number, frame in enumerate(frames):
        slot = number % 2
        inbox[slot][:] = frame
        graphs[slot].launch(stream)
        event = stream.record()
        if pending is not None:
            other, behind = pending
            behind.synchronize()
            results[other][:] = outbox[other % 2]
        pending = number, event
    stream.synchronize()
    results[pending[0]][:] = outbox[pending[0] % 2]
""",
    ),
    Right(
        "runtime calls",
        (
            (
                "stream.begin_capture()",
                "mode = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal\n"
                "        cudart.cudaStreamBeginCapture(stream.ptr, mode)",
            ),
            (
                "graphs.append(stream.end_capture())",
                "graphs.append(cudart.cudaGraphInstantiate(cudart.cudaStreamEndCapture(stream.ptr)[1], 0)[1])",
            ),
            ("graphs[slot].launch(stream)", "cudart.cudaGraphLaunch(graphs[slot], stream.ptr)"),
        ),
    ),
    Right(
        "uploaded first",
        (
            (
                "    count = len(frames)\n",
                "    for graph in graphs:\n        graph.upload(stream)\n    count = len(frames)\n",
            ),
        ),
    ),
)

# --- 15.5 ---

_EACH = "    length = {int(node): 1 for node in nodes}\n"
_STEP = "length[int(second)] = max(length[int(second)], length[int(first)] + 1)"

ANSWERS_15_5 = table(
    "15.5",
    Wrong(
        "counts the edges of the path",
        ((": 1 for", ": 0 for"),),
        "correctness",
        "wrong values",
        mistake="counts edges, not nodes",
    ),
    Wrong("goes through the edges once", (("range(count)", "range(1)"),), "correctness", "wrong values"),
    Wrong(
        "adds up all predecessors",
        ((_STEP, "length[int(second)] += length[int(first)]"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "the last edge counts",
        ((_STEP, "length[int(second)] = length[int(first)] + 1"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "edges turned round, and once",
        (
            (_STEP, "length[int(first)] = max(length[int(first)], length[int(second)] + 1)"),
            ("range(count)", "range(1)"),
        ),
        "correctness",
        "wrong values",
    ),
    Wrong("handles as keys", ((_EACH, "    length = {node: 1 for node in nodes}\n"),), "soundness", "KeyError"),
    Wrong(
        "asks once only",
        (("    edges = cudart.cudaGraphGetEdges(graph, 0)[-1]\n", "    edges = 0\n"),),
        "correctness",
        "wrong values",
    ),
    Wrong("always 3", (), "correctness", "wrong values", source="def longest(graph):\n    return 3\n", cheat=True),
    Wrong(
        "the number of nodes",
        (),
        "correctness",
        "wrong values",
        source="def longest(graph):\n    return cudart.cudaGraphGetNodes(graph, 0)[-1]\n",
        mistake="number of nodes",
        cheat=True,
    ),
    Wrong(
        "gives up on large graphs",
        (("range(count)", "range(min(count, 2))"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong("nothing", (), "correctness", "no value", source="def longest(graph):\n    pass\n", cheat=True),
    Right(
        "recursion",
        source="""
def longest(graph):
    _, nodes, count = cudart.cudaGraphGetNodes(graph, cudart.cudaGraphGetNodes(graph, 0)[-1])
    behind = {int(node): [] for node in nodes}
    _, before, after, _, edges = cudart.cudaGraphGetEdges(graph, cudart.cudaGraphGetEdges(graph, 0)[-1])
    for first, second in zip(before, after):
        behind[int(second)].append(int(first))
    known = {}

    def depth(node):
        if node not in known:
            known[node] = 1 + max((depth(other) for other in behind[node]), default=0)
        return known[node]

    return max(depth(node) for node in behind)
""",
    ),
    Right(
        "takes roots away, round by round",
        source="""
def longest(graph):
    _, nodes, count = cudart.cudaGraphGetNodes(graph, cudart.cudaGraphGetNodes(graph, 0)[-1])
    _, before, after, _, edges = cudart.cudaGraphGetEdges(graph, cudart.cudaGraphGetEdges(graph, 0)[-1])
    left = {int(node) for node in nodes}
    edges = [(int(a), int(b)) for a, b in zip(before, after)]
    rounds = 0
    while left:
        blocked = {b for a, b in edges if a in left}
        left = left & blocked
        rounds += 1
    return rounds
""",
    ),
    Right(
        "the driver's names",
        (
            ("cudart.cudaGraphGetNodes", "driver.cuGraphGetNodes"),
            ("cudart.cudaGraphGetEdges", "driver.cuGraphGetEdges"),
        ),
    ),
)
