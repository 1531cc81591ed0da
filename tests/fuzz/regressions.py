"""Small cases of what fuzzing has found, each with the seed that showed it."""

from __future__ import annotations

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"

#: Lanes leave a loop one after the other; a shuffled order of threads ran others in their place (seeds 17, 35).
DWINDLING = """
extern "C" __global__ void f(int* out) {
    unsigned mask = 0xffffffffu;
    int rounds = 0;
    for (int k = 0; k < 6; k++) {
        bool stay = (int)(threadIdx.x * 7 % 32) > k * 5;
        mask = __ballot_sync(mask, stay);
        if (!stay) break;
        rounds += __popc(mask);
    }
    out[threadIdx.x] = rounds + __syncthreads_count(rounds > 20);
}
"""


#: Some lanes of a warp wait at a barrier that counts while the others are still at a warp operation; those were not
#: counted (seeds 2447, 3461).
LATE_LANES = """
extern "C" __global__ void f(int* out) {
    unsigned few = __ballot_sync(0xffffffffu, threadIdx.x % 32 < 3);
    if (threadIdx.x % 32 >= 3) __syncwarp(~few);
    out[threadIdx.x] = __syncthreads_count(threadIdx.x % 32 > 10);
}
"""

#: The larger of a converted integer and a NaN; LLVM took the NaN (seeds 6486, 8957).
NUMBER_OR_NAN = """
extern "C" __global__ void f(double zero, const unsigned short* x, double* d, float* s) {
    double missing = zero / zero;
    float small = (float)missing;
    d[0] = fmax((double)x[0], missing);
    d[1] = fmax(missing, (double)x[0]);
    d[2] = fmin((double)x[0], missing);
    d[3] = fmin(-zero, zero);
    d[4] = fmax(-zero, zero);
    s[0] = fmaxf((float)x[0], small);
    s[1] = fminf(small, (float)x[0]);
    s[2] = fminf(0.0f, -(float)zero);
    s[3] = fmaxf(-(float)zero, 0.0f);
}
"""

#: Seeds whose translation unit crashes NVIDIA's own compiler (NVRTC 13.0 for sm_90), here and on a GPU.
COMPILER_CRASHES = {2875, 7989, 8584}


def _kernel(body: str) -> str:
    registers = ".reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .f64 %fd<4>;"
    return f"{HEAD}.visible .entry f()\n{{\n{registers}\n{body}\nret;\n}}\n"


#: A register that holds a literal first and something else later; the literal was looked for where it was not
#: (seed 5391). Words at [p]: the upper half of -3.0, and of 2.5 + 2.5.
REUSED_REGISTER = f"""{HEAD}.visible .entry f(.param .u64 p)
{{
.reg .b32 %r<6>; .reg .b64 %rd<2>; .reg .f64 %fd<3>; .reg .f32 %f<3>;
ld.param.u64 %rd1, [p];
mov.f64 %fd1, 0dC008000000000000;
mov.b64 {{%r1, %r2}}, %fd1;
mov.f32 %f1, 0f7FC01234;
mov.b32 %r5, %f1;
mov.f32 %f1, 0f3F800000;
st.global.f32 [%rd1+12], %f1;
mov.f64 %fd1, 0d4004000000000000;
add.f64 %fd1, %fd1, %fd1;
mov.b64 {{%r3, %r4}}, %fd1;
st.global.u32 [%rd1], %r2;
st.global.u32 [%rd1+4], %r4;
st.global.u32 [%rd1+8], %r5;
ret;
}}
"""

#: PTX that no compiler writes → words of the error that it must end in.
REFUSED = {
    # a register of another width took the result, and LLVM complained (damaged PTX, seed 100)
    "a float into a double": (_kernel("add.f32 %fd1, %f1, %f2;"), ["%fd1", "add.f32"]),
    "a double into a float": (_kernel("cvt.f64.f32 %f1, %f2;"), ["%f1", "cvt.f64.f32"]),
    # seed 2310
    "a predicate into an integer": (_kernel("setp.geu.f64 %rd1, %fd2, %fd3;"), ["%rd1", "predicate"]),
    # "IndexError: string index out of range" (seed 2332)
    "a text cut off in a function": (_kernel("add.f32 %f1, %f1, %f2;")[:-8], ["line", "ends in the middle"]),
    "a text cut off in an address": (
        _kernel("ld.global.f32 %f1, [%rd1")[: -len("\nret;\n}\n")],
        ["PTX line", "expected ']'"],
    ),
}
