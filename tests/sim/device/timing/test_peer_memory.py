"""Kernels that read and write another device's memory: their bytes cross the link, and a load waits for a round trip.

What two H200 took stands in docs/evidence/2026-11-23-two-devices.md.
"""

from __future__ import annotations

import struct

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.timing.cost import KernelTime

SOURCE = r"""
extern "C" {
__global__ void copy(const float4 *x, float4 *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}
__global__ void chase(const unsigned *next, unsigned *y, int n) {
    unsigned at = 0;
    for (int i = 0; i < n; i++) at += 32 + next[at];
    y[0] = at;
}
}
"""
SIZE = 16 << 20
OWN, PEERS = 0, 1


class Pair:
    """Two linked devices with memory on each; kernels run on the first."""

    def __init__(self) -> None:
        self.device = Device("h200-x2")
        self.memory = []
        for number in (PEERS, OWN):
            self.device.set_device(number)
            self.memory.insert(0, self.device.malloc(2 * SIZE))
        self.device.enable_peer_access(PEERS)
        self.module = self.device.load_module(compile(SOURCE))

    def time(self, name: str, source: int, to: int, n: int, blocks: int = 1056, threads: int = 256) -> KernelTime:
        function = self.device.get_function(self.module, name)
        arguments = struct.pack("QQi", self.memory[source], self.memory[to] + SIZE, n)
        return self.device.time_launch(function, (blocks, 1, 1), (threads, 1, 1), arguments)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return Pair()


@pytest.mark.parametrize(("source", "to"), [(PEERS, OWN), (OWN, PEERS), (PEERS, PEERS)])
def test_a_peers_memory_is_read_and_written_at_the_speed_of_the_link(pair, source, to):
    """375 GB/s, in both directions at once: two H200 took 54 to 56 us for 16 MiB between two events. It is not kept in
    the L2, where a repeated launch would find all of it."""
    own, found = pair.time("copy", OWN, OWN, SIZE // 16), pair.time("copy", source, to, SIZE // 16)
    assert found.bound == "link"
    assert 43_000 < found.ns < 55_000
    assert found.peak_fraction > 0.9
    assert not own.terms["link"]
    assert own.ns < found.ns / 4


def test_a_load_from_a_peer_waits_for_a_round_trip_over_the_link(pair):
    """1684 cycles of 1.98 GHz on two H200."""
    own, found = (pair.time("chase", source, OWN, 1000, 1, 1).ns / 1000 for source in (OWN, PEERS))
    assert found * 1.98 == pytest.approx(1684, rel=0.03)
    assert own < found / 2
