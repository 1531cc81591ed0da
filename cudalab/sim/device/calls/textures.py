"""CUDA arrays, texture objects and surface objects (CUDA C++ Programming Guide, "Texture and Surface Memory").

An array on a GPU is laid out for neighbourhoods, in a way that is not documented, and only copies and objects reach it.
Here it is rows in device memory; the modelled time of fetches is that of loads from there. Errors and limits are those
of an H200 (driver 580): a surface object needs no flag of its array, destroying an object twice is no error, and
freeing an array does not ask whether objects still use it.

Compiled code finds an object through ``context.images`` by the low bits of its handle; the rest of the handle tells a
destroyed object from a later one. Each texel goes through the bounds check, the trace and the undo log as a load or
store of its own. An object that is destroyed stays until the work enqueued before has ended.

Not simulated: mipmapped arrays, resource views, sRGB, seamless cube maps, sparse arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.abi import ImageShape, TexelFormat
from cudalab.sim.device.calls.allocator import Allocator
from cudalab.sim.device.calls.copies import CopyCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Address, AddressOrHandle, Allocates, Handle, Waits
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.queue.copy_region import CopyRegion
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.memory.textures import ImageLayout, ImageObject, Sampling, Texels

LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
"""Flags of arrays, ``cudaArrayLayered`` …"""
SIGNED, UNSIGNED, FLOAT = 0, 1, 2
"""``cudaChannelFormatKind``"""
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2
_ROW_ALIGNMENT = 64
_FORMATS = {
    (SIGNED, 8): TexelFormat.S8,
    (UNSIGNED, 8): TexelFormat.U8,
    (SIGNED, 16): TexelFormat.S16,
    (UNSIGNED, 16): TexelFormat.U16,
    (SIGNED, 32): TexelFormat.S32,
    (UNSIGNED, 32): TexelFormat.U32,
    (FLOAT, 16): TexelFormat.F16,
    (FLOAT, 32): TexelFormat.F32,
}
_FLOATS = (TexelFormat.F16, TexelFormat.F32)
_WORDS = (TexelFormat.S32, TexelFormat.U32)

Channels = tuple[tuple[int, int, int, int], int]
"""Bits of each channel, and the ``cudaChannelFormatKind``."""
Side = tuple[Address, int, int] | tuple[Handle, int, int, int]
"""One side of a copy. Memory: address of the first byte, pitch, bytes from slice to slice. An array: its handle and
where the box begins: x in bytes, y, z or layer."""


class ArrayInfo(Struct, frozen=True):
    """One CUDA array. ``extent`` is what it was made with: 0 for a dimension that it does not have."""

    channels: Channels
    extent: tuple[int, int, int]
    flags: int
    layout: ImageLayout


class TextureCalls(CallGroup):
    """CUDA arrays, texture and surface objects."""

    def __init__(self, state: DeviceState, allocator: Allocator, copies: CopyCalls) -> None:
        super().__init__(state)
        self._allocator, self._copies = allocator, copies

    def clear(self) -> None:
        self._arrays: dict[int, ArrayInfo] = {}
        self._doomed: list[tuple[int, str, int]] = []
        self._array_handles = 0x0E00_0000

    # -- arrays --------------------------------------------------------------------------------------------------------

    @call("cudaMalloc3DArray", "cuArray3DCreate", cost=None, allocates=Allocates.DEVICE)
    def malloc_array(self, channels: Channels, extent: tuple[int, int, int], flags: int = 0) -> Handle:
        """Create an array: a handle. ``extent`` is width, height and depth (or layers) in texels; 0 for a dimension
        that the array does not have."""
        self.state.spend(self.state.profile.host["malloc_small"])
        texels = self._texels("cudaMalloc3DArray", channels)
        shape = self._shape(extent, flags)
        width, height, depth = (max(1, size) for size in extent)
        pitch = -(-width * texels.bytes // _ROW_ALIGNMENT) * _ROW_ALIGNMENT
        pointer = self._allocator.allocate(pitch * height * depth, "device", "cudaMallocArray")
        self._array_handles += 0x40
        layout = ImageLayout(pointer, shape, texels, (width, height, depth), pitch, pitch * height)
        self._arrays[self._array_handles] = ArrayInfo(_plain(channels), _triple(extent), flags, layout)
        return self._array_handles

    @call("cudaFreeArray", "cuArrayDestroy", cost=None, waits=Waits.DEVICE)
    def free_array(self, array: Handle) -> None:
        """Wait for the whole device, then free. 0 does nothing. Objects made of the array stay, and using one is a
        fault."""
        if not array:
            return self.state.spend(self.state.profile.host["query"])
        info = self._array("cudaFreeArray", array)
        self.state.spend(self.state.profile.host["free_small"])
        self.state.wait_for_all()
        self.destroy_unused()
        self._allocator.release(info.layout.data, "cudaFreeArray")
        del self._arrays[array]
        return None

    @call("cudaArrayGetInfo", "cuArray3DGetDescriptor")
    def array_info(self, array: Handle) -> tuple[Channels, tuple[int, int, int], int]:
        """Channels, extent and flags of an array."""
        info = self._array("cudaArrayGetInfo", array)
        return info.channels, info.extent, info.flags

    def _array(self, name: str, array: int) -> ArrayInfo:
        info = self._arrays.get(array)
        if info is None:
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                f"{name}: {array:#x} is no array of this device; it was freed, or made before a reset",
            )
        return info

    def check_channels(self, name: str, channels: Channels) -> None:
        """Raise ``cudaErrorInvalidChannelDescriptor`` unless a texel can have these channels. No call, takes no
        modelled time."""
        try:
            self._texels(name, channels)
        except CudaError as error:
            self.state.errors.remember(error)
            raise

    @staticmethod
    def _texels(name: str, channels: Channels) -> Texels:
        bits, kind = channels
        count = sum(1 for width in bits if width)
        format = _FORMATS.get((kind, bits[0]))
        if format is None or count not in (1, 2, 4) or any(width != bits[0] for width in bits[:count]):
            raise CudaError(
                cudaError_t.cudaErrorInvalidChannelDescriptor,
                f"{name}: channels of {tuple(bits)} bits, kind {kind}. A texel has 1, 2 or 4 channels of 8, 16 or 32 "
                "bits, all alike, the first ones; floats have 16 or 32",
            )
        return Texels(format, count)

    def _shape(self, extent: tuple[int, int, int], flags: int) -> ImageShape:
        """What an array of this extent is; ``cudaErrorInvalidValue`` where there is none such, or it is too large."""
        width, height, depth = extent
        p = self.state.profile.properties
        if flags & ~(LAYERED | SURFACE | CUBEMAP | GATHER):
            raise invalid_value(f"cudaMalloc3DArray: flags {flags:#x} are not simulated, or do not exist")
        if flags & CUBEMAP:
            shape = ImageShape.LAYERED_CUBE if flags & LAYERED else ImageShape.CUBE
            most = (p["maxTextureCubemap"],) * 2 + (6,)
            if flags & LAYERED:
                side, layers = p["maxTextureCubemapLayered"]
                most = (side, side, layers)
            fits = width == height and depth and depth % 6 == 0
            rule = "a cube map has square faces, 6 of them for each layer"
        elif flags & LAYERED:
            shape = ImageShape.LAYERED_2D if height else ImageShape.LAYERED_1D
            most = tuple(p["maxTexture2DLayered"])
            if not height:
                longest, layers = p["maxTexture1DLayered"]
                most = (longest, 0, layers)
            fits, rule = depth > 0, "a layered array has at least one layer"
        else:
            shape = ImageShape.ARRAY_3D if depth else ImageShape.ARRAY_2D if height else ImageShape.ARRAY_1D
            most = (p["maxTexture1D"], 0, 0)
            if depth:
                most = tuple(p["maxTexture3D"])
                alternate = tuple(p["maxTexture3DAlt"])
                if all(size <= limit for size, limit in zip(extent, alternate, strict=True)):
                    most = alternate
            elif height:
                most = (*p["maxTexture2D" if not flags & GATHER else "maxTexture2DGather"], 0)
            fits, rule = height > 0 or not depth, "a 3-D array needs a height"
        if flags & GATHER and shape is not ImageShape.ARRAY_2D:
            fits, rule = False, "cudaArrayTextureGather is for 2-D arrays"
        if width < 1 or not fits or any(size > limit for size, limit in zip(extent, most, strict=True)):
            raise invalid_value(
                f"cudaMalloc3DArray: {width} x {height} x {depth} texels with flags {flags}; at most {most}, and {rule}"
            )
        return shape

    # -- copies --------------------------------------------------------------------------------------------------------

    @call("cudaMemcpy3D", "cuMemcpy3D", cost=None, waits=Waits.OWN_WORK)
    def memcpy_array(
        self,
        dst: Side,
        src: Side,
        extent: tuple[int, int, int],
        kind: int = 4,
        stream: Handle = 0,
        asynchronous: bool = False,
    ) -> None:
        """Copy a box where at least one side is an array: ``cudaMemcpy2DToArray``, ``cudaMemcpy3D`` and so on.
        ``extent`` is width in bytes, height, depth."""
        name = "cudaMemcpy3D"
        width, height, depth = extent
        sides = [self._side(name, side, extent) for side in (dst, src)]
        if width and height and depth:
            memory = [side for side in (dst, src) if len(side) == 3]
            if any(height * depth > 1 and side[1] < width for side in memory):
                self.state.spend(self.state.profile.host["query"])
                raise CudaError(
                    cudaError_t.cudaErrorInvalidPitchValue,
                    f"{name}: the pitch {memory[0][1]} is less than the width of {width} bytes",
                )
            wrong = (len(dst) == 4 and kind in (0, _DEVICE_TO_HOST)) or (len(src) == 4 and kind in (0, _HOST_TO_DEVICE))
            if wrong:
                self.state.spend(self.state.profile.host["query"])
                raise CudaError(
                    cudaError_t.cudaErrorInvalidMemcpyDirection,
                    f"{name}: arrays are device memory, and the kind {kind} says otherwise",
                )
        self._copies.copy(name, sides[0], sides[1], kind, stream, asynchronous)

    def _side(self, name: str, side: Side, extent: tuple[int, int, int]) -> CopyRegion:
        width, height, depth = extent
        if len(side) == 3:
            return CopyRegion(side[0], width, height, depth, side[1], side[2])
        array, *begin = side
        layout = self._array(name, array).layout
        size = (layout.extent[0] * layout.texels.bytes, layout.extent[1], layout.extent[2])
        for axis, first, count, most in zip("xyz", begin, extent, size, strict=True):
            if first < 0 or first + count > most:
                self.state.spend(self.state.profile.host["query"])
                unit = "bytes of a row" if axis == "x" else "rows" if axis == "y" else "slices"
                raise invalid_value(f"{name}: {first} + {count} in {axis} is beyond the array's {most} {unit}")
        x, y, z = begin
        first = layout.data + z * layout.slice_pitch + y * layout.pitch + x
        return CopyRegion(first, width, height, depth, layout.pitch, layout.slice_pitch)

    # -- objects -------------------------------------------------------------------------------------------------------

    @call("cudaCreateTextureObject", "cuTexObjectCreate")
    def create_texture(
        self,
        source: AddressOrHandle,
        address: Sequence[int],
        linear: bool = False,
        fractions: bool = False,
        normalised: bool = False,
        border: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
        channels: Channels | None = None,
        extent: tuple[int, int] = (0, 0),
        pitch: int = 0,
    ) -> Handle:
        """A handle.

        ``source`` is an array; with ``channels`` it is the address of linear memory of ``extent[0]`` bytes, and with a
        ``pitch`` of ``extent[1]`` rows of ``extent[0]`` texels. ``address`` are the three address modes.
        """
        name = "cudaCreateTextureObject"
        if channels is None:
            layout = self._array(name, source).layout
        elif pitch:
            layout = self._pitched_layout(source, self._texels(name, channels), extent, pitch)
        else:
            layout = self._linear_layout(source, self._texels(name, channels), extent[0])
        format = layout.texels.format
        if fractions and format in (*_FLOATS, *_WORDS):
            raise CudaError(
                cudaError_t.cudaErrorInvalidNormSetting,
                f"{name}: cudaReadModeNormalizedFloat is for integers of 8 and 16 bits (got {format.name})",
            )
        if linear and not fractions and format not in _FLOATS:
            raise CudaError(
                cudaError_t.cudaErrorInvalidFilterSetting,
                f"{name}: cudaFilterModeLinear needs texels that are read as floats: float, half, or integers of 8 or "
                f"16 bits with cudaReadModeNormalizedFloat (got {format.name})",
            )
        x, y, z = (*(int(mode) for mode in address), 1, 1, 1)[:3]
        modes = (x, y, z)
        if any(not 0 <= mode <= 3 for mode in modes):
            raise invalid_value(f"{name}: {modes} are no address modes (0 wrap, 1 clamp, 2 mirror, 3 border)")
        r, g, b, a = (*(float(part) for part in border), 0.0, 0.0, 0.0, 0.0)[:4]
        sampling = Sampling(modes, bool(linear), bool(fractions), bool(normalised), (r, g, b, a))
        return self._new_object(name, layout, sampling)

    @call("cudaDestroyTextureObject", "cuTexObjectDestroy")
    def destroy_texture(self, texture: Handle) -> None:
        """Destroy a texture object; an unknown handle is no error."""
        self._destroy(texture, "texture")

    @call("cudaCreateSurfaceObject", "cuSurfObjectCreate")
    def create_surface(self, array: Handle) -> Handle:
        """Create a surface object for an array: a handle."""
        return self._new_object("cudaCreateSurfaceObject", self._array("cudaCreateSurfaceObject", array).layout, None)

    @call("cudaDestroySurfaceObject", "cuSurfObjectDestroy")
    def destroy_surface(self, surface: Handle) -> None:
        """Destroy a surface object; an unknown handle is no error."""
        self._destroy(surface, "surface")

    def image(self, handle: int, kind: str) -> ImageObject:
        """A live texture or surface object. No call, takes no modelled time. ``cudaErrorInvalidValue``."""
        found = self.state.memory.images.find(handle)
        if found is None or found.kind != kind:
            raise invalid_value(f"{handle:#x} is no {kind} object of this device")
        return found

    def array_of(self, layout: ImageLayout) -> int:
        """The array with this layout, 0 when it is other memory."""
        return next((handle for handle, info in self._arrays.items() if info.layout is layout), 0)

    def _new_object(self, name: str, layout: ImageLayout, sampling: Sampling | None) -> int:
        self.destroy_unused()
        try:
            handle = self.state.memory.images.add(layout, sampling, name)
        except MemoryError as error:
            raise CudaError(cudaError_t.cudaErrorMemoryAllocation, f"{name}: {error}") from None
        self.state.memory.version += 1
        return handle

    def _destroy(self, handle: int, kind: str) -> None:
        found = self.state.memory.images.find(handle)
        if found is not None and found.kind == kind:
            last = max((operation.sequence for operation in self.state.scheduler.pending), default=-1)
            self._doomed.append((handle, f"cudaDestroy{kind.capitalize()}Object", last))
            self.destroy_unused()

    def destroy_unused(self) -> None:
        """Remove the objects that were destroyed, except those that work enqueued before may still use: on a GPU that
        work finds them intact, too."""
        if not self._doomed:
            return
        first = min((operation.sequence for operation in self.state.scheduler.pending), default=-1)
        kept = []
        for handle, name, last in self._doomed:
            if 0 <= first <= last:
                kept.append((handle, name, last))
            else:
                self.state.memory.images.remove(handle, name)
                self.state.memory.version += 1
        self._doomed = kept

    def _linear_layout(self, pointer: int, texels: Texels, size: int) -> ImageLayout:
        self._check_address(pointer)
        total = int(self.state.profile.properties["totalGlobalMem"])
        if not 0 <= size <= total:
            raise invalid_value(f"cudaCreateTextureObject: {size} bytes of linear memory; the device has {total}")
        return ImageLayout(
            pointer, ImageShape.LINEAR, texels, (min(size // texels.bytes, (1 << 31) - 1), 1, 1), size, size
        )

    def _pitched_layout(self, pointer: int, texels: Texels, extent: tuple[int, int], pitch: int) -> ImageLayout:
        self._check_address(pointer)
        alignment = int(self.state.profile.properties["texturePitchAlignment"])
        width, height, most = self.state.profile.properties["maxTexture2DLinear"]
        if pitch % alignment or pitch > most or extent[0] > width or extent[1] > height:
            raise invalid_value(
                f"cudaCreateTextureObject: {extent[0]} x {extent[1]} texels with a pitch of {pitch} bytes. The pitch "
                f"is a multiple of {alignment} and at most {most}; at most {width} x {height} texels"
            )
        return ImageLayout(
            pointer, ImageShape.ARRAY_2D, texels, (extent[0], max(1, extent[1]), 1), pitch, pitch * extent[1]
        )

    def _check_address(self, pointer: int) -> None:
        alignment = int(self.state.profile.properties["textureAlignment"])
        if not pointer or pointer % alignment:
            raise invalid_value(
                f"cudaCreateTextureObject: memory of a texture begins at a multiple of {alignment} (got {pointer:#x})"
            )


def _plain(channels: Channels) -> Channels:
    bits, kind = channels
    x, y, z, w = (int(width) for width in bits)
    return (x, y, z, w), int(kind)


def _triple(extent: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (int(size) for size in extent)
    return x, y, z
