"""What the learner has answered: predictions, questions, checks.

Widgets and checks note an answer in the kernel that runs the notebook; Jupyter's server reads it for the start page.
Both use ``work/.cudalab/progress.jsonl``, one line an answer, only ever appended to, so that several kernels may write
and nothing is lost. A notebook that does not lie in a working copy leaves no trace.
"""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

STATE = ".cudalab"
"""The folder that marks a working copy and holds what belongs to it."""
_FILE = "progress.jsonl"

Kind = Literal["prediction", "question", "check"]


def note(kind: Kind, name: str, answer: object, *, done: bool = True) -> None:
    """Write down an answer that was given in the running notebook. ``name`` is the number of the question, the
    prediction or the exercise; ``done``: does this settle the matter? (A check that failed does not.)"""
    place = here()
    if place is not None and name:
        copy, notebook = place
        Progress(copy).append({"kind": kind, "notebook": notebook, "name": name, "answer": answer, "done": done})


def answer(kind: Kind, name: str) -> Any:
    """The last answer of that name in the running notebook; None if there is none."""
    place = here()
    if place is None:
        return None
    copy, notebook = place
    return Progress(copy).latest().get((kind, notebook, name), {}).get("answer")


def here() -> tuple[Path, str] | None:
    """The working copy and the notebook in it that this kernel runs; None where it runs another. Jupyter's server tells
    a kernel its notebook in ``JPY_SESSION_NAME``."""
    session = os.environ.get("JPY_SESSION_NAME", "")
    if not session.endswith(".ipynb"):
        return None
    path = Path(session).resolve()
    copy = next((folder for folder in path.parents if (folder / STATE).is_dir()), None)
    return (copy, path.relative_to(copy).as_posix()) if copy else None


class Progress:
    """The answers kept in a working copy."""

    def __init__(self, copy: Path) -> None:
        self._file = copy / STATE / _FILE

    def append(self, entry: dict[str, Any]) -> None:
        """Add one line. A copy that cannot be written to is no error: the cell goes on."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), **entry}, ensure_ascii=False)
        with contextlib.suppress(OSError), self._file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def start_over(self, notebook: str) -> None:
        """From now on, what was answered in ``notebook`` does not count."""
        self.append({"kind": "start over", "notebook": notebook})

    def latest(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """The last entry for each (kind, notebook, name), in the order of time. What was solved once stays solved."""
        found: dict[tuple[str, str, str], dict[str, Any]] = {}
        for entry in self._entries():
            notebook = entry.get("notebook", "")
            if entry.get("kind") == "start over":
                found = {key: kept for key, kept in found.items() if key[1] != notebook}
                continue
            key = (str(entry.get("kind")), notebook, str(entry.get("name")))
            before = found.pop(key, None)
            found[key] = {**entry, "done": bool(entry.get("done") or (before and before["done"]))}
        return found

    def _entries(self) -> list[dict[str, Any]]:
        entries = []
        with contextlib.suppress(OSError):
            for line in self._file.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):  # a line cut short by a full disk
                    entry = json.loads(line)
                    if isinstance(entry, dict):
                        entries.append(entry)
        return entries
