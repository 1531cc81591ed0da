"""Which cells of a notebook led to the output of another, by the names that they bind and read.

A cell depends on the cell that bound a name last before it, for each name that it reads, also in the bodies of
functions; on the cells in between that had the same object in hand and so may have changed it; and on what those depend
on in turn. Functions bring along the names that their bodies read, as they stand where the function is called. Objects
that are not changed (imported modules, functions, kernels, streams, constants), and names that are only put into a text
(``f"{label}"``), tie cells to the one that bound them and to none in between.

``%%cuda NAME`` binds ``NAME`` and reads nothing; ``%%isolated`` reads only what stands after ``--with``. A cell that is
not Python otherwise depends on all before it, and all after it depend on it.

What cannot be seen: what a cell did to the device (its queue, its caches, its allocators) or to a module by way of
imported names alone, as ``cudalab.reset()`` does; and a change of an object by another of its names (``row = x[0]``,
then ``row[:] = 1``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

_MAGIC = re.compile(r"%%(cuda|isolated)\b(.*)")
_MAKERS = {"RawKernel", "get_function", "Stream"}
"""Methods that make what is not changed: of a stream only its queue is, which is the device's."""
_CONSTANT = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)


@dataclass
class Names:
    """The names of one cell."""

    binds: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    handles: set[str] = field(default_factory=set)
    """Of those that it reads, the ones whose object it may change: all but what is only put into a text."""
    later: set[str] = field(default_factory=set)
    """Names that the bodies of its functions read, when they are called."""
    fixed: set[str] = field(default_factory=set)
    """Of those that it binds, the ones whose object does not change."""
    opaque: bool = False
    """It is not Python, so it may bind and read anything."""


def names_of(source: str) -> Names:
    """What a cell binds and reads."""
    if magic := _MAGIC.match(source):
        return _of_magic(magic[1], magic[2].split())
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return Names(opaque=True)
    scope = _Scope()
    scope.visit(tree)
    found = Names(scope.binds, scope.reads | scope.later, scope.handles | scope.later, scope.later)
    changing = {name for statement in tree.body if not _is_fixed(statement) for name in _bound(statement)}
    found.fixed = found.binds - changing
    return found


def _of_magic(kind: str, words: Sequence[str]) -> Names:
    if kind == "isolated":
        given = {name for word in words for name in word.split(",")} if "--with" in words else set()
        return Names({"_isolated"}, given, fixed={"_isolated"})
    module = {words[at + 1] for at, word in enumerate(words[:-1]) if word == "--module"}
    return Names({*words[:1], *module}, fixed=set(words[:1]))


def _bound(statement: ast.stmt) -> set[str]:
    scope = _Scope()
    scope.visit(statement)
    return scope.binds


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


class _Scope(ast.NodeVisitor):
    """The names of a module or of a function's body."""

    def __init__(self) -> None:
        self.binds: set[str] = set()
        self.reads: set[str] = set()
        self.handles: set[str] = set()
        self.later: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.reads.add(node.id)
            self.handles.add(node.id)
        else:
            self.binds.add(node.id)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        if isinstance(node.value, ast.Name):
            self.reads.add(node.value.id)
        else:
            self.visit(node.value)
        if node.format_spec is not None:
            self.visit(node.format_spec)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self.reads.add(node.target.id)

    def visit_alias(self, node: ast.alias) -> None:
        self.binds.add(node.asname or node.name.partition(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.generic_visit(node)
        if node.name:
            self.binds.add(node.name)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.binds.add(node.name)
        self._visit_all([*node.decorator_list, *_defaults(node.args)])
        self._enter(node.body, {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)})

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(_defaults(node.args))
        self._enter([node.body], {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)})

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.binds.add(node.name)
        self._visit_all([*node.decorator_list, *node.bases])
        self._enter(node.body, set())

    def _comprehension(self, node: ast.expr) -> None:
        inner = _Scope()
        inner.generic_visit(node)
        self.reads |= inner.reads - inner.binds
        self.handles |= inner.handles - inner.binds
        self.later |= inner.later - inner.binds

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _enter(self, body: Iterable[ast.AST], parameters: set[str]) -> None:
        """The body of a function: what is not its own is read when it is called, or bound for all by ``global``."""
        inner = _Scope()
        inner._visit_all(body)
        shared = {
            name for node in body for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names
        }
        self.binds |= shared
        self.later |= (inner.reads | inner.later) - ((inner.binds | parameters) - shared)


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(each for each in arguments.kw_defaults if each is not None)]


class Dataflow:
    """The dependencies between the cells of one notebook."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.cells = [names_of(source) for source in sources]
        self._touched = cache(self._names_touched)

    def led_to(self, at: int) -> list[int]:
        """The cells that cell ``at`` depends on, in order."""
        if self.cells[at].opaque:
            return list(range(at))
        found = {cell for cell in range(at) if self.cells[cell].opaque}
        waiting = [(at, name) for name in self.cells[at].reads]
        seen = set(waiting)
        while waiting:
            before, name = waiting.pop()
            for cell in self._history(before, name):
                found.add(cell)
                needed = {(cell, each) for each in self.cells[cell].reads} | {
                    (before, each) for each in self._later(cell, name)
                }
                waiting += needed - seen
                seen |= needed
        return sorted(found)

    def _history(self, before: int, name: str) -> Iterator[int]:
        """The cell that bound the name last before cell ``before``, and those since that may have changed it."""
        binder = self._binder(before, name)
        if binder is None:
            return
        yield binder
        if name not in self.cells[binder].fixed:
            yield from (cell for cell in range(binder + 1, before) if name in self._touched(cell))

    def _binder(self, before: int, name: str) -> int | None:
        return next((cell for cell in reversed(range(before)) if name in self.cells[cell].binds), None)

    def _later(self, cell: int, name: str) -> set[str]:
        """What the functions of a cell read when they are called, if ``name`` is bound there."""
        return self.cells[cell].later if name in self.cells[cell].binds else set()

    def _names_touched(self, at: int) -> set[str]:
        """The names whose objects a cell may change, by way of the functions that it calls included."""
        found: set[str] = set()
        waiting = list(self.cells[at].handles)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                binder = self._binder(at, name)
                waiting += self._later(binder, name) if binder is not None else ()
        return found
