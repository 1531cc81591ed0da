"""Data of edges: ports and types, what is refused, what is read back, and what a programmatic edge orders."""

import ctypes

from cudalab import cp, cudart, driver

from ..appending import append_node, function_of, graph, logged, mode_of, new_log, run_graph, warm_appends
from ..busy import attribute, launched, streams
from ..program import code, program

TRIGGERS = r"""
extern "C" __global__ void first(int* x, int rounds) {
    asm volatile("griddepcontrol.launch_dependents;");
    int value = 0;
    for (int i = 0; i < rounds; i++) value += i & 1;
    x[threadIdx.x] = value + threadIdx.x;
}"""
WAITS = r"""
extern "C" __global__ void second(const int* x, int* y) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    y[threadIdx.x] = x[threadIdx.x] * 2;
}"""


def data(from_port=0, to_port=0, kind=0):
    made = cudart.cudaGraphEdgeData()
    made.from_port, made.to_port = from_port, to_port
    made.type = cudart.cudaGraphDependencyType(kind)
    return made


def fields(edge):
    return [int(edge.from_port), int(edge.to_port), int(edge.type)]


def empty(made, after=()):
    return cudart.cudaGraphAddEmptyNode(made, list(after), len(after))[1]


def kernel_node(made, source, name, args, kinds, after=(), edges=None):
    """A kernel node of 32 threads, with data of its edges."""
    params = driver.CUgraphNodeParams()
    params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    launch = params.kernel
    launch.func = function_of(source, name)
    launch.gridDimX = launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1
    launch.blockDimX = 32
    launch.kernelParams = (args, kinds)
    return driver.cuGraphAddNode(driver.CUgraph(int(made)), list(after), edges, len(after), params)


def edge_of_driver(from_port=0, to_port=0, kind=0):
    made = driver.CUgraphEdgeData()
    made.from_port, made.to_port = from_port, to_port
    made.type = driver.CUgraphDependencyType(kind)
    return made


def pair(made, x, y, edge, rounds=2000):
    """A kernel that triggers, and one that waits for it behind the edge."""
    pointer, number = ctypes.c_void_p, ctypes.c_int
    _, one = kernel_node(made, TRIGGERS, "first", (int(x.data.ptr), rounds), (pointer, number))
    edges = None if edge is None else [edge]
    args = int(x.data.ptr), int(y.data.ptr)
    return one, kernel_node(made, WAITS, "second", args, (pointer, pointer), [one], edges)


@program("data of edges that cannot be, between empty nodes and kernels")
def refused():
    warm_appends()
    log = new_log()
    with graph() as made:
        a, b = empty(made), empty(made)
        k, m = append_node(made, [], log, 1), append_node(made, [], log, 2)

        def add(one, other, edge):
            answer = code(cudart.cudaGraphAddDependencies(made, [one], [other], [edge], 1))
            if answer == "cudaSuccess":
                cudart.cudaGraphRemoveDependencies(made, [one], [other], [edge], 1)
            return answer

        result = {
            "plain": add(a, b, data()),
            "port of an empty node": add(a, b, data(1)),
            "programmatic, empty nodes": add(a, b, data(1, 0, 1)),
            "kernels, port 1 without a type": add(k, m, data(1)),
            "kernels, port 2 without a type": add(k, m, data(2)),
            "kernels, type without a port": add(k, m, data(0, 0, 1)),
            "kernels, programmatic": add(k, m, data(1, 0, 1)),
            "kernels, at the start": add(k, m, data(2, 0, 1)),
            "kernels, port 3": add(k, m, data(3, 0, 1)),
            "kernels, to a port": add(k, m, data(1, 1, 1)),
            "kernel to empty node": add(k, a, data(1, 0, 1)),
            "empty node to kernel": add(a, k, data(1, 0, 1)),
        }
        result["edges"] = int(cudart.cudaGraphGetEdges(made)[-1])
    cudart.cudaGetLastError()
    return result


@program("data of edges is read back, from both ends and from the graph")
def read_back():
    warm_appends()
    log = new_log()
    with graph() as made:
        a, b, c = (append_node(made, [], log, value) for value in range(3))
        added = [code(cudart.cudaGraphAddDependencies(made, [a], [b], [data(1, 0, 1)], 1))]
        added.append(code(cudart.cudaGraphAddDependencies(made, [a], [c], [data()], 1)))
        edges = cudart.cudaGraphGetEdges(made, 2)
        before, after = cudart.cudaGraphNodeGetDependencies(b, 1), cudart.cudaGraphNodeGetDependentNodes(a, 2)
        nodes = [a, b, c]
        found = zip(edges[1], edges[2], edges[3], strict=True)
        return {
            "added": added,
            "codes": [code(edges), code(before), code(after)],
            "edges": sorted([nodes.index(x), nodes.index(y), fields(edge)] for x, y, edge in found),
            "before": [fields(edge) for edge in before[2]],
            "after": sorted(fields(edge) for edge in after[2]),
        }


@program("the same edge with other data: added again, removed with the wrong data")
def two_of_one():
    warm_appends()
    log = new_log()
    with graph() as made:
        a, b = (append_node(made, [], log, value) for value in range(2))
        result = {
            "first": code(cudart.cudaGraphAddDependencies(made, [a], [b], [data(1, 0, 1)], 1)),
            "again": code(cudart.cudaGraphAddDependencies(made, [a], [b], [data(1, 0, 1)], 1)),
            "plain": code(cudart.cudaGraphAddDependencies(made, [a], [b], None, 1)),
            "other port": code(cudart.cudaGraphAddDependencies(made, [a], [b], [data(2, 0, 1)], 1)),
        }
        result["count"] = int(cudart.cudaGraphGetEdges(made)[-1])
        result["remove plain"] = code(cudart.cudaGraphRemoveDependencies(made, [a], [b], None, 1))
        result["then"] = int(cudart.cudaGraphGetEdges(made)[-1])
        result["remove"] = code(cudart.cudaGraphRemoveDependencies(made, [a], [b], [data(1, 0, 1)], 1))
        result["left"] = int(cudart.cudaGraphGetEdges(made)[-1])
    cudart.cudaGetLastError()
    return result


@program("data of the edges of a new node, also fewer than it has dependencies")
def of_a_new_node():
    warm_appends()
    log = new_log()
    with graph() as made:
        a = append_node(made, [], log, 1)
        x, y = cp.zeros(32, cp.int32), cp.zeros(32, cp.int32)
        pointer = ctypes.c_void_p
        args = (int(x.data.ptr), int(y.data.ptr)), (pointer, pointer)
        result = {
            "programmatic": code(kernel_node(made, WAITS, "second", *args, [a], [edge_of_driver(1, 0, 1)])),
            "wrong": code(kernel_node(made, WAITS, "second", *args, [a], [edge_of_driver(3, 0, 1)])),
            "plain": code(kernel_node(made, WAITS, "second", *args, [a], [edge_of_driver()])),
        }
        result["nodes"] = int(cudart.cudaGraphGetNodes(made)[-1])
        edges = cudart.cudaGraphGetEdges(made, 2)
        result["edges"] = sorted(fields(edge) for edge in edges[3])
    cudart.cudaGetLastError()
    return result


@program("a programmatic edge: the second kernel sees what the first has written before its wait ends")
def programmatic():
    x, y = cp.zeros(32, cp.int32), cp.zeros(32, cp.int32)
    cudart.cudaDeviceSynchronize()
    with graph() as made:
        _, second = pair(made, x, y, edge_of_driver(1, 0, 1))
        went = run_graph(made, 3)
    return {"added": code(second), "went": went, "y": y}


@program("an edge from the start of a kernel's blocks, with a wait in the second")
def at_the_start():
    x, y = cp.zeros(32, cp.int32), cp.zeros(32, cp.int32)
    cudart.cudaDeviceSynchronize()
    with graph() as made:
        _, second = pair(made, x, y, edge_of_driver(2, 0, 1))
        went = run_graph(made)
    return {"added": code(second), "went": went}


@program("a kernel behind one programmatic and one plain edge")
def mixed():
    warm_appends()
    log = new_log()
    x, y = cp.zeros(32, cp.int32), cp.zeros(32, cp.int32)
    cudart.cudaDeviceSynchronize()
    with graph() as made:
        _, (error, second) = pair(made, x, y, edge_of_driver(1, 0, 1))
        if error.value:
            return {"added": error.name}
        before = append_node(made, [], log, 1, slowly=True)
        cudart.cudaGraphAddDependencies(made, [before], [cudart.cudaGraphNode_t(int(second))], None, 1)
        append_node(made, [cudart.cudaGraphNode_t(int(second))], log, 2)
        went = run_graph(made, 2)
    return {"added": error.name, "went": went, "log": logged(log), "y": y}


@program("copies of a graph keep the data of edges; an update to another kind of edge")
def copied():
    x, y = cp.zeros(32, cp.int32), cp.zeros(32, cp.int32)
    cudart.cudaDeviceSynchronize()
    with graph() as made, graph() as plain:
        pair(made, x, y, edge_of_driver(1, 0, 1))
        pair(plain, x, y, None)
        _, clone = cudart.cudaGraphClone(made)
        result = {"clone": [fields(edge) for edge in cudart.cudaGraphGetEdges(clone, 1)[3]]}
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        error, found = cudart.cudaGraphExecUpdate(executable, plain)
        result["update"] = [error.name, found.result.name if found is not None else ""]
        error, found = cudart.cudaGraphExecUpdate(executable, clone)
        result["same"] = [error.name, found.result.name if found is not None else ""]
        cudart.cudaGraphExecDestroy(executable)
        cudart.cudaGraphDestroy(clone)
    cudart.cudaGetLastError()
    return result


@program("a captured launch with programmatic stream serialisation makes a programmatic edge")
def captured():
    x, y = cp.zeros(32, cp.int32), cp.zeros(32, cp.int32)
    first, second = cp.RawKernel(TRIGGERS, "first"), cp.RawKernel(WAITS, "second")
    allowed = attribute("PROGRAMMATIC_STREAM_SERIALIZATION", programmaticStreamSerializationAllowed=1)
    pointers = int(x.data.ptr), int(y.data.ptr)
    for kernel in (first, second):
        kernel.compile()
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        cudart.cudaStreamBeginCapture(stream, mode_of(0))
        result = {"first": launched(first, [], pointers[0], cp.int32(200), stream=stream, block=32)}
        result["second"] = launched(second, [allowed], *pointers, stream=stream, block=32)
        info = cudart.cudaStreamGetCaptureInfo(stream)
        result["next"] = [fields(edge) for edge in info[5]]
        result["third"] = launched(first, [allowed], pointers[0], cp.int32(2), stream=stream, block=32)
        cudart.cudaMemsetAsync(x.data.ptr, 0, 64, stream)
        error, made = cudart.cudaStreamEndCapture(stream)
        result["end"] = error.name
        if error.value == 0:
            count = int(cudart.cudaGraphGetEdges(made)[-1])
            result["edges"] = sorted(fields(edge) for edge in cudart.cudaGraphGetEdges(made, count)[3])
            result["went"] = run_graph(made, 2)
            cudart.cudaGraphDestroy(made)
    return {**result, "y": y}


@program("dependencies of a capture are set with data of edges")
def set_in_a_capture():
    warm_appends()
    log = new_log()
    with graph() as made, streams(1) as (stream,):
        node = append_node(made, [], log, 1)
        began = cudart.cudaStreamBeginCaptureToGraph(stream, made, [node], [data(1, 0, 1)], 1, mode_of(0))
        result = {"began": code(began)}
        info = cudart.cudaStreamGetCaptureInfo(stream)
        result["info"] = [code(info), [fields(edge) for edge in info[5] or []]]
        other = append_node(made, [], log, 2)
        update = cudart.cudaStreamUpdateCaptureDependencies(stream, [other], [data(1, 0, 1)], 1, 0)
        result["update"] = code(update)
        info = cudart.cudaStreamGetCaptureInfo(stream)
        result["then"] = sorted(fields(edge) for edge in info[5] or [])
        result["end"] = code(cudart.cudaStreamEndCapture(stream))
    cudart.cudaGetLastError()
    return result
