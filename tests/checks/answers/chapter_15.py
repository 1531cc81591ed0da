"""Answers to the exercises of chapter 15."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_HOST = "waits and queries of the host"

# --- 15.1 ---

_MADE = "graphs that are made"
_BY_GRAPH = "frames that a graph works on (%)"
_CAPTURE = "    stream.begin_capture()\n    work(stream)\n    graph = stream.end_capture()\n"
_LOOP = "    for frame, result in zip(frames, results, strict=True):\n"
_GET = "        y.get(stream=stream, out=result, blocking=False)\n"

ANSWERS_15_1 = table(
    "15.1",
    Wrong(
        "a graph for each frame",
        ((_CAPTURE, ""), (_LOOP, _LOOP + _CAPTURE.replace("    ", "        "))),
        "efficiency",
        _MADE,
    ),
    Wrong("no graph", ((_CAPTURE, ""), ("graph.launch(stream)", "work(stream)")), "efficiency", _BY_GRAPH),
    Wrong(
        "copies captured as well",
        (),
        "correctness",
        "wrong values",
        mistake="a captured copy keeps its addresses",
        source="""
def process(frames, results, x, y, work, stream):
    stream.begin_capture()
    kind = cudart.cudaMemcpyKind.cudaMemcpyDefault
    cudart.cudaMemcpyAsync(x.data.ptr, frames[0].ctypes.data, x.nbytes, kind, stream.ptr)
    work(stream)
    graph = stream.end_capture()
    for result in results:
        graph.launch(stream)
        y.get(stream=stream, out=result, blocking=False)
""",
    ),
    Wrong(
        "CuPy's copies captured",
        (("    work(stream)\n", "    x.set(frames[0], stream=stream)\n    work(stream)\n"),),
        "soundness",
        "RuntimeError",
    ),
    Wrong("waits for each frame", ((_GET, _GET + "        stream.synchronize()\n"),), "efficiency", _HOST),
    Wrong("a get that waits", ((", blocking=False", ""),), "efficiency", _HOST),
    Wrong("launched into the current stream", (("graph.launch(stream)", "graph.launch()"),), "soundness", "hazard"),
    Wrong(
        "waits in the capture",
        (("    work(stream)\n", "    work(stream)\n    stream.synchronize()\n"),),
        "soundness",
        "cudaErrorStreamCaptureUnsupported",
    ),
    Wrong("copies only in", ((_GET, ""),), "correctness", "wrong values", mistake="nothing was copied back"),
    Wrong(
        "polls",
        ((_GET, _GET + "        while not stream.done:\n            pass\n"),),
        "efficiency",
        _HOST,
        cheat=True,
    ),
    Wrong(
        "makes a graph, and does not use it",
        (("        graph.launch(stream)\n", "        work(stream)\n"),),
        "efficiency",
        _BY_GRAPH,
        cheat=True,
    ),
    Wrong(
        "only the first frame",
        ((_LOOP, "    for frame, result in zip(frames[:1], results, strict=False):\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "computed on the host",
        ((_GET, _GET.replace("y.get(stream=stream, out=result, blocking=False)", "result[:] = frame / 2 + 1")),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "launched twice",
        (("        graph.launch(stream)\n", 2 * "        graph.launch(stream)\n"),),
        "efficiency",
        _BY_GRAPH,
        cheat=True,
    ),
    Right(
        "runtime calls",
        source="""
def process(frames, results, x, y, work, stream):
    cudart.cudaStreamBeginCapture(stream.ptr, cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal)
    work(stream)
    _, graph = cudart.cudaStreamEndCapture(stream.ptr)
    _, executable = cudart.cudaGraphInstantiate(graph, 0)
    to_device, to_host = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    for frame, result in zip(frames, results):
        cudart.cudaMemcpyAsync(x.data.ptr, frame.ctypes.data, frame.nbytes, to_device, stream.ptr)
        cudart.cudaGraphLaunch(executable, stream.ptr)
        cudart.cudaMemcpyAsync(result.ctypes.data, y.data.ptr, result.nbytes, to_host, stream.ptr)
""",
    ),
    Right("uploaded first", ((_LOOP, "    graph.upload(stream)\n" + _LOOP),)),
    Right(
        "captured in a stream of its own",
        (
            (
                _CAPTURE,
                "    aside = cp.cuda.Stream(non_blocking=True)\n"
                + _CAPTURE.replace("stream.", "aside.").replace("(stream)", "(aside)"),
            ),
        ),
    ),
)

# --- 15.2 ---

_LONGEST = "nodes on the longest path, for each that is needed"
_NODES = "nodes, for each that is needed"
_AFTER = "            after = [last[k] for k in (i, i + step) if k in last]\n"

ANSWERS_15_2 = table(
    "15.2",
    Wrong("no edges", ((_AFTER, "            after = []\n"),), "soundness", "hazard"),
    Wrong("only what wrote the first", (("for k in (i, i + step) if", "for k in (i,) if"),), "soundness", "hazard"),
    Wrong(
        "only what wrote the second", (("for k in (i, i + step) if", "for k in (i + step,) if"),), "soundness", "hazard"
    ),
    Wrong("behind everything", (("for k in (i, i + step) if k in last]", "for k in last]"),), "efficiency", _LONGEST),
    Wrong(
        "powers of two only",
        (("range(0, count - step, 2 * step)", "range(0, count & -count, 2 * step)"),),
        "correctness",
        "wrong values",
    ),
    Wrong("stops a round early", (("while step < count:", "while 2 * step < count:"),), "correctness", "wrong values"),
    Wrong(
        "the sum ends elsewhere",
        (("add(after, i, i, i + step)", "add(after, i + step, i, i + step)"), ("last[i] =", "last[i + step] =")),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "two chains",
        (),
        "efficiency",
        _LONGEST,
        source="""
def tree(add, count):
    even, odd = [], []
    for i in range(2, count):
        if i % 2:
            odd = [add(odd, 1, 1, i)]
        else:
            even = [add(even, 0, 0, i)]
    add(even + odd, 0, 0, 1)
""",
    ),
    Wrong("nothing", (), "correctness", "wrong values", source="def tree(add, count):\n    pass\n", cheat=True),
    Wrong(
        "sums that nobody needs",
        (
            (
                "            last[i] = add",
                "            add([], count - 1, count - 1, count - 1)\n            last[i] = add",
            ),
        ),
        "soundness",
        "hazard",
        cheat=True,
    ),
    Wrong(
        "nothing when there is much",
        (("def tree(add, count):\n", "def tree(add, count):\n    if count > 9:\n        return\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "a chain that looks wide",
        (),
        "efficiency",
        _LONGEST,
        source="""
def tree(add, count):
    before = []
    for i in range(count - 1, 0, -1):
        before = [add(before, i - 1, i - 1, i)]
""",
        cheat=True,
    ),
    Right(
        "recursion",
        source="""
def tree(add, count):
    def total(first, last):  # the node whose sum is in x[first], None for a single number
        if last - first == 1:
            return None
        middle = first + 2 ** ((last - first - 1).bit_length() - 1)
        halves = [node for node in (total(first, middle), total(middle, last)) if node is not None]
        return add(halves, first, first, middle)

    total(0, count)
""",
    ),
    Right(
        "round by round, in a list",
        source="""
def tree(add, count):
    left = [(i, []) for i in range(count)]
    while len(left) > 1:
        pairs = [(a, p, b, q) for (a, p), (b, q) in zip(left[::2], left[1::2])]
        rest = left[len(pairs) * 2 :]
        left = [(a, [add(p + q, a, a, b)]) for a, p, b, q in pairs] + rest
""",
    ),
    Right(
        "halves folded onto each other",
        source="""
def tree(add, count):
    last, size = {}, count
    while size > 1:
        half = (size + 1) // 2
        for i in range(size - half):
            last[i] = add([last[k] for k in (i, i + half) if k in last], i, i, i + half)
        size = half
""",
    ),
)

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

ANSWERS = (*ANSWERS_15_1, *ANSWERS_15_2, *ANSWERS_15_3, *ANSWERS_15_4, *ANSWERS_15_5)
