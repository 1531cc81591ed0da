"""What the kernels of the third held-out set are to leave, by NumPy: for each a function of its launch's arguments
(arrays as they were before it) that gives, by an argument's number, what its beginning holds afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reference = Callable[..., dict[int, Any]]


class References(dict[str, Reference]):
    """By the name of the kernel."""

    def of(self, *others: str) -> Callable[[Reference], Reference]:
        """Enter a function for the kernel of its name, and for others that leave the same."""

        def enter(function: Reference) -> Reference:
            self.update(dict.fromkeys((function.__name__, *others), function))
            return function

        return enter
