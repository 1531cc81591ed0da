"""A kernel on tensor cores beside plain ones: those run, and it is refused when it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import cp
from cudalab.sim.compiler import CompileError, compile

TENSOR = """#include <mma.h>
using namespace nvcuda;
__device__ void load(half *a)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    wmma::load_matrix_sync(f, a, 16);
    a[0] = f.x[0];
}
extern "C" __global__ void product(half *a) { load(a); }
"""
PLAIN = 'extern "C" __global__ void convert(half *out, const float *in) { out[threadIdx.x] = in[threadIdx.x]; }\n'


def test_the_other_kernels_of_the_module_run_and_this_one_says_why_not() -> None:
    module = cp.RawModule(code=TENSOR + PLAIN)
    values = np.linspace(-3, 3, 64, dtype=np.float32)
    out = cp.empty(64, np.float16)
    module.get_function("convert")((1,), (64,), (out, cp.asarray(values)))
    np.testing.assert_array_equal(out.get(), values.astype(np.float16))
    with pytest.raises(cp.cuda.driver.CUDADriverError) as caught:
        module.get_function("product")((1,), (32,), (out,))
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "NOT_SUPPORTED" in text and "wmma.load" in text and "tensor cores are out of scope" in text
    assert ":6: " in text, "the line where the source uses them"


def test_a_module_of_nothing_else_does_not_compile() -> None:
    with pytest.raises(CompileError, match="tensor cores are out of scope"):
        compile(TENSOR)
    program = compile(TENSOR + PLAIN)
    assert list(program.kernels) == ["convert"] and list(program.refused) == ["product"]
