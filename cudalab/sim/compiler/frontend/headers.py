"""Location of CUDA's headers and of the NVRTC library on this machine.

A plain kernel includes nothing: NVRTC knows ``threadIdx``, ``__syncthreads`` and the math functions
by itself. Half precision, cooperative groups, CUB and so on need headers, and those come in three
layouts:

wheels
    ``site-packages/nvidia/cu13/{include,lib}`` since CUDA 13; before that, one folder a component:
    ``nvidia/cuda_nvrtc/lib``, ``nvidia/cuda_runtime/include``, ``nvidia/cuda_cccl/include``.
conda
    ``$CONDA_PREFIX/targets/ARCH/include`` with the library in ``$CONDA_PREFIX/lib``; on Windows
    ``Library/include`` and ``Library/bin``.
toolkit
    ``$CUDA_HOME`` or ``$CUDA_PATH``, ``/usr/local/cuda``, ``/opt/cuda``; the headers of a
    distribution's own packages in ``/usr/include``.

The first location with an NVRTC library is used, with its own headers if it has them, so that versions match.

NVRTC has no headers of C at all: it declares ``printf``, ``sqrtf`` or ``malloc`` by itself, and stops at the ``#include
<stdio.h>`` that a tutorial's kernel begins with. ``STANDARD_HEADERS`` holds what such headers add on a device: types,
constants and the names in ``std``. It comes last in the search path, so CUDA's own headers go first.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

STANDARD_HEADERS = Path(__file__).resolve().parents[1] / "include"
"""``<stdint.h>``, ``<cmath>`` and the like, for NVRTC."""
_NVRTC = re.compile(r"libnvrtc\.so.*|nvrtc64_.*_0\.dll")
_COMPONENTS = ("cuda_runtime", "cuda_cccl", "cuda_crt", "cuda_nvcc", "curand")  # wheels before CUDA 13


class Toolkit(Struct, frozen=True):
    """One place with a CUDA compiler library, CUDA headers, or both."""

    layout: str
    """``wheel``, ``conda`` or ``toolkit``."""
    root: Path
    library: Path | None
    """The NVRTC library; None where only headers are."""
    includes: tuple[Path, ...]
    """Folders to search for headers, in this order."""


def find_toolkits(
    *,
    search_path: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    prefix: str | None = None,
    system: Sequence[str] | None = None,
    windows: bool | None = None,
) -> list[Toolkit]:
    """All places found, best first. The arguments stand in for ``sys.path``, ``os.environ``,
    ``sys.prefix``, the usual install folders and the operating system."""
    environ = os.environ if environment is None else environment
    on_windows = sys.platform == "win32" if windows is None else windows
    found: list[Toolkit] = []
    for entry in sys.path if search_path is None else search_path:
        if entry:
            found.extend(_wheels(Path(entry) / "nvidia", on_windows))
    prefixes = [environ.get("CONDA_PREFIX", ""), sys.prefix if prefix is None else prefix]
    for root in dict.fromkeys(filter(None, prefixes)):
        found.extend(_conda(Path(root), on_windows))
    roots = [environ.get("CUDA_HOME", ""), environ.get("CUDA_PATH", "")]
    roots += ["/usr/local/cuda", "/opt/cuda", "/usr"] if system is None else system
    for root in dict.fromkeys(filter(None, roots)):
        found.extend(_installed(Path(root), on_windows))
    return sorted(found, key=lambda toolkit: toolkit.library is None)


def _wheels(root: Path, windows: bool) -> Iterator[Toolkit]:
    if not root.is_dir():
        return
    for folder in sorted(root.glob("cu[0-9]*"), key=_version, reverse=True):
        libraries = folder / "bin" if windows else folder / "lib"
        yield from _toolkit("wheel", folder, [libraries, libraries / "x86_64"], [folder / "include"])
    nvrtc = root / "cuda_nvrtc" / ("bin" if windows else "lib")
    yield from _toolkit("wheel", root, [nvrtc], [root / name / "include" for name in _COMPONENTS])


def _conda(root: Path, windows: bool) -> Iterator[Toolkit]:
    if not (root / "conda-meta").is_dir():
        return
    if windows:
        library = root / "Library"
        folders = [library / "include", library / "include" / "targets" / "x64"]
        yield from _toolkit("conda", root, [library / "bin", library / "bin" / "x64"], folders)
        return
    targets = sorted((root / "targets").glob("*-linux"), key=lambda path: platform.machine() not in path.name)
    folders = [target / "include" for target in targets] + [root / "include"]
    yield from _toolkit("conda", root, [root / "lib", *(target / "lib" for target in targets)], folders)


def _installed(root: Path, windows: bool) -> Iterator[Toolkit]:
    if windows:
        libraries = [root / "bin" / "x64", root / "bin"]
    else:
        libraries = [root / "lib64", root / "lib", *sorted((root / "lib").glob("*-linux-gnu"))]
    yield from _toolkit("toolkit", root, libraries, [root / "include"])


def _toolkit(layout: str, root: Path, libraries: Sequence[Path], folders: Sequence[Path]) -> Iterator[Toolkit]:
    library = next(filter(None, map(_library, libraries)), None)
    includes = [folder for folder in folders if _has_headers(folder)]
    # CUDA 13 keeps CUB, Thrust and libcu++ one level down; older releases beside the rest
    includes += [folder / "cccl" for folder in includes if (folder / "cccl").is_dir()]
    if library or includes:
        yield Toolkit(layout, root, library, tuple(includes))


def _has_headers(folder: Path) -> bool:
    names = ("cuda_runtime.h", "cuda_fp16.h", "cccl", "crt", "cub", "curand_kernel.h")
    return any((folder / name).exists() for name in names)


def _library(folder: Path) -> Path | None:
    """The newest NVRTC library in ``folder`` (not the ``alt`` build, and not the builtins)."""
    if not folder.is_dir():
        return None
    names = [name for name in os.listdir(folder) if _NVRTC.fullmatch(name) and ".alt" not in name]
    return max(filter(Path.is_file, map(folder.joinpath, names)), key=_version, default=None)


def _version(path: Path) -> tuple[int, ...]:
    # "nvrtc64_130_0.dll": the 64 is no version
    return tuple(int(number) for number in re.findall(r"\d+", path.name.removeprefix("nvrtc64_")))


_PARTS = {"runtime": "cuda_fp16.h", "cccl": "cub", "crt": "crt", "curand": "curand_kernel.h"}
"""Components in separate packages, each with a file or folder that identifies it."""
_found: list[Toolkit] | None = None


def toolkits() -> list[Toolkit]:
    """``find_toolkits()`` of this machine, looked up once."""
    global _found
    if _found is None:
        _found = find_toolkits()
    return _found


def forget() -> None:
    """Look again at next use (after an installation, and in tests)."""
    global _found
    _found = None
    include_directories.cache_clear()


def nvrtc_library() -> Path | None:
    """The NVRTC library, or None where there is none."""
    return next((toolkit.library for toolkit in toolkits() if toolkit.library), None)


@functools.cache
def include_directories() -> tuple[str, ...]:
    """Folders with CUDA's own headers, of the same place as the NVRTC library where it has them; what that place lacks,
    often CCCL, from the next that has it; at last, the headers of C."""
    chosen: list[str] = []
    have: set[str] = set()
    for toolkit in toolkits():
        brings = {part for part, name in _PARTS.items() if any((folder / name).exists() for folder in toolkit.includes)}
        if brings - have:
            have |= brings
            chosen += [str(folder) for folder in toolkit.includes]
    return (*chosen, str(STANDARD_HEADERS))


# What to install for a header that NVRTC does not find: (first part of the name, wheel, conda package).
_PROVIDERS = (
    (("cub/", "thrust/", "cuda/", "nv/"), "nvidia-cuda-cccl", "cuda-cccl"),
    (("crt/",), "nvidia-cuda-crt", "cuda-crt"),
    (("curand",), "nvidia-curand", "libcurand-dev"),
    (("cuda", "cooperative_groups", "vector_", "device_", "math_constants", "mma", "sm_", "driver_types", "cuComplex"),)
    + ("nvidia-cuda-runtime", "cuda-cudart-dev"),
)


def provider(header: str) -> tuple[str, str] | None:
    """(wheel, conda package) that brings ``header``, or None when it is none of CUDA's."""
    for starts, wheel, conda in _PROVIDERS:
        if header.startswith(starts):
            return wheel, conda
    return None
