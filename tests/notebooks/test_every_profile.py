"""Every chapter on every device profile: it runs through, and compared cells print what an H200 printed.

Where a device differs on purpose, the cell stands here with what it prints there and why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cudalab.dev import notebook_format as rules
from cudalab.sim.device import profile
from tests.notebooks.test_notebooks import CHAPTERS, run_nbval

PAIRS = [(name, path) for name in profile.names() for path in CHAPTERS if name != profile.DEFAULT]

_IN_TURN = {
    "done-first": ["urgent most urgent:     cudaSuccess"],
    "one-round": ["higher priority, 10 rounds; the batch, when urgent is done: cudaSuccess"],
    "wrong-number": ["with the greatest priority:     cudaSuccess"],
    "forgotten-stream": ["within high:     the batch: cudaSuccess"],
    "null-between": ["non-blocking streams: cudaSuccess"],
}
"""Where an urgent kernel of chapter 12 comes behind the batch."""

DIFFERENT: Mapping[tuple[str, str], Mapping[str, Sequence[str]]] = {
    # NVRTC makes code for compute capability 12.0 in which each way stores for itself and ends: less is left that all
    # lanes do together, 16.3 lanes an instruction instead of 16.5
    ("cc120", "01"): {"divergence": ["by_lane: 0 % of branches keep their warp together, 16 of 32 lanes work"]},
    # Devices of compute capability 3.0 and below: dependency checks hold up other streams until everything launched
    # before is done, and the guide's long list of calls separates streams ("Implicit Synchronization")
    ("legacy", "11"): {
        "explicit": ["after b.wait_event(done) a: cudaSuccess  b: cudaErrorNotReady"],
        "implicit": ["cudaHostAlloc                waits   waits", "cudaMemset                   waits   waits"],
    },
    # Devices below compute capability 3.5 have no priorities ("Stream Priorities")
    ("legacy", "12"): {
        "range": ["least urgent: 0  most urgent: 0"],
        "clamped": ["asked for -100, got  0"],
        "defaults": ["changed: 0"],
        **_IN_TURN,
    },
    # One kernel at a time: no block of another gets a place before all of the first have ended (concurrentKernels)
    ("h200-serial", "12"): _IN_TURN,
}


def test_what_differs_is_a_compared_cell() -> None:
    for (name, number), cells in DIFFERENT.items():
        (path,) = (path for device, path in PAIRS if device == name and path.name.startswith(number))
        compared = [cell.id for cell in rules.read(path).cells if rules.is_compared(cell)]
        assert set(cells) <= set(compared)


@pytest.mark.parametrize(("name", "path"), PAIRS, ids=[f"{name}-{path.stem}" for name, path in PAIRS])
@pytest.mark.long
@pytest.mark.timeout(900)
def test_chapter_runs_and_compared_cells_hold(name: str, path: Path, tmp_path: Path) -> None:
    ended, witness = run_nbval(path, tmp_path, device=f"sim:{name}")
    code = [cell for cell in rules.read(path).cells if cell.cell_type == "code" and cell.source.strip()]
    assert witness is not None and len(witness["collected"]) == len(code), ended.stdout[-6000:]
    failed = {code[int(number)].id for number in re.findall(r"^FAILED .*::Cell (\d+)", ended.stdout, re.MULTILINE)}
    different = DIFFERENT.get((name, path.name[:2]), {})
    assert failed == set(different), ended.stdout[-6000:]
    for line in (line for lines in different.values() for line in lines):
        assert line in ended.stdout, ended.stdout[-6000:]
