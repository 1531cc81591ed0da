"""Host functions and stream callbacks: order, what they are given, what they must not do, exceptions, faults."""

import contextlib
import ctypes
import io
import sys
import threading

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import (
    Handle,
    copied,
    device_memory,
    event_state,
    events,
    fetched,
    pinned_memory,
    spin,
    state,
    streams,
    warm,
)
from ..program import code, program, raised

HOST = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


def address(function):
    """Where a ctypes function is."""
    return ctypes.cast(function, ctypes.c_void_p).value


def host_function(python):
    """A host function for the bindings, and the object that keeps it alive."""
    kept = HOST(python)
    return cudart.cudaHostFn_t(address(kept)), kept


def callback(python):
    """A stream callback for the bindings, and the object that keeps it alive."""
    kept = CALLBACK(python)
    return cudart.cudaStreamCallback_t(address(kept)), kept


@contextlib.contextmanager
def quiet():
    """Exceptions that nobody can catch are not printed."""
    saved, hook = sys.stderr, sys.unraisablehook
    sys.stderr, sys.unraisablehook = io.StringIO(), lambda _: None
    try:
        yield
    finally:
        sys.stderr, sys.unraisablehook = saved, hook


@program("a host function of the runtime is given its user data, after the work before it")
def user_data():
    warm()
    calls = []
    function, kept = host_function(calls.append)
    with streams(1) as (stream,):
        spin(stream, cycles=20_000_000)
        codes = [code(cudart.cudaLaunchHostFunc(stream, function, 0x1234))]
        codes.append(code(cudart.cudaLaunchHostFunc(stream, function, 0)))
        before = len(calls)
        cudart.cudaStreamSynchronize(stream)
    del kept
    return {"codes": codes, "before": before, "calls": calls}


@program("work behind a host function waits for it, and sees what it wrote", expect=lambda v: {"value": [77]})
def later_work_waits():
    warm()
    with streams(1) as (stream,), pinned_memory(4) as (source, view), device_memory(4) as target:

        def write(_):
            view[:] = np.array([77, 0, 0, 0], np.uint8)

        function, kept = host_function(write)
        spin(stream, cycles=20_000_000)
        cudart.cudaLaunchHostFunc(stream, function, 0)
        copied(stream, source, target)
        cudart.cudaStreamSynchronize(stream)
        value = fetched(target, 1).tolist()
        del kept
    return {"value": value}


@program("a host function in the null stream separates blocking streams")
def in_the_null_stream():
    warm()
    calls = []
    function, kept = host_function(lambda _: calls.append("function"))
    with streams(0, 0) as (one, two), events(1) as (event,):
        spin(one)
        queued = code(cudart.cudaLaunchHostFunc(0, function, 0))
        cudart.cudaEventRecord(event, two)
        before = [event_state(event), list(calls)]
        cudart.cudaEventSynchronize(event)
        after = [state(one), list(calls)]
    del kept
    return {"code": queued, "before": before, "after": after}


@program("host functions of two streams keep the order that an event gives them")
def ordered_by_an_event():
    warm()
    calls = []
    functions = [host_function(lambda _, name=name: calls.append(name)) for name in ("first", "second")]
    with streams(1, 1) as (one, two), events(1) as (event,):
        spin(one)
        cudart.cudaLaunchHostFunc(one, functions[0][0], 0)
        cudart.cudaEventRecord(event, one)
        cudart.cudaStreamWaitEvent(two, event, 0)
        cudart.cudaLaunchHostFunc(two, functions[1][0], 0)
        before = list(calls)
        cudart.cudaStreamSynchronize(two)
    return {"before": before, "calls": calls}


@program("a host function does not hold up other streams")
def does_not_hold_up_others():
    warm()
    calls = []
    function, kept = host_function(lambda _: calls.append("called"))
    with streams(1, 1) as (busy, other), events(1) as (event,):
        spin(busy)
        cudart.cudaLaunchHostFunc(busy, function, 0)
        cudart.cudaEventRecord(event, other)
        cudart.cudaEventSynchronize(event)
        early = [list(calls), state(busy)]
        cudart.cudaStreamSynchronize(busy)
    del kept
    return {"early": early, "calls": calls}


def forbidden_calls(stream):
    """Calls of CUDA that a host function makes, by name."""
    return {
        "malloc": lambda: cudart.cudaMalloc(64),
        "free": lambda: cudart.cudaFree(0),
        "memset": lambda: cudart.cudaMemsetAsync(0, 0, 0, stream),
        "query": lambda: cudart.cudaStreamQuery(stream),
        "record": lambda: cudart.cudaEventRecord(0, stream),
        "create": lambda: cudart.cudaStreamCreate(),
        "memory": lambda: cudart.cudaMemGetInfo(),
    }


@program("what calls of CUDA return in a host function")
def cuda_in_a_host_function():
    warm()
    found = {}
    with streams(1) as (stream,):

        def call(_):
            for name, function in forbidden_calls(stream).items():
                found[name] = code(function())

        function, kept = host_function(call)
        cudart.cudaLaunchHostFunc(stream, function, 0)
        sync = code(cudart.cudaStreamSynchronize(stream))
        then = code(cudart.cudaMemset(0, 0, 0))
        del kept
    last = code(cudart.cudaGetLastError())
    return {"found": found, "sync": sync, "then": then, "last": last}


@program("synchronising in a host function is refused, not waited for")
def synchronising_in_a_host_function():
    warm()
    found = {}
    with streams(1) as (stream,):

        def call(_):
            found["stream"] = code(cudart.cudaStreamSynchronize(stream))
            found["device"] = code(cudart.cudaDeviceSynchronize())

        function, kept = host_function(call)
        cudart.cudaLaunchHostFunc(stream, function, 0)
        found["sync"] = code(cudart.cudaStreamSynchronize(stream))
        del kept
    return found


@program("CuPy's calls in a host function raise")
def cupy_in_a_host_function():
    warm()
    found = []
    runtime = cp.cuda.runtime
    stream = cp.cuda.Stream(non_blocking=True)

    def call(_):
        found.append(raised(lambda: runtime.malloc(64)))
        found.append(raised(lambda: stream.synchronize()))

    stream.launch_host_func(call, None)
    stream.synchronize()
    return {"found": found, "then": raised(lambda: runtime.free(runtime.malloc(64)))}


@program("what needs no device can be asked in a host function")
def harmless_in_a_host_function():
    warm()
    found = {}
    with streams(1) as (stream,):

        def call(_):
            found["device"] = code(cudart.cudaGetDevice())
            found["count"] = code(cudart.cudaGetDeviceCount())
            found["name"] = cudart.cudaGetErrorName(cudart.cudaError_t(1))[1].decode()
            found["last"] = code(cudart.cudaGetLastError())
            found["version"] = code(cudart.cudaRuntimeGetVersion())
            found["attribute"] = code(cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrWarpSize, 0))

        function, kept = host_function(call)
        cudart.cudaLaunchHostFunc(stream, function, 0)
        cudart.cudaStreamSynchronize(stream)
        del kept
    return found


@program("a stream callback is given the stream, the status and its data")
def stream_callback():
    warm()
    calls = []
    function, kept = callback(lambda stream, status, data: calls.append([stream, status, data]))
    with streams(1) as (stream,):
        spin(stream, cycles=20_000_000)
        added = code(cudart.cudaStreamAddCallback(stream, function, 0x77, 0))
        before = len(calls)
        cudart.cudaStreamSynchronize(stream)
        calls = [[number == stream, status, data] for number, status, data in calls]
    del kept
    return {"add": added, "before": before, "calls": calls}


@program("a stream callback needs flags of 0")
def callback_flags():
    function, kept = callback(lambda stream, status, data: None)
    with streams(1) as (stream,):
        found = {str(flags): code(cudart.cudaStreamAddCallback(stream, function, 0, flags)) for flags in (0, 1, 9)}
        cudart.cudaStreamSynchronize(stream)
    cudart.cudaGetLastError()
    del kept
    return found


@program("what calls of CUDA return in a stream callback")
def cuda_in_a_callback():
    warm()
    found = {}
    with streams(1) as (stream,):

        def call(_stream, _status, _data):
            for name, function in forbidden_calls(stream).items():
                found[name] = code(function())

        function, kept = callback(call)
        cudart.cudaStreamAddCallback(stream, function, 0, 0)
        found["sync"] = code(cudart.cudaStreamSynchronize(stream))
        del kept
    cudart.cudaGetLastError()
    return found


@program("stream callbacks run in order with kernels, host functions and events")
def callbacks_in_order():
    warm()
    calls = []
    older, keep_older = callback(lambda stream, status, data: calls.append(f"callback {status}"))
    newer, keep_newer = host_function(lambda data: calls.append("function"))
    with streams(1) as (stream,), events(1) as (event,):
        cudart.cudaLaunchHostFunc(stream, newer, 0)
        spin(stream, cycles=10_000_000)
        cudart.cudaStreamAddCallback(stream, older, 0, 0)
        cudart.cudaLaunchHostFunc(stream, newer, 0)
        cudart.cudaStreamAddCallback(stream, older, 0, 0)
        cudart.cudaEventRecord(event, stream)
        cudart.cudaEventSynchronize(event)
        result = list(calls)
    del keep_older, keep_newer
    return {"calls": result}


@program("an exception in a host function goes no further, and work goes on")
def exceptions():
    warm()
    calls = []

    def fail(_):
        calls.append("failing")
        raise ValueError("in a host function")

    function, kept = host_function(fail)
    with quiet(), streams(1) as (stream,):
        cudart.cudaLaunchHostFunc(stream, function, 0)
        cudart.cudaLaunchHostFunc(stream, function, 0)
        sync = code(cudart.cudaStreamSynchronize(stream))
        then = state(stream)
    del kept
    return {"calls": calls, "sync": sync, "then": then, "last": code(cudart.cudaGetLastError())}


@program("an exception in a host function of CuPy goes no further")
def exceptions_of_cupy():
    warm()
    calls = []

    def fail(argument):
        calls.append(argument)
        raise KeyError("in a host function")

    stream = cp.cuda.Stream(non_blocking=True)
    with quiet():
        stream.launch_host_func(fail, "first")
        stream.launch_host_func(calls.append, "second")
        sync = raised(stream.synchronize)
    return {"calls": calls, "sync": sync, "done": stream.done}


@program("CuPy's add_callback gives the stream, the status and the argument")
def cupy_callback():
    warm()
    calls = []
    stream = cp.cuda.Stream(non_blocking=True)
    spin(stream, cycles=20_000_000)
    stream.add_callback(
        lambda s, status, argument: calls.append([s is stream, status, type(status).__name__, argument]), "x"
    )
    before = len(calls)
    stream.synchronize()
    return {"before": before, "calls": calls}


@program("a host function runs in another host thread than the program")
def thread_of_a_host_function():
    warm()
    seen = []
    stream = cp.cuda.Stream(non_blocking=True)
    stream.launch_host_func(lambda _: seen.append(threading.get_ident()), None)
    stream.launch_host_func(lambda _: seen.append(threading.get_ident()), None)
    stream.synchronize()
    return {"another": [ident != threading.get_ident() for ident in seen]}


@program("host functions of the driver")
def of_the_driver():
    warm()
    calls = []
    kept = HOST(lambda data: calls.append(data))
    with streams(1) as (stream,):
        function = driver.CUhostFn(address(kept))
        launched = code(driver.cuLaunchHostFunc(driver.CUstream(stream), function, 5))
        sync = code(driver.cuStreamSynchronize(driver.CUstream(stream)))
        older = CALLBACK(lambda s, status, data: calls.append([s == stream, status, data]))
        added = code(driver.cuStreamAddCallback(driver.CUstream(stream), driver.CUstreamCallback(address(older)), 6, 0))
        flags = code(driver.cuStreamAddCallback(driver.CUstream(stream), driver.CUstreamCallback(address(older)), 6, 3))
        driver.cuStreamSynchronize(driver.CUstream(stream))
    del kept
    return {"codes": [launched, sync, added, flags], "calls": calls}


FAULT = 'extern "C" __global__ void bad(int* p) { *(int*)(((unsigned long long)p & 0) + 64) = 1; }'


@program("after a fault host functions are not called, and callbacks learn of it", isolated=True)
def after_a_fault():
    calls = []
    stream = cp.cuda.Stream(non_blocking=True)
    bad = cp.RawKernel(FAULT, "bad")
    bad.compile()
    warm()
    older, keep_older = callback(lambda s, status, data: calls.append(f"callback {status}"))
    newer, keep_newer = host_function(lambda data: calls.append("function"))
    spin(stream, cycles=40_000_000)
    with cp.cuda.Stream.from_external(Handle(stream.ptr)):
        bad((1,), (1,), (0,))
    queued = [
        code(cudart.cudaLaunchHostFunc(stream.ptr, newer, 0)),
        code(cudart.cudaStreamAddCallback(stream.ptr, older, 0, 0)),
    ]
    sync = code(cudart.cudaStreamSynchronize(stream.ptr))
    after = [code(cudart.cudaLaunchHostFunc(stream.ptr, newer, 0)), code(cudart.cudaStreamQuery(stream.ptr))]
    import time

    time.sleep(0.2)
    del keep_older, keep_newer
    return {"queued": queued, "sync": sync, "after": after, "calls": calls}
