"""The third held-out set: it is large enough and only judges, and its kernels do what NumPy does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bench.fidelity.catalogue import HELD_OUT, catalogue
from bench.fidelity.experiment import DEVELOPMENT, EXPERIMENTS, Experiment
from bench.fidelity.held_out.hardware import in_turns, kernel_names
from bench.fidelity.laboratory import Laboratory
from bench.fidelity.stored import HELD_OUT as HELD_OUT_FILES
from bench.fidelity.stored import read, sound
from cudalab import cp
from tests.bench.third import bandwidth, data, latency

REFERENCES = latency.REFERENCES | data.REFERENCES | bandwidth.REFERENCES


def test_it_only_judges():
    third = catalogue("third")
    assert all(each.name.startswith("third: ") and each.side == "validation" for each in third)
    assert not DEVELOPMENT & {each.name for each in third}
    assert not {each.name for each in catalogue()} & {each.name for each in third}


def test_every_kernel_is_checked_and_no_kernel_is_of_another_set():
    assert set(kernel_names("third")) == set(REFERENCES)
    assert not set(kernel_names("third")) & set(kernel_names("second"))


def test_topics_take_turns():
    """So that a recording that is cut off has some of each third."""
    order = in_turns(catalogue("third"))
    assert sorted(each.name for each in order) == sorted(each.name for each in catalogue("third"))
    assert tuple(each.topic for each in order[:6]) == 2 * HELD_OUT["third"]


@pytest.mark.parametrize(("file", "disturbed"), [("third-h200.json", 0), ("third-h100.json", 1)])
def test_every_experiment_was_recorded(file: str, disturbed: int):
    stored = read(HELD_OUT_FILES["third"].with_name(file))
    assert set(stored.figures) == {each.name for each in catalogue("third")}
    topics = [EXPERIMENTS[name].topic for name, variants in stored.figures.items() for _ in variants]
    assert len(topics) >= 120 and min(map(topics.count, HELD_OUT["third"])) >= 0.28 * len(topics)
    assert sum(map(len, sound(stored.figures).values())) == len(topics) - disturbed


class Checking(Laboratory):
    """Launches each kernel once and compares what it leaves with NumPy."""

    launches = 0

    def kernel(
        self, topic: str, name: str, grid: Sequence[int] | int, block: Sequence[int] | int, *args: Any, shared: int = 0
    ) -> float:
        self.launches += 1
        before = [cp.asnumpy(each) if isinstance(each, cp.ndarray) else each for each in args]
        sizes = ((size,) if isinstance(size, int) else tuple(size) for size in (grid, block))
        addresses = tuple(each.data.ptr if isinstance(each, cp.ndarray) else each for each in args)
        self.kernel_of(topic, name)(*sizes, addresses, shared_mem=shared)
        for number, wanted in REFERENCES[name](*before).items():
            compare(name, cp.asnumpy(args[number]).ravel(), wanted)
        return 0.0


def compare(name: str, found: np.ndarray, wanted: Any) -> None:
    """What a kernel left, against an array for its beginning, the sum of its beginning, or parts in any order."""
    match wanted:
        case ("sum", count, total):
            np.testing.assert_allclose(found[:count].sum(dtype=np.float64), total, rtol=1e-4, err_msg=name)
        case ("sorted in parts", start, key):
            parts = zip(start[:-1], start[1:], strict=True)
            found = np.concatenate([np.sort(found.view(key.dtype)[a:b]) for a, b in parts])
            np.testing.assert_array_equal(found, key, err_msg=name)
        case _ if wanted.dtype.kind in "iu":  # rounds until a float is small may differ by one, in few places
            found = found.view(wanted.dtype)[: wanted.size]
            differ = np.mean(found != wanted)
            assert differ <= (1e-3 if name in ("march_rays", "inside_polygon", "ising") else 0), (name, differ)
        case _:
            tolerance = 1e-2 if name == "cube_root" else 2e-3
            np.testing.assert_allclose(
                found.view(wanted.dtype)[: wanted.size], wanted, rtol=tolerance, atol=tolerance, err_msg=name
            )


@pytest.mark.long
@pytest.mark.parametrize("each", catalogue("third"), ids=lambda each: each.name)
def test_kernels_do_what_numpy_does(each: Experiment):
    laboratory = Checking()
    assert len(each.run(laboratory)) == laboratory.launches >= 2
