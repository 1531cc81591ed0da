"""Memory pools: what is used and reserved, whose memory is lent again, and errors with their notes."""

from __future__ import annotations

import numpy as np
import pytest
from cuda.bindings.runtime import cudaMemPoolAttr
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalab.sim.device import CudaError, Log
from cudalab.sim.device.calls.pool_bookkeeping import PAGE
from cudalab.sim.device.replay import replay
from tests.sim.device.conftest import Bench

MB = 1 << 20
THRESHOLD = int(cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold)
FOLLOW = int(cudaMemPoolAttr.cudaMemPoolReuseFollowEventDependencies)
AMOUNTS = [
    int(getattr(cudaMemPoolAttr, f"cudaMemPoolAttr{name}Mem{when}"))
    for name in ("Used", "Reserved")
    for when in ("Current", "High")
]


def make(device, threshold=0):
    pool = device.pool_create(1, 1, 0)
    device.pool_set_attribute(pool, THRESHOLD, threshold)
    return pool


def amounts(device, pool):
    return [device.pool_get_attribute(pool, attribute) for attribute in AMOUNTS]


def busy(device, stream):
    """Keeps a stream busy for some milliseconds: a copy of 100 MB within page-locked and device memory."""
    host, memory = device.malloc_host(8 * MB), device.malloc(8 * MB)
    for _ in range(20):
        device.memcpy(memory, host, 8 * MB, 1, stream, True)


def test_pages_are_reserved_and_given_back_at_a_synchronisation(device):
    pool = make(device)
    one, two = (device.malloc_from_pool(size, pool) for size in (20 * MB, 20 * MB))
    assert amounts(device, pool) == [40 * MB, 40 * MB, 2 * PAGE, 2 * PAGE]
    device.free_async(one)
    assert amounts(device, pool)[0] == 20 * MB
    device.synchronize()
    assert amounts(device, pool) == [20 * MB, 40 * MB, 2 * PAGE, 2 * PAGE]  # the second lies on both pages
    device.free_async(two)
    device.synchronize()
    assert amounts(device, pool) == [0, 40 * MB, 0, 2 * PAGE]


def test_the_threshold_keeps_pages_and_trimming_does_not_ask_it(device):
    pool = make(device, threshold=2 * PAGE)
    device.free_async(device.malloc_from_pool(100 * MB, pool))
    device.synchronize()
    assert amounts(device, pool)[2] == 2 * PAGE
    device.pool_trim(pool, PAGE + 1)
    assert amounts(device, pool)[2] == 2 * PAGE
    device.pool_trim(pool, 0)
    assert amounts(device, pool)[2] == 0


def test_memory_comes_back_with_the_same_address_only_where_it_is_in_order(device):
    pool, one, two = make(device, 1 << 40), device.stream_create(1), device.stream_create(1)
    first = device.malloc_from_pool(MB, pool, one)
    busy(device, one)
    device.free_async(first, one)
    assert device.malloc_from_pool(MB, pool, two) != first  # nothing orders it behind the free
    event = device.event_create(2)
    device.event_record(event, one)
    device.stream_wait_event(two, event)
    assert device.malloc_from_pool(MB, pool, two) == first


def test_the_switch_for_events_is_obeyed(device):
    pool, one, two = make(device, 1 << 40), device.stream_create(1), device.stream_create(1)
    device.pool_set_attribute(pool, FOLLOW, 0)
    first = device.malloc_from_pool(MB, pool, one)
    busy(device, one)
    device.free_async(first, one)
    event = device.event_create(2)
    device.event_record(event, one)
    device.stream_wait_event(two, event)
    assert device.malloc_from_pool(MB, pool, two) != first


def test_the_legacy_default_stream_orders_too(device):
    pool, one, two = make(device, 1 << 40), device.stream_create(0), device.stream_create(0)
    first = device.malloc_from_pool(MB, pool, one)
    busy(device, one)
    device.free_async(first, one)
    device.event_record(device.event_create(2), 0)
    assert device.malloc_from_pool(MB, pool, two) == first


def test_memory_that_is_lent_again_belongs_to_its_new_owner(bench):
    device = bench.device
    stream = device.stream_create(1)
    first = device.malloc_async(4096, stream)
    busy(device, stream)
    device.free_async(first, stream)
    second = device.malloc_async(4096, stream)
    assert second == first
    device.memset(second, 7, 4096, stream, True)
    device.stream_synchronize(stream)
    np.testing.assert_array_equal(bench.download(second, 4096), np.full(4096, 7, np.uint8))
    device.free_async(second, stream)
    device.synchronize()
    with pytest.raises(CudaError, match="was freed"):
        device.memset(second, 7, 4096)


def test_memory_freed_by_cuda_free_stays_until_the_work_of_now_has_ended(bench):
    device = bench.device
    stream, memory = device.stream_create(1), device.malloc_async(8 * MB)
    host = device.malloc_host(8 * MB)
    device.memcpy(memory, host, 8 * MB, 1, stream, True)
    device.free(memory)
    assert not device.stream_query(stream)
    device.synchronize()
    with pytest.raises(CudaError):
        device.memset(memory, 1, 4)


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (lambda d: d.pool_create(0, 1, 0), "cudaErrorInvalidValue", "cudaMemAllocationTypePinned"),
        (lambda d: d.pool_create(1, 1, 3), "cudaErrorInvalidValue", "location a device"),
        (lambda d: d.pool_destroy(d.default_pool()), "cudaErrorInvalidValue", "default pool"),
        (lambda d: d.malloc_from_pool(64, 5), "cudaErrorInvalidValue", "0x5 is no memory pool"),
        (lambda d: d.malloc_async(1 << 50), "cudaErrorMemoryAllocation", "bytes"),
        (lambda d: d.pool_set_attribute(d.default_pool(), AMOUNTS[1], 7), "cudaErrorInvalidValue", "only be set to 0"),
        (lambda d: d.free_async(d.malloc_managed(64)), "cudaErrorNotSupported", "managed"),
        (
            lambda d: d.malloc_from_pool(PAGE + 1, d.pool_create(1, 1, 0, 0, PAGE)),
            "cudaErrorMemoryAllocation",
            "largest",
        ),
    ],
)
def test_errors_say_what_is_wrong(device, call, code, text):
    with pytest.raises(CudaError, match=text) as caught:
        call(device)
    assert caught.value.code.name == code


STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3 * PAGE), st.booleans()), max_size=25)


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_books_balance_and_lent_memory_never_overlaps(steps):
    device = Bench(hazards=False).device
    pool, streams, live = make(device, 1 << 40), [device.stream_create(1) for _ in range(3)], {}
    for where, size, free in steps:
        if free and live:
            pointer = sorted(live)[size % len(live)]
            device.free_async(pointer, streams[where])
            del live[pointer]
        else:
            live[device.malloc_from_pool(size, pool, streams[where])] = size
        spans = sorted((start, start + length) for start, length in live.items())
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
        used, _, reserved, high = amounts(device, pool)
        assert used == sum(live.values()) <= reserved <= high
    for pointer in live:
        device.free_async(pointer)
    device.synchronize()
    device.pool_trim(pool, 0)
    assert [amounts(device, pool)[i] for i in (0, 2)] == [0, 0]
    assert device.memory.in_use == 0


def test_a_replay_lends_the_same_memory_again():
    bench = Bench(record=True)
    device = bench.device
    stream = device.stream_create(1)
    for value in (3, 4):
        memory = device.malloc_async(256, stream)
        device.memset(memory, value, 256, stream, True)
        device.free_async(memory, stream)
    last = device.malloc_async(256, stream)
    device.memset(last, 5, 256, stream, True)
    device.stream_synchronize(stream)
    bench.download(last, 256)
    twin = replay(Log.from_bytes(device.log.to_bytes()))
    assert twin.log.spans == device.log.spans
    assert [data for blocks in twin.log.delivered.values() for _, data in blocks] == [bytes([5]) * 256]
