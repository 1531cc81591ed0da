"""Destructors never wait for a call, and never run in the middle of one."""

from __future__ import annotations

import gc
import threading
import time
import weakref

from cudalab import cp
from cudalab.sim.device.current import current_device
from cudalab.sim.device.gate import Gate


def test_done_at_once_when_nobody_is_inside() -> None:
    gate, done = Gate(), []
    gate.later(lambda: done.append(1))
    assert done == [1]


def test_done_when_the_outermost_leaves() -> None:
    gate, done = Gate(), []
    with gate:
        with gate:
            gate.later(lambda: done.append(1))
        assert done == []
    assert done == [1]


def test_another_thread_does_not_wait() -> None:
    gate, done = Gate(), []
    with gate:
        thread = threading.Thread(target=gate.later, args=(lambda: done.append(threading.get_ident()),))
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
        assert done == []
    assert done == [threading.get_ident()]


def test_what_an_action_asks_for_is_done_too() -> None:
    gate, done = Gate(), []
    gate.later(lambda: gate.later(lambda: done.append(1)))
    assert done == [1]


def test_holder_may_have_it_done_at_a_safe_point() -> None:
    gate, done = Gate(), []
    with gate:
        gate.later(lambda: done.append(1))
        gate.do_waiting()
        assert done == [1]


def test_array_collected_during_a_call_is_freed_after_it() -> None:
    def used() -> int:
        current_device().memory_info()  # any call runs what destructors have asked for
        return current_device().memory.in_use

    class Mark:
        """Tells whether the cycle has been collected."""

    with cp.cuda.using_allocator(None):
        holder: list[object] = [cp.zeros(1 << 20, cp.uint8), Mark()]
    holder.append(holder)  # only the collector can end this
    collected = weakref.ref(holder[1])
    current_device().synchronize()  # until then the operation that fills the array keeps its memory
    gc.collect()
    before = used()
    with current_device()._lock:
        del holder
        for _ in range(100):  # a collection that another thread has begun makes this one a no-op
            gc.collect()
            if collected() is None:
                break
            time.sleep(0.01)
        assert collected() is None
        assert used() == before
    assert used() <= before - (1 << 20)
