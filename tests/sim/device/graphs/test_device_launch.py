"""Graphs that kernels launch: order and hazards, the timeline, and what never ends."""

from __future__ import annotations

import struct
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Device
from cudalab.sim.device.graphs.content import Content, CopyContent, KernelContent, NodeKind
from cudalab.sim.device.graphs.device_launchable import CannotInstantiate, InstantiationResult
from cudalab.sim.device.graphs.environment import Into
from cudalab.sim.device.hazards import HazardWarning
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.queue.operation import Operation

DEVICE = 4
SOURCE = r"""
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
extern "C" __global__ void launch(
    int* x, const unsigned long long* graphs, const unsigned long long* streams, int count
) {
    x[0] = 1;
    for (int i = 0; i < count; i++)
        cudaGraphLaunch((cudaGraphExec_t)graphs[i], (cudaStream_t)streams[i]);
}
extern "C" __global__ void again(int* x, int most) {
    unsigned long long graph;
    asm("mov.u64 %0, %%current_graph_exec;" : "=l"(graph));
    if (++x[0] < most) cudaGraphLaunch((cudaGraphExec_t)graph, (cudaStream_t)(1ull << 56));
}
extern "C" __global__ void first(int* x, unsigned long long tail) {
    if (++x[0] == 1) cudaGraphLaunch((cudaGraphExec_t)tail, (cudaStream_t)(1ull << 56));
}
extern "C" __global__ void back(int* x, const unsigned long long* graph) {
    ++x[0];
    cudaGraphLaunch((cudaGraphExec_t)*graph, (cudaStream_t)(2ull << 56));
}
extern "C" __global__ void current(unsigned long long* x) {
    unsigned long long graph;
    asm("mov.u64 %0, %%current_graph_exec;" : "=l"(graph));
    *x = graph;
}
extern "C" __global__ void more(int* to, const int* from) { to[threadIdx.x] = from[0] + 1; }
"""
SIZE = 128


class Watch(Observer):
    """The nodes that ran, in the order of their starts, with the reasons for which their graphs waited. What a kernel
    launches beside itself may end before it does."""

    def __init__(self) -> None:
        self._starts: list[tuple[int, str]] = []
        self.reasons: list[str] = []
        self.times: dict[str, tuple[int, int]] = {}

    def ended(self, operation: Operation) -> None:
        if operation.kind == "graph":
            self.reasons.append(operation.wait_reason)
        if operation.kind == "kernel":
            self._starts.append((operation.start, operation.name))
            self.times[operation.name] = operation.start, operation.end

    @property
    def ran(self) -> list[str]:
        return [name for _, name in sorted(self._starts)]


class Launches:
    """Graphs of one kernel each, and one whose kernel launches some of them."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.module = device.load_module(compile(SOURCE))
        self.x, self.y, self.z = (device.malloc(SIZE) for _ in range(3))
        for each in (self.x, self.y, self.z):
            device.memset(each, 0, SIZE, 0, True)
        device.synchronize()

    def kernel(self, name: str, kinds: str, *args: int, threads: int = 1) -> int:
        graph = self.device.graph_create()
        function = self.device.get_function(self.module, name)
        content = KernelContent(function, (1, 1, 1), (threads, 1, 1), struct.pack(kinds, *args))
        self.device.graph_add_node(graph, [], Content(NodeKind.KERNEL, content))
        return graph

    def more(self, to: int, source: int) -> int:
        """A graph for the device that stores one more than ``source`` has."""
        made = self.device.graph_instantiate(self.kernel("more", "QQ", to, source, threads=32), DEVICE)
        self.device.graph_upload(made)
        return made

    def parent(self, *children: tuple[int, Into]) -> int:
        graphs = np.array([graph for graph, _ in children], np.uint64)
        streams = np.array([int(into) << 56 for _, into in children], np.uint64)
        places = []
        for values in (graphs, streams):
            pointer = self.device.malloc(8 * len(values))
            self.device.view(pointer, 8 * len(values))[:] = values.tobytes()
            places.append(pointer)
        return self.device.graph_instantiate(self.kernel("launch", "QQQi", self.x, *places, len(children)))

    def run(self, executable: int) -> list[int]:
        """Launch and wait; the first number of each of the three arrays."""
        self.device.graph_launch(executable)
        self.device.synchronize()
        return [struct.unpack("i", bytes(self.device.view(each, 4)))[0] for each in (self.x, self.y, self.z)]


@pytest.fixture
def launches(device: Device) -> Launches:
    return Launches(device)


@pytest.mark.parametrize("into", Into)
def test_what_a_kernel_launches_sees_what_it_stored(launches: Launches, into: Into) -> None:
    child = launches.more(launches.y, launches.x)
    assert launches.run(launches.parent((child, into))) == [1, 2, 0]
    assert not launches.device.hazards


def test_a_tail_launch_comes_behind_children(launches: Launches) -> None:
    first, last = launches.more(launches.y, launches.x), launches.more(launches.z, launches.y)
    parent = launches.parent((last, Into.TAIL), (first, Into.FIRE_AND_FORGET))
    assert launches.run(parent) == [1, 2, 3]
    assert not launches.device.hazards


@pytest.mark.parametrize("into", [Into.FIRE_AND_FORGET, Into.SIBLING])
def test_children_that_touch_the_same_memory_are_a_hazard(launches: Launches, into: Into) -> None:
    one, two = launches.more(launches.y, launches.x), launches.more(launches.z, launches.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        launches.run(launches.parent((one, Into.FIRE_AND_FORGET), (two, into)))
    found = [hazard.first.what + " " + hazard.second.what for hazard in launches.device.hazards]
    assert any(each.count("more (node 0)") == 2 for each in found)


@pytest.mark.parametrize("waits", [False, True])
def test_what_comes_behind_the_launch_comes_behind_all(launches: Launches, waits: bool) -> None:
    device = launches.device
    one, two = device.stream_create(1), device.stream_create(1)
    parent = launches.parent((launches.more(launches.y, launches.x), Into.SIBLING))
    device.graph_launch(parent, one)
    if waits:
        event = device.event_create(2)
        device.event_record(event, one)
        device.stream_wait_event(two, event)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        device.memcpy(launches.z, launches.y, SIZE, 3, two, True)
        device.synchronize()
    assert bool(device.hazards) is not waits
    assert bytes(device.view(launches.z, 4)) == struct.pack("i", 2 if waits else 0)


def test_a_wait_of_the_host_orders_what_comes_behind_it(launches: Launches) -> None:
    device, stream = launches.device, launches.device.stream_create(1)
    launches.run(launches.parent((launches.more(launches.y, launches.x), Into.TAIL)))
    device.memset(launches.x, 0, SIZE, 0, True)
    device.synchronize()
    device.memcpy(launches.z, launches.x, SIZE, 3, stream, True)
    device.synchronize()
    assert not device.hazards


def test_a_timeline_says_who_launched(launches: Launches) -> None:
    watch = Watch()
    launches.device.state.observers.append(watch)
    first, last = launches.more(launches.y, launches.x), launches.more(launches.z, launches.y)
    launches.run(launches.parent((first, Into.FIRE_AND_FORGET), (last, Into.TAIL)))
    assert watch.ran == ["launch", "more", "more"]
    assert watch.reasons == ["host", "device launch", "tail launch"]


def test_a_graph_launches_itself_again(launches: Launches) -> None:
    again = launches.device.graph_instantiate(launches.kernel("again", "Qi", launches.x, 20), DEVICE)
    assert launches.run(again) == [20, 0, 0]
    assert launches.run(again)[0] == 21
    assert launches.device.idle


def test_the_host_s_graph_cannot_launch_itself(launches: Launches) -> None:
    again = launches.device.graph_instantiate(launches.kernel("again", "Qi", launches.x, 20))
    assert launches.run(again) == [1, 0, 0]


def test_a_kernel_that_launches_graphs_belongs_into_a_graph(launches: Launches) -> None:
    device, function = launches.device, launches.device.get_function(launches.module, "again")
    with pytest.raises(CudaError, match="only a kernel of a graph may") as caught:
        device.launch(function, (1, 1, 1), (1, 1, 1), struct.pack("Qi", launches.x, 20))
    assert caught.value.code == cudaError_t.cudaErrorNotSupported
    assert not device.state.lost


def test_a_graph_for_the_host_is_an_illegal_address_to_kernels(launches: Launches) -> None:
    child = launches.device.graph_instantiate(launches.kernel("more", "QQ", launches.y, launches.x, threads=32))
    with pytest.raises(CudaError, match="was instantiated for the host") as caught:
        launches.run(launches.parent((child, Into.FIRE_AND_FORGET)))
    assert caught.value.code == cudaError_t.cudaErrorIllegalAddress


@pytest.mark.parametrize("again", ["parent", "child"])
def test_a_graph_that_was_not_uploaded_is_not_launched(launches: Launches, again: str) -> None:
    """Nor does either graph end when it is launched after that."""
    child = launches.device.graph_instantiate(launches.kernel("more", "QQ", launches.y, launches.x, threads=32), DEVICE)
    parent = launches.parent((child, Into.FIRE_AND_FORGET))
    assert launches.run(parent) == [1, 0, 0]
    launches.device.graph_upload(child)
    with pytest.raises(CudaError, match="which was not uploaded .* Upload it before") as caught:
        launches.run(parent if again == "parent" else child)
    assert caught.value.code == cudaError_t.cudaErrorLaunchTimeout


def test_kernels_launch_what_was_uploaded_last(launches: Launches) -> None:
    device = launches.device
    child = launches.more(launches.y, launches.x)
    parent = launches.parent((child, Into.FIRE_AND_FORGET))
    device.graph_exec_update(child, launches.kernel("more", "QQ", launches.z, launches.x, threads=32))
    assert launches.run(parent) == [1, 2, 0]
    device.graph_upload(child)
    assert launches.run(parent) == [1, 2, 2]


@pytest.mark.parametrize("uploads", [False, True])
def test_a_launch_by_the_host_uploads(launches: Launches, uploads: bool) -> None:
    device = launches.device
    child = device.graph_instantiate(launches.kernel("more", "QQ", launches.y, launches.x, threads=32), DEVICE)
    if uploads:
        device.graph_launch(child)
    assert launches.run(launches.parent((child, Into.TAIL)))[1] == (2 if uploads else 0)


def test_limits_of_one_run(launches: Launches) -> None:
    """120 graphs beside it, siblings among them."""
    children = [launches.more(launches.y, launches.x) for _ in range(130)]
    watch = Watch()
    launches.device.state.observers.append(watch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        launches.run(launches.parent(*((child, Into.FIRE_AND_FORGET) for child in children)))
        assert watch.ran.count("more") == 120
        launches.run(launches.parent(*((child, Into.SIBLING) for child in children)))
        assert watch.ran.count("more") == 240


@pytest.mark.parametrize(
    ("content", "result"),
    [
        (Content(NodeKind.EMPTY), InstantiationResult.NODE_OPERATION_NOT_SUPPORTED),
        (Content(NodeKind.HOST), InstantiationResult.NODE_OPERATION_NOT_SUPPORTED),
        (None, InstantiationResult.ERROR),
    ],
)
def test_what_a_graph_for_the_device_may_hold(
    launches: Launches, content: Content | None, result: InstantiationResult
) -> None:
    device, graph = launches.device, launches.device.graph_create()
    node = 0 if content is None else device.graph_add_node(graph, [], content, lambda: None)
    with pytest.raises(CannotInstantiate, match="cudaGraphInstantiateFlagDeviceLaunch") as caught:
        device.graph_instantiate(graph, DEVICE)
    assert (caught.value.code, caught.value.result) == (cudaError_t.cudaErrorInvalidValue, result)
    assert caught.value.node == node


def test_copies_of_a_graph_for_the_device_have_page_locked_memory(launches: Launches) -> None:
    device, array = launches.device, np.zeros(16, np.uint8)
    for address, wanted in ((array.ctypes.data, "pageable host memory as its source"), (launches.x, "")):
        graph = device.graph_create()
        copy = CopyContent((launches.y, 16, 0), (address, 16, 0), (16, 1, 1))
        device.graph_add_node(graph, [], Content(NodeKind.MEMCPY, copy=copy))
        if not wanted:
            assert device.graph_instantiate(graph, DEVICE)
            continue
        with pytest.raises(CannotInstantiate, match=wanted):
            device.graph_instantiate(graph, DEVICE)


@pytest.mark.parametrize("whole", [False, True])
def test_an_update_does_not_give_a_graph_for_the_device_pageable_memory(launches: Launches, whole: bool) -> None:
    """From the device instead of the host it may copy, which a copy of a graph for the host may not."""
    device, array, host = launches.device, np.zeros(16, np.uint8), launches.device.malloc_host(16)

    def graph_from(address: int) -> tuple[int, int]:
        graph, copy = device.graph_create(), CopyContent((launches.y, 16, 0), (address, 16, 0), (16, 1, 1))
        return graph, device.graph_add_node(graph, [], Content(NodeKind.MEMCPY, copy=copy))

    graph, node = graph_from(host)
    made = device.graph_instantiate(graph, DEVICE)
    for address, works in ((array.ctypes.data, False), (launches.x, True)):
        other, same = graph_from(address)
        content = device.graph_node_content(same, NodeKind.MEMCPY)
        with nullcontext() if works else pytest.raises(CudaError, match="pageable host memory as its source"):
            if whole:
                device.graph_exec_update(made, other)
            else:
                device.graph_exec_set_content(made, node, content)


def test_a_graph_whose_nodes_have_ended_can_be_launched_again(launches: Launches) -> None:
    """By the tail launch behind it, though the host's launch of it has not ended."""
    device = launches.device
    address = device.malloc(8)
    device.memset(address, 0, 8, 0, True)
    back = launches.kernel("back", "QQ", launches.y, address)
    tail = device.graph_instantiate(back, DEVICE)
    device.graph_upload(tail)
    whole = device.graph_instantiate(launches.kernel("first", "QQ", launches.x, tail), DEVICE)
    device.view(address, 8)[:] = struct.pack("Q", whole)
    assert launches.run(whole) == [2, 1, 0]


def test_a_kernel_of_a_graph_for_the_device_knows_its_graph(launches: Launches) -> None:
    for flags in (0, DEVICE):
        made = launches.device.graph_instantiate(launches.kernel("current", "Q", launches.x), flags)
        launches.run(made)
        (found,) = struct.unpack("Q", bytes(launches.device.view(launches.x, 8)))
        assert found == (made if flags else 0)


def test_the_order_of_the_times_is_an_h200s(launches: Launches) -> None:
    """There the first kernel launched fire and forget starts 3.1 us after the one that launches it, and a tail launch
    3.0 us after the end."""
    watch = Watch()
    launches.device.state.observers.append(watch)
    for into in (Into.FIRE_AND_FORGET, Into.TAIL):
        launches.run(launches.parent((launches.more(launches.y, launches.x), into)))
        (start, end), (first, _) = watch.times["launch"], watch.times["more"]
        since = first - (start if into is Into.FIRE_AND_FORGET else end)
        assert 2_000 < since < 3_300


def test_graphs_that_launch_themselves_for_ever_are_explained(launches: Launches) -> None:
    again = launches.device.graph_instantiate(launches.kernel("again", "Qi", launches.x, 1 << 30), DEVICE)
    launches.device.settings.time_limit = 0.2
    with pytest.raises(CudaError, match="have launched graphs .* times, without an end") as caught:
        launches.run(again)
    assert caught.value.code == cudaError_t.cudaErrorLaunchTimeout
