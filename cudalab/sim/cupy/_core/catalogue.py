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
    "cupy.fuse": "Call the function without @cp.fuse(): the result is the same.",
    "cupy.vectorize": "Write it with array functions, or as a RawKernel.",
    "cupy.cuda.Graph": "Graphs come with chapter 15.",
    "cupy.cuda.nvrtc": "cp.RawKernel and cp.RawModule compile; cudalab.source shows PTX and the compiler's log.",
}
_TYPES = {"bool": bool, "complex": complex, "float": float, "int": int}
_OTHER = {"rot90": (0, 1), "fft2": (-2, -1), "ifft2": (-2, -1), "rfft2": (-2, -1), "irfft2": (-2, -1)}


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
                default = _TYPES.get(default["type"], default["type"]) if "type" in default else _OTHER[name]
        parameters.append(inspect.Parameter(entry[0], inspect._ParameterKind(entry[1]), default=default))
    return inspect.Signature(parameters)


def missing(module: str, name: str) -> AttributeError:
    """The error for ``module.name``: it says whether the real CuPy has that name."""
    if name not in names(module):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    full = f"{module}.{name}"
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
    return AttributeError(
        f"{owner}.{name} is not simulated: CuPy {data()['cupy']} has it, and it works on a machine with a GPU."
    )


def offered(module: str, scope: dict[str, Any]) -> list[str]:
    """What ``dir(module)`` shows: the real module's names, as far as ``scope`` has them, and Python's own."""
    return sorted(name for name in scope if name in names(module) or name.startswith("__"))
