"""Kernel arguments: from Python values to the parameter buffer, checked against the kernel's declaration.

CuPy passes what it is given without knowing the declaration: an array as the address of its first element, a NumPy
scalar or an array of one element as its bytes, a Python ``int`` as eight bytes, a ``float`` as a double. The kernel
reads as many bytes as its parameter has, whatever they are: a double for a ``float`` gives 0.0 in silence. Here the
declaration is known, and an argument that the kernel would misread is a ``TypeError`` that says what to write.

What works on a GPU works here: integers of more bytes than the parameter when their value fits, integers for pointers,
buffers of any type for ``void*``, ``char*`` and pointers to vectors, halves and structs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cudalab.sim.compiler.program import Parameter
from cudalab.sim.cupy._base.device_array import DeviceArray
from cudalab.sim.cupy.cuda.memory import MemoryPointer
from cudalab.sim.cupy.cuda.texture import SurfaceObject, TextureObject

_PLAIN = {
    "bool": "?",
    "signed char": "i1",
    "unsigned char": "u1",
    "short": "i2",
    "unsigned short": "u2",
    "int": "i4",
    "unsigned int": "u4",
    "long": "i8",
    "unsigned long": "u8",
    "long long": "i8",
    "unsigned long long": "u8",
    "float": "f4",
    "double": "f8",
}
_SCALAR_OF_SIZE = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
_C_NAME = {"f4": "float", "f8": "double", "i4": "int", "i8": "long long", "i2": "short", "u1": "unsigned char"}


def pack(kernel: str, parameters: Sequence[Parameter], values: Sequence[Any], size: int) -> bytes:
    """The parameter buffer of ``size`` bytes for ``values``.

    Raises ``TypeError`` or ``OverflowError`` naming the parameter, its declared type, what was given, and what to write
    instead.
    """
    if len(values) != len(parameters):
        raise TypeError(_wrong_count(kernel, parameters, values))
    buffer = bytearray(size)
    for parameter, value in zip(parameters, values, strict=True):
        data = _bytes_of(_Place(kernel, parameter), value)
        buffer[parameter.offset : parameter.offset + len(data)] = data
    return bytes(buffer)


def _wrong_count(kernel: str, parameters: Sequence[Parameter], values: Sequence[Any]) -> str:
    declared = ", ".join(_declaration(parameter) for parameter in parameters) or "none"
    arguments = "argument" if len(parameters) == 1 else "arguments"
    text = f"kernel {kernel!r} takes {len(parameters)} {arguments} ({declared}), got {len(values)}"
    if len(values) < len(parameters):
        missing = ", ".join(_declaration(parameter) for parameter in parameters[len(values) :])
        return f"{text}: {missing} {'is' if len(parameters) - len(values) == 1 else 'are'} missing"
    return f"{text}: {len(values) - len(parameters)} too many. A GPU ignores them, and the mistake stays hidden"


def _declaration(parameter: Parameter) -> str:
    return f"{parameter.ctype or f'{parameter.size} bytes'} {parameter.name}".strip()


class _Place:
    """Where an argument goes, for messages."""

    def __init__(self, kernel: str, parameter: Parameter) -> None:
        self.kernel = kernel
        self.parameter = parameter

    def error(self, given: str, instead: str) -> TypeError:
        return TypeError(self._text(given, instead))

    def overflow(self, given: str, instead: str) -> OverflowError:
        return OverflowError(self._text(given, instead))

    def _text(self, given: str, instead: str) -> str:
        p = self.parameter
        name = f"{p.name!r} " if p.name else f"{p.index} "
        return f"kernel {self.kernel!r}, parameter {name}({p.ctype or f'{p.size} bytes'}): got {given}. {instead}"


def _bytes_of(place: _Place, value: Any) -> bytes:
    if isinstance(value, DeviceArray):
        return _array(place, value)
    if isinstance(value, MemoryPointer):
        _require_pointer(place, "a MemoryPointer")
        return _address(value.address)
    if isinstance(value, (TextureObject, SurfaceObject)):
        _require_pointer(place, f"a {type(value).__name__}")
        return _address(value.ptr)
    if value is None:
        _require_pointer(place, "None")
        return _address(0)
    if isinstance(value, np.ndarray):
        return _numpy_array(place, value)
    if type(value) in (bool, int, float, complex) or isinstance(value, np.generic):
        return _scalar(place, value)
    error = TypeError(f"Unsupported type {type(value)}")
    error.add_note(str(place.error(f"a {type(value).__name__}", _instead_of(value))))
    raise error


def _instead_of(value: Any) -> str:
    """What to pass for a value of Python's own that no parameter takes."""
    if isinstance(value, (bytes, bytearray)):
        return "Copy its bytes to the device: cp.asarray(np.frombuffer(text, np.uint8))."
    if isinstance(value, str):
        return "Copy its bytes to the device: cp.asarray(np.frombuffer(text.encode(), np.uint8))."
    if isinstance(value, (list, tuple, range)):
        return "Make it an array of the parameter's type on the device, as with cp.asarray(values, dtype=np.float32)."
    return "Pass a CuPy array, a NumPy scalar, or a Python number."


# -- arrays ------------------------------------------------------------------------------------------------------------


def _address(pointer: int) -> bytes:
    return pointer.to_bytes(8, "little")


def _require_pointer(place: _Place, given: str) -> None:
    kind = place.parameter.kind
    if kind not in ("pointer", "unknown") and not (kind == "integer" and place.parameter.size == 8):
        raise place.error(given, f"The parameter is no pointer: pass {_example(place.parameter)}.")


def _array(place: _Place, array: Any) -> bytes:
    parameter = place.parameter
    given = f"an array of {array.dtype}"
    if parameter.kind != "pointer":
        if parameter.kind == "unknown" and parameter.size == 8 or parameter.kind == "integer" and parameter.size == 8:
            return _address(array.data.address)
        raise place.error(
            given,
            f"The parameter is no pointer: pass {_example(parameter)}, or declare `{parameter.ctype or 'float'}* "
            f"{parameter.name}`. A value that is in an array comes to the host with .item().",
        )
    wanted = _PLAIN.get(parameter.pointee.strip())
    if wanted is not None and not _same_elements(array.dtype, np.dtype(wanted)):
        element = np.dtype(wanted)
        c_name = _C_NAME.get(array.dtype.str[1:], str(array.dtype))
        raise place.error(
            given,
            f"The kernel would read its bytes as {element}. Convert the array with .astype(np.{element}), "
            f"or declare the parameter as `{c_name}*`.",
        )
    return _address(array.data.address)


def _same_elements(array: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Do both mean the same bytes? Signed and unsigned integers of one size do; what is no plain number is not
    judged."""
    if array.kind not in "?biuf":
        return True
    integers = "iub"
    both_integers = array.kind in integers and wanted.kind in integers
    return array == wanted or (array.itemsize == wanted.itemsize and both_integers)


def _numpy_array(place: _Place, array: np.ndarray) -> bytes:
    parameter = place.parameter
    if array.size != 1:
        error = TypeError(
            f"You are trying to pass a numpy.ndarray of shape {array.shape} as a kernel parameter. Only numpy.ndarrays "
            "of size one can be passed by value. If you meant to pass a pointer to __global__ memory, you need to pass "
            "a cupy.ndarray instead."
        )
        error.add_note(str(place.error(f"a NumPy array of {array.dtype}", "Copy it to the device: cp.asarray(a).")))
        raise error
    if parameter.kind == "pointer" and array.dtype.kind not in "iu":
        raise place.error(
            f"a NumPy array of {array.dtype}",
            "It lies in the host's memory and is passed by value. Copy it to the device: cp.asarray(a).",
        )
    if array.dtype.names is None:
        return _scalar(place, array.reshape(())[()])
    return _raw(place, array.dtype, array.tobytes())


# -- scalars -----------------------------------------------------------------------------------------------------------


def _scalar(place: _Place, value: Any) -> bytes:
    kind = place.parameter.kind
    if kind == "pointer":
        return _pointer_value(place, value)
    if kind == "bool":
        return _bool(place, value)
    if kind == "integer":
        return _integer(place, value)
    if kind == "float":
        return _float(place, value)
    if isinstance(value, complex) and not isinstance(value, np.generic):
        value = np.complex128(value)
    if isinstance(value, np.generic):
        return _raw(place, value.dtype, value.tobytes())
    data = np.asarray(value).tobytes()
    if kind == "unknown" and len(data) >= place.parameter.size:
        return data[: place.parameter.size]
    raise place.error(_given(value), _struct_advice(place.parameter))


def _given(value: Any) -> str:
    kind = type(value).__name__
    return f"np.{kind}({value})" if isinstance(value, np.generic) else f"the Python {kind} {value!r}"


def _pointer_value(place: _Place, value: Any) -> bytes:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise place.error(_given(value), "The parameter is a pointer: pass a CuPy array, or an address as an int.")
    if isinstance(value, np.integer) and value.dtype.itemsize != 8:
        raise place.error(_given(value), f"An address has 8 bytes: pass int(x) or np.uint64(x), not {value.dtype}.")
    if not 0 <= int(value) < 1 << 64:
        raise place.overflow(_given(value), "An address is at least 0 and less than 2**64.")
    return _address(int(value))


def _bool(place: _Place, value: Any) -> bytes:
    if isinstance(value, (bool, int, np.bool_, np.integer)) and int(value) in (0, 1):
        return bytes([int(value)])
    raise place.error(_given(value), "Pass True or False.")


def _integer(place: _Place, value: Any) -> bytes:
    parameter = place.parameter
    size = parameter.size
    unsigned = parameter.ctype.startswith("unsigned")
    scalar = ("u" if unsigned else "") + _SCALAR_OF_SIZE.get(size, f"int{8 * size}")
    if isinstance(value, (float, complex, np.inexact)):
        raise place.error(_given(value), f"The kernel would read its bytes as an integer. Pass np.{scalar}(x).")
    if isinstance(value, (np.integer, np.bool_)) and value.dtype.itemsize < size:
        raise place.error(
            _given(value),
            f"It has {value.dtype.itemsize} of the {size} bytes that the parameter has: the kernel would "
            f"read beyond it. Pass np.{scalar}(x), or a Python int.",
        )
    number = int(value)
    bits = 8 * size
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise place.overflow(
            _given(value), f"It does not fit {bits} bits: on a GPU the kernel would get only the lowest ones."
        )
    return (number % (1 << bits)).to_bytes(size, "little")


def _float(place: _Place, value: Any) -> bytes:
    parameter = place.parameter
    wanted = {2: "float16", 4: "float32", 8: "float64"}.get(parameter.size, "float64")
    if parameter.size == 8 and (type(value) is float or isinstance(value, np.float64)):
        return np.float64(value).tobytes()
    if isinstance(value, np.floating) and value.dtype.itemsize == parameter.size:
        return value.tobytes()
    if type(value) is float:
        why = f"CuPy passes a Python float as 8 bytes, and the kernel would read {parameter.size} of them."
    elif isinstance(value, np.floating):
        why = f"It has {value.dtype.itemsize} bytes, and the parameter {parameter.size}."
    else:
        why = "The kernel would read its bytes as a floating-point number."
    instead = "float(x)" if parameter.size == 8 else f"np.{wanted}(x)"
    raise place.error(_given(value), f"{why} Pass {instead}.")


def _raw(place: _Place, dtype: np.dtype[Any], data: bytes) -> bytes:
    """Bytes for a struct, a vector, or a type that is not known."""
    if len(data) != place.parameter.size:
        raise place.error(f"{len(data)} bytes ({dtype})", _struct_advice(place.parameter))
    return data


def _struct_advice(parameter: Parameter) -> str:
    return (
        f"The parameter has {parameter.size} bytes: pass a NumPy array or scalar of as many, for a struct with "
        "np.dtype([('field', 'f4'), …], align=True)."
    )


def _example(parameter: Parameter) -> str:
    if parameter.kind == "integer":
        return (
            "an int, or np."
            + ("u" if parameter.ctype.startswith("unsigned") else "")
            + (_SCALAR_OF_SIZE.get(parameter.size, "int64") + "(x)")
        )
    if parameter.kind == "float":
        return "a float" if parameter.size == 8 else f"np.float{8 * parameter.size}(x)"
    if parameter.kind == "bool":
        return "True or False"
    return f"{parameter.size} bytes, as a NumPy scalar or an array of one element"
