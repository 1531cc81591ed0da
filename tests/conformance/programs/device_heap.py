"""``malloc``, ``free``, ``new`` and ``delete`` in kernels; recursion and the stack limit.

What the heap's memory is after its limit, and what an error is, is compared; how many small blocks fit is not, because
the simulated device counts them by a formula."""

import numpy as np

from cudalab import cp, cudart

from ..program import program, raised

_HEAP = r"""
struct Shape { int sides = 3; virtual int area(int s) const { return s; } virtual ~Shape() {} };
struct Square : Shape { int area(int s) const override { return s * s + sides; } };
struct Node { int value; Node *next; };
extern "C" __global__ void objects(int *out) {
    Shape *shapes[2] = {new Shape, new Square};
    int *numbers = new int[10];
    for (int i = 0; i < 10; i++) numbers[i] = i * i;
    for (int i = 0; i < 2; i++) { out[2 * threadIdx.x + i] = shapes[i]->area(threadIdx.x) + numbers[9]; delete shapes[i]; }
    delete[] numbers;
}
extern "C" __global__ void push(Node **heads, int count) {
    Node *head = nullptr;
    for (int i = 0; i < count; i++) head = new Node{i * (int)(threadIdx.x + 1), head};
    heads[threadIdx.x] = head;
}
extern "C" __global__ void pop(Node **heads, int *sums) {
    int sum = 0;
    for (Node *node = heads[threadIdx.x]; node;) { sum += node->value; Node *next = node->next; delete node; node = next; }
    sums[threadIdx.x] = sum; heads[threadIdx.x] = nullptr;
}
extern "C" __global__ void take(unsigned long long bytes, int most, int *out) {
    int n = 0; while (n < most && malloc(bytes)) n++; out[0] = n;
}
extern "C" __global__ void shared_block(int *out) {
    __shared__ int *data;
    if (threadIdx.x == 0) data = (int *)malloc(blockDim.x * sizeof(int));
    __syncthreads();
    data[threadIdx.x] = threadIdx.x * 3;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = data[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(data);
}
extern "C" __global__ void leave(char **out, int n) { char *p = (char *)malloc(n); for (int i = 0; i < n; i++) p[i] = i + 1; out[0] = p; }
extern "C" __global__ void twice() { void *p = malloc(64); free(p); free(p); }
extern "C" __global__ void nothing(int *out) { free(nullptr); delete (int *)nullptr; out[0] = malloc(1ull << 40) == nullptr; }
extern "C" __global__ void aligned(int *out) {
    for (int i = 4; i <= 7; i++) { void *p = __nv_aligned_device_malloc(100, 1 << i);
        out[i - 4] = p && (unsigned long long)p % (1 << i) == 0; free(p); }
}
"""  # noqa: E501
_STACK = r"""
__device__ __noinline__ int down(int n, volatile int *o) { if (n == 0) return 1; o[0] = n; return down(n - 1, o) + o[1]; }
extern "C" __global__ void descend(int n, int *out) { out[2] = down(n, out); }
"""  # noqa: E501


@program(
    "objects with virtual functions are made and destroyed by kernels",
    expect=lambda v: {
        "out": np.array([[i + 81, i * i + 3 + 81] for i in range(32)], np.int32).ravel(),
        "blocks": np.tile(3 * np.arange(63, -1, -1, dtype=np.int32), 4),
    },
    isolated=True,
)
def objects():
    module = cp.RawModule(code=_HEAP)
    out, blocks = cp.zeros(64, cp.int32), cp.zeros(256, cp.int32)
    module.get_function("objects")((1,), (32,), (out,))
    module.get_function("shared_block")((4,), (64,), (blocks,))
    return {"out": out, "blocks": blocks}


@program(
    "a kernel's memory lives until a later launch frees it",
    expect=lambda v: {"sums": (np.arange(1, 33) * 45).astype(np.int32), "left": np.zeros(32, np.uint64)},
    isolated=True,
)
def across_launches():
    module = cp.RawModule(code=_HEAP)
    heads, sums = cp.zeros(32, cp.uint64), cp.zeros(32, cp.int32)
    module.get_function("push")((1,), (32,), (heads, np.int32(10)))
    module.get_function("pop")((1,), (32,), (heads, sums))
    return {"sums": sums, "left": heads}


@program(
    "malloc gives NULL when the heap has no room",
    expect=lambda v: {"default": 8 << 20, "null": np.ones(1, np.int32), "fits": [0, 2]},
    isolated=True,
)
def exhaustion():
    module = cp.RawModule(code=_HEAP)
    out, null, fits = cp.zeros(1, cp.int32), cp.zeros(1, cp.int32), []
    module.get_function("nothing")((1,), (1,), (null,))
    for size in (8 << 20, 3 << 20):
        module.get_function("take")((1,), (1,), (np.uint64(size), np.int32(100), out))
        fits.append(int(out.get()[0]))
    return {"default": cp.cuda.runtime.deviceGetLimit(2), "null": null, "fits": fits}


@program("the heap's size is fixed once a kernel has used it", isolated=True)
def limit():
    runtime = cp.cuda.runtime
    module = cp.RawModule(code=_HEAP)
    asked = {size: (runtime.deviceSetLimit(2, size), runtime.deviceGetLimit(2))[1] for size in (1, 12345678, 16 << 20)}
    out = cp.zeros(1, cp.int32)
    module.get_function("take")((1,), (1,), (np.uint64(1 << 20), np.int32(100), out))
    late = raised(lambda: runtime.deviceSetLimit(2, 64 << 20))
    return {"asked": list(asked.values()), "fits": out, "late": late, "now": runtime.deviceGetLimit(2)}


@program("the host neither copies nor frees what a kernel allocated", isolated=True)
def host_side():
    runtime = cp.cuda.runtime
    module = cp.RawModule(code=_HEAP)
    place = cp.zeros(1, cp.uint64)
    module.get_function("leave")((1,), (1,), (place, np.int32(64)))
    pointer, host, device = int(place.get()[0]), np.zeros(64, np.uint8), cp.zeros(64, cp.uint8)
    (status, attributes) = cudart.cudaPointerGetAttributes(pointer)
    return {
        "to host": raised(lambda: runtime.memcpy(host.ctypes.data, pointer, 64, 2)),
        "default": raised(lambda: runtime.memcpy(host.ctypes.data, pointer, 64, 4)),
        "on device": raised(lambda: runtime.memcpy(device.data.ptr, pointer, 64, 3)),
        "free": raised(lambda: runtime.free(pointer)),
        "attributes": [int(status), int(attributes.type), attributes.device],
        "nothing came": int(host.sum()) + int(device.sum()),
    }


@program("a second free ends the launch", isolated=True)
def double_free():
    cp.RawModule(code=_HEAP).get_function("twice")((1,), (1,), ())
    return {"error": raised(cp.cuda.Device().synchronize)}


@program("aligned memory from the heap", expect=lambda v: {"out": np.ones(4, np.int32)}, isolated=True)
def aligned():
    out = cp.zeros(4, cp.int32)
    cp.RawModule(code=_HEAP).get_function("aligned")((1,), (1,), (out,))
    return {"out": out}


@program("recursion goes as deep as the stack limit lets it", isolated=True)
def stack_limit():
    runtime = cp.cuda.runtime
    kernel = cp.RawKernel(_STACK, "descend")
    out = cp.zeros(4, cp.int32)
    found = {}
    for asked, depth in ((0, 30), (1025, 30), (4096, 120)):
        if asked:
            runtime.deviceSetLimit(0, asked)
        kernel((1,), (1,), (np.int32(depth), out))
        found[f"{asked}"] = [runtime.deviceGetLimit(0), int(out.get()[2])]
    refused = raised(lambda: runtime.deviceSetLimit(0, 1 << 20))
    kernel((1,), (1,), (np.int32(200), out))
    return {**found, "refused": refused, "too deep": raised(cp.cuda.Device().synchronize)}
