"""An answer: the text of a kernel or of a Python function, from the object or from the source itself; or a value."""

from __future__ import annotations

import inspect
import linecache
import textwrap
from dataclasses import dataclass
from types import FunctionType

from cudalab.cells.magics import compiler_options
from cudalab.checks.exercise import AnswerKind
from cudalab.sim.device.caller import is_cell

MAGIC = "%%cuda"


@dataclass(frozen=True)
class Answer:
    source: str = ""
    """CUDA C++, or Python where the exercise asks for a function."""
    options: tuple[str, ...] = ()
    """Compiler options the learner gave."""
    value: object = None
    """The value itself, where the exercise asks for one."""


def read_answer(given: object, kind: AnswerKind = "kernel") -> Answer:
    """The answer in ``given``: text, a whole ``%%cuda`` cell with its options included, an object with ``code`` and
    ``options`` (a ``RawKernel``), or, where the exercise asks for one, a function: then the answer is the whole cell
    that defines it. A value is taken as it is.

    Raises:
        TypeError: ``given`` is none of these; the message says what to pass.
    """
    if kind == "value":
        return Answer(value=given)
    if isinstance(given, str):
        head, _, body = given.partition("\n")
        if head.startswith(MAGIC):
            return Answer("\n" + body, compiler_options(head.removeprefix(MAGIC)))  # the magic's line is line 1
        return Answer(given)
    if kind == "function":
        if isinstance(given, FunctionType):
            return Answer(_cell_of(given))
        raise TypeError(
            f"check: the answer is of type {type(given).__name__}; pass the function itself, without calling it, or "
            "its Python source as a string"
        )
    source, options = getattr(given, "code", None), getattr(given, "options", ())
    if isinstance(source, str):
        return Answer(source, tuple(options))
    raise TypeError(
        f"check: the answer is of type {type(given).__name__}; pass the kernel itself (the name after %%cuda, or a "
        "cp.RawKernel) or its CUDA C++ source as a string"
    )


def _cell_of(function: FunctionType) -> str:
    """The cell that defines the function; of a function in a file, its own lines."""
    file = function.__code__.co_filename
    if is_cell(file):
        lines = linecache.getlines(file)
        if lines:
            return "".join(lines)
    try:
        return textwrap.dedent(inspect.getsource(function))
    except OSError:
        raise TypeError(
            f"check: the source of {function.__name__} cannot be found; define it in a cell of the notebook, or pass "
            "its Python source as a string"
        ) from None
