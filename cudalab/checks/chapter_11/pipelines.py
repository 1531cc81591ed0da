"""11.1 and 11.5: a pipeline whose copies overlap with its kernels, and the order of its calls for one copy engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.sim.device.profile import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudalab.sim.device.queue.operation import Operation

# --- 11.1 ------------------------------------------------------------------------------------------------------------

RELAX = r"""
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
            _pipeline_once(bench, trial, size, number, _measure_pipeline)


def _pipeline_once(
    bench: StreamBench,
    trial: Trial,
    size: int,
    number: int,
    measure: Callable[[StreamBench, Trial, Sequence[int], int, int], None],
) -> None:
    kernel = trial.kernel(RELAX, "relax")
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
        measure(bench, trial, lengths, size, number)


def _measure_pipeline(bench: StreamBench, trial: Trial, lengths: Sequence[int], size: int, number: int) -> None:
    kernels = list(zip(trial.kernels("relax"), lengths, strict=True))
    into, out = _copies(trial, "h2d"), _copies(trial, "d2h")
    bench.measure(HOST_11_1, len(trial.waits) + len(trial.polls))
    bench.measure(PAGEABLE, sum("pageable" in one.name for one, _ in (*into, *out)))
    for way in (into, out):
        bench.measure(COPIED, sum(length for _, length in way) / size)
    bench.measure(STREAMS, round(100 * len({one.stream for one, _ in kernels}) / number))
    bench.measure(KERNELS_COPIES, _unordered(trial, kernels, [*into, *out], 2 * size * size * (1 - 1 / number)))
    bench.measure(BOTH_WAYS, _unordered(trial, into, out, size * size * (1 - 1 / number)))


def _copies(trial: Trial, way: Literal["h2d", "d2h"]) -> list[tuple[Operation, int]]:
    """The copies of one direction, and how many elements each of them moved."""
    copies = [one for one in trial.operations if one.kind == "copy"]
    return [(one, one.bytes // 4) for one in copies if one.engine == way]


def _unordered(
    trial: Trial,
    some: Sequence[tuple[Operation, int]],
    others: Sequence[tuple[Operation, int]],
    possible: float,
) -> int:
    """Pairs of elements in pieces of work that may overlap, in percent. ``possible``: where the pieces are equal and
    have a stream each, all pairs but those of one piece."""
    pairs = sum(m * n for one, m in some for other, n in others if trial.order.unordered(one, other))
    return round(100 * pairs / possible)


PIPELINE = Exercise(
    id="11.1",
    title="Make a pipeline overlap",
    kernel="pipeline",
    examine=_pipeline,
    gates=(HOST_11_1, KERNELS_COPIES, BOTH_WAYS, STREAMS, PAGEABLE, COPIED),  # a wait is why nothing overlaps
    answer="function",
)

# --- 11.5 ------------------------------------------------------------------------------------------------------------

BEHIND = Gate(
    "copies in that stand behind a copy out",
    points=3,
    most=0,
    baseline=3,
    look="the order of your calls: the one engine takes copies in the order in which they were issued",
)


STREAMS_11_5 = STREAMS.of(baseline=100)
HOST_11_5 = HOST.of(baseline=0)
KERNELS_COPIES_11_5 = KERNELS_COPIES.of(
    baseline=100,
    look="how long the pieces are, and events that make one piece wait for another: each piece has a stream of its "
    "own, and needs nothing of the others",
)


def _one_engine(bench: StreamBench) -> None:
    profile = load("h200-1ce")
    for size, number in ((20_003, 4), (24_000, 2), (1001, 3), (2, 4), (5000, 1)):
        size += bench.between(0, 3) * (size > MEASURED)
        text = f"{size} elements, {number} stream{'s' * (number > 1)}, one copy engine"
        with bench.case(text, profile=profile) as trial:
            _pipeline_once(bench, trial, size, number, _measure_one_engine)


def _measure_one_engine(bench: StreamBench, trial: Trial, lengths: Sequence[int], size: int, number: int) -> None:
    kernels = list(zip(trial.kernels("relax"), lengths, strict=True))
    into, out = _copies(trial, "h2d"), _copies(trial, "d2h")
    first_out = min((one.sequence for one, _ in out), default=0)
    bench.measure(BEHIND, sum(one.sequence > first_out for one, _ in into))
    bench.measure(STREAMS_11_5, round(100 * len({one.stream for one, _ in kernels}) / number))
    possible = 2 * size * size * (1 - 1 / number)
    bench.measure(KERNELS_COPIES_11_5, _unordered(trial, kernels, [*into, *out], possible))
    bench.measure(HOST_11_5, len(trial.waits) + len(trial.polls))
    for way in (into, out):
        bench.measure(COPIED, sum(length for _, length in way) / size)


ONE_ENGINE = Exercise(
    id="11.5",
    title="One copy engine",
    kernel="one_engine",
    examine=_one_engine,
    gates=(BEHIND, STREAMS_11_5, KERNELS_COPIES_11_5, HOST_11_5, COPIED),
    answer="function",
)
