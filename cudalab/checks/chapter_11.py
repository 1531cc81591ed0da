"""The exercises of chapter 11: a pipeline whose copies overlap with its kernels, and two letterboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudalab.sim.device.queue.operation import Operation

# --- 11.1 ------------------------------------------------------------------------------------------------------------

_RELAX = r"""
extern "C" __global__ void relax(float* x, int n, float factor, float term) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) x[i] = factor * x[i] + term;
}
"""
HOST_11_1 = HOST.of(
    1,
    baseline=1,
    look="calls that wait: synchronize(), copies without a stream or from memory that is not page-locked, and "
    "array.get() without blocking=False",
)
STREAMS = Gate(
    "streams at work (% of those given)",
    points=1,
    least=100,
    baseline=25,
    look="one piece for each of streams: len(streams) may be any number",
)
KERNELS_COPIES = Gate(
    "kernels that nothing orders with other pieces' copies (% of the possible)",
    points=1,
    least=90,
    baseline=0,
    look="which stream each piece is in, and how long it is: work in one stream runs one after the other",
)
BOTH_WAYS = Gate(
    "copies in that nothing orders with other pieces' copies out (% of the possible)",
    points=1,
    least=90,
    baseline=0,
    look="whether a piece can come in while another goes out",
)
PAGEABLE = Gate(
    "copies from or to pageable memory",
    most=0,
    baseline=0,
    look="np.array(…), x + 0 and the like make arrays in ordinary memory, which a copy engine cannot reach",
)
COPIED = Gate(
    "bytes copied in and out, for each byte of x and y",
    least=1,
    most=1,
    baseline=1,
    look="copies that are made twice, or for nothing",
    too_little="values that reach y without a copy from d, or d without one from x",
)
PIPELINES = ((20_003, 4), (24_000, 2), (1001, 3), (2, 4), (5000, 1))
"""Elements and streams. Copies up to 64 KB have rules of their own; pieces are that small, and the rules the same."""
MEASURED = 10_000
"""Elements from which a pipeline is measured: below, pieces may be empty."""


def _pipeline(bench: StreamBench) -> None:
    for size, number in PIPELINES:
        size += bench.between(0, 3) * (size > MEASURED)
        with bench.case(f"{size} elements, {number} stream{'s' * (number > 1)}") as trial:
            _pipeline_once(bench, trial, size, number)


def _pipeline_once(bench: StreamBench, trial: Trial, size: int, number: int) -> None:
    kernel = trial.kernel(_RELAX, "relax")
    values = bench.random(size)
    factor, term = np.float32(bench.between(2, 9) / 16), np.float32(bench.between(1, 9))
    x, y = trial.pinned(values), trial.pinned(np.full(size, np.nan, np.float32))
    d = trial.empty((size,), np.float32)
    ran = np.zeros(size, np.int32)
    lengths: list[int] = []

    def launch(begin: int, end: int, stream: Any) -> None:
        if end <= begin:
            return
        ran[begin:end] += 1
        lengths.append(end - begin)
        kernel((2,), (256,), (d[begin:end], np.int32(end - begin), factor, term), stream=stream)

    streams = [trial.stream(f"streams[{i}]") for i in range(number)]
    trial.call(x, y, d, launch, streams)
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
    look = "what each piece copies in and out, and in which order"
    trial.expect("y", y, factor * values + term, tolerance=1e-6, known=known, look=look)
    if size >= MEASURED:
        _measure_pipeline(bench, trial, lengths, size, number)


def _measure_pipeline(bench: StreamBench, trial: Trial, lengths: Sequence[int], size: int, number: int) -> None:
    kernels = list(zip(trial.kernels("relax"), lengths, strict=True))
    copies = [one for one in trial.operations if one.kind == "copy"]
    ways = {way: [(one, one.bytes // 4) for one in copies if one.engine == way] for way in ("h2d", "d2h")}
    bench.measure(HOST_11_1, len(trial.waits) + len(trial.polls))
    bench.measure(PAGEABLE, sum("pageable" in one.name for one in copies))
    for way in ways.values():
        bench.measure(COPIED, sum(length for _, length in way) / size)
    bench.measure(STREAMS, round(100 * len({one.stream for one, _ in kernels}) / number))
    both = [*ways["h2d"], *ways["d2h"]]
    possible = size * size * (1 - 1 / number)  # equal pieces, one stream each: all but their own
    bench.measure(KERNELS_COPIES, round(100 * _unordered(trial, kernels, both) / (2 * possible)))
    bench.measure(BOTH_WAYS, round(100 * _unordered(trial, ways["h2d"], ways["d2h"]) / possible))


def _unordered(trial: Trial, some: Sequence[tuple[Operation, int]], others: Sequence[tuple[Operation, int]]) -> int:
    """Pairs of elements in pieces of work that may overlap."""
    return sum(m * n for one, m in some for other, n in others if trial.order.unordered(one, other))


PIPELINE = Exercise(
    id="11.1",
    title="Make a pipeline overlap",
    kernel="pipeline",
    examine=_pipeline,
    gates=(KERNELS_COPIES, BOTH_WAYS, STREAMS, HOST_11_1, PAGEABLE, COPIED),
    answer="function",
)

# --- 11.2 ------------------------------------------------------------------------------------------------------------

FILLING = Gate(
    "boxes filled while the copy before may still be under way (% of the possible)",
    points=3,
    least=100,
    baseline=0,
    look="what the host waits for before it fills a box: only the copy from that very box must be done",
)
BOXES = Gate("boxes used", points=1, least=2, baseline=1, look="boxes[0] and boxes[1] in turn")
POLLS = Gate(
    "queries of the host",
    most=0,
    baseline=0,
    look="asking again and again whether a copy is done keeps the host busy: event.synchronize() waits",
)
ROWS = Gate("bytes copied, for each byte of d", least=1, most=1, baseline=1, look="each parcel is to be copied once")
PARCELS, ELEMENTS = 8, 5000


def _letterboxes(bench: StreamBench) -> None:
    for count, non_blocking in ((PARCELS + bench.between(0, 3), True), (5, False), (1, True)):
        kind = "non-blocking" if non_blocking else "blocking"
        with bench.case(f"{count} parcel{'s' * (count > 1)}, a {kind} stream") as trial:
            _send_once(bench, trial, count, non_blocking)


def _send_once(bench: StreamBench, trial: Trial, count: int, non_blocking: bool) -> None:
    parcels = bench.random((count, ELEMENTS))
    boxes = [trial.pinned(np.zeros(ELEMENTS, np.float32)) for _ in range(2)]
    d = trial.empty((count, ELEMENTS), np.float32)
    used: list[int] = []
    waiting: list[bool] = []
    """Of each fill: may the copy before it be under way?"""

    def fill(box: np.ndarray, number: int) -> None:
        """Write one parcel into a box; the host is busy meanwhile."""
        copies = [one for one in trial.operations if one.kind == "copy"]
        waiting.append(bool(copies) and not trial.order.host_knows(copies[-1]))
        used.append(next((i for i, known in enumerate(boxes) if np.may_share_memory(box, known)), -1))
        box[:] = parcels[number]
        trial.device.host_work(30_000)

    stream = trial.stream("stream", non_blocking=non_blocking)
    trial.call(count, fill, boxes, d, stream, mistakes=_box_mistake)
    shifted = np.concatenate([parcels[1:], parcels[-1:]])
    trial.expect(
        "d",
        d,
        parcels,
        known=(Known("each row holds the next parcel: the box was filled again before it was read", shifted),),
        look="which parcel is in the box when the copy reads it",
    )
    if len(used) != count:
        text = f"fill was called {len(used)} times, once for each of {count} parcels is wanted"
        bench.find("correctness", "wrong fills", text)
    elif -1 in used:
        text = f"parcel {used.index(-1)} was filled into an array that is neither boxes[0] nor boxes[1]"
        bench.find("correctness", "a box of its own", text, look="what is passed to fill: boxes[…] itself")
    elif count >= PARCELS:
        copied = sum(one.bytes for one in trial.operations if one.kind == "copy")
        bench.measure(FILLING, round(100 * sum(waiting) / (count - 1)))
        bench.measure(BOXES, len(set(used)))
        bench.measure(POLLS, len(trial.polls))
        bench.measure(ROWS, copied / d.nbytes)


def _box_mistake(trial: Trial) -> str:
    """What looks like a wait for a box and is none, when a box was filled while its copy was under way."""
    copies = [one for one in trial.operations if one.kind == "copy"]
    records = [one for one in trial.operations if one.kind == "record"]
    if not trial.synchronizes:
        return "the host never waits before it fills a box again"
    if not records:
        return "the events are never recorded, and an event that was never recorded counts as complete"
    if copies and all(record.stream is not copies[0].stream for record in records):
        return "the event is recorded in another stream than the copies; record() alone takes the current one"
    if copies and records[-1].sequence < copies[-1].sequence:
        return "the event is recorded before the copy, so it stands for the work before that copy only"
    return "the host waits, but not for the last copy from the box that it fills"


LETTERBOXES = Exercise(
    id="11.2",
    title="Two letterboxes",
    kernel="send",
    examine=_letterboxes,
    gates=(FILLING, BOXES, POLLS, ROWS),
    answer="function",
)

EXERCISES = (PIPELINE, LETTERBOXES)
