"""How results are stored and compared: a comparison that cannot fail would hide every disagreement."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .program import REGISTRY, Program, near, raised
from .results import LARGEST_STORED, differences, load, plain, save
from .run import Run, Worker, merged, run_programs, take_over

VALUES: dict[str, Any] = {
    "array": np.arange(6, dtype=np.float32).reshape(2, 3),
    "nan": np.array([np.nan, -0.0]),
    "scalar": np.int8(-3),
    "numbers": [1, 2.5, float("inf"), True, None, "text"],
    "nested": {"deep": [np.ones(2), {"n": 1}]},
}


def test_values_survive_storing(tmp_path: Path) -> None:
    large = np.arange(LARGEST_STORED, dtype=np.int32)
    values = plain({**VALUES, "large": large})
    save(tmp_path, {"device": "none"}, {"family/name": {"source": "abc", "values": values}})
    about, results = load(tmp_path)
    assert about == {"device": "none"}
    assert differences(values, results["family/name"]["values"]) == []
    assert differences(results["family/name"]["values"], values) == []
    changed = {**values, "large": np.where(large == 7, -7, large)}
    assert len(differences(changed, results["family/name"]["values"])) == 1


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (np.float32(0.0), np.float32(-0.0)),
        (np.arange(3), np.arange(3.0)),
        (np.arange(3), np.arange(4)),
        (np.array([1.0, np.nextafter(2.0, 3)]), np.array([1.0, 2.0])),
        (np.array([np.nan]).view("u8"), np.array([np.nan]).view("u8") ^ np.uint64(1)),
        (1, True),
        (1.0, 1),
        ("a", "b"),
        ([1, 2], [1]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}),
        ({}, {"missing": 1}),
        (None, 0),
    ],
)
def test_any_difference_is_seen(got: Any, want: Any) -> None:
    assert len(differences({"value": got}, {"value": want})) == 1


def test_a_tolerance_holds_for_its_key_only_and_has_a_limit() -> None:
    want = {"sum": np.float32(1), "count": np.float32(1)}
    assert differences({"sum": np.float32(1 + 1e-6), "count": np.float32(1)}, want, {"sum": (1e-5, 0)}) == []
    assert len(differences({"sum": np.float32(1 + 1e-4), "count": np.float32(1)}, want, {"sum": (1e-5, 0)})) == 1
    assert len(differences({"sum": np.float32(1), "count": np.float32(1 + 1e-6)}, want, {"sum": (1e-5, 0)})) == 1


def test_near_bounds_an_expectation() -> None:
    assert differences({"x": 1.001}, {"x": near(1.0, rtol=1e-2)}) == []
    assert len(differences({"x": 1.1}, {"x": near(1.0, rtol=1e-2)})) == 1
    assert len(differences({"x": np.array([np.nan])}, {"x": near(np.array([1.0]), atol=10)})) == 1


def test_a_result_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="returned a set"):
        plain({"x": {1, 2}})


def test_raised_says_type_and_code() -> None:
    class CUDAError(RuntimeError):
        status = 700

    def fail() -> None:
        raise CUDAError("cudaErrorIllegalAddress: an illegal memory access was encountered\nmore")

    expected = "CUDAError 700 cudaErrorIllegalAddress: an illegal memory access was encountered"
    assert (raised(fail), raised(lambda: None), raised(lambda: 1 // 0)) == (expected, "none", "ZeroDivisionError")


def test_results_of_another_device_are_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"device": "A", "driver": 1, "runtime": 1, "nvrtc": "13.0", "versions": {}}
    for name in ("old", "kept"):
        monkeypatch.setitem(REGISTRY, f"f/{name}", Program(f"f/{name}", "", dict))
    before = {f"f/{name}": {"source": name, "values": {}} for name in ("old", "kept", "gone")}
    save(tmp_path, facts, before)
    result = merged(tmp_path, Run(facts, {"f/old": {"source": "new", "values": {}}}))
    assert {key: value["source"] for key, value in result.items()} == {"f/old": "new", "f/kept": "kept"}
    with pytest.raises(ValueError, match="of device A, this run of B"):
        merged(tmp_path, Run({**facts, "device": "B"}, {}))


def test_results_of_a_run_elsewhere_are_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not of programs that changed since or did not end."""
    facts = {"device": "A", "driver": 1, "runtime": 1, "nvrtc": "13.0", "versions": {}}
    here, there = tmp_path / "here", tmp_path / "there"
    results = {}
    for name in ("same", "changed", "lost"):
        program = Program(f"f/{name}", "", lambda: {"x": 1})
        monkeypatch.setitem(REGISTRY, program.key, program)
        results[program.key] = {"source": program.source_hash, "values": {"x": 1}}
    save(here, {**facts, "commit": "old"}, {key: {**each, "values": {"x": 0}} for key, each in results.items()})
    results["f/changed"]["source"] = "before"
    results["f/lost"]["values"] = {"exception": "WorkerLost: no answer within 9 s"}
    save(there, {**facts, "commit": "new"}, results)
    assert take_over(there, here) == 1
    about, found = load(here)
    assert about["commit"] == "new"
    assert {key: each["values"]["x"] for key, each in found.items()} == {"f/same": 1, "f/changed": 0, "f/lost": 0}


def test_a_run_ends_in_time() -> None:
    key = "warps/lane_numbering"
    with pytest.raises(RuntimeError, match="the time was over"):
        run_programs([key], "sim", seconds=0, progress=False)
    worker = Worker("sim", real=False)
    try:
        with pytest.raises(TimeoutError, match=f"{key} has not ended"):
            worker.run(key, until=time.perf_counter())
    finally:
        worker.stop()


def test_the_hash_of_a_program_ignores_layout_only() -> None:
    def first() -> dict[str, Any]:
        return {"x": 1}

    def second() -> dict[str, Any]:
        return {"x": 2}

    def program(function: Any) -> Program:
        return Program("f/p", "", function)

    assert program(first).source_hash == program(first).source_hash
    assert program(first).source_hash != program(second).source_hash
