"""Mistakes of control flow: loops and barriers that never end, assertions that fail."""

from __future__ import annotations

from .mistake import mistake

TIMEOUT = ("CUDARuntimeError", 702)
ASSERT = ("CUDARuntimeError", 710)
SYNC = "\ncp.cuda.Device().synchronize()"

# -- endless loops -----------------------------------------------------------------------------------------------------

mistake(
    "endless_loop/plain",
    r"""
extern "C" __global__ void k(volatile int* x) {
    while (true) x[0] = x[0] + 1; // <-
}""",
    "kernel()((1,), (1,), (cp.zeros(1, cp.int32),))" + SYNC,
    *TIMEOUT,
    "endless loop", "seconds", "condition",
)  # fmt: skip
mistake(
    "endless_loop/unsigned_countdown",
    r"""
extern "C" __global__ void k(int* x, unsigned n) {
    for (unsigned i = n; i >= 0; --i) atomicAdd(x + i % n, 1); // <-
}""",
    "kernel()((1,), (32,), (cp.zeros(8, cp.int32), np.uint32(8)))" + SYNC,
    *TIMEOUT,
    "endless loop",
)  # fmt: skip
mistake(
    "endless_loop/function_waits_for_a_flag",
    r"""
__device__ void wait(volatile int* flag) {
    while (*flag == 0) { } // <-
}
extern "C" __global__ void k(int* flag, int* out) {
    wait(flag);
    *out = 1;
}""",
    "kernel()((1,), (1,), (cp.zeros(1, cp.int32), cp.zeros(1, cp.int32)))" + SYNC,
    *TIMEOUT,
    "endless wait",
)  # fmt: skip
mistake(
    "endless_loop/template_in_2d_block",
    r"""
template<typename T> __global__ void halve(T* x, T limit) {
    int i = threadIdx.y * blockDim.x + threadIdx.x;
    while (x[i] != limit) x[i] /= 2; // <-
}""",
    "instance('halve<double>')((2,), (4, 4), (cp.ones(16), 3.0))" + SYNC,
    *TIMEOUT,
    "endless loop",
)  # fmt: skip
mistake(
    "endless_loop/list_in_a_ring",
    r"""
struct Node { int value; const Node* next; };
extern "C" __global__ void k(const Node* list, int* out) {
    int sum = 0;
    for (const Node* n = list; n != nullptr; n = n->next) sum ^= n->value; // <-
    *out = sum;
}""",
    "ring = cp.zeros(2, cp.int64)\nring[1] = ring.data.ptr\n"
    "kernel()((1,), (1,), (ring, cp.zeros(1, cp.int32)))" + SYNC,
    *TIMEOUT,
    "endless loop",
)  # fmt: skip
mistake(
    "endless_loop/barrier_inside",
    r"""
extern "C" __global__ void k(volatile int* go_on) {
    while (*go_on == 0) __syncthreads(); // <-
}""",
    "kernel()((1,), (64,), (cp.zeros(1, cp.int32),))" + SYNC,
    *TIMEOUT,
    "endless wait",
)  # fmt: skip

# -- barriers that never complete --------------------------------------------------------------------------------------

mistake(
    "barrier/named_with_too_few_threads",
    r"""
extern "C" __global__ void k(int* x) {
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;" ::: "memory"); // <-
    x[threadIdx.x] = 1;
}""",
    "kernel()((1,), (64,), (cp.zeros(64, cp.int32),))" + SYNC,
    *TIMEOUT,
    "deadlock", "wait", "64",
)  # fmt: skip
mistake(
    "barrier/function_called_by_half_of_a_warp",
    r"""
__device__ __noinline__ int shared_sum(int v) {
    return __reduce_add_sync(0xffffffff, v); // <-
}
extern "C" __global__ void k(int* x) {
    if (threadIdx.x < 16) x[threadIdx.x] = shared_sum(threadIdx.x);
    __syncthreads();
}""",
    "kernel()((1,), (32,), (cp.zeros(32, cp.int32),))" + SYNC,
    *TIMEOUT,
    "deadlock", "wait",
)  # fmt: skip
mistake(
    "barrier/template_syncwarp_of_others",
    r"""
template<unsigned MASK> __global__ void meet(int* x) {
    if (threadIdx.x == 0)
        __syncwarp(MASK); // <-
    __syncthreads();
    x[threadIdx.x] = 1;
}""",
    "instance('meet<0x3u>')((1,), (32,), (cp.zeros(32, cp.int32),))" + SYNC,
    *TIMEOUT,
    "deadlock", "wait",
)  # fmt: skip
mistake(
    "barrier/shuffle_in_a_loop_of_unequal_length",
    r"""
extern "C" __global__ void k(int* x) {
    int lane = threadIdx.x, v = lane;
    for (int i = 0; i < 1 + lane / 16; ++i)
        v += __shfl_xor_sync(0xffffffff, v, 1); // <-
    __syncthreads();
    x[lane] = v;
}""",
    "kernel()((1,), (32,), (cp.zeros(32, cp.int32),))" + SYNC,
    *TIMEOUT,
    "deadlock", "wait",
)  # fmt: skip
mistake(
    "barrier/two_named_ones_crossed_in_a_2d_block",
    r"""
struct Meeting { __device__ static void first() { asm volatile("bar.sync 1, 64;" ::: "memory"); } };
extern "C" __global__ void k(int* x) {
    if (threadIdx.y == 0) {
        Meeting::first();
        asm volatile("bar.sync 2, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        Meeting::first();
    }
    x[threadIdx.x] = 1;
}""",
    "kernel()((1,), (32, 2), (cp.zeros(32, cp.int32),))" + SYNC,
    *TIMEOUT,
    "deadlock", "wait",
)  # fmt: skip

# -- assertions --------------------------------------------------------------------------------------------------------

mistake(
    "assert/plain",
    r"""
extern "C" __global__ void k(const int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(x[i] < n); // <-
}""",
    "kernel()((2,), (32,), (cp.arange(64, dtype=cp.int32), np.int32(40)))" + SYNC,
    *ASSERT,
    "`x[i] < n` failed", "block (1,0,0)", "thread (8,0,0)",
)  # fmt: skip
mistake(
    "assert/device_function",
    r"""
__device__ float root(float x) {
    assert(x >= 0 && "negative"); // <-
    return sqrtf(x);
}
extern "C" __global__ void k(float* x) {
    x[threadIdx.x] = root(x[threadIdx.x]);
}""",
    "kernel()((1,), (3,), (cp.asarray([1, -2, 3], dtype=cp.float32),))" + SYNC,
    *ASSERT,
    "negative", "thread (1,0,0)",
)  # fmt: skip
mistake(
    "assert/template_in_2d_block",
    r"""
template<typename T> __global__ void check(const T* x, T limit) {
    int i = threadIdx.y * blockDim.x + threadIdx.x;
    assert(x[i] != limit); // <-
}""",
    "instance('check<double>')((1,), (4, 4), (cp.arange(16.0), 6.0))" + SYNC,
    *ASSERT,
    "x[i] != limit", "thread (2,1,0)",
)  # fmt: skip
mistake(
    "assert/loop",
    r"""
extern "C" __global__ void k(const int* next, int* out, int n) {
    int at = 0;
    for (int i = 0; i < n; ++i) {
        at = next[at];
        assert(0 <= at && at < n); // <-
    }
    *out = at;
}""",
    "kernel()((1,), (1,), (cp.asarray([1, 2, 3, 9], dtype=cp.int32), cp.zeros(1, cp.int32), np.int32(4)))" + SYNC,
    *ASSERT,
    "0 <= at && at < n",
)  # fmt: skip
mistake(
    "assert/method_of_a_struct",
    r"""
struct Stack {
    int items[4], count = 0;
    __device__ __noinline__ void push(int item) {
        assert(count < 4); // <-
        items[count++] = item;
    }
};
extern "C" __global__ void k(int* out, int n) {
    Stack s;
    for (int i = 0; i < n; ++i) s.push(i);
    *out = s.items[n / 2];
}""",
    "kernel()((1,), (1,), (cp.zeros(1, cp.int32), np.int32(5)))" + SYNC,
    *ASSERT,
    "count < 4",
)  # fmt: skip
