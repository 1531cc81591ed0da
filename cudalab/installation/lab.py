"""Opens the learner's copy of the course in JupyterLab, with everything switched off that would ask the network at
start."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from cudalab.installation.environment import project_root
from cudalab.installation.gpu_probe import Gpu, probe

WORK = "work"
"""The learner's copy, in the folder of the course."""

# Settings that keep JupyterLab off the network (it asks for news, newer versions and extensions otherwise), add the
# start page and leave out nbgrader's menus, which are for teachers. They count for a JupyterLab that is started
# here, and change nothing of the learner's own settings.
CONFIGURATION = Path(__file__).parents[1] / "jupyter"


def command(copy: Path, notebook: str | None = None, *, browser: bool, port: int, address: str) -> list[str]:
    """The command line that starts JupyterLab in ``copy`` on the start page, or on ``notebook``, relative to it."""
    line = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={copy}", f"--ServerApp.port={port}"]
    line += [f"--ServerApp.ip={address}", f"--LabApp.default_url=/lab{f'/tree/{notebook}' if notebook else ''}"]
    line.append("--Application.log_level=WARN")  # the address is printed at any level
    if not browser:
        line.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container, say; JupyterLab refuses root without it
        line.append("--allow-root")
    return line


def environment() -> dict[str, str]:
    """The environment for JupyterLab: this Python's own programs first, so that kernels and nbgrader are found also
    where the virtual environment is not activated; and ``CONFIGURATION``.

    Python's bytecode is kept in any case: images of containers often switch that off, and then each kernel, and each of
    the several hundred processes of a run of the tests, compiles all that it imports, half a second and more of
    processor time each.
    """
    first = {"PATH": Path(sys.executable).parent, "JUPYTER_CONFIG_PATH": CONFIGURATION}
    joined = {name: os.pathsep.join(filter(None, (str(path), os.environ.get(name)))) for name, path in first.items()}
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **joined}


def list_kernels() -> list[Path]:
    """Write the entries of the kernel picker, the user's own profiles among them; returns the folders. A profile that
    cannot be read is left out: the doctor says what is wrong with it."""
    from cudalab.installation import kernelspecs
    from cudalab.sim.device import profile

    titles = {}
    for name in profile.own_names():
        with suppress(profile.ProfileError):
            titles[name] = profile.load(name).title
    return kernelspecs.install(Path(sys.prefix), Path(sys.executable), titles, gpu=isinstance(probe(), Gpu))


def prepare() -> Path:
    """Bring the learner's copy and the kernel picker up to date and say what has changed; returns the copy's folder."""
    from cudalab.course.working_copy import WorkingCopy

    root = project_root()
    copy = WorkingCopy(root / WORK)
    fresh = not copy.names()
    updates = copy.update(root)
    if fresh:
        print(f"Your own copy of the course is {copy.folder}.", flush=True)
    else:
        print(*updates, sep="\n", end="\n" if updates else "", flush=True)
    list_kernels()
    return copy.folder


def start(notebook: str | None = None, *, browser: bool = True, port: int = 8888, address: str = "localhost") -> int:
    """Start JupyterLab, on POSIX in the place of this process; returns the exit code."""
    root = project_root()
    if notebook is not None and not (root / WORK / notebook).is_file():
        from cudalab.course import edition

        try:
            notebook = edition.find(notebook, edition.names(root))
        except LookupError as error:
            print(f"lab: {error}", file=sys.stderr)
            return 1
    copy = prepare()
    line = command(copy, notebook, browser=browser, port=port, address=address)
    print(f"JupyterLab starts on {notebook or 'the start page'}. Stop it with Ctrl-C.", flush=True)
    if os.name == "posix":  # become JupyterLab, so that signals reach it
        os.chdir(copy)
        os.execve(line[0], line, environment())
    try:
        return subprocess.run(line, cwd=copy, env=environment(), check=False).returncode
    except KeyboardInterrupt:
        return 0
