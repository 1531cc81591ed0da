"""Precompiled headers give the same code, fit only what they were made for, and are missed by nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cudalab.sim.compiler.frontend import headers
from cudalab.sim.compiler.frontend.nvrtc import Nvrtc
from cudalab.sim.compiler.frontend.options import parse_options
from cudalab.sim.compiler.frontend.precompiled import Precompiled, Wanted, beginning

FOLDERS = list(headers.include_directories())
START = "#include <cuda/ptx>\n"  # the quickest of the large headers
SOURCE = START + 'extern "C" __global__ void k(int* x) { *x = VALUE + cuda::ptx::get_sreg_laneid(); }\n'


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Precompiled]:
    """With the header of ``SOURCE`` written."""
    made = Precompiled(Nvrtc(headers.nvrtc_library()), tmp_path_factory.mktemp("headers") / "home", FOLDERS)
    if not made.enabled:
        pytest.skip("this NVRTC has no precompiled headers")
    made.compile(SOURCE.replace("VALUE", "1"), "kernel.cu", arguments(), [])
    assert made.wants
    made.write_wanted()
    yield made
    made.close()


def arguments(*options: str) -> list[str]:
    return parse_options(options).arguments(FOLDERS)


def uses(kept: Precompiled, source: str, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> list[bool]:
    """For each call of NVRTC that a compile makes: is it to use a precompiled header?"""
    calls = []

    def compile(source: str, name: str, arguments: list[str], expressions: list[str]) -> Any:
        calls.append("-pch" in arguments)
        return None if "-pch" not in arguments else _Stopped

    monkeypatch.setattr(kept._nvrtc, "compile", compile)
    kept.compile(source, **{"name": "kernel.cu", "arguments": arguments(), "expressions": [], **changed})
    return calls


class _Stopped:
    log = ""


def test_the_same_code_from_the_header_and_without(kept: Precompiled) -> None:
    source = SOURCE.replace("VALUE", "22")
    found = kept._with(kept._folder(kept.ready[0]), source, "kernel.cu", arguments(), [])
    assert found is not None
    plain = kept._nvrtc.compile(source, "kernel.cu", arguments(), [])
    assert not plain.failed
    assert found.ptx == plain.ptx
    timeless = re.compile(r"[\d.]+ ms")
    assert timeless.sub("", found.log) == timeless.sub("", plain.log)


def test_a_mistake_is_reported_as_without(kept: Precompiled) -> None:
    source = SOURCE.replace("VALUE", "nothing")
    found = kept._with(kept._folder(kept.ready[0]), source, "kernel.cu", arguments(), [])
    assert found is not None
    assert found.failed
    assert found.log == kept._nvrtc.compile(source, "kernel.cu", arguments(), []).log


def test_what_it_fits(kept: Precompiled, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = SOURCE.replace("VALUE", "3 + 4")
    assert uses(kept, edited, monkeypatch) == [True]
    assert uses(kept, "#define N 3\n" + edited, monkeypatch) == [False]
    assert uses(kept, "// a comment before\n" + edited, monkeypatch) == [False]
    assert uses(kept, "#include <cooperative_groups/reduce.h>\n" + edited, monkeypatch) == [False]
    assert uses(kept, edited, monkeypatch, arguments=arguments("-DN=1")) == [False]
    assert uses(kept, edited, monkeypatch, arguments=arguments("--std=c++20")) == [False]
    assert uses(kept, edited, monkeypatch, arguments=arguments("-I/somewhere")) == [False]
    assert uses(kept, edited, monkeypatch, arguments=arguments("--pre-include=x.h")) == [False]
    assert uses(kept, edited, monkeypatch, name="other.cu") == [False]
    assert uses(kept, edited, monkeypatch, restricted=True) == [False]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SOURCE, START.strip()),
        ("// words\n\n#define A 1\n" + SOURCE, "// words\n\n#define A 1\n" + START.strip()),
        ("__device__ int a;\n" + SOURCE, ""),
        ('#include "mine.h"\n' + SOURCE, ""),
        ("#include <no_such_header.h>\n" + SOURCE, ""),
        ("#include <../include/cooperative_groups.h>\n", ""),
        ("#if 1\n" + SOURCE + "#endif\n", ""),
        ("#define A \\\n  1\n" + SOURCE, ""),
        ("/* words\n*/\n" + SOURCE, ""),
        ("#include <cuda_fp16.h>\n__global__ void k() {}", ""),
        ("", ""),
    ],
)
def test_the_beginning_of_a_source(source: str, expected: str) -> None:
    assert beginning(source, FOLDERS) == expected


def test_a_file_that_is_gone_or_spoiled_does_no_harm(kept: Precompiled) -> None:
    source, folder = SOURCE.replace("VALUE", "5"), kept._folder(kept.ready[0])
    (file,) = folder.iterdir()
    file.write_bytes(b"no header")
    assert not kept.compile(source, "kernel.cu", arguments(), []).failed
    assert not folder.exists()
    assert not kept.compile(source, "kernel.cu", arguments(), []).failed


def test_no_place_to_write(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    made = Precompiled(Nvrtc(headers.nvrtc_library()), blocked / "home", FOLDERS)
    made._wanted = Wanted("key", START, "kernel.cu", arguments())
    made.write_wanted()
    assert not made.ready
    assert not Precompiled(Nvrtc(headers.nvrtc_library()), None, FOLDERS).enabled
