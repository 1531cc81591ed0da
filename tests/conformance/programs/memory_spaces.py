"""Memory spaces: global, shared, constant, local, module variables, struct parameters, generic pointers, vectors."""

import numpy as np

from cudalab import cp

from ..program import program, raised


@program(
    "a grid-stride loop covers all elements whatever the grid",
    expect=lambda v: {"outs": np.stack([v["x"] * 3 + 1] * 4)},
)
def grid_stride_loop():
    x = np.arange(1000, dtype=np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, int* out, size_t n) {
            for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
                out[i] = x[i] * 3 + 1;
        }""",
        "k",
    )
    outs = cp.zeros((4, 1000), cp.int32)
    for row, (grid, block) in enumerate([(1, 1), (3, 7), (4, 256), (1000, 1)]):
        kernel((grid,), (block,), (cp.asarray(x), outs[row], np.uint64(1000)))
    return {"x": x, "outs": outs}


def _indices(v):
    z, y, x = np.meshgrid(np.arange(4), np.arange(6), np.arange(10), indexing="ij")
    linear = (z % 2) * 15 + (y % 3) * 5 + x % 5
    block = (z // 2) * 4 + (y // 3) * 2 + x // 5
    return {"thread": linear.astype(np.int32), "block": block.astype(np.int32)}


@program("thread and block indices in three dimensions", expect=_indices)
def three_dimensional_indices():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* thread, int* block, int3 size) {
            int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
            int z = blockIdx.z * blockDim.z + threadIdx.z;
            int at = (z * size.y + y) * size.x + x;
            thread[at] = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
            block[at] = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        }""",
        "k",
    )
    thread, block = cp.zeros((4, 6, 10), cp.int32), cp.zeros((4, 6, 10), cp.int32)
    size = np.array((10, 6, 4), dtype=np.dtype([("x", "i4"), ("y", "i4"), ("z", "i4")]))[()]
    kernel((2, 2, 2), (5, 3, 2), (thread, block, size))
    return {"thread": thread, "block": block}


@program(
    "static shared memory: each block reverses its own part",
    expect=lambda v: {"out": v["x"].reshape(-1, 64)[:, ::-1].reshape(-1)},
)
def static_shared():
    x = np.arange(320, dtype=np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, float* out) {
            __shared__ float tile[64];
            int i = blockIdx.x * 64 + threadIdx.x;
            tile[threadIdx.x] = x[i];
            __syncthreads();
            out[i] = tile[63 - threadIdx.x];
        }""",
        "k",
    )
    out = cp.zeros(320, cp.float32)
    kernel((5,), (64,), (cp.asarray(x), out))
    return {"x": x, "out": out}


@program(
    "dynamic shared memory holds two arrays of different types, its size given at launch",
    expect=lambda v: {"out": (v["x"][::-1] + np.arange(v["x"].size)[::-1]).astype(np.float64)},
)
def dynamic_shared():
    x = np.linspace(0, 1, 96)
    kernel = cp.RawKernel(
        r"""
        extern __shared__ double pool[];
        extern "C" __global__ void k(const double* x, double* out) {
            double* values = pool;
            short* numbers = (short*)(pool + blockDim.x);
            int i = threadIdx.x;
            values[i] = x[i]; numbers[i] = i;
            __syncthreads();
            int j = blockDim.x - 1 - i;
            out[i] = values[j] + numbers[j];
        }""",
        "k",
    )
    out = cp.zeros(96)
    kernel((1,), (96,), (cp.asarray(x), out), shared_mem=96 * (8 + 2))
    return {"x": x, "out": out}


@program(
    "static and dynamic shared memory together do not overlap",
    expect=lambda v: {"out": np.stack([np.arange(32), np.arange(32) + 100, np.arange(32) + 200]).astype(np.int32)},
)
def static_and_dynamic_shared():
    kernel = cp.RawKernel(
        r"""
        extern __shared__ int dynamic[];
        __device__ int* scratch() { __shared__ int inner[32]; return inner; }
        extern "C" __global__ void k(int* out) {
            __shared__ int fixed[32];
            int i = threadIdx.x;
            fixed[i] = i; dynamic[i] = i + 100; scratch()[i] = i + 200;
            __syncthreads();
            out[i] = fixed[i]; out[32 + i] = dynamic[i]; out[64 + i] = scratch()[i];
        }""",
        "k",
    )
    out = cp.zeros((3, 32), cp.int32)
    kernel((1,), (32,), (out,), shared_mem=128)
    return {"out": out}


@program(
    "shared memory of structs, unions and rows with padding",
    expect=lambda v: {"out": v["x"].T, "union": v["x"].view(np.uint32)[0] & np.uint32(0xFFFF)},
)
def shared_layouts():
    x = np.arange(1024, dtype=np.float32).reshape(32, 32)
    kernel = cp.RawKernel(
        r"""
        union Word { float f; unsigned short half[2]; };
        extern "C" __global__ void k(const float* x, float* out, unsigned* low) {
            __shared__ struct { char tag; float tile[32][33]; } s;
            __shared__ Word words[32];
            int c = threadIdx.x;
            for (int r = threadIdx.y; r < 32; r += blockDim.y) s.tile[r][c] = x[r * 32 + c];
            if (threadIdx.y == 0) words[c].f = x[c];
            __syncthreads();
            for (int r = threadIdx.y; r < 32; r += blockDim.y) out[r * 32 + c] = s.tile[c][r];
            if (threadIdx.y == 1) low[c] = words[c].half[0];
        }""",
        "k",
    )
    out, low = cp.zeros((32, 32), cp.float32), cp.zeros(32, cp.uint32)
    kernel((1,), (32, 8), (cp.asarray(x), out, low))
    return {"x": x, "out": out, "union": low}


LARGE_SHARED = r"""
extern __shared__ int big[];
extern "C" __global__ void k(int* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) big[i] = i;
    __syncthreads();
    long long sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += big[n - 1 - i];
    atomicAdd(out, (int)sum);
}"""


@program(
    "48 KB of dynamic shared memory is allowed at once, more only after opting in",
    expect=lambda v: {"at 48 KB": "none", "opted in": "none", "sums": [sum(range(12288)), sum(range(25600))]},
)
def opt_in_shared():
    kernel = cp.RawKernel(LARGE_SHARED, "k")
    out = cp.zeros(2, cp.int32)
    result = {"at 48 KB": raised(lambda: kernel((1,), (256,), (out, np.int32(12288)), shared_mem=49152))}
    result["above"] = raised(lambda: kernel((1,), (256,), (out, np.int32(12289)), shared_mem=49156))
    result["before"] = kernel.max_dynamic_shared_size_bytes
    kernel.max_dynamic_shared_size_bytes = 102400
    result["after"] = kernel.max_dynamic_shared_size_bytes
    result["opted in"] = raised(lambda: kernel((1,), (256,), (out[1:], np.int32(25600)), shared_mem=102400))
    result["above the opt-in"] = raised(lambda: kernel((1,), (256,), (out[1:], np.int32(25600)), shared_mem=102404))
    return {**result, "sums": [int(x) for x in out.get()]}


@program("the opt-in ends at 227 KB, and static shared memory counts against it")
def opt_in_limit():
    def limit(source, size):
        kernel = cp.RawKernel(source, "k")
        return raised(lambda: setattr(kernel, "max_dynamic_shared_size_bytes", size))

    static = LARGE_SHARED.replace("__syncthreads();", "__shared__ int s[1024]; s[threadIdx.x] = n; __syncthreads();", 1)
    static = static.replace("sum = 0", "sum = s[threadIdx.x] - n")
    attribute = cp.cuda.Device(0).attributes
    return {
        "limit": attribute["MaxSharedMemoryPerBlockOptin"],
        "plain": attribute["MaxSharedMemoryPerBlock"],
        "at the limit": limit(LARGE_SHARED, 232448),
        "one above": limit(LARGE_SHARED, 232449),
        "with 4 KB static": limit(static, 232448 - 4096),
        "with 4 KB static, above": limit(static, 232448 - 4095),
        "static size": cp.RawKernel(static, "k").shared_size_bytes,
    }


@program("static shared memory beyond 48 KB does not load")
def static_shared_limit():
    def attempt(words):
        source = f"""
            extern "C" __global__ void k(int* out) {{
                __shared__ int big[{words}];
                for (int i = threadIdx.x; i < {words}; i += blockDim.x) big[i] = i * 3;
                __syncthreads();
                out[threadIdx.x] = big[{words} - 1 - threadIdx.x];
            }}"""
        out = cp.zeros(32, cp.int32)
        error = raised(lambda: cp.RawKernel(source, "k")((1,), (32,), (out,)))
        return [error.split()[0], out.get()]

    return {"48 KB": attempt(12288), "48 KB and 4 bytes": attempt(12289)}


@program(
    "constant memory: initialised in the source, filled from the host, indexed by the thread",
    expect=lambda v: {"out": v["table"][np.arange(64) % 16] * np.float32(2.5) + np.float32(7)},
)
def constant_memory():
    table = np.linspace(-1, 1, 16).astype(np.float32)
    module = cp.RawModule(
        code=r"""
        __constant__ float table[16];
        __constant__ struct { float scale; int shift; } settings = {2.5f, 7};
        extern "C" __global__ void k(float* out) {
            int i = threadIdx.x;
            out[i] = __fadd_rn(__fmul_rn(table[i % 16], settings.scale), settings.shift);
        }"""
    )
    target = cp.ndarray(16, cp.float32, memptr=module.get_global("table"))
    target[...] = cp.asarray(table)
    out = cp.zeros(64, cp.float32)
    module.get_function("k")((1,), (64,), (out,))
    return {"table": table, "out": out, "read back": target}


@program(
    "a __device__ variable keeps its value between launches and can be read by the host",
    expect=lambda v: {"after each": [10 + 64, 10 + 128, 10 + 192], "reset": 5 + 64},
)
def device_variable():
    module = cp.RawModule(
        code=r"""
        __device__ int counter = 10;
        extern "C" __global__ void k() { atomicAdd(&counter, 1); }"""
    )
    kernel = module.get_function("k")
    counter = cp.ndarray(1, cp.int32, memptr=module.get_global("counter"))
    after = []
    for _ in range(3):
        kernel((2,), (32,), ())
        after.append(int(counter[0]))
    counter[0] = 5
    kernel((2,), (32,), ())
    return {"after each": after, "reset": int(counter[0])}


@program(
    "module arrays with initialisers, and pointers initialised with addresses of other variables",
    expect=lambda v: {"out": np.array([20, 30, 40, 99, 7, 3, 5, 104], np.int32)},
)
def initialised_pointers():
    module = cp.RawModule(
        code=r"""
        __device__ int table[4] = {10, 20, 30, 40};
        __device__ int spare = 99;
        __device__ int* cursor = &table[1];
        struct Node { int value; const Node* next; };
        __device__ Node last = {5, nullptr};
        __device__ Node middle = {3, &last};
        __device__ Node first = {7, &middle};
        __device__ const char text[] = "hello";
        __device__ const char* letters = text;
        extern "C" __global__ void k(int* out) {
            out[0] = cursor[0]; out[1] = cursor[1]; out[2] = cursor[2];
            cursor = &spare;
            out[3] = *cursor;
            int i = 4;
            for (const Node* n = &first; n; n = n->next) out[i++] = n->value;
            out[7] = letters[0];
        }"""
    )
    out = cp.zeros(8, cp.int32)
    module.get_function("k")((1,), (1,), (out,))
    return {"out": out}


@program(
    "a __device__ pointer set by the host points to an array made by the host",
    expect=lambda v: {"out": np.arange(16, dtype=np.float32) ** 2},
)
def device_pointer_variable():
    module = cp.RawModule(
        code=r"""
        __device__ float* data;
        extern "C" __global__ void k() { data[threadIdx.x] = (float)(threadIdx.x * threadIdx.x); }"""
    )
    out = cp.zeros(16, cp.float32)
    cp.ndarray(1, cp.uint64, memptr=module.get_global("data"))[0] = out.data.ptr
    module.get_function("k")((1,), (16,), ())
    return {"out": out}


def _permuted(v):
    digits = v["seed"][:, None] // 6 ** np.arange(5) % 6
    return {"sorted": np.sort(digits, axis=1)[:, ::-1].astype(np.int32)}


@program("local arrays, indexed by data: an insertion sort in each thread", expect=_permuted)
def local_arrays():
    seed = np.arange(7, 7000, 70, dtype=np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* seed, int* out) {
            int digits[5], s = seed[threadIdx.x];
            for (int i = 0; i < 5; ++i, s /= 6) digits[i] = s % 6;
            for (int i = 1; i < 5; ++i)
                for (int j = i; j > 0 && digits[j] > digits[j - 1]; --j) {
                    int t = digits[j]; digits[j] = digits[j - 1]; digits[j - 1] = t;
                }
            for (int i = 0; i < 5; ++i) out[threadIdx.x * 5 + i] = digits[i];
        }""",
        "k",
    )
    out = cp.zeros((seed.size, 5), cp.int32)
    kernel((1,), (seed.size,), (cp.asarray(seed), out))
    return {"seed": seed, "sorted": out}


@program(
    "a large local array is private to its thread and survives a barrier",
    expect=lambda v: {"out": (np.arange(128) * 1000 + (np.arange(128) * 37) % 512).astype(np.int32)},
)
def large_local_array():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* out) {
            int big[512], i = blockIdx.x * blockDim.x + threadIdx.x;
            for (int j = 0; j < 512; ++j) big[j ^ (i & 7)] = i * 1000 + (j ^ (i & 7));
            __syncthreads();
            out[i] = big[i * 37 % 512];
        }""",
        "k",
    )
    out = cp.zeros(128, cp.int32)
    kernel((2,), (64,), (out,))
    return {"out": out}


NESTED = np.dtype(
    [("flag", "i1"), ("inner", np.dtype([("d", "f8"), ("pair", "i2", (3,))], align=True)), ("scale", "f4")], align=True
)


@program(
    "structs by value: padding, nested structs, arrays inside",
    expect=lambda v: {"out": np.array([-3, 2.5, 7, 8, 9, 0.5, NESTED.itemsize], np.float64)},
)
def struct_by_value():
    kernel = cp.RawKernel(
        r"""
        struct Inner { double d; short pair[3]; };
        struct Outer { char flag; Inner inner; float scale; };
        extern "C" __global__ void k(Outer o, double* out) {
            o.inner.pair[1] += 0;
            double v[] = {(double)o.flag, o.inner.d, (double)o.inner.pair[0], (double)o.inner.pair[1],
                          (double)o.inner.pair[2], o.scale, (double)sizeof(Outer)};
            out[threadIdx.x] = v[threadIdx.x];
        }""",
        "k",
    )
    outer = np.zeros((), NESTED)
    outer["flag"], outer["scale"] = -3, 0.5
    outer["inner"]["d"], outer["inner"]["pair"] = 2.5, [7, 8, 9]
    out = cp.zeros(7)
    kernel((1,), (7,), (outer[()], out))
    return {"out": out}


@program(
    "a struct of pointers by value, and pointers in memory: a list walked on the device",
    expect=lambda v: {"visited": v["values"][[0, 3, 1, 4, 2]], "sum": int(v["values"].sum())},
)
def pointers_in_memory():
    values = np.array([5, 15, 25, 35, 45], np.int64)
    order = [0, 3, 1, 4, 2]
    nodes = cp.zeros((5, 2), cp.int64)
    host = np.zeros((5, 2), np.int64)
    host[:, 0] = values
    for here, following in zip(order, order[1:], strict=False):
        host[here, 1] = nodes.data.ptr + 16 * following
    nodes.set(host)
    kernel = cp.RawKernel(
        r"""
        struct Node { long long value; Node* next; };
        struct Walk { Node* first; long long* visited; long long* sum; };
        extern "C" __global__ void k(Walk w) {
            int i = 0;
            for (Node* n = w.first; n; n = n->next) { w.visited[i++] = n->value; *w.sum += n->value; }
        }""",
        "k",
    )
    visited, total = cp.zeros(5, cp.int64), cp.zeros(1, cp.int64)
    walk = np.array((nodes.data.ptr, visited.data.ptr, total.data.ptr), dtype=np.dtype([(c, "u8") for c in "abc"]))[()]
    kernel((1,), (1,), (walk,))
    return {"values": values, "visited": visited, "sum": int(total[0])}


@program(
    "one function reads global, shared, local and constant memory through a generic pointer",
    expect=lambda v: {"out": np.array([6, 60, 600, 6000], np.int32), "spaces": np.array([1, 2, 4, 8], np.int32)},
)
def generic_pointers():
    kernel = cp.RawKernel(
        r"""
        __constant__ int constants[3] = {1000, 2000, 3000};
        __device__ int globals[3] = {1, 2, 3};
        __device__ __noinline__ int total(const int* p, int step) { return p[0] + p[step] + p[2 * step]; }
        __device__ __noinline__ int space(const void* p) {
            return __isGlobal(p) | __isShared(p) << 1 | __isLocal(p) << 2 | __isConstant(p) << 3;
        }
        extern "C" __global__ void k(int* out, int* spaces, int step) {
            __shared__ int shared[3];
            int local[3];
            for (int i = 0; i < 3; ++i) { shared[i] = 10 * (i + 1); local[i * step] = 100 * (i + 1); }
            const int* all[4] = {globals, shared, local, constants};
            for (int i = 0; i < 4; ++i) { out[i] = total(all[i], step); spaces[i] = space(all[i]); }
        }""",
        "k",
    )
    out, spaces = cp.zeros(4, cp.int32), cp.zeros(4, cp.int32)
    kernel((1,), (1,), (out, spaces, np.int32(1)))
    return {"out": out, "spaces": spaces}


@program(
    "vector loads and stores of 8 and 16 bytes, and three-component vectors without padding",
    expect=lambda v: {
        "four": v["x"].reshape(-1, 4)[:, ::-1] * np.float32(2),
        "two": v["x"].astype(np.float64).reshape(-1, 2).sum(axis=1),
        "three": v["x"][:12].reshape(4, 3).astype(np.int32)[:, [1, 2, 0]],
        "sizes": np.array([16, 16, 12, 16, 8, 4, 1, 16], np.int32),
    },
)
def vector_types():
    x = np.arange(32, dtype=np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float4* x, float4* four, const float2* y, double* two, const float3* z,
        int3* three,
                                     int* sizes) {
            int i = threadIdx.x;
            if (i < 8) { float4 v = x[i]; four[i] = make_float4(v.w * 2, v.z * 2, v.y * 2, v.x * 2); }
            if (i < 16) { float2 v = y[i]; two[i] = (double)v.x + v.y; }
            if (i < 4) { float3 v = z[i]; three[i] = make_int3((int)v.y, (int)v.z, (int)v.x); }
            if (i == 0) {
                int s[] = {sizeof(float4), alignof(float4), sizeof(float3), sizeof(double2), alignof(int2),
                    alignof(float3),
                           sizeof(uchar1), sizeof(longlong2)};
                for (int j = 0; j < 8; ++j) sizes[j] = s[j];
            }
        }""",
        "k",
    )
    four, two = cp.zeros((8, 4), cp.float32), cp.zeros(16)
    three, sizes = cp.zeros((4, 3), cp.int32), cp.zeros(8, cp.int32)
    data = cp.asarray(x)
    kernel((1,), (16,), (data, four, data, two, data, three, sizes))
    return {"x": x, "four": four, "two": two, "three": three, "sizes": sizes}


@program("layout of structs: sizes, offsets and alignment are the host compiler's")
def struct_layout():
    kernel = cp.RawKernel(
        r"""
        struct A { char c; int i; char d; };
        struct __align__(16) B { float x, y, z; };
        struct C { short s; double d; char tail[3]; };
        struct E { };
        struct F { bool b : 1; int i : 7; long long l : 40; };
        enum class G : unsigned char { one };
        extern "C" __global__ void k(int* out) {
            A* a = nullptr; C* c = nullptr;
            int v[] = {sizeof(A), alignof(A), (int)(size_t)&a->i, (int)(size_t)&a->d, sizeof(B), alignof(B), sizeof(C),
                       (int)(size_t)&c->d, (int)(size_t)&c->tail, sizeof(E), sizeof(F), sizeof(G), sizeof(void*),
                       sizeof(long), sizeof(wchar_t), sizeof(A[3])};
            for (int i = 0; i < 16; ++i) out[i] = v[i];
        }""",
        "k",
    )
    out = cp.zeros(16, cp.int32)
    kernel((1,), (1,), (out,))
    return {"out": out}


@program(
    "read-only and streaming loads and stores move the same bytes",
    expect=lambda v: {"out": np.stack([v["x"] + i for i in range(6)])},
)
def cache_hints():
    x = np.arange(64, dtype=np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* __restrict__ x, int* out) {
            int i = threadIdx.x;
            out[i] = __ldg(x + i);
            __stcs(out + 64 + i, __ldcs(x + i) + 1);
            __stcg(out + 128 + i, __ldcg(x + i) + 2);
            __stwt(out + 192 + i, __ldcv(x + i) + 3);
            __stwb(out + 256 + i, __ldca(x + i) + 4);
            volatile int* slow = out + 320;
            slow[i] = x[i]; slow[i] += 5;
        }""",
        "k",
    )
    out = cp.zeros((6, 64), cp.int32)
    kernel((1,), (64,), (cp.asarray(x), out))
    return {"x": x, "out": out}


@program(
    "a kernel walks a pitched array by its pitch, and leaves the padding alone",
    expect=lambda v: {"rows": np.add.outer(np.arange(5) * 100, np.arange(7)).astype(np.float32), "padding": 0},
)
def pitched_rows():
    pitch = 64
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(char* base, size_t pitch, int width, int height) {
            int x = threadIdx.x, y = threadIdx.y;
            if (x < width && y < height) ((float*)(base + y * pitch))[x] = y * 100 + x;
        }""",
        "k",
    )
    data = cp.zeros((5, pitch), cp.uint8)
    kernel((1,), (8, 8), (data, np.uint64(pitch), np.int32(7), np.int32(5)))
    rows = data.view(cp.float32)
    return {"rows": rows[:, :7], "padding": int(cp.count_nonzero(data[:, 28:]))}


@program(
    "unaligned data: bytes are copied with memcpy and read as words",
    expect=lambda v: {
        "words": np.frombuffer(v["raw"].tobytes()[1:25], np.uint32),
        "checks": np.array([1, 1], np.int32),
    },
)
def byte_copies():
    raw = np.arange(40, dtype=np.uint8) * np.uint8(7)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const unsigned char* raw, unsigned* words, int* checks) {
            for (int i = 0; i < 6; ++i) { unsigned w; memcpy(&w, raw + 1 + 4 * i, 4); words[i] = w; }
            unsigned char copy[40];
            memset(copy, 0xab, sizeof copy);
            memcpy(copy + 3, raw, 20);
            int same = 1, rest = 1;
            for (int i = 0; i < 20; ++i) same &= copy[3 + i] == raw[i];
            for (int i = 23; i < 40; ++i) rest &= copy[i] == 0xab;
            checks[0] = same; checks[1] = rest;
        }""",
        "k",
    )
    words, checks = cp.zeros(6, cp.uint32), cp.zeros(2, cp.int32)
    kernel((1,), (1,), (cp.asarray(raw), words, checks))
    return {"raw": raw, "words": words, "checks": checks}


@program(
    "two modules of the same names have variables of their own; functions of one module share them",
    expect=lambda v: {"first": [1, 11, 12], "second": [1000, 1001]},
)
def variables_per_module():
    source = r"""
        __device__ int value = START;
        extern "C" __global__ void add(int* out) { *out = value++; }
        extern "C" __global__ void bump() { value += 10; value -= SLACK; }"""
    modules = [cp.RawModule(code=source, options=(f"-DSTART={s}", f"-DSLACK={t}")) for s, t in ((1, 1), (1000, 10))]
    out = cp.zeros(1, cp.int32)

    def add(module):
        module.get_function("add")((1,), (1,), (out,))
        return int(out[0])

    first = [add(modules[0])]
    modules[0].get_function("bump")((1,), (1,), ())
    second = [add(modules[1])]
    modules[1].get_function("bump")((1,), (1,), ())
    first += [add(modules[0]), add(modules[0])]
    second += [add(modules[1])]
    return {"first": first, "second": second}
