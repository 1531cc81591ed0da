"""Runs entries of the corpus through CuPy's API, on the simulated device or on a GPU: the calls are the same."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .kernel import Blank, Data, Entry, Expected, Global, Launch, Near, Scratch, Surface, Texture

POISON = 0xA5
Launcher = Callable[[Any, tuple[int, ...], tuple[int, ...], tuple[Any, ...], Launch], None]
"""``launcher(kernel, grid, block, args, launch)``; the default one launches, others may sanitize or profile first."""


def launch_plainly(
    kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], launch: Launch
) -> None:
    """What ``kernel(grid, block, args)`` does, and a cooperative launch where asked for."""
    kernel.kernel(
        grid, block, args, shared_mem=launch.shared, enable_cooperative_groups=launch.cooperative
    )  # fmt: skip


@dataclass
class Ran:
    """What an entry left behind."""

    values: Expected
    """Every buffer of the data by name, scratch left out."""
    printed: str


def units(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries to be compiled together: those that share heavy headers, which take NVRTC a second each."""
    heavy: dict[tuple[str, ...], list[Entry]] = {}
    found = []
    for entry in entries:
        if entry.headers:
            heavy.setdefault((*entry.headers, *entry.options), []).append(entry)
        else:
            found.append([entry])
    return found + list(heavy.values())


def module_of(unit: Sequence[Entry], source: str | None = None) -> Any:
    """A ``RawModule`` of a unit; ``source`` replaces the code of a unit of one entry, for mutants."""
    from cudalab import cp

    first = unit[0]
    if source is None:
        includes = "".join(f"#include <{header}>\n" for header in first.headers)
        source = includes + "\n".join(entry.body for entry in unit)
    names = tuple(name for entry in unit for name in entry.names)
    options = first.options + (toolkit_folders() if first.headers and os.environ.get("CUDALAB_DEVICE") == "gpu" else ())
    return cp.RawModule(code=source, options=options, name_expressions=names or None)


@cache
def toolkit_folders() -> tuple[str, ...]:
    """Where CUDA's headers are on a machine with a GPU; CuPy brings only those of CCCL."""
    packages = [Path(entry) for entry in sys.path if entry]
    found = [folder / "nvidia/cu13/include" for folder in packages]
    found += [Path(os.environ.get("CUDA_PATH") or "/usr/local/cuda") / "include"]
    folders = [path for folder in found for path in (folder, folder / "cccl") if path.is_dir()]
    return tuple(f"-I{folder}" for folder in folders)


def run(entry: Entry, module: Any, *, launcher: Launcher = launch_plainly, poison: bool = True) -> Ran:
    """Runs all launches of an entry and returns all of its buffers.

    Args:
        entry: which.
        module: its code, by `module_of`.
        launcher: what is done at each launch.
        poison: fill ``Blank`` buffers; False leaves them unwritten for initcheck.
    """
    from cudalab import cp

    data = entry.inputs()
    held = {name: _lent(cp, module, name, value, poison) for name, value in data.items()}
    with _captured(entry.prints is not None) as text:
        for launch in entry.launches(data):
            args = tuple(_argument(held, arg) for arg in launch.arguments)
            launcher(module.get_function(launch.kernel), _triple(launch.grid), _triple(launch.block), args, launch)
        cp.cuda.Device().synchronize()
    values = {}
    for name, value in data.items():
        if isinstance(value, np.ndarray | Blank | Global):
            values[name] = held[name].get()
            if isinstance(value, np.ndarray) and value.dtype.names:
                values[name] = values[name].view(value.dtype)
        elif isinstance(value, Surface):
            values[name] = np.empty_like(value.value)
            held[name].array.copy_to(values[name])
    return Ran(values, text[0])


def verify(entry: Entry, ran: Ran) -> None:
    """Compares all buffers with NumPy's; AssertionError names the buffer, how many elements differ and the first."""
    data = entry.inputs()
    expected = entry.expect(data)
    bound = entry.tolerance or entry.rounding
    for name, got in ran.values.items():
        if name in expected:
            want = np.asarray(expected[name])
            assert got.size == want.size and got.dtype == want.dtype, (
                f"{entry.name}: {name} is {got.shape} {got.dtype}, the oracle says {want.shape} {want.dtype}"
            )
            compare(f"{entry.name}: {name}, NumPy", got, want.reshape(got.shape), bound)
        else:
            before = data[name]
            assert not isinstance(before, Blank), f"{entry.name}: no expectation for {name}"
            before = before if isinstance(before, np.ndarray) else before.value
            compare(f"{entry.name}: {name}, unchanged", got, before, None)
    assert set(expected) <= set(ran.values), f"{entry.name}: {set(expected) - set(ran.values)} were not read back"
    if entry.prints is not None:
        lines = "\n".join(sorted(ran.printed.splitlines()))
        assert lines == entry.prints(data), f"{entry.name} printed {lines!r}"


def compare(what: str, got: np.ndarray, want: np.ndarray, bound: Near | None) -> None:
    """Bit for bit, or within a bound; NaN equals NaN within a bound."""
    if bound is None or want.dtype.kind not in "fc":
        wrong = _bits(got) != _bits(want)
        if got.dtype.names is None and wrong.ndim > got.ndim:
            wrong = wrong.any(axis=-1)
    else:
        with np.errstate(invalid="ignore"):
            away = np.abs(got.astype(np.complex128) - want.astype(np.complex128))
            wrong = ~(away <= bound.atol + bound.rtol * np.abs(want)) & ~(np.isnan(got) & np.isnan(want))
            wrong &= ~(got == want)
    if wrong.any():
        at = tuple(int(i[0]) for i in np.nonzero(wrong))
        flat = np.ravel_multi_index(at, wrong.shape) if wrong.ndim else 0
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size} elements differ; the first at {at}: "
            f"{got.reshape(-1)[flat % max(1, got.size)]!r} instead of {want.reshape(-1)[flat % max(1, want.size)]!r}"
        )


def digest(values: np.ndarray) -> str:
    """Of all bits of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:24]


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(*values.shape, -1)


def _triple(extent: int | tuple[int, ...]) -> tuple[int, ...]:
    return extent if isinstance(extent, tuple) else (extent,)


def _argument(held: Data, arg: Any) -> Any:
    value = held[arg] if isinstance(arg, str) else arg
    return getattr(value, "object", value)


@dataclass
class _Texels:
    """A CUDA array with the object that reads or writes it."""

    array: Any
    object: Any


def _lent(cp: Any, module: Any, name: str, value: Any, poison: bool) -> Any:
    if isinstance(value, Global):
        array = cp.ndarray(value.value.shape, value.value.dtype, memptr=module.get_global(name))
        array.set(value.value)
        return array
    if isinstance(value, Texture | Surface):
        return _texels(cp, value)
    if isinstance(value, Blank):
        array = cp.empty(value.shape, value.dtype)
        if poison:
            array.data.memset(POISON, array.nbytes)
        return array
    if isinstance(value, Scratch):
        return cp.asarray(value.value)
    if isinstance(value, np.ndarray):
        return cp.asarray(value.view(np.uint8) if value.dtype.names else value)
    return value


def _texels(cp: Any, value: Texture | Surface) -> _Texels:
    texture = cp.cuda.texture
    host = value.value
    bits = 8 * host.dtype.itemsize
    kind = {"i": 0, "u": 1, "f": 2}[host.dtype.kind]
    layered = isinstance(value, Texture) and value.layered
    width, height, depth = [*host.shape[::-1], 0, 0][:3]
    flags = 1 if layered else 2 if isinstance(value, Surface) else 0
    array = texture.CUDAarray(texture.ChannelFormatDescriptor(bits, 0, 0, 0, kind), width, height, depth, flags)
    array.copy_from(host)
    resource = texture.ResourceDescriptor(0, cuArr=array)
    if isinstance(value, Surface):
        return _Texels(array, texture.SurfaceObject(resource))
    description = texture.TextureDescriptor(
        (value.mode,) * 3, int(value.linear), int(value.fractions), None, None, int(value.normalised)
    )
    return _Texels(array, texture.TextureObject(resource, description))


@contextlib.contextmanager
def _captured(active: bool) -> Iterator[list[str]]:
    """What ``printf`` of a kernel writes meanwhile: a GPU to the process's output, the simulated device to Python's."""
    text = [""]
    if not active:
        yield text
        return
    sys.stdout.flush()
    kept = os.dup(1)
    words = io.StringIO()
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            with contextlib.redirect_stdout(words):
                yield text
        finally:
            if sys.platform != "win32":
                ctypes.CDLL(None).fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            text[0] = words.getvalue() + file.read().decode(errors="replace")
