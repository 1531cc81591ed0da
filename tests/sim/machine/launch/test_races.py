"""Under a race the outcome is wrong, on the first launch and on every other, and the same in every run."""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.machine.execution import execute
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from tests.sim.h200 import LIMITS
from tests.sim.machine.launch.racy_kernels import KERNELS, Racy


def load(memory: Memory, code: str) -> LoadedKernel:
    return Module(compile(code), memory, LIMITS).kernel("k")


def launch(memory: Memory, kernel: LoadedKernel, racy: Racy, **options: object) -> np.ndarray:
    """The output of one launch of a racy kernel."""
    source, target = memory.allocate(racy.input.nbytes), memory.allocate(4 * racy.outputs)
    memory.array(source, racy.input.size, racy.input.dtype)[:] = racy.input.ravel()
    output = memory.array(target, racy.outputs, racy.input.dtype)
    output[:] = 0
    args = struct.pack("<QQi", source, target, len(racy.input))
    outcome = execute(kernel.launch(racy.grid, racy.block, args), **options)  # type: ignore[arg-type]
    assert outcome.fault is None, outcome.fault
    found = output.copy()
    memory.free(source)
    memory.free(target)
    return np.r_[found[:1], np.sort(found[1:])[::-1]] if racy.orderless else found


@pytest.mark.parametrize("racy", KERNELS, ids=lambda racy: racy.name.replace(" ", "_"))
def test_a_race_is_visible_in_every_launch(racy: Racy) -> None:
    runs = []
    for _ in range(2):
        memory = Memory(1 << 28)
        kernel = load(memory, racy.code)
        runs += [launch(memory, kernel, racy) for _ in range(3)]
        memory.free_all()
    assert not np.allclose(runs[0], racy.right(racy.input), rtol=1e-4)
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0], other)


@pytest.mark.parametrize("racy", KERNELS, ids=lambda racy: racy.name.replace(" ", "_"))
def test_the_race_is_found(racy: Racy) -> None:
    memory = Memory(1 << 28)
    kernel = load(memory, racy.code)
    source, target = memory.allocate(racy.input.nbytes), memory.allocate(4 * racy.outputs)
    memory.array(source, racy.input.size, racy.input.dtype)[:] = racy.input.ravel()
    memory.array(target, racy.outputs, racy.input.dtype)[:] = 0
    result = check_launch(kernel.launch(racy.grid, racy.block, struct.pack("<QQi", source, target, len(racy.input))))
    assert "race" in {finding.rule for finding in result.findings}
    memory.free_all()


UPDATES = {
    "own element": "out[i] += x;",
    "own row": "out[blockIdx.y * n + i] += x;",
    "row and column": "int row = i / 8, column = i % 8; out[row * n + column] += x;",
    "grid-stride loop": "for (int j = i; j < n; j += gridDim.x * blockDim.x) out[j] += x;",
    "one thread of a block": "if (threadIdx.x == 0) out[blockIdx.x] += x;",
    "one warp": "__shared__ float s[32]; if (threadIdx.x < 32) s[threadIdx.x & 31] += x; out[i] = s[0];",
    "place from an atomic": "int place = atomicAdd((int*)out, 1); out[place + 1] += x;",
    "atomic": "atomicAdd(out, x);",
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_that_threads_make_alone_do_not_wait_for_others(name: str) -> None:
    code = f"""extern "C" __global__ void k(float* out, float x, int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x; {UPDATES[name]} }}"""
    assert not compile(code).kernels["k"].interleaves


def test_one_thread_alone_does_not_wait_for_others() -> None:
    """A launch of one thread runs as if the kernel had no suspension point."""
    memory = Memory(1 << 28)
    code = """extern "C" __global__ void k(const int* in, int* out, int n) {
      for (int i = 0; i < n; i++) out[0] += in[i]; }"""
    kernel = load(memory, code)
    assert kernel.kernel.interleaves
    racy = Racy("", code, 1, 1, np.arange(100, dtype=np.int32), 1, lambda a: a.sum(keepdims=True))
    assert launch(memory, kernel, racy) == [4950]
    memory.free_all()


@pytest.mark.parametrize("variant", ["", "plain", "traced"])
def test_kernels_with_barriers_are_right_in_every_order(variant: str) -> None:
    memory = Memory(1 << 28)
    code = """extern "C" __global__ void k(const float* in, float* out, int n) {
      __shared__ float s[2][256];
      int t = threadIdx.x, now = 0;
      s[0][t] = in[t];
      __syncthreads();
      for (int d = 1; d < n; d *= 2, now = !now) {
        s[!now][t] = s[now][t] + (t >= d ? s[now][t - d] : 0);
        __syncthreads();
      }
      out[t] = s[now][t];
    }"""
    data = np.arange(1, 257, dtype=np.float32)
    racy = Racy("", code, 1, 256, data, 256, lambda a: a.cumsum())
    assert launch(memory, load(memory, code), racy, variant=variant).tolist() == data.cumsum().tolist()
    memory.free_all()


def test_a_large_grid_with_a_race_is_not_slow() -> None:
    memory = Memory(1 << 28)
    code = 'extern "C" __global__ void k(const int* in, int* out, int n) { out[0] += 1; }'
    kernel = load(memory, code)
    racy = Racy("", code, 100_000, 64, np.zeros(4, np.int32), 1, lambda a: a)
    launch(memory, kernel, Racy("", code, 8, 64, np.zeros(4, np.int32), 1, lambda a: a))
    began = time.process_time()
    assert 1 <= launch(memory, kernel, racy)[0] <= 100_000
    assert time.process_time() - began < 1.0
    memory.free_all()
