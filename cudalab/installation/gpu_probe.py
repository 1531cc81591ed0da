"""Is there a GPU with a working driver? The driver library itself is asked, without CuPy.

The NVIDIA driver brings ``libcuda.so.1`` (``nvcuda.dll``). ``cuInit`` says whether it works, and the version that the
library gives is the newest CUDA version it can run, which decides the CuPy a machine needs. Nothing here creates a
CUDA context or allocates memory on a device. Standard library only: ``python -m cudalab setup`` asks before anything
is installed.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

OLDEST_CUDA = 12  # cuda.bindings and CuPy of the extras `cuda12` and `cuda13`


@dataclass(frozen=True)
class Gpu:
    """The GPUs that the driver offers."""

    cuda: tuple[int, int]
    """Newest CUDA version that the driver runs, as (major, minor)."""

    names: tuple[str, ...]
    """Names of the devices, by ordinal."""

    @property
    def extra(self) -> str:
        """The extra of this project that fits the driver: ``cuda12`` or ``cuda13``."""
        return "cuda13" if self.cuda[0] >= 13 else "cuda12"


@dataclass(frozen=True)
class NoGpu:
    """Why no GPU can be used."""

    reason: str


def _load_driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None


def _error_name(library: ctypes.CDLL, code: int) -> str:
    text = ctypes.c_char_p()
    if library.cuGetErrorName(code, ctypes.byref(text)) == 0 and text.value:
        return f"{text.value.decode()} ({code})"
    return f"error {code}"


def probe() -> Gpu | NoGpu:
    """Ask the driver for its devices (CUDA Driver API, "Initialization" and "Device Management")."""
    library = _load_driver()
    if library is None:
        return NoGpu("no NVIDIA driver was found on this machine")
    code = library.cuInit(0)
    if code != 0:
        return NoGpu(f"an NVIDIA driver is installed, but cuInit failed with {_error_name(library, code)}")
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    library.cuDeviceGetCount(ctypes.byref(count))
    if count.value == 0:
        return NoGpu("the NVIDIA driver works but offers no device")
    cuda = (version.value // 1000, version.value % 1000 // 10)
    names = []
    for ordinal in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(128)
        library.cuDeviceGet(ctypes.byref(device), ordinal)
        library.cuDeviceGetName(name, len(name), device)
        names.append(name.value.decode(errors="replace"))
    if cuda[0] < OLDEST_CUDA:
        return NoGpu(
            f"{names[0]} is here, but its driver runs CUDA {cuda[0]}.{cuda[1]} at most and CUDA {OLDEST_CUDA} is "
            "needed; install a newer driver"
        )
    return Gpu(cuda, tuple(names))
