"""A kernel that was handed in: the text of a cell, read and never run.

Taken is what a notebook would compile: a ``%%cuda NAME`` cell with its options, or the string literal in
``NAME = cp.RawKernel(r'''…''', "NAME")`` and in ``NAME = r'''…'''``.
"""

from __future__ import annotations

import ast
from typing import Any

from IPython.core.error import UsageError

from cudalab.checks.answer import MAGIC, Answer, read_answer


class Unreadable(ValueError):
    """The cell holds no kernel; the text says what it should hold."""


def read_kernel(cell: str) -> Answer:
    """The kernel in an answer cell, with the options that it is compiled with.

    Raises:
        Unreadable: the cell is none of the forms above.
    """
    if cell.startswith(MAGIC):
        try:
            return read_answer(cell)
        except UsageError as error:
            raise Unreadable(str(error).partition("\n")[0]) from None
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unreadable("the cell neither begins with %%cuda NAME nor is it Python") from None
    found = [answer for statement in tree.body if (answer := _of_statement(statement))]
    if len(found) != 1:
        raise Unreadable(
            f"the cell has {len(found)} kernels as string literals; one is wanted, as in "
            'NAME = cp.RawKernel(r"""…""", "NAME")'
        )
    return found[0]


def _of_statement(statement: ast.stmt) -> Answer | None:
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "RawKernel":
        return _of_raw_kernel(value)
    source = _literal(value)
    return Answer(source) if isinstance(source, str) and "__global__" in source else None


def _of_raw_kernel(call: ast.Call) -> Answer | None:
    given: dict[str, Any] = dict(zip(("code", "name", "options"), map(_literal, call.args), strict=False))
    given.update({word.arg: _literal(word.value) for word in call.keywords if word.arg})
    code, options = given.get("code"), given.get("options") or ()
    if isinstance(options, tuple | list) and all(isinstance(option, str) for option in options):
        return Answer(code, tuple(options)) if isinstance(code, str) else None
    raise Unreadable("the options of cp.RawKernel are to be a tuple of string literals")


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
