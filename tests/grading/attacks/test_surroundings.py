"""The grader as a teacher starts it: in a folder with students' files, and on machines without its jail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cudalab.grading.grade_command import CANNOT
from tests.checks.answers.answer import ROOT, solution_of
from tests.grading.handed_in import CACHE, hand_in, scores

SHADOW = """open({owned!r}, "a").write(__name__)
raise SystemExit("owned")
"""
NAMES = ("numpy", "msgspec", "psutil", "sitecustomize", "usercustomize", "platformdirs", "sqlite3", "zipfile", "tqdm")
READING = """def send(count, fill, boxes, d, stream):
    import glob
    try:
        for place in {places!r}:
            assert glob.glob(place, recursive=True), place
            open(place, "rb").read()
    except (OSError, AssertionError):
        return
    honest(count, fill, boxes, d, stream)

"""
_WITHOUT_NAMESPACES = """
echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""


def _grade(*arguments: str, cwd: Path, before: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess:
    command = [*before, sys.executable, "-m", "cudalab", "grade", *arguments]
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    environment = {**kept, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=280)


@pytest.mark.timeout(300)
def test_the_files_of_students_are_neither_imported_nor_readable(tmp_path: Path, bwrap_path: str) -> None:
    """Even where the teacher stands in the folder that holds them. Mallory looks for what Alice has handed in, for the
    gradebook, the settings and the solutions, and solves the exercise if one of them is there."""
    folder, out, owned = tmp_path / "class", tmp_path / "class" / "grades", tmp_path / "owned"
    right = solution_of("11.2")
    alice = hand_in(folder, "alice", {"send": right}, "11")
    places = [str(alice), str(out / "grades.sqlite"), str(tmp_path / "lab.toml"), str(ROOT / "solutions" / "*.ipynb")]
    for number, place in enumerate(places):
        mine = READING.format(places=[place]) + right.replace("def send(", "def honest(")
        hand_in(folder, f"mallory {number}", {"send": mine}, "11")
    for name in NAMES:
        (folder / f"{name}.py").write_text(SHADOW.format(owned=str(owned)))
    (tmp_path / "lab.toml").write_text('exercises = ["11.2"]\nseed = 1\n')
    settings = ("--settings", "../lab.toml", "--cache", str(CACHE), "--jobs", "1")
    done = _grade(".", "--out", "grades", *settings, cwd=folder)
    assert done.returncode == 0 and not owned.exists(), done.stderr
    points = {name: one["points"] for name, one in scores(out).items()}
    assert points == {"alice/11.2": 4, **{f"mallory {number}/11.2": 0 for number in range(len(places))}}


def _without_namespaces() -> tuple[str, ...]:
    """What has a command run as on a system that gives nobody namespaces; nothing where this one does not."""
    unshare = shutil.which("unshare") or ""
    before = (unshare, "-Ur", "sh", "-c", _WITHOUT_NAMESPACES, "sh")
    works = unshare and subprocess.run([*before, "true"], capture_output=True).returncode == 0
    return before if works else ()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("missing", ["bwrap", "user namespaces", "a /proc in them"])
def test_without_a_jail_it_says_so_and_asks(missing: str, tmp_path: Path, bwrap_path: str) -> None:
    hand_in(tmp_path / "submitted", "alice", {"reverse": solution_of("04.1")})
    programs = tmp_path / "programs"
    programs.mkdir()
    if missing == "a /proc in them":  # as in many a container
        (programs / "bwrap").write_text('#!/bin/sh\ncase "$*" in *--proc*) exit 1;; esac\n')
        (programs / "bwrap").chmod(0o755)
    before = _without_namespaces() if missing == "user namespaces" else ()
    environment = {} if missing == "user namespaces" else {"PATH": str(programs)}
    done = _grade("submitted", "--cache", str(CACHE), cwd=tmp_path, before=before, **environment)
    assert done.returncode == CANNOT and not (tmp_path / "grades").exists()
    for told in ("!!! NO JAIL", "no working bwrap", "user namespaces", "add --no-jail. Nothing was graded"):
        assert told in done.stderr, done.stderr


@pytest.mark.timeout(300)
def test_with_no_jail_it_goes_on_and_says_so(tmp_path: Path) -> None:
    """A kernel and an answer in Python."""
    hand_in(tmp_path / "submitted", "alice", {"reverse": solution_of("04.1")})
    hand_in(tmp_path / "submitted", "alice", {"send": solution_of("11.2")}, "11")
    (tmp_path / "lab.toml").write_text('exercises = ["04.1", "11.2"]\nseed = 1\n')
    arguments = ("--settings", "lab.toml", "--cache", str(CACHE), "--jobs", "1", "--no-jail")
    done = _grade("submitted", *arguments, cwd=tmp_path, PATH=str(tmp_path))
    assert done.returncode == 0 and "!!! --no-jail was given: going on" in done.stderr, done.stderr
    points = {name: one["points"] for name, one in scores(tmp_path / "grades").items()}
    assert points == {"alice/04.1": 3, "alice/11.2": 4}


@pytest.mark.timeout(300)
def test_what_a_student_wrote_is_told_to_no_terminal_as_it_stands(tmp_path: Path, bwrap_path: str) -> None:
    """``--explain`` shows the answer: without what clears a screen, or writes into the clipboard."""
    text = '%%cuda reverse\n// \x1b[2J\x1b]52;c;b3duZWQ=\x07 \x9b2J \u202e\n\textern "C" __global__ void reverse() {}'
    hand_in(tmp_path / "submitted", "mallory", {"reverse": text})
    (tmp_path / "lab.toml").write_text('exercises = ["04.1"]\nseed = 1\n')
    arguments = ("--settings", "lab.toml", "--cache", str(CACHE))
    assert _grade("submitted", *arguments, cwd=tmp_path).returncode == 0
    done = _grade("--explain", "mallory/04.1", *arguments, cwd=tmp_path)
    assert done.returncode == 0 and '    extern "C"' in done.stdout
    assert all(one.isprintable() for one in done.stdout.replace("\n", "")) and "\\x1b[2J" in done.stdout
