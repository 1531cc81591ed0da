"""Every runtime call that is declared is recorded, stored and replayed: same result, error, clock and memory."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from cuda.bindings import driver, runtime
from cuda.bindings.runtime import cudaDeviceAttr, cudaLimit, cudaMemoryAdvise, cudaMemPoolAttr, cudaMemRangeAttribute

from cudalab.sim import cudart
from cudalab.sim import driver as sim_driver
from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Device, Log, replay
from cudalab.sim.device.calls import stream_attributes
from cudalab.sim.device.calls.graphs import node_attributes
from cudalab.sim.device.declaration import CALLS, Call, Waits
from cudalab.sim.device.graphs.content import (
    AllocationContent,
    ConditionalContent,
    Content,
    CopyContent,
    KernelContent,
    MemsetContent,
    NodeKind,
)
from cudalab.sim.device.log.log import plain, relocated, revived
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.queue.scheduler import Scheduler

SIZE = 4096
ON_DEVICE = (1, 0)
FLOAT_CHANNELS = ((32, 0, 0, 0), 2)
SOURCE = """
__device__ float factor = 2.0f;
extern "C" __global__ void copy(float *x, const float *y) { x[threadIdx.x] = y[threadIdx.x]; }
extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= factor; }
"""


COUNTING = """
extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);
extern "C" __global__ void count(cudaGraphConditionalHandle handle, int* x) {
    cudaGraphSetConditional(handle, ++x[0] < 3);
}
"""


class Kit:
    """A device whose calls are recorded, and what programs need of it."""

    def __init__(self, profile: str = "h200") -> None:
        self.device = Device(profile, record=True)
        self.host = np.arange(SIZE, dtype=np.uint8)
        self.kept: list[object] = []

    def memory(self, size: int = SIZE) -> int:
        """Device memory that has been written."""
        pointer = self.device.malloc(size)
        self.device.memset(pointer, 7, size)
        return pointer

    def keep_busy(self) -> None:
        """Work that has not ended when the next calls are made, and moves no bytes here."""
        size = 256 << 20
        self.device.prefetch(self.device.malloc_managed(size), size, *ON_DEVICE)

    def function(self) -> int:
        return self.device.get_function(self.device.load_module(compile(SOURCE)), "scale")

    def pool(self) -> int:
        return self.device.pool_create(1, *ON_DEVICE)

    def array(self) -> int:
        array = self.device.malloc_array(FLOAT_CHANNELS, (16, 8, 0))
        self.device.memcpy_array((array, 0, 0, 0), (self.host.ctypes.data, 64, 64 * 8), (64, 8, 1))
        return array

    def recorded_event(self) -> int:
        event = self.device.event_create()
        self.device.event_record(event)
        return event

    def attach(self) -> None:
        device = self.device
        device.attach(device.stream_create(1), device.malloc_managed(SIZE))

    def register(self) -> None:
        """Registered memory, which a copy and a kernel read."""
        device, host = self.device, self.host.ctypes.data
        device.host_register(host, SIZE)
        device.memcpy(self.memory(), host, SIZE)
        function = device.get_function(device.load_module(compile(SOURCE)), "copy")
        self.host[:] = 9
        device.launch(function, (1, 1, 1), (32, 1, 1), struct.pack("QQ", self.memory(), host))
        device.synchronize()

    def unregister(self) -> None:
        self.register()
        self.keep_busy()
        self.device.host_unregister(self.host.ctypes.data)

    def unload(self) -> None:
        module = self.device.load_module(compile(SOURCE))
        self.keep_busy()
        self.device.unload_module(module)

    def launch(self) -> None:
        self.device.launch(self.function(), (1, 1, 1), (32, 1, 1), struct.pack("Q", self.memory()))

    def square(self) -> None:
        pointer = self.memory(64)

        def work() -> None:
            np.frombuffer(self.device.view(pointer, 64), np.uint8)[:] = 49

        extents = ((pointer, 64, ()),)
        self.device.array_operation(
            "square", work, [(pointer, 64)], [(pointer, 64)], flops=16.0, exact=(extents, extents)
        )

    def window(self) -> None:
        device, stream = self.device, self.device.stream_create()
        device.stream_set_attribute(stream, stream_attributes.WINDOW, (self.memory(), SIZE, 0.5, 2, 1))
        device.stream_get_attribute(stream, stream_attributes.WINDOW)

    def wait_for_value(self) -> None:
        device, pointer, stream = self.device, self.memory(), self.device.stream_create(1)
        device.stream_wait_value(stream, pointer, 5, 4)
        device.stream_write_value(0, pointer, 5, 4)
        device.stream_synchronize(stream)

    def linear_texture(self) -> None:
        self.device.create_texture(self.memory(), (1, 1, 1), channels=FLOAT_CHANNELS, extent=(SIZE, 0))
        self.device.create_texture(self.array(), (1, 1, 1), linear=True)

    # -- graphs --------------------------------------------------------------------------------------------------------

    def graph(self) -> tuple[int, list[int]]:
        """A graph with nodes of most kinds, in a chain, and the nodes."""
        device, pointer, host = self.device, self.memory(), self.host.ctypes.data
        graph = device.graph_create()
        row = (SIZE, 1, 1)
        child = device.graph_create()
        device.graph_add_node(child, [], Content(NodeKind.MEMSET, memset=MemsetContent(pointer, 5, 16)))
        nodes: list[int] = []
        for content, function in (
            (Content(NodeKind.EMPTY), None),
            (Content(NodeKind.MEMCPY, copy=CopyContent((pointer, SIZE, SIZE), (host, SIZE, SIZE), row)), None),
            (self.launch_content(pointer), None),
            (Content(NodeKind.MEMSET, memset=MemsetContent(pointer + 256, 3, 8, 4)), None),
            (Content(NodeKind.HOST), lambda: self.kept.append(1)),
            (Content(NodeKind.EVENT_RECORD, event=device.event_create()), None),
            (Content(NodeKind.WAIT_EVENT, event=self.recorded_event()), None),
            (Content(NodeKind.GRAPH, graph=child), None),
        ):
            nodes.append(device.graph_add_node(graph, nodes[-1:], content, function))
        return graph, nodes

    def launch_memory(self) -> None:
        """Memory of a graph, by nodes and captured, freed in the graph and by calls, left to the next launch."""
        device, stream = self.device, self.device.stream_create(1)
        graph = device.graph_create()
        node = device.graph_add_node(graph, [], Content(NodeKind.MEM_ALLOC, allocation=AllocationContent(0, SIZE)))
        made = device.graph_node_content(node, NodeKind.MEM_ALLOC).allocation
        assert made is not None
        device.graph_add_node(graph, [node], Content(NodeKind.MEMSET, memset=MemsetContent(made.pointer, 5, SIZE)))
        executable = device.graph_instantiate(graph, 1)
        for _ in range(2):
            device.graph_launch(executable, stream)
        device.memcpy(self.memory(), made.pointer, SIZE, 3, stream, True)
        device.free_async(made.pointer, stream)
        device.capture_begin(stream, 2)
        pointer = device.malloc_async(SIZE, stream)
        device.memset(pointer, 4, SIZE, stream, True)
        device.free_async(pointer, stream)
        device.graph_launch(device.graph_instantiate(device.capture_end(stream)), stream)
        device.graph_launch(executable)
        device.free(made.pointer)

    def loop(self) -> None:
        """A WHILE node whose body runs three times."""
        device, counter = self.device, self.memory(4)
        device.memset(counter, 0, 4)
        module = device.load_module(compile(COUNTING))
        graph = device.graph_create()
        handle = device.graph_conditional_handle(graph, 1, 1)
        wanted = Content(NodeKind.CONDITIONAL, conditional=ConditionalContent(handle, 1))
        (body,) = device.graph_bodies(device.graph_add_node(graph, [], wanted))
        launch = KernelContent(
            device.get_function(module, "count"), (1, 1, 1), (1, 1, 1), struct.pack("QQ", handle, counter)
        )
        device.graph_add_node(body, [], Content(NodeKind.KERNEL, launch))
        device.graph_launch(device.graph_instantiate(graph))

    def kernel_node(self) -> int:
        return self.graph()[1][2]

    def user_object(self) -> int:
        return self.device.user_object_create(lambda: self.kept.append(1), 1, 1)

    def held_object(self) -> tuple[int, int]:
        """A graph that holds the two references that there are to an object."""
        graph, made = self.graph()[0], self.user_object()
        self.device.graph_retain_object(graph, made, 1, 0)
        self.device.graph_retain_object(graph, made, 1, 1)
        return graph, made

    def launch_content(self, pointer: int) -> Content:
        return Content(
            NodeKind.KERNEL, KernelContent(self.function(), (1, 1, 1), (32, 1, 1), struct.pack("Q", pointer))
        )

    def executable(self) -> int:
        return self.device.graph_instantiate(self.graph()[0])

    def launch_graph(self) -> None:
        executable, stream = self.executable(), self.device.stream_create(1)
        self.device.graph_launch(executable, stream)
        self.device.graph_launch(executable)

    def capture(self) -> tuple[int, int]:
        """A capturing stream with work of most kinds: the stream, and another one that it was forked to."""
        device, pointer, function = self.device, self.memory(), self.function()
        stream, other, event = device.stream_create(1), device.stream_create(1), device.event_create()
        device.capture_begin(stream, 2)
        device.launch(function, (1, 1, 1), (32, 1, 1), struct.pack("Q", pointer), 0, stream)
        device.memcpy(pointer, self.host.ctypes.data, SIZE, 4, stream, True)
        device.event_record(event, stream)
        device.stream_wait_event(other, event)
        device.memset(pointer + 64, 1, 64, other, True)
        device.launch_host_function(lambda: self.kept.append(1), stream)
        device.event_record(event, other)
        device.stream_wait_event(stream, event)
        return stream, other

    def in_capture(self, call: Callable[[Device, int], Any]) -> None:
        """A call about a capturing stream."""
        stream, _ = self.capture()
        call(self.device, stream)
        self.device.stream_destroy(stream)

    def captured(self) -> None:
        device = self.device
        graph = device.capture_end(self.capture()[0])
        device.graph_launch(device.graph_instantiate(graph), device.stream_create(1))

    def capture_array_function(self) -> None:
        device, pointer, stream = self.device, self.memory(64), self.device.stream_create(1)

        def work() -> None:
            np.frombuffer(device.view(pointer, 64), np.uint8)[:] += 1

        device.capture_begin(stream)
        device.array_operation("increment", work, [(pointer, 64)], [(pointer, 64)], stream)
        executable = device.graph_instantiate(device.capture_end(stream))
        device.synchronize()
        for _ in range(3):
            device.graph_launch(executable, stream)

    def update(self) -> None:
        device = self.device
        graph, nodes = self.graph()
        executable = device.graph_instantiate(graph)
        device.graph_set_content(nodes[2], self.launch_content(self.memory()))
        device.graph_exec_update(executable, graph)
        device.graph_launch(executable)


def copied(kit: Kit) -> None:
    """Each way that bytes go, blocking and not."""
    device, pointer, host = kit.device, kit.memory(), kit.host.ctypes.data
    pinned = device.malloc_host(SIZE)
    kit.device.view(pinned, SIZE)[:] = bytes(SIZE)
    for asynchronous in (False, True):
        for dst, src in ((pointer, host), (pointer, pinned), (host, pointer), (pinned, pointer), (host, pinned)):
            device.memcpy(dst, src, SIZE, 4, 0, asynchronous)
    device.memcpy(pointer, pointer + SIZE // 2, SIZE // 2, 3)


def released(kit: Kit) -> None:
    """A context that only the driver API uses: it is destroyed with its last owner, who waits for what it does."""
    kit.device.reset()
    kit.device.retain_context()
    kit.device.set_current_context(kit.device.contexts[0].handle)
    with kit.device.driver_call():
        kit.memory(1 << 24)
        kit.device.release_context()


def across(kit: Kit) -> None:
    """Access to a peer, a copy to it, and a kernel that reads it."""
    device = kit.device
    here = kit.memory()
    device.set_device(1)
    there = kit.memory()
    device.set_device(0)
    device.memcpy_peer(there, 1, here, 0, SIZE)
    device.memcpy_peer(device.malloc_managed(SIZE), 0, there, 1, SIZE)
    device.enable_peer_access(1)
    device.memcpy_peer(here, 0, there, 1, SIZE, device.stream_create(1), True)
    device.launch(kit.function(), (1, 1, 1), (32, 1, 1), struct.pack("Q", there))
    kit.keep_busy()
    device.disable_peer_access(1)


def stacked(kit: Kit) -> None:
    """The stack of contexts of the host thread."""
    device = kit.device
    device.push_context(device.contexts[0].handle)
    device.set_current_context(0)
    device.pop_context()
    device.pop_context()


PROGRAMS: dict[str, Callable[[Kit], Any]] = {
    "add_callback": lambda kit: kit.device.add_callback(kit.kept.append),
    "advise": lambda kit: kit.device.advise(
        kit.device.malloc_managed(SIZE), SIZE, int(cudaMemoryAdvise.cudaMemAdviseSetReadMostly), *ON_DEVICE
    ),
    "array_info": lambda kit: kit.device.array_info(kit.array()),
    "array_operation": Kit.square,
    "attach": Kit.attach,
    "attribute": lambda kit: kit.device.attribute(int(cudaDeviceAttr.cudaDevAttrWarpSize)),
    "available_shared": lambda kit: kit.device.available_shared(kit.function(), 2, 256),
    "best_block_size": lambda kit: kit.device.best_block_size(kit.function()),
    "can_access_peer": lambda kit: kit.device.can_access_peer(0, 0),
    "capture_begin": Kit.captured,
    "capture_begin_to_graph": lambda kit: (
        made := kit.graph(),
        stream := kit.device.stream_create(1),
        kit.device.capture_begin_to_graph(stream, made[0], made[1][-1:]),
        kit.device.capture_end(stream),
    ),
    "capture_end": Kit.capture_array_function,
    "capture_info": lambda kit: kit.in_capture(lambda device, stream: device.capture_info(stream)),
    "capture_mode": lambda kit: kit.device.capture_mode(1),
    "capture_update_dependencies": lambda kit: kit.in_capture(
        lambda device, stream: device.capture_update_dependencies(stream, [], 1)
    ),
    "cluster_occupancy": lambda kit: kit.device.cluster_occupancy(kit.function(), (8, 1, 1), (32, 1, 1), 0, (2, 1, 1)),
    "create_surface": lambda kit: kit.device.create_surface(kit.array()),
    "create_texture": Kit.linear_texture,
    "current_pool": lambda kit: kit.device.current_pool(),
    "default_pool": lambda kit: kit.device.default_pool(),
    "destroy_surface": lambda kit: kit.device.destroy_surface(kit.device.create_surface(kit.array())),
    "destroy_texture": lambda kit: kit.device.destroy_texture(kit.device.create_texture(kit.array(), (1, 1, 1))),
    "disable_peer_access": across,
    "enable_peer_access": across,
    "event_create": lambda kit: kit.device.event_create(2),
    "event_destroy": lambda kit: kit.device.event_destroy(kit.recorded_event()),
    "event_elapsed": lambda kit: (
        kit.launch(),
        events := (kit.recorded_event(), kit.memory(1 << 20), kit.recorded_event()),
        kit.device.synchronize(),
        kit.device.event_elapsed(events[0], events[2]),
    ),
    "event_query": lambda kit: (kit.memory(1 << 24), kit.device.event_query(kit.recorded_event())),
    "event_record": lambda kit: kit.device.event_record(kit.device.event_create(), kit.device.stream_create()),
    "event_synchronize": lambda kit: (kit.memory(1 << 24), kit.device.event_synchronize(kit.recorded_event())),
    "free": lambda kit: kit.device.free(kit.memory()),
    "free_array": lambda kit: kit.device.free_array(kit.array()),
    "free_async": lambda kit: kit.device.free_async(kit.memory()),
    "free_host": lambda kit: (kit.memory(1 << 24), kit.device.free_host(kit.device.malloc_host(SIZE))),
    "function_set_attribute": lambda kit: kit.device.function_set_attribute(kit.function(), 8, 100_000),
    "get_cache_config": lambda kit: kit.device.get_cache_config(),
    "get_flags": lambda kit: kit.device.get_flags(),
    "get_function": Kit.function,
    "get_global": lambda kit: kit.device.get_global(kit.device.load_module(compile(SOURCE)), "factor"),
    "get_last_error": lambda kit: (fails(kit), kit.device.get_last_error()),
    "get_limit": lambda kit: kit.device.get_limit(int(cudaLimit.cudaLimitStackSize)),
    "graph_add_dependencies": lambda kit: (
        graph := kit.device.graph_create(),
        nodes := [kit.device.graph_add_node(graph, [], Content(NodeKind.EMPTY)) for _ in range(2)],
        kit.device.graph_add_dependencies(graph, nodes[:1], nodes[1:]),
    ),
    "graph_add_node": Kit.launch_graph,
    "graph_child": lambda kit: kit.device.graph_child(kit.graph()[1][-1]),
    "graph_clone": lambda kit: kit.device.graph_clone(kit.graph()[0]),
    "graph_conditional_handle": lambda kit: kit.loop(),
    "graph_create": lambda kit: kit.device.graph_create(),
    "graph_dependencies": lambda kit: kit.device.graph_dependencies(kit.graph()[1][2]),
    "graph_dependents": lambda kit: kit.device.graph_dependents(kit.graph()[1][2]),
    "graph_destroy": lambda kit: kit.device.graph_destroy(kit.graph()[0]),
    "graph_destroy_node": lambda kit: kit.device.graph_destroy_node(kit.graph()[1][-1]),
    "graph_dot": lambda kit: kit.device.graph_dot(kit.device.graph_create()),
    "graph_edges": lambda kit: kit.device.graph_edges(kit.graph()[0]),
    "graph_exec_destroy": lambda kit: kit.device.graph_exec_destroy(kit.executable()),
    "graph_exec_flags": lambda kit: kit.device.graph_exec_flags(kit.executable()),
    "graph_exec_get_id": lambda kit: kit.device.graph_exec_get_id(kit.executable()),
    "graph_exec_set_content": lambda kit: (
        made := kit.graph(),
        executable := kit.device.graph_instantiate(made[0]),
        kit.device.graph_exec_set_content(executable, made[1][2], kit.launch_content(kit.memory())),
        kit.device.graph_launch(executable),
    ),
    "graph_exec_update": Kit.update,
    "graph_find_in_clone": lambda kit: (
        made := kit.graph(),
        kit.device.graph_find_in_clone(made[1][0], kit.device.graph_clone(made[0])),
    ),
    "graph_get_enabled": lambda kit: (
        made := kit.graph(),
        kit.device.graph_get_enabled(kit.device.graph_instantiate(made[0]), made[1][2]),
    ),
    "graph_get_id": lambda kit: kit.device.graph_get_id(kit.graph()[0]),
    "graph_instantiate": Kit.executable,
    "graph_launch": Kit.launch_graph,
    "graph_node_attribute": lambda kit: kit.device.graph_node_attribute(kit.kernel_node(), stream_attributes.PRIORITY),
    "graph_node_content": lambda kit: kit.device.graph_node_content(kit.graph()[1][2], int(NodeKind.KERNEL)),
    "graph_node_copy_attributes": lambda kit: (
        node := kit.kernel_node(),
        kit.device.graph_node_copy_attributes(node, node),
    ),
    "graph_node_number": lambda kit: kit.device.graph_node_number(kit.graph()[1][1]),
    "graph_node_set_attribute": lambda kit: (
        node := kit.kernel_node(),
        kit.device.graph_node_set_attribute(node, stream_attributes.WINDOW, (kit.memory(), SIZE, 0.5, 2, 1)),
        kit.device.graph_node_set_attribute(node, node_attributes.CLUSTER, (1, 1, 1)),
        kit.device.graph_launch(kit.device.graph_instantiate(kit.device.graph_of_node(node), 8)),
    ),
    "graph_node_type": lambda kit: kit.device.graph_node_type(kit.graph()[1][1]),
    "graph_memory_attribute": lambda kit: (kit.launch_memory(), kit.device.graph_memory_attribute(0, 1)),
    "graph_memory_set_attribute": lambda kit: (
        kit.launch_memory(),
        kit.device.graph_memory_set_attribute(0, 1, 0),
        kit.device.graph_memory_attribute(0, 1),
    ),
    "graph_memory_trim": lambda kit: (kit.launch_memory(), kit.device.graph_memory_trim(0)),
    "graph_nodes": lambda kit: kit.device.graph_nodes(kit.graph()[0]),
    "graph_of_node": lambda kit: kit.device.graph_of_node(kit.graph()[1][0]),
    "graph_remove_dependencies": lambda kit: (
        made := kit.graph(),
        kit.device.graph_remove_dependencies(made[0], made[1][:1], made[1][1:2]),
    ),
    "graph_release_object": lambda kit: (
        made := kit.held_object(),
        kit.device.graph_release_object(made[0], made[1], 1),
        kit.device.graph_destroy(made[0]),
    ),
    "graph_retain_object": lambda kit: (
        made := kit.held_object(),
        kit.device.graph_exec_destroy(kit.device.graph_instantiate(kit.device.graph_clone(made[0]))),
    ),
    "graph_root_nodes": lambda kit: kit.device.graph_root_nodes(kit.graph()[0]),
    "graph_set_content": Kit.update,
    "graph_set_enabled": lambda kit: (
        made := kit.graph(),
        executable := kit.device.graph_instantiate(made[0]),
        kit.device.graph_set_enabled(executable, made[1][2], False),
        kit.device.graph_launch(executable),
    ),
    "graph_upload": lambda kit: kit.device.graph_upload(kit.executable()),
    "host_get_device_pointer": lambda kit: kit.device.host_get_device_pointer(kit.device.malloc_host(SIZE)),
    "host_get_flags": lambda kit: kit.device.host_get_flags(kit.device.malloc_host(SIZE)),
    "host_register": Kit.register,
    "host_unregister": Kit.unregister,
    "host_work": lambda kit: kit.device.host_work(1000),
    "largest_cluster": lambda kit: kit.device.largest_cluster(kit.function(), (32, 1, 1), 0),
    "initialize": lambda kit: kit.device.initialize(),
    "launch": Kit.launch,
    "launch_host_function": lambda kit: kit.device.launch_host_function(lambda: kit.kept.append(1)),
    "library_work": lambda kit: kit.device.library_work(1000),
    "link_attribute": lambda kit: kit.device.link_attribute(1, 0, 1),
    "load_module": lambda kit: (kit.memory(1 << 24), kit.device.load_module(compile(SOURCE))),
    "malloc": Kit.memory,
    "malloc_3d": lambda kit: kit.device.malloc_3d(100, 3, 2),
    "malloc_array": Kit.array,
    "malloc_async": lambda kit: kit.device.malloc_async(SIZE),
    "malloc_from_pool": lambda kit: kit.device.malloc_from_pool(SIZE, kit.pool()),
    "malloc_host": lambda kit: kit.device.malloc_host(SIZE),
    "malloc_managed": lambda kit: kit.device.malloc_managed(SIZE),
    "malloc_pitch": lambda kit: kit.device.malloc_pitch(100, 3),
    "memcpy": copied,
    "memcpy_2d": lambda kit: kit.device.memcpy_2d(kit.memory(), 64, kit.host.ctypes.data, 32, 32, 8),
    "memcpy_3d": lambda kit: kit.device.memcpy_3d((kit.memory(), 64, 256), (kit.host.ctypes.data, 32, 128), (32, 4, 2)),
    "memcpy_array": lambda kit: kit.device.memcpy_array((kit.memory(), 64, 512), (kit.array(), 0, 0, 0), (64, 8, 1)),
    "memcpy_peer": across,
    "memory_info": lambda kit: kit.device.memory_info(),
    "memset": lambda kit: kit.device.memset(kit.device.malloc_managed(SIZE), 3, SIZE // 4, element=4),
    "memset_3d": lambda kit: kit.device.memset_3d(kit.device.malloc_host(SIZE), 64, 512, 1, (32, 8, 2)),
    "occupancy": lambda kit: kit.device.occupancy(kit.function(), 256),
    "pop_context": stacked,
    "push_context": stacked,
    "set_current_context": stacked,
    "stream_get_device": lambda kit: kit.device.stream_get_device(kit.device.stream_create()),
    "peek_at_last_error": lambda kit: (fails(kit), kit.device.peek_at_last_error()),
    "pointer_attributes": lambda kit: kit.device.pointer_attributes(kit.device.malloc_host(SIZE) + 8),
    "pool_create": Kit.pool,
    "pool_destroy": lambda kit: kit.device.pool_destroy(kit.pool()),
    "pool_get_access": lambda kit: kit.device.pool_get_access(kit.pool(), *ON_DEVICE),
    "pool_get_attribute": lambda kit: kit.device.pool_get_attribute(
        kit.pool(), int(cudaMemPoolAttr.cudaMemPoolAttrUsedMemCurrent)
    ),
    "pool_set_access": lambda kit: kit.device.pool_set_access(kit.pool(), [(*ON_DEVICE, 3)]),
    "pool_set_attribute": lambda kit: kit.device.pool_set_attribute(
        kit.pool(), int(cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold), 1 << 64 - 1
    ),
    "pool_trim": lambda kit: kit.device.pool_trim(kit.pool(), 0),
    "prefetch": lambda kit: kit.device.prefetch(kit.device.malloc_managed(SIZE), SIZE, *ON_DEVICE),
    "range_attribute": lambda kit: kit.device.range_attribute(
        int(cudaMemRangeAttribute.cudaMemRangeAttributeReadMostly), kit.device.malloc_managed(SIZE), SIZE
    ),
    "release_context": released,
    "reset": lambda kit: (kit.memory(1 << 24), kit.device.reset()),
    "set_cache_config": lambda kit: kit.device.set_cache_config(2),
    "set_current_pool": lambda kit: kit.device.set_current_pool(kit.pool()),
    "reset_persisting_l2": lambda kit: kit.device.reset_persisting_l2(),
    "retain_context": lambda kit: kit.device.retain_context(),
    "set_device": lambda kit: kit.device.set_device(),
    "set_flags": lambda kit: kit.device.set_flags(1),
    "set_limit": lambda kit: (kit.memory(1 << 24), kit.device.set_limit(int(cudaLimit.cudaLimitStackSize), 2048)),
    "stream_copy_attributes": lambda kit: kit.device.stream_copy_attributes(kit.device.stream_create(), 0),
    "stream_create": lambda kit: kit.device.stream_create(1, -1),
    "stream_destroy": lambda kit: kit.device.stream_destroy(kit.device.stream_create()),
    "stream_get_attribute": Kit.window,
    "stream_get_flags": lambda kit: kit.device.stream_get_flags(kit.device.stream_create(1)),
    "stream_get_id": lambda kit: kit.device.stream_get_id(kit.device.stream_create()),
    "stream_get_priority": lambda kit: kit.device.stream_get_priority(kit.device.stream_create(0, -1)),
    "stream_priority_range": lambda kit: kit.device.stream_priority_range(),
    "stream_is_capturing": lambda kit: kit.in_capture(lambda device, stream: device.stream_is_capturing(stream)),
    "stream_query": lambda kit: (kit.memory(1 << 24), kit.device.stream_query()),
    "stream_set_attribute": Kit.window,
    "stream_synchronize": lambda kit: (kit.memory(1 << 24), kit.device.stream_synchronize()),
    "stream_wait_event": lambda kit: kit.device.stream_wait_event(kit.device.stream_create(), kit.recorded_event()),
    "stream_wait_value": Kit.wait_for_value,
    "stream_write_value": Kit.wait_for_value,
    "synchronize": lambda kit: (kit.memory(1 << 24), kit.device.synchronize()),
    "unload_module": Kit.unload,
    "user_object_create": lambda kit: kit.user_object(),
    "user_object_release": lambda kit: kit.device.user_object_release(kit.user_object(), 1),
    "user_object_retain": lambda kit: kit.device.user_object_retain(kit.user_object(), 2),
}


PROFILES = dict.fromkeys(("disable_peer_access", "enable_peer_access", "link_attribute", "memcpy_peer"), "h200-x2")
"""Of programs that take two devices."""


def kit_for(name: str) -> Kit:
    return Kit(PROFILES.get(name, "h200"))


def fails(kit: Kit) -> None:
    """Calls that return an error: one of the runtime's, and one of the driver's, which is not the runtime's last."""
    with pytest.raises(CudaError):
        kit.device.set_limit(99, 1)
    with kit.device.driver_call(), pytest.raises(CudaError):
        kit.device.unload_module(12345)


class Place:
    """Addresses as the number of the allocation and the offset in it: the same in every process."""

    def __init__(self, log: Log) -> None:
        self._ranges = list(enumerate(log.allocations))[::-1]

    def address(self, address: int) -> object:
        for number, (start, size) in self._ranges:
            if start <= address <= start + size:
                return number, address - start
        return address

    def packed(self, data: bytes) -> object:
        return [self.address(int(word)) for word in np.frombuffer(data[: len(data) // 8 * 8], np.uint64)]

    def text(self, name: str) -> str:
        return re.sub(r"0x[0-9a-f]+", lambda found: str(self.address(int(found[0], 16))), name)


def outcomes(log: Log) -> list[object]:
    """What each call was given and returned, and the clock after it."""
    place, rows = Place(log), []
    for entry in log.entries:
        call = CALLS[entry.name]
        given = {
            name: relocated(revived(value, call.parameters[name]), call.parameters[name], place)
            for name, value in entry.arguments.items()
            if name not in ("program",)
        }
        result = None
        if entry.result is not None:
            result = relocated(revived(entry.result, call.result), call.result, place)
        rows.append((entry.name, given, result, entry.error, entry.host_ns, entry.brought))
    return rows


def spans(log: Log) -> list[tuple[object, ...]]:
    place = Place(log)
    return [(number, kind, place.text(name), start, end) for number, kind, name, start, end in log.spans]


def contents(device: Device) -> list[tuple[str, int, bytes]]:
    return [(a.kind, a.size, bytes(device.view(a.pointer, a.size))) for a in device.memory if a.kind != "heap"]


def assert_replays(device: Device) -> Device:
    twin = replay(Log.from_bytes(device.log.to_bytes()))
    assert outcomes(twin.log) == outcomes(device.log)
    assert spans(twin.log) == spans(device.log)
    assert twin.clock_ns == device.clock_ns
    assert contents(twin) == contents(device)
    for table in ("taken", "written", "delivered"):
        one, other = getattr(device.log, table), getattr(twin.log, table)
        assert {key: [data for _, data in value] for key, value in one.items()} == {
            key: [data for _, data in value] for key, value in other.items()
        }
    return twin


@pytest.mark.parametrize("name", CALLS)
def test_replays(name: str) -> None:
    assert name in PROGRAMS, f"the call {name} needs a program here"
    kit = kit_for(name)
    PROGRAMS[name](kit)
    assert name in [entry.name for entry in kit.device.log.entries if not entry.error]
    kit.device.synchronize()
    assert_replays(kit.device)


def test_no_program_for_what_is_no_call() -> None:
    assert PROGRAMS.keys() == CALLS.keys()


def nonsense(kind: Any) -> Any:
    """A value of the type that is no address, handle or flag of the device; None where there is none such."""
    wide = [0xBAD, 0xBAD, 0xBAD]
    for sample in (0xBAD, True, "bad", b"bad", [wide], [0xBAD], [0xBAD, 0xBAD], wide, [[32, 0, 0, 0], 2]):
        try:
            return revived(sample, kind)
        except (msgspec.ValidationError, TypeError):
            continue
    return None


def refusable() -> list[str]:
    """Calls of which every parameter has a value that names nothing; a program or a function has none."""
    return [
        name
        for name, call in CALLS.items()
        if call.parameters and None not in [nonsense(kind) for kind in call.parameters.values()]
    ]


@pytest.mark.parametrize("name", refusable())
def test_refused_arguments_replay(name: str) -> None:
    """Numbers that name nothing: whatever the call answers, the replay answers, too."""
    kit, call = Kit(), CALLS[name]
    given = {parameter: nonsense(kind) for parameter, kind in call.parameters.items()}
    try:
        getattr(kit.device, name)(**given)
    except CudaError as error:
        assert kit.device.log.entries[-1].error == int(error.code)
    assert_replays(kit.device)


def test_sequences_come_back_as_they_were_declared() -> None:
    kinds = CALLS["array_operation"].parameters
    exact = (((4, 4, ((100, 16), (10, 1600))),), ())
    place = Place(Log("h200", capacity=1 << 30))
    for value, name in ((exact, "exact"), ([(4, 8)], "reads")):
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(plain(value)))
        assert relocated(revived(stored, kinds[name]), kinds[name], place) == value


class Blocked(Observer):
    """Which calls kept the host until work had ended."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.blocked = False

    def called(self, call: Call, place: object, start: int, end: int) -> None:
        if self.blocked:
            self.names.add(call.name)
        self.blocked = False


def test_calls_wait_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked, run_while = Blocked(), Scheduler._run_while

    def observed(scheduler: Scheduler, pending: Callable[[], bool]) -> int:
        blocked.blocked = True
        return run_while(scheduler, pending)

    monkeypatch.setattr(Scheduler, "_run_while", observed)
    for name, program in PROGRAMS.items():
        kit = kit_for(name)
        kit.device.observers.append(blocked)
        kit.keep_busy()
        program(kit)
    kit.device.settings.launch_blocking = True
    kit.launch()
    kit.square()
    assert blocked.names == {name for name, call in CALLS.items() if call.waits is not Waits.NOTHING}


@pytest.mark.parametrize("name", CALLS)
def test_names_are_those_of_cuda(name: str) -> None:
    for title in CALLS[name].cuda:
        real, simulated = (runtime, cudart) if title.startswith("cuda") else (driver, sim_driver)
        assert hasattr(real, title) and hasattr(simulated, title), title
