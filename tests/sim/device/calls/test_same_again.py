"""Calls with the arguments of an earlier one: what follows from them is remembered, and only while it holds."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Device
from cudalab.sim.device.calls.kernels import MAX_DYNAMIC_SHARED
from cudalab.sim.device.observer import Observer

SOURCE = """
extern "C" __global__ void add(float *x, float y) { x[threadIdx.x] += y; }
"""
SIZE = 256


class Works(Observer):
    """The work of every operation."""

    def __init__(self, device: Device) -> None:
        self.works = []
        device.observers.append(self)

    def enqueued(self, operation, waits):
        self.works.append(operation.work)


@pytest.fixture
def add(device):
    return device.get_function(device.load_module(compile(SOURCE)), "add")


def test_a_loop_makes_the_same_work_again_and_the_right_results(bench, add):
    device, works = bench.device, Works(bench.device)
    pointer = bench.upload(np.zeros(32, np.float32))
    host, values = bench.pinned(32)
    works.works.clear()
    for _ in range(3):
        device.launch(add, (1, 1, 1), (32, 1, 1), struct.pack("Qf", pointer, 2.0))
        device.memcpy(host, pointer, 128, 2, 0, True)
    device.synchronize()
    assert len(works.works) == 6
    assert len({id(work) for work in works.works}) == 2
    assert (values == 6.0).all()


def test_a_copy_to_memory_that_was_freed_is_refused(bench):
    device = bench.device
    host, _ = bench.pinned(SIZE, np.uint8)
    pointer = device.malloc(SIZE)
    device.memcpy(pointer, host, SIZE, 1, 0, True)
    device.free(pointer)
    with pytest.raises(CudaError) as caught:
        device.memcpy(pointer, host, SIZE, 1, 0, True)
    assert caught.value.code == cudaError_t.cudaErrorInvalidValue


def test_a_copy_from_memory_that_is_no_longer_page_locked_takes_its_source_at_the_call(bench):
    device = bench.device
    source = np.zeros(4096 * 3, np.uint8)
    pointer, address = device.malloc(SIZE), source.ctypes.data
    device.host_register(address, source.nbytes)
    device.memcpy(pointer, address, SIZE, 1, 0, True)
    device.host_unregister(address)
    source[:] = 1
    works = Works(device)
    device.memcpy(pointer, address, SIZE, 1, 0, True)
    source[:] = 2
    assert works.works[-1].staged
    assert (bench.download(pointer, SIZE) == 1).all()


def test_a_synchronous_copy_waits_although_an_asynchronous_one_did_not(bench):
    device = bench.device
    host, _ = bench.pinned(1 << 20, np.uint8)
    pointer = device.malloc(1 << 20)
    device.memcpy(pointer, host, 1 << 20, 1, 0, True)
    assert not device.idle
    device.memcpy(pointer, host, 1 << 20, 1)
    assert device.idle


def test_a_copy_that_was_made_before_is_captured(bench):
    device = bench.device
    host, _ = bench.pinned(SIZE, np.uint8)
    pointer, stream = device.malloc(SIZE), device.stream_create(1)
    device.memcpy(pointer, host, SIZE, 1, stream, True)
    device.stream_synchronize(stream)
    device.capture_begin(stream, 0)
    device.memcpy(pointer, host, SIZE, 1, stream, True)
    assert device.idle
    assert len(device.graph_nodes(device.capture_end(stream))) == 1


def test_a_launch_is_checked_anew_when_an_attribute_has_changed(bench, add):
    device = bench.device
    pointer = bench.upload(np.zeros(32, np.float32))
    device.function_set_attribute(add, MAX_DYNAMIC_SHARED, 60_000)
    arguments = (add, (1, 1, 1), (32, 1, 1), struct.pack("Qf", pointer, 2.0), 60_000)
    device.launch(*arguments)
    device.function_set_attribute(add, MAX_DYNAMIC_SHARED, 1000)
    with pytest.raises(CudaError):
        device.launch(*arguments)


def test_a_librarys_own_time_passes_although_nothing_happens(device):
    device.synchronize()
    began = device.clock_ns
    device.library_work(700)
    assert device.clock_ns == began + 700


def test_work_that_is_due_while_a_library_is_busy_is_done(bench):
    device = bench.device
    host, values = bench.pinned(SIZE, np.uint8)
    pointer = device.malloc(SIZE)
    device.memset(pointer, 7, SIZE)
    device.memcpy(host, pointer, SIZE, 2, 0, True)
    for _ in range(1000):
        if device.idle:
            break
        device.library_work(100)
    assert device.idle
    assert (values == 7).all()


def test_a_library_that_is_busy_in_a_host_function_is_refused_at_once(device):
    """As every call there. Who waits for the function is inside the device meanwhile, so it may not wait to get in."""
    said = []

    def ask():
        with pytest.raises(CudaError) as refused:
            device.library_work(700)
        said.append(str(refused.value).partition(":")[0])

    device.launch_host_function(ask)
    device.synchronize()
    assert said == ["cudaErrorNotPermitted"]


def test_a_recording_keeps_a_librarys_own_time():
    device = Device(record=True)
    device.synchronize()
    device.library_work(700)
    assert [entry.name for entry in device.log.entries] == ["synchronize", "library_work"]
