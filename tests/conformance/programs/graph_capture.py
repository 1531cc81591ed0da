"""Stream capture: forks and joins, what is prohibited, what invalidates a capture, and the state after each."""

import ctypes
import threading

import numpy as np

from cudalab import cp, cudart, driver

from ..appending import append, append_node, ended, graph, logged, mode_of, new_log, run_graph, warm_appends
from ..busy import events, on, streams
from ..program import code, program, raised

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def begin(stream, mode=2):
    """Begins a capture: the code."""
    return code(cudart.cudaStreamBeginCapture(stream, mode_of(mode)))


def status(stream):
    """The state of a capture: the code, and the status in words."""
    answer = cudart.cudaStreamIsCapturing(stream)
    return [code(answer), None if answer[1] is None else answer[1].name.removeprefix("cudaStreamCaptureStatus")]


def prohibited(call, mode=0, flags=1):
    """What a call returns while a stream captures, what the capture is then, how it ends, and the last error."""
    cudart.cudaGetLastError()
    with streams(flags) as (stream,):
        begin(stream, mode)
        answer = code(call(stream))
        then = status(stream)[1]
        end = ended(stream)
        last = cudart.cudaGetLastError()[0].name
        return [answer, then, *end, last]


@program("a captured stream does nothing until the graph is launched")
def nothing_runs():
    warm_appends()
    log = new_log()
    with streams(1) as (stream,):
        began = begin(stream, 0)
        append(stream, log, 1)
        append(stream, log, 2)
        inside = status(stream)
        error, made = cudart.cudaStreamEndCapture(stream)
        before = logged(log)
        result = {
            "began": began, "inside": inside, "end": error.name, "before": before, "outside": status(stream),
            "nodes": int(cudart.cudaGraphGetNodes(made)[-1]), "edges": int(cudart.cudaGraphGetEdges(made)[-1]),
            "went": run_graph(made, 2),
        }  # fmt: skip
        cudart.cudaGraphDestroy(made)
    return result | {"log": logged(log)}


@program("beginning and ending where that cannot be")
def begin_and_end():
    result = {}
    with streams(0, 1) as (blocking, stream):
        result["legacy"] = [begin(0), begin(1)]
        result["per thread"] = [begin(2), *ended(2)]
        result["not capturing"] = ended(stream)
        result["twice"] = [begin(stream), begin(stream), status(stream)[1], *ended(stream)]
        result["blocking"] = [begin(blocking), *ended(blocking)]
        result["end of legacy"] = ended(0)
        result["mode"] = raised(lambda: code(cudart.cudaStreamBeginCapture(stream, cudart.cudaStreamCaptureMode(7))))
    cudart.cudaGetLastError()
    return result


@program("an empty capture gives an empty graph")
def empty_capture():
    with streams(1) as (stream,):
        begin(stream)
        error, made = cudart.cudaStreamEndCapture(stream)
        count = int(cudart.cudaGraphGetNodes(made)[-1])
        went = run_graph(made)
        cudart.cudaGraphDestroy(made)
        return {"end": error.name, "nodes": count, "went": went}


@program("a fork and a join by events")
def fork_and_join():
    warm_appends()
    log = new_log()
    with streams(1, 1) as (one, two), events(2, 2) as (fork, join):
        begin(one)
        append(one, log, 1)
        answers = [code(cudart.cudaEventRecord(fork, one)), code(cudart.cudaStreamWaitEvent(two, fork, 0))]
        states = [status(one)[1], status(two)[1]]
        append(two, log, 20)
        append(one, log, 10)
        answers += [code(cudart.cudaEventRecord(join, two)), code(cudart.cudaStreamWaitEvent(one, join, 0))]
        append(one, log, 2)
        error, made = cudart.cudaStreamEndCapture(one)
        result = {
            "answers": answers, "states": states, "end": error.name, "after": [status(one)[1], status(two)[1]],
            "nodes": int(cudart.cudaGraphGetNodes(made)[-1]), "edges": int(cudart.cudaGraphGetEdges(made)[-1]),
            "roots": int(cudart.cudaGraphGetRootNodes(made)[-1]), "went": run_graph(made),
        }  # fmt: skip
        cudart.cudaGraphDestroy(made)
    found = logged(log)
    return result | {"first": found[0], "middle": sorted(found[1:3]), "last": found[3]}


@program("a fork that is not joined, with work and without")
def unjoined():
    warm_appends()
    log = new_log()
    result = {}
    for work in (True, False):
        with streams(1, 1) as (one, two), events(1, 2) as (fork,):
            begin(one)
            append(one, log, 1)
            cudart.cudaEventRecord(fork, one)
            cudart.cudaStreamWaitEvent(two, fork, 0)
            if work:
                append(two, log, 2)
            end = ended(one)
            result[str(work)] = [*end, status(one)[1], status(two)[1]]
            append(two, log, 3)
            result[str(work)].append(code(cudart.cudaStreamSynchronize(two)))
    cudart.cudaGetLastError()
    return result | {"log": logged(log)}


@program("a join of the fork's last work only by an event that was recorded before it")
def joined_too_early():
    warm_appends()
    log = new_log()
    with streams(1, 1) as (one, two), events(2, 2) as (fork, join):
        begin(one)
        cudart.cudaEventRecord(fork, one)
        cudart.cudaStreamWaitEvent(two, fork, 0)
        append(two, log, 1)
        cudart.cudaEventRecord(join, two)
        append(two, log, 2)
        cudart.cudaStreamWaitEvent(one, join, 0)
        return {"end": ended(one), "states": [status(one)[1], status(two)[1]]}


@program("ending a capture in another stream than it began in")
def unmatched():
    warm_appends()
    log = new_log()
    with streams(1, 1) as (one, two), events(2, 2) as (fork, join):
        begin(one)
        cudart.cudaEventRecord(fork, one)
        cudart.cudaStreamWaitEvent(two, fork, 0)
        append(two, log, 1)
        first = ended(two)
        states = [status(one)[1], status(two)[1]]
        cudart.cudaEventRecord(join, two)
        cudart.cudaStreamWaitEvent(one, join, 0)
        return {"other": first, "states": states, "own": ended(one), "then": [status(one)[1], status(two)[1]]}


@program("synchronising and querying a stream that captures")
def waiting_for_stream():
    return {
        "synchronize": prohibited(lambda stream: cudart.cudaStreamSynchronize(stream)),
        "query": prohibited(lambda stream: cudart.cudaStreamQuery(stream)),
        "relaxed": prohibited(lambda stream: cudart.cudaStreamSynchronize(stream), 2),
        "driver": prohibited(lambda stream: driver.cuStreamSynchronize(driver.CUstream(stream))),
    }


@program("waiting for the device while a stream captures, in each mode")
def waiting_for_device():
    return {str(mode): prohibited(lambda stream: cudart.cudaDeviceSynchronize(), mode) for mode in (0, 1, 2)}


@program("the legacy default stream while a blocking stream captures, and while a non-blocking one does")
def legacy_stream():
    warm_appends()
    memory = cp.zeros(64, cp.uint8)
    cudart.cudaDeviceSynchronize()
    pointer = memory.data.ptr
    calls = {
        "memset": lambda stream: cudart.cudaMemsetAsync(pointer, 1, 4, 0),
        "query": lambda stream: cudart.cudaStreamQuery(0),
        "synchronize": lambda stream: cudart.cudaStreamSynchronize(0),
        "is capturing": lambda stream: cudart.cudaStreamIsCapturing(0),
        "flags": lambda stream: cudart.cudaStreamGetFlags(0),
        "blocking copy": lambda stream: cudart.cudaMemcpy(
            pointer, pointer + 32, 8, cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        ),
        "blocking memset": lambda stream: cudart.cudaMemset(pointer, 1, 4),
    }
    return {name: [prohibited(call, 2, 0), prohibited(call, 2, 1)] for name, call in calls.items()}


@program("work in the legacy default stream while a non-blocking stream captures in the global mode")
def legacy_in_global_mode():
    memory = cp.zeros(64, cp.uint8)
    cudart.cudaDeviceSynchronize()
    pointer = memory.data.ptr
    return {
        "memset": prohibited(lambda stream: cudart.cudaMemsetAsync(pointer, 1, 4, 0)),
        "blocking copy": prohibited(
            lambda stream: cudart.cudaMemcpy(pointer, pointer + 32, 8, cudart.cudaMemcpyKind(3))
        ),
        "blocking memset": prohibited(lambda stream: cudart.cudaMemset(pointer, 1, 4)),
    }


@program("a blocking copy in the legacy stream to and from the host while a stream captures")
def host_copies_meanwhile():
    memory = cp.zeros(64, cp.uint8)
    host = np.zeros(64, np.uint8)
    cudart.cudaDeviceSynchronize()
    pointer, address = memory.data.ptr, host.ctypes.data
    result = {}
    for mode in (0, 2):
        result[f"to device {mode}"] = prohibited(
            lambda stream: cudart.cudaMemcpy(pointer, address, 8, cudart.cudaMemcpyKind(1)), mode
        )
        result[f"to host {mode}"] = prohibited(
            lambda stream: cudart.cudaMemcpy(address, pointer, 8, cudart.cudaMemcpyKind(2)), mode
        )
    return result


@program("allocating and freeing while a stream captures, in each mode")
def allocating():
    result = {}
    for mode in (0, 1, 2):
        _, pointer = cudart.cudaMalloc(256)
        _, page_locked = cudart.cudaHostAlloc(256, 0)
        result[str(mode)] = {
            "malloc": prohibited(lambda stream: cudart.cudaMalloc(256), mode),
            "free": prohibited(lambda stream, p=pointer: cudart.cudaFree(p), mode),
            "free null": prohibited(lambda stream: cudart.cudaFree(0), mode),
            "pitched": prohibited(lambda stream: cudart.cudaMallocPitch(64, 4), mode),
            "managed": prohibited(lambda stream: cudart.cudaMallocManaged(256, 1), mode),
            "host": prohibited(lambda stream: cudart.cudaHostAlloc(256, 0), mode),
            "free host": prohibited(lambda stream, p=page_locked: cudart.cudaFreeHost(p), mode),
        }
    return result


@program("calls about other streams, events and the device while a stream captures in the global mode")
def other_calls():
    with streams(1) as (other,), events(2) as (recorded, fresh):
        cudart.cudaEventRecord(recorded, other)
        cudart.cudaDeviceSynchronize()
        calls = {
            "query of another stream": lambda stream: cudart.cudaStreamQuery(other),
            "synchronise another stream": lambda stream: cudart.cudaStreamSynchronize(other),
            "query of an event": lambda stream: cudart.cudaEventQuery(recorded),
            "synchronise an event": lambda stream: cudart.cudaEventSynchronize(recorded),
            "query of a fresh event": lambda stream: cudart.cudaEventQuery(fresh),
            "memory": lambda stream: cudart.cudaMemGetInfo(),
            "attributes of an address": lambda stream: cudart.cudaPointerGetAttributes(64),
            "new stream": lambda stream: cudart.cudaStreamCreate(),
            "new event": lambda stream: cudart.cudaEventCreate(),
            "flags": lambda stream: cudart.cudaStreamGetFlags(stream),
            "priority": lambda stream: cudart.cudaStreamGetPriority(stream),
            "id": lambda stream: cudart.cudaStreamGetId(stream),
            "set limit": lambda stream: cudart.cudaDeviceSetLimit(cudart.cudaLimit.cudaLimitStackSize, 1024),
            "get limit": lambda stream: cudart.cudaDeviceGetLimit(cudart.cudaLimit.cudaLimitStackSize),
            "new graph": lambda stream: cudart.cudaGraphCreate(0),
        }
        return {name: prohibited(call) for name, call in calls.items()}


@program("the same calls where the capture is relaxed")
def other_calls_relaxed():
    with streams(1) as (other,), events(1) as (recorded,):
        cudart.cudaEventRecord(recorded, other)
        cudart.cudaDeviceSynchronize()
        calls = {
            "query of another stream": lambda stream: cudart.cudaStreamQuery(other),
            "synchronise another stream": lambda stream: cudart.cudaStreamSynchronize(other),
            "query of an event": lambda stream: cudart.cudaEventQuery(recorded),
            "synchronise an event": lambda stream: cudart.cudaEventSynchronize(recorded),
            "set limit": lambda stream: cudart.cudaDeviceSetLimit(cudart.cudaLimit.cudaLimitStackSize, 1024),
        }
        return {name: prohibited(call, 2) for name, call in calls.items()}


@program("destroying a stream that captures")
def destroyed_stream():
    _, stream = cudart.cudaStreamCreateWithFlags(1)
    begin(stream)
    answer = code(cudart.cudaStreamDestroy(stream))
    last = cudart.cudaGetLastError()[0].name
    return {"destroy": answer, "last": last, "sync": code(cudart.cudaDeviceSynchronize())}


@program("after an invalidation everything in the stream is refused until the end")
def invalidated():
    warm_appends()
    memory = cp.zeros(64, cp.uint8)
    cudart.cudaDeviceSynchronize()
    pointer = memory.data.ptr
    with streams(1) as (stream,), events(1, 2) as (event,):
        begin(stream)
        first = code(cudart.cudaStreamSynchronize(stream))
        state = status(stream)
        information = cudart.cudaStreamGetCaptureInfo(stream)
        result = {
            "first": first,
            "state": state,
            "information": [code(information), None if information[1] is None else information[1].name],
            "memset": code(cudart.cudaMemsetAsync(pointer, 1, 4, stream)),
            "record": code(cudart.cudaEventRecord(event, stream)),
            "query": code(cudart.cudaStreamQuery(stream)),
            "synchronize": code(cudart.cudaStreamSynchronize(stream)),
            "begin": begin(stream),
            "end": ended(stream),
            "after": [status(stream)[1], code(cudart.cudaMemsetAsync(pointer, 1, 4, stream))],
            "sync": code(cudart.cudaStreamSynchronize(stream)),
        }
        cudart.cudaGetLastError()
        return result


@program("events recorded in a capture can be neither asked nor waited for by the host, also after its end")
def captured_events():
    def asked(call):
        """During the capture, and after its end."""
        with streams(1) as (stream,), events(2) as (event, other):
            cudart.cudaEventRecord(other, 0)
            cudart.cudaDeviceSynchronize()
            begin(stream)
            cudart.cudaEventRecord(event, stream)
            found = [code(call(event, other)), status(stream)[1], ended(stream), code(call(event, other))]
            cudart.cudaEventRecord(event, stream)
            cudart.cudaStreamSynchronize(stream)
            found.append(code(call(event, other)))
            cudart.cudaGetLastError()
            return found

    return {
        "query": asked(lambda event, other: cudart.cudaEventQuery(event)),
        "synchronize": asked(lambda event, other: cudart.cudaEventSynchronize(event)),
        "elapsed": asked(lambda event, other: cudart.cudaEventElapsedTime(other, event)),
    }


@program("a stream waits for an event whose capture has ended")
def wait_after_end():
    with streams(1, 1) as (one, two), events(1, 2) as (event,):
        begin(one)
        cudart.cudaEventRecord(event, one)
        end = ended(one)
        answer = code(cudart.cudaStreamWaitEvent(two, event, 0))
        return {"end": end, "wait": answer, "state": status(two)[1], "sync": code(cudart.cudaStreamSynchronize(two))}


@program("a capturing stream waits for an event of outside, recorded, never recorded, and as external")
def outside_events():
    warm_appends()
    result = {}
    for name, record, flags in (("recorded", True, 0), ("fresh", False, 0), ("external", True, 1), ("wrong", True, 2)):
        with streams(1, 1) as (stream, other), events(1, 2) as (event,):
            if record:
                cudart.cudaEventRecord(event, other)
            begin(stream)
            answer = code(cudart.cudaStreamWaitEvent(stream, event, flags))
            then = status(stream)[1]
            error, made = cudart.cudaStreamEndCapture(stream)
            result[name] = [answer, then, error.name]
            if error.value == 0:
                count = int(cudart.cudaGraphGetNodes(made)[-1])
                kinds = [cudart.cudaGraphNodeGetType(n)[1].name for n in cudart.cudaGraphGetNodes(made, count)[1]]
                result[name].append(kinds)
                cudart.cudaGraphDestroy(made)
            cudart.cudaGetLastError()
    return result


@program("recording an event as external makes a node; other flags do not exist")
def external_record():
    result = {}
    for flags in (0, 1, 2):
        with streams(1) as (stream,), events(1) as (event,):
            begin(stream)
            answer = code(cudart.cudaEventRecordWithFlags(event, stream, flags))
            then = status(stream)[1]
            error, made = cudart.cudaStreamEndCapture(stream)
            result[str(flags)] = [answer, then, error.name]
            if error.value == 0:
                count = int(cudart.cudaGraphGetNodes(made)[-1])
                result[str(flags)] += [count, run_graph(made), code(cudart.cudaEventQuery(event))]
                cudart.cudaGraphDestroy(made)
            cudart.cudaGetLastError()
    return result


@program("two captures cannot be merged by an event")
def merged():
    with streams(1, 1) as (one, two), events(1, 2) as (event,):
        began = [begin(one), begin(two)]
        cudart.cudaEventRecord(event, one)
        answer = code(cudart.cudaStreamWaitEvent(two, event, 0))
        states = [status(one)[1], status(two)[1]]
        return {"began": began, "wait": answer, "states": states, "ends": [ended(one), ended(two)]}


@program("the legacy default stream waits for an event of a capture")
def legacy_waits():
    with streams(1) as (one,), events(1, 2) as (event,):
        begin(one)
        cudart.cudaEventRecord(event, one)
        answer = code(cudart.cudaStreamWaitEvent(0, event, 0))
        then = status(one)[1]
        return {"wait": answer, "state": then, "end": ended(one), "last": cudart.cudaGetLastError()[0].name}


@program("two streams capture two graphs side by side")
def two_captures():
    warm_appends()
    log = new_log()
    with streams(1, 1) as (one, two):
        began = [begin(one, 0), begin(two, 0)]
        append(one, log, 1)
        append(two, log, 2)
        ids = [int(cudart.cudaStreamGetCaptureInfo(stream)[2]) for stream in (one, two)]
        graphs = [cudart.cudaStreamEndCapture(stream)[1] for stream in (two, one)]
        counts = [int(cudart.cudaGraphGetNodes(made)[-1]) for made in graphs]
        went = [run_graph(made) for made in graphs]
        for made in graphs:
            cudart.cudaGraphDestroy(made)
    return {"began": began, "different": ids[0] != ids[1], "counts": counts, "went": went, "log": logged(log)}


@program("a copy from pageable memory that was captured reads it at each launch")
def captured_pageable_copy():
    memory = cp.zeros(16, cp.int32)
    cudart.cudaDeviceSynchronize()
    source = np.full(16, 1, np.int32)
    with streams(1) as (stream,):
        begin(stream)
        copied = code(cudart.cudaMemcpyAsync(memory.data.ptr, source.ctypes.data, 64, cudart.cudaMemcpyKind(1), stream))
        error, made = cudart.cudaStreamEndCapture(stream)
        found = []
        if error.value == 0:
            _, executable = cudart.cudaGraphInstantiate(made, 0)
            for value in (5, 6):
                source[:] = value
                cudart.cudaGraphLaunch(executable, stream)
                cudart.cudaStreamSynchronize(stream)
                found.append(int(cp.asnumpy(memory)[0]))
            cudart.cudaGraphExecDestroy(executable)
            cudart.cudaGraphDestroy(made)
        return {"copy": copied, "end": error.name, "found": found}


@program("what a capturing stream says of its capture")
def information():
    warm_appends()
    log = new_log()
    with streams(1) as (stream,):
        begin(stream)
        first = cudart.cudaStreamGetCaptureInfo(stream)
        append(stream, log, 1)
        second = cudart.cudaStreamGetCaptureInfo(stream)
        nodes = cudart.cudaGraphGetNodes(second[3], 1)
        result = {
            "first": [code(first), first[1].name, int(first[-1])],
            "second": [code(second), second[1].name, int(second[-1]), len(second[4])],
            "same": [int(first[2]) == int(second[2]), int(first[3]) == int(second[3])],
            "node": nodes[1][0] == second[4][0],
        }
        return result | {"end": ended(stream)}


@program("what the next node depends on is changed: set, added, cleared, foreign")
def changed_dependencies():
    warm_appends()
    log = new_log()
    with streams(1) as (stream,), graph() as other:
        foreign = cudart.cudaGraphAddEmptyNode(other, [], 0)[1]
        begin(stream)
        append(stream, log, 1)
        first = cudart.cudaStreamGetCaptureInfo(stream)[4][0]
        append(stream, log, 2)
        answers = [code(cudart.cudaStreamUpdateCaptureDependencies(stream, [first], None, 1, 1))]
        counts = [int(cudart.cudaStreamGetCaptureInfo(stream)[-1])]
        append(stream, log, 3)
        answers.append(code(cudart.cudaStreamUpdateCaptureDependencies(stream, [first], None, 1, 0)))
        counts.append(int(cudart.cudaStreamGetCaptureInfo(stream)[-1]))
        answers.append(code(cudart.cudaStreamUpdateCaptureDependencies(stream, [foreign], None, 1, 0)))
        then = status(stream)[1]
        answers.append(code(cudart.cudaStreamUpdateCaptureDependencies(stream, None, None, 0, 1)))
        counts.append(int(cudart.cudaStreamGetCaptureInfo(stream)[-1]))
        answers.append(code(cudart.cudaStreamUpdateCaptureDependencies(stream, [first], None, 1, 7)))
        error, made = cudart.cudaStreamEndCapture(stream)
        edges = None
        if error.value == 0:
            edges = int(cudart.cudaGraphGetEdges(made)[-1])
            cudart.cudaGraphDestroy(made)
        cudart.cudaGetLastError()
        outside = code(cudart.cudaStreamUpdateCaptureDependencies(stream, None, None, 0, 1))
        return {
            "answers": answers, "counts": counts, "state": then, "end": error.name, "edges": edges, "outside": outside,
        }  # fmt: skip


@program("capturing into a graph that is there")
def into_a_graph():
    warm_appends()
    log = new_log()
    with graph() as made, graph() as other, streams(1) as (stream,):
        first = append_node(made, [], log, 1)
        foreign = append_node(other, [], log, 9)
        wrong = code(cudart.cudaStreamBeginCaptureToGraph(stream, made, [foreign], None, 1, mode_of(2)))
        began = code(cudart.cudaStreamBeginCaptureToGraph(stream, made, [first], None, 1, mode_of(2)))
        append(stream, log, 2)
        error, same = cudart.cudaStreamEndCapture(stream)
        went = run_graph(made)
        return {
            "wrong": wrong, "began": began, "end": error.name, "same": int(same or 0) == int(made),
            "nodes": int(cudart.cudaGraphGetNodes(made)[-1]), "went": went, "log": logged(log),
        }  # fmt: skip


@program("the capture mode of a thread")
def thread_mode():
    result = {"modes": []}
    for mode in (2, 1, 0):
        error, before = cudart.cudaThreadExchangeStreamCaptureMode(mode_of(mode))
        result["modes"].append([error.name, before.name])
    with streams(1) as (stream,):
        cudart.cudaThreadExchangeStreamCaptureMode(mode_of(2))
        begin(stream, 0)
        error, pointer = cudart.cudaMalloc(64)
        result["malloc"] = [error.name, status(stream)[1], ended(stream)]
        cudart.cudaThreadExchangeStreamCaptureMode(mode_of(0))
        cudart.cudaFree(pointer)
    cudart.cudaGetLastError()
    return result


@program("allocating in another thread while a stream captures, in each mode")
def other_thread():
    result = {}
    for mode in (0, 1, 2):
        found = []

        def allocate(found=found):
            cudart.cudaSetDevice(0)
            error, pointer = cudart.cudaMalloc(64)
            found.append(error.name)
            found.append(cudart.cudaGetLastError()[0].name)

        with streams(1) as (stream,):
            begin(stream, mode)
            thread = threading.Thread(target=allocate)
            thread.start()
            thread.join()
            result[str(mode)] = [*found, status(stream)[1], ended(stream)]
            cudart.cudaGetLastError()
    return result


@program("ending a capture in another thread, in each mode")
def ended_by_other_thread():
    result = {}
    for mode in (0, 1, 2):
        found = []
        with streams(1) as (stream,):
            begin(stream, mode)

            def end(found=found, stream=stream):
                cudart.cudaSetDevice(0)
                found.append(ended(stream))

            thread = threading.Thread(target=end)
            thread.start()
            thread.join()
            result[str(mode)] = [*found, status(stream)[1]]
            if status(stream)[1] != "None":
                result[str(mode)].append(ended(stream))
            cudart.cudaGetLastError()
    return result


@program("CuPy: capture, launch, upload, and what it says of the stream")
def of_cupy():
    x = cp.arange(8, dtype=cp.float32)
    y = cp.empty_like(x)
    cp.multiply(x, 2, out=y)
    y += 1
    cp.cuda.Device().synchronize()
    stream = cp.cuda.Stream(non_blocking=True)
    states = [stream.is_capturing()]
    with stream:
        stream.begin_capture()
        states.append(stream.is_capturing())
        cp.multiply(x, 3, out=y)
        y += 1
        made = stream.end_capture()
    states.append(stream.is_capturing())
    before = cp.asnumpy(y)
    made.upload(stream)
    made.launch(stream)
    stream.synchronize()
    once = cp.asnumpy(y)
    x += 1
    cp.cuda.Device().synchronize()
    with stream:
        made.launch()
    stream.synchronize()
    return {
        "states": states, "before": before, "once": once, "again": cp.asnumpy(y), "type": type(made).__name__,
        "dot": made.debug_dot_str().startswith("digraph dot {"),
    }  # fmt: skip


@program("CuPy: errors of capturing")
def cupy_errors():
    stream = cp.cuda.Stream(non_blocking=True)
    result = {
        "legacy": raised(lambda: cp.cuda.Stream.null.begin_capture()),
        "not capturing": raised(stream.end_capture),
        "class": raised(lambda: cp.cuda.Graph()),
    }
    stream.begin_capture()
    result["synchronize"] = raised(stream.synchronize)
    result["state"] = raised(stream.is_capturing)
    result["end"] = raised(stream.end_capture)
    result["after"] = stream.is_capturing()
    stream.begin_capture(cp.cuda.runtime.streamCaptureModeGlobal)
    result["malloc"] = raised(lambda: cp.cuda.runtime.malloc(64))
    result["end of that"] = raised(stream.end_capture)
    return result


@program("CuPy: arrays cannot come from or go to the host in a capturing stream")
def cupy_transfers():
    a = cp.arange(4)
    host = np.arange(4)
    cp.cuda.Device().synchronize()
    result = {}
    for name, call in (
        ("get", lambda: a.get()),
        ("set", lambda: a.set(host)),
        ("asarray", lambda: cp.asarray(host)),
        ("item", lambda: int(a[0])),
    ):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            said = raised(call)
            state = raised(stream.is_capturing)
            result[name] = [said, state, raised(stream.end_capture)]
    return result


@program("a kernel that is loaded while a stream captures, in each mode")
def loading_a_module():
    result = {}
    for mode in (0, 2):
        source = f'extern "C" __global__ void fresh_{mode}(int* x) {{ *x = {mode}; }}'
        memory = cp.zeros(1, cp.int32)
        cudart.cudaDeviceSynchronize()
        with streams(1) as (stream,):
            begin(stream, mode)

            def launch(source=source, mode=mode, memory=memory, stream=stream):
                with on(stream):
                    cp.RawKernel(source, f"fresh_{mode}")((1,), (1,), (memory,))

            said = raised(launch)
            result[str(mode)] = [said, status(stream)[1], ended(stream)]
            cudart.cudaGetLastError()
    return result
