"""Copies and sets of all shapes and kinds, and the errors of wrong ones."""

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import device_memory, fetched, pinned_memory, seen, streams
from ..program import code, program, raised

KIND = cudart.cudaMemcpyKind
H2D, D2H, D2D, H2H, ANY = (
    KIND.cudaMemcpyHostToDevice,
    KIND.cudaMemcpyDeviceToHost,
    KIND.cudaMemcpyDeviceToDevice,
    KIND.cudaMemcpyHostToHost,
    KIND.cudaMemcpyDefault,
)


@program("every kind of copy between every two kinds of memory: which are refused")
def directions():
    managed = int(cudart.cudaMallocManaged(64, 1)[1])
    host = np.zeros(64, np.uint8)
    result = {}
    with device_memory(128) as device, pinned_memory(64) as (locked, _):
        places = {"device": device, "page-locked": locked, "pageable": host.ctypes.data, "managed": managed}
        for kind in (H2H, H2D, D2H, D2D, ANY):
            for to, destination in places.items():
                found = []
                for source in places.values():
                    other = source + 16 if source == destination else source
                    found.append(code(cudart.cudaMemcpy(destination, other, 16, kind)))
                result[f"{kind.name[10:]} to {to}"] = found
        cudart.cudaGetLastError()
    cudart.cudaFree(managed)
    return result


@program("a kind of copy that does not exist")
def unknown_kind():
    runtime = cp.cuda.runtime
    with device_memory(64) as memory:
        return {
            "copy": raised(lambda: runtime.memcpy(memory, memory + 16, 16, 9)),
            "async": raised(lambda: runtime.memcpyAsync(memory, memory + 16, 16, -1, 0)),
            "2D": raised(lambda: runtime.memcpy2D(memory, 8, memory + 32, 8, 4, 2, 5)),
            "nothing": raised(lambda: runtime.memcpy(memory, memory + 16, 0, 9)),
        }


@program("copies of no bytes, with null pointers and wrong directions")
def nothing_to_copy():
    host = np.zeros(64, np.uint8)
    with device_memory(64) as memory, streams(1) as (stream,):
        at = host.ctypes.data
        return {
            "null": code(cudart.cudaMemcpy(0, 0, 0, H2D)),
            "wrong way": code(cudart.cudaMemcpy(at, memory, 0, H2D)),
            "async": code(cudart.cudaMemcpyAsync(0, 0, 0, ANY, stream)),
            "2D no rows": code(cudart.cudaMemcpy2D(0, 64, 0, 64, 16, 0, H2D)),
            "2D no width": code(cudart.cudaMemcpy2DAsync(memory, 0, at, 0, 0, 4, H2D, stream)),
            "set": code(cudart.cudaMemset(0, 1, 0)),
            "set async": code(cudart.cudaMemsetAsync(0, 1, 0, stream)),
            "set 2D": [code(cudart.cudaMemset2D(memory, 8, 1, 0, 4)), code(cudart.cudaMemset2D(memory, 8, 1, 4, 0))],
            "peer": code(cudart.cudaMemcpyPeer(0, 0, 0, 0, 0)),
            "last": code(cudart.cudaGetLastError()),
        }


@program("copies and sets that are far too large")
def too_large():
    with device_memory(1 << 20) as memory, streams(1) as (stream,):
        return {
            "set": code(cudart.cudaMemset(memory, 0, 1 << 44)),
            "set async": code(cudart.cudaMemsetAsync(memory, 0, 1 << 44, stream)),
            "within": code(cudart.cudaMemcpy(memory, memory + 64, 1 << 44, D2D)),
            "peer": code(cudart.cudaMemcpyPeer(memory, 0, memory + 64, 0, 1 << 44)),
            "set 2D": code(cudart.cudaMemset2D(memory, 1 << 20, 0, 64, 1 << 24)),
            "last": [code(cudart.cudaGetLastError()), code(cudart.cudaGetLastError())],
            "still usable": code(cudart.cudaMemset(memory, 0, 64)),
        }


@program("copies between devices, where both are the same one", expect=lambda v: {"out": [1, 2, 3, 4]})
def peer_copies():
    host = np.array([1, 2, 3, 4], np.int32)
    with device_memory(16) as one, device_memory(16) as two, streams(1) as (stream,):
        cudart.cudaMemcpy(one, host.ctypes.data, 16, H2D)
        codes = [
            code(cudart.cudaMemcpyPeer(two, 0, one, 0, 8)),
            code(cudart.cudaMemcpyPeerAsync(two + 8, 0, one + 8, 0, 8, stream)),
            code(cudart.cudaStreamSynchronize(stream)),
        ]
        wrong = [
            code(cudart.cudaMemcpyPeer(two, 99, one, 0, 8)),
            code(cudart.cudaMemcpyPeerAsync(two, 0, one, -1, 8, stream)),
            code(cudart.cudaMemcpyPeer(0, 0, one, 0, 8)),
            code(cudart.cudaMemcpyPeer(two, 0, host.ctypes.data, 0, 8)),
        ]
        cudart.cudaGetLastError()
        return {"codes": codes, "wrong": wrong, "out": fetched(two, 4).tolist()}


@program("2-D sets, synchronous and not, leave the padding alone")
def sets_2d():
    with device_memory(256) as memory, streams(1) as (stream,):
        codes = [
            code(cudart.cudaMemset2D(memory, 32, 0xAB, 10, 3)),
            code(cudart.cudaMemset2DAsync(memory + 128, 32, 0xCD, 32, 2, stream)),
            code(cudart.cudaStreamSynchronize(stream)),
        ]
        wrong = [
            code(cudart.cudaMemset2D(memory, 8, 1, 16, 2)),
            code(cudart.cudaMemset2D(memory, 8, 1, 16, 1)),
            code(cudart.cudaMemset2D(0, 8, 1, 4, 2)),
        ]
        cudart.cudaGetLastError()
        return {"codes": codes, "wrong": wrong, "out": fetched(memory, 256, np.uint8)}


@program("sets of 8-, 16- and 32-bit elements of the driver, one row and several, in a stream")
def sets_of_the_driver():
    with device_memory(512) as memory, streams(1) as (stream,):
        at, handle = driver.CUdeviceptr, driver.CUstream(stream)
        codes = [
            code(driver.cuMemsetD8(at(memory), 0x12, 5)),
            code(driver.cuMemsetD16(at(memory + 16), 0x1234, 5)),
            code(driver.cuMemsetD32(at(memory + 32), 0x12345678, 5)),
            code(driver.cuMemsetD8Async(at(memory + 64), 0xFF, 3, handle)),
            code(driver.cuMemsetD16Async(at(memory + 72), 0xBEEF, 3, handle)),
            code(driver.cuMemsetD32Async(at(memory + 80), 0xDEADBEEF, 3, handle)),
            code(driver.cuMemsetD2D8(at(memory + 128), 16, 0x55, 3, 4)),
            code(driver.cuMemsetD2D16(at(memory + 192), 16, 0x6677, 3, 4)),
            code(driver.cuMemsetD2D32(at(memory + 256), 16, 0x8899AABB, 2, 4)),
            code(driver.cuMemsetD2D8Async(at(memory + 320), 16, 0x11, 4, 2, handle)),
            code(driver.cuMemsetD2D16Async(at(memory + 352), 16, 0x2233, 4, 2, handle)),
            code(driver.cuMemsetD2D32Async(at(memory + 384), 16, 0x44556677, 4, 2, handle)),
            code(driver.cuStreamSynchronize(handle)),
        ]
        return {"codes": codes, "out": fetched(memory, 512, np.uint8)}


@program("sets of the driver that are not aligned, of a pitch that does not fit, null or too large")
def wrong_sets_of_the_driver():
    with device_memory(256) as memory:
        at = driver.CUdeviceptr
        return {
            "odd 16": code(driver.cuMemsetD16(at(memory + 1), 1, 4)),
            "odd 32": code(driver.cuMemsetD32(at(memory + 2), 1, 4)),
            "pitch 32": code(driver.cuMemsetD2D32(at(memory), 18, 1, 2, 2)),
            "narrow pitch": code(driver.cuMemsetD2D8(at(memory), 4, 1, 8, 2)),
            "null": code(driver.cuMemsetD8(at(0), 1, 4)),
            "nothing at null": code(driver.cuMemsetD8(at(0), 1, 0)),
            "too large": code(driver.cuMemsetD8(at(memory), 1, 1 << 44)),
        }


def parameters_3d(source, destination, extent, kind, source_at=(0, 0, 0), destination_at=(0, 0, 0)):
    parameters = cudart.cudaMemcpy3DParms()
    parameters.srcPtr, parameters.dstPtr = source, destination
    parameters.srcPos, parameters.dstPos = cudart.make_cudaPos(*source_at), cudart.make_cudaPos(*destination_at)
    parameters.extent, parameters.kind = cudart.make_cudaExtent(*extent), kind
    return parameters


def pitched(array):
    """A three-dimensional array of bytes as the runtime describes it."""
    return cudart.make_cudaPitchedPtr(array.ctypes.data, array.strides[1], array.strides[1], array.shape[1])


@program("3-D copies in a stream: a box in, within the device, and out at an offset")
def copies_3d_async():
    source = np.arange(4 * 5 * 6, dtype=np.uint8).reshape(4, 5, 6)
    out = np.zeros((4, 5, 6), np.uint8)
    _, box = cudart.cudaMalloc3D(cudart.make_cudaExtent(6, 5, 4))
    _, other = cudart.cudaMalloc3D(cudart.make_cudaExtent(6, 5, 4))
    with streams(1) as (stream,):
        codes = [
            code(cudart.cudaMemset3DAsync(other, 0, cudart.make_cudaExtent(6, 5, 4), stream)),
            code(cudart.cudaMemcpy3DAsync(parameters_3d(pitched(source), box, (6, 5, 4), H2D), stream)),
            code(cudart.cudaMemcpy3DAsync(parameters_3d(box, other, (3, 2, 2), D2D, (1, 1, 1), (2, 3, 2)), stream)),
            code(cudart.cudaMemcpy3DAsync(parameters_3d(other, pitched(out), (6, 5, 4), D2H), stream)),
            code(cudart.cudaStreamSynchronize(stream)),
        ]
    cudart.cudaFree(box.ptr), cudart.cudaFree(other.ptr)
    return {"codes": codes, "out": out}


@program("3-D copies that are wrong: null, too wide, too deep, the wrong direction, nothing")
def wrong_copies_3d():
    host = np.zeros((2, 4, 16), np.uint8)
    result = {}
    _, box = cudart.cudaMalloc3D(cudart.make_cudaExtent(16, 4, 2))
    nothing = cudart.make_cudaPitchedPtr(0, 0, 0, 0)

    def copy(*arguments):
        return code(cudart.cudaMemcpy3D(parameters_3d(*arguments)))

    result["null source"] = copy(nothing, box, (16, 4, 2), H2D)
    result["null destination"] = copy(box, nothing, (16, 4, 2), D2H)
    result["wide"] = copy(pitched(host), box, (600, 4, 2), H2D)
    result["wide for the host"] = copy(pitched(host), box, (17, 4, 2), H2D)
    result["beyond the row"] = copy(pitched(host), box, (16, 4, 2), H2D, (1, 0, 0))
    result["beyond the slice"] = copy(pitched(host), box, (16, 5, 1), H2D)
    result["no width"] = copy(pitched(host), box, (0, 4, 2), H2D)
    result["no depth"] = copy(pitched(host), box, (16, 4, 0), H2D)
    result["direction"] = copy(pitched(host), box, (16, 4, 2), D2H)
    result["good"] = copy(pitched(host), box, (16, 4, 2), ANY)
    result["none"] = code(cudart.cudaMemcpy3D(None))
    cudart.cudaGetLastError()
    cudart.cudaFree(box.ptr)
    return result


@program("2-D copies whose pitch is too large, with null pointers, of the wrong direction")
def wrong_copies_2d():
    host = np.zeros(4096, np.uint8)
    with device_memory(4096) as memory, streams(1) as (stream,):
        at = host.ctypes.data
        result = {
            "huge pitch": code(cudart.cudaMemcpy2D(memory, 1 << 32, at, 64, 16, 2, H2D)),
            "null": code(cudart.cudaMemcpy2D(0, 64, at, 64, 16, 2, H2D)),
            "null source": code(cudart.cudaMemcpy2DAsync(memory, 64, 0, 64, 16, 2, H2D, stream)),
            "direction": code(cudart.cudaMemcpy2D(at, 64, memory, 64, 16, 2, H2D)),
            "one row, no pitch": code(cudart.cudaMemcpy2D(memory, 0, at, 0, 16, 1, H2D)),
            "async narrow": code(cudart.cudaMemcpy2DAsync(memory, 8, at, 64, 16, 2, H2D, stream)),
            "last": code(cudart.cudaGetLastError()),
        }
        cudart.cudaStreamSynchronize(stream)
        return result


def copy_2d(**fields):
    """A 2-D copy of the driver."""
    parameters = driver.CUDA_MEMCPY2D()
    for name, value in fields.items():
        setattr(parameters, name, value)
    return parameters


@program("2-D copies of the driver: host and device, offsets, unaligned, unified")
def copies_2d_of_the_driver():
    kinds = driver.CUmemorytype
    host, device, unified = kinds.CU_MEMORYTYPE_HOST, kinds.CU_MEMORYTYPE_DEVICE, kinds.CU_MEMORYTYPE_UNIFIED
    source = np.arange(64, dtype=np.uint8).reshape(4, 16)
    out, part = np.zeros((4, 16), np.uint8), np.zeros((2, 5), np.uint8)
    with device_memory(256) as memory, streams(1) as (stream,):
        at = driver.CUdeviceptr(memory)
        into = copy_2d(
            srcMemoryType=host, srcHost=source.ctypes.data, srcPitch=16,
            dstMemoryType=device, dstDevice=at, dstPitch=32, WidthInBytes=16, Height=4,
        )  # fmt: skip
        back = copy_2d(
            srcMemoryType=device, srcDevice=at, srcPitch=32, dstMemoryType=host, dstHost=out.ctypes.data, dstPitch=16,
            WidthInBytes=16, Height=4,
        )  # fmt: skip
        corner = copy_2d(
            srcMemoryType=unified, srcDevice=at, srcPitch=32, srcXInBytes=3, srcY=1,
            dstMemoryType=unified, dstDevice=driver.CUdeviceptr(part.ctypes.data), dstPitch=5, WidthInBytes=5, Height=2,
        )  # fmt: skip
        codes = [
            code(driver.cuMemcpy2D(into)),
            code(driver.cuCtxSynchronize()),
            code(driver.cuMemcpy2DAsync(back, driver.CUstream(stream))),
            code(driver.cuStreamSynchronize(driver.CUstream(stream))),
            code(driver.cuMemcpy2DUnaligned(corner)),
        ]
        narrow = copy_2d(
            srcMemoryType=host, srcHost=source.ctypes.data, srcPitch=8, dstMemoryType=device, dstDevice=at, dstPitch=32,
            WidthInBytes=16, Height=4,
        )  # fmt: skip
        untyped = copy_2d(srcHost=source.ctypes.data, srcPitch=16, dstDevice=at, dstPitch=32, WidthInBytes=16, Height=4)
        wrong = [code(driver.cuMemcpy2D(narrow)), code(driver.cuMemcpy2D(untyped)), code(driver.cuMemcpy2D(None))]
    return {"codes": codes, "wrong": wrong, "out": out, "part": part}


@program("3-D copies of the driver")
def copies_3d_of_the_driver():
    kinds = driver.CUmemorytype
    host, device = kinds.CU_MEMORYTYPE_HOST, kinds.CU_MEMORYTYPE_DEVICE
    source = np.arange(2 * 3 * 8, dtype=np.uint8).reshape(2, 3, 8)
    out = np.zeros((2, 2, 4), np.uint8)
    with device_memory(1024) as memory, streams(1) as (stream,):
        into, back = driver.CUDA_MEMCPY3D(), driver.CUDA_MEMCPY3D()
        into.srcMemoryType, into.srcHost, into.srcPitch, into.srcHeight = host, source.ctypes.data, 8, 3
        into.dstMemoryType, into.dstDevice, into.dstPitch, into.dstHeight = device, driver.CUdeviceptr(memory), 16, 4
        into.WidthInBytes, into.Height, into.Depth = 8, 3, 2
        back.srcMemoryType, back.srcDevice, back.srcPitch, back.srcHeight = device, driver.CUdeviceptr(memory), 16, 4
        back.srcXInBytes, back.srcY = 2, 1
        back.dstMemoryType, back.dstHost, back.dstPitch, back.dstHeight = host, out.ctypes.data, 4, 2
        back.WidthInBytes, back.Height, back.Depth = 4, 2, 2
        codes = [
            code(driver.cuMemcpy3D(into)),
            code(driver.cuCtxSynchronize()),
            code(driver.cuMemcpy3DAsync(back, driver.CUstream(stream))),
            code(driver.cuStreamSynchronize(driver.CUstream(stream))),
        ]
        back.srcPitch = 3
        codes.append(code(driver.cuMemcpy3D(back)))
    return {"codes": codes, "out": out}


@program("linear copies of the driver: all names, and their errors")
def copies_of_the_driver():
    source, out = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    with device_memory(64) as one, device_memory(64) as two, streams(1) as (stream,):
        a, b, handle = driver.CUdeviceptr(one), driver.CUdeviceptr(two), driver.CUstream(stream)
        codes = [
            code(driver.cuMemcpyHtoD(a, source.ctypes.data, 64)),
            code(driver.cuMemcpyDtoD(b, a, 32)),
            code(driver.cuMemcpyDtoDAsync(driver.CUdeviceptr(two + 32), driver.CUdeviceptr(one + 32), 32, handle)),
            code(driver.cuStreamSynchronize(handle)),
            code(driver.cuMemcpyDtoH(out.ctypes.data, b, 64)),
            code(driver.cuMemcpy(a, b, 64)),
            code(driver.cuMemcpyAsync(b, a, 64, handle)),
            code(driver.cuStreamSynchronize(handle)),
        ]
        at = source.ctypes.data
        wrong = {
            "null": code(driver.cuMemcpyHtoD(driver.CUdeviceptr(0), at, 64)),
            "host as device": code(driver.cuMemcpyHtoD(driver.CUdeviceptr(at), at, 16)),
            "host to host": code(driver.cuMemcpyDtoD(driver.CUdeviceptr(at), driver.CUdeviceptr(at + 32), 16)),
            "any host": code(driver.cuMemcpy(driver.CUdeviceptr(out.ctypes.data), driver.CUdeviceptr(at), 64)),
            "nothing": code(driver.cuMemcpyHtoD(driver.CUdeviceptr(0), 0, 0)),
            "out of null": code(driver.cuMemcpyDtoH(out.ctypes.data, driver.CUdeviceptr(0), 4)),
        }
    return {"codes": codes, "wrong": wrong, "out": out}


@program("overlapping 2-D regions of one allocation, and copies onto themselves")
def onto_itself():
    with device_memory(256) as memory:
        cudart.cudaMemset(memory, 7, 256)
        return {
            "same": code(cudart.cudaMemcpy(memory, memory, 64, D2D)),
            "2D same": code(cudart.cudaMemcpy2D(memory, 32, memory, 32, 16, 4, D2D)),
            "out": fetched(memory, 256, np.uint8),
        }


@program("a batch of copies in one call: what arrives, the null stream, counts that do not fit")
def batches():
    one = np.arange(8, dtype=np.int32)
    with device_memory(64) as memory, pinned_memory(64) as (locked, _), streams(1) as (stream,):
        values = seen(locked, 64, np.int32)
        values[:8] = one
        attributes = cudart.cudaMemcpyAttributes()
        attributes.srcAccessOrder = cudart.cudaMemcpySrcAccessOrder.cudaMemcpySrcAccessOrderStream

        def batch(destinations, sources, sizes, count, indices, handle):
            return code(
                cudart.cudaMemcpyBatchAsync(
                    destinations, sources, sizes, count, [attributes] * len(indices), indices, len(indices), handle
                )
            )

        good = batch([memory, memory + 32], [locked + 16, locked], [16, 16], 2, [0], stream)
        sync = code(cudart.cudaStreamSynchronize(stream))
        out = fetched(memory, 16)
        wrong = {
            "null stream": batch([memory], [locked], [16], 1, [0], 0),
            "legacy": batch([memory], [locked], [16], 1, [0], 1),
            "first index": batch([memory], [locked], [16], 1, [1], stream),
        }
        cudart.cudaGetLastError()
        return {"codes": [good, sync], "out": out, "wrong": wrong}
