"""Errors of running kernels: what the host sees, when, and that it stays. Each program has a process of its own."""

import numpy as np

from cudalab import cp, cudart

from ..program import code, printed, program, raised


def after(source, *args, grid=(1,), block=(1,), options=()):
    """The launch, the next synchronisation, the one after it, and other calls after the fault."""
    kernel = cp.RawKernel(source, "k", options=options)
    warm = cp.zeros(4, cp.int32)
    stream = cp.cuda.Stream.null
    stream.synchronize()
    return {
        "launch": raised(lambda: kernel(grid, block, args)),
        "synchronise": raised(stream.synchronize),
        "again": raised(stream.synchronize),
        "another launch": raised(lambda: kernel(grid, block, args)),
        "malloc": code(cudart.cudaMalloc(64)),
        "copy": raised(lambda: warm.get()),
        "last": code(cudart.cudaGetLastError()),
        "last again": code(cudart.cudaGetLastError()),
    }


@program("an illegal address: reported at the synchronisation, and for the rest of the process", isolated=True)
def illegal_address():
    out = cp.zeros(4, cp.float32)
    return after(
        'extern "C" __global__ void k(float* x, long long far) { x[far + threadIdx.x] = 1; }', out, np.int64(1 << 40)
    )


@program("a null pointer written", isolated=True)
def null_pointer():
    return after('extern "C" __global__ void k(int* x) { x[threadIdx.x] = 1; }', np.uint64(0), block=(32,))


@program("a misaligned read of four bytes", isolated=True)
def misaligned_address():
    x = cp.zeros(64, cp.uint8)
    return after(
        'extern "C" __global__ void k(const char* x, int* y) { *y = *(const int*)(x + 1); }', x, cp.zeros(1, "i4")
    )


@program("a misaligned vector store of sixteen bytes", isolated=True)
def misaligned_vector():
    x = cp.zeros(64, cp.float32)
    return after('extern "C" __global__ void k(float* x) { *(float4*)(x + 1) = make_float4(1, 2, 3, 4); }', x)


@program("__trap ends the launch", isolated=True)
def trap():
    return after('extern "C" __global__ void k(int n) { if (threadIdx.x == n) __trap(); }', np.int32(3), block=(32,))


@program("a host pointer in a kernel (device without pageable access)", isolated=True)
def host_pointer():
    host = np.zeros(1 << 20, np.float32)
    pageable = cp.cuda.Device(0).attributes["PageableMemoryAccess"]
    result = after('extern "C" __global__ void k(float* x) { x[0] = 1; }', np.uint64(host.ctypes.data))
    return {"pageable access": pageable, **(result if not pageable else {})}


def shared_access(offset, *, write):
    """An access of shared memory ``offset`` bytes from its start."""
    access = "s[far] = 7;" if write else "*y = s[far];"
    return after(
        r"""extern "C" __global__ void k(int far, int* y) {
            __shared__ int s[32];
            s[threadIdx.x] = 1; __syncthreads();
            ACCESS
            __syncthreads();
            y[threadIdx.x] = s[threadIdx.x];
        }""".replace("ACCESS", access),
        np.int32(offset // 4),
        cp.zeros(32, cp.int32),
        block=(32,),
    )


@program("a read of shared memory far beyond the window", isolated=True)
def shared_far_out():
    return shared_access(1 << 26, write=False)


@program("a write of shared memory far beyond the window", isolated=True)
def shared_written_far_out():
    return shared_access(1 << 26, write=True)


@program("a read of shared memory beyond what a multiprocessor has", isolated=True)
def shared_beyond_the_multiprocessor():
    return shared_access(1 << 20, write=False)


@program("a read ahead of shared memory", isolated=True)
def shared_before_the_start():
    return shared_access(-4096, write=False)


@program("a read just past a shared array that fills its last 128 bytes", isolated=True)
def shared_just_past():
    return after(
        r"""extern "C" __global__ void k(int* y, int far) {
            __shared__ int tile[64];
            tile[threadIdx.x] = threadIdx.x;
            __syncthreads();
            y[threadIdx.x] = tile[threadIdx.x + far];
        }""",
        cp.zeros(64, cp.int32),
        np.int32(1),
        block=(64,),
    )


@program("dynamic shared memory that the launch did not ask for", isolated=True)
def dynamic_shared_not_asked_for():
    return after(
        r"""extern __shared__ float pool[];
        extern "C" __global__ void k(float* y) {
            pool[threadIdx.x] = 1;
            __syncthreads();
            y[threadIdx.x] = pool[31 - threadIdx.x];
        }""",
        cp.zeros(32, cp.float32),
        block=(32,),
    )


@program("a failed assert: error, and the message with file, line, block, thread and condition", isolated=True)
def failed_assert():
    kernel = cp.RawKernel(
        'extern "C" __global__ void k(int n) {\n'
        "    int i = threadIdx.x + blockIdx.x * blockDim.x;\n    assert(i != n);\n}",
        "k",
    )
    with printed(2) as err:
        kernel((3,), (32,), (np.int32(70),))
        outcome = raised(cp.cuda.Device().synchronize)
    line = next((part for part in err.text.splitlines() if "Assertion" in part), "")
    return {
        "synchronise": outcome,
        "again": raised(cp.cuda.Device().synchronize),
        "last": code(cudart.cudaGetLastError()),
        "message": line[line.find(":") :] if line else err.text,
        "lines": sum("Assertion" in part for part in err.text.splitlines()),
    }


@program(
    "assert disappears with NDEBUG, and one that holds does nothing",
    expect=lambda v: {"out": np.array([1, 1], np.int32)},
)
def asserts_that_hold():
    source = r"""
        extern "C" __global__ void k(int* out, int limit) { assert(threadIdx.x < limit); *out = 1; }"""
    out = cp.zeros(2, cp.int32)
    cp.RawKernel(source, "k")((1,), (32,), (out, np.int32(32)))
    cp.RawKernel(source, "k", options=("-DNDEBUG",))((1,), (32,), (out[1:], np.int32(0)))
    return {"out": out}


@program("work queued before a fault is done, results after it are lost", isolated=True)
def fault_among_launches():
    out = cp.zeros(2, cp.int32)
    host = cp.cuda.alloc_pinned_memory(8)
    kept = np.frombuffer(host, np.int32, 2)
    kept[:] = -1
    good = cp.RawKernel('extern "C" __global__ void k(int* x) { x[0] = 11; }', "k")
    bad = cp.RawKernel('extern "C" __global__ void k(int* x) { *x = 1; }', "k")
    cp.cuda.Device().synchronize()
    good((1,), (1,), (out,))
    out.get(out=kept, stream=cp.cuda.Stream.null)
    cp.cuda.Device().synchronize()
    bad((1,), (1,), (np.uint64(8),))
    error = raised(cp.cuda.Device().synchronize)
    return {"kept": kept.copy(), "error": error, "event": raised(lambda: cp.cuda.Event().record())}


@program("events and queries after a fault report it too", isolated=True)
def event_after_fault():
    kernel = cp.RawKernel('extern "C" __global__ void k(int* x) { *x = 1; }', "k")
    stream = cp.cuda.Stream()
    event = cp.cuda.Event()
    with stream:
        kernel((1,), (1,), (np.uint64(16),))
        event_error = raised(lambda: event.record(stream))
    return {
        "record": event_error if event_error == "none" else "CUDARuntimeError",
        "stream": raised(stream.synchronize),
        "event": raised(event.synchronize),
        "query": code(cudart.cudaStreamQuery(cudart.cudaStream_t(0))),
        "peek": code(cudart.cudaPeekAtLastError()),
    }


@program("unbounded recursion overflows the stack of the thread", isolated=True)
def stack_overflow():
    kernel = cp.RawKernel(
        r"""
        __device__ __noinline__ int dig(int n, volatile int* p) {
            int a[64];
            a[n & 63] = *p;
            return dig(n + 1, p) + a[(n * 7) & 63];
        }
        extern "C" __global__ void k(int* x) { x[0] = dig(0, x); }""",
        "k",
    )
    out = cp.zeros(1, cp.int32)
    launch = raised(lambda: kernel((1,), (1,), (out,)))
    return {"launch": launch, "synchronise": raised(cp.cuda.Device().synchronize)}


@program("memory that was freed and unmapped: read by a kernel", isolated=True)
def use_after_free():
    _, pointer = cudart.cudaMalloc(64 << 20)
    cudart.cudaFree(pointer)
    source = 'extern "C" __global__ void k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }'
    return after(source, np.uint64(int(pointer)), cp.zeros(32, cp.float32), block=(32,))


@program("a loop in a template that runs far past its array", isolated=True)
def far_past_the_end():
    kernel = cp.RawModule(
        code=r"""
        template<typename T> __device__ T total(const T* x, long long n) {
            T sum = 0;
            for (long long i = 0; i < n; i += 1 << 20) sum += x[i];
            return sum;
        }
        template<typename T> __global__ void k(const T* x, long long n, T* out) { *out = total(x, n); }""",
        name_expressions=("k<double>",),
    ).get_function("k<double>")
    out = cp.zeros(1)
    launch = raised(lambda: kernel((1,), (1,), (out, np.int64(1 << 42), out)))
    return {"launch": launch, "synchronise": raised(cp.cuda.Device().synchronize)}


@program("a null pointer inside a struct, followed by each thread of a 2-D block", isolated=True)
def null_in_a_struct():
    return after(
        r"""
        struct Node { int value; Node* next; };
        extern "C" __global__ void k(const Node* list, int* out) {
            int i = threadIdx.y * blockDim.x + threadIdx.x;
            out[i] = list->next->value;
        }""",
        cp.zeros(2, cp.int64),
        cp.zeros(64, cp.int32),
        block=(8, 8),
    )


@program("atomics on an address that is not a multiple of their size", isolated=True)
def misaligned_atomic():
    return after(
        'extern "C" __global__ void k(char* x) { atomicAdd((int*)(x + 2), 1); }', cp.zeros(64, cp.uint8), block=(2,)
    )


@program("a misaligned access in shared memory", isolated=True)
def misaligned_shared():
    return after(
        r"""extern "C" __global__ void k(int offset, double* y) {
            __shared__ char pool[256];
            pool[threadIdx.x] = threadIdx.x;
            __syncthreads();
            *y = *(double*)(pool + offset);
        }""",
        np.int32(4),
        cp.zeros(1),
        block=(64,),
    )


@program("assert in a function of a template, in a 2-D block", isolated=True)
def assert_in_a_template():
    kernel = cp.RawModule(
        code="template<typename T> __device__ T checked(T x, T limit) {\n"
        "    assert(x < limit && sizeof(T) == 4);\n    return x;\n}\n"
        "template<typename T> __global__ void k(T* out, T limit) {\n"
        "    out[0] = checked<T>(threadIdx.x + 10 * threadIdx.y, limit);\n}",
        name_expressions=("k<int>",),
    ).get_function("k<int>")
    out = cp.zeros(1, cp.int32)
    with printed(2) as err:
        kernel((1,), (4, 3), (out, np.int32(23)))
        outcome = raised(cp.cuda.Device().synchronize)
    lines = [line for line in err.text.splitlines() if "Assertion" in line]
    return {"synchronise": outcome, "messages": sorted(line[line.find(":") :] for line in lines)}
