"""What the learner has answered: predictions, questions, checks.

Widgets and checks note an answer in the kernel that runs the notebook; Jupyter's server reads it for the start page.
Both use ``work/.cudalab/progress.jsonl``, one line an answer, only ever appended to, so that several kernels may write
and nothing is lost: every attempt at an exercise stays, with its text, its points and the seed that repeats its check.
Starting over adds a line, too. A notebook that does not lie in a working copy leaves no trace.
"""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cudalab.spreadsheet import as_csv

STATE = ".cudalab"
"""The folder that marks a working copy and holds what belongs to it."""
_FILE = "progress.jsonl"
_COLUMNS = ("time", "notebook", "kind", "name", "answer", "of", "done", "seed")

Kind = Literal["prediction", "question", "check"]


def note(kind: Kind, name: str, answer: object, *, done: bool = True, **details: object) -> None:
    """Write down an answer that was given in the running notebook. ``name`` is the number of the question, the
    prediction or the exercise; ``done``: does this settle the matter? (A check that failed does not.) ``details`` are
    kept with it; of a check: ``of`` (the most points there are), ``seed`` and ``text`` (what was handed in)."""
    place = here()
    if place is not None and name:
        copy, notebook = place
        entry = {"kind": kind, "notebook": notebook, "name": name, "answer": answer, "done": done}
        Progress(copy).append({**entry, **details})


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
        timed = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **entry}
        line = json.dumps(timed, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"
        with contextlib.suppress(OSError), self._file.open("ab+", buffering=0) as file:  # one line, one write
            if file.tell() and file.seek(-1, os.SEEK_END) and file.read(1) != b"\n":
                line = b"\n" + line  # a full disk cut the last one short
            file.write(line)

    def start_over(self, notebook: str) -> None:
        """From now on, what was answered in ``notebook`` does not count."""
        self.append({"kind": "start over", "notebook": notebook})

    def latest(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """The last entry for each (kind, notebook, name), in the order of time. What was solved once stays solved."""
        found: dict[tuple[str, str, str], dict[str, Any]] = {}
        for entry in self.entries():
            notebook = entry.get("notebook", "")
            if entry.get("kind") == "start over":
                found = {key: kept for key, kept in found.items() if key[1] != notebook}
                continue
            key = (str(entry.get("kind")), notebook, str(entry.get("name")))
            before = found.pop(key, None)
            found[key] = {**entry, "done": bool(entry.get("done") or (before and before["done"]))}
        return found

    def entries(self) -> list[dict[str, Any]]:
        """All that was ever noted, in the order of time."""
        entries = []
        with contextlib.suppress(OSError):
            for line in self._file.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):  # a line cut short by a full disk
                    entry = json.loads(line)
                    if isinstance(entry, dict):
                        entries.append(entry)
        return entries

    def export(self, form: str) -> str:
        """All of it as a file: ``csv``, a line for each answer, without the texts of attempts; or ``json``, with them.

        ``ValueError`` for another form.
        """
        if form == "json":
            return json.dumps(self.entries(), indent=1, ensure_ascii=False) + "\n"
        if form != "csv":
            raise ValueError(f"answers are exported as csv or json (got {form!r})")
        return as_csv([_COLUMNS, *([entry.get(name, "") for name in _COLUMNS] for entry in self.entries())])
