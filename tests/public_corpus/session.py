"""What a launch written by hand needs, the same on the simulated device and on a GPU: both are CuPy here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WRAP, CLAMP = 0, 1
_KINDS = {"i": 0, "u": 1, "f": 2}


@dataclass
class Session:
    """One kernel of a compiled file, and what belongs to its launch."""

    cp: Any
    module: Any
    kernel: str
    """As PTX calls it."""
    kernels: tuple[str, ...]
    """All of the module, as PTX calls them."""
    _kept: list[Any] = field(default_factory=list)
    """Memory behind handles and pointers inside of structures."""

    def named(self, name: str) -> str:
        """What PTX calls a kernel; of a template's instances the one with the same first argument as this kernel."""
        found = [k for k in self.kernels if k == name or k.startswith(f"_Z{len(name)}{name}")]
        argument = re.search(r"IL[a-z]\d+E", self.kernel)
        return next((k for k in found if argument and argument.group() in k), found[0])

    def launch(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        *args: Any,
        kernel: str = "",
        shared: int = 0,
        cooperative: bool = False,
    ) -> None:
        """This kernel, or another of the module by the name it has in the source."""
        function = self.module.get_function(self.named(kernel) if kernel else self.kernel)
        function.kernel(grid, block, args, shared_mem=shared, enable_cooperative_groups=cooperative)

    def device(self, values: Any) -> Any:
        """An array on the device that lives as long as this."""
        array = self.cp.asarray(np.ascontiguousarray(values))
        self._kept.append(array)
        return array

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        return self.device(np.zeros(shape, dtype))

    def constant(self, name: str, values: Any) -> None:
        """What ``cudaMemcpyToSymbol`` does."""
        values = np.atleast_1d(values)
        self.cp.ndarray(values.shape, values.dtype, memptr=self.module.get_global(name)).set(values)

    def variable(self, name: str, dtype: Any) -> np.ndarray:
        """What ``cudaMemcpyFromSymbol`` does, for one number."""
        found: np.ndarray = self.cp.ndarray((1,), dtype, memptr=self.module.get_global(name)).get()
        return found

    def array(self, texels: np.ndarray, *, layered: bool = False, surface: bool = False) -> Any:
        """A CUDA array of texels: axes depth or layer, height, width, channels."""
        texture = self.cp.cuda.texture
        channels = texels.shape[-1]
        bits = [8 * texels.dtype.itemsize] * channels + [0] * (4 - channels)
        width, height, depth = [*texels.shape[-2::-1], 0, 0][:3]
        description = texture.ChannelFormatDescriptor(*bits, _KINDS[texels.dtype.kind])
        array = texture.CUDAarray(description, width, height, depth, layered + 2 * surface)
        array.copy_from(np.ascontiguousarray(texels).reshape(*texels.shape[:-2], width * channels))
        self._kept.append(array)
        return array

    def texture(
        self,
        texels: np.ndarray,
        *,
        mode: int = CLAMP,
        linear: bool = False,
        normalised: bool = False,
        fractions: bool = False,
        layered: bool = False,
    ) -> np.uint64:
        """The handle of a texture object; `fractions`: integers are read as numbers from 0 to 1."""
        texture = self.cp.cuda.texture
        resource = texture.ResourceDescriptor(0, cuArr=self.array(texels, layered=layered))
        return self._texture(resource, mode, linear, normalised, fractions)

    def linear_texture(self, values: np.ndarray, *, fractions: bool = False) -> np.uint64:
        """The handle of a texture object over linear memory."""
        texture = self.cp.cuda.texture
        channels = texture.ChannelFormatDescriptor(8 * values.dtype.itemsize, 0, 0, 0, _KINDS[values.dtype.kind])
        memory = self.device(values)
        resource = texture.ResourceDescriptor(2, arr=memory, chDesc=channels, sizeInBytes=values.nbytes)
        return self._texture(resource, CLAMP, False, False, fractions)

    def _texture(self, resource: Any, mode: int, linear: bool, normalised: bool, fractions: bool) -> np.uint64:
        texture = self.cp.cuda.texture
        description = texture.TextureDescriptor((mode,) * 3, int(linear), int(fractions), None, None, int(normalised))
        made = texture.TextureObject(resource, description)
        self._kept.append(made)
        return np.uint64(made.ptr)

    def surface(self, array: Any) -> np.uint64:
        """The handle of a surface object over what `array` made."""
        texture = self.cp.cuda.texture
        made = texture.SurfaceObject(texture.ResourceDescriptor(0, cuArr=array))
        self._kept.append(made)
        return np.uint64(made.ptr)

    def read(self, array: Any, like: np.ndarray) -> np.ndarray:
        """The texels of a CUDA array."""
        out = np.empty((*like.shape[:-2], like.shape[-2] * like.shape[-1]), like.dtype)
        array.copy_to(out)
        return out


def record(**fields: Any) -> Any:
    """A structure passed by value, without padding: ``record(x=np.uint32(1), y=np.uint32(2))``."""
    dtype = np.dtype([(name, np.asarray(value).dtype, np.shape(value)) for name, value in fields.items()])
    return np.array([tuple(fields.values())], dtype)[0]
