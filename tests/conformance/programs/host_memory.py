"""Page-locked and registered host memory: flags, addresses, overlaps, attributes."""

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import copied, device_memory, fetched, pinned_memory, seen, store
from ..program import code, program

PAGE = 4096


def pages(count):
    """Host memory that starts at a page: the array that keeps it alive, and the address."""
    array = np.zeros((count + 1) * PAGE, np.uint8)
    return array, (array.ctypes.data + PAGE - 1) // PAGE * PAGE


def attributes_of(pointer):
    error, found = cudart.cudaPointerGetAttributes(pointer)
    return [
        error.name,
        found.type.name,
        int(found.device),
        "same" if int(found.devicePointer or 0) == int(pointer) else "none" if not found.devicePointer else "other",
        "same" if int(found.hostPointer or 0) == int(pointer) else "none" if not found.hostPointer else "other",
    ]


@program("flags of page-locked memory: what is accepted, and what is said afterwards")
def allocation_flags():
    result = {}
    for flags in (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 0x80000000):
        error, pointer = cudart.cudaHostAlloc(PAGE, flags)
        result[str(flags)] = error.name
        if error.name == "cudaSuccess":
            answer = cudart.cudaHostGetFlags(pointer)
            result[str(flags)] += f" {code(answer)} {int(answer[1])} {code(cudart.cudaFreeHost(pointer))}"
    cudart.cudaGetLastError()
    return result


@program("sizes of page-locked memory: nothing, and far too much")
def allocation_sizes():
    nothing = cudart.cudaHostAlloc(0, 0)
    return {
        "nothing": [code(nothing), int(nothing[1] or 0)],
        "malloc nothing": code(cudart.cudaMallocHost(0)),
        "largest": code(cudart.cudaMallocHost(2**64 - 1)),
        "last": code(cudart.cudaGetLastError()),
    }


@program("write-combining memory can be read and written by the host and the device", expect=lambda v: {"out": [3, 8]})
def write_combining():
    with pinned_memory(8, cudart.cudaHostAllocWriteCombined) as (pointer, _):
        values = seen(pointer, 8, np.int32)
        values[0] = 3
        store(0, pointer + 4, 8)
        cudart.cudaDeviceSynchronize()
        return {"out": values.tolist()}


@program("flags of registration: what is accepted, and what is said afterwards")
def registration_flags():
    kept, start = pages(1)
    result = {}
    for flags in (0, 1, 2, 3, 16, 32, 0x80000000):
        registered = code(cudart.cudaHostRegister(start, PAGE, flags))
        result[str(flags)] = [registered]
        if registered == "cudaSuccess":
            answer = cudart.cudaHostGetFlags(start)
            result[str(flags)] += [code(answer), int(answer[1]), code(cudart.cudaHostUnregister(start))]
    cudart.cudaGetLastError()
    del kept
    return result


@program("registering what overlaps registered memory, in each way")
def overlapping_registration():
    kept, start = pages(8)

    def register(first, count):
        return code(cudart.cudaHostRegister(start + first * PAGE, count * PAGE, 0))

    result = {
        "first": register(2, 3),
        "same": register(2, 3),
        "inside": register(3, 1),
        "front": register(1, 2),
        "back": register(4, 2),
        "around": register(1, 6),
        "beside": register(5, 1),
        "before": register(1, 1),
    }
    result["unregister inside"] = code(cudart.cudaHostUnregister(start + 3 * PAGE))
    result["unregister"] = [code(cudart.cudaHostUnregister(start + page * PAGE)) for page in (2, 5, 1, 2)]
    cudart.cudaGetLastError()
    del kept
    return result


@program("registering memory that does not start or end at a page")
def unaligned_registration():
    kept, start = pages(3)
    result = {
        "register": code(cudart.cudaHostRegister(start + 100, 1000, 0)),
        "inside": attributes_of(start + 100),
        "last byte": attributes_of(start + 1099),
        "same page": attributes_of(start + 8)[1],
        "copy": code(cudart.cudaHostUnregister(start)),
        "unregister": code(cudart.cudaHostUnregister(start + 100)),
    }
    cudart.cudaGetLastError()
    del kept
    return result


@program("registering memory that CUDA owns")
def registering_cuda_memory():
    managed = int(cudart.cudaMallocManaged(PAGE, 1)[1])
    with pinned_memory(PAGE) as (locked, _), device_memory(PAGE) as device:
        result = {
            "page-locked": code(cudart.cudaHostRegister(locked, PAGE, 0)),
            "device": code(cudart.cudaHostRegister(device, PAGE, 0)),
            "managed": code(cudart.cudaHostRegister(managed, PAGE, 0)),
            "unregister page-locked": code(cudart.cudaHostUnregister(locked)),
            "unregister device": code(cudart.cudaHostUnregister(device)),
        }
    cudart.cudaGetLastError()
    cudart.cudaFree(managed)
    return result


@program("unregistering and freeing what is not there")
def unregistering_nothing():
    kept, start = pages(1)
    cudart.cudaHostRegister(start, PAGE, 0)
    result = {
        "free registered": code(cudart.cudaFreeHost(start)),
        "free as device": code(cudart.cudaFree(start)),
        "unregister": code(cudart.cudaHostUnregister(start)),
        "again": code(cudart.cudaHostUnregister(start)),
        "null": code(cudart.cudaHostUnregister(0)),
        "last": code(cudart.cudaGetLastError()),
    }
    del kept
    return result


@program("kernels read and write registered memory", expect=lambda v: {"out": [5, 5, 9]})
def kernels_on_registered():
    kept, start = pages(1)
    values = seen(start, 12, np.int32)
    values[:] = 5, 0, 0
    codes = [code(cudart.cudaHostRegister(start, PAGE, cudart.cudaHostRegisterMapped))]
    error, device = cudart.cudaHostGetDevicePointer(start, 0)
    copied(0, int(device), int(device) + 4)
    store(0, int(device) + 8, 9)
    codes += [error.name, code(cudart.cudaDeviceSynchronize()), code(cudart.cudaHostUnregister(start))]
    out = values.tolist()
    del kept
    return {"codes": codes, "same": int(device) == start, "out": out}


@program("the device's address of host memory: inside, wrong flags, pageable, freed, null, device memory")
def device_pointers():
    host = np.zeros(64, np.uint8)
    pointer = int(cudart.cudaHostAlloc(PAGE, 0)[1])

    def ask(address, flags=0):
        error, found = cudart.cudaHostGetDevicePointer(address, flags)
        return [error.name, int(found or 0) == address]

    with device_memory(64) as device:
        result = {
            "start": ask(pointer),
            "inside": ask(pointer + 100),
            "flags": ask(pointer, 1)[0],
            "pageable": ask(host.ctypes.data)[0],
            "device": ask(device)[0],
            "null": ask(0)[0],
        }
    cudart.cudaFreeHost(pointer)
    result["freed"] = ask(pointer)[0]
    cudart.cudaGetLastError()
    return result


@program("flags of host memory: inside an allocation, of pageable, device and freed memory")
def flags_of_addresses():
    host = np.zeros(64, np.uint8)
    pointer = int(cudart.cudaHostAlloc(PAGE, cudart.cudaHostAllocWriteCombined)[1])

    def ask(address):
        error, flags = cudart.cudaHostGetFlags(address)
        return f"{error.name} {flags}" if error.name == "cudaSuccess" else error.name

    with device_memory(64) as device:
        result = {
            "start": ask(pointer),
            "inside": ask(pointer + 100),
            "pageable": ask(host.ctypes.data),
            "device": ask(device),
            "null": ask(0),
        }
    cudart.cudaFreeHost(pointer)
    result["freed"] = ask(pointer)
    cudart.cudaGetLastError()
    return result


@program("attributes of addresses: each kind of memory, inside it, null, freed")
def attributes():
    kept, start = pages(1)
    cudart.cudaHostRegister(start, PAGE, 0)
    managed = int(cudart.cudaMallocManaged(PAGE, 1)[1])
    ordered = int(cudart.cudaMallocAsync(PAGE, 0)[1])
    cudart.cudaDeviceSynchronize()
    result = {}
    with pinned_memory(PAGE) as (locked, _), device_memory(PAGE) as device:
        places = {
            "device": device, "page-locked": locked, "registered": start, "managed": managed, "stream-ordered": ordered,
        }  # fmt: skip
        for name, place in places.items():
            result[name] = [attributes_of(place), attributes_of(place + 64)]
    result["null"] = attributes_of(0)
    result["pageable"] = attributes_of(kept.ctypes.data)[:2]
    cudart.cudaHostUnregister(start)
    result["unregistered"] = attributes_of(start)[:3]
    cudart.cudaFree(managed), cudart.cudaFreeAsync(ordered, 0)
    cudart.cudaDeviceSynchronize()
    return result


@program("page-locked memory of CuPy: flags, sizes, offsets, copies through it")
def of_cupy():
    memory = cp.cuda.PinnedMemory(1000, cp.cuda.runtime.hostAllocWriteCombined)
    pointer = cp.cuda.PinnedMemoryPointer(memory, 0)
    inside = pointer + 100
    host = np.frombuffer(pointer, np.uint8, 1000)
    host[:] = 4
    device = cp.empty(1000, cp.uint8)
    device.data.copy_from_host(pointer.ptr, 1000)
    return {
        "size": [memory.size, pointer.size(), inside.size(), inside.ptr - pointer.ptr],
        "flags": int(cudart.cudaHostGetFlags(memory.ptr)[1]),
        "sum": int(device.sum()),
        "pinned": [
            cp.cuda.pinned_memory.is_memory_pinned(pointer.ptr),
            cp.cuda.pinned_memory.is_memory_pinned(np.zeros(4).ctypes.data),
        ],
    }


@program("registration under CuPy's names")
def registration_of_cupy():
    from ..program import raised

    runtime = cp.cuda.runtime
    kept, start = pages(1)
    runtime.hostRegister(start, PAGE, 0)
    result = {
        "again": raised(lambda: runtime.hostRegister(start, PAGE, 0)),
        "type": int(runtime.pointerGetAttributes(start).type),
        "pinned": cp.cuda.pinned_memory.is_memory_pinned(start),
        "unregister": raised(lambda: runtime.hostUnregister(start)),
        "unregister again": raised(lambda: runtime.hostUnregister(start)),
    }
    del kept
    return result


@program("page-locked memory of the driver: flags and errors")
def of_the_driver():
    result = {}
    for flags in (0, 1, 2, 4, 8):
        error, pointer = driver.cuMemHostAlloc(64, flags)
        result[str(flags)] = error.name
        if error.name == "CUDA_SUCCESS":
            result[str(flags)] += f" {int(driver.cuMemHostGetFlags(pointer)[1])} {code(driver.cuMemFreeHost(pointer))}"
    _, pointer = driver.cuMemAllocHost(64)
    result["device pointer"] = int(driver.cuMemHostGetDevicePointer(pointer, 0)[1]) == int(pointer)
    result["free"] = [code(driver.cuMemFreeHost(pointer)), code(driver.cuMemFreeHost(pointer))]
    result["nothing"] = [driver.cuMemAllocHost(0)[0].name, driver.cuMemHostAlloc(0, 0)[0].name]
    kept, start = pages(1)
    result["register"] = [
        code(driver.cuMemHostRegister(start, PAGE, 0)),
        code(driver.cuMemHostRegister(start, PAGE, 0)),
    ]
    result["unregister"] = [code(driver.cuMemHostUnregister(start)), code(driver.cuMemHostUnregister(start))]
    del kept
    return result


@program(
    "a value that the host writes into mapped memory reaches the next kernel without a copy",
    expect=lambda v: {"out": [1, 2]},
)
def no_copy_needed():
    out = []
    with pinned_memory(4, cudart.cudaHostAllocMapped) as (pointer, _), device_memory(4) as memory:
        value = seen(pointer, 4, np.int32)
        for number in (1, 2):
            value[0] = number
            copied(0, pointer, memory)
            out += fetched(memory, 1).tolist()
    return {"out": out}
