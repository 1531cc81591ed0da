"""What the first launch of a process does not load."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import numpy as np
from cudalab import cp

source = '''extern "C" __global__ void sums(const float* x, float* y, int n) {
    __shared__ float part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}'''
x, y = cp.ones(1000, np.float32), cp.zeros(16, np.float32)
cp.RawKernel(source, "sums")((16,), (64,), (x, y, np.int32(1000)))
assert y.get().sum() == 1000
print(*sorted({"numpy.ma", "IPython", "matplotlib"} & set(sys.modules)))
"""


def test_first_launch_loads_nothing_that_it_does_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []
