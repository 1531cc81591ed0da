"""Copies and memsets: whole arrays against NumPy, errors as measured on an H200."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalab.sim.device import CudaError
from tests.sim.device.conftest import Bench

INVALID = cudaError_t.cudaErrorInvalidValue
H2H, H2D, D2H, D2D, DEFAULT = range(5)


def code_of(call, *arguments):
    with pytest.raises(CudaError) as caught:
        call(*arguments)
    return caught.value.code


@pytest.mark.parametrize("size", [1, 3, 4096, 65536, 65537, 1 << 20])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_round_trip(bench, size, pinned, asynchronous):
    device = bench.device
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    pointer = device.malloc(size)
    if pinned:
        source, view = bench.pinned(size, np.uint8)
        target, result = bench.pinned(size, np.uint8)
        view[:] = data
    else:
        result = np.zeros(size, np.uint8)
        source, target = data.ctypes.data, result.ctypes.data
    device.memcpy(pointer, source, size, H2D, 0, asynchronous)
    device.memcpy(target, pointer, size, D2H, 0, asynchronous)
    device.synchronize()
    assert np.array_equal(result, data)


# destination, source -> the kinds that an H200 accepts
ACCEPTED = {
    ("pageable", "pageable"): {H2H, DEFAULT},
    ("device", "pageable"): {H2H, H2D, DEFAULT},
    ("pageable", "device"): {H2H, D2H, DEFAULT},
    ("device", "device"): {H2H, H2D, D2H, D2D, DEFAULT},
    ("device", "pinned"): {H2H, H2D, D2H, D2D, DEFAULT},
    ("pinned", "device"): {H2H, H2D, D2H, D2D, DEFAULT},
    ("managed", "pageable"): {H2H, H2D, DEFAULT},
}


@pytest.mark.parametrize("pair", ACCEPTED, ids="-".join)
@pytest.mark.parametrize("kind", range(5))
def test_which_kind_fits_which_memory(bench, pair, kind):
    device = bench.device
    keep, addresses = [], []
    for place in pair:
        if place == "pageable":
            keep.append(np.zeros(16, np.uint8))
            addresses.append(keep[-1].ctypes.data)
        else:
            make = {"device": device.malloc, "pinned": device.malloc_host, "managed": device.malloc_managed}
            addresses.append(make[place](16))
    if kind in ACCEPTED[pair]:
        device.memcpy(*addresses, 16, kind)
    else:
        assert code_of(device.memcpy, *addresses, 16, kind) == INVALID


def test_a_kind_that_is_none(bench):
    pointer = bench.device.malloc(16)
    assert code_of(bench.device.memcpy, pointer, pointer, 16, 99) == cudaError_t.cudaErrorInvalidMemcpyDirection


def test_no_bytes_are_always_fine(device):
    device.memcpy(0, 0, 0, H2D)
    device.memset(0, 0, 0)
    device.memcpy_2d(0, 16, 0, 16, 16, 0)


def test_copies_stay_inside_their_allocation(bench):
    pointer = bench.device.malloc(1000)
    array = np.zeros(2000, np.uint8)
    with pytest.raises(CudaError, match="1 byte past the end of the 1000-byte device allocation"):
        bench.device.memcpy(pointer, array.ctypes.data, 1001, H2D)
    assert code_of(bench.device.memset, pointer, 0, 1001) == INVALID
    assert code_of(bench.device.memcpy, array.ctypes.data, pointer + 999, 2, D2H) == INVALID


@pytest.mark.parametrize("address", [0, 0x1234])
def test_addresses_that_are_none(bench, address):
    pointer = bench.device.malloc(64)
    for arguments in ((address, pointer, 16, DEFAULT), (pointer, address, 16, DEFAULT)):
        assert code_of(bench.device.memcpy, *arguments) == INVALID
    assert code_of(bench.device.memset, address, 0, 16) == INVALID


def test_freed_memory_cannot_be_copied(bench):
    pointer = bench.device.malloc(64)
    bench.device.free(pointer)
    array = np.zeros(64, np.uint8)
    with pytest.raises(CudaError, match="freed"):
        bench.device.memcpy(array.ctypes.data, pointer, 64, D2H)


def test_overlapping_copy_takes_its_source_first(bench):
    data = np.arange(64, dtype=np.uint8)
    pointer = bench.upload(data)
    bench.device.memcpy(pointer + 8, pointer, 56, D2D)
    assert np.array_equal(bench.download(pointer, 64), np.concatenate([data[:8], data[:56]]))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_2d_copies(data):
    bench = Bench()
    device = bench.device
    height, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 40))
    left, right = width + data.draw(st.integers(0, 9)), width + data.draw(st.integers(0, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    source = rng.integers(0, 256, (height, left), np.uint8)
    before = rng.integers(0, 256, (height, right), np.uint8)
    pointer = bench.upload(before)
    device.memcpy_2d(pointer, right, source.ctypes.data, left, width, height, H2D)
    expected = before.copy()
    expected[:, :width] = source[:, :width]
    assert np.array_equal(bench.download(pointer, before.size).reshape(before.shape), expected)
    back = before.copy()
    device.memcpy_2d(back.ctypes.data, right, pointer, right, width, height, D2H)
    assert np.array_equal(back, expected)


def test_2d_host_rows_keep_what_lies_between_them(bench):
    host = np.full((4, 10), 9, np.uint8)
    pointer = bench.upload(np.arange(16, dtype=np.uint8))
    bench.device.memcpy_2d(host.ctypes.data, 10, pointer, 4, 4, 4, D2H)
    expected = np.full((4, 10), 9, np.uint8)
    expected[:, :4] = np.arange(16).reshape(4, 4)
    assert np.array_equal(host, expected)


def test_a_pitch_below_the_width(bench):
    pointer = bench.device.malloc(64)
    array = np.zeros(64, np.uint8)
    code = code_of(bench.device.memcpy_2d, pointer, 8, array.ctypes.data, 16, 16, 2, H2D)
    assert code == cudaError_t.cudaErrorInvalidPitchValue
    assert code_of(bench.device.memset_3d, pointer, 8, 0, 0, (16, 2, 1)) == INVALID


def test_3d_copy_of_a_sub_volume(bench):
    volume = np.random.default_rng(0).integers(0, 256, (5, 6, 32), np.uint8)
    pointer, pitch = bench.device.malloc_3d(32, 6, 5)
    bench.device.memcpy_3d((pointer, pitch, pitch * 6), (volume.ctypes.data, 32, 32 * 6), (32, 6, 5))
    part = np.zeros((2, 3, 8), np.uint8)
    first = pointer + 1 * pitch * 6 + 2 * pitch + 4
    bench.device.memcpy_3d((part.ctypes.data, 8, 24), (first, pitch, pitch * 6), (8, 3, 2))
    assert np.array_equal(part, volume[1:3, 2:5, 4:12])


@pytest.mark.parametrize(("value", "byte"), [(0, 0), (7, 7), (300, 44), (-1, 255)])
def test_memset_takes_the_lowest_byte(bench, value, byte):
    pointer = bench.upload(np.arange(32, dtype=np.uint8))
    bench.device.memset(pointer + 4, value, 20)
    expected = np.arange(32, dtype=np.uint8)
    expected[4:24] = byte
    assert np.array_equal(bench.download(pointer, 32), expected)


@pytest.mark.parametrize(("element", "dtype"), [(2, np.uint16), (4, np.uint32)])
def test_memset_of_wider_elements(bench, element, dtype):
    pointer = bench.upload(np.zeros(16, dtype))
    bench.device.memset(pointer + element, 0x1234_5678, 8, element=element)
    expected = np.zeros(16, dtype)
    expected[1:9] = 0x1234_5678 & (1 << 8 * element) - 1
    assert np.array_equal(bench.download(pointer, 16, dtype), expected)
    assert code_of(bench.device.memset, pointer + 1, 0, 4, 0, False, element) == INVALID


def test_memset_2d_leaves_the_padding(bench):
    pointer = bench.upload(np.zeros(64, np.uint8))
    bench.device.memset_3d(pointer, 16, 0, 5, (10, 4, 1))
    expected = np.zeros((4, 16), np.uint8)
    expected[:, :10] = 5
    assert np.array_equal(bench.download(pointer, 64).reshape(4, 16), expected)


def test_memset_of_host_memory(bench):
    array = np.zeros(8, np.uint8)
    assert code_of(bench.device.memset, array.ctypes.data, 1, 8) == INVALID
    pointer, view = bench.pinned(8, np.uint8)
    bench.device.memset(pointer, 3, 8)
    bench.device.synchronize()
    assert view.tolist() == [3] * 8


def test_registered_memory_is_page_locked(bench):
    array = np.arange(1 << 16, dtype=np.uint8)
    pointer = bench.device.malloc(array.nbytes)
    bench.device.host_register(array.ctypes.data, array.nbytes)
    bench.device.memcpy(pointer, array.ctypes.data, array.nbytes, H2D, 0, True)
    assert not bench.device.stream_query(0)
    bench.device.synchronize()
    assert np.array_equal(bench.download(pointer, array.size), array)


def test_a_read_only_destination_is_an_error_not_a_crash(bench):
    import mmap

    pointer = bench.upload(np.ones(16, np.uint8))
    locked = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    address = np.frombuffer(locked, np.uint8).ctypes.data
    assert code_of(bench.device.memcpy, address, pointer, 16, D2H) == INVALID
    assert ctypes.string_at(address, 16) == bytes(16)
    assert bench.download(pointer, 16).tolist() == [1] * 16
