"""Memory that graphs allocate and free: addresses, lifetimes, errors, and what is reserved for it."""

from cudalab import cudart, driver

from ..appending import append_node, graph, mode_of, new_log, run_graph, warm_appends
from ..busy import fetched, streams
from ..program import code, program


def allocation(size):
    params = cudart.cudaMemAllocNodeParams()
    params.poolProps.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
    params.poolProps.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
    params.poolProps.location.id = 0
    params.bytesize = size
    return params


def allocated(made, after, size):
    """A new allocation node: the code, the node and the address."""
    params = allocation(size)
    error, node = cudart.cudaGraphAddMemAllocNode(made, after, len(after), params)
    return error.name, node, int(params.dptr)


def memset(made, after, pointer, value, size):
    params = cudart.cudaMemsetParams()
    params.dst, params.value, params.width = pointer, value, size
    params.elementSize, params.height, params.pitch = 1, 1, 0
    return cudart.cudaGraphAddMemsetNode(made, after, len(after), params)[1]


def copied(made, after, dst, src, size):
    kind = cudart.cudaMemcpyKind.cudaMemcpyDefault
    return cudart.cudaGraphAddMemcpyNode1D(made, after, len(after), dst, src, size, kind)[1]


def attribute(name):
    number = getattr(cudart.cudaGraphMemAttributeType, f"cudaGraphMemAttr{name}")
    error, value = cudart.cudaDeviceGetGraphMemAttribute(0, number)
    return [error.name, int(value)]


@program("memory that is allocated, used and freed in one graph")
def allocated_and_freed():
    log = new_log(64)
    with graph() as made:
        error, node, pointer = allocated(made, [], 256)
        filled = memset(made, [node], pointer, 3, 256)
        out = copied(made, [filled], log.data.ptr, pointer, 64)
        freed = cudart.cudaGraphAddMemFreeNode(made, [out], 1, pointer)
        kinds = [cudart.cudaGraphNodeGetType(n)[1].name for n in (node, freed[1])]
        asked = cudart.cudaGraphMemAllocNodeGetParams(node)
        address = cudart.cudaGraphMemFreeNodeGetParams(freed[1])
        went = run_graph(made, 3)
    return {
        "added": [error, pointer != 0, code(freed)],
        "kinds": kinds,
        "asked": [code(asked), int(asked[1].bytesize), int(asked[1].dptr) == pointer],
        "address": [code(address), int(address[1]) == pointer],
        "went": went,
        "first": fetched(log.data.ptr, 4).tolist(),
    }


@program("memory that is not freed in the graph: a second launch, and freeing it outside")
def not_freed():
    with graph() as made:
        error, node, pointer = allocated(made, [], 256)
        memset(made, [node], pointer, 5, 256)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        result = {"first": code(cudart.cudaGraphLaunch(executable, 0)), "sync": code(cudart.cudaDeviceSynchronize())}
        result["value"] = fetched(pointer, 1).tolist()
        result["second"] = code(cudart.cudaGraphLaunch(executable, 0))
        result["free"] = code(cudart.cudaFree(pointer))
        result["third"] = code(cudart.cudaGraphLaunch(executable, 0))
        result["free async"] = code(cudart.cudaFreeAsync(pointer, 0))
        cudart.cudaDeviceSynchronize()
        cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return result


@program("memory that is not freed in the graph, freed by each launch")
def freed_on_launch():
    with graph() as made:
        _, node, pointer = allocated(made, [], 256)
        memset(made, [node], pointer, 6, 256)
        error, executable = cudart.cudaGraphInstantiate(made, 1)
        launches = [code(cudart.cudaGraphLaunch(executable, 0)) for _ in range(3)]
        sync = code(cudart.cudaDeviceSynchronize())
        value = fetched(pointer, 1).tolist()
        freed = code(cudart.cudaFree(pointer))
        cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return {"instantiated": error.name, "launches": launches, "sync": sync, "value": value, "free": freed}


@program("one graph allocates, another one frees")
def freed_by_another_graph():
    with graph() as made, graph() as other:
        _, node, pointer = allocated(made, [], 256)
        memset(made, [node], pointer, 7, 256)
        freed = code(cudart.cudaGraphAddMemFreeNode(other, [], 0, pointer))
        _, first = cudart.cudaGraphInstantiate(made, 0)
        error, second = cudart.cudaGraphInstantiate(other, 0)
        went = [code(cudart.cudaGraphLaunch(e, 0)) for e in (first, second, first, second)]
        sync = code(cudart.cudaDeviceSynchronize())
        cudart.cudaGraphExecDestroy(first)
        cudart.cudaGraphExecDestroy(second)
    return {"freed": freed, "instantiated": error.name, "went": went, "sync": sync}


@program("what memory nodes are refused for")
def errors():
    with graph() as made:
        result = {"no bytes": allocated(made, [], 0)[0]}
        _, node, pointer = allocated(made, [], 64)
        freed = cudart.cudaGraphAddMemFreeNode(made, [node], 1, pointer)
        result["freed"] = code(freed)
        result["freed twice"] = code(cudart.cudaGraphAddMemFreeNode(made, [freed[1]], 1, pointer))
        result["null"] = code(cudart.cudaGraphAddMemFreeNode(made, [], 0, 0))
        result["of cudaMalloc"] = code(cudart.cudaGraphAddMemFreeNode(made, [], 0, cudart.cudaMalloc(64)[1]))
        result["clone"] = code(cudart.cudaGraphClone(made))
        result["destroy node"] = code(cudart.cudaGraphDestroyNode(node))
        result["remove edge"] = code(cudart.cudaGraphRemoveDependencies(made, [node], [freed[1]], None, 1))
        first, second = cudart.cudaGraphInstantiate(made, 0), cudart.cudaGraphInstantiate(made, 0)
        result["instantiated twice"] = [code(first), code(second)]
        for executable in (first[1], second[1]):
            if executable is not None and int(executable):
                cudart.cudaGraphExecDestroy(executable)
        again = cudart.cudaGraphInstantiate(made, 0)
        result["after destroying it"] = code(again)
        if again[1] is not None and int(again[1]):
            cudart.cudaGraphExecDestroy(again[1])
        with graph() as parent:
            result["as a child"] = code(cudart.cudaGraphAddChildGraphNode(parent, [], 0, made))
    cudart.cudaGetLastError()
    return result


@program("stream-ordered allocation and freeing in a capturing stream")
def captured():
    log = new_log(64)
    with streams(1) as (stream,):
        cudart.cudaStreamBeginCapture(stream, mode_of(0))
        error, pointer = cudart.cudaMallocAsync(256, stream)
        cudart.cudaMemsetAsync(pointer, 2, 256, stream)
        cudart.cudaMemcpyAsync(log.data.ptr, pointer, 64, cudart.cudaMemcpyKind(3), stream)
        freed = code(cudart.cudaFreeAsync(pointer, stream))
        end, made = cudart.cudaStreamEndCapture(stream)
        count = int(cudart.cudaGraphGetNodes(made)[-1])
        kinds = [cudart.cudaGraphNodeGetType(n)[1].name for n in cudart.cudaGraphGetNodes(made, count)[1]]
        went = run_graph(made, 2)
        cudart.cudaGraphDestroy(made)
    return {
        "malloc": error.name, "free": freed, "end": end.name, "kinds": kinds, "went": went,
        "value": fetched(log.data.ptr, 1).tolist(),
    }  # fmt: skip


@program("freeing in a capture what was allocated outside")
def captured_free():
    _, pointer = cudart.cudaMallocAsync(256, 0)
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        cudart.cudaStreamBeginCapture(stream, mode_of(0))
        freed = code(cudart.cudaFreeAsync(pointer, stream))
        error, made = cudart.cudaStreamEndCapture(stream)
        if error.value == 0:
            cudart.cudaGraphDestroy(made)
    cudart.cudaGetLastError()
    return {"free": freed, "end": error.name, "outside": code(cudart.cudaFree(pointer))}


@program("what is reserved for the memory of graphs")
def reserved():
    cudart.cudaDeviceGraphMemTrim(0)
    names = ("UsedMemCurrent", "UsedMemHigh", "ReservedMemCurrent", "ReservedMemHigh")
    result = {"error": [attribute(name)[0] for name in names]}
    with graph() as made:
        _, node, pointer = allocated(made, [], 1 << 20)
        cudart.cudaGraphAddMemFreeNode(made, [node], 1, pointer)
        before = attribute("ReservedMemCurrent")[1]
        run_graph(made)
        after = attribute("ReservedMemCurrent")[1]
        result["grew"] = [after >= before, attribute("UsedMemCurrent")[1]]
    trim = code(cudart.cudaDeviceGraphMemTrim(0))
    result["trimmed"] = [trim, attribute("ReservedMemCurrent")[1]]
    high = cudart.cudaGraphMemAttributeType.cudaGraphMemAttrUsedMemHigh
    result["reset"] = code(cudart.cudaDeviceSetGraphMemAttribute(0, high, driver.cuuint64_t(0)))
    result["device"] = code(cudart.cudaDeviceGraphMemTrim(99))
    cudart.cudaGetLastError()
    return result


@program("memory of a graph in a kernel of the same graph")
def used_by_kernels():
    warm_appends()
    with graph() as made:

        class Memory:
            """Stands for an array."""

            def __init__(self, pointer):
                self.data = type("Data", (), {"ptr": pointer})

        log = new_log(8)
        _, node, pointer = allocated(made, [], 256)
        cleared = memset(made, [node], pointer, 0, 256)
        appended = append_node(made, [cleared], Memory(pointer), 42)
        out = copied(made, [appended], log.data.ptr, pointer, 8)
        cudart.cudaGraphAddMemFreeNode(made, [out], 1, pointer)
        went = run_graph(made, 2)
    return {"went": went, "log": fetched(log.data.ptr, 2).tolist()}
