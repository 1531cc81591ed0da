"""Calls through function pointers: what they may reach, and what is no function."""

from __future__ import annotations

import numpy as np
import pytest

import cudalab
from cudalab import cp

TABLE = r"""
typedef int (*Function)(int);
__device__ int twice(int x) { return 2 * x; }
__device__ int next(int x) { return x + 1; }
__device__ Function table[3] = {twice, next, nullptr};
extern "C" __global__ void k(int* out, int first) {
    out[threadIdx.x] = table[first + threadIdx.x](10);
}"""


def test_each_thread_calls_the_function_of_its_table_entry() -> None:
    out = cp.zeros(2, cp.int32)
    cp.RawKernel(TABLE, "k")((1,), (2,), (out, np.int32(0)))
    assert out.get().tolist() == [20, 11]


def test_call_through_null_is_a_fault_that_names_the_line() -> None:
    cp.RawKernel(TABLE, "k")((1,), (2,), (cp.zeros(2, cp.int32), np.int32(1)))
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError) as caught:
        cp.cuda.Device().synchronize()
    cudalab.reset()
    assert caught.value.status == 718
    notes = "\n".join(caught.value.__notes__)
    assert "kernel.cu:7" in notes and "thread (1,0,0)" in notes


def test_pointer_to_a_function_that_calls_itself() -> None:
    source = r"""
        typedef long long (*Function)(int);
        __device__ long long factorial(int n);
        __device__ Function self = factorial;
        __device__ long long factorial(int n) { return n < 2 ? 1 : n * self(n - 1); }
        extern "C" __global__ void k(long long* out) { out[threadIdx.x] = self(threadIdx.x); }"""
    out = cp.zeros(12, cp.int64)
    cp.RawKernel(source, "k")((1,), (12,), (out,))
    assert out.get().tolist() == [1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800]


def test_function_that_waits_cannot_be_called_through_a_pointer() -> None:
    source = r"""
        typedef void (*Function)();
        __device__ void wait() { __syncthreads(); }
        __device__ void go() { }
        __device__ Function table[2] = {wait, go};
        extern "C" __global__ void k(int i) { table[i](); }"""
    with pytest.raises(cp.cuda.compiler.CompileException, match="wait.*waits for other threads.*pointer"):
        cp.RawKernel(source, "k")((1,), (1,), (np.int32(1),))
