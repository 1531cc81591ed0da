"""What goes wrong around a launch: its arguments, streams, events and page-locked memory."""

from __future__ import annotations

from .program import Programs

PROGRAMS = Programs()

PROGRAMS.add(
    "args_in_wrong_order",
    "TypeError",
    "parameter 'n' (int): got an array of float32",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
""", "saxpy")

x = cp.ones(256, cp.float32); y = cp.zeros(256, cp.float32)
k((1,), (256,), (x, y, np.float32(2), 256))
''',
)

PROGRAMS.add(
    "too_few_args",
    "TypeError",
    "takes 4 arguments",
    "float* y is missing",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
""", "saxpy")

x = cp.ones(256, cp.float32); y = cp.zeros(256, cp.float32)
k((1,), (256,), (256, np.float32(2), x))
''',
)

PROGRAMS.add(
    "double_for_float",
    "TypeError",
    "It has 8 bytes, and the parameter 4",
    "Pass np.float32(x)",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
""", "saxpy")

x = cp.ones(256, cp.float32); y = cp.zeros(256, cp.float32)
k((1,), (256,), (256, np.float64(2), x, y))
''',
)

PROGRAMS.add(
    "int64_array",
    "TypeError",
    "got an array of int64",
    ".astype(np.int32)",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void inc(int* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += 1;
}
""", "inc")

a = cp.arange(100)
k((1,), (128,), (a, 100))
print(a[:5])
''',
)

PROGRAMS.add(
    "string_bytes",
    "TypeError",
    "parameter 'text'",
    "cp.asarray(np.frombuffer(text, np.uint8))",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void find(const char* text, int n, const char* word, int m, int* where, int* found) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n - m) return;
    for (int j = 0; j < m; ++j) if (text[i + j] != word[j]) return;
    where[atomicAdd(found, 1)] = i;
}
""", "find")

text = ("the quick brown fox jumps over the lazy dog; " * 200).encode()
t = cp.asarray(np.frombuffer(text, np.uint8)); w = cp.asarray(np.frombuffer(b"fox", np.uint8))
where = cp.zeros(1000, cp.int32); found = cp.zeros(1, cp.int32)
k(((len(text) + 127) // 128,), (128,), (text, len(text), b'fox', 3, where, found))
print(found[0], cp.sort(where[:int(found[0])])[:3])
''',
)

PROGRAMS.add(
    "stream_as_argument",
    "TypeError",
    "with stream: kernel(grid, block, args)",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void fill(float* x) { x[threadIdx.x] = 7.0f; }
""", "fill")

s = cp.cuda.Stream()
x = cp.zeros(256, cp.float32)
k((1,), (256,), (x,), s)
''',
)

PROGRAMS.add(
    "out_of_memory",
    "OutOfMemoryError",
    "320,000,000,000 bytes",
    "of the device's 150109880320 bytes",
    text=r"""
from cudalab import cp
a = cp.zeros((200_000, 200_000), cp.float64)
""",
)

PROGRAMS.add(
    "event_elapsed_early",
    "CUDARuntimeError",
    "cudaErrorNotReady",
    "synchronise with the later one first",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void work(float* x) { for (int i = 0; i < 10000; ++i) x[threadIdx.x] += 1.0f; }
""", "work")

x = cp.zeros(256, cp.float32)
start, stop = cp.cuda.Event(), cp.cuda.Event()
start.record()
k((1,), (256,), (x,))
stop.record()
print(cp.cuda.get_elapsed_time(start, stop))
''',
)

PROGRAMS.add(
    "event_never_recorded",
    "CUDARuntimeError",
    "both events must have been recorded",
    text=r"""
from cudalab import cp
start, stop = cp.cuda.Event(), cp.cuda.Event()
stop.record(); stop.synchronize()
print(cp.cuda.get_elapsed_time(start, stop))
""",
)

PROGRAMS.add(
    "streams_without_wait",
    "",
    "hazard (read after write)",
    "stream.wait_event(event)",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void fill(float* x, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 7.0f; }
""", "fill")

a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
x = cp.zeros(1 << 20, cp.float32); y = cp.zeros_like(x)
cp.cuda.Device().synchronize()
with a: k((1,), (256,), (x, x.size))
with b: y[...] = x
cp.cuda.Device().synchronize()
print(y.sum())
''',
)

PROGRAMS.add(
    "pinned_then_reused",
    "",
    "host writes what the device may still use",
    "stream.synchronize()",
    text=r"""
from cudalab import cp
import numpy as np
from cudalab import cupyx
h = cupyx.empty_pinned(1 << 20, np.float32)
s = cp.cuda.Stream(non_blocking=True)
h[:] = 1
d = cp.empty(1 << 20, cp.float32)
d.set(h, stream=s)
h[:] = 2
s.synchronize()
print(d.sum())
""",
)

PROGRAMS.add(
    "pinned_get_unsynchronised",
    "",
    "host reads before the device has written",
    "stream.synchronize()",
    text=r"""
from cudalab import cp
import numpy as np
from cudalab import cupyx
x = cp.arange(1 << 20, dtype=cp.float32)
h = cupyx.empty_pinned(x.shape, np.float32)
s = cp.cuda.Stream(non_blocking=True)
cp.cuda.Device().synchronize()
x.get(stream=s, out=h, blocking=False)
print(h[-1])
""",
)
