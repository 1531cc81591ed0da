"""``ReductionKernel``: a reduction from three C++ expressions (CuPy User Guide, "User-Defined Kernels").

Each result is computed by one block: its threads take the elements in turn, map and reduce them, and the partial
results meet in shared memory. The order in which floats are added is fixed, so results are the same in every run; it is
not CuPy's, so the last digits may differ from a GPU's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cudalab.sim.cupy._core import carray, layout
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy._core.parameters import (
    c_type,
    check_name,
    decide_types,
    kinds,
    launch_arguments,
    parse,
    shape_mismatch,
)
from cudalab.sim.cupy._core.raw import RawKernel
from cudalab.sim.cupy._core.types import is_scalar, unsupported

_BLOCK = 256


class ReductionKernel:
    """A reduction: ``ReductionKernel('T x', 'T y', 'x * x', 'a + b', 'y = sqrt(a)', '0', 'norm')``.

    Args:
        in_params: inputs, as in ``ElementwiseKernel``; all of them are reduced together.
        out_params: one output.
        map_expr: C++ expression of the inputs.
        reduce_expr: C++ expression of ``a`` and ``b``.
        post_map_expr: C++ statement that sets the output from ``a``.
        identity: C++ text of the value that changes nothing, where a reduction begins.
        name: the kernel's name.
        reduce_type: C++ type of ``a`` and ``b``, as ``double``; the output's when left out.
        reduce_dims: as in CuPy; it changes nothing here.
        preamble: C++ before the kernel.
        options: compiler options.

    ``kernel(*arguments, axis=None, keepdims=False, out=None, stream=None)`` returns the output.

    Raises ``TypeError`` and ``ValueError`` where arguments do not fit, ``CompileException`` for C++ that does not
    compile.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: Any,
        name: str = "reduce_kernel",
        reduce_type: str | None = None,
        reduce_dims: bool = True,
        preamble: str = "",
        options: tuple[str, ...] = (),
    ) -> None:
        check_name(name)
        self.in_params, self.out_params = parse(in_params, True), parse(out_params, False)
        if len(self.out_params) != 1 or self.out_params[0].raw:
            raise ValueError(f"a reduction has one output that is not raw (got {out_params!r})")
        self.params = self.in_params + self.out_params
        self.nin, self.nout, self.nargs = len(self.in_params), 1, len(self.params)
        self.map_expr, self.reduce_expr, self.post_map_expr = map_expr, reduce_expr, post_map_expr
        self.identity = "" if identity is None else str(identity)
        self.name, self.__name__ = name, name
        self.reduce_type, self.reduce_dims, self.preamble = reduce_type, reduce_dims, preamble
        self.options = tuple(options)
        self._kernels: dict[tuple[Any, ...], RawKernel] = {}

    def __call__(
        self, *args: Any, out: Any = None, axis: Any = None, keepdims: bool = False, stream: Any = None
    ) -> Any:
        if len(args) not in (self.nin, self.nargs):
            error = TypeError(f"Wrong number of arguments for {self.name}")
            error.add_note(f"It takes {self.nin}, or {self.nargs} with the output; {len(args)} were given.")
            raise error
        if len(args) == self.nargs:
            if out is not None:
                raise ValueError("cannot specify 'out' as both a positional and keyword argument")
            out = args[-1]
        inputs = args[: self.nin]
        for value in inputs:
            if not isinstance(value, ndarray) and not is_scalar(value):
                raise unsupported(value)
        if out is not None and not isinstance(out, ndarray):
            raise TypeError("Output arguments must be cupy.ndarray")
        in_types, out_types, letters = decide_types(
            self.in_params,
            self.out_params,
            [value.dtype if isinstance(value, ndarray) else None for value in inputs],
            [] if out is None else [out.dtype],
        )
        shapes = [
            value.shape
            for parameter, value in zip(self.in_params, inputs, strict=True)
            if isinstance(value, ndarray) and not parameter.raw
        ]
        if not shapes:
            raise ValueError("Loop size is undecided.")
        shape = layout.broadcast(*shapes)
        axes = layout.normal_axes(axis, len(shape))
        result_shape = layout.reduced(shape, axes, keepdims)
        if not self.identity and 0 in (shape[axis] for axis in axes):
            raise ValueError(f"zero-size array to reduction operation {self.name} which has no identity")
        if out is None:
            out = ndarray(result_shape, out_types[0])
        elif out.shape != result_shape:
            raise shape_mismatch(self.out_params[0].name, out.shape, result_shape)
        if out.size:
            self._launch(shape, axes, inputs, out, in_types, out_types[0], letters, stream)
        return out

    def _launch(
        self,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        inputs: Sequence[Any],
        out: ndarray,
        in_types: Sequence[np.dtype[Any]],
        out_type: np.dtype[Any],
        letters: dict[str, np.dtype[Any]],
        stream: Any,
    ) -> None:
        """The loop's axes are put in order: those that stay, then those that are reduced."""
        stay = tuple(axis for axis in range(len(shape)) if axis not in axes)
        order = (*stay, *axes)
        key = (tuple(in_types), out_type, kinds(self.in_params, inputs), len(stay), len(axes), tuple(letters.items()))
        kernel = self._kernels.get(key)
        if kernel is None:
            code = self._code(inputs, in_types, out_type, letters, len(stay), len(axes))
            kernel = self._kernels[key] = RawKernel(code, self.name, self.options)

        def strides(array: ndarray) -> list[int]:
            found = layout.broadcast_strides(array.shape, array.strides, shape)
            return [found[axis] for axis in order]

        # with keepdims the result has all axes; those of length 1 do not count
        kept = out.strides if out.ndim == len(stay) else [out.strides[axis] for axis in stay]
        arguments = launch_arguments(self.in_params, inputs, in_types, strides)
        arguments += [out.data, *map(np.int64, kept), *(np.int64(shape[axis]) for axis in order)]
        blocks = min(math.prod(shape[axis] for axis in stay), 1 << 20)
        kernel.kernel((blocks,), (_BLOCK,), arguments, 0, stream)

    def _code(
        self,
        inputs: Sequence[Any],
        in_types: Sequence[np.dtype[Any]],
        out_type: np.dtype[Any],
        letters: dict[str, np.dtype[Any]],
        stay: int,
        reduced: int,
    ) -> str:
        """The kernel in CUDA C++."""
        axes = range(stay + reduced)
        declared, before, inside = [], [], []
        for parameter, value, dtype in zip(self.in_params, inputs, in_types, strict=True):
            name, ctype = parameter.name, c_type(dtype)
            if not isinstance(value, ndarray):
                declared.append(f"const {ctype} {name}")
                continue
            declared.append(f"const {ctype}* _{name}_data")
            if parameter.raw:
                declared += carray.extents(name, value.ndim)
                before.append(carray.array(ctype, name, value.ndim, True))
                continue
            declared += [f"ptrdiff_t _{name}_s{axis}" for axis in axes]
            offset = " + ".join(f"_at[{axis}] * _{name}_s{axis}" for axis in axes) or "0"
            inside.append(f"const {ctype} {name} = *(const {ctype}*)((const char*)_{name}_data + ({offset}));")
        output, out_c = self.out_params[0].name, c_type(out_type)
        declared.append(f"{out_c}* _{output}_data")
        declared += [f"ptrdiff_t _{output}_s{axis}" for axis in range(stay)]
        declared += [f"ptrdiff_t _n{axis}" for axis in axes]
        place = " + ".join(f"_at[{axis}] * _{output}_s{axis}" for axis in range(stay)) or "0"
        names = "\n".join(f"typedef {c_type(dtype)} {letter};" for letter, dtype in letters.items())
        return f"""{carray.preamble([*in_types, out_type])}
{names}
typedef {self.reduce_type or out_c} _type_reduce;
{self.preamble}
__device__ _type_reduce _reduce(const _type_reduce a, const _type_reduce b) {{ return {self.reduce_expr}; }}

extern "C" __global__ void {self.name}({", ".join(declared)}) {{
    __shared__ char _memory[{_BLOCK} * sizeof(_type_reduce)];
    _type_reduce* _partial = (_type_reduce*)_memory;
    {" ".join(before)}
    const ptrdiff_t _results = {_product(range(stay))}, _elements = {_product(range(stay, stay + reduced))};
    const CIndexer<0> _in_ind = {{_results * _elements, {{0}}}}, _out_ind = {{_results, {{0}}}};
    ptrdiff_t _at[{max(1, stay + reduced)}];
    for (ptrdiff_t _i = blockIdx.x; _i < _results; _i += gridDim.x) {{
        {_decode("_i", range(stay))}
        _type_reduce _s = _type_reduce({self.identity});
        for (ptrdiff_t _j = threadIdx.x; _j < _elements; _j += {_BLOCK}) {{
            {_decode("_j", range(stay, stay + reduced))}
            {" ".join(inside)}
            _s = _reduce(_s, static_cast<_type_reduce>({self.map_expr}));
        }}
        _partial[threadIdx.x] = _s;
        __syncthreads();
        for (int _width = {_BLOCK // 2}; _width > 0; _width /= 2) {{
            if (threadIdx.x < _width && threadIdx.x + _width < _elements)
                _partial[threadIdx.x] = _reduce(_partial[threadIdx.x], _partial[threadIdx.x + _width]);
            __syncthreads();
        }}
        if (threadIdx.x == 0) {{
            const _type_reduce a = _partial[0];
            {out_c}& {output} = *({out_c}*)((char*)_{output}_data + ({place}));
            {self.post_map_expr};
        }}
        __syncthreads();
    }}
}}
"""

    @property
    def cached_code(self) -> str:
        """The C++ of the kernel that was made last."""
        if not self._kernels:
            raise ValueError("No cached code: call the kernel first")
        return list(self._kernels.values())[-1].code


def _product(axes: range) -> str:
    return " * ".join(f"_n{axis}" for axis in axes) or "1"


def _decode(counter: str, axes: range) -> str:
    """C++ that unravels a linear index into one index per axis."""
    parts = [f"ptrdiff_t _rest{counter} = {counter};"]
    parts += [f"_at[{axis}] = _rest{counter} % _n{axis}; _rest{counter} /= _n{axis};" for axis in reversed(axes)]
    return " ".join(parts) if len(axes) else ""
