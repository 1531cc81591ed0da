"""Kernel nodes that kernels update: which may be, by which calls, from when on, and what that forbids."""

import numpy as np

from cudalab import cp, cudart, driver

from ..appending import append_node, function_of, launch_of, logged, new_log
from ..busy import attribute, launched, streams
from ..launching import (
    DEVICE,
    FIRE,
    KEPT,
    NUMBER,
    POINTER,
    codes_of,
    executable_of,
    finished,
    kernel_node,
    launches,
    loaded,
    new_graph,
    of_driver,
    went,
)
from ..program import code, program, raised

UPDATE_SOURCE = r"""
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphKernelNodeSetParam(cudaGraphDeviceNode_t node, size_t offset, const void* value, size_t size);
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphKernelNodeSetEnabled(cudaGraphDeviceNode_t node, bool enable);
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphKernelNodeSetGridDim(cudaGraphDeviceNode_t node, dim3 gridDim);
extern "C" __device__ __cudart_builtin__ cudaError_t CUDARTAPI
cudaGraphKernelNodeUpdatesApply(const cudaGraphKernelNodeUpdate* updates, size_t count);
extern "C" __global__ void update(int* log, int value, const unsigned long long* calls, int count, int* codes) {
    atomicExch(log + 1 + atomicAdd(log, 1), value);
    for (int i = 0; i < count; i++) {
        const unsigned long long* c = calls + 5 * i;
        cudaGraphDeviceNode_t node = (cudaGraphDeviceNode_t)c[1];
        if (c[0] == 1) codes[i] = cudaGraphKernelNodeSetGridDim(node, dim3(c[2], c[3], c[4]));
        if (c[0] == 2) codes[i] = cudaGraphKernelNodeSetParam(node, c[2], (const void*)c[3], c[4]);
        if (c[0] == 3) codes[i] = cudaGraphKernelNodeSetEnabled(node, c[2] != 0);
        if (c[0] == 4) codes[i] = cudaGraphKernelNodeUpdatesApply((const cudaGraphKernelNodeUpdate*)c[1], c[2]);
    }
}"""
GRID, PARAM, ENABLED, APPLY = 1, 2, 3, 4
"""Kinds of calls, the first three as ``cudaGraphKernelNodeField``."""
UPDATABLE = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
VALUE = 8
"""Where the number is among the parameters of the kernel that appends."""


def updatable(node, wanted=1):
    """Make a node updatable: the code, and the handle that kernels take."""
    value = driver.CUkernelNodeAttrValue()
    value.deviceUpdatableKernelNode.deviceUpdatable = wanted
    error = driver.cuGraphKernelNodeSetAttribute(node, UPDATABLE, value)
    return code(error), int(value.deviceUpdatableKernelNode.devNode)


def target(made, after, log, value):
    """A node that kernels may update, which appends a number; and the handle."""
    node = append_node(of_driver(made), after, log, value)
    error, found = updatable(node)
    assert error == "CUDA_SUCCESS", error
    return node, found


def numbers(*values):
    """Numbers in device memory that new values of parameters are read from."""
    made = cp.array(values, cp.int32)
    KEPT.arrays.append(made)
    return [int(made.data.ptr) + 4 * place for place in range(len(values))]


def update_node(made, after, log, value, *calls):
    """A node of a kernel that appends a number and makes calls; the node, the calls, and where it stores the codes."""
    rows = np.zeros((max(1, len(calls)), 5), np.uint64)
    for row, call in zip(rows, calls, strict=False):
        row[: len(call)] = call
    what, codes = cp.asarray(rows), cp.full(max(1, len(calls)), -1, cp.int32)
    KEPT.arrays += [what, codes]
    cudart.cudaDeviceSynchronize()
    args = int(log.data.ptr), value, int(what.data.ptr), len(calls), int(codes.data.ptr)
    node = kernel_node(
        made, after, function_of(UPDATE_SOURCE, "update"), args, (POINTER, NUMBER, POINTER, NUMBER, POINTER)
    )
    return node, what, codes


def uploaded(made, flags=0):
    executable = executable_of(made, flags)
    assert code(cudart.cudaGraphUpload(executable, 0)) == "cudaSuccess"
    cudart.cudaDeviceSynchronize()
    return executable


def updated(*calls_of):
    """A graph of a kernel that makes calls and, behind it, nodes that they are about, which append 2, 3 …; twice: with
    the calls and without. ``calls_of`` make a call from the handles."""
    loaded()
    log, made = new_log(), new_graph()
    first, what, codes = update_node(made, [], log, 1, *([0] for _ in calls_of))
    nodes, after = [], [first]
    for value in (2, 3):
        node, handle = target(made, after, log, value)
        nodes.append(handle)
        after = [node]
    executable = uploaded(made)
    rows = np.zeros((len(calls_of), 5), np.uint64)
    for row, call_of in zip(rows, calls_of, strict=True):
        call = call_of(*nodes)
        row[: len(call)] = call
    what[:] = cp.asarray(rows)
    cudart.cudaDeviceSynchronize()
    ran = [went(executable)]
    what[:] = 0
    cudart.cudaDeviceSynchronize()
    ran.append(went(executable))
    return finished({"went": ran, "codes": codes_of(codes), "log": logged(log)})


@program("which nodes can be made updatable, and what is said of them afterwards")
def attributes():
    loaded()
    log, made = new_log(), new_graph()
    first, second = (append_node(of_driver(made), [], log, value) for value in (1, 2))
    hollow = cudart.cudaGraphAddEmptyNode(made, [], 0)[1]
    result = {"off at first": [updatable(first, 0)[0], updatable(first, 2)[0]]}
    one, two = updatable(first), updatable(second)
    again = updatable(first)
    result["on"] = [one[0], two[0], again[0], one[1] != 0, one[1] != two[1], one[1] == again[1]]
    result["off"] = updatable(first, 0)[0]
    asked = driver.cuGraphKernelNodeGetAttribute(first, UPDATABLE)
    result["asked"] = [code(asked)]
    if asked[0].value == 0:
        field = asked[1].deviceUpdatableKernelNode
        result["asked"] += [int(field.deviceUpdatable), int(field.devNode) == one[1]]
    plain = append_node(of_driver(made), [], log, 3)
    asked = driver.cuGraphKernelNodeGetAttribute(plain, UPDATABLE)
    result["asked of another"] = [code(asked)]
    if asked[0].value == 0:
        result["asked of another"].append(int(asked[1].deviceUpdatableKernelNode.deviceUpdatable))
    result["no kernel"] = updatable(driver.CUgraphNode(int(hollow)))[0]
    return finished(result)


@program("what is refused of updatable nodes: destroying them, copying their attributes")
def refused_of_nodes():
    loaded()
    log, made = new_log(), new_graph()
    node, _ = target(made, [], log, 1)
    other = append_node(of_driver(made), [], log, 2)
    result = {
        "to": code(driver.cuGraphKernelNodeCopyAttributes(other, node)),
        "from": code(driver.cuGraphKernelNodeCopyAttributes(node, other)),
        "destroyed": code(driver.cuGraphDestroyNode(node)),
    }
    result["number"] = int(cudart.cudaGraphGetNodes(made)[-1])
    params = launch_of(log, 3)
    result["parameters"] = code(driver.cuGraphKernelNodeSetParams(node, params))
    result["edge"] = code(driver.cuGraphAddDependencies(of_driver(made), [node], [other], None, 1))
    cudart.cudaGetLastError()
    return finished(result)


@program("updatable nodes of graphs for the device")
def for_the_device():
    loaded()
    log, made = new_log(), new_graph()
    _, handle = target(made, [], log, 2)
    error, child = cudart.cudaGraphInstantiate(made, DEVICE)
    result = {"instantiated": error.name}
    if error.value == 0:
        KEPT.executables.append(child)
        result["upload"] = code(cudart.cudaGraphUpload(child, 0))
        cudart.cudaDeviceSynchronize()
        parent, codes = launches(log, 1, (child, FIRE))
        result["went"] = went(parent)
        result["codes"] = codes_of(codes)
    return finished({**result, "handle": handle != 0, "log": logged(log)})


@program("a launch attribute makes no updatable node of a plain launch; what it makes of a captured one")
def as_an_attribute_of_a_launch():
    loaded()
    source = 'extern "C" __global__ void store(int* out, int value) { *out = value; }'
    kernel, out = cp.RawKernel(source, "store"), cp.zeros(1, cp.int32)
    cudart.cudaDeviceSynchronize()
    wanted = [attribute("DEVICE_UPDATABLE_KERNEL_NODE", deviceUpdatableKernelNode__deviceUpdatable=1)]
    result = {"plain": launched(kernel, wanted, int(out.data.ptr), np.int32(1))}
    cudart.cudaDeviceSynchronize()
    with streams(1) as (stream,):
        cudart.cudaStreamBeginCapture(stream, cudart.cudaStreamCaptureMode(0))
        result["captured"] = launched(kernel, wanted, int(out.data.ptr), np.int32(2), stream=stream)
        error, made = cudart.cudaStreamEndCapture(stream)
        result["ended"] = error.name
    if error.value == 0:
        nodes = cudart.cudaGraphGetNodes(made, 8)
        result["nodes"] = int(nodes[-1])
        if result["nodes"]:
            asked = driver.cuGraphKernelNodeGetAttribute(driver.CUgraphNode(int(nodes[1][0])), UPDATABLE)
            result["asked"] = code(asked)
            if asked[0].value == 0:
                result["asked"] = int(asked[1].deviceUpdatableKernelNode.deviceUpdatable)
        KEPT.graphs.append(made)
    cudart.cudaGetLastError()
    return finished({**result, "out": out})


@program("kernels that update cannot, or can, be launched in a stream")
def updater_in_a_stream():
    loaded()
    log, codes, what = new_log(), cp.full(1, -1, cp.int32), cp.zeros(5, cp.uint64)
    cudart.cudaDeviceSynchronize()
    kernel = cp.RawKernel(UPDATE_SOURCE, "update")
    result = {"in a stream": raised(lambda: kernel((1,), (1,), (log, np.int32(1), what, np.int32(1), codes)))}
    result["then"] = [code(cudart.cudaGetLastError()), code(cudart.cudaDeviceSynchronize())]
    return finished({**result, "log": logged(log)})


@program("a kernel in a stream updates a node of an uploaded graph, which is launched behind it")
def from_a_stream():
    loaded()
    log, made, codes = new_log(), new_graph(), cp.full(1, -1, cp.int32)
    _, handle = target(made, [], log, 2)
    executable = uploaded(made)
    (place,) = numbers(7)
    what = cp.asarray(np.array([PARAM, handle, VALUE, place, 4], np.uint64))
    cudart.cudaDeviceSynchronize()
    kernel = cp.RawKernel(UPDATE_SOURCE, "update")
    result = {"launch": raised(lambda: kernel((1,), (1,), (log, np.int32(1), what, np.int32(1), codes)))}
    result["went"] = went(executable)
    return finished({**result, "codes": codes_of(codes), "log": logged(log)})


@program("a parameter of a later node")
def parameter():
    (place,) = numbers(7)
    return updated(lambda two, _: (PARAM, two, VALUE, place, 4))


@program("parameters of two nodes, and one of them twice: the last counts")
def parameters():
    six, seven, eight = numbers(6, 7, 8)
    return updated(
        lambda two, _: (PARAM, two, VALUE, six, 4),
        lambda _, three: (PARAM, three, VALUE, seven, 4),
        lambda two, _: (PARAM, two, VALUE, eight, 4),
    )


@program("a part of a parameter, and nothing of one")
def part_of_a_parameter():
    (place,) = numbers(0x01020304)
    return updated(lambda two, _: (PARAM, two, VALUE, place, 1), lambda _, three: (PARAM, three, VALUE, place, 0))


@program("a parameter beyond the end, and across it")
def parameter_beyond_the_end():
    (place, _) = numbers(7, 8)
    return updated(
        lambda two, _: (PARAM, two, VALUE, place, 8),
        lambda two, _: (PARAM, two, 12, place, 4),
        lambda two, _: (PARAM, two, 4096, place, 4),
    )


@program("a node is switched off, and the other is")
def switched_off():
    return updated(lambda two, _: (ENABLED, two, 0))


@program("a node is switched off and on again, the other on")
def switched_off_and_on():
    return updated(
        lambda two, _: (ENABLED, two, 0), lambda two, _: (ENABLED, two, 1), lambda _, three: (ENABLED, three, 1)
    )


@program("grids of later nodes")
def grid():
    return updated(lambda two, _: (GRID, two, 3, 1, 1), lambda _, three: (GRID, three, 1, 2, 2))


@program("grids that there cannot be")
def wrong_grids():
    return updated(
        lambda two, _: (GRID, two, 0, 1, 1),
        lambda two, _: (GRID, two, 1, 65536, 1),
        lambda two, _: (GRID, two, 1, 1, 65536),
        lambda two, _: (GRID, two, 1 << 31, 1, 1),
    )


def batch(*rows):
    """Updates in device memory, as ``cudaGraphKernelNodeUpdate``: 40 bytes each."""
    made = cp.asarray(np.array(rows, np.uint64))
    KEPT.arrays.append(made)
    cudart.cudaDeviceSynchronize()
    return int(made.data.ptr)


def pair(low, high=0):
    """Two numbers of four bytes as one of eight."""
    return low | high << 32


@program("several updates by one call: grid, parameter, switched off")
def several():
    (place,) = numbers(7)
    return updated(
        lambda two, three: (
            APPLY,
            batch(
                (two, GRID, pair(2, 1), 1, 0),
                (two, PARAM, place, VALUE, 4),
                (three, ENABLED, 0, 0, 0),
            ),
            3,
        )
    )


@program("several updates by one call, of which one is wrong")
def several_with_a_wrong_one():
    (place,) = numbers(7)
    return updated(
        lambda two, three: (
            APPLY,
            batch(
                (two, PARAM, place, VALUE, 4),
                (two, GRID, pair(0, 1), 1, 0),
                (three, PARAM, place, VALUE, 4),
            ),
            3,
        )
    )


@program("updates of no kind, and none at all")
def no_updates():
    return updated(
        lambda two, _: (APPLY, batch((two, 0, 0, 0, 0)), 1),
        lambda two, _: (APPLY, batch((two, 9, 0, 0, 0)), 1),
        lambda two, _: (APPLY, batch((two, ENABLED, 0, 0, 0)), 0),
        lambda two, _: (APPLY, 0, 0),
    )


def null_node(*call):
    loaded()
    log, made = new_log(), new_graph()
    _, _, codes = update_node(made, [], log, 1, call)
    ran = went(uploaded(made))
    return {
        "went": ran,
        "then": code(cudart.cudaGetLastError()),
        "codes": codes_of(codes) if ran[-1] == "cudaSuccess" else [],
    }


@program("a parameter of the null node", isolated=True)
def null_node_parameter():
    (place,) = numbers(7)
    return null_node(PARAM, 0, VALUE, place, 4)


@program("the null node is switched off", isolated=True)
def null_node_switched_off():
    return null_node(ENABLED, 0, 0)


@program("a node that ran before the kernel that updates it changes with the next launch")
def node_before():
    loaded()
    log, made = new_log(), new_graph()
    first, handle = target(made, [], log, 2)
    (place,) = numbers(7)
    _, _, codes = update_node(made, [first], log, 1, (PARAM, handle, VALUE, place, 4))
    ran = went(uploaded(made), 2)
    return finished({"went": ran, "codes": codes_of(codes), "log": logged(log)})


@program("a node of another graph")
def node_of_another_graph():
    loaded()
    log, made, mine = new_log(), new_graph(), new_graph()
    _, handle = target(made, [], log, 2)
    other = uploaded(made)
    (place,) = numbers(7)
    _, _, codes = update_node(mine, [], log, 1, (PARAM, handle, VALUE, place, 4), (GRID, handle, 2, 1, 1))
    ran = [went(uploaded(mine)), went(other)]
    return finished({"went": ran, "codes": codes_of(codes), "log": logged(log)})


@program("a graph with updatable nodes that is launched without an upload")
def without_an_upload():
    loaded()
    log, made = new_log(), new_graph()
    (place,) = numbers(7)
    first, what, codes = update_node(made, [], log, 1, [0])
    _, handle = target(made, [first], log, 2)
    executable = executable_of(made, 0)
    what[:] = cp.asarray(np.array([[PARAM, handle, VALUE, place, 4]], np.uint64))
    cudart.cudaDeviceSynchronize()
    ran = went(executable, 2)
    return finished({"went": ran, "codes": codes_of(codes), "log": logged(log)})


@program("the host updates an updatable node: with an upload, and without")
def updated_by_the_host():
    loaded()
    log, made = new_log(), new_graph()
    node, _ = target(made, [], log, 2)
    executable = uploaded(made)
    result = {"first": went(executable)}
    set_params = driver.cuGraphExecKernelNodeSetParams
    result["set"] = code(set_params(driver.CUgraphExec(int(executable)), node, launch_of(log, 3)))
    result["without"] = went(executable)
    result["upload"] = code(cudart.cudaGraphUpload(executable, 0))
    cudart.cudaDeviceSynchronize()
    result["with"] = went(executable)
    plain = cudart.cudaGraphNode_t(int(node))
    result["off"] = code(cudart.cudaGraphNodeSetEnabled(executable, plain, 0))
    cudart.cudaGraphUpload(executable, 0)
    cudart.cudaDeviceSynchronize()
    result["then"] = went(executable)
    return finished({**result, "log": logged(log)})


@program("what the host is told of a node that a kernel has switched off, or given another grid")
def asked_by_the_host():
    loaded()
    log, made = new_log(), new_graph()
    node, handle = target(made, [], log, 2)
    other, second = target(made, [node], log, 3)
    update_node(made, [other], log, 1, (ENABLED, handle, 0), (GRID, second, 2, 1, 1))
    executable = uploaded(made)
    ran = [went(executable)]
    asked = cudart.cudaGraphNodeGetEnabled(executable, cudart.cudaGraphNode_t(int(node)))
    grid = int(driver.cuGraphKernelNodeGetParams(other)[1].gridDimX)
    ran.append(went(executable))
    return finished({"went": ran, "enabled": [code(asked), asked[1]], "grid": grid, "log": logged(log)})


@program("an upload after updates by kernels: do they stay?")
def upload_after_updates():
    loaded()
    log, made = new_log(), new_graph()
    first, handle = target(made, [], log, 2)
    (place,) = numbers(7)
    _, what, codes = update_node(made, [first], log, 1, (PARAM, handle, VALUE, place, 4))
    executable = uploaded(made)
    ran = [went(executable)]
    what[:] = 0
    cudart.cudaDeviceSynchronize()
    upload = code(cudart.cudaGraphUpload(executable, 0))
    cudart.cudaDeviceSynchronize()
    ran.append(went(executable))
    return finished({"went": ran, "codes": [upload, *codes_of(codes)], "log": logged(log)})
