"""Is a program still well defined? Asked of what the shrinker makes; the generator's programs are, by construction."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from tests.fuzz import program as p
from tests.fuzz.operation import Operation
from tests.fuzz.scalar import Scalar


class Invalid(Exception):
    """The rule that the program breaks."""


def is_valid(program: p.Program) -> bool:
    """Does the program declare what it uses, and do threads meet only where all of them come by?"""
    try:
        require_valid(program)
    except Invalid:
        return False
    return True


@dataclass
class _Place:
    names: set[str] = field(default_factory=set)
    readable: set[str] = field(default_factory=set)
    totals: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    uniform: bool = False
    mask: str = ""
    loops: int = 0
    kernel: bool = True

    def inner(self, **changes: Any) -> _Place:
        copies = {name: set(getattr(self, name)) for name in ("names", "readable", "totals", "functions")}
        return replace(self, **{**copies, **changes})


def require_valid(program: p.Program) -> None:
    """Raise `Invalid` with the rule that the program breaks, if any."""
    structs = {struct.name: struct for struct in program.structs}
    tables = {array.name for array in program.arrays if array.space == "module"}
    for function in program.functions:
        place = _Place(kernel=False, readable=set(tables), functions={each.name for each in program.functions})
        place.names = {name for name, _ in function.parameters}
        if not function.body or not isinstance(function.body[-1], p.Return):
            raise Invalid("a function without a value at its end")
        _body(function.body, place)
    place = _Place(uniform=True, mask="wm")
    place.functions = {function.name for function in program.functions}
    place.names = {*p.SPECIALS, "tid", "gid", "lane"}
    for parameter in program.parameters:
        place.names.add(parameter.name)
        if parameter.struct:
            members = structs[parameter.struct].members
            place.names |= {f"{parameter.name}.{name}" for name, _ in members}
    for array in program.arrays:
        if array.role in ("input", "constant", "table", "own", "output"):
            place.readable.add(array.name)
        elif array.role == "total" and array.space == "global":
            place.totals.add(array.name)
    _body(program.body, place)


def _body(body: tuple[p.Statement, ...], place: _Place) -> None:
    for number, statement in enumerate(body):
        if isinstance(statement, p.Return) and number != len(body) - 1:
            raise Invalid("statements after a return")
        _statement(statement, place)


def _statement(s: p.Statement, place: _Place) -> None:
    for each in fields(s):
        value = getattr(s, each.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, (p.Constant, p.Variable, p.Member, p.Apply, p.Convert, p.Choose, p.Element, p.Call)):
                if not isinstance(s, (p.Stride, p.Dwindle, p.While)):
                    _expression(item, place)
    mask = getattr(s, "mask", None)
    if mask is not None and mask != place.mask:
        raise Invalid("lanes that are not together")
    if isinstance(s, (p.Barrier, p.Exchange, p.Totals)) and not place.uniform:
        if not (isinstance(s, p.Exchange) and place.mask == "wm"):
            raise Invalid("a barrier where threads part")
    if isinstance(s, (p.Break, p.Continue)) and not place.loops:
        raise Invalid("no loop to leave")
    if isinstance(s, (p.Accumulate,)) and s.array not in place.totals:
        raise Invalid("totals out of scope")
    if isinstance(s, p.Return) and place.kernel and s.value is not None:
        raise Invalid("a kernel gives no value")
    _nested(s, place)
    name = getattr(s, "name", None)
    if isinstance(name, str) and not isinstance(s, (p.For, p.While, p.Dwindle, p.Stride)):
        place.names.add(name)
    if isinstance(s, p.LetStruct):
        place.names |= {f"{s.name}.m{number}" for number in range(len(s.values))}
    if isinstance(s, p.LetArray):
        place.readable.add(s.name)
    if isinstance(s, p.If) and any(isinstance(node, p.Return) for node in p.nodes(s)):
        place.uniform, place.mask = False, ""


def _nested(s: p.Statement, place: _Place) -> None:
    apart: dict[str, Any] = {"uniform": False, "mask": ""}
    if isinstance(s, p.If):
        changes = {"loops": 0} if s.uniform else apart
        if s.uniform and any(isinstance(node, p.Return) for node in p.nodes(s)):
            raise Invalid("a return where all threads go on")
        _body(s.then, place.inner(**changes))
        _body(s.otherwise, place.inner(**changes))
    elif isinstance(s, p.For):
        changes = {"loops": 0} if s.uniform else {**apart, "loops": place.loops + 1}
        inner = place.inner(**changes)
        inner.names.add(s.name)
        _body(s.body, inner)
    elif isinstance(s, p.While):
        inner = place.inner(**apart, loops=place.loops + 1)
        inner.names.add(s.name)
        _expression(s.condition, inner)
        _body(s.body, inner)
    elif isinstance(s, p.Switch):
        for case in s.cases:
            _body(case.body, place.inner(**apart))
    elif isinstance(s, (p.Sequence, p.Block)):
        _body(s.body, place if isinstance(s, p.Sequence) else place.inner())
    elif isinstance(s, p.Exchange):
        _body(s.before, place)
        inner = place.inner()
        inner.readable.add(s.array)
        _body(s.body, inner)
    elif isinstance(s, p.Totals):
        inner = place.inner()
        inner.totals.add(s.array)
        _body(s.before, inner)
        inner = place.inner()
        inner.readable.add(s.array)
        _body(s.body, inner)
    elif isinstance(s, p.WarpIf):
        _body(s.then, place.inner(uniform=False, mask=s.mask_then, loops=0))
        _body(s.otherwise, place.inner(uniform=False, mask=s.mask_else, loops=0))
    elif isinstance(s, p.Groups):
        _body(s.body, place.inner(uniform=False, mask=s.group, loops=0))
    elif isinstance(s, p.Dwindle):
        inner = place.inner(uniform=False, mask=s.left, loops=0)
        inner.names.add(s.name)
        _expression(s.condition, inner)
        _body(s.body, inner)
    elif isinstance(s, p.Stride):
        inner = place.inner(**apart)
        inner.names.add(s.name)
        _body(s.body, inner)
        _expression(s.value, inner)


def _expression(e: Any, place: _Place) -> None:
    if isinstance(e, p.Variable) and e.name not in place.names:
        raise Invalid(f"{e.name} is not declared")
    if isinstance(e, p.Member) and f"{e.variable}.{e.member}" not in place.names:
        raise Invalid(f"{e.variable}.{e.member} is not declared")
    if isinstance(e, p.Element) and e.array not in place.readable:
        raise Invalid(f"{e.array} is not there")
    if isinstance(e, p.Call) and not {e.function, *e.among} <= place.functions:
        raise Invalid(f"{e.function} is not there")
    for each in fields(e):
        value = getattr(e, each.name)
        for item in value if isinstance(value, tuple) else (value,):
            if is_dataclass(item) and not isinstance(item, (Scalar, Operation)):
                _expression(item, place)
