"""Seconds of a test run by folder, and what the tests of dear families cost, from pytest's junit file.

    python -m cudalab test -- --junitxml=after.xml -p tests.durations
    python -m tests.durations before.xml after.xml
    python -m tests.durations --store after.xml

The second prints the table of ``docs/evidence``: tests, seconds (set-up and tear-down included) and processor seconds
of each run, by folder. The third renews ``costs.json``, by which a run takes its part of the tests (``slices.py``):
what the functions that took part in the run cost, and how many tests there are; without a file the latter only. As a
plugin of pytest (``-p tests.durations``) this module adds processor seconds to the junit file: what the test's
process and all processes below it took. On a machine that does other work, only they can be compared.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import psutil
import pytest

from tests import slices

_PROCESSOR, _COST_KEY = "processor_seconds", "cost_key"
_DEAR, _LARGE = 0.1, 1.0
"""Processor seconds of a test, and of all of a family together, from which on the family is dear."""
_LEAST = 0.001
"""What a dear function's test costs at least: of what costs nothing a run could not take a part."""
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
        item.user_properties += [(_PROCESSOR, f"{took:.3f}"), (_COST_KEY, slices.cost_key(item))]


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


def _properties(case: ElementTree.Element) -> dict[str, str]:
    return {each.get("name", ""): each.get("value", "") for each in case.iter("property")}


def _file(case: ElementTree.Element) -> str:
    """The path of a test's file, by the name of its module or class."""
    return re.sub(r"(/test_[^/]*)/.*", r"\1", case.get("classname", "").replace(".", "/"))


def by_folder(junit: Path) -> dict[str, Sum]:
    """What the tests of each folder took."""
    found: dict[str, Sum] = defaultdict(Sum)
    for case in ElementTree.parse(junit).iter("testcase"):
        processor = float(_properties(case).get(_PROCESSOR, 0))
        found[slices.folder_of(_file(case))].add(Sum(1, float(case.get("time", 0)), processor))
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


class _Collected:
    """A plugin of pytest that counts all tests there are, those of long runs and for GPUs included."""

    def __init__(self) -> None:
        self.folders: Counter[str] = Counter()
        self.functions: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.folders.update(slices.folder_of(item.nodeid) for item in items)
        self.functions.update(slices.cost_key(item) for item in items)


def costs(measured: Mapping[str, Sequence[float]], functions: Mapping[str, int], before: slices.Costs) -> slices.Costs:
    """What a test of each dear function costs, by the measured seconds and, where there are none, as before.

    Args:
        measured: processor seconds of the tests that ran, by ``slices.cost_key``.
        functions: how many tests of each there are.
        before: what was known.
    """
    means = {key: each for key, each in before.dear.items() if key in functions}
    means |= {key: fmean(each) for key, each in measured.items() if key in functions}
    large = {key: each for key, each in means.items() if each >= _DEAR or each * functions[key] >= _LARGE}
    dear = {key: max(_LEAST, round(each, 3)) for key, each in large.items()}
    cheap = [each for key, each in measured.items() if key in functions.keys() - dear.keys()]
    if not cheap or len(cheap) < len(functions.keys() - dear.keys()) / 2:  # some files do not stand for all
        return slices.Costs(dear, before.cheap, before.collected)
    return slices.Costs(dear, round(fmean(seconds for each in cheap for seconds in each), 4), before.collected)


def store(runs: Iterable[Path]) -> None:
    """Renew ``costs.json``."""
    measured = defaultdict(list)
    for run in runs:
        for case in ElementTree.parse(run).iter("testcase"):
            properties = _properties(case)
            if _COST_KEY in properties:  # not what an interrupted run left unfinished
                measured[properties[_COST_KEY]].append(float(properties[_PROCESSOR]))
    collected = _Collected()
    with redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-qq"], plugins=[collected])
    found = costs(measured, collected.functions, slices.Costs.load())
    replace(found, collected=dict(collected.folders)).store()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="what the tests take")
    parser.add_argument("--store", action="store_true", help="renew tests/costs.json")
    parser.add_argument("runs", nargs="*", type=Path, help="junit files of runs with `-p tests.durations`")
    arguments = parser.parse_args()
    if arguments.store:
        store(arguments.runs)
    else:
        print(table([by_folder(run) for run in arguments.runs]))
