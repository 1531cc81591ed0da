"""Races between blocks: missing atomics, fences and grid or cluster barriers, scopes too small."""

from __future__ import annotations

from tests.planted.planted import Planted, f32, i32, kernel

RACE = ("race",)
_CG = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
_ATOMIC = "#include <cuda/atomic>\n"

BUGS = (
    Planted(
        "global_counter_without_atomics",
        "racecheck",
        RACE,
        kernel("int* counter", "    {{*counter += 1||atomicAdd(counter, 1)}};  // HERE"),
        (8,),
        (32,),
        (i32(1, "zero"),),
    ),
    Planted(
        "blocks_overlap_by_one",
        "racecheck",
        RACE,
        kernel(
            "const float* x, float* y, int n",
            """    int i = blockIdx.x * {{63||64}} + threadIdx.x;
    if (i < n) y[i] = x[i] + {{blockIdx.x||1}};  // HERE""",
        ),
        (4,),
        (64,),
        (f32(256), f32(256, "zero"), 256),
    ),
    Planted(
        "smoothed_in_place",
        "racecheck",
        RACE,
        kernel(
            "float* x, float* y, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float left = i > 0 ? x[i - 1] : 0;  // HERE
    {{x||y}}[i] = (left + x[i]) / 2;  // HERE""",
        ),
        (3,),
        (32,),
        (f32(96), f32(96, "zero"), 96),
    ),
    Planted(
        "reversed_in_place_by_all",
        "racecheck",
        RACE,
        kernel(
            "int* x, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n{{|| / 2}}) {
        int a = x[i], b = x[n - 1 - i];  // HERE
        x[i] = b;  // HERE
        x[n - 1 - i] = a;  // HERE
    }""",
        ),
        (4,),
        (32,),
        (i32(128), 128),
    ),
    Planted(
        "atomics_of_block_scope_between_blocks",
        "racecheck",
        RACE,
        kernel("int* counter", "    {{atomicAdd_block||atomicAdd}}(counter, 1);  // HERE"),
        (4,),
        (32,),
        (i32(1, "zero"),),
    ),
    Planted(
        "flag_without_a_fence",
        "racecheck",
        RACE,
        kernel(
            "volatile int* flag, int* data, int* y",
            """    if (blockIdx.x == 0) {
        data[0] = 42;  // HERE
        {{||__threadfence();}}
        *flag = 1;
    } else {
        while (*flag == 0) {}
        {{||__threadfence();}}
        y[0] = data[0];  // HERE
    }""",
        ),
        (2,),
        (1,),
        (i32(1, "zero"), i32(1, "zero"), i32(1, "zero")),
    ),
    Planted(
        "flag_relaxed_instead_of_released",
        "racecheck",
        RACE,
        kernel(
            "int* flag, int* data, int* y",
            """    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        data[threadIdx.x] = 7;  // HERE
        __syncthreads();
        if (threadIdx.x == 0) ready.store(1, cuda::memory_order_{{relaxed||release}});
    } else {
        if (threadIdx.x == 0) while (ready.load(cuda::memory_order_{{relaxed||acquire}}) == 0) {}
        __syncthreads();
        y[threadIdx.x] = data[threadIdx.x];  // HERE
    }""",
            _ATOMIC,
        ),
        (2,),
        (32,),
        (i32(1, "zero"), i32(32, "zero"), i32(32, "zero")),
    ),
    Planted(
        "last_block_without_a_fence",
        "racecheck",
        RACE,
        kernel(
            "const int* x, int* parts, unsigned* done, int* y",
            """    __shared__ bool last;
    int sum = 0;
    for (int i = 0; i < 8; i++) sum += x[(blockIdx.x * 32 + threadIdx.x) % 64 + i];
    for (int s = 16; s; s /= 2) sum += __shfl_down_sync(~0u, sum, s);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;  // HERE
        {{||__threadfence();}}
        last = atomicAdd(done, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        {{||__threadfence();}}
        int total = 0;
        for (int b = 0; b < gridDim.x; b++) total += parts[b];  // HERE
        *y = total;
    }""",
        ),
        (6,),
        (32,),
        (i32(80), i32(6, "zero"), i32(1, "zero"), i32(1, "zero")),
    ),
    Planted(
        "last_block_asks_too_early",
        "racecheck",
        RACE,
        kernel(
            "unsigned* done, int* y",
            """    __shared__ bool last;
    if (threadIdx.x == 0) last = atomicAdd(done, 1) == gridDim.x - 1;  // HERE
    {{||__syncthreads();}}
    if (last) y[threadIdx.x] = blockIdx.x;  // HERE""",
        ),
        (3,),
        (64,),
        (i32(1, "zero"), i32(64, "zero")),
    ),
    Planted(
        "plain_read_of_an_atomic_total",
        "racecheck",
        RACE,
        kernel(
            "int* total, int* y",
            """    if (threadIdx.x == 0) atomicAdd(total, 5);  // HERE
    {{y[blockIdx.x] = *total||y[blockIdx.x] = atomicAdd(total, 0) * 0}};  // HERE""",
        ),
        (4,),
        (1,),
        (i32(1, "zero"), i32(4, "zero")),
    ),
    Planted(
        "maximum_by_comparison",
        "racecheck",
        RACE,
        kernel(
            "const int* x, int* best, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{if (x[i] > *best) *best = x[i]||atomicMax(best, x[i])}};  // HERE""",
        ),
        (2,),
        (64,),
        (i32(100, "random", 1000), i32(1, "zero"), 100),
    ),
    Planted(
        "stride_of_a_block_only",
        "racecheck",
        RACE,
        kernel(
            "const float* x, float* y, int n",
            """    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x{{|| * gridDim.x}})
        y[i] = x[i] * blockIdx.x;  // HERE""",
        ),
        (2,),
        (64,),
        (f32(300), f32(300, "zero"), 300),
    ),
    Planted(
        "zeroed_by_the_first_block",
        "racecheck",
        RACE,
        kernel(
            "int* bins, const int* x",
            """    {{if (blockIdx.x == 0 && threadIdx.x < 16) bins[threadIdx.x] = 0||}};  // HERE
    {{__syncthreads()||}};
    atomicAdd(&bins[x[blockIdx.x * 32 + threadIdx.x]], 1);  // HERE""",
        ),
        (3,),
        (32,),
        (i32(16, "zero"), i32(96)),
    ),
    Planted(
        "lock_given_back_without_a_fence",
        "racecheck",
        RACE,
        kernel(
            "int* lock, int* data",
            """    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        {{||__threadfence();}}
        data[0] += 1;  // HERE
        {{||__threadfence();}}
        atomicExch(lock, 0);
    }""",
        ),
        (4,),
        (32,),
        (i32(1, "zero"), i32(1, "zero")),
    ),
    Planted(
        "cluster_reads_too_early",
        "racecheck",
        ("race", "uninitialised read"),
        kernel(
            "int* y",
            """    __shared__ int mine;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = 10 * blockIdx.x;  // HERE
    {{__syncthreads()||cluster.sync()}};
    if (threadIdx.x == 0) y[blockIdx.x] = *cluster.map_shared_rank(&mine, cluster.block_rank() ^ 1);  // HERE
    cluster.sync();""",
            _CG,
        ).replace("void k", "void __cluster_dims__(2, 1, 1) k"),
        (4,),
        (32,),
        (i32(4, "zero"),),
    ),
    Planted(
        "rounds_of_a_grid_without_its_barrier",
        "racecheck",
        RACE,
        kernel(
            "float* a, float* b, int n",
            """    auto grid = cg::this_grid();
    int i = grid.thread_rank();
    for (int r = 0; r < 3; r++) {
        b[i] = a[i] + a[(i + 1) % n];  // HERE
        {{__syncthreads()||grid.sync()}};
        float* c = a; a = b; b = c;
    }""",
            _CG,
        ),
        (2,),
        (64,),
        (f32(128), f32(128, "zero"), 128),
        cooperative=True,
    ),
)
