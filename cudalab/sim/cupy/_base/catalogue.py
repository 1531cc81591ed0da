"""What the real CuPy offers, by name: the file `catalogue.json`, written by `tests/sim/cupy/list_names.py`.

The simulated modules take signatures, the types of universal functions and the values of constants from it, and use it
to tell a name that CuPy has but that is not simulated from one that nobody has.
"""

from __future__ import annotations

import inspect
import json
from functools import cache
from importlib import resources
from typing import Any

_INSTEAD = {
    "cupy.fuse": "Call the function without @cp.fuse(), and the result is the same; for one kernel, and its time, "
    "write a cp.ElementwiseKernel.",
    "cupy.vectorize": "Write the function's body in CUDA C++ as a cp.ElementwiseKernel.",
    "cupy.fromDlpack": "Use cp.from_dlpack.",
    "cupy.ndarray.toDlpack": "Use cp.from_dlpack(a), or cp.asnumpy(a) for other libraries.",
    "cupy.cuda.cufft": "Transforms are in cp.fft.",
    "cupy.cuda.cublas": "Products of arrays are a @ b, cp.dot and cp.einsum.",
    "cupy.cuda.curand": "Random numbers are in cp.random; in a kernel, include <curand_kernel.h>.",
    "cupy.cuda.cusolver": "Linear algebra is in cp.linalg.",
    "cupy.cuda.cusparse": "Write sparse products as a RawKernel; cp.asarray takes scipy's data, indices and indptr.",
    "cupy.cuda.nccl": "There is one simulated device: copies go through streams and the host.",
    "cupy.cuda.thrust": "Call cp.sort, cp.argsort or cp.lexsort.",
    "cupy.cuda.cub": "Call x.sum(), x.max() and their like; in a kernel, include <cub/block/block_reduce.cuh>.",
    "cupy.cuda.jitify": "cp.RawKernel finds CUDA's and C's headers by itself.",
    "cupy.cuda.get_cublas_handle": "Products of arrays are a @ b, cp.dot and cp.einsum.",
    "cupy.cuda.memory_hooks.LineProfileHook": "Derive a class from cp.cuda.MemoryHook, or use cp.cuda.memory_hooks."
    "DebugPrintHook, which prints each allocation.",
    "cupyx.jit": "Write the kernel in CUDA C++, as cp.RawKernel or in a %%cuda cell.",
    "cupyx.scipy": "Call NumPy and SciPy on the host: cp.asnumpy(a), cp.asarray(b).",
    "cupyx.distributed": "There is one simulated device.",
    "cupyx.optimizing": "Time launches with cupyx.profiler.benchmark, or tune with cudalab.tune.",
    "cupyx.time": "Call cupyx.profiler.benchmark.",
    "cupy.cuda.nvrtc": "cp.RawKernel and cp.RawModule compile; cudalab.source shows PTX and the compiler's log.",
}
_TYPES = {"bool": bool, "complex": complex, "float": float, "int": int}
_OTHER = {"rot90": (0, 1), "fft2": (-2, -1), "ifft2": (-2, -1), "rfft2": (-2, -1), "irfft2": (-2, -1)}
_EMPTY: dict[str, Any] = {"tuple": (), "dict": {}}


@cache
def data() -> dict[str, Any]:
    """The whole file."""
    text = (resources.files("cudalab.sim.cupy") / "catalogue.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def names(module: str) -> frozenset[str]:
    """Public names of the real module, ``cupy`` or ``cupy.cuda.runtime`` for instance; empty when it is not listed."""
    return frozenset(data()["modules"].get(module, ()))


@cache
def members(name: str) -> frozenset[str]:
    """Public attributes of a real class, ``cupy.ndarray`` for instance."""
    return frozenset(data()["classes"].get(name, ()))


def constants(module: str) -> dict[str, int]:
    """Integer constants of ``cupy.cuda.runtime`` or ``cupy.cuda.driver``."""
    found: dict[str, int] = data()["constants"][module]
    return found


@cache
def signature(module: str, name: str) -> inspect.Signature:
    """The real function's parameters and their defaults. Raises ``KeyError`` where the real one does not tell."""
    parameters = []
    for entry in data()["signatures"][module][name]:
        default: Any = inspect.Parameter.empty
        if len(entry) == 3:
            default = entry[2]
            if isinstance(default, dict):
                kind = default.get("type")
                default = _TYPES.get(kind, kind) if kind else _other(name, default["other"])
        parameters.append(inspect.Parameter(entry[0], inspect._ParameterKind(entry[1]), default=default))
    return inspect.Signature(parameters)


def _other(name: str, kind: str) -> Any:
    """A default that JSON does not hold: the value known for the function, else an empty one of its type."""
    return _OTHER[name] if name in _OTHER else _EMPTY[kind]


def missing(module: str, name: str) -> AttributeError:
    """The error for ``module.name``: it says whether the real CuPy has that name."""
    full = f"{module}.{name}"
    if name not in names(module) and full not in _INSTEAD:  # a submodule may be imported only when it is asked for
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    instead = _INSTEAD.get(
        full, "Use another function, a RawKernel, or NumPy on the host: cp.asnumpy(a), cp.asarray(b)."
    )
    return AttributeError(
        f"{full} is not simulated: CuPy {data()['cupy']} has it, and it works on a machine with a GPU. {instead}"
    )


def missing_member(owner: str, name: str) -> AttributeError:
    """The error for an attribute of a class; ``owner`` is ``cupy.ndarray`` for instance."""
    short = owner.rpartition(".")[2]
    if name not in members(owner):
        return AttributeError(f"{short!r} object has no attribute {name!r}")
    instead = _INSTEAD.get(f"{owner}.{name}", "")
    text = f"{owner}.{name} is not simulated: CuPy {data()['cupy']} has it, and it works on a machine with a GPU."
    return AttributeError(f"{text} {instead}".rstrip())


def offered(module: str, scope: dict[str, Any]) -> list[str]:
    """What ``dir(module)`` shows: the real module's names, as far as ``scope`` has them, and Python's own."""
    return sorted(name for name in scope if name in names(module) or name.startswith("__"))
