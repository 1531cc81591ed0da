"""Answers to 15.1 and 15.2."""

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
