"""Parameters of user-defined kernels: ``"T x, raw float32 y"`` (CuPy User Guide, "User-Defined Kernels").

A type is a NumPy name, or one letter that stands for the type of the argument. ``raw`` gives the kernel the whole
array, indexed by hand, instead of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from cudalab.sim.cupy._core import types
from cudalab.sim.cupy._core.array import ndarray

_C_TYPES = {
    "?": "bool",
    "b": "signed char",
    "h": "short",
    "i": "int",
    "l": "long long",
    "q": "long long",
    "B": "unsigned char",
    "H": "unsigned short",
    "I": "unsigned int",
    "L": "unsigned long long",
    "Q": "unsigned long long",
    "e": "float16",
    "f": "float",
    "d": "double",
    "F": "complex<float>",
    "D": "complex<double>",
}


class Parameter(Struct, frozen=True):
    """One parameter as written."""

    name: str
    ctype: str
    """The type as written: a NumPy name or one letter."""
    raw: bool
    const: bool
    """Is it an input?"""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The type where it is a name."""
        return None if len(self.ctype) == 1 else types.checked(self.ctype)


def c_type(dtype: np.dtype[Any]) -> str:
    """How C++ calls an element type."""
    return _C_TYPES[dtype.char]


def parse(text: str, const: bool) -> tuple[Parameter, ...]:
    """Read a list of parameters. Raises what CuPy raises for one that is none, quoting it."""
    found = []
    for part in text.split(","):
        words = part.split()
        if not words:
            if text.strip():
                raise ValueError(f"Syntax error: {text}")
            continue
        raw = words[0] == "raw" and len(words) == 3
        words = words[raw:]
        if len(words) > 2:
            raise Exception(f'Unknown keyword "{words[0]}"')  # CuPy's own class of error
        if len(words) != 2:
            raise ValueError(f"Syntax error: {part.strip()}")
        ctype, name = words
        if not name.isidentifier():
            raise ValueError(f"Syntax error: {name!r} is no name of a parameter in {part.strip()!r}")
        if name == "i" or name.startswith("_"):
            raise ValueError(f"Can not use '{name}' as a parameter name")
        parameter = Parameter(name, ctype, raw, const)
        if len(ctype) > 1:
            types.checked(ctype)  # raises TypeError where it is no type
        found.append(parameter)
    return tuple(found)


def decide_types(
    inputs: Sequence[Parameter],
    outputs: Sequence[Parameter],
    given: Sequence[np.dtype[Any] | None],
    targets: Sequence[np.dtype[Any]],
) -> tuple[list[np.dtype[Any]], list[np.dtype[Any]], dict[str, np.dtype[Any]]]:
    """The types of inputs and outputs, and the type bound to each letter. ``given`` holds None for numbers, ``targets``
    the types of output arrays that were passed (or is empty).

    Raises ``TypeError`` where an argument's type is not that of its parameter, ``KeyError`` where a letter stays open.
    """
    letters: dict[str, np.dtype[Any]] = {}
    for parameter, dtype in (*zip(outputs, targets, strict=False), *zip(inputs, given, strict=True)):
        if dtype is None:
            continue
        wanted = parameter.dtype if parameter.dtype is not None else letters.setdefault(parameter.ctype, dtype)
        if wanted != dtype:
            letter = parameter.ctype if parameter.dtype is None else ""
            error = TypeError(f"Type is mismatched. {parameter.name} {dtype} {wanted} {letter}".rstrip())
            error.add_note(
                f"The array for {parameter.name!r} holds {dtype}, and the kernel wants {wanted}: convert the array "
                f"with .astype(np.{wanted}), or declare the parameter with a letter of its own, which takes any type."
            )
            raise error
    for parameter in (*inputs, *outputs):
        if parameter.dtype is None and parameter.ctype not in letters:
            unknown = KeyError(parameter.ctype)
            unknown.add_note(
                f"The type {parameter.ctype!r} of parameter {parameter.name!r} cannot be told from the arguments: pass "
                "an array for one of its parameters, or name the type."
            )
            raise unknown

    def of(parameter: Parameter) -> np.dtype[Any]:
        return parameter.dtype if parameter.dtype is not None else letters[parameter.ctype]

    return [of(parameter) for parameter in inputs], [of(parameter) for parameter in outputs], letters


def check_name(name: str) -> None:
    """Raises ``ValueError`` for what cannot be the name of a kernel."""
    if not name.isidentifier():
        raise ValueError(f'Invalid kernel name: "{name}"')


def shape_mismatch(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> ValueError:
    """The error for an output array that has another shape than the result."""
    error = ValueError("Out shape is mismatched")
    error.add_note(f"{name} has the shape {shape}, the result {wanted}.")
    return error


def kinds(parameters: Sequence[Parameter], values: Sequence[Any]) -> tuple[object, ...]:
    """What of the arguments the code of a kernel depends on, besides their types: numbers, arrays, whole arrays."""
    return tuple(
        ("raw", value.ndim) if parameter.raw and isinstance(value, ndarray) else isinstance(value, ndarray)
        for parameter, value in zip(parameters, values, strict=True)
    )


def launch_arguments(
    parameters: Sequence[Parameter],
    values: Sequence[Any],
    dtypes: Sequence[np.dtype[Any]],
    strides: Callable[[ndarray], Iterable[int]],
) -> list[Any]:
    """The arguments of a launch: numbers by value, arrays as an address and ``strides(array)``, whole arrays as an
    address, their lengths and their strides (bytes)."""
    found: list[Any] = []
    for parameter, value, dtype in zip(parameters, values, dtypes, strict=True):
        if not isinstance(value, ndarray):
            found.append(dtype.type(value))
        elif parameter.raw:
            found += [value.data, *map(np.int64, value.shape), *map(np.int64, value.strides)]
        else:
            found += [value.data, *map(np.int64, strides(value))]
    return found
