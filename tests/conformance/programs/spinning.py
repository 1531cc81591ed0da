"""Kernels that poll memory: locks, flags, barriers across the grid, and flags that the host or another stream sets."""

import ctypes

import numpy as np

from cudalab import cp, cudart, driver

from ..program import code, program

TIMEOUT = 20.0


def kernel(source, name="k", **options):
    """Compiled now: loading a module while another kernel spins could wait for it."""
    made = cp.RawKernel(source, name, **options)
    made.compile()
    return made


def streams(count):
    return [cp.cuda.Stream(non_blocking=True) for _ in range(count)]


def host_ints(count, flags=2):
    """Page-locked host memory that kernels can reach: address for kernels, NumPy array for the host."""
    address = int(cudart.cudaHostAlloc(4 * count, flags)[1])
    array = np.ctypeslib.as_array((ctypes.c_int32 * count).from_address(address))
    array[:] = 0
    return np.uint64(address), array


def polls(done, most=2_000_000):
    """Asks until ``done()``; whether it was before the patience ran out."""
    return any(done() for _ in range(most))


@program(
    "a spin lock of atomicCAS between blocks, one thread of each: every increment counts",
    expect=lambda v: {"count": 200 * 20, "lock": 0},
    timeout=TIMEOUT,
)
def lock_between_blocks():
    add = kernel(
        r"""
        extern "C" __global__ void k(int* lock, int* count, int times) {
            for (int i = 0; i < times; i++) {
                while (atomicCAS(lock, 0, 1) != 0) { }
                __threadfence();
                *(volatile int*)count = *(volatile int*)count + 1;
                __threadfence();
                atomicExch(lock, 0);
            }
        }"""
    )
    lock, count = cp.zeros(1, cp.int32), cp.zeros(1, cp.int32)
    add((200,), (1,), (lock, count, np.int32(20)))
    return {"count": int(count[0]), "lock": int(lock[0])}


@program(
    "a spin lock between the warps of a block, in shared memory",
    expect=lambda v: {"count": 32 * 50},
    timeout=TIMEOUT,
)
def lock_between_warps():
    add = kernel(
        r"""
        extern "C" __global__ void k(int* out) {
            __shared__ int lock;
            __shared__ volatile int count;
            if (threadIdx.x == 0) { lock = 0; count = 0; }
            __syncthreads();
            if (threadIdx.x % 32 == 0)
                for (int i = 0; i < 50; i++) {
                    while (atomicExch(&lock, 1) != 0) { }
                    __threadfence_block();
                    count = count + 1;
                    __threadfence_block();
                    atomicExch(&lock, 0);
                }
            __syncthreads();
            if (threadIdx.x == 0) *out = count;
        }"""
    )
    out = cp.zeros(1, cp.int32)
    add((1,), (1024,), (out,))
    return {"count": int(out[0])}


@program(
    "a spin lock between the lanes of one warp: each gets it in the end (independent thread scheduling)",
    expect=lambda v: {"count": 4 * 64},
    timeout=TIMEOUT,
)
def lock_between_lanes():
    add = kernel(
        r"""
        extern "C" __global__ void k(int* lock, int* count) {
            bool done = false;
            while (!done) {
                if (atomicCAS(lock, 0, 1) == 0) {
                    __threadfence();
                    *(volatile int*)count = *(volatile int*)count + 1;
                    __threadfence();
                    atomicExch(lock, 0);
                    done = true;
                }
            }
        }"""
    )
    lock, count = cp.zeros(1, cp.int32), cp.zeros(1, cp.int32)
    add((4,), (64,), (lock, count))
    return {"count": int(count[0])}


@program(
    "a ticket lock serves the blocks in the order of their tickets",
    expect=lambda v: {"order": np.arange(300, dtype=np.int32), "next": 300},
    timeout=TIMEOUT,
)
def ticket_lock():
    serve = kernel(
        r"""
        extern "C" __global__ void k(unsigned* ticket, volatile unsigned* serving, int* order, int* count) {
            unsigned mine = atomicAdd(ticket, 1u);
            while (*serving != mine) { }
            __threadfence();
            int at = *(volatile int*)count;
            order[at] = mine;
            *(volatile int*)count = at + 1;
            __threadfence();
            *serving = mine + 1;
        }"""
    )
    ticket, serving, count = (cp.zeros(1, cp.uint32) for _ in range(3))
    order = cp.zeros(300, cp.int32)
    serve((300,), (1,), (ticket, serving, order, count))
    return {"order": order.get(), "next": int(serving[0])}


@program(
    "lane 1 waits for a flag that lane 0 sets behind the branch, then lane 0 waits for lane 1",
    expect=lambda v: {"out": np.array([5, 4], np.int32)},
    timeout=TIMEOUT,
)
def lanes_wait_for_each_other():
    swap = kernel(
        r"""
        extern "C" __global__ void k(volatile int* flag, int* out) {
            if (threadIdx.x == 1) {
                while (flag[0] == 0) { }
                out[1] = flag[0];
                __threadfence();
                flag[1] = 5;
            } else if (threadIdx.x == 0) {
                flag[0] = 4;
                __threadfence();
                while (flag[1] == 0) { }
                out[0] = flag[1];
            }
        }"""
    )
    flag, out = cp.zeros(2, cp.int32), cp.zeros(2, cp.int32)
    swap((1,), (32,), (flag, out))
    return {"out": out.get()}


@program(
    "a volatile flag in shared memory hands values from warp to warp, last to first",
    expect=lambda v: {"out": np.arange(32, dtype=np.int32)[::-1]},
    timeout=TIMEOUT,
)
def flags_between_warps():
    chain = kernel(
        r"""
        extern "C" __global__ void k(int* out) {
            __shared__ volatile int turn;
            __shared__ int count;
            if (threadIdx.x == 0) { turn = 31; count = 0; }
            __syncthreads();
            int warp = threadIdx.x / 32;
            if (threadIdx.x % 32 == 0) {
                while (turn != warp) __nanosleep(20);
                __threadfence_block();
                out[count] = warp;
                count = count + 1;
                __threadfence_block();
                turn = warp - 1;
            }
        }"""
    )
    out = cp.zeros(32, cp.int32)
    chain((1,), (1024,), (out,))
    return {"out": out.get()}


@program(
    "some warps wait at a barrier while another one polls for what the last warp writes",
    expect=lambda v: {"out": np.full(128, 77, np.int32)},
    timeout=TIMEOUT,
)
def barrier_and_flag():
    both = kernel(
        r"""
        extern "C" __global__ void k(volatile int* flag, int* out) {
            __shared__ int value;
            if (threadIdx.x == 0) {
                while (*flag == 0) { }
                value = *flag;
            } else if (threadIdx.x == 127) {
                *flag = 77;
                __threadfence();
            }
            __syncthreads();
            out[threadIdx.x] = value;
        }"""
    )
    flag, out = cp.zeros(1, cp.int32), cp.zeros(128, cp.int32)
    both((1,), (128,), (flag, out))
    return {"out": out.get()}


@program(
    "the last block to finish adds up what all have left (threadfence reduction)",
    expect=lambda v: {"sum": int(v["x"].sum()), "blocks": 0},
    timeout=TIMEOUT,
)
def last_block_adds_up():
    reduce = kernel(
        r"""
        extern "C" __global__ void k(const int* x, int n, volatile int* partial, unsigned* blocks, int* sum) {
            __shared__ int s[256];
            __shared__ bool last;
            int t = threadIdx.x, mine = 0;
            for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) mine += x[i];
            s[t] = mine;
            __syncthreads();
            for (int half = 128; half; half /= 2) {
                if (t < half) s[t] += s[t + half];
                __syncthreads();
            }
            if (t == 0) {
                partial[blockIdx.x] = s[0];
                __threadfence();
                last = atomicInc(blocks, gridDim.x - 1) == gridDim.x - 1;
            }
            __syncthreads();
            if (last && t == 0) {
                int total = 0;
                for (int b = 0; b < gridDim.x; b++) total += partial[b];
                *sum = total;
            }
        }"""
    )
    x = np.random.default_rng(3).integers(-1000, 1000, 100_000).astype(np.int32)
    partial, blocks, total = cp.zeros(64, cp.int32), cp.zeros(1, cp.uint32), cp.zeros(1, cp.int32)
    reduce((64,), (256,), (cp.asarray(x), np.int32(len(x)), partial, blocks, total))
    return {"x": x, "sum": int(total[0]), "blocks": int(blocks[0])}


@program(
    "a scan in one pass: each block looks back at the ones before it (decoupled look-back)",
    expect=lambda v: {"scan": np.cumsum(v["x"], dtype=np.int32)},
    timeout=TIMEOUT,
)
def look_back_scan():
    scan = kernel(
        r"""
        extern "C" __global__ void k(const int* x, int* y, int n, unsigned* ticket, volatile int* state,
                                     volatile int* sums, volatile int* prefixes) {
            __shared__ int s[128];
            __shared__ int block, before;
            int t = threadIdx.x;
            if (t == 0) block = atomicAdd(ticket, 1u);
            __syncthreads();
            int i = block * 128 + t, b = block;
            s[t] = i < n ? x[i] : 0;
            __syncthreads();
            for (int step = 1; step < 128; step *= 2) {
                int left = t >= step ? s[t - step] : 0;
                __syncthreads();
                s[t] += left;
                __syncthreads();
            }
            if (t == 0) {
                int total = s[127], prefix = 0;
                sums[b] = total;
                __threadfence();
                state[b] = 1;
                for (int p = b - 1; p >= 0; p--) {
                    int found;
                    do { found = state[p]; } while (found == 0);
                    __threadfence();
                    if (found == 2) { prefix += prefixes[p]; break; }
                    prefix += sums[p];
                }
                prefixes[b] = prefix + total;
                __threadfence();
                state[b] = 2;
                before = prefix;
            }
            __syncthreads();
            if (i < n) y[i] = before + s[t];
        }"""
    )
    x = np.random.default_rng(4).integers(-50, 50, 40_000).astype(np.int32)
    blocks = -(-len(x) // 128)
    y, ticket = cp.zeros(len(x), cp.int32), cp.zeros(1, cp.uint32)
    state, sums, prefixes = (cp.zeros(blocks, cp.int32) for _ in range(3))
    scan((blocks,), (128,), (cp.asarray(x), y, np.int32(len(x)), ticket, state, sums, prefixes))
    return {"x": x, "scan": y.get()}


GRID_BARRIER = r"""
__device__ void meet(unsigned* count, unsigned number) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        while (*(volatile unsigned*)count < number * gridDim.x) { }
        __threadfence();
    }
    __syncthreads();
}
extern "C" __global__ void k(unsigned* count, float* a, float* b, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int step = 1; step <= steps; step++) {
        if (i < n) {
            float left = ((volatile float*)a)[i ? i - 1 : 0], right = ((volatile float*)a)[i < n - 1 ? i + 1 : n - 1];
            ((volatile float*)b)[i] = 0.5f * (left + right);
        }
        meet(count, step);
        float* swap = a; a = b; b = swap;
    }
}"""


def _smoothed(v):
    a = v["a"]
    for _ in range(v["steps"]):
        a = np.float32(0.5) * (np.r_[a[0], a[:-1]] + np.r_[a[1:], a[-1]])
    return {"b": a}


@program("a barrier across the grid, made by hand, between the steps of a stencil", expect=_smoothed, timeout=TIMEOUT)
def grid_barrier():
    smooth = kernel(GRID_BARRIER)
    a = np.random.default_rng(5).random(60 * 96 - 11).astype(np.float32)
    one, two = cp.asarray(a), cp.zeros(len(a), cp.float32)
    smooth((60,), (96,), (cp.zeros(1, cp.uint32), one, two, np.int32(len(a)), np.int32(6)))
    return {"a": a, "steps": 6, "b": one.get()}


@program(
    "a producer block and a consumer block over a ring buffer with two counters",
    expect=lambda v: {"sum": sum(i * i for i in range(500)), "put": 500, "taken": 500},
    timeout=TIMEOUT,
)
def producer_and_consumer():
    pipe = kernel(
        r"""
        extern "C" __global__ void k(volatile int* ring, volatile int* put, volatile int* taken, int n, int* sum) {
            if (blockIdx.x == 0) {
                int total = 0;
                for (int i = 0; i < n; i++) {
                    while (*put <= i) { }
                    __threadfence();
                    total += ring[i % 8];
                    __threadfence();
                    *taken = i + 1;
                }
                *sum = total;
            } else {
                for (int i = 0; i < n; i++) {
                    while (i - *taken >= 8) __nanosleep(50);
                    ring[i % 8] = i * i;
                    __threadfence();
                    *put = i + 1;
                }
            }
        }"""
    )
    ring, put, taken, total = cp.zeros(8, cp.int32), *(cp.zeros(1, cp.int32) for _ in range(3))
    pipe((2,), (1,), (ring, put, taken, np.int32(500), total))
    return {"sum": int(total[0]), "put": int(put[0]), "taken": int(taken[0])}


@program(
    "blocks that each wait for the block after them",
    expect=lambda v: {"out": np.arange(100, dtype=np.int32)[::-1]},
    timeout=TIMEOUT,
)
def blocks_in_reverse():
    chain = kernel(
        r"""
        extern "C" __global__ void k(volatile int* flag, int* out) {
            int b = blockIdx.x, last = gridDim.x - 1;
            if (b < last) while (flag[b + 1] == 0) { }
            __threadfence();
            out[b] = b < last ? ((volatile int*)out)[b + 1] + 1 : 0;
            __threadfence();
            flag[b] = 1;
        }"""
    )
    flag, out = cp.zeros(100, cp.int32), cp.zeros(100, cp.int32)
    chain((100,), (1,), (flag, out))
    return {"out": out.get()}


@program(
    "cuda::atomic_ref: wait, notify_all, acquire and release",
    expect=lambda v: {"out": np.array([123, 124], np.int32)},
    timeout=TIMEOUT,
)
def atomic_ref_waits():
    wait = kernel(
        r"""
        #include <cuda/atomic>
        extern "C" __global__ void k(int* flag, int* data, int* out) {
            cuda::atomic_ref<int, cuda::thread_scope_device> ready(flag[0]), taken(flag[1]);
            if (blockIdx.x == 0) {
                ready.wait(0, cuda::memory_order_acquire);
                out[0] = *data;
                taken.store(1, cuda::memory_order_release);
                taken.notify_all();
            } else {
                *data = 123;
                ready.store(1, cuda::memory_order_release);
                ready.notify_all();
                while (taken.load(cuda::memory_order_acquire) == 0) { }
                out[1] = *data + 1;
            }
        }""",
        options=("--std=c++17",),
    )
    flag, data, out = cp.zeros(2, cp.int32), cp.zeros(1, cp.int32), cp.zeros(2, cp.int32)
    wait((2,), (1,), (flag, data, out))
    return {"out": out.get()}


@program(
    "a counting semaphore lets at most three blocks in, and all of them in the end",
    expect=lambda v: {"done": 60, "at most three": True, "left": 3},
    timeout=TIMEOUT,
)
def semaphore():
    enter = kernel(
        r"""
        extern "C" __global__ void k(int* places, int* inside, int* most, int* done) {
            for (;;) {
                int free = *(volatile int*)places;
                if (free > 0 && atomicCAS(places, free, free - 1) == free) break;
            }
            atomicMax(most, atomicAdd(inside, 1) + 1);
            atomicAdd(done, 1);
            atomicSub(inside, 1);
            __threadfence();
            atomicAdd(places, 1);
        }"""
    )
    places, inside, most, done = cp.full(1, 3, cp.int32), *(cp.zeros(1, cp.int32) for _ in range(3))
    enter((60,), (1,), (places, inside, most, done))
    return {"done": int(done[0]), "at most three": 1 <= int(most[0]) <= 3, "left": int(places[0])}


@program(
    "a warp polls together: __any_sync over what its lanes have seen",
    expect=lambda v: {"out": np.arange(1, 33, dtype=np.int32)},
    timeout=TIMEOUT,
)
def warp_polls_together():
    poll = kernel(
        r"""
        extern "C" __global__ void k(volatile int* state, int* out) {
            int lane = threadIdx.x % 32;
            if (threadIdx.x < 32) {
                int seen;
                do { seen = state[lane]; } while (__any_sync(0xffffffffu, seen == 0));
                out[lane] = seen;
            } else {
                __nanosleep(1000 * lane);
                state[31 - lane] = 32 - lane;
            }
        }"""
    )
    state, out = cp.zeros(32, cp.int32), cp.zeros(32, cp.int32)
    poll((1,), (64,), (state, out))
    return {"out": out.get()}


@program(
    "blocks take work from a counter until there is none; nobody waits",
    expect=lambda v: {"out": np.arange(1000, dtype=np.int32) ** 2, "counter": 1000 + 40},
    timeout=TIMEOUT,
)
def work_queue():
    work = kernel(
        r"""
        extern "C" __global__ void k(int* counter, int* out, int n) {
            int i;
            while ((i = atomicAdd(counter, 1)) < n) out[i] = i * i;
        }"""
    )
    counter, out = cp.zeros(1, cp.int32), cp.zeros(1000, cp.int32)
    work((10,), (4,), (counter, out, np.int32(1000)))
    return {"out": out.get(), "counter": int(counter[0])}


WAIT = r"""
extern "C" __global__ void k(volatile int* flag, int* out, int value) {
    while (*flag == 0) { }
    out[threadIdx.x] = *flag + value;
}"""


@program(
    "the host sets a flag in mapped memory while the kernel polls it",
    expect=lambda v: {"before": "cudaErrorNotReady", "out": np.full(32, 42, np.int32)},
    timeout=TIMEOUT,
)
def host_sets_a_mapped_flag():
    wait = kernel(WAIT)
    (flag, host), out = host_ints(1), cp.zeros(32, cp.int32)
    stream = streams(1)[0]
    wait((1,), (32,), (flag, out, np.int32(2)), stream=stream)
    before = code(cudart.cudaStreamQuery(stream.ptr))
    host[0] = 40
    stream.synchronize()
    return {"before": before, "out": out.get()}


@program(
    "the host sets a flag in managed memory while the kernel polls it",
    expect=lambda v: {"out": np.full(32, 42, np.int32)},
    timeout=TIMEOUT,
)
def host_sets_a_managed_flag():
    wait = kernel(WAIT)
    address = int(cudart.cudaMallocManaged(4, 1)[1])
    host = np.ctypeslib.as_array((ctypes.c_int32 * 1).from_address(address))
    host[0] = 0
    out = cp.zeros(32, cp.int32)
    stream = streams(1)[0]
    wait((1,), (32,), (np.uint64(address), out, np.int32(2)), stream=stream)
    host[0] = 40
    stream.synchronize()
    return {"out": out.get()}


@program(
    "a kernel of another stream sets the flag",
    expect=lambda v: {"out": np.full(32, 43, np.int32)},
    timeout=TIMEOUT,
)
def another_kernel_sets_the_flag():
    wait, set_ = kernel(WAIT), kernel('extern "C" __global__ void s(volatile int* flag, int v) { *flag = v; }', "s")
    flag, out = cp.zeros(1, cp.int32), cp.zeros(32, cp.int32)
    one, two = streams(2)
    cp.cuda.Device().synchronize()
    wait((1,), (32,), (flag, out, np.int32(1)), stream=one)
    set_((1,), (1,), (flag, np.int32(42)), stream=two)
    one.synchronize()
    return {"out": out.get()}


@program(
    "a copy from page-locked memory, and a memset, in another stream set the flag",
    expect=lambda v: {"copy": np.full(32, 8, np.int32), "memset": np.full(32, 0x01010102, np.int32)},
    timeout=TIMEOUT,
)
def a_copy_sets_the_flag():
    wait = kernel(WAIT)
    flags, out = cp.zeros(64, cp.int32), cp.zeros((2, 32), cp.int32)
    source, host = host_ints(1)
    host[0] = 7
    one, two = streams(2)
    cp.cuda.Device().synchronize()
    wait((1,), (32,), (flags, out[0], np.int32(1)), stream=one)
    wait((1,), (32,), (flags[32:], out[1], np.int32(1)), stream=one)
    cudart.cudaMemcpyAsync(flags.data.ptr, int(source), 4, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, two.ptr)
    cudart.cudaMemsetAsync(flags[32:].data.ptr, 1, 4, two.ptr)
    one.synchronize()
    return {"copy": out[0].get(), "memset": out[1].get()}


@program(
    "a host function in another stream sets the flag",
    expect=lambda v: {"out": np.full(32, 11, np.int32)},
    timeout=TIMEOUT,
)
def a_host_function_sets_the_flag():
    wait = kernel(WAIT)
    (flag, host), out = host_ints(1), cp.zeros(32, cp.int32)
    one, two = streams(2)
    cp.cuda.Device().synchronize()
    wait((1,), (32,), (flag, out, np.int32(1)), stream=one)
    two.launch_host_func(lambda value: host.__setitem__(0, value), 10)
    one.synchronize()
    two.synchronize()
    return {"out": out.get()}


@program(
    "cuStreamWriteValue32 and 64 set flags that kernels poll",
    expect=lambda v: {"results": ["CUDA_SUCCESS"] * 2, "out": np.array([[6] * 32, [9] * 32], np.int32)},
    timeout=TIMEOUT,
)
def the_stream_writes_the_flag():
    wait = kernel(WAIT)
    flags, out = cp.zeros(64, cp.int32), cp.zeros((2, 32), cp.int32)
    one, two = streams(2)
    cp.cuda.Device().synchronize()
    wait((1,), (32,), (flags, out[0], np.int32(1)), stream=one)
    wait((1,), (32,), (flags[32:], out[1], np.int32(1)), stream=one)
    first = driver.cuStreamWriteValue32(two.ptr, flags.data.ptr, 5, 0)
    second = driver.cuStreamWriteValue64(two.ptr, flags[32:].data.ptr, 8, 0)
    one.synchronize()
    return {"results": [code(first), code(second)], "out": out.get()}


@program(
    "two kernels in two streams take turns",
    expect=lambda v: {"out": np.array([98, 99], np.int32), "turn": 100},
    timeout=TIMEOUT,
)
def two_kernels_take_turns():
    play = kernel(
        r"""
        extern "C" __global__ void k(volatile int* turn, int first, int n, int* out) {
            for (int i = first; i < n; i += 2) {
                while (*turn != i) { }
                out[first] = i;
                __threadfence();
                *turn = i + 1;
            }
        }"""
    )
    turn, out = cp.zeros(1, cp.int32), cp.zeros(2, cp.int32)
    one, two = streams(2)
    cp.cuda.Device().synchronize()
    play((1,), (1,), (turn, np.int32(1), np.int32(100), out), stream=one)
    play((1,), (1,), (turn, np.int32(0), np.int32(100), out), stream=two)
    cp.cuda.Device().synchronize()
    return {"out": out.get(), "turn": int(turn[0])}


@program(
    "a kernel tells its progress in mapped memory while it runs, and stops when the host asks it to",
    expect=lambda v: {"started": True, "stopped": True, "final is seen": True},
    timeout=TIMEOUT,
)
def progress_and_stop():
    work = kernel(
        r"""
        extern "C" __global__ void k(volatile int* shared, int* out) {
            int rounds = 0;
            while (shared[1] == 0) {
                rounds++;
                shared[0] = rounds;
                __threadfence_system();
            }
            *out = rounds;
        }"""
    )
    (address, host), out = host_ints(2), cp.zeros(1, cp.int32)
    stream = streams(1)[0]
    work((1,), (1,), (address, out), stream=stream)
    started = polls(lambda: stream.done or host[0] > 2) and not stream.done
    host[1] = 1
    stream.synchronize()
    return {"started": started, "stopped": stream.done, "final is seen": int(out[0]) == int(host[0])}


@program(
    "the host sees the progress of a kernel that does not wait for anything",
    expect=lambda v: {"first": 0, "in between": True, "last": 200, "in order": True},
    timeout=TIMEOUT,
)
def progress_of_a_kernel():
    work = kernel(
        r"""
        extern "C" __global__ void k(volatile int* progress, long long cycles) {
            for (int step = 1; step <= 200; step++) {
                long long start = clock64();
                while (clock64() - start < cycles) { }
                *progress = step;
                __threadfence_system();
            }
        }"""
    )
    address, host = host_ints(1)
    stream = streams(1)[0]
    first = int(host[0])
    work((1,), (1,), (address, np.int64(200_000)), stream=stream)
    seen = []
    while not stream.done and len(seen) < 2_000_000:
        seen.append(int(host[0]))
    stream.synchronize()
    between = sorted(set(seen) - {0, 200})
    return {"first": first, "in between": len(between) > 3, "last": int(host[0]), "in order": seen == sorted(seen)}


@program(
    "a wait with a bound on its rounds, and one with a bound on time, give up when nobody sets the flag",
    expect=lambda v: {"rounds": 5000, "late": True, "flag": 0},
    timeout=TIMEOUT,
)
def bounded_waits():
    bounded = kernel(
        r"""
        extern "C" __global__ void k(volatile int* flag, int* rounds, long long* waited) {
            int r = 0;
            while (*flag == 0 && r < 5000) r++;
            long long start = clock64();
            while (*flag == 0 && clock64() - start < 300000) { }
            *rounds = r;
            *waited = clock64() - start;
        }"""
    )
    flag, rounds, waited = cp.zeros(1, cp.int32), cp.zeros(1, cp.int32), cp.zeros(1, cp.int64)
    bounded((1,), (1,), (flag, rounds, waited))
    return {"rounds": int(rounds[0]), "late": int(waited[0]) >= 300_000, "flag": int(flag[0])}


@program(
    "a flag in a __device__ variable, and a function that spins and is not inlined",
    expect=lambda v: {"out": np.full(64, 3, np.int32)},
    timeout=TIMEOUT,
)
def flag_in_a_variable():
    module = cp.RawModule(
        code=r"""
        __device__ int turn;
        __device__ __noinline__ void wait_for(volatile int* place, int value) {
            while (*place != value) { }
        }
        extern "C" __global__ void k(int* out) {
            if (blockIdx.x == 0) {
                if (threadIdx.x == 0) wait_for(&turn, 3);
                __syncthreads();
                out[threadIdx.x] = ((volatile int*)&turn)[0];
            } else if (threadIdx.x == 0) {
                for (int i = 1; i <= 3; i++) { *(volatile int*)&turn = i; __threadfence(); }
            }
        }"""
    )
    out = cp.zeros(64, cp.int32)
    module.get_function("k")((2,), (64,), (out,))
    return {"out": out.get()}


@program(
    "inline PTX: ld.acquire and st.release, at device and system scope",
    expect=lambda v: {"out": np.array([31, 32], np.int32)},
    timeout=TIMEOUT,
)
def inline_acquire_release():
    ptx = kernel(
        r"""
        __device__ int look(int* p) { int v;
            asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
        __device__ int look_system(int* p) { int v;
            asm volatile("ld.relaxed.sys.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
        __device__ void tell(int* p, int v) {
            asm volatile("st.release.sys.s32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
        extern "C" __global__ void k(int* flag, int* out) {
            if (blockIdx.x == 0) {
                int v;
                while ((v = look(flag)) == 0) { }
                out[0] = v;
                tell(flag + 1, v + 1);
            } else {
                tell(flag, 31);
                int v;
                while ((v = look_system(flag + 1)) == 0) { }
                out[1] = v;
            }
        }"""
    )
    flag, out = cp.zeros(2, cp.int32), cp.zeros(2, cp.int32)
    ptx((2,), (1,), (flag, out))
    return {"out": out.get()}
