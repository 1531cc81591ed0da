"""Attributes of kernel nodes: asked, set and copied as runtime calls.

A node keeps them when it gets new parameters, and copies of its graph have them. Which there are, what is refused and
with which code is as on an H200 (driver 580); a priority takes effect in graphs instantiated with
``cudaGraphInstantiateFlagUseNodePriority``, domains and the scheduling of clusters change no modelled time.
"""

from __future__ import annotations

from cuda.bindings.runtime import cudaError_t, cudaLaunchAttributeID
from msgspec.structs import replace

from cudalab.sim.device.calls.graphs.graph_work import WorkMaker
from cudalab.sim.device.calls.graphs.graphs import GraphCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.calls.launch_attributes import check_carveout
from cudalab.sim.device.calls.stream_attributes import DOMAIN, DOMAIN_MAP, PRIORITY, WINDOW, StreamAttributeCalls, Value
from cudalab.sim.device.declaration import Address, Handle
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.content import Content, KernelContent, NodeKind
from cudalab.sim.device.graphs.graph import Node
from cudalab.sim.device.graphs.updatable import make_updatable
from cudalab.sim.device.state import DeviceState

COOPERATIVE = int(cudaLaunchAttributeID.cudaLaunchAttributeCooperative)
CLUSTER = int(cudaLaunchAttributeID.cudaLaunchAttributeClusterDimension)
SCHEDULING = int(cudaLaunchAttributeID.cudaLaunchAttributeClusterSchedulingPolicyPreference)
UPDATABLE = int(cudaLaunchAttributeID.cudaLaunchAttributeDeviceUpdatableKernelNode)
CARVEOUT = int(cudaLaunchAttributeID.cudaLaunchAttributePreferredSharedMemoryCarveout)
_NO_WINDOW = (0, 0, 0.0, 0, 0)


class NodeAttributeCalls(CallGroup):
    """Attributes of kernel nodes."""

    def __init__(
        self, state: DeviceState, graphs: GraphCalls, maker: WorkMaker, attributes: StreamAttributeCalls
    ) -> None:
        super().__init__(state)
        self._graphs, self._maker, self._attributes = graphs, maker, attributes

    @call("cudaGraphKernelNodeGetAttribute", "cuGraphKernelNodeGetAttribute")
    def graph_node_attribute(self, node: Handle, attribute: int) -> Value:
        """The fields of the attribute with that ``cudaLaunchAttributeID``, in the order of its structure."""
        found, kernel = self._kernel("cudaGraphKernelNodeGetAttribute", node)
        known: dict[int, Value] = {
            WINDOW: kernel.window or _NO_WINDOW,
            COOPERATIVE: (int(kernel.cooperative),),
            CLUSTER: kernel.cluster or (0, 0, 0),
            SCHEDULING: (kernel.scheduling,),
            PRIORITY: (kernel.priority,),
            DOMAIN_MAP: kernel.domain_map,
            DOMAIN: (kernel.domain,),
            CARVEOUT: (kernel.carveout,),
            UPDATABLE: (1, found.updatable.address) if found.updatable is not None else (0, 0),
        }
        if attribute not in known:
            raise self._unknown("cudaGraphKernelNodeGetAttribute", attribute)
        return known[attribute]

    @call("cudaGraphKernelNodeSetAttribute", "cuGraphKernelNodeSetAttribute", cost="graph_set_node")
    def graph_node_set_attribute(self, node: Handle, attribute: int, value: Value) -> Address:
        """Set an attribute. Executable graphs made from the graph before do not change. Of a node that kernels may
        update from now on: what they name it by; 0 otherwise."""
        name = "cudaGraphKernelNodeSetAttribute"
        found, kernel = self._kernel(name, node)
        if attribute == UPDATABLE:
            return self._make_updatable(name, found, int(value[0]))
        if attribute in (WINDOW, DOMAIN, DOMAIN_MAP):
            self._attributes.check(attribute, value)
        numbers = tuple(int(number) for number in value)
        if attribute == WINDOW and len(value) == 5:
            kernel = replace(kernel, window=value)
        elif attribute == COOPERATIVE:
            kernel = replace(kernel, cooperative=numbers[0])
        elif attribute == CLUSTER and len(numbers) == 3:
            kernel = replace(kernel, cluster=numbers if any(numbers) else None)
        elif attribute == SCHEDULING:
            kernel = replace(kernel, scheduling=numbers[0])
        elif attribute == PRIORITY:
            priorities = self.state.profile.priorities
            kernel = replace(kernel, priority=min(max(numbers[0], priorities["greatest"]), priorities["least"]))
        elif attribute == DOMAIN_MAP and len(numbers) == 2:
            kernel = replace(kernel, domain_map=numbers)
        elif attribute == DOMAIN:
            kernel = replace(kernel, domain=numbers[0])
        elif attribute == CARVEOUT:
            check_carveout(numbers[0])
            kernel = replace(kernel, carveout=numbers[0])
        else:
            raise self._unknown(name, attribute)
        self._put(name, found, kernel)
        return 0

    def _make_updatable(self, name: str, node: Node, wanted: int) -> int:
        if wanted not in (0, 1):
            raise invalid_value(f"{name}: deviceUpdatable must be 0 or 1 (got {wanted})")
        if not wanted:
            self._refuse_updatable(name, "stays it", node)
            return 0
        return make_updatable(self.state, node)

    @call("cudaGraphKernelNodeCopyAttributes", "cuGraphKernelNodeCopyAttributes", cost="graph_set_node")
    def graph_node_copy_attributes(self, destination: Handle, source: Handle) -> None:
        """Give one kernel node all attributes of another."""
        name = "cudaGraphKernelNodeCopyAttributes"
        (found, kernel), (source_node, of) = self._kernel(name, destination), self._kernel(name, source)
        self._refuse_updatable(name, "neither gives nor takes attributes of others", found, source_node)
        self._put(name, found, kernel.with_attributes_of(of))

    @staticmethod
    def _refuse_updatable(name: str, what: str, *nodes: Node) -> None:
        for node in nodes:
            if node.updatable is not None:
                raise CudaError(
                    cudaError_t.cudaErrorNotSupported, f"{name}: {node.label}, which kernels may update, {what}"
                )

    def _kernel(self, name: str, handle: int) -> tuple[Node, KernelContent]:
        found = self._graphs.node(handle, name)
        if found.kind is not NodeKind.KERNEL:
            raise invalid_value(f"{name}: {found.label} is no kernel node")
        if found.content.kernel is None:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"{name}: {found.label} is an array function of CuPy, which is no kernel on the simulated device; put "
                "a RawKernel into the graph instead",
            )
        return found, found.content.kernel

    def _put(self, name: str, node: Node, kernel: KernelContent) -> None:
        content = Content(NodeKind.KERNEL, kernel)
        node.work = self._maker.of(name, content)
        node.content = content

    @staticmethod
    def _unknown(name: str, attribute: int) -> CudaError:
        return invalid_value(f"{name}: {attribute} is no attribute of kernel nodes; launches and streams have others")
