"""Where cudalab refuses to run, and what it says then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cudalab.installation.platforms import unsupported

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("system, machine", [("linux", "x86_64"), ("linux", "aarch64"), ("win32", "AMD64")])
def test_supported_machines_are_let_through(system, machine):
    assert unsupported(system, machine, (3, 11)) is None


@pytest.mark.parametrize(
    "system, machine, python, words",
    [
        ("darwin", "arm64", (3, 12), ("macOS", "NVRTC", "docker build --platform linux/arm64", "README")),
        ("darwin", "x86_64", (3, 12), ("macOS", "docker build --platform linux/amd64")),
        ("win32", "ARM64", (3, 12), ("Windows for Arm", "llvmlite", "docker build")),
        ("linux", "x86_64", (3, 10), ("Python 3.11 or newer", "this is Python 3.10")),
    ],
)
def test_message_names_the_reason_and_the_way_out(system, machine, python, words):
    message = unsupported(system, machine, python)
    assert all(word in message for word in words)


def test_import_on_macos_raises_the_message():
    code = (
        "import sys, platform; sys.platform = 'darwin'; platform.machine = lambda: 'arm64'\n"
        "try:\n    import cudalab\nexcept ImportError as error:\n    print(error)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.startswith("cudalab does not run on macOS") and "docker run" in output


@pytest.mark.parametrize("task", ["setup", "lab", "doctor"])
def test_commands_on_macos_stop_with_the_message_alone(tmp_path, task):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, platform; sys.platform = 'darwin'; platform.machine = lambda: 'arm64'\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "cudalab", task],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("cudalab does not run on macOS") and "docker run" in ended.stderr
