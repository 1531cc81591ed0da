"""Access policy windows of launches, captures and kernel nodes; the set-aside beside captures, threads and faults; and
the state after each refusal.

What a window makes faster is measured elsewhere. The windows of streams are in ``l2_persistence.py``.
"""

import threading

import numpy as np

from cudalab import cp, cudart, driver

from ..appending import append, append_node, graph, logged, mode_of, new_log, run_graph, warm_appends
from ..busy import STORE_SOURCE, attribute, launched, streams
from ..program import code, program

MB = 1 << 20
STREAM_WINDOW = cudart.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
NODE_WINDOW = cudart.cudaLaunchAttributeID.cudaLaunchAttributeAccessPolicyWindow
ASIDE = cudart.cudaLimit.cudaLimitPersistingL2CacheSize
NORMAL, STREAMING, PERSISTING = (
    getattr(cudart.cudaAccessProperty, f"cudaAccessProperty{name}") for name in ("Normal", "Streaming", "Persisting")
)


def fill(value, pointer=0, size=0, ratio=0.0, hit=NORMAL, miss=NORMAL):
    """An attribute value of any kind with an access policy window."""
    window = value.accessPolicyWindow
    window.base_ptr, window.num_bytes, window.hitRatio = pointer, size, ratio
    window.hitProp, window.missProp = hit, miss
    value.accessPolicyWindow = window
    return value


def fields(value, pointer):
    """The window in an attribute value, its address less ``pointer``."""
    window = value.accessPolicyWindow
    base = int(window.base_ptr or 0)
    hit, miss = int(window.hitProp), int(window.missProp)
    return [base - pointer if base else None, int(window.num_bytes), float(window.hitRatio), hit, miss]


def set_on(stream, *window):
    return code(cudart.cudaStreamSetAttribute(stream, STREAM_WINDOW, fill(cudart.cudaStreamAttrValue(), *window)))


def kept(stream, pointer=0):
    error, value = cudart.cudaStreamGetAttribute(stream, STREAM_WINDOW)
    return [error.name, fields(value, pointer)]


def set_on_node(node, *window):
    value = fill(cudart.cudaKernelNodeAttrValue(), *window)
    return code(cudart.cudaGraphKernelNodeSetAttribute(node, NODE_WINDOW, value))


def kept_by_node(node, pointer=0):
    error, value = cudart.cudaGraphKernelNodeGetAttribute(node, NODE_WINDOW)
    return [error.name, fields(value, pointer) if not error.value else None]


def launch_window(pointer, size, ratio, hit, miss):
    """The attribute of a launch."""
    kinds = driver.CUaccessProperty
    wanted = attribute("ACCESS_POLICY_WINDOW")
    wanted.value = fill(driver.CUlaunchAttributeValue(), pointer, size, ratio, kinds(int(hit)), kinds(int(miss)))
    return wanted


def aside(value):
    """Sets the set-aside: the error, and what it is then."""
    error = code(cudart.cudaDeviceSetLimit(ASIDE, value))
    return [error, int(cudart.cudaDeviceGetLimit(ASIDE)[1])]


def back():
    """No set-aside and no persisting lines."""
    cudart.cudaCtxResetPersistingL2Cache()
    cudart.cudaDeviceSetLimit(ASIDE, 0)
    cudart.cudaGetLastError()


def status(stream):
    """The state of a capture in words."""
    return cudart.cudaStreamIsCapturing(stream)[1].name.removeprefix("cudaStreamCaptureStatus")


def captured_kernel(stream, log):
    """A graph with one kernel node that was captured from a stream, and the node."""
    cudart.cudaStreamBeginCapture(stream, mode_of(2))
    append(stream, log, 1)
    _, made = cudart.cudaStreamEndCapture(stream)
    count = int(cudart.cudaGraphGetNodes(made)[-1])
    return made, cudart.cudaGraphGetNodes(made, count)[1][0]


@program("a launch with a window of its own leaves the stream's as it was")
def launch_beside_stream():
    kernel, out, memory = cp.RawKernel(STORE_SOURCE, "store"), cp.zeros(1, cp.int32), cp.zeros(MB, cp.uint8)
    with streams(1) as (stream,):
        cudart.cudaDeviceSynchronize()
        set_on(stream, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)
        wanted = [launch_window(memory.data.ptr, 4096, 1.0, STREAMING, NORMAL)]
        went = launched(kernel, wanted, out.data.ptr, np.int32(3), stream=stream)
        cudart.cudaStreamSynchronize(stream)
        return {"went": went, "out": int(out[0]), "stream": kept(stream, memory.data.ptr)}


@program("a launch whose window is refused does not run, and the next one does")
def refused_launch():
    kernel, out, memory = cp.RawKernel(STORE_SOURCE, "store"), cp.zeros(1, cp.int32), cp.zeros(MB, cp.uint8)
    bad = [launch_window(memory.data.ptr, MB, 1.0, PERSISTING, PERSISTING)]
    good = [launch_window(memory.data.ptr, MB, 1.0, PERSISTING, STREAMING)]
    result = {"refused": launched(kernel, bad, out.data.ptr, np.int32(5))}
    result["sync"] = code(cudart.cudaDeviceSynchronize())
    result["out"] = int(out[0])
    result["next"] = launched(kernel, good, out.data.ptr, np.int32(6))
    result["sync again"] = code(cudart.cudaDeviceSynchronize())
    return result | {"out again": int(out[0]), "last": code(cudart.cudaGetLastError())}


@program("two windows in one launch")
def two_windows_of_a_launch():
    kernel, out, memory = cp.RawKernel(STORE_SOURCE, "store"), cp.zeros(1, cp.int32), cp.zeros(MB, cp.uint8)
    both = [
        launch_window(memory.data.ptr, 4096, 1.0, PERSISTING, STREAMING),
        launch_window(memory.data.ptr + 8192, 4096, 0.5, PERSISTING, STREAMING),
    ]
    result = {"went": launched(kernel, both, out.data.ptr, np.int32(7))}
    return result | {"sync": code(cudart.cudaDeviceSynchronize()), "out": int(out[0])}


@program("a launch in each default stream with a window")
def default_streams():
    kernel, out, memory = cp.RawKernel(STORE_SOURCE, "store"), cp.zeros(1, cp.int32), cp.zeros(MB, cp.uint8)
    cudart.cudaDeviceSynchronize()
    result = {}
    for handle in (0, 1, 2):
        wanted = [launch_window(memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)]
        result[str(handle)] = launched(kernel, wanted, out.data.ptr, np.int32(handle + 1), stream=handle)
        cudart.cudaDeviceSynchronize()
        result[f"out {handle}"] = int(out[0])
    return result


@program("hit ratios that no float of four bytes has, as they are read back")
def ratios_read_back():
    memory = cp.zeros(MB, cp.uint8)
    result = {}
    with streams(0) as (stream,):
        for ratio in (0.1, 1 / 3, 1e-7, 1e-40, 0.999999999):
            went = set_on(stream, memory.data.ptr, MB, ratio, PERSISTING, STREAMING)
            result[repr(ratio)] = [went, kept(stream, memory.data.ptr)]
    return result


@program("a window stays when its memory is freed")
def window_of_freed_memory():
    _, pointer = cudart.cudaMalloc(MB)
    with streams(0) as (stream,):
        result = {"set": set_on(stream, int(pointer), MB, 1.0, PERSISTING, STREAMING)}
        result["free"] = code(cudart.cudaFree(pointer))
        result["window"] = kept(stream, int(pointer))
        result["last"] = code(cudart.cudaGetLastError())
    return result


@program("another attribute that is refused leaves the window")
def other_attribute_refused():
    memory = cp.zeros(MB, cp.uint8)
    kind = cudart.cudaStreamAttrID
    with streams(0) as (stream,):
        set_on(stream, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)
        value = cudart.cudaStreamAttrValue()
        value.memSyncDomainMap.default_ = 200
        result = {"map": code(cudart.cudaStreamSetAttribute(stream, kind.cudaLaunchAttributeMemSyncDomainMap, value))}
        result["window"] = kept(stream, memory.data.ptr)
        result["last"] = code(cudart.cudaGetLastError())
    return result


@program("attributes copied from a stream to itself, and over a window")
def copied_over():
    memory = cp.zeros(MB, cp.uint8)
    with streams(0, 1) as (one, two):
        set_on(one, memory.data.ptr, MB, 0.25, PERSISTING, STREAMING)
        set_on(two, memory.data.ptr, 4096, 1.0, STREAMING, NORMAL)
        result = {"itself": code(cudart.cudaStreamCopyAttributes(one, one)), "one": kept(one, memory.data.ptr)}
        result["over"] = code(cudart.cudaStreamCopyAttributes(two, one))
        result["two"] = kept(two, memory.data.ptr)
    return result


@program("a kernel that is captured from a stream with a window: the node has it")
def captured_window():
    warm_appends()
    log, memory = new_log(), cp.zeros(MB, cp.uint8)
    with streams(1) as (stream,):
        cudart.cudaDeviceSynchronize()
        set_on(stream, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)
        made, node = captured_kernel(stream, log)
        result = {"node": kept_by_node(node, memory.data.ptr)}
        set_on(stream)
        result["after the stream's changed"] = kept_by_node(node, memory.data.ptr)
        result["went"] = run_graph(made)
        cudart.cudaGraphDestroy(made)
    return result | {"log": logged(log)}


@program("a window set on a stream while it captures")
def set_while_capturing():
    warm_appends()
    log, memory = new_log(), cp.zeros(MB, cp.uint8)
    with streams(1) as (stream,):
        cudart.cudaDeviceSynchronize()
        cudart.cudaStreamBeginCapture(stream, mode_of(0))
        append(stream, log, 1)
        result = {"set": set_on(stream, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING), "status": status(stream)}
        append(stream, log, 2)
        error, made = cudart.cudaStreamEndCapture(stream)
        result["end"] = error.name
        count = int(cudart.cudaGraphGetNodes(made)[-1])
        nodes = cudart.cudaGraphGetNodes(made, count)[1][:count]
        result["windows"] = sorted((kept_by_node(node, memory.data.ptr) for node in nodes), key=str)
        result["stream"] = kept(stream, memory.data.ptr)
        cudart.cudaGraphDestroy(made)
    return result


def beside_a_capture(mode, call):
    """What a call returns while another stream captures, the capture then, and how it ends."""
    with streams(1) as (stream,):
        cudart.cudaStreamBeginCapture(stream, mode_of(mode))
        answer = call()
        then = status(stream)
        error, made = cudart.cudaStreamEndCapture(stream)
        if made is not None and int(made):
            cudart.cudaGraphDestroy(made)
        return [answer, then, error.name, code(cudart.cudaGetLastError())]


@program("the set-aside is changed while a stream captures, in each mode")
def limit_while_capturing():
    result = {
        str(mode): beside_a_capture(mode, lambda: code(cudart.cudaDeviceSetLimit(ASIDE, 8 * MB))) for mode in (0, 1, 2)
    }
    result["then"] = int(cudart.cudaDeviceGetLimit(ASIDE)[1])
    back()
    return result


@program("the set-aside is read while a stream captures")
def limit_read_while_capturing():
    return {str(mode): beside_a_capture(mode, lambda: code(cudart.cudaDeviceGetLimit(ASIDE))) for mode in (0, 1, 2)}


@program("persisting lines are given back while a stream captures, in each mode")
def reset_while_capturing():
    return {
        str(mode): beside_a_capture(mode, lambda: code(cudart.cudaCtxResetPersistingL2Cache())) for mode in (0, 1, 2)
    }


@program("windows of a kernel node: set, read back, refused, and what stays then")
def window_of_a_node():
    warm_appends()
    log, memory = new_log(), cp.zeros(MB, cp.uint8)
    most = cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrMaxAccessPolicyWindowSize, 0)[1]
    with graph() as made:
        node = cudart.cudaGraphNode_t(int(append_node(made, [], log, 1)))
        here = memory.data.ptr
        result = {"first": kept_by_node(node, here)}
        for name, window in {
            "set": (here, MB, 0.5, PERSISTING, STREAMING),
            "too large": (here, most + 1, 0.5, PERSISTING, STREAMING),
            "ratio": (here, MB, 1.5, PERSISTING, STREAMING),
            "misses persist": (here, MB, 0.5, PERSISTING, PERSISTING),
            "none": (0, 0, 0.0, NORMAL, NORMAL),
        }.items():
            result[name] = [set_on_node(node, *window), code(cudart.cudaGetLastError()), kept_by_node(node, here)]
        result["went"] = run_graph(made)
    return result | {"log": logged(log)}


@program("a node's window is copied to another node, and into a clone")
def window_copied_between_nodes():
    warm_appends()
    log, memory = new_log(), cp.zeros(MB, cp.uint8)
    with graph() as made:
        one, two = (cudart.cudaGraphNode_t(int(append_node(made, [], log, value))) for value in (1, 2))
        set_on_node(one, memory.data.ptr, MB, 0.5, PERSISTING, STREAMING)
        result = {"copy": code(cudart.cudaGraphKernelNodeCopyAttributes(two, one))}
        result["two"] = kept_by_node(two, memory.data.ptr)
        _, other = cudart.cudaGraphClone(made)
        _, found = cudart.cudaGraphNodeFindInClone(one, other)
        set_on_node(one)
        result["in the clone"] = kept_by_node(found, memory.data.ptr)
        result["went"] = run_graph(other)
        cudart.cudaGraphDestroy(other)
    return result | {"log": sorted(logged(log))}


@program("the set-aside as another thread sees and sets it")
def set_aside_of_threads():
    result = {"here": aside(8 * MB)}

    def there():
        result["there"] = [code(cudart.cudaSetDevice(0)), int(cudart.cudaDeviceGetLimit(ASIDE)[1]), aside(16 * MB)]

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    result["here again"] = int(cudart.cudaDeviceGetLimit(ASIDE)[1])
    back()
    return result


@program("calls about the L2 without a current context")
def no_context():
    cudart.cudaFree(0)
    _, context = driver.cuCtxPopCurrent()
    limit = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    result = {
        "reset": code(driver.cuCtxResetPersistingL2Cache()),
        "set": code(driver.cuCtxSetLimit(limit, 0)),
        "get": code(driver.cuCtxGetLimit(limit)),
    }
    driver.cuCtxPushCurrent(context)
    return result | {"with one": code(driver.cuCtxResetPersistingL2Cache())}


@program("calls about the L2 behind an illegal address", isolated=True)
def behind_a_fault():
    source = 'extern "C" __global__ void far(int* x) { x[1ll << 40] = 1; }'
    memory = cp.zeros(16, cp.int32)
    _, stream = cudart.cudaStreamCreate()
    cudart.cudaDeviceSynchronize()
    cp.RawKernel(source, "far")((1,), (1,), (memory,))
    result = {"sync": code(cudart.cudaDeviceSynchronize())}
    result["reset"] = code(cudart.cudaCtxResetPersistingL2Cache())
    result["set"] = code(cudart.cudaDeviceSetLimit(ASIDE, 8 * MB))
    result["get"] = code(cudart.cudaDeviceGetLimit(ASIDE))
    result["window"] = set_on(stream, 0, 0, 0.0, NORMAL, NORMAL)
    return result | {"last": code(cudart.cudaGetLastError())}


@program("what a reset of the device leaves of the set-aside", isolated=True)
def behind_a_reset():
    first = int(cudart.cudaDeviceGetLimit(ASIDE)[1])
    result = {"set": aside(16 * MB), "reset": code(cudart.cudaDeviceReset())}
    return result | {"as at first": int(cudart.cudaDeviceGetLimit(ASIDE)[1]) == first}
