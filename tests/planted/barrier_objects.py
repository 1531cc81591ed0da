"""Barrier objects used against their rules, and flags in shared memory that are polled before they are written."""

from __future__ import annotations

from tests.planted.planted import Planted, f32, i32, kernel

UNINITIALISED = ("mbarrier not initialised",)
_BARRIER = "#include <cuda/barrier>\n"

BUGS = (
    Planted(
        "barrier_object_that_nobody_initialised",
        "synccheck",
        UNINITIALISED,
        kernel(
            "const int* x, int* y",
            """    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int t[64];
    {{||if (threadIdx.x == 0) init(&bar, blockDim.x);}}
    __syncthreads();
    t[threadIdx.x] = x[threadIdx.x];
    bar.arrive_and_wait();  // HERE
    y[threadIdx.x] = t[63 - threadIdx.x];""",
            _BARRIER,
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "barrier_object_used_without_waiting_for_its_initialisation",
        "synccheck",
        ("mbarrier not initialised", "race"),
        kernel(
            "const int* x, int* y",
            """    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int t[64];
    t[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x == 0) init(&bar, blockDim.x);  // HERE
    {{||__syncthreads();}}
    bar.arrive_and_wait();  // HERE
    y[threadIdx.x] = t[63 - threadIdx.x];""",
            _BARRIER,
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "barrier_object_for_three_and_two_arrive_at_once",
        "synccheck",
        ("too many arrivals",),
        kernel(
            "const int* x, int* y",
            """    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, {{3||64}});
    __syncthreads();
    {{auto token = ||}}bar.arrive({{2||1}});  // HERE
    __syncthreads();
    y[threadIdx.x] = x[threadIdx.x];""",
            _BARRIER,
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
    Planted(
        "barrier_object_invalidated_too_early",
        "synccheck",
        UNINITIALISED,
        kernel(
            "const float* x, float* y",
            """    __shared__ unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
    __syncthreads();
    {{if (threadIdx.x == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory"); __syncthreads();||}}
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");  // HERE
    y[threadIdx.x] = x[threadIdx.x];""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero")),
    ),
    Planted(
        "barrier_object_under_the_data_of_a_tile",
        "synccheck",
        UNINITIALISED,
        kernel(
            "const float* x, float* y",
            """    extern __shared__ __align__(16) float t[];
    auto* bar = (cuda::barrier<cuda::thread_scope_block>*)(t + {{62||64}});
    if (threadIdx.x == 0) init(bar, blockDim.x);
    __syncthreads();
    t[threadIdx.x] = x[threadIdx.x];
    bar->arrive_and_wait();  // HERE
    y[threadIdx.x] = t[63 - threadIdx.x];""",
            _BARRIER,
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero")),
        shared=64 * 4 + 16,
    ),
    Planted(
        "flag_in_shared_memory_polled_before_it_is_set",
        "initcheck",
        ("uninitialised read", "race"),
        kernel(
            "const int* x, int* y",
            """    __shared__ volatile int ready;
    __shared__ int box;
    {{||if (threadIdx.x == 0) ready = 0; __syncthreads();}}
    if (threadIdx.x == 0) {
        box = x[0];
        __threadfence_block();
        ready = 1;  // HERE
    } else if (threadIdx.x >= 32) {
        while (ready == 0) {}  // HERE
        __threadfence_block();
        y[threadIdx.x] = box;
    }""",
        ),
        (1,),
        (64,),
        (i32(64), i32(64, "zero")),
    ),
)
