"""Managed memory: allocation, prefetching, advice, ranges, attachment to streams. A few megabytes only."""

import contextlib

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import copied, device_memory, event_state, events, fetched, seen, spin, state, store, streams, warm
from ..program import code, program, raised

SIZE = 1 << 20
ADVICE, RANGE, PLACE = cudart.cudaMemoryAdvise, cudart.cudaMemRangeAttribute, cudart.cudaMemLocationType


@contextlib.contextmanager
def managed(size=SIZE, flags=1):
    """Managed memory: the address, and its bytes as an array."""
    pointer = int(cudart.cudaMallocManaged(size, flags)[1])
    try:
        yield pointer, seen(pointer, size)
    finally:
        cudart.cudaDeviceSynchronize()
        cudart.cudaFree(pointer)


def location(kind, number=0):
    found = cudart.cudaMemLocation()
    found.type, found.id = kind, number
    return found


DEVICE = (PLACE.cudaMemLocationTypeDevice, 0)
HOST = (PLACE.cudaMemLocationTypeHost, 0)


def of_range(pointer, name, size=SIZE, bytes_of_answer=4):
    """An attribute of a range as a number, or the error."""
    error, value = cudart.cudaMemRangeGetAttribute(
        bytes_of_answer, getattr(RANGE, f"cudaMemRangeAttribute{name}"), pointer, size
    )
    if error.name != "cudaSuccess":
        return error.name
    return [int(entry) for entry in value] if isinstance(value, list) else int(value)


def advise(pointer, advice, place=DEVICE, size=SIZE):
    return code(cudart.cudaMemAdvise(pointer, size, getattr(ADVICE, f"cudaMemAdvise{advice}"), location(*place)))


def prefetch(pointer, place, size=SIZE, flags=0, stream=0):
    return code(cudart.cudaMemPrefetchAsync(pointer, size, location(*place), flags, stream))


@program("sizes and flags of managed allocations")
def allocation():
    result = {}
    for flags in (0, 1, 2, 3, 4, 8):
        error, pointer = cudart.cudaMallocManaged(4096, flags)
        result[str(flags)] = error.name
        if error.name == "cudaSuccess":
            result[str(flags)] += " " + code(cudart.cudaFree(pointer))
    nothing = cudart.cudaMallocManaged(0, 1)
    result["nothing"] = [code(nothing), int(nothing[1] or 0)]
    result["terabyte of terabytes"] = code(cudart.cudaMallocManaged(1 << 60, 1))
    result["by cudaFreeHost"] = code(cudart.cudaFreeHost(int(cudart.cudaMallocManaged(4096, 1)[1])))
    cudart.cudaGetLastError()
    return result


@program("attributes of a new managed range")
def new_range():
    with managed() as (pointer, _):
        names = ("ReadMostly", "PreferredLocation", "AccessedBy", "LastPrefetchLocation")
        return {name: of_range(pointer, name) for name in names}


@program("advice that memory is mostly read")
def read_mostly():
    with managed() as (pointer, _):
        steps = [advise(pointer, "SetReadMostly"), of_range(pointer, "ReadMostly")]
        steps += [advise(pointer, "UnsetReadMostly", size=SIZE // 2), of_range(pointer, "ReadMostly")]
        steps += [of_range(pointer, "ReadMostly", SIZE // 2), of_range(pointer + SIZE // 2, "ReadMostly", SIZE // 2)]
        return {"steps": steps}


@program("advice on the preferred location: the device, the host, none")
def preferred_location():
    with managed() as (pointer, _):
        steps = []
        for advice, place in (
            ("SetPreferredLocation", DEVICE),
            ("SetPreferredLocation", HOST),
            ("UnsetPreferredLocation", DEVICE),
        ):
            steps.append([advise(pointer, advice, place), of_range(pointer, "PreferredLocation")])
        return {"steps": steps}


@program("advice on who accesses memory")
def accessed_by():
    with managed() as (pointer, _):
        steps = [
            [advise(pointer, "SetAccessedBy", place), of_range(pointer, "AccessedBy", SIZE, 12)]
            for place in (DEVICE, HOST)
        ]
        steps += [
            [advise(pointer, "UnsetAccessedBy", place), of_range(pointer, "AccessedBy", SIZE, 12)]
            for place in (DEVICE, HOST)
        ]
        return {"steps": steps}


@program("advice that is wrong: another device, no managed memory, too much, nothing, an unknown advice")
def wrong_advice():
    host = np.zeros(64, np.uint8)
    with managed() as (pointer, _), device_memory(4096) as device:
        result = {
            "device 99": advise(pointer, "SetPreferredLocation", (PLACE.cudaMemLocationTypeDevice, 99)),
            "device memory": advise(device, "SetReadMostly", size=4096),
            "too much": advise(pointer, "SetReadMostly", size=1 << 40),
            "nothing": advise(pointer, "SetReadMostly", size=0),
            "null": advise(0, "SetReadMostly", size=4096),
            "no place": advise(pointer, "SetPreferredLocation", (PLACE.cudaMemLocationTypeInvalid, 0)),
        }
        del host
        cudart.cudaGetLastError()
        return result


@program("prefetching to the device and to the host, and what the range then says", expect=lambda v: {"sum": SIZE * 3})
def prefetching():
    with managed() as (pointer, view), streams(1) as (stream,):
        view[:] = 3
        steps = []
        for place in (DEVICE, HOST, DEVICE):
            done = prefetch(pointer, place, stream=stream)
            cudart.cudaStreamSynchronize(stream)
            steps.append([done, of_range(pointer, "LastPrefetchLocation")])
        return {"steps": steps, "sum": int(view.sum())}


@program("prefetching what cannot be: another device, no managed memory, flags, too much, nothing")
def wrong_prefetches():
    with managed() as (pointer, _), device_memory(4096) as device:
        result = {
            "device 99": prefetch(pointer, (PLACE.cudaMemLocationTypeDevice, 99)),
            "no place": prefetch(pointer, (PLACE.cudaMemLocationTypeInvalid, 0)),
            "device memory": prefetch(device, DEVICE, 4096),
            "flags": prefetch(pointer, DEVICE, flags=1),
            "too much": prefetch(pointer, DEVICE, 1 << 40),
            "nothing": prefetch(pointer, DEVICE, 0),
            "null": prefetch(0, DEVICE, 4096),
            "part": prefetch(pointer + 100, DEVICE, 100),
        }
        cudart.cudaGetLastError()
        return result


@program("a prefetch happens in stream order and does not hold up the host")
def prefetch_in_order():
    warm()
    with managed() as (pointer, _), streams(1) as (stream,), events(1) as (event,):
        spin(stream)
        done = prefetch(pointer, DEVICE, stream=stream)
        cudart.cudaEventRecord(event, stream)
        before = [state(stream), event_state(event)]
        cudart.cudaStreamSynchronize(stream)
        return {"code": done, "before": before, "after": event_state(event)}


@program("questions about a range that are wrong: its size, its address, the size of the answer")
def wrong_questions():
    with managed() as (pointer, _), device_memory(4096) as device:
        result = {
            "device memory": of_range(device, "ReadMostly", 4096),
            "too much": of_range(pointer, "ReadMostly", 1 << 40),
            "nothing": of_range(pointer, "ReadMostly", 0),
            "null": of_range(0, "ReadMostly", 4096),
        }
        cudart.cudaGetLastError()
        return result


@program("several attributes of a range at once")
def several_attributes():
    with managed() as (pointer, _):
        advise(pointer, "SetReadMostly")
        advise(pointer, "SetPreferredLocation", DEVICE)
        names = [
            RANGE.cudaMemRangeAttributeReadMostly,
            RANGE.cudaMemRangeAttributePreferredLocation,
            RANGE.cudaMemRangeAttributeAccessedBy,
        ]
        error, values = cudart.cudaMemRangeGetAttributes([4, 4, 4], names, 3, pointer, SIZE)
        plain = [[int(x) for x in value] if isinstance(value, list) else int(value) for value in values]
        return {"code": error.name, "values": plain}


@program("attaching managed memory to streams: flags, lengths, other memory")
def attaching():
    with managed(flags=2) as (pointer, _), streams(0) as (stream,), device_memory(64) as device:

        def attach(address, length, flags, handle=stream):
            return code(cudart.cudaStreamAttachMemAsync(handle, address, length, flags))

        result = {
            "host": attach(pointer, 0, 2),
            "single": attach(pointer, 0, 4),
            "global": attach(pointer, 0, 1),
            "whole": attach(pointer, SIZE, 4),
            "single in null": attach(pointer, 0, 4, 0),
            "global in null": attach(pointer, 0, 1, 0),
            "part": attach(pointer, 4096, 1),
            "inside": attach(pointer + 4096, 0, 1),
            "flags": [attach(pointer, 0, flags) for flags in (3, 8)],
            "device memory": attach(device, 0, 1),
            "sync": code(cudart.cudaStreamSynchronize(stream)),
        }
        cudart.cudaGetLastError()
        return result


@program("attached memory is used by its stream and by the host after waiting", expect=lambda v: {"out": [1, 8]})
def attached_work():
    warm()
    with managed(4096, 2) as (pointer, view), streams(0) as (stream,):
        values = view.view(np.int32)
        values[0] = 1
        cudart.cudaStreamAttachMemAsync(stream, pointer, 0, cudart.cudaMemAttachSingle)
        cudart.cudaStreamSynchronize(stream)
        store(stream, pointer + 4, 8)
        cudart.cudaStreamSynchronize(stream)
        return {"out": values[:2].tolist()}


@program("copies and sets of managed memory, from and to each kind of memory")
def copying():
    host, out = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    with managed(256) as (pointer, view), device_memory(64) as device:
        kind = cudart.cudaMemcpyKind
        view[:] = 0
        codes = [
            code(cudart.cudaMemcpy(pointer, host.ctypes.data, 64, kind.cudaMemcpyHostToDevice)),
            code(cudart.cudaMemcpy(device, pointer, 64, kind.cudaMemcpyDeviceToDevice)),
            code(cudart.cudaMemcpy(pointer + 64, device, 64, kind.cudaMemcpyDefault)),
            code(cudart.cudaMemcpy(out.ctypes.data, pointer + 64, 64, kind.cudaMemcpyDeviceToHost)),
            code(cudart.cudaMemcpy(pointer + 128, pointer, 64, kind.cudaMemcpyHostToHost)),
            code(cudart.cudaMemset(pointer + 192, 9, 32)),
            code(cudart.cudaDeviceSynchronize()),
        ]
        return {"codes": codes, "view": view.copy(), "out": out}


@program(
    "the host and a kernel use different parts of managed memory at the same time", expect=lambda v: {"out": [5, 6]}
)
def at_the_same_time():
    warm()
    with managed(8192) as (pointer, view), streams(1) as (stream,):
        values = view.view(np.int32)
        values[:] = 0
        prefetch(pointer, DEVICE, 8192)
        cudart.cudaDeviceSynchronize()
        spin(stream, pointer, 5)
        values[1024] = 6
        busy = state(stream)
        cudart.cudaStreamSynchronize(stream)
        return {"busy": busy, "out": [int(values[0]), int(values[1024])]}


@program("kernels in two streams pass values through managed memory by an event", expect=lambda v: {"out": [4, 4]})
def between_streams():
    warm()
    with managed(4096) as (pointer, view), streams(1, 1) as (one, two), events(1) as (event,):
        spin(one, pointer, 4)
        cudart.cudaEventRecord(event, one)
        cudart.cudaStreamWaitEvent(two, event, 0)
        copied(two, pointer, pointer + 4)
        cudart.cudaStreamSynchronize(two)
        return {"out": view.view(np.int32)[:2].tolist()}


@program("managed memory under the names of the driver")
def of_the_driver():
    error, pointer = driver.cuMemAllocManaged(4096, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
    place = driver.CUmemLocation()
    place.type, place.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    names = driver.CUmem_range_attribute
    advice = driver.CUmem_advise
    result = {
        "alloc": error.name,
        "advise": code(driver.cuMemAdvise(pointer, 4096, advice.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, place)),
        "preferred": int(
            driver.cuMemRangeGetAttribute(4, names.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, pointer, 4096)[1]
        ),
        "prefetch": code(driver.cuMemPrefetchAsync(pointer, 4096, place, 0, driver.CUstream(0))),
        "sync": code(driver.cuCtxSynchronize()),
        "last": int(
            driver.cuMemRangeGetAttribute(4, names.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, pointer, 4096)[1]
        ),
        "flags": [driver.cuMemAllocManaged(64, flags)[0].name for flags in (0, 3, 8)],
        "attach": code(driver.cuStreamAttachMemAsync(driver.CUstream(0), pointer, 0, 1)),
        "free": code(driver.cuMemFree(pointer)),
    }
    return result


@program("managed memory of CuPy: allocation, prefetch, advice")
def of_cupy():
    memory = cp.cuda.ManagedMemory(SIZE)
    array = cp.ndarray((SIZE // 4,), cp.int32, cp.cuda.MemoryPointer(memory, 0))
    array[:] = 2
    stream = cp.cuda.Stream(non_blocking=True)
    result = {
        "size": memory.size,
        "sum": int(array.sum()),
        "type": int(cp.cuda.runtime.pointerGetAttributes(memory.ptr).type),
        "prefetch": raised(lambda: memory.prefetch(stream)),
        "advise": raised(lambda: memory.advise(cp.cuda.runtime.cudaMemAdviseSetReadMostly, cp.cuda.Device(0))),
    }
    stream.synchronize()
    result["read mostly"] = of_range(memory.ptr, "ReadMostly")
    view = seen(memory.ptr, SIZE, np.int32)
    cp.cuda.Device().synchronize()
    result["host sees"] = int(view[5])
    view[5] = 7
    result["device sees"] = int(array[5])
    return result


@program("managed arrays of CuPy are freed like others")
def allocator_of_cupy():
    with cp.cuda.using_allocator(cp.cuda.malloc_managed):
        a = cp.arange(1000)
        b = (a * 2).sum()
    return {"sum": int(b), "kind": type(a.data.mem).__name__, "device": fetched(a.data.ptr, 3, np.int64).tolist()}
