"""Products and sums that the assembler fuses: the bits an H200 gives, case by case."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import cp

N = 256
TERMS = np.random.default_rng(7).standard_normal((4, N)).astype(np.float32)
A, B, C, D = TERMS.astype(np.float64)


def rounded(x: np.ndarray) -> np.ndarray:
    """To float32 and back. Products of two float32 are exact in float64."""
    return x.astype(np.float32).astype(np.float64)


M, K = rounded(A * B), rounded(C * D)
# The PTX of each case; %0 and %1 are results, %2 to %5 the terms; then both results.
CASES = {
    "difference": ("mul.f32 m,%2,%3; sub.f32 %0,m,%4; mov.f32 %1,%4;", A * B - C, C),
    "subtracted": ("mul.f32 m,%2,%3; sub.f32 %0,%4,m; mov.f32 %1,%4;", C - A * B, C),
    "sum": ("mul.f32 m,%2,%3; add.f32 %0,%4,m; mov.f32 %1,%4;", C + A * B, C),
    "stored as well": ("mul.f32 m,%2,%3; sub.f32 %0,%4,m; mov.f32 %1,m;", C - M, M),
    "two differences": ("mul.f32 m,%2,%3; sub.f32 %0,%4,m; sub.f32 %1,m,%5;", C - A * B, A * B - D),
    "used by another product": ("mul.f32 m,%2,%3; sub.f32 %0,%4,m; mul.f32 %1,m,%5;", C - M, M * D),
    "used by a rounded sum": ("mul.f32 m,%2,%3; sub.f32 %0,%4,m; add.rn.f32 %1,m,%5;", C - M, M + D),
    "two products": ("mul.f32 m,%2,%3; mul.f32 k,%4,%5; sub.f32 %0,m,k; mov.f32 %1,%4;", A * B - K, C),
    "order of products": ("mul.f32 k,%4,%5; mul.f32 m,%2,%3; sub.f32 %0,m,k; mov.f32 %1,%4;", A * B - K, C),
    "first one kept": ("mul.f32 m,%2,%3; mul.f32 k,%4,%5; sub.f32 %0,m,k; mov.f32 %1,m;", M - C * D, M),
    "minus itself": ("mul.f32 m,%2,%3; sub.f32 %0,m,m; mov.f32 %1,%4;", 0 * A + 0, C),
    "negated": ("mul.f32 m,%2,%3; neg.f32 k,m; add.f32 %0,k,%4; mov.f32 %1,%4;", C - A * B, C),
    "moved": ("mul.f32 m,%2,%3; mov.f32 k,m; sub.f32 %0,%4,k; mov.f32 %1,%4;", C - A * B, C),
    "absolute": ("mul.f32 m,%2,%3; abs.f32 k,m; sub.f32 %0,%4,k; mov.f32 %1,%4;", C - abs(M), C),
    "rounded product": ("mul.rn.f32 m,%2,%3; sub.f32 %0,%4,m; mov.f32 %1,%4;", C - M, C),
    "rounded difference": ("mul.f32 m,%2,%3; sub.rn.f32 %0,%4,m; mov.f32 %1,%4;", C - M, C),
    "guarded": (
        "mul.f32 m,%2,%3; setp.gt.f32 p,%5,%4; mov.f32 %0,%4; @p sub.f32 %0,%4,m; mov.f32 %1,%4;",
        np.where(D > C, C - A * B, C),
        C,
    ),
    "in another block": (
        "mul.f32 m,%2,%3; mov.f32 %0,%4; mov.f32 %1,%4; setp.gt.f32 p,%5,%4; @p bra SKIP; sub.f32 %0,%4,m; SKIP:",
        np.where(D > C, C, C - M),
        C,
    ),
    "factor changed": ("mov.f32 k,%2; mul.f32 m,k,%3; mov.f32 k,%5; add.f32 %0,m,k; mov.f32 %1,%4;", None, C),
}


def bits(ptx: str) -> np.ndarray:
    code = """extern "C" __global__ void k(const float* x, float* out) {
        int i = threadIdx.x;
        float a, b;
        asm volatile("{ .reg .f32 m, k; .reg .pred p; %s }" : "=&f"(a), "=&f"(b)
                     : "f"(x[i]), "f"(x[N + i]), "f"(x[2 * N + i]), "f"(x[3 * N + i]));
        out[i] = a;
        out[N + i] = b;
    }"""
    kernel = cp.RawKernel(code.replace("%s", ptx), "k", options=(f"-DN={N}",))
    out = cp.empty((2, N), np.float32)
    kernel((1,), (N,), (cp.asarray(TERMS), out))
    return out.get()


@pytest.mark.parametrize("case", [name for name in CASES if name != "factor changed"])
def test_ptx_operations_are_contracted_as_by_the_assembler(case: str) -> None:
    ptx, first, second = CASES[case]
    assert (bits(ptx) == np.stack([first, second]).astype(np.float32)).all()


def test_a_product_whose_factor_changes_keeps_its_value() -> None:
    near = rounded(A * B) + D
    got = bits(CASES["factor changed"][0])[0]
    assert np.abs(got - near).max() < 1e-5


def test_a_difference_in_cuda_is_fused() -> None:
    code = """extern "C" __global__ void k(const float* x, float* out) {
        int i = threadIdx.x;
        out[i] = x[2 * N + i] - x[i] * x[N + i];
        out[N + i] = x[i] * x[N + i] - x[2 * N + i] * x[3 * N + i];
    }"""
    out = cp.empty((2, N), np.float32)
    for options, want in (
        ((), (C - A * B, A * B - K)),
        (("-fmad=false",), (C - M, M - K)),
    ):
        cp.RawKernel(code, "k", options=(f"-DN={N}", *options))((1,), (N,), (cp.asarray(TERMS), out))
        assert (out.get() == np.stack(want).astype(np.float32)).all()
