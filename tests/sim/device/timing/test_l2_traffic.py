"""What a launch touches, for the L2, where it may touch very much."""

from __future__ import annotations

import struct
import time

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device

SOURCE = r"""
extern "C" __global__ void xor_words(const unsigned long long *from, unsigned long long *to, int step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i] ^ step;
}
"""
ALLOCATIONS, LAUNCHES = 1500, 12


def test_a_kernel_that_loads_addresses_is_timed_beside_thousands_of_allocations() -> None:
    """It may follow what it loads to each of them. Once each launch took 0.8 s of processor time."""
    device = Device()
    kernel = device.get_function(device.load_module(compile(SOURCE)), "xor_words")
    source, result = device.malloc(1 << 15), device.malloc(1 << 15)
    for _ in range(ALLOCATIONS):
        device.malloc(512)
    began = time.process_time()
    for step in range(LAUNCHES):
        arguments = struct.pack("QQi", source, result, step)
        device.launch(kernel, (16, 1, 1), (256, 1, 1), arguments)
    device.synchronize()
    assert time.process_time() - began < 0.4 * LAUNCHES
