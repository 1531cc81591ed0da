"""Attributes of streams, as structures of the bindings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings.runtime import (
    cudaAccessProperty,
    cudaClusterSchedulingPolicy,
    cudaLaunchMemSyncDomain,
    cudaStreamAttrID,
    cudaStreamAttrValue,
    cudaSynchronizationPolicy,
)

from cudalab.sim.binding import enumerator, stream_handle, struct
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import current_device
from cudalab.sim.device.calls.graphs.node_attributes import CARVEOUT, CLUSTER, COOPERATIVE, SCHEDULING, UPDATABLE
from cudalab.sim.device.calls.stream_attributes import DOMAIN, DOMAIN_MAP, POLICY, PRIORITY, WINDOW, Value

_PLAIN = {
    PRIORITY: "priority",
    COOPERATIVE: "cooperative",
    SCHEDULING: "clusterSchedulingPolicyPreference",
    CARVEOUT: "sharedMemCarveout",
}
"""Attributes of one number, by the name of the field."""
_WINDOW_FIELDS = ("base_ptr", "num_bytes", "hitRatio", "hitProp", "missProp")


def numbers_of(attribute: int, value: Any) -> Value:
    """The fields of one attribute in its structure, as plain numbers."""
    if attribute == WINDOW:
        window = value.accessPolicyWindow
        pointer, size, ratio, hit, miss = (getattr(window, name) for name in _WINDOW_FIELDS)
        return int(pointer), int(size), float(ratio), int(hit), int(miss)
    if attribute == POLICY:
        return (int(value.syncPolicy),)
    if attribute == DOMAIN_MAP:
        return int(value.memSyncDomainMap.default_), int(value.memSyncDomainMap.remote)
    if attribute == DOMAIN:
        return (int(value.memSyncDomain),)
    if attribute == CLUSTER:
        return int(value.clusterDim.x), int(value.clusterDim.y), int(value.clusterDim.z)
    if attribute == UPDATABLE:
        return (int(value.deviceUpdatableKernelNode.deviceUpdatable),)
    name = _PLAIN.get(attribute)
    return (int(getattr(value, name)),) if name else (int(value.priority),)


def fill(
    value: Any,
    attribute: int,
    numbers: Value,
    policy: Callable[[int], Any] = cudaSynchronizationPolicy,
    access: Callable[[int], Any] = cudaAccessProperty,
    domain: Callable[[int], Any] = cudaLaunchMemSyncDomain,
    scheduling: Callable[[int], Any] = cudaClusterSchedulingPolicy,
) -> Any:
    """The structure with those numbers; the last four arguments are the module's enums."""
    if attribute == WINDOW:
        window = value.accessPolicyWindow
        assert len(numbers) == 5
        pointer, size, ratio, hit, miss = numbers
        window.base_ptr, window.num_bytes, window.hitRatio = int(pointer), int(size), ratio
        window.hitProp, window.missProp = access(int(hit)), access(int(miss))
    elif attribute == POLICY:
        value.syncPolicy = policy(int(numbers[0]))
    elif attribute == DOMAIN_MAP:
        assert len(numbers) == 2
        value.memSyncDomainMap.default_, value.memSyncDomainMap.remote = int(numbers[0]), int(numbers[1])
    elif attribute == DOMAIN:
        value.memSyncDomain = domain(int(numbers[0]))
    elif attribute == CLUSTER:
        assert len(numbers) == 3
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = (int(number) for number in numbers)
    elif attribute == SCHEDULING:
        value.clusterSchedulingPolicyPreference = scheduling(int(numbers[0]))
    elif attribute == UPDATABLE:
        field = value.deviceUpdatableKernelNode
        field.deviceUpdatable, field.devNode = (int(number) for number in numbers)
    elif attribute in _PLAIN:
        setattr(value, _PLAIN[attribute], int(numbers[0]))
    return value


@api(1)
def cudaStreamGetAttribute(hStream: Any, attr: cudaStreamAttrID) -> cudaStreamAttrValue:
    number = enumerator(attr, "attr")
    found = current_device().stream_get_attribute(stream_handle(hStream), number)
    return fill(cudaStreamAttrValue(), number, found)


@api()
def cudaStreamSetAttribute(hStream: Any, attr: cudaStreamAttrID, value: cudaStreamAttrValue | None) -> None:
    number, device = enumerator(attr, "attr"), current_device()
    wanted = cudaStreamAttrValue() if value is None else struct(value, "value", cudaStreamAttrValue)
    device.stream_set_attribute(stream_handle(hStream), number, numbers_of(number, wanted))


@api()
def cudaStreamCopyAttributes(dst: Any, src: Any) -> None:
    current_device().stream_copy_attributes(stream_handle(dst), stream_handle(src))
