"""Mistakes with addresses: out of bounds, use after free, misaligned, host pointers, null pointers."""

from __future__ import annotations

from .mistake import mistake

ILLEGAL = ("CUDARuntimeError", 700)
MISALIGNED = ("CUDARuntimeError", 716)
SYNC = "\ncp.cuda.Device().synchronize()"

# -- out of bounds -----------------------------------------------------------------------------------------------------

mistake(
    "out_of_bounds/missing_guard",
    r"""
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[0]; // <-
}""",
    "kernel()((4,), (32,), (cp.zeros(100, cp.float32), cp.zeros(100, cp.float32), np.int32(100)))" + SYNC,
    *ILLEGAL,
    "write", "index 100 of 100", "y", "400-byte", "block (3,0,0)", "thread (4,0,0)",
)  # fmt: skip
mistake(
    "out_of_bounds/device_function",
    r"""
__device__ void put(int* p, int at, int value) {
    p[at] = value; // <-
}
extern "C" __global__ void k(int* out) {
    put(out, 3 * threadIdx.x, 7);
}""",
    "kernel()((1,), (32,), (cp.zeros(64, cp.int32),))" + SYNC,
    *ILLEGAL,
    "write", "past the end", "256-byte", "out",
)  # fmt: skip
mistake(
    "out_of_bounds/called_function",
    r"""
__device__ __noinline__ int fetch(const int* p, int at) {
    int first = p[0];
    return first + p[at]; // <-
}
extern "C" __global__ void k(const int* table, int* out) {
    out[threadIdx.x] = fetch(table, threadIdx.x * 4);
}""",
    "kernel()((1,), (32,), (cp.zeros(65, cp.int32), cp.zeros(32, cp.int32)))" + SYNC,
    *ILLEGAL,
    "read", "past the end", "260-byte",
)  # fmt: skip
mistake(
    "out_of_bounds/template",
    r"""
template<typename T, int WIDTH>
__global__ void spread(T* out, T value) {
    for (int j = 0; j < WIDTH; ++j)
        out[threadIdx.x * WIDTH + j] = value; // <-
}""",
    "instance('spread<double, 5>')((1,), (10,), (cp.zeros(48), 1.5))" + SYNC,
    *ILLEGAL,
    "size 8 bytes", "index 48 of 48", "384-byte",
)  # fmt: skip
mistake(
    "out_of_bounds/loop",
    r"""
extern "C" __global__ void k(const double* x, double* sum, int n) {
    double s = 0;
    for (int i = 0; i <= n; ++i)
        s += x[i]; // <-
    *sum = s;
}""",
    "kernel()((1,), (1,), (cp.ones(33), cp.zeros(1), np.int32(33)))" + SYNC,
    *ILLEGAL,
    "read", "index 33 of 33", "x",
)  # fmt: skip
mistake(
    "out_of_bounds/block_2d",
    r"""
extern "C" __global__ void k(int* a, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width)
        a[y * width + x] = 1; // <-
}""",
    "kernel()((2, 2), (8, 4), (cp.zeros((7, 9), cp.int32), np.int32(7), np.int32(9)))" + SYNC,
    *ILLEGAL,
    "index 63 of 63", "block (0,1,0)", "thread (0,3,0)",
)  # fmt: skip
mistake(
    "out_of_bounds/struct_of_pointer",
    r"""
struct View { float* data; int n; int pad; };
extern "C" __global__ void k(View v) {
    v.data[threadIdx.x] += 1; // <-
}""",
    "x = cp.zeros(20, cp.float32)\n"
    "view = np.array((x.data.ptr, 20, 0), dtype=[('data', 'u8'), ('n', 'i4'), ('pad', 'i4')])[()]\n"
    "kernel()((1,), (32,), (view,))" + SYNC,
    *ILLEGAL,
    "read", "past the end", "80-byte",
)  # fmt: skip
mistake(
    "out_of_bounds/array_of_structs",
    r"""
struct Body { float x, y, z, mass; };
extern "C" __global__ void k(Body* bodies, int n) {
    int i = threadIdx.x;
    Body* next = bodies + i + 1;
    next->mass = 1.0f; // <-
}""",
    "kernel()((1,), (8,), (cp.zeros((8, 4), cp.float32), np.int32(8)))" + SYNC,
    *ILLEGAL,
    "write", "past the end", "128-byte", "thread (7,0,0)",
)  # fmt: skip
mistake(
    "out_of_bounds/before_the_start",
    r"""
extern "C" __global__ void k(const float* x, float* d, int n) {
    int i = threadIdx.x;
    if (i < n)
        d[i] = x[i] - x[i - 1]; // <-
}""",
    "kernel()((1,), (32,), (cp.zeros(32, cp.float32), cp.zeros(32, cp.float32), np.int32(32)))" + SYNC,
    *ILLEGAL,
    "before the start", "index -1 of 32", "thread (0,0,0)",
)  # fmt: skip
mistake(
    "out_of_bounds/atomic",
    r"""
extern "C" __global__ void k(const int* x, unsigned* bins) {
    int v = x[threadIdx.x];
    atomicAdd(&bins[v], 1u); // <-
}""",
    "kernel()((1,), (32,), (cp.arange(32, dtype=cp.int32), cp.zeros(16, cp.uint32)))" + SYNC,
    *ILLEGAL,
    "atomic", "index 16 of 16", "bins",
)  # fmt: skip
mistake(
    "out_of_bounds/vector_load",
    r"""
extern "C" __global__ void k(const float4* x, float* out) {
    float4 v = x[threadIdx.x]; // <-
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}""",
    "kernel()((1,), (32,), (cp.zeros(102, cp.float32), cp.zeros(32, cp.float32)))" + SYNC,
    *ILLEGAL,
    "size 16 bytes", "408-byte", "thread (25,0,0)",
)  # fmt: skip
mistake(
    "out_of_bounds/neighbouring_array",
    r"""
extern "C" __global__ void k(float* a, float* b) {
    a[threadIdx.x + 128] = 5; // <-
    b[threadIdx.x] = 6;
}""",
    "pair = [cp.zeros(128, cp.float32) for _ in range(2)]\nkernel()((1,), (32,), pair)" + SYNC,
    *ILLEGAL,
    "index 128 of 128", "512-byte",
)  # fmt: skip
mistake(
    "out_of_bounds/device_variable",
    r"""
__device__ int table[10];
extern "C" __global__ void k(int* out) {
    out[threadIdx.x] = table[threadIdx.x]; // <-
}""",
    "kernel()((1,), (16,), (cp.zeros(16, cp.int32),))" + SYNC,
    *ILLEGAL,
    "read", "table", "40-byte", "thread (10,0,0)",
)  # fmt: skip
mistake(
    "out_of_bounds/shared_array",
    r"""
extern "C" __global__ void k(int* out, int far) {
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x + far]; // <-
}""",
    "kernel()((1,), (64,), (cp.zeros(64, cp.int32), np.int32(1)))" + SYNC,
    *ILLEGAL,
    "shared", "read", "256 bytes", "thread (63,0,0)",
)  # fmt: skip
mistake(
    "out_of_bounds/dynamic_shared_not_asked_for",
    r"""
extern __shared__ float pool[];
extern "C" __global__ void k(float* out) {
    pool[threadIdx.x] = 1; // <-
    __syncthreads();
    out[threadIdx.x] = pool[31 - threadIdx.x];
}""",
    "kernel()((1,), (32,), (cp.zeros(32, cp.float32),))" + SYNC,
    *ILLEGAL,
    "shared", "write", "size at the launch",
)  # fmt: skip
mistake(
    "out_of_bounds/local_array",
    r"""
extern "C" __global__ void k(const int* x, int* out) {
    int stack[8];
    for (int i = 0; i < 8; ++i) stack[i] = x[i];
    int depth = x[8] + 1000 * threadIdx.x;
    out[threadIdx.x] = stack[depth]; // <-
}""",
    "kernel()((1,), (32,), (cp.arange(9, dtype=cp.int32), cp.zeros(32, cp.int32)))" + SYNC,
    *ILLEGAL,
    "local", "read",
)  # fmt: skip
mistake(
    "out_of_bounds/never_allocated",
    r"""
extern "C" __global__ void k(float* x, long long far) {
    x[far + threadIdx.x] = 1; // <-
}""",
    "kernel()((1,), (32,), (cp.zeros(4, cp.float32), np.int64(1 << 40)))" + SYNC,
    *ILLEGAL,
    "write", "x",
)  # fmt: skip

# -- use after free ----------------------------------------------------------------------------------------------------

mistake(
    "use_after_free/cuda_free",
    r"""
extern "C" __global__ void k(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x]; // <-
}""",
    "_, pointer = cudart.cudaMalloc(1 << 20)\ncudart.cudaFree(pointer)\n"
    "kernel()((1,), (32,), (int(pointer), cp.zeros(32, cp.float32)))" + SYNC,
    *ILLEGAL,
    "freed", "x",
)  # fmt: skip
mistake(
    "use_after_free/deleted_array",
    r"""
extern "C" __global__ void k(int* x) {
    x[threadIdx.x] = 1; // <-
}""",
    "x = cp.zeros(64, cp.int32)\naddress = x.data.ptr\ndel x\ncp.get_default_memory_pool().free_all_blocks()\n"
    "kernel()((1,), (64,), (address,))" + SYNC,
    *ILLEGAL,
    "freed", "keep the array alive",
)  # fmt: skip
mistake(
    "use_after_free/struct",
    r"""
struct Pair { int* a; int* b; };
__device__ void copy(const Pair& p, int i) {
    p.b[i] = p.a[i]; // <-
}
extern "C" __global__ void k(Pair p) {
    copy(p, threadIdx.x);
}""",
    "_, a = cudart.cudaMalloc(256)\nb = cp.zeros(64, cp.int32)\ncudart.cudaFree(a)\n"
    "kernel()((1,), (64,), (np.array((int(a), b.data.ptr), dtype=[('a', 'u8'), ('b', 'u8')])[()],))" + SYNC,
    *ILLEGAL,
    "freed", "read",
)  # fmt: skip
mistake(
    "use_after_free/list_in_memory",
    r"""
template<typename T> struct Node { T value; Node<T>* next; };
template<typename T> __global__ void total(const Node<T>* list, T* sum) {
    T s = 0;
    for (const Node<T>* n = list; n; n = n->next)
        s += n->value; // <-
    *sum = s;
}""",
    "_, lost = cudart.cudaMalloc(4096)\nnode = cp.asarray([7, int(lost)], dtype=cp.int64)\ncudart.cudaFree(lost)\n"
    "instance('total<long long>')((1,), (1,), (node, cp.zeros(1, cp.int64)))" + SYNC,
    *ILLEGAL,
    "freed",
)  # fmt: skip
mistake(
    "use_after_free/page_locked",
    r"""
extern "C" __global__ void k(float* x) {
    int i = threadIdx.y * blockDim.x + threadIdx.x;
    x[i] = 1; // <-
}""",
    "_, pointer = cudart.cudaMallocHost(4096)\ncudart.cudaFreeHost(pointer)\n"
    "kernel()((1,), (8, 8), (int(pointer),))" + SYNC,
    *ILLEGAL,
    "freed",
)  # fmt: skip

# -- misaligned --------------------------------------------------------------------------------------------------------

mistake(
    "misaligned/plain",
    r"""
extern "C" __global__ void k(const char* x, int* y) {
    *y = *(const int*)(x + 1); // <-
}""",
    "kernel()((1,), (1,), (cp.zeros(64, cp.int8), cp.zeros(1, cp.int32)))" + SYNC,
    *MISALIGNED,
    "not a multiple of 4", "read",
)  # fmt: skip
mistake(
    "misaligned/vector_store",
    r"""
extern "C" __global__ void k(float* x) {
    float4* p = (float4*)(x + threadIdx.x);
    *p = make_float4(1, 2, 3, 4); // <-
}""",
    "kernel()((1,), (4,), (cp.zeros(64, cp.float32),))" + SYNC,
    *MISALIGNED,
    "not a multiple of 16", "write", "thread (1,0,0)",
)  # fmt: skip
mistake(
    "misaligned/packed_struct",
    r"""
struct __attribute__((packed)) Record { int id; double value; };
__device__ void add(double* p) {
    *p += 1; // <-
}
extern "C" __global__ void k(char* records) {
    add((double*)(records + threadIdx.x * 12 + 4));
}""",
    "kernel()((1,), (4,), (cp.zeros(48, cp.int8),))" + SYNC,
    *MISALIGNED,
    "not a multiple of 8", "float4, double",
)  # fmt: skip
mistake(
    "misaligned/template_loop",
    r"""
template<typename T> __global__ void gather(const unsigned char* bytes, T* out, int n) {
    for (int i = 0; i < n; ++i)
        out[i] = *reinterpret_cast<const T*>(bytes + 3 * i); // <-
}""",
    "instance('gather<short>')((1,), (1,), (cp.zeros(64, cp.uint8), cp.zeros(8, cp.int16), np.int32(8)))" + SYNC,
    *MISALIGNED,
    "not a multiple of 2",
)  # fmt: skip
mistake(
    "misaligned/atomic_in_2d_block",
    r"""
extern "C" __global__ void k(char* x) {
    int i = threadIdx.y * blockDim.x + threadIdx.x;
    atomicAdd((int*)(x + 2 * i), 1); // <-
}""",
    "kernel()((1,), (4, 4), (cp.zeros(64, cp.int8),))" + SYNC,
    *MISALIGNED,
    "not a multiple of 4", "atomic", "thread (1,0,0)",
)  # fmt: skip
mistake(
    "misaligned/shared",
    r"""
extern "C" __global__ void k(int offset, double* y) {
    __shared__ char pool[256];
    pool[threadIdx.x] = threadIdx.x;
    __syncthreads();
    *y = *(double*)(pool + offset); // <-
}""",
    "kernel()((1,), (64,), (np.int32(4), cp.zeros(1)))" + SYNC,
    *MISALIGNED,
    "not a multiple of 8", "shared",
)  # fmt: skip

# -- host pointers -----------------------------------------------------------------------------------------------------

HOST = "host = np.ones(1024, np.float32)\n"
mistake(
    "host_pointer/plain",
    r"""
extern "C" __global__ void k(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x]; // <-
}""",
    HOST + "kernel()((1,), (32,), (host.ctypes.data, cp.zeros(32, cp.float32)))" + SYNC,
    *ILLEGAL,
    "host memory", "cp.asarray", "x",
)  # fmt: skip
mistake(
    "host_pointer/struct",
    r"""
struct Input { const float* x; long long n; };
extern "C" __global__ void k(Input in, float* y) {
    if (threadIdx.x < in.n)
        y[threadIdx.x] = in.x[threadIdx.x]; // <-
}""",
    HOST + "kernel()((1,), (32,), (np.array((host.ctypes.data, 9), dtype=[('x', 'u8'), ('n', 'i8')])[()], "
    "cp.zeros(32, cp.float32)))" + SYNC,
    *ILLEGAL,
    "host memory",
)  # fmt: skip
mistake(
    "host_pointer/template_function_loop",
    r"""
template<typename T> __device__ __noinline__ T total(const T* x, int n) {
    T sum = 0;
    for (int i = 0; i < n; ++i)
        sum += x[i]; // <-
    return sum;
}
extern "C" __global__ void k(const float* x, float* y) {
    *y = total(x, 100);
}""",
    HOST + "kernel()((1,), (1,), (host.ctypes.data, cp.zeros(1, cp.float32)))" + SYNC,
    *ILLEGAL,
    "host memory",
)  # fmt: skip
mistake(
    "host_pointer/block_2d_write",
    r"""
extern "C" __global__ void k(float* image, int width) {
    int x = threadIdx.x, y = threadIdx.y;
    image[y * width + x] = 0; // <-
}""",
    HOST + "kernel()((1,), (8, 8), (host.ctypes.data, np.int32(32)))" + SYNC,
    *ILLEGAL,
    "host memory", "write", "image",
)  # fmt: skip
mistake(
    "host_pointer/in_device_memory",
    r"""
extern "C" __global__ void k(float** rows, int n) {
    rows[threadIdx.x][0] = 1; // <-
}""",
    HOST + "kernel()((1,), (1,), (cp.asarray([host.ctypes.data], dtype=cp.uint64), np.int32(1)))" + SYNC,
    *ILLEGAL,
    "host memory",
)  # fmt: skip

# -- null pointers -----------------------------------------------------------------------------------------------------

mistake(
    "null_pointer/zero",
    r"""
extern "C" __global__ void k(int* out, int value) {
    out[threadIdx.x] = value; // <-
}""",
    "kernel()((1,), (32,), (0, np.int32(1)))" + SYNC,
    *ILLEGAL,
    "null", "out",
)  # fmt: skip
mistake(
    "null_pointer/none_in_template",
    r"""
template<typename T> __global__ void scale(T* x, T factor) {
    int i = threadIdx.y * blockDim.x + threadIdx.x;
    x[i] *= factor; // <-
}""",
    "instance('scale<float>')((1,), (4, 4), (None, np.float32(2)))" + SYNC,
    *ILLEGAL,
    "null", "x",
)  # fmt: skip
mistake(
    "null_pointer/struct",
    r"""
struct Grid { double* cells; int rows, columns; };
extern "C" __global__ void k(Grid g) {
    g.cells[threadIdx.y * g.columns + threadIdx.x] = 0; // <-
}""",
    "grid = np.array((0, 4, 4), dtype=[('cells', 'u8'), ('rows', 'i4'), ('columns', 'i4')])[()]\n"
    "kernel()((1,), (4, 4), (grid,))" + SYNC,
    *ILLEGAL,
    "null",
)  # fmt: skip
mistake(
    "null_pointer/end_of_a_list",
    r"""
struct Node { int value; Node* next; };
__device__ int last(const Node* n) {
    while (n->value >= 0) // <-
        n = n->next;
    return n->value;
}
extern "C" __global__ void k(const Node* list, int* out) {
    *out = last(list);
}""",
    "kernel()((1,), (1,), (cp.zeros(2, cp.int64), cp.zeros(1, cp.int32)))" + SYNC,
    *ILLEGAL,
    "null",
)  # fmt: skip
mistake(
    "null_pointer/device_variable",
    r"""
__device__ float* buffer;
extern "C" __global__ void k(int n) {
    for (int i = 0; i < n; ++i)
        buffer[i] = i; // <-
}""",
    "kernel()((1,), (1,), (np.int32(8),))" + SYNC,
    *ILLEGAL,
    "null",
)  # fmt: skip
