"""Solution regions: in an answer cell the solution and the starter stand together.

    // BEGIN SOLUTION
    if (i < n) y[n - 1 - i] = x[i];
    // STARTER
    //| y[n - 1 - i] = x[i];
    // END SOLUTION

Points are those of `cudalab.checks` and stand nowhere else: a check cell gets those of the exercise that it calls, and
in text ``{points 04.2}`` and, for all of the notebook, ``{points}`` stand for them.
"""

from __future__ import annotations

import re

import nbformat

from cudalab.checks import find

REGION = re.compile(
    r"^[ \t]*(?://|#) BEGIN SOLUTION\n(?P<solution>.*?)"
    r"^[ \t]*(?://|#) STARTER\n(?P<starter>.*?)"
    r"^[ \t]*(?://|#) END SOLUTION\n?",
    re.MULTILINE | re.DOTALL,
)
_CHECKED = re.compile(r"cudalab\.check\(\"([\d.]+)\"")
_POINTS = re.compile(r"\{points(?: ([\d.]+))?\}")
_STARTER_LINE = re.compile(r"^([ \t]*)(?://|#)\|[ ]?(.*)$")


def starter(source: str) -> str:
    """The cell as a learner gets it."""
    return REGION.sub(lambda match: _uncomment(match["starter"]), source)


def solution(source: str) -> str:
    """The cell with its solution alone, as the tests run it."""
    return REGION.sub(lambda match: match["solution"], source)


def _uncomment(text: str) -> str:
    lines = []
    for line in text.splitlines():
        match = _STARTER_LINE.match(line)
        if not match:
            raise ValueError(f"a starter's line begins with //| or #| after its indent, not {line!r}")
        lines.append((match[1] + match[2]).rstrip())
    return "".join(line + "\n" for line in lines)


def with_points(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with the points of its exercises, in its check cells and in its text.

    Raises:
        KeyError: it checks an exercise that there is not.
    """
    checked = {}
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        if about.get("grade") and (found := _CHECKED.search(cell.source)):
            points = about["points"] = find(found[1]).maximum
            checked[found[1]] = points
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _POINTS.sub(
                lambda match: f"{checked[match[1]] if match[1] else sum(checked.values()):g}", cell.source
            )
    return notebook
