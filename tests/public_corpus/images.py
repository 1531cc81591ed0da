"""Texture and surface objects for kernels that want some: of the shape and type that their instructions read.

Every object shows the same numbers on the simulated device and on a GPU: 64 texels along each axis (16 in depth), four
channels; floats between 0 and 1 where floats are read, bytes below 64 where integers are. Points, clamped, coordinates
as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from cudalab.sim.compiler.program import Kernel, Parameter
from cudalab.sim.device import Device

_OPCODE = re.compile(
    r"(?P<what>tex|tld4|suld|sust)\.(?:b\.|r\.|level\.|base\.)*(?P<shape>a?[123]d|a?cube)\.(?P<types>.*)"
)
_SIZES = {"1d": (64, 0, 0), "2d": (64, 64, 0), "3d": (64, 64, 16)}
_FLOAT, _BYTES = ((32, 32, 32, 32), 2), ((8, 8, 8, 8), 1)
MOST = 6
"""Ways to give the objects to the parameters."""


@dataclass(frozen=True)
class Image:
    surface: bool
    shape: str
    """``1d``, ``2d`` or ``3d``; ``fetch`` is linear memory."""
    floats: bool

    @property
    def size(self) -> tuple[int, int, int]:
        return _SIZES["1d" if self.shape == "fetch" else self.shape]

    @property
    def texels(self) -> np.ndarray:
        count = 4 * int(np.prod([max(1, side) for side in self.size]))
        random = np.random.default_rng(2)
        return random.random(count, np.float32) if self.floats else random.integers(0, 64, count, np.uint8)


def is_handle(parameter: Parameter) -> bool:
    return parameter.ctype in ("unsigned long long", "unsigned long") and parameter.kind == "integer"


def assignments(kernel: Kernel) -> Iterator[tuple[Image, ...]]:
    """What to give the parameters that are handles, the likeliest first; one empty tuple where there are none."""
    wanted: list[Image] = []
    for site in kernel.sites:
        found = _OPCODE.match(site.opcode)
        if not found or found["shape"] not in _SIZES:
            continue
        surface = found["what"].startswith("su")
        parts = found["types"].split(".")
        floats = "f32" in parts[:-1] or (surface and "b32" in parts)
        fetch = not surface and found["shape"] == "1d" and parts[-1] == "s32"
        wanted.append(Image(surface, "fetch" if fetch else found["shape"], floats))
    handles = sum(is_handle(p) for p in kernel.parameters)
    kinds = list(dict.fromkeys(wanted))
    if not handles or not kinds:
        yield ()
        return
    ways = sorted(product(kinds, repeat=handles), key=lambda way: -len(set(way)))
    yield from ways[:MOST]


def simulated(device: Device, image: Image) -> int:
    """A handle on the simulated device."""
    texels, (width, height, depth) = image.texels, image.size
    channels = _FLOAT if image.floats else _BYTES
    row = texels.nbytes // (max(1, height) * max(1, depth))
    if image.shape == "fetch":
        pointer = device.malloc(texels.nbytes)
        device.memcpy(pointer, texels.ctypes.data, texels.nbytes, 1)
        device.synchronize()
        return device.create_texture(pointer, (1, 1, 1), channels=channels, extent=(texels.nbytes, 0))
    array = device.malloc_array(channels, (width, height, depth), 2 if image.surface else 0)
    box = (row, max(1, height), max(1, depth))
    device.memcpy_array((array, 0, 0, 0), (texels.ctypes.data, row, row * box[1]), box)
    device.synchronize()  # the copy is queued, and launches under the sanitizer do not wait for the queue
    return device.create_surface(array) if image.surface else device.create_texture(array, (1, 1, 1))


def measured(cp: Any, image: Image) -> Any:
    """The same as a CuPy object; ``.ptr`` is the handle."""
    texture, runtime = cp.cuda.texture, cp.cuda.runtime
    texels, (width, height, depth) = image.texels, image.size
    kind = runtime.cudaChannelFormatKindFloat if image.floats else runtime.cudaChannelFormatKindUnsigned
    bits = 32 if image.floats else 8
    channels = texture.ChannelFormatDescriptor(bits, bits, bits, bits, kind)
    if image.shape == "fetch":
        data = cp.asarray(texels)
        resource = texture.ResourceDescriptor(
            runtime.cudaResourceTypeLinear, arr=data, chDesc=channels, sizeInBytes=data.nbytes
        )
    else:
        array = texture.CUDAarray(channels, width, height, depth, 2 if image.surface else 0)
        array.copy_from(texels.reshape([side for side in (depth, height) if side] + [4 * width]))
        resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array)
    if image.surface:
        return texture.SurfaceObject(resource)
    modes = (runtime.cudaAddressModeClamp,) * 3
    return texture.TextureObject(resource, texture.TextureDescriptor(addressModes=modes))
