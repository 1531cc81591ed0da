"""Random kernels against a reference interpreter, and damaged PTX and CUDA C++, which must end in an answer.

`make test` takes a seeded slice; `make test-long` takes 10,000 programs and some thousands of damaged sources, and
``python -m tests.fuzz`` any others.
"""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudalab import cp
from cudalab.analysis.sanitize import sanitize
from cudalab.sim.compiler import CompileError, compile_ptx, native
from tests.fuzz import campaign, hardware, interpreter, regressions, shrink, simulated, validity
from tests.fuzz import program as p
from tests.fuzz.comparison import compare, reference
from tests.fuzz.emit import Emitter
from tests.fuzz.generator import BATCH, generate
from tests.fuzz.operation import Operation
from tests.fuzz.scalar import Scalar

JOBS = max(1, min(4, os.cpu_count() or 1))

#: Seeds that once failed, and what was wrong.
PAST_FAILURES = {
    17: "sanitize: a shuffled order ran other lanes than those of a group that had diverged",
    35: "sanitize: the same, told as a lane that its mask does not name",
    48: "sanitize: the same, without an end",
    774: "the interpreter: x - x rounded down is -0",
    6486: "the larger of an integer and a NaN was NaN",
    5391: "a literal in a register that is written again later had no bits",
    2447: "lanes of a warp that came to a counting barrier after others of it were not counted",
}


#: First seeds of quarters of batches: with half precision, in plain and in footprint code; with cooperative groups, in
#: plain code and under the sanitizer.
QUARTERS = (48, 80, 52, 84)


@pytest.mark.parametrize("first", QUARTERS)
def test_random_programs_agree_with_the_interpreter(first: int) -> None:
    programs = [generate(seed) for seed in range(first, first + BATCH // 4)]
    found = simulated.check(programs, *campaign.turn(first))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("seed", PAST_FAILURES)
def test_programs_that_once_failed_stay_right(seed: int) -> None:
    found = simulated.check([generate(seed)], ("plain",))
    assert not found, "\n".join(map(str, found))


def test_the_interpreter_gives_what_an_h200_gave() -> None:
    recorded = hardware.recorded()
    _compare_with_hardware({seed: recorded[seed] for seed in sorted(recorded)[::25]})


def _compare_with_hardware(recorded: dict[int, tuple[str, str]]) -> None:
    assert recorded
    for seed, (text, result) in recorded.items():
        program = generate(seed)
        assert hardware.text_digest(program) == text, f"the generator has changed: {hardware.__doc__}"
        assert hardware.result_digest(interpreter.run(program)) == result, f"seed {seed} differs from the H200"


def test_programs_run_through_cupy() -> None:
    program = generate(5)
    expected = reference(program)
    assert expected is not None
    assert compare(program, expected, hardware.run_batch([program])[program.seed]) == ""


def _with_mistake(node: Any) -> Any:
    """The same program with a wrong multiplication of 64-bit numbers for the interpreter."""
    if isinstance(node, Operation):
        return replace(node, compute=_wrong_product) if node.name == "mul.u64.u64" else node
    if isinstance(node, tuple):
        return tuple(map(_with_mistake, node))
    if not is_dataclass(node) or isinstance(node, Scalar):
        return node
    return replace(node, **{each.name: _with_mistake(getattr(node, each.name)) for each in fields(node)})


def _wrong_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * b + np.uint64(1)


def test_a_wrong_result_is_noticed_and_shrunk() -> None:
    def fails(candidate: p.Program) -> bool:
        right, wrong = reference(candidate), reference(_with_mistake(candidate))
        return right is not None and wrong is not None and compare(candidate, right, wrong) != ""

    program = generate(1)
    assert fails(program)
    smaller = shrink.shrink(program, fails)
    assert validity.is_valid(smaller)
    assert sum(isinstance(node, p.Apply) for node in p.nodes(smaller)) == 1, Emitter(smaller).text()
    assert not simulated.check([smaller], ("plain",), sanitize=False)
    (found,) = simulated.check([_with_mistake(smaller)], ("plain",), sanitize=False)
    assert found.stage == "plain" and "should be" in found.text


def test_generated_programs_are_valid() -> None:
    """The rules that the shrinker keeps are those of the generator."""
    for seed in range(40):
        validity.require_valid(generate(seed))


def test_the_sanitizer_shuffles_lanes_that_have_parted() -> None:
    kernel = cp.RawKernel(regressions.DWINDLING, "f")
    out = cp.zeros(32, np.int32)
    for seed in (None, 1, 2, 3):
        report = sanitize(kernel, 1, 32, (out,), seed=seed)
        assert report.ok, report
    kernel((1,), (32,), (out,))
    assert len(set(out.get().tolist())) > 4


def test_lanes_that_come_later_to_a_counting_barrier_are_counted() -> None:
    out = cp.zeros(64, np.int32)
    cp.RawKernel(regressions.LATE_LANES, "f")((1,), (64,), (out,))
    np.testing.assert_array_equal(out.get(), 2 * 21)


def test_a_literal_in_a_register_that_is_used_again_can_be_unpacked(tmp_path: Path) -> None:
    out = cp.zeros(4, np.uint32)
    file = tmp_path / "module.ptx"
    file.write_text(regressions.REUSED_REGISTER, encoding="utf-8")
    cp.RawModule(path=str(file)).get_function("f")((1,), (1,), (out,))
    assert [hex(word) for word in out.get()] == ["0xc0080000", "0x40140000", "0x7fc01234", "0x3f800000"]


def test_the_larger_of_an_integer_and_a_nan_is_the_integer() -> None:
    x, d, s = cp.asarray([7], np.uint16), cp.zeros(5, np.float64), cp.zeros(4, np.float32)
    cp.RawKernel(regressions.NUMBER_OR_NAN, "f")((1,), (1,), (np.float64(0), x, d, s))
    np.testing.assert_array_equal(d.get(), [7, 7, 7, 0, 0])
    np.testing.assert_array_equal(s.get(), [7, 7, 0, 0])
    assert np.signbit(d.get()).tolist() == [False, False, False, True, False]
    assert np.signbit(s.get()).tolist() == [False, False, True, False]


def test_nvidias_compiler_may_crash_and_the_next_program_compiles() -> None:
    """On another version of NVRTC the program may compile; then it must be right."""
    seed = min(regressions.COMPILER_CRASHES)
    found = simulated.check([generate(seed)], ("plain",), sanitize=False)
    assert not found or "the compiler crashed" in found[0].text
    assert not simulated.check([generate(5)], ("plain",), sanitize=False)


@pytest.mark.parametrize("what", regressions.REFUSED)
def test_ptx_that_no_compiler_writes_is_refused_with_its_place(what: str) -> None:
    text, words = regressions.REFUSED[what]
    with pytest.raises(CompileError) as caught:
        native(compile_ptx(text), "plain")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_damaged_sources_end_in_an_answer() -> None:
    summary = campaign.run("damaged", range(12))
    assert summary.done == 12 and sum(summary.outcomes.values()) == 24
    assert not summary.failures, "\n".join(summary.failures)
    assert summary.outcomes["PTX refused"] and summary.outcomes["CUDA C++ refused"] and summary.outcomes["PTX ran"]


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(0, 10_000, 1000))
def test_many_random_programs_agree_with_the_interpreter(first: int) -> None:
    summary = campaign.run("programs", range(first, first + 1000), JOBS)
    assert summary.done == 1000
    assert not summary.failures, "\n".join(summary.failures)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_programs_agree_in_every_kind_of_native_code() -> None:
    summary = campaign.run("all", range(20_000, 20_320), JOBS)
    assert summary.done == 320
    assert not summary.failures, "\n".join(summary.failures)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_interpreter_gives_all_that_an_h200_gave() -> None:
    recorded = hardware.recorded()
    assert len(recorded) >= 1000
    _compare_with_hardware(recorded)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(10_000, 15_000, 1000))
def test_much_damaged_sources_end_in_an_answer(first: int) -> None:
    summary = campaign.run("damaged", range(first, first + 1000), JOBS)
    assert not summary.failures, "\n".join(summary.failures)


@pytest.mark.gpu
def test_programs_agree_on_a_gpu() -> None:
    assert hardware.record(range(20_000, 20_064), 4, None) == 0
