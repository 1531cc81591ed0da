"""The teacher's page: its commands, run one after the other as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checks.answers.answer import ROOT
from tests.grading.handed_in import scores
from tests.installation.test_one_click import bare_root as bare_root

PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


INSTALL = "".join(re.findall(r"^```bash install\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
STAND_INS = """
sudo() { [ "$1 $2" = "apt install" ] && command -v git make python3 bwrap; }
git() { [ "$1" = clone ] && cp -r ~/cudalab "$(basename "$2")"; }
"""
"""For the password, and for the network: the course lies in the home folder."""


def test_the_environment_is_made_as_the_page_says() -> None:
    """Its own steps are tested in ``tests/installation``."""
    assert "\nmake environment\n" in INSTALL and "bubblewrap" in INSTALL
    done = subprocess.run(["make", "-n", "environment"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "-m cudalab setup --venv .venv" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_the_page_leads_from_an_empty_machine_to_scores(bare_root: Callable[..., str]) -> None:
    """All of its commands, in a bare Debian root; with --no-jail where that, a jail itself, has no room for another.
    The test below has them as they stand."""
    jail = "python -c 'from cudalab.sim.compiler.processes import jail; print(bool(jail.bwrap()))'"
    told = bare_root(
        "\n".join(["mkdir ~/teacher && cd ~/teacher", STAND_INS, INSTALL, "which python", jail]), timeout=1200
    )
    assert "/teacher/cudalab/.venv/bin/python" in told
    works = told.split()[-1] == "True"  # a root within namespaces cannot always make others
    blocks = [block if works else block.replace("cudalab grade", "cudalab grade --no-jail") for block in BLOCKS]
    there = "cd ~/teacher/cudalab && . .venv/bin/activate"
    told = bare_root("\n".join([there, *blocks, "ls grades"]), timeout=1200)
    assert "Repeated: the same result" in told
    assert {"scores.csv", "canvas.csv", "moodle.csv", "teacher.txt"} <= set(told.splitlines())


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_page_leads_to_scores(tmp_path: Path, bwrap_path: str) -> None:
    for folder in ("exercises", "solutions"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    script = "\n".join(["set -e", *BLOCKS])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=850
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Repeated: the same result" in done.stdout and "no score differs" in done.stdout
    assert scores(tmp_path / "grades")["alice/04.1"]["maximum"] == 10
    written = {path.name for path in (tmp_path / "grades").iterdir()} | {path.name for path in tmp_path.iterdir()}
    assert {"scores.csv", "canvas.csv", "moodle.csv", "feedback", "teacher.txt", "gradebook.db", "release"} <= written
