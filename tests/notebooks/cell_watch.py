"""What the sanitizer, the hazard report and the compiler say of a notebook, cell by cell, while it runs.

A ``CellWatch`` belongs to an IPython shell. Nbval's kernel gets one from a startup file (``startup_folder``), which
writes a line of JSON for each cell: so the run that compares a chapter with its record checks its launches, too. Cells
that run in a process of their own (``%%isolated``) are not seen.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from cudalab.cells import doubts
from cudalab.sim.device.hazards import HazardWarning
from tests.sim.machine.sanitizer.checked_launches import checked_launches

TIME_LIMIT = 10.0  # seconds a block may take
ALIKE = 2
"""Launches of a cell that are checked of those that differ in nothing but the contents of memory."""

STARTUP = """\
from tests.notebooks.cell_watch import CellWatch, append_to
CellWatch(get_ipython(), append_to({file!r}))
"""


@dataclass(frozen=True)
class Seen:
    """Of one cell."""

    launches: int
    """How many were checked."""
    found: list[str]
    """``kernel: rule`` of each finding of the sanitizer, ``what | what: kind`` of each hazard, ``looks like a
    mistake`` where a line that compiles does."""
    words: list[str]
    """The same as a learner reads it."""


class CellWatch:
    """Hands ``tell`` what was seen of each cell that the shell runs."""

    def __init__(self, shell: InteractiveShell, tell: Callable[[Seen], object]) -> None:
        self._tell = tell
        self._stack = ExitStack()
        self._hazards: list[Any] = []
        self._launches: list[Any] = []
        self._doubts: list[str] = []
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    def _begin(self, _: object) -> None:
        self._hazards, self._doubts = [], []
        shown = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, HazardWarning):
                self._hazards.append(message.hazard)
            shown(message, category, *rest, **more)

        self._stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always", HazardWarning)
        warnings.showwarning = show

        def doubt(bundle: dict[str, str], **more: Any) -> None:
            self._doubts.append(bundle["text/plain"])
            display(bundle, **more)

        self._stack.enter_context(patch.object(doubts, "display", doubt))
        self._launches = self._stack.enter_context(checked_launches(ALIKE, time_limit=TIME_LIMIT))

    def _end(self, _: object) -> None:
        self._stack.close()
        findings = [(kernel, finding) for kernel, result in self._launches for finding in result.findings]
        found = [f"{kernel}: {finding.rule}" for kernel, finding in findings]
        found += [f"{each.first.what} | {each.second.what}: {each.kind}" for each in self._hazards]
        found += ["looks like a mistake"] * bool(self._doubts)
        words = [str(finding) for _, finding in findings] + [hazard.text for hazard in self._hazards] + self._doubts
        self._tell(Seen(len(self._launches), sorted(set(found)), words))


def append_to(file: str) -> Callable[[Seen], object]:
    def append(seen: Seen) -> None:
        with open(file, "a", encoding="utf-8") as lines:
            print(json.dumps(asdict(seen)), file=lines)

    return append


def startup_folder(folder: Path, file: Path) -> Path:
    """An ``IPYTHONDIR`` whose kernels append what they see of their cells to ``file``."""
    startup = folder / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "watch.py").write_text(STARTUP.format(file=str(file)), encoding="utf-8")
    return folder


def written_to(file: Path) -> list[Seen]:
    """One for each cell, in the order in which they ran."""
    return [Seen(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
