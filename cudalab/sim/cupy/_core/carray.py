"""C++ that user-defined kernels see: whole arrays (``CArray``), half precision and complex numbers by CuPy's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_HALF = """#include <cuda_fp16.h>
typedef __half float16;
"""
_COMPLEX = """#include <cuda/std/complex>
using cuda::std::complex;
"""
_ARRAY = """
template <typename T, int N>
struct CArray {
    static const int ndim = N;
    T* data_;
    ptrdiff_t size_;
    ptrdiff_t shape_[N ? N : 1];
    ptrdiff_t strides_[N ? N : 1];

    __device__ ptrdiff_t size() const { return size_; }
    __device__ const ptrdiff_t* shape() const { return shape_; }
    __device__ const ptrdiff_t* strides() const { return strides_; }
    __device__ T& operator[](const ptrdiff_t* index) const {
        char* place = (char*)data_;
        for (int d = 0; d < N; ++d) place += strides_[d] * index[d];
        return *(T*)place;
    }
    __device__ T& operator[](ptrdiff_t i) const {
        char* place = (char*)data_;
        for (int d = N - 1; d >= 0; --d) {
            place += strides_[d] * (i % shape_[d]);
            i /= shape_[d];
        }
        return *(T*)place;
    }
};

template <int N>
struct CIndexer {
    ptrdiff_t size_;
    ptrdiff_t index_[N ? N : 1];

    __device__ ptrdiff_t size() const { return size_; }
    __device__ const ptrdiff_t* get() const { return index_; }
};
"""


def preamble(dtypes: Iterable[np.dtype[Any]]) -> str:
    """What stands before a kernel on these types."""
    kinds = {dtype.char for dtype in dtypes}
    return (_HALF if "e" in kinds else "") + (_COMPLEX if kinds & set("FD") else "") + _ARRAY


def extents(name: str, dimensions: int) -> list[str]:
    """Declarations of an array's lengths and strides as parameters of a kernel."""
    return [f"ptrdiff_t _{name}_{kind}{axis}" for kind in ("n", "s") for axis in range(dimensions)]


def array(ctype: str, name: str, dimensions: int, const: bool) -> str:
    """The definition of a whole array ``name`` from a kernel's parameters ``_name_data``, ``_name_n0``, …"""
    axes = range(dimensions)
    size = " * ".join([f"_{name}_n{axis}" for axis in axes] or ["1"])
    lengths = ", ".join([f"_{name}_n{axis}" for axis in axes] or ["1"])
    strides = ", ".join([f"_{name}_s{axis}" for axis in axes] or ["0"])
    kind = f"CArray<{'const ' if const else ''}{ctype}, {dimensions}>"
    return f"const {kind} {name} = {{_{name}_data, {size}, {{{lengths}}}, {{{strides}}}}};"
