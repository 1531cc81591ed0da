"""Make a program that fails smaller while it still fails: statements go, then expressions, then threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.fuzz import program as p
from tests.fuzz.operation import Operation
from tests.fuzz.scalar import BOOL, Scalar
from tests.fuzz.validity import is_valid

_EXPRESSIONS = (p.Constant, p.Variable, p.Member, p.Apply, p.Convert, p.Choose, p.Element, p.Call)
_BODIES = ("body", "then", "otherwise", "before", "cases")


def shrink(program: p.Program, fails: Callable[[p.Program], bool], most: int = 600) -> p.Program:
    """A smaller program that ``fails``, after at most ``most`` trials."""
    trials = 0
    progress = True
    while progress and trials < most:
        progress = False
        for step in (_fewer_threads, _fewer_statements, _simpler_expressions):
            found = True
            while found and trials < most:
                found = False
                for candidate in step(program):
                    candidate = p.without_unused(candidate)
                    if candidate == program or not is_valid(candidate):
                        continue
                    trials += 1
                    if fails(candidate):
                        program, found, progress = candidate, True, True
                        break
                    if trials >= most:
                        break
    return program


def _fewer_threads(program: p.Program) -> Iterator[p.Program]:
    for grid in ((1, 1, 1), (2, 1, 1)):
        if grid != program.grid and grid[0] < program.blocks:
            yield _resized(replace(program, grid=grid))
    for threads in (1, 2, 32, 33, 64):
        if threads < program.threads:
            yield _resized(replace(program, block=(threads, 1, 1)))
    if program.noinline_warp or program.launch_bounds:
        yield replace(program, noinline_warp=False, launch_bounds=False)
    if program.parameters:
        for index in range(len(program.parameters)):
            yield replace(program, parameters=program.parameters[:index] + program.parameters[index + 1 :])


def _resized(program: p.Program) -> p.Program:
    """Arrays for exchanges have an element for each thread."""
    arrays = tuple(
        replace(array, length=program.threads) if array.role in ("meeting", "warp") else array
        for array in program.arrays
    )
    return _with_odd_factors(replace(program, arrays=arrays))


def _with_odd_factors(node: Any) -> Any:
    """Every exchange goes straight, which fits any number of threads."""
    changes: dict[str, Any] = {"factor": 1, "offset": 0} if isinstance(node, p.Exchange) else {}
    for each in fields(node):
        value = getattr(node, each.name)
        if each.name in (*_BODIES, "functions") and value and is_dataclass(value[0]):
            changes[each.name] = tuple(_with_odd_factors(item) for item in value)
    return replace(node, **changes)


def _fewer_statements(node: Any) -> Iterator[Any]:
    """All that the node can become by leaving statements out, most of them first."""
    for each in fields(node):
        value = getattr(node, each.name)
        if each.name not in (*_BODIES, "functions") or not isinstance(value, tuple) or not value:
            continue
        if each.name != "functions":
            size = len(value)
            while size:
                for start in range(0, len(value), size):
                    yield replace(node, **{each.name: value[:start] + value[start + size :]})
                size //= 2
            for index, statement in enumerate(value):
                for inner in _opened(statement):
                    yield replace(node, **{each.name: (*value[:index], *inner, *value[index + 1 :])})
        for index, item in enumerate(value):
            for smaller in _fewer_statements(item):
                yield replace(node, **{each.name: (*value[:index], smaller, *value[index + 1 :])})


def _opened(statement: Any) -> Iterator[tuple[Any, ...]]:
    """The bodies of a compound statement in its place."""
    for name in ("body", "then", "otherwise", "before"):
        body = getattr(statement, name, None)
        if body and not isinstance(statement, p.Case):
            yield body
    if isinstance(statement, p.Switch):
        for case in statement.cases:
            yield case.body


def _simpler_expressions(node: Any) -> Iterator[Any]:
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, (Scalar, Operation)) or each.name in ("target", "arrays", "structs", "parameters"):
            continue
        if is_dataclass(value):
            if isinstance(value, _EXPRESSIONS):
                for simple in _simpler(value):
                    yield replace(node, **{each.name: simple})
            for smaller in _simpler_expressions(value):
                yield replace(node, **{each.name: smaller})
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if not is_dataclass(item) or isinstance(item, (Scalar, Operation)):
                    continue
                options = list(_simpler(item)) if isinstance(item, _EXPRESSIONS) else []
                for smaller in (*options, *_simpler_expressions(item)):
                    yield replace(node, **{each.name: (*value[:index], smaller, *value[index + 1 :])})


def _simpler(e: Any) -> Iterator[Any]:
    """Expressions of the same type that are part of this one, or constants."""
    if isinstance(e, p.Constant):
        if e.type is not BOOL and e.value not in (0, 1):
            yield p.Constant(e.type, 1)
        return
    for part in p.nodes(e)[1:]:
        if isinstance(part, _EXPRESSIONS) and part.type is e.type:
            yield part
    yield p.Constant(e.type, 0)
    yield p.Constant(e.type, 1)
