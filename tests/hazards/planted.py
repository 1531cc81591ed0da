"""Bugs of the kind that people make with streams. In each program the two lines that are not ordered carry ``# first``
and ``# second``; ``wait`` holds words that the missing wait must name."""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim.device.hazards import Kind


@dataclass(frozen=True)
class Bug:
    """One planted bug."""

    name: str
    kind: Kind
    text: str
    wait: tuple[str, ...] = ()
    note: str = ""
    setup: str = ""

    @property
    def lines(self) -> tuple[int, int]:
        """Numbers of the two marked lines."""
        marked = {
            mark: number
            for number, line in enumerate(self.text.splitlines(), 1)
            for mark in ("# first", "# second")
            if line.endswith(mark)
        }
        both = [n for n, line in enumerate(self.text.splitlines(), 1) if line.endswith("# both")]
        return (both[0], both[0]) if both else (marked["# first"], marked["# second"])


ARRAYS = """
x, y, z = cp.arange(N, dtype=cp.float32), cp.zeros(N, cp.float32), cp.zeros(N, cp.float32)
a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
host, other = pinned(value=1), pinned()
event = cp.cuda.Event()
"""
RUNTIME = """
s1, s2 = (cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking)[1] for _ in range(2))
d1, d2 = (cudart.cudaMalloc(BYTES)[1] for _ in range(2))
h1, h2 = (cudart.cudaHostAlloc(BYTES, 0)[1] for _ in range(2))
event = cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)[1]
view1, view2 = (np.frombuffer(device.view(h, BYTES), np.float32) for h in (h1, h2))
"""
DRIVER = """
s1, s2 = (driver.cuStreamCreate(1)[1] for _ in range(2))
d1, d2 = (driver.cuMemAlloc(BYTES)[1] for _ in range(2))
h1 = driver.cuMemHostAlloc(BYTES, 0)[1]
event = driver.cuEventCreate(2)[1]
"""


def cupy_bug(name: str, kind: Kind, text: str, *wait: str, note: str = "") -> Bug:
    return Bug(name, kind, text.lstrip("\n"), wait, note, ARRAYS)


def runtime_bug(name: str, kind: Kind, text: str, *wait: str, note: str = "") -> Bug:
    return Bug(name, kind, text.lstrip("\n"), wait, note, RUNTIME)


def driver_bug(name: str, kind: Kind, text: str, *wait: str, note: str = "") -> Bug:
    return Bug(name, kind, text.lstrip("\n"), wait, note, DRIVER)


EVENT = ("record an event", "cudaStreamWaitEvent")
SYNC = ("synchronize",)

STREAMS = [
    cupy_bug(
        "a kernel reads what another stream's kernel writes",
        Kind.RAW,
        """
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
scale(G, B, (y, z, np.int32(N)), stream=b)  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "a kernel overwrites what another stream's kernel reads",
        Kind.WAR,
        """
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
increment(G, B, (x, np.int32(N)), stream=b)  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "two kernels write one array",
        Kind.WAW,
        """
scale(G, B, (x, z, np.int32(N)), stream=a)  # first
scale(G, B, (y, z, np.int32(N)), stream=b)  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "an array function reads too early",
        Kind.RAW,
        """
with a:
    z[:] = x * 2  # first
with b:
    total = z.sum()  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "the event is recorded before the work it should follow",
        Kind.RAW,
        """
event.record(a)
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
b.wait_event(event)
scale(G, B, (y, z, np.int32(N)), stream=b)  # second
""",
        *EVENT,
        note="too early",
    ),
    cupy_bug(
        "the event is recorded in the wrong stream",
        Kind.RAW,
        """
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
event.record(b)
b.wait_event(event)
scale(G, B, (y, z, np.int32(N)), stream=b)  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "another event is waited for",
        Kind.RAW,
        """
wrong = cp.cuda.Event()
wrong.record(a)
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
event.record(a)
b.wait_event(wrong)
scale(G, B, (y, z, np.int32(N)), stream=b)  # second
""",
        *EVENT,
        note="too early",
    ),
    cupy_bug(
        "the wait comes after the kernel that needs it",
        Kind.RAW,
        """
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
event.record(a)
scale(G, B, (y, z, np.int32(N)), stream=b)  # second
b.wait_event(event)
""",
        *EVENT,
        note="too late",
    ),
    cupy_bug(
        "the wait is called before the event is recorded",
        Kind.RAW,
        """
b.wait_event(event)
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
event.record(a)
scale(G, B, (y, z, np.int32(N)), stream=b)  # second
""",
        *EVENT,
        note="orders nothing",
    ),
    cupy_bug(
        "the event is recorded again before the wait takes it, in another stream",
        Kind.RAW,
        """
c = cp.cuda.Stream(non_blocking=True)
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
event.record(a)
event.record(c)
b.wait_event(event)
scale(G, B, (y, z, np.int32(N)), stream=b)  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "a non-blocking stream does not wait for the default stream",
        Kind.RAW,
        """
scale(G, B, (x, y, np.int32(N)))  # first
scale(G, B, (y, z, np.int32(N)), stream=a)  # second
""",
        "default stream",
        note="non-blocking",
    ),
    cupy_bug(
        "the default stream does not wait for a non-blocking one",
        Kind.RAW,
        """
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
total = y.sum()  # second
""",
        "default stream",
        note="non-blocking",
    ),
    cupy_bug(
        "zeros made in the default stream, used in a non-blocking one",
        Kind.RAW,
        """
fresh = cp.zeros(N, cp.float32)  # first
increment(G, B, (fresh, np.int32(N)), stream=a)  # second
""",
        note="non-blocking",
    ),
    cupy_bug(
        "two blocking streams do not wait for each other",
        Kind.RAW,
        """
one, two = cp.cuda.Stream(), cp.cuda.Stream()
scale(G, B, (x, y, np.int32(N)), stream=one)  # first
scale(G, B, (y, z, np.int32(N)), stream=two)  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "the per-thread default stream and a blocking stream do not wait for each other",
        Kind.RAW,
        """
one = cp.cuda.Stream()
scale(G, B, (x, y, np.int32(N)), stream=cp.cuda.Stream.ptds)  # first
scale(G, B, (y, z, np.int32(N)), stream=one)  # second
""",
        "per-thread default stream",
    ),
    cupy_bug(
        "halves that overlap by one element",
        Kind.RAW,
        """
increment((9,), B, (x[: N // 2 + 1], np.int32(N // 2 + 1)), stream=a)  # first
increment((8,), B, (x[N // 2 :], np.int32(N // 2)), stream=b)  # second
""",
    ),
    cupy_bug(
        "interleaved rows with the same first row",
        Kind.RAW,
        """
rows((1, 32), (64,), (x, np.int32(64), np.int32(64), np.int32(0), np.int32(2)), stream=a)  # first
rows((1, 22), (64,), (x, np.int32(64), np.int32(64), np.int32(1), np.int32(3)), stream=b)  # second
""",
    ),
    cupy_bug(
        "tiles of columns that overlap",
        Kind.RAW,
        """
columns((64,), (64,), (x, np.int32(64), np.int32(64), np.int32(0), np.int32(33)), stream=a)  # first
columns((64,), (64,), (x, np.int32(64), np.int32(64), np.int32(32), np.int32(32)), stream=b)  # second
""",
    ),
    cupy_bug(
        "views with strides that meet",
        Kind.RAW,
        """
with a:
    x[::2] += 1  # first
with b:
    x[::3] += 1  # second
""",
    ),
    cupy_bug(
        "a variable of the module is set while a kernel reads it",
        Kind.WAR,
        """
by_factor(G, B, (x, np.int32(N)), stream=a)  # first
set_factor((1,), (1,), (np.float32(3),), stream=b)  # second
""",
    ),
    cupy_bug(
        "bins are read before the atomics are done",
        Kind.RAW,
        """
values, bins = cp.zeros(N, cp.int32), cp.zeros(8, cp.int32)
cp.cuda.Device().synchronize()
tally(G, B, (bins, values, np.int32(N)), stream=a)  # first
with b:
    most = bins.max()  # second
""",
    ),
    cupy_bug(
        "bins are cleared in another stream",
        Kind.WAW,
        """
values, bins = cp.zeros(N, cp.int32), cp.zeros(8, cp.int32)
cp.cuda.Device().synchronize()
bins.data.memset_async(0, 32, a)  # first
tally(G, B, (bins, values, np.int32(N)), stream=b)  # second
""",
    ),
    cupy_bug(
        "the last of three streams waits for one of the others only",
        Kind.RAW,
        """
c = cp.cuda.Stream(non_blocking=True)
increment(G, B, (x, np.int32(N)), stream=a)
increment(G, B, (y, np.int32(N)), stream=b)  # first
event.record(a)
c.wait_event(event)
add(G, B, (x, y, z, np.int32(N)), stream=c)  # second
""",
    ),
    cupy_bug(
        "a pipeline reuses its device buffer without a wait",
        Kind.WAR,
        """
y.data.copy_from_host_async(host.ctypes.data, 4 * N, a)
event.record(a)
b.wait_event(event)
scale(G, B, (y, z, np.int32(N)), stream=b)  # first
y.data.copy_from_host_async(other.ctypes.data, 4 * N, a)  # second
""",
    ),
]

MEMORY = [
    cupy_bug(
        "a pool's block that another stream still reads is lent again",
        Kind.WAR,
        """
with a:
    short = cp.zeros(N, cp.float32)
event.record(a)
b.wait_event(event)
scale(G, B, (short, z, np.int32(N)), stream=b)  # first
del short
with a:
    again = cp.full(N, 7, cp.float32)  # second
""",
    ),
    cupy_bug(
        "a pool's block that another stream still writes is lent again",
        Kind.WAW,
        """
with a:
    short = cp.empty(N, cp.float32)
scale(G, B, (x, short, np.int32(N)), stream=b)  # first
del short
with a:
    again = cp.zeros(N, cp.float32)  # second
""",
    ),
    runtime_bug(
        "cudaFreeAsync in a stream that does not wait for the kernel",
        Kind.FREE,
        """
d = cudart.cudaMallocAsync(BYTES, s1)[1]
cudart.cudaMemsetAsync(d, 0, BYTES, s1)  # first
cudart.cudaFreeAsync(d, s2)  # second
""",
        "free the memory in stream",
    ),
    runtime_bug(
        "a kernel uses memory that another stream frees",
        Kind.FREE,
        """
d = cudart.cudaMallocAsync(BYTES, s1)[1]
cudart.cudaMemcpyAsync(d, h1, BYTES, H2D, s1)  # first
cudart.cudaFreeAsync(d, s2)  # second
""",
    ),
    runtime_bug(
        "memory from one stream's pool is used in another without a wait",
        Kind.FREE,
        """
d = cudart.cudaMallocAsync(BYTES, s1)[1]
cudart.cudaFreeAsync(d, s1)  # first
cudart.cudaMemcpyAsync(h1, d, BYTES, D2H, s2)  # second
""",
    ),
    runtime_bug(
        "memory is copied long after another stream freed it",
        Kind.FREE,
        """
d = cudart.cudaMallocAsync(BYTES, s1)[1]
cudart.cudaFreeAsync(d, s1)  # first
work(1e-3)
cudart.cudaMemcpyAsync(h1, d, BYTES, D2H, s2)  # second
""",
    ),
    cupy_bug(
        "a kernel gets memory that another stream has freed",
        Kind.FREE,
        """
d = cudart.cudaMallocAsync(BYTES, a.ptr)[1]
cudart.cudaFreeAsync(d, a.ptr)  # first
work(1e-3)
scale(G, B, (x, np.uint64(d), np.int32(N)), stream=b)  # second
""",
    ),
]

COPIES = [
    cupy_bug(
        "the kernel starts before its input is copied",
        Kind.RAW,
        """
x.data.copy_from_host_async(host.ctypes.data, 4 * N, a)  # first
scale(G, B, (x, y, np.int32(N)), stream=b)  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "the result is copied before the kernel has ended",
        Kind.RAW,
        """
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
y.data.copy_to_host_async(host.ctypes.data, 4 * N, b)  # second
""",
        *EVENT,
    ),
    cupy_bug(
        "a copy overwrites what a kernel still reads",
        Kind.WAR,
        """
scale(G, B, (x, y, np.int32(N)), stream=a)  # first
x.data.copy_from_host_async(host.ctypes.data, 4 * N, b)  # second
""",
        *EVENT,
    ),
    runtime_bug(
        "a memset and a copy in two streams",
        Kind.WAW,
        """
cudart.cudaMemsetAsync(d1, 0, BYTES, s1)  # first
cudart.cudaMemcpyAsync(d1, h1, BYTES, H2D, s2)  # second
""",
        *EVENT,
    ),
    runtime_bug(
        "a copy within the device reads what a memset writes",
        Kind.RAW,
        """
cudart.cudaMemsetAsync(d1, 0, BYTES, s1)  # first
cudart.cudaMemcpyAsync(d2, d1, BYTES, D2D, s2)  # second
""",
        *EVENT,
    ),
    runtime_bug(
        "two copies into one page-locked buffer",
        Kind.WAW,
        """
cudart.cudaMemcpyAsync(h1, d1, BYTES, D2H, s1)  # first
cudart.cudaMemcpyAsync(h1, d2, BYTES, D2H, s2)  # second
""",
        *EVENT,
    ),
    runtime_bug(
        "a page-locked buffer is refilled by the device while it is copied from",
        Kind.WAR,
        """
cudart.cudaMemcpyAsync(d1, h1, BYTES, H2D, s1)  # first
cudart.cudaMemcpyAsync(h1, d2, BYTES, D2H, s2)  # second
""",
        *EVENT,
    ),
    runtime_bug(
        "2-D copies whose columns overlap",
        Kind.WAW,
        """
cudart.cudaMemcpy2DAsync(d1, 256, h1, 128, 128, 64, H2D, s1)  # first
cudart.cudaMemcpy2DAsync(int(d1) + 124, 256, h2, 128, 128, 64, H2D, s2)  # second
""",
        *EVENT,
    ),
    runtime_bug(
        "a 2-D memset over the column that is copied out",
        Kind.WAR,
        """
cudart.cudaMemcpy2DAsync(h1, 64, d1, 256, 64, 64, D2H, s1)  # first
cudart.cudaMemset2DAsync(int(d1) + 60, 256, 0, 64, 64, s2)  # second
""",
        *EVENT,
    ),
    runtime_bug(
        "a blocking copy does not wait for a non-blocking stream",
        Kind.RAW,
        """
cudart.cudaMemsetAsync(d1, 1, BYTES, s1)  # first
cudart.cudaMemcpy(h1, d1, BYTES, D2H)  # second
""",
        "default stream",
        note="non-blocking",
    ),
    runtime_bug(
        "the host waits for the wrong stream before it starts the next copy",
        Kind.RAW,
        """
cudart.cudaMemcpyAsync(d1, h1, BYTES, H2D, s1)  # first
cudart.cudaStreamSynchronize(s2)
cudart.cudaMemcpyAsync(h2, d1, BYTES, D2H, s2)  # second
""",
        *EVENT,
    ),
    runtime_bug(
        "the host asks, and does not look at the answer",
        Kind.RAW,
        """
cudart.cudaMemcpyAsync(d1, h1, BYTES, H2D, s1)  # first
cudart.cudaStreamQuery(s1)
cudart.cudaMemcpyAsync(h2, d1, BYTES, D2H, s2)  # second
""",
        *EVENT,
    ),
    driver_bug(
        "a memset of the driver API and a copy in another stream",
        Kind.RAW,
        """
driver.cuMemsetD32Async(d1, 7, N, s1)  # first
driver.cuMemcpyDtoHAsync(h1, d1, BYTES, s2)  # second
""",
        *EVENT,
    ),
    driver_bug(
        "the driver's event is recorded too early",
        Kind.RAW,
        """
driver.cuEventRecord(event, s1)
driver.cuMemcpyHtoDAsync(d1, h1, BYTES, s1)  # first
driver.cuStreamWaitEvent(s2, event, 0)
driver.cuMemcpyDtoDAsync(d2, d1, BYTES, s2)  # second
""",
        *EVENT,
        note="too early",
    ),
]

HOST = [
    runtime_bug(
        "the host reads before the copy is waited for",
        Kind.HOST_READ,
        """
cudart.cudaMemcpyAsync(h1, d1, BYTES, D2H, s1)  # first
total = view1.sum()  # second
""",
        *SYNC,
    ),
    runtime_bug(
        "the host waits for the other stream",
        Kind.HOST_READ,
        """
cudart.cudaMemcpyAsync(h1, d1, BYTES, D2H, s1)  # first
cudart.cudaStreamSynchronize(s2)
total = view1.sum()  # second
""",
        *SYNC,
    ),
    runtime_bug(
        "the host waits for an event that was recorded before the copy",
        Kind.HOST_READ,
        """
cudart.cudaEventRecord(event, s1)
cudart.cudaMemcpyAsync(h1, d1, BYTES, D2H, s1)  # first
cudart.cudaEventSynchronize(event)
total = view1.sum()  # second
""",
        *SYNC,
    ),
    runtime_bug(
        "the host refills a buffer that is still copied from",
        Kind.HOST_WRITE,
        """
cudart.cudaMemcpyAsync(d1, h1, BYTES, H2D, s1)  # first
view1[:] = 2  # second
""",
        *SYNC,
        "second buffer",
    ),
    runtime_bug(
        "a loop refills its only buffer",
        Kind.HOST_WRITE,
        """
for step in range(3):
    view1[:] = step  # second
    cudart.cudaMemcpyAsync(d1, h1, BYTES, H2D, s1)  # first
""",
        *SYNC,
    ),
    runtime_bug(
        "two buffers in turn, waited for one turn too late",
        Kind.HOST_WRITE,
        """
events = [cudart.cudaEventCreateWithFlags(2)[1] for _ in range(2)]
for step in range(4):
    view = (view1, view2)[step % 2]
    view[:] = step  # second
    cudart.cudaEventSynchronize(events[step % 2])
    cudart.cudaMemcpyAsync(d1, (h1, h2)[step % 2], BYTES, H2D, s1)  # first
    cudart.cudaEventRecord(events[step % 2], s1)
""",
        *SYNC,
    ),
    cupy_bug(
        "an array's asynchronous get is read at once",
        Kind.HOST_READ,
        """
x.get(stream=a, out=host, blocking=False)  # first
best = host.max()  # second
""",
        *SYNC,
    ),
    cupy_bug(
        "time passes, but nobody waits",
        Kind.HOST_READ,
        """
x.data.copy_to_host_async(host.ctypes.data, 4 * N, a)  # first
work(10**9)
best = host.max()  # second
""",
        *SYNC,
    ),
    cupy_bug(
        "a kernel writes mapped memory and the host reads it at once",
        Kind.HOST_READ,
        """
mapped = cp.ndarray(N, cp.float32, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(host.ctypes.data, 4 * N, host, 0), 0))
scale(G, B, (x, mapped, np.int32(N)), stream=a)  # first
best = host.max()  # second
""",
        *SYNC,
    ),
    cupy_bug(
        "the host writes mapped memory that a kernel reads",
        Kind.HOST_WRITE,
        """
mapped = cp.ndarray(N, cp.float32, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(host.ctypes.data, 4 * N, host, 0), 0))
scale(G, B, (mapped, y, np.int32(N)), stream=a)  # first
host[:] = 5  # second
""",
        *SYNC,
    ),
    cupy_bug(
        "managed memory is read before the kernel is waited for",
        Kind.HOST_READ,
        """
memory = cp.cuda.malloc_managed(4 * N)
managed = cp.ndarray(N, cp.float32, memory)
seen = np.frombuffer(device.view(memory.ptr, 4 * N), np.float32)
scale(G, B, (x, managed, np.int32(N)), stream=a)  # first
best = seen.max()  # second
""",
        *SYNC,
    ),
    runtime_bug(
        "registered memory is changed while it is copied from",
        Kind.HOST_WRITE,
        """
mine = np.ones(4 * N, np.uint8)
cudart.cudaHostRegister(mine.ctypes.data, BYTES, 0)
cudart.cudaMemcpyAsync(d1, mine.ctypes.data, BYTES, H2D, s1)  # first
mine[8000] = 3  # second
""",
        *SYNC,
    ),
    cupy_bug(
        "a host function reads a buffer that another stream fills",
        Kind.RAW,
        """
x.data.copy_to_host_async(host.ctypes.data, 4 * N, a)  # first
b.launch_host_func(lambda _: host.max(), None)  # second
""",
    ),
    cupy_bug(
        "a host function fills a buffer that another stream copies",
        Kind.WAW,
        """
x.data.copy_to_host_async(host.ctypes.data, 4 * N, a)  # first
b.launch_host_func(lambda _: host.fill(3), None)  # second
""",
    ),
]

DEVICE_BUGS = STREAMS + MEMORY + COPIES
BUGS = DEVICE_BUGS + HOST
