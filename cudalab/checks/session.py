"""The session that a Python answer runs in: a fresh simulated device, and the names bound to it.

The learner's own session (its device, pools and current stream) is put aside meanwhile and comes back unchanged, also
after an interrupt.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from cudalab.checks.bench import TIME_LIMIT
from cudalab.sim import cudart, cupy, driver
from cudalab.sim import device as sim_device
from cudalab.sim.cupy.cuda import pinned_memory
from cudalab.sim.device.current import set_current_device
from cudalab.sim.device.profile import Profile
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.reports import card


def _clock() -> float:
    """``cudalab.clock()`` of the simulated device."""
    return sim_device.current_device().clock_ns / 1000


def _host_work(microseconds: float) -> None:
    """``cudalab.host_work()`` of the simulated device."""
    sim_device.current_device().host_work(round(microseconds * 1000))


_CUDALAB: Any = SimpleNamespace(cp=cupy, cudart=cudart, driver=driver, clock=_clock, host_work=_host_work)
NAMES = {"np": np, "cp": cupy, "cudart": cudart, "driver": driver, "cudalab": _CUDALAB}
_IN_PLACE = {"cudalab": _CUDALAB, "cupy": cupy}


def _import(name: str, *details: Any, **more: Any) -> Any:
    """``import`` in an answer: CuPy and cudalab are the simulated device's there."""
    if name in _IN_PLACE:
        return _IN_PLACE[name]
    return builtins.__import__(name, *details, **more)


BUILTINS = ModuleType("builtins")
BUILTINS.__dict__.update(vars(builtins), __import__=_import)


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
def simulated(profile: str | Profile = "h200") -> Iterator[sim_device.Device]:
    """Use a fresh simulated device in this process; on exit, restore the previous one with its streams and pools."""
    device = sim_device.Device(profile, record=True)
    device.settings.time_limit = TIME_LIMIT
    before = set_current_device(device)
    stream = cupy.cuda.get_current_stream()
    names, card.stream_names = card.stream_names, dict  # handles of the learner's streams are others' here
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
        set_current_device(before)
        stream.use()
