"""What the time model finds out about values from the PTX."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cudalab.sim.compiler.passes.timing import timed_code


def test_copies_of_copies_derive_from_the_first_whatever_their_order() -> None:
    def move(written: int, read: int) -> Any:
        return SimpleNamespace(name=sorted(timed_code._MOVES)[0], reads=(read,), writes=(written,))

    assert timed_code._made_from([move(3, 2), move(2, 1), move(5, 4)], {1}) == {1, 2, 3}
