"""Cells that only draw: one call of ``cudalab.plot`` with literal arguments.

What they show follows from their code, on every machine and without a device. So they take no part in the hash of what
a device gave, and their stored picture is drawn by ``python -m cudalab notebooks --fix``, without running the notebook.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import Any

import nbformat

_HOME = "cudalab.plot"


def is_drawing(cell: Any) -> bool:
    return cell.cell_type == "code" and _call(cell.source) is not None


def drawing_hash(source: str) -> str:
    """What the stamp of a drawing holds: the hash of its own code, and nothing of a device."""
    return hashlib.sha256(source.strip().encode()).hexdigest()[:16]


def rules(cell: Any, stamp: Any) -> Iterator[str]:
    """Is the stored picture that of the cell's code?"""
    if not cell.outputs or stamp != {"source_hash": drawing_hash(cell.source)}:
        yield "its drawing is missing or older than its code; run `python -m cudalab notebooks --fix`"


def draw(cell: Any) -> None:
    """Put the picture of a drawing cell, and its sentence, in the place of its outputs."""
    cell.execution_count = 0  # nbval takes outputs without a count for a mistake
    picture = _picture(cell.source)
    data, metadata = picture.bundle()
    drawing = nbformat.v4.new_output("display_data", data=data, metadata=metadata)
    cell.outputs = [drawing, nbformat.v4.new_output("display_data", data=picture.caption())]


def _picture(source: str) -> Any:
    from cudalab.plots import plot  # loads matplotlib

    found = _call(source)
    assert found is not None
    name, arguments, named = found
    return getattr(plot, name)(*arguments, **named)


def _call(source: str) -> tuple[str, list[Any], dict[str, Any]] | None:
    """The function of ``cudalab.plot`` that a cell calls, and its arguments; None for any other cell."""
    try:
        (statement,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=home, attr=name), args=given, keywords=words)):
            if ast.unparse(home) != _HOME:
                return None
            try:
                arguments = [ast.literal_eval(each) for each in given]
                return name, arguments, {word.arg or "": ast.literal_eval(word.value) for word in words}
            except ValueError:  # not a literal
                return None
    return None
