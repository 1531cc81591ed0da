"""A learner's kernel with all its processes stays below half a gigabyte, so that thirty fit a classroom's server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import chapters
from cudalab.course import edition

MOST = 500
"""Megabytes (10⁶ bytes)."""
CHAPTERS = [Path(name).stem[:2] for name in edition.names(chapters.ROOT) if name.startswith("notebooks/")]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="counted on Linux only")
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_with_a_cold_cache(chapter: str) -> None:
    """Each with a cache of its own, empty at first. No private copy of the libraries is needed for an honest count:
    their pages count whole, also where other processes have them mapped (``bench/processes_memory.py``)."""
    (run,) = chapters.run_course([chapter], warm=False)
    assert len(run.cells) > 10
    largest = max(run.cells, key=lambda cell: sum(cell.memory))
    assert run.memory < MOST, f"{largest.cell}: {largest.memory} MB of the kernel and the processes that it started"
