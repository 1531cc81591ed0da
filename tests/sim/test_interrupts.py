"""An interrupt at any step of a call leaves the device usable: it is raised when the call has ended, or waits."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from cudalab.sim import cupy as cp
from cudalab.sim import interrupts
from cudalab.sim.device import Device
from cudalab.sim.device.current import set_current_device
from cudalab.sim.machine.memory import host_watch

TRIES = 80
"""Steps of a call at which it is interrupted."""


class Session:
    """A device with a stream, an event and memory of every kind."""

    def __init__(self) -> None:
        self.before = set_current_device(Device())
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.event = self.stream.record()
        self.array = cp.arange(4, dtype=cp.float32)
        self.pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(16), np.float32, 4)
        cp.cuda.Device().synchronize()


CALLS: dict[str, Callable[[Session], Any]] = {
    "query": lambda session: session.event.done,
    "record and wait": lambda session: session.stream.record().synchronize(),
    "copy": lambda session: session.array.get(stream=session.stream, out=session.pinned),
    "allocate and free": lambda session: session.array.copy(),
}


def steps_of(action: Callable[[], Any], interrupt: int = 0) -> int:
    """Do ``action``, with an interrupt at its step of this number; how many of the simulator's lines it runs until its
    end, or until it is interrupted."""
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        if "cudalab" not in frame.f_code.co_filename:
            return None
        if event == "line":
            steps += 1
            if steps == interrupt:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
        if 0 < interrupt <= steps:  # it does not always take as many
            time.sleep(5)  # one that came in a destructor follows soon
            pytest.fail("the interrupt was lost")
    except KeyboardInterrupt:
        assert 0 < interrupt <= steps
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_at_any_step_leaves_the_device_usable(name: str) -> None:
    session = Session()
    other = cp.cuda.Stream(non_blocking=True)
    try:
        CALLS[name](session)  # what is done once, at a first call, is done
        count = steps_of(lambda: CALLS[name](session))
        assert count > 20
        for step in sorted({1 + index * count // TRIES for index in range(TRIES)}):
            steps_of(lambda: CALLS[name](session), step)
            helper = threading.Thread(target=lambda: other.done, daemon=True)
            helper.start()
            helper.join(10)
            assert not helper.is_alive(), f"after step {step} another thread waits for ever"
            assert not host_watch.paused().depth, f"after step {step} the host is not watched any more"
            assert session.array.get().tolist() == [0, 1, 2, 3]
    finally:
        set_current_device(session.before)


def test_outside_of_calls_an_interrupt_is_raised_at_once() -> None:
    Device()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not interrupts.noted()


def test_a_handler_of_the_program_s_own_stays() -> None:
    rung = []
    before = signal.signal(signal.SIGINT, lambda *_: rung.append(1))
    try:
        Device()
        interrupts.before_cell(None)
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert rung == [1]


def test_another_thread_holds_nothing() -> None:
    held = []
    thread = threading.Thread(target=lambda: held.append(interrupts.hold()))
    thread.start()
    thread.join()
    assert held == [False] and not interrupts.noted()
