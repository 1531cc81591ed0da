"""Memory pools of the runtime and stream-ordered allocation."""

import contextlib

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import copied, device_memory, events, fetched, spin, state, store, streams, warm
from ..program import code, program, raised

ATTRIBUTE = cudart.cudaMemPoolAttr
MB = 1 << 20


def properties(device=0):
    """Of an ordinary pool on a device."""
    wanted = cudart.cudaMemPoolProps()
    wanted.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
    wanted.handleTypes = cudart.cudaMemAllocationHandleType.cudaMemHandleTypeNone
    wanted.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
    wanted.location.id = device
    return wanted


@contextlib.contextmanager
def pool(threshold=None):
    """A new pool, with that release threshold."""
    _, made = cudart.cudaMemPoolCreate(properties())
    if threshold is not None:
        set_attribute(made, "AttrReleaseThreshold", threshold)
    try:
        yield made
    finally:
        cudart.cudaDeviceSynchronize()
        cudart.cudaMemPoolDestroy(made)


def attribute(of, name):
    return cudart.cudaMemPoolGetAttribute(of, getattr(ATTRIBUTE, f"cudaMemPool{name}"))


def number(of, name):
    """An attribute that is a number."""
    return int(attribute(of, name)[1])


def set_attribute(of, name, value):
    kind = driver.cuuint64_t if name.startswith("Attr") else int
    return code(cudart.cudaMemPoolSetAttribute(of, getattr(ATTRIBUTE, f"cudaMemPool{name}"), kind(value)))


def amounts(of):
    """Used, most used, reserved, most reserved."""
    names = ("AttrUsedMemCurrent", "AttrUsedMemHigh", "AttrReservedMemCurrent", "AttrReservedMemHigh")
    return [number(of, name) for name in names]


def take(of, size, stream):
    """The address of memory from a pool."""
    return int(cudart.cudaMallocFromPoolAsync(size, of, stream)[1])


@program("attributes of a new pool")
def new_pool():
    with pool() as made:
        names = (
            "AttrReleaseThreshold",
            "ReuseFollowEventDependencies",
            "ReuseAllowOpportunistic",
            "ReuseAllowInternalDependencies",
        )
        return {
            "settings": [[code(attribute(made, name)), number(made, name)] for name in names],
            "amounts": amounts(made),
        }


@program("settings of a pool are set and read back")
def settings():
    with pool() as made:
        result = {}
        for name in ("ReuseFollowEventDependencies", "ReuseAllowOpportunistic", "ReuseAllowInternalDependencies"):
            result[name] = [
                set_attribute(made, name, 0),
                number(made, name),
                set_attribute(made, name, 1),
                number(made, name),
            ]
        result["threshold"] = [
            set_attribute(made, "AttrReleaseThreshold", 3 * MB),
            number(made, "AttrReleaseThreshold"),
        ]
        result["used"] = set_attribute(made, "AttrUsedMemCurrent", 0)
        result["reserved"] = set_attribute(made, "AttrReservedMemCurrent", 0)
        result["high to a number"] = set_attribute(made, "AttrUsedMemHigh", 5)
        result["reserved high to a number"] = set_attribute(made, "AttrReservedMemHigh", 5)
        cudart.cudaGetLastError()
        return result


@program("the default pool of the device is its current one until another is set")
def default_pool():
    _, default = cudart.cudaDeviceGetDefaultMemPool(0)
    _, current = cudart.cudaDeviceGetMemPool(0)
    with pool() as made, streams(1) as (stream,):
        changed = code(cudart.cudaDeviceSetMemPool(0, made))
        now = int(cudart.cudaDeviceGetMemPool(0)[1])
        _, pointer = cudart.cudaMallocAsync(1000, stream)
        inside = number(made, "AttrUsedMemCurrent") > 0
        cudart.cudaFreeAsync(pointer, stream)
        back = code(cudart.cudaDeviceSetMemPool(0, default))
        result = {
            "same": int(default) == int(current),
            "set": changed,
            "now": now == int(made),
            "default stays": int(cudart.cudaDeviceGetDefaultMemPool(0)[1]) == int(default),
            "allocated there": inside,
            "back": back,
            "threshold": number(default, "AttrReleaseThreshold"),
            "device 99": [code(cudart.cudaDeviceGetMemPool(99)), code(cudart.cudaDeviceGetDefaultMemPool(-1))],
            "null": code(cudart.cudaDeviceSetMemPool(0, 0)),
            "destroy default": code(cudart.cudaMemPoolDestroy(default)),
        }
    cudart.cudaGetLastError()
    return result


@program("how much of a pool allocations of different sizes use and reserve")
def amounts_by_size():
    result = {}
    for size in (1, 100, 512, 513, 4096, 100_000, MB, MB + 1, 3 * MB, 33 * MB):
        with pool() as made, streams(1) as (stream,):
            pointer = take(made, size, stream)
            result[str(size)] = [*amounts(made), pointer % 512]
            cudart.cudaFreeAsync(pointer, stream)
    return result


@program("amounts through allocations and frees, with nothing kept at a synchronisation")
def amounts_released():
    with pool() as made, streams(1) as (stream,):
        steps = [amounts(made)]
        a, b = take(made, MB, stream), take(made, 2 * MB, stream)
        steps.append(amounts(made))
        cudart.cudaFreeAsync(a, stream)
        cudart.cudaStreamSynchronize(stream)
        steps.append(amounts(made))
        cudart.cudaFreeAsync(b, stream)
        cudart.cudaStreamSynchronize(stream)
        steps.append(amounts(made))
        resets = [set_attribute(made, "AttrUsedMemHigh", 0), set_attribute(made, "AttrReservedMemHigh", 0)]
        steps.append(amounts(made))
        return {"steps": steps, "resets": resets}


@program("amounts through allocations and frees, with everything kept by the release threshold")
def amounts_kept():
    with pool(2**64 - 1) as made, streams(1) as (stream,):
        steps = []
        for size in (MB, 40 * MB):
            pointer = take(made, size, stream)
            steps.append(amounts(made))
            cudart.cudaFreeAsync(pointer, stream)
            cudart.cudaStreamSynchronize(stream)
            steps.append(amounts(made))
        return {"steps": steps}


@program("trimming a pool: to nothing, to an amount, while memory is in use")
def trimming():
    with pool(2**64 - 1) as made, streams(1) as (stream,):
        kept = take(made, MB, stream)
        large = take(made, 70 * MB, stream)
        cudart.cudaFreeAsync(large, stream)
        cudart.cudaStreamSynchronize(stream)
        steps = [amounts(made)]
        codes = [code(cudart.cudaMemPoolTrimTo(made, 40 * MB))]
        steps.append(amounts(made))
        codes.append(code(cudart.cudaMemPoolTrimTo(made, 0)))
        steps.append(amounts(made))
        cudart.cudaFreeAsync(kept, stream)
        cudart.cudaStreamSynchronize(stream)
        codes.append(code(cudart.cudaMemPoolTrimTo(made, 2**60)))
        steps.append(amounts(made))
        codes.append(code(cudart.cudaMemPoolTrimTo(made, 0)))
        steps.append(amounts(made))
        return {"steps": steps, "codes": codes}


@program("memory is not free before the work before its free has ended")
def freed_in_stream_order():
    warm()
    with pool() as made, streams(1) as (stream,):
        pointer = take(made, MB, stream)
        spin(stream)
        done = code(cudart.cudaFreeAsync(pointer, stream))
        during = [state(stream), *amounts(made)[:2]]
        cudart.cudaStreamSynchronize(stream)
        return {"code": done, "during": during, "after": amounts(made)}


@program("memory freed in a stream is given out again in that stream at once")
def reused_in_the_same_stream():
    warm()
    with pool() as made, streams(1) as (stream,):
        first = take(made, MB, stream)
        spin(stream)
        cudart.cudaFreeAsync(first, stream)
        second = take(made, MB, stream)
        busy = state(stream)
        smaller = take(made, 1000, stream)
        for pointer in (second, smaller):
            cudart.cudaFreeAsync(pointer, stream)
        return {"same": second == first, "busy": busy, "another": smaller != first}


def reused_in_another(made, link):
    """Is memory, freed behind a kernel in one stream, given out in another stream? ``link``: an event orders them."""
    with streams(1, 1) as (one, two), events(1) as (event,):
        first = take(made, MB, one)
        spin(one)
        cudart.cudaFreeAsync(first, one)
        if link:
            cudart.cudaEventRecord(event, one)
            cudart.cudaStreamWaitEvent(two, event, 0)
        second = take(made, MB, two)
        found = [second == first, state(one)]
        cudart.cudaEventRecord(event, two)
        cudart.cudaEventSynchronize(event)
        found.append(state(one))
        cudart.cudaFreeAsync(second, two)
        cudart.cudaDeviceSynchronize()
        return found


@program("memory freed in one stream behind a kernel, asked for in another: by the settings of reuse")
def reused_in_another_stream():
    warm()
    names = ("ReuseFollowEventDependencies", "ReuseAllowOpportunistic", "ReuseAllowInternalDependencies")
    result = {}
    for wanted in ((1, 1, 1), (1, 1, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)):
        with pool(2**64 - 1) as made:
            for name, value in zip(names, wanted, strict=True):
                set_attribute(made, name, value)
            result[str(wanted)] = [reused_in_another(made, link) for link in (True, False)]
    return result


@program("memory whose free has ended, asked for in another stream: by the opportunistic setting")
def reused_when_done():
    result = {}
    for opportunistic in (1, 0):
        with pool(2**64 - 1) as made, streams(1, 1) as (one, two):
            set_attribute(made, "ReuseAllowOpportunistic", opportunistic)
            set_attribute(made, "ReuseAllowInternalDependencies", 0)
            first = take(made, MB, one)
            cudart.cudaFreeAsync(first, one)
            cudart.cudaStreamSynchronize(one)
            second = take(made, MB, two)
            result[str(opportunistic)] = second == first
            cudart.cudaFreeAsync(second, two)
    return result


@program("two allocations do not overlap, and a freed one may be split")
def splitting():
    with pool(2**64 - 1) as made, streams(1) as (stream,):
        large = take(made, 4 * MB, stream)
        cudart.cudaFreeAsync(large, stream)
        parts = [take(made, MB, stream) for _ in range(4)]
        spans = sorted((part, part + MB) for part in parts)
        result = {
            "disjoint": all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False)),
            "used": number(made, "AttrUsedMemCurrent"),
        }
        for part in parts:
            cudart.cudaFreeAsync(part, stream)
        return result


@program("a kernel uses memory between its allocation and its free in one stream", expect=lambda v: {"out": [5]})
def used_in_order():
    warm()
    with streams(1) as (stream,), device_memory(4) as kept:
        _, pointer = cudart.cudaMallocAsync(4, stream)
        spin(stream, int(pointer), 5, 10_000_000)
        copied(stream, int(pointer), kept)
        codes = [code(cudart.cudaFreeAsync(pointer, stream)), code(cudart.cudaStreamSynchronize(stream))]
        return {"codes": codes, "out": fetched(kept, 1).tolist()}


@program("memory allocated in one stream is used in another after an event", expect=lambda v: {"out": [6]})
def used_in_another_stream():
    warm()
    with streams(1, 1) as (one, two), events(2) as (ready, done), device_memory(4) as kept:
        _, pointer = cudart.cudaMallocAsync(4, one)
        cudart.cudaEventRecord(ready, one)
        cudart.cudaStreamWaitEvent(two, ready, 0)
        store(two, int(pointer), 6)
        copied(two, int(pointer), kept)
        cudart.cudaEventRecord(done, two)
        cudart.cudaStreamWaitEvent(one, done, 0)
        codes = [code(cudart.cudaFreeAsync(pointer, one)), code(cudart.cudaStreamSynchronize(one))]
        return {"codes": codes, "out": fetched(kept, 1).tolist()}


@program("sizes that cannot be had from a pool, and no bytes")
def sizes():
    with pool() as made, streams(1) as (stream,):
        nothing = cudart.cudaMallocAsync(0, stream)
        result = {
            "nothing": [code(nothing), int(nothing[1] or 0)],
            "nothing from a pool": code(cudart.cudaMallocFromPoolAsync(0, made, stream)),
            "terabyte": code(cudart.cudaMallocAsync(1 << 40, stream)),
            "terabyte from a pool": code(cudart.cudaMallocFromPoolAsync(1 << 40, made, stream)),
            "largest": code(cudart.cudaMallocAsync(2**64 - 1, stream)),
            "last": [code(cudart.cudaGetLastError()), code(cudart.cudaGetLastError())],
            "driver": [driver.cuMemAllocAsync(size, driver.CUstream(stream))[0].name for size in (0, 1 << 40)],
        }
    return result


@program("freeing in a stream what is not there: twice, inside, null, pageable, page-locked")
def wrong_frees():
    host = np.zeros(64, np.uint8)
    with streams(1) as (stream,):
        _, pointer = cudart.cudaMallocAsync(4096, stream)
        locked = int(cudart.cudaMallocHost(64)[1])
        result = {
            "inside": code(cudart.cudaFreeAsync(int(pointer) + 512, stream)),
            "null": code(cudart.cudaFreeAsync(0, stream)),
            "pageable": code(cudart.cudaFreeAsync(host.ctypes.data, stream)),
            "page-locked": code(cudart.cudaFreeAsync(locked, stream)),
            "first": code(cudart.cudaFreeAsync(pointer, stream)),
            "again": code(cudart.cudaFreeAsync(pointer, stream)),
            "after": [code(cudart.cudaStreamSynchronize(stream)), code(cudart.cudaFreeAsync(pointer, stream))],
            "by cudaFree": code(cudart.cudaFree(pointer)),
        }
        cudart.cudaFreeHost(locked)
    cudart.cudaGetLastError()
    return result


@program("memory of cudaMalloc freed in a stream, and stream-ordered memory by cudaFree")
def crossed_frees():
    with streams(1) as (stream,):
        _, plain = cudart.cudaMalloc(4096)
        _, managed = cudart.cudaMallocManaged(4096, 1)
        _, ordered = cudart.cudaMallocAsync(4096, stream)
        result = {
            "plain": code(cudart.cudaFreeAsync(plain, stream)),
            "managed": code(cudart.cudaFreeAsync(managed, stream)),
            "ordered": code(cudart.cudaFree(ordered)),
            "sync": code(cudart.cudaStreamSynchronize(stream)),
        }
        result["then"] = [code(cudart.cudaFree(plain)), code(cudart.cudaFree(managed))]
    cudart.cudaGetLastError()
    return result


@program(
    "a pool that is destroyed while memory is out: the memory can still be used and freed",
    expect=lambda v: {"out": [4]},
)
def destroyed_with_memory_out():
    warm()
    with streams(1) as (stream,):
        _, made = cudart.cudaMemPoolCreate(properties())
        pointer = take(made, 4, stream)
        destroyed = code(cudart.cudaMemPoolDestroy(made))
        store(stream, pointer, 4)
        cudart.cudaStreamSynchronize(stream)
        out = fetched(pointer, 1).tolist()
        return {"destroy": destroyed, "out": out, "free": code(cudart.cudaFreeAsync(pointer, stream))}


@program("properties that pools cannot be made with")
def wrong_properties():
    kinds, types = cudart.cudaMemAllocationType, cudart.cudaMemLocationType

    def make(**fields):
        wanted = properties(fields.pop("device", 0))
        if "location" in fields:
            wanted.location.type = fields.pop("location")
        for name, value in fields.items():
            setattr(wanted, name, value)
        answer = cudart.cudaMemPoolCreate(wanted)
        if code(answer) == "cudaSuccess":
            cudart.cudaMemPoolDestroy(answer[1])
        return code(answer)

    result = {
        "good": make(),
        "device 99": make(device=99),
        "no type": make(allocType=kinds.cudaMemAllocationTypeInvalid),
        "no location": make(location=types.cudaMemLocationTypeInvalid),
        "largest size": make(maxSize=64 * MB),
        "none": code(cudart.cudaMemPoolCreate(None)),
    }
    cudart.cudaGetLastError()
    return result


@program("a pool with a largest size refuses more")
def largest_size():
    wanted = properties()
    wanted.maxSize = 64 * MB
    _, made = cudart.cudaMemPoolCreate(wanted)
    with streams(1) as (stream,):
        inside = cudart.cudaMallocFromPoolAsync(32 * MB, made, stream)
        beyond = cudart.cudaMallocFromPoolAsync(64 * MB, made, stream)
        result = {"inside": code(inside), "beyond": code(beyond), "last": code(cudart.cudaGetLastError())}
        cudart.cudaFreeAsync(inside[1], stream)
        cudart.cudaStreamSynchronize(stream)
    result["destroy"] = code(cudart.cudaMemPoolDestroy(made))
    return result


@program("which device may reach a pool's memory")
def access():
    flags = cudart.cudaMemAccessFlags
    with pool() as made:
        place = cudart.cudaMemLocation()
        place.type, place.id = cudart.cudaMemLocationType.cudaMemLocationTypeDevice, 0
        error, found = cudart.cudaMemPoolGetAccess(made, place)
        wanted = cudart.cudaMemAccessDesc()
        wanted.location.type, wanted.location.id = place.type, 0
        wanted.flags = flags.cudaMemAccessFlagsProtReadWrite
        result = {"get": [error.name, int(found)], "set": code(cudart.cudaMemPoolSetAccess(made, [wanted], 1))}
        wanted.flags = flags.cudaMemAccessFlagsProtNone
        result["none for its own"] = code(cudart.cudaMemPoolSetAccess(made, [wanted], 1))
        wanted.location.id = 99
        wanted.flags = flags.cudaMemAccessFlagsProtReadWrite
        result["device 99"] = code(cudart.cudaMemPoolSetAccess(made, [wanted], 1))
        place.id = 99
        result["get of 99"] = code(cudart.cudaMemPoolGetAccess(made, place))
        result["nobody"] = code(cudart.cudaMemPoolSetAccess(made, [], 0))
    cudart.cudaGetLastError()
    return result


@program("pools under the names of the driver")
def of_the_driver():
    names = driver.CUmemPool_attribute
    wanted = driver.CUmemPoolProps()
    wanted.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = 0
    error, made = driver.cuMemPoolCreate(wanted)
    with streams(1) as (number_of_stream,):
        stream = driver.CUstream(number_of_stream)

        def used():
            return int(driver.cuMemPoolGetAttribute(made, names.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)[1])

        taken, pointer = driver.cuMemAllocFromPoolAsync(MB, made, stream)
        codes = [error.name, taken.name]
        steps = [used()]
        codes.append(code(driver.cuMemFreeAsync(pointer, stream)))
        codes.append(code(driver.cuStreamSynchronize(stream)))
        steps.append(used())
        threshold = driver.cuMemPoolSetAttribute(made, names.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, driver.cuuint64_t(MB))
        codes += [code(threshold), code(driver.cuMemPoolTrimTo(made, 0))]
        steps.append(int(driver.cuMemPoolGetAttribute(made, names.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)[1]))
    default, current = (
        driver.cuDeviceGetDefaultMemPool(driver.CUdevice(0)),
        driver.cuDeviceGetMemPool(driver.CUdevice(0)),
    )
    same = int(default[1]) == int(current[1]) == int(cudart.cudaDeviceGetDefaultMemPool(0)[1])
    return {"codes": codes, "steps": steps, "same": same, "destroy": code(driver.cuMemPoolDestroy(made))}


@program("which pool memory is from")
def pool_of_a_pointer():
    name = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
    with pool() as made, streams(1) as (stream,), device_memory(64) as plain:
        pointer = take(made, 100, stream)
        cudart.cudaStreamSynchronize(stream)
        found = driver.cuPointerGetAttribute(name, driver.CUdeviceptr(pointer))
        other = driver.cuPointerGetAttribute(name, driver.CUdeviceptr(plain))
        result = {"of pool": [code(found), int(found[1]) == int(made)], "plain": [code(other), int(other[1] or 0)]}
        cudart.cudaFreeAsync(pointer, stream)
        return result


@program("CuPy's malloc_async and MemoryAsyncPool")
def of_cupy():
    own = cp.cuda.MemoryAsyncPool()
    before = own.used_bytes()
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        pointer = cp.cuda.malloc_async(1000)
        used = [own.used_bytes() - before, own.total_bytes() >= own.used_bytes()]
        with cp.cuda.using_allocator(own.malloc):
            array = cp.arange(100)
            total = int(array.sum())
            kind = type(array.data.mem).__name__
        stream.synchronize()
    result = {
        "type": type(pointer.mem).__name__,
        "size": pointer.mem.size,
        "used": used,
        "sum": total,
        "kind": kind,
        "stat": own.memoryAsyncHasStat,
        "limit": raised(own.get_limit),
        "blocks": raised(own.n_free_blocks),
    }
    del pointer, array
    stream.synchronize()
    result["free"] = raised(own.free_all_blocks)
    result["then"] = [own.used_bytes() - before, own.free_bytes() >= 0]
    return result


@program("pools under CuPy's names")
def runtime_of_cupy():
    runtime = cp.cuda.runtime
    made = runtime.memPoolCreate(
        runtime.MemPoolProps(
            runtime.cudaMemAllocationTypePinned, runtime.cudaMemHandleTypeNone, runtime.cudaMemLocationTypeDevice, 0
        )
    )
    stream = cp.cuda.Stream(non_blocking=True)
    pointer = runtime.mallocFromPoolAsync(MB, made, stream.ptr)
    used = [runtime.memPoolGetAttribute(made, runtime.cudaMemPoolAttrUsedMemCurrent)]
    runtime.freeAsync(pointer, stream.ptr)
    stream.synchronize()
    used.append(runtime.memPoolGetAttribute(made, runtime.cudaMemPoolAttrUsedMemCurrent))
    runtime.memPoolSetAttribute(made, runtime.cudaMemPoolAttrReleaseThreshold, 5 * MB)
    return {
        "used": used,
        "threshold": runtime.memPoolGetAttribute(made, runtime.cudaMemPoolAttrReleaseThreshold),
        "trim": raised(lambda: runtime.memPoolTrimTo(made, 0)),
        "default": runtime.deviceGetDefaultMemPool(0) == runtime.deviceGetMemPool(0),
        "set": raised(lambda: runtime.deviceSetMemPool(0, runtime.deviceGetDefaultMemPool(0))),
        "bad attribute": raised(lambda: runtime.memPoolGetAttribute(made, 99)),
        "destroy": raised(lambda: runtime.memPoolDestroy(made)),
    }
