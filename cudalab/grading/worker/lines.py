"""Lines of an answer that runs in another process, as places that findings can name.

Whatever asks which line of the learner's made a call looks at the Python stack. So what the worker asks for is done
within a frame that stands for its line: of a function that is compiled at that line of a file of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def at(file: str, line: int, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
    """Call ``function`` from a line of ``file``; from nowhere, where the line is 0."""
    if not line:
        return function(*arguments, **keywords)
    found: T = _frame(file, line)(function, *arguments, **keywords)
    return found


@lru_cache(1024)
def _frame(file: str, line: int) -> Callable[..., Any]:
    text = "\n" * (line - 1) + "def call(function, /, *arguments, **keywords): return function(*arguments, **keywords)"
    namespace: dict[str, Any] = {}
    exec(compile(text, file, "exec"), namespace)
    call: Callable[..., Any] = namespace["call"]
    return call
