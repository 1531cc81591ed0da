"""Executable graphs that change: node by node, as a whole, switched off; objects that graphs own."""

import ctypes

import numpy as np

from cudalab import cp, cudart, driver

from ..appending import append_node, graph, launch_of, logged, new_log, warm_appends
from ..busy import events, pinned_memory, streams
from ..program import code, program

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def memset_params(pointer, value, width, element=1, height=1, pitch=0):
    params = cudart.cudaMemsetParams()
    params.dst, params.value, params.width = pointer, value, width
    params.elementSize, params.height, params.pitch = element, height, pitch
    return params


def instantiated(made):
    error, executable = cudart.cudaGraphInstantiate(made, 0)
    assert error.value == 0, error
    return executable


def launched(executable):
    """Launches and waits."""
    answer = code(cudart.cudaGraphLaunch(executable, 0))
    cudart.cudaDeviceSynchronize()
    return answer


def updated(executable, made):
    """A whole update: the code, and the result where there is one."""
    answer = cudart.cudaGraphExecUpdate(executable, made)
    result = None if answer[1] is None else answer[1].result.name.removeprefix("cudaGraphExecUpdate")
    cudart.cudaGetLastError()
    return [code(answer), result]


@program("a kernel node of an executable graph gets other arguments, another grid, another kernel")
def kernel_node():
    warm_appends()
    log = new_log()
    with graph() as made:
        first = append_node(made, [], log, 1)
        append_node(made, [first], log, 2)
        executable = instantiated(made)
        answers = [launched(executable)]
        answers.append(code(driver.cuGraphExecKernelNodeSetParams(executable, first, launch_of(log, 7))))
        answers.append(launched(executable))
        answers.append(code(driver.cuGraphExecKernelNodeSetParams(executable, first, launch_of(log, 8, grid=2))))
        answers.append(launched(executable))
        answers.append(code(driver.cuGraphExecKernelNodeSetParams(executable, first, launch_of(log, 9, slowly=True))))
        answers.append(launched(executable))
        unchanged = driver.cuGraphKernelNodeGetParams(first)[1].gridDimX
        cudart.cudaGraphExecDestroy(executable)
    return {"answers": answers, "graph": unchanged, "log": logged(log)}


@program("an update that is called while the graph runs counts for the next launch")
def update_while_running():
    warm_appends()
    log = new_log()
    with graph() as made, streams(1) as (stream,):
        node = append_node(made, [append_node(made, [], log, 1, slowly=True)], log, 2)
        executable = instantiated(made)
        cudart.cudaGraphLaunch(executable, stream)
        answer = code(driver.cuGraphExecKernelNodeSetParams(executable, node, launch_of(log, 3)))
        cudart.cudaGraphLaunch(executable, stream)
        cudart.cudaStreamSynchronize(stream)
        cudart.cudaGraphExecDestroy(executable)
    return {"answer": answer, "log": logged(log)}


@program("what node updates are refused for: other kinds, foreign and removed nodes, invalid launches")
def node_errors():
    warm_appends()
    log = new_log()
    with graph() as made, graph() as other:
        kernel = append_node(made, [], log, 1)
        _, memset = cudart.cudaGraphAddMemsetNode(made, [], 0, memset_params(log.data.ptr + 128, 0, 4))
        foreign = append_node(other, [], log, 2)
        executable = instantiated(made)
        late = append_node(made, [], log, 3)
        large = launch_of(log, 1)
        large.blockDimX = 4096
        result = {
            "kind": code(driver.cuGraphExecKernelNodeSetParams(executable, memset, launch_of(log, 4))),
            "other kind": code(
                cudart.cudaGraphExecMemsetNodeSetParams(executable, kernel, memset_params(log.data.ptr, 0, 4))
            ),
            "foreign": code(driver.cuGraphExecKernelNodeSetParams(executable, foreign, launch_of(log, 5))),
            "late": code(driver.cuGraphExecKernelNodeSetParams(executable, late, launch_of(log, 6))),
            "large block": code(driver.cuGraphExecKernelNodeSetParams(executable, kernel, large)),
            "null": code(driver.cuGraphExecKernelNodeSetParams(executable, kernel, None)),
            "no executable": code(
                driver.cuGraphExecKernelNodeSetParams(driver.CUgraphExec(0), kernel, launch_of(log, 7))
            ),
        }
        result["launch"] = launched(executable)
        cudart.cudaGraphExecDestroy(executable)
    return result | {"log": logged(log)}


@program("a memset node of an executable graph: value, address, size, element, rows")
def memset_node():
    memory = cp.zeros(64, cp.uint8)
    cudart.cudaDeviceSynchronize()
    pointer = memory.data.ptr
    with graph() as made:
        _, node = cudart.cudaGraphAddMemsetNode(made, [], 0, memset_params(pointer, 1, 8))
        executable = instantiated(made)
        result = {}
        for name, params in {
            "value": memset_params(pointer, 2, 8),
            "address": memset_params(pointer + 16, 3, 8),
            "size": memset_params(pointer + 32, 4, 16),
            "element": memset_params(pointer + 48, 5, 2, 4),
            "rows": memset_params(pointer + 56, 6, 2, 1, 2, 4),
        }.items():
            result[name] = [
                code(cudart.cudaGraphExecMemsetNodeSetParams(executable, node, params)),
                launched(executable),
            ]
        cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return result | {"memory": cp.asnumpy(memory)}


@program("a memset node of rows: what of it may change")
def memset_rows():
    memory = cp.zeros((8, 8), cp.uint8)
    cudart.cudaDeviceSynchronize()
    pointer = memory.data.ptr
    with graph() as made:
        _, node = cudart.cudaGraphAddMemsetNode(made, [], 0, memset_params(pointer, 1, 4, 1, 2, 8))
        executable = instantiated(made)
        result = {}
        for name, params in {
            "value": memset_params(pointer, 2, 4, 1, 2, 8),
            "address": memset_params(pointer + 16, 3, 4, 1, 2, 8),
            "width": memset_params(pointer + 32, 4, 6, 1, 2, 8),
            "height": memset_params(pointer + 32, 5, 4, 1, 3, 8),
            "one row": memset_params(pointer + 60, 6, 4),
        }.items():
            result[name] = [
                code(cudart.cudaGraphExecMemsetNodeSetParams(executable, node, params)),
                launched(executable),
            ]
        cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return result | {"memory": cp.asnumpy(memory)}


@program("a memcpy node of an executable graph: addresses, size, direction, other kinds of memory")
def memcpy_node():
    memory = cp.zeros(64, cp.uint8)
    host = np.full(64, 9, np.uint8)
    cudart.cudaDeviceSynchronize()
    pointer, kind = memory.data.ptr, cudart.cudaMemcpyKind
    with graph() as made, pinned_memory(64) as (locked, view), pinned_memory(64) as (second, other):
        view[:], other[:] = 1, 2
        _, node = cudart.cudaGraphAddMemcpyNode1D(made, [], 0, pointer, locked, 8, kind(1))
        executable = instantiated(made)
        result = {}
        for name, (dst, src, size, direction) in {
            "source": (pointer, second, 8, 1),
            "destination": (pointer + 8, locked, 8, 1),
            "size": (pointer + 16, second, 16, 1),
            "by default": (pointer + 32, second, 8, 4),
            "from pageable": (pointer + 40, host.ctypes.data, 8, 1),
            "within the device": (pointer + 48, pointer, 8, 3),
            "to the host": (locked + 32, pointer, 8, 2),
            "no bytes": (pointer, second, 0, 1),
        }.items():
            answer = cudart.cudaGraphExecMemcpyNodeSetParams1D(executable, node, dst, src, size, kind(direction))
            result[name] = [code(answer), launched(executable)]
        cudart.cudaGraphExecDestroy(executable)
        found = view.copy()
    cudart.cudaGetLastError()
    return result | {"memory": cp.asnumpy(memory), "host": found}


@program("a host node of an executable graph calls another function, with other data")
def host_node():
    calls = []
    one, two = HOST_FUNCTION(lambda data: calls.append(int(data or 0))), HOST_FUNCTION(lambda data: calls.append(-1))

    def params(function, data):
        made = cudart.cudaHostNodeParams()
        made.fn, made.userData = ctypes.cast(function, ctypes.c_void_p).value, data
        return made

    with graph() as made:
        _, node = cudart.cudaGraphAddHostNode(made, [], 0, params(one, 5))
        executable = instantiated(made)
        answers = [launched(executable)]
        for function, data in ((one, 6), (two, 0)):
            answers.append(code(cudart.cudaGraphExecHostNodeSetParams(executable, node, params(function, data))))
            answers.append(launched(executable))
        cudart.cudaGraphExecDestroy(executable)
    return {"answers": answers, "calls": calls}


@program("event nodes of an executable graph get another event")
def event_nodes():
    with graph() as made, events(2) as (one, two):
        _, node = cudart.cudaGraphAddEventRecordNode(made, [], 0, one)
        executable = instantiated(made)
        answers = [code(cudart.cudaGraphExecEventRecordNodeSetEvent(executable, node, two)), launched(executable)]
        answers.append(code(cudart.cudaEventElapsedTime(one, one)))
        answers.append(code(cudart.cudaEventElapsedTime(two, two)))
        answers.append(code(cudart.cudaGraphExecEventWaitNodeSetEvent(executable, node, two)))
        cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return {"answers": answers}


@program("a child graph of an executable graph is replaced by one of the same shape only")
def child_node():
    warm_appends()
    log = new_log()
    with graph() as made, graph() as first, graph() as second, graph() as larger:
        append_node(first, [], log, 1)
        append_node(second, [], log, 2)
        append_node(larger, [append_node(larger, [], log, 3)], log, 4)
        _, node = cudart.cudaGraphAddChildGraphNode(made, [], 0, first)
        executable = instantiated(made)
        answers = [code(cudart.cudaGraphExecChildGraphNodeSetParams(executable, node, second)), launched(executable)]
        answers += [code(cudart.cudaGraphExecChildGraphNodeSetParams(executable, node, larger)), launched(executable)]
        inner = cudart.cudaGraphChildGraphNodeGetGraph(node)[1]
        inside = cudart.cudaGraphGetNodes(inner, 1)[1][0]
        answers += [
            code(driver.cuGraphExecKernelNodeSetParams(executable, inside, launch_of(log, 5))),
            launched(executable),
        ]
        cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return {"answers": answers, "log": logged(log)}


@program("nodes switched off and on again")
def switched_off():
    warm_appends()
    log = new_log()
    with graph() as made:
        first = append_node(made, [], log, 1)
        second = append_node(made, [first], log, 2)
        append_node(made, [second], log, 3)
        executable = instantiated(made)
        answers = []
        for enabled in (1, 0, 0, 1):
            answers.append(code(cudart.cudaGraphNodeSetEnabled(executable, second, enabled)))
            asked = cudart.cudaGraphNodeGetEnabled(executable, second)
            answers.append([code(asked), int(asked[1])])
            launched(executable)
        cudart.cudaGraphExecDestroy(executable)
    return {"answers": answers, "log": logged(log)}


@program("which kinds of nodes can be switched off")
def kinds_switched_off():
    warm_appends()
    log = new_log()
    with graph() as made, graph() as child, graph() as other, events(1) as (event,):
        append_node(child, [], log, 1)
        foreign = append_node(other, [], log, 1)
        pointer = log.data.ptr + 128
        function = HOST_FUNCTION(lambda data: None)
        host = cudart.cudaHostNodeParams()
        host.fn = ctypes.cast(function, ctypes.c_void_p).value
        nodes = {
            "kernel": append_node(made, [], log, 2),
            "memset": cudart.cudaGraphAddMemsetNode(made, [], 0, memset_params(pointer, 0, 4))[1],
            "memcpy": cudart.cudaGraphAddMemcpyNode1D(made, [], 0, pointer + 8, pointer, 4, cudart.cudaMemcpyKind(3))[
                1
            ],
            "host": cudart.cudaGraphAddHostNode(made, [], 0, host)[1],
            "empty": cudart.cudaGraphAddEmptyNode(made, [], 0)[1],
            "child": cudart.cudaGraphAddChildGraphNode(made, [], 0, child)[1],
            "record": cudart.cudaGraphAddEventRecordNode(made, [], 0, event)[1],
        }
        executable = instantiated(made)
        result = {}
        for name, node in (nodes | {"foreign": foreign}).items():
            result[name] = [
                code(cudart.cudaGraphNodeSetEnabled(executable, node, 0)),
                code(cudart.cudaGraphNodeGetEnabled(executable, node)),
            ]
        result["launch"] = launched(executable)
        cudart.cudaGraphExecDestroy(executable)
    cudart.cudaGetLastError()
    return result | {"log": logged(log)}


@program("a whole update takes over what another graph of the same shape does")
def whole():
    warm_appends()
    log = new_log()
    with graph() as made, graph() as other:
        for target, base in ((made, 10), (other, 20)):
            first = append_node(target, [], log, base)
            append_node(target, [first], log, base + 1)
        executable = instantiated(made)
        answers = [launched(executable), updated(executable, other), launched(executable)]
        cudart.cudaGraphExecDestroy(executable)
    return {"answers": answers, "log": logged(log)}


@program("whole updates that are not possible, and that nothing changes by them")
def impossible():
    warm_appends()
    log = new_log()
    result = {}
    memory = cp.zeros(16, cp.uint8)
    cudart.cudaDeviceSynchronize()

    def shapes():
        def more(other):
            append_node(other, [append_node(other, [append_node(other, [], log, 7)], log, 8)], log, 9)

        def parallel(other):
            append_node(other, [], log, 7)
            append_node(other, [], log, 8)

        def kinds(other):
            _, first = cudart.cudaGraphAddMemsetNode(other, [], 0, memset_params(memory.data.ptr, 1, 4))
            append_node(other, [first], log, 8)

        def backwards(other):
            second, first = append_node(other, [], log, 8), append_node(other, [], log, 7)
            cudart.cudaGraphAddDependencies(other, [first], [second], None, 1)

        def other_kernel(other):
            append_node(other, [append_node(other, [], log, 7, slowly=True)], log, 8)

        def nothing(other):
            pass

        return more, parallel, kinds, backwards, other_kernel, nothing

    for change in shapes():
        with graph() as made, graph() as other:
            append_node(made, [append_node(made, [], log, 1)], log, 2)
            executable = instantiated(made)
            change(other)
            result[change.__name__] = [updated(executable, other), launched(executable)]
            cudart.cudaGraphExecDestroy(executable)
    return result | {"log": logged(log)}


@program("whole updates of copies and memsets: what may change")
def whole_of_copies():
    memory = cp.zeros(64, cp.uint8)
    cudart.cudaDeviceSynchronize()
    pointer, kind = memory.data.ptr, cudart.cudaMemcpyKind
    result = {}
    with pinned_memory(64) as (locked, view):
        view[:] = 1
        copies = {
            "same": (pointer, locked, 8, 1),
            "address": (pointer + 8, locked + 8, 8, 1),
            "size": (pointer, locked, 16, 1),
            "direction": (locked, pointer, 8, 2),
            "device": (pointer + 32, pointer, 8, 3),
        }
        for name, (dst, src, size, direction) in copies.items():
            with graph() as made, graph() as other:
                cudart.cudaGraphAddMemcpyNode1D(made, [], 0, pointer, locked, 8, kind(1))
                cudart.cudaGraphAddMemcpyNode1D(other, [], 0, dst, src, size, kind(direction))
                executable = instantiated(made)
                result[name] = [updated(executable, other), launched(executable)]
                cudart.cudaGraphExecDestroy(executable)
        sets = {
            "value": memset_params(pointer, 2, 8),
            "width": memset_params(pointer, 2, 16),
            "element": memset_params(pointer, 2, 2, 4),
            "rows": memset_params(pointer, 2, 4, 1, 2, 8),
        }
        for name, params in sets.items():
            with graph() as made, graph() as other:
                cudart.cudaGraphAddMemsetNode(made, [], 0, memset_params(pointer, 1, 8))
                cudart.cudaGraphAddMemsetNode(other, [], 0, params)
                executable = instantiated(made)
                result[f"memset {name}"] = [updated(executable, other), launched(executable)]
                cudart.cudaGraphExecDestroy(executable)
    return result
