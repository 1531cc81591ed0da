"""Which calls wait for work that is under way, and for which streams: behind a kernel that spins."""

import contextlib

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import device_memory, pinned_memory, waiting
from ..program import code, program

KIND = cudart.cudaMemcpyKind
MODULE = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n\0"


def copying(copy, *arguments):
    """``waiting`` for a copy with those arguments."""
    return waiting(lambda: copy(*arguments))


@contextlib.contextmanager
def pageable(size):
    """Ordinary host memory: the address."""
    array = np.zeros(size, np.uint8)
    yield array.ctypes.data


@program("cudaMalloc, of a little and of much")
def malloc():
    made = []

    def take(size):
        answer = cudart.cudaMalloc(size)
        made.append(int(answer[1]))
        return answer

    take(256)
    result = {"256 bytes": waiting(lambda: take(256)), "8 MB": waiting(lambda: take(8 << 20))}
    for pointer in made:
        cudart.cudaFree(pointer)
    return result


@program("cudaFree, of a little and of much")
def free():
    small = [int(cudart.cudaMalloc(256)[1]) for _ in range(4)]
    large = [int(cudart.cudaMalloc(8 << 20)[1]) for _ in range(3)]
    result = {
        "256 bytes": waiting(lambda: cudart.cudaFree(small.pop())),
        "8 MB": waiting(lambda: cudart.cudaFree(large.pop())),
        "null": waiting(lambda: cudart.cudaFree(0)),
    }
    cudart.cudaFree(small.pop())
    return result


@program("cudaHostAlloc and cudaFreeHost")
def page_locked():
    made = []

    def take():
        answer = cudart.cudaHostAlloc(1 << 20, 0)
        made.append(int(answer[1]))
        return answer

    take()
    return {"alloc": waiting(take), "free": waiting(lambda: cudart.cudaFreeHost(made.pop())), "left": len(made)}


@program("cudaHostRegister and cudaHostUnregister")
def registered():
    array = np.zeros(16 << 12, np.uint8)
    start = (array.ctypes.data + 4095) // 4096 * 4096
    places = [start + 4 * 4096 * i for i in range(3)]
    todo, done = list(places), list(places)
    return {
        "register": waiting(lambda: cudart.cudaHostRegister(todo.pop(), 4096, 0)),
        "unregister": waiting(lambda: cudart.cudaHostUnregister(done.pop())),
    }


@program("cudaMallocManaged and freeing managed memory")
def managed():
    made = []

    def take():
        answer = cudart.cudaMallocManaged(1 << 16, 1)
        made.append(int(answer[1]))
        return answer

    take()
    result = {"alloc": waiting(take), "free": waiting(lambda: cudart.cudaFree(made.pop()))}
    cudart.cudaFree(made.pop())
    return result


@program("cudaMemset of device memory")
def memset():
    with device_memory(1 << 20) as memory:
        return {
            "plain": waiting(lambda: cudart.cudaMemset(memory, 1, 1 << 20)),
            "async": waiting(lambda: cudart.cudaMemsetAsync(memory, 1, 1 << 20, 0)),
            "2D": waiting(lambda: cudart.cudaMemset2D(memory, 1024, 1, 512, 64)),
        }


@program("cudaMemset of page-locked memory")
def memset_of_page_locked():
    with pinned_memory(4096) as (pointer, _):
        return {
            "plain": waiting(lambda: cudart.cudaMemset(pointer, 1, 4096)),
            "async": waiting(lambda: cudart.cudaMemsetAsync(pointer, 1, 4096, 0)),
        }


@program("cudaMemset of managed memory")
def memset_of_managed():
    pointer = int(cudart.cudaMallocManaged(4096, 1)[1])
    result = {
        "plain": waiting(lambda: cudart.cudaMemset(pointer, 1, 4096)),
        "async": waiting(lambda: cudart.cudaMemsetAsync(pointer, 1, 4096, 0)),
    }
    cudart.cudaFree(pointer)
    return result


@program("cudaMemcpy within the device")
def copy_within_the_device():
    with device_memory(8192) as memory:
        return {
            "plain": waiting(lambda: cudart.cudaMemcpy(memory, memory + 4096, 4096, KIND.cudaMemcpyDeviceToDevice)),
            "async": waiting(
                lambda: cudart.cudaMemcpyAsync(memory, memory + 4096, 4096, KIND.cudaMemcpyDeviceToDevice, 0)
            ),
            "peer": waiting(lambda: cudart.cudaMemcpyPeer(memory, 0, memory + 4096, 0, 4096)),
        }


@program("cudaMemcpy from pageable memory, by size")
def copy_from_pageable():
    result = {}
    for size in (16, 65536, 65537, 1 << 20):
        with device_memory(size) as memory, pageable(size) as host:
            result[str(size)] = copying(cudart.cudaMemcpy, memory, host, size, KIND.cudaMemcpyHostToDevice)
    return result


@program("cudaMemcpyAsync from pageable memory, by size, in the null stream")
def copy_from_pageable_async():
    result = {}
    for size in (16, 65536, 65537, 1 << 20):
        with device_memory(size) as memory, pageable(size) as host:
            result[str(size)] = copying(cudart.cudaMemcpyAsync, memory, host, size, KIND.cudaMemcpyHostToDevice, 0)
    return result


@program("cudaMemcpy and cudaMemcpyAsync to pageable memory")
def copy_to_pageable():
    result = {}
    for size in (16, 1 << 20):
        with device_memory(size) as memory, pageable(size) as host:
            result[str(size)] = [
                copying(cudart.cudaMemcpy, host, memory, size, KIND.cudaMemcpyDeviceToHost),
                copying(cudart.cudaMemcpyAsync, host, memory, size, KIND.cudaMemcpyDeviceToHost, 0),
            ]
    return result


@program("cudaMemcpy and cudaMemcpyAsync from page-locked memory")
def copy_from_page_locked():
    with device_memory(4096) as memory, pinned_memory(4096) as (host, _):
        return {
            "plain": waiting(lambda: cudart.cudaMemcpy(memory, host, 4096, KIND.cudaMemcpyHostToDevice)),
            "async": waiting(lambda: cudart.cudaMemcpyAsync(memory, host, 4096, KIND.cudaMemcpyHostToDevice, 0)),
        }


@program("cudaMemcpy and cudaMemcpyAsync to page-locked memory")
def copy_to_page_locked():
    with device_memory(4096) as memory, pinned_memory(4096) as (host, _):
        return {
            "plain": waiting(lambda: cudart.cudaMemcpy(host, memory, 4096, KIND.cudaMemcpyDeviceToHost)),
            "async": waiting(lambda: cudart.cudaMemcpyAsync(host, memory, 4096, KIND.cudaMemcpyDeviceToHost, 0)),
        }


@program("copies within the host, pageable and page-locked")
def copy_within_the_host():
    kind = KIND.cudaMemcpyHostToHost
    with pageable(4096) as one, pageable(4096) as two, pinned_memory(8192) as (locked, _):
        return {
            "plain": waiting(lambda: cudart.cudaMemcpy(one, two, 4096, kind)),
            "async": waiting(lambda: cudart.cudaMemcpyAsync(one, two, 4096, kind, 0)),
            "plain, page-locked": waiting(lambda: cudart.cudaMemcpy(locked, locked + 4096, 4096, kind)),
            "async, page-locked": waiting(lambda: cudart.cudaMemcpyAsync(locked, locked + 4096, 4096, kind, 0)),
            "async, one page-locked": waiting(lambda: cudart.cudaMemcpyAsync(locked, one, 4096, kind, 0)),
        }


@program("copies between managed memory and the host or the device")
def copy_of_managed():
    pointer = int(cudart.cudaMallocManaged(4096, 1)[1])
    with pageable(4096) as host, device_memory(4096) as memory:
        result = {
            "from pageable": waiting(lambda: cudart.cudaMemcpyAsync(pointer, host, 4096, KIND.cudaMemcpyDefault, 0)),
            "to pageable": waiting(lambda: cudart.cudaMemcpyAsync(host, pointer, 4096, KIND.cudaMemcpyDefault, 0)),
            "to device": waiting(lambda: cudart.cudaMemcpyAsync(memory, pointer, 4096, KIND.cudaMemcpyDefault, 0)),
            "from device": waiting(lambda: cudart.cudaMemcpyAsync(pointer, memory, 4096, KIND.cudaMemcpyDefault, 0)),
            "plain, to device": waiting(lambda: cudart.cudaMemcpy(memory, pointer, 4096, KIND.cudaMemcpyDefault)),
            "plain, from device": waiting(lambda: cudart.cudaMemcpy(pointer, memory, 4096, KIND.cudaMemcpyDefault)),
        }
    cudart.cudaFree(pointer)
    return result


@program("2-D copies between pageable memory and the device")
def copy_2d():
    with device_memory(4096) as memory, pageable(4096) as host:
        to, back = KIND.cudaMemcpyHostToDevice, KIND.cudaMemcpyDeviceToHost
        return {
            "in": waiting(lambda: cudart.cudaMemcpy2D(memory, 64, host, 64, 32, 64, to)),
            "in, async": waiting(lambda: cudart.cudaMemcpy2DAsync(memory, 64, host, 64, 32, 64, to, 0)),
            "out": waiting(lambda: cudart.cudaMemcpy2D(host, 64, memory, 64, 32, 64, back)),
            "out, async": waiting(lambda: cudart.cudaMemcpy2DAsync(host, 64, memory, 64, 32, 64, back, 0)),
        }


@program("copies of no bytes")
def copy_of_nothing():
    with device_memory(64) as memory, pageable(64) as host:
        return {
            "in": waiting(lambda: cudart.cudaMemcpy(memory, host, 0, KIND.cudaMemcpyHostToDevice)),
            "out": waiting(lambda: cudart.cudaMemcpy(host, memory, 0, KIND.cudaMemcpyDeviceToHost)),
            "set": waiting(lambda: cudart.cudaMemset(memory, 0, 0)),
        }


@program("a call that fails does not wait")
def failing_calls():
    with device_memory(64) as memory, pageable(64) as host:
        return {
            "copy": waiting(lambda: cudart.cudaMemcpy(host, 0, 16, KIND.cudaMemcpyDeviceToHost)),
            "free": waiting(lambda: cudart.cudaFree(memory + 16)),
            "set": waiting(lambda: cudart.cudaMemset(0, 0, 16)),
            "last": code(cudart.cudaGetLastError()),
        }


@program("stream-ordered allocation and freeing")
def stream_ordered():
    made = []

    def take():
        answer = cudart.cudaMallocAsync(4096, 0)
        made.append(int(answer[1]))
        return answer

    take()
    result = {"malloc": waiting(take), "free": waiting(lambda: cudart.cudaFreeAsync(made.pop(), 0))}
    cudart.cudaFreeAsync(made.pop(), 0)
    return result


@program("cudaFree of memory from cudaMallocAsync")
def free_of_stream_ordered():
    made = [int(cudart.cudaMallocAsync(4096, 0)[1]) for _ in range(3)]
    return {"free": waiting(lambda: cudart.cudaFree(made.pop()))}


@program("creating and destroying streams and events")
def handles():
    streams, events = [], []

    def make_stream():
        answer = cudart.cudaStreamCreate()
        streams.append(answer[1])
        return answer

    def make_event():
        answer = cudart.cudaEventCreate()
        events.append(answer[1])
        return answer

    return {
        "create stream": waiting(make_stream),
        "destroy stream": waiting(lambda: cudart.cudaStreamDestroy(streams.pop())),
        "create event": waiting(make_event),
        "destroy event": waiting(lambda: cudart.cudaEventDestroy(events.pop())),
    }


@program("questions about memory and the device")
def questions():
    with device_memory(64) as memory:
        return {
            "memory": waiting(cudart.cudaMemGetInfo),
            "pointer": waiting(lambda: cudart.cudaPointerGetAttributes(memory)),
            "last error": waiting(cudart.cudaGetLastError),
            "limit": waiting(lambda: cudart.cudaDeviceGetLimit(cudart.cudaLimit.cudaLimitStackSize)),
        }


@program("loading and unloading modules")
def modules():
    loaded = []

    def load():
        answer = driver.cuModuleLoadData(MODULE)
        loaded.append(answer[1])
        return answer

    load()
    result = {"load": waiting(load), "unload": waiting(lambda: driver.cuModuleUnload(loaded.pop()))}
    driver.cuModuleUnload(loaded.pop())
    return result


@program("loading a module that has variables, and copying to one")
def module_variables():
    source = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .u32 number = 7;\n\0"
    loaded = []

    def load():
        answer = driver.cuModuleLoadData(source)
        loaded.append(answer[1])
        return answer

    load()
    found = driver.cuModuleGetGlobal(loaded[0], b"number")
    host = np.zeros(1, np.uint32)
    result = {
        "load": waiting(load),
        "get": waiting(lambda: driver.cuModuleGetGlobal(loaded[0], b"number")),
        "copy": waiting(lambda: driver.cuMemcpyHtoD(found[1], host.ctypes.data, 4)),
        "unload": waiting(lambda: driver.cuModuleUnload(loaded.pop())),
    }
    driver.cuModuleUnload(loaded.pop())
    return result


@program("CuPy: taking from and giving back to its pool, and emptying it")
def pool_of_cupy():
    pool = cp.cuda.MemoryPool()
    kept = [pool.malloc(1 << 20)]
    result = {
        "lend again": waiting(lambda: str(bool(pool.malloc(1 << 20)))),
        "give back": waiting(lambda: str(kept.clear())),
        "empty": waiting(lambda: str(pool.free_all_blocks())),
    }
    return result


@program("CuPy: reading a value, an array, and printing one")
def reading_of_cupy():
    a = cp.arange(4)
    cp.cuda.Device().synchronize()
    str(a), a.get(), int(a[1]), a.sum(), cp.asarray(np.arange(4))
    return {
        "item": waiting(lambda: int(a[1])),
        "get": waiting(lambda: str(a.get().tolist())),
        "print": waiting(lambda: str(a)),
        "sum": waiting(lambda: str(type(a.sum()).__name__)),
        "asarray": waiting(lambda: str(cp.asarray(np.arange(4)).shape)),
    }
