"""Memory calls of the runtime (``cudart``): allocation, copies, sets, pitch and 3-D, page-locked and managed memory."""

import numpy as np

from cudalab import cp, cudart

from ..program import code, program

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
H2H = cudart.cudaMemcpyKind.cudaMemcpyHostToHost
ANY = cudart.cudaMemcpyKind.cudaMemcpyDefault


def allocate(size):
    error, pointer = cudart.cudaMalloc(size)
    assert int(error) == 0, error
    return pointer


def fetched(pointer, shape, dtype):
    """The array of that shape and type at a device pointer."""
    out = np.zeros(shape, dtype)
    (error,) = cudart.cudaMemcpy(out.ctypes.data, pointer, out.nbytes, D2H)
    assert int(error) == 0, error
    return out


@program(
    "malloc, copy in, copy on the device, copy out, free",
    expect=lambda v: {"out": v["x"], "codes": ["cudaSuccess"] * 6},
)
def round_trip():
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    a, b = allocate(x.nbytes), allocate(x.nbytes)
    codes = [
        code(cudart.cudaMemcpy(a, x.ctypes.data, x.nbytes, H2D)),
        code(cudart.cudaMemcpy(b, a, x.nbytes, D2D)),
        code(cudart.cudaMemcpy(out.ctypes.data, b, x.nbytes, D2H)),
        code(cudart.cudaFree(a)),
        code(cudart.cudaFree(b)),
        code(cudart.cudaGetLastError()),
    ]
    return {"x": x, "out": out, "codes": codes}


@program(
    "cudaMemcpyDefault finds the direction, and host objects with the buffer protocol are accepted",
    expect=lambda v: {"out": v["x"][::-1], "host": v["x"], "direct": v["x"]},
)
def default_direction():
    x = np.arange(50, dtype=np.int64)
    backwards, out, host, direct = (
        x[::-1].copy(),
        np.zeros(50, np.int64),
        np.zeros(50, np.int64),
        np.zeros(50, np.int64),
    )
    a, b = allocate(x.nbytes), allocate(x.nbytes)
    cudart.cudaMemcpy(a, backwards.ctypes.data, x.nbytes, ANY)
    cudart.cudaMemcpy(b, a, x.nbytes, ANY)
    cudart.cudaMemcpy(out.ctypes.data, b, x.nbytes, ANY)
    cudart.cudaMemcpy(host.ctypes.data, x.ctypes.data, x.nbytes, H2H)
    cudart.cudaMemcpy(a, x, x.nbytes, H2D)
    cudart.cudaMemcpy(direct, a, x.nbytes, D2H)
    cudart.cudaFree(a), cudart.cudaFree(b)
    return {"x": x, "out": out, "host": host, "direct": direct}


@program("sizes of zero: malloc gives a null pointer, freeing null and empty copies succeed")
def size_zero():
    error, pointer = cudart.cudaMalloc(0)
    host = np.zeros(4, np.uint8)
    real = allocate(16)
    result = {
        "malloc": error.name,
        "is null": int(pointer) == 0,
        "free null": code(cudart.cudaFree(0)),
        "copy of nothing": code(cudart.cudaMemcpy(real, host.ctypes.data, 0, H2D)),
        "copy of nothing from null": code(cudart.cudaMemcpy(real, 0, 0, H2D)),
        "memset of nothing": code(cudart.cudaMemset(real, 1, 0)),
        "free host null": code(cudart.cudaFreeHost(0)),
        "last": code(cudart.cudaGetLastError()),
    }
    cudart.cudaFree(real)
    return result


@program("addresses are multiples of 256 and allocations do not overlap")
def alignment():
    sizes = [1, 3, 255, 256, 257, 1000, 4097, 1 << 20]
    pointers = [allocate(size) for size in sizes]
    spans = sorted((int(p), int(p) + s) for p, s in zip(pointers, sizes, strict=True))
    result = {
        "remainders": [int(p) % 256 for p in pointers],
        "disjoint": all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False)),
        "freed": [code(cudart.cudaFree(p)) for p in pointers],
    }
    return result


@program("freeing twice, in the middle, a host pointer or a made-up one is an invalid value")
def invalid_frees():
    host = np.zeros(1024, np.uint8)
    pointer, other = allocate(4096), allocate(4096)
    result = {
        "in the middle": code(cudart.cudaFree(int(other) + 256)),
        "first": code(cudart.cudaFree(pointer)),
        "again": code(cudart.cudaFree(pointer)),
        "host": code(cudart.cudaFree(host.ctypes.data)),
        "made up": code(cudart.cudaFree(0x1230)),
        "device pointer as host": code(cudart.cudaFreeHost(other)),
        "pageable as page-locked": code(cudart.cudaFreeHost(host.ctypes.data)),
        "peek": code(cudart.cudaPeekAtLastError()),
        "last": code(cudart.cudaGetLastError()),
        "then": code(cudart.cudaGetLastError()),
        "still usable": code(cudart.cudaMemset(other, 0, 4096)),
        "at last": code(cudart.cudaFree(other)),
    }
    return result


@program("one terabyte cannot be had: the error, what the last error says, and that work goes on")
def out_of_memory():
    error, pointer = cudart.cudaMalloc(1 << 40)
    return {
        "error": error.name,
        "pointer": int(pointer or 0),
        "peek": code(cudart.cudaPeekAtLastError()),
        "last": code(cudart.cudaGetLastError()),
        "then": code(cudart.cudaGetLastError()),
        "small": code(cudart.cudaFree(allocate(64))),
        "pitched": cudart.cudaMallocPitch(1 << 20, 1 << 20)[0].name,
        "largest": cudart.cudaMalloc(2**64 - 1)[0].name,
        "cleared": [code(cudart.cudaGetLastError()), code(cudart.cudaGetLastError())],
    }


@program(
    "memset writes the low byte of its value; part of an array",
    expect=lambda v: {"out": np.array([0x07] * 3 + [0xFF] * 5 + [0x34] * 4 + [7] * 4, np.uint8)},
)
def memset_bytes():
    pointer = allocate(16)
    cudart.cudaMemset(pointer, 7, 16)
    cudart.cudaMemset(int(pointer) + 3, -1, 5)
    cudart.cudaMemset(int(pointer) + 8, 0x1234, 4)
    out = fetched(pointer, 16, np.uint8)
    cudart.cudaFree(pointer)
    return {"out": out}


@program("copies and sets beyond the end of an allocation, and with null or host pointers")
def ranges_of_copies():
    host = np.zeros(4096, np.uint8)
    pointer = allocate(1024)
    at = host.ctypes.data
    result = {
        "null destination": code(cudart.cudaMemcpy(0, at, 16, H2D)),
        "null source": code(cudart.cudaMemcpy(at, 0, 16, D2H)),
        "memset null": code(cudart.cudaMemset(0, 0, 16)),
        "host as device destination": code(cudart.cudaMemcpy(at, at + 64, 16, H2D)),
        "host as device source": code(cudart.cudaMemcpy(at, at + 64, 16, D2H)),
        "memset host": code(cudart.cudaMemset(at, 0, 16)),
        "last": code(cudart.cudaGetLastError()),
        "good": code(cudart.cudaMemcpy(pointer, at, 1024, H2D)),
    }
    cudart.cudaFree(pointer)
    return result


@program("a copy into freed memory is an invalid value")
def copy_to_freed():
    host = np.zeros(64, np.uint8)
    pointer = allocate(64 << 20)
    cudart.cudaFree(pointer)
    return {
        "in": code(cudart.cudaMemcpy(pointer, host.ctypes.data, 64, H2D)),
        "out": code(cudart.cudaMemcpy(host.ctypes.data, pointer, 64, D2H)),
        "set": code(cudart.cudaMemset(pointer, 0, 64)),
        "last": code(cudart.cudaGetLastError()),
    }


@program("pitches: rows are padded to multiples of 512 bytes")
def pitches():
    widths = [1, 100, 256, 500, 512, 513, 1000, 4000, 4096, 10000]
    found, frees = [], []
    for width in widths:
        error, pointer, pitch = cudart.cudaMallocPitch(width, 3)
        found.append([error.name, int(pitch), int(pointer) % 512])
        frees.append(code(cudart.cudaFree(pointer)))
    return {"found": found, "frees": frees}


@program(
    "2-D copies between rows of different pitch: host to device, device to device, part of it back",
    expect=lambda v: {"whole": v["x"], "part": v["x"][2:5, 4:9], "untouched": np.full((7, 3), -1, np.int32)},
)
def copies_2d():
    x = np.arange(70, dtype=np.int32).reshape(7, 10)
    _, a, pitch = cudart.cudaMallocPitch(40, 7)
    b = allocate(7 * 64)
    codes = [
        code(cudart.cudaMemset2D(a, pitch, 0xFF, pitch, 7)),
        code(cudart.cudaMemcpy2D(a, pitch, x.ctypes.data, 40, 40, 7, H2D)),
        code(cudart.cudaMemcpy2D(b, 64, a, pitch, 40, 7, D2D)),
    ]
    whole, part, rest = np.zeros((7, 10), np.int32), np.zeros((3, 5), np.int32), np.zeros((7, 3), np.int32)
    codes += [
        code(cudart.cudaMemcpy2D(whole.ctypes.data, 40, b, 64, 40, 7, D2H)),
        code(cudart.cudaMemcpy2D(part.ctypes.data, 20, int(a) + 2 * pitch + 16, pitch, 20, 3, D2H)),
        code(cudart.cudaMemcpy2D(rest.ctypes.data, 12, int(a) + 40, pitch, 12, 7, D2H)),
    ]
    cudart.cudaFree(a), cudart.cudaFree(b)
    return {"x": x, "whole": whole, "part": part, "untouched": rest, "codes": codes}


@program("2-D calls whose width is larger than a pitch, or of no rows")
def misuse_2d():
    host = np.zeros(4096, np.uint8)
    pointer = allocate(4096)
    at = host.ctypes.data
    result = {
        "wide for destination": code(cudart.cudaMemcpy2D(pointer, 32, at, 64, 40, 2, H2D)),
        "wide for source": code(cudart.cudaMemcpy2D(pointer, 64, at, 32, 40, 2, H2D)),
        "no rows": code(cudart.cudaMemcpy2D(pointer, 64, at, 64, 40, 0, H2D)),
        "no width": code(cudart.cudaMemcpy2D(pointer, 64, at, 64, 0, 4, H2D)),
        "pitch equal to width": code(cudart.cudaMemcpy2D(pointer, 64, at, 64, 64, 4, H2D)),
        "no pitch": code(cudart.cudaMemcpy2D(pointer, 0, at, 64, 16, 2, H2D)),
        "zero width pitched malloc": cudart.cudaMallocPitch(0, 4)[0].name,
    }
    cudart.cudaGetLastError()
    cudart.cudaFree(pointer)
    return result


@program(
    "a 3-D allocation: extent, pitch, and a set of part of it",
    expect=lambda v: {"set": np.pad(np.full((2, 2, 9), 0x55, np.uint8), ((0, 1), (0, 2), (0, 11)))},
)
def allocation_3d():
    error, pitched = cudart.cudaMalloc3D(cudart.make_cudaExtent(20, 4, 3))
    facts = [error.name, int(pitched.pitch), int(pitched.xsize), int(pitched.ysize), int(pitched.ptr) % 512]
    codes = [
        code(cudart.cudaMemset3D(pitched, 0, cudart.make_cudaExtent(20, 4, 3))),
        code(cudart.cudaMemset3D(pitched, 0x55, cudart.make_cudaExtent(9, 2, 2))),
    ]
    raw = fetched(pitched.ptr, (3, 4, pitched.pitch), np.uint8)
    cudart.cudaFree(pitched.ptr)
    return {"facts": facts, "codes": codes, "set": raw[:, :, :20]}


def parameters_3d(source, destination, extent, kind, source_at=(0, 0, 0), destination_at=(0, 0, 0)):
    parameters = cudart.cudaMemcpy3DParms()
    parameters.srcPtr, parameters.dstPtr = source, destination
    parameters.srcPos, parameters.dstPos = cudart.make_cudaPos(*source_at), cudart.make_cudaPos(*destination_at)
    parameters.extent, parameters.kind = cudart.make_cudaExtent(*extent), kind
    return parameters


def _copied(v):
    whole = np.zeros((3, 4, 5), np.float32)
    whole[...] = v["x"]
    return {"whole": whole, "corner": v["x"][1:3, 1:3, 2:5]}


@program("3-D copies: a box in, the whole back, and a corner of it by positions", expect=_copied)
def copies_3d():
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    whole, corner = np.zeros((3, 4, 5), np.float32), np.zeros((2, 2, 3), np.float32)
    _, box = cudart.cudaMalloc3D(cudart.make_cudaExtent(20, 4, 3))

    def host(array):
        return cudart.make_cudaPitchedPtr(array.ctypes.data, array.strides[1], array.strides[1], array.shape[1])

    codes = [
        code(cudart.cudaMemcpy3D(parameters_3d(host(x), box, (20, 4, 3), H2D))),
        code(cudart.cudaMemcpy3D(parameters_3d(box, host(whole), (20, 4, 3), D2H))),
        code(cudart.cudaMemcpy3D(parameters_3d(box, host(corner), (12, 2, 2), D2H, (8, 1, 1)))),
    ]
    cudart.cudaFree(box.ptr)
    return {"x": x, "whole": whole, "corner": corner, "codes": codes}


@program(
    "page-locked memory: allocate, use through NumPy, copy asynchronously, flags, free",
    expect=lambda v: {"out": np.arange(256, dtype=np.int32) * 2},
)
def page_locked():
    import ctypes

    _, pointer = cudart.cudaHostAlloc(1024, cudart.cudaHostAllocDefault)
    host = np.frombuffer((ctypes.c_char * 1024).from_address(int(pointer)), np.int32)
    host[:] = np.arange(256) * 2
    device = allocate(1024)
    _, stream = cudart.cudaStreamCreate()
    codes = [code(cudart.cudaMemcpyAsync(device, pointer, 1024, H2D, stream))]
    codes.append(code(cudart.cudaStreamSynchronize(stream)))
    out = fetched(device, 256, np.int32)
    error, seen = cudart.cudaHostGetDevicePointer(pointer, 0)
    result = {
        "out": out,
        "codes": codes,
        # whether it counts as portable, too, differs between processes on one H200 (2026-11-23)
        "mapped": bool(cudart.cudaHostGetFlags(pointer)[1] & cudart.cudaHostAllocMapped),
        "same address": [error.name, int(seen) == int(pointer)],
        "free": code(cudart.cudaFreeHost(pointer)),
        "free again": code(cudart.cudaFreeHost(pointer)),
        "as device memory": code(cudart.cudaFree(cudart.cudaMallocHost(64)[1])),
    }
    cudart.cudaGetLastError()
    cudart.cudaStreamDestroy(stream), cudart.cudaFree(device)
    return result


@program("registering host memory: twice, unregistering, memory that is not registered")
def registered_memory():
    buffer = np.zeros(3 * 4096, np.uint8)
    start = (buffer.ctypes.data + 4095) // 4096 * 4096
    result = {
        "register": code(cudart.cudaHostRegister(start, 4096, cudart.cudaHostRegisterDefault)),
        "again": code(cudart.cudaHostRegister(start, 4096, cudart.cudaHostRegisterDefault)),
        "type": cudart.cudaPointerGetAttributes(start)[1].type.name,
        "unregister": code(cudart.cudaHostUnregister(start)),
        "unregister again": code(cudart.cudaHostUnregister(start)),
        "nothing": code(cudart.cudaHostRegister(start, 0, cudart.cudaHostRegisterDefault)),
        "null": code(cudart.cudaHostRegister(0, 4096, cudart.cudaHostRegisterDefault)),
        "type after": cudart.cudaPointerGetAttributes(start)[1].type.name,
    }
    cudart.cudaGetLastError()
    return result


@program(
    "a kernel reads and writes mapped page-locked memory",
    expect=lambda v: {"out": np.arange(64, dtype=np.float32) + 1},
)
def mapped_memory():
    import ctypes

    _, pointer = cudart.cudaHostAlloc(256, cudart.cudaHostAllocMapped)
    host = np.frombuffer((ctypes.c_char * 256).from_address(int(pointer)), np.float32)
    host[:] = np.arange(64)
    _, seen = cudart.cudaHostGetDevicePointer(pointer, 0)
    kernel = cp.RawKernel('extern "C" __global__ void k(float* x) { x[threadIdx.x] += 1; }', "k")
    kernel((1,), (64,), (int(seen),))
    cp.cuda.Device().synchronize()
    out = host.copy()
    cudart.cudaFreeHost(pointer)
    return {"out": out}


@program(
    "managed memory: written by the host, changed by a kernel, read by the host after synchronising",
    expect=lambda v: {"out": np.arange(32, dtype=np.int32) ** 2 + 5, "type": "cudaMemoryTypeManaged"},
)
def managed_memory():
    import ctypes

    error, pointer = cudart.cudaMallocManaged(128, cudart.cudaMemAttachGlobal)
    host = np.frombuffer((ctypes.c_char * 128).from_address(int(pointer)), np.int32)
    host[:] = 5
    kernel = cp.RawKernel('extern "C" __global__ void k(int* x) { x[threadIdx.x] += threadIdx.x * threadIdx.x; }', "k")
    kernel((1,), (32,), (int(pointer),))
    sync = code(cudart.cudaDeviceSynchronize())
    kind = cudart.cudaPointerGetAttributes(pointer)[1].type.name
    return {"out": host.copy(), "codes": [error.name, sync, code(cudart.cudaFree(pointer))], "type": kind}


@program("pointer attributes of device, interior, page-locked, pageable and freed memory")
def pointer_attributes():
    host = np.zeros(64, np.uint8)
    device, locked = allocate(1 << 20), cudart.cudaMallocHost(4096)[1]

    def kind(pointer):
        error, found = cudart.cudaPointerGetAttributes(pointer)
        return [error.name, found.type.name, int(found.device), int(found.devicePointer or 0) == int(pointer)]

    result = {"device": kind(device), "interior": kind(int(device) + 4096), "page-locked": kind(locked)}
    result["pageable"] = kind(host.ctypes.data)[:2]
    cudart.cudaFree(device), cudart.cudaFreeHost(locked)
    result["freed"] = kind(device)[:2]
    return result


@program("free memory shrinks by what is allocated and comes back")
def memory_information():
    error, free, total = cudart.cudaMemGetInfo()
    pointer = allocate(256 << 20)
    _, during, _ = cudart.cudaMemGetInfo()
    cudart.cudaFree(pointer)
    _, after, _ = cudart.cudaMemGetInfo()
    return {
        "error": error.name,
        "sane": 0 < free <= total,
        "shrunk": free - during >= 256 << 20,
        "came back": after > during,
    }


@program(
    "stream-ordered allocation: memory is usable and freed in stream order",
    expect=lambda v: {"out": np.full(64, 0x03030303, np.uint32)},
)
def stream_ordered_allocation():
    _, stream = cudart.cudaStreamCreate()
    error, pointer = cudart.cudaMallocAsync(256, stream)
    out = np.zeros(64, np.uint32)
    codes = [
        error.name,
        code(cudart.cudaMemsetAsync(pointer, 3, 256, stream)),
        code(cudart.cudaMemcpyAsync(out.ctypes.data, pointer, 256, D2H, stream)),
        code(cudart.cudaFreeAsync(pointer, stream)),
        code(cudart.cudaStreamSynchronize(stream)),
        code(cudart.cudaStreamDestroy(stream)),
    ]
    return {"out": out, "codes": codes}


@program("names and texts of errors")
def error_texts():
    chosen = [0, 1, 2, 9, 12, 13, 17, 21, 35, 98, 100, 101, 200, 209, 400, 600, 700, 701, 702, 709, 710, 716, 719, 999]
    errors = [cudart.cudaError_t(number) for number in chosen]

    def text(result):
        value = result[1]
        return value.decode() if isinstance(value, bytes) else str(value)

    return {
        "names": [text(cudart.cudaGetErrorName(error)) for error in errors],
        "texts": [text(cudart.cudaGetErrorString(error)) for error in errors],
    }


@program("devices: count, current, one that does not exist")
def devices():
    error, count = cudart.cudaGetDeviceCount()
    return {
        "count": [error.name, count >= 1],
        "current": [cudart.cudaGetDevice()[0].name, cudart.cudaGetDevice()[1]],
        "set": code(cudart.cudaSetDevice(0)),
        "set 99": code(cudart.cudaSetDevice(99)),
        "set -1": code(cudart.cudaSetDevice(-1)),
        "still": cudart.cudaGetDevice()[1],
        "attribute of 99": cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrWarpSize, 99)[0].name,
        "last": code(cudart.cudaGetLastError()),
        "flags": code(cudart.cudaGetDeviceFlags()),
    }


@program("limits and features that hold for this compute capability")
def device_attributes():
    names = """MaxThreadsPerBlock MaxBlockDimX MaxBlockDimY MaxBlockDimZ MaxGridDimX MaxGridDimY MaxGridDimZ WarpSize
        MaxSharedMemoryPerBlock MaxSharedMemoryPerBlockOptin MaxSharedMemoryPerMultiprocessor
        ReservedSharedMemoryPerBlock
        MaxRegistersPerBlock MaxRegistersPerMultiprocessor MaxThreadsPerMultiProcessor MaxBlocksPerMultiprocessor
        TotalConstantMemory MaxPitch TextureAlignment TexturePitchAlignment ConcurrentKernels UnifiedAddressing
        ManagedMemory ConcurrentManagedAccess CanMapHostMemory ComputeCapabilityMajor ComputeCapabilityMinor
        StreamPrioritiesSupported GlobalL1CacheSupported LocalL1CacheSupported CooperativeLaunch
        MemoryPoolsSupported AsyncEngineCount MultiProcessorCount L2CacheSize KernelExecTimeout Integrated""".split()
    found = {}
    for name in names:
        error, value = cudart.cudaDeviceGetAttribute(getattr(cudart.cudaDeviceAttr, f"cudaDevAttr{name}"), 0)
        found[name] = [error.name, int(value)]
    return found


@program("the properties structure agrees with the attributes")
def device_properties():
    error, p = cudart.cudaGetDeviceProperties(0)
    name = p.name.decode() if isinstance(p.name, bytes) else str(p.name)
    return {
        "error": error.name,
        "name": name.rstrip("\0"),
        "capability": [p.major, p.minor],
        "block": [p.maxThreadsPerBlock, *[int(x) for x in p.maxThreadsDim]],
        "grid": [int(x) for x in p.maxGridSize],
        "warp": p.warpSize,
        "multiprocessors": p.multiProcessorCount,
        "per multiprocessor": [p.maxThreadsPerMultiProcessor, p.sharedMemPerMultiprocessor, p.regsPerMultiprocessor],
        "per block": [p.sharedMemPerBlock, p.sharedMemPerBlockOptin, p.regsPerBlock, p.totalConstMem],
        "L2": [p.l2CacheSize, p.persistingL2CacheMaxSize, p.accessPolicyMaxWindowSize],
        "flags": [p.unifiedAddressing, p.managedMemory, p.concurrentKernels, p.canMapHostMemory, p.asyncEngineCount],
    }


@program("limits of the device can be read and set")
def device_limits():
    limits = cudart.cudaLimit
    before = int(cudart.cudaDeviceGetLimit(limits.cudaLimitStackSize)[1])
    result = {
        "stack": before >= 1024,  # the driver raises it for kernels that need more
        "printf": int(cudart.cudaDeviceGetLimit(limits.cudaLimitPrintfFifoSize)[1]),
        "heap": int(cudart.cudaDeviceGetLimit(limits.cudaLimitMallocHeapSize)[1]),
        "set": code(cudart.cudaDeviceSetLimit(limits.cudaLimitStackSize, 4096)),
        "now": int(cudart.cudaDeviceGetLimit(limits.cudaLimitStackSize)[1]),
    }
    cudart.cudaDeviceSetLimit(limits.cudaLimitStackSize, before)
    return result


@program("asynchronous sets and 2-D copies in a stream happen in its order")
def asynchronous_order():
    _, stream = cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking)
    a, b = allocate(256), allocate(256)
    _, pinned = cudart.cudaMallocHost(256)
    codes = [
        code(cudart.cudaMemsetAsync(a, 1, 256, stream)),
        code(cudart.cudaMemset2DAsync(a, 32, 2, 16, 8, stream)),
        code(cudart.cudaMemcpy2DAsync(b, 32, a, 32, 32, 8, D2D, stream)),
        code(cudart.cudaMemsetAsync(a, 9, 256, stream)),
        code(cudart.cudaMemcpyAsync(pinned, b, 256, D2H, stream)),
        code(cudart.cudaStreamSynchronize(stream)),
    ]
    import ctypes

    out = np.frombuffer((ctypes.c_char * 256).from_address(int(pinned)), np.uint8).reshape(8, 32).copy()
    cudart.cudaFree(a), cudart.cudaFree(b), cudart.cudaFreeHost(pinned), cudart.cudaStreamDestroy(stream)
    return {"codes": codes, "out": out}
