"""Destructors never wait for a call, and never run in the middle of one."""

from __future__ import annotations

import gc
import threading

from cudalab import cp
from cudalab.sim.device.current import set_current_device
from cudalab.sim.device.device import Device
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
    # A device of its own: the array in the cycle is the only thing that remembers when it was made.
    device = Device()
    before = set_current_device(device)
    try:
        with cp.cuda.using_allocator(None):
            holder: list[object] = [cp.zeros(1 << 20, cp.uint8)]
        holder.append(holder)  # only the collector can end this
        device.synchronize()  # until then the operation that fills the array keeps its memory
        assert device.memory.in_use == 1 << 20
        with device.state.lock:
            del holder
            gc.collect()
            assert device.memory.in_use == 1 << 20
        assert device.memory.in_use == 0
    finally:
        set_current_device(before)
