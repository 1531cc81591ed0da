"""Every conformance program on the device at hand, against its oracle and against what an H200 returned.

Without a GPU the device is the simulated one; with ``CUDALAB_DEVICE=gpu`` the same programs run live.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from .program import load_programs
from .results import differences, load
from .run import HERE, Worker, judge

DEVICE = "gpu" if os.environ["CUDALAB_DEVICE"] == "gpu" else "sim"
PROGRAMS = load_programs()
FEWEST = 80  # programs, spread over all families
FAMILIES = {
    "arrays", "async_copies", "atomics", "barriers", "callbacks", "clusters", "cooperative_groups",
    "copy_order", "copy_shapes", "cupy_runtime", "device_heap", "device_memory_calls", "driver_modules",
    "events", "faults", "floats", "functions", "grid_sync", "host_memory", "implicit_waits", "integers",
    "launch_blocking", "launch_errors", "legacy_default", "managed", "mbarriers", "memory_spaces",
    "named_barriers", "per_thread", "pool", "pools", "printing", "raw_modules", "runtime_memory", "spinning",
    "stream_handles", "stream_values", "streams", "targets", "textures", "vector_atomics", "warps",
}  # fmt: skip


@cache
def stored() -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    return load(HERE / "h200")


@pytest.fixture(scope="session")
def run_program() -> Iterator[Callable[[str], dict[str, Any]]]:
    """Runs a program in a child process that is kept for the next one while it is healthy."""
    worker: Worker | None = None

    def run(key: str) -> dict[str, Any]:
        nonlocal worker
        if worker is not None and DEVICE == "gpu" and PROGRAMS[key].isolated:
            worker.stop()
            worker = None
        worker = worker or Worker(DEVICE, real=False)
        values, _, healthy = worker.run(key)
        if not healthy:
            worker.stop()
            worker = None
        return values

    yield run
    if worker is not None:
        worker.stop()


@pytest.mark.parametrize("key", PROGRAMS)
def test_program_agrees_with_its_oracle_and_with_an_h200(
    key: str, run_program: Callable[[str], dict[str, Any]]
) -> None:
    values = run_program(key)
    wrong = [f"oracle: {line}" for line in judge(key, values)]
    if key in stored()[1]:
        wrong += [f"H200: {line}" for line in differences(values, stored()[1][key]["values"], PROGRAMS[key].tolerance)]
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


def test_there_are_programs_of_all_families() -> None:
    assert len(PROGRAMS) >= FEWEST
    assert {key.split("/")[0] for key in PROGRAMS} == FAMILIES
