"""Streams that capture graphs."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import (
    cudaGraph_t,
    cudaGraphEdgeData,
    cudaGraphNode_t,
    cudaStreamCaptureMode,
    cudaStreamCaptureStatus,
)

from cudalab.sim.binding import enumerator, handle, stream_handle, unsigned
from cudalab.sim.cudart.answer import api
from cudalab.sim.cudart.graphs import edge_data, filled, handles
from cudalab.sim.device import current_device


@api()
def cudaStreamBeginCapture(stream: Any, mode: cudaStreamCaptureMode) -> None:
    current_device().capture_begin(stream_handle(stream), enumerator(mode, "mode"))


@api()
def cudaStreamBeginCaptureToGraph(
    stream: Any,
    graph: Any,
    dependencies: Any,
    dependencyData: Any,
    numDependencies: Any,
    mode: cudaStreamCaptureMode,
) -> None:
    after = handles(dependencies, numDependencies, "numDependencies")
    edges = edge_data(dependencyData, numDependencies)
    number = enumerator(mode, "mode")
    current_device().capture_begin_to_graph(stream_handle(stream), handle(graph), after, number, edges)


@api(1)
def cudaStreamEndCapture(stream: Any) -> cudaGraph_t:
    return cudaGraph_t(current_device().capture_end(stream_handle(stream)))


@api(1)
def cudaStreamIsCapturing(stream: Any) -> cudaStreamCaptureStatus:
    return cudaStreamCaptureStatus(current_device().stream_is_capturing(stream_handle(stream)))


@api(6)
def cudaStreamGetCaptureInfo(
    stream: Any,
) -> tuple[cudaStreamCaptureStatus, int, cudaGraph_t, list[cudaGraphNode_t], list[cudaGraphEdgeData], int]:
    found = current_device().capture_info(stream_handle(stream))
    nodes = [cudaGraphNode_t(node) for node, *_ in found.nodes]
    data = [filled(cudaGraphEdgeData(), edge) for _, *edge in found.nodes]
    return cudaStreamCaptureStatus(found.status), found.number, cudaGraph_t(found.graph), nodes, data, len(nodes)


@api()
def cudaStreamUpdateCaptureDependencies(
    stream: Any, dependencies: Any, dependencyData: Any, numDependencies: Any, flags: Any
) -> None:
    nodes = handles(dependencies, numDependencies, "numDependencies")
    current_device().capture_update_dependencies(
        stream_handle(stream), nodes, unsigned(flags), edge_data(dependencyData, numDependencies)
    )


@api(1)
def cudaThreadExchangeStreamCaptureMode(mode: cudaStreamCaptureMode) -> cudaStreamCaptureMode:
    return cudaStreamCaptureMode(current_device().capture_mode(enumerator(mode, "mode")))
