"""Devices, their properties and limits, versions and errors."""

from __future__ import annotations

import ctypes
import re
from typing import Any

from cuda.bindings import runtime
from cuda.bindings.runtime import cudaDeviceProp, cudaError_t, cudaFuncCache, cudaLimit

from cudalab.sim.binding import enumerator, known_device, own_work, signed, size_t, unsigned
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import CudaError, current_device

# These need no device, in the real module either.
cudaGetErrorName = runtime.cudaGetErrorName
cudaGetErrorString = runtime.cudaGetErrorString
cudaRuntimeGetVersion = runtime.cudaRuntimeGetVersion
getLocalRuntimeVersion = runtime.getLocalRuntimeVersion

_BUS = re.compile(rb"(?:[0-9a-fA-F]+:)?[0-9a-fA-F]+:[0-9a-fA-F]+(?:\.[0-7])?")


@api(1)
def cudaGetDeviceCount() -> int:
    return current_device().count


@api(1)
def cudaGetDevice() -> int:
    device = current_device()
    device.check_thread("cudaGetDevice")
    return device.contexts.number


@api()
def cudaSetDevice(device: Any) -> None:
    current_device().check_thread("cudaSetDevice")
    current_device().set_device(known_device(device))


@api()
def cudaInitDevice(device: Any, deviceFlags: Any, flags: Any) -> None:
    number = known_device(device)
    unsigned(deviceFlags)
    unsigned(flags)
    current_device().initialize(number)


@api(1)
def cudaChooseDevice(prop: cudaDeviceProp | None) -> int:
    return 0


@api(1)
def cudaGetDeviceProperties(device: Any) -> cudaDeviceProp:
    number = known_device(device)
    result = cudaDeviceProp()
    for name, value in current_device().profile.properties_of(number).items():
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
    return current_device().attribute(number, known_device(device))


@api(1)
def cudaDeviceGetLimit(limit: cudaLimit) -> int:
    return current_device().get_limit(enumerator(limit, "limit"))


@api()
def cudaDeviceSetLimit(limit: cudaLimit, value: Any) -> None:
    current_device().set_limit(enumerator(limit, "limit"), size_t(value))


@api()
def cudaCtxResetPersistingL2Cache() -> None:
    current_device().reset_persisting_l2()


@api()
def cudaDeviceReset() -> None:
    current_device().reset()


@api()
def cudaDeviceSynchronize() -> None:
    own_work()
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
    properties = current_device().profile.properties_of(known_device(device))
    text = "{pciDomainID:04x}:{pciBusID:02x}:{pciDeviceID:02x}.0".format(**properties).encode()
    if size <= len(text):
        raise current_device().fail(
            cudaError_t.cudaErrorInvalidValue, f"the identifier needs {len(text) + 1} bytes (got {size})"
        )
    return text.ljust(size, b"\0")


@api(1)
def cudaDeviceGetByPCIBusId(pciBusId: Any) -> int:
    wanted = bytes(pciBusId).rstrip(b"\0")
    device = current_device()
    if not _BUS.fullmatch(wanted):
        raise device.fail(cudaError_t.cudaErrorInvalidValue, f"{wanted!r} is no bus id, such as 0000:3b:00.0")
    for number in range(device.count):
        if wanted == cudaDeviceGetPCIBusId(64, number)[1].rstrip(b"\0"):
            return number
    raise device.fail(cudaError_t.cudaErrorInvalidDevice, f"no device has the identifier {wanted!r}")


@api(1)
def cudaDeviceGetCacheConfig() -> cudaFuncCache:
    return cudaFuncCache(current_device().get_cache_config())


@api()
def cudaDeviceSetCacheConfig(cacheConfig: cudaFuncCache) -> None:
    current_device().set_cache_config(enumerator(cacheConfig, "cacheConfig"))


@api(2)
def cudaDeviceGetStreamPriorityRange() -> tuple[int, int]:
    return current_device().stream_priority_range()


@api(1)
def cudaDeviceCanAccessPeer(device: Any, peerDevice: Any) -> int:
    return int(current_device().can_access_peer(known_device(device), known_device(peerDevice)))


@api(1)
def cudaDeviceGetP2PAttribute(attr: runtime.cudaDeviceP2PAttr, srcDevice: Any, dstDevice: Any) -> int:
    number = enumerator(attr, "attr")
    return current_device().link_attribute(number, known_device(srcDevice), known_device(dstDevice))


@api()
def cudaDeviceEnablePeerAccess(peerDevice: Any, flags: Any) -> None:
    current_device().enable_peer_access(known_device(peerDevice), unsigned(flags))


@api()
def cudaDeviceDisablePeerAccess(peerDevice: Any) -> None:
    current_device().disable_peer_access(known_device(peerDevice))


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
