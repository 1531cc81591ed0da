"""Short copies to the device behind a kernel, against an H200: up to 1 KB come with the commands of their stream."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from bench.fidelity.catalogue import catalogue
from bench.fidelity.experiment import EXPERIMENTS
from bench.fidelity.stored import everything
from cudalab.sim.compiler import compile

NAME = "short copies to the device behind a kernel"
SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}"""


@pytest.mark.parametrize("size", [4, 256, 1024, 1028, 2048])
def test_up_to_a_kilobyte_no_engine_has_to_be_told(bench, size):
    catalogue()
    assert EXPERIMENTS[NAME].side == "calibration"
    device = bench.device
    target, (host, _) = device.malloc(size), bench.pinned(size, np.uint8)
    function = device.get_function(device.load_module(compile(SPIN)), "spin")
    begin, end = device.event_create(), device.event_create()
    device.launch(function, (1, 1, 1), (1, 1, 1), struct.pack("q", 200_000))
    device.event_record(begin)
    device.memcpy(target, host, size, 1, 0, True)
    device.event_record(end)
    device.synchronize()
    measured = everything().figures[NAME][f"{size} bytes"]
    assert device.event_elapsed(begin, end) * 1000 == pytest.approx(measured, rel=0.15)
