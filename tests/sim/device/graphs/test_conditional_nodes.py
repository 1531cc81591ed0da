"""Conditional nodes: what their bodies touch is ordered as the edges say, a loop that never ends is explained."""

from __future__ import annotations

import struct
import warnings

import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Device
from cudalab.sim.device.graphs.content import ConditionalContent, Content, KernelContent, MemsetContent, NodeKind
from cudalab.sim.device.hazards import HazardWarning

SOURCE = r"""
extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);
extern "C" __global__ void set(cudaGraphConditionalHandle handle, unsigned value) {
    cudaGraphSetConditional(handle, value);
}
extern "C" __global__ void count(cudaGraphConditionalHandle handle, int* x, int limit) {
    x[0] += 1;
    cudaGraphSetConditional(handle, x[0] < limit);
}
extern "C" __global__ void twice(int* to, const int* from) { to[threadIdx.x] = from[0] * 2; }
"""
WHILE = 1


class Loop:
    """A graph: a memset, a WHILE node whose body counts, and a kernel behind it that reads the count."""

    def __init__(self, device: Device, limit: int = 5) -> None:
        self.device, self.limit = device, limit
        self.module = device.load_module(compile(SOURCE))
        self.counter, self.out = device.malloc(4), device.malloc(128)
        self.graph = device.graph_create()
        self.handle = device.graph_conditional_handle(self.graph, 1, 1)

    def kernel(self, graph: int, after: list[int], name: str, *args: int, threads: int = 1) -> int:
        kinds = {"set": "QI", "count": "QQi", "twice": "QQ"}[name]
        function = self.device.get_function(self.module, name)
        launch = KernelContent(function, (1, 1, 1), (threads, 1, 1), struct.pack(kinds, *args))
        return self.device.graph_add_node(graph, after, Content(NodeKind.KERNEL, launch))

    def clear(self, graph: int, after: list[int]) -> int:
        return self.device.graph_add_node(
            graph, after, Content(NodeKind.MEMSET, memset=MemsetContent(self.counter, 0, 4))
        )

    def node(self, after: list[int], kind: int = WHILE) -> tuple[int, int]:
        wanted = Content(NodeKind.CONDITIONAL, conditional=ConditionalContent(self.handle, kind))
        node = self.device.graph_add_node(self.graph, after, wanted)
        return node, self.device.graph_bodies(node)[0]

    def build(self) -> None:
        node, body = self.node([self.clear(self.graph, [])])
        self.kernel(body, [], "count", self.handle, self.counter, self.limit)
        self.kernel(self.graph, [node], "twice", self.out, self.counter, threads=32)

    def launch(self, times: int = 1) -> None:
        executable = self.device.graph_instantiate(self.graph)
        for _ in range(times):
            self.device.graph_launch(executable, self.device.stream_create(1))
        self.device.synchronize()

    def hazards(self) -> list[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HazardWarning)
            self.launch()
        return [hazard.first.what + " " + hazard.second.what for hazard in self.device.hazards]


def test_a_loop_is_ordered_with_all_around_it(device: Device) -> None:
    loop = Loop(device)
    loop.build()
    loop.launch(2)
    assert not device.hazards
    assert bytes(device.view(loop.out, 128)) == struct.pack("i", 10) * 32
    assert device.idle


def test_a_missing_edge_in_a_body_is_reported_with_both_nodes(device: Device) -> None:
    loop = Loop(device)
    _, body = loop.node([])
    loop.kernel(body, [loop.clear(body, [])], "set", loop.handle, 0)  # the memset alone touches the counter
    loop.kernel(body, [], "twice", loop.out, loop.counter, threads=32)
    assert any("twice (node 2)" in found and "(node 0)" in found for found in loop.hazards())


def test_a_missing_edge_to_a_conditional_node_is_reported_with_both_nodes(device: Device) -> None:
    loop = Loop(device)
    loop.kernel(loop.graph, [], "set", loop.handle, 0)
    loop.node([], kind=0)
    assert any("set (node 0)" in found and "conditional (node 1)" in found for found in loop.hazards())


def test_work_beside_a_loop_that_uses_its_memory_is_reported(device: Device) -> None:
    loop = Loop(device)
    _, body = loop.node([])
    loop.kernel(body, [], "count", loop.handle, loop.counter, 3)
    loop.kernel(loop.graph, [], "twice", loop.out, loop.counter, threads=32)
    assert any("twice (node 1)" in found for found in loop.hazards())


def test_a_loop_that_never_ends_is_explained(device: Device) -> None:
    loop = Loop(device, limit=1 << 30)
    loop.build()
    device.settings.time_limit = 0.2
    with pytest.raises(CudaError, match=r"conditional \(node 1\) has run its body .* times") as caught:
        loop.launch()
    assert caught.value.code == cudaError_t.cudaErrorLaunchTimeout


def test_the_values_of_handles_go_with_the_graph(device: Device) -> None:
    loop = Loop(device)
    loop.build()
    executable = device.graph_instantiate(loop.graph)
    device.graph_destroy(loop.graph)
    assert device.memory.find(loop.handle) is not None
    device.graph_exec_destroy(executable)
    assert device.memory.find(loop.handle) is None


def test_the_text_of_a_graph_names_the_bodies(device: Device) -> None:
    loop = Loop(device)
    loop.build()
    text = device.graph_dot(loop.graph)
    assert "CONDITIONAL" in text and "{Conditional Type| WHILE}" in text
    assert text.count("subgraph cluster_") == 2
