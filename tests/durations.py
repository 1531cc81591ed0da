"""Seconds of a test run by folder, from pytest's junit file.

    python -m cudalab test -- --junitxml=after.xml -p tests.durations
    python -m tests.durations before.xml after.xml

prints the table of ``docs/evidence``: tests, seconds (set-up and tear-down included) and processor seconds of each run,
by folder. As a plugin of pytest (``-p tests.durations``) this module adds the latter to the junit file: what the test's
process and all processes below it took. On a machine that does other work, only they can be compared.
"""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

_DEEP = ("sim",)  # folders that are shown by their own folders
_PROPERTY = "processor_seconds"
_started = pytest.StashKey[float]()


def _processor_seconds() -> float:
    """Processor time of this process so far, and of all below it that still run or have been waited for."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            total += sum(child.cpu_times()[:4])
    return total


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_started] = _processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    try:
        return (yield)
    finally:
        # a killed process takes along the count of its own children, so a difference may be negative
        took = max(0.0, _processor_seconds() - item.stash[_started])
        item.user_properties.append((_PROPERTY, f"{took:.3f}"))


@dataclass
class Sum:
    """What a folder's tests took together."""

    tests: int = 0
    seconds: float = 0.0
    processor: float = 0.0

    def add(self, other: Sum) -> None:
        self.tests += other.tests
        self.seconds += other.seconds
        self.processor += other.processor

    def __str__(self) -> str:
        return f" {self.tests:,} | {self.seconds:,.0f} | {f'{self.processor:,.0f}' if self.processor else ''} |"


def folder_of(case: str) -> str:
    """The folder under ``tests`` that a test's class name in the junit file belongs to."""
    parts = case.split(".")[1:]
    folders = [part for part in parts if not part.startswith(("test_", "Test"))]
    return "/".join(folders[: 3 if folders and folders[0] in _DEEP else 1]) or "(files)"


def by_folder(junit: Path) -> dict[str, Sum]:
    """What the tests of each folder took."""
    found: dict[str, Sum] = defaultdict(Sum)
    for case in ElementTree.parse(junit).iter("testcase"):
        named = case.find(f"./properties/property[@name='{_PROPERTY}']")
        processor = float(named.get("value", 0)) if named is not None else 0.0
        found[folder_of(case.get("classname", ""))].add(Sum(1, float(case.get("time", 0)), processor))
    return dict(found)


def table(runs: list[dict[str, Sum]]) -> str:
    """Markdown: a row a folder, the longest first, and the sums."""
    folders = sorted({name for run in runs for name in run}, key=lambda name: -runs[0].get(name, Sum()).seconds)
    total = [Sum() for _ in runs]
    lines = [
        "| folder |" + " tests | seconds | processor |" * len(runs),
        "| --- |" + " ---: | ---: | ---: |" * len(runs),
    ]
    for name in folders:
        rows = [run.get(name, Sum()) for run in runs]
        for together, row in zip(total, rows, strict=True):
            together.add(row)
        lines.append(f"| {name} |" + "".join(map(str, rows)))
    return "\n".join([*lines, "| all |" + "".join(map(str, total))])


if __name__ == "__main__":
    print(table([by_folder(Path(argument)) for argument in sys.argv[1:]]))
