"""What an answer in Python may not replace while a check is under way.

A notebook's answer runs in the process of its check, where Python lets it put anything in the place of the functions
that the check itself calls: of the runtime, to find out what is right, or of the bench, to note what is wrong. After
each call of the answer's function all of these are put back, and what was replaced is a finding.

This is no jail. Code that puts things back itself, that waits in another thread, or that reaches the check's objects
through the collector, is not seen. Scores of record come from the grader, whose worker has nothing of the check's.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

_PACKAGE = __name__.partition(".")[0]
_HOOKS: tuple[tuple[str, Callable[[], Any], Callable[[Any], None]], ...] = (
    ("sys.settrace", sys.gettrace, sys.settrace),
    ("sys.setprofile", sys.getprofile, sys.setprofile),
)
_Owner = ModuleType | type
_MISSING = object()


class Kept:
    """The functions and classes of cudalab, of NumPy's own module and of Python's, as they are now."""

    def __init__(self) -> None:
        self._members = list(_members())
        self._code = [(function, function.__code__) for _, _, function in self._members if _is_function(function)]
        self._own = {owner: frozenset(vars(owner)) for owner, _, _ in self._members if isinstance(owner, type)}
        """By class, what it has itself: what an answer adds would cover what the class inherits."""
        self._hooks = [get() for _, get, _ in _HOOKS]

    def restore(self, *objects: object) -> list[str]:
        """Put back what is not as it was, and say what that is, by name. Of ``objects``, what covers a method of their
        class counts, too."""
        changed = []
        for owner, name, value in self._members:
            if vars(owner).get(name, _MISSING) is not value:
                setattr(owner, name, value)
                changed.append(_named(owner, name))
        for function, code in self._code:
            if function.__code__ is not code:
                function.__code__ = code
                changed.append(function.__qualname__)
        for one, names in self._own.items():
            if len(vars(one)) > len(names):
                for name in [name for name in vars(one) if name not in names and _covers(one, name)]:
                    delattr(one, name)
                    changed.append(_named(one, name))
        for given in objects:
            for name in vars(given).keys() & dir(type(given)):
                delattr(given, name)
                changed.append(_named(type(given), name))
        for (name, get, put), before in zip(_HOOKS, self._hooks, strict=True):
            if get() is not before:
                put(before)
                changed.append(name)
        return changed


def _members() -> Iterable[tuple[_Owner, str, Any]]:
    """Every function and class of a module, and what each class has of them."""
    classes: set[type] = set()
    for module in _modules():
        for name, value in list(vars(module).items()):
            if callable(value):
                yield module, name, value
            if isinstance(value, type) and value.__module__.partition(".")[0] == _PACKAGE:
                classes.add(value)
    for one in classes:
        for name, value in list(vars(one).items()):
            if callable(value) or hasattr(value, "__get__"):
                yield one, name, value


def _modules() -> list[ModuleType]:
    own = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == _PACKAGE]
    return [*own, np, builtins]


def _covers(one: type, name: str) -> bool:
    """Is this a method in the place of an inherited one?"""
    return callable(vars(one)[name]) and hasattr(super(one, one), name)


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType)


def _named(owner: _Owner, name: str) -> str:
    return f"{owner.__name__.rpartition('.')[2]}.{name}"
