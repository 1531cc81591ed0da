"""The exercises of chapter 11: a pipeline whose copies overlap with its kernels, and two letterboxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise, Mutant
from cudalab.checks.streams import StreamBench, Trial

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Operation

WAITS = "waits of the host"
Interval = tuple[int, int]


def _spans(operations: Iterable[Operation]) -> list[Interval]:
    return [(one.start, one.end) for one in operations]


def _covered(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as intervals that do not touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def _together(one: Iterable[Interval], other: Iterable[Interval]) -> int:
    """Modelled ns that lie in both."""
    mine, theirs = _covered(one), _covered(other)
    return sum(max(0, min(b, d) - max(a, c)) for a, b in mine for c, d in theirs)


def _share(one: Sequence[Interval], other: Sequence[Interval]) -> int:
    """How much of the shorter one's time both had, in percent."""
    shorter = min(_length(_covered(one)), _length(_covered(other)))
    return round(100 * _together(one, other) / shorter) if shorter else 0


# --- 11.1 ------------------------------------------------------------------------------------------------------------

_RELAX = r"""
extern "C" __global__ void relax(float* x, int n, int steps) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        float v = x[i];
        for (int s = 0; s < steps; s++) v = 0.5f * v + 1.0f;
        x[i] = v;
    }
}
"""
STEPS = 4
PAGEABLE = "copies from or to pageable memory"
KERNELS_COPIES = "overlap of copies and kernels (% of the shorter)"
BOTH_WAYS = "overlap of copies in and copies out (% of the shorter)"
PIPELINES = ((1_000_003, 4), (600_000, 2), (1001, 3), (2, 4), (5000, 1))
"""Elements and streams."""


def _pipeline(bench: StreamBench) -> None:
    for size, number in PIPELINES:
        with bench.case(f"{size} elements, {number} stream{'s' * (number > 1)}") as trial:
            _pipeline_once(bench, trial, size, number)


def _pipeline_once(bench: StreamBench, trial: Trial, size: int, number: int) -> None:
    kernel = trial.kernel(_RELAX, "relax")
    values = bench.random(size)
    x, y = trial.pinned(values), trial.pinned(np.full(size, np.nan, np.float32))
    d = trial.empty((size,), np.float32)
    ran = np.zeros(size, np.int32)

    def launch(begin: int, end: int, stream: Any) -> None:
        if end <= begin:
            return
        ran[begin:end] += 1
        kernel((16,), (256,), (d[begin:end], np.int32(end - begin), np.int32(STEPS)), stream=stream)

    trial.call(x, y, d, launch, [trial.stream(f"streams[{i}]") for i in range(number)])
    expected = values
    for _ in range(STEPS):
        expected = np.float32(0.5) * expected + np.float32(1)
    if (ran != 1).any():
        first = int(np.argmax(ran != 1))
        bench.find(
            "correctness",
            "wrong launches",
            f"the kernel ran {ran[first]} times for element {first}, once is wanted; {int((ran != 1).sum())} of {size} "
            "elements are wrong",
            look="the begin and the end of each piece: together they must be 0 to len(x), also when it does not divide",
        )
        return
    known = (
        Known("the values come back as they went in: copied out before the kernel", values),
        Known("nothing was copied out", np.full(size, np.nan)),
    )
    trial.expect("y", y, expected, known=known, look="what each piece copies in and out, and in which order")
    if size < 500_000:
        return
    kernels = _spans(trial.kernels("relax"))
    copies = {
        engine: _spans(one for one in trial.operations if one.kind == "copy" and one.engine == engine)
        for engine in ("h2d", "d2h")
    }
    bench.gate(
        WAITS,
        len(trial.waits),
        0,
        baseline=0,
        look="calls that wait: synchronize(), and copies without a stream or from memory that is not page-locked",
    )
    bench.gate(
        PAGEABLE,
        sum("pageable" in one.name for one in trial.operations if one.kind == "copy"),
        0,
        baseline=0,
        look="np.array(…), x + 0 and the like make arrays in ordinary memory, which a copy engine cannot reach",
    )
    bench.gate(
        KERNELS_COPIES,
        _share(kernels, [*copies["h2d"], *copies["d2h"]]),
        40,
        baseline=0,
        at_least=True,
        look="which stream each piece is in: work in one stream runs one after the other",
    )
    if number < 4:  # with few pieces the last has hardly come in when the first goes out
        return
    bench.gate(
        BOTH_WAYS,
        _share(copies["h2d"], copies["d2h"]),
        25,
        baseline=0,
        at_least=True,
        look="whether a piece can come in while another goes out",
    )


_LAUNCH = "        launch(begin, end, stream)\n"
_GET = "        d[begin:end].get(out=y[begin:end], blocking=False, stream=stream)\n"
PIPELINE = Exercise(
    id="11.1",
    title="Make a pipeline overlap",
    kernel="pipeline",
    points={"correctness": 0, "soundness": 0, "efficiency": 4},
    examine=_pipeline,
    python=True,
    mutants=(
        Mutant(
            "one stream for all",
            (("in enumerate(streams)", "in enumerate([streams[0]] * len(streams))"),),
            "efficiency",
            KERNELS_COPIES,
        ),
        Mutant(
            "whole pieces only",
            (
                ("len(x) * i // len(streams)", "len(x) // len(streams) * i"),
                ("len(x) * (i + 1) // len(streams)", "len(x) // len(streams) * (i + 1)"),
            ),
            "correctness",
            "wrong launches",
        ),
        Mutant(
            "always four pieces",
            (("in enumerate(streams)", "in ((i, streams[i]) for i in range(4))"),),
            "soundness",
            "IndexError",
        ),
        Mutant(
            "the kernel in another stream",
            (("launch(begin, end, stream)", "launch(begin, end, streams[i - 1])"),),
            "soundness",
            "hazard",
        ),
        Mutant(
            "copies out in another stream",
            (("blocking=False, stream=stream", "blocking=False, stream=streams[i - 1]"),),
            "soundness",
            "hazard",
        ),
        Mutant(
            "copies out before the kernel",
            (
                (
                    _LAUNCH + _GET,
                    _GET + _LAUNCH,
                ),
            ),
            "correctness",
            "wrong values",
        ),
        Mutant(
            "waits after each piece",
            (("blocking=False, stream=stream)", "blocking=False, stream=stream)\n        stream.synchronize()"),),
            "efficiency",
            WAITS,
        ),
        Mutant(
            "waits for the device after each piece",
            (
                (
                    "blocking=False, stream=stream)",
                    "blocking=False, stream=stream)\n        cp.cuda.Device().synchronize()",
                ),
            ),
            "efficiency",
            WAITS,
        ),
        Mutant(
            "copies in from pageable memory",
            (("set(x[begin:end],", "set(np.array(x[begin:end]),"),),
            "efficiency",
            PAGEABLE,
        ),
        Mutant("copies out with a wait", (("blocking=False", "blocking=True"),), "efficiency", WAITS),
        Mutant(
            "copies in without a stream",
            (("set(x[begin:end], stream=stream)", "set(x[begin:end])"),),
            "soundness",
            "hazard",
        ),
        Mutant(
            "computes on the host",
            (
                ("    for i, stream", "    y[:] = 0.0625 * x + 1.875\n    for i, stream"),
                (_LAUNCH, ""),
                (_GET, ""),
            ),
            "correctness",
            "wrong launches",
        ),
    ),
)

# --- 11.2 ------------------------------------------------------------------------------------------------------------

FILLING = "overlap of filling and copies (% of the shorter)"
PARCELS, ELEMENTS, FILL_US = 8, 300_000, 30.0


def _letterboxes(bench: StreamBench) -> None:
    for count, non_blocking in ((PARCELS, True), (5, False), (1, True)):
        kind = "non-blocking" if non_blocking else "blocking"
        with bench.case(f"{count} parcel{'s' * (count > 1)}, a {kind} stream") as trial:
            _send_once(bench, trial, count, non_blocking)


def _send_once(bench: StreamBench, trial: Trial, count: int, non_blocking: bool) -> None:
    parcels = bench.random((count, ELEMENTS))
    boxes = [trial.pinned(np.zeros(ELEMENTS, np.float32)) for _ in range(2)]
    d = trial.empty((count, ELEMENTS), np.float32)
    filled: list[Interval] = []

    def fill(box: np.ndarray, number: int) -> None:
        """Write one parcel into a box; the host is busy meanwhile."""
        begin = trial.device.clock_ns
        box[:] = parcels[number]
        trial.device.host_work(round(FILL_US * 1000))
        filled.append((begin, trial.device.clock_ns))

    trial.call(count, fill, boxes, d, trial.stream("stream", non_blocking=non_blocking))
    shifted = np.concatenate([parcels[1:], parcels[-1:]])
    trial.expect(
        "d",
        d,
        parcels,
        known=(Known("each row holds the next parcel: the box was filled again before it was read", shifted),),
        look="which parcel is in the box when the copy reads it",
    )
    if len(filled) != count:
        bench.find(
            "correctness",
            "wrong fills",
            f"fill was called {len(filled)} times, once for each of {count} parcels is wanted",
        )
        return
    if count < PARCELS:
        return
    copies = _spans(one for one in trial.operations if one.kind == "copy")
    bench.gate(
        FILLING,
        _share(filled, copies),
        60,
        baseline=0,
        at_least=True,
        look="what the host waits for before it fills a box: only the copy from that very box must be done",
    )
    bench.gate(
        "waits of the host for the stream or the device",
        sum(call.name in ("stream_synchronize", "synchronize") for call in trial.waits),
        0,
        baseline=count,
        look="an event says when one copy is done; the stream is done only when all are",
    )


LETTERBOXES = Exercise(
    id="11.2",
    title="Two letterboxes",
    kernel="send",
    points={"correctness": 0, "soundness": 0, "efficiency": 4},
    examine=_letterboxes,
    python=True,
    mutants=(
        Mutant("no wait at all", (("free[k % 2].synchronize()", "pass"),), "soundness", "hazard"),
        Mutant(
            "event recorded before the copy",
            (
                ("        free[k % 2].record(stream)\n", ""),
                ("        d[k].set", "        free[k % 2].record(stream)\n        d[k].set"),
            ),
            "soundness",
            "hazard",
        ),
        Mutant("event never recorded", (("        free[k % 2].record(stream)\n", ""),), "soundness", "hazard"),
        Mutant("event recorded in the current stream", (("record(stream)", "record()"),), "soundness", "hazard"),
        Mutant(
            "waits for the copy from the other box",
            (("free[k % 2].synchronize()", "free[(k + 1) % 2].synchronize()"),),
            "efficiency",
            FILLING,
        ),
        Mutant("one box", (("box = boxes[k % 2]", "box = boxes[0]"),), "soundness", "hazard"),
        Mutant(
            "one box and one event",
            (("box = boxes[k % 2]", "box = boxes[0]"), ("free[k % 2]", "free[0]")),
            "efficiency",
            FILLING,
        ),
        Mutant("waits for the stream", (("free[k % 2].synchronize()", "stream.synchronize()"),), "efficiency", FILLING),
        Mutant(
            "waits for the device",
            (("free[k % 2].synchronize()", "cp.cuda.Device().synchronize()"),),
            "efficiency",
            FILLING,
        ),
        Mutant(
            "a fresh pageable box each time",
            (("box = boxes[k % 2]", "box = np.empty_like(boxes[0])"),),
            "efficiency",
            FILLING,
        ),
        Mutant("the last parcel stays behind", (("range(count)", "range(count - 1)"),), "correctness", "wrong values"),
        Mutant("into the wrong row", (("d[k].set", "d[k - 1].set"),), "correctness", "wrong values"),
        Mutant(
            "fills after the copy",
            (
                ("        fill(box, k)\n", ""),
                (
                    "        free[k % 2].record(stream)\n",
                    "        free[k % 2].record(stream)\n        free[k % 2].synchronize()\n        fill(box, k)\n",
                ),
            ),
            "correctness",
            "wrong values",
        ),
    ),
)

EXERCISES = (PIPELINE, LETTERBOXES)
