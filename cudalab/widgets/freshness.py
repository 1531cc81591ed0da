"""Does a function still do what it did when a point was measured?

A tuner keeps the points that have run. When the learner runs the cell of the function again, or binds other arrays to
the names that it uses, old and new points do not belong in one curve. So what a function looks at is remembered:
itself, and what its global names and the variables around it stand for, through functions, lists and dictionaries of
the learner's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

_MOST = 256  # things that are looked at


def latest(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the function's name stands for now, where the learner has defined it anew; else the function itself."""
    names = getattr(function, "__globals__", {})
    found = names.get(getattr(function, "__name__", ""))
    if isinstance(found, FunctionType) and isinstance(function, FunctionType):
        same_place = found.__module__ == function.__module__ and found.__qualname__ == function.__qualname__
        return found if same_place and found.__globals__ is names else function
    return function


class Snapshot:
    """What a function looks at, at one moment. It keeps no array alive."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._seen = [(name, _hold(value)) for name, value in _walk(function)]

    def holds_for(self, function: Callable[..., Any]) -> bool:
        """Does ``function`` look at the very same?"""
        now = list(_walk(function))
        return len(now) == len(self._seen) and all(
            name == before and _is(held, value) for (before, held), (name, value) in zip(self._seen, now, strict=True)
        )


def _walk(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Names and values, each once, what is called included."""
    waiting: list[tuple[str, Any]] = [("", function)]
    met: set[int] = set()
    for _ in range(_MOST):
        if not waiting:
            return
        name, value = waiting.pop(0)
        yield name, value
        if id(value) in met:
            continue
        met.add(id(value))
        if isinstance(value, FunctionType) and not (value.__module__ or "").startswith(("cudalab", "cupy", "numpy")):
            waiting += _looked_at(value)
        elif isinstance(value, (list, tuple)):
            waiting += [(f"{name}[{at}]", entry) for at, entry in enumerate(value)]
        elif isinstance(value, dict):
            waiting += [(f"{name}[{key!r}]", entry) for key, entry in value.items()]


def _looked_at(function: FunctionType) -> list[tuple[str, Any]]:
    outside: dict[str, Any] = {}
    for name in _names(function.__code__):
        if name in function.__globals__:
            outside[name] = function.__globals__[name]
    cells: Mapping[str, Any] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    for name, cell in cells.items():
        try:
            outside[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return [(name, value) for name, value in outside.items() if not isinstance(value, (ModuleType, type))]


def _names(code: CodeType) -> list[str]:
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _hold(value: Any) -> Any:
    """The value where it is a plain one; else a reference that keeps nothing alive, or what tells it apart."""
    if isinstance(value, (int, float, complex, str, bytes, bool, type(None))):
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return (id(value), type(value))


def _is(held: Any, value: Any) -> bool:
    if isinstance(held, weakref.ref):
        return held() is value
    if isinstance(held, tuple):
        return held == (id(value), type(value))
    return type(held) is type(value) and bool(held == value or (held != held and value != value))
