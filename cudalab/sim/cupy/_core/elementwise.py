"""``ElementwiseKernel``: one C++ statement, run for every element (CuPy User Guide, "User-Defined Kernels").

CuPy writes the kernel around the statement: the loop, the index, loading and storing. So does this module, in CUDA C++
of its own, which the simulated device compiles and runs as it does a ``RawKernel``. A launch has blocks of 128 threads,
as in CuPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cudalab.sim.cupy._core import carray, layout
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy._core.parameters import (
    Parameter,
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

_BLOCK = 128


class ElementwiseKernel:
    """A kernel made from a statement: ``ElementwiseKernel('T x, T y', 'T z', 'z = x + y', 'add')``.

    Args:
        in_params: inputs, e.g. ``'T x, raw float32 w'``; a type of one letter stands for the argument's type.
        out_params: outputs.
        operation: C++ statements; ``i`` is the element's number, ``_ind.size()`` how many there are.
        name: the kernel's name.
        reduce_dims: as in CuPy; it changes nothing here.
        preamble: C++ before the kernel.
        no_return: return None.
        return_tuple: return a tuple also for one output.
        loop_prep, after_loop: C++ before and after the loop over elements.
        options: compiler options.

    ``kernel(*arguments, size=…, block_size=…, stream=…)`` takes the inputs, then the outputs if they exist already, and
    returns the outputs. Arguments are broadcast; ``size`` is needed when all arrays are ``raw``.

    Raises ``TypeError`` and ``ValueError`` where arguments do not fit the parameters, ``CompileException`` for C++ that
    does not compile.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        reduce_dims: bool = True,
        preamble: str = "",
        no_return: bool = False,
        return_tuple: bool = False,
        *,
        loop_prep: str = "",
        after_loop: str = "",
        options: tuple[str, ...] = (),
    ) -> None:
        check_name(name)
        self.in_params, self.out_params = parse(in_params, True), parse(out_params, False)
        self.params = self.in_params + self.out_params
        self.nin, self.nout, self.nargs = len(self.in_params), len(self.out_params), len(self.params)
        self.operation, self.name, self.__name__ = operation, name, name
        self.reduce_dims, self.preamble = reduce_dims, preamble
        self.no_return, self.return_tuple = no_return, return_tuple
        self.kwargs = {"loop_prep": loop_prep, "after_loop": after_loop}
        self.options = tuple(options)
        if any(p.name == name for p in self.params):
            raise ValueError(f"the kernel and one of its parameters are both called {name!r}")
        self._kernels: dict[tuple[Any, ...], RawKernel] = {}

    def __call__(self, *args: Any, size: int = -1, block_size: int = _BLOCK, stream: Any = None, **unknown: Any) -> Any:
        if unknown:
            raise TypeError(f"Wrong arguments {unknown}")
        if len(args) not in (self.nin, self.nargs):
            raise TypeError(
                f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or {self.nargs} (with "
                f"outputs), but given {len(args)}."
            )
        if block_size <= 0:
            raise ValueError("block_size must be greater than zero")
        for value in args:
            if not isinstance(value, ndarray) and not is_scalar(value):
                raise unsupported(value)
        inputs, given = args[: self.nin], args[self.nin :]
        if not all(isinstance(value, ndarray) for value in given):
            raise TypeError("Output arguments must be cupy.ndarray")
        arrays = [value for value in args if isinstance(value, ndarray)]
        if size < 0 and not arrays:
            raise ValueError("Loop size is undecided.")
        in_types, out_types, letters = decide_types(
            self.in_params,
            self.out_params,
            [value.dtype if isinstance(value, ndarray) else None for value in inputs],
            [value.dtype for value in given],
        )
        shape = self._shape(inputs, given, size)
        outputs = list(given) or [ndarray(shape, dtype) for _, dtype in zip(self.out_params, out_types, strict=True)]
        count = int(np.prod(shape, dtype=np.int64))
        if count:
            self._launch(shape, count, [*inputs, *outputs], [*in_types, *out_types], letters, block_size, stream)
        if self.no_return:
            return None
        return outputs[0] if self.nout == 1 and not self.return_tuple else tuple(outputs)

    def _shape(self, inputs: Sequence[Any], outputs: Sequence[Any], size: int) -> tuple[int, ...]:
        """The shape that the loop goes over."""
        arrays = [
            value.shape
            for parameter, value in zip(self.params, [*inputs, *outputs], strict=False)
            if isinstance(value, ndarray) and not parameter.raw
        ]
        if size >= 0:
            if arrays:
                raise ValueError("Specified 'size' can be used only if all of the ndarray are 'raw'.")
            return (size,)
        if not arrays:
            raise ValueError("Loop size is undecided.")
        shape = layout.broadcast(*arrays)
        for parameter, value in zip(self.out_params, outputs, strict=False):
            if not parameter.raw and value.shape != shape:
                raise shape_mismatch(parameter.name, value.shape, shape)
        return shape

    def _launch(
        self,
        shape: tuple[int, ...],
        count: int,
        values: Sequence[Any],
        dtypes: Sequence[np.dtype[Any]],
        letters: dict[str, np.dtype[Any]],
        block: int,
        stream: Any,
    ) -> None:
        flat = all(
            parameter.raw or not isinstance(value, ndarray) or (value.shape == shape and value.flags.c_contiguous)
            for parameter, value in zip(self.params, values, strict=True)
        )
        loop = (count,) if flat else shape
        key = (tuple(dtypes), kinds(self.params, values), len(loop), tuple(letters.items()))
        kernel = self._kernels.get(key)
        if kernel is None:
            code = self._code(values, dtypes, letters, len(loop))
            kernel = self._kernels[key] = RawKernel(code, self.name, self.options)

        def strides(array: ndarray) -> tuple[int, ...]:
            return (array.itemsize,) if flat else layout.broadcast_strides(array.shape, array.strides, shape)

        arguments = [*launch_arguments(self.params, values, dtypes, strides), *map(np.int64, loop)]
        kernel.kernel.linear_launch(count, arguments, 0, block, stream)

    def _code(
        self,
        values: Sequence[Any],
        dtypes: Sequence[np.dtype[Any]],
        letters: dict[str, np.dtype[Any]],
        dimensions: int,
    ) -> str:
        """The kernel in CUDA C++."""
        axes = range(dimensions)
        declared, before, inside = [], [], []
        for parameter, value, dtype in zip(self.params, values, dtypes, strict=True):
            name, ctype, const = parameter.name, c_type(dtype), "const " if parameter.const else ""
            if not isinstance(value, ndarray):
                declared.append(f"const {ctype} {name}")
                continue
            declared.append(f"{const}{ctype}* _{name}_data")
            if parameter.raw:
                declared += carray.extents(name, value.ndim)
                before.append(carray.array(ctype, name, value.ndim, parameter.const))
                continue
            declared += [f"ptrdiff_t _{name}_s{axis}" for axis in axes]
            offset = " + ".join(f"_ind.index_[{axis}] * _{name}_s{axis}" for axis in axes) or "0"
            place = f"*({const}{ctype}*)(({const}char*)_{name}_data + ({offset}))"
            inside.append(f"const {ctype} {name} = {place};" if parameter.const else f"{ctype}& {name} = {place};")
        declared += [f"ptrdiff_t _n{axis}" for axis in axes]
        count = " * ".join(f"_n{axis}" for axis in axes) or "1"
        decode = ["ptrdiff_t _rest = i;"]
        for axis in reversed(axes):
            decode.append(
                f"_ind.index_[{axis}] = _rest % _n{axis}; _rest /= _n{axis};" if axis else "_ind.index_[0] = _rest;"
            )
        names = "\n".join(f"typedef {c_type(dtype)} {letter};" for letter, dtype in letters.items())
        return f"""{carray.preamble(dtypes)}
{names}
{self.preamble}
extern "C" __global__ void {self.name}({", ".join(declared)}) {{
    CIndexer<{dimensions}> _ind = {{{count}, {{0}}}};
    {" ".join(before)}
    {self.kwargs["loop_prep"]};
    const ptrdiff_t _step = (ptrdiff_t)blockDim.x * gridDim.x;
    for (ptrdiff_t i = blockIdx.x * (ptrdiff_t)blockDim.x + threadIdx.x; i < _ind.size_; i += _step) {{
        {" ".join(decode if dimensions else [])}
        {" ".join(inside)}
        {self.operation};
    }}
    {self.kwargs["after_loop"]};
}}
"""

    @property
    def cached_code(self) -> str:
        """The C++ of the kernel that was made last."""
        if not self._kernels:
            raise ValueError("No cached code: call the kernel first")
        return list(self._kernels.values())[-1].code

    def __repr__(self) -> str:
        return f"<cupy.ElementwiseKernel {self.name!r}: {_written(self.in_params)} -> {_written(self.out_params)}>"


def _written(parameters: Sequence[Parameter]) -> str:
    return ", ".join(f"{'raw ' if p.raw else ''}{p.ctype} {p.name}" for p in parameters)
