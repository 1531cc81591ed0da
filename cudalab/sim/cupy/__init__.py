"""CuPy on the simulated device: ``from cudalab import cp`` gives this module where there is no GPU.

Names, signatures, results and errors are CuPy's, for the part of it that the course and a curious learner use. A name
that CuPy has and this module has not says so. Arrays live in the simulated device's memory; their functions are
NumPy's, enqueued in the current stream with a modelled time; kernels run as your own CUDA C++.

Where a learner would notice a difference to CuPy on a GPU: random numbers are other ones, the last digits of sums and
of functions like ``sin`` may differ, an array function counts as one kernel, and arrays do not touch in memory.
"""

from __future__ import annotations

import builtins as _builtins
import sys as _sys
from importlib import import_module as _import_module
from typing import Any

import numpy as _np

from cudalab.sim.cupy import cuda, exceptions
from cudalab.sim.cupy._base import catalogue as _catalogue
from cudalab.sim.cupy._core import protocol as _protocol
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy._core.creation import (
    arange,
    array,
    asanyarray,
    asarray,
    ascontiguousarray,
    asfortranarray,
    asnumpy,
    astype,
    copy,
    copyto,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    identity,
    linspace,
    logspace,
    ones,
    ones_like,
    tri,
    zeros,
    zeros_like,
)
from cudalab.sim.cupy._core.derivation import derived as _derived
from cudalab.sim.cupy._core.derivation import make as _make
from cudalab.sim.cupy._core.dlpack import from_dlpack
from cudalab.sim.cupy._core.elementwise import ElementwiseKernel
from cudalab.sim.cupy._core.joining import column_stack, concatenate, dstack, hstack, stack, vstack
from cudalab.sim.cupy._core.manipulation import (
    VIEWS as _VIEWS,
)
from cudalab.sim.cupy._core.manipulation import (
    array_split,
    broadcast_arrays,
    broadcast_to,
    dsplit,
    hsplit,
    imag,
    ravel,
    real,
    reshape,
    split,
    squeeze,
    swapaxes,
    transpose,
    vsplit,
)
from cudalab.sim.cupy._core.manipulation import (
    at_least as _at_least,
)
from cudalab.sim.cupy._core.manipulation import (
    view_function as _view_function,
)
from cudalab.sim.cupy._core.raw import RawKernel, RawModule
from cudalab.sim.cupy._core.reduction_kernel import ReductionKernel
from cudalab.sim.cupy._core.ufunc import get as _ufunc
from cudalab.sim.cupy._core.ufunc import ufunc
from cudalab.sim.cupy._routines import operators as _operators
from cudalab.sim.cupy._routines.grids import Grid as _Grid
from cudalab.sim.cupy._routines.grids import Joiner as _Joiner
from cudalab.sim.cupy._routines.grids import indices, ix_, meshgrid
from cudalab.sim.cupy._routines.numeric import (
    allclose,
    append,
    apply_along_axis,
    around,
    average,
    bincount,
    broadcast,
    clip,
    nan_to_num,
    pad,
    repeat,
    require,
    roll,
    sort,
    unwrap,
)
from cudalab.sim.cupy._routines.products import dot, einsum, inner, matmul, outer, tensordot, vdot
from cudalab.sim.cupy._routines.questions import (
    array2string,
    array_repr,
    array_str,
    byte_bounds,
    common_type,
    iscomplexobj,
    isfortran,
    isrealobj,
    isscalar,
    may_share_memory,
    min_scalar_type,
    ndim,
    result_type,
    shape,
    shares_memory,
    size,
)
from cudalab.sim.cupy._routines.reductions import NAMES as _REDUCTIONS
from cudalab.sim.cupy._routines.reductions import function as _reduction
from cudalab.sim.cupy._routines.selection import (
    choose,
    compress,
    fill_diagonal,
    flatnonzero,
    nonzero,
    place,
    put,
    put_along_axis,
    putmask,
    take,
    where,
)

__version__ = _catalogue.data()["cupy"]

# Numbers, types and constants are NumPy's own.
_OF_NUMPY = (
    "bool", "bool_", "byte", "cdouble", "complex128", "complex64", "complexfloating", "csingle", "double", "dtype", "e",
    "euler_gamma", "finfo", "float16", "float32", "float64", "floating", "generic", "half", "iinfo", "index_exp",
    "inexact", "inf", "int16", "int32", "int64", "int8", "int_", "intc", "integer", "intp", "long", "longlong", "nan",
    "ndindex", "newaxis", "number", "pi", "s_", "short", "signedinteger", "single", "ubyte", "uint", "uint16", "uint32",
    "uint64",
    "uint8", "uintc", "uintp", "ulong", "ulonglong", "unsignedinteger", "ushort",
)  # fmt: skip
globals().update({_name: getattr(_np, _name) for _name in _OF_NUMPY})
Inf = Infinity = PINF = infty = _np.inf
NINF = -_np.inf
NAN = NaN = _np.nan
PZERO, NZERO = 0.0, -0.0
float_, complex_, cfloat, singlecomplex = _np.float64, _np.complex128, _np.complex128, _np.complex64
AxisError = exceptions.AxisError
ComplexWarning = exceptions.ComplexWarning
disable_experimental_feature_warning = False
mgrid, ogrid = _Grid(sparse=False), _Grid(sparse=True)
r_, c_ = _Joiner(columns=False), _Joiner(columns=True)
concat = concatenate
row_stack = vstack
permute_dims = transpose
round = round_ = around
abs = absolute = _ufunc("absolute")
atleast_1d, atleast_2d, atleast_3d = (_at_least(_n) for _n in (1, 2, 3))
trapz = _make("trapezoid")

_protocol.install(_sys.modules[__name__])
_default_memory_pool = cuda.MemoryPool()
_default_pinned_memory_pool = cuda.PinnedMemoryPool()
cuda.set_allocator(_default_memory_pool.malloc)
cuda.set_pinned_memory_allocator(_default_pinned_memory_pool.malloc)

_SUBMODULES = ("fft", "linalg", "random", "testing")
_WINDOWS = ("bartlett", "blackman", "hamming", "hanning", "kaiser")
_FROM_HOST = ("frombuffer", "fromfile", "fromfunction", "fromiter", "fromstring", "genfromtxt", "loadtxt")
_TO_HOST = ("save", "savetxt", "savez", "savez_compressed")


def __getattr__(name: str) -> Any:
    value = _find(name)
    if value is None:
        raise _catalogue.missing("cupy", name)
    globals()[name] = value
    return value


def _find(name: str) -> Any:
    """What is made when it is first used: submodules and derived functions."""
    if name in _SUBMODULES:
        return _import_module(f"cudalab.sim.cupy.{name}")
    if name in _catalogue.data()["ufuncs"]:
        return _ufunc(name)
    if name in _REDUCTIONS:
        return _derived("cupy", name, _reduction(name))
    if name in _VIEWS:
        return _derived("cupy", name, _view_function(name))
    if name in _WINDOWS or name in _FROM_HOST:
        return _derived("cupy", name, _uploaded(getattr(_np, name)))
    if name in _TO_HOST:
        return _derived("cupy", name, _downloaded(getattr(_np, name)))
    return _make(name)


def _uploaded(function: Any) -> Any:
    """A NumPy function that makes an array on the host; its result goes to the device."""
    return lambda *args, **kwargs: array(function(*args, **kwargs))


def _downloaded(function: Any) -> Any:
    """A NumPy function that writes arrays to a file; they come to the host for it."""

    def call(file: Any, *args: Any, **kwargs: Any) -> Any:
        host = [asnumpy(a) if isinstance(a, ndarray) else a for a in args]
        named = {key: asnumpy(a) if isinstance(a, ndarray) else a for key, a in kwargs.items() if a is not None}
        return function(file, *host, **named)

    return call


def __dir__() -> list[str]:
    lazy = {name for name in _catalogue.names("cupy") if name not in globals() and _is_simulated(name)}
    return sorted(lazy | set(_catalogue.offered("cupy", globals())))


def _is_simulated(name: str) -> bool:
    return _find(name) is not None


def is_available() -> bool:
    """Is there a device? Yes: the simulated one."""
    return cuda.is_available()


def get_default_memory_pool() -> cuda.MemoryPool:
    """The pool that arrays' memory comes from."""
    return _default_memory_pool


def get_default_pinned_memory_pool() -> cuda.PinnedMemoryPool:
    """The pool that page-locked memory comes from."""
    return _default_pinned_memory_pool


def load(file: Any, mmap_mode: Any = None, allow_pickle: Any = None) -> Any:
    """An array from a ``.npy`` file; a mapping of names to arrays from a ``.npz`` file."""
    found = _np.load(file, mmap_mode=mmap_mode, allow_pickle=bool(allow_pickle))
    if isinstance(found, _np.ndarray):
        return array(found)
    return {name: array(found[name]) for name in found.files}


def get_array_module(*args: Any) -> Any:
    """CuPy when one of the arguments is an array on the device, else NumPy."""
    found = _builtins.any(isinstance(a, ndarray) for a in args)  # `any` is CuPy's here, once somebody used it
    return _sys.modules[__name__] if found else _np


def show_config(*, _full: bool = False) -> None:
    """Print what this is."""
    properties = cuda.runtime.getDeviceProperties(0)
    print(f"CuPy Version          : {__version__} (simulated)")
    print(f"NumPy Version         : {_np.__version__}")
    print(f"CUDA Runtime Version  : {cuda.runtime.runtimeGetVersion()}")
    print(f"CUDA Driver Version   : {cuda.runtime.driverGetVersion()}")
    print(f"Device 0 Name         : {properties['name'].decode()}")
    print(f"Device 0 Compute Capability : {properties['major']}{properties['minor']}")
