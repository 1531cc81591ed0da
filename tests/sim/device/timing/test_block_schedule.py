"""How blocks that differ share the SMs."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.device.timing.block_schedule import equal_blocks, makespan, tail


def asked(demand: np.ndarray) -> np.ndarray:
    """The same of all four schedulers, and nothing of what they share."""
    return np.column_stack([demand] * 4 + [np.zeros_like(demand)])


def followed(path: np.ndarray, demand: np.ndarray, sms: int, each: int) -> float:
    return makespan(path, asked(demand), sms, each)


def behind(path: np.ndarray, demand: np.ndarray, sms: int, each: int) -> float:
    return tail(path, asked(demand), sms, each, average=float(path.mean()))


def test_equal_blocks_have_no_tail() -> None:
    for blocks in (1, 100, 132, 1056, 5000, 100_000):
        assert behind(np.full(blocks, 100.0), np.full(blocks, 10.0), 132, 8) <= 100.0  # of one wave
    assert behind(np.full(1056, 100.0), np.full(1056, 10.0), 132, 8) == pytest.approx(0.0)


@pytest.mark.parametrize("blocks", [1, 131, 132, 133, 1000, 1056, 2112])
def test_equal_blocks_are_followed_as_the_formula_says(blocks: int) -> None:
    found = followed(np.full(blocks, 100.0), np.full(blocks, 30.0), 132, 8)
    assert found == pytest.approx(equal_blocks(100.0, 30.0, blocks, 132, 8))


def test_a_heavy_block_keeps_its_sm_busy_alone() -> None:
    path = np.full(2000, 10.0)
    path[100] = 5000.0
    assert followed(path, path / 10, 132, 16) == pytest.approx(5000.0, rel=0.01)


def test_a_heavy_block_costs_more_when_it_starts_last() -> None:
    first, last = np.full(4000, 100.0), np.full(4000, 100.0)
    first[0] = last[-1] = 2000.0
    assert followed(last, last / 20, 132, 8) > followed(first, first / 20, 132, 8) + 200


def test_residents_slow_each_other_down_only_beyond_what_the_sm_can_do() -> None:
    path = np.full(8, 100.0)
    assert followed(path, np.full(8, 10.0), 1, 8) == pytest.approx(100.0)
    assert followed(path, np.full(8, 50.0), 1, 8) == pytest.approx(400.0)


def test_free_room_goes_to_the_next_block() -> None:
    """One SM with two places: 100 ns beside three blocks of 40 ns."""
    assert followed(np.array([100.0, 40.0, 40.0, 40.0]), np.full(4, 1.0), 1, 2) == pytest.approx(120.0)


def test_warps_with_much_work_crowd_on_one_scheduler() -> None:
    """Eight blocks with one heavy warp each, all on the same scheduler, or two on each."""
    path, crowded, spread = np.full(8, 100.0), np.zeros((8, 5)), np.zeros((8, 5))
    crowded[:, 0] = spread[np.arange(8), np.arange(8) % 4] = 40.0
    assert makespan(path, crowded, 1, 8) == pytest.approx(320.0)
    assert makespan(path, spread, 1, 8) == pytest.approx(100.0)


def test_what_schedulers_share_slows_blocks_on_all_of_them() -> None:
    path, demand = np.full(8, 100.0), np.zeros((8, 5))
    demand[:, 4] = 50.0
    assert makespan(path, demand, 1, 8) == pytest.approx(400.0)


def test_a_grid_of_many_blocks_is_followed_in_groups() -> None:
    path = np.full(1 << 20, 10.0)
    path[1 << 19] = 1e6
    assert behind(path, path / 10, 132, 16) == pytest.approx(1e6, rel=0.1)
