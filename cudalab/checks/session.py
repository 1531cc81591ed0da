"""The session that a Python answer runs in: a fresh simulated device.

The learner's own session (its device, pools and current stream) is put aside meanwhile and comes back unchanged, also
after an interrupt.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from cudalab.checks.bench import TIME_LIMIT
from cudalab.sim import cupy
from cudalab.sim import device as sim_device
from cudalab.sim.cupy.cuda import pinned_memory
from cudalab.sim.device.caller import only_lines_of
from cudalab.sim.device.current import hold_device, set_current_device
from cudalab.sim.device.profile import Profile
from cudalab.sim.machine.launch import workspace
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.reports import card
from cudalab.sim.names import FILE


@contextlib.contextmanager
def _pinned_allocator(allocator: Callable[[int], Any]) -> Iterator[None]:
    """Take page-locked memory from ``allocator``; the session's own pool stays as it is, and what copies there hold."""
    before, held = pinned_memory._allocator[0], pinned_memory._in_flight[:]
    pinned_memory._in_flight.clear()
    pinned_memory.set_pinned_memory_allocator(allocator)
    try:
        yield
    finally:
        pinned_memory.set_pinned_memory_allocator(before)
        pinned_memory._in_flight[:] = held


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Within it the code of an answer runs, on the present device and no other."""
    hold_device(True)
    try:
        yield
    finally:
        hold_device(False)


@contextlib.contextmanager
def simulated(profile: str | Profile = "h200") -> Iterator[sim_device.Device]:
    """Use a fresh simulated device in this process; on exit, restore the previous one with its streams and pools.

    Raises:
        RuntimeError: an answer asks for it, to try there what it should tell.
    """
    workspace.forget()  # what a kernel reads before it writes is the same each time
    device = sim_device.Device(profile, record=True)
    device.settings.time_limit = TIME_LIMIT
    before = set_current_device(device)
    stream = cupy.cuda.get_current_stream()
    names, card.stream_names = card.stream_names, dict  # handles of the learner's streams are others' here
    lines = only_lines_of(FILE)
    try:
        cupy.cuda.Stream.null.use()
        pool, pinned = cupy.cuda.MemoryPool(), cupy.cuda.PinnedMemoryPool()
        with (
            cupy.cuda.using_allocator(pool.malloc),
            _pinned_allocator(pinned.malloc),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            host_watch.listening(),  # the end of an answer's time may come in the middle of a call
        ):
            warnings.simplefilter("ignore")
            yield device
    finally:
        card.stream_names = names
        only_lines_of(lines)
        hold_device(False)  # an answer's time may have ended just where it lets go of its device
        set_current_device(before)
        stream.use()
