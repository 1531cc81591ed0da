"""The calls that chapters make, by name, each as one function without arguments."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.host_time.instruments import ONE, Bench, checked
from cudalab import cp, cudart, driver

KB, MB = 1 << 10, 1 << 20
H2D, D2H, D2D = (
    cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
    cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
    cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
)
Made = dict[str, Callable[[], Any]]


def launches(bench: Bench) -> Made:
    kernel, stream = bench.kernels, bench.stream
    x = cp.empty(1024, cp.float32)
    n = np.int32(0)
    raw = bench.module.get_function("empty").kernel.ptr

    def in_stream() -> None:
        with stream:
            kernel["empty"](ONE, ONE, ())

    def four_in_stream() -> None:
        with stream:
            kernel["four"]((32,), (256,), (x, x, x, n))

    def as_in_the_pipeline() -> None:
        with stream:
            kernel["approach"](ONE, ONE, (x[0:], x[0:], np.int32(0), np.int32(0)))

    return {
        "launch, 0 arguments": lambda: kernel["empty"](ONE, ONE, (), stream=stream),
        "launch, 1 number": lambda: kernel["one"](ONE, ONE, (n,), stream=stream),
        "launch, 4 numbers": lambda: kernel["numbers"](ONE, ONE, (n, n, n, n), stream=stream),
        "launch, 8 numbers": lambda: kernel["eight"](ONE, ONE, (n,) * 8, stream=stream),
        "launch, array and number": lambda: kernel["two"](ONE, ONE, (x, n), stream=stream),
        "launch, 3 arrays and number": lambda: kernel["four"](ONE, ONE, (x, x, x, n), stream=stream),
        "launch, 4 addresses": lambda: kernel["numbers"](ONE, ONE, (0, 0, 0, 0), stream=stream),
        "launch, 1000 blocks": lambda: kernel["empty"]((1000,), (256,), (), stream=stream),
        "launch in a stream's block": in_stream,
        "launch in a stream's block, 3 arrays and number": four_in_stream,
        "launch in a stream's block, as in chapter 11": as_in_the_pipeline,
        "launch in the NULL stream": lambda: kernel["empty"](ONE, ONE, ()),
        "cuLaunchKernel": lambda: driver.cuLaunchKernel(raw, 1, 1, 1, 1, 1, 1, 0, stream.ptr, 0, 0),
    }


def copies(bench: Bench) -> Made:
    device = int(bench.memory.data.ptr)
    host, pageable = bench.host.ctypes.data, bench.pageable.ctypes.data
    s, copy = bench.stream.ptr, cudart.cudaMemcpyAsync
    made: Made = {}
    for size in (4, 64 * KB, MB):
        made[f"cudaMemcpyAsync to device, pinned, {size}"] = partial(copy, device, host, size, H2D, s)
        made[f"cudaMemcpyAsync to host, pinned, {size}"] = partial(copy, host, device, size, D2H, s)
        made[f"cudaMemcpyAsync on device, {size}"] = partial(copy, device, device + 8 * MB, size, D2D, s)
        made[f"cudaMemsetAsync, {size}"] = partial(cudart.cudaMemsetAsync, device, 0, size, s)
    made["cuMemcpyHtoDAsync, pinned, 65536"] = partial(driver.cuMemcpyHtoDAsync, device, host, 64 * KB, s)
    made["cuMemcpyDtoHAsync, pinned, 65536"] = partial(driver.cuMemcpyDtoHAsync, host, device, 64 * KB, s)
    made["cuMemsetD8Async, 65536"] = partial(driver.cuMemsetD8Async, device, 0, 64 * KB, s)
    array, target = cp.empty(16 * KB, cp.float32), np.frombuffer(bench.host, np.float32, 16 * KB)
    made["array.set(pinned, stream), 65536"] = lambda: array.set(target, stream=bench.stream)
    made["array.get(out=pinned, stream, not blocking), 65536"] = lambda: array.get(
        stream=bench.stream, out=target, blocking=False
    )
    for size in (256, 4 * KB, 64 * KB):
        made[f"cudaMemcpyAsync to device, pageable, {size}"] = partial(copy, device, pageable, size, H2D, s)
    return made


def blocking(bench: Bench) -> Made:
    """Calls that wait for the device; timed from an idle one only."""
    device = int(bench.memory.data.ptr)
    host, pageable = bench.host.ctypes.data, bench.pageable.ctypes.data
    s, copy = bench.stream.ptr, cudart.cudaMemcpyAsync
    small, values = cp.zeros(16 * KB, cp.float32), np.zeros(16 * KB, np.float32)
    event = cp.cuda.Event()
    event.record(bench.stream)
    made: Made = {}
    for size in (256, 4 * KB, 64 * KB, 256 * KB, MB):
        made[f"cudaMemcpyAsync to host, pageable, {size}"] = partial(copy, pageable, device, size, D2H, s)
        made[f"cudaMemcpy to device, pageable, {size}"] = partial(cudart.cudaMemcpy, device, pageable, size, H2D)
        made[f"cudaMemcpy to device, pinned, {size}"] = partial(cudart.cudaMemcpy, device, host, size, H2D)
        made[f"cudaMemcpy to host, pinned, {size}"] = partial(cudart.cudaMemcpy, host, device, size, D2H)
    for size in (256 * KB, MB):
        made[f"cudaMemcpyAsync to device, pageable, {size}"] = partial(copy, device, pageable, size, H2D, s)

    def launch_and_wait() -> None:
        bench.kernels["empty"](ONE, ONE, (), stream=bench.stream)
        bench.stream.synchronize()

    def record_and_wait() -> None:
        event.record(bench.stream)
        event.synchronize()

    return {
        **made,
        "cp.asarray(numpy), 65536": lambda: cp.asarray(values),
        "array.get(), 65536": lambda: small.get(),
        "cp.asnumpy(array), 65536": lambda: cp.asnumpy(small),
        "array.set(pageable), 65536": lambda: small.set(values),
        "array[0].item()": lambda: small[0].item(),
        "array.sum().item()": lambda: small.sum().item(),
        "launch and synchronize": launch_and_wait,
        "record and synchronize": record_and_wait,
        "stream.synchronize(), idle": bench.stream.synchronize,
        "Device().synchronize(), idle": lambda: cp.cuda.Device().synchronize(),
        "cudaDeviceSynchronize, idle": cudart.cudaDeviceSynchronize,
        "cudaStreamSynchronize, idle": partial(cudart.cudaStreamSynchronize, s),
        "event.synchronize(), done": event.synchronize,
    }


def events(bench: Bench) -> Made:
    stream, event, done = bench.stream, cp.cuda.Event(), cp.cuda.Event()
    plain = cp.cuda.Event(disable_timing=True)
    plain.record(stream)
    event.record(stream)
    done.record(stream)
    bench.synchronize()
    s = stream.ptr

    def create_by_call() -> None:
        checked(cudart.cudaEventDestroy(checked(cudart.cudaEventCreate())))

    def create_stream_by_call() -> None:
        checked(cudart.cudaStreamDestroy(checked(cudart.cudaStreamCreate())))

    return {
        "Event()": lambda: cp.cuda.Event(),
        "Event(disable_timing)": lambda: cp.cuda.Event(disable_timing=True),
        "cudaEventCreate and Destroy": create_by_call,
        "event.record(stream)": lambda: event.record(stream),
        "stream.record(event)": lambda: stream.record(event),
        "stream.record()": lambda: stream.record(),
        "cudaEventRecord": partial(cudart.cudaEventRecord, event.ptr, s),
        "event.done": lambda: plain.done,
        "cudaEventQuery": partial(cudart.cudaEventQuery, plain.ptr),
        "get_elapsed_time": lambda: cp.cuda.get_elapsed_time(done, done),
        "cudaEventElapsedTime": partial(cudart.cudaEventElapsedTime, done.ptr, done.ptr),
        "stream.wait_event(event)": lambda: stream.wait_event(plain),
        "cudaStreamWaitEvent": partial(cudart.cudaStreamWaitEvent, s, plain.ptr, 0),
        "Stream(non_blocking)": lambda: cp.cuda.Stream(non_blocking=True),
        "cudaStreamCreate and Destroy": create_stream_by_call,
        "stream.done": lambda: stream.done,
        "cudaStreamQuery": partial(cudart.cudaStreamQuery, s),
        "cuStreamQuery": partial(driver.cuStreamQuery, s),
        "cuEventRecord": partial(driver.cuEventRecord, event.ptr, s),
    }


def memory(bench: Bench) -> Made:
    def from_stream() -> None:
        checked(cudart.cudaFreeAsync(checked(cudart.cudaMallocAsync(4096, bench.stream.ptr)), bench.stream.ptr))

    return {
        "cp.empty(1024)": lambda: cp.empty(1024, cp.float32),
        "cp.empty(1 MB)": lambda: cp.empty(MB // 4, cp.float32),
        "cudaMallocAsync and FreeAsync, 4096": from_stream,
        "alloc_pinned_memory(4096)": lambda: cp.cuda.alloc_pinned_memory(4096),
    }


def slow_memory(bench: Bench) -> Made:
    """Calls that may wait for the device or take long; timed from an idle one only. Other small allocations are there
    all the time: without one the last free of each kind would give a chunk back to the system."""
    others = checked(cudart.cudaMalloc(4096)), checked(cudart.cudaMallocHost(4096))
    weakref.finalize(bench, cudart.cudaFree, others[0])
    weakref.finalize(bench, cudart.cudaFreeHost, others[1])

    def by_call(allocate: Callable[..., Any], free: Callable[..., Any], *size: int) -> None:
        checked(free(checked(allocate(*size))))

    return {
        "cudaMalloc and Free, 4096": partial(by_call, cudart.cudaMalloc, cudart.cudaFree, 4096),
        "cuMemAlloc and Free, 4096": partial(by_call, driver.cuMemAlloc, driver.cuMemFree, 4096),
        "cudaMalloc and Free, 1 MB": partial(by_call, cudart.cudaMalloc, cudart.cudaFree, MB),
        "cudaMallocHost and FreeHost, 64 KB": partial(by_call, cudart.cudaMallocHost, cudart.cudaFreeHost, 64 * KB),
        "cudaMallocHost and FreeHost, 1 MB": partial(by_call, cudart.cudaMallocHost, cudart.cudaFreeHost, MB),
        "cudaMemGetInfo": cudart.cudaMemGetInfo,
    }


def arrays(bench: Bench) -> Made:
    a, b = cp.ones(1024, cp.float32), cp.ones(1024, cp.float32)
    host = np.zeros(1024, np.float32)

    def add() -> None:
        with bench.stream:
            a + b

    def within() -> None:
        with bench.stream:
            pass

    def fill() -> None:
        with bench.stream:
            a[:] = 1

    def times_into() -> None:
        with bench.stream:
            cp.multiply(a, 2, out=b)

    def copy() -> None:
        with bench.stream:
            a.copy()

    def zeros() -> None:
        with bench.stream:
            cp.zeros(1024, cp.float32)

    def total() -> None:
        with bench.stream:
            a.sum()

    return {
        "with stream": within,
        "a + b": add,
        "a[:] = 1": fill,
        "cp.multiply(a, 2, out=b)": times_into,
        "a.copy()": copy,
        "cp.zeros(1024)": zeros,
        "a.sum()": total,
        "a[10:]": lambda: a[10:],
        "a.data.ptr": lambda: a.data.ptr,
        "a.shape": lambda: a.shape,
        "numpy array.ctypes.data": lambda: host.ctypes.data,
        "np.int32(3)": lambda: np.int32(3),
        "stream.ptr": lambda: bench.stream.ptr,
        "get_current_stream()": cp.cuda.get_current_stream,
        "cudaGetLastError": cudart.cudaGetLastError,
        "cudaGetDevice": cudart.cudaGetDevice,
    }


def nothing(bench: Bench) -> Made:
    def ten_lines() -> None:
        a = 0
        a = 1
        a = 2
        a = 3
        a = 4
        a = 5
        a = 6
        a = 7
        a = 8
        a = 9  # noqa: F841

    def a_function() -> None:
        pass

    def calls_one() -> None:
        a_function()

    return {"nothing": lambda: None, "ten lines": ten_lines, "a function in a function": calls_one}


QUEUED = {
    "nothing": nothing,
    "launches": launches,
    "copies": copies,
    "events": events,
    "memory": memory,
    "arrays": arrays,
}
"""Families that are timed both ways."""

IDLE = {"blocking": blocking, "slow memory": slow_memory}
