"""Kernel launches. Parameters come in each form that the real binding takes: a tuple of values and a tuple of ctypes
types, or the address of an array with one pointer to each value.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from cuda.bindings.driver import CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig, CUresult

from cudalab.sim.binding import (
    handle,
    launch_host_function,
    stream_handle,
    struct,
    unsigned,
    values_behind,
    void_pointer,
)
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.device import current_device, host_address
from cudalab.sim.device.calls.launch_attributes import LaunchAttributes
from cudalab.sim.driver.answer import api, failed

_ID = CUlaunchAttributeID
_REFUSED = {
    _ID.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: (
        CUresult.CUDA_ERROR_INVALID_VALUE,
        "is an attribute of streams: set it with cuStreamSetAttribute",
    ),
}
"""Attributes that no plain launch takes, the code, and what to do instead."""
_WITHOUT_EFFECT = frozenset(
    {
        _ID.CU_LAUNCH_ATTRIBUTE_IGNORE,
        _ID.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
        _ID.CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING,
    }
)


@api()
def cuLaunchKernel(
    f: Any,
    gridDimX: Any,
    gridDimY: Any,
    gridDimZ: Any,
    blockDimX: Any,
    blockDimY: Any,
    blockDimZ: Any,
    sharedMemBytes: Any,
    hStream: Any,
    kernelParams: Any,
    extra: Any,
) -> None:
    grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
    _launch(f, grid, block, sharedMemBytes, hStream, kernelParams, extra)


@api()
def cuLaunchCooperativeKernel(
    f: Any,
    gridDimX: Any,
    gridDimY: Any,
    gridDimZ: Any,
    blockDimX: Any,
    blockDimY: Any,
    blockDimZ: Any,
    sharedMemBytes: Any,
    hStream: Any,
    kernelParams: Any,
) -> None:
    grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
    _launch(f, grid, block, sharedMemBytes, hStream, kernelParams, 0, cooperative=True)


@api()
def cuLaunchKernelEx(config: CUlaunchConfig | None, f: Any, kernelParams: Any, extra: Any) -> None:
    if config is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuLaunchKernelEx: no configuration (None)")
    struct(config, "config", CUlaunchConfig)
    wanted, cooperative, cluster = LaunchAttributes(), False, None
    for attribute in list(config.attrs)[: config.numAttrs]:
        if attribute.id == _ID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            cooperative = bool(attribute.value.cooperative)
        elif attribute.id == _ID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            cluster = cluster_of(attribute) if any(cluster_of(attribute)) else None
        else:
            _note(attribute, wanted)
    grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
    block = (config.blockDimX, config.blockDimY, config.blockDimZ)
    stream, shared = config.hStream, config.sharedMemBytes
    attributes = wanted if wanted != LaunchAttributes() else None
    _launch(f, grid, block, shared, stream, kernelParams, extra, cooperative, cluster, attributes)


def _note(attribute: CUlaunchAttribute, wanted: LaunchAttributes) -> None:
    """Put one attribute, but those of the configuration, into ``wanted``. Of two alike the last counts."""
    kind, value = attribute.id, attribute.value
    if kind in _REFUSED:
        code, why = _REFUSED[kind]
        raise failed(code, f"cuLaunchKernelEx: {kind.name} {why}")
    if kind in _WITHOUT_EFFECT:
        return
    if kind == _ID.CU_LAUNCH_ATTRIBUTE_PRIORITY:
        wanted.priority = int(value.priority)
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        wanted.carveout = int(value.sharedMemCarveout)
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        window = value.accessPolicyWindow
        base, size, ratio = int(window.base_ptr), int(window.num_bytes), float(window.hitRatio)
        wanted.window = base, size, ratio, int(window.hitProp), int(window.missProp)
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        wanted.domain = int(value.memSyncDomain)
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        wanted.domain_map = int(value.memSyncDomainMap.default_), int(value.memSyncDomainMap.remote)
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        size = value.preferredClusterDim
        preferred = int(size.x), int(size.y), int(size.z)
        wanted.preferred_cluster = preferred if any(preferred) else None
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        wanted.programmatic = bool(value.programmaticStreamSerializationAllowed)
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        wanted.updatable = int(value.deviceUpdatableKernelNode.deviceUpdatable)
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        event = value.programmaticEvent
        wanted.event, wanted.event_flags = handle(event.event), int(event.flags)
    elif kind == _ID.CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        wanted.completion_event = handle(value.launchCompletionEvent.event)
        wanted.completion_flags = int(value.launchCompletionEvent.flags)
    else:
        raise failed(
            CUresult.CUDA_ERROR_NOT_SUPPORTED,
            f"cuLaunchKernelEx: the launch attribute {kind.name} is not simulated: launch without it",
        )


def cluster_of(attribute: CUlaunchAttribute) -> tuple[int, int, int]:
    """The blocks of a cluster that a launch attribute asks for."""
    size = attribute.value.clusterDim
    return int(size.x), int(size.y), int(size.z)


def _launch(
    f: Any,
    grid: tuple[Any, Any, Any],
    block: tuple[Any, Any, Any],
    shared: Any,
    stream: Any,
    parameters: Any,
    extra: Any,
    cooperative: bool = False,
    cluster: tuple[int, int, int] | None = None,
    attributes: LaunchAttributes | None = None,
) -> None:
    device, function = current_device(), handle(f)
    gx, gy, gz = map(unsigned, grid)
    bx, by, bz = map(unsigned, block)
    if extra is not None and int(extra):
        raise failed(CUresult.CUDA_ERROR_NOT_SUPPORTED, "packed parameters (extra) are not simulated; use kernelParams")
    kernel = device.function_info(function).kernel
    args = _pack(kernel, parameters)
    queue = stream_handle(stream)
    places = (gx, gy, gz), (bx, by, bz)
    device.launch(function, *places, args, unsigned(shared), queue, cooperative, cluster, attributes, by_bindings=True)


def _pack(kernel: Kernel, parameters: Any) -> bytes:
    """The parameter buffer. Without parameters it is zeros: hardware takes whatever the buffer held before."""
    buffer = bytearray(kernel.parameter_bytes)
    if isinstance(parameters, tuple):
        values = _converted(parameters)
        if len(values) < len(kernel.parameters):
            raise failed(
                CUresult.CUDA_ERROR_INVALID_VALUE,
                f"kernel {kernel.name} takes {len(kernel.parameters)} parameters (got {len(values)})",
            )
        for parameter, data in zip(kernel.parameters, values, strict=False):
            piece = data[: parameter.size].ljust(parameter.size, b"\0")
            buffer[parameter.offset : parameter.offset + parameter.size] = piece
        return bytes(buffer)
    array = _array(parameters)
    if array:
        return values_behind(kernel, array)
    return bytes(buffer)


def _array(parameters: Any) -> int:
    """The address of an array of pointers."""
    if parameters is None:
        return 0
    try:
        return void_pointer(parameters)
    except TypeError:
        raise TypeError(
            "Argument 'kernelParams' is not a valid type: tuple[tuple[Any, ...], tuple[Any, ...]] or "
            "PyObject implimenting Buffer Protocol or Int"
        ) from None


def _converted(parameters: tuple[Any, ...]) -> list[bytes]:
    if len(parameters) != 2 or not all(isinstance(side, tuple) for side in parameters):
        raise TypeError("Argument 'kernelParams' must be a tuple of two tuples: values, and their ctypes types")
    values, types = parameters
    if len(values) != len(types):
        raise TypeError("Argument 'kernelParams' has tuples with different length")
    return [_bytes_of(value, kind) for value, kind in zip(values, types, strict=True)]


def _bytes_of(value: Any, kind: Any) -> bytes:
    """One value as its C type lies in memory. Without a type: a ctypes structure, or a type of the bindings."""
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return bytes(value)
    if hasattr(value, "getPtr"):
        return _behind(value)
    number = isinstance(kind, type) and issubclass(kind, ctypes._SimpleCData)
    if number and value is not None and not isinstance(value, (str, ctypes._SimpleCData)):
        plain = value.item() if isinstance(value, np.generic) else value
        return bytes(kind(plain))
    raise TypeError(
        f"Provided argument is of type {type(value)} but expected Type {type(ctypes.Structure)}, {type(ctypes.c_int)} "
        "or CUDA Binding structure with getPtr() attribute"
    )


def _behind(value: Any) -> bytes:
    """What a value of the bindings' own types holds: handles and device pointers are 8 bytes."""
    try:
        return int(value).to_bytes(8, "little")
    except (TypeError, ValueError):
        return bytes(host_address.read(int(value.getPtr()), 4096 - int(value.getPtr()) % 4096))


@api()
def cuLaunchHostFunc(hStream: Any, fn: Any, userData: Any) -> None:
    launch_host_function("cuLaunchHostFunc", hStream, fn, userData)
