"""Experiments that constants of starting come from: clusters by number of blocks, nodes of graphs that do nothing,
dependent launches whose blocks wait in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bench import graph_nodes as nodes
from bench.fidelity.attributes import HERE, cluster, dependent, in_a_row, launcher
from bench.fidelity.experiment import experiment
from bench.fidelity.graphs import Builder, Node, destroyed, graph, instantiated, instantiation, launch_time, on_device
from bench.fidelity.laboratory import MB, Laboratory
from bench.graph_nodes import checked
from cudalab import cudart

Result = Iterator[tuple[str, float]]


@experiment("starts: empty kernels by number of blocks and size of the cluster", half="calibration")
def clusters(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("launches", "empty")
    for threads, counts in ((128, (264, 2112, 5280, 21120)), (32, (5280,)), (512, (5280,))):
        for blocks in counts:
            for size in (0, 1, 2, 4, 8):
                launch = launcher(kernel, blocks, threads, cluster(size) if size else [])
                yield f"{blocks} blocks of {threads}, clusters of {size}", in_a_row(lab, 1, launch)


@experiment("starts: busy kernels by number of blocks and size of the cluster", half="calibration")
def busy_clusters(lab: Laboratory) -> Result:
    kernel, out = lab.kernel_of("launches", "busy"), lab.buffer("busy", 16 * MB).data.ptr
    for blocks in (264, 5280):
        for size in (0, 1, 2, 4):
            launch = launcher(kernel, blocks, 64, cluster(size) if size else [], out, np.int32(1000))
            yield f"{blocks} blocks, clusters of {size}", in_a_row(lab, 1, launch)


def _chain(builder: Builder, count: int, add: Callable[..., Node]) -> tuple[Any, list[Node]]:
    """A kernel, and a chain behind it."""
    made = graph()
    chain = [builder.kernel(made, [])]
    for _ in range(count):
        chain.append(add(made, chain[-1:]))
    return made, chain[1:]


@experiment("starts: empty nodes behind a kernel", half="calibration")
def empty_nodes(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for count in (0, 1, 10, 40, 160):
        yield f"{count} in a chain", on_device(lab, _chain(builder, count, nodes.empty)[0])
    for count in (10, 40):
        made = graph()
        first = builder.kernel(made, [])
        rows = [nodes.empty(made, [first]) for _ in range(count)]
        builder.kernel(made, rows)
        yield f"{count} side by side", on_device(lab, made)


def _switched(lab: Laboratory, made: Any, off: Sequence[Node]) -> float:
    executable = instantiated(made)
    for node in off:
        checked(cudart.cudaGraphNodeSetEnabled(executable, node, 0))
    found = launch_time(lab, executable)
    destroyed(executable)
    return found


@experiment("starts: kernels of a graph that are switched off", half="calibration")
def switched_off(lab: Laboratory) -> Result:
    """Memsets only in front of the kernel: on an H200 (driver 580.159) a memset that is switched off orders nothing, so
    that the event behind a graph is recorded before a kernel in front of one has ended."""
    builder = Builder(lab)
    for count in (1, 10, 40, 160):
        made, chain = _chain(builder, count, builder.kernel)
        yield f"chain of {count}, all", _switched(lab, made, chain)
    for count in (10, 40):
        made, chain = _chain(builder, count, builder.kernel)
        yield f"chain of {count}, every other", _switched(lab, made, chain[::2])
        made, chain = _chain(builder, count, builder.memcpy)
        yield f"chain of {count} copies, all", _switched(lab, made, chain)
        made, off = graph(), list[Node]()
        for _ in range(count):
            off.append(builder.memset(made, off[-1:]))
        builder.kernel(made, off[-1:])
        yield f"{count} memsets in front, all", _switched(lab, made, off)
    for count in (4, 40):
        made = builder.of(count, "parallel")
        first = checked(cudart.cudaGraphGetNodes(made, count))[0]
        yield f"{count} side by side, all", _switched(lab, made, list(first)[:count])


def _rows(builder: Builder, width: int, count: int) -> Any:
    made = graph()
    before: list[Node] = []
    for _ in range(count // width):
        before = [builder.kernel(made, before) for _ in range(width)]
    return made


@experiment("starts: rows of which each node comes behind all of the row before", half="calibration")
def full_rows(lab: Laboratory) -> Result:
    """Device time of a launch."""
    builder = Builder(lab)
    for width in (2, 3, 8):
        for count in (24, 96, 384):
            yield f"{count} nodes, rows of {width}", on_device(lab, _rows(builder, width, count))


@experiment("starts: instantiation of rows of which each node comes behind all of the row before", half="calibration")
def full_rows_instantiation(lab: Laboratory) -> Result:
    builder = Builder(lab)
    for width in (2, 3, 8):
        for count in (24, 96, 384):
            yield f"{count} nodes, rows of {width}", instantiation(lab, _rows(builder, width, count), count)


@experiment("starts: dependent launches by number of blocks", half="calibration")
def waiting_blocks(lab: Laboratory) -> Result:
    kernel, out = lab.kernel_of(HERE, "halves"), lab.buffer("busy", 16 * MB).data.ptr
    for blocks, threads in ((264, 64), (1056, 64), (264, 256)):
        for label, attributes in (("plain", []), ("attribute", dependent())):
            launch = launcher(kernel, blocks, threads, attributes, out, np.int32(500))
            yield f"{blocks} blocks of {threads}, {label}", in_a_row(lab, 4, launch)
