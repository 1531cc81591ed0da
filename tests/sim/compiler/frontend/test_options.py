"""Options as learners write them, and what NVRTC gets."""

from __future__ import annotations

import os

import pytest

from cudalab.sim.compiler.frontend.options import OptionError, parse_options


def test_fixed_options_match_cupy() -> None:
    arguments = parse_options(()).arguments(["/cuda/include"])
    assert arguments == [
        "--gpu-architecture=sm_90",
        "-lineinfo",
        "--ptxas-options=-v",
        "--std=c++17",
        "-I/cuda/include",
        "-ftz=true",
        "--device-as-default-execution-space",
    ]


def test_a_standard_replaces_the_usual_one() -> None:
    arguments = parse_options(("-std=c++20",)).arguments([])
    assert "-std=c++20" in arguments and "--std=c++17" not in arguments


@pytest.mark.parametrize(
    "options", [("-I", "x y"), ("-Ix y",), ("-I x y",), ("--include-path=x y",), ("--include-path", "x y")]
)
def test_include_folder_becomes_absolute(options: tuple[str, ...]) -> None:
    parsed = parse_options(options, folder="/home/me")
    assert parsed.folders == (os.path.abspath("/home/me/x y"),)
    assert parsed.flags == ()


@pytest.mark.parametrize("options", [("-D", "N=4"), ("-DN=4",), ("-D N=4",), (" -DN=4 ",)])
def test_definitions(options: tuple[str, ...]) -> None:
    assert parse_options(options).flags == ("-DN=4",)


@pytest.mark.parametrize("flag", ["-arch=sm_75", "--gpu-architecture=compute_80", "-G", "--device-debug", "-dlto"])
def test_what_does_not_apply_is_noted(flag: str) -> None:
    parsed = parse_options((flag,))
    assert parsed.flags == ()
    assert flag in parsed.notes[0]


@pytest.mark.parametrize("flag", ["-arch=sm_90", "-lineinfo", "-ftz=false", "-default-device"])
def test_what_changes_nothing_is_left_out(flag: str) -> None:
    assert parse_options((flag,)) == parse_options(())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-DN=4", r"try \('-DN=4',\)"),
        ((3,), "must be strings, got 3 of type int"),
        (("-I",), "has no value"),
        (("-DN=\0",), "null character"),
    ],
)
def test_mistakes(options: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_options(options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "flag", ["-DN=4", "-DF(x)=x+1", "-UN", "--std=c++20", "-use_fast_math", "-fmad=false", "-arch=sm_80", "-w"]
)
def test_harmless_options_while_grading(flag: str) -> None:
    parse_options((flag,), restricted=True)


@pytest.mark.parametrize(
    "flag",
    [
        "-I/etc", "--include-path=/etc", "--pre-include=/etc/passwd", "-include=/etc/passwd", "--use-pch=/x",
        "--create-pch=/x", "--pch-dir=/x", "--time=/x", "--fdevice-time-trace=/x", '-DX=\n#include "/etc/passwd"',
        "--options-file=/x", "-rdc=true", "--anything",
    ],
)  # fmt: skip
def test_options_that_name_files_are_refused_while_grading(flag: str) -> None:
    with pytest.raises(OptionError, match="not allowed"):
        parse_options((flag,), restricted=True)
