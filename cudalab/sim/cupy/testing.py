"""``cupy.testing``: comparisons of arrays, for your own checks. Arrays on the device come to the host for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._core.creation import asnumpy

_COMPARISONS = (
    "assert_allclose", "assert_array_almost_equal", "assert_array_almost_equal_nulp", "assert_array_equal",
    "assert_array_less", "assert_array_max_ulp",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _COMPARISONS:
        function = globals()[name] = _comparison(name)
        return function
    raise catalogue.missing("cupy.testing", name)


def __dir__() -> list[str]:
    return sorted({*catalogue.offered("cupy.testing", globals()), *_COMPARISONS})


def _comparison(name: str) -> Callable[..., Any]:
    compare = getattr(np.testing, name)

    def function(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        return compare(asnumpy(x), asnumpy(y), *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"NumPy's ``{name}`` for arrays on the device or the host. Raises ``AssertionError``."
    return function


def assert_array_list_equal(xlist: Any, ylist: Any, err_msg: str = "", verbose: bool = True) -> None:
    """Compare two lists of arrays element by element."""
    if len(xlist) != len(ylist):
        raise AssertionError("List size is different")
    for x, y in zip(xlist, ylist, strict=True):
        np.testing.assert_array_equal(asnumpy(x), asnumpy(y), err_msg=err_msg, verbose=verbose)
