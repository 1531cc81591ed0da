"""Every conformance program on the device at hand, against its oracle and against what an H200 returned.

Without a GPU the device is the simulated one; with ``CUDALAB_DEVICE=gpu`` the same programs run live.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import pytest

from tests import slices

from . import observation
from .observation import Observation
from .program import load_programs
from .results import differences, load
from .run import HERE, Worker, device_for, judge

DEVICE = "gpu" if os.environ["CUDALAB_DEVICE"] == "gpu" else "sim"
PROGRAMS = load_programs()
SYNCHRONISED = ("atomics/", "barriers/", "named_barriers/", "warps/")
"""Programs of which one of each kind is sanitized in every run."""
#: CUDA's large headers take the compiler two to nine seconds a program; all others together a tenth of a second each.
LARGE_HEADERS = re.compile(r"#include <(?:cooperative_groups|cuda/)")
FEWEST = 80  # programs, spread over all families
FAMILIES = {
    "arrays", "async_copies", "atomics", "barriers", "callbacks", "clusters", "contexts", "cooperative_groups",
    "copy_order", "copy_shapes", "cupy_runtime", "device_graph_codes", "device_graph_order",
    "device_graph_update_rules", "device_graph_updates", "device_graphs",
    "device_heap", "device_memory_calls", "driver_modules",
    "events", "faults", "floats", "functions",
    "graph_capture", "graph_conditionals", "graph_edges", "graph_memory", "graph_memory_rules", "graph_user_objects",
    "graph_attributes", "graph_updates", "graphs",
    "concurrent_atomics", "dependent_launch", "grid_sync", "host_memory", "implicit_waits", "integers",
    "l2_persistence", "l2_windows",
    "launch_attributes", "launch_blocking", "launch_errors", "legacy_default", "linking", "managed", "mbarriers",
    "memory_spaces",
    "named_barriers", "per_thread", "pool", "pools", "printing", "programmatic_launch", "raw_modules",
    "runtime_memory", "spinning", "stream_handles", "stream_values", "streams", "sync_domains", "targets", "textures",
    "two_devices", "vector_atomics", "warps",
}  # fmt: skip

Run = Callable[[str, bool], tuple[dict[str, Any], Observation]]
"""Runs a program, under the sanitizer or not."""


@cache
def stored() -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    return load(HERE / "h200")


@pytest.fixture(scope="session")
def run_program() -> Iterator[Run]:
    """Runs a program in a child process that is kept for the next one while it is healthy. A program that runs again
    gets a new one: equal sources are one module there, whose variables and attributes stay."""
    worker: Worker | None = None
    ran: set[str] = set()

    def run(key: str, sanitize: bool) -> tuple[dict[str, Any], Observation]:
        nonlocal worker
        device = device_for(key, DEVICE)
        other = worker is not None and worker.device != device
        if worker is not None and (other or key in ran or DEVICE == "gpu" and PROGRAMS[key].isolated):
            worker.stop()
            worker = None
        if worker is None:
            worker = Worker(device, real=False)
            ran.clear()
        ran.add(key)
        values, _, healthy, seen = worker.run(key, sanitize=sanitize)
        if not healthy:
            worker.stop()
            worker = None
        return values, seen

    yield run
    if worker is not None:
        worker.stop()


def _includes_large_headers(key: str) -> bool:
    """Does any program of its family?"""
    module = sys.modules[PROGRAMS[key].run.__module__]
    return LARGE_HEADERS.search(inspect.getsource(module)) is not None


def _programs(keys: Iterable[str], kind: Callable[[str], str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("key", slices.cases(keys, kind=kind))


def _family(key: str) -> str:
    return key.split("/")[0]


@pytest.mark.timeout(300)
@_programs((key for key in PROGRAMS if not _includes_large_headers(key)), _family)
def test_program_agrees_with_its_oracle_and_with_an_h200(key: str, run_program: Run) -> None:
    """And the hazard report says nothing of it but what it should."""
    _compare(key, run_program, sanitize=False)


@pytest.mark.timeout(300)
@_programs(filter(_includes_large_headers, PROGRAMS), lambda key: "")
def test_program_with_large_headers_agrees_with_its_oracle_and_with_an_h200(key: str, run_program: Run) -> None:
    _compare(key, run_program, sanitize=False)


@pytest.mark.skipif(DEVICE == "gpu", reason="a GPU is here")
@pytest.mark.timeout(300)
@_programs(
    (key for key in PROGRAMS if not key.startswith(observation.FAULTY)),
    lambda key: _family(key) if key.startswith(SYNCHRONISED) else "",
)
def test_the_sanitizer_says_of_a_program_what_it_should(key: str, run_program: Run) -> None:
    """On a GPU there is nothing to ask: the sanitizer is the simulated device's."""
    _compare(key, run_program, sanitize=True)


def _compare(key: str, run_program: Run, *, sanitize: bool) -> None:
    values, seen = run_program(key, sanitize)
    wrong = [f"oracle: {line}" for line in judge(key, values)]
    if key in stored()[1]:
        wrong += [f"H200: {line}" for line in differences(values, stored()[1][key]["values"], PROGRAMS[key].tolerance)]
    wrong += observation.complaints(key, seen, sanitized=sanitize, isolated=PROGRAMS[key].isolated)
    assert not wrong, f"{PROGRAMS[key].behaviour}\n" + "\n".join(wrong)


def test_stored_results_are_of_an_h200() -> None:
    about = stored()[0]
    assert "H200" in about["device"]
    assert about["requested"] == "gpu"


def test_each_program_has_stored_results_of_its_present_source() -> None:
    results = stored()[1]
    assert sorted(PROGRAMS) == sorted(results), "run `python -m tests.conformance.run --device gpu`"
    stale = [key for key, result in results.items() if result["source"] != PROGRAMS[key].source_hash]
    assert not stale, "run `python -m tests.conformance.run --device gpu --merge --only " + ",".join(stale) + "`"


def is_whole(values: Any) -> bool:
    """Of large arrays only a hash is stored; those are compared with arrays that the oracles have seen."""
    if isinstance(values, dict):
        return "sha256" not in values and all(map(is_whole, values.values()))
    return not isinstance(values, (list, tuple)) or all(map(is_whole, values))


def test_stored_results_agree_with_the_oracles() -> None:
    whole = [key for key in PROGRAMS if is_whole(stored()[1][key]["values"])]
    assert len(whole) >= 0.9 * len(PROGRAMS)
    wrong = [f"{key}: {line}" for key in whole for line in judge(key, stored()[1][key]["values"])]
    assert not wrong, "\n".join(wrong)


def test_the_lists_of_what_is_found_name_programs() -> None:
    assert set(observation.WRONG) | observation.LENT_AGAIN | set(observation.UNORDERED) <= set(PROGRAMS)
    for beginning in (*observation.WAITING, *observation.UNSET, *observation.FAULTY, *SYNCHRONISED):
        assert any(key.startswith(beginning) for key in PROGRAMS), beginning
    assert sum(not program.isolated for program in PROGRAMS.values()) >= 100


@pytest.mark.skipif(DEVICE == "gpu", reason="a GPU is here")
def test_a_copy_that_does_not_wait_is_reported(run_program: Run) -> None:
    _, seen = run_program("copy_order/plain_copy_beside_non_blocking", False)
    (text,) = seen.hazards
    assert "non-blocking" in text


def test_what_should_not_be_said_of_a_program_is_noticed() -> None:
    fine = {"sanitized": True, "isolated": False}
    said = Observation(["two copies"], [("race", "a race")])
    assert observation.complaints("atomics/x", said, **fine) == ["hazard: two copies", "sanitizer: a race"]
    assert observation.complaints("clusters/block_size", Observation(), **fine) == ["sanitizer: 'race' was not found"]
    assert observation.complaints("clusters/block_size", Observation([], [("race", "a race")]), **fine) == []


def test_there_are_programs_of_all_families() -> None:
    assert len(PROGRAMS) >= FEWEST
    assert {key.split("/")[0] for key in PROGRAMS} == FAMILIES
