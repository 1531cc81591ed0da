"""A graph as text for Graphviz, as ``cudaGraphDebugDotPrint`` writes it: nodes by kind, edges, child graphs as
clusters. CUDA does not say what the text looks like; this follows the one that driver 580 writes."""

from __future__ import annotations

from cudalab.sim.device.graphs.conditional import ConditionalKind
from cudalab.sim.device.graphs.content import NodeKind
from cudalab.sim.device.graphs.graph import Graph, Node

VERBOSE, KERNEL, MEMCPY, MEMSET, HOST, EVENT, HANDLES = 1, 4, 8, 16, 32, 64, 1024
_SHAPES = {
    NodeKind.KERNEL: "octagon",
    NodeKind.MEMCPY: "invtrapezium",
    NodeKind.MEMSET: "invtrapezium",
    NodeKind.HOST: "house",
    NodeKind.GRAPH: "component",
    NodeKind.CONDITIONAL: "record",
}
_DETAILS = {
    NodeKind.KERNEL: KERNEL,
    NodeKind.MEMCPY: MEMCPY,
    NodeKind.MEMSET: MEMSET,
    NodeKind.HOST: HOST,
    NodeKind.WAIT_EVENT: EVENT,
    NodeKind.EVENT_RECORD: EVENT,
}


def dot(graph: Graph, flags: int = 0) -> str:
    """The text; ``flags`` are those of ``cudaGraphDebugDotFlags``."""
    return "digraph dot {\n" + "".join(_cluster(graph, flags)) + "}\n"


def _cluster(graph: Graph, flags: int) -> list[str]:
    lines = [f"subgraph cluster_{graph.number} {{\n", f'label="graph_{graph.number}" graph[style="dashed"];\n']
    for node in graph.nodes.values():
        shape = _SHAPES.get(node.kind, "rectangle")
        lines.append(f'"{_name(node)}"[style="solid" shape="{shape}" label="{_label(node, flags)}"];\n')
    for before, after, _ in graph.edges:
        lines.append(f'"{_name(before)}" -> "{_name(after)}";\n')
    lines.append("}\n")
    for node in graph.nodes.values():
        for inner in node.graphs:
            lines += _cluster(inner, flags)
    return lines


def _name(node: Node) -> str:
    return f"graph_{node.graph.number}_node_{node.number}"


def _label(node: Node, flags: int) -> str:
    if node.content.conditional is not None:
        return _conditional(node, node.content.conditional.kind)
    title = node.work.name if node.kind is NodeKind.KERNEL and node.work is not None else node.kind.name
    lines = [str(node.number), title]
    if flags & (VERBOSE | _DETAILS.get(node.kind, VERBOSE)):
        lines += _details(node)
    if flags & (VERBOSE | HANDLES):
        lines.append(f"node handle: {node.handle:#018x}")
    return "\n".join(lines)


def _conditional(node: Node, kind: int) -> str:
    """The type, and which body is which."""
    names = ("True", "False") if kind == ConditionalKind.IF else [str(number) for number in range(len(node.bodies))]
    bodies = (f"| {{{name}|graph_{body.number}}}" for name, body in zip(names, node.bodies, strict=False))
    title = f"{{Conditional Type| {ConditionalKind(kind).name}}}"
    return "\n".join(["{", "CONDITIONAL", f"| {{ID | {node.number}}}", f"| {title}", *bodies, "}"])


def _details(node: Node) -> list[str]:
    """What the node does, a line for each fact."""
    content = node.content
    if content.kernel is not None:
        k = content.kernel
        return [f"grid {k.grid}, block {k.block}", f"{k.shared} bytes of dynamic shared memory"]
    if content.copy is not None:
        c = content.copy
        return [f"from {c.source[0]:#x} to {c.destination[0]:#x}", "x".join(map(str, c.extent)) + " bytes"]
    if content.memset is not None:
        m = content.memset
        return [f"at {m.pointer:#x}", f"{m.width} x {m.height} elements of {m.element} bytes, value {m.value}"]
    if content.event:
        return [f"event {content.event:#x}"]
    if node.inner is not None:
        return [f"graph_{node.inner.number}"]
    return []
