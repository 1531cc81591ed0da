"""When a copy reads its source, when its bytes arrive, and whether the host waits."""

import numpy as np

from cudalab import cp, cudart

from ..busy import copied, device_memory, event_state, events, fetched, pinned_memory, seen, spin, state, streams, warm
from ..program import code, program

KIND = cudart.cudaMemcpyKind
H2D, D2H, D2D, ANY = (
    KIND.cudaMemcpyHostToDevice,
    KIND.cudaMemcpyDeviceToHost,
    KIND.cudaMemcpyDeviceToDevice,
    KIND.cudaMemcpyDefault,
)


def behind_a_kernel(size, host, address, flag=1):
    """An asynchronous copy to the device behind a kernel, its source overwritten at once: did the call wait, and which
    bytes arrived?"""
    with streams(flag) as (stream,), device_memory(size) as memory:
        host[:] = 1
        spin(stream)
        done = code(cudart.cudaMemcpyAsync(memory, address, size, H2D, stream))
        waited = state(stream)
        host[:] = 2
        cudart.cudaStreamSynchronize(stream)
        out = fetched(memory, size, np.uint8)
        return [done, waited, sorted({int(x) for x in out})]


@program("an asynchronous copy from pageable memory: the source is taken at the call")
def from_pageable():
    warm()
    result = {}
    for size in (4, 1024, 65536, 65537, 1 << 20):
        host = np.zeros(size, np.uint8)
        result[str(size)] = behind_a_kernel(size, host, host.ctypes.data)
    return result


@program("an asynchronous copy from much pageable memory waits, too: the driver stages up to 2 MB")
def from_much_pageable():
    warm()
    result = {}
    for size in (1 << 21, 1 << 22, 1 << 24):
        host = np.zeros(size, np.uint8)
        result[str(size)] = behind_a_kernel(size, host, host.ctypes.data)
    return result


@program("asynchronous copies from pageable memory one after the other behind a kernel")
def many_from_pageable():
    warm()
    with streams(1) as (stream,), device_memory(1 << 20) as memory, events(1) as (event,):
        host = np.zeros(1 << 20, np.uint8)
        spin(stream, cycles=200_000_000)
        cudart.cudaEventRecord(event, stream)
        states = []
        for number in range(6):
            host[:] = number
            cudart.cudaMemcpyAsync(memory, host.ctypes.data, 1 << 20, H2D, stream)
            states.append(event_state(event))
        cudart.cudaStreamSynchronize(stream)
        return {"states": states, "last": fetched(memory, 4, np.uint8).tolist()}


@program("an asynchronous copy from page-locked memory: the source is read when the copy runs")
def from_page_locked():
    warm()
    result = {}
    for size in (4, 1 << 20):
        with pinned_memory(size) as (pointer, host):
            result[str(size)] = behind_a_kernel(size, host, pointer)
    return result


@program("an asynchronous copy from registered memory: the source is read when the copy runs")
def from_registered():
    warm()
    array = np.zeros(3 * 4096, np.uint8)
    start = (array.ctypes.data + 4095) // 4096 * 4096
    cudart.cudaHostRegister(start, 4096, 0)
    result = behind_a_kernel(4096, seen(start, 4096), start)
    cudart.cudaHostUnregister(start)
    return {"found": result}


@program("an asynchronous copy from write-combining, mapped and portable memory")
def from_other_page_locked():
    warm()
    result = {}
    for name, flags in (("write-combining", 4), ("mapped", 2), ("portable", 1), ("all", 7)):
        with pinned_memory(4096, flags) as (pointer, host):
            result[name] = behind_a_kernel(4096, host, pointer)
    return result


@program("an asynchronous copy to page-locked memory returns at once, and the bytes come later")
def to_page_locked():
    warm()
    with streams(1) as (stream,), device_memory(64) as memory, pinned_memory(64) as (pointer, host):
        cudart.cudaMemset(memory, 3, 64)
        cudart.cudaDeviceSynchronize()
        spin(stream)
        done = code(cudart.cudaMemcpyAsync(pointer, memory, 64, D2H, stream))
        early = [state(stream), int(host[0])]
        cudart.cudaStreamSynchronize(stream)
        return {"code": done, "early": early, "late": host.copy()}


@program("an asynchronous copy to pageable memory waits until the bytes are there")
def to_pageable():
    warm()
    result = {}
    for size in (4, 65536, 1 << 20):
        host = np.zeros(size, np.uint8)
        with streams(1) as (stream,), device_memory(size) as memory:
            cudart.cudaMemset(memory, 3, size)
            cudart.cudaDeviceSynchronize()
            spin(stream)
            done = code(cudart.cudaMemcpyAsync(host.ctypes.data, memory, size, D2H, stream))
            result[str(size)] = [done, state(stream), sorted({int(x) for x in host})]
    return result


@program("a copy within the device reads its source when it runs", expect=lambda v: {"out": [6]})
def within_the_device():
    warm()
    with streams(1) as (stream,), device_memory(8) as memory:
        spin(stream, memory, 6)
        done = code(cudart.cudaMemcpyAsync(memory + 4, memory, 4, D2D, stream))
        early = state(stream)
        cudart.cudaStreamSynchronize(stream)
        return {"code": done, "early": early, "out": fetched(memory + 4, 1).tolist()}


@program("copies of one stream run in order, in both directions", expect=lambda v: {"back": [1, 2, 3]})
def in_order():
    warm()
    with streams(1) as (stream,), device_memory(4) as memory, pinned_memory(24) as (pointer, _):
        values = seen(pointer, 24, np.int32)
        values[:3] = 1, 2, 3
        spin(stream)
        for i in range(3):
            cudart.cudaMemcpyAsync(memory, pointer + 4 * i, 4, H2D, stream)
            cudart.cudaMemcpyAsync(pointer + 12 + 4 * i, memory, 4, D2H, stream)
        early = values[3:].tolist()
        cudart.cudaStreamSynchronize(stream)
        return {"early": early, "back": values[3:].tolist()}


@program("a copy does not wait for a kernel of another stream", expect=lambda v: {"value": [9]})
def beside_a_kernel():
    warm()
    with streams(1, 1) as (busy, stream), device_memory(4) as memory, pinned_memory(8) as (pointer, _):
        values = seen(pointer, 8, np.int32)
        values[0] = 9
        spin(busy)
        cudart.cudaMemcpyAsync(memory, pointer, 4, H2D, stream)
        cudart.cudaMemcpyAsync(pointer + 4, memory, 4, D2H, stream)
        cudart.cudaStreamSynchronize(stream)
        return {"busy": state(busy), "value": values[1:].tolist()}


@program(
    "cudaMemcpy in the null stream waits for blocking streams, and takes what they wrote", expect=lambda v: {"out": [4]}
)
def plain_copy_after_blocking():
    warm()
    out = np.zeros(1, np.int32)
    with streams(0) as (stream,), device_memory(4) as memory:
        spin(stream, memory, 4)
        done = code(cudart.cudaMemcpy(out.ctypes.data, memory, 4, D2H))
        return {"code": done, "stream": state(stream), "out": out.tolist()}


@program("cudaMemcpy does not wait for non-blocking streams: it takes the old value", expect=lambda v: {"out": [0]})
def plain_copy_beside_non_blocking():
    warm()
    out = np.full(1, 5, np.int32)
    with streams(1) as (stream,), device_memory(4) as memory:
        spin(stream, memory, 4)
        done = code(cudart.cudaMemcpy(out.ctypes.data, memory, 4, D2H))
        return {"code": done, "stream": state(stream), "out": out.tolist()}


@program("an event behind a copy is pending until the copy has run")
def event_behind_a_copy():
    warm()
    with (
        streams(1) as (stream,),
        device_memory(4096) as memory,
        pinned_memory(4096) as (pointer, _),
        events(1) as (event,),
    ):
        spin(stream)
        cudart.cudaMemcpyAsync(memory, pointer, 4096, H2D, stream)
        cudart.cudaEventRecord(event, stream)
        before = event_state(event)
        cudart.cudaEventSynchronize(event)
        return {"before": before, "after": [event_state(event), state(stream)]}


@program("a kernel reads mapped memory when it runs: the host may still write it")
def mapped_memory_is_read_late():
    warm()
    with streams(1) as (stream,), device_memory(4) as memory, pinned_memory(4, 2) as (pointer, _):
        value = seen(pointer, 4, np.int32)
        value[0] = 1

        spin(stream)
        copied(stream, pointer, memory)
        value[0] = 2
        busy = state(stream)
        cudart.cudaStreamSynchronize(stream)
        return {"busy": busy, "value": fetched(memory, 1).tolist()}


@program("a memset behind a kernel does not hold up the host, and wins over the kernel's store")
def memset_behind_a_kernel():
    warm()
    with streams(1) as (stream,), device_memory(4) as memory:
        spin(stream, memory, 4)
        done = code(cudart.cudaMemsetAsync(memory, 0x11, 4, stream))
        busy = state(stream)
        cudart.cudaStreamSynchronize(stream)
        return {"code": done, "busy": busy, "value": fetched(memory, 1).tolist()}


@program("memory is freed behind a kernel that uses it: the kernel completes first")
def freed_while_in_use():
    warm()
    with streams(1) as (stream,), device_memory(4) as kept:
        _, pointer = cudart.cudaMalloc(4)
        spin(stream, int(pointer), 4)

        copied(stream, int(pointer), kept)
        done = code(cudart.cudaFree(pointer))
        after = state(stream)
        return {
            "code": done,
            "after": after,
            "sync": code(cudart.cudaDeviceSynchronize()),
            "value": fetched(kept, 1).tolist(),
        }


@program("CuPy: set and get in a stream, from pageable and page-locked arrays")
def of_cupy():
    warm()
    stream = cp.cuda.Stream(non_blocking=True)
    target = cp.zeros(256, cp.int32)
    pageable = np.ones(256, np.int32)
    locked = np.frombuffer(cp.cuda.alloc_pinned_memory(1024), np.int32, 256)
    locked[:] = 1
    cp.cuda.Device().synchronize()
    result = {}
    for name, host in (("pageable", pageable), ("page-locked", locked)):
        spin(stream)
        target.set(host, stream=stream)
        states = [stream.done]
        host[:] = 2
        stream.synchronize()
        arrived = sorted({int(x) for x in target.get()})
        spin(stream)
        out = target.get(stream=stream, out=host, blocking=False)
        states += [stream.done, out is host]
        stream.synchronize()
        result[name] = [states, arrived, sorted({int(x) for x in host})]
    return result
