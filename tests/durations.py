"""Seconds of a test run by folder, from pytest's junit file.

    python -m cudalab test -- --junitxml=after.xml
    python -m tests.durations before.xml after.xml

prints the table of ``docs/evidence``: tests and seconds (set-up and tear-down included) of each run, by folder.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

_DEEP = ("sim",)  # folders that are shown by their own folders


def folder_of(case: str) -> str:
    """The folder under ``tests`` that a test's class name in the junit file belongs to."""
    parts = case.split(".")[1:]
    folders = [part for part in parts if not part.startswith(("test_", "Test"))]
    return "/".join(folders[: 3 if folders and folders[0] in _DEEP else 1]) or "(files)"


def by_folder(junit: Path) -> dict[str, tuple[int, float]]:
    """Number of tests and seconds by folder."""
    found: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for case in ElementTree.parse(junit).iter("testcase"):
        count, seconds = found[folder_of(case.get("classname", ""))]
        found[folder_of(case.get("classname", ""))] = count + 1, seconds + float(case.get("time", 0))
    return dict(found)


def table(runs: list[dict[str, tuple[int, float]]]) -> str:
    """Markdown: a row a folder, the longest first, and the sums."""
    folders = sorted({name for run in runs for name in run}, key=lambda name: -runs[0].get(name, (0, 0.0))[1])
    total = [(sum(n for n, _ in run.values()), sum(s for _, s in run.values())) for run in runs]
    rows = [(name, [run.get(name, (0, 0.0)) for run in runs]) for name in folders]
    lines = ["| folder |" + " tests | seconds |" * len(runs), "| --- |" + " ---: | ---: |" * len(runs)]
    for name, figures in [*rows, ("all", total)]:
        lines.append(f"| {name} |" + "".join(f" {count:,} | {seconds:,.0f} |" for count, seconds in figures))
    return "\n".join(lines)


if __name__ == "__main__":
    print(table([by_folder(Path(argument)) for argument in sys.argv[1:]]))
