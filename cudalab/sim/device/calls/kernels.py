"""Modules, launches, their modelled time, and array operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.compiler import prefetch
from cudalab.sim.compiler.program import Kernel, Program
from cudalab.sim.device.calls import stream_attributes
from cudalab.sim.device.calls.access_windows import WindowFields, access_window
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.calls.launch_attributes import (
    LaunchAttributes,
    check_carveout,
    check_event,
    check_preferred,
)
from cudalab.sim.device.calls.stream_attributes import StreamAttributeCalls
from cudalab.sim.device.calls.textures import TextureCalls
from cudalab.sim.device.declaration import Address, Handle, HostCallback, InCapture, PackedBytes, Waits
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.content import Content, KernelContent, NodeKind
from cudalab.sim.device.graphs.graph import PLAIN, PROGRAMMATIC
from cudalab.sim.device.graphs.updatable import make_updatable
from cudalab.sim.device.queue.array_function import ArrayFunction
from cudalab.sim.device.queue.byte_ranges import Range, StridedRange
from cudalab.sim.device.queue.kernel_launch import KernelLaunch
from cudalab.sim.device.queue.operation import Stream
from cudalab.sim.device.queue.stream import Event
from cudalab.sim.device.state import DeviceState
from cudalab.sim.device.timing import transfers
from cudalab.sim.machine.launch.clusters import clusters_that_fit, max_active_clusters
from cudalab.sim.machine.launch.configuration import Dim3
from cudalab.sim.machine.launch.module import Launch, LoadedKernel, Module, RefusedKernel
from cudalab.sim.machine.launch.occupancy import kernel_occupancy
from cudalab.sim.machine.launch.validation import LaunchError, check_residency

_NO_ATTRIBUTES = LaunchAttributes()
_MOST_WORKS = 1024
MAX_DYNAMIC_SHARED, CARVEOUT = 8, 9  # cudaFuncAttribute, and CUfunction_attribute
REQUIRED_CLUSTER, NON_PORTABLE_CLUSTER, CLUSTER_POLICY = (11, 12, 13), 14, 15


class FunctionInfo(Struct, frozen=True):
    """What is known of a loaded kernel."""

    kernel: Kernel
    """Parameters, registers, shared memory and so on, as the compiler says."""
    module: int
    """Handle of its module."""
    max_dynamic_shared: int
    """Bytes of dynamic shared memory a launch may ask for; more after opting in."""
    preferred_carveout: int = -1
    required_cluster: Dim3 = (0, 0, 0)
    """Blocks of a cluster as the kernel, or an attribute, says; zeros when neither does."""
    non_portable_clusters: bool = False


class KernelCalls(CallGroup):
    """Modules, kernels and launches."""

    def __init__(self, state: DeviceState, textures: TextureCalls, attributes: StreamAttributeCalls) -> None:
        super().__init__(state)
        self._textures, self._attributes = textures, attributes

    def clear(self) -> None:
        self._modules: dict[int, Module] = {}
        self._functions: dict[int, tuple[int, LoadedKernel]] = {}
        self._carveouts: dict[int, int] = {}
        self._works: dict[tuple[object, ...], KernelLaunch] = {}
        """Launches without attributes, by the arguments of their call: a program's loop makes the same ones again."""
        self._handles = 0x0C00_0000

    def _handle(self) -> int:
        self._handles += 0x40
        return self._handles

    # -- modules -------------------------------------------------------------------------------------------------------

    @call("cuModuleLoadData", cost=None, waits=Waits.DEVICE)
    def load_module(self, program: Program) -> Handle:
        """Load a compiled program: a handle. Its global variables are allocated and initialised. As on an H200 this
        waits for the whole device, which no program should rely on."""
        self.state.wait_for_all(seen=False)
        handle = self._handle()
        self._modules[handle] = Module(program, self.state.memory, self.state.limits, device=self.state.contexts.number)
        prefetch(program)  # object code is made in the background until the first launch asks for it
        return handle

    @call("cuModuleUnload", waits=Waits.DEVICE, in_capture=InCapture.UNSAFE)
    def unload_module(self, module: Handle) -> None:
        """Wait for the whole device, then free the module's variables."""
        loaded = self._module(module)
        self.state.wait_for_all()
        loaded.unload()
        self.state.timer.forget()
        self._works.clear()
        del self._modules[module]
        self._functions = {handle: entry for handle, entry in self._functions.items() if entry[0] != module}

    @call("cuModuleGetFunction")
    def get_function(self, module: Handle, name: str) -> Handle:
        """A handle of the kernel called ``name``, as in the PTX or as a name expression of the program.

        ``cudaErrorSymbolNotFound`` when there is none; the note lists those there are. ``cudaErrorNotSupported`` when
        it is out of the simulated device's scope; the note says why.
        """
        loaded = self._module(module)
        try:
            kernel = loaded.kernel(name)
        except RefusedKernel as error:
            raise CudaError(cudaError_t.cudaErrorNotSupported, str(error)) from None
        except KeyError as error:
            raise CudaError(cudaError_t.cudaErrorSymbolNotFound, str(error.args[0])) from None
        for handle, (_, known) in self._functions.items():
            if known is kernel:
                return handle
        handle = self._handle()
        self._functions[handle] = (module, kernel)
        return handle

    @call("cuModuleGetGlobal")
    def get_global(self, module: Handle, name: str) -> tuple[Address, int]:
        """``(pointer, size)`` of a ``__device__`` or ``__constant__`` variable; ``cudaErrorSymbolNotFound``."""
        try:
            address, size = self._module(module).global_variable(name)
        except KeyError as error:
            raise CudaError(cudaError_t.cudaErrorSymbolNotFound, str(error.args[0])) from None
        self.state.recorder.allocated(address, size)
        return address, size

    def function_names(self, module: int) -> list[str]:
        """The kernels of a module, as in the PTX. No call, takes no modelled time."""
        return list(self._module(module).program.kernels)

    def _module(self, handle: int) -> Module:
        module = self._modules.get(handle)
        if module is None:
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                f"{handle:#x} is no module of this device; it was unloaded, or loaded before a reset",
            )
        return module

    # -- functions -----------------------------------------------------------------------------------------------------

    def _function(self, handle: int) -> LoadedKernel:
        entry = self._functions.get(handle)
        if entry is None:
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                f"{handle:#x} is no kernel of this device; its module was unloaded, or loaded before a reset",
            )
        return entry[1]

    def loaded_modules(self) -> list[Module]:
        """The machine's modules that are loaded now: for whoever tells kernels apart. No call, takes no modelled
        time."""
        return list(self._modules.values())

    def loaded_kernel(self, function: int) -> LoadedKernel:
        """The machine's kernel behind a handle: for ``profile`` and ``sanitize``. No call, takes no modelled time."""
        return self._function(function)

    def function_info(self, function: int) -> FunctionInfo:
        """What is known of a kernel. No call, takes no modelled time."""
        kernel = self._function(function)
        default = max(0, self.state.limits.shared_per_block - kernel.kernel.static_shared)
        return FunctionInfo(
            kernel.kernel,
            self._functions[function][0],
            kernel.max_dynamic_shared if kernel.max_dynamic_shared is not None else default,
            self._carveouts.get(function, -1),
            kernel.kernel.cluster
            or (kernel.required_cluster[0], kernel.required_cluster[1], kernel.required_cluster[2]),
            kernel.non_portable_clusters,
        )

    @call("cuFuncSetAttribute")
    def function_set_attribute(self, function: Handle, attribute: int, value: int) -> None:
        """8 is the largest dynamic shared size (bytes), 9 the carve-out (-1 to 100), 11 to 13
        the size of its clusters, 14 whether they may have more than 8 blocks, 15 a preference for where they go."""
        kernel = self._function(function)
        self._works.clear()
        if attribute == MAX_DYNAMIC_SHARED:
            most = self.state.limits.shared_per_block_optin - kernel.kernel.static_shared
            if not 0 <= value <= most:
                raise invalid_value(
                    f"kernel {kernel.name}: {value} bytes of dynamic shared memory; at most {most} fit beside its "
                    f"{kernel.kernel.static_shared} static ones"
                )
            kernel.max_dynamic_shared = value
        elif attribute == CARVEOUT:
            if not -1 <= value <= 100:
                raise invalid_value(f"a carve-out is a percentage, 0 to 100, or -1 for the default (got {value})")
            self._carveouts[function] = value
        elif attribute in REQUIRED_CLUSTER:
            if kernel.kernel.cluster is not None or value < 0:
                raise invalid_value(
                    f"kernel {kernel.name} was compiled for clusters of {kernel.kernel.cluster} blocks"
                    if kernel.kernel.cluster is not None
                    else f"a cluster has at least one block (got {value})"
                )
            kernel.required_cluster[REQUIRED_CLUSTER.index(attribute)] = value
        elif attribute == NON_PORTABLE_CLUSTER:
            kernel.non_portable_clusters = bool(value)
        elif attribute == CLUSTER_POLICY:
            pass  # where the blocks of a cluster go is not simulated
        else:
            raise invalid_value(f"function attribute {attribute} cannot be set")

    @call("cuOccupancyMaxActiveBlocksPerMultiprocessor")
    def occupancy(self, function: Handle, block_threads: int, shared: int = 0) -> int:
        """Resident blocks an SM; 0 when not even one fits."""
        kernel = self._function(function).kernel
        if block_threads <= 0 or shared < 0:
            raise invalid_value(f"occupancy of blocks of {block_threads} threads with {shared} bytes of shared memory")
        if block_threads > kernel.max_threads:
            return 0
        return kernel_occupancy(kernel, block_threads, shared, self.state.limits).blocks_per_sm

    @call("cuOccupancyMaxActiveClusters")
    def cluster_occupancy(self, function: Handle, grid: Dim3, block: Dim3, shared: int, cluster: Dim3 | None) -> int:
        """How many clusters of a launch are resident on the device at once."""
        kernel = self._function(function)
        if shared > self.function_info(function).max_dynamic_shared:
            return 0
        config = kernel.resolve(grid, block, shared, cluster or kernel.kernel.cluster or (1, 1, 1), False)
        try:
            check_residency(kernel.kernel, config, kernel.limits, kernel.max_cluster_blocks)
        except LaunchError as error:
            raise CudaError(cudaError_t(error.driver_code), error.message) from None
        return max_active_clusters(kernel.kernel, config, kernel.limits)

    @call("cuOccupancyMaxPotentialClusterSize")
    def largest_cluster(self, function: Handle, block: Dim3, shared: int) -> int:
        """The most blocks that a cluster of a launch may have."""
        kernel = self._function(function)
        each = kernel_occupancy(kernel.kernel, math.prod(block), shared, self.state.limits).blocks_per_sm
        sizes = range(kernel.max_cluster_blocks, 0, -1)
        return next((size for size in sizes if clusters_that_fit(each, size, self.state.limits.sm_groups)), 0)

    @call("cuOccupancyMaxPotentialBlockSize")
    def best_block_size(self, function: Handle, shared: int = 0, limit: int = 0) -> tuple[int, int]:
        """``(blocks, threads)`` of the launch that keeps the most threads resident; of equal ones the largest block, as
        on a GPU. Blocks have at most ``limit`` threads; 0 is no limit."""
        most = self._function(function).kernel.max_threads
        sizes = range(min(most, limit) if limit else most, 0, -32)
        resident = {threads: self.occupancy(function, threads, shared) for threads in sizes}
        best = max(sizes, key=lambda threads: resident[threads] * threads, default=0)
        if not resident.get(best):
            return 0, 0
        return resident[best] * self.state.limits.multiprocessors, best

    @call("cuOccupancyAvailableDynamicSMemPerBlock")
    def available_shared(self, function: Handle, blocks: int, threads: int) -> int:
        """Bytes of dynamic shared memory that each of ``blocks`` blocks of ``threads`` threads can have on one SM."""
        if blocks < 1 or self.occupancy(function, threads) < blocks:
            raise invalid_value(f"{blocks} blocks of {threads} threads do not fit on one SM together")
        limits, info = self.state.limits, self.function_info(function)
        each = limits.shared_per_sm // blocks // limits.shared_unit * limits.shared_unit - limits.shared_reserved
        return min(each - info.kernel.static_shared, info.max_dynamic_shared)

    # -- launches ------------------------------------------------------------------------------------------------------

    @call("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", cost=None, waits=Waits.OWN_WORK)
    def launch(
        self,
        function: Handle,
        grid: Dim3,
        block: Dim3,
        args: PackedBytes,
        shared: int = 0,
        stream: Handle = 0,
        cooperative: bool = False,
        cluster: Dim3 | None = None,
        attributes: LaunchAttributes | None = None,
        by_bindings: bool = False,
    ) -> None:
        """Enqueue a kernel. ``args`` is the parameter buffer laid out by ``Kernel.parameters``. ``cluster``: blocks of
        a cluster; without it as the kernel says. The grid of a kernel with ``__block_size__`` counts clusters.
        ``by_bindings``: ``cuda.bindings`` makes the call, which keeps the host for another time than CuPy's does.

        What is wrong with the configuration is raised here, with the code that ``cuLaunchKernel`` gives. What goes
        wrong in the kernel surfaces at a later call.
        """
        kernel = self._function(function)
        host = self.state.profile.host
        queue = self.state.scheduler.streams.find(stream)
        plain = host["launch_bindings" if by_bindings else "launch"]
        time = plain if queue.capture is None else host["capture_launch"]
        self.state.spend(time + len(kernel.kernel.parameters) * host["launch_argument"])
        self.state.flush_prints()
        self._check_device(kernel, queue)
        window = queue.window if attributes is None or attributes.window is None else attributes.window
        events: Sequence[tuple[Event, bool]] = ()
        if attributes is None and window is None and queue.capture is None:
            work = self._work_again(function, grid, block, args, shared, cooperative, cluster)
        else:
            work = self.work(function, grid, block, args, shared, cooperative, cluster, window)
            if attributes is not None:
                events = self._apply(attributes, work, queue)
        if queue.capture is not None:
            wanted = attributes or _NO_ATTRIBUTES
            domain, domain_map = self._attributes.domains(queue)
            content = KernelContent(
                function,
                grid,
                block,
                args,
                shared,
                int(cooperative),
                cluster,
                window,
                queue.priority if work.priority is None else work.priority,
                wanted.carveout or 0,
                domain if wanted.domain is None else wanted.domain,
                domain_map if wanted.domain_map is None else stream_attributes.pair(wanted.domain_map),
            )
            return self._capture(content, wanted, work, queue)
        if attributes is not None and attributes.updatable is not None:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"kernel {kernel.name}: only a node of a graph can be updatable by kernels "
                "(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE), not a launch into a stream: capture it",
            )
        if kernel.kernel.launches_graphs:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"kernel {kernel.name} launches graphs (cudaGraphLaunch in device code), and only a kernel of a graph "
                "may: make it a node of a graph, or capture this launch, and launch that graph",
            )
        before = queue.last
        launch = self.state.issue(work, queue, dependent=attributes is not None and attributes.programmatic)
        for event, at_start in events:
            event.record = self.state.scheduler.issue_completion(launch, before) if at_start else launch
        if self.state.settings.launch_blocking:
            self.state.wait(launch)
        return None

    def _capture(self, content: KernelContent, wanted: LaunchAttributes, work: KernelLaunch, stream: Stream) -> None:
        """A launch becomes a node of the graph that the stream captures, with what it and the stream say."""
        if wanted.event is not None or wanted.completion_event is not None:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                "cuLaunchKernelEx: a captured launch records no event of its own here: record one behind it",
            )
        work.priority = None  # that of a node counts where the graph is instantiated so
        edge = PROGRAMMATIC if wanted.programmatic else PLAIN
        self.state.captures.add(stream, Content(NodeKind.KERNEL, content), work, edge)
        if wanted.updatable and stream.capture is not None:
            (node,) = stream.capture.ends[stream]
            make_updatable(self.state, node)

    def work(
        self,
        function: int,
        grid: Dim3,
        block: Dim3,
        args: bytes,
        shared: int = 0,
        cooperative: bool = False,
        cluster: Dim3 | None = None,
        window: WindowFields | None = None,
    ) -> KernelLaunch:
        """A launch as work, for a stream or a graph; raises when the configuration or the window is not allowed."""
        kernel = self._function(function)
        configured = self.configured(kernel, grid, block, args, shared, cluster, cooperative)
        if kernel.kernel.uses_heap:
            self.state.memory.heap.touched = True
        own = None if window is None else access_window(self.state.profile, window)
        return KernelLaunch(configured, self.state, self._carveouts.get(function, -1), own)

    def _work_again(
        self, function: int, grid: Dim3, block: Dim3, args: bytes, shared: int, cooperative: bool, cluster: Dim3 | None
    ) -> KernelLaunch:
        """The same, made once for calls with the same arguments: what follows from them is found out once, too."""
        key = (function, grid, block, args, shared, cooperative, cluster)
        work = self._works.get(key)
        if work is None:
            work = self.work(function, grid, block, args, shared, cooperative, cluster)
            if len(self._works) >= _MOST_WORKS:
                self._works.clear()
            self._works[key] = work
        else:
            self._textures.destroy_unused()
            if work.launch.kernel.kernel.uses_heap:
                self.state.memory.heap.touched = True
        return work

    def _apply(self, wanted: LaunchAttributes, work: KernelLaunch, stream: Stream) -> list[tuple[Event, bool]]:
        """What a launch says of itself takes effect; returns the events that it records: when all of its blocks have
        started, or when it has ended. Programmatic events do the latter, though their blocks trigger (as on an
        H200)."""
        config, streams = work.launch.config, self.state.scheduler.streams
        for attribute, value in (
            (stream_attributes.DOMAIN, (wanted.domain,) if wanted.domain is not None else None),
            (stream_attributes.DOMAIN_MAP, wanted.domain_map),
        ):
            if value is not None:
                self._attributes.check(attribute, value)
        if wanted.carveout is not None:
            check_carveout(wanted.carveout)
            work.carveout = wanted.carveout
        if wanted.preferred_cluster is not None:
            check_preferred(wanted.preferred_cluster, config.cluster, config.grid)
        if wanted.priority is not None:
            priorities = self.state.profile.priorities
            work.priority = min(max(wanted.priority, priorities["greatest"]), priorities["least"])
        events = []
        for handle, flags, of_completion in (
            (wanted.event, wanted.event_flags, False),
            (wanted.completion_event, wanted.completion_flags, True),
        ):
            if handle is not None:
                event = streams.find_event(handle)
                check_event(event, flags, of_completion=of_completion)
                events.append((event, of_completion))
        return events

    def _check_device(self, kernel: LoadedKernel, stream: Stream) -> None:
        if kernel.module.device != stream.device:
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                f"kernel {kernel.name} was loaded on device {kernel.module.device}, and the stream is of device "
                f"{stream.device}: make the stream's device current, load the module there, and launch that kernel",
            )

    def configured(
        self,
        kernel: LoadedKernel,
        grid: Dim3,
        block: Dim3,
        args: bytes,
        shared: int,
        cluster: Dim3 | None,
        cooperative: bool,
    ) -> Launch:
        """The launch, if the device allows it."""
        self._textures.destroy_unused()
        try:
            return kernel.launch(grid, block, args, shared, cluster=cluster, cooperative=cooperative)
        except LaunchError as error:
            raise CudaError(cudaError_t(error.driver_code), error.message) from None

    # -- array operations ----------------------------------------------------------------------------------------------

    @call("cuLaunchKernel", cost=None, waits=Waits.OWN_WORK)
    def array_operation(
        self,
        name: str,
        run: HostCallback | None,
        reads: Sequence[Range],
        writes: Sequence[Range],
        stream: Handle = 0,
        *,
        flops: float = 0.0,
        exact: tuple[tuple[StridedRange, ...], tuple[StridedRange, ...]] | None = None,
    ) -> None:
        """Enqueue an array function: ``run()`` is called once, at its modelled end or just before, and changes only
        bytes in ``writes``. It must not call the device, and must not fail: check arguments before.

        ``reads`` and ``writes`` are ``(address, bytes)``. A strided view may be given as the range that spans it;
        ``exact`` then says which of its bytes are read and written (``queue/byte_extent.py``), for the hazard report.
        ``flops`` counts arithmetic operations. A recording keeps the bytes written, and a replay applies those.
        """
        host = self.state.profile.host
        self.state.spend(host["launch"] + host["array_operation"])
        queue = self.state.scheduler.streams.find(stream)
        reads, writes = tuple(reads), tuple(writes)
        moved = sum(size for _, size in reads) + sum(size for _, size in writes)
        duration = transfers.array_operation(self.state.profile, moved, flops)
        work = ArrayFunction(name, self.state.memory, run, reads, writes, duration, exact)
        if queue.capture is not None:
            return self.state.captures.add(queue, Content(NodeKind.KERNEL), work)
        operation = self.state.issue(work, queue)
        if self.state.settings.launch_blocking:
            self.state.wait(operation)
        return None
