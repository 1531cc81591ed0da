"""What holds for every test: the device, what CI must not skip, and that a full run collects all there is."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

# Before anything imports cudalab: tests run on the simulated device unless told otherwise, and what they compile is
# kept for the next run. The cache's keys hold the compiler's source: after a change there, all is compiled again.
os.environ.setdefault("CUDALAB_DEVICE", "sim")
os.environ.setdefault("CUDALAB_CACHE", str(Path(__file__).parent.parent / ".cache" / "compiled"))
# Few sources of the tests are compiled twice by one process.
os.environ.setdefault("CUDALAB_PRECOMPILED_HEADERS", "off")

# jsonschema, which nbformat imports, builds 38 grammars for this check of addresses: seconds in every process.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

import pytest
from hypothesis import HealthCheck, settings

from tests import scheduling, slices
from tests.browser import chromium

# One slice for all processes, also when a commit comes in between.
os.environ[slices.VARIABLE] = slices.chosen()
os.environ[slices.CHAPTERS] = ",".join(sorted(slices.changed_chapters()))

pytest.register_assert_rewrite("tests.notebooks.chapter")

# Properties are tried on the same examples in every run, whatever the machine does besides.
settings.register_profile(
    "cudalab", max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("cudalab")

ROOT = Path(__file__).parent.parent
TESTS = "tests"
CI = os.environ.get("CI") == "true"
# A skip for one of these reasons is right also where everything is installed.
RIGHTFUL_SKIPS = ("only on Windows", "not on Windows", "a GPU is here", "no clones of the public corpus here")


def _missing(what: str) -> None:
    """A missing program is a failure in CI, where the tests must run, and a skip on a learner's machine."""
    if CI:
        pytest.fail(f"{what} is missing, and with CI=true that is a failure")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The path of Chromium."""
    path = chromium.find()
    if path is None:
        _missing("chromium")
    assert path is not None
    return path


@pytest.fixture(scope="session")
def bwrap_path() -> str:
    """The path of bubblewrap."""
    path = shutil.which("bwrap")
    if path is None:
        _missing("bwrap")
    assert path is not None
    return path


class Completeness:
    """Counts what ran; a full run that left a test file out, or in CI skipped something, fails."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.skipped: list[str] = []
        self.problems: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = report.nodeid.split("::")[0]
        if report.when == "setup":
            self.ran[path] += 1
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config = session.config
        # `--maxfail`, an interrupt or a chosen file leave things out on purpose
        if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or config.option.keyword or session.shouldstop:
            return
        if CI:
            self.problems += [
                f"skipped with CI=true: {text}"
                for text in self.skipped
                if not any(reason in text for reason in RIGHTFUL_SKIPS)
            ]
        for path in missing_files(set(self.ran), config.option.markexpr):
            self.problems.append(f"no test of {path} was collected")
        if self.problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.problems:
            terminalreporter.section("incomplete run", red=True, bold=True)
            for problem in self.problems:
                terminalreporter.line(problem, red=True)


def missing_files(ran: set[str], markers: str) -> list[str]:
    """Test files of the suite that took no part, though the marker expression does not rule them out as a whole."""
    if markers != "not gpu and not long":
        return []
    expected = []
    for file in sorted((ROOT / TESTS).rglob("test_*.py")):
        if not re.search(r"^pytestmark = .*mark\.(?:gpu|long)", file.read_text(encoding="utf-8"), re.MULTILINE):
            expected.append(file.relative_to(ROOT).as_posix())
    return [path for path in expected if path not in ran]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.Scheduling:
    return scheduling.Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slices.take_turns(items)
    items.sort(key=lambda item: scheduling.rank(item.nodeid))


def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # almost all that a collection makes stays


def pytest_collection_finish(session: pytest.Session) -> None:
    """Each of the garbage collector's runs, some of which tests and devices ask for, would look at all that the
    collection has made: a quarter of a second each time."""
    gc.enable()
    gc.freeze()


def pytest_report_header() -> str:
    repeat = f"{slices.VARIABLE}={slices.chosen()} {slices.CHAPTERS}={','.join(sorted(slices.changed_chapters()))}"
    return f"slices of commit {slices.chosen()}; to repeat them: {repeat}"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers report to the one that has none
        config.pluginmanager.register(Completeness(), "completeness")
