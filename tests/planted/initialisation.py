"""Reads of memory that nobody has written."""

from __future__ import annotations

from tests.planted.planted import Planted, f32, i32, kernel

READ = ("uninitialised read",)

BUGS = (
    Planted(
        "added_to_an_empty_array",
        "initcheck",
        READ,
        kernel(
            "const float* x, float* y, int n",
            """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] {{+=||=}} x[i];  // HERE""",
        ),
        (2,),
        (64,),
        (f32(100), f32(100, "none"), 100),
    ),
    Planted(
        "last_tile_not_padded",
        "initcheck",
        READ,
        kernel(
            "const float* x, float* y, int n",
            """    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    {{if (i < n) tile[threadIdx.x] = x[i]||tile[threadIdx.x] = i < n ? x[i] : 0}};
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += tile[k];  // HERE, in the last block only
    if (threadIdx.x == 0) y[blockIdx.x] = sum;""",
        ),
        (3,),
        (64,),
        (f32(150), f32(3, "zero"), 150),
    ),
    Planted(
        "corners_of_the_halo",
        "initcheck",
        READ,
        kernel(
            "const float* x, float* y",
            """    __shared__ float t[10][10];
    int c = threadIdx.x + 1, r = threadIdx.y + 1;
    t[r][c] = x[threadIdx.y * 8 + threadIdx.x];
    if (r == 1) t[0][c] = 0;
    if (r == 8) t[9][c] = 0;
    if (c == 1) t[r][0] = 0;
    if (c == 8) t[r][9] = 0;
    {{||if (r == 1 && c == 1) t[0][0] = t[0][9] = t[9][0] = t[9][9] = 0;}}
    __syncthreads();
    float sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) sum += t[r + dy][c + dx];  // HERE
    y[threadIdx.y * 8 + threadIdx.x] = sum;""",
        ),
        (1,),
        (8, 8),
        (f32(64), f32(64, "zero")),
    ),
    Planted(
        "counter_of_the_block_not_zeroed",
        "initcheck",
        READ,
        kernel(
            "const int* x, int* y",
            """    __shared__ int count;
    {{||if (threadIdx.x == 0) count = 0;}}
    __syncthreads();
    if (x[threadIdx.x] > 7) atomicAdd(&count, 1);  // HERE
    __syncthreads();
    if (threadIdx.x == 0) y[0] = count;  // HERE""",
        ),
        (1,),
        (64,),
        (i32(64), i32(1, "zero")),
    ),
    Planted(
        "more_bins_than_threads",
        "initcheck",
        READ,
        kernel(
            "const int* x, int* y",
            """    __shared__ int bins[100];
    {{if (threadIdx.x < 100) bins[threadIdx.x] = 0;||for (int b = threadIdx.x; b < 100; b += 64) bins[b] = 0;}}
    __syncthreads();
    atomicAdd(&bins[x[threadIdx.x] + 84], 1);  // HERE
    __syncthreads();
    for (int b = threadIdx.x; b < 100; b += 64) y[b] = bins[b];  // HERE""",
        ),
        (1,),
        (64,),
        (i32(64), i32(100, "zero")),
    ),
    Planted(
        "padding_taken_for_data",
        "initcheck",
        READ,
        kernel(
            "const float* x, float* y, int width, int pitch",
            """    __shared__ float row[40];
    if (threadIdx.x < width) row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < {{pitch||width}}; i++) sum += row[i];  // HERE
    y[threadIdx.x] = sum;""",
        ),
        (1,),
        (32,),
        (f32(32), f32(32, "zero"), 30, 36),
    ),
    Planted(
        "half_of_the_output_of_the_step_before",
        "initcheck",
        READ,
        kernel(
            "const float* x, float* between, float* y, int n",
            """    int i = threadIdx.x;
    if (i < n {{/ 2||}}) between[i] = 2 * x[i];
    __syncthreads();
    if (i < n) y[i] = between[n - 1 - i];  // HERE""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "none"), f32(64, "zero"), 64),
    ),
    Planted(
        "fourth_field_never_set",
        "initcheck",
        READ,
        kernel(
            "const float* x, float4* points, float* y, int n",
            """    int i = threadIdx.x;
    if (i >= n) return;
    points[i].x = x[i];
    points[i].y = 2 * x[i];
    points[i].z = 0;
    {{||points[i].w = 1;}}
    const volatile float* p = (const volatile float*)&points[i];
    y[i] = p[0] + p[3];  // HERE""",
        ),
        (1,),
        (32,),
        (f32(32), f32(128, "none"), f32(32, "zero"), 32),
    ),
)
