"""Kernel nodes that kernels update (``cudaLaunchAttributeDeviceUpdatableKernelNode``).

Such a node keeps what it launches in device memory: whether it is switched on, its grid and its parameters. Kernels of
the same graph, of others or of none change that (``cudaGraphKernelNodeSetParam`` and the like, as
``compiler/ptx/device_runtime.py`` has them); the node looks when all before it has ended (CUDA Programming Guide,
"Device-Side Kernel Node Update").

What is simplified: the handle that kernels take is the address of that memory. An update that nothing orders before the
node is not reported as a hazard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from cudalab.sim.compiler.ptx.device_runtime import NODE_ENABLED, NODE_GRID, NODE_PARAMETERS, NODE_SIZE
from cudalab.sim.device.queue.kernel_launch import KernelLaunch, KernelOperation
from cudalab.sim.device.queue.ordering import EMPTY
from cudalab.sim.machine.launch.module import Launch
from cudalab.sim.machine.memory.allocations import Memory

if TYPE_CHECKING:
    from cudalab.sim.device.graphs.graph import Node
    from cudalab.sim.device.state import DeviceState

MOST_PARAMETERS = 32764
"""Bytes of parameters that a kernel may have."""
NODE_BYTES = NODE_PARAMETERS + MOST_PARAMETERS + 4


class DeviceNode:
    """The memory of a node that kernels update."""

    def __init__(self, memory: Memory) -> None:
        self.address = memory.allocate(NODE_BYTES, "global", "kernel node that kernels update")
        self._memory = memory
        self.users = 1
        """Its graph, and the executable graph made from that."""

    def write(self, launch: Launch, enabled: bool) -> None:
        """The node does this until a kernel changes it."""
        self._words(NODE_ENABLED, 1)[0] = enabled
        self._words(NODE_GRID, 3)[:] = launch.config.grid
        size = len(launch.args)
        self._memory.array(self.address + NODE_SIZE, 1, np.uint64)[0] = size
        if size:
            self._memory.array(self.address + NODE_PARAMETERS, size, np.uint8)[:] = np.frombuffer(launch.args, np.uint8)

    def read(self, launch: Launch) -> Launch | None:
        """What it does now, where ``launch`` is what it did at first; ``None``: it is switched off."""
        if self._memory.find(self.address) is None:
            return launch  # its graphs are gone
        if not self._words(NODE_ENABLED, 1)[0]:
            return None
        x, y, z = (int(number) for number in self._words(NODE_GRID, 3))
        args = self._memory.array(self.address + NODE_PARAMETERS, len(launch.args), np.uint8).tobytes()
        if (x, y, z) == launch.config.grid and args == launch.args:
            return launch
        return replace(launch, config=replace(launch.config, grid=(x, y, z)), args=args)

    def _words(self, offset: int, count: int) -> np.ndarray:
        return self._memory.array(self.address + offset, count, np.uint32)

    def drop(self) -> None:
        """One user less; the last takes the memory along."""
        self.users -= 1
        if not self.users and self._memory.find(self.address) is not None:
            self._memory.free(self.address, where="cudaGraphDestroy")


def make_updatable(state: DeviceState, node: Node) -> int:
    """Kernels may update a node from now on, and name it by this."""
    if node.updatable is None:
        node.updatable = DeviceNode(state.memory)
        state.recorder.allocated(node.updatable.address, NODE_BYTES)
    return node.updatable.address


class UpdatableOperation(KernelOperation):
    """One run of such a node."""

    decided_late = True

    def decide(self) -> None:
        node: DeviceNode = self.work.node  # type: ignore[attr-defined]
        launch = node.read(self.launch)
        if launch is None:
            self.work = EMPTY  # type: ignore[assignment]
        elif launch is not self.launch:
            self.launch = launch
            self.work = replace(self.work, launch=launch)


class UpdatableLaunch(KernelLaunch, eq=False, kw_only=True):
    """A launch that kernels may change."""

    operation_class = UpdatableOperation

    node: DeviceNode

    @classmethod
    def of(cls, work: KernelLaunch, node: DeviceNode) -> UpdatableLaunch:
        return cls(work.launch, work.surroundings, work.carveout, work.window, work.priority, node=node)
