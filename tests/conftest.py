"""What holds for every test: the device, what CI must not skip, and that a full run collects all there is."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
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
MISSING = pytest.StashKey[list[str]]()
# A skip for one of these reasons is right also where everything is installed.
RIGHTFUL_SKIPS = ("only on Windows", "not on Windows", "a GPU is here", "no clones of the public corpus here")


def _missing(what: str) -> None:
    """A missing program is a failure in CI, where the tests must run, and a skip on a learner's machine."""
    if CI:
        pytest.fail(f"{what} is missing, and with CI=true that is a failure")
    pytest.skip(f"{what} is missing")


@pytest.fixture(autouse=True)
def device_is_left_alive() -> Iterator[None]:
    """A test that loses the device of all others fails itself, and not those that follow."""
    yield
    module = sys.modules.get("cudalab.sim.device.current")
    if module is not None and module._current is not None and module._current.lost is not None:
        module.set_current_device(None)
        pytest.fail("the test leaves a lost device behind: give it one of its own (checks.session.simulated)")
    if module is not None and module._current is not None and module._current.state.captures.active:
        module.set_current_device(None)
        pytest.fail("the test leaves a capture behind, which forbids calls of those that follow: end it")


@pytest.fixture(autouse=True)
def garbage_waits_for_the_end_of_the_test() -> Iterator[None]:
    """What an earlier test left in a cycle is not collected in the middle of another: it may be memory, and `cudaFree`
    invalidates a capture that is under way."""
    gc.disable()
    yield
    gc.enable()


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
    """A full run that collected too little or left a test file out, or in CI skipped a test, fails."""

    def __init__(self) -> None:
        self.skipped: list[str] = []
        self.problems: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped.append(f"{report.nodeid}: {reason}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.problems += session.config.stash.get(MISSING, [])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Only the processes that xdist starts have collected; each says the same."""
        self.problems += [text for text in node.workeroutput.get("missing", []) if text not in self.problems]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config = session.config
        if not is_whole(config) or session.shouldstop:  # after `--maxfail` or an interrupt
            return
        if CI:
            self.problems += [
                f"skipped with CI=true: {text}"
                for text in self.skipped
                if not any(reason in text for reason in RIGHTFUL_SKIPS)
            ]
        if self.problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.problems:
            terminalreporter.section("incomplete run", red=True, bold=True)
            for problem in self.problems:
                terminalreporter.line(problem, red=True)


def is_whole(config: pytest.Config) -> bool:
    """Is it a run of all tests, in which no file and no name was asked for?"""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword


def note_what_is_missing(config: pytest.Config, items: Sequence[pytest.Item], expected: Mapping[str, int]) -> None:
    """Before any selection: test files of which nothing was collected, and folders with too few tests. The processes of
    xdist tell it to the one that has started them."""
    if is_whole(config):
        found = missing_files({item.nodeid.split("::")[0] for item in items})
        found += too_few(Counter(slices.folder_of(item.nodeid) for item in items), expected)
        config.stash[MISSING] = found
        if hasattr(config, "workeroutput"):
            config.workeroutput["missing"] = found


def too_few(collected: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    """Folders in which clearly fewer tests were collected than ``costs.json`` counted."""
    return [
        f"{collected.get(folder, 0):,} tests of tests/{folder} were collected, fewer than nine tenths of {count:,}; "
        "where that is right, `python -m tests.durations --store` counts anew"
        for folder, count in expected.items()
        if collected.get(folder, 0) < 0.9 * count
    ]


def missing_files(collected: Set[str]) -> list[str]:
    """Test files of the suite that no test is of."""
    files = sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / TESTS).rglob("test_*.py"))
    return [f"no test of {path} was collected" for path in files if path not in collected]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.Scheduling:
    return scheduling.Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    costs = slices.Costs.load()
    note_what_is_missing(config, items, costs.collected)
    slices.take(items, costs)
    scheduling.longest_first(items, costs)


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
