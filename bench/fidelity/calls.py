"""Experiments with the host time of calls, and with short operations on the device: those of ``bench.host_time``, which
constants of the host come from."""

from __future__ import annotations

from collections.abc import Iterator

from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import Laboratory
from bench.host_time.__main__ import CALLS_IN_A_ROW
from bench.host_time.calls import IDLE, QUEUED
from bench.host_time.instruments import Bench
from bench.host_time.programs import on_the_device

Result = Iterator[tuple[str, float]]
PYTHONS_OWN = ("nothing", "memory", "arrays")
"""Families of which Python and CuPy have the largest part, which the simulated device does not model."""
SIZES = (256, 4096, 65536, 1 << 20)
WAYS = ("to device", "to host", "on device", "memset")


def _queued(family: str) -> None:
    @experiment(f"calls behind a kernel, host time: {family}", half="calibration")
    def program(lab: Laboratory) -> Result:
        bench = Bench()
        for name, call in QUEUED[family](bench).items():
            yield name, bench.queued(call, CALLS_IN_A_ROW)["median"]


def _idle(family: str) -> None:
    @experiment(f"calls on an idle device, host time: {family}", half="calibration")
    def program(lab: Laboratory) -> Result:
        bench = Bench()
        for name, call in IDLE[family](bench).items():
            yield name, bench.idle(call)["median"]


for _family in QUEUED:
    if _family not in PYTHONS_OWN:
        _queued(_family)
for _family in IDLE:
    _idle(_family)


@experiment("short copies and memsets between events", half="calibration")
def short_operations(lab: Laboratory) -> Result:
    found = on_the_device(Bench(), "plain", SIZES)
    for way in WAYS:
        for size in SIZES:
            yield f"{way}, {size}", found[f"{way}, {size}"]["one"]["median"]
