"""What counts as a line of the learner's, while a trace is open."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from cudalab.timeline.lines import LineCount

Pair = namedtuple("Pair", "first second")


def library(body: str) -> Callable[[], object]:
    """A function of a module of the library's."""
    names: dict[str, Any] = {"__name__": "cudalab.library", "Pair": Pair}
    exec(f"def function():\n    {body}", names)
    function: Callable[[], object] = names["function"]
    return function


def taken(work: Callable[[], object]) -> int:
    """Lines of the learner's while ``work`` is called once."""
    count = LineCount()
    count.start(inspect.currentframe())
    try:
        count.taken()
        work()
        return count.taken()
    finally:
        count.stop()


def test_named_tuples_that_the_library_makes_are_no_lines_of_the_learners() -> None:
    """Their constructors belong to no module of ours, and a kernel's first launch makes many."""
    assert taken(library("[Pair(1, 2) for _ in range(10)]")) == taken(library("pass")) > 0
