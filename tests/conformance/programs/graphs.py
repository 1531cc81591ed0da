"""Graphs made by API: nodes, edges, copies of graphs, instantiation, launches, and the errors of all of them."""

import ctypes

import numpy as np

from cudalab import cp, cudart, driver

from ..appending import append, append_node, graph, launch_of, logged, new_log, run_graph, warm_appends
from ..busy import event_state, events, pinned_memory, seen, spin, state, streams, warm
from ..program import code, program

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def empty(made, after=()):
    """An empty node."""
    error, node = cudart.cudaGraphAddEmptyNode(made, list(after), len(after))
    assert error.value == 0, error
    return node


def memset_params(pointer, value, width, element=1, height=1, pitch=0):
    params = cudart.cudaMemsetParams()
    params.dst, params.value, params.width = pointer, value, width
    params.elementSize, params.height, params.pitch = element, height, pitch
    return params


def host_params(function, data=0):
    params = cudart.cudaHostNodeParams()
    params.fn = ctypes.cast(function, ctypes.c_void_p).value
    params.userData = data
    return params


def linear(made, after, dst, src, size, kind=4):
    return cudart.cudaGraphAddMemcpyNode1D(made, after, len(after), dst, src, size, cudart.cudaMemcpyKind(kind))


@program("creating, asking and destroying a graph")
def creation():
    result = {"flags": [code(cudart.cudaGraphCreate(flags)) for flags in (1, 2)]}
    error, made = cudart.cudaGraphCreate(0)
    result["nodes"] = [error.name, code(cudart.cudaGraphGetNodes(made)), int(cudart.cudaGraphGetNodes(made)[-1])]
    result["roots"] = int(cudart.cudaGraphGetRootNodes(made)[-1])
    result["edges"] = int(cudart.cudaGraphGetEdges(made)[-1])
    result["destroy"] = code(cudart.cudaGraphDestroy(made))
    result["null"] = [
        code(cudart.cudaGraphDestroy(0)),
        code(cudart.cudaGraphGetNodes(0)),
        code(cudart.cudaGraphClone(0)),
        code(cudart.cudaGraphInstantiate(0, 0)),
        code(cudart.cudaGraphAddEmptyNode(0, None, 0)),
    ]
    cudart.cudaGetLastError()
    return result


@program("lists of nodes: without room the number, with too much room null handles at the end")
def listing():
    with graph() as made:
        nodes = [empty(made) for _ in range(3)]
        found = {}
        for room in (0, 2, 3, 5):
            error, listed, count = cudart.cudaGraphGetNodes(made, room)
            found[str(room)] = [
                error.name,
                [nodes.index(n) if int(n) else None for n in listed]
                == list(range(min(room, 3))) + [None] * max(0, room - 3),
                len(listed),
                int(count),
            ]
        return found


@program("types of nodes")
def node_types():
    warm_appends()
    log = new_log()
    with graph() as made, graph() as child, events(1) as (event,):
        empty(child)
        nodes = {
            "empty": empty(made),
            "kernel": append_node(made, [], log, 1),
            "memset": cudart.cudaGraphAddMemsetNode(made, [], 0, memset_params(log.data.ptr, 0, 4))[1],
            "memcpy": linear(made, [], log.data.ptr + 8, log.data.ptr, 4)[1],
            "child": cudart.cudaGraphAddChildGraphNode(made, [], 0, child)[1],
            "record": cudart.cudaGraphAddEventRecordNode(made, [], 0, event)[1],
            "wait": cudart.cudaGraphAddEventWaitNode(made, [], 0, event)[1],
        }
        return {name: cudart.cudaGraphNodeGetType(node)[1].name for name, node in nodes.items()}


@program("edges: added, asked for, removed")
def edges():
    with graph() as made:
        a, b, c = empty(made), empty(made), empty(made)
        add = code(cudart.cudaGraphAddDependencies(made, [a, b], [b, c], None, 2))
        found = cudart.cudaGraphGetEdges(made, 2)
        before = cudart.cudaGraphNodeGetDependencies(c, 1)
        after = cudart.cudaGraphNodeGetDependentNodes(a, 1)
        remove = code(cudart.cudaGraphRemoveDependencies(made, [a], [b], None, 1))
        return {
            "add": add,
            "edges": sorted([[a, b, c].index(x), [a, b, c].index(y)] for x, y in zip(found[1], found[2], strict=True)),
            "before": [code(before), before[1][0] == b, int(before[-1])],
            "after": [code(after), after[1][0] == b, int(after[-1])],
            "remove": remove,
            "left": int(cudart.cudaGraphGetEdges(made)[-1]),
            "roots": int(cudart.cudaGraphGetRootNodes(made)[-1]),
        }


@program("edges that cannot be: twice, to itself, between graphs, not there")
def edge_errors():
    with graph() as made, graph() as other:
        a, b, c = empty(made), empty(made), empty(made)
        foreign = empty(other)
        cudart.cudaGraphAddDependencies(made, [a], [b], None, 1)
        result = {
            "again": code(cudart.cudaGraphAddDependencies(made, [a], [b], None, 1)),
            "itself": code(cudart.cudaGraphAddDependencies(made, [a], [a], None, 1)),
            "foreign": code(cudart.cudaGraphAddDependencies(made, [a], [foreign], None, 1)),
            "of another graph": code(cudart.cudaGraphAddDependencies(other, [a], [c], None, 1)),
            "not there": code(cudart.cudaGraphRemoveDependencies(made, [b], [c], None, 1)),
            "none": code(cudart.cudaGraphAddDependencies(made, None, None, None, 0)),
            "twice in one call": code(cudart.cudaGraphAddDependencies(made, [a, a], [c, c], None, 2)),
        }
        result["edges"] = int(cudart.cudaGraphGetEdges(made)[-1])
        return result


@program("an edge that closes a circle: when it is noticed")
def circle():
    with graph() as made:
        a, b = empty(made), empty(made)
        cudart.cudaGraphAddDependencies(made, [a], [b], None, 1)
        return {
            "add": code(cudart.cudaGraphAddDependencies(made, [b], [a], None, 1)),
            "instantiate": code(cudart.cudaGraphInstantiate(made, 0)),
            "last": cudart.cudaGetLastError()[0].name,
        }


@program("dependencies of a new node: from another graph, twice, more than there are")
def dependency_errors():
    with graph() as made, graph() as other:
        mine, foreign = empty(made), empty(other)
        return {
            "foreign": code(cudart.cudaGraphAddEmptyNode(made, [foreign], 1)),
            "twice": code(cudart.cudaGraphAddEmptyNode(made, [mine, mine], 2)),
            "null": code(cudart.cudaGraphAddEmptyNode(made, [cudart.cudaGraphNode_t(0)], 1)),
            "nodes": int(cudart.cudaGraphGetNodes(made)[-1]),
        }


@program("a chain of kernels runs in the order of its edges, once a launch")
def chain():
    warm_appends()
    log = new_log()
    with graph() as made:
        before = []
        for value in range(8):
            before = [append_node(made, before, log, value)]
        went = run_graph(made, 2)
    return {"went": went, "log": logged(log)}


@program("nodes that were added in another order than their edges")
def backwards():
    warm_appends()
    log = new_log()
    with graph() as made:
        nodes = [append_node(made, [], log, value, slowly=True) for value in range(5)]
        for one, other in zip(nodes[1:], nodes[:-1], strict=True):
            cudart.cudaGraphAddDependencies(made, [one], [other], None, 1)
        went = run_graph(made)
    return {"went": went, "log": logged(log)}


@program("a fork and a join: all parts come between them")
def diamond():
    warm_appends()
    log = new_log()
    with graph() as made:
        first = append_node(made, [], log, 1)
        parts = [append_node(made, [first], log, value, slowly=value == 10) for value in (10, 11, 12)]
        append_node(made, parts, log, 2)
        went = run_graph(made)
    found = logged(log)
    return {"went": went, "first": found[0], "parts": sorted(found[1:4]), "last": found[4], "count": len(found)}


@program("a launch waits for the stream, and later work for the launch")
def in_stream_order():
    warm_appends()
    warm()
    log = new_log()
    with graph() as made, streams(1) as (stream,):
        append_node(made, [append_node(made, [], log, 5, slowly=True)], log, 6)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        spin(stream)
        append(stream, log, 4)
        launched = code(cudart.cudaGraphLaunch(executable, stream))
        busy = state(stream)
        append(stream, log, 7)
        cudart.cudaStreamSynchronize(stream)
        cudart.cudaGraphExecDestroy(executable)
    return {"launched": launched, "busy": busy, "log": logged(log)}


@program("launches of one executable graph in two streams do not overlap")
def two_streams():
    warm_appends()
    log = new_log()
    with graph() as made, streams(1, 1) as (one, other):
        append_node(made, [append_node(made, [], log, 1, slowly=True)], log, 2)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        answers = [code(cudart.cudaGraphLaunch(executable, stream)) for stream in (one, other, one, other)]
        cudart.cudaDeviceSynchronize()
        cudart.cudaGraphExecDestroy(executable)
    return {"launches": answers, "log": logged(log)}


@program("an executable graph outlives its graph, and a launch its executable graph")
def lifetimes():
    warm_appends()
    warm()
    log = new_log()
    with streams(1) as (stream,):
        _, made = cudart.cudaGraphCreate(0)
        append_node(made, [], log, 3)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        destroyed = [code(cudart.cudaGraphDestroy(made))]
        launched = [code(cudart.cudaGraphLaunch(executable, stream))]
        spin(stream)
        launched.append(code(cudart.cudaGraphLaunch(executable, stream)))
        destroyed.append(code(cudart.cudaGraphExecDestroy(executable)))
        cudart.cudaStreamSynchronize(stream)
    return {"destroyed": destroyed, "launched": launched, "log": logged(log)}


@program("changing a graph does not change what was instantiated from it")
def later_changes():
    warm_appends()
    log = new_log()
    with graph() as made:
        first = append_node(made, [], log, 1)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        append_node(made, [first], log, 2)
        cudart.cudaGraphLaunch(executable, 0)
        cudart.cudaDeviceSynchronize()
        cudart.cudaGraphExecDestroy(executable)
        went = run_graph(made)
    return {"went": went, "log": logged(log)}


@program("kernel arguments are copied when the node is made")
def copied_arguments():
    warm_appends()
    log = new_log()
    pointer, value = ctypes.c_void_p(log.data.ptr), ctypes.c_int(7)
    addresses = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(value))
    with graph() as made:
        params = launch_of(log, 0)
        params.kernelParams = ctypes.addressof(addresses)
        added = code(driver.cuGraphAddKernelNode(made, [], 0, params))
        value.value = 8
        went = run_graph(made)
    return {"added": added, "went": went, "log": logged(log)}


@program("what a kernel node is refused for")
def kernel_errors():
    warm_appends()
    log = new_log()
    result = {}
    with graph() as made:
        for name, fields in {
            "no block": {"blockDimX": 0},
            "no grid": {"gridDimX": 0},
            "large block": {"blockDimX": 2048},
            "much shared memory": {"sharedMemBytes": 1 << 20},
        }.items():
            params = launch_of(log, 0)
            for field, value in fields.items():
                setattr(params, field, value)
            added = code(driver.cuGraphAddKernelNode(made, [], 0, params))
            result[name] = [added]
        result["nodes"] = int(cudart.cudaGraphGetNodes(made)[-1])
        params = launch_of(log, 0)
        params.func = driver.CUfunction(0)
        result["no function"] = code(driver.cuGraphAddKernelNode(made, [], 0, params))
        result["none"] = code(driver.cuGraphAddKernelNode(made, [], 0, None))
    return result


@program("parameters of a kernel node, asked for and changed")
def kernel_parameters():
    warm_appends()
    log = new_log()
    with graph() as made:
        node = append_node(made, [], log, 1)
        error, params = driver.cuGraphKernelNodeGetParams(node)
        asked = [error.name, params.gridDimX, params.blockDimX, params.sharedMemBytes]
        values = seen(seen(params.kernelParams, 16, np.uint64)[1], 4, np.int32)
        asked.append(int(values[0]))
        changed = code(driver.cuGraphKernelNodeSetParams(node, launch_of(log, 9, grid=2)))
        again = driver.cuGraphKernelNodeGetParams(node)[1]
        wrong = code(cudart.cudaGraphMemsetNodeGetParams(node))
        went = run_graph(made)
    return {
        "asked": asked, "changed": changed, "grid": again.gridDimX, "wrong": wrong, "went": went, "log": logged(log),
    }  # fmt: skip


@program("kernel nodes of the runtime with a function of the driver")
def runtime_kernel_node():
    warm_appends()
    log = new_log()
    found = launch_of(log, 6)
    params = cudart.cudaKernelNodeParams()
    params.func = int(found.func)
    params.gridDim.x = params.gridDim.y = params.gridDim.z = 1
    params.blockDim.x = params.blockDim.y = params.blockDim.z = 1
    params.kernelParams = ((int(log.data.ptr), 6), (ctypes.c_void_p, ctypes.c_int))
    with graph() as made:
        added = code(cudart.cudaGraphAddKernelNode(made, [], 0, params))
        nodes = int(cudart.cudaGraphGetNodes(made)[-1])
    return {"added": added, "nodes": nodes}


@program("memset nodes: rows of elements, and what they are refused for")
def memsets():
    with graph() as made:
        memory = cp.zeros((4, 8), cp.int32)
        cudart.cudaDeviceSynchronize()
        pointer = memory.data.ptr
        ok = memset_params(pointer, 0x01020304, 3, 4, 2, 32)
        result = {"add": code(cudart.cudaGraphAddMemsetNode(made, [], 0, ok))}
        result["went"] = run_graph(made)
        result["memory"] = cp.asnumpy(memory)
        for name, params in {
            "element of 3": memset_params(pointer, 1, 4, 3),
            "no element": memset_params(pointer, 1, 4, 0),
            "misaligned": memset_params(pointer + 1, 1, 4, 4),
            "no width": memset_params(pointer, 1, 0, 1),
            "no height": memset_params(pointer, 1, 4, 1, 0),
            "small pitch": memset_params(pointer, 1, 8, 4, 2, 16),
            "null": memset_params(0, 1, 4),
        }.items():
            result[name] = code(cudart.cudaGraphAddMemsetNode(made, [], 0, params))
        result["nodes"] = int(cudart.cudaGraphGetNodes(made)[-1])
        return result


@program("memset parameters, asked for and changed")
def memset_parameters():
    with graph() as made:
        memory = cp.zeros(16, cp.uint8)
        cudart.cudaDeviceSynchronize()
        _, node = cudart.cudaGraphAddMemsetNode(made, [], 0, memset_params(memory.data.ptr, 1, 4))
        error, params = cudart.cudaGraphMemsetNodeGetParams(node)
        asked = [error.name, int(params.value), int(params.width), int(params.elementSize), int(params.height)]
        changed = code(cudart.cudaGraphMemsetNodeSetParams(node, memset_params(memory.data.ptr + 2, 3, 8)))
        went = run_graph(made)
        return {"asked": asked, "changed": changed, "went": went, "memory": cp.asnumpy(memory)}


@program("linear memcpy nodes: to the device, within it and back, from page-locked memory")
def linear_copies():
    memory = cp.zeros(32, cp.int32)
    cudart.cudaDeviceSynchronize()
    with graph() as made, pinned_memory(64) as (source, view), pinned_memory(64) as (target, out):
        a, b = memory.data.ptr, memory.data.ptr + 64
        _, first = linear(made, [], a, source, 64)
        _, second = linear(made, [first], b, a, 64, 3)
        third = linear(made, [second], target, b, 64, 2)
        view[:] = np.arange(64)
        went = run_graph(made)
        return {"added": code(third), "went": went, "out": out.copy()}


@program("memcpy nodes read and write pageable memory when they run, not when they are made")
def pageable_copies():
    memory = cp.zeros(16, cp.int32)
    cudart.cudaDeviceSynchronize()
    source, target = np.zeros(16, np.int32), np.zeros(16, np.int32)
    with graph() as made:
        error, first = linear(made, [], memory.data.ptr, source.ctypes.data, 64, 1)
        second = linear(made, [first], target.ctypes.data, memory.data.ptr, 64, 2)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        found = []
        for value in (3, 4):
            source[:] = value
            answer = code(cudart.cudaGraphLaunch(executable, 0))
            cudart.cudaDeviceSynchronize()
            found.append([answer, target.tolist()])
        cudart.cudaGraphExecDestroy(executable)
    return {"added": [error.name, code(second)], "found": found}


@program("memcpy nodes of boxes in three dimensions")
def box_copies():
    source = cp.arange(4 * 5 * 6, dtype=cp.uint8).reshape(4, 5, 6)
    target = cp.zeros((4, 5, 6), cp.uint8)
    cudart.cudaDeviceSynchronize()
    params = cudart.cudaMemcpy3DParms()
    for pointer, array in ((params.srcPtr, source), (params.dstPtr, target)):
        pointer.ptr, pointer.pitch, pointer.xsize, pointer.ysize = array.data.ptr, 6, 6, 5
    params.srcPos.x, params.srcPos.y, params.srcPos.z = 1, 1, 1
    params.extent.width, params.extent.height, params.extent.depth = 3, 2, 2
    params.kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    with graph() as made:
        error, node = cudart.cudaGraphAddMemcpyNode(made, [], 0, params)
        asked = cudart.cudaGraphMemcpyNodeGetParams(node)
        extent = asked[1].extent
        went = run_graph(made)
    return {
        "added": error.name,
        "asked": [code(asked), int(extent.width), int(extent.height), int(extent.depth), asked[1].kind.name],
        "went": went,
        "target": cp.asnumpy(target),
    }


@program("what a memcpy node is refused for")
def copy_errors():
    memory = cp.zeros(64, cp.uint8)
    host = np.zeros(64, np.uint8)
    cudart.cudaDeviceSynchronize()
    pointer, address = memory.data.ptr, host.ctypes.data
    with graph() as made:
        return {
            "no bytes": code(linear(made, [], pointer, pointer + 32, 0)),
            "null source": code(linear(made, [], pointer, 0, 16)),
            "null destination": code(linear(made, [], 0, pointer, 16)),
            "kind": code(linear(made, [], pointer, address, 16, 2)),
            "device to device": code(linear(made, [], pointer, address, 16, 3)),
            "host to host": code(linear(made, [], address, address + 32, 16, 0)),
            "overlap": code(linear(made, [], pointer + 8, pointer, 16)),
            "nodes": int(cudart.cudaGraphGetNodes(made)[-1]),
        }


@program("host nodes: called once a launch, in order, with their data")
def host_nodes():
    warm_appends()
    log = new_log()
    calls = []
    function = HOST_FUNCTION(lambda data: calls.append(int(data or 0)))
    with graph() as made:
        first = append_node(made, [], log, 1)
        error, node = cudart.cudaGraphAddHostNode(made, [first], 1, host_params(function, 5))
        _, last = cudart.cudaGraphAddHostNode(made, [node], 1, host_params(function, 6))
        asked = cudart.cudaGraphHostNodeGetParams(last)
        went = run_graph(made, 2)
        changed = code(cudart.cudaGraphHostNodeSetParams(last, host_params(function, 7)))
        run_graph(made)
        null = cudart.cudaHostNodeParams()
        refused = code(cudart.cudaGraphAddHostNode(made, [], 0, null))
    return {
        "added": error.name,
        "asked": [code(asked), int(asked[1].userData)],
        "went": went,
        "changed": changed,
        "calls": calls,
        "refused": refused,
    }


@program("a child graph is cloned into its node")
def child_graphs():
    warm_appends()
    log = new_log()
    with graph() as made, graph() as child:
        append_node(child, [append_node(child, [], log, 10)], log, 11)
        first = append_node(made, [], log, 1)
        error, node = cudart.cudaGraphAddChildGraphNode(made, [first], 1, child)
        append_node(made, [node], log, 2)
        append_node(child, [], log, 99)
        inner = cudart.cudaGraphChildGraphNodeGetGraph(node)
        result = {
            "added": error.name,
            "inner": [code(inner), int(inner[1]) == int(child), int(cudart.cudaGraphGetNodes(inner[1])[-1])],
            "of another": code(cudart.cudaGraphChildGraphNodeGetGraph(first)),
            "went": run_graph(made),
        }
    return result | {"log": logged(log)}


@program("clones: nodes are found in them, and changes do not reach each other")
def clones():
    warm_appends()
    log = new_log()
    with graph() as made:
        first = append_node(made, [], log, 1)
        second = append_node(made, [first], log, 2)
        error, clone = cudart.cudaGraphClone(made)
        found = [cudart.cudaGraphNodeFindInClone(node, clone) for node in (first, second)]
        append_node(made, [second], log, 3)
        _, late = cudart.cudaGraphGetNodes(made, 3)[:2]
        result = {
            "clone": error.name,
            "found": [[code(f), int(f[1]) != int(n)] for f, n in zip(found, (first, second), strict=True)],
            "edges": int(cudart.cudaGraphGetEdges(clone)[-1]),
            "late": code(cudart.cudaGraphNodeFindInClone(late[2], clone)),
            "in itself": code(cudart.cudaGraphNodeFindInClone(first, made)),
            "removed": code(cudart.cudaGraphDestroyNode(found[0][1])),
            "after that": code(cudart.cudaGraphNodeFindInClone(first, clone)),
            "went": run_graph(clone),
            "destroy": code(cudart.cudaGraphDestroy(clone)),
            "original": run_graph(made),
        }
    return result | {"log": logged(log)}


@program("removing a node removes its edges")
def removed_nodes():
    with graph() as made:
        a = empty(made)
        b = empty(made, [a])
        c = empty(made, [b])
        return {
            "destroy": code(cudart.cudaGraphDestroyNode(b)),
            "nodes": int(cudart.cudaGraphGetNodes(made)[-1]),
            "edges": int(cudart.cudaGraphGetEdges(made)[-1]),
            "before": int(cudart.cudaGraphNodeGetDependencies(c)[-1]),
            "null": code(cudart.cudaGraphDestroyNode(0)),
        }


@program("an empty graph runs")
def empty_graph():
    with graph() as made, streams(1) as (stream,):
        error, executable = cudart.cudaGraphInstantiate(made, 0)
        launched = code(cudart.cudaGraphLaunch(executable, stream))
        sync = code(cudart.cudaStreamSynchronize(stream))
        return {"went": [error.name, launched, sync, code(cudart.cudaGraphExecDestroy(executable))]}


@program("flags of instantiation, and what is said of them")
def instantiation_flags():
    result = {}
    with graph() as made:
        empty(made)
        for flags in (0, 1, 2, 8, 16, 1 << 20):
            error, executable = cudart.cudaGraphInstantiate(made, flags)
            result[str(flags)] = [error.name]
            if error.value == 0:
                asked = cudart.cudaGraphExecGetFlags(executable)
                result[str(flags)] += [code(asked), int(asked[1])]
                cudart.cudaGraphExecDestroy(executable)
        params = cudart.cudaGraphInstantiateParams()
        answer = cudart.cudaGraphInstantiateWithParams(made, params)
        result["params"] = [code(answer), params.result_out.name]
    return result


@program("uploading, launching and destroying what is not there")
def executable_errors():
    with graph() as made:
        empty(made)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        return {
            "upload": code(cudart.cudaGraphUpload(executable, 0)),
            "upload null": code(cudart.cudaGraphUpload(0, 0)),
            "launch null": code(cudart.cudaGraphLaunch(0, 0)),
            "last": cudart.cudaGetLastError()[0].name,
            "destroy null": code(cudart.cudaGraphExecDestroy(0)),
            "destroy": code(cudart.cudaGraphExecDestroy(executable)),
        }


@program("event record and wait nodes, across streams")
def event_nodes():
    warm_appends()
    log = new_log()
    with graph() as made, events(2) as (mine, other), streams(1, 1) as (stream, second):
        first = append_node(made, [], log, 1, slowly=True)
        error, record = cudart.cudaGraphAddEventRecordNode(made, [first], 1, mine)
        before = event_state(mine)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        cudart.cudaGraphLaunch(executable, stream)
        after = event_state(mine)
        cudart.cudaStreamWaitEvent(second, mine, 0)
        append(second, log, 2)
        cudart.cudaDeviceSynchronize()
        asked = cudart.cudaGraphEventRecordNodeGetEvent(record)
        changed = code(cudart.cudaGraphEventRecordNodeSetEvent(record, other))
        again = int(cudart.cudaGraphEventRecordNodeGetEvent(record)[1]) == int(other)
        cudart.cudaGraphExecDestroy(executable)
        result = {
            "added": error.name,
            "states": [before, after, event_state(mine), event_state(other)],
            "asked": [code(asked), int(asked[1]) == int(mine)],
            "changed": [changed, again],
            "null": code(cudart.cudaGraphAddEventRecordNode(made, [], 0, 0)),
        }
    return result | {"log": logged(log)}


@program("an event wait node waits for what was recorded when the graph was launched")
def event_wait_node():
    warm_appends()
    warm()
    log = new_log()
    with graph() as made, events(1) as (event,), streams(1, 1) as (stream, other):
        _, wait = cudart.cudaGraphAddEventWaitNode(made, [], 0, event)
        append_node(made, [wait], log, 2)
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        spin(other)
        append(other, log, 1)
        cudart.cudaEventRecord(event, other)
        cudart.cudaGraphLaunch(executable, stream)
        cudart.cudaDeviceSynchronize()
        cudart.cudaGraphExecDestroy(executable)
    return {"log": logged(log)}


@program("nodes by one call for all kinds")
def generic_nodes():
    warm_appends()
    log = new_log()
    with graph() as made:
        params = driver.CUgraphNodeParams()
        params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
        found = launch_of(log, 4)
        params.kernel.func = found.func
        params.kernel.gridDimX, params.kernel.gridDimY, params.kernel.gridDimZ = 1, 1, 1
        params.kernel.blockDimX, params.kernel.blockDimY, params.kernel.blockDimZ = 1, 1, 1
        params.kernel.kernelParams = ((int(log.data.ptr), 4), (ctypes.c_void_p, ctypes.c_int))
        answer = driver.cuGraphAddNode(made, None, None, 0, params)
        nothing = driver.CUgraphNodeParams()
        nothing.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_EMPTY
        second = driver.cuGraphAddNode(made, [answer[1]], None, 1, nothing)
        return {"added": [code(answer), code(second)], "went": run_graph(made), "log": logged(log)}


@program("edges with data: ports and types that the nodes do not have")
def edge_data():
    result = {}
    with graph() as made:
        a, b = empty(made), empty(made)
        for name, port, kind in (("plain", 0, 0), ("port", 1, 0), ("programmatic", 1, 1)):
            data = cudart.cudaGraphEdgeData()
            data.from_port = port
            data.type = cudart.cudaGraphDependencyType(kind)
            result[name] = code(cudart.cudaGraphAddDependencies(made, [a], [b], [data], 1))
            if result[name] == "cudaSuccess":
                cudart.cudaGraphRemoveDependencies(made, [a], [b], [data], 1)
        return result


@program("the text for Graphviz")
def dot():
    warm_appends()
    log = new_log()
    with graph() as made:
        append_node(made, [append_node(made, [], log, 1)], log, 2)
        path = f"/tmp/conformance_{int(made):x}.dot"
        answers = [code(cudart.cudaGraphDebugDotPrint(made, path.encode(), flags)) for flags in (1, 0)]
        text = open(path).read()
        missing = code(cudart.cudaGraphDebugDotPrint(made, b"/nowhere/graph.dot", 0))
    return {
        "answers": answers,
        "digraph": text.startswith("digraph dot {"),
        "kernels": text.count("append"),
        "edges": text.count("->"),
        "missing": missing,
    }


@program("a kernel that fails in a graph: which call tells, and what comes after", isolated=True)
def fault_in_graph():
    warm_appends()
    log = new_log()
    with graph() as made:
        params = launch_of(log, 1)
        params.kernelParams = ((64, 1), (ctypes.c_void_p, ctypes.c_int))
        added = code(driver.cuGraphAddKernelNode(made, [], 0, params))
        _, executable = cudart.cudaGraphInstantiate(made, 0)
        launched = code(cudart.cudaGraphLaunch(executable, 0))
        return {
            "added": added,
            "launched": launched,
            "sync": code(cudart.cudaDeviceSynchronize()),
            "again": code(cudart.cudaGraphLaunch(executable, 0)),
            "create": code(cudart.cudaGraphCreate(0)),
        }


@program("random graphs do what the same work does in one stream")
def random_graphs():
    warm_appends()
    generator = np.random.default_rng(3)
    found = []
    for size in (5, 20, 60):
        log = new_log(2 * size + 8)
        with graph() as made:
            nodes = []
            for index in range(size):
                count = int(generator.integers(0, min(index, 3) + 1))
                before = sorted(generator.choice(index, count, replace=False).tolist()) if count else []
                nodes.append([append_node(made, [nodes[i][0] for i in before], log, index), before])
            went = run_graph(made)
        order = logged(log)
        place = {value: index for index, value in enumerate(order)}
        found.append(
            [
                went,
                sorted(order) == list(range(size)),
                all(place[b] < place[i] for i, (_, before) in enumerate(nodes) for b in before),
            ]
        )
    return {"found": found}
