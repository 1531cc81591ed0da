"""Write `cudalab/sim/cupy/catalogue.json`: what the installed CuPy offers, by name.

    python tests/sim/cupy/list_names.py > cudalab/sim/cupy/catalogue.json

Needs CuPy (no GPU). The simulated CuPy reads signatures, the types of universal functions and the values of constants
from this file, so that they are CuPy's and not ours; and it tells a name that CuPy has from one that nobody has.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import types
from typing import Any

MODULES = (
    "",
    "cuda",
    "cuda.compiler",
    "cuda.device",
    "cuda.driver",
    "cuda.function",
    "cuda.graph",
    "cuda.memory",
    "cuda.memory_hook",
    "cuda.memory_hooks",
    "cuda.nvrtc",
    "cuda.nvtx",
    "cuda.pinned_memory",
    "cuda.profiler",
    "cuda.runtime",
    "cuda.stream",
    "cuda.texture",
    "exceptions",
    "fft",
    "lib",
    "lib.stride_tricks",
    "linalg",
    "polynomial",
    "random",
    "testing",
    "typing",
)
COMPANIONS = ("cupyx", "cupyx.profiler")
CLASSES = (
    "ndarray",
    "ufunc",
    "RawKernel",
    "RawModule",
    "broadcast",
    "flatiter",
    "cuda.Device",
    "cuda.Event",
    "cuda.ExternalStream",
    "cuda.Function",
    "cuda.Graph",
    "cuda.ManagedMemory",
    "cuda.Memory",
    "cuda.MemoryAsync",
    "cuda.MemoryAsyncPool",
    "cuda.MemoryHook",
    "cuda.MemoryPointer",
    "cuda.MemoryPool",
    "cuda.Module",
    "cuda.PinnedMemory",
    "cuda.PinnedMemoryPointer",
    "cuda.PinnedMemoryPool",
    "cuda.Stream",
    "cuda.UnownedMemory",
    "cuda.compiler.CompileException",
    "cuda.memory.OutOfMemoryError",
    "cuda.memory.PooledMemory",
    "cuda.memory_hooks.DebugPrintHook",
    "cuda.runtime.PointerAttributes",
    "random.Generator",
    "random.RandomState",
)


def _find(root: Any, path: str) -> Any:
    if path == "random.Generator":  # CuPy keeps this class private
        return root.random._generator_api.Generator
    for part in path.split("."):
        if part:
            root = getattr(root, part)
    return root


def _public(thing: Any) -> list[str]:
    return sorted(name for name in dir(thing) if not name.startswith("_"))


def _parameters(function: Any) -> list[list[Any]] | None:
    """``[name, kind]`` or ``[name, kind, default]`` of each parameter, None where Python cannot tell."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    found = []
    for parameter in signature.parameters.values():
        entry: list[Any] = [parameter.name, int(parameter.kind)]
        if parameter.default is not parameter.empty:
            default = parameter.default
            if isinstance(default, type):
                default = {"type": default.__name__}
            elif not isinstance(default, (type(None), bool, int, float, str)):
                default = {"other": type(default).__name__}
            entry.append(default)
        found.append(entry)
    return found


def catalogue() -> dict[str, Any]:
    """Everything that the file holds."""
    import cupy

    result: dict[str, Any] = {
        "cupy": cupy.__version__,
        "runtime_version": cupy.cuda.runtime.runtimeGetVersion(),
        "modules": {},
        "classes": {},
        "signatures": {},
        "ufuncs": {},
        "constants": {},
    }
    modules = {f"cupy.{path}" if path else "cupy": _find(cupy, path) for path in MODULES}
    modules |= {name: importlib.import_module(name) for name in COMPANIONS}
    for name, module in modules.items():
        result["modules"][name] = [n for n in _public(module) if n != "annotations"]
        signatures = {}
        for entry in result["modules"][name]:
            thing = getattr(module, entry)
            if isinstance(thing, cupy.ufunc):
                result["ufuncs"][entry if name == "cupy" else f"{name}.{entry}"] = {
                    "name": thing.name,
                    "types": thing.types,
                }
            elif callable(thing) and not isinstance(thing, (type, types.ModuleType)):
                parameters = _parameters(thing)
                if parameters is not None:
                    signatures[entry] = parameters
        if signatures:
            result["signatures"][name] = signatures
        if name in ("cupy.cuda.runtime", "cupy.cuda.driver"):
            result["constants"][name] = {
                n: getattr(module, n) for n in result["modules"][name] if isinstance(getattr(module, n), int)
            }
    for path in CLASSES:
        result["classes"][f"cupy.{path}"] = _public(_find(cupy, path))
    return result


def text() -> str:
    """The file's text."""
    parts = []
    for key, value in catalogue().items():
        if isinstance(value, dict):
            rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(value.items()))
            parts.append(f" {json.dumps(key)}: {{\n{rows}\n }}")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(text())
