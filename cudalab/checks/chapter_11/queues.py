"""11.2, 11.3, 11.4 and 11.6: two letterboxes, the NULL stream in between, functions of the host in a queue, and one
wait that is missing."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.chapter_11.pipelines import RELAX, STREAMS
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.provenance import Origin
from cudalab.checks.streams import HOST, StreamBench, Trial
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.queue.stream import LEGACY

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
        made_look="fill writes the values into boxes[0] or boxes[1], and a copy from that very box brings them to d",
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
    if not any(call.name == "event_create" for call in trial.calls):
        return "nothing waits for the copy from a box before the box is filled again"
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

# --- 11.3 ------------------------------------------------------------------------------------------------------------

_SERVE = r"""
extern "C" __global__ void step(float* y, float x) { *y = 2.0f * x; }
extern "C" __global__ void note(const float* y, float* log) { *log = *y + 1.0f; }
"""
APART = Gate(
    "pairs of requests in different streams that may overlap (%)",
    points=3,
    least=100,
    baseline=0,
    look="the NULL stream, which keeps what is before it from what is behind; and waits for events between the streams "
    "of two requests",
)
IN_NULL_STREAM = Gate(
    "launches in the NULL stream, for each request",
    most=0,
    baseline=1,
    look="work in the NULL stream waits for all blocking streams, and they wait for it",
)
STREAMS_11_3 = STREAMS.of(baseline=100, look="streams[k % len(streams)] for request k, for any number of streams")
EVEN = Gate(
    "requests in the busiest stream, over an even share",
    most=1,
    baseline=1,
    look="streams[k % len(streams)] for request k: the requests are dealt out in turn",
)
HOST_11_3 = HOST.of(baseline=0)
LAUNCHES = Gate(
    "launches, for each request", least=2, most=2, baseline=2, look="one step and one note for each request"
)


def _serve(bench: StreamBench) -> None:
    for count, number in ((8, 4), (1, 1), (bench.between(5, 9), 3)):
        with bench.case(f"{count} request{'s' * (count > 1)}, {number} stream{'s' * (number > 1)}") as trial:
            _serve_once(bench, trial, count, number)


def _serve_once(bench: StreamBench, trial: Trial, count: int, number: int) -> None:
    values = bench.random(count)
    y, log = (trial.empty((count,), np.float32) for _ in range(2))
    step_kernel, note_kernel = (trial.kernel(_SERVE, name) for name in ("step", "note"))
    steps = [trial.launcher(step_kernel, (1,), (1,), (y[i : i + 1], values[i])) for i in range(count)]
    notes = [trial.launcher(note_kernel, (1,), (1,), (y[i : i + 1], log[i : i + 1])) for i in range(count)]

    def step(request: int, stream: Any) -> None:
        steps[request](stream)

    def note(request: int, stream: Any) -> None:
        notes[request](stream)

    streams = [trial.stream(f"streams[{i}]", non_blocking=False) for i in range(number)]
    apart = "a note is in another stream than the step of its request, and no event orders the two"
    trial.call(count, step, note, streams, mistakes=lambda trial: apart)
    nothing = np.full(count, np.nan, np.float32)
    early = "the notes were put in front of their steps" if trial.kernels("note") else "no note was launched"
    look = "a note reads what the step of its request has written"
    trial.expect("log", log, 2 * values + 1, tolerance=1e-6, known=(Known(early, nothing),), look=look)
    ran, given = trial.kernels("step"), {stream.ptr for stream in streams}
    if any(one.stream.handle not in {LEGACY, *given} for one in ran):
        text = "a step is in a stream that is none of streams"
        bench.find("correctness", "another stream", text, look="streams[k % len(streams)]")
    pairs = [(a, b) for i, a in enumerate(ran) for b in ran[i + 1 :] if a.stream is not b.stream]
    bench.measure(LAUNCHES, len(trial.kernels()) / count)
    bench.measure(HOST_11_3, len(trial.waits) + len(trial.polls))
    bench.measure(IN_NULL_STREAM, sum(one.stream.handle == LEGACY for one in trial.kernels()) / count)
    busiest = max(Counter(one.stream for one in ran).values(), default=0)
    bench.measure(EVEN, busiest / -(-count // number))
    bench.measure(STREAMS_11_3, round(100 * len({one.stream for one in ran}) / min(number, count)))
    if number > 1:
        free = sum(trial.order.unordered(a, b) for a, b in pairs)
        bench.measure(APART, round(100 * free / len(pairs)) if pairs else 0)


SERVE = Exercise(
    id="11.3",
    title="The NULL stream in between",
    kernel="serve",
    examine=_serve,
    gates=(APART, IN_NULL_STREAM, STREAMS_11_3, EVEN, LAUNCHES, HOST_11_3),
    answer="function",
)

# --- 11.4 ------------------------------------------------------------------------------------------------------------

HOST_11_4 = HOST.of(
    2, baseline=1, look="a function in the queue runs when the work before it is done; nobody has to wait"
)
FUNCTIONS = Gate(
    "functions of the host in the stream, for each part",
    points=1,
    least=1,
    most=1,
    baseline=0,
    look="stream.launch_host_func(function, argument), once behind each part",
)
PART = 256


def _add_up(bench: StreamBench) -> None:
    for count in (6, 1, bench.between(7, 12)):
        with bench.case(f"{count} part{'s' * (count > 1)}") as trial:
            _add_up_once(bench, trial, count)


def _add_up_once(bench: StreamBench, trial: Trial, count: int) -> None:
    values = bench.random((count, PART))
    d = trial.array(values)
    parts = trial.pinned(np.full((count, PART), np.nan, np.float32))
    totals = trial.pinned(np.full(count, np.nan, np.float32))
    kernel = trial.kernel(RELAX, "relax")
    arguments = [(d[k], np.int32(PART), np.float32(2), np.float32(1)) for k in range(count)]
    launches = [trial.launcher(kernel, (1,), (PART,), given) for given in arguments]

    def work(k: int, stream: Any) -> None:
        launches[k](stream)
        d[k].data.copy_to_host_async(parts[k].ctypes.data, parts[k].nbytes, stream)

    stream, late = trial.stream("stream"), list[Operation]()

    def wait() -> None:
        """The caller waits for the stream, and for nothing else."""
        stream.synchronize()
        late.extend(one for one in _functions(trial) if not trial.order.host_knows(one))

    trial.call(count, work, parts, totals, stream, after=wait)
    if late:
        text = (
            f"the caller waited for stream, and {len(late)} of {len(_functions(trial))} functions may still be to run"
        )
        look = (
            "which stream the functions are in: what is in another has to be joined, by an event for which stream waits"
        )
        bench.find("soundness", "not joined", text, look=look)
    expected = (2 * values + 1).sum(axis=1)
    only_last = np.where(np.arange(count) < count - 1, np.nan, expected)
    known = (
        Known("only the last is written, each time: the function looks k up when it runs", only_last),
        Known("no function has written anything", np.full(count, np.nan, np.float32)),
    )
    look = "what the function gets as its argument, and what is in parts[k] when it runs"
    by = frozenset({Origin.HOST, Origin.EXERCISE})
    trial.expect("totals", totals, expected, tolerance=1e-4, known=known, look=look, by=by)
    bench.measure(FUNCTIONS, len(_functions(trial)) / count)
    bench.measure(HOST_11_4, (len(trial.waits) + len(trial.polls)) / count)


def _functions(trial: Trial) -> list[Operation]:
    return [one for one in trial.operations if one.kind == "host"]


ADD_UP = Exercise(
    id="11.4",
    title="A function in the queue",
    kernel="add_up",
    examine=_add_up,
    gates=(HOST_11_4, FUNCTIONS),
    answer="function",
)

# --- 11.6 ------------------------------------------------------------------------------------------------------------

CONVERT = r"""
extern "C" __global__ void convert(const float* x, float* y) { y[threadIdx.x] = 2.0f * x[threadIdx.x] + 1.0f; }
"""
FREE = Gate(
    "pairs of stages that may overlap, of those possible (%)",
    points=2,
    least=100,
    look="what a stage really has to wait for: the buffer that it fills was last read two frames before",
)
HOST_11_6 = HOST.of()
FRAME = 256
_Stage = tuple[Literal["load", "convert", "store"], int]
"""One of the three, and its frame."""


def _frames(bench: StreamBench) -> None:
    for count in (7, 1, 2, bench.between(8, 12)):
        with bench.case(f"{count} frame{'s' * (count > 1)}") as trial:
            _frames_once(bench, trial, count)


def _frames_once(bench: StreamBench, trial: Trial, count: int) -> None:
    values = bench.random((count, FRAME))
    frames, results = trial.pinned(values), trial.pinned(np.full((count, FRAME), np.nan, np.float32))
    x, y = ([trial.empty((FRAME,), np.float32) for _ in range(2)] for _ in range(2))
    kernel = trial.kernel(CONVERT, "convert")
    launches = [trial.launcher(kernel, (1,), (FRAME,), (x[slot], y[slot])) for slot in range(2)]
    made: list[tuple[_Stage, Operation]] = []

    def load(k: int, stream: Any) -> None:
        x[k % 2].data.copy_from_host_async(frames[k].ctypes.data, frames[k].nbytes, stream)
        made.append((("load", k), trial.operations[-1]))

    def convert(k: int, stream: Any) -> None:
        launches[k % 2](stream)
        made.append((("convert", k), trial.operations[-1]))

    def store(k: int, stream: Any) -> None:
        y[k % 2].data.copy_to_host_async(results[k].ctypes.data, results[k].nbytes, stream)
        made.append((("store", k), trial.operations[-1]))

    trial.call(count, load, convert, store, *(trial.stream(name) for name in ("loading", "working", "storing")))
    look = "which stages of which frames use the same buffer"
    trial.expect("results", results, 2 * values + 1, tolerance=1e-6, look=look)
    before = _stages(count)
    if sorted(stage for stage, _ in made) != sorted(before):
        text = f"{len(made)} stages were enqueued; wanted are load, convert and store, once for each of {count} frames"
        bench.find("correctness", "wrong launches", text, look="the three calls for each frame")
        return
    apart = [(a, b) for n, (one, a) in enumerate(made) for other, b in made[n + 1 :] if one not in before[other]]
    if apart:
        bench.measure(FREE, round(100 * sum(trial.order.unordered(*pair) for pair in apart) / len(apart)))
    bench.measure(HOST_11_6, len(trial.waits) + len(trial.polls))


def _stages(count: int) -> dict[_Stage, set[_Stage]]:
    """All stages, and which of the others have to come before each of them."""
    before: dict[_Stage, set[_Stage]] = {}
    for k in range(count):
        needs: dict[_Stage, tuple[_Stage, ...]] = {
            ("load", k): (("load", k - 1), ("convert", k - 2)),
            ("convert", k): (("convert", k - 1), ("load", k), ("store", k - 2)),
            ("store", k): (("store", k - 1), ("convert", k)),
        }
        for stage, others in needs.items():
            known = [other for other in others if other in before]
            before[stage] = {*known, *(earlier for other in known for earlier in before[other])}
    return before


MISSING_WAIT = Exercise(
    id="11.6",
    title="Find the bug: one wait is missing",
    kernel="convert_all",
    examine=_frames,
    soundness=2,
    gates=(FREE, HOST_11_6),
    answer="function",
)
