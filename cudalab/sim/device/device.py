"""The simulated machine: its runtime calls, and what can be asked of it without a call.

``cudalab.sim.cudart``, ``cudalab.sim.driver`` and ``cudalab.sim.cupy`` are thin layers over it. Units: bytes, and ns of
modelled time. Pointers and handles are plain integers. Errors are :class:`CudaError`, with the code that the real call
returns and a note.

The calls are defined and declared in groups over one :class:`DeviceState`, one module of ``calls/`` each. A device
makes the groups and offers their methods as its own: ``device.malloc`` is ``MemoryCalls.malloc``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cuda.bindings.runtime import cudaError_t

from cudalab.sim import interrupts
from cudalab.sim.device.calls.allocator import Allocator
from cudalab.sim.device.calls.copies import CopyCalls
from cudalab.sim.device.calls.device import DeviceCalls
from cudalab.sim.device.calls.graphs.conditional_nodes import ConditionalCalls
from cudalab.sim.device.calls.graphs.graph_execution import GraphExecutionCalls
from cudalab.sim.device.calls.graphs.graph_memory import GraphMemoryCalls
from cudalab.sim.device.calls.graphs.graph_parameters import GraphParameterCalls
from cudalab.sim.device.calls.graphs.graph_work import WorkMaker
from cudalab.sim.device.calls.graphs.graphs import GraphCalls
from cudalab.sim.device.calls.graphs.node_attributes import NodeAttributeCalls
from cudalab.sim.device.calls.graphs.stream_capture import StreamCaptureCalls
from cudalab.sim.device.calls.graphs.user_objects import UserObjectCalls
from cudalab.sim.device.calls.kernels import FunctionInfo, KernelCalls
from cudalab.sim.device.calls.launch_times import LaunchTimes
from cudalab.sim.device.calls.managed_memory import ManagedCalls
from cudalab.sim.device.calls.memory import MemoryCalls
from cudalab.sim.device.calls.peers import PeerCalls
from cudalab.sim.device.calls.pools import PoolCalls
from cudalab.sim.device.calls.stream_attributes import StreamAttributeCalls
from cudalab.sim.device.calls.stream_values import StreamValueCalls
from cudalab.sim.device.calls.streams import StreamCalls
from cudalab.sim.device.calls.textures import TextureCalls
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.hazards import Hazard
from cudalab.sim.device.log.log import Log
from cudalab.sim.device.log.recorder import Recorder
from cudalab.sim.device.profile import Profile, load
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.state import DeviceState, Settings
from cudalab.sim.device.timing.cost import KernelTime as LaunchTime
from cudalab.sim.machine.memory.allocations import Memory

__all__ = ["Device", "FunctionInfo", "LaunchTime"]


class Device:
    """One simulated machine with one device, or as many as the profile says (``context.py``).

    ``profile`` names a file in ``profiles/``; ``memory`` is made new unless given; ``record`` switches the recording of
    calls on (``device.log``); ``hazards`` the report of unordered operations on the same bytes. RuntimeError while the
    process is to keep the device that it has (``current.hold_device``).
    """

    held = False
    """Can no other device be made in this process now?"""

    def __init__(
        self,
        profile: str | Profile = "h200",
        *,
        memory: Memory | None = None,
        settings: Settings | None = None,
        record: bool = False,
        hazards: bool = True,
    ) -> None:
        self.refuse_another()
        interrupts.install()
        self.profile = load(profile) if isinstance(profile, str) else profile
        self.memory = memory if memory is not None else Memory()
        self.settings = settings if settings is not None else Settings()
        recorder = Recorder(self.profile.name, self.memory.capacity, on=record)
        self.state = state = DeviceState(self.profile, self.memory, self.settings, recorder, hazards=hazards)
        self.limits = state.limits
        self.observers = state.observers
        """Who is told of calls and operations."""
        self.hazard_report = state.hazard_report
        """What finds unordered operations; None when the device was made with ``hazards=False``."""
        self.when_free = state.lock.later
        """For destructors: do an action, which must not raise, now or when the call that is under way has ended."""
        self.check_thread = state.check_thread
        self.driver_call = state.errors.driver_call

        device = DeviceCalls(state)
        self.contexts = state.contexts
        """The devices' primary contexts, and which are current."""
        self.synchronize = device.synchronize
        self.initialize = device.initialize
        self.set_device = device.set_device
        self.set_current_context = device.set_current_context
        self.push_context = device.push_context
        self.pop_context = device.pop_context
        self.retain_context = device.retain_context
        self.release_context = device.release_context
        self.reset = device.reset
        self.host_work = device.host_work
        self.library_work = device.library_time
        self.get_last_error = device.get_last_error
        self.peek_at_last_error = device.peek_at_last_error
        self.attribute = device.attribute
        self.get_limit = device.get_limit
        self.set_limit = device.set_limit
        self.reset_persisting_l2 = device.reset_persisting_l2
        self.get_flags = device.get_flags
        self.set_flags = device.set_flags
        self.get_cache_config = device.get_cache_config
        self.set_cache_config = device.set_cache_config

        allocator = Allocator(state)
        graph_memory = GraphMemoryCalls(state, allocator)
        self.graph_memory_trim = graph_memory.graph_memory_trim
        self.graph_memory_attribute = graph_memory.graph_memory_attribute
        self.graph_memory_set_attribute = graph_memory.graph_memory_set_attribute

        pools = PoolCalls(state, allocator, graph_memory)
        self.malloc_async = pools.malloc_async
        self.malloc_from_pool = pools.malloc_from_pool
        self.free_async = pools.free_async
        self.pool_create = pools.pool_create
        self.pool_destroy = pools.pool_destroy
        self.pool_get_attribute = pools.pool_get_attribute
        self.pool_set_attribute = pools.pool_set_attribute
        self.pool_trim = pools.pool_trim
        self.pool_set_access = pools.pool_set_access
        self.pool_get_access = pools.pool_get_access
        self.default_pool = pools.default_pool
        self.current_pool = pools.current_pool
        self.set_current_pool = pools.set_current_pool
        self.pool_of = pools.pool_of

        memory_calls = MemoryCalls(state, allocator, pools)
        self.malloc = memory_calls.malloc
        self.free = memory_calls.free
        self.malloc_pitch = memory_calls.malloc_pitch
        self.malloc_3d = memory_calls.malloc_3d
        self.malloc_managed = memory_calls.malloc_managed
        self.malloc_host = memory_calls.malloc_host
        self.free_host = memory_calls.free_host
        self.host_register = memory_calls.host_register
        self.host_unregister = memory_calls.host_unregister
        self.host_get_device_pointer = memory_calls.host_get_device_pointer
        self.host_get_flags = memory_calls.host_get_flags
        self.memory_info = memory_calls.memory_info
        self.pointer_attributes = memory_calls.pointer_attributes
        self.buffer_id = memory_calls.buffer_id
        self.address_range = memory_calls.address_range

        managed = ManagedCalls(state, allocator)
        self.prefetch = managed.prefetch
        self.advise = managed.advise
        self.range_attribute = managed.range_attribute
        self.attach = managed.attach

        copies = CopyCalls(state)
        self.memcpy = copies.memcpy
        self.memcpy_2d = copies.memcpy_2d
        self.memcpy_3d = copies.memcpy_3d
        self.memset = copies.memset
        self.memset_3d = copies.memset_3d

        peers = PeerCalls(state, copies)
        self.can_access_peer = peers.can_access_peer
        self.link_attribute = peers.link_attribute
        self.enable_peer_access = peers.enable_peer_access
        self.disable_peer_access = peers.disable_peer_access
        self.memcpy_peer = peers.memcpy_peer

        streams = StreamCalls(state)
        self.stream_get_device = streams.stream_get_device
        self.stream_create = streams.stream_create
        self.stream_destroy = streams.stream_destroy
        self.stream_synchronize = streams.stream_synchronize
        self.stream_query = streams.stream_query
        self.stream_wait_event = streams.stream_wait_event
        self.stream_get_flags = streams.stream_get_flags
        self.stream_get_priority = streams.stream_get_priority
        self.stream_get_id = streams.stream_get_id
        self.stream_priority_range = streams.stream_priority_range
        self.launch_host_function = streams.launch_host_function
        self.add_callback = streams.add_callback
        self.event_create = streams.event_create
        self.event_destroy = streams.event_destroy
        self.event_record = streams.event_record
        self.event_query = streams.event_query
        self.event_synchronize = streams.event_synchronize
        self.event_elapsed = streams.event_elapsed

        attributes = StreamAttributeCalls(state)
        self.stream_get_attribute = attributes.stream_get_attribute
        self.stream_set_attribute = attributes.stream_set_attribute
        self.stream_copy_attributes = attributes.stream_copy_attributes

        values = StreamValueCalls(state)
        self.stream_write_value = values.stream_write_value
        self.stream_wait_value = values.stream_wait_value

        textures = TextureCalls(state, allocator, copies)
        self.malloc_array = textures.malloc_array
        self.free_array = textures.free_array
        self.array_info = textures.array_info
        self.memcpy_array = textures.memcpy_array
        self.create_texture = textures.create_texture
        self.destroy_texture = textures.destroy_texture
        self.create_surface = textures.create_surface
        self.destroy_surface = textures.destroy_surface
        self.check_channels = textures.check_channels
        self.image = textures.image
        self.array_of = textures.array_of

        kernels = KernelCalls(state, textures, attributes)
        self.load_module = kernels.load_module
        self.unload_module = kernels.unload_module
        self.get_function = kernels.get_function
        self.get_global = kernels.get_global
        self.function_set_attribute = kernels.function_set_attribute
        self.occupancy = kernels.occupancy
        self.cluster_occupancy = kernels.cluster_occupancy
        self.largest_cluster = kernels.largest_cluster
        self.best_block_size = kernels.best_block_size
        self.available_shared = kernels.available_shared
        self.launch = kernels.launch
        self.array_operation = kernels.array_operation
        self.function_names = kernels.function_names
        self.function_info = kernels.function_info
        self.loaded_kernel = kernels.loaded_kernel
        self.loaded_modules = kernels.loaded_modules
        times = LaunchTimes(state, kernels)
        self.time_launch = times.time_launch
        self.ends_fault = times.ends_fault
        self.l2_lookups = times.l2_lookups

        maker = WorkMaker(state, kernels, streams)
        graphs = GraphCalls(state, maker, graph_memory)
        self.graph_create = graphs.graph_create
        self.graph_destroy = graphs.graph_destroy
        self.graph_clone = graphs.graph_clone
        self.graph_get_id = graphs.graph_get_id
        self.graph_add_node = graphs.graph_add_node
        self.graph_destroy_node = graphs.graph_destroy_node
        self.graph_node_type = graphs.graph_node_type
        self.graph_node_number = graphs.graph_node_number
        self.graph_of_node = graphs.graph_of_node
        self.graph_find_in_clone = graphs.graph_find_in_clone
        self.graph_child = graphs.graph_child
        self.graph_add_dependencies = graphs.graph_add_dependencies
        self.graph_remove_dependencies = graphs.graph_remove_dependencies
        self.graph_nodes = graphs.graph_nodes
        self.graph_root_nodes = graphs.graph_root_nodes
        self.graph_edges = graphs.graph_edges
        self.graph_dependencies = graphs.graph_dependencies
        self.graph_dependents = graphs.graph_dependents
        self.graph_dot = graphs.graph_dot

        conditional = ConditionalCalls(state, graphs)
        self.graph_conditional_handle = conditional.graph_conditional_handle
        self.graph_bodies = graphs.graph_bodies

        execution = GraphExecutionCalls(state, graphs, graph_memory)
        self.graph_instantiate = execution.graph_instantiate
        self.graph_exec_destroy = execution.graph_exec_destroy
        self.graph_exec_flags = execution.graph_exec_flags
        self.graph_exec_get_id = execution.graph_exec_get_id
        self.graph_upload = execution.graph_upload
        self.graph_launch = execution.graph_launch

        node_attributes = NodeAttributeCalls(state, graphs, maker, attributes)
        self.graph_node_attribute = node_attributes.graph_node_attribute
        self.graph_node_set_attribute = node_attributes.graph_node_set_attribute
        self.graph_node_copy_attributes = node_attributes.graph_node_copy_attributes

        objects = UserObjectCalls(state, graphs)
        self.user_object_create = objects.user_object_create
        self.user_object_retain = objects.user_object_retain
        self.user_object_release = objects.user_object_release
        self.graph_retain_object = objects.graph_retain_object
        self.graph_release_object = objects.graph_release_object

        parameters = GraphParameterCalls(state, graphs, execution, maker)
        self.graph_node_content = parameters.graph_node_content
        self.graph_set_content = parameters.graph_set_content
        self.graph_exec_set_content = parameters.graph_exec_set_content
        self.graph_exec_update = parameters.graph_exec_update
        self.graph_set_enabled = parameters.graph_set_enabled
        self.graph_get_enabled = parameters.graph_get_enabled
        self.graph_update_result = parameters.graph_update_result

        capture = StreamCaptureCalls(state, graphs)
        self.capture_begin = capture.capture_begin
        self.capture_begin_to_graph = capture.capture_begin_to_graph
        self.capture_end = capture.capture_end
        self.stream_is_capturing = capture.stream_is_capturing
        self.capture_info = capture.capture_info
        self.capture_update_dependencies = capture.capture_update_dependencies
        self.capture_mode = capture.capture_mode

    # -- without a call ------------------------------------------------------------------------------------------------

    @classmethod
    def refuse_another(cls) -> None:
        """Raise RuntimeError where the process is to keep the device that it has."""
        if Device.held:
            raise RuntimeError("an answer runs on the device of its check, and gets no other")

    @property
    def count(self) -> int:
        """How many devices there are."""
        return self.profile.devices

    @property
    def properties(self) -> Mapping[str, Any]:
        """Fields of ``cudaDeviceProp`` by name; the devices of a machine differ in bus and identifier alone
        (``Profile.properties_of``)."""
        return self.profile.properties

    @property
    def clock_ns(self) -> int:
        """The modelled clock of the calling host thread, ns since the device was made."""
        return self.state.host_threads.clock()

    def view(self, address: int, size: int) -> memoryview:
        """The bytes of one device, pinned or managed allocation as they are now. Takes no modelled time; what the
        device has still to do is not in them. Raises ``InvalidPointer`` (a ``ValueError``)."""
        return self.memory.view(address, size)

    def run_ahead(self, pending: Callable[[], bool]) -> None:
        """For those who look: the host computes, from one event of the device to the next, while ``pending()``. It
        waits for nothing, so that no missing wait is hidden."""
        with self.state.lock:
            while pending() and (due := self.state.scheduler.loop.next_time) is not None:
                self.host_work(max(0, due - self.clock_ns))
                interrupts.check()

    @property
    def idle(self) -> bool:
        """Has everything that was enqueued ended?"""
        return self.state.scheduler.idle

    @property
    def capturing(self) -> bool:
        """Does any stream capture a graph?"""
        return bool(self.state.captures.active)

    @property
    def pending(self) -> list[Operation]:
        """What was enqueued and has not ended, in that order."""
        return self.state.scheduler.pending

    @property
    def lost(self) -> CudaError | None:
        """The error that every call returns now, if a kernel has failed."""
        return self.state.lost

    def fail(self, code: cudaError_t, note: str = "") -> CudaError:
        """An error that a layer above found itself: remembered as the last error; raise what is returned."""
        error = CudaError(code, note)
        self.state.errors.remember(error)
        return error

    @property
    def log(self) -> Log:
        """The recording; empty unless the device was made with ``record=True``."""
        return self.state.recorder.log

    @property
    def hazards(self) -> list[Hazard]:
        """Pairs of lines whose operations touched the same bytes without an order, as far as found by now: an operation
        is judged when it has ended."""
        return self.hazard_report.hazards if self.hazard_report is not None else []
