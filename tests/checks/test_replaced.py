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


class _Equal:
    """Says that it is whatever it is compared with."""

    def __call__(self, *given: object) -> None: ...

    def __eq__(self, other: object) -> bool:
        return True


def test_what_says_of_itself_that_it_is_the_same_is_not() -> None:
    kept, before = Kept(), cudart.cudaMalloc
    vars(cudart)["cudaMalloc"] = _Equal()
    assert kept.restore() == ["cudart.cudaMalloc"]
    assert cudart.cudaMalloc is before


def test_what_has_come_since_the_check_before_is_kept_by_the_next() -> None:
    """A function where there was none, one in the place of a value, and a class with a method of its own."""
    Kept()
    late = {"_late_call": len, "_late_class": type("Late", (), {"say": print, "__module__": current.__name__})}
    before = current.hold_device
    try:
        vars(current).update(late)
        current.hold_device = len  # type: ignore[assignment]
        kept = Kept()
        vars(current)["_late_call"] = print
        current.hold_device = before
        late["_late_class"].say = len  # type: ignore[attr-defined]
        assert sorted(kept.restore()) == ["Late.say", "current._late_call", "current.hold_device"]
        assert current.hold_device is len  # type: ignore[comparison-overlap]
    finally:
        current.hold_device = before
        for name in late:
            vars(current).pop(name)


def test_a_module_that_is_imported_meanwhile_is_no_finding() -> None:
    kept = Kept()
    try:
        vars(current)["_late"] = 1
        assert kept.restore() == []
        vars(current)["_late"] = print
        assert kept.restore() == []
        vars(current)["_late"] = 1
        assert Kept().restore() == []
        vars(current)["_late"] = print  # as many names as before
        later = Kept()
        vars(current)["_late"] = len
        assert later.restore() == ["current._late"]
    finally:
        vars(current).pop("_late")


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
