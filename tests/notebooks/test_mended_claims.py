"""What chapters once said wrongly about CUDA, and has to stay as it was mended: each claim with its words."""

from __future__ import annotations

import pytest

from cudalab.dev import notebook_format as rules
from tests.notebooks.chapter import ROOT

CLAIMS = {
    "shuffles with _sync are older than 7.0": (
        "01",
        "whose names end in `_sync`, came with CUDA 9, for all capabilities. From 7.0 on they are a must",
    ),
    "PTX for sm_90a is not portable": ("01", "PTX for `sm_90a` runs on that architecture and on no other"),
    "programmatic launches came with 9.0": ("01", "| 9.0 | clusters (07); synchronization domains (09); programmatic"),
    "blocks are resident together by no guarantee": (
        "01",
        "Blocks of a grid run in any order, at once or one after the",
    ),
    "a barrier waits for threads that have not exited": (
        "06",
        "`__syncthreads()` waits for all threads of the block that have not exited",
    ),
    "that is guaranteed from 7.0": (
        "06",
        "A barrier waits for the threads that have not exited (compute capability 7.0 and later; before, a barrier "
        "without them was undefined",
    ),
    "merged loads go with the lesson on padding": (
        "06",
        "merges loads of neighbouring words (**typical**). Rows of 33 are",
    ),
    "an atomic's default order": ("09", "is *sequentially consistent* (`cuda::memory_order_seq_cst`)"),
    "kernels are no floor while they fill no device": ("11", "*K* is a floor only while a kernel fills the device"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_it_says_so(claim: str) -> None:
    chapter, words = CLAIMS[claim]
    (path,) = (ROOT / "notebooks").glob(f"{chapter}_*.ipynb")
    assert words in "\n".join(cell.source for cell in rules.read(path).cells if cell.cell_type == "markdown")
