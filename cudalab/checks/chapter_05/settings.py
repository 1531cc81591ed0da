"""Exercises 05.1 to 05.3: a window that fits, one that is on only where it helps, and two that share.

Judged are set-asides, windows, launches and calls; never a time.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from cudalab.checks.bench import Stop
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.checks.windows import MIB, expect_window, l2_of, longest_window, most_aside, set_aside, window_of
from cudalab.sim import cupy
from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.device.timing.l2_ranges import PERSISTING

# --- 05.1 ------------------------------------------------------------------------------------------------------------

ASIDE = Gate(
    "bytes set aside, over what the array needs and the device allows",
    points=1,
    least=1,
    most=1,
    look="cudaDeviceSetLimit with the array's bytes, but never more than persistingL2CacheMaxSize",
)
PART = Gate(
    "the part of the window that persists, over the part that fits",
    points=2,
    least=0.99,
    most=1.001,
    look="hitRatio: what is set aside over the bytes of the window, and never more than 1",
)


def _fit(bench: StreamBench) -> None:
    few = bench.between(5, 9) * 300_000
    for name, size in (("a few MB", few), ("48 MiB", 48 * MIB), ("more than any window", 150 * MIB + 4 * few)):
        with bench.case(name) as trial:
            array, stream = cupy.empty(size // 4, np.float32), trial.stream("the stream")
            trial.call(stream, array)
            covered, found = min(array.nbytes, longest_window(trial)), window_of(trial, stream)
            expect_window(bench, found, array, size=covered, ratio=None, refused=trial.refused)
            if found is None:
                raise Stop
            aside = l2_of(trial).set_aside
            bench.measure(ASIDE, aside / l2_of(trial).rounded(min(array.nbytes, most_aside(trial))))
            bench.measure(PART, found.ratio / min(1.0, aside / covered) if aside else 0.0)


FIT = Exercise(
    id="05.1",
    title="A window that fits",
    kernel="fit",
    examine=_fit,
    correctness=1,
    gates=(ASIDE, PART),
    answer="function",
)

# --- 05.2 ------------------------------------------------------------------------------------------------------------

_WORK = r"""
extern "C" __global__ void first(const float* table, float* total, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) if (table[i] == 12345.0f) total[2] = 1.0f;
    if (threadIdx.x == 0) total[0] += 1.0f;
}
extern "C" __global__ void second(float* total) { total[1] += total[0]; }
"""
WITH = Gate(
    "launches of first with a window over the table (%)",
    points=1,
    least=100,
    baseline=100,
    look="the window has to be set before each call of first, for it is gone after second",
)
WITHOUT = Gate(
    "launches of second without a window (%)",
    points=1,
    least=100,
    baseline=0,
    look="a window of num_bytes = 0, set before second is called",
)
LEFT = Gate("windows that are left", points=1, most=0, baseline=1, look="the stream's window when the function returns")
RESET = Gate(
    "resets behind the last launch", points=1, least=1, baseline=0, look="cudaCtxResetPersistingL2Cache, at the end"
)
EARLY = Gate(
    "resets between the launches",
    points=1,
    most=0,
    baseline=0,
    look="a reset gives back what first has made persist, and the next round finds none of it: reset once, at the end",
)


def _rounds(bench: StreamBench) -> None:
    for count in (3, 1, bench.between(4, 7)):
        with bench.case(f"{count} round{'s' * (count > 1)}") as trial:
            _rounds_once(bench, trial, count)


def _rounds_once(bench: StreamBench, trial: Trial, count: int) -> None:
    table, total = trial.array(bench.random(bench.between(1000, 3000)), "table"), trial.array(np.zeros(3, np.float32))
    stream = trial.stream("the stream")
    set_aside(trial, most_aside(trial) // 2)
    first = trial.launcher(trial.kernel(_WORK, "first"), (1,), (256,), (table, total, np.int32(table.size)))
    second = trial.launcher(trial.kernel(_WORK, "second"), (1,), (1,), (total,))
    trial.call(first, second, stream, table, count)
    expected = np.array([count, count * (count + 1) / 2, 0], np.float32)
    trial.expect("what first and second count", total, expected, look="both in each round, first before second")
    if not bench.fine:
        return

    def covers(window: Any) -> bool:
        return window is not None and (window.start, window.size, window.hit) == (
            table.data.ptr,
            table.nbytes,
            PERSISTING,
        )

    launched = {
        name: [cast(KernelOperation, one).work.window for one in trial.kernels(name)] for name in ("first", "second")
    }
    bench.measure(WITH, 100 * sum(covers(each) for each in launched["first"]) / count)
    bench.measure(WITHOUT, 100 * sum(each is None for each in launched["second"]) / count)
    bench.measure(LEFT, float(window_of(trial, stream) is not None))
    names = [call.name for call in trial.calls]
    first_launch, last = names.index("launch"), len(names) - names[::-1].index("launch")
    bench.measure(RESET, names[last:].count("reset_persisting_l2"))
    bench.measure(EARLY, names[first_launch:last].count("reset_persisting_l2"))
    bench.measure(HOST, len(trial.waits) + len(trial.polls))


ONLY_WHERE_IT_HELPS = Exercise(
    id="05.2",
    title="Only where it helps",
    kernel="process",
    examine=_rounds,
    gates=(WITH, WITHOUT, LEFT, RESET, EARLY, HOST),
    answer="function",
)

# --- 05.3 ------------------------------------------------------------------------------------------------------------

SUM = Gate(
    "what persists in all windows, over what fits",
    points=3,
    least=0.98,
    most=1.001,
    baseline=1.5,
    look="the set-aside is one for all streams: what counts is the sum",
)
EVEN = Gate(
    "the largest hit ratio over the smallest",
    points=1,
    most=1.01,
    baseline=1,
    look="one hit ratio for all: the set-aside over the bytes of all windows together",
)


def _share(bench: StreamBench) -> None:
    few = bench.between(1, 3) / 20
    for shares in ((1.0, 0.5), (few, 0.2, 0.3), (0.4, 0.5 + few, 0.2, 0.2)):
        with bench.case(f"{len(shares)} tables, {sum(shares):.0%} of what is set aside") as trial:
            room = set_aside(trial, most_aside(trial) // 2)
            tables = [cupy.empty(int(share * room) // 4, np.float32) for share in shares]
            streams = [trial.stream(f"stream {number}") for number in range(len(shares))]
            trial.call(streams, tables)
            windows = [window_of(trial, stream) for stream in streams]
            refused = trial.refused
            for number, (window, table) in enumerate(zip(windows, tables, strict=True)):
                what = f"stream {number}"
                expect_window(bench, window, table, size=table.nbytes, ratio=None, what=what, refused=refused)
            found = [window for window in windows if window is not None]
            if len(found) < len(windows) or l2_of(trial).set_aside != room:
                if l2_of(trial).set_aside != room:
                    bench.find("correctness", "set-aside changed", "the set-aside is not the function's to change")
                raise Stop
            whole = sum(table.nbytes for table in tables)
            bench.measure(SUM, sum(each.size * each.ratio for each in found) / min(room, whole))
            ratios = [each.ratio for each in found]
            bench.measure(EVEN, max(ratios) / max(min(ratios), 1e-6))


SHARE = Exercise(
    id="05.3",
    title="One set-aside for all",
    kernel="share",
    examine=_share,
    gates=(SUM, EVEN),
    answer="function",
)
