"""`Profile.lines`, the assembler's merging and `source(kernel, profile=p)`: what each line did."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import cudalab
from cudalab import cp
from cudalab.analysis.line_counts import LineTable
from cudalab.analysis.profile import Profile
from tests.sim.machine.counters.counter_programs import TILED_MATMUL

MATMUL = TILED_MATMUL.replace("void k(", "void matmul(")
INNER = 10

SPLIT = """
extern "C" __global__ void split(float* x, int n) {
    int i = threadIdx.x;
    float v = x[i];
    if (i % 2 == 0) {
        for (int k = 0; k < n; k++) v = sqrtf(v) + 1.0f;
    }
    x[i] = v;
}"""


def line_of(code: str, text: str) -> int:
    return next(number for number, line in enumerate(code.split("\n"), start=1) if text in line)


@pytest.fixture(scope="module")
def kernel():
    return cp.RawKernel(MATMUL, "matmul")


@pytest.fixture(scope="module")
def product(kernel) -> Profile:
    a, b, c = (cp.zeros((64, 64), cp.float32) for _ in range(3))
    return cudalab.profile(kernel, (4, 4), (16, 16), (a, b, c, np.int32(64)), sample=16)


@pytest.fixture(scope="module")
def split() -> Profile:
    return cudalab.profile(cp.RawKernel(SPLIT, "split"), 1, 64, (cp.ones(64, cp.float32), np.int32(20)))


def test_merged_loads_are_named_and_counted_as_merged(product: Profile) -> None:
    (merged,) = product.merged
    assert (merged.place.line, merged.kind, merged.before, merged.width) == (INNER, "load", 4 * merged.after, 16)
    assert merged.before % 16 == 0
    assert product.shared_loads.requests == 16 * 8 * 4 * 20  # blocks, warps, tiles; 4 of 16 bytes and 16 of 4
    assert product.shared_loads.requests_in_ptx == 16 * 8 * 4 * 32
    assert (
        product.shared_loads.wavefronts == 16 * 8 * 4 * 24
    )  # a broadcast of 16 bytes to each half of a warp takes two
    assert "the assembler merged" in repr(product) and "Shared loads: in the PTX" in repr(product)
    assert "the assembler merged" in product._repr_html_()


def test_machine_code_that_is_missing_is_said(product: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDALAB_CACHE", "off")
    monkeypatch.setattr("cudalab.sim.compiler.machine_code.assembly.read_cubin", _unreadable)
    a, b, c = (cp.zeros((16, 16), cp.float32) for _ in range(3))
    found = cudalab.profile(cp.RawKernel(f"{MATMUL}\n// not read", "matmul"), 1, (16, 16), (a, b, c, np.int32(16)))
    assert found.shared_loads.requests == found.shared_loads.requests_in_ptx == 8 * 32
    assert found.merged == () and "counted as in the PTX: an unknown encoding" in repr(found)
    assert found.lines.at(INNER).machine is None


def _unreadable(*_: object) -> None:
    from cudalab.sim.compiler.machine_code.cubin import CubinError

    raise CubinError("an unknown encoding")


def test_every_instruction_has_a_line(product: Profile) -> None:
    assert sum(entry.instructions for entry in product.lines.source) == product.instructions
    assert sum(entry.share for entry in product.lines.source) == pytest.approx(1)
    assert sum(entry.cost for entry in product.lines.source) == pytest.approx(1)


def test_a_line_has_its_executions_and_its_cost(product: Profile) -> None:
    inner = product.lines.at(INNER)
    assert inner.executions == 16 * 8 * 4 and inner.threads == 32
    assert inner.cost > 0.8 and product.lines.busiest == "shared memory"
    assert [access.kind for access in inner.accesses] == ["shared load"]
    assert inner.machine is not None and inner.machine > 0 and inner.ptx >= 48
    assert product.lines.at(7).sectors == 16 * 8 * 4 * 4


def test_divergence_stands_at_the_branch(split: Profile) -> None:
    condition, loop = split.lines.at(line_of(SPLIT, "if (i")), split.lines.at(line_of(SPLIT, "for (int k"))
    assert (condition.branches, condition.divergent, condition.threads) == (2, 2, 32)
    assert loop.threads == pytest.approx(16, abs=0.5)
    assert sum(entry.divergent for entry in split.lines.source) == split.counts.divergent_branches
    assert "100%" in repr(split.lines)


def test_the_table_is_a_sequence_of_accesses(product: Profile) -> None:
    assert isinstance(product.lines, LineTable)
    assert [line.kind for line in product.lines][:2] == ["global load", "shared store"]
    assert len(product.lines) == 6 and product.lines[0].sectors_per_request == 4


def test_the_table_as_text_and_html(product: Profile) -> None:
    text, page = repr(product.lines), product.lines._repr_html_()
    assert text.split("\n")[0].split()[:5] == ["line", "instructions", "threads", "diverged", "PTX/machine"]
    assert "sum += as[ty][j] * bs[j][tx];" in text and "shared load 1.2 wavefronts" in text
    assert html.escape("for (int j = 0; j < 16; j++)") in page and "modelled, share of shared memory" in page


def test_a_line_that_ran_nothing_is_refused(product: Profile) -> None:
    with pytest.raises(KeyError, match="executed nothing of line 99; it executed lines 2, "):
        product.lines.at(99)


def test_registers_and_memory_come_from_the_assembler(product: Profile) -> None:
    assert product.resources is not None and product.resources.shared == 2048
    assert ("Registers a thread", str(product.resources.registers), "launch__registers_per_thread") in product.rows()


def test_source_with_a_profile_has_counts(kernel, product: Profile) -> None:
    view = cudalab.source(kernel, profile=product)
    text = repr(view)
    row = next(line for line in text.split("\n") if line.startswith(f"{INNER:4}"))
    entry = product.lines.at(INNER)
    assert row.split()[1:4] == ["512", "32", f"{entry.wavefronts:,.0f}"]
    assert "executions" in text and "the assembler merged" in text
    assert repr(product.source()) == text


def test_source_marks_each_line_s_ptx(kernel, product: Profile) -> None:
    page = cudalab.source(kernel, profile=product)._repr_html_()
    (identity,) = set(re.findall(r"<div id='(cudalab-source-\d+)'", page))
    assert f"#{identity}:has(.l{INNER}:hover) .l{INNER}" in page
    assert page.count(f"<div class='l{INNER}'") == len(cudalab.source(kernel).instructions[INNER])
    assert f"id='{identity}-{INNER}'" in page and "bar.sync 0;" in page
    other = cudalab.source(kernel)._repr_html_()
    assert identity not in other and "executions" not in other


def test_a_profile_of_another_kernel_is_refused(kernel, split: Profile) -> None:
    with pytest.raises(ValueError, match="the profile is of 'split' in another program, not of this 'matmul'"):
        cudalab.source(kernel, profile=split)
