"""Without any one of its waits, a correct program is reported; and the harness that deletes them does what it says."""

from __future__ import annotations

import json

import pytest

from tests.hazards.correct import Correct, programs
from tests.hazards.deletion import deletions, notebook_program, undetected
from tests.hazards.planted import ARRAYS

# One stream orders its own work, and blocking streams are ordered by the default stream: there waits may be idle.
NEEDED = [p for p in programs() if ", 1 " not in p.name and " blocking" not in p.name and deletions(p.text)]


@pytest.mark.parametrize("program", NEEDED, ids=lambda program: program.name.replace(" ", "-"))
def test_each_wait_is_missed_when_it_is_deleted(program: Correct) -> None:
    assert undetected(program.text, setup=program.setup) == []


def test_many_waits_were_deleted() -> None:
    assert sum(len(deletions(program.text)) for program in NEEDED) >= 100


def test_every_form_of_a_wait_is_found_and_the_lines_stay() -> None:
    text = """\
done = a.record()
event.record(b)
b.wait_event(done)
for s in (a, b):
    s.synchronize()
err, = cudart.cudaStreamSynchronize(
    a.ptr)
check(driver.cuStreamWaitEvent(s, e, 0)); x = 1
start.record(a)
print(cp.cuda.get_elapsed_time(start, stop))
"""
    found = deletions(text)
    assert [deletion.line for deletion in found] == [1, 2, 3, 5, 6, 8]
    lines = [deletion.text.splitlines() for deletion in found]
    assert all(len(rest) == len(text.splitlines()) for rest in lines)
    assert [rest[d.line - 1] for rest, d in zip(lines, found, strict=True)] == [
        "done = cp.cuda.Event()",
        "pass",
        "pass",
        "    pass",
        "err, = (cudart.cudaError_t.cudaSuccess,)"
        if "err, =" in lines[4][5]
        else "(err,) = (cudart.cudaError_t.cudaSuccess,)",
        "pass; x = 1",
    ]
    for deletion in found:
        compile(deletion.text, "left", "exec")


def test_a_wait_that_orders_nothing_new_is_undetected_unless_it_is_listed() -> None:
    text = """\
scale(G, B, (x, y, np.int32(N)), stream=a)
a.synchronize()
b.synchronize()
assert (y.get() == 2 * x.get()).all()
"""
    (idle,) = undetected(text, setup=ARRAYS)
    assert idle.statement == "b.synchronize()" and idle.line == 3
    assert undetected(text, setup=ARRAYS, unneeded=("b.synchronize()",)) == []


def test_cells_of_a_notebook_are_one_program(tmp_path) -> None:
    cells = [
        {"cell_type": "markdown", "id": "text", "source": ["no code"]},
        *({"cell_type": "code", "id": name, "source": source} for name, source in (
            ("one", ["a = 1\n", "%timeit a"]), ("two", "b = 2"), ("three", "c = 3"))),
    ]  # fmt: skip
    path = tmp_path / "chapter.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert notebook_program(path) == "a = 1\n\nb = 2\nc = 3"
    assert notebook_program(path, first="two", last="two") == "b = 2"
