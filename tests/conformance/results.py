"""Results of conformance programs: what is stored, and how two of them are compared.

A result file is JSON; arrays lie beside it in one ``.npz``, whole when they are small and as a hash
otherwise. Floats are stored in hexadecimal, so that nothing is rounded.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from .program import Bound, Near, Values

LARGEST_STORED = 64 * 1024  # bytes of an array that is kept whole
EXCEPTION = "exception"  # the key under which a program's own failure is stored


def plain(values: Values) -> Values:
    """Copies device arrays to the host, recursively; other values stay."""
    return {str(name): _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "__cuda_array_interface__"):
        return np.asarray(value.get())
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a program returned a {type(value).__name__}; return arrays, numbers and strings")


def encode(values: Any, arrays: dict[str, np.ndarray], path: str) -> Any:
    """JSON form of plain values; arrays go to ``arrays`` under their path."""
    if isinstance(values, dict):
        if "sha256" in values:  # an array of which only the hash was stored
            return values
        return {"items": {k: encode(v, arrays, f"{path}/{k}") for k, v in values.items()}}
    if isinstance(values, list):
        return [encode(item, arrays, f"{path}/{i}") for i, item in enumerate(values)]
    if isinstance(values, np.ndarray):
        if values.nbytes <= LARGEST_STORED:
            arrays[path] = values
        return {"dtype": values.dtype.str, "shape": list(values.shape), "sha256": digest(values)}
    if isinstance(values, float):
        return {"float": values.hex()}
    return values


def decode(stored: Any, arrays: dict[str, np.ndarray], path: str) -> Any:
    """The inverse of ``encode``; an array of which only the hash is stored stays a dict."""
    if isinstance(stored, list):
        return [decode(item, arrays, f"{path}/{i}") for i, item in enumerate(stored)]
    if isinstance(stored, dict):
        if "items" in stored:
            return {k: decode(v, arrays, f"{path}/{k}") for k, v in stored["items"].items()}
        if "float" in stored:
            return float.fromhex(stored["float"])
        return arrays.get(path, stored)
    return stored


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def save(folder: Path, about: dict[str, Any], results: dict[str, dict[str, Any]]) -> None:
    """Writes ``results.json`` and ``arrays.npz``. A result is ``{"source": hash, "values": plain values}``."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    programs = {}
    for key, result in sorted(results.items()):
        programs[key] = {**result, "values": encode(result["values"], arrays, key)}
    with (folder / "results.json").open("w") as file:
        json.dump({"about": about, "programs": programs}, file, indent=1)
        file.write("\n")
    np.savez_compressed(folder / "arrays.npz", allow_pickle=False, **arrays)


def load(folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What ``save`` wrote: the facts about the run, and the results by program."""
    document = json.loads((folder / "results.json").read_text())
    with np.load(folder / "arrays.npz") as file:
        arrays = {key: file[key] for key in file.files}
    for key, result in document["programs"].items():
        result["values"] = decode(result["values"], arrays, key)
    return document["about"], document["programs"]


def differences(got: Any, want: Any, tolerance: dict[str, Bound] | None = None, path: str = "") -> list[str]:
    """How ``got`` differs from ``want``, one line for each value; empty when they agree.

    ``want`` may hold fewer keys than ``got`` at the top (an oracle does), and ``Near`` values.
    """
    tolerance = tolerance or {}
    name = path or "result"
    if isinstance(want, Near):
        return _close(got, want.value, want.rtol, want.atol, name)
    if isinstance(want, dict) and isinstance(got, dict):
        if "sha256" in want:
            return [] if got == want else [f"{name}: {got} is not {want}"]
        missing = [f"{name}: {key} is missing" for key in want if key not in got]
        return missing + [
            line
            for key in want
            if key in got
            for line in differences(got[key], want[key], tolerance, f"{path}.{key}" if path else key)
        ]
    if isinstance(want, dict) and "sha256" in want and isinstance(got, np.ndarray):
        same = digest(got) == want["sha256"] and got.dtype.str == want["dtype"] and list(got.shape) == want["shape"]
        return [] if same else [f"{name}: the hash of the array differs"]
    if isinstance(got, dict) and "sha256" in got and isinstance(want, np.ndarray):
        return differences(want, got, path=path)
    if path.split(".")[0] in tolerance:
        return _close(got, want, *tolerance[path.split(".")[0]], name)
    if isinstance(want, (np.ndarray, np.generic)):
        return _same_array(got, np.asarray(want), name)
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return [f"{name}: {got!r} is not {want!r}"]
        return [
            line
            for i, (a, b) in enumerate(zip(got, want, strict=True))
            for line in differences(a, b, tolerance, f"{path}[{i}]")
        ]
    if isinstance(want, float) and isinstance(got, float) and want != want and got != got:
        return []
    return [] if type(got) is type(want) and got == want else [f"{name}: {got!r} is not {want!r}"]


def _same_array(got: Any, want: np.ndarray, name: str) -> list[str]:
    got = np.asarray(got)
    if got.dtype != want.dtype or got.shape != want.shape:
        return [f"{name}: {got.dtype}{got.shape} is not {want.dtype}{want.shape}"]
    width = want.dtype.itemsize
    a = np.ascontiguousarray(got).reshape(-1).view(np.uint8).reshape(-1, width)
    b = np.ascontiguousarray(want).reshape(-1).view(np.uint8).reshape(-1, width)
    wrong = np.flatnonzero((a != b).any(axis=1))
    if not wrong.size:
        return []
    first = np.unravel_index(wrong[0], want.shape)
    where = tuple(int(i) for i in first)
    return [f"{name}: {wrong.size} of {want.size} differ, first at {where}: {got[first]!r} is not {want[first]!r}"]


def _close(got: Any, want: Any, rtol: float, atol: float, name: str) -> list[str]:
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return [f"{name}: shape {got.shape} is not {want.shape}"]
    with np.errstate(all="ignore"):
        wide = np.result_type(got.dtype, want.dtype, np.float64)
        far = ~np.isclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
    if not far.any():
        return []
    first = np.unravel_index(np.flatnonzero(far)[0], want.shape)
    where = tuple(int(i) for i in first)
    return [
        f"{name}: {int(far.sum())} of {want.size} are further than rtol {rtol:g}, atol {atol:g}; "
        f"first at {where}: {got[first]!r} is not {want[first]!r}"
    ]
