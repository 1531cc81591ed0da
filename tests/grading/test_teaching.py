"""The teacher's page: its commands, run one after the other as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checks.answers.answer import ROOT
from tests.grading.handed_in import scores

PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_environment_is_made_as_the_page_says() -> None:
    """Its own steps are tested in ``tests/installation``."""
    (install,) = re.findall(r"^```bash install\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert "\nmake environment\n" in install and "bubblewrap" in install
    done = subprocess.run(["make", "-n", "environment"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "-m cudalab setup --venv .venv" in done.stdout


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
