"""Host time on the simulated device against what an H200 and an H100 did (``bench/host_time/data``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import cudalab
from bench.host_time import allocations, programs
from bench.host_time.calls import KB
from bench.host_time.instruments import Bench, now
from cudalab import cp, cudart
from cudalab.sim.device import Device
from cudalab.sim.device.current import set_current_device

DATA = Path(programs.__file__).parent / "data"
MEDIAN = 1
SIZES = (4, 256, KB, 4 * KB, 16 * KB, 64 * KB)


@cache
def measured(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def on(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new device of the profile that the parameter names."""
    before = set_current_device(Device(request.param))
    yield request.param
    set_current_device(before)


@pytest.mark.parametrize("on", ["h200", "h100"], indirect=True)
def test_one_more_small_copy_in_a_row_takes_what_it_takes_on_a_gpu(on: str) -> None:
    modelled = programs.on_the_device(Bench(), "plain", SIZES)
    off = {}
    for name, figures in measured(on)["on the device"].items():
        if name in modelled and name not in ("nothing", "empty kernel"):
            off[name] = modelled[name]["each"]["median"] / figures["each"][MEDIAN] - 1
    assert len(off) == 1 + 4 * len(SIZES)
    assert {name: error for name, error in off.items() if abs(error) > 0.25} == {}


@pytest.mark.long
@pytest.mark.parametrize("on", ["h200"], indirect=True)
def test_sixteen_streams_are_too_many(on: str) -> None:
    """Chapter 11's pipeline in a trace: the host cannot ask for 48 pieces of work as fast as the device does them."""
    bench = Bench()
    job, streams = programs.Pipeline(bench), [cp.cuda.Stream(non_blocking=True) for _ in range(16)]
    job.steps = 1  # the copies decide, and a shorter kernel is simulated faster
    times, asked = {}, {}
    for number in (1, 4, 16):
        with cudalab.trace() as timeline:
            before = now()
            job.depth_first(streams[:number])
            asked[number] = now() - before
            bench.synchronize()
        times[number] = timeline.elapsed
    seen = {number: measured(on)["pipeline"]["trace"][f"depth_first, {number}"]["later"][2] for number in times}
    assert sorted(times, key=times.__getitem__) == sorted(seen, key=seen.__getitem__) == [4, 1, 16]
    before = now()
    job.depth_first(streams)
    assert now() - before < asked[16] / 3


def test_allocations_are_timed_one_by_one():
    found = allocations.measure(cudart, cudalab.clock, "page-locked", 64 << 10, True)
    assert len(found["pairs"]) == allocations.PAIRS
    assert len(found["allocations"]) == len(found["frees"]) == allocations.HELD[64 << 10]
    assert all(took > 0 for pair in found["pairs"] for took in pair)
    with pytest.raises(RuntimeError, match="cudaErrorMemoryAllocation"):
        allocations.measure(cudart, cudalab.clock, "device", 1 << 50, False)
