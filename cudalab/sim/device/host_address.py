"""Reading and writing host memory by address, as a copy does, without ever ending the process.

``cudaMemcpy`` takes plain addresses. A wrong one ends a C program with a segmentation fault; here it must not, because
the learner's notebook is the process. So the operating system does the access and says when an address is not mapped:
``process_vm_readv`` on Linux (also under its name ``/proc/self/mem`` where that call is forbidden),
``ReadProcessMemory`` on Windows.

While grading, the program is another process (``cudalab/grading/worker``): its addresses carry the bit
:data:`ELSEWHERE`, which no address of this process has, and :func:`reaching` says how its memory is reached.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from cudalab.sim.machine.memory import host_watch


class UnmappedAddress(ValueError):
    """Host memory that this process does not have; the message names the address and the size."""


ELSEWHERE = 1 << 62
"""The bit of an address in another process."""


class OtherMemory(Protocol):
    """The memory of another process, by its addresses there. Both raise ``UnmappedAddress``."""

    def read(self, address: int, data: np.ndarray) -> None:
        """Fill ``data`` with the bytes at ``address``."""

    def write(self, address: int, data: np.ndarray) -> None: ...


_other: list[OtherMemory] = []


@contextmanager
def reaching(other: OtherMemory) -> Iterator[None]:
    """Within it, addresses with :data:`ELSEWHERE` are those of ``other``."""
    _other.append(other)
    try:
        yield
    finally:
        _other.remove(other)


def read(address: int, size: int) -> np.ndarray:
    """``size`` bytes of host memory at ``address`` as a new ``uint8`` array; raises ``UnmappedAddress``."""
    data = np.empty(size, np.uint8)
    if size:
        _transfer(_READ, address, data, "read")
    return data


def write(address: int, data: np.ndarray) -> None:
    """Put the bytes of ``data`` (contiguous, ``uint8``) at ``address``; raises ``UnmappedAddress``."""
    if data.size:
        _transfer(_WRITE, address, np.ascontiguousarray(data), "write")


def read_protected(address: int, size: int) -> np.ndarray | None:
    """The same although pages may be protected (``machine/memory/host_watch.py``), without a fault; None where that
    cannot be."""
    data = np.empty(size, np.uint8)
    file = _own_memory()
    try:
        return data if file >= 0 and os.preadv(file, [data.data], address) == size else None
    except OSError:
        return None


def write_protected(address: int, data: np.ndarray) -> bool:
    """The opposite; False where it cannot be, and then nothing, or a part, has been written."""
    file = _own_memory()
    try:
        return file >= 0 and os.pwrite(file, data.data, address) == data.size
    except OSError:
        return False


_own: list[int] = []
"""``/proc/self/mem``, which asks for no permission of a page; -1 where there is none. Empty until it is needed."""


def _own_memory() -> int:
    if not _own:
        try:
            _own.append(os.open("/proc/self/mem", os.O_RDWR | getattr(os, "O_CLOEXEC", 0)))
        except OSError:
            _own.append(-1)
    return _own[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own.clear)  # what the parent opened is the parent's memory


def check(address: int, size: int) -> None:
    """Raise ``UnmappedAddress`` unless the first and the last byte can be read."""
    if size:
        read(address, 1)
        read(address + size - 1, 1)


def _transfer(access: Callable[[int, int, int], bool], address: int, data: np.ndarray, verb: str) -> None:
    if address & ELSEWHERE and _other and address < 2 * ELSEWHERE:
        move = _other[-1].read if verb == "read" else _other[-1].write
        return move(address - ELSEWHERE, data)
    local = data.__array_interface__["data"][0]
    known = 0 < address and address + data.size < 1 << 63
    done = known and access(local, address, data.size)
    if known and not done and host_watch.let_through(address, data.size):  # registered memory, watched for hazards
        done = access(local, address, data.size)
    if not done:
        raise UnmappedAddress(
            f"cannot {verb} {data.size} bytes of host memory at {address:#x}: this process has no such memory"
            f"{' that it may change' if verb == 'write' else ''}. "
            "Pass the address of an array that is still alive, array.ctypes.data of a NumPy array say"
        )
    return None


def _linux() -> tuple[Callable[[int, int, int], bool], Callable[[int, int, int], bool]]:
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    library = ctypes.CDLL(None, use_errno=True)
    calls = []
    for name, direction in (("process_vm_readv", os.O_RDONLY), ("process_vm_writev", os.O_WRONLY)):
        function = getattr(library, name, None)
        if function is not None:
            function.restype = ctypes.c_ssize_t
            function.argtypes = [
                ctypes.c_int,
                ctypes.POINTER(Vector),
                ctypes.c_ulong,
                ctypes.POINTER(Vector),
                ctypes.c_ulong,
                ctypes.c_ulong,
            ]

        def call(
            local: int, remote: int, size: int, function: Callable[..., int] | None = function, flag: int = direction
        ) -> bool:
            done = 0
            while done < size:
                here, there = Vector(local + done, size - done), Vector(remote + done, size - done)
                moved = function(os.getpid(), here, 1, there, 1, 0) if function is not None else -1
                if moved <= 0:
                    if function is not None and ctypes.get_errno() == _EFAULT:
                        return False
                    return _through_file(local + done, remote + done, size - done, flag)
                done += moved
            return True

        calls.append(call)
    return calls[0], calls[1]


_EFAULT = 14


def _through_file(local: int, remote: int, size: int, flag: int) -> bool:
    """The same through /proc/self/mem, where a sandbox forbids the system calls."""
    data = memoryview((ctypes.c_ubyte * size).from_address(local)).cast("B")
    try:
        file = os.open("/proc/self/mem", flag)
        try:
            done = 0
            while done < size:
                if flag == os.O_RDONLY:
                    moved = os.preadv(file, [data[done:]], remote + done)
                else:
                    moved = os.pwritev(file, [data[done:]], remote + done)
                if moved <= 0:
                    return False
                done += moved
            return True
        finally:
            os.close(file)
    except OSError:
        return False


def _windows() -> tuple[Callable[[int, int, int], bool], Callable[[int, int, int], bool]]:
    kernel32 = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    process = ctypes.c_void_p(-1)
    arguments = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    kernel32.ReadProcessMemory.argtypes = kernel32.WriteProcessMemory.argtypes = arguments

    def load(local: int, remote: int, size: int) -> bool:
        return bool(kernel32.ReadProcessMemory(process, remote, local, size, None))

    def store(local: int, remote: int, size: int) -> bool:
        return bool(kernel32.WriteProcessMemory(process, remote, local, size, None))

    return load, store


_READ, _WRITE = _windows() if sys.platform == "win32" else _linux()
