"""How a helper process is started: its command line, and the folder that it stands in."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from cudalab.sim.compiler.frontend import headers
from cudalab.sim.compiler.processes import jail

BOOT = """
import json, sys, types
c = json.loads(sys.argv[1])
sys.path[:] = c["path"]
for name, folder in c["packages"].items():
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [folder]
from cudalab.sim.compiler.processes.worker import main
main(c)
"""


def command_line(*, jailed: bool, precompiles: bool, control: int | None = None) -> tuple[list[str], bool]:
    """The command line of a helper, and whether it is wrapped in bwrap. ``control``: the number of the socket of one
    that is a zygote."""
    here = Path(__file__).resolve().parent.parent
    packages = {"cudalab": here.parent.parent, "cudalab.sim": here.parent, "cudalab.sim.compiler": here}
    current = os.getcwd() if _has_current_folder() else ""
    # an entry for the current folder would let a learner's json.py stand in for the library's
    path = [os.path.abspath(entry) for entry in sys.path if entry and os.path.abspath(entry) != current]
    library = headers.nvrtc_library()
    folders = headers.include_directories()
    readable: list[str] = []
    if jailed:
        native = [str(library.parent)] if library else []
        readable = jail.readable_folders(str(here.parent), [*native, *_module_folders(path)], folders)
    configuration = {
        "path": path,
        "packages": {name: str(folder) for name, folder in packages.items()},
        "library": str(library or ""),
        "folders": list(folders),
        "readable": readable,
        "apart": jailed and hasattr(os, "fork"),
        "control": control,
        "precompile": precompiles and os.environ.get("CUDALAB_PRECOMPILED_HEADERS", "").lower() != "off",
    }
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", BOOT, json.dumps(configuration)]
    program = jail.bwrap() if jailed else ""
    if program:
        return [*jail.bwrap_command(program, readable, empty_folder()), *command], True
    return command, False


def _module_folders(path: list[str]) -> list[str]:
    """The installed packages that a helper imports, found without importing them."""
    names = ("llvmlite", "msgspec", "numpy", "numpy.libs")
    return [folder for entry in path for name in names if os.path.isdir(folder := os.path.join(entry, name))]


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except OSError:  # it was deleted
        return False
    return True


_folder = ""


def empty_folder() -> str:
    """A folder without files for helpers to stand in: NVRTC looks for quoted includes there first."""
    global _folder
    if not _folder or not os.path.isdir(_folder):
        _folder = tempfile.mkdtemp(prefix="cudalab-")
    return _folder


def remove_headers(process: int) -> None:
    """Remove the precompiled headers of a process, for which it had no time."""
    if _folder:
        shutil.rmtree(os.path.join(_folder, f"headers-{process}"), ignore_errors=True)


def remove_folder() -> None:
    """At the end of this process."""
    if _folder:
        shutil.rmtree(_folder, ignore_errors=True)


def forget_folder() -> None:
    """In a forked child: the folder is the parent's, and the parent removes it."""
    global _folder
    _folder = ""
