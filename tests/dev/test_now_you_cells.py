"""The form of the *Now you* cells, each rule broken once; and what is not recorded of them."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest

from cudalab.dev import notebook_format as rules
from cudalab.dev import now_you

SOLUTION = """<details><summary>Solution</summary>

```python
def twice(x):
    return 2 * x
```

It adds up.

</details>"""
CELLS = {
    "now-double": "**Now you.** Double a number.",
    "now-double-answer": "def twice(x):\n    return x",
    "now-double-check": 'cudalab.check("14.double", twice)',
    "now-double-solution": SOLUTION,
}


def notebook(cells: dict[str, str]) -> Any:
    made = []
    for name, source in cells.items():
        kind = nbformat.v4.new_markdown_cell if source[0] in "*<#" else nbformat.v4.new_code_cell
        made.append(kind(source, id=name))
    return nbformat.v4.new_notebook(cells=made)


def broken(changes: dict[str, str], *, more: dict[str, str] | None = None) -> list[str]:
    return [f"{cell}: {rule}" for cell, rule in now_you.broken(notebook(CELLS | changes | (more or {})), "14")]


def test_good_cells_are_one_task() -> None:
    made = notebook({"before": "x = 1", **CELLS, "after": "print(x)"})
    assert list(now_you.broken(made, "14")) == []
    (task,) = now_you.now_you(made)
    assert (task.exercise, task.name) == ("14.double", "twice")
    assert task.starter.endswith("return x") and task.solution.endswith("return 2 * x")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"now-double": "**Now you**: double a number."}, "does not begin with"),
        ({"now-double-check": 'cudalab.check("14.double", twice); print(1)'}, "not the one line"),
        ({"now-double-check": 'cudalab.check("14.other", twice)'}, "its own id says '14.double'"),
        ({"now-double-check": 'cudalab.check("14.double", other)'}, "does not bind other"),
        ({"now-double-solution": "<details>Double it.</details>"}, "one fenced block"),
        ({"now-double-solution": SOLUTION.replace("twice", "thrice")}, "does not bind twice"),
        ({"now-double-answer": "# now"}, "four cells in a row"),
    ],
    ids=str,
)
def test_each_rule(changes: dict[str, str], rule: str) -> None:
    (found,) = broken(changes)
    assert rule in found


def test_all_four_stand_in_a_row() -> None:
    names = list(CELLS)
    without = notebook({name: CELLS[name] for name in names if name != "now-double-check"})
    swapped = notebook({name: CELLS[name] for name in (names[0], names[2], names[1], names[3])})
    apart = notebook({names[0]: CELLS[names[0]], "between": "x = 1", **{name: CELLS[name] for name in names[1:]}})
    for made in (without, swapped, apart):
        assert any("four cells in a row" in rule for _, rule in now_you.broken(made, "14"))
        assert now_you.now_you(made) == []


@pytest.mark.parametrize(
    "source", ["print(twice(2))", "twice = 3", "%%cuda twice\ncode", "def f():\n    return twice(1)"]
)
def test_no_other_cell_uses_what_the_learner_binds(source: str) -> None:
    (found,) = broken({}, more={"after": source})
    assert found == "after: it uses twice, which the learner binds in 'now-double-answer'"


def test_nothing_of_them_is_recorded() -> None:
    made = notebook({"first": "x = 1", **CELLS, "last": "print(x)"})
    hashes = rules.source_hashes(made)
    assert set(hashes) == {"first", "last"}
    made.cells[2].outputs = [nbformat.v4.new_output("stream", text="not yet")]
    made.cells[2].execution_count = 3
    kept = json.loads(rules.canonical(made))["cells"][2]
    assert kept["outputs"] == [] and kept["execution_count"] is None
    made.cells[2].source += "\nx = 2"
    assert rules.source_hashes(made) == hashes
