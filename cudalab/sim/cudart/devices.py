"""Devices, their properties and limits, versions and errors."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import runtime
from cuda.bindings.runtime import cudaDeviceProp, cudaError_t, cudaFuncCache, cudaLimit

from cudalab.sim.binding import enumerator, signed, size_t, unsigned
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import CudaError, current_device

# These need no device, in the real module either.
cudaGetErrorName = runtime.cudaGetErrorName
cudaGetErrorString = runtime.cudaGetErrorString
cudaRuntimeGetVersion = runtime.cudaRuntimeGetVersion
getLocalRuntimeVersion = runtime.getLocalRuntimeVersion


def _only_device(device: Any) -> int:
    """There is one simulated device, number 0."""
    number = signed(device)
    if number != 0:
        raise current_device().fail(
            cudaError_t.cudaErrorInvalidDevice, f"there is one device, number 0 (asked for {number})"
        )
    return number


@api(1)
def cudaGetDeviceCount() -> int:
    return 1


@api(1)
def cudaGetDevice() -> int:
    current_device().check_thread("cudaGetDevice")
    return 0


@api()
def cudaSetDevice(device: Any) -> None:
    current_device().check_thread("cudaSetDevice")
    _only_device(device)
    current_device().set_device()


@api()
def cudaInitDevice(device: Any, deviceFlags: Any, flags: Any) -> None:
    _only_device(device)
    unsigned(deviceFlags)
    unsigned(flags)
    current_device().initialize()


@api(1)
def cudaChooseDevice(prop: cudaDeviceProp | None) -> int:
    return 0


@api(1)
def cudaGetDeviceProperties(device: Any) -> cudaDeviceProp:
    _only_device(device)
    result = cudaDeviceProp()
    for name, value in current_device().properties.items():
        if name == "uuid":
            ctypes.memmove(result.uuid.getPtr(), bytes.fromhex(value), 16)  # the field cannot be assigned
        elif isinstance(value, str):
            if value:
                field = getattr(result, name)
                setattr(result, name, value.encode().ljust(256 if name == "name" else len(field), b"\0"))
        elif hasattr(result, name):  # a later version of the bindings may have dropped a field
            setattr(result, name, list(value) if isinstance(value, list) else value)
    return result


@api(1)
def cudaDeviceGetAttribute(attr: runtime.cudaDeviceAttr, device: Any) -> int:
    number = enumerator(attr, "attr")
    _only_device(device)
    return current_device().attribute(number)


@api(1)
def cudaDeviceGetLimit(limit: cudaLimit) -> int:
    return current_device().get_limit(enumerator(limit, "limit"))


@api()
def cudaDeviceSetLimit(limit: cudaLimit, value: Any) -> None:
    current_device().set_limit(enumerator(limit, "limit"), size_t(value))


@api()
def cudaDeviceReset() -> None:
    current_device().reset()


@api()
def cudaDeviceSynchronize() -> None:
    current_device().synchronize()


@api()
def cudaSetDeviceFlags(flags: Any) -> None:
    current_device().set_flags(unsigned(flags))


@api(1)
def cudaGetDeviceFlags() -> int:
    return current_device().get_flags()


@api(1)
def cudaDeviceGetPCIBusId(length: Any, device: Any) -> bytes:
    size = signed(length)
    _only_device(device)
    properties = current_device().properties
    text = "{pciDomainID:04x}:{pciBusID:02x}:{pciDeviceID:02x}.0".format(**properties).encode()
    if size <= len(text):
        raise current_device().fail(
            cudaError_t.cudaErrorInvalidValue, f"the identifier needs {len(text) + 1} bytes (got {size})"
        )
    return text.ljust(size, b"\0")


@api(1)
def cudaDeviceGetByPCIBusId(pciBusId: Any) -> int:
    wanted = bytes(pciBusId).rstrip(b"\0")
    if wanted != cudaDeviceGetPCIBusId(64, 0)[1].rstrip(b"\0"):
        raise current_device().fail(cudaError_t.cudaErrorInvalidDevice, f"no device has the identifier {wanted!r}")
    return 0


@api(1)
def cudaDeviceGetCacheConfig() -> cudaFuncCache:
    return cudaFuncCache.cudaFuncCachePreferNone


@api()
def cudaDeviceSetCacheConfig(cacheConfig: cudaFuncCache) -> None:
    enumerator(cacheConfig, "cacheConfig")


@api(2)
def cudaDeviceGetStreamPriorityRange() -> tuple[int, int]:
    return current_device().stream_priority_range()


@api(1)
def cudaDeviceCanAccessPeer(device: Any, peerDevice: Any) -> int:
    _only_device(device)
    _only_device(peerDevice)
    return 0


@api(1)
def cudaDriverGetVersion() -> int:
    return int(current_device().profile.versions["driver"])


@api()
def cudaProfilerStart() -> None:
    """Nothing to start: ``cudalab.trace`` and ``cudalab.profile`` look at the simulated device."""


@api()
def cudaProfilerStop() -> None:
    """Nothing to stop."""


def cudaGetLastError() -> tuple[cudaError_t]:
    return (cudaError_t(_quietly(current_device().get_last_error)),)


def cudaPeekAtLastError() -> tuple[cudaError_t]:
    return (cudaError_t(_quietly(current_device().peek_at_last_error)),)


def _quietly(question: Any) -> int:
    """In a host function even asking for the last error is not permitted; the answer is that error."""
    try:
        return int(question())
    except CudaError as error:
        return int(error.code)
