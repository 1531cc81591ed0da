"""Blocks that stand for a launch whose blocks differ."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.machine.counters import proportional_sample


def _uneven(blocks: int = 1000) -> np.ndarray:
    random = np.random.default_rng(7)
    return random.pareto(1.2, blocks) * 100.0 + 1.0


@pytest.mark.parametrize("count", [10, 50])
def test_the_number_of_blocks_and_their_work_are_exact(count: int) -> None:
    sizes = _uneven()
    chosen, weights = proportional_sample.choose(sizes, count)
    assert len(chosen) <= count and chosen == sorted(set(chosen)) and min(weights) > 0.0
    assert sum(weights) == pytest.approx(1000)
    assert sizes[chosen] @ weights == pytest.approx(sizes.sum())


def test_a_sample_too_small_to_be_calibrated_has_the_weights_of_its_shares() -> None:
    sizes = _uneven()
    chosen, weights = proportional_sample.choose(sizes, 3)
    assert sizes[chosen] @ weights == pytest.approx(sizes.sum()) and min(weights) > 0.0


def test_the_heaviest_block_is_always_among_them() -> None:
    sizes = np.ones(1000)
    sizes[617] = 500.0
    chosen, weights = proportional_sample.choose(sizes, 10)
    assert 617 in chosen and weights[chosen.index(617)] == pytest.approx(1.0, abs=0.3)


def test_blocks_are_spread_over_the_grid() -> None:
    chosen, weights = proportional_sample.choose(np.ones(1000), 10)
    assert chosen == list(range(49, 1000, 100)) and weights == pytest.approx([100.0] * 10)


def test_sums_of_other_counters_are_unbiased() -> None:
    """A counter that only loosely follows the work, over grids of many kinds."""
    ratios = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        sizes = random.pareto(2.0, 500) * 100.0 + 10.0
        counter = sizes * random.uniform(0.0, 2.0, 500) + 50.0
        chosen, weights = proportional_sample.choose(sizes, 40)
        ratios.append(counter[chosen] @ weights / counter.sum())
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.02)
    assert np.std(ratios) < 0.12
