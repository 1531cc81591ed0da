"""New arrays: from a shape, from a range, or from data on the host.

``asarray`` of ordinary (pageable) host memory first copies to a page-locked buffer and then to the device, as CuPy
does: the host spends the time of the first copy, the second one runs in the stream.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cudalab.sim.cupy._base.call import device, own_work
from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.array import copy_elements, define, ndarray, order_char, required
from cudalab.sim.cupy._core.joining import stack
from cudalab.sim.cupy._core.operation import Work, enqueue
from cudalab.sim.cupy.cuda import pinned_memory, runtime
from cudalab.sim.cupy.cuda.memory import MemoryPointer, UnownedMemory
from cudalab.sim.cupy.cuda.stream import get_current_stream, refuse_capture

HOST_COPY_BYTES_PER_NS = 17.2  # measured on the reference machine: a host writing page-locked memory
_COPY_OVERHEAD_NS = 300


# -- from the host -----------------------------------------------------------------------------------------------------


def array(
    obj: Any,
    dtype: Any = None,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    """A new array on the device from a CuPy or NumPy array, a number, or nested lists.

    Args:
        obj: the data.
        dtype: element type; that of the data by default.
        copy: False: no copy of what is on the device already.
        order: layout.
        ndmin: least number of axes.
        blocking: wait until a copy from the host is done.
    """
    if subok:
        raise NotImplementedError("subok=True is not supported")
    letter = order_char(order)
    found = on_device(obj)
    if found is None and _is_nested(obj, ndarray):
        found = _stack(obj)
        copy = False
    if found is None:
        result = _from_host(obj, dtype, letter, ndmin, blocking)
    else:
        if found.data.device_id != runtime.getDevice():
            found = found.copy()
        result = found.astype(found.dtype if dtype is None else dtype, order=letter, copy=bool(copy))
        if result.ndim < ndmin:
            result = result.reshape((1,) * (ndmin - result.ndim) + result.shape)
    return result


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, blocking: bool = False
) -> ndarray:
    """Like :func:`array`, without a copy of what is on the device already."""
    return array(a, dtype, bool(copy), order, blocking=blocking)


asanyarray = asarray


def on_device(obj: Any) -> ndarray | None:
    """``obj`` when it is an array on the device, ours or another library's; else None."""
    if isinstance(obj, ndarray):
        return obj
    interface = getattr(obj, "__cuda_array_interface__", None)
    if interface is None:
        return None
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    strides = interface.get("strides")
    pointer = MemoryPointer(UnownedMemory(interface["data"][0], 0, obj, 0), 0)
    return ndarray(shape, dtype, pointer, strides)


def _is_nested(obj: Any, kind: type) -> bool:
    """Nested lists whose leaves are all of ``kind``?"""
    return isinstance(obj, (list, tuple)) and bool(obj) and all(isinstance(e, kind) or _is_nested(e, kind) for e in obj)


def _stack(obj: Any) -> ndarray:
    return stack([entry if isinstance(entry, ndarray) else _stack(entry) for entry in obj])


def _from_host(obj: Any, dtype: Any, letter: str, ndmin: int, blocking: bool) -> ndarray:
    host = np.array(obj, dtype=dtype, copy=None, ndmin=ndmin)
    host = host.astype(types.checked(host.dtype), copy=False)
    if letter in "KA":
        letter = "F" if host.flags.fnc else "C"
    result = ndarray(host.shape, host.dtype, order=letter)
    if host.ndim == 0:
        result.fill(host)
        return result
    if host.size:
        _upload(result, host, letter)
    if blocking:
        get_current_stream().synchronize()
    return result


def _upload(target: ndarray, host: np.ndarray, order: str) -> None:
    refuse_capture("H2D")
    stream = get_current_stream()
    ordered = host.flags.f_contiguous if order == "F" else host.flags.c_contiguous
    if ordered and pinned_memory.is_memory_pinned(host.ctypes.data):
        target.data.copy_from_host_async(host.ctypes.data, target.nbytes, stream)
        pinned_memory.keep_until(stream.record(), host)
        return
    own_work("array_from_host")
    staging = pinned_memory.alloc_pinned_memory(target.nbytes)
    staged = np.frombuffer(staging, host.dtype, host.size).reshape(host.shape, order=order)  # type: ignore[call-overload]
    staged[...] = host
    device().host_work(_COPY_OVERHEAD_NS + round(host.nbytes / HOST_COPY_BYTES_PER_NS))
    target.data.copy_from_host_async(staging.ptr, target.nbytes, stream)
    pinned_memory.keep_until(stream.record(), staging)


def asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: np.ndarray | None = None, *, blocking: bool = True
) -> np.ndarray:
    """A NumPy array with the elements of ``a``; a copy when it is on the device."""
    found = on_device(a)
    if found is not None:
        return found.get(stream=stream, order=order, out=out, blocking=blocking)
    host: np.ndarray = np.asarray(a, order=order)  # type: ignore[call-overload]
    if out is None:
        return host
    out[...] = host
    return out


# -- from a shape ------------------------------------------------------------------------------------------------------


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """A new array; its elements are whatever the memory held."""
    return ndarray(shape, dtype, order=order)


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """A new array of zeros."""
    result = ndarray(shape, dtype, order=order)
    result.data.memset_async(0, result.nbytes)
    return result


def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """A new array of ones."""
    result = ndarray(shape, dtype, order=order)
    result.fill(1)
    return result


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    """A new array of one value."""
    if dtype is None:
        dtype = np.asarray(fill_value).dtype if types.is_scalar(fill_value) else fill_value.dtype
    return _filled(ndarray(shape, dtype, order=order), fill_value)


def _filled(result: ndarray, value: Any) -> ndarray:
    if isinstance(value, ndarray):
        copyto(result, value, casting="unsafe")
    else:
        result.fill(value)
    return result


def empty_like(prototype: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    """A new array of the shape and type of another."""
    if not isinstance(prototype, ndarray):
        raise TypeError(f"'a' must be a cupy.ndarray, got {type(prototype).__name__}. Write cp.asarray(a) first.")
    wanted = prototype.dtype if dtype is None else types.checked(dtype)
    return prototype._like(wanted, order_char(order), None if shape is None else layout.shape_of(shape))


def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    """Zeros, of the shape and type of another."""
    result = empty_like(a, dtype, order, subok, shape)
    result.data.memset_async(0, result.nbytes)
    return result


def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    """Ones, of the shape and type of another."""
    result = empty_like(a, dtype, order, subok, shape)
    result.fill(1)
    return result


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    """One value, in the shape and type of another."""
    return _filled(empty_like(a, dtype, order, subok, shape), fill_value)


def generated(name: str, shape: layout.Shape, dtype: Any, function: Any, *arguments: Any, order: str = "C") -> ndarray:
    """A new array that ``function(*arguments)`` computes on the device, without input arrays."""
    result = ndarray(shape, dtype, order=order)
    enqueue(name, Work(function, arguments, {}, (result._operand(),)), (), flops=float(result.size))
    return result


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    """Numbers from ``start`` up to, and without, ``stop``."""
    if stop is None:
        start, stop = 0, start
    if step is None:
        step = 1
    if dtype is None:
        dtype = np.array([value for value in (start, stop, step) if value is not None]).dtype
        if dtype.kind == "b":
            dtype = np.dtype(np.int64)
    found = types.checked(dtype)
    size = max(0, math.ceil((stop - start) / step))
    if found.kind == "b" and size > 2:
        raise TypeError("no fill-function for data-type.")
    return generated("cupy_arange", (size,), found, _arange, start, step, size, found)


def _arange(start: Any, step: Any, size: int, dtype: np.dtype[Any]) -> np.ndarray:
    wide = np.result_type(dtype, np.float64 if dtype.kind == "f" else dtype)
    result: np.ndarray = (
        np.asarray(start).astype(wide) + np.arange(size).astype(wide) * np.asarray(step).astype(wide)
    ).astype(dtype)
    return result


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    """``num`` numbers from ``start`` to ``stop``, evenly spaced."""
    if num < 0:
        raise ValueError("linspace with num<0 is not supported")
    start, stop = (value.item() if isinstance(value, ndarray) else value for value in (start, stop))
    example = np.linspace(start, stop, min(num, 2), endpoint, dtype=dtype, axis=axis)
    shape = list(example.shape)
    shape[axis] = num
    result = generated(
        "cupy_linspace", tuple(shape), example.dtype, np.linspace, start, stop, num, endpoint, False, dtype, axis
    )
    if not retstep:
        return result
    parts = num - 1 if endpoint else num
    return result, (stop - start) / parts if parts > 0 else float("nan")


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = None, axis: int = 0
) -> ndarray:
    """``num`` numbers from ``base**start`` to ``base**stop``, evenly spaced on a log scale."""
    example = np.logspace(start, stop, min(num, 2), endpoint, base, dtype, axis)
    shape = list(example.shape)
    shape[axis] = num
    return generated(
        "cupy_logspace", tuple(shape), example.dtype, np.logspace, start, stop, num, endpoint, base, dtype, axis
    )


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C") -> ndarray:
    """Ones on a diagonal."""
    shape = layout.shape_of((N, N if M is None else M))
    return generated("cupy_eye", shape, dtype, np.eye, shape[0], shape[1], k, np.dtype(dtype), order=order)


def identity(n: int, dtype: Any = float) -> ndarray:
    """The identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> ndarray:
    """Ones at and below a diagonal."""
    shape = layout.shape_of((N, N if M is None else M))
    return generated("cupy_tri", shape, dtype, np.tri, shape[0], shape[1], k, np.dtype(dtype))


def copy(a: Any, order: str = "K") -> ndarray:
    """A copy on the device."""
    return required(a).copy(order=order)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    """The array without gaps in C order; itself when it is."""
    return asarray(a, dtype, order="C")


def asfortranarray(a: Any, dtype: Any = None) -> ndarray:
    """The array without gaps in Fortran order; itself when it is."""
    return asarray(a, dtype, order="F")


def astype(x: ndarray, dtype: Any, *, copy: bool = True) -> ndarray:
    """``x.astype(dtype)``."""
    return x.astype(dtype, copy=copy)


def copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    """Copy elements of ``src`` to ``dst``, where ``where`` is true."""
    source = src if isinstance(src, ndarray) else array(src, dtype=None)
    if isinstance(src, (int, float, complex)):
        source = full((), src, dtype=dst.dtype)
    if not np.can_cast(source.dtype, dst.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast {source.dtype!s} to {dst.dtype!s} in {casting} casting mode")
    if not layout.can_broadcast(source.shape, dst.shape):
        raise ValueError(f"could not broadcast input array from shape {source.shape} into shape {dst.shape}")
    copy_elements(dst, source, None if where is None else asarray(where, dtype=bool)._operand())


define("__reduce__", lambda self: (array, (self.get(order="A"),)))
