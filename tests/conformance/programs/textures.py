"""CUDA arrays, texture objects and surface objects (CUDA C++ Programming Guide, "Texture and Surface Memory")."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab import cp, cudart, driver

from ..program import Values, code, program, raised

KERNELS = r"""
#define EACH int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
extern "C" {
__global__ void fetch(cudaTextureObject_t t, const int* at, int n, float4* out) { EACH out[i] = tex1Dfetch<float4>(t, at[i]); }
__global__ void line(cudaTextureObject_t t, const float* x, int n, float* out) { EACH out[i] = tex1D<float>(t, x[i]); }
__global__ void plane(cudaTextureObject_t t, const float* x, const float* y, int n, float4* out) {
    EACH out[i] = tex2D<float4>(t, x[i], y[i]);
}
__global__ void plane_int(cudaTextureObject_t t, const float* x, const float* y, int n, int4* out) {
    EACH out[i] = tex2D<int4>(t, x[i], y[i]);
}
__global__ void volume(cudaTextureObject_t t, const float* x, const float* y, const float* z, int n, float* out) {
    EACH out[i] = tex3D<float>(t, x[i], y[i], z[i]);
}
__global__ void layers(cudaTextureObject_t t, const float* x, const float* y, const int* l, int n, float* out) {
    EACH out[i] = tex2DLayered<float>(t, x[i], y[i], l[i]);
}
__global__ void cube(cudaTextureObject_t t, const float* x, const float* y, const float* z, int n, float* out) {
    EACH out[i] = texCubemap<float>(t, x[i], y[i], z[i]);
}
__global__ void gather(cudaTextureObject_t t, const float* x, const float* y, int n, float4* out) {
    EACH out[i] = tex2Dgather<float4>(t, x[i], y[i], 1);
}
__global__ void turn(cudaTextureObject_t in, cudaSurfaceObject_t out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        surf2Dwrite(tex2D<float>(in, height - 1 - y + .5f, x + .5f), out, x * 4, y);
}
__global__ void edges(cudaSurfaceObject_t s, float* out) {
    out[0] = surf2Dread<float>(s, 4 * 9, 1, cudaBoundaryModeClamp);
    out[1] = surf2Dread<float>(s, -8, 2, cudaBoundaryModeClamp);
    out[2] = surf2Dread<float>(s, 12, -5, cudaBoundaryModeClamp);
    out[3] = surf2Dread<float>(s, 12, 99, cudaBoundaryModeZero);
    surf2Dwrite(100.f, s, 4 * 9, 1, cudaBoundaryModeClamp);
    surf2Dwrite(200.f, s, -8, 2, cudaBoundaryModeClamp);
    surf2Dwrite(300.f, s, 12, 99, cudaBoundaryModeClamp);
    surf2Dwrite(400.f, s, 4 * 9, 0, cudaBoundaryModeZero);
    surf2Dwrite(500.f, s, 0, -1, cudaBoundaryModeZero);
}
__global__ void slices(cudaSurfaceObject_t s) {
    surf3Dwrite((float)(threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z), s, threadIdx.x * 4, threadIdx.y, threadIdx.z);
}
__global__ void bytes(cudaSurfaceObject_t s) {
    surf1Dwrite((unsigned char)threadIdx.x, s, 2 * threadIdx.x);
    surf1Dwrite(make_short2(threadIdx.x, -1), s, 64 + 4 * threadIdx.x);
}
__global__ void stray(cudaSurfaceObject_t s) { surf2Dwrite(1.f, s, threadIdx.x * 4, 0); }
__global__ void crooked(cudaSurfaceObject_t s) { surf2Dwrite(1.f, s, 2, 0); }
}
"""  # noqa: E501
FLOAT, SIGNED, UNSIGNED = 2, 0, 1
LAYERED, SURFACE, CUBEMAP = 1, 2, 4
WRAP, CLAMP, MIRROR, BORDER = range(4)
X = np.concatenate([np.linspace(-2.5, 10.5, 407), [np.nan, np.inf, -np.inf, 1e9, -0.0, 1e-40, 7.9999995, 8.0]]).astype(
    np.float32
)
Y = np.roll(X, 131)
U = np.linspace(-2.3, 3.1, 515).astype(np.float32)
V = np.roll(U, 200)


def kernel(name: str) -> Any:
    return cp.RawKernel(KERNELS, name)


def channels(bits: int, kind: int, count: int = 1) -> Any:
    texture = cp.cuda.texture
    return texture.ChannelFormatDescriptor(*[bits if number < count else 0 for number in range(4)], kind)


def made(host: np.ndarray, bits: int, kind: int, count: int = 1, flags: int = 0) -> Any:
    """A CUDA array that holds ``host``, whose last axis has all channels of a row."""
    sizes = [*host.shape[::-1], 0, 0][:3]
    array = cp.cuda.texture.CUDAarray(channels(bits, kind, count), sizes[0] // count, sizes[1], sizes[2], flags)
    array.copy_from(host)
    return array


def texture_of(array: Any, mode: int = CLAMP, linear: int = 0, fractions: int = 0, normalised: int = 0) -> Any:
    texture = cp.cuda.texture
    resource = texture.ResourceDescriptor(0, cuArr=array)
    border = (0.25, -1.0, 2.0, 0.5)
    return texture.TextureObject(
        resource, texture.TextureDescriptor((mode,) * 3, linear, fractions, None, border, normalised)
    )


def read(name: str, object: Any, *coordinates: np.ndarray, width: int = 1, dtype: str = "f4") -> np.ndarray:
    """What a kernel reads at the places, as bits."""
    n = len(coordinates[0])
    out = cp.zeros((n, width), dtype)
    given = [cp.asarray(c) for c in coordinates]
    kernel(name)(((n + 127) // 128,), (128,), (object, *given, np.int32(n), out))
    return cp.asnumpy(out).view(np.uint32)


def image(*shape: int, dtype: str = "f4") -> np.ndarray:
    """Values that differ from texel to texel."""
    count = int(np.prod(shape))
    mixed = (np.arange(count, dtype=np.uint64) * 2654435761 % 4294967291).astype(np.uint64)
    if dtype[0] == "f":
        return (mixed / 2.0**31 - 1).astype(dtype).reshape(shape)
    return (mixed % (1 << 8 * int(dtype[1:]))).astype(f"u{dtype[1:]}").view(dtype).reshape(shape)


@program("tex2D without filter takes the texel that holds the place; clamp takes the nearest at the edges")
def nearest() -> Values:
    host = image(6, 8)
    return {"host": host, "out": read("plane", texture_of(made(host, 32, FLOAT)), X, Y, width=4)}


@program("tex2D mixes four texels with weights of 8 bits")
def bilinear() -> Values:
    return {"out": read("plane", texture_of(made(image(6, 32), 32, FLOAT, 4), linear=1), X, Y, width=4)}


@program("tex3D mixes eight texels")
def trilinear() -> Values:
    return {"out": read("volume", texture_of(made(image(5, 6, 8), 32, FLOAT), linear=1), X, Y, np.roll(X, 57))}


@program("half-precision texels are filtered to half precision")
def halves() -> Values:
    return {"out": read("plane", texture_of(made(image(6, 32, dtype="f2"), 16, FLOAT, 4), linear=1), X, Y, width=4)}


@program("integers of 8 and 16 bits are read as fractions, filtered or not")
def fractions() -> Values:
    found = {}
    for dtype, kind in (("u1", UNSIGNED), ("i1", SIGNED), ("u2", UNSIGNED), ("i2", SIGNED)):
        array = made(image(6, 32, dtype=dtype), 8 * int(dtype[1]), kind, 4)
        for linear in (0, 1):
            texture = texture_of(array, linear=linear, fractions=1)
            found[f"{dtype} {linear}"] = read("plane", texture, X, Y, width=4)
    return found


@program("integers are read as they are; channels that a texel lacks are 0; a border's low bits count")
def integers() -> Values:
    found = {}
    for dtype, kind in (("u1", UNSIGNED), ("i2", SIGNED), ("i4", SIGNED)):
        for count in (1, 2, 4):
            array = made(image(6, 8 * count, dtype=dtype), 8 * int(dtype[1]), kind, count)
            found[f"{dtype} {count}"] = read("plane_int", texture_of(array, BORDER), X, Y, width=4, dtype="i4")
    return found


@program("wrap, clamp, mirror and border repeat or end a texture with normalised coordinates")
def address_modes() -> Values:
    array = made(image(6, 28), 32, FLOAT, 4)
    return {
        f"{mode} {linear}": read("plane", texture_of(array, mode, linear, normalised=1), U, V, width=4)
        for mode in (WRAP, CLAMP, MIRROR, BORDER)
        for linear in (0, 1)
    }


@program("wrap and mirror without normalised coordinates are clamp")
def unnormalised_repeats() -> Values:
    array = made(image(100), 32, FLOAT)
    return {str(mode): read("line", texture_of(array, mode, 1), X) for mode in (WRAP, CLAMP, MIRROR)}


@program("tex1Dfetch of linear memory reads 0 outside")
def linear_memory() -> Values:
    texture = cp.cuda.texture
    memory = cp.asarray(image(40))
    resource = texture.ResourceDescriptor(2, arr=memory, chDesc=channels(32, FLOAT, 2), sizeInBytes=160)
    found = texture.TextureObject(resource, texture.TextureDescriptor())
    places = np.array([*range(-4, 26), 2**31 - 1, -(2**31)], np.int32)
    return {
        "out": read("fetch", found, places, width=4),
        "desc": sorted(texture.TextureDescriptor().get_texture_desc()),
    }


@program("pitched memory is a 2-D texture")
def pitched_memory() -> Values:
    texture = cp.cuda.texture
    memory = cp.asarray(image(6, 16))
    resource = texture.ResourceDescriptor(
        3, arr=memory, chDesc=channels(32, FLOAT), width=13, height=6, pitchInBytes=64
    )
    found = texture.TextureObject(resource, texture.TextureDescriptor((CLAMP, CLAMP), 1))
    return {"out": read("plane", found, X, Y, width=4)}


@program("layers do not mix, and the last one ends them")
def layered() -> Values:
    array = made(image(3, 6, 8), 32, FLOAT, flags=LAYERED)
    numbers = (np.arange(len(X)) % 7 - 2).astype(np.int32)
    return {"out": read("layers", texture_of(array, linear=1), X, Y, numbers)}


@program("texCubemap takes the face that the direction meets")
def cube_map() -> Values:
    array = made(image(6, 4, 4), 32, FLOAT, flags=CUBEMAP)
    directions = [np.sin(np.arange(400) * step).astype(np.float32) for step in (1.0, 1.7, 2.3)]
    texture = texture_of(array, normalised=1)
    return {
        "point": read("cube", texture, *directions),
        "linear": read("cube", texture_of(array, linear=1), *directions),
    }


@program("tex2Dgather takes one channel of four texels")
def gather() -> Values:
    array = made(image(6, 32), 32, FLOAT, 4, flags=8)
    return {"out": read("gather", texture_of(array), X, Y, width=4)}


@program("a kernel reads a texture and writes a surface; copies take the array back")
def surface() -> Values:
    host = image(12, 20)
    source, target = made(host, 32, FLOAT), made(np.zeros((20, 12), np.float32), 32, FLOAT, flags=SURFACE)
    written = cp.cuda.texture.SurfaceObject(cp.cuda.texture.ResourceDescriptor(0, cuArr=target))
    kernel("turn")((1, 2), (12, 10), (texture_of(source), written, np.int32(12), np.int32(20)))
    out = cp.zeros((20, 12), np.float32)
    target.copy_to(out)
    host_out = np.zeros((20, 12), np.float32)
    stream = cp.cuda.Stream()
    cp.cuda.Device().synchronize()
    target.copy_to(host_out, stream)
    stream.synchronize()
    return {"host": host, "out": out, "host_out": host_out}


@program("a surface's boundary modes clamp, or read 0 and write nothing")
def surface_edges() -> Values:
    array = made(image(6, 8), 32, FLOAT, flags=SURFACE)
    object = cp.cuda.texture.SurfaceObject(cp.cuda.texture.ResourceDescriptor(0, cuArr=array))
    read_back, out = cp.zeros(4, np.float32), cp.zeros((6, 8), np.float32)
    kernel("edges")((1,), (1,), (object, read_back))
    array.copy_to(out)
    return {"read": read_back, "out": out}


@program("surfaces of three dimensions, and of one written in other sizes than its texels")
def surface_shapes() -> Values:
    texture = cp.cuda.texture
    deep = made(image(3, 4, 8), 32, FLOAT, flags=SURFACE)
    flat = made(image(64, dtype="u4"), 32, UNSIGNED, flags=SURFACE)
    kernel("slices")((1,), (8, 4, 3), (texture.SurfaceObject(texture.ResourceDescriptor(0, cuArr=deep)),))
    kernel("bytes")((1,), (32,), (texture.SurfaceObject(texture.ResourceDescriptor(0, cuArr=flat)),))
    out, line = cp.zeros((3, 4, 8), np.float32), cp.zeros(64, np.uint32)
    deep.copy_to(out)
    flat.copy_to(line)
    return {"out": out, "line": line}


@program("a surface write beyond the edge is an illegal address", isolated=True)
def surface_overrun() -> Values:
    array = made(image(6, 8), 32, FLOAT, flags=SURFACE)
    kernel("stray")((1,), (9,), (cp.cuda.texture.SurfaceObject(cp.cuda.texture.ResourceDescriptor(0, cuArr=array)),))
    return {"error": raised(cp.cuda.Device().synchronize)}


@program("a surface write that is not aligned is a misaligned address", isolated=True)
def surface_misaligned() -> Values:
    array = made(image(6, 8), 32, FLOAT, flags=SURFACE)
    kernel("crooked")((1,), (1,), (cp.cuda.texture.SurfaceObject(cp.cuda.texture.ResourceDescriptor(0, cuArr=array)),))
    return {"error": raised(cp.cuda.Device().synchronize)}


# -- the runtime and the driver ----------------------------------------------------------------------------------------


def description(bits: int, kind: int, count: int = 1) -> Any:
    found = cudart.cudaChannelFormatDesc()
    found.x, found.y, found.z, found.w = [bits if number < count else 0 for number in range(4)]
    found.f = cudart.cudaChannelFormatKind(kind)
    return found


def runtime_array(bits: int, kind: int, width: int, height: int, flags: int = 0, count: int = 1) -> Any:
    return cudart.cudaMallocArray(description(bits, kind, count), width, height, flags)[1]


def resource_of(array: Any) -> Any:
    found = cudart.cudaResourceDesc()
    found.resType = cudart.cudaResourceType.cudaResourceTypeArray
    found.res.array.array = array
    return found


def how(linear: int = 0, read: int = 0) -> Any:
    found = cudart.cudaTextureDesc()
    found.filterMode = cudart.cudaTextureFilterMode(linear)
    found.readMode = cudart.cudaTextureReadMode(read)
    return found


@program("cudaMemcpy2DToArray, 2DFromArray and 2DArrayToArray copy boxes; offsets are bytes and rows")
def array_copies() -> Values:
    kinds = cudart.cudaMemcpyKind
    one, two = runtime_array(32, FLOAT, 8, 6), runtime_array(32, FLOAT, 8, 6)
    host, out, back = image(6, 8), np.zeros((6, 8), np.float32), np.zeros((3, 4), np.float32)
    zeros = np.zeros((6, 8), np.float32)
    found = [
        cudart.cudaMemcpy2DToArray(one, 0, 0, host.ctypes.data, 32, 32, 6, kinds.cudaMemcpyHostToDevice),
        cudart.cudaMemcpy2DToArray(two, 0, 0, zeros.ctypes.data, 32, 32, 6, kinds.cudaMemcpyDefault),
        cudart.cudaMemcpy2DArrayToArray(two, 8, 1, one, 4, 2, 16, 3, kinds.cudaMemcpyDeviceToDevice),
        cudart.cudaMemcpy2DFromArray(out.ctypes.data, 32, two, 0, 0, 32, 6, kinds.cudaMemcpyDeviceToHost),
        cudart.cudaMemcpy2DFromArray(back.ctypes.data, 16, one, 12, 3, 16, 3, kinds.cudaMemcpyDeviceToHost),
    ]
    stream = cudart.cudaStreamCreate()[1]
    device = cp.zeros((6, 8), np.float32)
    cp.cuda.Device().synchronize()
    found += [
        cudart.cudaMemcpy2DFromArrayAsync(
            device.data.ptr, 32, one, 0, 0, 32, 6, kinds.cudaMemcpyDeviceToDevice, stream
        ),
        cudart.cudaStreamSynchronize(stream),
    ]
    return {"codes": [code(answer) for answer in found], "out": out, "back": back, "device": device}


@program("copies that do not fit an array have errors of their own")
def array_copy_errors() -> Values:
    kinds = cudart.cudaMemcpyKind
    array, host = runtime_array(32, FLOAT, 4, 4), np.zeros((8, 8), np.float32)
    at = host.ctypes.data

    def back(
        pitch: int, width: int, height: int, x: int = 0, y: int = 0, kind: Any = kinds.cudaMemcpyDeviceToHost
    ) -> str:
        return code(cudart.cudaMemcpy2DFromArray(at, pitch, array, x, y, width, height, kind))

    return {
        "fits": back(16, 16, 4),
        "wide": back(32, 20, 4),
        "tall": back(16, 16, 5),
        "beyond": back(16, 16, 4, x=4),
        "odd place": back(16, 8, 4, x=2),
        "pitch": back(8, 16, 4),
        "kind": back(16, 16, 4, kind=kinds.cudaMemcpyHostToDevice),
        "nothing": back(16, 0, 4, kind=kinds.cudaMemcpyHostToDevice),
        "no array": code(cudart.cudaMemcpy2DFromArray(at, 16, None, 0, 0, 16, 4, kinds.cudaMemcpyDeviceToHost)),
    }


@program("arrays have limits, and texels of 1, 2 or 4 equal channels")
def array_limits() -> Values:
    def answer(bits: int, kind: int, count: int, *extent: int, flags: int = 0) -> str:
        size = cudart.make_cudaExtent(*extent)
        made, array = cudart.cudaMalloc3DArray(description(bits, kind, count), size, flags)
        if int(made) == 0:
            cudart.cudaFreeArray(array)
        return str(made.name)

    mixed = cudart.cudaChannelFormatDesc()
    mixed.x, mixed.y, mixed.f = 32, 16, cudart.cudaChannelFormatKind(FLOAT)
    return {
        "three channels": answer(32, FLOAT, 3, 4, 4, 0),
        "64 bits": answer(64, FLOAT, 1, 4, 4, 0),
        "float of 8 bits": answer(8, FLOAT, 1, 4, 4, 0),
        "mixed": code(cudart.cudaMallocArray(mixed, 4, 4, 0)),
        "no width": answer(32, FLOAT, 1, 0, 4, 0),
        "no height": answer(32, FLOAT, 1, 4, 0, 3),
        "long": answer(32, FLOAT, 1, 131073, 0, 0),
        "1-D": answer(32, FLOAT, 1, 131072, 0, 0),
        "deep": answer(8, UNSIGNED, 1, 16385, 2, 2),
        "layers": answer(8, UNSIGNED, 1, 4, 4, 2049, flags=LAYERED),
        "most layers": answer(8, UNSIGNED, 1, 4, 4, 2048, flags=LAYERED),
        "cube": answer(8, UNSIGNED, 1, 4, 4, 6, flags=CUBEMAP),
        "cube not square": answer(8, UNSIGNED, 1, 4, 5, 6, flags=CUBEMAP),
        "five faces": answer(8, UNSIGNED, 1, 4, 4, 5, flags=CUBEMAP),
        "two cubes": answer(8, UNSIGNED, 1, 4, 4, 12, flags=CUBEMAP | LAYERED),
        "gather in 3-D": answer(8, UNSIGNED, 1, 4, 4, 5, flags=8),
        "flags": answer(8, UNSIGNED, 1, 4, 4, 0, flags=1 << 12),
        "free nothing": code(cudart.cudaFreeArray(None)),
    }


@program("what a texture object may be made of")
def object_errors() -> Values:
    def of(bits: int, kind: int, linear: int = 0, read: int = 0) -> str:
        array = runtime_array(bits, kind, 4, 4)
        return code(cudart.cudaCreateTextureObject(resource_of(array), how(linear, read), None))

    def of_memory(offset: int, size: int, count: int = 1, pitch: int = 0, width: int = 4) -> str:
        memory = cp.zeros(65536, np.uint8)
        resource = cudart.cudaResourceDesc()
        if pitch:
            resource.resType = cudart.cudaResourceType.cudaResourceTypePitch2D
            plane = resource.res.pitch2D
            plane.devPtr, plane.desc, plane.pitchInBytes = memory.data.ptr + offset, description(32, FLOAT), pitch
            plane.width, plane.height = width, 4
        else:
            resource.resType = cudart.cudaResourceType.cudaResourceTypeLinear
            linear = resource.res.linear
            linear.devPtr, linear.desc, linear.sizeInBytes = (
                memory.data.ptr + offset,
                description(32, FLOAT, count),
                size,
            )
        return code(cudart.cudaCreateTextureObject(resource, how(), None))

    texture = cudart.cudaCreateTextureObject(resource_of(runtime_array(32, FLOAT, 4, 4)), how(), None)[1]
    memory = cudart.cudaResourceDesc()
    memory.resType = cudart.cudaResourceType.cudaResourceTypeLinear
    return {
        "integers filtered": of(32, SIGNED, linear=1),
        "bytes filtered": of(8, UNSIGNED, linear=1),
        "fractions filtered": of(8, UNSIGNED, linear=1, read=1),
        "int as fraction": of(32, SIGNED, read=1),
        "float as fraction": of(32, FLOAT, read=1),
        "no array": code(cudart.cudaCreateTextureObject(resource_of(None), how(), None)),
        "memory": of_memory(0, 64),
        "unaligned memory": of_memory(256, 64),
        "aligned memory": of_memory(512, 64),
        "no bytes": of_memory(0, 0),
        "three channels": of_memory(0, 48, 3),
        "pitch": of_memory(0, 0, pitch=32),
        "odd pitch": of_memory(0, 0, pitch=48),
        "narrow pitch": of_memory(0, 0, pitch=32, width=200),
        "destroy": code(cudart.cudaDestroyTextureObject(texture)),
        "destroy twice": code(cudart.cudaDestroyTextureObject(texture)),
        "destroy nothing": code(cudart.cudaDestroyTextureObject(0)),
        "ask a destroyed one": code(cudart.cudaGetTextureObjectTextureDesc(999999)),
        "surface of memory": code(cudart.cudaCreateSurfaceObject(memory)),
        "surface without flag": code(cudart.cudaCreateSurfaceObject(resource_of(runtime_array(32, FLOAT, 4, 4)))),
    }


@program("objects and arrays tell what they were made of")
def object_questions() -> Values:
    array = runtime_array(16, SIGNED, 8, 6, flags=SURFACE, count=2)
    asked = how(linear=1, read=1)
    modes = cudart.cudaTextureAddressMode
    asked.addressMode = [modes.cudaAddressModeWrap, modes.cudaAddressModeBorder, modes.cudaAddressModeMirror]
    asked.normalizedCoords = 1
    texture = cudart.cudaCreateTextureObject(resource_of(array), asked, None)[1]
    resource, told = (
        cudart.cudaGetTextureObjectResourceDesc(texture)[1],
        cudart.cudaGetTextureObjectTextureDesc(texture)[1],
    )
    _, format, extent, flags = cudart.cudaArrayGetInfo(array)
    made = cudart.cudaCreateChannelDesc(8, 8, 0, 0, cudart.cudaChannelFormatKind(UNSIGNED))[1]
    surface = cudart.cudaCreateSurfaceObject(resource_of(array))[1]
    of_surface = cudart.cudaGetSurfaceObjectResourceDesc(surface)[1]
    return {
        "same array": int(resource.res.array.array) == int(array) == int(of_surface.res.array.array),
        "modes": [int(mode) for mode in told.addressMode],
        "how": [int(told.filterMode), int(told.readMode), told.normalizedCoords],
        "format": [format.x, format.y, format.z, format.w, int(format.f)],
        "extent": [extent.width, extent.height, extent.depth, flags],
        "channels": [made.x, made.y, made.z, made.w, int(made.f)],
        "type": int(resource.resType),
    }


@program("the driver makes arrays and objects too")
def driver_objects() -> Values:
    cp.zeros(1)
    made = driver.CUDA_ARRAY_DESCRIPTOR()
    made.Width, made.Height, made.NumChannels = 8, 6, 1
    made.Format = driver.CUarray_format.CU_AD_FORMAT_FLOAT
    answer, array = driver.cuArrayCreate(made)
    host = image(6, 8)
    copy = driver.CUDA_MEMCPY2D()
    copy.srcMemoryType, copy.dstMemoryType = (
        driver.CUmemorytype.CU_MEMORYTYPE_HOST,
        driver.CUmemorytype.CU_MEMORYTYPE_ARRAY,
    )
    copy.srcHost, copy.dstArray, copy.WidthInBytes, copy.srcPitch, copy.Height = host.ctypes.data, array, 32, 32, 6
    copied = driver.cuMemcpy2D(copy)
    resource = driver.CUDA_RESOURCE_DESC()
    resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    resource.res.array.hArray = array
    asked = driver.CUDA_TEXTURE_DESC()
    asked.addressMode = [driver.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
    asked.filterMode = driver.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
    created, texture = driver.cuTexObjectCreate(resource, asked, None)
    out = read("plane", np.uint64(int(texture)), X, Y, width=4)
    told = driver.cuArray3DGetDescriptor(array)[1]
    return {
        "out": out,
        "codes": [code((answer,)), code(copied), code((created,))],
        "told": [told.Width, told.Height, told.Depth, int(told.Format), told.NumChannels, told.Flags],
        "end": [code(driver.cuTexObjectDestroy(texture)), code(driver.cuArrayDestroy(array))],
    }


@program("cp.cuda.texture refuses arrays of another shape or type")
def cupy_errors() -> Values:
    array = made(image(6, 8), 32, FLOAT)
    return {
        "shape": raised(lambda: array.copy_from(np.zeros((8, 6), np.float32))),
        "dtype": raised(lambda: array.copy_from(np.zeros((6, 8), np.float64))),
        "int": raised(lambda: array.copy_from(np.zeros((6, 8), np.int32))),
        "list": raised(lambda: array.copy_from([1.0])),
        "modes": raised(lambda: cp.cuda.texture.TextureDescriptor((0, 0, 0, 0))),
        "channels": raised(lambda: cp.cuda.texture.CUDAarray(channels(32, FLOAT, 3), 4)),
        "format": channels(16, SIGNED, 2).get_channel_format(),
        "sizes": [array.width, array.height, array.depth, array.ndim, array.flags],
    }
