"""``cupy.cuda.runtime``: the CUDA runtime under CuPy's names, on the simulated device.

CuPy leaves out the prefix ``cuda``, returns results directly and raises :class:`CUDARuntimeError` where C returns a
code. Not simulated: arrays and textures (``cupy.cuda.texture`` has them) and inter-process handles; each says
so by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import device, integer, runtime_call, size_of
from cudalab.sim.cupy._base.errors import CUDARuntimeError
from cudalab.sim.cupy.cuda._structures import MemPoolProps, PointerAttributes, device_properties

globals().update(catalogue.constants("cupy.cuda.runtime"))

is_hip = False
_AT_DEVICE, _AT_HOST, _CPU = 1, 2, -1
_SUCCESS, _INVALID_VALUE, _INVALID_DEVICE, _NOT_READY = 0, 1, 101, 600
_DEFAULT_DRIVER_VERSION = 13000
_INVALIDATED = 2


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.runtime", name)


def check_status(status: int) -> None:
    """Raise :class:`CUDARuntimeError` unless ``status`` is 0."""
    if status != _SUCCESS:
        raise CUDARuntimeError(status)


# -- versions and devices ----------------------------------------------------------------------------------------------


def driverGetVersion() -> int:
    """CUDA version of the driver, as 13000 for 13.0."""
    profile = getattr(device(), "profile", None)
    return int(getattr(profile, "versions", {}).get("driver", _DEFAULT_DRIVER_VERSION))


def runtimeGetVersion() -> int:
    """CUDA version of the runtime that CuPy carries."""
    return int(catalogue.data()["runtime_version"])


def getDeviceCount() -> int:
    """How many devices the simulated machine has."""
    return int(device().count)


def getDevice() -> int:
    """Number of the current device."""
    return int(device().contexts.number)


def setDevice(device: int) -> None:
    """Make ``device`` the current one (``cudaErrorInvalidDevice`` when there is none of that number)."""
    _check_device(device)
    runtime_call(_current().set_device, integer(device))


def _check_device(number: Any) -> None:
    if not 0 <= integer(number) < getDeviceCount():
        raise CUDARuntimeError(_INVALID_DEVICE)


def deviceGetAttribute(attrib: int, device: int) -> int:
    """Value of the ``cudaDeviceAttr`` number ``attrib``."""
    _check_device(device)
    return int(runtime_call(_current().attribute, integer(attrib), integer(device)))


def getDeviceProperties(device: int) -> dict[str, Any]:
    """The fields of ``cudaDeviceProp`` by name; ``name`` is bytes."""
    _check_device(device)
    known = _current().profile.properties_of(integer(device))
    return device_properties(known, lambda attribute: deviceGetAttribute(globals()[attribute], device))


def deviceGetPCIBusId(device: int) -> str:
    """``domain:bus:device.function``, hexadecimal."""
    of = getDeviceProperties(device)
    return f"{of['pciDomainID']:04X}:{of['pciBusID']:02X}:{of['pciDeviceID']:02X}.0"


def deviceGetByPCIBusId(pci_bus_id: str) -> int:
    """Number of the device with that bus id."""
    for number in range(getDeviceCount()):
        if pci_bus_id.upper() == deviceGetPCIBusId(number):
            return number
    raise CUDARuntimeError(_INVALID_DEVICE)


def deviceSynchronize() -> None:
    """Wait for all work on the device."""
    runtime_call(_current().synchronize)


def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
    """Can ``device`` be given access to the memory of ``peerDevice``? A device is no peer of itself."""
    _check_device(device)
    _check_device(peerDevice)
    return int(runtime_call(_current().can_access_peer, integer(device), integer(peerDevice)))


def deviceEnablePeerAccess(peerDevice: int) -> None:
    """Let kernels of the current device reach the memory of ``peerDevice``."""
    _check_device(peerDevice)
    runtime_call(_current().enable_peer_access, integer(peerDevice))


def deviceDisablePeerAccess(peerDevice: int) -> None:
    """Take that access back."""
    _check_device(peerDevice)
    runtime_call(_current().disable_peer_access, integer(peerDevice))


def deviceGetLimit(limit: int) -> int:
    """Value of a ``cudaLimit``."""
    return int(runtime_call(_current().get_limit, integer(limit)))


def deviceSetLimit(limit: int, value: int) -> None:
    """Set a ``cudaLimit``."""
    runtime_call(_current().set_limit, integer(limit), size_of(value))


def _current() -> Any:
    return device()


# -- memory ------------------------------------------------------------------------------------------------------------


def malloc(size: int) -> int:
    """``cudaMalloc``: address of ``size`` new bytes; 0 for none."""
    count = size_of(size)
    return int(runtime_call(device().malloc, count)) if count else 0


def mallocManaged(size: int, flags: int = 1) -> int:
    """``cudaMallocManaged``."""
    return int(runtime_call(device().malloc_managed, size_of(size), integer(flags)))


def mallocAsync(size: int, stream: int) -> int:
    """``cudaMallocAsync``: usable by work that follows in ``stream``."""
    return int(runtime_call(device().malloc_async, size_of(size), integer(stream)))


def freeAsync(ptr: int, stream: int) -> None:
    """``cudaFreeAsync``."""
    if integer(ptr):
        runtime_call(device().free_async, integer(ptr), integer(stream))


def hostAlloc(size: int, flags: int) -> int:
    """``cudaHostAlloc``: page-locked host memory."""
    return int(runtime_call(device().malloc_host, size_of(size), integer(flags)))


def hostRegister(ptr: int, size: int, flags: int) -> None:
    """``cudaHostRegister``: page-lock host memory that is there."""
    runtime_call(device().host_register, integer(ptr), size_of(size), integer(flags))


def hostUnregister(ptr: int) -> None:
    """``cudaHostUnregister``."""
    runtime_call(device().host_unregister, integer(ptr))


def free(ptr: int) -> None:
    """``cudaFree``: waits for the device. 0 is allowed."""
    if integer(ptr):
        runtime_call(device().free, integer(ptr))


def freeHost(ptr: int) -> None:
    """``cudaFreeHost``."""
    if integer(ptr):
        runtime_call(device().free_host, integer(ptr))


def memGetInfo() -> tuple[int, int]:
    """Free and total bytes of device memory."""
    free_bytes, total = runtime_call(device().memory_info)
    return int(free_bytes), int(total)


def memcpy(dst: int, src: int, size: int, kind: int) -> None:
    """``cudaMemcpy``: ``kind`` is one of ``memcpyHostToDevice``, ``memcpyDeviceToHost`` and so on."""
    runtime_call(device().memcpy, integer(dst), integer(src), size_of(size), integer(kind))


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """``cudaMemcpyAsync``."""
    runtime_call(device().memcpy, integer(dst), integer(src), size_of(size), integer(kind), integer(stream), True)


def memcpy2D(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> None:
    """``cudaMemcpy2D``: ``height`` rows of ``width`` bytes, ``dpitch`` and ``spitch`` bytes apart."""
    _memcpy_2d(dst, dpitch, src, spitch, width, height, kind, 0, False)


def memcpy2DAsync(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int
) -> None:
    """``cudaMemcpy2DAsync``."""
    _memcpy_2d(dst, dpitch, src, spitch, width, height, kind, stream, True)


def _memcpy_2d(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int, later: bool
) -> None:
    sizes = [integer(dst), size_of(dpitch), integer(src), size_of(spitch), size_of(width), size_of(height)]
    runtime_call(device().memcpy_2d, *sizes, integer(kind), integer(stream), later)


def memcpyPeer(dst: int, dstDevice: int, src: int, srcDevice: int, size: int) -> None:
    """``cudaMemcpyPeer``: copy from one device to another."""
    _check_device(dstDevice)
    _check_device(srcDevice)
    ends = integer(dst), integer(dstDevice), integer(src), integer(srcDevice)
    runtime_call(device().memcpy_peer, *ends, size_of(size))


def memcpyPeerAsync(dst: int, dstDevice: int, src: int, srcDevice: int, size: int, stream: int) -> None:
    """``cudaMemcpyPeerAsync``: the same in a stream."""
    _check_device(dstDevice)
    _check_device(srcDevice)
    ends = integer(dst), integer(dstDevice), integer(src), integer(srcDevice)
    runtime_call(device().memcpy_peer, *ends, size_of(size), integer(stream), True)


def memset(ptr: int, value: int, size: int) -> None:
    """``cudaMemset``: the low byte of ``value`` into ``size`` bytes."""
    runtime_call(device().memset, integer(ptr), integer(value), size_of(size))


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    """``cudaMemsetAsync``."""
    runtime_call(device().memset, integer(ptr), integer(value), size_of(size), integer(stream), True)


def pointerGetAttributes(ptr: int) -> PointerAttributes:
    """``cudaPointerGetAttributes``."""
    found = runtime_call(device().pointer_attributes, integer(ptr))
    return PointerAttributes(int(found.device), int(found.device_pointer), int(found.host_pointer), int(found.type))


def pointerGetMemoryType(ptr: int) -> int:
    """``type`` of :func:`pointerGetAttributes`."""
    return pointerGetAttributes(ptr).type


# -- managed memory and pools ------------------------------------------------------------------------------------------


def _location(number: int) -> tuple[int, int]:
    """A device number, or -1 for the host, as a location."""
    return (_AT_HOST, 0) if number == _CPU else (_AT_DEVICE, number)


def memPrefetchAsync(devPtr: int, count: int, dstDevice: int, stream: int) -> None:
    """``cudaMemPrefetchAsync``: bring managed memory to a device, or to the host (-1)."""
    place = _location(integer(dstDevice))
    runtime_call(device().prefetch, integer(devPtr), size_of(count), *place, 0, integer(stream))


def memAdvise(devPtr: int, count: int, advice: int, device: int) -> None:
    """``cudaMemAdvise`` for a device, or for the host (-1)."""
    place = _location(integer(device))
    runtime_call(_current().advise, integer(devPtr), size_of(count), integer(advice), *place)


def memPoolCreate(props: MemPoolProps) -> int:
    """``cudaMemPoolCreate``: a handle."""
    numbers = (props.allocType, props.locationType, props.devId, props.handleType)
    return int(runtime_call(device().pool_create, *map(integer, numbers)))


def memPoolDestroy(pool: int) -> None:
    """``cudaMemPoolDestroy``."""
    runtime_call(device().pool_destroy, integer(pool))


def memPoolTrimTo(pool: int, minBytesToKeep: int) -> None:
    """``cudaMemPoolTrimTo``: give free memory back to the device."""
    runtime_call(device().pool_trim, integer(pool), size_of(minBytesToKeep))


def memPoolGetAttribute(pool: int, attr: int) -> int:
    """``cudaMemPoolGetAttribute``."""
    return int(runtime_call(device().pool_get_attribute, integer(pool), integer(attr)))


def memPoolSetAttribute(pool: int, attr: int, value: int) -> None:
    """``cudaMemPoolSetAttribute``."""
    runtime_call(device().pool_set_attribute, integer(pool), integer(attr), integer(value))


def mallocFromPoolAsync(size: int, pool: int, stream: int) -> int:
    """``cudaMallocFromPoolAsync``."""
    return int(runtime_call(device().malloc_from_pool, size_of(size), integer(pool), integer(stream)))


def deviceGetDefaultMemPool(device: int) -> int:
    """``cudaDeviceGetDefaultMemPool``."""
    _check_device(device)
    return int(runtime_call(_current().default_pool, integer(device)))


def deviceGetMemPool(device: int) -> int:
    """``cudaDeviceGetMemPool``: the pool that :func:`mallocAsync` takes from."""
    _check_device(device)
    return int(runtime_call(_current().current_pool, integer(device)))


def deviceSetMemPool(device: int, pool: int) -> None:
    """``cudaDeviceSetMemPool``."""
    _check_device(device)
    runtime_call(_current().set_current_pool, integer(pool), integer(device))


# -- streams and events ------------------------------------------------------------------------------------------------


def streamCreate() -> int:
    """``cudaStreamCreate``."""
    return streamCreateWithPriority(0, 0)


def streamCreateWithFlags(flags: int) -> int:
    """``cudaStreamCreateWithFlags``; ``streamNonBlocking`` is 1."""
    return streamCreateWithPriority(flags, 0)


def streamCreateWithPriority(flags: int, priority: int) -> int:
    """``cudaStreamCreateWithPriority``; lower numbers go first, and are clamped to the device's range."""
    return int(runtime_call(device().stream_create, integer(flags), integer(priority)))


def streamGetFlags(stream: int) -> int:
    """``cudaStreamGetFlags``."""
    return int(runtime_call(device().stream_get_flags, integer(stream)))


def streamGetPriority(stream: int) -> int:
    """``cudaStreamGetPriority``."""
    return int(runtime_call(device().stream_get_priority, integer(stream)))


def streamDestroy(stream: int) -> None:
    """``cudaStreamDestroy``: returns at once; the stream's work completes."""
    runtime_call(device().stream_destroy, integer(stream))


def streamSynchronize(stream: int) -> None:
    """``cudaStreamSynchronize``."""
    runtime_call(device().stream_synchronize, integer(stream))


def streamQuery(stream: int) -> int:
    """0 when all work of the stream has ended, 600 (``cudaErrorNotReady``) when not."""
    return _query(device().stream_query, stream)


def _query(ask: Callable[[int], bool], handle: int) -> int:
    try:
        return _SUCCESS if runtime_call(ask, integer(handle)) else _NOT_READY
    except CUDARuntimeError as error:  # as CuPy: a query returns the code
        return error.status


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:
    """``cudaStreamWaitEvent``."""
    runtime_call(device().stream_wait_event, integer(stream), integer(event), integer(flags))


def streamIsCapturing(stream: int) -> bool:
    """Is the stream capturing a graph? ``RuntimeError`` when the capture is not valid any more."""
    status = runtime_call(device().stream_is_capturing, integer(stream))
    if status == _INVALIDATED:
        raise RuntimeError("the stream was capturing, but an error has invalidated the capture sequence")
    return bool(status)


def streamBeginCapture(stream: int, mode: int = 2) -> None:
    """``cudaStreamBeginCapture``; the mode is relaxed unless given."""
    runtime_call(device().capture_begin, integer(stream), integer(mode))


def streamEndCapture(stream: int) -> int:
    """``cudaStreamEndCapture``: the graph."""
    return int(runtime_call(device().capture_end, integer(stream)))


def graphInstantiate(graph: int) -> int:
    """``cudaGraphInstantiate``: the executable graph."""
    return int(runtime_call(device().graph_instantiate, integer(graph)))


def graphLaunch(graphExec: int, stream: int) -> None:
    """``cudaGraphLaunch``."""
    runtime_call(device().graph_launch, integer(graphExec), integer(stream))


def graphUpload(graphExec: int, stream: int) -> None:
    """``cudaGraphUpload``."""
    runtime_call(device().graph_upload, integer(graphExec), integer(stream))


def graphDestroy(graph: int) -> None:
    """``cudaGraphDestroy``."""
    runtime_call(device().graph_destroy, integer(graph))


def graphExecDestroy(graphExec: int) -> None:
    """``cudaGraphExecDestroy``."""
    runtime_call(device().graph_exec_destroy, integer(graphExec))


def graphDebugDotPrint(graph: int, path: str, flags: int) -> None:
    """``cudaGraphDebugDotPrint``: writes the graph as text for Graphviz."""
    text = runtime_call(device().graph_dot, integer(graph), integer(flags))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def launchHostFunc(stream: int, callback: Callable[[Any], None], arg: Any) -> None:
    """``cudaLaunchHostFunc``: the host calls ``callback(arg)`` when the work before it has ended."""
    call = functools.wraps(callback)(lambda: callback(arg))
    runtime_call(device().launch_host_function, call, integer(stream))


def streamAddCallback(stream: int, callback: Callable[[int, int, Any], None], arg: Any, flags: int = 0) -> None:
    """``cudaStreamAddCallback``: the host calls ``callback(stream, status, arg)``."""
    call = functools.wraps(callback)(lambda status: callback(stream, status, arg))
    runtime_call(device().add_callback, call, integer(stream))


def eventCreate() -> int:
    """``cudaEventCreate``."""
    return eventCreateWithFlags(0)


def eventCreateWithFlags(flags: int) -> int:
    """``cudaEventCreateWithFlags``."""
    return int(runtime_call(device().event_create, integer(flags)))


def eventDestroy(event: int) -> None:
    """``cudaEventDestroy``."""
    runtime_call(device().event_destroy, integer(event))


def eventElapsedTime(start: int, end: int) -> float:
    """Milliseconds between two events."""
    return float(runtime_call(device().event_elapsed, integer(start), integer(end)))


def eventQuery(event: int) -> int:
    """0 when the event is complete, 600 when not."""
    return _query(device().event_query, event)


def eventRecord(event: int, stream: int) -> None:
    """``cudaEventRecord``."""
    runtime_call(device().event_record, integer(event), integer(stream))


def eventSynchronize(event: int) -> None:
    """``cudaEventSynchronize``."""
    runtime_call(device().event_synchronize, integer(event))


# -- profiler ----------------------------------------------------------------------------------------------------------


def profilerStart() -> None:
    """Nothing to start: ``cudalab.profile`` and ``cudalab.trace`` need no call."""


def profilerStop() -> None:
    """See :func:`profilerStart`."""


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.runtime", globals())
