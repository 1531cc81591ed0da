"""Streams that wait for a value in memory, and that write one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalab.sim.device import CudaError
from cudalab.sim.device.calls.stream_values import AND, EQ, GEQ, NOR, fulfilled

WORD = st.integers(0, 2**32 - 1)


@given(WORD, WORD)
def test_conditions_are_those_of_the_driver(found, wanted):
    assert fulfilled(found, wanted, GEQ, 32) == (int(np.array(found - wanted).astype(np.int32)) >= 0)
    assert fulfilled(found, wanted, EQ, 32) == (found == wanted)
    assert fulfilled(found, wanted, AND, 32) == (found & wanted != 0)
    assert fulfilled(found, wanted, NOR, 32) == (~(found | wanted) & 0xFFFFFFFF != 0)


def test_a_stream_waits_for_another_ones_value(bench):
    device = bench.device
    flag, memory = bench.upload(np.zeros(1, np.uint32)), bench.upload(np.zeros(4, np.uint8))
    device.synchronize()
    waiter, writer = device.stream_create(1), device.stream_create(1)
    device.stream_wait_value(waiter, flag, 2, 4)
    device.memset(memory, 5, 4, waiter, True)
    device.stream_write_value(writer, flag, 1, 4)
    device.stream_synchronize(writer)
    assert not device.stream_query(waiter)
    device.stream_write_value(writer, flag, 2, 4)
    device.stream_synchronize(waiter)
    np.testing.assert_array_equal(bench.download(memory, 4), [5, 5, 5, 5])


def test_a_value_that_passes_by_before_the_stream_arrives_is_not_seen(bench):
    device = bench.device
    flag = bench.upload(np.zeros(1, np.uint32))
    device.synchronize()
    stream = device.stream_create(1)
    for value in (3, 4):
        device.stream_write_value(stream, flag, value, 4)
    device.stream_wait_value(stream, flag, 3, 4, EQ)
    with pytest.raises(CudaError, match=f"wait until the value at {flag:#x} equals 3"):
        device.stream_synchronize(stream)


def test_the_host_lets_a_stream_go_on_by_page_locked_memory(bench):
    device = bench.device
    pointer, view = bench.pinned(2, np.uint64)
    stream = device.stream_create(1)
    device.stream_wait_value(stream, pointer + 8, 1 << 40, 8)
    assert not device.stream_query(stream)
    view[1] = 1 << 40
    device.stream_synchronize(stream)
    assert device.stream_query(stream)


def test_a_wait_that_nobody_ends_is_explained_and_the_device_lives_on(bench):
    device = bench.device
    flag = bench.upload(np.zeros(1, np.uint32))
    stream = device.stream_create(1)
    device.stream_wait_value(stream, flag, 1, 4)
    with pytest.raises(CudaError, match="never ended"):
        device.stream_synchronize(stream)
    device.stream_write_value(device.stream_create(1), flag, 1, 4)
    device.stream_synchronize(stream)


@pytest.mark.parametrize(("address", "flags"), [(0, 0), (2, 0), (None, 0x100)])
def test_wrong_calls_are_refused(device, address, flags):
    memory = device.malloc(16)
    with pytest.raises(CudaError):
        device.stream_wait_value(0, memory if address is None else address and memory + address, 0, 4, flags)
