"""Kernel nodes that kernels update: parameters, grid, switched off; what is kept, and what is refused."""

from __future__ import annotations

import struct

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Device
from cudalab.sim.device.calls.graphs.node_attributes import UPDATABLE
from cudalab.sim.device.graphs.content import Content, KernelContent, NodeKind
from cudalab.sim.device.hazards import HazardWarning

SOURCE = r"""
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphKernelNodeSetParam(cudaGraphDeviceNode_t node, size_t offset, const void* value, size_t size);
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphKernelNodeSetEnabled(cudaGraphDeviceNode_t node, bool enable);
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphKernelNodeSetGridDim(cudaGraphDeviceNode_t node, dim3 grid);
extern "C" __global__ void add(int* x, int value) { atomicAdd(x, value); }
extern "C" __global__ void set_value(cudaGraphDeviceNode_t node, int value) {
    int local = value;
    cudaGraphKernelNodeSetParam(node, 8, &local, sizeof local);
}
extern "C" __global__ void set_enabled(cudaGraphDeviceNode_t node, int on) { cudaGraphKernelNodeSetEnabled(node, on); }
extern "C" __global__ void set_grid(cudaGraphDeviceNode_t node, int x) { cudaGraphKernelNodeSetGridDim(node, dim3(x)); }
"""


class Updates:
    """A graph of a kernel that updates, and one that adds 1 to a number behind it."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.module = device.load_module(compile(SOURCE))
        self.x = device.malloc(4)
        device.memset(self.x, 0, 4, 0, True)
        self.graph = device.graph_create()

    def content(self, name: str, *args: int) -> Content:
        function = self.device.get_function(self.module, name)
        return Content(NodeKind.KERNEL, KernelContent(function, (1, 1, 1), (1, 1, 1), struct.pack("Qi", *args)))

    def node(self, after: list[int], name: str, *args: int) -> int:
        return self.device.graph_add_node(self.graph, after, self.content(name, *args))

    def updated_by(self, name: str, value: int) -> int:
        """The executable graph."""
        adds = self.node([], "add", self.x, 1)
        handle = self.device.graph_node_set_attribute(adds, UPDATABLE, (1,))
        updates = self.node([], name, handle, value)
        self.device.graph_add_dependencies(self.graph, [updates], [adds])
        return self.device.graph_instantiate(self.graph)

    def sum_after(self, executable: int) -> int:
        self.device.graph_launch(executable, 0)
        self.device.synchronize()
        (found,) = struct.unpack("i", bytes(self.device.view(self.x, 4)))
        return found


@pytest.fixture
def updates(device: Device) -> Updates:
    return Updates(device)


@pytest.mark.parametrize(
    ("name", "value", "once"), [("set_value", 7, 7), ("set_grid", 5, 5), ("set_enabled", 0, 0), ("set_enabled", 1, 1)]
)
def test_a_kernel_updates_the_node_behind_it(updates: Updates, name: str, value: int, once: int) -> None:
    executable = updates.updated_by(name, value)
    assert [updates.sum_after(executable), updates.sum_after(executable)] == [once, 2 * once]


def test_what_an_updated_node_touches_is_compared_with_others(updates: Updates) -> None:
    device, one = updates.device, updates.device.stream_create(1)
    executable = updates.updated_by("set_value", 1)
    updates.sum_after(executable)
    device.graph_launch(executable, one)
    with pytest.warns(HazardWarning, match="add"):
        device.memset(updates.x, 0, 4, device.stream_create(1), True)
        device.synchronize()


def test_a_kernel_in_a_stream_updates_a_node(updates: Updates) -> None:
    device = updates.device
    adds = updates.node([], "add", updates.x, 1)
    handle = device.graph_node_set_attribute(adds, UPDATABLE, (1,))
    executable = device.graph_instantiate(updates.graph)
    device.graph_upload(executable)
    function = device.get_function(updates.module, "set_value")
    device.launch(function, (1, 1, 1), (1, 1, 1), struct.pack("Qi", handle, 9))
    assert updates.sum_after(executable) == 9


def test_a_node_stays_updatable(updates: Updates) -> None:
    adds = updates.node([], "add", updates.x, 1)
    handle = updates.device.graph_node_set_attribute(adds, UPDATABLE, (1,))
    assert handle and updates.device.graph_node_attribute(adds, UPDATABLE) == (1, handle)
    with pytest.raises(CudaError, match="stays it"):
        updates.device.graph_node_set_attribute(adds, UPDATABLE, (0,))


def test_the_memory_of_a_node_goes_with_its_last_graph(updates: Updates) -> None:
    device = updates.device
    before = len(list(device.state.memory))
    executable = updates.updated_by("set_value", 1)
    device.graph_destroy(updates.graph)
    assert updates.sum_after(executable) == 1
    device.graph_exec_destroy(executable)
    assert len(list(device.state.memory)) == before
