"""The *Now you* cells of a chapter: a few lines to write, checked at once, with the solution one click away.

They are four cells in a row: what to do (``now-NAME``), a starter to change (``now-NAME-answer``), the check
(``now-NAME-check``) and the folded solution (``now-NAME-solution``), a fenced block that replaces the starter. What is
asked is declared in ``cudalab/checks/practice``. A learner may write anything there, so no other cell builds on what
they bind, and nothing of them is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cudalab.dev.cell_names import names_of

PREFIX = "now-"
PARTS = {"": "markdown", "-answer": "code", "-check": "code", "-solution": "markdown"}
"""The ending of each cell's id, in order, and the type of the cell."""
_CHECK = re.compile(r'cudalab\.check\("(?P<id>[^"]+)", (?P<name>[A-Za-z_]\w*)\)')
_SOLUTION = re.compile(
    r"<details><summary>Solution</summary>\n\n```[\w+]*\n(?P<code>.+?)\n```\n\n(?P<why>.+?)\n\n</details>", re.DOTALL
)
_SOLUTION_FORM = (
    "it is not <details><summary>Solution</summary>, one fenced block, a sentence why and </details>, "
    "with blank lines between them"
)
_CHECK_FORM = 'it is not the one line cudalab.check("NN.NAME", name_of_the_answer)'


@dataclass(frozen=True)
class NowYou:
    """One task, from four cells that are in form."""

    exercise: str
    """``14.last-record``"""
    name: str
    """What the answer binds."""
    starter: str
    solution: str


def is_now_you(cell: Any) -> bool:
    return str(cell.get("id", "")).startswith(PREFIX)


def now_you(notebook: Any) -> list[NowYou]:
    """The tasks of a notebook, in order; one whose cells are not in form is left out (``broken`` says why)."""
    return [task for _, cells in _groups(notebook) if isinstance(task := _task(cells), NowYou)]


def broken(notebook: Any, chapter: str) -> Iterator[tuple[str, str]]:
    """The cell and the rule, for each rule that the tasks of chapter ``chapter`` (``14``) break."""
    for stem, cells in _groups(notebook):
        task = _task(cells)
        if not isinstance(task, NowYou):
            yield task
            continue
        wanted = f"{chapter}.{stem.removeprefix(PREFIX)}"
        if task.exercise != wanted:
            yield cells[2].id, f"it checks {task.exercise!r}; its own id says {wanted!r}"
        bound = names_of(task.starter).binds | names_of(task.solution).binds
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell not in cells:
                if shared := bound & names_of(cell.source).uses:
                    yield cell.id, f"it uses {', '.join(sorted(shared))}, which the learner binds in {cells[1].id!r}"


def _groups(notebook: Any) -> list[tuple[str, list[Any]]]:
    """The cells of each task, by what their ids begin with, wherever they stand."""
    groups: dict[str, list[Any]] = {}
    stem = ""
    for cell in notebook.cells:
        if is_now_you(cell):
            if not (stem and cell.id in {stem + part for part in PARTS}):
                stem = cell.id
            groups.setdefault(stem, []).append(cell)
        else:
            stem = ""
    return list(groups.items())


def _task(cells: list[Any]) -> NowYou | tuple[str, str]:
    """The task, or the cell and the rule that it breaks."""
    stem = cells[0].id
    if [(cell.id, cell.cell_type) for cell in cells] != [(stem + part, kind) for part, kind in PARTS.items()]:
        wanted = ", ".join(f"{stem}{part} ({kind})" for part, kind in PARTS.items())
        return stem, f"a Now you has four cells in a row: {wanted}"
    text, answer, check, solution = cells
    if not text.source.startswith("**Now you.** "):
        return text.id, "it does not begin with **Now you.** and what to write or change"
    checked, solved = _CHECK.fullmatch(check.source.strip()), _SOLUTION.fullmatch(solution.source.strip())
    if checked is None:
        return check.id, _CHECK_FORM
    if solved is None:
        return solution.id, _SOLUTION_FORM
    task = NowYou(checked["id"], checked["name"], answer.source, solved["code"])
    for cell, source in ((answer, task.starter), (solution, task.solution)):
        if task.name not in names_of(source).binds:
            return cell.id, f"it does not bind {task.name}, which {check.id!r} checks"
    return task
