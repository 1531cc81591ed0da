"""Object code of long functions."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.compiler import build, compile, object_code
from cudalab.sim.compiler.object_code import LONGEST, compile_object
from tests.sim.compiler.kernel_runner import cuda


def test_long_functions_are_compiled_the_fast_way_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's time grows with the square of the number of checked accesses, so long functions take a shorter way."""
    levels: list[str] = []
    optimise = object_code._optimise
    monkeypatch.setattr(object_code, "LONGEST", 20_000)
    monkeypatch.setattr(object_code, "_optimise", lambda *args: (levels.append(args[2]), optimise(*args))[1])
    module = cuda(
        """
        extern "C" __global__ void k(const int *x, int *out) {
            int sum = 1;
            #pragma unroll
            for (int i = 0; i < 100; ++i) sum += x[(i * sum) & 31] ^ i;
            for (int i = 0; i < out[threadIdx.x]; ++i) sum += i;
            out[threadIdx.x] = sum;
        }
        """
    )
    x, out = np.arange(32, dtype=np.int32), np.arange(32, dtype=np.int32)
    module.run("k", 1, 32, x, out)
    expected = 1
    for i in range(100):
        expected += int(x[(i * expected) & 31]) ^ i
    np.testing.assert_array_equal(out, expected + np.arange(32) * (np.arange(32) - 1) // 2)
    assert "long" in levels


def test_many_short_functions_are_not_long() -> None:
    one = (
        "define i32 @f{0}(i32 %x) {{\n" + "".join(f"%y{n} = add i32 %x, {n}\n" for n in range(40)) + "ret i32 %x\n}}\n"
    )
    text = "".join(one.format(number) for number in range(LONGEST // len(one) + 50))
    assert len(text) > LONGEST
    assert b"f0" in compile_object(text)


def test_checked_code_is_made_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM took three quarters of a check's time for registers of code whose every access is a call."""
    levels = {}

    def made(text: str, *, optimise: str, verify: bool = False) -> bytes:
        levels[variant] = optimise
        return b""

    monkeypatch.setattr(build, "compile_object", made)
    ptx = compile('extern "C" __global__ void k(float* x) { x[threadIdx.x] += 1.0f; }').ptx
    for variant in ("plain", "sanitize", "sanitize_shuffled", "sanitize_trace", "traced"):
        build.module_object(ptx, variant)
    assert levels == {
        "plain": "kernel",
        "sanitize": "long",
        "sanitize_shuffled": "long",
        "sanitize_trace": "little",
        "traced": "little",
    }
