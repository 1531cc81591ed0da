"""Makes the virtual environment of the course from a lock file: ``python -m cudalab setup``.

A second run finds the stamp of the first, a hash of everything that the environment was made from, and does nothing.
Packages come through uv, which is much faster, where it can be had, else through pip; both check the hashes of the lock
file. Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cudalab.installation import kernelspecs
from cudalab.installation.gpu_probe import Gpu, NoGpu, probe

STAMP = "cudalab-setup"
LOCKS = {"": "requirements.lock", "cuda12": "requirements-cuda12.lock", "cuda13": "requirements-cuda13.lock"}


class SetupError(RuntimeError):
    """The environment could not be made; the message says what to do."""


def project_root() -> Path:
    """The folder of the course: where pyproject.toml, the notebooks and the lock files are."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        raise SetupError(
            f"this needs the course (notebooks, exercises, tests), and the package installed in {root} is the library "
            "alone. Get the course's repository and run `make lab` in it, or this command there."
        )
    return root


def venv_python(venv: Path) -> Path:
    """The interpreter of a virtual environment."""
    return venv / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def choose_extra(found: Gpu | NoGpu) -> str:
    """Which lock file fits this machine: ``""`` without a GPU, else the extra of its driver."""
    return found.extra if isinstance(found, Gpu) else ""


def fingerprint(root: Path, extra: str) -> str:
    """Hash of all that the environment is made from, the base interpreter and the checkout's place included."""
    digest = hashlib.sha256()
    for name in (LOCKS[extra], "pyproject.toml", "cudalab/installation/kernelspecs.py"):
        digest.update((root / name).read_bytes())
    for file in sorted((root / "cudalab" / "labextension").rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())
    digest.update(f"{sys.base_prefix} {sys.version} {root}".encode())
    return digest.hexdigest()


def pinned(lock: str, name: str) -> str:
    """The lines of one package in a lock file, hashes included."""
    found = re.search(rf"^{re.escape(name)}==(?:.*\\\n)*.*\n", lock, re.MULTILINE)
    if found is None:
        raise SetupError(f"The lock file names no {name}. Renew it with `make lock`.")
    return found.group()


def _run(*command: str | Path, quiet: bool = False) -> bool:
    """Run one step; False when it failed. Its output goes to the terminal unless ``quiet``."""
    text = [str(part) for part in command]
    return subprocess.run(text, stdout=subprocess.DEVNULL if quiet else None, check=False).returncode == 0


def _make_venv(venv: Path) -> None:
    if venv_python(venv).exists():
        return
    print(f"Making the virtual environment {venv} with Python {sys.version.split()[0]} …", flush=True)
    if not _run(sys.executable, "-m", "venv", venv):
        shutil.rmtree(venv, ignore_errors=True)
        raise SetupError(
            f"{sys.executable} could not make a virtual environment. On Debian and Ubuntu install the package "
            "python3-venv; elsewhere take a Python from python.org or conda, and run the command again."
        )


def _find_uv(venv: Path, lock: Path) -> Path | None:
    """uv from the PATH, or installed into the environment by pip."""
    on_path = shutil.which("uv")
    if on_path:
        return Path(on_path)
    local = venv_python(venv).with_name("uv.exe" if sys.platform == "win32" else "uv")
    if local.exists():
        return local
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "uv.txt"
        wanted.write_text(pinned(lock.read_text(encoding="utf-8"), "uv"), encoding="utf-8")
        pip = (venv_python(venv), "-m", "pip", "--disable-pip-version-check")
        _run(*pip, "install", "--quiet", "--require-hashes", "--no-deps", "-r", wanted, quiet=True)
    return local if local.exists() else None


def _install(venv: Path, root: Path, lock: Path) -> None:
    python = venv_python(venv)
    uv = _find_uv(venv, lock)
    install: tuple[str | Path, ...]
    print(f"Installing the packages of {lock.name} (some 600 MB to fetch the first time) …", flush=True)
    if uv is not None:
        install = (uv, "pip", "install", "--quiet", "--python", python)
        if _run(*install, "--require-hashes", "-r", lock) and _run(*install, "--no-deps", "--editable", root):
            return
        print("uv did not succeed; trying pip, which takes longer …", flush=True)
    install = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    if not _run(*install, "--require-hashes", "-r", lock) or not _run(*install, "--no-deps", "--editable", root):
        raise SetupError(
            "The packages could not be installed; the lines above say why. Without a network connection nothing can "
            "be fetched. Behind a mirror, set it for pip (PIP_INDEX_URL) and run the command again."
        )


def setup(venv: Path, *, extra: str | None = None) -> bool:
    """Make or renew the environment in ``venv``; True when anything was done.

    ``extra`` names the lock file (``""``, ``cuda12`` or ``cuda13``); None looks for a GPU and chooses. Raises
    ``SetupError`` with what to do.
    """
    root = project_root()
    venv = Path(os.path.abspath(venv))
    found = probe()
    chosen = choose_extra(found) if extra is None else extra
    wanted = fingerprint(root, chosen)
    stamp = venv / STAMP
    if venv_python(venv).exists() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return False
    if isinstance(found, Gpu):
        print(f"Found {found.names[0]}, whose driver runs CUDA {found.cuda[0]}.{found.cuda[1]}.")
    else:
        print(f"No GPU is used: {found.reason}. The course runs on the simulated device.")
    _make_venv(venv)
    stamp.unlink(missing_ok=True)
    _install(venv, root, root / LOCKS[chosen])
    kernelspecs.install(venv, venv_python(venv), gpu=isinstance(found, Gpu))
    stamp.write_text(wanted, encoding="utf-8")
    print(f"The environment {venv} is ready.", flush=True)
    return True
