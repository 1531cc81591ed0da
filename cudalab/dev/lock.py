"""Writes the lock files and environment.yml from pyproject.toml: ``python -m cudalab lock``.

uv resolves for all platforms at once; what it finds is written as requirements with hashes, one file for each choice
of CuPy. Only wheels are listed, and of those only the ones that a supported machine can install: a package without a
wheel for one of them is an error here, not on a learner's machine. ``requirements.wheels.json`` keeps the wheels' file
names, so that a test can prove the same without a network. No address of any registry is written.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from cudalab.installation.environment import LOCKS, project_root

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
GLIBC = 35  # manylinux_2_35: Ubuntu 22.04, Debian 12 and newer
WHEELS = "requirements.wheels.json"
COMMON_EXTRAS = ("test", "grading")

# Names on conda-forge where they differ; None: not there, so pip brings it.
CONDA_NAMES: dict[str, str | None] = {
    "cupy-cuda13x": "cupy-core",
    "nvidia-cuda-cccl": "cuda-cccl",
    "nvidia-cuda-crt": "cuda-crt",
    "nvidia-cuda-nvrtc": "cuda-nvrtc",
    "nvidia-cuda-runtime": "cuda-cudart-dev",
    "jupyter-client": "jupyter_client",
    "matplotlib": "matplotlib-base",
    "playwright": None,
}


class LockError(RuntimeError):
    """The requirements cannot be locked for every supported platform."""


@dataclass(frozen=True)
class Target:
    """One kind of machine that cudalab supports."""

    system: str  # linux | win32
    machine: str  # as in platform.machine()
    python: tuple[int, int]

    def environment(self) -> dict[str, str]:
        """The environment in which markers are evaluated (dependency specifiers, "Environment Markers")."""
        version = f"{self.python[0]}.{self.python[1]}"
        windows = self.system == "win32"
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{version}.0",
            "os_name": "nt" if windows else "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Windows" if windows else "Linux",
            "platform_version": "",
            "python_full_version": f"{version}.0",
            "python_version": version,
            "sys_platform": self.system,
        }

    def tags(self) -> frozenset[Tag]:
        """The wheel tags that its pip accepts."""
        if self.system == "win32":
            platforms = ["win_amd64"]
        else:
            platforms = [f"manylinux_2_{minor}_{self.machine}" for minor in range(GLIBC, 4, -1)]
            platforms += [f"manylinux2014_{self.machine}", f"linux_{self.machine}"]
            if self.machine == "x86_64":
                platforms += ["manylinux2010_x86_64", "manylinux1_x86_64"]
        interpreter = f"cp{self.python[0]}{self.python[1]}"
        return frozenset(cpython_tags(self.python, platforms=platforms)) | frozenset(
            compatible_tags(self.python, interpreter, platforms)
        )


def targets() -> Iterator[Target]:
    """Every supported combination of system, processor and Python."""
    for python in PYTHONS:
        yield Target("linux", "x86_64", python)
        yield Target("linux", "aarch64", python)
        yield Target("win32", "AMD64", python)


def usable_wheels(names: Iterable[str], target: Target) -> list[str]:
    """Those of the wheel file names that ``target`` can install."""
    tags = target.tags()
    return [name for name in names if parse_wheel_filename(name)[3] & tags]


def resolve(root: Path, extra: str) -> list[dict[str, Any]]:
    """Ask uv for one resolution that holds on every platform; its packages as in pylock.toml (PEP 751)."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise LockError("uv was not found; it is in the extra `test`.")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "pylock.toml"
        command = [uv, "pip", "compile", "--quiet", "--universal", "--format", "pylock.toml", "--upgrade"]
        for name in (*COMMON_EXTRAS, extra):
            command += ["--extra", name]
        subprocess.run([*command, str(root / "pyproject.toml"), "-o", str(output)], check=True)
        packages: list[dict[str, Any]] = tomllib.loads(output.read_text(encoding="utf-8"))["packages"]
    return packages


def _needed_by(package: dict[str, Any]) -> list[Target]:
    marker = Marker(package["marker"]) if "marker" in package else None
    return [target for target in targets() if marker is None or marker.evaluate(target.environment())]


def _wheels(package: dict[str, Any]) -> dict[str, str]:
    """File name → sha256 of the wheels that supported machines can install."""
    hashes = {wheel["url"].rsplit("/", 1)[1]: wheel["hashes"]["sha256"] for wheel in package.get("wheels", ())}
    kept: set[str] = set()
    for target in _needed_by(package):
        usable = usable_wheels(hashes, target)
        if not usable:
            raise LockError(f"{package['name']} {package['version']} has no wheel for {target}.")
        kept.update(usable)
    return {name: hashes[name] for name in sorted(kept)}


def render(packages: list[dict[str, Any]]) -> tuple[str, dict[str, dict[str, str]]]:
    """The text of a lock file, and the wheels of each of its pins."""
    lines = ["# Written by `python -m cudalab lock` from pyproject.toml. Change that, not this."]
    wheels: dict[str, dict[str, str]] = {}
    for package in sorted(packages, key=lambda package: (package["name"], package["version"])):
        if not _needed_by(package):
            continue
        pin = f"{package['name']}=={package['version']}"
        wheels[pin] = _wheels(package)
        marker = f" ; {package['marker']}" if "marker" in package else ""
        hashes = sorted(set(wheels[pin].values()))
        lines.append(" \\\n    ".join([pin + marker, *(f"--hash=sha256:{digest}" for digest in hashes)]))
    return "\n".join(lines) + "\n", wheels


def requirements(root: Path, *extras: str) -> list[str]:
    """The requirements of pyproject.toml, with those of ``extras``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = list(project["dependencies"])
    for extra in extras:
        found += project["optional-dependencies"][extra]
    return found


def conda_environment(root: Path) -> str:
    """The text of environment.yml: the same requirements under conda-forge's names."""
    conda: list[str] = []
    pip: list[str] = []
    for text in requirements(root, *COMMON_EXTRAS, "names"):
        wanted = Requirement(text)
        name = CONDA_NAMES.get(wanted.name, wanted.name)
        versions = ",".join(sorted(str(wanted.specifier).split(","), reverse=True))
        (pip if name is None else conda).append(f"{name or wanted.name}{versions}")
    conda = [line for line in sorted(set(conda)) if not _weaker(line, conda)]
    python = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    lines = [
        "# The requirements of pyproject.toml for conda users; written by `python -m cudalab lock`.",
        "#     conda env create -f environment.yml && conda activate cudalab",
        "#     pip install --no-deps -e . && python -m cudalab kernels && python -m cudalab lab",
        "# On a machine with a GPU, add CuPy with the CUDA libraries: conda install cupy",
        "name: cudalab",
        "channels:",
        "  - conda-forge",
        "dependencies:",
        f"  - python{python}",
        *(f"  - {line}" for line in conda),
        "  - pip",
        "  - pip:",
        *(f"      - {line}" for line in sorted(pip)),
    ]
    return "\n".join(lines) + "\n"


def _weaker(line: str, among: list[str]) -> bool:
    """Is the same package in the list with a further bound (cuda-bindings stands in two lists)?"""
    name = re.split(r"[<>=!~]", line)[0]
    return any(other != line and re.split(r"[<>=!~]", other)[0] == name and "," in other for other in among)


def lock() -> None:
    """Renew all lock files, the list of wheels and environment.yml. Needs a network."""
    root = project_root()
    all_wheels: dict[str, dict[str, str]] = {}
    for extra, name in LOCKS.items():
        text, wheels = render(resolve(root, extra or "names"))
        (root / name).write_text(text, encoding="utf-8")
        all_wheels.update(wheels)
        print(f"{name}: {len(wheels)} packages")
    (root / WHEELS).write_text(json.dumps(all_wheels, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (root / "environment.yml").write_text(conda_environment(root), encoding="utf-8")
