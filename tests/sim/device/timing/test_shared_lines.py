"""Tiles narrower than a line: what neighbouring blocks share moves once."""

from __future__ import annotations

import json
import struct

import pytest

from bench.fidelity.ablation import MICROBENCHMARKS
from cudalab.dev.calibrate import access_sources
from cudalab.dev.calibrate.accesses import accesses
from cudalab.dev.calibrate.model import Model
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.profile import load
from cudalab.sim.device.timing.l2_traffic import Once, traffic_of

MB = 1 << 20


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


@pytest.fixture(scope="module")
def module(device: Device) -> int:
    return device.load_module(compile(access_sources.source()))


@pytest.mark.parametrize(
    ("kernel", "width", "height", "share"),
    [
        ("tile_copy", 4, 64, 1 / 8),
        ("tile_copy_down", 4, 64, 1 / 8),
        ("tile_copy", 16, 16, 1 / 2),
        ("tile_copy", 32, 8, 1.0),
    ],
)
def test_lines_that_neighbours_share_move_once(
    device: Device, module: int, kernel: str, width: int, height: int, share: float
) -> None:
    x, y = device.malloc(16 * MB), device.malloc(16 * MB)
    args, blocks = struct.pack("QQiii", x, y, 2048, width, height), 2048 * 2048 // (width * height)
    launch = device.loaded_kernel(device.get_function(module, kernel)).launch(blocks, width * height, args)
    once = traffic_of(launch, 32.0 * MB, 1056, MB).once
    assert once == pytest.approx((share, share), rel=0.05)


def test_what_lies_anywhere_is_not_shared_by_neighbours(device: Device, module: int) -> None:
    """A gather loads each line 32 times, and not in blocks that are near in time."""
    n = 4 * MB
    x, y = device.malloc(4 * n), device.malloc(4 * n)
    gather = device.loaded_kernel(device.get_function(module, "hashed_gather"))
    launch = gather.launch(n // 256, 256, struct.pack("QQiI", x, y, n, n - 1))
    traffic = traffic_of(launch, 32.0 * MB, 1056, MB)
    assert traffic.once == Once(1.0, 1.0)
    ((lines, size),) = traffic.anywhere(stored=False)
    assert (lines, size) == pytest.approx((n, 4 * n), rel=0.05)
    assert traffic.anywhere(stored=True) == []


def test_gathers_and_scatters_over_more_than_the_l2_move_lines_again_and_again() -> None:
    """Before, those of 64 MB were 55 and 68 % too fast."""
    measured = json.loads(MICROBENCHMARKS.read_text(encoding="utf-8"))["kernels"]
    hashed = [each for each in accesses(132) if each.name.startswith(("hashed gather", "hashed scatter"))]
    model = Model(load("h200"), hashed, by_machine_code=True)
    errors = {name: model.microseconds(name, {}) / measured[name] - 1.0 for name in model.names}
    assert len(errors) == 6
    assert {name: error for name, error in errors.items() if abs(error) > 0.2} == {}


def test_narrow_tiles_take_what_an_h200_took() -> None:
    """Before, copies of tiles 4 wide were 3.5 times too slow."""
    measured = json.loads(MICROBENCHMARKS.read_text(encoding="utf-8"))["kernels"]
    tiles = [each for each in accesses(132) if each.name.startswith(("tile copy 4096", "tile write"))]
    model = Model(load("h200"), tiles, by_machine_code=True)
    errors = {name: model.microseconds(name, {}) / measured[name] - 1.0 for name in model.names}
    assert len(errors) == 4
    assert {name: error for name, error in errors.items() if abs(error) > 0.15} == {}
