"""Tables as CSV files that a spreadsheet shows as they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Cells that a spreadsheet would take for a formula get an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row])
    return text.getvalue()
