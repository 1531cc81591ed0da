"""``python -m cudalab exercises``: write what learners open from what teachers write; and ``grade``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cudalab.grading import grade_command
from cudalab.grading.generate import generate_all
from cudalab.installation.environment import project_root


def main(arguments: Sequence[str]) -> int:
    """Run ``exercises`` or ``grade``; returns the exit code."""
    if arguments[:1] == ["grade"]:
        return grade_command.main(arguments[1:])
    root = project_root()
    parser = argparse.ArgumentParser(prog="python -m cudalab exercises", description=__doc__)
    parser.add_argument("command", choices=["exercises"], help=argparse.SUPPRESS)
    parser.add_argument("--solutions", type=Path, default=root / "solutions", help="(default: solutions/)")
    parser.add_argument("--exercises", type=Path, default=root / "exercises", help="(default: exercises/)")
    given = parser.parse_args(arguments)
    changed = generate_all(given.solutions, given.exercises)
    print("\n".join(f"wrote {path.name}" for path in changed) or "every exercise is up to date")
    return 0
