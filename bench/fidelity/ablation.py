"""What each constant of the time model is good for: without it, which experiments get worse?

A constant is taken out by a value that makes its term vanish: a cost becomes nothing, a rate endless, a ratio one. What
does not hurt then is not needed. Constants that are facts of the device, not of the model, stay.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.fidelity.catalogue import catalogue
from bench.fidelity.comparison import Comparison
from bench.fidelity.experiment import Experiment
from bench.fidelity.laboratory import Laboratory
from bench.fidelity.runner import Figures, run
from cudalab.dev.calibrate.model import Model
from cudalab.dev.calibrate.suite import microbenchmarks
from cudalab.sim.device.current import set_current_device
from cudalab.sim.device.device import Device
from cudalab.sim.device.profile import Constant, Profile, load
from cudalab.sim.device.timing.cost import kernel_time
from cudalab.sim.device.timing.launch_time import Timer
from cudalab.sim.device.timing.workload import Workload

FACTS = ("clock", "schedulers", "event_resolution", "memset_inline_limit", "staging_limit", "staging_piece")
"""They say what the device is, or from where on a rule holds; there is no device without them."""
RATES = ("dram_bandwidth", "memset_bandwidth", "sm_port", "cluster_port", "cluster_crossbar")
ENDLESS, NOTHING = 1e6, 1e-9
NEUTRAL = {"bus_contention": 1.0, "interference": 64.0, "l2_reach": NOTHING, "dram_mix": NOTHING}
WORSE = 0.01
"""An experiment is hurt when its mean error grows by more than this."""
MUCH_WORSE = 0.1
MICROBENCHMARKS = Path(__file__).parent / "data" / "h200-microbenchmarks.json"
BY_LAUNCHES = ("memory", "arithmetic", "algorithms")
BY_CALLS = ("copies", "launches")
OF_CALLS = (
    "bus", "copy", "dram_b", "dram_m", "event", "host", "kernel", "block", "launch", "mem", "query", "staging", "store",
    "stream_q", "stream_w", "submit", "synchronize", "wake"
)  # fmt: skip
"""Constants that begin so count in calls and copies; the others in single launches only, or in no experiment here."""


@dataclass(frozen=True)
class Loss:
    """What the model loses without one constant."""

    constant: str
    where: str
    """``host`` or ``device``."""
    unit: str
    hurt: tuple[str, ...]
    """Experiments whose mean error grows."""
    microbenchmarks: int
    """Microbenchmarks whose error grows by a tenth or more."""


def without(profile: Profile, where: str, name: str) -> Profile:
    """The profile without one constant."""
    entries = dict(profile.host_constants if where == "host" else profile.device_constants)
    old = entries[name]
    value = NEUTRAL.get(name, old.value * ENDLESS if name in RATES else NOTHING)
    entries[name] = Constant(value, old.unit, old.source)
    return replace(profile, **{f"{where}_constants": entries})


class _Recorder(Timer):
    """Remembers what the last launch asked of the device."""

    last: Workload | None = None

    def _with_neighbours(self, work: Workload, *launch: Any) -> Workload:
        self.last = super()._with_neighbours(work, *launch)
        return self.last


def workloads(experiments: Iterable[Experiment]) -> dict[str, dict[str, Workload]]:
    """What the launches of experiments with one launch a variant ask of the device."""
    device = Device()
    recorder = device.state.timer = _Recorder(device.profile)
    before = set_current_device(device)
    found: dict[str, dict[str, Workload]] = {}
    try:
        laboratory = Laboratory()
        for each in experiments:
            recorder.forget()
            entries = found.setdefault(each.name, {})
            for variant, _ in each.program(laboratory):
                assert recorder.last is not None
                entries[variant] = recorder.last
    finally:
        set_current_device(before)
    return found


def modelled(experiments: Iterable[Experiment], profile: Profile) -> Figures:
    """Figures of a simulated device with this profile."""
    before = set_current_device(Device(profile))
    try:
        return run(experiments)
    finally:
        set_current_device(before)


def ablate(measured: Figures, report: Callable[[str], None] = lambda line: None) -> list[Loss]:
    """Every constant of the default profile, one at a time."""
    profile = load()
    calls = [each for each in catalogue() if each.topic in BY_CALLS]
    launches = workloads(each for each in catalogue() if each.topic in BY_LAUNCHES)

    def figures(changed: Profile, *, with_calls: bool) -> Figures:
        by_launch = {
            name: {variant: kernel_time(changed, work).exact_ns / 1000 for variant, work in works.items()}
            for name, works in launches.items()
        }
        return by_launch | (modelled(calls, changed) if with_calls else {})

    stored_launches: dict[str, float] = json.loads(MICROBENCHMARKS.read_text(encoding="utf-8"))["kernels"]
    model = Model(profile, microbenchmarks(profile.sms))
    whole = Comparison(measured, figures(profile, with_calls=True))
    found = []
    for where, entries in (("host", profile.host_constants), ("device", profile.device_constants)):
        for name, constant in entries.items():
            if name in FACTS:
                continue
            with_calls = name.startswith(OF_CALLS)
            lost = Comparison(measured, figures(without(profile, where, name), with_calls=with_calls))
            hurt = tuple(each for each in lost.names() if _mean(lost, each) > _mean(whole, each) + WORSE)
            single = _microbenchmarks_hurt(model, stored_launches, name) if where == "device" else 0
            found.append(Loss(name, where, constant.unit, hurt, single))
            report(f"{name}: {len(hurt)} hurt")
    return found


def _microbenchmarks_hurt(model: Model, measured: Mapping[str, float], constant: str) -> int:
    neutral = without(model.profile, "device", constant).device[constant]

    def error(name: str, constants: Mapping[str, float]) -> float:
        return abs(model.microseconds(name, constants) / measured[name] - 1.0)

    known = [name for name in model.names if name in measured]
    return sum(error(name, {constant: neutral}) > error(name, {}) + MUCH_WORSE for name in known)


def _mean(comparison: Comparison, name: str) -> float:
    return statistics.mean(map(abs, comparison.errors(name).values()))


def table(losses: Iterable[Loss]) -> str:
    """As Markdown, the most needed first."""
    lines = [
        "| constant | of | unit | experiments hurt | microbenchmarks hurt | for example |",
        "| --- | --- | --- | ---: | ---: | --- |",
    ]
    for loss in sorted(losses, key=lambda each: (-len(each.hurt), -each.microbenchmarks)):
        cells = (loss.constant, loss.where, loss.unit, str(len(loss.hurt)), str(loss.microbenchmarks))
        lines.append(f"| {' | '.join(cells)} | {'; '.join(loss.hurt[:2])} |")
    return "\n".join(lines)
