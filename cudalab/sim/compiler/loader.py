"""Load native code into this process.

What ``build.generate`` returns is a bundle of object files: the runtime object and the program's. They are linked here,
without a compiler; the only symbols they need from outside are functions of the C math library.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import struct
import sys
import threading
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from cudalab.sim import free_pages

#: Functions of the C library that compiled kernels may call.
EXTERNAL = (
    "sinf cosf exp2f log2f tanhf fmaf fma fmodf fmod floorf floor ceilf ceil truncf trunc rintf rint roundevenf "
    "roundeven sqrtf sqrt memcpy memset memmove"
).split()
#: Of the runtime object: called by programs, and by the machine.
RUNTIME_ENTRIES = ("cl_run", "cl_footprint_runs", "cl_footprint_clear")
_MAGIC = b"CLAB0002"
_lock = threading.Lock()
_numbers = itertools.count(1)
_has_linked = False


class LoadError(RuntimeError):
    """Bytes that are no native code, or that cannot be linked here."""


def bundle(entries: list[str], runtime: bytes, program: bytes) -> bytes:
    """Join the runtime object, a program's object and the names of its entry points into one byte string."""
    names = "\n".join(entries).encode()
    head = struct.pack("<8sQQQ", _MAGIC, len(names), len(runtime), len(program))
    return head + names + runtime + program


def _unbundle(data: bytes) -> tuple[list[str], bytes, bytes]:
    if len(data) < 32 or data[:8] != _MAGIC:
        raise LoadError("these bytes are no native code of this version; clear the cache and compile again")
    sizes = struct.unpack_from("<QQQ", data, 8)
    if 32 + sum(sizes) != len(data):
        raise LoadError("native code is cut short; clear the cache and compile again")
    first, second = 32 + sizes[0], 32 + sizes[0] + sizes[1]
    return data[32:first].decode().split(), data[first:second], data[second:]


class LoadedCode:
    """Native code in memory; it stays as long as this object."""

    def __init__(self, tracker: Any, runtime: Any) -> None:
        self._tracker, self._runtime = tracker, runtime

    def address(self, symbol: str) -> int:
        """The address of an entry point, or of a function of the runtime object (``RUNTIME_ENTRIES``).

        Raises:
            KeyError: there is no such symbol.
        """
        try:
            return int((self._runtime if symbol in RUNTIME_ENTRIES else self._tracker)[symbol])
        except KeyError:
            raise KeyError(f"native code has no entry point {symbol!r}") from None


def load(data: bytes) -> LoadedCode:
    """Link native code.

    Args:
        data: what ``build.generate`` returned, here or in another process on this machine.

    Raises:
        LoadError: the bytes are damaged or of another version.
    """
    entries, runtime, program = _unbundle(data)
    with _lock:
        try:
            runtime_name = _runtime_library(runtime)
            builder = llvm.JITLibraryBuilder().add_jit_library(runtime_name).add_object_img(program)
            _import_symbols(builder)
            for entry in entries:
                builder.export_symbol(entry)
            return LoadedCode(builder.link(_ready_linker(), f"program-{next(_numbers)}"), _runtimes[runtime][1])
        except RuntimeError as error:
            raise LoadError(f"native code cannot be linked: {error}") from error


def load_object(code: bytes, entry: str, imports: dict[str, int]) -> LoadedCode:
    """Link one object file.

    Args:
        code: the object file.
        entry: the symbol that will be asked for.
        imports: addresses of all symbols that it needs.

    Raises:
        LoadError: it cannot be linked.
    """
    with _lock:
        try:
            builder = llvm.JITLibraryBuilder().add_object_img(code)
            for name, address in imports.items():
                builder.import_symbol(name, address)
            builder.export_symbol(entry)
            tracker = builder.link(_ready_linker(), f"object-{next(_numbers)}")
        except RuntimeError as error:
            raise LoadError(f"native code cannot be linked: {error}") from error
    return LoadedCode(tracker, tracker)


def link_runtime(code: bytes) -> None:
    """Link the runtime object, which every program needs, before the first one does."""
    with _lock:
        _runtime_library(code)


_runtimes: dict[bytes, tuple[str, Any]] = {}


def _runtime_library(code: bytes) -> str:
    """Link a runtime object once and return the name of its library."""
    if code not in _runtimes:
        name = f"runtime-{next(_numbers)}"
        builder = llvm.JITLibraryBuilder().add_object_img(code)
        _import_symbols(builder)
        for symbol in RUNTIME_ENTRIES:
            builder.export_symbol(symbol)
        _runtimes[code] = name, builder.link(_ready_linker(), name)
    return _runtimes[code][0]


def _ready_linker() -> llvm.LLJIT:
    global _has_linked
    _has_linked = True
    return _linker()


@cache
def _linker() -> llvm.LLJIT:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # JITLink, LLVM's newer linker, does not know all of Windows' relocations.
    return llvm.create_lljit_compiler(use_jit_link=sys.platform != "win32", suppress_errors=True)


def unmap_linker() -> None:
    """Let go of the 45 MB of LLVM's library that links have mapped: 0.2 ms, or nothing if none was made since. The
    next link gets them again within 2 ms."""
    global _has_linked
    if _has_linked:
        with _lock:
            _has_linked = False
            free_pages.unmap_library("libllvmlite")


def _import_symbols(builder: llvm.JITLibraryBuilder) -> None:
    for name, address in _library_addresses().items():
        builder.import_symbol(name, address)


@cache
def _library_addresses() -> dict[str, int]:
    """Where the C library's functions are."""
    libraries = [ctypes.CDLL(name) for name in _library_names()]
    found: dict[str, int] = {}
    for symbol in EXTERNAL:
        for library in libraries:
            try:
                address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
            except AttributeError:
                continue
            if address:
                found[symbol] = address
                break
    return found


def _library_names() -> list[str]:
    if sys.platform == "win32":
        return ["ucrtbase", "vcruntime140"]
    return [ctypes.util.find_library("m") or "libm.so.6", ctypes.util.find_library("c") or "libc.so.6"]
