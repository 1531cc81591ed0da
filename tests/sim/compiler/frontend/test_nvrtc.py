"""The NVRTC library itself, called in this process with sources that do it no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalab.sim.compiler.frontend.headers import nvrtc_library
from cudalab.sim.compiler.frontend.nvrtc import Nvrtc
from cudalab.sim.compiler.frontend.options import parse_options

SOURCE = "template <int N> __global__ void k(float *x) { x[threadIdx.x] += N; }\n"


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    return Nvrtc(nvrtc_library())


def _arguments(*options: str) -> list[str]:
    return parse_options(options).arguments([])


def test_version(nvrtc: Nvrtc) -> None:
    assert nvrtc.version >= (12, 0)


def test_compile_gives_ptx_report_and_names(nvrtc: Nvrtc) -> None:
    output = nvrtc.compile(SOURCE, "kernel.cu", _arguments(), ["k<3>", "k<-1>"])
    assert not output.failed
    assert output.lowered == {"k<3>": "_Z1kILi3EEvPf", "k<-1>": "_Z1kILin1EEvPf"}
    assert ".entry _Z1kILi3EEvPf" in output.ptx and ".loc" in output.ptx
    assert "Used" in output.log and "registers" in output.log


def test_mistakes_are_an_output(nvrtc: Nvrtc) -> None:
    output = nvrtc.compile("int x = y;", "kernel.cu", _arguments(), [])
    assert output.failed and output.ptx == ""
    assert 'kernel.cu(1): error: identifier "y" is undefined' in output.log


def test_unknown_option_is_an_output(nvrtc: Nvrtc) -> None:
    output = nvrtc.compile(SOURCE, "kernel.cu", _arguments("--no-such-thing"), [])
    assert output.failed and "unrecognized option" in output.log


def test_a_name_that_is_no_kernel(nvrtc: Nvrtc) -> None:
    assert nvrtc.compile(SOURCE, "kernel.cu", _arguments(), ["nothing"]).failed


def test_flush_to_zero_as_under_cupy(nvrtc: Nvrtc) -> None:
    source = 'extern "C" __global__ void k(float *x) { x[0] = x[1] + x[2]; }'
    assert "add.ftz.f32" in nvrtc.compile(source, "kernel.cu", _arguments("-ftz=false"), []).ptx


def test_missing_library(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        Nvrtc(tmp_path / "libnvrtc.so.13")
