"""Device memory under the names of runtime and driver: sizes, addresses, attributes, frees that cross over."""

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import device_memory, pinned_memory, seen
from ..program import code, program, raised

ATTRIBUTE = driver.CUpointer_attribute


@program("sizes of the driver's allocations: nothing, far too much")
def sizes_of_the_driver():
    return {
        "nothing": driver.cuMemAlloc(0)[0].name,
        "largest": driver.cuMemAlloc(2**64 - 1)[0].name,
        "terabyte": driver.cuMemAlloc(1 << 40)[0].name,
        "pitched nothing": driver.cuMemAllocPitch(0, 4, 4)[0].name,
        "pitched element": [driver.cuMemAllocPitch(16, 4, size)[0].name for size in (1, 2, 3, 32)],
        "managed nothing": driver.cuMemAllocManaged(0, 1)[0].name,
        "free null": code(driver.cuMemFree(driver.CUdeviceptr(0))),
        "last of the runtime": code(cudart.cudaGetLastError()),
    }


@program("memory of the driver freed by the runtime, and the other way round")
def crossed_frees():
    _, of_driver = driver.cuMemAlloc(64)
    _, of_runtime = cudart.cudaMalloc(64)
    _, host_of_driver = driver.cuMemAllocHost(64)
    _, host_of_runtime = cudart.cudaMallocHost(64)
    return {
        "driver's": code(cudart.cudaFree(int(of_driver))),
        "runtime's": code(driver.cuMemFree(driver.CUdeviceptr(int(of_runtime)))),
        "driver's host": code(cudart.cudaFreeHost(int(host_of_driver))),
        "runtime's host": code(driver.cuMemFreeHost(int(host_of_runtime))),
        "again": [code(cudart.cudaFree(int(of_driver))), code(driver.cuMemFree(of_driver))],
        "last": code(cudart.cudaGetLastError()),
    }


@program("the range of an allocation: from the start, inside, past its end, of host memory, freed")
def address_range():
    def ask(address):
        error, base, size = driver.cuMemGetAddressRange(driver.CUdeviceptr(address))
        return [error.name, None if base is None else address - int(base), None if size is None else int(size)]

    host = np.zeros(64, np.uint8)
    pointer = int(cudart.cudaMalloc(4 << 20)[1])
    result = {"start": ask(pointer), "inside": ask(pointer + 12345), "last": ask(pointer + (4 << 20) - 1)}
    cudart.cudaFree(pointer)
    result["freed"] = ask(pointer)[0]
    small = int(cudart.cudaMalloc(100)[1])
    result["small"] = ask(small)
    cudart.cudaFree(small)
    with pinned_memory(4096) as (locked, _):
        result["page-locked"] = ask(locked + 5)
    result["pageable"] = ask(host.ctypes.data)[0]
    result["null"] = ask(0)[0]
    return result


def attribute_of(address, name):
    """The code, and the value as a number where there is one."""
    error, value = driver.cuPointerGetAttribute(
        getattr(ATTRIBUTE, f"CU_POINTER_ATTRIBUTE_{name}"), driver.CUdeviceptr(address)
    )
    if error.name != "CUDA_SUCCESS" or value is None:
        return [error.name]
    return [error.name, int(value)]


@program("pointer attributes of the driver, for each kind of memory")
def pointer_attributes():
    managed = int(cudart.cudaMallocManaged(4096, 1)[1])
    host = np.zeros(64, np.uint8)
    result = {}
    with device_memory(4096) as device, pinned_memory(4096) as (locked, _):
        for kind, base in (
            ("device", device),
            ("page-locked", locked),
            ("managed", managed),
            ("pageable", host.ctypes.data),
        ):
            address = base + 16
            found = {
                name: attribute_of(address, name)
                for name in ("MEMORY_TYPE", "IS_MANAGED", "DEVICE_ORDINAL", "MAPPED", "RANGE_SIZE", "SYNC_MEMOPS")
            }
            for name, relative in (("DEVICE_POINTER", address), ("HOST_POINTER", address), ("RANGE_START_ADDR", base)):
                answer = attribute_of(address, name)
                found[name] = [answer[0], answer[1] == relative] if len(answer) > 1 else answer
            result[kind] = found
    cudart.cudaFree(managed)
    return result


@program("pointer attributes of the driver: the context, and ids of buffers")
def buffer_ids():
    with device_memory(64) as one, device_memory(64) as two, pinned_memory(64) as (locked, _):
        ids = [attribute_of(address, "BUFFER_ID") for address in (one, one + 8, two, locked)]
        context = attribute_of(one, "CONTEXT")
        return {
            "codes": [answer[0] for answer in ids],
            "same buffer": ids[0] == ids[1],
            "another": len({answer[-1] for answer in ids}) == 3,
            "context": [context[0], context[-1] == int(driver.cuCtxGetCurrent()[1])],
            "null": attribute_of(0, "MEMORY_TYPE"),
        }


@program("several pointer attributes in one call, also of memory that CUDA does not know")
def several_attributes():
    names = [
        ATTRIBUTE.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        ATTRIBUTE.CU_POINTER_ATTRIBUTE_IS_MANAGED,
        ATTRIBUTE.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    ]
    host = np.zeros(64, np.uint8)
    managed = int(cudart.cudaMallocManaged(4096, 1)[1])
    result = {}
    with device_memory(64) as device, pinned_memory(64) as (locked, _):
        for kind, address in (
            ("device", device),
            ("page-locked", locked),
            ("managed", managed),
            ("pageable", host.ctypes.data),
            ("null", 0),
        ):
            error, values = driver.cuPointerGetAttributes(len(names), names, driver.CUdeviceptr(address))
            result[kind] = [error.name, [int(value) for value in values] if values is not None else None]
    cudart.cudaFree(managed)
    return result


@program("memory that is allocated is not part of the free memory, and comes back")
def accounting():
    _, before, total = cudart.cudaMemGetInfo()
    pointers = [int(cudart.cudaMalloc(16 << 20)[1]) for _ in range(3)]
    during = int(cudart.cudaMemGetInfo()[1])
    for pointer in pointers:
        cudart.cudaFree(pointer)
    driver_total = int(driver.cuMemGetInfo()[2])
    return {
        "shrunk": before - during >= 3 * (16 << 20),
        "driver": driver_total == int(total),
        "device": int(driver.cuDeviceTotalMem(driver.CUdevice(0))[1]) == int(total),
        "cupy": cp.cuda.Device(0).mem_info[1] == int(total),
        "properties": int(cudart.cudaGetDeviceProperties(0)[1].totalGlobalMem) == int(total),
    }


@program("memory of CuPy without a pool: sizes, frees, arrays on it")
def memory_of_cupy():
    memory = cp.cuda.Memory(1000)
    array = cp.ndarray((250,), cp.int32, cp.cuda.MemoryPointer(memory, 0))
    array[:] = 3
    pointer = array.data.ptr
    return {
        "size": memory.size,
        "same": memory.ptr == pointer,
        "sum": int(array.sum()),
        "kind": int(cp.cuda.runtime.pointerGetAttributes(pointer).type),
        "nothing": [cp.cuda.Memory(0).ptr, cp.cuda.Memory(0).size],
        "too much": raised(lambda: cp.cuda.Memory(1 << 40)),
        "alignment": pointer % 256,
    }


@program("asynchronous copies and sets of CuPy's memory pointers")
def pointer_copies_of_cupy():
    stream = cp.cuda.Stream(non_blocking=True)
    host = cp.cuda.alloc_pinned_memory(64)
    view = np.frombuffer(host, np.uint8, 64)
    view[:] = np.arange(64)
    a, b = cp.cuda.alloc(64), cp.cuda.alloc(64)
    a.copy_from_host_async(host.ptr, 64, stream)
    b.memset_async(9, 64, stream)
    b.copy_from_device_async(a + 16, 16, stream)
    (b + 32).copy_from_async(a + 48, 16, stream)
    back = cp.cuda.alloc_pinned_memory(64)
    b.copy_to_host_async(back.ptr, 64, stream)
    stream.synchronize()
    return {"out": seen(back.ptr, 64).copy()}
