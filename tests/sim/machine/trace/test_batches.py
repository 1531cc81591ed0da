"""Blocks that are traced together have the traces that they have one by one."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import cp
from cudalab.analysis.mirror import mirrored
from cudalab.sim.machine.trace.recorder import Tracer

SOURCE = r"""
extern "C" __global__ void rows(const float *x, float *y, int n) {
    float sum = 0.0f;
    for (int j = 0; j < n; ++j)
        sum += x[(blockIdx.x * blockDim.x + threadIdx.x) * n + j];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
BLOCKS, THREADS, N = 4, 32, 8
RECORDS = 3 * THREADS * N
"""Room for the records of one block, not for those of all."""


@pytest.fixture
def launch():
    kernel = cp.RawKernel(SOURCE, "rows")
    x, y = cp.zeros(BLOCKS * THREADS * N, np.float32), cp.zeros(BLOCKS * THREADS, np.float32)
    with mirrored(kernel, (BLOCKS,), (THREADS,), (x, y, np.int32(N)), 0, "test") as made:
        yield made


def test_with_room_for_them_all_they_are_the_same(launch):
    with Tracer(launch, records=RECORDS) as tracer:
        alone = [tracer.run(block).records.copy() for block in range(BLOCKS)]
        together = tracer.run_batch(range(BLOCKS), room=BLOCKS * RECORDS)
        assert [trace.block for trace in together] == list(range(BLOCKS))
        for trace, records in zip(together, alone, strict=True):
            assert trace.complete
            np.testing.assert_array_equal(trace.records, records)
        assert tracer.run(0).complete  # and one by one again


def test_without_room_there_are_none(launch):
    with Tracer(launch, records=RECORDS) as tracer:
        assert tracer.run_batch(range(BLOCKS)) == []
