"""Attributes of kernel nodes of graphs."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import (
    CUaccessProperty,
    CUclusterSchedulingPolicy,
    CUkernelNodeAttrID,
    CUkernelNodeAttrValue,
    CUlaunchMemSyncDomain,
    CUsynchronizationPolicy,
)

from cudalab.sim.binding import enumerator, handle, struct
from cudalab.sim.cudart.stream_attributes import fill, numbers_of
from cudalab.sim.device import current_device
from cudalab.sim.device.calls.graphs.node_attributes import UPDATABLE
from cudalab.sim.driver.answer import api

_ENUMS = CUsynchronizationPolicy, CUaccessProperty, CUlaunchMemSyncDomain, CUclusterSchedulingPolicy


@api(1)
def cuGraphKernelNodeGetAttribute(hNode: Any, attr: CUkernelNodeAttrID) -> CUkernelNodeAttrValue:
    number = enumerator(attr, "attr")
    found = current_device().graph_node_attribute(handle(hNode), number)
    return fill(CUkernelNodeAttrValue(), number, found, *_ENUMS)


@api()
def cuGraphKernelNodeSetAttribute(hNode: Any, attr: CUkernelNodeAttrID, value: CUkernelNodeAttrValue | None) -> None:
    number = enumerator(attr, "attr")
    wanted = CUkernelNodeAttrValue() if value is None else struct(value, "value", CUkernelNodeAttrValue)
    node = current_device().graph_node_set_attribute(handle(hNode), number, numbers_of(number, wanted))
    if number == UPDATABLE:
        fill(wanted, number, (1, node))


@api()
def cuGraphKernelNodeCopyAttributes(dst: Any, src: Any) -> None:
    current_device().graph_node_copy_attributes(handle(dst), handle(src))
