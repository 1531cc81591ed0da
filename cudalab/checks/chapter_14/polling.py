"""14.6: pieces of useful work while the device is busy, and a query before each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench, Trial

_FILL = r"""
extern "C" __global__ void fill(float* y, float first, int steps) {
    float x = first + threadIdx.x, v = x;
    for (int s = 0; s < steps; s++) v = 0.5f * v + 0.5f * x;  // takes a while, and stays x
    y[threadIdx.x] = v;
}
"""
DONE = Gate(
    "pieces done while the device is busy, of those possible (%)",
    points=1,
    least=100,
    baseline=0,
    look="where the host waits, what it asks about (an event recorded behind the launch), and what it does between two "
    "queries: one piece, as long as there are any",
)
LATE = Gate(
    "pieces begun without knowing that the device is busy",
    points=2,
    most=0,
    baseline=0,
    look="when the host asks: before each piece, so that none is begun when the device has ended",
)
ASKED = Gate(
    "queries beyond one before each piece and a last one",
    points=1,
    most=0,
    baseline=0,
    look="how often the host asks: once before each piece, and when there are no pieces left it can wait",
)
ELEMENTS, STEPS = 32, 400_000
"""Steps of the kernel: about a millisecond, many times what the pieces take before it is to end."""
BRIEF, LASTING = 1_000, 10_000_000_000
"""Host time of a piece, ns; of the one in which the device ends."""


@dataclass
class _Desk:
    """What the function did with the pieces."""

    trial: Trial
    ends_in: int | None
    """In which piece the device ends; None: in none of them."""
    begun: list[int] = field(default_factory=list)
    busy: list[bool] = field(default_factory=list)
    """Of each piece begun: may the device be busy, for all that the host knows?"""
    asked: list[int] = field(default_factory=list)
    """Of each piece begun: how many queries there had been."""

    def piece(self, number: int) -> Callable[[], None]:
        def work() -> None:
            self.begun.append(number)
            self.busy.append(not all(self.trial.order.host_knows(one) for one in self.trial.operations))
            self.asked.append(len(self.trial.polls))
            self.trial.device.host_work(LASTING if number == self.ends_in else BRIEF)

        return work


def _meanwhile(bench: StreamBench) -> None:
    ends = bench.between(5, 12)
    for text, count, ends_in in (
        (f"20 pieces, and the device ends in pieces[{ends}]", 20, ends),
        ("3 pieces, and the device takes longer", 3, None),
        ("one piece, in which the device ends", 1, 0),
        ("no pieces at all", 0, None),
    ):
        with bench.case(text) as trial:
            _meanwhile_once(bench, trial, count, ends_in)


def _meanwhile_once(bench: StreamBench, trial: Trial, count: int, ends_in: int | None) -> None:
    fill, y = trial.kernel(_FILL, "fill"), trial.empty((ELEMENTS,), np.float32)
    result = trial.pinned(np.full(ELEMENTS, np.nan, np.float32))
    first = bench.between(1, 1000)
    desk = _Desk(trial, ends_in)

    def launch(stream: Any) -> None:
        fill((1,), (ELEMENTS,), (y, np.float32(first), np.int32(STEPS)), stream=stream)
        y.get(stream=stream, out=result, blocking=False)

    stream = trial.stream("stream")
    trial.call(launch, stream, [desk.piece(k) for k in range(count)], result)
    done, total = len(desk.begun), sum(range(first, first + ELEMENTS))
    known = (
        Known(_too_soon(trial, stream), np.array([np.nan, done])),
        Known("the number of pieces that there are is returned, not of those done", np.array([total, count])),
    )
    trial.expect_value((total, done), tolerance=1e-6, known=known, look="when result is added up, and what is counted")
    if desk.begun != list(range(done)):
        text = f"the pieces were done in this order: {desk.begun}; each once, from the first on, is wanted"
        bench.find("correctness", "wrong pieces", text, look="pieces[0](), then pieces[1](), and so on")
    if len(trial.kernels("fill")) != 1:
        text = f"launch was called {len(trial.kernels('fill'))} times; once is wanted"
        bench.find("correctness", "wrong launches", text)
    _measure(bench, trial, desk, count)


def _measure(bench: StreamBench, trial: Trial, desk: _Desk, count: int) -> None:
    possible = count if desk.ends_in is None else desk.ends_in + 1
    if possible:
        bench.measure(DONE, round(100 * sum(desk.busy[:possible]) / possible))
    before = [0, *desk.asked]
    bench.measure(LATE, sum(k >= possible or now == before[k] for k, now in enumerate(desk.asked)))
    bench.measure(ASKED, max(0, len(trial.polls) - len(desk.begun) - 1))


def _too_soon(trial: Trial, stream: Any) -> str:
    """Why ``result`` was read before the copy had come."""
    work = [one.sequence for one in trial.operations if one.kind == "copy"]
    records = [one for one in trial.operations if one.kind == "record"]
    if any(one.stream.handle != stream.ptr or one.sequence < max(work, default=0) for one in records):
        return "the event is complete at once: it stands in another stream, or before the work"
    return "result was read before the copy had come"


MEANWHILE = Exercise(
    id="14.6",
    title="Useful work while polling",
    kernel="meanwhile",
    examine=_meanwhile,
    gates=(DONE, LATE, ASKED),
    answer="function",
)
