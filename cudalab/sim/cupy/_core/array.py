"""``cupy.ndarray``: an array in the memory of the simulated device.

It has NumPy's shape, strides and type, and its elements lie at ``data.ptr``. Functions on it are enqueued in the
current stream and return at once; what brings values to the host (``get``, ``item``, ``float``, ``print``) waits for
the stream.

As in CuPy, a NumPy array never turns into one of these, or back, by itself.
"""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable, Iterator
from types import GenericAlias
from typing import Any

import numpy as np

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import on_device, own_work
from cudalab.sim.cupy._base.device_array import DeviceArray
from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.operation import Fill, Operand, Work, enqueue
from cudalab.sim.cupy.cuda import memory, pinned_memory, runtime
from cudalab.sim.cupy.cuda.device import Device
from cudalab.sim.cupy.cuda.memory import MemoryPointer
from cudalab.sim.cupy.cuda.stream import current_pointer, get_current_stream, refuse_capture

_MOST_DIMENSIONS = 64
_IMPLICIT = (
    "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."
)


class Flags:
    """Layout of an array: ``c_contiguous``, ``f_contiguous``, ``owndata``; also by ``flags['C_CONTIGUOUS']``."""

    def __init__(self, c_contiguous: bool, f_contiguous: bool, owndata: bool) -> None:
        self.c_contiguous = c_contiguous
        self.f_contiguous = f_contiguous
        self.owndata = owndata

    @property
    def fnc(self) -> bool:
        """In Fortran order and not in C order."""
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self) -> bool:
        """In Fortran order or in C order."""
        return self.f_contiguous or self.c_contiguous

    def __getitem__(self, name: str) -> bool:
        keys = {"C_CONTIGUOUS": self.c_contiguous, "F_CONTIGUOUS": self.f_contiguous, "OWNDATA": self.owndata}
        if name not in keys:
            raise KeyError(f"{name} is not defined for cupy.ndarray.flags")
        return keys[name]

    def __repr__(self) -> str:
        return f"  C_CONTIGUOUS : {self.c_contiguous}\n  F_CONTIGUOUS : {self.f_contiguous}\n  OWNDATA : {self.owndata}"


class ndarray(DeviceArray):
    """An array on the device.

    Args:
        shape: lengths of the axes.
        dtype: element type.
        memptr: where the elements lie; new memory for None.
        strides: bytes between neighbours along each axis; without gaps for None.
        order: ``C`` or ``F``, for new memory.
    """

    __slots__ = ("__weakref__", "_shape", "_strides", "base", "data", "_dtype", "size")
    __module__ = "cupy"
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    data: MemoryPointer
    base: ndarray | None
    __getitem__: Callable[..., ndarray]
    __setitem__: Callable[..., None]

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: MemoryPointer | None = None, strides: Any = None, order: str = "C"
    ) -> None:
        self._shape = layout.shape_of(shape)
        if len(self._shape) > _MOST_DIMENSIONS:
            raise ValueError(
                f"maximum supported dimension for an ndarray is {_MOST_DIMENSIONS}, found {len(self._shape)}"
            )
        self._dtype = types.checked(dtype) if memptr is None else np.dtype(dtype)
        self.size = math.prod(self._shape)
        if strides is None:
            self._strides = layout.contiguous_strides(self._shape, self._dtype.itemsize, order_char(order))
        else:
            self._strides = tuple(int(entry) for entry in strides)
        if memptr is None and strides is not None:
            self._check_own_strides()
        self.data = memory.alloc(self.nbytes) if memptr is None else memptr
        self.base = None

    def _check_own_strides(self) -> None:
        """Strides for new memory must stay within what an array without gaps takes."""
        start, extent = Operand(0, self._shape, self._strides, self._dtype).span()
        if start < 0:
            raise ValueError("ndarray() with strides currently does not allow negative strides")
        if extent > self.nbytes:
            raise ValueError(
                f"ndarray() with strides must stay withing a contiguous size of {self.nbytes} but got {extent}."
            )

    @classmethod
    def _view_of(
        cls, base: ndarray, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, dtype: Any = None
    ) -> ndarray:
        """A view of the memory of ``base``, ``offset`` bytes from its first element."""
        view = cls.__new__(cls)
        view._shape, view._strides = tuple(shape), tuple(strides)
        view._dtype = base._dtype if dtype is None else dtype
        view.size = math.prod(view._shape)
        view.data = base.data + offset if offset else base.data
        view.base = base if base.base is None else base.base
        return view

    def _operand(self) -> Operand:
        return Operand(self.data.address, self._shape, self._strides, self._dtype)

    # -- attributes ----------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes; assign to reshape in place."""
        return self._shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        view = view_shaped(self, layout.reshaped(self.size, shape))
        if view is None:
            raise AttributeError(
                "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired shape."
            )
        self._shape, self._strides = view._shape, view._strides

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each axis."""
        return self._strides

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self._dtype.itemsize

    @property
    def device(self) -> Device:
        """The device that it is on."""
        return self.data.device

    @property
    def flags(self) -> Flags:
        """Layout."""
        return Flags(self._contiguous("C"), self._contiguous("F"), self.base is None)

    def _contiguous(self, order: str) -> bool:
        return layout.is_contiguous(self._shape, self._strides, self._dtype.itemsize, order)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        stream = current_pointer()
        return {
            "shape": self._shape,
            "typestr": self._dtype.str,
            "descr": self._dtype.descr,
            "stream": stream or 1,
            "version": 3,
            "strides": None if self._contiguous("C") else self._strides,
            "data": (self.data.address if self.size else 0, False),
        }

    def __getattr__(self, name: str) -> Any:
        raise catalogue.missing_member("cupy.ndarray", name)

    # -- to and from the host ------------------------------------------------------------------------------------------

    def get(
        self, stream: Any = None, order: str = "C", out: np.ndarray | None = None, blocking: bool = True
    ) -> np.ndarray:
        """A copy on the host.

        Args:
            stream: the copy's stream; the current one by default.
            order: layout of the copy: ``C``, ``F``, or ``A`` (that of the array).
            out: a NumPy array to copy to.
            blocking: wait for the copy. With False and pinned ``out`` the host goes on, and synchronises by itself.
        """
        refuse_capture("D2H", stream)
        order = order_char(order)
        if out is None:
            if order == "A":
                order = "F" if self._contiguous("F") and not self._contiguous("C") else "C"
            target: np.ndarray = np.empty(self._shape, self._dtype, order=order)  # type: ignore[call-overload]
        else:
            target = self._checked_target(out)
            order = "C" if target.flags.c_contiguous else "F"
        with on_device(self.data.device_id):
            if self.size:
                source = self if self._contiguous(order) else self.copy(order=order)
                own_work("array_copy")
                source.data.copy_to_host_async(target.ctypes.data, source.nbytes, stream)
            if blocking:
                (get_current_stream() if stream is None else stream).synchronize()
        return target

    def _checked_target(self, out: Any) -> np.ndarray:
        if not isinstance(out, np.ndarray):
            raise TypeError("Only numpy.ndarray can be obtained fromcupy.ndarray")
        if out.dtype != self._dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self._dtype} array")
        if out.shape != self._shape:
            raise ValueError(f"Shape mismatch. Expected shape: {self._shape}, actual shape: {out.shape}")
        if not (out.flags.c_contiguous or out.flags.f_contiguous):
            raise RuntimeError("`out` cannot be specified when copying to non-contiguous ndarray")
        return out

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        """Copy a NumPy array of the same shape and type to the device."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self._dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self._dtype} array")
        if self._shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self._shape}, new shape: {arr.shape}")
        if self._contiguous("C"):
            source = np.ascontiguousarray(arr)
        elif self._contiguous("F"):
            source = np.asfortranarray(arr)
        else:
            raise RuntimeError("Cannot set to non-contiguous array")
        refuse_capture("H2D", stream)
        with on_device(self.data.device_id):
            stream = stream if stream is not None else get_current_stream()
            own_work("array_copy")
            self.data.copy_from_host_async(source.ctypes.data, self.nbytes, stream)
            if source is not arr:
                pinned_memory.keep_until(stream.record(), source)

    def item(self) -> Any:
        """The only element as a Python number."""
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.get().item()

    def tolist(self) -> Any:
        """All elements as nested lists."""
        return self.get().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """All elements as bytes."""
        return self.get().tobytes(order)  # type: ignore[arg-type]

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write all elements to a file."""
        self.get().tofile(fid, sep, format)

    def dump(self, file: Any) -> None:
        """Pickle to an open file."""
        pickle.dump(self, file, -1)

    def dumps(self) -> bytes:
        """Pickle to bytes."""
        return pickle.dumps(self, -1)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(_IMPLICIT)

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ndarray:
        return self.copy()

    # -- Python's protocols --------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, format_spec: str) -> str:
        return format(self.get(), format_spec)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of unsized object")
        return self._shape[0]

    def __iter__(self) -> Iterator[ndarray]:
        if not self._shape:
            raise TypeError("iteration over a 0-d array")
        return (self[index] for index in range(self._shape[0]))

    def __bool__(self) -> bool:
        if self.size == 0:
            text = (
                "The truth value of an empty array is ambiguous. Returning False, but in future this will result in an "
                "error. Use `array.size > 0` to check that an array is not empty."
            )
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return False
        if self.size == 1:
            return bool(self.get())
        raise ValueError("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()")

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __bytes__(self) -> bytes:
        return bytes(self.get())

    def __delitem__(self, key: Any) -> None:
        raise NotImplementedError("Subscript deletion not supported by ndarray")

    __class_getitem__: Any = classmethod(GenericAlias)

    # -- copies --------------------------------------------------------------------------------------------------------

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        """A copy with another element type; the array itself with ``copy=False`` when nothing changes.

        A float that does not fit an integer type saturates as CUDA's conversion does (``types.py``).
        """
        if casting is not None:
            raise TypeError("casting is not supported yet")
        if subok is not None:
            raise TypeError("subok is not supported yet")
        order = order_char(order)
        wanted = types.checked(dtype)
        fits = order == "K" or (order == "A" and self.flags.forc) or (order in "CF" and self._contiguous(order))
        if wanted == self._dtype and not copy and fits:
            return self
        if wanted.kind not in "cb" and self._dtype.kind == "c":
            text = "Casting complex values to real discards the imaginary part"
            warnings.warn(text, np.exceptions.ComplexWarning, stacklevel=2)
        result = self._like(wanted, order)
        copy_elements(result, self)
        return result

    def _like(self, dtype: Any, order: str, shape: Any = None) -> ndarray:
        """A new array of this one's shape, in its layout for order ``K``."""
        if shape is not None and tuple(shape) != self._shape:
            return ndarray(shape, dtype, order="C" if order in "KA" else order)
        if order == "A":
            order = "F" if self.flags.fnc else "C"
        if order == "K":
            order = "C" if self._contiguous("C") else "F" if self._contiguous("F") else "K"
        if order != "K":
            return ndarray(self._shape, dtype, order=order)
        result = ndarray(self._shape, dtype)
        result._strides = layout.kept_strides(self._shape, self._strides, result.itemsize)
        return result

    def copy(self, order: str = "C") -> ndarray:
        """A copy, on the current device."""
        if self.data.device_id == runtime.getDevice():
            return self.astype(self._dtype, order=order)
        with on_device(self.data.device_id):
            source = self if self._contiguous("C") else self.astype(self._dtype, order="C")
        result = ndarray(self._shape, self._dtype)
        result.data.copy_from_device_async(source.data, source.nbytes)
        return result

    def fill(self, value: Any) -> None:
        """Set every element to ``value``, a number or an array without axes."""
        if isinstance(value, ndarray):
            if value._shape:
                raise ValueError("non-scalar cupy.ndarray cannot be used for fill")
            copy_elements(self, value)
            return
        number = np.asarray(value, dtype=self._dtype)
        if number.shape:
            error = ValueError("non-scalar numpy.ndarray cannot be used for fill")
            error.add_note("CuPy does not copy from the host by itself: write cp.asarray(x) on the right-hand side.")
            raise error
        if not number.tobytes().strip(b"\0") and self._contiguous("C"):
            self.data.memset_async(0, self.nbytes)
            return
        target = self._operand()
        dense = self._contiguous("C") or self._contiguous("F")
        work = Fill(number, target) if dense else Work(np.copyto, (number,), {}, (target,), in_place=True)
        enqueue("cupy_fill", work, ())

    def view(self, dtype: Any = None, array_class: Any = None) -> ndarray:
        """The same memory, read as another element type."""
        if isinstance(dtype, type) and issubclass(dtype, ndarray):
            dtype = None
        if dtype is None:
            return ndarray._view_of(self, self._shape, self._strides)
        wanted = np.dtype(dtype)
        old, new = self._dtype.itemsize, wanted.itemsize
        if old == new:
            return ndarray._view_of(self, self._shape, self._strides, dtype=wanted)
        if not self._shape:
            raise ValueError("Changing the dtype of a 0d array is only supported if the itemsize is unchanged")
        if self._shape[-1] != 1 and self.size and self._strides[-1] != old:
            raise ValueError("To change to a dtype of a different size, the last axis must be contiguous")
        if self._shape[-1] * old % new:
            raise ValueError(
                "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last "
                "axis of the array."
            )
        shape = (*self._shape[:-1], self._shape[-1] * old // new)
        return ndarray._view_of(self, shape, (*self._strides[:-1], new), dtype=wanted)


def order_char(order: str | None) -> str:
    """``C``, ``F``, ``A`` or ``K``."""
    letter = (order or "K")[0].upper()
    if letter not in "CFAK":
        raise ValueError("order not understood")
    return letter


def required(a: Any) -> ndarray:
    """``a``, which must be an array on the device."""
    if not isinstance(a, ndarray):
        raise types.unsupported(a)
    return a


def view_shaped(array: ndarray, shape: layout.Shape, order: str = "C") -> ndarray | None:
    """The array in another shape without a copy, or None when that is not possible."""
    if array._contiguous(order):
        return ndarray._view_of(array, shape, layout.contiguous_strides(shape, array.itemsize, order))
    strides = layout.split_strides(array._shape, array._strides, array.itemsize, shape, order)
    return None if strides is None else ndarray._view_of(array, shape, strides)


def copy_elements(target: ndarray, source: ndarray, where: Operand | None = None) -> None:
    """Enqueue ``target[...] = source``, with broadcasting and CUDA's conversions."""
    if not target.size:
        return
    inputs = [source._operand()] if where is None else [source._operand(), where]
    work = Work(_store, inputs, {}, (target._operand(),), in_place=True)
    enqueue("cupy_copy", work, inputs if where is None else [*inputs, target._operand()])


def _store(target: np.ndarray, source: np.ndarray, where: Any = True) -> None:
    np.copyto(target, types.converted(source, target.dtype), where=where)


def define(name: str, function: Any) -> None:
    """Give :class:`ndarray` the method or property ``name``; the modules of functions add theirs."""
    setattr(ndarray, name, function)
