"""Memory of graphs: one address over all launches, no use before or after, and edges that order both."""

from __future__ import annotations

import struct
import warnings
from contextlib import suppress

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Device
from cudalab.sim.device.graphs.content import (
    AllocationContent,
    Content,
    CopyContent,
    KernelContent,
    MemsetContent,
    NodeKind,
)
from cudalab.sim.device.hazards import HazardWarning

SIZE = 4096
ADD = 'extern "C" __global__ void add(int* x) { x[threadIdx.x] += 1; }'


class Chain:
    """A graph that allocates memory, sets it, copies it out and frees it."""

    def __init__(self, device: Device, *, without: tuple[int, int] = (-1, -1), size: int = SIZE) -> None:
        self.device = device
        self.out = device.malloc(size)
        self.graph = device.graph_create()
        wanted = AllocationContent(0, size)
        first = device.graph_add_node(self.graph, [], Content(NodeKind.MEM_ALLOC, allocation=wanted))
        made = device.graph_node_content(first, NodeKind.MEM_ALLOC).allocation
        assert made is not None
        self.pointer = made.pointer
        side = (self.pointer, size, size)
        nodes = [first]
        for number, content in enumerate(
            (
                Content(NodeKind.MEMSET, memset=MemsetContent(self.pointer, 7, size)),
                Content(NodeKind.MEMCPY, copy=CopyContent((self.out, size, size), side, (size, 1, 1))),
                Content(NodeKind.MEM_FREE, pointer=self.pointer),
            ),
            1,
        ):
            before = nodes[-1:] if without != (number - 1, number) else []
            nodes.append(device.graph_add_node(self.graph, before, content))

    def launch(self, times: int = 1) -> None:
        executable = self.device.graph_instantiate(self.graph)
        for _ in range(times):
            self.device.graph_launch(executable)
        self.device.synchronize()
        self.device.graph_exec_destroy(executable)


def test_memory_comes_with_each_launch_and_its_address_stays(device: Device) -> None:
    chain = Chain(device)
    assert device.memory.find(chain.pointer) is None
    chain.launch(3)
    assert bytes(device.view(chain.out, SIZE)) == bytes([7]) * SIZE
    assert not device.hazards
    assert device.memory.find(chain.pointer) is None
    with pytest.raises(CudaError, match="was freed"):
        device.memset(chain.pointer, 0, SIZE)


def test_addresses_are_given_up_with_the_graph(device: Device) -> None:
    chain = Chain(device)
    others = [device.malloc(SIZE) for _ in range(20)]
    chain.launch()
    assert chain.pointer not in others
    device.graph_destroy(chain.graph)
    device.graph_destroy(Chain(device).graph)
    assert device.memory.reserved_at(chain.pointer) is None


@pytest.mark.parametrize("missing", [(0, 1), (1, 2), (2, 3)])
def test_a_missing_edge_is_reported_with_both_nodes(device: Device, missing: tuple[int, int]) -> None:
    chain = Chain(device, without=missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        with suppress(CudaError):  # a memset of memory that is freed already
            chain.launch()
    found = [hazard.first.what + hazard.second.what for hazard in device.hazards]
    named = missing if missing[1] != 3 else (0, 3)  # the free comes right behind the allocation, before all others
    assert any(all(f"(node {number})" in text for number in named) for text in found), found


def test_use_after_the_free_node_is_a_fault(device: Device) -> None:
    chain = Chain(device)
    chain.launch()
    function = device.get_function(device.load_module(compile(ADD)), "add")
    device.launch(function, (1, 1, 1), (32, 1, 1), struct.pack("Q", chain.pointer))
    with pytest.raises(CudaError, match=r"memory of a graph.*was freed \(a free node of a graph\)"):
        device.synchronize()


def test_use_before_the_first_launch_is_a_fault(device: Device) -> None:
    chain = Chain(device)
    function = device.get_function(device.load_module(compile(ADD)), "add")
    graph = device.graph_create()
    launch = KernelContent(function, (1, 1, 1), (32, 1, 1), struct.pack("Q", chain.pointer))
    device.graph_add_node(graph, [], Content(NodeKind.KERNEL, launch))
    device.graph_launch(device.graph_instantiate(graph))
    with pytest.raises(CudaError, match="no launch of the graph has allocated yet"):
        device.synchronize()


def test_more_than_the_host_has_fails_at_the_launch() -> None:
    device = Device()
    chain = Chain(device)
    device.memory.capacity = SIZE
    executable = device.graph_instantiate(chain.graph)
    with pytest.raises(CudaError, match="cudaGraphLaunch: cannot allocate"):
        device.graph_launch(executable)
    device.memory.capacity = 4 * SIZE
    device.graph_launch(executable)
    device.synchronize()
