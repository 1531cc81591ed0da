"""Accesses outside, misaligned, in memory that is gone; and kernels that do not end."""

from __future__ import annotations

from tests.planted.planted import Array, Planted, f32, i32, kernel

OUT = ("out of bounds",)


BUGS = (
    Planted(
        "guard_lets_one_too_many",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i {{<=||<}} n) y[i] = 2 * x[i];  // HERE""",
        ),
        (4,),
        (64,),
        (f32(200), f32(200, "zero"), 200),
    ),
    Planted(
        "no_guard_last_block",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {{||if (i < n)}} y[i] = x[i] + 1;  // HERE""",
        ),
        (5,),
        (128,),
        (f32(600), f32(600, "zero"), 600),
    ),
    Planted(
        "left_neighbour_of_the_first",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] - {{x[i - 1]||(i ? x[i - 1] : 0)}};  // HERE""",
        ),
        (2,),
        (64,),
        (f32(100), f32(100, "zero"), 100),
    ),
    Planted(
        "right_neighbour_of_the_last",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = x[i];
        if (i > 0) sum += x[i - 1];
        if (i < n{{|| - 1}}) sum += x[i + 1];  // HERE
        y[i] = sum;
    }""",
        ),
        (2,),
        (64,),
        (f32(128), f32(128, "zero"), 128),
    ),
    Planted(
        "rows_and_columns_exchanged",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int height, int width",
            """    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= height || column >= width) return;
    y[row * width + column] = x[{{column * height + row + 1||row * width + column}}];  // HERE""",
        ),
        (2, 2),
        (16, 16),
        (f32(600), f32(600, "zero"), 20, 30),
    ),
    Planted(
        "vector_load_past_the_tail",
        "memcheck",
        OUT,
        kernel(
            "const float4* x, float* y, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i {{< n||+ 3 < n}}) {
        float4 v = x[i];  // HERE
        y[i] = v.x + v.y + v.z + v.w;
    }""",
        ),
        (1,),
        (64,),
        (f32(101), f32(64, "zero"), 101),
    ),
    Planted(
        "vector_load_misaligned",
        "memcheck",
        ("misaligned address",),
        kernel(
            "const float* x, float4* y, int n",
            """    int i = threadIdx.x;
    if (i < n) y[i] = *(const float4*)(x + 4 * i + {{1||4}});  // HERE""",
        ),
        (1,),
        (32,),
        (f32(200), f32(128, "zero"), 32),
    ),
    Planted(
        "integer_read_from_odd_bytes",
        "memcheck",
        ("misaligned address",),
        kernel(
            "const char* x, int* y, int n",
            """    int i = threadIdx.x;
    if (i < n) y[i] = *(const int*)(x + {{5||8}} * i);  // HERE""",
        ),
        (1,),
        (32,),
        (Array("int8", 400), i32(32, "zero"), 32),
    ),
    Planted(
        "past_a_shared_array",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y",
            """    __shared__ float tile[64];
    tile[threadIdx.x{{ + 1||}}] = x[threadIdx.x];  // HERE
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x]{{ * 0||}};""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero")),
    ),
    Planted(
        "dynamic_shared_memory_too_small",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y",
            """    extern __shared__ float tile[];
    tile[{{2 * threadIdx.x||threadIdx.x}}] = x[threadIdx.x];  // HERE
    __syncthreads();
    y[threadIdx.x] = tile[{{2 * threadIdx.x||threadIdx.x}}];  // HERE""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero")),
        shared=256,
    ),
    Planted(
        "optional_pointer_not_asked",
        "memcheck",
        ("null pointer", "out of bounds"),
        kernel(
            "const float* x, const float* weights, float* y, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * {{weights[i]||(weights ? weights[i] : 1)}};  // HERE""",
        ),
        (1,),
        (64,),
        (f32(50), 0, f32(50, "zero"), 50),
    ),
    Planted(
        "freed_memory",
        "memcheck",
        ("use after free",),
        kernel(
            "const float* old, const float* x, float* y, int n",
            """    int i = threadIdx.x;
    if (i < n) y[i] = {{old||x}}[i];  // HERE""",
        ),
        (1,),
        (64,),
        (f32(64, "freed"), f32(64), f32(64, "zero"), 64),
    ),
    Planted(
        "unsigned_index_wraps",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, unsigned n",
            """    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[{{i - 1||(i + n - 1) % n}}];  // HERE""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero"), 64),
    ),
    Planted(
        "index_overflows_32_bits",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int row, int pitch, int n",
            """    int i = threadIdx.x;
    {{int||long long}} first = {{row * pitch||(long long)row * pitch}};
    if (i < n) y[i] = x[first % {{(1 << 30)||n}} + i {{||- first % n}}];  // HERE""",
        ),
        (1,),
        (32,),
        (f32(64), f32(64, "zero"), 70000, 70000, 32),
    ),
    Planted(
        "local_array_index_at_run_time",
        "memcheck",
        OUT,
        kernel(
            "const int* x, int* y",
            """    int counts[8] = {};
    for (int i = 0; i < 32; i++) counts[x[i] {{+||% 8 + 0 *}} 4]++;  // HERE
    y[threadIdx.x] = counts[threadIdx.x % 8];""",
        ),
        (1,),
        (32,),
        (i32(32, "random", 8), i32(32, "zero")),
    ),
    Planted(
        "double_past_an_odd_count",
        "memcheck",
        OUT,
        kernel(
            "const float* x, double* y, int n",
            """    int i = threadIdx.x;
    if (2 * i {{< n||+ 1 < n}}) y[i] = ((const double*)x)[i];  // HERE""",
        ),
        (1,),
        (64,),
        (f32(99), Array("float64", 64, "zero"), 99),
    ),
    Planted(
        "bin_beyond_the_histogram_for_one_value",
        "memcheck",
        OUT,
        kernel(
            "const float* x, int* bins, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int bin = (int)(x[i] * 16);
        if (i == 77) bin = 16;  // as x == 1.0f gives
        atomicAdd(&bins[{{bin||min(bin, 15)}}], 1);  // HERE
    }""",
        ),
        (2,),
        (64,),
        (f32(128), i32(16, "zero"), 128),
    ),
    Planted(
        "halo_of_the_last_block",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int n",
            """    __shared__ float tile[66];
    int i = blockIdx.x * 64 + threadIdx.x, t = threadIdx.x + 1;
    tile[t] = x[i];
    if (threadIdx.x == 0) tile[0] = i > 0 ? x[i - 1] : 0;
    if (threadIdx.x == 63) tile[65] = {{x[i + 1]||(i + 1 < n ? x[i + 1] : 0)}};  // HERE
    __syncthreads();
    y[i] = tile[t - 1] + tile[t] + tile[t + 1];""",
        ),
        (3,),
        (64,),
        (f32(192), f32(192, "zero"), 192),
    ),
    Planted(
        "depth_taken_for_height",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int depth, int height, int width",
            """    int c = threadIdx.x, r = threadIdx.y, s = threadIdx.z;
    if (c < width && r < height && s < depth)
        y[(s * {{depth||height}} + r) * width + c] = x[(s * {{(depth + 4)||height}} + r) * width + c];  // HERE""",
        ),
        (1,),
        (8, 8, 8),
        (f32(5 * 7 * 8), f32(5 * 7 * 8, "zero"), 5, 7, 8),
    ),
    Planted(
        "end_of_a_list_not_recognised",
        "memcheck",
        OUT,
        kernel(
            "const int* next, int* length, int n",
            """    int steps = 0, at = threadIdx.x;
    while (steps < 10{{|| && at < n}}) {
        at = next[at] + 9;  // HERE
        steps++;
    }
    length[threadIdx.x] = steps + at;""",
        ),
        (1,),
        (32,),
        (i32(32, "index"), i32(32, "zero"), 32),
    ),
    Planted(
        "grid_stride_begins_too_far",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* y, int n",
            """    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n{{ + blockDim.x||}}; i += threads)
        y[i] = x[i];  // HERE""",
        ),
        (2,),
        (64,),
        (f32(1024), f32(1024, "zero"), 1024),
    ),
    Planted(
        "search_that_never_ends",
        "memcheck",
        ("endless loop",),
        kernel(
            "const int* x, int* y, int n",
            """    int low = 0, high = n;
    while (low < high) {  // HERE
        int middle = (low + high) / 2;  // HERE
        if (x[middle] < (int)threadIdx.x) low = middle {{||+ 1}};  // HERE
        else high = middle;  // HERE
    }  // HERE
    y[threadIdx.x] = low;""",
        ),
        (1,),
        (32,),
        (i32(16, "index"), i32(32, "zero"), 16),
    ),
    Planted(
        "call_through_an_empty_table_entry",
        "memcheck",
        ("bad call",),
        kernel(
            "int* y, int which",
            """    Function table[3] = {twice, square, {{nullptr||twice}}};
    y[threadIdx.x] = table[which](threadIdx.x);  // HERE""",
            "__device__ __noinline__ int twice(int x) { return 2 * x; }\n"
            "__device__ __noinline__ int square(int x) { return x * x; }\ntypedef int (*Function)(int);\n",
        ),
        (1,),
        (32,),
        (i32(32, "zero"), 2),
    ),
    Planted(
        "recursion_without_an_end",
        "memcheck",
        ("stack overflow",),
        kernel(
            "int* y",
            """    y[threadIdx.x] = depth(threadIdx.x);  // HERE""",
            """__device__ __noinline__ int depth(int x) {  // HERE
    volatile int kept[16];  // HERE
    kept[x & 15] = x;  // HERE
    return {{||x > 4 ? 0 : }}depth(x + 1) + kept[x & 15];  // HERE
}
""",
        ),
        (1,),
        (1,),
        (i32(1, "zero"),),
    ),
    Planted(
        "array_one_block_short",
        "memcheck",
        OUT,
        kernel(
            "const float* x, float* sums",
            """    __shared__ float part[64];
    part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    for (int s = 32; s; s /= 2) {
        __syncthreads();
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    }
    if (threadIdx.x == 0) sums[blockIdx.x{{ + 1||}}] = part[0];  // HERE""",
        ),
        (4,),
        (64,),
        (f32(256), f32(4, "zero")),
    ),
)
