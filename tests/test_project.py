"""pyproject.toml, lock files, environment.yml, Makefile and licences say the same."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cudalab.cli import parser
from cudalab.dev.lock import COMMON_EXTRAS, CONDA_NAMES, WHEELS, conda_environment, requirements, targets, usable_wheels
from cudalab.installation.environment import LOCKS

ROOT = Path(__file__).parent.parent
EXTRA_OF = {"": "names", "cuda12": "cuda12", "cuda13": "cuda13"}


class Pin:
    """One entry of a lock file."""

    def __init__(self, text):
        first, *hashes = re.split(r" \\\n\s+--hash=sha256:", text)
        self.requirement, _, marker = first.partition(" ; ")
        self.name, self.version = self.requirement.split("==")
        self.marker = Marker(marker) if marker else None
        self.hashes = set(hashes)

    def holds(self, target):
        return self.marker is None or self.marker.evaluate(target.environment())


def pins(extra):
    lines = (ROOT / LOCKS[extra]).read_text().rstrip("\n").split("\n")
    text = "\n".join(line for line in lines if not line.startswith("#"))
    return [Pin(entry) for entry in re.split(r"\n(?=\S)", text)]


def wheels():
    return json.loads((ROOT / WHEELS).read_text())


ALL = pytest.mark.parametrize("extra", LOCKS)


@ALL
def test_lock_holds_every_requirement_on_every_platform(extra):
    locked = pins(extra)
    for target in targets():
        versions = {canonicalize_name(pin.name): pin.version for pin in locked if pin.holds(target)}
        for text in requirements(ROOT, *COMMON_EXTRAS, EXTRA_OF[extra]):
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate(target.environment()):
                assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), (wanted, target)


@ALL
def test_each_pin_has_a_wheel_for_each_platform_that_needs_it(extra):
    known = wheels()
    for pin in pins(extra):
        names = known[pin.requirement]
        for target in targets():
            if pin.holds(target):
                assert usable_wheels(names, target), f"{pin.requirement} has no wheel for {target}"


@ALL
def test_hashes_are_those_of_the_wheels(extra):
    known = wheels()
    for pin in pins(extra):
        assert pin.hashes == set(known[pin.requirement].values())
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in pin.hashes)


@ALL
def test_one_version_of_a_package_on_one_platform(extra):
    locked = pins(extra)
    for target in targets():
        names = [pin.name for pin in locked if pin.holds(target)]
        assert len(names) == len(set(names))


@ALL
def test_nvrtc_is_that_of_the_reference_gpu(extra):
    """Contract 13: NVRTC stays at 13.0, as on the GPU that outputs were recorded on."""
    (pin,) = (pin for pin in pins(extra) if pin.name == "nvidia-cuda-nvrtc")
    assert pin.version.startswith("13.0.")


@pytest.mark.parametrize("name", [*LOCKS.values(), WHEELS, "environment.yml", "pyproject.toml", "Makefile"])
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
