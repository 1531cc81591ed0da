"""Opens the course in JupyterLab, with everything switched off that would ask the network at start."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from cudalab.installation.environment import project_root

FIRST = "notebooks/00_start_here.ipynb"

# Settings that keep JupyterLab off the network: it asks for news, newer versions and extensions otherwise. They count
# for a JupyterLab that is started here, and change nothing of the learner's own settings.
CONFIGURATION = Path(__file__).parents[1] / "jupyter"


def command(root: Path, notebook: str | None = None, *, browser: bool, port: int, address: str) -> list[str]:
    """The command line that starts JupyterLab in ``root`` on ``notebook``, a path relative to it."""
    where = (notebook or FIRST).replace("\\", "/")
    line = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", f"--ServerApp.port={port}"]
    line += [f"--ServerApp.ip={address}", f"--LabApp.default_url=/lab/tree/{where}"]
    line.append("--Application.log_level=WARN")  # the address is printed at any level
    if not browser:
        line.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container, say; JupyterLab refuses root without it
        line.append("--allow-root")
    return line


def environment() -> dict[str, str]:
    """The environment for JupyterLab: this Python's own programs first, so that kernels and nbgrader are found also
    where the virtual environment is not activated; and ``CONFIGURATION``."""
    first = {"PATH": Path(sys.executable).parent, "JUPYTER_CONFIG_PATH": CONFIGURATION}
    joined = {name: os.pathsep.join(filter(None, (str(path), os.environ.get(name)))) for name, path in first.items()}
    return {**os.environ, **joined}


def trust(root: Path) -> int:
    """Sign the notebooks of the course, as ``jupyter trust`` does, so that their stored figures are shown before the
    first run; returns how many were signed. JupyterLab leaves SVG out of notebooks that it does not trust."""
    import nbformat
    from nbformat.sign import NotebookNotary

    notary = NotebookNotary()
    count = 0
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        try:
            notary.sign(nbformat.read(path, as_version=4))
        except (nbformat.reader.NotJSONError, OSError):  # half-written by its author; JupyterLab will say so
            continue
        count += 1
    return count


def list_kernels() -> list[Path]:
    """Write the entries of the kernel picker, the user's own profiles among them; returns the folders. A profile that
    cannot be read is left out: the doctor says what is wrong with it."""
    from cudalab.installation import kernelspecs
    from cudalab.sim.device import profile

    titles = {}
    for name in profile.own_names():
        with suppress(profile.ProfileError):
            titles[name] = profile.load(name).title
    return kernelspecs.install(Path(sys.prefix), Path(sys.executable), titles)


def start(notebook: str | None = None, *, browser: bool = True, port: int = 8888, address: str = "localhost") -> int:
    """Start JupyterLab, on POSIX in the place of this process; returns the exit code."""
    root = project_root()
    if notebook is not None and not (root / notebook).is_file():
        print(f"lab: there is no file {notebook!r} in {root}; name one relative to that folder.", file=sys.stderr)
        return 1
    trust(root)
    list_kernels()
    line = command(root, notebook, browser=browser, port=port, address=address)
    print(f"JupyterLab starts on {notebook or FIRST}. Stop it with Ctrl-C.", flush=True)
    if os.name == "posix":  # become JupyterLab, so that signals reach it
        os.chdir(root)
        os.execve(line[0], line, environment())
    try:
        return subprocess.run(line, cwd=root, env=environment(), check=False).returncode
    except KeyboardInterrupt:
        return 0
