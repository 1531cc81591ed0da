"""Managed memory: advice by range, prefetches in stream order, attachment."""

from __future__ import annotations

import pytest
from cuda.bindings.runtime import cudaMemoryAdvise, cudaMemRangeAttribute

from cudalab.sim.device import CudaError

SIZE = 1 << 20
DEVICE, HOST = (1, 0), (2, 0)
READ_MOSTLY = int(cudaMemRangeAttribute.cudaMemRangeAttributeReadMostly)
PREFERRED = int(cudaMemRangeAttribute.cudaMemRangeAttributePreferredLocation)
ACCESSED_BY = int(cudaMemRangeAttribute.cudaMemRangeAttributeAccessedBy)
LAST = int(cudaMemRangeAttribute.cudaMemRangeAttributeLastPrefetchLocation)


def advice(name):
    return int(getattr(cudaMemoryAdvise, f"cudaMemAdvise{name}"))


def test_advice_is_kept_for_each_page(device):
    pointer = device.malloc_managed(SIZE)
    device.advise(pointer + 4096, 4096, advice("SetPreferredLocation"), *HOST)
    assert device.range_attribute(PREFERRED, pointer + 4096, 4096) == [-1]
    assert device.range_attribute(PREFERRED, pointer, 8192) == [-2]
    assert device.range_attribute(PREFERRED, pointer, 4096) == [-2]
    device.advise(pointer, SIZE, advice("SetReadMostly"), *DEVICE)
    assert device.range_attribute(READ_MOSTLY, pointer, SIZE) == [1]
    device.advise(pointer + SIZE - 1, 1, advice("UnsetReadMostly"), *DEVICE)
    assert device.range_attribute(READ_MOSTLY, pointer, SIZE) == [0]
    for place in (DEVICE, HOST):
        device.advise(pointer, SIZE, advice("SetAccessedBy"), *place)
    assert device.range_attribute(ACCESSED_BY, pointer, SIZE, 4) == [0, -1, -2, -2]
    assert device.range_attribute(ACCESSED_BY, pointer, SIZE, 1) == [0]


def test_new_memory_at_an_old_address_has_no_advice(device):
    pointer = device.malloc_managed(SIZE)
    device.advise(pointer, SIZE, advice("SetReadMostly"), *DEVICE)
    device.free(pointer)
    device.memory.allocate(SIZE, "managed", "cudaMallocManaged", at=pointer)
    assert device.range_attribute(READ_MOSTLY, pointer, SIZE) == [0]


def test_a_prefetch_takes_the_bus_once_and_its_turn(device):
    pointer, stream = device.malloc_managed(64 * SIZE), device.stream_create(1)

    def duration():
        start, end = device.event_create(), device.event_create()
        device.event_record(start, stream)
        device.prefetch(pointer, 64 * SIZE, *DEVICE, 0, stream)
        device.event_record(end, stream)
        assert not device.event_query(end)
        device.stream_synchronize(stream)
        return device.event_elapsed(start, end)

    assert 1.0 < duration() < 1.5  # 64 MB at 55 GB/s
    assert duration() < 0.02  # it is there
    assert device.range_attribute(LAST, pointer, 64 * SIZE) == [0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda d, p: d.prefetch(p, SIZE, 1, 7), "one device"),
        (lambda d, p: d.prefetch(p, SIZE, 0, 0), "no such place"),
        (lambda d, p: d.prefetch(p, SIZE, *DEVICE, 5), "flags must be 0"),
        (lambda d, p: d.prefetch(p, SIZE + 1, *DEVICE), "not all in"),
        (lambda d, p: d.prefetch(d.malloc(64), 64, *DEVICE), "no managed memory"),
        (lambda d, p: d.advise(p, SIZE, 99, *DEVICE), "no cudaMemoryAdvise"),
        (lambda d, p: d.range_attribute(77, p, SIZE), "no attribute"),
        (lambda d, p: d.attach(d.stream_create(), p, 4096, 1), "whole allocations"),
        (lambda d, p: d.attach(0, p, 0, 4), "null stream"),
        (lambda d, p: d.attach(0, p, 0, 3), "flags must be"),
    ],
)
def test_errors_say_what_is_wrong(device, call, text):
    with pytest.raises(CudaError, match=text):
        call(device, device.malloc_managed(SIZE))
