"""Solutions are clean: all launches under the tools of the sanitizer, and no hazard but what is there on purpose.

Cells run from top to bottom in this process, as ``cell_watch.py`` sees them. Chapters are watched while nbval runs them
(``test_notebooks.py``).
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from cudalab.dev import notebook_format as rules
from cudalab.sim.device.hazards import HazardWarning
from tests.notebooks import planted
from tests.notebooks.cell_watch import CellWatch, Seen
from tests.notebooks.chapter import ROOT, fresh_shell

SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))


def seen_in(cells: dict[str, str]) -> list[Seen]:
    """What is seen of each of the cells, which run one after the other; they raise nothing."""
    seen: list[Seen] = []
    with fresh_shell() as shell, redirect_stdout(io.StringIO()):
        CellWatch(shell, seen.append)
        for name, source in cells.items():
            ended = shell.run_cell(source, store_history=False)
            assert ended.success, f"{name}: {ended.error_before_exec or ended.error_in_exec!r}"
    return seen


def test_the_list_names_cells() -> None:
    notebooks = [*rules.course_notebooks(ROOT), *SOLUTIONS]
    cells = {(planted.name_of(path), cell.id) for path in notebooks for cell in rules.read(path).cells}
    assert planted.PLANTED.keys() <= cells


RACE = """
race = cp.RawKernel('''extern "C" __global__ void race(int* x) { x[0] = threadIdx.x; }''', "race")
for _ in range(3):
    race((1,), (64,), (x,))
cp.cuda.Device().synchronize()
"""
HAZARD = """
for stream in cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True):
    x.data.memset_async(0, 4, stream)
cp.cuda.Device().synchronize()
"""


DOUBTFUL = """%%cuda late
extern "C" __global__ void late(int* x) { __syncthreads; x[0] = 1; }
"""


def test_a_cell_is_told_of_what_it_does_wrong() -> None:
    """A launch that is repeated is checked twice."""
    cells = {"setup": "from cudalab import cp\nx = cp.zeros(1, cp.int32)", "race": RACE, "hazard": HAZARD, "none": "x"}
    cells["doubt"] = DOUBTFUL
    with pytest.warns(HazardWarning):
        seen = seen_in(cells)
    assert [each.launches for each in seen] == [0, 2, 0, 0, 0]
    assert [each.found for each in seen] == [[], ["race: race"], ["memset | memset: write after write"], []] + [
        ["looks like a mistake"]
    ]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_nothing_is_found_but_what_is_wrong_on_purpose(path: Path) -> None:
    cells = {cell.id: cell.source for cell in rules.read(path).cells if cell.cell_type == "code"}
    planted.compare(path, list(cells), seen_in(cells))
