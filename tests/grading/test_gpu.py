"""Correctness on a GPU; the simulated device's CuPy stands for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudalab.checks import check, find
from cudalab.checks.answer import Answer, read_answer
from cudalab.checks.exercise import Result
from cudalab.checks.session import simulated
from cudalab.grading.gpu import on_gpu
from cudalab.sim import cupy
from tests.checks.answers.answer import solution_of
from tests.grading import gpu_lab


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    """A device of its own, which a test may lose."""
    with simulated():
        yield


def _both(on_the_gpu: str, exercise: str = "04.1") -> tuple[Result, Result]:
    """The solution's result, and what becomes of it when the GPU runs another text."""
    first = check(exercise, solution_of(exercise), seed=1)
    answer: Answer = read_answer(on_the_gpu)
    return first, on_gpu(first, find(exercise), answer, cupy, time_limit=30)


@pytest.mark.parametrize("exercise", ["04.1", "04.3"])
def test_a_right_kernel_keeps_its_points(exercise: str) -> None:
    first, second = _both(solution_of(exercise), exercise)
    assert second is first and first.passed


def test_a_kernel_that_is_wrong_there_loses_them() -> None:
    _, second = _both(solution_of("04.1").replace("n - 1 - i", "i"))
    assert second.points == 0 and "on the GPU: y[0]" in second.findings[0].text


def test_an_error_there_is_told() -> None:
    _, second = _both(solution_of("04.1").replace("y[n - 1 - i]", "y[(1 << 28) + i]"))
    assert second.points == 0 and "cudaErrorIllegalAddress" in second.findings[0].text


def test_a_text_that_does_not_compile_there_is_told() -> None:
    _, second = _both(solution_of("04.1").replace("if (i < n)", "if (i < no)"))
    assert second.points == 0 and "on the GPU: " in second.findings[0].text


COMPILES = """
import resource
from cudalab.grading.gpu import real_cupy
cuda = real_cupy().cuda
class Loaded:
    mapping = property(lambda self: {})
    def _set_mapping(self, names): pass
    def load(self, cubin): print("loaded", cubin)
compiler = cuda.compiler
compiler._get_nvrtc_version = lambda: (13, 0)
compiler._get_arch_for_options_for_nvrtc = lambda arch: ("-arch=sm_90", "cubin")
compiler._preprocess = lambda *given: "13.0"
compiler._compile_using_nvrtc_no_warning = lambda *given: (b"code", {})
compiler.function = type("function", (), {"Module": Loaded})
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
compiler._compile_module_with_cache("text", (), arch="90")
"""


def test_the_real_cupy_writes_no_file(tmp_path: Path) -> None:
    """A question may write none; CuPy keeps compiled code on disk unless it is told otherwise. Left out is what needs a
    driver: its compiler, and the loading."""
    pytest.importorskip("cupy")
    environment = {"CUPY_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", COMPILES], env=environment, capture_output=True, text=True)
    assert (done.stdout, list(tmp_path.iterdir())) == ("loaded b'code'\n", []), done.stderr


@pytest.mark.gpu
@pytest.mark.timeout(300)
def test_a_lab_on_the_gpu(tmp_path: Path) -> None:
    """All right kernels keep their points there; what is right on the simulated device alone gets none, in time."""
    assert not gpu_lab.differences(gpu_lab.graded(tmp_path, "--no-jail"))


def test_what_the_simulated_device_refused_never_gets_there() -> None:
    wrong = check("04.1", "%%cuda reverse\n", seed=1)
    assert on_gpu(wrong, find("04.1"), Answer(), None, time_limit=30) is wrong
