"""The course's own stream programs: without any one of their waits or events, the report (or CUDA) tells of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hazards.deletion import deletions, undetected

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
STREAMS = "a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)\n"
FOUR = "streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]\n"


def source(notebook: str, cell: str) -> str:
    """The code of one cell."""
    for entry in json.loads((NOTEBOOKS / notebook).read_text(encoding="utf-8"))["cells"]:
        if entry.get("id") == cell:
            return "".join(entry["source"]) + "\n"
    raise KeyError(f"{notebook} has no cell {cell!r}")


def streams(cell: str) -> str:
    return source("11_streams.ipynb", cell)


def priorities(cell: str) -> str:
    return source("12_stream_priorities.ipynb", cell)


def events(cell: str) -> str:
    return source("14_events.ipynb", cell)


@dataclass(frozen=True)
class Case:
    """A program, what comes before it, and the waits in it that something else implies."""

    name: str
    setup: str
    text: str
    waits: int
    """How many statements order something."""
    unneeded: tuple[str, ...] = ()


CASES = (
    Case(
        "11: a pipeline in four streams",
        streams("ok") + streams("data") + streams("depth-first") + FOUR + "n, steps = 1 << 14, 4\n",
        streams("right-values"),
        waits=2,
    ),
    Case(
        "11: one stream waits for another",
        STREAMS + streams("forgotten").split("cp.cuda.Device().synchronize()")[0],
        streams("mended"),
        waits=4,
    ),
    Case(
        "11: a letterbox",
        STREAMS + streams("kernel-spin") + streams("data"),
        streams("letterbox").rsplit("\n", 2)[0] + "\nprint(send(wait=True))\n",
        waits=3,
    ),
    Case(
        "12: urgent work waits for what it needs",
        "import cudalab\n"
        + priorities("kernels")
        + priorities("work").replace("260_000", "2_600")
        + "high = cp.cuda.Stream(non_blocking=True)\n"
        "begin, end = cp.cuda.Event(), cp.cuda.Event()\n",
        priorities("inversion").split("print(")[0],
        waits=2,
    ),
    Case(
        "14: fork and join",
        events("kernel-put") + events("kernel-add").replace("400_000", "400"),
        events("two-streams") + "cells[0] = 1\ncp.cuda.Device().synchronize()\nforked()\n",
        waits=5,
    ),
    Case(
        "14: record first, then wait",
        events("kernel-put").replace("2_000_000", "2_000") + events("wait-first").split("x[:], y[:]")[0],
        events("record-first"),
        waits=4,
        unneeded=("b.synchronize()",),  # the copy behind it is in the same stream
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_wait_of_the_course_is_missed_when_it_is_deleted(case: Case) -> None:
    assert len(deletions(case.text)) == case.waits
    assert [d.statement for d in undetected(case.text, setup=case.setup, unneeded=case.unneeded)] == []
