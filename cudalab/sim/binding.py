"""What ``cudalab.sim.cudart`` and ``cudalab.sim.driver`` share: taking over types, and converting arguments.

The real modules import and make their enums and structs without a GPU, so the simulated ones use those very types.
Their functions convert arguments in generated code; a struct field of the same C type converts in the same way, so the
conversions here go through such fields: same values accepted, same exceptions for the others.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, ParamSpec, Protocol

from cuda.bindings import runtime

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


def missing(real: ModuleType, name: str) -> AttributeError:
    """The error for a name that the simulated module does not have."""
    short = real.__name__.rpartition(".")[2]
    if callable(getattr(real, name, None)) and not name.startswith("_"):
        return NotSimulated(
            f"{real.__name__}.{name} exists, but the simulated device does not have it. "
            f"It runs on a machine with an NVIDIA GPU (CUDALAB_DEVICE=gpu)"
        )
    return AttributeError(f"module {short!r} has no attribute {name!r}")


class Answer(tuple[Any, ...]):
    """``(error, values…)`` as the bindings return it. On failure ``note`` says what the number cannot."""

    note = ""


class Marker(Protocol):
    """Makes one function answer as the bindings do."""

    def __call__(self, function: Callable[P, Any], /) -> Callable[P, Answer]: ...


class Api(Protocol):
    """``@api(n)`` is for a function that returns ``n`` values besides the error."""

    def __call__(self, values: int = 0) -> Marker: ...


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
