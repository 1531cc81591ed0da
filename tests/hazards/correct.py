"""Correct programs: the shapes that work with streams has, in many sizes and in the three modules. No wait in them is
idle, so each is also a test of what happens without it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from textwrap import dedent

PIPELINE_SETUP = """
source, target = pinned(N * {chunks}, value=3), pinned(N * {chunks})
x, y = cp.zeros(N * {chunks}, cp.float32), cp.zeros(N * {chunks}, cp.float32)
streams = [cp.cuda.Stream(non_blocking={non_blocking}) for _ in range({streams})]
chunks = [slice(c * N, (c + 1) * N) for c in range({chunks})]
"""
DEPTH_FIRST = """
for c, part in enumerate(chunks):
    s = streams[c % len(streams)]
    x[part].data.copy_from_host_async(source[part].ctypes.data, 4 * N, s)
    scale(G, B, (x[part], y[part], np.int32(N)), stream=s)
    y[part].data.copy_to_host_async(target[part].ctypes.data, 4 * N, s)
cp.cuda.Device().synchronize()
assert (target == 6).all()
"""
BREADTH_FIRST = """
for c, part in enumerate(chunks):
    x[part].data.copy_from_host_async(source[part].ctypes.data, 4 * N, streams[c % len(streams)])
for c, part in enumerate(chunks):
    scale(G, B, (x[part], y[part], np.int32(N)), stream=streams[c % len(streams)])
for c, part in enumerate(chunks):
    y[part].data.copy_to_host_async(target[part].ctypes.data, 4 * N, streams[c % len(streams)])
cp.cuda.Device().synchronize()
assert (target == 6).all()
"""
THREE_STAGES = """
up, work_, down = (cp.cuda.Stream(non_blocking=True) for _ in range(3))
for part in chunks:
    x[part].data.copy_from_host_async(source[part].ctypes.data, 4 * N, up)
    copied = up.record()
    work_.wait_event(copied)
    scale(G, B, (x[part], y[part], np.int32(N)), stream=work_)
    done = work_.record()
    down.wait_event(done)
    y[part].data.copy_to_host_async(target[part].ctypes.data, 4 * N, down)
down.synchronize()
assert (target == 6).all()
"""
DEVICE_BUFFERS = """
up, work_ = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
buffers = [cp.zeros(N, cp.float32) for _ in range(2)]
cp.cuda.Device().synchronize()
filled, free = ([cp.cuda.Event() for _ in buffers] for _ in range(2))
for c, part in enumerate(chunks):
    buffer = buffers[c % 2]
    up.wait_event(free[c % 2])
    buffer.data.copy_from_host_async(source[part].ctypes.data, 4 * N, up)
    filled[c % 2].record(up)
    work_.wait_event(filled[c % 2])
    scale(G, B, (buffer, y[part], np.int32(N)), stream=work_)
    free[c % 2].record(work_)
work_.synchronize()
assert (y == 6).all()
"""
FORK_JOIN = """
main = cp.cuda.Stream(non_blocking=True)
increment((N * {chunks} // 256,), B, (x, np.int32(N * {chunks})), stream=main)
ready = main.record()
for s in streams:
    s.wait_event(ready)
for c, part in enumerate(chunks):
    scale(G, B, (x[part], y[part], np.int32(N)), stream=streams[c % len(streams)])
for s in streams:
    joined = s.record()
    main.wait_event(joined)
add((N * {chunks} // 256,), B, (x, y, x, np.int32(N * {chunks})), stream=main)
main.synchronize()
assert (x == 3).all()
"""
HOST_WAITS = """
for c, part in enumerate(chunks):
    s = streams[c % len(streams)]
    x[part].data.copy_from_host_async(source[part].ctypes.data, 4 * N, s)
    s.synchronize()
    scale(G, B, (x[part], y[part], np.int32(N)), stream=streams[(c + 1) % len(streams)])
    streams[(c + 1) % len(streams)].synchronize()
    target[part] = y[part].get()
assert (target == 6).all()
"""
DEFAULT_STREAM = """
blocking = [cp.cuda.Stream() for _ in range({streams})]
x[:] = 3
for c, part in enumerate(chunks):
    scale(G, B, (x[part], y[part], np.int32(N)), stream=blocking[c % len(blocking)])
y *= 2
for c, part in enumerate(chunks):
    increment(G, B, (y[part], np.int32(N)), stream=blocking[c % len(blocking)])
assert (y == 13).all()
"""
INTERLEAVED = """
matrix = cp.zeros(({chunks} * 8, 512), cp.float32)
cp.cuda.Device().synchronize()
for c in range({chunks}):
    rows((2, 8), (256,), (matrix, np.int32(512), np.int32({chunks} * 8), np.int32(c), np.int32({chunks})),
         stream=streams[c % len(streams)])
cp.cuda.Device().synchronize()
for c in range({chunks}):
    with streams[c % len(streams)]:
        matrix[:, c :: {chunks}] *= 2
cp.cuda.Device().synchronize()
for c in range({chunks}):
    width = 512 // {chunks}
    columns(({chunks} * 8,), (512,),
            (matrix, np.int32(512), np.int32({chunks} * 8), np.int32(c * width), np.int32(width)),
            stream=streams[c % len(streams)])
cp.cuda.Device().synchronize()
assert set(np.unique(matrix.get())) <= {{2, 3}}
"""
TALLY = """
bins = cp.zeros(16, cp.int32)
values = (cp.arange(N * {chunks}) % 16).astype(cp.int32)
cp.cuda.Device().synchronize()
for c, part in enumerate(chunks):
    tally(G, B, (bins, values[part], np.int32(N)), stream=streams[c % len(streams)])
cp.cuda.Device().synchronize()
assert (bins == N * {chunks} // 16).all()
"""
POOL = """
with streams[0]:
    for c in range({chunks}):
        part = cp.arange(N, dtype=cp.float32) + c
        part = part * 2 + part
    total = part.sum()
streams[0].synchronize()
assert int(total) > 0
for c in range({chunks}):
    s = streams[c % len(streams)]
    with s:
        temporary = cp.full(N, c, cp.float32)
        y[chunks[c]] = temporary + 1
        del temporary
cp.cuda.Device().synchronize()
assert float(y.max()) == {chunks}
"""
SHAPES = {
    "depth first": DEPTH_FIRST, "breadth first": BREADTH_FIRST, "three stages": THREE_STAGES,
    "two device buffers": DEVICE_BUFFERS, "fork and join": FORK_JOIN, "the host waits": HOST_WAITS,
    "default stream": DEFAULT_STREAM, "interleaved": INTERLEAVED, "tally": TALLY, "pool": POOL,
}  # fmt: skip

RUNTIME_SETUP = """
streams = [cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking)[1] for _ in range({streams})]
events = [cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)[1] for _ in range({streams})]
device_memory = [cudart.cudaMalloc(BYTES)[1] for _ in range({streams})]
host_memory = [cudart.cudaHostAlloc(BYTES, 0)[1] for _ in range({streams})]
views = [np.frombuffer(device.view(h, BYTES), np.uint8) for h in host_memory]
"""
RUNTIME_RING = """
for turn in range({turns}):
    i, j = turn % {streams}, (turn + 1) % {streams}
    cudart.cudaMemsetAsync(device_memory[i], turn, BYTES, streams[i])
    cudart.cudaEventRecord(events[i], streams[i])
    cudart.cudaStreamWaitEvent(streams[j], events[i], 0)
    cudart.cudaMemcpyAsync(device_memory[j], device_memory[i], BYTES, D2D, streams[j])
"""
RUNTIME_REFILL = """
for turn in range({turns}):
    i = turn % {streams}
    cudart.cudaEventSynchronize(events[i])
    views[i][:] = turn
    cudart.cudaMemcpyAsync(device_memory[i], host_memory[i], BYTES, H2D, streams[i])
    cudart.cudaEventRecord(events[i], streams[i])
"""
RUNTIME_POOL = """
for turn in range({turns}):
    s, t = streams[turn % {streams}], streams[(turn + 1) % {streams}]
    event = events[turn % {streams}]
    memory = cudart.cudaMallocAsync(BYTES, s)[1]
    cudart.cudaMemsetAsync(memory, turn, BYTES, s)
    cudart.cudaEventRecord(event, s)
    cudart.cudaStreamWaitEvent(t, event, 0)
    cudart.cudaMemcpyAsync(host_memory[(turn + 1) % {streams}], memory, BYTES, D2H, t)
    cudart.cudaFreeAsync(memory, t)
"""
RUNTIME_COLUMNS = """
for turn in range({turns}):
    for i, s in enumerate(streams):
        width = 256 // {streams}
        here = int(device_memory[0]) + i * width
        cudart.cudaMemset2DAsync(here, 256, turn, width, 64, s)
        cudart.cudaMemcpy2DAsync(host_memory[i], width, here, 256, width, 64, D2H, s)
cudart.cudaDeviceSynchronize()
assert all((view[: 64 * width] == {turns} - 1).all() for view in views)
"""
RUNTIME_SHAPES = {
    "a ring of copies": RUNTIME_RING, "buffers refilled in turn": RUNTIME_REFILL, "stream-ordered memory": RUNTIME_POOL,
    "columns": RUNTIME_COLUMNS,
}  # fmt: skip


@dataclass(frozen=True)
class Correct:
    """One correct program."""

    name: str
    text: str
    setup: str


def programs() -> list[Correct]:
    """All of them."""
    found = []
    for (name, text), (streams, chunks), non_blocking in itertools.product(
        SHAPES.items(), ((1, 2), (2, 4), (3, 4), (4, 8)), (True, False)
    ):
        sizes = {"streams": streams, "chunks": chunks, "non_blocking": non_blocking}
        kind = "non-blocking" if non_blocking else "blocking"
        found.append(
            Correct(
                f"{name}, {streams} {kind} streams, {chunks} pieces",
                dedent(text).strip().format(**sizes) + "\n",
                PIPELINE_SETUP.format(**sizes),
            )
        )
    for (name, text), streams, turns in itertools.product(RUNTIME_SHAPES.items(), (2, 3, 4), (5, 9)):
        sizes = {"streams": streams, "turns": turns}
        found.append(
            Correct(f"{name}, {streams} streams, {turns} turns", text.strip().format(**sizes) + "\n",
                    RUNTIME_SETUP.format(**sizes))
        )  # fmt: skip
    return found
