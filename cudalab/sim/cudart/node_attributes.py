"""Attributes of kernel nodes of graphs."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import cudaKernelNodeAttrID, cudaKernelNodeAttrValue

from cudalab.sim.binding import enumerator, handle, struct
from cudalab.sim.cudart.answer import api
from cudalab.sim.cudart.stream_attributes import fill, numbers_of
from cudalab.sim.device import current_device
from cudalab.sim.device.calls.graphs.node_attributes import UPDATABLE


@api(1)
def cudaGraphKernelNodeGetAttribute(hNode: Any, attr: cudaKernelNodeAttrID) -> cudaKernelNodeAttrValue:
    number = enumerator(attr, "attr")
    found = current_device().graph_node_attribute(handle(hNode), number)
    return fill(cudaKernelNodeAttrValue(), number, found)


@api()
def cudaGraphKernelNodeSetAttribute(
    hNode: Any, attr: cudaKernelNodeAttrID, value: cudaKernelNodeAttrValue | None
) -> None:
    number = enumerator(attr, "attr")
    wanted = cudaKernelNodeAttrValue() if value is None else struct(value, "value", cudaKernelNodeAttrValue)
    node = current_device().graph_node_set_attribute(handle(hNode), number, numbers_of(number, wanted))
    if number == UPDATABLE:
        fill(wanted, number, (1, node))


@api()
def cudaGraphKernelNodeCopyAttributes(hDst: Any, hSrc: Any) -> None:
    current_device().graph_node_copy_attributes(handle(hDst), handle(hSrc))
