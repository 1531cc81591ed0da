"""Structures of the CUDA runtime as CuPy gives and takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_ATTRIBUTE_OF_PROPERTY = {
    "clockRate": "ClockRate",
    "computeMode": "ComputeMode",
    "deviceOverlap": "GpuOverlap",
    "kernelExecTimeoutEnabled": "KernelExecTimeout",
    "maxTexture1DLinear": "MaxTexture1DLinearWidth",
    "memoryClockRate": "MemoryClockRate",
    "singleToDoublePrecisionPerfRatio": "SingleToDoublePrecisionPerfRatio",
}
# The fields that CuPy reads, in its order (seen on an H200 with CuPy 14.2).
_PROPERTIES = """
name totalGlobalMem sharedMemPerBlock regsPerBlock warpSize maxThreadsPerBlock maxThreadsDim maxGridSize clockRate
totalConstMem major minor textureAlignment texturePitchAlignment multiProcessorCount kernelExecTimeoutEnabled integrated
canMapHostMemory computeMode maxTexture1D maxTexture2D maxTexture3D concurrentKernels ECCEnabled pciBusID pciDeviceID
pciDomainID tccDriver memoryClockRate memoryBusWidth l2CacheSize maxThreadsPerMultiProcessor isMultiGpuBoard
cooperativeLaunch cooperativeMultiDeviceLaunch maxTexture1DMipmap maxTexture1DLayered maxTexture2DMipmap
maxTexture2DLinear maxTexture2DLayered maxTexture2DGather maxTexture3DAlt maxTextureCubemap maxTextureCubemapLayered
maxSurface1D maxSurface1DLayered maxSurface2D maxSurface2DLayered maxSurface3D maxSurfaceCubemap
maxSurfaceCubemapLayered surfaceAlignment asyncEngineCount unifiedAddressing streamPrioritiesSupported
globalL1CacheSupported localL1CacheSupported sharedMemPerMultiprocessor regsPerMultiprocessor managedMemory
multiGpuBoardGroupID hostNativeAtomicSupported pageableMemoryAccess concurrentManagedAccess computePreemptionSupported
canUseHostPointerForRegisteredMem sharedMemPerBlockOptin pageableMemoryAccessUsesHostPageTables
directManagedMemAccessFromHost uuid luid luidDeviceNodeMask persistingL2CacheMaxSize maxBlocksPerMultiProcessor
accessPolicyMaxWindowSize reservedSharedMemPerBlock deviceOverlap maxTexture1DLinear singleToDoublePrecisionPerfRatio
""".split()


def device_properties(known: Mapping[str, Any], attribute: Callable[[str], int]) -> dict[str, Any]:
    """The fields of ``cudaDeviceProp`` by name: from those of the device's profile, ``known``, and for the others by
    ``attribute``, which gives the value of a device attribute (``cudaDevAttr…``)."""
    result: dict[str, Any] = {}
    for name in _PROPERTIES:
        if name == "cooperativeMultiDeviceLaunch":
            result[name] = False  # withdrawn in CUDA 13; CuPy fills it in
        elif name in known:
            result[name] = _plain(name, known[name])
        else:
            result[name] = attribute("cudaDevAttr" + _ATTRIBUTE_OF_PROPERTY[name])
    return result


def _plain(name: str, value: Any) -> Any:
    if name == "uuid":
        return bytes.fromhex(value) if isinstance(value, str) else bytes(value)
    if isinstance(value, str):
        return value.encode()
    return tuple(value) if isinstance(value, list) else value


class PointerAttributes:
    """Attributes of an address: ``type`` (0 unregistered, 1 host, 2 device, 3 managed), ``device`` and the two
    addresses."""

    def __init__(self, device: int, devicePointer: int, hostPointer: int, type: int = -1) -> None:
        self.type = type
        self.device = device
        self.devicePointer = devicePointer
        self.hostPointer = hostPointer


class MemPoolProps:
    """Properties of a memory pool."""

    def __init__(self, allocType: int, handleType: int, locationType: int, devId: int) -> None:
        self.allocType, self.handleType, self.locationType, self.devId = allocType, handleType, locationType, devId
