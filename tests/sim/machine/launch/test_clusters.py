"""Launches with clusters: what is refused, what faults and why, counters, samples, the sanitizer, footprints, time."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.machine.counters.sampling import count_launch, sample
from cudalab.sim.machine.launch.clusters import clusters_that_fit, in_clusters
from cudalab.sim.machine.launch.validation import LaunchError
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from tests.sim.compiler.codegen.test_clusters import CLUSTER
from tests.sim.compiler.kernel_runner import Compiled, cuda, memory
from tests.sim.h200 import LIMITS

SOURCE = (
    CLUSTER
    + r"""
extern "C" __global__ void swap(int* out) {
    __shared__ int a[32];
    a[threadIdx.x] = rank() * 100 + threadIdx.x;
    sync();
    out[blockIdx.x * 32 + threadIdx.x] = map(a, rank() ^ 1)[threadIdx.x];
    sync();
}
extern "C" __global__ void racy(int* out) {
    __shared__ int a[32];
    a[threadIdx.x] = rank() * 100 + threadIdx.x;
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = map(a, rank() ^ 1)[threadIdx.x];
    sync();
}
extern "C" __global__ void leaves(int* out) {
    __shared__ int a[32];
    a[threadIdx.x] = 1;
    sync();
    if (rank() == 1) return;
    for (long long begin = clock64(); clock64() - begin < 100000; ) ;
    out[threadIdx.x] = map(a, 1)[threadIdx.x];
}
extern "C" __global__ void wrong_rank(int* out) {
    __shared__ int a[32]; sync(); out[0] = map(a, 5)[threadIdx.x]; sync(); }
extern "C" __global__ void outside(int* out) { __shared__ int a[32]; sync(); out[0] = map(a, rank() ^ 1)[40]; sync(); }
extern "C" __global__ void twice(int* out) { if (threadIdx.x == 3) arrive(); sync(); }
extern "C" __global__ void alone(int* out) {
    __shared__ volatile int flag;
    flag = 0;
    __syncthreads();
    if (rank()) while (!flag) ;
    sync();
}
"""
)


@pytest.fixture(scope="module")
def code() -> Compiled:
    return cuda(SOURCE)


@pytest.mark.parametrize(
    ("grid", "cluster", "message"),
    [
        (5, 2, "not a multiple of the cluster's 2"),
        (9, 9, "at most 8 are allowed.*NON_PORTABLE_CLUSTER_SIZE_ALLOWED"),
        (32, 32, "at most 8"),
        (8, 0, "must be at least 1"),
    ],
)
def test_a_refused_cluster_says_why(code: Compiled, grid: int, cluster: int, message: str) -> None:
    with pytest.raises(LaunchError, match=message) as caught:
        code.run("swap", grid, 32, np.zeros(1, np.int32), cluster=cluster)
    assert caught.value.driver_code == 912


def test_a_cooperative_launch_that_does_not_fit_is_refused(code: Compiled) -> None:
    with pytest.raises(LaunchError, match="132 blocks of 1024 threads fit|264 blocks of 1024 threads fit") as caught:
        code.run("swap", 1000, 1024, np.zeros(1, np.int32), cooperative=True)
    assert caught.value.driver_code == 720


@pytest.mark.parametrize(
    ("kernel", "code_number", "rule", "words"),
    [
        ("leaves", 719, "shared memory of a block that has ended", "rank 1 .* has come to its end"),
        ("wrong_rank", 719, "no such rank", "rank 5; the cluster has 2 blocks, ranks 0 to 1"),
        ("outside", 719, "out of bounds", "past the end of the 128 bytes of shared memory that a block of rank"),
        ("twice", 702, "barrier.cluster out of turn", "has not waited"),
        ("alone", 702, "endless wait", "32 of the 64 threads of the cluster .2 blocks. have not arrived"),
    ],
)
def test_a_fault_explains_itself(code: Compiled, kernel: str, code_number: int, rule: str, words: str) -> None:
    fault = code.run(kernel, 2, 32, np.zeros(64, np.int32), cluster=2).fault
    assert fault is not None and (fault.code, fault.rule) == (code_number, rule)
    assert fault.line > 0
    import re

    assert re.search(words, str(fault), re.DOTALL), str(fault)


def test_a_rank_without_a_cluster_is_named_as_such(code: Compiled) -> None:
    fault = code.run("wrong_rank", 2, 32, np.zeros(64, np.int32)).fault
    assert fault is not None and "asked for no cluster" in str(fault)


def test_samples_and_counts_run_whole_clusters(code: Compiled) -> None:
    args, copies = code.pack("swap", (np.zeros(4096 * 32, np.int32),))
    kernel = code.kernel("swap")
    counts = sample(kernel.launch(4096, 32, args, cluster=2), remember=False)
    whole = count_launch(kernel.launch((8, 1, 1), (32, 1, 1), args, cluster=2))
    assert counts.complete and counts.blocks == 4096
    assert whole.complete and whole.global_stores.requests == 8
    for _, pointer in copies:
        memory().free(pointer)


@pytest.mark.parametrize(("kernel", "races"), [("swap", 0), ("racy", 1)])
def test_the_sanitizer_knows_the_order_that_the_cluster_barrier_makes(code: Compiled, kernel: str, races: int) -> None:
    args, copies = code.pack(kernel, (np.zeros(128, np.int32),))
    checked = check_launch(code.kernel(kernel).launch(4, 32, args, cluster=2))
    found = [finding.headline for finding in checked.findings]
    assert len(found) == races, found
    for _, pointer in copies:
        memory().free(pointer)


def test_stores_to_other_blocks_are_no_part_of_the_footprint(code: Compiled) -> None:
    out = np.zeros(64, np.int32)
    footprint = code("swap", 2, 32, out, cluster=2, variant="", footprint=True).footprint
    assert footprint is not None and sum(size for _, size in footprint.writes) == out.nbytes


def test_blocks_come_cluster_by_cluster_in_order_of_rank() -> None:
    grid, cluster = (4, 6, 4), (2, 3, 2)
    order = in_clusters(range(96), grid, cluster)
    assert sorted(order) == list(range(96))
    for start in range(0, 96, 12):
        x, y, z = order[start] % 4, order[start] // 4 % 6, order[start] // 24
        assert (x % 2, y % 3, z % 2) == (0, 0, 0)
        ranks = [(a, b, c) for c in range(2) for b in range(3) for a in range(2)]
        assert order[start : start + 12] == [x + a + 4 * (y + b + 6 * (z + c)) for a, b, c in ranks]
    assert in_clusters([95], grid, cluster)[-1] == 95 and len(in_clusters([95], grid, cluster)) == 12


@pytest.mark.parametrize(
    ("blocks_per_sm", "expected"),
    [  # cuOccupancyMaxActiveClusters on an H200, for clusters of these sizes
        (1, {2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15, 9: 9, 12: 7, 16: 7, 17: 2}),
        (2, {2: 132, 3: 79, 4: 62, 5: 47, 6: 39, 7: 32, 8: 30, 9: 23, 12: 16, 16: 14, 17: 4}),
        (3, {2: 198, 3: 124, 4: 92, 5: 69, 6: 62, 7: 47, 8: 45, 9: 37, 12: 28, 16: 21, 17: 6}),
        (8, {2: 528, 3: 327, 4: 248, 5: 193, 6: 163, 7: 139, 8: 124, 9: 102, 12: 74, 16: 58, 17: 16}),
    ],
)
def test_as_many_clusters_fit_as_on_an_h200(blocks_per_sm: int, expected: dict[int, int]) -> None:
    assert {size: clusters_that_fit(blocks_per_sm, size, LIMITS.sm_groups) for size in expected} == expected
