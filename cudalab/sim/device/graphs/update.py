"""What of an executable graph may change without instantiating it again.

The shape stays: the same nodes with the same edges. What a node does may change within the limits that CUDA sets
(CUDA Runtime API, ``cudaGraphExecUpdate``): a copy keeps its direction, and one of several rows keeps its
extent; a cooperative launch stays one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from msgspec.structs import replace

from cudalab.sim.device.graphs.content import NodeKind
from cudalab.sim.device.graphs.executable import ExecutableGraph, ExecutableNode
from cudalab.sim.device.graphs.graph import Node
from cudalab.sim.device.queue.copy_region import CopyRegion
from cudalab.sim.device.queue.kernel_launch import KernelLaunch
from cudalab.sim.device.queue.transfer import Copy, Memset


class UpdateResult(IntEnum):
    """``cudaGraphExecUpdateResult``"""

    SUCCESS = 0
    ERROR = 1
    TOPOLOGY_CHANGED = 2
    NODE_TYPE_CHANGED = 3
    FUNCTION_CHANGED = 4
    PARAMETERS_CHANGED = 5
    NOT_SUPPORTED = 6
    UNSUPPORTED_FUNCTION_CHANGE = 7
    ATTRIBUTES_CHANGED = 8


class Difference(NamedTuple):
    """Why an update is not possible."""

    result: UpdateResult
    why: str
    node: Node | None = None
    """The node of the new graph that it is about."""
    depends_on: Node | None = None
    """Where an edge differs: the other end of it."""


def difference(old: ExecutableGraph, new: ExecutableGraph) -> Difference | None:
    """What of ``new`` an update of ``old`` cannot take over; ``None`` when it can take over everything."""
    if len(old.nodes) != len(new.nodes):
        return Difference(
            UpdateResult.TOPOLOGY_CHANGED, f"{len(new.nodes)} nodes, and the executable graph has {len(old.nodes)}"
        )
    for one, other in zip(old.nodes, new.nodes, strict=True):
        if sorted(one.before) != sorted(other.before) or sorted(one.node.before.values()) != sorted(
            other.node.before.values()
        ):
            missing = next((place for place in other.before if place not in one.before), None)
            return Difference(
                UpdateResult.TOPOLOGY_CHANGED,
                f"{other.label} depends on other nodes than {one.label}",
                other.node,
                new.nodes[missing].node if missing is not None else None,
            )
        if one.content.kind is not other.content.kind:
            return Difference(
                UpdateResult.NODE_TYPE_CHANGED,
                f"{other.label} is in the place of {one.label}, and the kind of a node cannot change",
                other.node,
            )
    for one, other in zip(old.nodes, new.nodes, strict=True):
        found = change(one, other, old.for_device)
        if found is not None:
            return Difference(found[0], f"{other.label}: {found[1]}", other.node)
        if one.bodies is not None and other.bodies is not None:
            for body, wanted in zip(one.bodies.graphs, other.bodies.graphs, strict=True):
                inside = difference(body, wanted)
                if inside is not None:
                    return inside
    return None


def change(one: ExecutableNode, other: ExecutableNode, for_device: bool) -> tuple[UpdateResult, str] | None:
    """What of a node's new content it cannot take over, and why. ``for_device``: in a graph that kernels may launch,
    whose copies may get a source or a destination of the other kind of memory."""
    old, new = one.work, other.work
    if isinstance(old, KernelLaunch) and isinstance(new, KernelLaunch):
        if old.launch.config.cooperative != new.launch.config.cooperative:
            return UpdateResult.ATTRIBUTES_CHANGED, "a cooperative launch stays one, and another does not become one"
    elif isinstance(old, Copy) and isinstance(new, Copy):
        if (old.engine != new.engine and not for_device) or _direction(one) != _direction(other):
            return UpdateResult.PARAMETERS_CHANGED, "the direction of a copy, its cudaMemcpyKind, cannot change"
        if _boxes(old.source, new.source) or _boxes(old.destination, new.destination):
            return UpdateResult.PARAMETERS_CHANGED, "only the addresses of a copy of several rows can change"
    elif isinstance(old, Memset) and isinstance(new, Memset):
        if _boxes(old.region, new.region):
            return UpdateResult.PARAMETERS_CHANGED, "only the address and the value of a memset of rows can change"
    elif one.content.conditional is not None and other.content.conditional is not None:
        if replace(one.content.conditional, handle=0) != replace(other.content.conditional, handle=0):
            return UpdateResult.PARAMETERS_CHANGED, "a conditional node keeps its type and the number of its bodies"
    elif one.content.kind in (NodeKind.MEM_ALLOC, NodeKind.MEM_FREE):
        if one.content != other.content:
            return UpdateResult.NOT_SUPPORTED, "memory nodes cannot be updated"
    return None


def _direction(node: ExecutableNode) -> int:
    return node.content.copy.kind if node.content.copy is not None else 0


def _boxes(old: CopyRegion, new: CopyRegion) -> bool:
    """Is one of the two more than a row, and do they differ in shape?"""
    return max(old.rows, new.rows) > 1 and (old.width, old.height, old.depth) != (new.width, new.height, new.depth)
