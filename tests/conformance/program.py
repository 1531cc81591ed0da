"""What a conformance program is: a function that returns plain values, and how to judge them.

A program runs a few lines of CuPy, ``cudart`` or ``driver`` and returns a dict of values: arrays (on the
device or not), integers, strings. Values are compared bit for bit unless ``tolerance`` names a key.
``expect`` is the oracle: from the returned values (which include the inputs) it computes with NumPy what
some of the others must be. ``near`` marks an expectation that holds within a bound only.

Programs that end the process's CUDA context on a GPU (illegal address, ``assert``, ``__trap``) are
``isolated``: each runs in a process of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import inspect
import io
import os
import pkgutil
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Values = dict[str, Any]
Bound = tuple[float, float]
_SHARED = tuple(f"{__package__}.{name}" for name in ("busy", "appending", "launching"))


@dataclass(frozen=True)
class Near:
    """An expected value with the bound ``|got - want| <= atol + rtol * |want|``."""

    value: Any
    rtol: float = 0.0
    atol: float = 0.0


def near(value: Any, rtol: float = 0.0, atol: float = 0.0) -> Near:
    """An expectation that need not hold bit for bit."""
    return Near(value, rtol, atol)


@dataclass(frozen=True)
class Program:
    """One conformance program; ``key`` is ``family/function``."""

    key: str
    behaviour: str
    run: Callable[[], Values]
    expect: Callable[[Values], Values] | None = None
    tolerance: dict[str, Bound] = field(default_factory=dict)
    isolated: bool = False
    timeout: float = 60.0
    devices: int = 1
    """How many devices it takes."""

    @property
    def source_hash(self) -> str:
        """Of the function and every constant and function of its module or a shared one that it uses, whatever their
        layout."""
        text = "".join("\n".join(_sources(self.run)).split())
        for bracket in ")]}":
            text = text.replace("," + bracket, bracket)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


REGISTRY: dict[str, Program] = {}


def program(
    behaviour: str,
    *,
    expect: Callable[[Values], Values] | None = None,
    tolerance: dict[str, Bound] | None = None,
    isolated: bool = False,
    timeout: float = 60.0,
    devices: int = 1,
) -> Callable[[Callable[[], Values]], Callable[[], Values]]:
    """Registers a program. ``behaviour`` says in a few words what it shows.

    ``tolerance`` maps a key of the result to ``(rtol, atol)``, for approximate functions and float sums
    whose order is free; all other values must agree bit for bit.
    """

    def register(function: Callable[[], Values]) -> Callable[[], Values]:
        key = f"{function.__module__.rsplit('.', 1)[-1]}/{function.__name__}"
        if key in REGISTRY and REGISTRY[key].run.__code__.co_filename != function.__code__.co_filename:
            raise ValueError(f"two programs are called {key}")
        REGISTRY[key] = Program(key, behaviour, function, expect, tolerance or {}, isolated, timeout, devices)
        return function

    return register


def load_programs() -> dict[str, Program]:
    """Imports every module of ``programs/`` and returns all programs by key, in order."""
    package = importlib.import_module("tests.conformance.programs")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return REGISTRY


def _sources(function: Callable[..., Any], seen: set[str] | None = None) -> list[str]:
    """The text of ``function`` without its decorators, and of what it uses of its own module or of a shared one."""
    seen = set() if seen is None else seen
    seen.add(function.__name__)
    lines = inspect.getsource(function).splitlines()
    start = next((i for i, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    found = ["\n".join(line.rstrip() for line in lines[start:])]
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        if name in seen or value is None or isinstance(value, types.ModuleType):
            continue
        if inspect.isfunction(value):
            if value.__module__ in (function.__module__, *_SHARED):
                found += _sources(value, seen)
        elif isinstance(value, (str, int, float, tuple, list, dict, bytes)):
            seen.add(name)
            found.append(f"{name} = {value!r}")
    return found


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def raised(call: Callable[[], Any]) -> str:
    """Calls, and says which exception came: ``"none"``, ``"TypeError"``, or for an error of CUDA its type,
    code and text, ``"CUDARuntimeError 1 cudaErrorInvalidValue: invalid argument"``.

    The text of other exceptions is not part of what devices must agree on.
    """
    try:
        call()
    except Exception as error:
        status = getattr(error, "status", None)
        name = type(error).__name__
        return name if status is None else f"{name} {int(status)} {str(error).splitlines()[0]}"
    return "none"


def code(result: Any) -> str:
    """The error's name in what ``cuda.bindings`` returned: ``(error, …)``."""
    return str(result[0].name)


class Printed:
    """What device code printed; ``text`` is complete once the ``with`` block of ``printed`` has ended."""

    text = ""


@contextlib.contextmanager
def printed(descriptor: int = 1) -> Iterator[Printed]:
    """Captures what comes out of ``descriptor`` (1: ``printf``, 2: ``assert``), by whichever way it is written:
    the driver writes through C's stdio, a simulated device through Python's."""
    result = Printed()
    stream_name = "stdout" if descriptor == 1 else "stderr"
    python_stream = getattr(sys, stream_name)
    python_stream.flush()
    flush = ctypes.CDLL(None).fflush
    flush(None)
    saved = os.dup(descriptor)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), descriptor)
        setattr(sys, stream_name, io.TextIOWrapper(os.fdopen(os.dup(descriptor), "wb"), write_through=True))
        try:
            yield result
        finally:
            getattr(sys, stream_name).close()
            setattr(sys, stream_name, python_stream)
            flush(None)
            os.dup2(saved, descriptor)
            os.close(saved)
            file.seek(0)
            result.text = file.read().decode(errors="replace")


def bits(values: Any, dtype: str) -> np.ndarray:
    """Integers given as bit patterns, seen as floats: ``bits([0x7f800000], "f4")``."""
    unsigned = np.dtype(dtype).str.replace("f", "u")
    return np.array(values, dtype=unsigned).view(dtype)
