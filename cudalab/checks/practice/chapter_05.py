"""What chapter 05 asks in between: the set-aside, windows, hit ratios, streaming data, and cleaning up."""

from __future__ import annotations

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.streams import StreamBench
from cudalab.checks.value import ValueBench
from cudalab.checks.windows import (
    MIB,
    expect_window,
    l2_of,
    longest_window,
    most_aside,
    set_aside,
    set_window,
    window_of,
)
from cudalab.sim import cupy
from cudalab.sim.device.profile import load
from cudalab.sim.device.timing.l2_ranges import NORMAL, STREAMING

_READ = r"""
extern "C" __global__ void read(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) if (x[i] == 12345.0f) *y = 1.0f;
}
"""


def _aside(bench: StreamBench) -> None:
    """On two devices: one number can't be the most that both set aside."""
    profile = load("laptop")
    largest = int(profile.properties["persistingL2CacheMaxSize"])
    with bench.case("some MiB") as trial:
        most = most_aside(trial)
    for wanted, device, what in (
        (bench.between(5, 9) * 1_000_000, None, ""),
        (0, None, ""),
        (2 * most, None, ""),
        (bench.between(3, 5) * largest, profile, f" on a device that sets at most {largest:,} aside"),
    ):
        with bench.case(f"{wanted:,} bytes wanted{what}", profile=device) as trial:
            trial.call(wanted)
            right = l2_of(trial).rounded(min(wanted, most_aside(trial)))
            if l2_of(trial).set_aside != right:
                text = f"{l2_of(trial).set_aside:,} bytes are set aside; wanted are {right:,}"
                bench.find("correctness", "wrong set-aside", text, look="min(wanted, …): more than the most is refused")
                continue  # what it returns follows from that
            known = (Known("it is what was asked for, not what was given", np.array(wanted)),) if wanted else ()
            trial.expect_value(right, known=known, look="cudaDeviceGetLimit: its second value")


def _window(bench: StreamBench) -> None:
    for dtype in (np.float32, np.float64):
        with bench.case(f"an array of {np.dtype(dtype)}") as trial:
            array = cupy.zeros(bench.between(1000, 9000), dtype)
            stream = trial.stream("the stream")
            trial.call(stream, array)
            expect_window(bench, window_of(trial, stream), array, size=array.nbytes, refused=trial.refused)


def _ratio(bench: ValueBench) -> None:
    known = (
        Known("at 1 all of the 50 MiB persist", np.array(1.0)),
        Known("the window over the room, turned round", np.array(2.5)),
        Known("a ratio is a part of 1, not percent", np.array(40.0)),
    )
    bench.expect(0.4, tolerance=0.001, known=known, look="which part of 50 MiB are 20 MiB?")


def _passing(bench: StreamBench) -> None:
    for name, more in (("an array of some KiB", None), ("an array larger than any window", bench.between(1, 9))):
        with bench.case(name) as trial:
            longest, stream = longest_window(trial), trial.stream("the stream")
            array = cupy.empty(bench.between(100, 900) * 256 if more is None else longest // 4 + more, np.float32)
            trial.call(stream, array)
            size = min(array.nbytes, longest)
            miss, refused = (STREAMING, NORMAL), trial.refused
            found = window_of(trial, stream)
            expect_window(bench, found, array, size=size, hit=STREAMING, miss=miss, refused=refused)


def _finish(bench: StreamBench) -> None:
    with bench.case("a stream with a window, after a kernel") as trial:
        array, out, stream = cupy.zeros(MIB // 4, np.float32), cupy.zeros(1, np.float32), trial.stream("the stream")
        set_aside(trial, min(16 * MIB, most_aside(trial)))
        set_window(trial, stream, array)
        launch = trial.launcher(trial.kernel(_READ, "read"), (1,), (256,), (array, out, np.int32(array.size)))
        launch(stream)
        trial.call(stream)
        if window_of(trial, stream) is not None:
            text = "the stream still has its window"
            bench.find("correctness", "window left", text, look="num_bytes = 0, and cudaStreamSetAttribute")
        if l2_of(trial).persisting:
            text = f"{l2_of(trial).persisting:,} bytes still persist"
            bench.find("correctness", "persisting lines left", text, look="cudaCtxResetPersistingL2Cache")
        if l2_of(trial).set_aside:
            text = f"{l2_of(trial).set_aside:,} bytes are still set aside"
            bench.find("correctness", "set-aside left", text, look="cudaDeviceSetLimit")


EXERCISES = (
    Exercise("05.aside", "Set aside what is allowed", "reserve", _aside, answer="function"),
    Exercise("05.window", "A window over an array", "keep", _window, answer="function"),
    Exercise("05.ratio", "The hit ratio that fits", "ratio", _ratio, answer="value"),
    Exercise("05.passing", "Data that pass by", "passing", _passing, answer="function"),
    Exercise("05.finish", "Clean up", "finish", _finish, answer="function"),
)
