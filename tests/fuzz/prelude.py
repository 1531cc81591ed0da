"""CUDA C++ in front of all random kernels: arithmetic that is defined for every operand, and shuffles that give a lane
its own value where the lane it asks takes no part."""

from __future__ import annotations

HEADERS = {
    "cg": "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
    "namespace cg = cooperative_groups;\n",
    "fp16": "#include <cuda_fp16.h>\n",
}

PRELUDE = """
typedef unsigned int u32;
typedef unsigned long long u64;
template <class T> struct unsigned_of { typedef u32 type; };
template <> struct unsigned_of<long long> { typedef u64 type; };
template <> struct unsigned_of<u64> { typedef u64 type; };
#define U(T) typename unsigned_of<T>::type
template <class T> __device__ __forceinline__ T add_(T a, T b) { return (T)((U(T))a + (U(T))b); }
template <class T> __device__ __forceinline__ T sub_(T a, T b) { return (T)((U(T))a - (U(T))b); }
template <class T> __device__ __forceinline__ T mul_(T a, T b) { return (T)((U(T))a * (U(T))b); }
template <class T> __device__ __forceinline__ T left_(T a, int n) { return (T)((U(T))a << n); }
template <class T> __device__ __forceinline__ T abs_(T a) { return a < 0 ? sub_<T>(0, a) : a; }
template <class T> __device__ __forceinline__ T quotient_(T a, T b) {
    if (b == 0) return a;
    if ((T)-1 < 0 && b == (T)-1) return sub_<T>(0, a);
    return a / b;
}
template <class T> __device__ __forceinline__ T remainder_(T a, T b) {
    if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
    return a % b;
}
template <class T, class F> __device__ __forceinline__ T within_(F a, F low, F high) {
    return a >= low && a < high ? (T)a : (T)0;
}
__device__ __forceinline__ float number_(float a) { return a == a ? a : 1; }
__device__ __forceinline__ double number_(double a) { return a == a ? a : 1; }
__device__ __forceinline__ float from_bits_(u32 a) {
    u32 exponent = (a >> 23) & 255u;
    return __uint_as_float(exponent == 0u ? a & 0x80000000u : exponent == 255u ? 0x3f800000u : a);
}
__device__ __forceinline__ double from_bits_(u64 a) {
    return __longlong_as_double((long long)(((a >> 52) & 2047u) == 2047u ? 1023ull << 52 : a));
}
template <class T> __device__ void update_(T* total, T value) {
    T old = atomicCAS(total, (T)0, (T)0), seen;
    do { seen = old; old = atomicCAS(total, seen, (T)(seen + value)); } while (old != seen);
}
#define SHUFFLES(NAME, INLINE)                                                                                     \\
    template <class T> __device__ INLINE T up_##NAME(u32 m, T v, int d, int w, int lane) {                           \\
        T r = __shfl_up_sync(m, v, d, w);                                                                          \\
        int j = lane - d < (lane & ~(w - 1)) ? lane : lane - d;                                                     \\
        return (m >> j & 1u) ? r : v;                                                                              \\
    }                                                                                                              \\
    template <class T> __device__ INLINE T down_##NAME(u32 m, T v, int d, int w, int lane) {                         \\
        T r = __shfl_down_sync(m, v, d, w);                                                                        \\
        int j = lane + d > (lane | (w - 1)) ? lane : lane + d;                                                      \\
        return (m >> j & 1u) ? r : v;                                                                              \\
    }                                                                                                              \\
    template <class T> __device__ INLINE T xor_##NAME(u32 m, T v, int d, int w, int lane) {                          \\
        T r = __shfl_xor_sync(m, v, d, w);                                                                         \\
        int j = (lane ^ d) > (lane | (w - 1)) ? lane : lane ^ d;                                                    \\
        return (m >> j & 1u) ? r : v;                                                                              \\
    }                                                                                                              \\
    template <class T> __device__ INLINE T idx_##NAME(u32 m, T v, int d, int w, int lane) {                          \\
        T r = __shfl_sync(m, v, d, w);                                                                             \\
        int j = (lane & ~(w - 1)) | (d & (w - 1));                                                                  \\
        return (m >> j & 1u) ? r : v;                                                                              \\
    }
SHUFFLES(inline, __forceinline__)
SHUFFLES(call, __noinline__)
extern __shared__ __align__(16) unsigned char dynamic_memory[];
"""
