"""Races within a warp and between the warps of a block: missing barriers and waits, wrong ones, no atomics."""

from __future__ import annotations

from tests.planted.planted import Planted, f32, i32, kernel

RACE = ("race",)
_CG = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
_BARRIER = "#include <cuda/barrier>\n"

BUGS = (
    Planted(
        "tile_read_before_it_is_complete",
        "racecheck",
        RACE,
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
        kernel(
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
