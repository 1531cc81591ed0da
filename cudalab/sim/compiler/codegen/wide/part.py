"""The wide form of a region, as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class WidePart:
    """The text of a wide form, by the parts of the function it belongs to. ``latch`` ends with the values ``%wide.or``
    and ``%wide.and`` of the lanes' states; ``fits`` (i1) says whether the block's shape allows it."""

    width: int
    allocas: list[str]
    launch: list[str]
    block: list[str]
    row: list[str]
    group: list[str]
    body: list[str]
    latch: list[str]
    fits: str
