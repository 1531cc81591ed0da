"""Calibration: fitting what the simulated device measures gives the constants that it has."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from cudalab import cli
from cudalab.dev.calibrate import command, direct
from cudalab.dev.calibrate.fit import GROUPS, fit
from cudalab.dev.calibrate.model import Model
from cudalab.dev.calibrate.suite import microbenchmarks
from cudalab.sim.device.profile import load
from cudalab.sim.device.timing.launch_time import Timer

SMS = 132
FITTED = sorted({name for group in GROUPS for name in group.constants})


def measured_with(model, constants):
    return {name: model.microseconds(name, constants) for name in model.names}


def test_a_device_is_given_its_constants():
    """From what it measures: the simulated device its own, from a start that is off by up to a fifth; and others a
    device with slower memory and a slower L2 than the profile that the fit begins with."""
    wanted = [each for each in microbenchmarks(SMS) if any(group.select([each.name]) for group in GROUPS)]
    model = Model(load(), wanted)
    true = dict(model.profile.device)
    random = np.random.default_rng(11)
    start = {name: true[name] * random.uniform(0.85, 1.2) for name in FITTED}
    found = fit(model, measured_with(model, {}), start, sweeps=6)
    off = {name: found.constants[name] / true[name] for name in FITTED}
    assert {name: ratio for name, ratio in off.items() if abs(ratio - 1) > 0.05} == {}
    assert max(abs(found.error(name)) for name in found.modelled) < 0.02
    changed = {"dram_latency": 500.0, "dram_bandwidth": 2.4, "l2_latency": 190.0, "latency_float": 5.0}
    found = fit(model, measured_with(model, changed))
    for name, value in changed.items():
        assert found.constants[name] == pytest.approx(value, rel=0.05)


def test_a_measurement_that_is_missing_is_named():
    """Before anything is modelled."""
    names = [each.name for each in microbenchmarks(SMS)]
    figures = {name: 1.0 for name in names if name != "chain 96 MB"}
    with pytest.raises(ValueError, match=r"dram_latency need measurements of chain 96 MB"):
        fit(SimpleNamespace(names=names, profile=load()), figures)


def test_every_constant_has_a_way_to_be_measured_or_a_source():
    profile = load()
    known = {*FITTED, *direct.DEVICE}
    for name, constant in profile.device_constants.items():
        assert name in known or constant.source, name


def test_without_a_gpu_the_command_says_so(capsys):
    assert cli.main(["calibrate", "--out", "never.json"]) == 1
    said = capsys.readouterr().err
    assert "there is no GPU to measure" in said and "--measured FILE" in said


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_whole_command_on_the_simulated_device(tmp_path, monkeypatch, capsys):
    """Measure it through the same program that runs on a GPU, fit, and read the constants back: those of the PTX's
    terms, by which it is measured here."""
    monkeypatch.setattr(Timer, "by_machine_code", False)
    monkeypatch.setattr(command, "_no_gpu", lambda: "")
    out, keep = tmp_path / "profile.json", tmp_path / "figures.json"
    assert command.calibrate(out, name="mine", keep=keep) == 0
    profile, true = json.loads(out.read_text()), load()
    assert profile["extends"] == "h200" and profile["name"] == "mine"
    for name in FITTED:
        assert profile["device"][name]["value"] == pytest.approx(true.device[name], rel=0.08), name
        assert profile["device"][name]["unit"] == true.device_constants[name].unit
    for name in direct.HOST:
        assert profile["host"][name]["value"] == pytest.approx(true.host[name], rel=0.02, abs=2), name
    for name in direct.DEVICE:
        assert profile["device"][name]["value"] == pytest.approx(true.device[name], rel=0.06), name
    assert "median error" in capsys.readouterr().out
    assert len(json.loads(keep.read_text())["kernels"]) > 250
