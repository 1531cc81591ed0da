"""Races: within a warp, between the warps of a block, between blocks; missing barriers, fences and atomics."""

from __future__ import annotations

from tests.planted.memory import _k
from tests.planted.planted import Planted, f32, i32

RACE = ("race",)
_CG = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
_BARRIER = "#include <cuda/barrier>\n"
_ATOMIC = "#include <cuda/atomic>\n"

BLOCK = (
    Planted(
        "tile_read_before_it_is_complete",
        "racecheck",
        RACE,
        _k(
            "const float* x, float* y",
            """    __shared__ float tile[128];
    tile[threadIdx.x] = x[threadIdx.x];  // HERE
    {{||__syncthreads();}}
    y[threadIdx.x] = tile[127 - threadIdx.x];  // HERE""",
        ),
        (1,),
        (128,),
        (f32(128), f32(128, "zero")),
    ),
    Planted(
        "tile_overwritten_while_it_is_read",
        "racecheck",
        RACE,
        _k(
            "const float* x, float* y",
            """    __shared__ float tile[64];
    float sum = 0;
    for (int t = 0; t < 4; t++) {
        tile[threadIdx.x] = x[64 * t + threadIdx.x];  // HERE
        __syncthreads();
        sum += tile[63 - threadIdx.x];  // HERE
        {{||__syncthreads();}}
    }
    y[threadIdx.x] = sum;""",
        ),
        (1,),
        (64,),
        (f32(256), f32(64, "zero")),
    ),
    Planted(
        "reduction_without_a_barrier_a_round",
        "racecheck",
        RACE,
        _k(
            "const float* x, float* y",
            """    __shared__ float part[256];
    part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int s = 128; s; s /= 2) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];  // HERE
        {{||__syncthreads();}}
    }
    if (threadIdx.x == 0) y[0] = part[0];""",
        ),
        (1,),
        (256,),
        (f32(256), f32(1, "zero")),
    ),
    Planted(
        "last_warp_in_step_by_faith",
        "racecheck",
        RACE,
        _k(
            "const float* x, float* y",
            """    __shared__ float part[64];
    part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) {
        part[threadIdx.x] += part[threadIdx.x + 32];
        for (int s = 16; s; s /= 2) {
            {{||__syncwarp();}}
            float other = part[threadIdx.x + s];  // HERE
            {{||__syncwarp();}}
            part[threadIdx.x] += other;  // HERE
        }
    }
    if (threadIdx.x == 0) y[0] = part[0];""",
        ),
        (1,),
        (64,),
        (f32(64), f32(1, "zero")),
    ),
    Planted(
        "a_warp's_wait_for_a_block's",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* y",
            """    __shared__ int tile[96];
    tile[threadIdx.x] = x[threadIdx.x];  // HERE
    {{__syncwarp||__syncthreads}}();
    y[threadIdx.x] = tile[(threadIdx.x + 1) % 96];  // HERE, and only where two warps meet""",
        ),
        (1,),
        (96,),
        (i32(96), i32(96, "zero")),
    ),
    Planted(
        "neighbours_in_one_warp",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* y",
            """    __shared__ int box[32];
    box[threadIdx.x] = x[threadIdx.x];  // HERE
    {{||__syncwarp();}}
    y[threadIdx.x] = box[threadIdx.x ^ 1];  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero")),
    ),
    Planted(
        "branches_of_one_warp",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* y",
            """    __shared__ int box[16];
    int lane = threadIdx.x;
    if (lane < 16) box[lane] = x[lane];  // HERE
    {{||__syncwarp();}}
    if (lane >= 16) y[lane - 16] = box[lane - 16];  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero")),
    ),
    Planted(
        "shared_histogram_without_atomics",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* bins, int n",
            """    __shared__ int mine[16];
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {{mine[x[i]]++||atomicAdd(&mine[x[i]], 1)}};  // HERE
    __syncthreads();
    if (threadIdx.x < 16) bins[threadIdx.x] = mine[threadIdx.x];""",
        ),
        (1,),
        (64,),
        (i32(500), i32(16, "zero"), 500),
    ),
    Planted(
        "counters_used_before_they_are_zero",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* bins, int n",
            """    __shared__ int mine[16];
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;  // HERE
    {{||__syncthreads();}}
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&mine[x[i]], 1);  // HERE
    __syncthreads();
    if (threadIdx.x < 16) bins[threadIdx.x] = mine[threadIdx.x];""",
        ),
        (1,),
        (64,),
        (i32(500), i32(16, "zero"), 500),
    ),
    Planted(
        "every_thread_writes_the_result",
        "racecheck",
        RACE,
        _k(
            "const float* x, float* y",
            """    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]);
    __syncthreads();
    {{||if (threadIdx.x == 0)}} y[blockIdx.x] = sum + {{threadIdx.x||0}};  // HERE""",
        ),
        (2,),
        (64,),
        (f32(64), f32(2, "zero")),
    ),
    Planted(
        "scan_in_one_buffer",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* y",
            """    __shared__ int t[128];
    int i = threadIdx.x;
    t[i] = x[i];
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        int other = i >= d ? t[i - d] : 0;  // HERE
        {{||__syncthreads();}}
        t[i] += other;  // HERE
        __syncthreads();
    }
    y[i] = t[i];""",
        ),
        (1,),
        (128,),
        (i32(128), i32(128, "zero")),
    ),
    Planted(
        "transposed_through_a_tile",
        "racecheck",
        RACE,
        _k(
            "const float* x, float* y",
            """    __shared__ float tile[16][17];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 16 + threadIdx.x];  // HERE
    {{||__syncthreads();}}
    y[threadIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];  // HERE""",
        ),
        (1,),
        (16, 16),
        (f32(256), f32(256, "zero")),
    ),
    Planted(
        "two_buffers_mixed_up",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* y, int rounds",
            """    __shared__ int t[2][64];
    int i = threadIdx.x;
    t[0][i] = x[i];
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        int from = r & 1, to = {{r == 2 ? from : 1 - from||1 - from}};
        t[to][i] = t[from][(i + 1) % 64] + 1;  // HERE
        __syncthreads();
    }
    y[i] = t[rounds & 1][i];""",
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero"), 4),
    ),
    Planted(
        "only_when_the_block_has_two_warps",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* y",
            """    __shared__ int last;
    if (threadIdx.x == blockDim.x - 1) last = x[threadIdx.x];  // HERE
    {{__syncwarp||__syncthreads}}();
    y[threadIdx.x] = last;  // HERE""",
        ),
        (1,),
        (40,),
        (i32(40), i32(40, "zero")),
    ),
    Planted(
        "half_a_warp_waits_for_itself",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* y",
            """    __shared__ int box[32];
    auto tile = cg::tiled_partition<{{16||32}}>(cg::this_thread_block());
    box[threadIdx.x] = x[threadIdx.x];  // HERE
    tile.sync();
    y[threadIdx.x] = box[31 - threadIdx.x];  // HERE""",
            _CG,
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero")),
    ),
    Planted(
        "other_group's_named_barrier",
        "racecheck",
        RACE,
        _k(
            "const int* x, int* y",
            """    __shared__ int box[128];
    int group = threadIdx.x / 64;
    box[threadIdx.x] = x[threadIdx.x];  // HERE
    {{asm volatile("barrier.cta.sync %0, 64;" :: "r"(group + 1) : "memory")||__syncthreads()}};
    y[threadIdx.x] = box[127 - threadIdx.x];  // HERE""",
        ),
        (1,),
        (128,),
        (i32(128), i32(128, "zero")),
    ),
    Planted(
        "arrived_but_not_waited",
        "racecheck",
        ("race", "uninitialised read"),
        _k(
            "const int* x, int* y",
            """    __shared__ int tile[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, 64);
    __syncthreads();
    tile[threadIdx.x] = x[threadIdx.x];  // HERE
    auto token = bar.arrive();
    {{||bar.wait(std::move(token));}}
    y[threadIdx.x] = tile[63 - threadIdx.x];  // HERE""",
            _BARRIER,
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "copy_not_waited_for",
        "racecheck",
        ("race", "uninitialised read"),
        _k(
            "const int* x, int* y",
            """    __shared__ int tile[64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, x, sizeof(tile));  // HERE
    {{block.sync()||cg::wait(block)}};
    y[threadIdx.x] = tile[63 - threadIdx.x];  // HERE""",
            "#include <cooperative_groups.h>\n#include <cooperative_groups/memcpy_async.h>\n"
            "namespace cg = cooperative_groups;\n",
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "own_copy_waited_for_but_not_the_block's",
        "racecheck",
        ("race", "uninitialised read"),
        _k(
            "const int* x, int* y",
            """    __shared__ int tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &x[threadIdx.x], 4);  // HERE
    __pipeline_commit();
    __pipeline_wait_prior(0);
    {{||__syncthreads();}}
    y[threadIdx.x] = tile[63 - threadIdx.x];  // HERE""",
            "#include <cuda_pipeline_primitives.h>\n",
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
)

GRID = (
    Planted(
        "global_counter_without_atomics",
        "racecheck",
        RACE,
        _k("int* counter", "    {{*counter += 1||atomicAdd(counter, 1)}};  // HERE"),
        (8,),
        (32,),
        (i32(1, "zero"),),
    ),
    Planted(
        "blocks_overlap_by_one",
        "racecheck",
        RACE,
        _k(
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
        _k(
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
        _k(
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
        _k("int* counter", "    {{atomicAdd_block||atomicAdd}}(counter, 1);  // HERE"),
        (4,),
        (32,),
        (i32(1, "zero"),),
    ),
    Planted(
        "flag_without_a_fence",
        "racecheck",
        RACE,
        _k(
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
        _k(
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
        _k(
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
        _k(
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
        _k(
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
        _k(
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
        _k(
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
        _k(
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
        _k(
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
        _k(
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
        _k(
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

BUGS = BLOCK + GRID
