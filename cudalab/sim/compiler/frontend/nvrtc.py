"""Binding of NVRTC, NVIDIA's run-time compiler: CUDA C++ to PTX, with ptxas's report.

The same library that CuPy uses on a GPU, and it needs none. Loaded in the helper process only: it can
abort the process it runs in, and cannot be interrupted (NVRTC guide, "Basic usage").

``ctypes`` and a dozen functions, where ``cuda.bindings.nvrtc`` would do, for two reasons: that one loads
one CUDA major version, its own, while the library found here may be of another; and importing it costs
more than all the rest of the helper's start.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SUCCESS = 0
_OUT_OF_MEMORY = 1
_COMPILATION = 6

_pointer = ctypes.c_void_p
_text = ctypes.c_char_p
_texts = ctypes.POINTER(ctypes.c_char_p)
_size = ctypes.POINTER(ctypes.c_size_t)
_number = ctypes.POINTER(ctypes.c_int)
_FUNCTIONS = {
    "nvrtcVersion": (_number, _number),
    "nvrtcCreateProgram": (ctypes.POINTER(_pointer), _text, _text, ctypes.c_int, _texts, _texts),
    "nvrtcDestroyProgram": (ctypes.POINTER(_pointer),),
    "nvrtcAddNameExpression": (_pointer, _text),
    "nvrtcCompileProgram": (_pointer, ctypes.c_int, _texts),
    "nvrtcGetProgramLogSize": (_pointer, _size),
    "nvrtcGetProgramLog": (_pointer, _text),
    "nvrtcGetPTXSize": (_pointer, _size),
    "nvrtcGetPTX": (_pointer, _text),
    "nvrtcGetCUBINSize": (_pointer, _size),
    "nvrtcGetCUBIN": (_pointer, _text),
    "nvrtcGetLoweredName": (_pointer, _text, ctypes.POINTER(_text)),
}


class NvrtcError(RuntimeError):
    """NVRTC failed in a way that says nothing about the source."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Output:
    """Result of one compile. ``ptx`` and ``lowered`` are empty if it failed."""

    failed: bool
    log: str
    ptx: str
    lowered: dict[str, str]
    """Name expression to symbol, for the expressions that NVRTC could resolve."""
    cubin: bytes = b""
    """Machine code, for ``sm_`` architectures."""


class Nvrtc:
    """The library at ``path``; by its usual name on the system's search path when that is None.

    Raises:
        OSError: it cannot be loaded.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._library = _load(path)
        for name, arguments in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_int
        self._library.nvrtcGetErrorString.argtypes = (ctypes.c_int,)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    @property
    def version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(major, minor), "nvrtcVersion")
        return major.value, minor.value

    def compile(self, source: str, name: str, options: Sequence[str], expressions: Sequence[str]) -> Output:
        """Compile ``source``. A source with mistakes is an ``Output`` that says ``failed``.

        Raises:
            NvrtcError: out of memory, or an internal error of the compiler.
        """
        library = self._library
        program = _pointer()
        status = library.nvrtcCreateProgram(program, source.encode(), name.encode(), 0, None, None)
        self._check(status, "nvrtcCreateProgram")
        try:
            for expression in expressions:
                status = library.nvrtcAddNameExpression(program, expression.encode())
                self._check(status, f"nvrtcAddNameExpression({expression})")
            arguments = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
            status = library.nvrtcCompileProgram(program, len(options), arguments)
            log = self._read(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
            if status == _OUT_OF_MEMORY:
                self._check(status, "nvrtcCompileProgram")
            if status != SUCCESS:
                if not log.strip() or status != _COMPILATION and "error" not in log:
                    log = f"{log}\nnvrtc: error: {self._error(status)}".strip()
                return Output(True, log, "", {})
            lowered = {}
            for expression in expressions:
                symbol = ctypes.c_char_p()
                if library.nvrtcGetLoweredName(program, expression.encode(), symbol) == SUCCESS and symbol.value:
                    lowered[expression] = symbol.value.decode()
            return Output(
                False, log, self._read(program, "nvrtcGetPTXSize", "nvrtcGetPTX"), lowered, self._cubin(program)
            )
        finally:
            library.nvrtcDestroyProgram(program)

    def reserve_header_heap(self, size: int) -> bool:
        """Set aside address space for precompiled headers; False where this library has none (before CUDA 12.8)."""
        try:
            function = self._library.nvrtcSetPCHHeapSize
        except AttributeError:
            return False
        function.argtypes, function.restype = (ctypes.c_size_t,), ctypes.c_int
        return bool(function(size) == SUCCESS)

    def _read(self, program: ctypes.c_void_p, size_of: str, read: str) -> str:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, size_of)(program, size), size_of)
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        self._check(getattr(self._library, read)(program, buffer), read)
        # what ptxas says last stands behind a null character
        return buffer.raw[: size.value].replace(b"\0", b"").decode("utf-8", "replace")

    def _cubin(self, program: ctypes.c_void_p) -> bytes:
        """The machine code; empty where none was made (virtual architectures, relocatable code)."""
        size = ctypes.c_size_t()
        if self._library.nvrtcGetCUBINSize(program, size) != SUCCESS or not size.value:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        return buffer.raw if self._library.nvrtcGetCUBIN(program, buffer) == SUCCESS else b""

    def _error(self, status: int) -> str:
        text = self._library.nvrtcGetErrorString(status)
        return text.decode() if text else f"status {status}"

    def _check(self, status: int, call: str) -> None:
        if status != SUCCESS:
            raise NvrtcError(self._error(status), f"{call}: {self._error(status)}")


def _load(path: Path | None) -> ctypes.CDLL:
    if path is not None:
        if os.name == "nt":  # the builtins library lies beside it
            os.add_dll_directory(str(path.parent))  # type: ignore[attr-defined,unused-ignore]
        else:  # NVRTC opens its builtins by bare name, which finds them only when they are loaded already
            major = re.search(r"\.so\.(\d+)", path.name)
            for builtins in path.parent.glob(f"libnvrtc-builtins.so.{major[1] if major else ''}*"):
                ctypes.CDLL(str(builtins))
        return ctypes.CDLL(str(path))
    names = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"] if os.name == "nt" else ["libnvrtc.so.13", "libnvrtc.so.12"]
    failure: OSError | None = None
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            failure = failure or error
    raise failure or OSError("no NVRTC library")
