"""The gates bite: a forbidden import, an undeclared package or an untyped function does not pass them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent

FORBIDDEN = {
    "the machine imports the device": ("sim/machine/launch/limits.py", "import cudalab.sim.device.device", "layers"),
    "the compiler imports the machine": ("sim/compiler/program.py", "import cudalab.sim.machine.launch", "layers"),
    "the device imports a facade": ("sim/device/state.py", "import cudalab.sim.cudart", "layers"),
    "the ABI imports the compiler": ("sim/abi.py", "import cudalab.sim.compiler", "layers"),
    "the simulator draws": ("sim/machine/launch/limits.py", "import matplotlib", "stands alone"),
    "the simulator knows its notebook": ("sim/device/state.py", "import IPython", "stands alone"),
    "the simulator imports from above": ("sim/driver/contexts.py", "import cudalab.backend", "stands alone"),
    "a circle": ("installation/environment.py", "import cudalab.installation.lab", "circles"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its settings, without what is not Python."""
    place = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", place)
    sources = shutil.ignore_patterns("__pycache__", "*.cu", "*.svg", "*.js", "*.json")
    shutil.copytree(ROOT / "cudalab", place / "cudalab", ignore=sources)
    return place


def contracts(place: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAMS / "lint-imports", "--no-cache"], cwd=place, capture_output=True, text=True)


def test_imports_keep_the_contracts() -> None:
    ended = contracts(ROOT)
    assert ended.returncode == 0, ended.stdout
    assert "0 broken" in ended.stdout


@pytest.mark.parametrize("mistake", FORBIDDEN)
def test_a_forbidden_import_breaks_a_contract(copy: Path, mistake: str) -> None:
    name, line, contract = FORBIDDEN[mistake]
    file = copy / "cudalab" / name
    before = file.read_text()
    file.write_text(f"{before}\n\ndef _late() -> None:\n    {line}\n")
    try:
        ended = contracts(copy)
    finally:
        file.write_text(before)
    assert ended.returncode == 1
    broken = [line for line in ended.stdout.splitlines() if "BROKEN" in line]
    assert any(contract in line for line in broken), ended.stdout


def test_an_undeclared_package_is_found(copy: Path) -> None:
    (copy / "cudalab" / "extra.py").write_text("import pygments\n")
    try:
        ended = subprocess.run([PROGRAMS / "deptry", "cudalab"], cwd=copy, capture_output=True, text=True)
    finally:
        (copy / "cudalab" / "extra.py").unlink()
    assert ended.returncode == 1 and "'pygments' imported but it is a transitive dependency" in ended.stderr


def test_every_gate_is_a_hook() -> None:
    """`make lint`, CI and a commit run the same."""
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    programs = [hook["entry"].split()[0] for hook in repository["hooks"]]
    assert {Path(program).name for program in programs} == {"ruff", "mypy", "lint-imports", "deptry"}
    assert "pre-commit run --all-files" in (ROOT / "Makefile").read_text()
    run = (ROOT / ".ci/run").read_text()
    assert run.index("make --silent lint") < run.index("make --silent test")
