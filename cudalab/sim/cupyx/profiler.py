"""``cupyx.profiler`` on the simulated device: ``benchmark(func, args, n_repeat=…)``, ``profile()``
and ``time_range(…)``.

``benchmark`` runs ``func`` for real, ``n_warmup`` times and then up to ``n_repeat`` times, and waits after each. Both
times that it reports are modelled: the CPU's is what the runtime calls of ``func`` cost the host, the GPU's what lies
between two events in the current stream. A learner would notice that repeats hardly differ, and that the time which
Python itself needs is missing from the CPU's. Signatures, checks and the text of the result are those of CuPy 14.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cudalab.sim.cupy import cuda
from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy.cuda import runtime
from cudalab.sim.device import current_device

__all__ = ["benchmark", "profile", "time_range"]


class _PerfCaseResult:
    """What ``benchmark`` found. As text: mean, spread, and smallest and largest time, in microseconds."""

    def __init__(self, name: str, ts: np.ndarray, devices: Sequence[int]) -> None:
        assert ts.ndim == 2 and ts.shape[0] == len(devices) + 1 and ts.shape[1] > 0
        self.name = name
        self._ts = ts
        self._devices = devices

    @property
    def cpu_times(self) -> np.ndarray:
        """float64[repeats]: seconds on the host, modelled."""
        result: np.ndarray = self._ts[0]
        return result

    @property
    def gpu_times(self) -> np.ndarray:
        """float64[devices, repeats]: seconds between two events, modelled."""
        return self._ts[1:]

    @staticmethod
    def _to_str_per_item(device_name: str, t: np.ndarray) -> str:
        assert t.ndim == 1 and t.size > 0
        microseconds = t * 1e6
        text = f"    {device_name}: {microseconds.mean():9.03f} us"
        if t.size > 1:
            low, high = microseconds.min(), microseconds.max()
            text += f"   +/- {microseconds.std():6.03f} (min: {low:9.03f} / max: {high:9.03f}) us"
        return text

    def to_str(self, show_gpu: bool = False) -> str:
        """The result as one line; with ``show_gpu`` the device's times, too."""
        parts = [self._to_str_per_item("CPU", self._ts[0])]
        if show_gpu:
            parts += [self._to_str_per_item(f"GPU-{n}", t) for n, t in zip(self._devices, self._ts[1:], strict=True)]
        return f"{self.name:<20s}:{' '.join(parts)}"

    def __repr__(self) -> str:
        return self.to_str(show_gpu=True)

    __str__ = __repr__


def benchmark(
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] = {},  # noqa: B006  as CuPy's signature has it; it is not changed
    n_repeat: int = 10000,
    *,
    name: str | None = None,
    n_warmup: int = 10,
    max_duration: float = math.inf,
    devices: tuple[int, ...] | None = None,
) -> _PerfCaseResult:
    """Time ``func(*args, **kwargs)`` on the host and on the device.

    Args:
        func: what to time; it enqueues work on the current stream.
        args: its positional arguments.
        kwargs: its keyword arguments.
        n_repeat: runs that are timed.
        name: what to call it; by default ``func.__name__``.
        n_warmup: runs before, which are not timed.
        max_duration: seconds after which no further run is begun, of modelled time or of your own.
        devices: numbers of the devices to time; by default the current one.

    Returns:
        An object with ``cpu_times`` and ``gpu_times`` in seconds; its text says mean and spread.

    Raises:
        ValueError: an argument of another type.
        CUDARuntimeError: a device that does not exist.
    """
    if name is None:
        name = func.__name__
    if devices is None:
        devices = (cuda.get_device_id(),)
    if not callable(func):
        raise ValueError("`func` should be a callable object.")
    for value, kind, text in (
        (args, tuple, "`args` should be of tuple type."),
        (kwargs, dict, "`kwargs` should be of dict type."),
        (n_repeat, int, "`n_repeat` should be an integer."),
        (name, str, "`name` should be a string."),
        (n_warmup, int, "`n_warmup` should be an integer."),
    ):
        if not isinstance(value, kind):
            raise ValueError(text)
    if not np.isreal(max_duration):
        raise ValueError("`max_duration` should be given in seconds")
    if not isinstance(devices, tuple):
        raise ValueError("`devices` should be of tuple type")
    return _repeat(lambda: func(*args, **kwargs), n_repeat, name, n_warmup, max_duration, devices)


def _repeat(
    call: Callable[[], Any], n_repeat: int, name: str, n_warmup: int, max_duration: float, devices: tuple[int, ...]
) -> _PerfCaseResult:
    def on_each(action: Callable[[cuda.Event], Any], events: Sequence[cuda.Event]) -> None:
        for number, event in zip(devices, events, strict=True):
            with _device(number):
                action(event)

    starts, ends = [], []
    for number in devices:
        with _device(number):
            starts.append(cuda.Event())
            ends.append(cuda.Event())
    for _ in range(n_warmup):
        call()
    on_each(lambda event: event.record(), starts)
    on_each(lambda event: event.synchronize(), starts)
    cpu_times: list[float] = []
    gpu_times: list[list[float]] = [[] for _ in devices]
    modelled = spent = 0.0
    for _ in range(n_repeat):
        on_each(lambda event: event.record(), starts)
        wall, before = time.perf_counter(), current_device().clock_ns
        call()
        cpu_times.append((current_device().clock_ns - before) * 1e-9)
        on_each(lambda event: event.record(), ends)
        on_each(lambda event: event.synchronize(), ends)
        for times, start, end in zip(gpu_times, starts, ends, strict=True):
            times.append(cuda.get_elapsed_time(start, end) * 1e-3)
        modelled += (current_device().clock_ns - before) * 1e-9
        spent += time.perf_counter() - wall
        if max(modelled, spent) > max_duration:
            break
    return _PerfCaseResult(name, np.asarray([cpu_times, *gpu_times], np.float64), devices)


@contextmanager
def _device(number: int) -> Iterator[None]:
    """Make a device the current one for a while."""
    before = runtime.getDevice()
    try:
        runtime.setDevice(number)
        yield
    finally:
        runtime.setDevice(before)


@contextmanager
def profile() -> Iterator[None]:
    """Tell a profiler that the interesting part begins and ends (``cudaProfilerStart`` and ``cudaProfilerStop``). No
    profiler watches the simulated device from outside; ``cudalab.trace`` shows what happened."""
    runtime.profilerStart()
    try:
        yield
    finally:
        runtime.profilerStop()


class time_range:
    """Names a part of the host's code for an outside profiler; a context manager and a decorator. There is no such
    profiler here, so it has no effect but ``sync``: to see names on a timeline, give your streams names with
    ``cudalab.trace(streams={...})``.

    Args:
        message: the name; a decorator takes the function's by default.
        color_id: number of a colour.
        argb_color: colour 0xAARRGGBB.
        sync: wait for the device at both ends.
    """

    def __init__(
        self,
        message: str | None = None,
        color_id: int | None = None,
        argb_color: int | None = None,
        sync: bool = False,
    ) -> None:
        if color_id is not None and argb_color is not None:
            raise ValueError("Only either color_id or argb_color can be specified")
        self.message = message
        self.color_id = -1 if color_id is None else color_id
        self.argb_color = argb_color
        self.sync = sync

    def __enter__(self) -> time_range:
        if self.message is None:
            raise ValueError("when used as a context manager, the message argument cannot be None")
        if self.sync:
            runtime.deviceSynchronize()
        return self

    def __exit__(self, *_: object) -> None:
        if self.sync:
            runtime.deviceSynchronize()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self.message is None:
            self.message = function.__name__

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inner


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupyx.profiler", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupyx.profiler", globals())
