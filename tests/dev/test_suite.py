"""A full run of the tests notices what it leaves out."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cudalab.dev import suite as test_suite
from cudalab.dev.suite import SELECTIONS
from tests import scheduling
from tests.slices import Costs

ROOT = Path(__file__).parents[2]
CONFTEST = """
import pathlib
import tests.conftest as real

real.ROOT = pathlib.Path(__file__).parent.parent

def pytest_collection_modifyitems(config, items):
    real.note_what_is_missing(config, items, {"(files)": 1})

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(real.Completeness(), "completeness")
"""


@pytest.fixture
def suite(tmp_path):
    """Runs a small project's tests with the project's own completeness check; (exit code, last line, output)."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = checks\nmarkers =\n    gpu: x\n    long: x\n")
    folder = tmp_path / "checks"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST.replace("real.ROOT", "real.TESTS = 'checks'; real.ROOT"))

    def run(*options, ci=False, **files):
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        settings = {"CI": "true" if ci else "", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        surroundings = os.environ | settings
        line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", SELECTIONS[""], *options]
        ended = subprocess.run(line, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout.rstrip().split("\n")[-1], ended.stdout

    return run


PASSES = "def test_one():\n    pass\n"
SKIPS = "import pytest\n\ndef test_one():\n    pytest.skip('chromium is missing')\n"


def test_complete_run_passes(suite):
    code, last, _ = suite(test_a=PASSES, test_b=PASSES)
    assert code == 0 and "2 passed" in last


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2", "--dist", "loadscope")], ids=["alone", "xdist"])
def test_file_from_which_nothing_was_collected_fails_the_run(suite, options):
    code, last, output = suite(*options, test_a=PASSES, test_b="def helper():\n    pass\n")
    assert code == 1
    assert "no test of checks/test_b.py was collected" in output
    assert "1 passed" in last  # pytest's closing line stays the last one


def test_file_for_gpus_alone_may_be_left_out(suite):
    gpu = "import pytest\n\npytestmark = pytest.mark.gpu\n\n" + PASSES
    assert suite(test_a=PASSES, test_b=gpu)[0] == 0


def test_skip_passes_on_a_learners_machine_and_fails_in_ci(suite):
    assert suite(test_a=SKIPS)[0] == 0
    code, _, output = suite(ci=True, test_a=SKIPS)
    assert code == 1 and "skipped with CI=true: checks/test_a.py::test_one" in output


def test_processes_of_a_run_keep_their_bytecode(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    asked = {}
    ended = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(test_suite.subprocess, "run", lambda line, **options: asked.update(options) or ended)
    assert test_suite.run() == 0
    assert "PYTHONDONTWRITEBYTECODE" not in asked["env"] and asked["env"]["CUDALAB_DEVICE"] == "sim"


def test_a_chosen_file_is_no_full_run(suite):
    assert suite("checks/test_a.py", test_a=PASSES, test_b="")[0] == 0


def test_the_schedule_names_files_that_are_there():
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    for start in (*scheduling.SPREAD, *scheduling.TOGETHER):
        assert any(file.startswith(start) for file in files), start


def test_a_file_stays_together_but_for_chapters_and_families():
    same = scheduling.unit_of
    assert same("tests/sim/test_driver.py::test_a[x]") == same("tests/sim/test_driver.py::TestB::test_c")
    chapters = "tests/notebooks/test_notebooks.py::test_chapter_runs_and_agrees_with_the_record"
    assert same(chapters + "[04_device_memory]") != same(chapters + "[11_streams]")
    programs = "tests/conformance/test_conformance.py::test_program_agrees_with_its_oracle_and_with_an_h200"
    assert same(programs + "[atomics/one]") == same(programs + "[atomics/two]") != same(programs + "[arrays/one]")


def test_what_takes_longest_begins():
    """What a run leaves out does not count."""
    costs = Costs({"tests/a.py::test_a": 2.0, "tests/b.py::test_b": 1.5}, 0.1, {})
    names = ["c.py::test_c", "a.py::test_a[1]", "a.py::test_a[2]", "b.py::test_b[1]", "b.py::test_b[2]"]
    items = [
        SimpleNamespace(nodeid=f"tests/{name}", get_closest_marker=lambda mark, name=name: "a[2]" in name or None)
        for name in names
    ]
    scheduling.longest_first(items, costs)
    assert [item.nodeid[6] for item in items] == ["b", "b", "a", "a", "c"]
