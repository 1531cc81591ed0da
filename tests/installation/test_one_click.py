"""The course without an installation: the files for Binder and for a devcontainer, and the first cell for Colab.

The steps of each are run in a bare Debian root: the system's own programs, an empty home, a copy of the course, and
nothing of the environment that the tests run in. What only the services themselves can show is not tested, and
README.md says so.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cudalab.cli import parser

ROOT = Path(__file__).parents[2]
HOME = "/home/learner"
COURSE = f"{HOME}/cudalab"
SETTINGS = re.compile(r"PIP_|UV_|SSL_|REQUESTS_|CURL_|.*_proxy$", re.IGNORECASE)  # how packages are fetched here
KERNEL = 'import cudalab\\nfrom cudalab import cp\\nprint("sum", int(cp.arange(5).sum()))'
# What a browser does first: it asks for the start page.
ASK = r"""
for attempt in $(seq 120); do
    python3 -c "
import sys, urllib.request
page = urllib.request.urlopen('http://127.0.0.1:8899/cudalab/start?token=x')
sys.stdout.write(page.read().decode())" 2>/dev/null && break
    sleep 1
done
kill %1"""


def colab_cell():
    """The commands of the cell that README.md has for Colab."""
    cell = re.search(r"```python\n(%pip .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return cell[1].splitlines()


def devcontainer():
    return json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())


@pytest.fixture
def bare_root(bwrap_path, tmp_path):
    """Runs a shell script in a bare Debian root, in a copy of the course."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if not name.startswith(("tests/", "docs/", "bench/")) and (ROOT / name).is_file():
            (tmp_path / "cudalab" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "cudalab" / name)
    command = [bwrap_path, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--clearenv"]
    command += ["--ro-bind", "/usr", "/usr", "--tmpfs", "/usr/local", "--ro-bind", "/etc", "/etc", "--proc", "/proc"]
    for folder in ("bin", "sbin", "lib", "lib64"):
        command += ["--symlink", f"usr/{folder}", f"/{folder}"]
    command += ["--dev", "/dev", "--tmpfs", "/tmp", "--bind", str(tmp_path), HOME, "--chdir", COURSE]
    for extra in (os.environ.get("PIP_FIND_LINKS", ""), "/run/systemd/resolve"):
        command += ["--ro-bind-try", extra, extra] if extra.startswith("/") else []
    settings = Path.home() / ".config/pip"
    command += ["--ro-bind-try", str(settings), f"{HOME}/.config/pip"]
    surroundings = {name: value for name, value in os.environ.items() if SETTINGS.match(name)}
    surroundings |= {"HOME": HOME, "PATH": "/usr/bin", "LANG": "C.UTF-8"}
    for name, value in surroundings.items():
        command += ["--setenv", name, value]

    def run(script, timeout=60):
        ended = subprocess.run(
            [*command, "bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=timeout
        )
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        return ended.stdout

    return run


def test_commands_of_every_configuration_are_commands_of_cudalab():
    texts = [(ROOT / ".binder/postBuild").read_text(), *map(str, devcontainer().values())]
    named = {name for text in texts for name in re.findall(r"-m cudalab ([\w-]+)", text)}
    assert named == {"copy", "setup", "lab"}
    assert named <= set(parser()._subparsers._group_actions[0].choices)
    assert devcontainer()["forwardPorts"] == [8888]


def test_binder_starts_jupyter_in_the_learners_copy(bare_root):
    told = bare_root("bash .binder/start printf '%s\\n' jupyter-lab --port=1 && echo; ls -l .binder")
    assert told.splitlines()[:2] == ["jupyter-lab", "--port=1"]
    assert f"--ServerApp.root_dir={COURSE}/work" in told and "--ServerApp.default_url=/lab" in told
    assert len(re.findall(r"^-rwx\S+ .* (?:postBuild|start)$", told, re.MULTILINE)) == 2
    found = bare_root("bash .binder/start bash -c 'echo $JUPYTER_CONFIG_PATH'").strip()
    assert (ROOT / Path(found).relative_to(COURSE) / "jupyter_server_config.json").is_file()


def test_readme_says_what_was_not_tested():
    section = (ROOT / "README.md").read_text().split("## Without installing anything")[1].split("\n## ")[0]
    assert all(name in section for name in ("Binder", "Codespaces", "Colab"))
    assert "not tested on the services themselves" in section


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_steps_of_binder(bare_root):
    page = bare_root(
        "python3 -m venv ~/env && export PATH=~/env/bin:$PATH && pip install --quiet -r .binder/requirements.txt\n"
        ".binder/postBuild\n"
        ".binder/start jupyter-lab --no-browser --allow-root --ip=127.0.0.1 --port=8899 --IdentityProvider.token=x &"
        + ASK,
        timeout=1500,
    )
    assert "Begin with: 00 Start here" in page


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_steps_of_the_devcontainer(bare_root):
    attach = devcontainer()["postAttachCommand"]
    page = bare_root(
        f"{devcontainer()['postCreateCommand']}\nJUPYTER_TOKEN=x {attach} --port 8899 &" + ASK,
        timeout=1500,
    )
    assert "Begin with: 00 Start here" in page


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_steps_of_the_first_cell_for_colab(bare_root):
    install, extension = colab_cell()
    packages = re.sub(r"git\+\S+", ".", install.removeprefix("%pip "))
    told = bare_root(
        f"python3 -m venv ~/env && export PATH=~/env/bin:$PATH && pip {packages}\n"
        f"cd /tmp && printf '%b' '{extension}\\n{KERNEL}\\n' > cell.ipy && ipython cell.ipy",
        timeout=1500,
    )
    assert "sum 10" in told
