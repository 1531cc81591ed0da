"""Rules of memory nodes: what their parameters may be, what graphs that have them may do, and what captures make."""

from cudalab import cp, cudart, driver

from ..appending import graph, mode_of, new_log, run_graph
from ..busy import device_memory, fetched, streams
from ..program import code, program


def parameters(size, kind=1, place=1, number=0, handles=0):
    params = cudart.cudaMemAllocNodeParams()
    params.poolProps.allocType = cudart.cudaMemAllocationType(kind)
    params.poolProps.location.type = cudart.cudaMemLocationType(place)
    params.poolProps.location.id = number
    params.poolProps.handleTypes = cudart.cudaMemAllocationHandleType(handles)
    params.bytesize = size
    return params


def allocated(made, after=(), size=256):
    """A new allocation node, and the address."""
    params = parameters(size)
    node = cudart.cudaGraphAddMemAllocNode(made, list(after), len(after), params)[1]
    return node, int(params.dptr)


def set_node(made, after, pointer, value, size=256):
    params = cudart.cudaMemsetParams()
    params.dst, params.value, params.width = pointer, value, size
    params.elementSize, params.height, params.pitch = 1, 1, 0
    return cudart.cudaGraphAddMemsetNode(made, list(after), len(after), params)


def free_node(made, after, pointer):
    return cudart.cudaGraphAddMemFreeNode(made, list(after), len(after), pointer)


def empty(made, after=()):
    return cudart.cudaGraphAddEmptyNode(made, list(after), len(after))[1]


def instantiated(made, flags=0):
    error, executable = cudart.cudaGraphInstantiate(made, flags)
    return error.name, executable


def launched(executable):
    return [code(cudart.cudaGraphLaunch(executable, 0)), code(cudart.cudaDeviceSynchronize())]


def done():
    cudart.cudaGetLastError()


@program("parameters of allocation nodes that cannot be")
def wrong_parameters():
    with graph() as made:
        cases = {
            "no type": parameters(64, kind=0),
            "no place": parameters(64, place=0),
            "device 99": parameters(64, number=99),
            "exported": parameters(64, handles=1),
            "too much": parameters(1 << 60),
        }
        found = {name: code(cudart.cudaGraphAddMemAllocNode(made, [], 0, each)) for name, each in cases.items()}
        found["none"] = code(cudart.cudaGraphAddMemAllocNode(made, [], 0, None))
        found["nodes"] = int(cudart.cudaGraphGetNodes(made)[-1])
        done()
        return found


@program("memory nodes by the general call and by the driver")
def other_calls():
    with graph() as made:
        params = cudart.cudaGraphNodeParams()
        params.type = cudart.cudaGraphNodeType.cudaGraphNodeTypeMemAlloc
        params.alloc.poolProps.allocType = cudart.cudaMemAllocationType(1)
        params.alloc.poolProps.location.type = cudart.cudaMemLocationType(1)
        params.alloc.bytesize = 512
        error, node = cudart.cudaGraphAddNode(made, None, None, 0, params)
        pointer = int(params.alloc.dptr)
        free = cudart.cudaGraphNodeParams()
        free.type = cudart.cudaGraphNodeType.cudaGraphNodeTypeMemFree
        free.free.dptr = pointer
        error_free, freed = cudart.cudaGraphAddNode(made, [node], None, 1, free)
        wanted = driver.CUDA_MEM_ALLOC_NODE_PARAMS()
        wanted.poolProps.allocType = driver.CUmemAllocationType(1)
        wanted.poolProps.location.type = driver.CUmemLocationType(1)
        wanted.bytesize = 64
        by_driver = driver.cuGraphAddMemAllocNode(driver.CUgraph(int(made)), [], 0, wanted)
        asked = driver.cuGraphMemAllocNodeGetParams(by_driver[1])
        other = driver.cuGraphAddMemFreeNode(driver.CUgraph(int(made)), [by_driver[1]], 1, asked[1].dptr)
        address = driver.cuGraphMemFreeNodeGetParams(other[1])
        return {
            "general": [error.name, pointer != 0, error_free.name, cudart.cudaGraphNodeGetType(freed)[1].name],
            "driver": [code(by_driver), code(asked), int(asked[1].bytesize), code(other)],
            "same": [int(wanted.dptr) == int(asked[1].dptr), int(address[1]) == int(asked[1].dptr)],
            "went": run_graph(made, 2),
        }


@program("a free node that nothing orders behind the allocation")
def unordered_free():
    with graph() as made:
        _, pointer = allocated(made)
        result = {"added": code(free_node(made, [], pointer))}
        error, executable = instantiated(made)
        result["instantiated"] = error
        if error == "cudaSuccess":
            cudart.cudaGraphExecDestroy(executable)
    done()
    return result


@program("the graph that frees is launched before any memory is there, and twice")
def freeing_too_often():
    with graph() as made, graph() as other:
        node, pointer = allocated(made)
        set_node(made, [node], pointer, 3)
        free_node(other, [], pointer)
        _, first = instantiated(made)
        _, second = instantiated(other)
        result = {"before": launched(second), "allocated": launched(first), "freed": launched(second)}
        result["again"] = launched(second)
        result["anew"] = [launched(first), launched(second)]
        cudart.cudaGraphExecDestroy(first)
        cudart.cudaGraphExecDestroy(second)
    done()
    return result


@program("a graph that only frees: cloned, a child, instantiated twice")
def only_freeing():
    with graph() as made, graph() as other, graph() as parent:
        _, pointer = allocated(made)
        node = free_node(other, [], pointer)[1]
        result = {
            "clone": code(cudart.cudaGraphClone(other)),
            "child": code(cudart.cudaGraphAddChildGraphNode(parent, [], 0, other)),
            "second free": code(free_node(parent, [], pointer)),
            "destroy": code(cudart.cudaGraphDestroyNode(node)),
        }
        first, second = instantiated(other), instantiated(other)
        result["twice"] = [first[0], second[0]]
        for _, executable in (first, second):
            if executable is not None and int(executable):
                cudart.cudaGraphExecDestroy(executable)
    done()
    return result


@program("nodes and edges of a graph with memory nodes that have to do with none")
def other_nodes():
    with graph() as made:
        node, pointer = allocated(made)
        freed = free_node(made, [node], pointer)[1]
        a, b, c = empty(made), empty(made), empty(made)
        result = {
            "new edge": code(cudart.cudaGraphAddDependencies(made, [a, b, node], [b, c, a], None, 3)),
            "edge of others": code(cudart.cudaGraphRemoveDependencies(made, [a], [b], None, 1)),
            "edge behind": code(cudart.cudaGraphRemoveDependencies(made, [node], [a], None, 1)),
            "new edge before": code(cudart.cudaGraphAddDependencies(made, [c], [freed], None, 1)),
            "other node": code(cudart.cudaGraphDestroyNode(c)),
            "nodes": int(cudart.cudaGraphGetNodes(made)[-1]),
            "edges": int(cudart.cudaGraphGetEdges(made)[-1]),
        }
    done()
    return result


@program("memory nodes cannot be updated or switched off")
def no_updates():
    with graph() as made:
        node, pointer = allocated(made)
        filled = set_node(made, [node], pointer, 1)[1]
        freed = free_node(made, [filled], pointer)[1]
        _, executable = instantiated(made)
        params = cudart.cudaGraphNodeParams()
        params.type = cudart.cudaGraphNodeType.cudaGraphNodeTypeMemAlloc
        params.alloc.poolProps.allocType = cudart.cudaMemAllocationType(1)
        params.alloc.poolProps.location.type = cudart.cudaMemLocationType(1)
        params.alloc.bytesize = 512
        free = cudart.cudaGraphNodeParams()
        free.type = cudart.cudaGraphNodeType.cudaGraphNodeTypeMemFree
        free.free.dptr = pointer
        result = {
            "alloc": code(cudart.cudaGraphNodeSetParams(node, params)),
            "free": code(cudart.cudaGraphNodeSetParams(freed, free)),
            "exec alloc": code(cudart.cudaGraphExecNodeSetParams(executable, node, params)),
            "exec free": code(cudart.cudaGraphExecNodeSetParams(executable, freed, free)),
            "switch": code(cudart.cudaGraphNodeSetEnabled(executable, node, 0)),
            "asked": code(cudart.cudaGraphNodeGetEnabled(executable, freed)),
            "memset": code(cudart.cudaGraphNodeSetEnabled(executable, filled, 0)),
        }
        error, found = cudart.cudaGraphExecUpdate(executable, made)
        result["update"] = [error.name, found.result.name if found is not None else "none"]
        result["went"] = launched(executable)
        cudart.cudaGraphExecDestroy(executable)
    done()
    return result


@program("freeing with cudaFreeAsync, and freeing too often")
def freed_by_calls():
    with graph() as made, streams(1) as (stream,):
        node, pointer = allocated(made)
        set_node(made, [node], pointer, 9)
        _, executable = instantiated(made)
        result = {
            "before": [code(cudart.cudaFree(pointer)), code(cudart.cudaFreeAsync(pointer, stream))],
            "launch": code(cudart.cudaGraphLaunch(executable, stream)),
            "free": code(cudart.cudaFreeAsync(pointer, stream)),
            "twice": code(cudart.cudaFreeAsync(pointer, stream)),
            "relaunch": code(cudart.cudaGraphLaunch(executable, stream)),
            "in it": code(cudart.cudaFreeAsync(pointer + 16, stream)),
        }
        cudart.cudaStreamSynchronize(stream)
        result["value"] = fetched(pointer, 1).tolist()
        result["plain"] = [code(cudart.cudaFree(pointer)), code(cudart.cudaFree(pointer))]
        cudart.cudaGraphExecDestroy(executable)
    done()
    return result


@program("memory that outlives the executable graph and the graph")
def outliving():
    _, made = cudart.cudaGraphCreate(0)
    node, pointer = allocated(made)
    set_node(made, [node], pointer, 4)
    _, executable = instantiated(made)
    result = {"launched": launched(executable)}
    result["destroyed"] = [code(cudart.cudaGraphExecDestroy(executable)), code(cudart.cudaGraphDestroy(made))]
    result["value"] = fetched(pointer, 1).tolist()
    result["free"] = code(cudart.cudaFree(pointer))
    done()
    return result


@program("an executable graph with memory that is left, destroyed and made again")
def made_again():
    with graph() as made:
        node, pointer = allocated(made)
        set_node(made, [node], pointer, 4)
        _, executable = instantiated(made)
        result = {"launched": launched(executable)}
        cudart.cudaGraphExecDestroy(executable)
        error, executable = instantiated(made)
        result["again"] = [error, launched(executable)]
        result["free"] = code(cudart.cudaFree(pointer))
        result["then"] = launched(executable)
        cudart.cudaGraphExecDestroy(executable)
        result["last"] = code(cudart.cudaFree(pointer))
    done()
    return result


@program("what is said of an address before, between and after launches")
def pointers():
    def asked():
        error, found = cudart.cudaPointerGetAttributes(pointer)
        return [error.name, found.type.name if found is not None else ""]

    with graph() as made:
        node, pointer = allocated(made)
        set_node(made, [node], pointer, 4)
        result = {"new": [*asked(), code(cudart.cudaMemset(pointer, 1, 16))]}
        _, executable = instantiated(made)
        result["instantiated"] = asked()
        launched(executable)
        result["launched"] = [*asked(), code(cudart.cudaMemset(pointer, 1, 16))]
        cudart.cudaFree(pointer)
        result["freed"] = asked()
        cudart.cudaGraphExecDestroy(executable)
    done()
    return result


@program("freed on each launch: flags, two allocations of which one is freed in the graph, freed outside in between")
def freed_on_launch():
    with graph() as made:
        node, pointer = allocated(made)
        other, second = allocated(made, [node])
        set_node(made, [other], pointer, 6)
        free_node(made, [other], second)
        error, executable = instantiated(made, 1)
        result = {"instantiated": [error, int(cudart.cudaGraphExecGetFlags(executable)[1])]}
        result["launches"] = [code(cudart.cudaGraphLaunch(executable, 0)) for _ in range(3)]
        result["free"] = code(cudart.cudaFree(pointer))
        result["launch"] = launched(executable)
        result["value"] = fetched(pointer, 1).tolist()
        cudart.cudaGraphExecDestroy(executable)
        result["left"] = code(cudart.cudaFree(pointer))
    done()
    return result


@program("freed on each launch, of memory that another graph frees")
def freed_on_launch_or_elsewhere():
    with graph() as made, graph() as other:
        node, pointer = allocated(made)
        set_node(made, [node], pointer, 6)
        free_node(other, [], pointer)
        _, first = instantiated(made, 1)
        _, second = instantiated(other)
        result = {
            "launches": [launched(each) for each in (first, second, first, first, second)],
            "of both": instantiated(other, 1)[0],
        }
        cudart.cudaGraphExecDestroy(first)
        cudart.cudaGraphExecDestroy(second)
    done()
    return result


@program("captured allocations: no bytes, from a pool, freed elsewhere, twice, and memory that is left")
def captured_kinds():
    result = {}
    with streams(1, 1) as (stream, other), device_memory(64) as plain:
        pool = cudart.cudaDeviceGetDefaultMemPool(0)[1]
        cudart.cudaStreamBeginCapture(stream, mode_of(0))
        error, nothing = cudart.cudaMallocAsync(0, stream)
        result["no bytes"] = [error.name, int(nothing or 0) == 0]
        error, pointer = cudart.cudaMallocFromPoolAsync(256, pool, stream)
        result["from a pool"] = [error.name, int(pointer) != 0]
        result["plain"] = code(cudart.cudaFreeAsync(plain, stream))
        result["null"] = code(cudart.cudaFreeAsync(0, stream))
        result["in another stream"] = code(cudart.cudaFreeAsync(pointer, other))
        result["state"] = cudart.cudaStreamIsCapturing(stream)[1].name
        result["freed"] = [code(cudart.cudaFreeAsync(pointer, stream)) for _ in range(2)]
        error, left = cudart.cudaMallocAsync(128, stream)
        cudart.cudaMemsetAsync(left, 5, 128, stream)
        end, made = cudart.cudaStreamEndCapture(stream)
        result["end"] = end.name
        if end.value == 0:
            count = int(cudart.cudaGraphGetNodes(made)[-1])
            result["kinds"] = [cudart.cudaGraphNodeGetType(n)[1].name for n in cudart.cudaGraphGetNodes(made, count)[1]]
            result["went"] = run_graph(made)
            result["value"] = fetched(left, 1).tolist()
            result["free"] = code(cudart.cudaFree(left))
            cudart.cudaGraphDestroy(made)
    done()
    return result


@program("memory allocated in one branch of a capture and freed in another")
def captured_fork():
    log = new_log(64)
    with streams(1, 1) as (one, other):
        fork, join = (cudart.cudaEventCreateWithFlags(2)[1] for _ in range(2))
        cudart.cudaStreamBeginCapture(one, mode_of(0))
        _, pointer = cudart.cudaMallocAsync(256, one)
        cudart.cudaMemsetAsync(pointer, 3, 256, one)
        cudart.cudaEventRecord(fork, one)
        cudart.cudaStreamWaitEvent(other, fork, 0)
        cudart.cudaMemcpyAsync(log.data.ptr, pointer, 256, cudart.cudaMemcpyKind(3), other)
        freed = code(cudart.cudaFreeAsync(pointer, other))
        cudart.cudaEventRecord(join, other)
        cudart.cudaStreamWaitEvent(one, join, 0)
        _, made = cudart.cudaStreamEndCapture(one)
        went = run_graph(made, 2)
        cudart.cudaGraphDestroy(made)
        for event in (fork, join):
            cudart.cudaEventDestroy(event)
    return {"freed": freed, "went": went, "value": fetched(log.data.ptr, 1).tolist()}


@program("what is reserved for the memory of graphs, step by step")
def reserved_steps():
    kinds = cudart.cudaGraphMemAttributeType
    names = ("UsedMemCurrent", "UsedMemHigh", "ReservedMemCurrent", "ReservedMemHigh")
    attributes = [getattr(kinds, f"cudaGraphMemAttr{name}") for name in names]

    def now():
        values = [int(cudart.cudaDeviceGetGraphMemAttribute(0, each)[1]) for each in attributes]
        return [value // (1 << 20) for value in values]

    cudart.cudaDeviceSynchronize()
    cudart.cudaDeviceGraphMemTrim(0)
    for each in (attributes[1], attributes[3]):
        cudart.cudaDeviceSetGraphMemAttribute(0, each, driver.cuuint64_t(0))
    result = {"start": now()}
    with graph() as made, graph() as other:
        node, pointer = allocated(made, size=40 << 20)
        free_node(made, [node], pointer)
        node, second = allocated(other, size=1 << 20)
        free_node(other, [node], second)
        result["added"] = now()
        _, first = instantiated(made)
        result["instantiated"] = now()
        cudart.cudaGraphUpload(first, 0)
        cudart.cudaDeviceSynchronize()
        result["uploaded"] = now()
        launched(first)
        result["launched"] = now()
        launched(first)
        result["again"] = now()
        _, executable = instantiated(other)
        launched(executable)
        result["another"] = now()
        cudart.cudaDeviceGraphMemTrim(0)
        result["trimmed"] = now()
        launched(first)
        result["after the trim"] = now()
        cudart.cudaGraphExecDestroy(first)
        result["destroyed"] = now()
        cudart.cudaDeviceGraphMemTrim(0)
        result["trimmed then"] = now()
        launched(executable)
        result["another again"] = now()
        cudart.cudaGraphExecDestroy(executable)
        cudart.cudaDeviceGraphMemTrim(0)
        result["at the end"] = now()
    return result


@program("memory that is left counts as used until it is freed")
def reserved_while_left():
    kinds = cudart.cudaGraphMemAttributeType

    def now():
        pair = (kinds.cudaGraphMemAttrUsedMemCurrent, kinds.cudaGraphMemAttrReservedMemCurrent)
        return [int(cudart.cudaDeviceGetGraphMemAttribute(0, each)[1]) // (1 << 20) for each in pair]

    cudart.cudaDeviceSynchronize()
    cudart.cudaDeviceGraphMemTrim(0)
    result = {"start": now()}
    with graph() as made:
        node, pointer = allocated(made, size=40 << 20)
        _, executable = instantiated(made)
        launched(executable)
        result["left"] = now()
        cudart.cudaDeviceGraphMemTrim(0)
        result["trimmed"] = now()
        cudart.cudaGraphExecDestroy(executable)
        cudart.cudaDeviceGraphMemTrim(0)
        result["without executable"] = now()
        cudart.cudaFree(pointer)
        result["freed"] = now()
        cudart.cudaDeviceGraphMemTrim(0)
        result["trimmed then"] = now()
    return result


@program("setting what is reserved: values, attributes, devices")
def reserved_errors():
    kinds = cudart.cudaGraphMemAttributeType
    zero, one = driver.cuuint64_t(0), driver.cuuint64_t(1)
    result = {
        "current": code(cudart.cudaDeviceSetGraphMemAttribute(0, kinds.cudaGraphMemAttrUsedMemCurrent, zero)),
        "one": code(cudart.cudaDeviceSetGraphMemAttribute(0, kinds.cudaGraphMemAttrUsedMemHigh, one)),
        "zero": code(cudart.cudaDeviceSetGraphMemAttribute(0, kinds.cudaGraphMemAttrReservedMemHigh, zero)),
        "get of 99": code(cudart.cudaDeviceGetGraphMemAttribute(99, kinds.cudaGraphMemAttrUsedMemHigh)),
        "set of 99": code(cudart.cudaDeviceSetGraphMemAttribute(99, kinds.cudaGraphMemAttrUsedMemHigh, zero)),
    }
    done()
    return result


@program("a kernel of a stream behind the launch uses memory that the graph leaves")
def used_behind_the_launch():
    with graph() as made, streams(1) as (stream,):
        node, pointer = allocated(made, size=1024)
        set_node(made, [node], pointer, 1, 1024)
        _, executable = instantiated(made)
        kernel = cp.RawKernel('extern "C" __global__ void triple(int* x) { x[threadIdx.x] *= 3; }', "triple")
        kernel.compile()
        results = []
        for _ in range(2):
            cudart.cudaGraphLaunch(executable, stream)
            with cp.cuda.ExternalStream(stream):
                kernel((1,), (256,), (cp.uint64(pointer),))
            cudart.cudaStreamSynchronize(stream)
            results.append(fetched(pointer, 256).tolist())
            cudart.cudaFreeAsync(pointer, stream)
        cudart.cudaStreamSynchronize(stream)
        cudart.cudaGraphExecDestroy(executable)
    return {"same": results[0] == results[1], "values": sorted(set(results[0]))}
