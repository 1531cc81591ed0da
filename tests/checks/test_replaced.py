"""What an answer may replace of its check is put back, and named."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cudalab.checks.bench import Bench
from cudalab.checks.comparison import agree
from cudalab.checks.order import Order
from cudalab.checks.replaced import Kept
from cudalab.checks.streams import StreamBench
from cudalab.sim import cudart
from cudalab.sim.device import current

ORDER = Order()


def _covered() -> None:
    StreamBench.find = lambda *given: None  # type: ignore[method-assign]


def _on_an_object() -> None:
    vars(ORDER)["before"] = print


def _code() -> None:
    agree.__code__ = (lambda *given: None).__code__


WAYS = {
    "a call": (lambda: setattr(cudart, "cudaMalloc", print), "cudart.cudaMalloc"),
    "a call taken away": (lambda: delattr(cudart, "cudaMalloc"), "cudart.cudaMalloc"),
    "a method": (lambda: setattr(Bench, "find", print), "Bench.find"),
    "an inherited method covered": (_covered, "StreamBench.find"),
    "a method of one object": (_on_an_object, "Order.before"),
    "what a function does": (_code, "agree"),
    "a function of NumPy": (lambda: setattr(np, "array_equal", print), "numpy.array_equal"),
    "a hook": (lambda: sys.setprofile(print), "sys.setprofile"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_replaced_is_named_and_put_back(way: str) -> None:
    replace, name = WAYS[way]
    kept, before = Kept(), (cudart.cudaMalloc, agree.__code__, Bench.find, np.array_equal, sys.getprofile())
    assert kept.restore(ORDER) == []
    replace()
    assert kept.restore(ORDER) == [name]
    assert kept.restore(ORDER) == []
    assert before == (cudart.cudaMalloc, agree.__code__, StreamBench.find, np.array_equal, sys.getprofile())


def test_a_device_that_is_held_stays() -> None:
    device = current.current_device()
    current.hold_device(True)
    try:
        with pytest.raises(RuntimeError, match="gets no other"):
            current.reset()
        with pytest.raises(RuntimeError, match="gets no other"):
            current.Device()
    finally:
        current.hold_device(False)
    assert current.current_device() is device
