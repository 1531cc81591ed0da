"""A machine with two devices: one clock, engines of their own, order, hazards and access across them."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim import cudart
from cudalab.sim import cupy as cp
from cudalab.sim import device as package
from cudalab.sim.device import CudaError, Device

MB = 1 << 20
ADD_ONE = 'extern "C" __global__ void add_one(const int* from, int* to) { to[threadIdx.x] = from[threadIdx.x] + 1; }'


@pytest.fixture
def machine():
    before = package.set_current_device(Device("h200-x2"))
    yield package.current_device()
    package.set_current_device(before)


def memory_on(machine: Device, number: int, size: int = MB) -> int:
    machine.set_device(number)
    return machine.malloc(size)


def stream_on(machine: Device, number: int) -> int:
    machine.set_device(number)
    return machine.stream_create(1)


def spans(machine: Device, kind: str) -> list[tuple[int, int]]:
    """Start and end of the operations of a kind, as a recording has them."""
    return [(start, end) for _, of, _, start, end in machine.log.spans if of == kind]


def test_work_of_two_devices_runs_at_the_same_time():
    machine = Device("h200-x2", record=True)
    pointers = [memory_on(machine, number, 64 * MB) for number in (0, 1)]
    for number in (0, 1):
        machine.set_device(number)
        machine.memset(pointers[number], 0, 64 * MB)
    for number in (0, 1):
        machine.set_device(number)
        machine.synchronize()
    (_, first_end), (second_start, _) = spans(machine, "memset")
    assert second_start < first_end


def test_waiting_for_one_device_does_not_wait_for_the_other(machine):
    machine.set_device(0)
    machine.initialize(0)
    machine.memset(memory_on(machine, 1, 256 * MB), 0, 256 * MB)
    machine.set_device(0)
    machine.synchronize()
    assert machine.stream_query(0)
    machine.set_device(1)
    assert not machine.stream_query(0)
    machine.synchronize()
    assert machine.idle


def test_a_stream_waits_for_an_event_of_the_other_device(machine):
    there, other = memory_on(machine, 1, 64 * MB), stream_on(machine, 1)
    event = machine.event_create(2)
    machine.memset(there, 1, 64 * MB, other, True)
    machine.event_record(event, other)
    here = stream_on(machine, 0)
    machine.stream_wait_event(here, event)
    machine.stream_synchronize(here)
    assert machine.event_query(event)
    assert bytes(machine.view(there, 8)) == b"\1" * 8


def test_the_current_device_belongs_to_the_host_thread(machine):
    machine.set_device(1)
    found = []
    thread = threading.Thread(target=lambda: found.append(cudart.cudaGetDevice()[1]))
    thread.start()
    thread.join()
    assert (found, cudart.cudaGetDevice()[1]) == ([0], 1)


@pytest.mark.parametrize(("access", "least", "most"), [(False, 36, 42), (True, 370, 410)])
def test_peer_copies_take_the_time_of_their_way(access, least, most):
    """GB/s of a large copy: over the link, or staged through the host."""
    machine, size = Device("h200-x2", record=True), 256 * MB
    here, there = memory_on(machine, 0, size), memory_on(machine, 1, size)
    machine.set_device(0)
    if access:
        machine.enable_peer_access(1)
    machine.memcpy_peer(there, 1, here, 0, size)
    machine.synchronize()
    ((start, end),) = spans(machine, "copy")
    assert least < size / (end - start) < most


@pytest.mark.parametrize(("size", "measured"), [(4 << 10, 17.8), (64 << 10, 26.9), (MB, 58.5)])
def test_a_small_copy_that_is_staged_takes_what_it_takes_on_two_h200(size, measured):
    """Between events, which add 1.3 us."""
    machine = Device("h200-x2", record=True)
    here, there = memory_on(machine, 0), memory_on(machine, 1)
    machine.set_device(0)
    machine.memcpy_peer(there, 1, here, 0, size)
    machine.synchronize()
    ((start, end),) = spans(machine, "copy")
    assert (end - start) / 1000 + 1.3 == pytest.approx(measured, rel=0.11)


def launch(source: int, destination: int) -> None:
    cp.RawKernel(ADD_ONE, "add_one")((1,), (32,), (np.uint64(source), np.uint64(destination)))


def test_a_kernel_reaches_a_peer_once_access_is_enabled(machine):
    here, there = memory_on(machine, 0), memory_on(machine, 1)
    machine.memset(there, 0, MB)
    machine.synchronize()
    machine.set_device(0)
    machine.enable_peer_access(1)
    launch(there, here)
    machine.synchronize()
    assert np.frombuffer(machine.view(here, 128), np.int32).tolist() == [1] * 32


def test_a_kernel_without_access_fails_with_what_to_do(machine):
    here, there = memory_on(machine, 0), memory_on(machine, 1)
    machine.set_device(0)
    launch(there, here)
    with pytest.raises(CudaError) as caught:
        machine.synchronize()
    assert caught.value.code == cudaError_t.cudaErrorIllegalAddress
    assert "memory of device 1" in caught.value.note
    assert "cudaDeviceEnablePeerAccess(1, 0)" in caught.value.note
    machine.set_device(1)
    with pytest.raises(CudaError):
        machine.malloc(64)


def test_a_launch_into_a_stream_of_the_other_device_is_refused(machine):
    other = stream_on(machine, 1)
    machine.set_device(0)
    kernel = cp.RawKernel(ADD_ONE, "add_one").kernel
    with pytest.raises(CudaError, match="make the stream's device current"):
        machine.launch(kernel.ptr, (1, 1, 1), (32, 1, 1), bytes(16), 0, other)


def unordered(machine: Device, *, wait: bool) -> int:
    """A memset there, and a copy of that memory here: how many hazards."""
    here, there, other = memory_on(machine, 0), memory_on(machine, 1), stream_on(machine, 1)
    event = machine.event_create(2)
    machine.memset(there, 1, MB, other, True)
    machine.event_record(event, other)
    own = stream_on(machine, 0)
    if wait:
        machine.stream_wait_event(own, event)
    machine.memcpy_peer(here, 0, there, 1, MB, own, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.synchronize()
        machine.set_device(1)
        machine.synchronize()
    return len(machine.hazards)


def test_a_missing_wait_across_devices_is_a_hazard(machine):
    assert unordered(machine, wait=False) == 1


def test_a_wait_across_devices_is_an_order(machine):
    assert unordered(machine, wait=True) == 0


def test_waiting_for_one_device_orders_nothing_of_the_other(machine):
    """The host waits for device 0 and then overwrites page-locked memory that a copy of device 1 reads."""
    there, other = memory_on(machine, 1, 64 * MB), stream_on(machine, 1)
    pinned = machine.malloc_host(64 * MB)
    machine.memcpy(there, pinned, 64 * MB, 4, other, True)
    own = stream_on(machine, 0)
    machine.memset(pinned, 1, 64 * MB, own, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.synchronize()
        machine.set_device(1)
        machine.synchronize()
    assert len(machine.hazards) == 1


def test_a_reset_of_one_device_leaves_the_other(machine):
    here, there = memory_on(machine, 0), memory_on(machine, 1)
    machine.reset()
    assert machine.memory.find(there) is None
    assert machine.memory.find(here) is not None
    assert [context.active for context in machine.contexts.all] == [True, False]


def test_arrays_of_cupy_know_their_device(machine):
    x = cp.arange(4)
    with cp.cuda.Device(1):
        y = cp.asarray(x)
        stream = cp.cuda.Stream()
    assert (x.device.id, y.device.id, stream.device_id) == (0, 1, 1)
    assert y.get().tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="does not match with the current device"), stream:
        pass
