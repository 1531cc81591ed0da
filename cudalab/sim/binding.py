"""What ``cudalab.sim.cudart`` and ``cudalab.sim.driver`` share: taking over types, and converting arguments.

The real modules import and make their enums and structs without a GPU, so the simulated ones use those very types.
Their functions convert arguments in generated code; a struct field of the same C type converts in the same way, so the
conversions here go through such fields: same values accepted, same exceptions for the others.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType, ModuleType
from typing import Any, ParamSpec, Protocol

import numpy as np
from cuda.bindings import driver, runtime
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler.program import Kernel
from cudalab.sim.device import current_device, host_address
from cudalab.sim.device.error import CudaError, NotSimulated
from cudalab.sim.device.queue.stream import LEGACY, PER_THREAD

P = ParamSpec("P")
_PURE = ("make_", "sizeof")


def taken_over(real: ModuleType) -> dict[str, Any]:
    """Types, enums and constants of the real module, and the functions that need no device."""
    found = {}
    for name in dir(real):
        value = getattr(real, name)
        if name.startswith("_") or isinstance(value, ModuleType) or getattr(value, "__module__", "") == "typing":
            continue
        if isinstance(value, type) or not callable(value) or name.startswith(_PURE):
            found[name] = value
    return found


_INSTEAD = {
    "GraphExternalSemaphores": "Use events: cudaGraphAddEventRecordNode and cudaGraphAddEventWaitNode.",
    "GraphExecExternalSemaphores": "Use events: cudaGraphAddEventRecordNode and cudaGraphAddEventWaitNode.",
    "BatchMemOp": "Write the value in a kernel or memset node.",
    "GraphNodeGetParams": "Ask by kind: cudaGraphKernelNodeGetParams, cudaGraphMemcpyNodeGetParams and so on.",
    "Recapture": "Capture into a new graph, and update the executable graph with cudaGraphExecUpdate.",
    "GraphNodeGetToolsId": "cudaGraphNodeGetLocalId numbers the nodes of a graph.",
}
"""What to do instead of calls of graphs that are not simulated, by a part of their names."""


def missing(real: ModuleType, name: str) -> AttributeError:
    """The error for a name that the simulated module does not have."""
    short = real.__name__.rpartition(".")[2]
    if callable(getattr(real, name, None)) and not name.startswith("_"):
        return NotSimulated(
            f"{real.__name__}.{name} exists, but the simulated device does not have it. "
            f"It runs on a machine with an NVIDIA GPU (CUDALAB_DEVICE=gpu).{_advice(name)}"
        )
    return AttributeError(f"module {short!r} has no attribute {name!r}")


def _advice(name: str) -> str:
    return next((f" {advice}" for part, advice in _INSTEAD.items() if part in name), "")


class Answer(tuple[Any, ...]):
    """``(error, values…)`` as the bindings return it. On failure ``note`` says what the number cannot."""

    note = ""

    def __getattr__(self, name: str) -> Any:
        """A tuple as the bindings' is, whose name says nothing to a learner: the error does."""
        raise AttributeError(
            f"'tuple' object has no attribute {name!r}: a call returns (error, values…), the code first"
        )


class Marker(Protocol):
    """Makes one function answer as the bindings do."""

    def __call__(self, function: Callable[P, Any], /) -> Callable[P, Answer]: ...


class Api(Protocol):
    """``@api(n)`` is for a function that returns ``n`` values besides the error."""

    def __call__(self, values: int = 0) -> Marker: ...


def own_work() -> None:
    """``cuda.bindings`` keeps the host longer than CuPy does with the same call: of events, streams and waits, whose
    constants are CuPy's."""
    here = current_device()
    here.library_work(round(here.profile.host["bindings_call"]))


def answering(
    success: Any,
    translate: Callable[[CudaError], Any],
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Api:
    """Make functions answer as the bindings do: ``(error, values…)``, with ``None`` for each value on failure."""

    def api(values: int = 0) -> Marker:
        def mark(function: Callable[P, Any], /) -> Callable[P, Answer]:
            takes = inspect.signature(function)

            @functools.wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> Answer:
                try:
                    takes.bind(*args, **kwargs)
                except TypeError as error:  # the caller's mistake, as with the real function
                    raise TypeError(f"{function.__name__}{takes}: {error}") from None
                try:
                    with around():
                        result = function(*args, **kwargs)
                except CudaError as error:
                    answer = Answer((translate(error), *(None,) * values))
                    answer.note = error.note
                    return answer
                if values == 0:
                    return Answer((success,))
                return Answer((success, result) if values == 1 else (success, *result))

            return call

        return mark

    return api


def document(functions: dict[str, Any], real: ModuleType) -> None:
    """``help`` shows what the real module says of a function: the signature, what it does, and what it returns."""
    for name, function in functions.items():
        if isinstance(function, FunctionType) and not function.__doc__ and hasattr(real, name):
            function.__doc__ = getattr(real, name).__doc__


def known_device(number: Any, wrong: cudaError_t = cudaError_t.cudaErrorInvalidDevice) -> int:
    """The number of one of the devices that there are; the error ``wrong`` for others."""
    device, found = current_device(), signed(number)
    try:
        return device.contexts[found].number
    except CudaError as error:
        raise device.fail(wrong, error.note) from None


# -- arguments ---------------------------------------------------------------------------------------------------------


def void_pointer(value: Any) -> int:
    """``void *``: None, a number, or an object with a contiguous buffer, whose address is meant."""
    field = runtime.cudaPitchedPtr()
    field.ptr = value
    return int(field.ptr)


def size_t(value: Any) -> int:
    """``size_t``"""
    field = runtime.cudaExtent()
    field.width = value
    return int(field.width)


def unsigned(value: Any) -> int:
    """``unsigned int``"""
    field = runtime.dim3()
    field.x = value
    return int(field.x)


def signed(value: Any) -> int:
    """``int``"""
    field = runtime.cudaDeviceProp()
    field.major = value
    return int(field.major)


def handle(value: Any) -> int:
    """A stream, event, module, function or device pointer: None, a number, or the binding's own type."""
    return 0 if value is None else int(runtime.cudaStream_t(_number(value)))


def stream_handle(value: Any) -> int:
    """A stream. 0 is the legacy default stream, or, where the environment of the process asks for it when it is first
    used, the per-thread one (``CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1``)."""
    return handle(value) or default_stream()


@functools.cache
def default_stream() -> int:
    """The handle that 0 stands for, also in calls that take no stream."""
    return PER_THREAD if os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "").strip() == "1" else LEGACY


def _number(value: Any) -> Any:
    return int(value) if hasattr(value, "getPtr") else value


def enumerator(value: Any, name: str) -> int:
    """An enum argument: a member or a number, not None."""
    if value is None:
        raise TypeError(f"Argument '{name}' must not be None")
    number = int(value)
    if not -(2**31) <= number < 2**32:
        raise OverflowError("value too large to convert to an enum")
    return number


def struct(value: Any, name: str, kind: type) -> Any:
    """A struct passed by value or by pointer: exactly that type."""
    if not isinstance(value, kind):
        raise TypeError(
            f"Argument '{name}' has incorrect type (expected {kind.__module__}.{kind.__name__}, "
            f"got {type(value).__name__})"
        )
    return value


# -- what runtime and driver do alike ----------------------------------------------------------------------------------

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_POOL_SWITCHES = (1, 2, 3)
_ACCESSED_BY = int(runtime.cudaMemRangeAttribute.cudaMemRangeAttributeAccessedBy)


def values_behind(kernel: Kernel, array: int) -> bytes:
    """The parameter buffer of a kernel from the address of an array with one pointer to each value."""
    buffer = bytearray(kernel.parameter_bytes)
    try:
        pointers = host_address.read(array, 8 * len(kernel.parameters)).view(np.uint64)
        for parameter, pointer in zip(kernel.parameters, pointers, strict=True):
            value = host_address.read(int(pointer), parameter.size)
            buffer[parameter.offset : parameter.offset + parameter.size] = value.tobytes()
    except host_address.UnmappedAddress as error:
        raise current_device().fail(cudaError_t.cudaErrorInvalidValue, f"kernelParams: {error}") from None
    return bytes(buffer)


def launch_host_function(name: str, stream: Any, function: Any, user_data: Any) -> None:
    """``cudaLaunchHostFunc`` and ``cuLaunchHostFunc``: the C function at an address is called with the user data."""
    current_device().launch_host_function(host_call(name, function, user_data), stream_handle(stream))


def host_call(name: str, function: Any, user_data: Any) -> Callable[[], None]:
    """The C function at an address, to be called with the user data."""
    address, data = 0 if function is None else int(function), void_pointer(user_data)
    if not address:
        raise current_device().fail(cudaError_t.cudaErrorInvalidValue, f"{name}: the function is null")
    host_function = _HOST_FUNCTION(address)
    return lambda: host_function(data or None)


def add_callback(name: str, stream: Any, function: Any, user_data: Any, flags: Any) -> None:
    """``cudaStreamAddCallback`` and ``cuStreamAddCallback``: called with the stream, the status and the user data."""
    device, address, data = current_device(), 0 if function is None else int(function), void_pointer(user_data)
    if not address:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, f"{name}: the function is null")
    if unsigned(flags):
        raise device.fail(cudaError_t.cudaErrorInvalidValue, f"{name}: flags must be 0 (got {flags})")
    callback, number = _STREAM_CALLBACK(address), handle(stream)
    device.add_callback(lambda status: callback(number or None, status, data or None), stream_handle(stream))


def create_pool(name: str, properties: Any, kind: type) -> int:
    """``cudaMemPoolCreate`` and ``cuMemPoolCreate``, whose structures have fields of the same names."""
    device = current_device()
    if properties is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, f"{name}: no properties (None)")
    p = struct(properties, "poolProps", kind)
    return device.pool_create(
        int(p.allocType), int(p.location.type), int(p.location.id), int(p.handleTypes), int(p.maxSize)
    )


def pool_attribute(pool: Any, attribute: Any) -> Any:
    """The value of a pool's attribute: a number for a switch, ``cuuint64_t`` for an amount."""
    number = enumerator(attribute, "attr")
    value = current_device().pool_get_attribute(handle(pool), number)
    return value if number in _POOL_SWITCHES else driver.cuuint64_t(value)


def set_pool_access(pool: Any, descriptions: Any, count: Any) -> None:
    """``cudaMemPoolSetAccess`` and ``cuMemPoolSetAccess``."""
    places = [(int(d.location.type), int(d.location.id), int(d.flags)) for d in (descriptions or ())[: size_t(count)]]
    current_device().pool_set_access(handle(pool), places)


def pool_access(name: str, pool: Any, location: Any, kind: type) -> int:
    """``cudaMemPoolGetAccess`` and ``cuMemPoolGetAccess``."""
    device = current_device()
    if location is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, f"{name}: no location (None)")
    place = struct(location, "location", kind)
    return device.pool_get_access(handle(pool), int(place.type), int(place.id))


def range_attribute(number: int, pointer: int, size: int, bytes_of_answer: int) -> Any:
    """One attribute of a range of memory: a number, or a list where the answer is an array."""
    found = current_device().range_attribute(number, pointer, size, max(1, bytes_of_answer // 4))
    return found if number == _ACCESSED_BY else found[0]


def range_attributes(sizes: Any, attributes: Any, count: Any, pointer: int, size: int) -> list[Any]:
    """Several attributes of a range of memory, each with the bytes of its answer."""
    pairs = list(zip(attributes or (), sizes, strict=False))[: size_t(count)]
    return [range_attribute(int(attribute), pointer, size, bytes_of) for attribute, bytes_of in pairs]
