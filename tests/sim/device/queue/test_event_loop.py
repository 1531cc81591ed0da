"""The event loop: order, cancelling, and that time never runs backwards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cudalab.sim.device.queue.event_loop import EventLoop


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-2, 2)), max_size=40))
def test_order_is_time_then_priority_then_sequence(entries):
    loop, ran = EventLoop(), []
    for index, (time, priority) in enumerate(entries):
        loop.at(time, lambda index=index: ran.append(index), priority)
    loop.run_until(100)
    assert ran == sorted(range(len(entries)), key=lambda i: (*entries[i], i))


def test_an_action_may_schedule_more():
    loop, times = EventLoop(), []

    def again() -> None:
        times.append(loop.now)
        if len(times) < 4:
            loop.at(loop.now + 10, again)

    loop.at(5, again)
    loop.run_until(1000)
    assert times == [5, 15, 25, 35]
    assert loop.now == 1000


def test_the_past_is_now():
    loop, times = EventLoop(), []
    loop.run_until(100)
    loop.at(3, lambda: times.append(loop.now))
    loop.run_until(100)
    assert times == [100]


def test_cancelled_events_do_not_run():
    loop, ran = EventLoop(), []
    event = loop.at(5, lambda: ran.append("cancelled"))
    loop.at(6, lambda: ran.append("kept"))
    loop.cancel(event)
    assert len(loop) == 1
    loop.run_until(10)
    assert ran == ["kept"]


def test_run_until_leaves_what_is_later():
    loop, ran = EventLoop(), []
    loop.at(10, lambda: ran.append(10))
    loop.at(11, lambda: ran.append(11))
    loop.run_until(10)
    assert ran == [10]
