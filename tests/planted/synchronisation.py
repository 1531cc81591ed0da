"""Barriers and warp operations that not all threads reach as they must."""

from __future__ import annotations

from tests.planted.planted import Planted, f32, i32, kernel

DIVERGENT = ("divergent barrier", "deadlock", "barrier after exit")

BUGS = (
    Planted(
        "barrier_for_half_of_the_block",
        "synccheck",
        DIVERGENT,
        kernel(
            "const float* x, float* y",
            """    __shared__ float t[64];
    if (threadIdx.x < 32) {
        t[threadIdx.x] = x[threadIdx.x];
        {{__syncthreads();||}}  // HERE
    }
    __syncthreads();  // HERE
    y[threadIdx.x] = t[threadIdx.x % 32];""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero")),
    ),
    Planted(
        "a_barrier_in_either_branch",
        "synccheck",
        DIVERGENT,
        kernel(
            "const float* x, float* y",
            """    __shared__ float t[64];
    t[threadIdx.x] = x[threadIdx.x];
    {{if (threadIdx.x % 2) __syncthreads(); else||}} __syncthreads();  // HERE
    y[threadIdx.x] = t[63 - threadIdx.x];""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero")),
    ),
    Planted(
        "return_before_the_barrier_for_one_size",
        "synccheck",
        DIVERGENT,
        kernel(
            "const float* x, float* y, int n",
            """    __shared__ float t[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    {{if (i >= n) return;||}}
    t[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();  // HERE
    if (i < n) y[i] = t[threadIdx.x ^ 1 & 0] + 1;""",
        ),
        (2,),
        (64,),
        (f32(100), f32(100, "zero"), 100),
    ),
    Planted(
        "barrier_in_a_loop_of_the_thread's_own_length",
        "synccheck",
        DIVERGENT,
        kernel(
            "const int* x, int* y",
            """    __shared__ int t[64];
    t[threadIdx.x] = 0;
    for (int i = 0; i < {{x[threadIdx.x]||15}}; i++) {
        t[threadIdx.x] += i;
        __syncthreads();  // HERE
    }
    __syncthreads();  // HERE
    y[threadIdx.x] = t[threadIdx.x];""",
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "mask_without_the_caller",
        "synccheck",
        ("lane not in mask",),
        kernel(
            "int* y",
            """    int lane = threadIdx.x;
    y[lane] = __shfl_sync({{0xffff||0xffffffff}}, lane, 3);  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32, "zero"),),
    ),
    Planted(
        "shuffle_in_a_branch_with_the_full_mask",
        "synccheck",
        ("deadlock", "divergent barrier"),
        kernel(
            "const int* x, int* y",
            """    int lane = threadIdx.x, v = x[lane];
    if (x[lane] {{< 8||>= 0}}) v = __shfl_xor_sync(0xffffffff, v, 1);  // HERE
    __syncwarp();  // HERE
    y[lane] = v;""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero")),
    ),
    Planted(
        "vote_of_lanes_that_are_elsewhere",
        "synccheck",
        ("mask mismatch", "deadlock"),
        kernel(
            "const int* x, unsigned* y",
            """    int lane = threadIdx.x, v = x[lane];
    if (lane < 16)
        y[lane] = __ballot_sync({{0xffffffff||0x0000ffff}}, v > 7);  // HERE
    else
        y[lane] = __ballot_sync(0xffff0000, v > 3) + 1;  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero")),
    ),
    Planted(
        "syncwarp_with_two_masks",
        "synccheck",
        ("mask mismatch", "deadlock"),
        kernel(
            "const int* x, int* y",
            """    int lane = threadIdx.x, v = x[lane];
    if (lane < 16) {
        v *= 3;
        __syncwarp({{0x0000ffff||0xffffffff}});  // HERE
        y[lane] = v;
    } else {
        __syncwarp(0xffffffff);  // HERE
        y[lane] = v + 1;
    }""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero")),
    ),
    Planted(
        "shuffle_of_the_warp_in_one_of_its_tiles",
        "synccheck",
        ("mask mismatch", "deadlock"),
        kernel(
            "const int* x, int* y",
            """    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto tile = cg::tiled_partition<16>(warp);
    int v = x[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        v = {{warp||tile}}.shfl_xor(v, 1);  // HERE
    else
        v = tile.shfl_down(v, 2);  // HERE
    y[threadIdx.x] = v;""",
            "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n",
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "barrier_that_counts_one_and_a_half_warps",
        "synccheck",
        ("barrier count", "deadlock", "divergent barrier"),
        kernel(
            "int* y, int most",
            """    int count = {{most||64}};
    if (threadIdx.x < count) asm volatile("barrier.cta.sync 1, %0;" ::"r"(count) : "memory");  // HERE
    y[threadIdx.x] = threadIdx.x;""",
        ),
        (1,),
        (64,),
        (i32(64, "zero"), 48),
    ),
    Planted(
        "barrier_that_waits_for_one_too_many",
        "synccheck",
        ("deadlock", "endless wait"),
        kernel(
            "const int* x, int* y",
            """    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x{{ + 1||}});
    __syncthreads();
    bar.arrive_and_wait();  // HERE
    y[threadIdx.x] = x[threadIdx.x];""",
            "#include <cuda/barrier>\n",
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "counting_barrier_in_a_branch",
        "synccheck",
        DIVERGENT,
        kernel(
            "const int* x, int* y",
            """    int many = 0;
    {{if (threadIdx.x < 32)||}} many = __syncthreads_count(x[threadIdx.x] > 7);  // HERE
    y[threadIdx.x] = many;
    __syncthreads();  // HERE""",
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "producer_that_never_arrives",
        "synccheck",
        ("deadlock",),
        kernel(
            "const int* x, int* y",
            """    __shared__ int box[32];
    if (threadIdx.x < 32) {
        box[threadIdx.x] = x[threadIdx.x];
        {{||asm volatile("barrier.cta.arrive 1, 64;" ::: "memory");}}
    } else {
        asm volatile("barrier.cta.sync 1, 64;" ::: "memory");  // HERE
        y[threadIdx.x - 32] = box[threadIdx.x - 32];
    }""",
        ),
        (1,),
        (64,),
        (i32(32), i32(32, "zero")),
    ),
)
