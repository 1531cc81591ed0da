"""Writes the lock files and environment.yml from pyproject.toml: ``python -m cudalab lock``.

uv resolves for all platforms at once and writes requirements with hashes, which every uv and every pip can install: one
file for each choice of CuPy. Only wheels are taken, and ``required-environments`` in pyproject.toml makes a package
without one for a supported platform an error here, not on a learner's machine. A trial installation for each platform
and Python then checks the files. No address of any registry is written, so a mirror serves as well
(docs/dev/decisions/0009-requirements-with-hashes.md).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement

from cudalab.installation.environment import LOCKS, project_root

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("x86_64-manylinux_2_35", "aarch64-manylinux_2_35", "x86_64-pc-windows-msvc")  # Ubuntu 22.04, Debian 12
COMMON_EXTRAS = ("test", "grading")

# Names on conda-forge where they differ; None: not there, so pip brings it.
CONDA_NAMES: dict[str, str | None] = {
    "cupy-cuda13x": "cupy-core",
    "nvidia-cuda-cccl": "cuda-cccl",
    "nvidia-cuda-crt": "cuda-crt",
    "nvidia-cuda-nvrtc": "cuda-nvrtc",
    "nvidia-cuda-runtime": "cuda-cudart-dev",
    "nvidia-curand": "libcurand-dev",
    "jupyter-client": "jupyter_client",
    "jupyter-server": "jupyter_server",
    "matplotlib": "matplotlib-base",
    "playwright": None,
}


class LockError(RuntimeError):
    """The requirements cannot be locked for every supported platform."""


def _uv(*arguments: str | Path) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise LockError("uv was not found; it is in the extra `test`.")
    ended = subprocess.run([uv, *map(str, arguments)], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise LockError(ended.stderr.strip())


def compile_lock(project: Path, output: Path, *extras: str) -> None:
    """Resolve the requirements of ``project`` (a pyproject.toml) and of ``extras`` for every platform into ``output``.

    Raises ``LockError`` where a package has no wheel for one of the required environments.
    """
    _uv(
        *("pip", "compile", "--quiet", "--universal", "--upgrade", "--generate-hashes", "--no-annotate"),
        *("--only-binary", ":all:", "--emit-build-options", "--custom-compile-command", "python -m cudalab lock"),
        *(part for extra in extras for part in ("--extra", extra)),
        *(project, "--output-file", output),
    )


def try_install(lock: Path, platform: str, python: str) -> None:
    """Let uv choose the files that it would install on a machine, without fetching them; ``LockError`` if it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        _uv(
            *("pip", "install", "--quiet", "--dry-run", "--require-hashes", "--only-binary", ":all:"),
            *("--python", sys.executable, "--target", folder, "--python-platform", platform),
            *("--python-version", python, "--requirements", lock),
        )


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
    """Is the same package in the list with another bound (cuda-bindings is in two lists)?"""
    name = re.split(r"[<>=!~]", line)[0]
    return any(other != line and re.split(r"[<>=!~]", other)[0] == name and "," in other for other in among)


def lock() -> None:
    """Renew all lock files and environment.yml. Needs a network."""
    root = project_root()
    for extra, name in LOCKS.items():
        compile_lock(root / "pyproject.toml", root / name, *COMMON_EXTRAS, extra or "names")
        for platform, python in product(PLATFORMS, PYTHONS):
            try_install(root / name, platform, python)
        print(f"{name}: can be installed on {', '.join(PLATFORMS)} with Python {', '.join(PYTHONS)}")
    (root / "environment.yml").write_text(conda_environment(root), encoding="utf-8")
