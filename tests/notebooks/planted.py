"""Cells of notebooks that are wrong on purpose, with what is found there and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.notebooks.cell_watch import Seen

PLANTED: Mapping[tuple[str, str], set[str]] = {
    # blocks that build on the block before, to show that they have no order
    ("notebooks/01_programming_model", "orders"): {"dependent: race"},
    # a counter without an atomic, and one whose atomic is of the block's scope only
    ("notebooks/01_programming_model", "counts"): {"plain: race", "block_scope: race"},
    # only its time matters: the arrays are never filled
    ("notebooks/04_device_memory", "timing-wrong"): {"add: uninitialised read"},
    # only the traffic counts: frames of one launch meet at a pixel of the background
    ("notebooks/05_l2_persistence", "two-streams"): {"subtract: race"},
    # the first of the two barriers is taken out
    ("notebooks/06_shared_memory_matmul", "missing"): {"any_size: race"},
    # threads outside the matrix return in front of a barrier; their parts of the tile stay unwritten
    ("notebooks/06_shared_memory_matmul", "early-return"): {
        "any_size: barrier after exit",
        "any_size: uninitialised read",
    },
    # the host reads what a kernel writes, before it has waited
    ("notebooks/08_pinned_memory", "too-early"): {"kernel slowly | the host: host reads before the device has written"},
    # the second stream does not wait for the first
    ("notebooks/11_streams", "forgotten"): {"kernel produce | kernel twice: read after write"},
    # the host fills the buffer again while a copy still reads it
    ("notebooks/11_streams", "letterbox"): {"cudaMemcpy H2D | the host: host writes what the device may still use"},
    # the event is waited for before it is recorded
    ("notebooks/14_events", "wait-first"): {"kernel put | cudaMemcpy D2D: read after write"},
    # the checks bring a device where it cannot be set up: a kernel writes where nothing is
    ("notebooks/03_initialization", "now-warm-check"): {"ruin: null pointer"},
    ("notebooks/03_initialization", "now-use-check"): {"ruin: null pointer"},
    # the checks make an error that stays with the context: a kernel that writes where nothing is
    ("solutions/03_initialization", "e1-check"): {"wild: never allocated"},
    ("solutions/03_initialization", "e3-check"): {"wild: never allocated"},
    ("solutions/03_initialization", "e4-check"): {"wild: never allocated"},
}
"""Findings of the sanitizer, ``kernel: rule``, and hazards, ``what | what: kind``."""


def name_of(notebook: Path) -> str:
    return f"{notebook.parent.name}/{notebook.stem}"


def compare(notebook: Path, cells: Sequence[str], seen: Sequence[Seen]) -> None:
    """Assert that of each cell was seen what is planted there, and that launches were checked at all."""
    name = name_of(notebook)
    by_cell = dict(zip(cells, seen, strict=True))
    found = {cell: set(each.found) for cell, each in by_cell.items() if each.found}
    expected = {cell: what for (where, cell), what in PLANTED.items() if where == name}
    words = [f"cell {cell}: {text}" for cell, each in by_cell.items() for text in each.words]
    assert found == expected, "\n".join(words)
    assert any(each.launches for each in seen)
