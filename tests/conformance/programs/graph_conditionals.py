"""Conditional nodes: handles, what their bodies may hold, and how often they run."""

import ctypes

from cudalab import cp, cudart, driver

from ..appending import append_node, function_of, graph, logged, new_log, run_graph, warm_appends
from ..busy import device_memory, fetched, streams
from ..program import code, program

IF, WHILE, SWITCH, ASSIGN = 0, 1, 2, 1
DECLARATION = r"""
extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);
"""
SET_SOURCE = (
    DECLARATION
    + r"""
extern "C" __global__ void set(cudaGraphConditionalHandle handle, unsigned int value) {
    if (threadIdx.x == 0) cudaGraphSetConditional(handle, value);
}"""
)
COUNT_SOURCE = (
    DECLARATION
    + r"""
extern "C" __global__ void count(cudaGraphConditionalHandle handle, int* counter, int limit) {
    if (threadIdx.x == 0) {
        *counter += 1;
        cudaGraphSetConditional(handle, *counter < limit);
    }
}"""
)
FROM_SOURCE = (
    DECLARATION
    + r"""
extern "C" __global__ void from(cudaGraphConditionalHandle handle, const int* value) {
    cudaGraphSetConditional(handle, *value);
}"""
)
NUMBER, POINTER, HANDLE = ctypes.c_int, ctypes.c_void_p, ctypes.c_ulonglong


def handle_of(made, default=0, flags=0):
    error, handle = cudart.cudaGraphConditionalHandleCreate(made, default, flags)
    assert error.value == 0, error
    return handle


def conditional(made, after, handle, kind, size=1):
    """A conditional node: the error, the node, and its bodies."""
    params = cudart.cudaGraphNodeParams()
    params.type = cudart.cudaGraphNodeType.cudaGraphNodeTypeConditional
    params.conditional.handle = handle
    params.conditional.type = cudart.cudaGraphConditionalNodeType(kind)
    params.conditional.size = size
    error, node = cudart.cudaGraphAddNode(made, list(after), None, len(after), params)
    return error.name, node, list(params.conditional.phGraph_out) if error.value == 0 else []


def kernel_node(made, after, source, name, args, kinds):
    params = driver.CUDA_KERNEL_NODE_PARAMS()
    params.func = function_of(source, name)
    params.gridDimX = params.gridDimY = params.gridDimZ = 1
    params.blockDimX = params.blockDimY = params.blockDimZ = 1
    params.kernelParams = (args, kinds)
    before = [driver.CUgraphNode(int(each)) for each in after]
    error, node = driver.cuGraphAddKernelNode(driver.CUgraph(int(made)), before, len(before), params)
    assert error.value == 0, error
    return cudart.cudaGraphNode_t(int(node))


def set_node(made, after, handle, value):
    return kernel_node(made, after, SET_SOURCE, "set", (int(handle), value), (HANDLE, NUMBER))


def count_node(made, after, handle, counter, limit):
    args = int(handle), int(counter), limit
    return kernel_node(made, after, COUNT_SOURCE, "count", args, (HANDLE, POINTER, NUMBER))


def from_node(made, after, handle, pointer):
    return kernel_node(made, after, FROM_SOURCE, "from", (int(handle), int(pointer)), (HANDLE, POINTER))


def append_to(made, log, value, after=()):
    before = [driver.CUgraphNode(int(each)) for each in after]
    return append_node(driver.CUgraph(int(made)), before, log, value)


def done():
    cudart.cudaGetLastError()


def loaded():
    """Loads the kernels before anything waits for them."""
    warm_appends()
    for source, name in ((SET_SOURCE, "set"), (COUNT_SOURCE, "count"), (FROM_SOURCE, "from")):
        function_of(source, name)


@program("creating handles: values, flags, without a graph")
def handles():
    with graph() as made:
        result = {
            "plain": code(cudart.cudaGraphConditionalHandleCreate(made, 0, 0)),
            "default": code(cudart.cudaGraphConditionalHandleCreate(made, 7, ASSIGN)),
            "value without the flag": code(cudart.cudaGraphConditionalHandleCreate(made, 7, 0)),
            "other flags": code(cudart.cudaGraphConditionalHandleCreate(made, 0, 2)),
            "null graph": code(cudart.cudaGraphConditionalHandleCreate(cudart.cudaGraph_t(0), 0, 0)),
        }
        result["two differ"] = int(handle_of(made)) != int(handle_of(made))
        result["nodes"] = int(cudart.cudaGraphGetNodes(made)[-1])
    done()
    return result


@program("a handle that no node uses: instantiation")
def unused_handle():
    with graph() as made:
        handle_of(made)
        error, executable = cudart.cudaGraphInstantiate(made, 0)
        result = {"instantiated": error.name}
        params = cudart.cudaGraphInstantiateParams()
        answer = cudart.cudaGraphInstantiateWithParams(made, params)
        result["why"] = [code(answer), params.result_out.name]
        for found in (executable, answer[1]):
            if found is not None and int(found):
                cudart.cudaGraphExecDestroy(found)
    done()
    return result


@program("conditional nodes of every kind: numbers of bodies, types, the graphs that bodies are")
def kinds():
    result = {}
    with graph() as made:
        for kind, size in ((IF, 1), (IF, 2), (IF, 3), (IF, 0), (WHILE, 1), (WHILE, 2), (SWITCH, 1), (SWITCH, 5)):
            error, node, bodies = conditional(made, [], handle_of(made), kind, size)
            found = [error, len(bodies)]
            if error == "cudaSuccess":
                found += [cudart.cudaGraphNodeGetType(node)[1].name, len({int(body) for body in bodies})]
                found += [int(cudart.cudaGraphGetNodes(body)[-1]) for body in bodies]
            result[f"{kind}, {size}"] = found
    done()
    return result


@program("what conditional nodes refuse: no handle, one of another graph, one that is taken, another kind")
def errors():
    with graph() as made, graph() as other:
        taken = handle_of(made)
        result = {
            "first": conditional(made, [], taken, IF)[0],
            "taken": conditional(made, [], taken, IF)[0],
            "of another graph": conditional(made, [], handle_of(other), IF)[0],
            "no handle": conditional(made, [], cudart.cudaGraphConditionalHandle(0), IF)[0],
        }
        result["nodes"] = int(cudart.cudaGraphGetNodes(made)[-1])
    done()
    return result


@program("a body belongs to its node: destroyed, launched alone, asked for its nodes")
def bodies():
    with graph() as made:
        error, node, (body,) = conditional(made, [], handle_of(made), IF)
        empty = cudart.cudaGraphAddEmptyNode(body, [], 0)
        result = {
            "added": [error, code(empty)],
            "destroyed": code(cudart.cudaGraphDestroy(body)),
            "number": int(cudart.cudaGraphGetNodes(body)[-1]),
            "in the graph": int(cudart.cudaGraphGetNodes(made)[-1]),
            "child": code(cudart.cudaGraphChildGraphNodeGetGraph(node)),
        }
        alone = cudart.cudaGraphInstantiate(body, 0)
        result["alone"] = code(alone)
        result["as a child"] = code(cudart.cudaGraphAddChildGraphNode(made, [], 0, body))
        result["cloned"] = code(cudart.cudaGraphClone(body))
    done()
    return result


@program("IF runs its body when the value is not zero; the value stays from launch to launch without a default")
def if_node():
    loaded()
    log = new_log()
    with device_memory(4) as value, graph() as made:
        handle = handle_of(made)
        before = from_node(made, [], handle, value)
        error, node, (body,) = conditional(made, [before], handle, IF)
        append_to(body, log, 1)
        append_to(made, log, 2, [node])
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        went = []
        for number in (0, 1, 5, 0):
            cudart.cudaMemset(value, number, 1)
            went.append(code(cudart.cudaGraphLaunch(executable, 0)))
            went.append(code(cudart.cudaDeviceSynchronize()))
        cudart.cudaGraphExecDestroy(executable)
    return {"added": error, "went": sorted(set(went)), "log": logged(log)}


@program("IF with two bodies: the second when the value is zero")
def if_else():
    loaded()
    log = new_log()
    with device_memory(4) as value, graph() as made:
        handle = handle_of(made)
        before = from_node(made, [], handle, value)
        error, node, found = conditional(made, [before], handle, IF, 2)
        if error != "cudaSuccess":
            return {"added": error}
        for number, body in enumerate(found, 1):
            append_to(body, log, number)
        append_to(made, log, 9, [node])
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        for number in (0, 1, 0):
            cudart.cudaMemset(value, number, 1)
            cudart.cudaGraphLaunch(executable, 0)
            cudart.cudaDeviceSynchronize()
        cudart.cudaGraphExecDestroy(executable)
    return {"added": error, "log": logged(log)}


@program("a default value is assigned at the start of each launch")
def default_value():
    loaded()
    result = {}
    for name, default, flags in (("one", 1, ASSIGN), ("zero", 0, ASSIGN), ("one without the flag", 1, 0)):
        log = new_log()
        with graph() as made:
            handle = handle_of(made, default, flags)
            error, node, (body,) = conditional(made, [], handle, IF)
            inner = append_to(body, log, 1)
            set_node(body, [inner], handle, 0)
            append_to(made, log, 2, [node])
            result[name] = [error, run_graph(made, 3), logged(log)]
    return result


@program("WHILE runs its body until the value is zero")
def while_node():
    loaded()
    log = new_log()
    with device_memory(4) as counter, graph() as made:
        handle = handle_of(made, 1, ASSIGN)
        error, node, (body,) = conditional(made, [], handle, WHILE)
        inner = append_to(body, log, 1)
        count_node(body, [inner], handle, counter, 5)
        append_to(made, log, 2, [node])
        went = run_graph(made)
        counted = fetched(counter, 1).tolist()
        cudart.cudaMemset(counter, 0, 4)
        again = run_graph(made)
    return {"added": error, "went": [went, again], "counted": counted, "log": logged(log)}


@program("WHILE whose value is zero runs its body never")
def while_never():
    loaded()
    log = new_log()
    with graph() as made:
        error, node, (body,) = conditional(made, [], handle_of(made, 0, ASSIGN), WHILE)
        append_to(body, log, 1)
        append_to(made, log, 2, [node])
        went = run_graph(made, 2)
    return {"added": error, "went": went, "log": logged(log)}


@program("SWITCH runs the body that the value names, and none beyond the last")
def switch_node():
    loaded()
    log = new_log()
    with device_memory(4) as value, graph() as made:
        handle = handle_of(made)
        before = from_node(made, [], handle, value)
        error, node, found = conditional(made, [before], handle, SWITCH, 3)
        if error != "cudaSuccess":
            return {"added": error}
        for number, body in enumerate(found):
            append_to(body, log, 10 + number)
        append_to(made, log, 9, [node])
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        for number in (0, 1, 2, 3, 200):
            cudart.cudaMemset(value, number, 1)
            cudart.cudaGraphLaunch(executable, 0)
            cudart.cudaDeviceSynchronize()
        cudart.cudaGraphExecDestroy(executable)
    return {"added": error, "log": logged(log)}


@program("a conditional node in the body of another one")
def nested():
    loaded()
    log = new_log()
    with device_memory(8) as counters, graph() as made:
        outer = handle_of(made, 1, ASSIGN)
        error, _, (body,) = conditional(made, [], outer, WHILE)
        inner = handle_of(made, 1, ASSIGN)
        first = cudart.cudaMemsetParams()
        first.dst, first.value, first.width, first.elementSize, first.height = counters + 4, 0, 4, 1, 1
        cleared = cudart.cudaGraphAddMemsetNode(body, [], 0, first)
        begun = set_node(body, [cleared[1]], inner, 1)
        inside, node, found = conditional(body, [begun], inner, WHILE)
        result = {"added": [error, code(cleared), inside]}
        if inside == "cudaSuccess":
            count_node(found[0], [append_to(found[0], log, 1)], inner, counters + 4, 3)
            count_node(body, [append_to(body, log, 2, [node])], outer, counters, 2)
            result["went"] = run_graph(made)
    done()
    return {**result, "log": logged(log)}


@program("what a body may hold")
def allowed_nodes():
    loaded()
    log = new_log()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: None)
    result = {}
    cases = ("empty", "kernel", "memset", "memcpy", "from the host", "host", "record", "wait", "child", "alloc")
    event = cudart.cudaEventCreateWithFlags(2)[1]
    host_memory = int(cudart.cudaHostAlloc(64, 0)[1])
    for name in cases:
        with graph() as made, graph() as child:
            cudart.cudaGraphAddEmptyNode(child, [], 0)
            _, _, (body,) = conditional(made, [], handle_of(made, 1, ASSIGN), IF)
            fill = cudart.cudaMemsetParams()
            fill.dst, fill.width, fill.elementSize, fill.height = int(log.data.ptr) + 128, 4, 1, 1
            host = cudart.cudaHostNodeParams()
            host.fn = ctypes.cast(call, ctypes.c_void_p).value
            memory = cudart.cudaMemAllocNodeParams()
            memory.poolProps.allocType = cudart.cudaMemAllocationType(1)
            memory.poolProps.location.type = cudart.cudaMemLocationType(1)
            memory.bytesize = 64
            there, kind = int(log.data.ptr) + 128, cudart.cudaMemcpyKind(4)
            if name == "empty":
                answer = cudart.cudaGraphAddEmptyNode(body, [], 0)
            elif name == "kernel":
                answer = (cudart.cudaError_t(0), append_to(body, log, 1))
            elif name == "memset":
                answer = cudart.cudaGraphAddMemsetNode(body, [], 0, fill)
            elif name == "memcpy":
                answer = cudart.cudaGraphAddMemcpyNode1D(body, [], 0, there, there + 8, 4, kind)
            elif name == "from the host":
                answer = cudart.cudaGraphAddMemcpyNode1D(body, [], 0, there, host_memory, 4, kind)
            elif name == "host":
                answer = cudart.cudaGraphAddHostNode(body, [], 0, host)
            elif name == "record":
                answer = cudart.cudaGraphAddEventRecordNode(body, [], 0, event)
            elif name == "wait":
                answer = cudart.cudaGraphAddEventWaitNode(body, [], 0, event)
            elif name == "child":
                answer = cudart.cudaGraphAddChildGraphNode(body, [], 0, child)
            else:
                answer = cudart.cudaGraphAddMemAllocNode(body, [], 0, memory)
            result[name] = [code(answer), run_graph(made)]
    cudart.cudaEventDestroy(event)
    cudart.cudaFreeHost(host_memory)
    done()
    return result


@program("an empty body")
def empty_body():
    result = {}
    for name, kind, size in (("if", IF, 1), ("switch", SWITCH, 2)):
        with graph() as made:
            error = conditional(made, [], handle_of(made, 1, ASSIGN), kind, size)[0]
            result[name] = [error, run_graph(made)]
    done()
    return result


@program("clones of a graph with a conditional node, children, and a second executable graph")
def copies():
    loaded()
    log = new_log()
    with graph() as made, graph() as parent:
        handle = handle_of(made, 1, ASSIGN)
        error, node, (body,) = conditional(made, [], handle, IF)
        append_to(body, log, 1)
        answer = cudart.cudaGraphClone(made)
        result = {"added": error, "clone": code(answer)}
        if answer[0].value == 0:
            result["clone went"] = run_graph(answer[1])
            cudart.cudaGraphDestroy(answer[1])
        result["child"] = code(cudart.cudaGraphAddChildGraphNode(parent, [], 0, made))
        if result["child"] == "cudaSuccess":
            result["parent"] = run_graph(parent)
        first, second = cudart.cudaGraphInstantiate(made, 0), cudart.cudaGraphInstantiate(made, 0)
        result["twice"] = [code(first), code(second)]
        for _, executable in (first, second):
            if executable is not None and int(executable):
                result["twice"].append(code(cudart.cudaGraphLaunch(executable, 0)))
                cudart.cudaDeviceSynchronize()
                cudart.cudaGraphExecDestroy(executable)
        result["destroyed"] = code(cudart.cudaGraphDestroyNode(node))
        result["then"] = cudart.cudaGraphInstantiate(made, 0)[0].name
    done()
    return {**result, "log": logged(log)}


@program("updates of an executable graph with a conditional node")
def updates():
    loaded()
    log = new_log()

    def build(made, value, kind=IF, size=1):
        handle = handle_of(made, 1, ASSIGN)
        _, node, found = conditional(made, [], handle, kind, size)
        for body in found:
            append_to(body, log, value)
        return node

    with graph() as made, graph() as same, graph() as other:
        node = build(made, 1)
        build(same, 2)
        build(other, 3, SWITCH, 1)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        result = {}
        for name, new in (("same", same), ("other kind", other)):
            error, found = cudart.cudaGraphExecUpdate(executable, new)
            result[name] = [error.name, found.result.name if found is not None else ""]
            cudart.cudaGraphLaunch(executable, 0)
            cudart.cudaDeviceSynchronize()
        result["enabled"] = code(cudart.cudaGraphNodeSetEnabled(executable, node, 0))
        cudart.cudaGraphExecDestroy(executable)
    done()
    return {**result, "log": logged(log)}


@program("a handle that is set in a stream, or by a graph that does not have it")
def set_elsewhere():
    loaded()
    log = new_log()
    with graph() as made:
        handle = handle_of(made)
        _, _, (body,) = conditional(made, [], handle, IF)
        append_to(body, log, 1)
        with graph() as setting:
            set_node(setting, [], handle, 1)
            error, executable = cudart.cudaGraphInstantiate(setting, 0)
            result = {"instantiated": error.name}
            if error.value == 0:
                cudart.cudaGraphExecDestroy(executable)
    done()
    return result


@program("capturing into the body of a conditional node")
def captured_body():
    loaded()
    log = new_log()
    with device_memory(4) as counter, graph() as made, streams(1) as (stream,):
        handle = handle_of(made, 1, ASSIGN)
        error, node, (body,) = conditional(made, [], handle, WHILE)
        began = cudart.cudaStreamBeginCaptureToGraph(stream, body, None, None, 0, cudart.cudaStreamCaptureMode(0))
        kernel = cp.RawKernel(COUNT_SOURCE, "count")
        with cp.cuda.ExternalStream(stream):
            kernel((1,), (1,), (cp.uint64(int(handle)), cp.uint64(counter), cp.int32(4)))
        end = cudart.cudaStreamEndCapture(stream)
        result = {"codes": [error, code(began), code(end)], "same graph": int(end[1]) == int(body)}
        append_to(made, log, 2, [node])
        result["went"] = run_graph(made)
        result["counted"] = fetched(counter, 1).tolist()
    return {**result, "log": logged(log)}


@program("a conditional node in a stream that captures into its graph")
def in_a_capture():
    loaded()
    log = new_log()
    with streams(1) as (stream,):
        cudart.cudaStreamBeginCapture(stream, cudart.cudaStreamCaptureMode(0))
        made = cudart.cudaStreamGetCaptureInfo(stream)[3]
        error, handle = cudart.cudaGraphConditionalHandleCreate(made, 1, ASSIGN)
        added, node, found = conditional(made, [], handle, IF)
        append_to(found[0], log, 1)
        result = {"codes": [error.name, added]}
        result["set"] = code(cudart.cudaStreamUpdateCaptureDependencies(stream, [node], None, 1, 1))
        cudart.cudaMemsetAsync(int(log.data.ptr) + 128, 1, 4, stream)
        end, ended = cudart.cudaStreamEndCapture(stream)
        result["end"] = [end.name, int(ended) == int(made)]
        result["went"] = run_graph(ended)
        cudart.cudaGraphDestroy(ended)
    return {**result, "log": logged(log)}


@program("two conditional nodes side by side, and a thousand rounds")
def side_by_side():
    loaded()
    with device_memory(8) as counters, graph() as made:
        limits = (3, 1000)
        for index, limit in enumerate(limits):
            handle = handle_of(made, 1, ASSIGN)
            _, _, (body,) = conditional(made, [], handle, WHILE)
            count_node(body, [], handle, counters + 4 * index, limit)
        went = run_graph(made)
        found = fetched(counters, 2).tolist()
    return {"went": went, "counted": found}
