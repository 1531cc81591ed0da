"""The names of one cell: what it binds, and what it reads of the cells before it.

A name that the cell has bound on every path to a place is its own there (*definite assignment*): ``code = …`` and then
``RawKernel(code, …)`` reads nothing from outside, and neither does ``for name in …: print(name)``. A branch, a loop
that may run zero times, or a ``try`` that may end early binds a name only *perhaps*. ``del x`` reads ``x``, and decides
what ``x`` is from there on.

The body of a function reads names when it is called. In its own cell that may be wherever its name is used, so what
is not bound there counts as read. Other cells find it under ``later``.

``%%cuda NAME`` binds ``NAME`` and reads nothing; ``%%isolated`` reads only what stands after ``--with``. A cell that is
not Python otherwise is *opaque*.

Taken for granted: a cell runs to its end, a ``with`` statement passes exceptions on (``contextlib.suppress`` does not),
and a generator is used up where it stands.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_MAGIC = re.compile(r"%%(cuda|isolated)\b(.*)")
_MAKERS = {"RawKernel", "get_function", "Stream"}
"""Methods that make what is not changed: of a stream only its queue is, which is the device's."""
_CONSTANT = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)


@dataclass
class Names:
    """The names of one cell."""

    binds: set[str] = field(default_factory=set)
    """Names that it binds, or deletes, at least perhaps."""
    always: set[str] = field(default_factory=set)
    """Of those, the ones that it binds on every path to its end."""
    reads: set[str] = field(default_factory=set)
    """Names that it reads where it may not have bound them itself."""
    handles: set[str] = field(default_factory=set)
    """Of those that it reads, the ones whose object it may change: all but what is only put into a text."""
    later: dict[str, set[str]] = field(default_factory=dict)
    """By name that it binds: what functions behind that name read when they are called."""
    fixed: set[str] = field(default_factory=set)
    """Of those that it binds, the ones whose object does not change."""
    opaque: bool = False
    """It is not Python, so it may bind and read anything."""

    @property
    def uses(self) -> set[str]:
        """Every name that it binds or reads, the bodies of its functions included."""
        return self.binds.union(self.reads, *self.later.values())


def names_of(source: str) -> Names:
    """What a cell binds and reads."""
    if magic := _MAGIC.match(source):
        return _of_magic(magic[1], magic[2].replace("=", " ").split())
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return Names(opaque=True)
    flow = _Flow()
    flow.run(tree.body)
    changing = {name for statement in tree.body if not _is_fixed(statement) for name in _bound(statement)}
    changing |= flow.shared
    everything = flow.anonymous.union(*flow.functions.values())
    later = {name: everything if name in changing else flow.functions.get(name, set()) for name in flow.binds}
    # where the end is not reached, no cell after this one runs
    always = flow.binds if flow.bound is None else flow.bound
    return Names(flow.binds, always, flow.reads, flow.handles, later, flow.binds - changing, "*" in flow.binds)


def _of_magic(kind: str, words: Sequence[str]) -> Names:
    options = dict(pairwise(words))
    if kind == "isolated":
        return Names(
            {"_isolated"}, {"_isolated"}, set(options.get("--with", "").split(",")) - {""}, fixed={"_isolated"}
        )
    names = {*words[:1], *(value for option, value in options.items() if option == "--module")}
    return Names(names, names, fixed=set(words[:1]))


def _bound(statement: ast.stmt) -> set[str]:
    flow = _Flow()
    flow.run([statement])
    return flow.binds


def _is_fixed(statement: ast.stmt) -> bool:
    """Does the statement bind nothing but objects that cannot be changed?"""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef():
            return True
        case ast.Assign(value=ast.Tuple(elts=values)):
            return all(map(_is_fixed_value, values))
        case ast.Assign(value=value):
            return _is_fixed_value(value)
    return False


def _is_fixed_value(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr=maker)):
            return maker in _MAKERS
    return all(isinstance(node, _CONSTANT) for node in ast.walk(value))


_State = set[str] | None
"""The names bound on every path to a place; None where no path leads."""


def _copy(state: _State) -> _State:
    return None if state is None else set(state)


def _joined(states: Iterable[_State]) -> _State:
    """Where several paths meet, only what is bound on each of them is bound."""
    reached = [state for state in states if state is not None]
    return set.intersection(*reached) if reached else None


class _Flow(ast.NodeVisitor):
    """Goes through statements in the order in which they run, and keeps what is bound for certain."""

    def __init__(self, outer: _Flow | None = None) -> None:
        """With ``outer``: a comprehension or the body of a class there, which runs in place with names of its own."""
        self.bound: _State = _copy(outer.bound) if outer else set()
        self.binds: set[str] = set()
        self.reads: set[str] = set()
        self.handles: set[str] = set()
        self.functions: dict[str, set[str]] = dict(outer.functions) if outer else {}
        """What functions read when they are called, by their names."""
        self.anonymous: set[str] = set()
        """The same of lambdas, and of what classes hold."""
        self.shared: set[str] = set()
        """Names that functions bind for all by ``global``."""
        self._breaks: list[list[_State]] = []
        self._continues: list[list[_State]] = []

    def run(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _bind(self, name: str) -> None:
        self.binds.add(name)
        if self.bound is not None:
            self.bound.add(name)

    def _read(self, name: str, *, handled: bool = True, seen: frozenset[str] = frozenset()) -> None:
        """A use of the name; of a function of this cell it may be a call."""
        if self.bound is None:
            return
        if name not in self.bound:
            self.reads.add(name)
            if handled:
                self.handles.add(name)
        for each in self.functions.get(name, set()) - seen:
            self._read(each, seen=seen | {name, each})

    def _paths(self, *paths: Callable[[], None]) -> None:
        """Exactly one of the paths is taken."""
        before, ends = self.bound, []
        for path in paths:
            self.bound = _copy(before)
            path()
            ends.append(self.bound)
        self.bound = _joined(ends)

    def _perhaps(self, nodes: Iterable[ast.AST | None]) -> None:
        self._paths(lambda: self.run(nodes), lambda: None)

    # Expressions

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            self._read(node.id, handled=isinstance(node.ctx, ast.Load))
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        if isinstance(node.value, ast.Name):
            self._read(node.value.id, handled=False)
        else:
            self.visit(node.value)
        self.run([node.format_spec])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.run([node.value, node.target])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._perhaps(node.values[1:])

    def visit_Compare(self, node: ast.Compare) -> None:
        self.run([node.left, node.comparators[0]])
        self._perhaps(node.comparators[1:])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._paths(lambda: self.visit(node.body), lambda: self.visit(node.orelse))

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        needed, _ = _of_body(node)
        self.anonymous |= needed
        for name in needed:
            self._read(name)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._comprehension(node.generators, [node.elt])

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node.generators, [node.key, node.value])

    def _comprehension(self, generators: Sequence[ast.comprehension], results: Sequence[ast.expr]) -> None:
        self.visit(generators[0].iter)
        inner = _Flow(self)
        for at, each in enumerate(generators):
            inner.run([*([each.iter] if at else []), each.target, *each.ifs])
        inner.run(results)
        self._take(inner)
        own = {name for each in generators for name in _bound(ast.Expr(each.target))}
        self.binds |= inner.binds - own  # by `:=`, and perhaps in no round

    def _take(self, inner: _Flow) -> None:
        self.reads |= inner.reads
        self.handles |= inner.handles
        self.anonymous |= inner.anonymous
        self.shared |= inner.shared

    # Statements that bind

    def visit_Assign(self, node: ast.Assign) -> None:
        self.run([node.value, *node.targets])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.run([node.value, node.annotation])
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.run([node.value, node.target])

    def visit_alias(self, node: ast.alias) -> None:
        self._bind(node.asname or node.name.partition(".")[0])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.run([*node.decorator_list, node.args, node.returns])
        needed, shared = _of_body(node)
        self.functions[node.name] = self.functions.get(node.name, set()) | needed
        self.shared |= shared
        self.binds |= shared
        self._bind(node.name)
        if node.decorator_list:
            self._read(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.run([*node.decorator_list, *node.bases, *node.keywords])
        inner = _Flow(self)
        inner.run(node.body)
        self._take(inner)
        methods = inner.anonymous.union(*inner.functions.values())
        self.functions[node.name] = self.functions.get(node.name, set()) | methods
        self.binds |= inner.shared
        self._bind(node.name)
        if node.decorator_list or node.bases:
            self._read(node.name)

    # Statements with several paths

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._paths(lambda: self.run(node.body), lambda: self.run(node.orelse))

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        before = _copy(self.bound)
        breaks, rounds = self._loop([node.target, *node.body])
        self.bound = _joined(rounds if _has_rounds(node.iter) else [before])
        self.run(node.orelse)
        self.bound = _joined([self.bound, *breaks])

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        before = None if endless else _copy(self.bound)
        breaks, _ = self._loop(node.body)
        self.bound = before
        self.run(node.orelse)
        self.bound = _joined([self.bound, *breaks])

    def _loop(self, body: Iterable[ast.AST]) -> tuple[list[_State], list[_State]]:
        """What is bound where a loop is left by ``break``, and where one of its rounds has ended."""
        self._breaks.append([])
        self._continues.append([])
        self.run(body)
        return self._breaks.pop(), [self.bound, *self._continues.pop()]

    def visit_Break(self, node: ast.Break) -> None:
        self._breaks[-1].append(self.bound)
        self.bound = None

    def visit_Continue(self, node: ast.Continue) -> None:
        self._continues[-1].append(self.bound)
        self.bound = None

    def visit_Raise(self, node: ast.Raise) -> None:
        self.generic_visit(node)
        self.bound = None

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        self._perhaps([node.msg])

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        before = _copy(self.bound)
        handlers = [lambda each=each: self._handler(each, before) for each in node.handlers]
        self._paths(lambda: self.run([*node.body, *node.orelse]), *handlers)
        after, self.bound = self.bound, _copy(before)
        self.run(node.finalbody)
        self.bound = None if after is None or self.bound is None else after | self.bound

    visit_TryStar = visit_Try

    def _handler(self, node: ast.ExceptHandler, before: _State) -> None:
        """The exception may come before anything was bound in the body. Its own name is gone at the end."""
        self.bound = _copy(before)
        self.run([node.type])
        if node.name:
            self._bind(node.name)
        self.run(node.body)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        self.run(node.items)
        if any(ast.unparse(item.context_expr).partition("(")[0].endswith("suppress") for item in node.items):
            self._perhaps(node.body)
        else:
            self.run(node.body)

    visit_AsyncWith = visit_With

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        cases = [lambda each=each: self.run([each.pattern, each.guard, *each.body]) for each in node.cases]
        match node.cases[-1]:
            case ast.match_case(pattern=ast.MatchAs(pattern=None), guard=None):
                self._paths(*cases)
            case _:
                self._paths(*cases, lambda: None)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.generic_visit(node)
        if node.name:
            self._bind(node.name)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest:
            self._bind(node.rest)


def _has_rounds(iterated: ast.expr) -> bool:
    """Is it a list or tuple, written out, that is not empty?"""
    match iterated:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(not isinstance(element, ast.Starred) for element in elements)
    return False


def _of_body(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> tuple[set[str], set[str]]:
    """The names of the module that a function uses when it is called, and those it binds for all by ``global``."""
    used, shared = set(), set()
    tables = symtable.symtable(ast.unparse(function), "cell", "exec").get_children()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            if symbol.is_global():
                used.add(symbol.get_name())
                if symbol.is_assigned():
                    shared.add(symbol.get_name())
    return used, shared
