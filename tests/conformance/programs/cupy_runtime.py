"""``cp.cuda.runtime``: the same calls under CuPy's names, which raise ``CUDARuntimeError``; devices; pinned memory."""

import numpy as np

from cudalab import cp

from ..program import program, raised

runtime = cp.cuda.runtime


@program(
    "malloc, memcpy, memset and free with plain integers",
    expect=lambda v: {"out": np.concatenate([np.full(8, 0x05050505, np.int32), v["x"][8:]])},
)
def plain_calls():
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    pointer = runtime.malloc(128)
    runtime.memcpy(pointer, x.ctypes.data, 128, runtime.memcpyHostToDevice)
    runtime.memset(pointer, 5, 32)
    runtime.memcpy(out.ctypes.data, pointer, 128, runtime.memcpyDeviceToHost)
    runtime.free(pointer)
    return {"x": x, "out": out, "type": type(pointer).__name__, "kinds": [int(runtime.memcpyDefault)]}


@program("errors are exceptions with a code, and are RuntimeErrors")
def exceptions():
    pointer = runtime.malloc(64)
    host = np.zeros(4)
    result = {
        "too much": raised(lambda: runtime.malloc(1 << 40)),
        "free of the middle": raised(lambda: runtime.free(pointer + 1)),
        "host": raised(lambda: runtime.free(host.ctypes.data)),
        "device 99": raised(lambda: runtime.setDevice(99)),
        "null memset": raised(lambda: runtime.memset(0, 0, 4)),
        "is RuntimeError": issubclass(runtime.CUDARuntimeError, RuntimeError),
        "freed": raised(lambda: runtime.free(pointer)),
        "double free": raised(lambda: runtime.free(pointer)),
        "name": runtime.CUDARuntimeError(2).args[0] if runtime.CUDARuntimeError(2).args else "",
    }
    from cudalab import cudart

    cudart.cudaGetLastError()
    return result


@program("facts about the device under CuPy's names")
def device_facts():
    device = cp.cuda.Device(0)
    properties = runtime.getDeviceProperties(0)
    name = properties["name"]
    keys = """maxThreadsPerBlock maxThreadsDim maxGridSize warpSize sharedMemPerBlock sharedMemPerBlockOptin
    regsPerBlock
        multiProcessorCount major minor totalConstMem l2CacheSize unifiedAddressing managedMemory
        maxThreadsPerMultiProcessor""".split()
    return {
        "name": name.decode() if isinstance(name, bytes) else str(name),
        "facts": {key: [int(x) for x in np.atleast_1d(properties[key])] for key in keys},
        "capability": device.compute_capability,
        "id": device.id,
        "count": runtime.getDeviceCount() >= 1,
        "attributes": {
            key: int(device.attributes[key])
            for key in ("MaxBlockDimX", "WarpSize", "MaxSharedMemoryPerBlock", "ConcurrentKernels", "MaxPitch")
        },
        "memory": device.mem_info[0] <= device.mem_info[1],
        "equal": cp.cuda.Device(0) == cp.cuda.Device(),
        "99": raised(lambda: cp.cuda.Device(99).use()),
    }


@program("the device as a context manager and the current device")
def current_device():
    with cp.cuda.Device(0) as device:
        inside = runtime.getDevice()
        array = cp.zeros(3)
    return {"inside": inside, "device": device.id, "array's": array.device.id, "sync": raised(device.synchronize)}


@program(
    "2-D copies and asynchronous copies under CuPy's names",
    expect=lambda v: {"out": v["x"][:, 1:3]},
)
def copies():
    x, out = np.arange(12, dtype=np.int16).reshape(3, 4), np.zeros((3, 2), np.int16)
    pointer = runtime.malloc(24)
    runtime.memcpy(pointer, x.ctypes.data, 24, runtime.memcpyHostToDevice)
    runtime.memcpy2D(out.ctypes.data, 4, pointer + 2, 8, 4, 3, runtime.memcpyDeviceToHost)
    stream = cp.cuda.Stream()
    runtime.memsetAsync(pointer, 0, 24, stream.ptr)
    stream.synchronize()
    runtime.free(pointer)
    return {"x": x, "out": out}


@program(
    "pinned memory of CuPy backs a NumPy array",
    expect=lambda v: {"out": np.arange(100, dtype=np.float32), "size": 400},
)
def pinned_arrays():
    memory = cp.cuda.alloc_pinned_memory(400)
    host = np.frombuffer(memory, np.float32, 100)
    host[:] = np.arange(100)
    stream = cp.cuda.Stream(non_blocking=True)
    device = cp.empty(100, cp.float32)
    device.set(host, stream=stream)
    stream.synchronize()
    back = np.frombuffer(cp.cuda.alloc_pinned_memory(400), np.float32, 100)
    device.get(stream=stream, out=back)
    stream.synchronize()
    return {"out": back.copy(), "size": host.nbytes, "type": type(memory).__name__}


@program("pointer attributes and versions")
def attributes_and_versions():
    array = cp.zeros(10)
    found = runtime.pointerGetAttributes(array.data.ptr)
    return {
        "device": found.device,
        "type": int(found.type),
        "same": found.devicePointer == array.data.ptr,
        "versions": [runtime.runtimeGetVersion() >= 12000, runtime.driverGetVersion() >= 12000],
        "attribute": runtime.deviceGetAttribute(runtime.cudaDevAttrMaxThreadsPerBlock, 0),
    }


@program(
    "managed memory through CuPy's allocator",
    expect=lambda v: {"sum": 4950},
)
def managed_arrays():
    with cp.cuda.using_allocator(cp.cuda.malloc_managed):
        a = cp.arange(100)
        total = int(a.sum())
    attributes = runtime.pointerGetAttributes(a.data.ptr)
    return {"sum": total, "type": int(attributes.type)}
