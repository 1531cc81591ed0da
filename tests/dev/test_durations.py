"""The stored costs of tests: what a run measured, and what was known of the others."""

from __future__ import annotations

from pathlib import Path

from tests import durations
from tests.slices import Costs

RUN = """<testsuites><testsuite><testcase classname="tests.sim.device.queue.test_a.TestB" name="test_c" time="2.0">
<properties><property name="processor_seconds" value="1.5"/><property name="cost_key" value="x"/></properties>
</testcase><testcase classname="tests.corpus.test_d" name="test_e" time="0.5"/></testsuite></testsuites>"""


def test_dear_are_tests_that_take_long_and_families_that_do_together() -> None:
    measured = {"slow": [0.2, 0.4], "many": [0.01, 0.03], "cheap": [0.01, 0.05, 0.06], "gone": [9.0]}
    functions = {"slow": 3, "many": 60, "cheap": 3, "not run": 1, "not run, cheap": 1}
    before = Costs({"slow": 7.0, "not run": 0.5, "removed": 8.0}, 0.02, {"corpus": 4})
    found = durations.costs(measured, functions, before)
    assert found == Costs({"slow": 0.3, "many": 0.02, "not run": 0.5}, 0.04, {"corpus": 4})
    assert durations.costs({}, functions, before).cheap == 0.02


def test_many_tests_that_take_next_to_nothing_cost_something() -> None:
    found = durations.costs({"many": [0.0004], "more": [0.004]}, {"many": 3000, "more": 300}, Costs({}, 0.02, {}))
    assert found.dear == {"many": 0.001, "more": 0.004}


def test_costs_are_stored_as_they_were(tmp_path: Path) -> None:
    costs = Costs({"a": 0.5}, 0.02, {"corpus": 4})
    costs.store(tmp_path / "costs.json")
    assert Costs.load(tmp_path / "costs.json") == costs


def test_a_run_is_summed_by_folder(tmp_path: Path) -> None:
    (tmp_path / "run.xml").write_text(RUN)
    found = durations.by_folder(tmp_path / "run.xml")
    assert found == {
        "sim/device/queue": durations.Sum(1, 2.0, 1.5),
        "corpus": durations.Sum(1, 0.5, 0.0),
    }
    assert durations.table([found]).splitlines()[-1] == "| all | 2 | 2 | 2 |"
