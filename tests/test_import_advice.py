"""``import cupy`` and its like where they cannot help: one sentence that says what to write instead."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from cudalab.import_advice import INSTEAD

_WITHOUT = """
import importlib.machinery, sys
from importlib.abc import MetaPathFinder
found = importlib.machinery.PathFinder.find_spec
hidden = {hidden!r}
importlib.machinery.PathFinder.find_spec = lambda name, *rest: None if name in hidden else found(name, *rest)
"""


def _run(code: str, *, hidden: tuple[str, ...] = (), folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, as if the modules ``hidden`` were not installed."""
    text = _WITHOUT.format(hidden=hidden) + "import cudalab\n" + code
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=100, check=False, cwd=folder
    )


@pytest.mark.parametrize(
    "statement",
    [
        "import cupy as cp",
        "import cupyx",
        "from cupyx.profiler import benchmark",
        "from cuda.bindings import runtime",
        "from cuda import cudart",
        "from cuda.core.experimental import Device",
        "import numba.cuda",
        "import pycuda.driver",
    ],
)
def test_an_import_of_what_is_not_installed_names_cudalabs(statement: str) -> None:
    ended = _run(statement, hidden=tuple(INSTEAD))
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: No module named")
    assert "from cudalab import cp" in last


def test_a_submodule_of_an_installed_package_too() -> None:
    ended = _run("from cuda import cudart", hidden=("cuda.cudart",))
    assert "from cudalab import cp, cudart" in ended.stderr


def test_an_installed_cupy_without_a_gpu_is_imported_with_a_warning() -> None:
    pytest.importorskip("cupy")
    ended = _run(
        "from cudalab.installation import gpu_probe\ngpu_probe.probe = lambda: gpu_probe.NoGpu('no driver was found')\n"
        "import cupy\nprint(cupy.arange)"
    )
    assert "function arange" in ended.stdout
    assert "UserWarning: cupy is installed, but no driver was found, so its first call fails." in ended.stderr
    assert "Write `from cudalab import cp`" in ended.stderr


def test_an_installed_cupy_with_a_gpu_is_imported_in_silence() -> None:
    pytest.importorskip("cupy")
    ended = _run(
        "from cudalab.installation import gpu_probe\ngpu_probe.probe = lambda: gpu_probe.Gpu((13, 0), ('a GPU',))\n"
        "import cupy, cupyx\nfrom cuda.bindings import runtime\nprint(cupy.arange)"
    )
    assert ("function arange" in ended.stdout, ended.stderr) == (True, "")


def test_a_library_that_tries_cupy_goes_on_as_before(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text("try:\n    import cupy\nexcept ImportError as error:\n    cupy = error.name\n")
    assert _run("import library; print(library.cupy)", hidden=("cupy",), folder=tmp_path).stdout == "cupy\n"
    assert _run("import library; print('imported')", folder=tmp_path).stderr == ""


def test_who_only_asks_is_answered_as_before() -> None:
    ended = _run("import importlib.util; print(importlib.util.find_spec('cupy'))", hidden=("cupy",))
    assert (ended.stdout, ended.stderr) == ("None\n", "")
    assert importlib.util.find_spec("numpy") is not None


def test_a_second_import_of_cudalab_adds_no_second_finder() -> None:
    code = "import importlib; importlib.reload(cudalab); print([type(f).__name__ for f in sys.meta_path])"
    assert _run(code).stdout.count("AdviceFinder") == 1
