"""Managed memory: prefetching, advice, attributes of ranges, attachment to streams."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import cudaMemLocation, cudaMemoryAdvise, cudaMemRangeAttribute

from cudalab.sim.binding import (
    enumerator,
    range_attribute,
    range_attributes,
    size_t,
    stream_handle,
    struct,
    unsigned,
    void_pointer,
)
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import current_device


@api(1)
def cudaMallocManaged(size: Any, flags: Any) -> int:
    return current_device().malloc_managed(size_t(size), unsigned(flags))


@api()
def cudaMemPrefetchAsync(devPtr: Any, count: Any, location: cudaMemLocation, flags: Any, stream: Any) -> None:
    place = struct(location, "location", cudaMemLocation)
    current_device().prefetch(
        void_pointer(devPtr), size_t(count), int(place.type), int(place.id), unsigned(flags), stream_handle(stream)
    )


@api()
def cudaMemAdvise(devPtr: Any, count: Any, advice: cudaMemoryAdvise, location: cudaMemLocation) -> None:
    place = struct(location, "location", cudaMemLocation)
    current_device().advise(
        void_pointer(devPtr), size_t(count), enumerator(advice, "advice"), int(place.type), int(place.id)
    )


@api(1)
def cudaMemRangeGetAttribute(dataSize: Any, attribute: cudaMemRangeAttribute, devPtr: Any, count: Any) -> Any:
    number = enumerator(attribute, "attribute")
    return range_attribute(number, void_pointer(devPtr), size_t(count), size_t(dataSize))


@api(1)
def cudaMemRangeGetAttributes(
    dataSizes: tuple[int] | list[int],
    attributes: tuple[cudaMemRangeAttribute] | list[cudaMemRangeAttribute] | None,
    numAttributes: Any,
    devPtr: Any,
    count: Any,
) -> list[Any]:
    return range_attributes(dataSizes, attributes, numAttributes, void_pointer(devPtr), size_t(count))


@api()
def cudaStreamAttachMemAsync(stream: Any, devPtr: Any, length: Any, flags: Any) -> None:
    current_device().attach(stream_handle(stream), void_pointer(devPtr), size_t(length), unsigned(flags))
