"""Every kernel of one half of the corpus on the simulated device, whole arrays."""

from __future__ import annotations

import pytest

from .comparison import check, entries
from .kernel import Entry


@pytest.mark.parametrize("entry", entries(foundations=False), ids=lambda entry: f"{entry.topic}-{entry.name}")
def test_agrees_with_numpy_and_with_an_h200(entry: Entry) -> None:
    check(entry)
