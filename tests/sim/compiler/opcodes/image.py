"""Textures and surfaces that kernels under test get: what they hold, and how they are made on either device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.sim.abi import ImageShape, TexelFormat
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.textures import ImageLayout, Sampling, Texels

EXTENT = (8, 4, 3)
"""Texels: width, height, depth or layers."""
_SHAPES = {
    "1d": ImageShape.ARRAY_1D,
    "2d": ImageShape.ARRAY_2D,
    "3d": ImageShape.ARRAY_3D,
    "a1d": ImageShape.LAYERED_1D,
    "a2d": ImageShape.LAYERED_2D,
    "cube": ImageShape.CUBE,
    "acube": ImageShape.LAYERED_CUBE,
    "linear": ImageShape.LINEAR,
}
_FLAGS = {"1d": 0, "2d": 0, "3d": 0, "a1d": 1, "a2d": 1, "cube": 4, "acube": 5}
_FORMATS = {"s32": (TexelFormat.S32, 10), "u32": (TexelFormat.U32, 3), "f32": (TexelFormat.F32, 32)}
"""Of a type: our name, and the driver's number."""


@dataclass(frozen=True)
class Image:
    """One object. Textures are read without filter, clamped at the edges."""

    geometry: str
    type: str
    channels: int
    data: bytes
    surface: bool = False

    @property
    def extent(self) -> tuple[int, int, int]:
        """Texels in x, y, z; at least 1."""
        return extent_of(self.geometry)

    @property
    def normalised(self) -> bool:
        return "cube" in self.geometry


def extent_of(geometry: str) -> tuple[int, int, int]:
    width, height, depth = EXTENT
    return {
        "linear": (width, 1, 1),
        "1d": (width, 1, 1),
        "2d": (width, height, 1),
        "3d": (width, height, depth),
        "a1d": (width, 1, depth),
        "a2d": (width, height, depth),
        "cube": (height, height, 6),
        "acube": (height, height, 12),
    }[geometry]


def on_simulated(memory: Memory, image: Image) -> tuple[int, int]:
    """The object's handle and its memory."""
    texels = Texels(_FORMATS[image.type][0], image.channels)
    pointer = memory.allocate(len(image.data))
    memory.view(pointer, len(image.data))[:] = image.data
    row = image.extent[0] * texels.bytes
    layout = ImageLayout(pointer, _SHAPES[image.geometry], texels, image.extent, row, row * image.extent[1])
    sampling = None if image.surface else Sampling((1, 1, 1), normalised=image.normalised)
    handle = memory.images.add(layout, sampling)
    memory.version += 1
    return handle, pointer


def on_gpu(driver: Any, check: Any, image: Image) -> int:
    """The object's handle; it lives as long as the process."""
    width, height, depth = image.extent
    resource = driver.CUDA_RESOURCE_DESC()
    format = driver.CUarray_format(_FORMATS[image.type][1])
    if image.geometry == "linear":
        pointer = check(driver.cuMemAlloc(len(image.data)))
        check(driver.cuMemcpyHtoD(pointer, np.frombuffer(image.data, np.uint8).ctypes.data, len(image.data)))
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        linear = resource.res.linear
        linear.devPtr, linear.format, linear.numChannels = pointer, format, image.channels
        linear.sizeInBytes = len(image.data)
    else:
        made = driver.CUDA_ARRAY3D_DESCRIPTOR()
        made.Width, made.Format, made.NumChannels = width, format, image.channels
        made.Height = height if image.geometry not in ("1d", "a1d") else 0
        made.Depth = depth if image.geometry not in ("1d", "2d") else 0
        made.Flags = _FLAGS[image.geometry] | 2
        array = check(driver.cuArray3DCreate(made))
        copy = driver.CUDA_MEMCPY3D()
        copy.srcMemoryType, copy.dstMemoryType = (
            driver.CUmemorytype.CU_MEMORYTYPE_HOST,
            driver.CUmemorytype.CU_MEMORYTYPE_ARRAY,
        )
        host = np.frombuffer(image.data, np.uint8)
        copy.srcHost, copy.dstArray = host.ctypes.data, array
        copy.WidthInBytes = copy.srcPitch = width * 4 * image.channels
        copy.Height = copy.srcHeight = height
        copy.Depth = depth
        check(driver.cuMemcpy3D(copy))
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
        resource.res.array.hArray = array
    if image.surface:
        return int(check(driver.cuSurfObjectCreate(resource)))
    description = driver.CUDA_TEXTURE_DESC()
    description.addressMode = [driver.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
    description.flags = (1 if image.type != "f32" else 0) | (2 if image.normalised else 0)  # as integers; normalised
    return int(check(driver.cuTexObjectCreate(resource, description, None)))
