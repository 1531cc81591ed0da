"""Initialisation, the device, its primary context, and errors.

One context exists, the device's primary one (``device/context.py``). A learner would notice that calls before
``cuInit`` do not fail: the driver counts as loaded, as it is on a GPU, where cudalab itself asks it for the devices.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver, runtime
from cuda.bindings.driver import CUcontext, CUdevice, CUdevice_attribute, CUlimit, CUresult, CUuuid

from cudalab.sim.binding import enumerator, handle, signed, size_t, unsigned
from cudalab.sim.device import current_device
from cudalab.sim.device.context import HANDLE
from cudalab.sim.driver.answer import api, api_without_context, failed


@api_without_context()
def cuInit(Flags: Any) -> None:
    if unsigned(Flags):
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"cuInit: Flags must be 0 (got {Flags})")


@api_without_context(1)
def cuDriverGetVersion() -> int:
    return int(current_device().profile.versions["driver"])


def _only_device(device: Any) -> None:
    number = signed(int(device) if isinstance(device, CUdevice) else device)
    if number != 0:
        raise failed(CUresult.CUDA_ERROR_INVALID_DEVICE, f"there is one device, number 0 (asked for {number})")


@api_without_context(1)
def cuDeviceGet(ordinal: Any) -> CUdevice:
    _only_device(ordinal)
    return CUdevice(0)


@api_without_context(1)
def cuDeviceGetCount() -> int:
    return 1


@api_without_context(1)
def cuDeviceGetName(length: Any, dev: Any) -> bytes:
    size = signed(length)
    _only_device(dev)
    return str(current_device().properties["name"]).encode()[: max(0, size - 1)].ljust(size, b"\0")


@api_without_context(1)
def cuDeviceGetUuid(dev: Any) -> CUuuid:
    import ctypes

    _only_device(dev)
    result = CUuuid()
    ctypes.memmove(result.getPtr(), bytes.fromhex(current_device().properties["uuid"]), 16)
    return result


@api_without_context(1)
def cuDeviceTotalMem(dev: Any) -> int:
    _only_device(dev)
    return int(current_device().properties["totalGlobalMem"])


@api_without_context(1)
def cuDeviceGetAttribute(attrib: CUdevice_attribute, dev: Any) -> int:
    number = enumerator(attrib, "attrib")
    _only_device(dev)
    device = current_device()
    try:
        name = CUdevice_attribute(number).name.removeprefix("CU_DEVICE_ATTRIBUTE_")
    except ValueError:
        name = ""
    if name in device.profile.driver_attributes:
        return int(device.profile.driver_attributes[name])
    return device.attribute(number)


@api_without_context(2)
def cuDeviceComputeCapability(dev: Any) -> tuple[int, int]:
    _only_device(dev)
    properties = current_device().properties
    return int(properties["major"]), int(properties["minor"])


@api_without_context(1)
def cuDevicePrimaryCtxRetain(dev: Any) -> CUcontext:
    _only_device(dev)
    current_device().retain_context()
    return CUcontext(HANDLE)


@api_without_context()
def cuDevicePrimaryCtxRelease(dev: Any) -> None:
    _only_device(dev)
    current_device().release_context()


@api_without_context()
def cuDevicePrimaryCtxReset(dev: Any) -> None:
    _only_device(dev)
    current_device().reset()


@api_without_context(2)
def cuDevicePrimaryCtxGetState(dev: Any) -> tuple[int, int]:
    _only_device(dev)
    device = current_device()
    return device.get_flags(), int(device.context.active)


@api_without_context(1)
def cuCtxGetCurrent() -> CUcontext:
    return CUcontext(current_device().context.current)


@api_without_context()
def cuCtxSetCurrent(ctx: Any) -> None:
    current_device().context.set_current(_known_context(ctx))


@api_without_context()
def cuCtxPushCurrent(ctx: Any) -> None:
    number = _known_context(ctx)
    if not number:
        raise failed(CUresult.CUDA_ERROR_INVALID_CONTEXT, "cuCtxPushCurrent: no context (0)")
    current_device().context.push(number)


@api_without_context(1)
def cuCtxPopCurrent() -> CUcontext:
    context = current_device().context
    if not context.current:
        raise failed(CUresult.CUDA_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent: no context is current in this host thread")
    return CUcontext(context.pop())


def _known_context(ctx: Any) -> int:
    number = handle(ctx)
    if number not in (0, HANDLE):
        raise failed(CUresult.CUDA_ERROR_INVALID_CONTEXT, "the simulated device has its primary context only")
    return number


@api(1)
def cuCtxGetDevice() -> CUdevice:
    return CUdevice(0)


@api()
def cuCtxSynchronize() -> None:
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
