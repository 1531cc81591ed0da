"""Where a plain value is tried: a number, a text, a tuple or list of them, or an array.

The check computes what is right by running something, on a simulated device of its own where it needs one::

    def examine(bench: ValueBench) -> None:
        with simulated() as device:                     # cudalab.checks.session
            right = ...
        bench.expect(right, tolerance=0.01, known=(Known("bytes, not elements", 4 * right),), look="the unit")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cudalab.checks.bench import Bench, Known
from cudalab.checks.comparison import agree

_LONGEST = 60
"""Characters of a value that feedback shows as a whole."""


class ValueBench(Bench):
    """Tries one value."""

    def _run(self) -> None:
        self.exercise.examine(self)

    @property
    def value(self) -> Any:
        """The answer, in host memory."""
        value: Any = self.answer.value
        return value.get() if hasattr(value, "get") and hasattr(value, "dtype") else value

    def expect(self, expected: Any, *, tolerance: float = 0.0, known: Sequence[Known] = (), look: str = "") -> None:
        """Compare the value with the right one: equal, or within ``tolerance`` (relative, and absolute near 0). The
        finding does not say what is right: the learner is to find it."""
        compare_value(self, f"{self.exercise.kernel} is", self.value, expected, tolerance, known, look)


def texts(value: Any) -> list[str] | None:
    """The texts in a list or tuple, as they are now; of what is none, how it is shown. None where it is no list."""
    if not isinstance(value, (list, tuple)):
        return None
    return [str.__str__(each) if isinstance(each, str) else f"{each!r:.60}" for each in value]


def compare_value(
    bench: Bench,
    what: str,
    value: Any,
    expected: Any,
    tolerance: float,
    known: Sequence[Known],
    look: str,
    *,
    tells: bool = False,
) -> None:
    """A finding where the value is not the expected one; ``what`` begins its sentence, ``tells`` lets it say which one
    is right."""
    got, wanted = _array(value), _array(expected)
    if got.dtype.kind != wanted.dtype.kind:
        kind = "a text" if wanted.dtype.kind == "U" else "a number" if wanted.ndim == 0 else "numbers"
        bench.find("correctness", "no value", f"{what} {_shown(value)}; wanted is {kind}", look=look)
    elif got.shape != wanted.shape:
        bench.find("correctness", "wrong shape", f"{what} {_extent(got)}; wanted is {_extent(wanted)}", look=look)
    elif not (right := agree(got, wanted, tolerance)).all():
        fits = [(k.mistake, bool(agree(got, _array(k.values), tolerance).all())) for k in known]
        text = f"{what} {_differing(value, expected, got, wanted, right, tells)}"
        bench.find_wrong(what, text, fits, look)


def _differing(value: Any, expected: Any, got: np.ndarray, wanted: np.ndarray, right: np.ndarray, tells: bool) -> str:
    """What differs: the whole value, or the first wrong element of one that is too long to show."""
    if not tells:
        which = f" in {int((~right).sum())} of its {right.size} places" if got.ndim else ""
        return f"{_shown(value)}, which is not right{which}"
    if not got.ndim or max(len(repr(value)), len(repr(expected))) <= _LONGEST:
        return f"{_shown(value)}; {_shown(expected)} is right"
    first = tuple(int(i) for i in np.argwhere(~right)[0])
    place, count = f"[{', '.join(map(str, first))}]", int((~right).sum())
    is_, should = (
        f"{each[first]:.10g}" if each.dtype.kind == "f" else repr(str(each[first])) for each in (got, wanted)
    )
    return f"{is_} at {place}; {should} is right; {count} of {right.size} elements differ"


def _array(value: Any) -> np.ndarray:
    """The value as an array of floats or of texts, one of CuPy's too; of objects where it is neither."""
    try:
        values = np.asarray(value.get() if hasattr(value, "get") and hasattr(value, "dtype") else value)
    except ValueError:  # lists of different lengths in a list
        return np.asarray(None)
    return values.astype(np.float64) if values.dtype.kind in "biuf" else values


def _extent(values: np.ndarray) -> str:
    if values.ndim == 0:
        return "one value"
    return f"{values.size} values" if values.ndim == 1 else f"an array of shape {values.shape}"


def _shown(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
