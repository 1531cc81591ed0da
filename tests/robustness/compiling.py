"""Mistakes that the compiler finds, and sources that would stop it for ever or fill its memory."""

from __future__ import annotations

from .mistake import mistake

BROKEN = ("CompileException", None)
OUT = "kernel()((1,), (1,), (cp.zeros(1, cp.int32),))"

# -- syntax errors -----------------------------------------------------------------------------------------------------

mistake(
    "syntax_error/semicolon",
    r"""
extern "C" __global__ void k(int* out) {
    int a = 1
    out[0] = a; // <-
}""",
    OUT, *BROKEN, "put a ; at the end of line 2", text='expected a ";"',
)  # fmt: skip
mistake(
    "syntax_error/misspelt_name",
    r"""
extern "C" __global__ void k(int* out) {
    out[threadIDx.x] = 1; // <-
}""",
    OUT, *BROKEN, "did you mean threadIdx?", text='"threadIDx" is undefined',
)  # fmt: skip
mistake(
    "syntax_error/device_function",
    r"""
__device__ int twice(int x) {
    return 2 * y; // <-
}
extern "C" __global__ void k(int* out) { *out = twice(3); }""",
    OUT, *BROKEN, "declare y", text='"y" is undefined',
)  # fmt: skip
mistake(
    "syntax_error/template",
    r"""
template<typename T> struct Pair { T a, b; };
template<typename T> __device__ T sum(Pair<T> p) {
    return p.a + p.c; // <-
}
extern "C" __global__ void k(int* out) { *out = sum(Pair<int>{1, 2}); }""",
    OUT, *BROKEN, text='has no member "c"',
)  # fmt: skip
mistake(
    "syntax_error/struct",
    r"""
struct Point {
    float x, y
}; // <-
extern "C" __global__ void k(int* out) { *out = sizeof(Point); }""",
    OUT, *BROKEN, "put a ; at the end of line 2", text='expected a ";"',
)  # fmt: skip
mistake(
    "syntax_error/loop",
    r"""
extern "C" __global__ void k(int* out) {
    for (int i = 0; i < 4; ++i { // <-
        out[0] += i;
    }
}""",
    OUT, *BROKEN, "count the brackets", text='expected a ")"',
)  # fmt: skip
mistake(
    "syntax_error/open_brace",
    r"""
extern "C" __global__ void k(int* out) {
    if (threadIdx.x == 0) {
        out[0] = 1;
} // <-""",
    OUT, *BROKEN, "count the braces", text='expected a "}"',
)  # fmt: skip
mistake(
    "syntax_error/kernel_with_a_result",
    r"""
extern "C" __global__ int k(int* out) { // <-
    return *out;
}""",
    OUT, *BROKEN, "make it void", text="void return type",
)  # fmt: skip
mistake(
    "syntax_error/python_in_the_kernel",
    r"""
extern "C" __global__ void k(int* out) {
    out[0] = len(out); // <-
}""",
    OUT, *BROKEN, "Python", text='"len" is undefined',
)  # fmt: skip

# -- headers -----------------------------------------------------------------------------------------------------------

KERNEL = '\nextern "C" __global__ void k(int* out) { *out = 1; }'
mistake(
    "unknown_header/misspelt", "#include <cuda_fp17.h> // <-" + KERNEL, OUT, *BROKEN, "cuda_fp16.h", text="cuda_fp17.h"
)
mistake(
    "unknown_header/own", '#define WIDTH 4\n#include "tile.cuh" // <-' + KERNEL, OUT, *BROKEN, "folder", text="tile.cuh"
)
mistake(
    "unknown_header/iostream", "#include <iostream> // <-" + KERNEL, OUT, *BROKEN, "host", "printf", text="iostream"
)
mistake(
    "unknown_header/in_template",
    "template<typename T> struct Box { T value; };\n#include <vector> // <-\n"
    "template<typename T> __global__ void set(T* out) { *out = Box<T>{1}.value; }",
    "instance('set<int>')((1,), (1,), (cp.zeros(1, cp.int32),))",
    *BROKEN, "host", text="vector",
)  # fmt: skip
mistake(
    "unknown_header/cublas", "#include <cublas_v2.h> // <-" + KERNEL, OUT, *BROKEN, "host", "a @ b", text="cublas_v2.h"
)

# -- compile bombs: stopped by a limit of time or memory, or by one of the compiler's own ------------------------------

mistake(
    "compile_bomb/templates",
    r"""
template<int N, int M> struct F { static constexpr long v = F<N - 1, M>::v + F<N - 1, M + 1>::v + F<N - 1, 2 * M>::v; };
template<int M> struct F<0, M> { static constexpr long v = M; };
extern "C" __global__ void k(int* out) { *out = F<22, 1>::v; }""",
    OUT, *BROKEN, "compiler",
)  # fmt: skip
mistake(
    "compile_bomb/endless_templates",
    r"""
template<int N> struct F { static constexpr int v = F<N + 1>::v; }; // <-
extern "C" __global__ void k(int* out) { *out = F<0>::v; }""",
    OUT, *BROKEN, "specialisation",
)  # fmt: skip
mistake(
    "compile_bomb/constexpr_loop",
    r"""
constexpr long spin() { long s = 0; for (long i = 0; i < 1000000000000; ++i) s += i; return s; }
extern "C" __global__ void k(int* out) {
    constexpr long s = spin(); // <-
    *out = s;
}""",
    OUT, *BROKEN, "host, or in the kernel",
)  # fmt: skip
mistake(
    "compile_bomb/huge_array",
    r"""
__device__ int a[2000000000] = {1};
extern "C" __global__ void k(int* out) { *out = a[*out]; }""",
    OUT, *BROKEN, "compiler",
)  # fmt: skip
mistake(
    "compile_bomb/macros",
    r"""
#define A(x) x x x x x x x x x x
#define B(x) A(A(A(A(x))))
extern "C" __global__ void k(int* out) {
    B(B(out[0] += 1;))
}""",
    OUT, *BROKEN, "compiler",
)  # fmt: skip
mistake(
    "compile_bomb/inlining",
    "__device__ __forceinline__ int f0(int x, int* p) { return x * 31 + p[x & 7]; }\n"
    + "".join(
        f"__device__ __forceinline__ int f{i}(int x, int* p) {{ return f{i - 1}(f{i - 1}(x, p) ^ {i}, p); }}\n"
        for i in range(1, 31)
    )
    + 'extern "C" __global__ void k(int* out) { *out = f30(*out, out); }',
    OUT, *BROKEN, "compiler",
)  # fmt: skip
