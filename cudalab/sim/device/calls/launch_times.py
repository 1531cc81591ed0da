"""How long a launch takes, asked without a call: for tuners, profiles and checks."""

from __future__ import annotations

from cudalab.sim.device.calls.kernels import KernelCalls
from cudalab.sim.device.queue.kernel_launch import rehearsal
from cudalab.sim.device.state import DeviceState
from cudalab.sim.device.timing.cost import KernelTime
from cudalab.sim.device.timing.l2_ranges import Lookups
from cudalab.sim.machine.counters.ends import ends_fault
from cudalab.sim.machine.launch.block_work import BlockWork
from cudalab.sim.machine.launch.configuration import Dim3
from cudalab.sim.machine.launch.module import Launch
from cudalab.sim.machine.memory import host_watch


class LaunchTimes:
    """Modelled times of launches that do not happen."""

    def __init__(self, state: DeviceState, kernels: KernelCalls) -> None:
        self.state, self._kernels = state, kernels

    def time_launch(
        self,
        function: int,
        grid: Dim3,
        block: Dim3,
        args: bytes,
        shared: int = 0,
        *,
        cooperative: bool = False,
        cluster: Dim3 | None = None,
        stream: int = 0,
    ) -> KernelTime:
        """The modelled time of a launch that is repeated in a stream, alone on the device, from blocks that run and
        leave no trace. No call: memory, L2, clock and stream stay as they are. Raises ``CudaError`` when the
        configuration is not allowed."""
        with self.state.lock, host_watch.paused():
            kernel = self._kernels.loaded_kernel(function)
            launch = self._kernels.configured(kernel, grid, block, args, shared, cluster, cooperative)
            window = self.state.scheduler.streams.find(stream).window
            return self.state.timer.time_repeated(launch, self._rehearsed(launch), window)

    def ends_fault(
        self, function: int, grid: Dim3, block: Dim3, args: bytes, shared: int = 0, *, cooperative: bool = False
    ) -> bool:
        """Does its first, middle or last block touch memory that it may not? No call, as :meth:`time_launch`."""
        with self.state.lock, host_watch.paused():
            kernel = self._kernels.loaded_kernel(function)
            return ends_fault(self._kernels.configured(kernel, grid, block, args, shared, None, cooperative))

    def l2_lookups(self, launch: Launch, stream: int = 0) -> tuple[Lookups, ...]:
        """The sectors that a launch looks up in the L2, by ``cudaAccessProperty``, and those of them that hit, when it
        is repeated in a stream; modelled. No call, as :meth:`time_launch`."""
        with self.state.lock, host_watch.paused():
            window = self.state.scheduler.streams.find(stream).window
            return self.state.timer.lookups(launch, self._rehearsed(launch), window)

    def _rehearsed(self, launch: Launch) -> BlockWork | None:
        """What its blocks do, where its time depends on that."""
        return rehearsal(launch, self.state.time_limit) if self.state.timer.wants_work(launch) else None
