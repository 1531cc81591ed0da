"""pyproject.toml, lock files, environment.yml, Makefile and licences say the same."""

import re
import tomllib
import zipfile
from itertools import product
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cudalab.cli import parser
from cudalab.dev.lock import (
    COMMON_EXTRAS,
    CONDA_NAMES,
    PLATFORMS,
    PYTHONS,
    LockError,
    compile_lock,
    conda_environment,
    requirements,
    try_install,
)
from cudalab.installation.environment import LOCKS

ROOT = Path(__file__).parents[2]
EXTRA_OF = {"": "names", "cuda12": "cuda12", "cuda13": "cuda13"}


def marker_environment(platform, python):
    """The environment in which markers are evaluated on one kind of machine (dependency specifiers)."""
    windows = "windows" in platform
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "nt" if windows else "posix",
        "platform_machine": "AMD64" if windows else platform.split("-")[0],
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Windows" if windows else "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "win32" if windows else "linux",
    }


TARGETS = [marker_environment(platform, python) for platform, python in product(PLATFORMS, PYTHONS)]


class Pin:
    """One entry of a lock file."""

    def __init__(self, text):
        first, *hashes = re.split(r" \\\n\s+--hash=sha256:", text)
        self.requirement, _, marker = first.partition(" ; ")
        self.name, self.version = self.requirement.split("==")
        self.marker = Marker(marker) if marker else None
        self.hashes = hashes

    def holds(self, target):
        return self.marker is None or self.marker.evaluate(target)


def pins(extra):
    text = (ROOT / LOCKS[extra]).read_text()
    assert "\n--only-binary :all:\n" in text
    lines = [line for line in text.rstrip("\n").split("\n") if line and not line.startswith(("#", "--"))]
    return [Pin(entry) for entry in re.split(r"\n(?=\S)", "\n".join(lines))]


ALL = pytest.mark.parametrize("extra", LOCKS)


@ALL
def test_lock_holds_every_requirement_on_every_platform(extra):
    locked = pins(extra)
    for target in TARGETS:
        versions = {canonicalize_name(pin.name): pin.version for pin in locked if pin.holds(target)}
        for text in requirements(ROOT, *COMMON_EXTRAS, EXTRA_OF[extra]):
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate(target):
                assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), (wanted, target)


@pytest.mark.long  # asks the registry
@ALL
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_each_pin_has_a_wheel_for_each_platform_that_needs_it(extra, platform, python):
    try_install(ROOT / LOCKS[extra], platform, python)


LINUX, LINUX_ARM, WINDOWS = "manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "win_amd64"


@pytest.mark.parametrize(
    "tags, refused",
    [
        ((LINUX, LINUX_ARM, WINDOWS), None),
        ((LINUX, WINDOWS), r"aarch64"),
        ((LINUX, LINUX_ARM), r"win32"),
        ((), r"Wheels are required"),
    ],
)
def test_package_without_a_wheel_for_a_platform_is_not_locked(tmp_path, monkeypatch, tags, refused):
    """From a folder of made-up wheels: ``required-environments`` of pyproject.toml are what uv goes by."""
    for tag in tags:
        with zipfile.ZipFile(tmp_path / f"planted-1.0-py3-none-{tag}.whl", "w") as wheel:
            wheel.writestr("planted-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
            wheel.writestr("planted-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: py3-none-{tag}\n")
            wheel.writestr("planted-1.0.dist-info/RECORD", "")
    if not tags:
        (tmp_path / "planted-1.0.tar.gz").write_bytes(b"")
    text = (ROOT / "pyproject.toml").read_text()
    tool = text[text.index("[tool.uv]") : text.index("[tool.ruff]")]
    project = tmp_path / "pyproject.toml"
    project.write_text(
        '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.11"\n'
        + f"""
dependencies = ["planted"]\n{tool}"""
    )
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    if refused is None:
        compile_lock(project, tmp_path / "out.lock")
        assert "planted==1.0 \\\n    --hash=sha256:" in (tmp_path / "out.lock").read_text()
    else:
        with pytest.raises(LockError, match=refused):
            compile_lock(project, tmp_path / "out.lock")


@ALL
def test_every_pin_has_hashes(extra):
    for pin in pins(extra):
        assert pin.hashes and all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in pin.hashes)


@ALL
def test_one_version_of_a_package_on_one_platform(extra):
    locked = pins(extra)
    for target in TARGETS:
        names = [pin.name for pin in locked if pin.holds(target)]
        assert len(names) == len(set(names))


@ALL
def test_nvrtc_is_that_of_the_reference_gpu(extra):
    """Contract 13: NVRTC stays at 13.0, as on the GPU that outputs were recorded on."""
    (pin,) = (pin for pin in pins(extra) if pin.name == "nvidia-cuda-nvrtc")
    assert pin.version.startswith("13.0.")


@pytest.mark.parametrize("name", [*LOCKS.values(), "environment.yml", "pyproject.toml", "Makefile"])
def test_no_registry_is_named(name):
    assert not re.search(r"https?://|--index-url|--find-links", (ROOT / name).read_text())


def test_conda_environment_is_the_one_of_pyproject():
    assert (ROOT / "environment.yml").read_text() == conda_environment(ROOT)


def test_conda_environment_has_every_requirement_with_its_bounds():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    by_pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    found = {}
    for text in [*(entry for entry in listed if isinstance(entry, str)), *by_pip]:
        requirement = Requirement(text)
        found[requirement.name] = requirement.specifier
    for text in requirements(ROOT, *COMMON_EXTRAS, "names"):
        wanted = Requirement(text)
        name = CONDA_NAMES.get(wanted.name) or wanted.name
        assert {*str(wanted.specifier).split(",")} <= {*str(found[name]).split(",")} or name == "cuda-bindings"
    assert str(found["cuda-bindings"]) == "<14,>=13.0"
    assert str(found["python"]) == ">=3.11"


def test_every_task_of_the_makefile_is_a_command():
    known = set(parser()._subparsers._group_actions[0].choices)
    called = set(re.findall(r"-m cudalab (\w+)", (ROOT / "Makefile").read_text()))
    assert called and called <= known


def test_licences_are_named_and_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "MIT AND CC-BY-4.0"
    texts = [(ROOT / name).read_text() for name in project["license-files"]]
    assert "MIT License" in texts[0] and "Creative Commons Attribution 4.0 International" in texts[1]


def test_the_map_names_files_that_exist():
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "cudalab").rglob("*") if path.is_file()}
    named = re.findall(r"`([\w/]+\.py|[\w/]+/[\w/]+\.toml)`", (ROOT / "docs/dev/map.md").read_text(encoding="utf-8"))
    assert len(named) > 30
    assert not [name for name in named if not any(module.endswith(f"/{name}") for module in modules)]
