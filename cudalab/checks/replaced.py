"""What an answer in Python may not replace while a check is under way.

A notebook's answer runs in the process of its check, where Python lets it put anything in the place of the functions
that the check itself calls: of the runtime, to find out what is right, or of the bench, to note what is wrong. After
each call of the answer's function all of these are put back, and what was replaced is a finding.

This is no jail. Code that puts things back itself, that waits in another thread, or that reaches the check's objects
through the collector, is not seen. Scores of record come from the grader, whose worker has nothing of the check's.

There are some 14,000 functions and methods, and nearly always all are as they were: whether they are is found out for
all at once, without a loop in Python, and only where one is not, they are looked at one by one.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter, call, is_, itemgetter
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
_code_of = attrgetter("__code__")


class _Members:
    """The functions and classes of a module, or what a class has of them, as they are now."""

    def __init__(self, owner: _Owner) -> None:
        self._owner = owner
        self.now: Mapping[str, Any] = vars(owner)
        """All that the owner has, at any time."""
        self._names = frozenset(self.now)
        self.is_class = isinstance(owner, type)
        is_member = _is_part if self.is_class else callable
        self.kept = {name: value for name, value in list(self.now.items()) if is_member(value)}
        self.others = [name for name in self._names if name not in self.kept]

    def restore(self) -> list[str]:
        """Put back what is no longer there, and take away what covers what a class inherits; the names of both."""
        changed = [name for name, value in self.kept.items() if self.now.get(name, _MISSING) is not value]
        for name in changed:
            setattr(self._owner, name, self.kept[name])
        if self.is_class:
            added = [name for name in self.now if name not in self._names and _covers(self._owner, name)]
            for name in added:
                delattr(self._owner, name)
            changed += added
        return [_named(self._owner, name) for name in changed]


class _State:
    """All functions and classes of a moment."""

    def __init__(self) -> None:
        self._modules = _modules()
        found = [_Members(module) for module in self._modules]
        parts = (value for each in found for value in each.kept.values() if isinstance(value, type))
        classes = dict.fromkeys(part for part in parts if part.__module__.partition(".")[0] == _PACKAGE)
        self._members = [each for each in (*found, *map(_Members, classes)) if each.kept]
        self._values = [value for each in self._members for value in each.kept.values()]
        self._functions = [value for value in self._values if isinstance(value, FunctionType)]
        self._codes = [function.__code__ for function in self._functions]
        self._now = [each.now for each in self._members]
        self._sizes = [len(now) for now in self._now]
        classes_now = [(each.now, len(each.now)) for each in self._members if each.is_class]
        self._of_classes, self._class_sizes = [now for now, _ in classes_now], [size for _, size in classes_now]
        self._kept_names = [_getter(each.kept) for each in self._members]
        self._other_names = [(_getter(each.others), each.now) for each in self._members if each.others]

    def is_whole(self) -> bool:
        """Is there nothing that has come since?"""
        others = chain.from_iterable(get(now) for get, now in self._other_names)
        grown = self._sizes != list(map(len, self._now)) or any(map(callable, others))
        return not grown and _same(self._modules, _modules())

    def unchanged(self) -> bool:
        """Is all as it was? By identity, whatever objects say of themselves."""
        try:
            values = chain.from_iterable(map(call, self._kept_names, self._now))
            same = _same(self._values, values) and _same(self._codes, map(_code_of, self._functions))
        except KeyError:  # taken away
            return False
        return same and self._class_sizes == list(map(len, self._of_classes))

    def restore(self) -> list[str]:
        """Put back what is not as it was; the names of that."""
        if self.unchanged():
            return []
        changed = [name for each in self._members for name in each.restore()]
        for function, code in zip(self._functions, self._codes, strict=True):
            if function.__code__ is not code:
                function.__code__ = code
                changed.append(function.__qualname__)
        return changed


_latest: list[_State] = []
"""The one that was looked at last: where all is as it was then, nothing has to be found anew."""


class Kept:
    """The functions and classes of cudalab, of NumPy's own module and of Python's, as they are now."""

    def __init__(self) -> None:
        if not (_latest and _latest[0].is_whole() and _latest[0].unchanged()):
            _latest[:] = [_State()]
        self._state = _latest[0]
        self._hooks = [get() for _, get, _ in _HOOKS]

    def restore(self, *objects: object) -> list[str]:
        """Put back what is not as it was, and say what that is, by name. Of ``objects``, what covers a method of their
        class counts, too."""
        changed = self._state.restore()
        for given in objects:
            for name in vars(given).keys() & dir(type(given)):
                delattr(given, name)
                changed.append(_named(type(given), name))
        for (name, get, put), before in zip(_HOOKS, self._hooks, strict=True):
            if get() is not before:
                put(before)
                changed.append(name)
        return changed


def _modules() -> list[ModuleType]:
    own = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == _PACKAGE]
    return [*own, np, builtins]


def _getter(names: Iterable[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What a dictionary has under all of these names, of which there is one at least."""
    first, *others = names
    get: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    get = itemgetter(first, *others) if others else lambda now: (now[first],)
    return get


def _same(one: Iterable[object], other: Iterator[object] | Iterable[object]) -> bool:
    """Are they the same objects, one after the other?"""
    return all(map(is_, one, other))


def _is_part(value: Any) -> bool:
    """Is this a method, a property, or a class within a class?"""
    return callable(value) or hasattr(value, "__get__")


def _covers(owner: _Owner, name: str) -> bool:
    """Is this a method in the place of an inherited one?"""
    return isinstance(owner, type) and callable(vars(owner)[name]) and hasattr(super(owner, owner), name)


def _named(owner: _Owner, name: str) -> str:
    return f"{owner.__name__.rpartition('.')[2]}.{name}"
