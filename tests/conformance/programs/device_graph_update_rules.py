"""What graphs with nodes that kernels update may not do: clones, second instantiations, whole updates."""

from cudalab import cudart

from ..appending import append_node, logged, new_log
from ..launching import KEPT, executable_of, finished, loaded, new_graph, of_driver, went
from ..program import code, program
from .device_graph_updates import target


def with_updatable():
    """A graph with such a node."""
    loaded()
    log, made = new_log(), new_graph()
    target(made, [], log, 1)
    return log, made


def without_updatable(log):
    made = new_graph()
    append_node(of_driver(made), [], log, 2)
    return made


def update(executable, made):
    """A whole update: the code, and the result where there is one."""
    error, found = cudart.cudaGraphExecUpdate(executable, made)
    cudart.cudaGetLastError()
    return [error.name, found.result.name if found is not None else ""]


@program("a clone of a graph with an updatable node")
def clone():
    _, made = with_updatable()
    error, copied = cudart.cudaGraphClone(made)
    if error.value == 0:
        KEPT.graphs.append(copied)
    return finished({"code": error.name})


@program("a graph with an updatable node is instantiated twice, and again when the first is gone")
def instantiated_twice():
    log, made = with_updatable()
    first = cudart.cudaGraphInstantiate(made, 0)
    second = cudart.cudaGraphInstantiate(made, 0)
    result = {"codes": [code(first), code(second)], "went": went(first[1])}
    if second[0].value == 0:
        KEPT.executables.append(second[1])
    result["destroyed"] = code(cudart.cudaGraphExecDestroy(first[1]))
    again = cudart.cudaGraphInstantiate(made, 0)
    result["again"] = code(again)
    if again[0].value == 0:
        KEPT.executables.append(again[1])
        result["went again"] = went(again[1])
    cudart.cudaGetLastError()
    return finished({**result, "log": logged(log)})


@program("an executable graph is updated to a graph with an updatable node")
def update_to():
    log, made = with_updatable()
    return finished({"update": update(executable_of(without_updatable(log), 0), made)})


@program("an executable graph with an updatable node is updated to one without")
def update_from():
    log, made = with_updatable()
    return finished({"update": update(executable_of(made, 0), without_updatable(log))})


@program("an executable graph with an updatable node is updated to its own graph")
def update_to_itself():
    _, made = with_updatable()
    return finished({"update": update(executable_of(made, 0), made)})
