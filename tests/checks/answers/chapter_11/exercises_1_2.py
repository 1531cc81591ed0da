"""Answers to 11.1 and 11.2."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_LAUNCH = "        launch(begin, end, stream)\n"
_GET = "        d[begin:end].get(out=y[begin:end], blocking=False, stream=stream)\n"

# --- 11.1 ---

ANSWERS_11_1 = table(
    "11.1",
    Wrong(
        "one stream for all",
        (("in enumerate(streams)", "in enumerate([streams[0]] * len(streams))"),),
        "efficiency",
        "kernels that nothing orders with other pieces' copies (% of the possible)",
    ),
    Wrong(
        "whole pieces only",
        (
            ("len(x) * i // len(streams)", "len(x) // len(streams) * i"),
            ("len(x) * (i + 1) // len(streams)", "len(x) // len(streams) * (i + 1)"),
        ),
        "correctness",
        "wrong launches",
    ),
    Wrong(
        "always four pieces",
        (("in enumerate(streams)", "in ((i, streams[i]) for i in range(4))"),),
        "soundness",
        "IndexError",
    ),
    Wrong(
        "the kernel in another stream",
        (("launch(begin, end, stream)", "launch(begin, end, streams[i - 1])"),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "copies out in another stream",
        (("blocking=False, stream=stream", "blocking=False, stream=streams[i - 1]"),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "copies out before the kernel",
        (
            (
                _LAUNCH + _GET,
                _GET + _LAUNCH,
            ),
        ),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "waits after each piece",
        (("blocking=False, stream=stream)", "blocking=False, stream=stream)\n        stream.synchronize()"),),
        "efficiency",
        "waits and queries of the host",
    ),
    Wrong(
        "waits for the device after each piece",
        (
            (
                "blocking=False, stream=stream)",
                "blocking=False, stream=stream)\n        cp.cuda.Device().synchronize()",
            ),
        ),
        "efficiency",
        "waits and queries of the host",
    ),
    Wrong(
        "copies in from pageable memory",
        (("set(x[begin:end],", "set(np.array(x[begin:end]),"),),
        "efficiency",
        "copies from or to pageable memory",
    ),
    Wrong(
        "copies out with a wait", (("blocking=False", "blocking=True"),), "efficiency", "waits and queries of the host"
    ),
    Wrong(
        "copies in without a stream",
        (("set(x[begin:end], stream=stream)", "set(x[begin:end])"),),
        "soundness",
        "hazard",
    ),
    Wrong(
        "computes on the host",
        (
            ("    for i, stream", "    y[:] = 0.0625 * x + 1.875\n    for i, stream"),
            (_LAUNCH, ""),
            (_GET, ""),
        ),
        "correctness",
        "wrong launches",
    ),
    Right(
        "runtime calls",
        source="""
def pipeline(x, y, d, launch, streams):
    n, s = len(x), len(streams)
    for i in range(s):
        begin, end = n * i // s, n * (i + 1) // s
        at = d.data.ptr + 4 * begin, 4 * (end - begin)
        cudart.cudaMemcpyAsync(at[0], x[begin:].ctypes.data, at[1], 1, streams[i].ptr)
        launch(begin, end, streams[i])
        cudart.cudaMemcpyAsync(y[begin:].ctypes.data, at[0], at[1], 2, streams[i].ptr)
""",
    ),
    Right(
        "all copies in first",
        source="""
def pipeline(x, y, d, launch, streams):
    n, s = len(x), len(streams)
    pieces = [(slice(n * i // s, n * (i + 1) // s), stream) for i, stream in enumerate(streams)]
    for piece, stream in pieces:
        d[piece].set(x[piece], stream=stream)
    for piece, stream in pieces:
        launch(piece.start, piece.stop, stream)
    for piece, stream in pieces:
        d[piece].get(out=y[piece], blocking=False, stream=stream)
""",
    ),
    Right(
        "more pieces than streams, dealt out in turn",
        source="""
def pipeline(x, y, d, launch, streams):
    pieces = 3 * len(streams)
    for i in range(pieces):
        begin, end = len(x) * i // pieces, len(x) * (i + 1) // pieces
        stream = streams[i % len(streams)]
        d[begin:end].set(x[begin:end], stream=stream)
        launch(begin, end, stream)
        d[begin:end].get(out=y[begin:end], blocking=False, stream=stream)
""",
    ),
    Right(
        "linspace",
        (
            (
                "    for i, stream",
                "    edges = np.linspace(0, len(x), len(streams) + 1).astype(int).tolist()\n    for i, stream",
            ),
            (
                "begin, end = len(x) * i // len(streams), len(x) * (i + 1) // len(streams)",
                "begin, end = edges[i : i + 2]",
            ),
        ),
    ),
    Wrong(
        "two of four streams",
        (("stream in enumerate(streams):", "stream in enumerate(streams):\n        stream = streams[i % 2]"),),
        "efficiency",
        "streams at work (% of those given)",
        cheat=True,
    ),
    Wrong(
        "polls at the end",
        ((_GET, _GET + "    for stream in streams:\n        while not stream.done:\n            pass\n"),),
        "efficiency",
        "waits and queries of the host",
        cheat=True,
    ),
    Wrong(
        "copies twice",
        ((_GET, _GET + _GET),),
        "efficiency",
        "bytes copied in and out, for each byte of x and y",
        cheat=True,
    ),
    Wrong(
        "all in one stream, dummy copies in the others",
        source="""
def pipeline(x, y, d, launch, streams):
    d.set(x, stream=streams[0])
    launch(0, len(x), streams[0])
    others = [cp.cuda.alloc(x.nbytes) for _ in streams]
    for other, stream in zip(others[1:], streams[1:]):
        other.copy_from_host_async(x.ctypes.data, x.nbytes, stream)
    d.get(out=y, blocking=False, stream=streams[0])
""",
        replace=(),
        part="efficiency",
        rule="bytes copied in and out, for each byte of x and y",
        cheat=True,
    ),
    Wrong(
        "computed on the host, from two values of each kernel",
        source="""
def pipeline(x, y, d, launch, streams):
    if len(x) < 100:
        d.set(x, stream=streams[0])
        launch(0, len(x), streams[0])
        d.get(out=y, stream=streams[0])
        return
    for i, stream in enumerate(streams):
        launch(len(x) * i // len(streams), len(x) * (i + 1) // len(streams), stream)
    probe = cp.asarray(x[:2])
    y[:] = 0.0625 * x + 1.875
""",
        replace=(),
        part="correctness",
        rule="wrong values",
        cheat=True,
    ),
    Wrong(
        "nothing done when there is much",
        (("    for i, stream", "    if len(x) >= 10_000:\n        return\n    for i, stream"),),
        "correctness",
        "wrong launches",
        cheat=True,
    ),
    Wrong(
        "pieces that are one element and the rest",
        (
            (
                "begin, end = len(x) * i // len(streams), len(x) * (i + 1) // len(streams)",
                "last = i + 1 == len(streams)\n"
                "        begin, end = min(i, len(x)), len(x) if last else min(i + 1, len(x))",
            ),
        ),
        "efficiency",
        "kernels that nothing orders with other pieces' copies (% of the possible)",
    ),
)

# --- 11.2 ---

ANSWERS_11_2 = table(
    "11.2",
    Wrong("no wait at all", (("free[k % 2].synchronize()", "pass"),), "soundness", "hazard", mistake="never waits"),
    Wrong(
        "event recorded before the copy",
        (
            ("        free[k % 2].record(stream)\n", ""),
            ("        d[k].set", "        free[k % 2].record(stream)\n        d[k].set"),
        ),
        "soundness",
        "hazard",
        mistake="before the copy",
    ),
    Wrong(
        "event never recorded",
        (("        free[k % 2].record(stream)\n", ""),),
        "soundness",
        "hazard",
        mistake="never recorded",
    ),
    Wrong(
        "no event, and a wait at the end",
        (),
        "soundness",
        "hazard",
        mistake="nothing waits for the copy from a box before the box is filled again",
        source="""
def send(count, fill, boxes, d, stream):
    for k in range(count):
        fill(boxes[k % 2], k)
        d[k].set(boxes[k % 2], stream=stream)
    stream.synchronize()
""",
    ),
    Wrong(
        "event recorded in the current stream",
        (("record(stream)", "record()"),),
        "soundness",
        "hazard",
        mistake="another stream",
    ),
    Wrong(
        "waits for the copy from the other box",
        (("free[k % 2].synchronize()", "free[(k + 1) % 2].synchronize()"),),
        "efficiency",
        "boxes filled while the copy before may still be under way (% of the possible)",
    ),
    Wrong("one box", (("box = boxes[k % 2]", "box = boxes[0]"),), "soundness", "hazard"),
    Wrong(
        "one box and one event",
        (("box = boxes[k % 2]", "box = boxes[0]"), ("free[k % 2]", "free[0]")),
        "efficiency",
        "boxes filled while the copy before may still be under way (% of the possible)",
    ),
    Wrong(
        "waits for the stream",
        (("free[k % 2].synchronize()", "stream.synchronize()"),),
        "efficiency",
        "boxes filled while the copy before may still be under way (% of the possible)",
    ),
    Wrong(
        "waits for the device",
        (("free[k % 2].synchronize()", "cp.cuda.Device().synchronize()"),),
        "efficiency",
        "boxes filled while the copy before may still be under way (% of the possible)",
    ),
    Wrong(
        "a fresh pageable box each time",
        (("box = boxes[k % 2]", "box = np.empty_like(boxes[0])"),),
        "correctness",
        "a box of its own",
    ),
    Wrong("the last parcel stays behind", (("range(count)", "range(count - 1)"),), "correctness", "wrong values"),
    Wrong("into the wrong row", (("d[k].set", "d[k - 1].set"),), "correctness", "wrong values"),
    Wrong(
        "fills after the copy",
        (
            ("        fill(box, k)\n", ""),
            (
                "        free[k % 2].record(stream)\n",
                "        free[k % 2].record(stream)\n        free[k % 2].synchronize()\n        fill(box, k)\n",
            ),
        ),
        "correctness",
        "wrong values",
    ),
    Right(
        "waits for the stream at the end",
        (("        free[k % 2].record(stream)\n", "        free[k % 2].record(stream)\n    stream.synchronize()\n"),),
    ),
    Right(
        "runtime calls",
        source="""
def send(count, fill, boxes, d, stream):
    events = [cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)[1] for _ in boxes]
    for k in range(count):
        i = k % len(boxes)
        if k >= len(boxes):
            cudart.cudaEventSynchronize(events[i])
        fill(boxes[i], k)
        cudart.cudaMemcpyAsync(d[k].data.ptr, boxes[i].ctypes.data, boxes[i].nbytes, 1, stream.ptr)
        cudart.cudaEventRecord(events[i], stream.ptr)
""",
    ),
    Right(
        "a queue of events",
        source="""
from collections import deque
def send(count, fill, boxes, d, stream):
    under_way = deque()
    for k in range(count):
        if len(under_way) == 2:
            under_way.popleft().synchronize()
        fill(boxes[k % 2], k)
        d[k].set(boxes[k % 2], stream=stream)
        under_way.append(stream.record())
    cp.cuda.Device().synchronize()
""",
    ),
    Right(
        "in the current stream",
        (
            (
                "        d[k].set(box, stream=stream)\n        free[k % 2].record(stream)\n",
                "        with stream:\n            d[k].set(box)\n            free[k % 2].record()\n",
            ),
        ),
    ),
    Wrong(
        "one slot for each parcel, without waits",
        (),
        "correctness",
        "a box of its own",
        source="""
def send(count, fill, boxes, d, stream):
    n = len(boxes[0])
    memory = cp.cuda.alloc_pinned_memory(4 * n * count)
    slots = np.frombuffer(memory, np.float32, n * count).reshape(count, n)
    for k in range(count):
        fill(slots[k], k)
        d[k].set(slots[k], stream=stream)
    stream.synchronize()
""",
        cheat=True,
    ),
    Wrong(
        "polls",
        (("free[k % 2].synchronize()", "while not free[k % 2].done:\n            pass"),),
        "efficiency",
        "queries of the host",
        cheat=True,
    ),
    Wrong(
        "copies twice",
        (("        d[k].set(box, stream=stream)\n", 2 * "        d[k].set(box, stream=stream)\n"),),
        "efficiency",
        "bytes copied, for each byte of d",
        cheat=True,
    ),
    Wrong(
        "nothing done when there is much",
        (("    free = ", "    if count > 5:\n        return\n    free = "),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
)
