"""Allocation calls: results and errors as measured on an H200."""

from __future__ import annotations

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalab.sim.device import CudaError, Device
from tests.sim.device.conftest import Bench
from tests.sim.low_memory import low_memory

INVALID = cudaError_t.cudaErrorInvalidValue


def code_of(call, *arguments):
    with pytest.raises(CudaError) as caught:
        call(*arguments)
    return caught.value.code


def test_zero_bytes_give_a_null_pointer(device):
    assert device.malloc(0) == device.malloc_host(0) == device.malloc_managed(0) == device.malloc_async(0) == 0
    device.free(0)
    device.free_host(0)


def test_device_memory_is_aligned_and_apart(device):
    pointers = [device.malloc(size) for size in (1, 100, 257, 4096)]
    assert all(pointer % 256 == 0 for pointer in pointers)
    assert len(set(pointers)) == 4


def test_a_terabyte_is_too_much_and_the_note_says_why(device):
    with pytest.raises(CudaError, match="in use") as caught:
        device.malloc(1 << 40)
    assert caught.value.code == cudaError_t.cudaErrorMemoryAllocation
    assert device.get_last_error() == cudaError_t.cudaErrorMemoryAllocation


def test_more_than_the_host_has_fails_with_its_reason(device):
    with pytest.raises(CudaError, match="host's RAM"):
        device.malloc(device.memory.capacity + 1)


@pytest.mark.parametrize("shift", [8, 1, -256])
def test_only_the_start_of_an_allocation_can_be_freed(device, shift):
    pointer = device.malloc(1024)
    assert code_of(device.free, pointer + shift) == INVALID


def test_double_free(device):
    pointer = device.malloc(64)
    device.free(pointer)
    with pytest.raises(CudaError, match="already freed by cudaFree"):
        device.free(pointer)


def test_each_family_frees_its_own(device):
    pinned, plain = device.malloc_host(64), device.malloc(64)
    assert code_of(device.free, pinned) == INVALID
    assert code_of(device.free_host, plain) == INVALID
    device.free_host(pinned)
    device.free(plain)
    assert code_of(device.free_host, pinned) == INVALID


def test_host_pointers_cannot_be_freed(device):
    array = np.zeros(16)
    assert code_of(device.free, array.ctypes.data) == INVALID
    assert code_of(device.free_host, array.ctypes.data) == INVALID


def test_host_memory_with_addresses_of_shared_memory_is_not_registered(device):
    with low_memory() as address, pytest.raises(CudaError, match="where shared memory has its addresses") as caught:
        device.host_register(address, 4096)
    assert caught.value.code == cudaError_t.cudaErrorNotSupported


@pytest.mark.parametrize(("width", "pitch"), [(1, 512), (100, 512), (500, 512), (512, 512), (513, 1024), (4000, 4096)])
def test_pitch(device, width, pitch):
    pointer, found = device.malloc_pitch(width, 3)
    assert found == pitch
    assert pointer % 512 == 0
    device.view(pointer, pitch * 3)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_pitched_memory_of_no_bytes(device, shape):
    assert device.malloc_pitch(*shape) == (0, 0)


def test_3d_memory(device):
    pointer, pitch = device.malloc_3d(100, 4, 3)
    assert pitch == 512
    device.view(pointer, 512 * 4 * 3)


def test_flags_of_page_locked_memory(device):
    assert device.host_get_flags(device.malloc_host(64)) == 3  # portable and mapped, as an H200 says
    assert device.host_get_flags(device.malloc_host(64, 7)) == 7
    assert code_of(device.malloc_host, 64, 99) == INVALID
    assert code_of(device.malloc_managed, 64, 9) == INVALID


def test_registering_host_memory(device):
    array = np.zeros(4096, np.uint8)
    address = array.ctypes.data
    assert code_of(device.host_get_device_pointer, address) == INVALID
    device.host_register(address, 4096)
    assert device.host_get_device_pointer(address + 8) == address + 8
    assert device.host_get_flags(address) == 2
    assert device.pointer_attributes(address).type == 1
    assert code_of(device.host_register, address, 4096) == cudaError_t.cudaErrorHostMemoryAlreadyRegistered
    device.host_unregister(address)
    assert code_of(device.host_unregister, address) == cudaError_t.cudaErrorHostMemoryNotRegistered
    assert device.pointer_attributes(address).type == 0


@pytest.mark.parametrize(("pointer", "size", "flags"), [(0, 10, 0), (0x1000, 0, 0), (0x1000, 10, 64), (0x1000, 10, 0)])
def test_what_cannot_be_registered(device, pointer, size, flags):
    assert code_of(device.host_register, pointer, size, flags) == INVALID


def test_device_pointer_of_page_locked_memory_is_the_address(device):
    pinned = device.malloc_host(64)
    assert device.host_get_device_pointer(pinned) == pinned
    assert code_of(device.host_get_device_pointer, pinned, 1) == INVALID
    assert code_of(device.host_get_device_pointer, device.malloc(8)) == INVALID


def test_pointer_attributes(device):
    plain, pinned, managed = device.malloc(100), device.malloc_host(100), device.malloc_managed(100)
    attributes = device.pointer_attributes
    assert (attributes(plain + 8).type, attributes(plain + 8).device_pointer) == (2, plain + 8)
    assert (attributes(pinned).type, attributes(pinned).host_pointer) == (1, pinned)
    assert (attributes(managed).type, attributes(managed).host_pointer) == (3, managed)
    for address in (0, 0x1234, plain + 100):
        assert (attributes(address).type, attributes(address).device, attributes(address).host_pointer) == (
            0,
            -2,
            address,
        )


def test_memory_info_follows_allocations(device):
    free, total = device.memory_info()
    pointer = device.malloc(1 << 20)
    assert device.memory_info() == (free - (1 << 20), total)
    device.free(pointer)
    assert device.memory_info() == (free, total)
    assert total == device.properties["totalGlobalMem"]


def test_stream_ordered_memory_lives_until_the_work_before_has_ended(bench):
    device = bench.device
    stream = device.stream_create(1)
    pointer = device.malloc_async(1 << 20, stream)
    device.memset(pointer, 1, 1 << 20, stream)
    device.free_async(pointer, stream)
    assert device.memory.find(pointer) is not None
    with pytest.raises(CudaError, match="once"):
        device.free_async(pointer, stream)
    device.stream_synchronize(stream)
    assert device.memory.find(pointer) is None
    assert code_of(device.free, pointer) == INVALID


def test_free_and_free_async_take_each_others_memory(device):
    device.free(device.malloc_async(64))
    device.free_async(device.malloc(64))


def test_free_waits_for_the_whole_device(device):
    stream = device.stream_create(1)
    other, pointer = device.malloc(1 << 20), device.malloc(64)
    device.memset(pointer, 1, 64, stream)
    device.free(other)
    assert device.stream_query(stream)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["device", "pinned", "managed"]), st.integers(1, 5000)), max_size=12))
def test_everything_can_be_freed_once_and_only_once(requests):
    device = Bench().device
    make = {"device": device.malloc, "pinned": device.malloc_host, "managed": device.malloc_managed}
    free = {"device": device.free, "pinned": device.free_host, "managed": device.free}
    made = [(kind, make[kind](size)) for kind, size in requests]
    for kind, pointer in made:
        free[kind](pointer)
    assert device.memory.in_use == 0
    for kind, pointer in made:
        assert code_of(free[kind], pointer) == INVALID


def test_the_laptop_has_little_memory():
    device = Device("laptop")
    assert code_of(device.malloc, 5 << 30) == cudaError_t.cudaErrorMemoryAllocation
