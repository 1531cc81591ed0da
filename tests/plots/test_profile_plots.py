"""Pictures of a profile: heat map, banks, occupancy. What they say must be what was counted."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import cudalab
from cudalab import cp
from cudalab.analysis.profile import Profile
from cudalab.plots import plot
from cudalab.plots.heat_map import requests_of
from cudalab.sim.machine.counters.bank_conflicts import count_wavefronts, wavefronts_of

LANE = np.arange(32)

STRIDE = """
extern "C" __global__ void strided(const float* x, float* y, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * stride];
}"""

TRANSPOSE = """
extern "C" __global__ void transpose(const float* a, float* b, int n) {
    __shared__ float tile[32][32 + PAD];
    for (int j = threadIdx.y; j < 32; j += 8) tile[j][threadIdx.x] = a[j * n + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8) b[j * n + threadIdx.x] = tile[threadIdx.x][j];
}"""


@pytest.fixture(scope="module")
def strided() -> Profile:
    x = cp.zeros(1 << 14, cp.float32)
    return cudalab.profile(cp.RawKernel(STRIDE, "strided"), 8, 256, (x, x, np.int32(4)))


@pytest.fixture(scope="module", params=[0, 1])
def transpose(request: pytest.FixtureRequest) -> tuple[int, Profile]:
    a = cp.zeros((32, 32), cp.float32)
    kernel = cp.RawKernel(TRANSPOSE, "transpose", (f"-DPAD={request.param}",))
    return request.param, cudalab.profile(kernel, 1, (32, 8), (a, a, np.int32(32)))


def test_heat_map_compares_with_the_ideal(strided: Profile) -> None:
    assert plot.heat_map(strided).summary == (
        "The global load of line 4 takes **16** sectors a request, where 4 would do."
    )


def test_heat_map_of_wavefronts(transpose: tuple[int, Profile]) -> None:
    pad, profile = transpose
    text = plot.heat_map(profile, unit="wavefronts").summary
    assert text.startswith("Every request" if pad else "The shared load of line 6 takes **32** wavefronts")
    assert plot.heat_map(profile).summary.startswith("Every request takes as few sectors")


def test_requests_kept_are_those_counted(strided: Profile, transpose: tuple[int, Profile]) -> None:
    loads = [each for each in requests_of(strided, "sectors") if each.kind == "global load"]
    assert {(each.block, each.warp) for each in loads} == {(b, w) for b in (0, 2, 4, 6) for w in range(8)}
    assert all((each.units, each.ideal) == (16, 4) for each in loads)
    _, profile = transpose
    shared = requests_of(profile, "wavefronts")
    assert sum(each.units for each in shared) == profile.shared_loads.wavefronts + profile.shared_stores.wavefronts


def test_banks_show_the_worst_request_of_the_worst_line(transpose: tuple[int, Profile]) -> None:
    pad, profile = transpose
    text = plot.banks(profile, line=6).summary
    if pad:
        assert text == "The 32 lanes are served in **1** wavefront, without bank conflicts."
    else:
        assert plot.banks(profile).summary == text
        assert "served in **32** wavefronts, 31 more than without conflicts: bank " in text


@pytest.mark.parametrize(
    ("addresses", "size", "text"),
    [
        (4 * LANE, 4, "**1** wavefront, without bank conflicts."),
        (8 * LANE, 4, "**2** wavefronts, 1 more than without conflicts"),
        (0 * LANE, 4, "**1** wavefront, without bank conflicts; 1 bank serves several lanes with one word."),
        (8 * LANE, 8, "**2** wavefronts, half a warp at a time, without bank conflicts."),
        (16 * LANE, 8, "**4** wavefronts, half a warp at a time, 2 more"),
        (16 * LANE, 16, "**4** wavefronts, a quarter of a warp at a time, without"),
        ([0], 4, "The one lane is served in **1** wavefront"),
        (np.where(LANE < 2, 128 * LANE, -1), 4, "The 2 lanes are served in **2** wavefronts"),
    ],
)
def test_banks_of_given_addresses(addresses, size: int, text: str) -> None:
    assert text in plot.banks(addresses, size=size).summary


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("atomic", [False, True])
def test_turns_are_as_many_as_wavefronts_are_counted(size: int, atomic: bool) -> None:
    rng = np.random.default_rng(size)
    for words in (4, 40, 2000):
        for _ in range(20):
            addresses = (rng.integers(0, words, 32) * size).astype(np.uint64)
            active = rng.random(32) < rng.choice([0.2, 0.9, 1.1])
            served = wavefronts_of(addresses, active, size, atomic=atomic)
            assert len(served) == count_wavefronts(addresses[None], active[None], size, atomic=atomic)[0][0]
            got = sorted((lane, word) for turn in served for word, lanes in turn.banks.values() for lane in lanes)
            each = max(1, size // 4)
            wanted = [(lane, int(addresses[lane]) // 4 + w) for lane in LANE[active].tolist() for w in range(each)]
            assert got == sorted(wanted)
            assert all(word % 32 == bank for turn in served for bank, (word, _) in turn.banks.items())


def test_occupancy_names_its_limiter(strided: Profile) -> None:
    text = plot.occupancy(strided).summary
    assert text.startswith("With 256 threads a block, 8 blocks fit on an SM: **100%** occupancy, limited by warps;")
    x = cp.zeros(1 << 14, cp.float32)
    few = cudalab.profile(cp.RawKernel(STRIDE, "strided"), 8, 64, (x, x, np.int32(4)), shared=40 * 1024)
    text = plot.occupancy(few).summary
    assert "5 blocks fit on an SM: **16%** occupancy, limited by shared memory; most, 100%, comes with 512" in text


def test_the_curve_is_the_calculator_s(strided: Profile) -> None:
    curve = strided.occupancy_curve([32, 96, 1024])
    assert [entry.blocks_per_sm for entry in curve] == [32, 21, 2]
    assert [entry.limiter for entry in curve] == ["blocks", "warps", "warps"]


PICTURES = {
    "heat map": lambda p: plot.heat_map(p),
    "occupancy": lambda p: plot.occupancy(p),
    "banks": lambda p: plot.banks(8 * LANE, size=8),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_the_same_each_time_and_described(name: str, strided: Profile) -> None:
    first, second = PICTURES[name](strided), PICTURES[name](strided)
    assert first.svg() == second.svg() and "style" not in first.svg()
    root = ElementTree.fromstring(first.svg())
    assert root.get("aria-label") == first.alt
    assert first.alt.endswith(".") and first.summary.endswith(".") and "\n" not in first.summary


@pytest.mark.parametrize(
    ("draw", "match"),
    [
        (lambda p: plot.heat_map(p, unit="bytes"), "must be 'sectors' or 'wavefronts'"),
        (lambda p: plot.heat_map(p, unit="wavefronts"), "strided made no request to shared memory"),
        (lambda p: plot.banks(p), "strided made no request to shared memory"),
        (lambda p: plot.banks([2]), "multiples of the 4 bytes"),
        (lambda p: plot.banks(4 * LANE, size=3), "size must be 1, 2, 4, 8 or 16"),
        (lambda p: plot.banks(np.arange(33)), "1 to 32 lanes"),
        (lambda p: plot.banks([-1, -1]), "all lanes are off"),
    ],
)
def test_what_cannot_be_drawn_says_why(draw, match: str, strided: Profile) -> None:
    with pytest.raises(ValueError, match=match):
        draw(strided)


def test_a_line_or_request_that_is_not_there(transpose: tuple[int, Profile]) -> None:
    _, profile = transpose
    with pytest.raises(ValueError, match="line 2 makes no request to shared memory; these do: 4, 6"):
        plot.banks(profile, line=2)
    with pytest.raises(ValueError, match="request must be 0 to 31 for line 6"):
        plot.banks(profile, line=6, request=32)
