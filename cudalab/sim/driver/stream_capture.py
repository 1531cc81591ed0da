"""Streams that capture graphs."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import CUgraph, CUgraphEdgeData, CUgraphNode, CUstreamCaptureMode, CUstreamCaptureStatus

from cudalab.sim.binding import enumerator, handle, stream_handle, unsigned
from cudalab.sim.cudart.graphs import edge_data, filled, handles
from cudalab.sim.device import current_device
from cudalab.sim.driver.answer import api


@api()
def cuStreamBeginCapture(hStream: Any, mode: CUstreamCaptureMode) -> None:
    current_device().capture_begin(stream_handle(hStream), enumerator(mode, "mode"))


@api()
def cuStreamBeginCaptureToGraph(
    hStream: Any,
    hGraph: Any,
    dependencies: Any,
    dependencyData: Any,
    numDependencies: Any,
    mode: CUstreamCaptureMode,
) -> None:
    after = handles(dependencies, numDependencies, "numDependencies")
    edges = edge_data(dependencyData, numDependencies)
    number = enumerator(mode, "mode")
    current_device().capture_begin_to_graph(stream_handle(hStream), handle(hGraph), after, number, edges)


@api(1)
def cuStreamEndCapture(hStream: Any) -> CUgraph:
    return CUgraph(current_device().capture_end(stream_handle(hStream)))


@api(1)
def cuStreamIsCapturing(hStream: Any) -> CUstreamCaptureStatus:
    return CUstreamCaptureStatus(current_device().stream_is_capturing(stream_handle(hStream)))


@api(6)
def cuStreamGetCaptureInfo(
    hStream: Any,
) -> tuple[CUstreamCaptureStatus, int, CUgraph, list[CUgraphNode], list[CUgraphEdgeData], int]:
    found = current_device().capture_info(stream_handle(hStream))
    nodes = [CUgraphNode(node) for node, *_ in found.nodes]
    data = [filled(CUgraphEdgeData(), edge) for _, *edge in found.nodes]
    return CUstreamCaptureStatus(found.status), found.number, CUgraph(found.graph), nodes, data, len(nodes)


@api()
def cuStreamUpdateCaptureDependencies(
    hStream: Any, dependencies: Any, dependencyData: Any, numDependencies: Any, flags: Any
) -> None:
    nodes = handles(dependencies, numDependencies, "numDependencies")
    current_device().capture_update_dependencies(
        stream_handle(hStream), nodes, unsigned(flags), edge_data(dependencyData, numDependencies)
    )


@api(1)
def cuThreadExchangeStreamCaptureMode(mode: CUstreamCaptureMode) -> CUstreamCaptureMode:
    return CUstreamCaptureMode(current_device().capture_mode(enumerator(mode, "mode")))
