"""Graphs for kernels to launch, as the host sees them: instantiated, uploaded, launched, updated."""

import ctypes

import numpy as np

from cudalab import cp, cudart, driver

from ..appending import append_node, ended, graph, launch_of, logged, new_log
from ..busy import device_memory, fetched, pinned_memory, streams
from ..launching import (
    DEVICE,
    FIRE,
    KEPT,
    LAUNCH_SOURCE,
    TAIL,
    appends,
    codes_of,
    executable_of,
    finished,
    launch_node,
    launches,
    loaded,
    new_graph,
    of_driver,
    went,
)
from ..program import code, program, raised

UPLOAD, AUTO_FREE, PRIORITY = 2, 1, 8
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NOTHING = HOST_FUNCTION(lambda data: None)


def with_params(made, flags, stream=0):
    """``cudaGraphInstantiateWithParams``: the code, the result, the number of the node, and the executable graph."""
    params = cudart.cudaGraphInstantiateParams()
    params.flags = flags
    params.uploadStream = cudart.cudaStream_t(stream)
    answer = cudart.cudaGraphInstantiateWithParams(made, params)
    there = answer[1] is not None and int(answer[1]) != 0 and answer[0].value == 0
    if there:
        KEPT.executables.append(answer[1])
    node = params.errNode_out
    result = params.result_out.name.removeprefix("cudaGraphInstantiate")
    return code(answer), result, 0 if node is None else int(node), answer[1] if there else None


def instantiated(made, flags=DEVICE):
    """The code alone."""
    error, executable = cudart.cudaGraphInstantiate(made, flags)
    if error.value == 0:
        KEPT.executables.append(executable)
    cudart.cudaGetLastError()
    return error.name


def memset_node(made, after, pointer, value, size):
    params = cudart.cudaMemsetParams()
    params.dst, params.value, params.width, params.elementSize, params.height = pointer, value, size, 1, 1
    return cudart.cudaGraphAddMemsetNode(made, list(after), len(after), params)[1]


def copy_node(made, after, target, source, size):
    kind = cudart.cudaMemcpyKind.cudaMemcpyDefault
    return cudart.cudaGraphAddMemcpyNode1D(made, list(after), len(after), target, source, size, kind)[1]


def host_node(made):
    params = cudart.cudaHostNodeParams()
    params.fn = ctypes.cast(NOTHING, ctypes.c_void_p).value
    return cudart.cudaGraphAddHostNode(made, [], 0, params)[1]


def conditional_node(made):
    params = cudart.cudaGraphNodeParams()
    params.type = cudart.cudaGraphNodeType.cudaGraphNodeTypeConditional
    params.conditional.handle = cudart.cudaGraphConditionalHandleCreate(made, 0, 0)[1]
    params.conditional.type = cudart.cudaGraphConditionalNodeType(0)
    params.conditional.size = 1
    return cudart.cudaGraphAddNode(made, [], None, 0, params)[1]


def allocation_node(made):
    params = cudart.cudaMemAllocNodeParams()
    params.poolProps.allocType = cudart.cudaMemAllocationType(1)
    params.poolProps.location.type = cudart.cudaMemLocationType(1)
    params.bytesize = 64
    return cudart.cudaGraphAddMemAllocNode(made, [], 0, params)[1]


@program("flags of an instantiation for the device, alone and with others")
def flags():
    log, result = new_log(), {}
    made = new_graph()
    append_node(of_driver(made), [], log, 1)
    for each in (DEVICE, DEVICE | PRIORITY, DEVICE | AUTO_FREE, DEVICE | UPLOAD, DEVICE | 16):
        error, executable = cudart.cudaGraphInstantiate(made, each)
        result[str(each)] = [error.name]
        if error.value == 0:
            KEPT.executables.append(executable)
            result[str(each)].append(int(cudart.cudaGraphExecGetFlags(executable)[1]))
        cudart.cudaGetLastError()
    return finished(result)


@program("flags of an instantiation for the device with parameters, an upload among them")
def flags_with_parameters():
    log, result = new_log(), {}
    made = new_graph()
    append_node(of_driver(made), [], log, 1)
    with streams(1) as (stream,):
        for each in (DEVICE, DEVICE | UPLOAD, DEVICE | PRIORITY, DEVICE | AUTO_FREE, DEVICE | UPLOAD | PRIORITY):
            error, why, node, executable = with_params(made, each, stream)
            result[str(each)] = [error, why, node]
            if executable is not None:
                result[str(each)].append(int(cudart.cudaGraphExecGetFlags(executable)[1]))
        cudart.cudaStreamSynchronize(stream)
    return finished(result)


@program("the driver's calls for the same")
def flags_of_the_driver():
    log, result = new_log(), {}
    made = new_graph()
    append_node(of_driver(made), [], log, 1)
    for each in (DEVICE, DEVICE | AUTO_FREE, DEVICE | UPLOAD):
        error, executable = driver.cuGraphInstantiate(of_driver(made), each)
        result[str(each)] = [error.name]
        if error.value == 0:
            result[str(each)].append(code(driver.cuGraphUpload(executable, driver.CUstream(0))))
            result[str(each)].append(int(driver.cuGraphExecGetFlags(executable)[1]))
            driver.cuCtxSynchronize()
            driver.cuGraphExecDestroy(executable)
    return finished(result)


@program("nodes that a graph for the device may hold, each beside a kernel")
def kinds_beside_a_kernel():
    log, result = new_log(), {}
    with device_memory(64) as memory, pinned_memory(64) as (host, _), graph() as child, graph() as hollow:
        append_node(of_driver(child), [], log, 1)
        cudart.cudaGraphAddEmptyNode(hollow, [], 0)
        event = cudart.cudaEventCreateWithFlags(2)[1]
        add = {
            "kernel": lambda made: append_node(of_driver(made), [], log, 2),
            "memset": lambda made: memset_node(made, [], memory, 1, 4),
            "copy": lambda made: copy_node(made, [], memory, memory + 8, 4),
            "copy from the host": lambda made: copy_node(made, [], memory, host, 4),
            "copy to the host": lambda made: copy_node(made, [], host, memory, 4),
            "child": lambda made: cudart.cudaGraphAddChildGraphNode(made, [], 0, child)[1],
            "child of an empty node": lambda made: cudart.cudaGraphAddChildGraphNode(made, [], 0, hollow)[1],
            "empty": lambda made: cudart.cudaGraphAddEmptyNode(made, [], 0)[1],
            "host": host_node,
            "record": lambda made: cudart.cudaGraphAddEventRecordNode(made, [], 0, event)[1],
            "wait": lambda made: cudart.cudaGraphAddEventWaitNode(made, [], 0, event)[1],
            "allocation": allocation_node,
            "conditional": conditional_node,
        }
        for name, call in add.items():
            made = new_graph()
            append_node(of_driver(made), [], log, 3)
            node = call(made)
            error, why, wrong, _ = with_params(made, DEVICE)
            result[name] = [error, why, "the node" if wrong == int(node) else "none" if not wrong else "another"]
        cudart.cudaEventDestroy(event)
        result = finished(result)
    return result


@program("nodes that a graph for the device may hold, each alone; the empty graph")
def kinds_alone():
    log, result = new_log(), {}
    with device_memory(64) as memory, graph() as child:
        append_node(of_driver(child), [], log, 1)
        add = {
            "nothing": lambda made: None,
            "memset": lambda made: memset_node(made, [], memory, 1, 4),
            "copy": lambda made: copy_node(made, [], memory, memory + 8, 4),
            "child": lambda made: cudart.cudaGraphAddChildGraphNode(made, [], 0, child),
            "empty child": lambda made: cudart.cudaGraphAddChildGraphNode(made, [], 0, new_graph()),
            "empty": lambda made: cudart.cudaGraphAddEmptyNode(made, [], 0),
            "host": host_node,
        }
        for name, call in add.items():
            made = new_graph()
            call(made)
            error, why, wrong, _ = with_params(made, DEVICE)
            result[name] = [error, why, bool(wrong), instantiated(made)]
        result = finished(result)
    return result


@program("copies of a graph for the device: page-locked, mapped, managed, registered and pageable memory")
def copies():
    result, array = {}, np.zeros(1 << 16, np.uint8)
    pageable, registered = np.zeros(64, np.uint8).ctypes.data, array.ctypes.data + 4096 - array.ctypes.data % 4096
    managed = int(cudart.cudaMallocManaged(64, 1)[1])
    cudart.cudaHostRegister(registered, 4096, 0)
    with device_memory(64) as memory, pinned_memory(64) as (locked, _), pinned_memory(64, 2) as (mapped, _):
        places = {"locked": locked, "mapped": mapped, "managed": managed, "registered": registered}
        for name, place in {**places, "pageable": pageable}.items():
            result[name] = []
            for target, source in ((memory, place), (place, memory)):
                made = new_graph()
                copy_node(made, [], target, source, 16)
                result[name] += with_params(made, DEVICE)[:2]
        result = finished(result)
    cudart.cudaHostUnregister(registered)
    cudart.cudaFree(managed)
    return result


@program("one graph is instantiated for the host and for the device, twice each")
def several():
    loaded()
    log, made = new_log(), new_graph()
    append_node(of_driver(made), [], log, 1)
    codes = [instantiated(made, each) for each in (0, DEVICE, 0, DEVICE)]
    ran = [went(each)[0] for each in KEPT.executables]
    return finished({"codes": codes, "ran": ran, "log": logged(log)})


@program("the host launches a graph for the device, without an upload, with one, several times")
def launched_by_the_host():
    loaded()
    log = new_log()
    plain, uploaded = appends(log, 1, 2, upload=False), appends(log, 3, 4)
    ran = [went(plain), went(uploaded, 3)]
    with streams(1, 1) as pair:
        codes = [code(cudart.cudaGraphLaunch(uploaded, each)) for each in pair]
        cudart.cudaDeviceSynchronize()
    return finished({"ran": ran, "codes": codes, "log": logged(log)})


@program("uploads: twice, into a stream, of a graph for the host, of none, behind a launch")
def uploads():
    loaded()
    log = new_log()
    mine, other = appends(log, 1, upload=False), appends(log, 2, flags=0)
    with streams(1) as (stream,):
        result = {
            "first": code(cudart.cudaGraphUpload(mine, stream)),
            "again": code(cudart.cudaGraphUpload(mine, stream)),
            "for the host": code(cudart.cudaGraphUpload(other, stream)),
            "none": code(cudart.cudaGraphUpload(0, stream)),
            "launch": code(cudart.cudaGraphLaunch(mine, stream)),
            "behind": code(cudart.cudaGraphUpload(mine, stream)),
            "sync": code(cudart.cudaStreamSynchronize(stream)),
        }
    cudart.cudaGetLastError()
    return finished({**result, "log": logged(log)})


@program("an upload by the instantiation's flag counts")
def uploaded_by_a_flag():
    loaded()
    log, made = new_log(), new_graph()
    append_node(of_driver(made), [], log, 2)
    error, why, _, child = with_params(made, DEVICE | UPLOAD)
    cudart.cudaDeviceSynchronize()
    parent, codes = launches(log, 1, (child, FIRE))
    return finished({"made": [error, why], "went": went(parent), "codes": codes_of(codes), "log": logged(log)})


@program("a kernel launches a graph that the host has not uploaded, but launched")
def uploaded_by_a_launch():
    loaded()
    log = new_log()
    child = appends(log, 2, upload=False)
    first = went(child)
    parent, codes = launches(log, 1, (child, FIRE))
    return finished({"went": [first, went(parent)], "codes": codes_of(codes), "log": logged(log)})


@program("a kernel that launches graphs cannot be launched in a stream, and can be captured")
def launcher_in_a_stream():
    loaded()
    log = new_log()
    child = appends(log, 2)
    what, codes = cp.asarray(np.array([[int(child), FIRE]], np.uint64)), cp.full(1, -1, cp.int32)
    kernel, args = cp.RawKernel(LAUNCH_SOURCE, "launch"), (log, np.int32(1), what, np.int32(1), codes)
    result = {"in a stream": raised(lambda: kernel((1,), (1,), args))}
    result["then"] = [code(cudart.cudaGetLastError()), code(cudart.cudaDeviceSynchronize())]
    with streams(1) as (stream,):
        began = code(cudart.cudaStreamBeginCapture(stream, cudart.cudaStreamCaptureMode(0)))
        with cp.cuda.ExternalStream(stream):
            result["captured"] = [began, raised(lambda: kernel((1,), (1,), args))]
        error, made = cudart.cudaStreamEndCapture(stream)
        result["captured"].append(error.name)
        KEPT.graphs.append(made)
        result["went"] = went(executable_of(made, 0))
    return finished({**result, "codes": codes_of(codes), "log": logged(log)})


@program("launches and uploads in a stream that captures")
def in_a_capture():
    loaded()
    log, result = new_log(), {}
    mine = appends(log, 1)
    for name, call in (("launch", cudart.cudaGraphLaunch), ("upload", cudart.cudaGraphUpload)):
        with streams(1) as (stream,):
            cudart.cudaStreamBeginCapture(stream, cudart.cudaStreamCaptureMode(0))
            result[name] = [code(call(mine, stream)), ended(stream)]
        cudart.cudaGetLastError()
    return finished({**result, "log": logged(log)})


@program("a graph whose kernels launch others as a child of another")
def launcher_in_a_child():
    loaded()
    log = new_log()
    child, last = appends(log, 3), appends(log, 4)
    inner, outer = new_graph(), new_graph()
    _, codes = launch_node(inner, [], log, 1, (child, FIRE), (last, TAIL))
    error, node = cudart.cudaGraphAddChildGraphNode(outer, [], 0, inner)
    append_node(of_driver(outer), [driver.CUgraphNode(int(node))], log, 2, slowly=True)
    ran = went(executable_of(outer, 0))
    found = logged(log)
    return finished({"added": error.name, "went": ran, "codes": codes_of(codes), "ends": [found[0], found[-1]]})


@program("updates of a node of a graph for the device count for kernels from the next upload")
def node_update():
    loaded()
    log, made = new_log(), new_graph()
    node = append_node(of_driver(made), [], log, 2)
    child = executable_of(made)
    parent, codes = launches(log, 1, (child, FIRE))
    result = {"first": went(parent)}
    set_params = driver.cuGraphExecKernelNodeSetParams
    result["set"] = code(set_params(driver.CUgraphExec(int(child)), node, launch_of(log, 3)))
    result["without an upload"] = [went(parent), codes_of(codes)]
    result["upload"] = code(cudart.cudaGraphUpload(child, 0))
    cudart.cudaDeviceSynchronize()
    result["with an upload"] = [went(parent), codes_of(codes)]
    return finished({**result, "log": logged(log)})


@program("updates of a node of a graph for the device, then launched by the host")
def node_update_and_host():
    loaded()
    log, made = new_log(), new_graph()
    node = append_node(of_driver(made), [], log, 2)
    child = executable_of(made)
    set_params = driver.cuGraphExecKernelNodeSetParams
    codes = [code(set_params(driver.CUgraphExec(int(child)), node, launch_of(log, 3)))]
    ran = went(child)
    return finished({"codes": codes, "went": ran, "log": logged(log)})


@program("a whole update of a graph for the device: equal nodes, other nodes, nodes that it may not hold")
def whole_update():
    loaded()
    log, result = new_log(), {}
    with pinned_memory(64) as (locked, _), device_memory(64) as memory:
        made = new_graph()
        append_node(of_driver(made), [], log, 1)
        copy_node(made, [], memory, locked, 16)
        mine = executable_of(made)
        pageable = np.zeros(64, np.uint8)
        for name, source in (("equal", locked + 16), ("pageable", pageable.ctypes.data)):
            new = new_graph()
            append_node(of_driver(new), [], log, 2)
            copy_node(new, [], memory, source, 16)
            error, found = cudart.cudaGraphExecUpdate(mine, new)
            result[name] = [error.name, found.result.name if found is not None else "", went(mine)]
            cudart.cudaGetLastError()
        more = new_graph()
        append_node(of_driver(more), [], log, 3)
        error, found = cudart.cudaGraphExecUpdate(mine, more)
        result["fewer"] = [error.name, found.result.name if found is not None else ""]
        cudart.cudaGetLastError()
        result = finished({**result, "log": logged(log)})
    return result


@program("a node of a graph for the device that is switched off")
def switched_off():
    loaded()
    log, made = new_log(), new_graph()
    first = append_node(of_driver(made), [], log, 2)
    append_node(of_driver(made), [first], log, 3)
    child = executable_of(made)
    parent, codes = launches(log, 1, (child, FIRE))
    node = cudart.cudaGraphNode_t(int(first))
    result = {"off": code(cudart.cudaGraphNodeSetEnabled(child, node, 0))}
    asked = cudart.cudaGraphNodeGetEnabled(child, node)
    result["asked"] = [code(asked), asked[1]]
    result["before"] = [went(parent), codes_of(codes)]
    cudart.cudaGraphUpload(child, 0)
    cudart.cudaDeviceSynchronize()
    result["after"] = [went(parent), codes_of(codes)]
    return finished({**result, "log": logged(log)})


@program("a copy of a graph for the device: what its source and its destination may become")
def copy_update():
    result, pageable = {}, np.zeros(64, np.uint8)
    kind = cudart.cudaMemcpyKind.cudaMemcpyDefault
    with device_memory(64) as memory, pinned_memory(64) as (locked, view):
        view[:] = np.arange(64)
        made = new_graph()
        node = copy_node(made, [], memory, locked, 8)
        mine = executable_of(made)
        for name, source in (("locked", locked + 8), ("pageable", pageable.ctypes.data), ("device", memory + 32)):
            answer = cudart.cudaGraphExecMemcpyNodeSetParams1D(mine, node, memory, source, 8, kind)
            cudart.cudaGetLastError()
            result[name] = [code(answer), went(mine)]
        result["memory"] = fetched(memory, 8, np.uint8)
        result = finished(result)
    return result


@program("a graph for the device of copies and fills, launched by a kernel")
def copies_and_fills():
    loaded()
    log = new_log()
    with device_memory(64) as memory, pinned_memory(64) as (locked, view), pinned_memory(64) as (back, got):
        view[:] = np.arange(64)
        made = new_graph()
        filled = memset_node(made, [], memory, 7, 32)
        inwards = copy_node(made, [filled], memory + 8, locked + 8, 8)
        within = copy_node(made, [inwards], memory + 32, memory, 32)
        copy_node(made, [within], back, memory, 64)
        parent, codes = launches(log, 1, (executable_of(made), FIRE))
        result = {"went": went(parent), "codes": codes_of(codes), "back": got.copy(), "there": fetched(memory, 16)}
        result = finished(result)
    return result


@program("a destroyed graph of an executable one for the device, and a clone")
def destroyed_source():
    loaded()
    log = new_log()
    _, made = cudart.cudaGraphCreate(0)
    append_node(of_driver(made), [], log, 2)
    error, copied = cudart.cudaGraphClone(made)
    KEPT.graphs.append(copied)
    child, other = executable_of(made), executable_of(copied)
    destroyed = code(cudart.cudaGraphDestroy(made))
    parent, codes = launches(log, 1, (child, FIRE), (other, TAIL))
    result = {"codes": [error.name, destroyed, *codes_of(codes)], "went": went(parent), "log": logged(log)}
    return finished(result)


@program("a stream is busy until a tail launch has ended")
def busy_in_a_tail():
    loaded()
    log = new_log()
    parent, _ = launches(log, 1, (appends(log, *range(2, 22), slowly=True), TAIL))
    with streams(1) as (stream,):
        cudart.cudaGraphLaunch(parent, stream)
        asked = code(cudart.cudaStreamQuery(stream))
        sync = code(cudart.cudaStreamSynchronize(stream))
        result = {"asked": asked, "sync": sync, "then": code(cudart.cudaStreamQuery(stream)), "log": logged(log)}
        result = finished(result)
    return result


@program("an executable graph whose kernel has launched others is launched again: it waits for them")
def launched_again():
    loaded()
    log = new_log()
    parent, _ = launches(log, 1, (appends(log, 2, slowly=True), FIRE), (appends(log, 3), TAIL))
    ran = went(parent, 3)
    with streams(1, 1) as pair:
        codes = [code(cudart.cudaGraphLaunch(parent, each)) for each in pair]
        cudart.cudaDeviceSynchronize()
    return finished({"went": ran, "codes": codes, "log": logged(log)})
