"""Conditional nodes as runtime calls: handles, and what graphs that have such nodes may not do.

Codes are those of an H200 (driver 580).
"""

from __future__ import annotations

from cudalab.sim.device.calls.graphs.graphs import GraphCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Address, Handle
from cudalab.sim.device.error import invalid_value
from cudalab.sim.device.graphs.conditional import VALUE_BYTES, ConditionalHandle
from cudalab.sim.device.graphs.content import NodeKind
from cudalab.sim.device.graphs.device_launchable import CannotInstantiate, InstantiationResult
from cudalab.sim.device.graphs.graph import Graph
from cudalab.sim.device.state import DeviceState

ASSIGN_DEFAULT = 1
_NOT_IN_BODIES = (
    NodeKind.HOST,
    NodeKind.EVENT_RECORD,
    NodeKind.WAIT_EVENT,
    NodeKind.MEM_ALLOC,
    NodeKind.MEM_FREE,
)


class ConditionalCalls(CallGroup):
    """Conditional nodes."""

    def __init__(self, state: DeviceState, graphs: GraphCalls) -> None:
        super().__init__(state)
        self._graphs = graphs

    @call(
        "cudaGraphConditionalHandleCreate",
        "cudaGraphConditionalHandleCreate_v2",
        "cuGraphConditionalHandleCreate",
        cost="graph_add_node",
    )
    def graph_conditional_handle(self, graph: Handle, default: int = 0, flags: int = 0) -> Address:
        """A new value for a conditional node of the graph, or of one of its bodies. With the flag
        ``cudaGraphCondAssignDefault`` each launch begins with ``default``; without it the value stays, and is 0 at
        first."""
        name = "cudaGraphConditionalHandleCreate"
        found = self._graphs.graph(graph, name)
        if flags & ~ASSIGN_DEFAULT:
            raise invalid_value(f"{name}: flags must be 0 or cudaGraphCondAssignDefault (1); got {flags}")
        made = ConditionalHandle(self.state.memory, default if flags & ASSIGN_DEFAULT else None)
        self.state.recorder.allocated(made.address, VALUE_BYTES)
        found.root.handles.append(made)
        return made.address


def check_runnable(name: str, graph: Graph) -> None:
    """Raise when an executable graph cannot be made, for what its conditional nodes are or hold."""
    used: set[int] = set()
    for node in graph.all_nodes():
        if node.content.conditional is not None:
            used.add(node.content.conditional.handle)
        for body in node.bodies:
            wrong = next((inner for inner in body.all_nodes() if inner.kind in _NOT_IN_BODIES), None)
            if wrong is not None:
                raise invalid_value(
                    f"{name}: {wrong.label} is in a body of {node.label}. Bodies of conditional nodes hold kernels, "
                    "copies, memsets, empty nodes, child graphs and other conditional nodes"
                )
    unused = [handle.address for handle in graph.handles if handle.address not in used]
    if unused:
        raise CannotInstantiate(
            InstantiationResult.CONDITIONAL_HANDLE_UNUSED,
            f"{name}: no conditional node uses the handle {unused[0]:#x}; each handle belongs to exactly one node",
        )
