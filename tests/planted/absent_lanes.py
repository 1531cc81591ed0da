"""Shuffles that read a lane which has exited, is not at the shuffle, or is not named in the mask."""

from __future__ import annotations

from tests.planted.planted import Planted, f32, i32, kernel

ABSENT = ("absent lane",)
_GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"

BUGS = (
    Planted(
        "sum_of_a_warp_after_some_lanes_returned",
        "synccheck",
        ABSENT,
        kernel(
            "const float* x, float* y, int n",
            """    int i = threadIdx.x;
    {{if (i >= n) return;||}}
    float sum = i < n ? x[i] : 0;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);  // HERE
    if (i == 0) y[0] = sum;""",
        ),
        (1,),
        (32,),
        (f32(32), f32(1, "zero"), 20),
    ),
    Planted(
        "sum_in_a_branch_with_the_active_mask",
        "synccheck",
        ABSENT,
        kernel(
            "const int* x, int* y, int n",
            """    int i = threadIdx.x, sum = 0;
    if (i < n) {
        sum = x[i];
        unsigned mask = __activemask();
        for (int d = 16; d > 0; d /= 2) {
            int other = __shfl_down_sync(mask, sum, d);  // HERE
            {{||if (i + d < n)}} sum += other;
        }
    }
    if (i == 0) y[0] = sum;""",
        ),
        (1,),
        (32,),
        (i32(32), i32(1, "zero"), 20),
    ),
    Planted(
        "sum_in_a_branch_with_the_exact_mask",
        "synccheck",
        ABSENT,
        kernel(
            "const float* x, float* y",
            """    int lane = threadIdx.x;
    if (lane < 20) {
        float sum = x[lane];
        for (int d = 16; d > 0; d /= 2) {
            float other = __shfl_down_sync((1u << 20) - 1, sum, d);  // HERE
            sum += {{other||lane + d < 20 ? other : 0}};
        }
        if (lane == 0) y[0] = sum;
    }""",
        ),
        (1,),
        (32,),
        (f32(32), f32(1, "zero")),
    ),
    Planted(
        "maximum_of_the_lanes_of_a_ballot",
        "synccheck",
        ABSENT,
        kernel(
            "const int* x, int* y, int n",
            """    int lane = threadIdx.x;
    unsigned mask = __ballot_sync(0xffffffff, lane < n);
    if (lane < n) {
        int most = x[lane];
        for (int d = 16; d > 0; d /= 2) {
            int other = __shfl_down_sync(mask, most, d);  // HERE
            {{||if (mask >> (lane + d) & 1)}} most = max(most, other);
        }
        if (lane == 0) y[0] = most;
    }""",
        ),
        (1,),
        (32,),
        (i32(32), i32(1, "zero"), 11),
    ),
    Planted(
        "butterfly_in_a_warp_that_is_not_full",
        "synccheck",
        ABSENT,
        kernel(
            "const float* x, float* y",
            """    float sum = x[threadIdx.x];
    for (int d = {{16||8}}; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);  // HERE
    y[threadIdx.x] = sum;""",
        ),
        (1,),
        (48,),
        (f32(48), f32(48, "zero")),
    ),
    Planted(
        "total_of_a_scan_from_a_lane_that_is_gone",
        "synccheck",
        ABSENT,
        kernel(
            "const int* x, int* y, int n",
            """    int lane = threadIdx.x;
    if (lane >= n) return;
    unsigned mask = (1u << n) - 1;
    int sum = x[lane];
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(mask, sum, d);
        if (lane >= d) sum += other;
    }
    y[lane] = __shfl_sync(mask, sum, {{31||n - 1}}) - sum;  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), 24),
    ),
    Planted(
        "member_of_a_coalesced_group_that_left",
        "synccheck",
        ABSENT,
        kernel(
            "const int* x, int* y",
            """    auto group = cg::coalesced_threads();
    int rank = group.thread_rank(), v = x[rank];
    {{if (rank >= 5) return;||}}
    y[rank] = group.shfl(v, 7);  // HERE""",
            _GROUPS,
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero")),
    ),
    Planted(
        "tile_whose_upper_ranks_left",
        "synccheck",
        ABSENT,
        kernel(
            "const int* x, int* y",
            """    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int sum = x[threadIdx.x];
    {{if (tile.thread_rank() >= 5) return;||if (tile.thread_rank() >= 5) sum = 0;}}
    for (int d = 4; d > 0; d /= 2) sum += tile.shfl_down(sum, d);  // HERE
    if (tile.thread_rank() == 0) y[threadIdx.x / 8] = sum;""",
            _GROUPS,
        ),
        (1,),
        (32,),
        (i32(32), i32(4, "zero")),
    ),
    Planted(
        "place_of_the_largest_in_a_short_row",
        "synccheck",
        ABSENT,
        kernel(
            "const float* x, int* y, int n",
            """    int lane = threadIdx.x, row = blockIdx.x;
    if (lane < n) {
        float best = x[row * n + lane];
        int place = lane;
        for (int d = 16; d > 0; d /= 2) {
            float other = __shfl_xor_sync(__activemask(), best, d);  // HERE
            int where = __shfl_xor_sync(__activemask(), place, d);  // HERE
            if ({{||(lane ^ d) < n && }}other > best) { best = other; place = where; }
        }
        if (lane == 0) y[row] = place;
    }""",
        ),
        (2,),
        (32,),
        (f32(40), i32(2, "zero"), 20),
    ),
    Planted(
        "difference_to_the_right_neighbour",
        "synccheck",
        ABSENT,
        kernel(
            "const float* x, float* y, int n",
            """    int i = threadIdx.x;
    if (i < n) {
        float right = __shfl_down_sync((1u << n) - 1, x[i], 1);  // HERE
        y[i] = {{right - x[i]||i + 1 < n ? right - x[i] : 0}};
    }""",
        ),
        (1,),
        (32,),
        (f32(32), f32(32, "zero"), 20),
    ),
    Planted(
        "last_round_of_a_strided_loop",
        "synccheck",
        ABSENT,
        kernel(
            "const float* x, float* y, int n",
            """    float total = 0;
    for (int i = threadIdx.x; i < {{n||96}}; i += 32) {
        float sum = i < n ? x[i] : 0;
        for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(__activemask(), sum, d);  // HERE
        total += sum;
    }
    if (threadIdx.x == 0) y[0] = total;""",
        ),
        (1,),
        (32,),
        (f32(96), f32(1, "zero"), 84),
    ),
    Planted(
        "rotation_of_a_ring_shorter_than_the_warp",
        "synccheck",
        ABSENT,
        kernel(
            "const int* x, int* y, int n",
            """    int lane = threadIdx.x;
    if (lane >= n) return;
    y[lane] = __shfl_sync((1u << n) - 1, x[lane], (lane + 1) % {{32||n}});  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), 20),
    ),
    Planted(
        "halves_with_a_mask_each_read_across",
        "synccheck",
        ABSENT,
        kernel(
            "const float* x, float* y",
            """    int lane = threadIdx.x;
    unsigned mask = lane < 16 ? 0x0000ffff : 0xffff0000;
    float sum = x[lane];
    for (int d = {{16||8}}; d > 0; d /= 2) sum += __shfl_xor_sync(mask, sum, d);  // HERE
    y[lane] = sum;""",
        ),
        (1,),
        (32,),
        (f32(32), f32(32, "zero")),
    ),
    Planted(
        "neighbour_taken_before_the_guard_of_a_stencil",
        "synccheck",
        ABSENT,
        kernel(
            "const float* x, float* y, int n",
            """    __shared__ float between[64];
    int i = threadIdx.x;
    if ({{i >= n||false}}) return;
    float own = i < n ? x[i] : 0;
    float left = __shfl_up_sync(0xffffffff, own, 1), right = __shfl_down_sync(0xffffffff, own, 1);  // HERE
    between[i] = left + right;
    if (i < n) y[i] = between[i];""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero"), 50),
    ),
)
