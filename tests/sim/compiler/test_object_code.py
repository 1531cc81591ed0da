"""Object code of long functions."""

from __future__ import annotations

import time

import numpy as np

from cudalab.sim.compiler.object_code import LONGEST, compile_object
from tests.sim.compiler.kernel_runner import Compiled, cuda


def test_loop_of_many_accesses_that_is_unrolled() -> None:
    """LLVM's time grows with the square of the number of checked accesses unless they are too many."""
    source = """
        extern "C" __global__ void k(const int *x, int *out) {
            int sum = 1;
            #pragma unroll
            for (int i = 0; i < 800; ++i) sum += x[(i * sum) & 31] ^ i;
            out[threadIdx.x] = sum + threadIdx.x;
        }
    """
    module: Compiled = cuda(source)
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    start = time.process_time()
    module.run("k", 1, 32, x, out)
    assert time.process_time() - start < 5  # 0.6 s here; 7 s before
    expected = 1
    for i in range(800):
        expected += int(x[(i * expected) & 31]) ^ i
    np.testing.assert_array_equal(out, expected + np.arange(32))


def test_many_short_functions_are_not_long() -> None:
    one = (
        "define i32 @f{0}(i32 %x) {{\n" + "".join(f"%y{n} = add i32 %x, {n}\n" for n in range(40)) + "ret i32 %x\n}}\n"
    )
    text = "".join(one.format(number) for number in range(LONGEST // len(one) + 50))
    assert len(text) > LONGEST
    assert b"f0" in compile_object(text)
