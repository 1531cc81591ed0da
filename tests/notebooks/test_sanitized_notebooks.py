"""No false alarm: every launch of the chapters and of the solutions, under all tools of the sanitizer.

Cells are run from top to bottom, as a learner runs them, and each launch is checked on the memory that it finds before
it takes effect. Cells whose kernels are wrong on purpose are listed by name, with what must be found there.
"""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from cudalab.dev import notebook_format as rules
from tests.notebooks.chapter import ROOT, fresh_shell
from tests.sim.machine.sanitizer.checked_launches import checked_launches

NOTEBOOKS = [*rules.course_notebooks(ROOT), *sorted((ROOT / "solutions").glob("*.ipynb"))]
TIME_LIMIT = 10.0  # seconds a block may take

#: Wrong on purpose. What is found where, and why.
PLANTED = {
    # blocks that build on the block before, to show that they have no order
    ("notebooks/01_programming_model", "orders"): {("dependent", "race")},
    # a counter without an atomic, and one whose atomic is of the block's scope only
    ("notebooks/01_programming_model", "counts"): {("plain", "race"), ("block_scope", "race")},
    # only its time matters: the arrays are never filled
    ("notebooks/04_device_memory", "timing-wrong"): {("add", "uninitialised read")},
    # the first of the two barriers is taken out
    ("notebooks/06_shared_memory_matmul", "missing"): {("any_size", "race")},
    # threads outside the matrix return in front of a barrier; their parts of the tile stay unwritten
    ("notebooks/06_shared_memory_matmul", "early-return"): {
        ("any_size", "barrier after exit"),
        ("any_size", "uninitialised read"),
    },
    # the checks make an error that stays with the context: a kernel that writes where nothing is
    ("solutions/03_initialization", "e1-check"): {("wild", "never allocated")},
    ("solutions/03_initialization", "e3-check"): {("wild", "never allocated")},
}

#: Launch nothing in the notebook's own process: chapter 03 is about devices and contexts, its one kernel is isolated.
WITHOUT_LAUNCHES = {"notebooks/03_initialization"}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def found_in(path: Path) -> tuple[int, dict[tuple[str, str], set[tuple[str, str]]], list[str]]:
    """Launches of a notebook, ``(kernel, rule)`` by cell, and all findings in words."""
    launches, found, words = 0, {}, []
    with fresh_shell() as shell:
        for cell in rules.read(path).cells:
            if cell.cell_type != "code":
                continue
            with (
                warnings.catch_warnings(),
                redirect_stdout(io.StringIO()),
                checked_launches(time_limit=TIME_LIMIT) as checked,
            ):
                warnings.simplefilter("ignore")
                ended = shell.run_cell(cell.source, store_history=False)
            error = ended.error_before_exec or ended.error_in_exec
            if error:
                raise error
            launches += len(checked)
            findings = [(kernel, finding) for kernel, each in checked for finding in each.findings]
            if findings:
                found[name_of(path), cell.id] = {(kernel, finding.rule) for kernel, finding in findings}
                words += [f"cell {cell.id}: {finding}" for _, finding in findings]
    return launches, found, words


def test_the_lists_name_cells() -> None:
    cells = {(name_of(path), cell.id) for path in NOTEBOOKS for cell in rules.read(path).cells}
    assert PLANTED.keys() <= cells
    assert {path.parent.name for path in NOTEBOOKS} == {"notebooks", "solutions"}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_nothing_is_found_but_what_is_wrong_on_purpose(path: Path) -> None:
    launches, found, words = found_in(path)
    expected = {cell: rules for cell, rules in PLANTED.items() if cell[0] == name_of(path)}
    assert found == expected, "\n".join(words)
    assert (launches == 0) == (name_of(path) in WITHOUT_LAUNCHES)
