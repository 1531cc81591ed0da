"""CuPy on a real GPU, with kernels that remember what they were made from.

``cp`` is CuPy itself; only ``RawKernel`` and ``RawModule`` are thin subclasses of CuPy's. They exist because
``cudalab.profile``, ``sanitize`` and ``source`` need a kernel's CUDA C++, options and name expressions, and a kernel
that comes out of a CuPy module does not know them.

One more thing differs, on purpose: CuPy passes an array's address without looking at its element type, so a float64
array for a ``float *`` computes garbage in silence. Here that is a warning (on the simulated device it is an error).
The types are read from the kernel's text; where the text alone does not tell (templates, typedefs), nothing is said.
Asking a compiler would cost more time at the first launch than the launch itself.

And one more: kernels that begin with ``#include <stdio.h>`` or ``<stdint.h>``, as tutorials have them, compile as they
do on the simulated device. NVRTC brings no such headers, so CuPy by itself refuses them; the folder of
``cudalab.sim.compiler`` is added to the options. Through ``import cupy`` alone they stay refused.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import cupy
import numpy as np

from cudalab.sim.compiler.frontend.declaration import declared_parameters
from cudalab.sim.compiler.frontend.headers import STANDARD_HEADERS

_ELEMENT_TYPES = {
    "bool": "?",
    "char": "i1",
    "signed char": "i1",
    "unsigned char": "u1",
    "int8_t": "i1",
    "uint8_t": "u1",
    "short": "i2",
    "unsigned short": "u2",
    "int16_t": "i2",
    "uint16_t": "u2",
    "int": "i4",
    "signed": "i4",
    "unsigned": "u4",
    "unsigned int": "u4",
    "int32_t": "i4",
    "uint32_t": "u4",
    "long long": "i8",
    "unsigned long long": "u8",
    "int64_t": "i8",
    "uint64_t": "u8",
    "size_t": "u8",
    "float": "f4",
    "double": "f8",
}
_POINTER = re.compile(r"^([\w ]+?)\s*\*\s*(?:\w+\s*)*$")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|std)\b|::")


def pointed_element(text: str) -> np.dtype[Any] | None:
    """The element type in a parameter's declaration, e.g. ``const float *a``; None where it names none."""
    match = _POINTER.match(" ".join(_QUALIFIERS.sub(" ", text).split()))
    code = _ELEMENT_TYPES.get(match[1].strip()) if match else None
    return None if code is None else np.dtype(code)


def _with_headers(options: tuple[str, ...], backend: str) -> tuple[str, ...]:
    """NVRTC has no headers of C; ``nvcc`` has its own."""
    if not isinstance(options, tuple) or backend != "nvrtc":
        return options
    return (*options, f"-I{STANDARD_HEADERS}")


def same_elements(array: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Do both mean the same bytes? Signed and unsigned integers of one size do."""
    integers = "iub"
    return array == wanted or (array.itemsize == wanted.itemsize and array.kind in integers and wanted.kind in integers)


class RawKernel(cupy.RawKernel):  # type: ignore[misc]  # CuPy has no types
    """A CuPy ``RawKernel`` that checks the element types of the arrays passed to it."""

    def __init__(
        self, code: str, name: str, options: tuple[str, ...] = (), backend: str = "nvrtc", **kwargs: Any
    ) -> None:
        super().__init__(code, name, _with_headers(options, backend), backend, **kwargs)
        self._options = options
        self._checked: set[tuple[str, ...]] = set()
        self._declared_as = name

    @property
    def options(self) -> tuple[str, ...]:
        """The options that were given."""
        return self._options

    @property
    def name_expressions(self) -> tuple[str, ...]:
        """Name expressions of the module that the kernel comes from; empty for one made by itself."""
        return ()

    def __call__(self, grid: Any, block: Any, args: Any, **kwargs: Any) -> None:
        """Launch: ``kernel(grid, block, args, shared_mem=bytes)``."""
        self._check(args)
        self._launch(grid, block, args, **kwargs)

    def _launch(self, grid: Any, block: Any, args: Any, **kwargs: Any) -> None:
        super().__call__(grid, block, args, **kwargs)

    def _check(self, args: Iterable[Any]) -> None:
        codes = tuple([arg.dtype.char if isinstance(arg, cupy.ndarray) else "" for arg in args])
        if codes in self._checked:  # nearly always: a launch must not pay for more than this
            return
        self._checked.add(codes)
        types = tuple(str(arg.dtype) if isinstance(arg, cupy.ndarray) else "" for arg in args)
        plain = self._declared_as.partition("<")[0].rpartition("::")[2]
        for parameter, found in zip(declared_parameters(self.code, plain, len(types)), types, strict=True):
            wanted = pointed_element(_without_name(parameter.text, parameter.name)) if found else None
            if wanted is not None and found in _NUMBERS and not same_elements(np.dtype(found), wanted):
                warnings.warn(
                    f"kernel {self._declared_as!r}, parameter {parameter.name!r} is {parameter.text!r}, but the array "
                    f"holds {found}. CuPy passes its address as it is, so the kernel reads these bytes as {wanted}. "
                    f"Convert the array with .astype(np.{wanted}), or change the kernel.",
                    stacklevel=3,
                )


_NUMBERS = {np.dtype(code).name for code in _ELEMENT_TYPES.values()}


def _without_name(text: str, name: str) -> str:
    return re.sub(rf"\b{re.escape(name)}\s*$", "", text) if name else text


class ModuleKernel(RawKernel):
    """A kernel that ``RawModule.get_function`` gives: CuPy's own object does the work."""

    def __init__(self, module: RawModule, name: str, kernel: Any) -> None:
        super().__init__(module.code, kernel.name, module.options)
        self._declared_as = name
        self._kernel_of_module = kernel
        self._module_expressions = tuple(module.name_expressions or ())
        self.module = module  # `cudalab.mirror` reads the module's variables

    @property
    def name_expressions(self) -> tuple[str, ...]:
        """Name expressions that the module was made with."""
        return self._module_expressions

    def _launch(self, grid: Any, block: Any, args: Any, **kwargs: Any) -> None:
        self._kernel_of_module(grid, block, args, **kwargs)

    def compile(self, log_stream: Any = None) -> None:
        """Nothing to do: the module is compiled."""


ModuleKernel.__name__ = ModuleKernel.__qualname__ = "RawKernel"  # CuPy has one type for both


def _forward(name: str) -> property:
    def get(self: ModuleKernel) -> Any:
        return getattr(self._kernel_of_module, name)

    def put(self: ModuleKernel, value: Any) -> None:
        setattr(self._kernel_of_module, name, value)

    return property(get, put, doc=getattr(getattr(cupy.RawKernel, name), "__doc__", None))


for _name in (
    "attributes",
    "binary_version",
    "cache_mode_ca",
    "const_size_bytes",
    "kernel",
    "local_size_bytes",
    "max_dynamic_shared_size_bytes",
    "max_threads_per_block",
    "num_regs",
    "preferred_shared_memory_carveout",
    "ptx_version",
    "shared_size_bytes",
):
    setattr(ModuleKernel, _name, _forward(_name))


class RawModule(cupy.RawModule):  # type: ignore[misc]  # CuPy has no types
    """A CuPy ``RawModule`` whose kernels know its source."""

    def __init__(
        self,
        *,
        code: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        **kwargs: Any,
    ) -> None:
        super().__init__(code=code, options=_with_headers(options, backend), backend=backend, **kwargs)
        self._options = options if code is not None else ()

    @property
    def options(self) -> tuple[str, ...]:
        """The options that were given."""
        return self._options

    def get_function(self, name: str) -> Any:
        """The kernel ``name``: a plain name, or one of the name expressions."""
        kernel = super().get_function(name)
        if self.code is None:  # made from a .ptx or .cubin file: there is no source to remember
            return kernel
        return ModuleKernel(self, name, kernel)


class _CuPy(ModuleType):
    """CuPy, with the two classes above in the place of its own."""

    RawKernel = RawKernel
    RawModule = RawModule

    @staticmethod
    def get_array_module(*arrays: Any) -> ModuleType:
        """``numpy``, or ``cp`` as soon as one of ``arrays`` is CuPy's."""
        found: ModuleType = cupy.get_array_module(*arrays)
        return cp if found is cupy else found

    def __getattr__(self, name: str) -> Any:
        return getattr(cupy, name)

    def __dir__(self) -> list[str]:
        return dir(cupy)

    def __repr__(self) -> str:
        return f"<CuPy {cupy.__version__} from {cupy.__file__!r}, through cudalab>"


cp = _CuPy("cupy", cupy.__doc__)
for _attribute in ("__file__", "__path__", "__version__", "__spec__"):
    setattr(cp, _attribute, getattr(sys.modules["cupy"], _attribute))
