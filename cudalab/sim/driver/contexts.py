"""Initialisation, the device, its primary context, and errors.

Each device has one context, its primary one (``device/context.py``). A learner would notice that calls before
``cuInit`` do not fail: the driver counts as loaded, as it is on a GPU, where cudalab itself asks it for the devices.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver, runtime
from cuda.bindings.driver import (
    CUcontext,
    CUdevice,
    CUdevice_attribute,
    CUdevice_P2PAttribute,
    CUfunc_cache,
    CUlimit,
    CUresult,
    CUuuid,
)

from cudalab.sim.binding import (
    default_stream,
    enumerator,
    handle,
    known_device,
    own_work,
    signed,
    size_t,
    stream_handle,
    unsigned,
)
from cudalab.sim.device import current_device
from cudalab.sim.driver.answer import api, api_without_context, failed

_API_VERSION = 3020


@api_without_context()
def cuInit(Flags: Any) -> None:
    if unsigned(Flags):
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"cuInit: Flags must be 0 (got {Flags})")


@api_without_context(1)
def cuDriverGetVersion() -> int:
    return int(current_device().profile.versions["driver"])


def _number(device: Any) -> int:
    """The number of one of the devices that there are."""
    return known_device(int(device) if isinstance(device, CUdevice) else device)


@api_without_context(1)
def cuDeviceGet(ordinal: Any) -> CUdevice:
    return CUdevice(_number(ordinal))


@api_without_context(1)
def cuDeviceGetCount() -> int:
    return current_device().count


@api_without_context(1)
def cuDeviceGetName(length: Any, dev: Any) -> bytes:
    size = signed(length)
    _number(dev)
    return str(current_device().properties["name"]).encode()[: max(0, size - 1)].ljust(size, b"\0")


@api_without_context(1)
def cuDeviceGetUuid(dev: Any) -> CUuuid:
    import ctypes

    result, properties = CUuuid(), current_device().profile.properties_of(_number(dev))
    ctypes.memmove(result.getPtr(), bytes.fromhex(properties["uuid"]), 16)
    return result


@api_without_context(1)
def cuDeviceTotalMem(dev: Any) -> int:
    return int(current_device().profile.properties_of(_number(dev))["totalGlobalMem"])


@api_without_context(1)
def cuDeviceGetAttribute(attrib: CUdevice_attribute, dev: Any) -> int:
    number, of = enumerator(attrib, "attrib"), _number(dev)
    device = current_device()
    try:
        name = CUdevice_attribute(number).name.removeprefix("CU_DEVICE_ATTRIBUTE_")
    except ValueError:
        name = ""
    if name in device.profile.driver_attributes:
        return int(device.profile.driver_attributes[name])
    return device.attribute(number, of)


@api_without_context(2)
def cuDeviceComputeCapability(dev: Any) -> tuple[int, int]:
    properties = current_device().profile.properties_of(_number(dev))
    return int(properties["major"]), int(properties["minor"])


@api_without_context(1)
def cuDevicePrimaryCtxRetain(dev: Any) -> CUcontext:
    return CUcontext(current_device().retain_context(_number(dev)))


@api_without_context()
def cuDevicePrimaryCtxRelease(dev: Any) -> None:
    current_device().release_context(_number(dev))


@api_without_context()
def cuDevicePrimaryCtxReset(dev: Any) -> None:
    current_device().reset(_number(dev))


@api_without_context()
def cuDevicePrimaryCtxSetFlags(dev: Any, flags: Any) -> None:
    current_device().set_flags(unsigned(flags), _number(dev))


@api_without_context(2)
def cuDevicePrimaryCtxGetState(dev: Any) -> tuple[int, int]:
    number, device = _number(dev), current_device()
    return device.get_flags(number), int(device.contexts[number].active)


@api_without_context(1)
def cuCtxGetCurrent() -> CUcontext:
    return CUcontext(current_device().contexts.current)


@api_without_context()
def cuCtxSetCurrent(ctx: Any) -> None:
    current_device().set_current_context(handle(ctx))


@api_without_context()
def cuCtxPushCurrent(ctx: Any) -> None:
    if not handle(ctx):
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuCtxPushCurrent: no context (0)")
    current_device().push_context(handle(ctx))


@api_without_context(1)
def cuCtxPopCurrent() -> CUcontext:
    device = current_device()
    if not device.contexts.current:
        raise failed(CUresult.CUDA_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent: no context is current in this host thread")
    return CUcontext(device.pop_context())


def device_of(ctx: Any) -> int:
    """The device of a context."""
    return current_device().contexts.number_of(handle(ctx))


def context_of(number: int) -> CUcontext:
    """The context of a device."""
    return CUcontext(current_device().contexts[number].handle)


@api(1)
def cuCtxGetDevice() -> CUdevice:
    return CUdevice(current_device().contexts.number)


@api(1)
def cuCtxGetId(ctx: Any) -> int:
    device = current_device()
    return 1 + (device_of(ctx) if handle(ctx) else device.contexts.number)


@api(1)
def cuCtxGetApiVersion(ctx: Any) -> int:
    device_of(ctx)
    return _API_VERSION


@api(1)
def cuCtxGetCacheConfig() -> CUfunc_cache:
    return CUfunc_cache(current_device().get_cache_config())


@api()
def cuCtxSetCacheConfig(config: CUfunc_cache) -> None:
    current_device().set_cache_config(enumerator(config, "config"))


# -- peers -------------------------------------------------------------------------------------------------------------


@api_without_context(1)
def cuDeviceCanAccessPeer(dev: Any, peerDev: Any) -> int:
    return int(current_device().can_access_peer(_number(dev), _number(peerDev)))


@api_without_context(1)
def cuDeviceGetP2PAttribute(attrib: CUdevice_P2PAttribute, srcDevice: Any, dstDevice: Any) -> int:
    return current_device().link_attribute(enumerator(attrib, "attrib"), _number(srcDevice), _number(dstDevice))


@api()
def cuCtxEnablePeerAccess(peerContext: Any, Flags: Any) -> None:
    current_device().enable_peer_access(device_of(peerContext), unsigned(Flags))


@api()
def cuCtxDisablePeerAccess(peerContext: Any) -> None:
    current_device().disable_peer_access(device_of(peerContext))


def _end(ctx: Any) -> int:
    """The device of a context that a copy names; null stands for the current one (seen on an H200)."""
    return device_of(ctx) if handle(ctx) else current_device().contexts.number


@api()
def cuMemcpyPeer(dstDevice: Any, dstContext: Any, srcDevice: Any, srcContext: Any, ByteCount: Any) -> None:
    to, of = _end(dstContext), _end(srcContext)
    current_device().memcpy_peer(handle(dstDevice), to, handle(srcDevice), of, size_t(ByteCount), default_stream())


@api()
def cuMemcpyPeerAsync(
    dstDevice: Any, dstContext: Any, srcDevice: Any, srcContext: Any, ByteCount: Any, hStream: Any
) -> None:
    to, of, stream = _end(dstContext), _end(srcContext), stream_handle(hStream)
    current_device().memcpy_peer(handle(dstDevice), to, handle(srcDevice), of, size_t(ByteCount), stream, True)


@api()
def cuCtxSynchronize() -> None:
    own_work()
    current_device().synchronize()


@api(1)
def cuCtxGetFlags() -> int:
    return current_device().get_flags()


@api(1)
def cuCtxGetLimit(limit: CUlimit) -> int:
    return current_device().get_limit(enumerator(limit, "limit"))


@api()
def cuCtxSetLimit(limit: CUlimit, value: Any) -> None:
    current_device().set_limit(enumerator(limit, "limit"), size_t(value))


@api()
def cuCtxResetPersistingL2Cache() -> None:
    current_device().reset_persisting_l2()


@api(2)
def cuCtxGetStreamPriorityRange() -> tuple[int, int]:
    return current_device().stream_priority_range()


@api_without_context(1)
def cuGetErrorName(error: CUresult) -> bytes:
    result: bytes = _known(error).name.encode()
    return result


@api_without_context(1)
def cuGetErrorString(error: CUresult) -> bytes:
    text: bytes = runtime.cudaGetErrorString(int(_known(error)))[1]
    return text


def _known(error: Any) -> CUresult:
    number = enumerator(error, "error")
    try:
        return CUresult(number)
    except ValueError:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{number} is no CUresult") from None


@api()
def cuProfilerStart() -> None:
    """Nothing to start: ``cudalab.trace`` and ``cudalab.profile`` look at the simulated device."""


@api()
def cuProfilerStop() -> None:
    """Nothing to stop."""


assert driver.CUlimit.CU_LIMIT_STACK_SIZE == 0 == runtime.cudaLimit.cudaLimitStackSize, "limits are numbered alike"
