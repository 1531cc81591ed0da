"""Answers to 08.1, 08.2 and 08.3."""

from __future__ import annotations

from cudalab.checks.chapter_08.pinned import (
    ALLOCATIONS,
    BUFFERS,
    CARRIED,
    COPIES,
    DESKS,
    FILLING,
    LAUNCHES,
    LOCKED,
    MOVED,
    OTHERS,
    POLLS,
    SERVED,
    STAGED,
)
from tests.checks.answers.answer import Right, Wrong, table

# --- 08.1 ---

_REGISTER = "(error,) = cudart.cudaHostRegister(x.ctypes.data, x.nbytes, cudart.cudaHostRegisterDefault)"
_MINE = "    if mine:\n        cudart.cudaHostUnregister(x.ctypes.data)\n"

ANSWERS_08_1 = table(
    "08.1",
    Wrong("never unregisters", ((_MINE, ""),), "correctness", "another kind of memory"),
    Wrong(
        "unregisters what the caller has registered",
        ((_MINE, "    cudart.cudaHostUnregister(x.ctypes.data)\n"),),
        "correctness",
        "another kind of memory",
    ),
    Wrong(
        "stops where x is registered already",
        (("    mine = error == cudart.cudaError_t.cudaSuccess", "    mine = True\n    assert not error"),),
        "soundness",
        "AssertionError",
    ),
    Wrong(
        "unregisters before the copy",
        ((_MINE, ""), ("    d.set", _MINE + "    d.set")),
        "efficiency",
        STAGED.name,
    ),
    Wrong(
        "unregisters before the wait",
        ((_MINE, ""), ("    stream.synchronize()\n", _MINE + "    stream.synchronize()\n")),
        "correctness",
        "unregistered too early",
    ),
    Wrong("registers elements, not bytes", (("x.nbytes", "x.size"),), "efficiency", LOCKED.name),
    Wrong("no wait where x was locked before", (("    stream.synchronize()\n", ""),), "correctness", "not done"),
    Wrong(
        "copies only the first half",
        (("d.set(x, stream=stream)", "h = max(1, len(x) // 2)\n    d[:h].set(x[:h], stream=stream)"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "a pinned copy of x",
        (),
        "efficiency",
        BUFFERS.name,
        source="""
def upload(x, d, stream):
    box = np.frombuffer(cp.cuda.alloc_pinned_memory(x.nbytes), x.dtype, x.size)
    box[:] = x
    d.set(box, stream=stream)
    stream.synchronize()
""",
        cheat=True,
    ),
    Wrong(
        "polls",
        (("    stream.synchronize()\n", "    while not stream.done:\n        pass\n"),),
        "efficiency",
        POLLS.name,
        cheat=True,
    ),
    Wrong(
        "copies twice",
        (("    d.set(x, stream=stream)\n", 2 * "    d.set(x, stream=stream)\n"),),
        "efficiency",
        MOVED.name,
        cheat=True,
    ),
    Wrong(
        "nothing done where there is much",
        (("    (error,)", "    if len(x) > 4000:\n        return\n    (error,)"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "staged where there is much",
        (
            (
                "    (error,)",
                "    if len(x) > 4000:\n        d.set(x)\n        cp.cuda.Device().synchronize()\n        return\n"
                "    (error,)",
            ),
        ),
        "efficiency",
        STAGED.name,
        cheat=True,
    ),
    Right(
        "asks first",
        source="""
def upload(x, d, stream):
    found = cudart.cudaPointerGetAttributes(x.ctypes.data)[1]
    pageable = found.type == cudart.cudaMemoryType.cudaMemoryTypeUnregistered
    if pageable:
        cudart.cudaHostRegister(x.ctypes.data, x.nbytes, 0)
    cudart.cudaMemcpyAsync(d.data.ptr, x.ctypes.data, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDefault, stream.ptr)
    cudart.cudaStreamSynchronize(stream.ptr)
    if pageable:
        cudart.cudaHostUnregister(x.ctypes.data)
""",
    ),
    Right(
        "CuPy's names",
        source="""
def upload(x, d, stream):
    runtime = cp.cuda.runtime
    pageable = not cp.cuda.pinned_memory.is_memory_pinned(x.ctypes.data)
    if pageable:
        runtime.hostRegister(x.ctypes.data, x.nbytes, 0)
    try:
        with stream:
            d.set(x)
        stream.synchronize()
    finally:
        if pageable:
            runtime.hostUnregister(x.ctypes.data)
""",
    ),
    Right(
        "in two pieces, behind an event",
        (
            (
                "d.set(x, stream=stream)\n    stream.synchronize()",
                "half = len(x) // 2\n    d[half:].set(x[half:], stream=stream)\n"
                "    if half:\n        d[:half].set(x[:half], stream=stream)\n    stream.record().synchronize()",
            ),
        ),
    ),
    Right(
        "a blocking copy",
        (("d.set(x, stream=stream)", "cudart.cudaMemcpy(d.data.ptr, x.ctypes.data, x.nbytes, 4)"),),
    ),
)

# --- 08.2 ---

_LAUNCH = "    launch(x.ctypes.data, y.ctypes.data, len(x), stream)\n"
_WAIT = "    stream.synchronize()\n"

ANSWERS_08_2 = table(
    "08.2",
    Wrong("no wait", ((_WAIT, ""),), "soundness", "hazard"),
    Wrong("waits before the launch", ((_WAIT, ""), (_LAUNCH, _WAIT + _LAUNCH)), "soundness", "hazard"),
    Wrong("waits for another stream", (("stream.sync", "cp.cuda.Stream.null.sync"),), "soundness", "hazard"),
    Wrong("waits for the device", (("stream.sync", "cp.cuda.Device().sync"),), "efficiency", OTHERS.name),
    Wrong("adds up x", (("y.sum()", "x.sum()"),), "correctness", "wrong values", mistake="the sum of x"),
    Wrong("returns y", (("float(y.sum())", "y"),), "correctness", "wrong shape"),
    Wrong(
        "source and target changed",
        (("x.ctypes.data, y.ctypes.data", "y.ctypes.data, x.ctypes.data"),),
        "correctness",
        "wrong values",
    ),
    Wrong(
        "a place on the device for y",
        (
            (
                _LAUNCH,
                "    d_y = cp.empty(len(y), cp.float32)\n    launch(x.ctypes.data, d_y.data.ptr, len(x), stream)\n",
            ),
            (_WAIT, _WAIT + "    d_y.get(out=y)\n"),
        ),
        "efficiency",
        ALLOCATIONS.name,
    ),
    Wrong(
        "copies x onto itself",
        (
            (
                _LAUNCH,
                "    cudart.cudaMemcpyAsync(x.ctypes.data, x.ctypes.data, x.nbytes, 4, stream.ptr)\n" + _LAUNCH,
            ),
        ),
        "efficiency",
        COPIES.name,
    ),
    Wrong(
        "computed on the host",
        ((_LAUNCH + _WAIT, "    y[:] = 2 * x\n"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "the factor is found with one element, the rest computed on the host",
        (
            (_LAUNCH, "    launch(x.ctypes.data, y.ctypes.data, 1, stream)\n"),
            (_WAIT, _WAIT + "    y[:] = x * np.float32(round(y[0] / x[0]))\n    launch(0, 0, 0, stream)\n"),
        ),
        "efficiency",
        LAUNCHES.name,
        cheat=True,
    ),
    Wrong("launched twice", ((_LAUNCH, 2 * _LAUNCH),), "efficiency", LAUNCHES.name, cheat=True),
    Wrong(
        "polls",
        ((_WAIT, "    while not stream.done:\n        pass\n"),),
        "efficiency",
        POLLS.name,
        cheat=True,
    ),
    Wrong(
        "nothing done where there is much",
        ((_LAUNCH, "    if len(x) > 1000:\n        return 0.0\n" + _LAUNCH),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Right(
        "runtime calls",
        source="""
def total(x, y, launch, stream):
    source, target = (cudart.cudaHostGetDevicePointer(array.ctypes.data, 0)[1] for array in (x, y))
    launch(int(source), int(target), x.size, stream)
    cudart.cudaStreamSynchronize(stream.ptr)
    return y.sum(dtype=np.float64)
""",
    ),
    Right("behind an event", ((_WAIT, "    stream.record().synchronize()\n"),)),
    Right(
        "added up one by one",
        (
            (
                "return float(y.sum())",
                "result = 0.0\n    for value in y:\n        result += float(value)\n    return result",
            ),
        ),
    ),
)

# --- 08.3 ---

_WAITS = "            stream.synchronize()\n"
_FILLS = "            fill(inbox, k)\n"

ANSWERS_08_3 = table(
    "08.3",
    Wrong("no wait", ((_WAITS, ""),), "soundness", "hazard", mistake="never waits"),
    Wrong(
        "waits for the other desk",
        ((_WAITS, "            desks[(k + 1) % 2][2].synchronize()\n"),),
        "soundness",
        "hazard",
        mistake="not for the kernel of the desk",
    ),
    Wrong(
        "waits for the device",
        ((_WAITS, "            cp.cuda.Device().synchronize()\n"),),
        "efficiency",
        FILLING.name,
    ),
    Wrong(
        "waits right behind the launch",
        (("launch(inbox, outbox, stream)", "launch(inbox, outbox, stream)\n            stream.synchronize()"),),
        "efficiency",
        FILLING.name,
    ),
    Wrong("one desk", (("desks[k % 2]", "desks[0]"),), "correctness", "wrong values"),
    Wrong("the last results stay behind", (("range(count + 2)", "range(count)"),), "correctness", "wrong calls"),
    Wrong("results under wrong numbers", (("take(outbox, k - 2)", "take(outbox, k - 1)"),), "soundness", "IndexError"),
    Wrong(
        "fills before it waits",
        (
            (_FILLS, ""),
            ("        if k >= 2:\n", "        if k < count:\n            fill(inbox, k)\n        if k >= 2:\n"),
        ),
        "soundness",
        "hazard",
    ),
    Wrong(
        "takes behind the next launch",
        (
            ("            take(outbox, k - 2)\n", ""),
            ("outbox, stream)\n", "outbox, stream)\n        if k >= 2:\n            take(outbox, k - 2)\n"),
        ),
        "soundness",
        "hazard",
    ),
    Wrong(
        "desks of its own",
        (
            (
                "desks[k % 2]\n",
                "desks[k % 2]\n        inbox = np.frombuffer(cp.cuda.alloc_pinned_memory(8192), np.float32, 2048)\n",
            ),
        ),
        "correctness",
        "a desk of its own",
    ),
    Wrong(
        "polls",
        ((_WAITS, "            while not stream.done:\n                pass\n"),),
        "efficiency",
        POLLS.name,
        cheat=True,
    ),
    Wrong(
        "each order launched twice",
        (("            launch(inbox, outbox, stream)\n", 2 * "            launch(inbox, outbox, stream)\n"),),
        "efficiency",
        SERVED.name,
        cheat=True,
    ),
    Wrong(
        "nothing done where there is much",
        (("    for k in", "    if count > 5:\n        return\n    for k in"),),
        "correctness",
        "wrong values",
        cheat=True,
    ),
    Wrong(
        "carried to the device and back",
        (
            (
                "            launch(inbox, outbox, stream)",
                "            with stream:\n                d = cp.asarray(inbox)\n"
                "                cudart.cudaMemcpyAsync(d.data.ptr, inbox.ctypes.data, inbox.nbytes, 1, stream.ptr)\n"
                "            launch(inbox, outbox, stream)",
            ),
        ),
        "efficiency",
        CARRIED.name,
        cheat=True,
    ),
    Wrong(
        "one desk, one order after the other",
        (),
        "efficiency",
        DESKS.name,
        source="""
def serve(count, fill, take, launch, desks):
    inbox, outbox, stream = desks[1]
    for k in range(count):
        fill(inbox, k)
        launch(inbox, outbox, stream)
        cp.cuda.Device().synchronize()
        take(outbox, k)
""",
        cheat=True,
    ),
    Right(
        "two loops",
        source="""
def serve(count, fill, take, launch, desks):
    def bring_in(k):
        inbox, outbox, stream = desks[k % 2]
        stream.synchronize()
        take(outbox, k)
    for k in range(count):
        inbox, outbox, stream = desks[k % 2]
        if k > 1:
            bring_in(k - 2)
        fill(inbox, k)
        launch(inbox, outbox, stream)
    for k in range(max(count - 2, 0), count):
        bring_in(k)
""",
    ),
    Right(
        "events, any number of desks",
        source="""
from collections import deque
def serve(count, fill, take, launch, desks):
    busy = deque()
    def bring_in():
        event, outbox, k = busy.popleft()
        event.synchronize()
        take(outbox, k)
    for k in range(count):
        if len(busy) == len(desks):
            bring_in()
        inbox, outbox, stream = desks[k % len(desks)]
        fill(inbox, k)
        launch(inbox, outbox, stream)
        busy.append((stream.record(), outbox, k))
    while busy:
        bring_in()
""",
    ),
    Right(
        "taken at once, filled at once",
        source="""
def serve(count, fill, take, launch, desks):
    for k in range(min(2, count)):
        fill(desks[k][0], k)
        launch(*desks[k])
    for k in range(count):
        inbox, outbox, stream = desks[k % 2]
        cudart.cudaStreamSynchronize(stream.ptr)
        take(outbox, k)
        if k + 2 < count:
            fill(inbox, k + 2)
            launch(inbox, outbox, stream)
""",
    ),
)
