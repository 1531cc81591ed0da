"""Exercises 08.1 to 08.3: an array locked in its place, an answer without a copy, two desks that take turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim.device.observer import Observer

if TYPE_CHECKING:
    from cudalab.sim.device.caller import Place
    from cudalab.sim.device.declaration import Call

POLLS = Gate(
    "queries of the host",
    most=0,
    baseline=0,
    look="asking again and again whether work is done keeps the host busy: stream.synchronize() waits",
)
PAGEABLE, PAGE_LOCKED = 0, 1
"""Types of memory, as ``cudaPointerGetAttributes`` has them."""


def _kind(trial: Trial, array: np.ndarray) -> int:
    return trial.device.pointer_attributes(array.ctypes.data).type


def copies(trial: Trial) -> list[Any]:
    return [one for one in trial.operations if one.kind == "copy"]


# --- 08.1 ------------------------------------------------------------------------------------------------------------

STAGED = Gate(
    "copies from pageable memory",
    points=1,
    most=0,
    baseline=1,
    look="whether x is page-locked when the copy is called: cudaHostRegister comes before it, cudaHostUnregister after",
)
LOCKED = Gate(
    "bytes registered, for each byte of x",
    points=1,
    least=1,
    most=1,
    baseline=0,
    look="the second argument of cudaHostRegister counts bytes: x.nbytes, once",
    too_little="an array that is pageable has to be registered as a whole, and its size counts bytes: x.nbytes",
)
BUFFERS = Gate(
    "bytes copied from other memory than x",
    most=0,
    baseline=0,
    look="a second array of the host: the exercise asks for x to be locked where it lies",
)
MOVED = Gate(
    "bytes copied, for each byte of x", least=1, most=1, baseline=1, look="x is to be copied once, and as a whole"
)
MEASURED = 5000
"""Elements from which an upload is measured."""


class _Unregistering(Observer):
    """Whether a copy may still be under way when its array is unregistered. The simulated device waits in that call;
    the runtime's reference does not say that ``cudaHostUnregister`` does, and what is not documented is not to be
    relied on (CUDA Runtime API, "API synchronization behavior")."""

    def __init__(self, trial: Trial) -> None:
        self.too_early, self._under_way, self._trial = False, False, trial

    def called(self, call: Call, place: Place, start: int, end: int) -> None:
        self.too_early |= call.name == "host_unregister" and self._under_way
        self._under_way = any(not self._trial.order.host_knows(copy) for copy in copies(self._trial))


def _upload(bench: StreamBench) -> None:
    cases = (("pageable", MEASURED + bench.between(0, 3000)), ("pageable", 1), ("registered", 3001), ("pinned", 999))
    for kind, size in cases:
        with bench.case(f"{size} element{'s' * (size > 1)} in {kind} memory") as trial:
            _upload_once(bench, trial, kind, size)


def _upload_once(bench: StreamBench, trial: Trial, kind: str, size: int) -> None:
    values = bench.random(size)
    x = trial.pinned(values) if kind == "pinned" else values.copy()
    if kind == "registered":
        trial.device.host_register(x.ctypes.data, x.nbytes)
    d, before = trial.empty((size,), np.float32), _kind(trial, x)
    under_way: list[bool] = []
    unregistering = _Unregistering(trial)
    trial.device.observers.append(unregistering)

    def after() -> None:
        under_way.extend(not trial.order.host_knows(copy) for copy in copies(trial))

    trial.call(x, d, trial.stream("stream"), after=after)
    trial.expect(
        "d", d, values, known=(Known("nothing was copied", np.full(size, np.nan)),), look="the copy from x to d"
    )
    trial.expect("x", x, values, look="what else writes to x")
    if (now := _kind(trial, x)) != before:
        text, look = _left_behind(now, kind)
        bench.find("correctness", "another kind of memory", text, look=look)
    if any(under_way):
        look = "stream.synchronize() before the function returns"
        bench.find("correctness", "not done", "the copy is still under way when the function returns", look=look)
    if unregistering.too_early:
        text = "x is unregistered while the copy may still be under way; nothing promises that the call waits for it"
        look = "stream.synchronize() comes before cudaHostUnregister"
        bench.find("correctness", "unregistered too early", text, look=look)
    if size >= MEASURED:
        registered = sum(e.arguments["size"] for e in trial.device.log.entries if _succeeded(e, "host_register"))
        bench.measure(STAGED, sum("pageable" in copy.name for copy in copies(trial)))
        bench.measure(LOCKED, registered / x.nbytes)
        bench.measure(BUFFERS, sum(copy.bytes for copy in copies(trial) if not _comes_from(copy, x)))
        bench.measure(MOVED, sum(copy.bytes for copy in copies(trial)) / x.nbytes)
        bench.measure(POLLS, len(trial.polls))


def _comes_from(copy: Any, x: np.ndarray) -> bool:
    return bool(x.ctypes.data <= copy.work.source.address < x.ctypes.data + x.nbytes)


def _succeeded(entry: Any, name: str) -> bool:
    return bool(entry.name == name and not entry.error)


def _left_behind(now: int, kind: str) -> tuple[str, str]:
    if now == PAGE_LOCKED:
        return "x was pageable and is page-locked now", "cudaHostUnregister when the copy is done"
    return (
        f"x was in {kind} memory and is pageable now",
        "unregister only what this function has registered: cudaPointerGetAttributes says what x is at first",
    )


UPLOAD = Exercise(
    id="08.1",
    title="Lock an array where it lies",
    kernel="upload",
    examine=_upload,
    gates=(STAGED, LOCKED, BUFFERS, MOVED, POLLS),
    answer="function",
)

# --- 08.2 ------------------------------------------------------------------------------------------------------------

SCALE = r"""
extern "C" __global__ void scale(const float* x, float* y, int n, float factor) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) y[i] = factor * x[i];
}
"""
COPIES = Gate(
    "copies between host and device",
    points=1,
    most=0,
    baseline=2,
    look="cp.asarray, get, set and cudaMemcpy: the kernel can use x.ctypes.data and y.ctypes.data themselves",
)
ALLOCATIONS = Gate(
    "allocations of device memory",
    points=1,
    most=0,
    baseline=2,
    look="cp.empty, cp.asarray and the like: arrays in pinned memory are mapped, no place on the device is needed",
)
OTHERS = Gate(
    "launches after which the host waits for other streams' work",
    points=1,
    most=0,
    baseline=1,
    look="what is waited for: stream.synchronize() waits for this stream alone, a device's synchronize() for all",
)
LAUNCHES = Gate("launches", least=1, most=1, baseline=1, look="launch is to be called once")


def _total(bench: StreamBench) -> None:
    for size in (3000 + bench.between(0, 3000), 1000, 1):
        with bench.case(f"{size} element{'s' * (size > 1)}") as trial:
            _total_once(bench, trial, size)


def _total_once(bench: StreamBench, trial: Trial, size: int) -> None:
    scale, busy = trial.kernel(SCALE, "scale"), trial.busy_kernel()
    values, factor = bench.random(size), np.float32(bench.between(2, 9))
    x, y, other = trial.pinned(values), trial.pinned(np.full(size, np.nan, np.float32)), trial.stream("another stream")
    elsewhere = trial.array(np.zeros(1, np.float32))
    waited: list[bool] = []

    def launch(source: int, target: int, n: int, stream: Any) -> None:
        busy((1,), (1,), (elsewhere, np.int32(200_000)), stream=other)
        scale((2,), (256,), (np.uint64(source), np.uint64(target), np.int32(n), factor), stream=stream)

    def after() -> None:
        waited.extend(trial.order.host_knows(kernel) for kernel in trial.kernels("busy"))

    trial.call(x, y, launch, trial.stream("stream"), after=after)
    right = factor * values
    look = "what the kernel is given as its source and its target"
    trial.expect("y", y, right, known=(Known("the kernel wrote elsewhere", np.full(size, np.nan)),), look=look)
    trial.expect("x", x, values, look="x is only read")
    known = (
        Known("the sum of x", np.asarray(values.sum())),
        Known("y was added up before the kernel had written it", np.asarray(np.nan)),
    )
    trial.expect_value(right.sum(dtype=np.float64), tolerance=1e-3, known=known, look="when y is added up")
    if size > 1000:
        bench.measure(COPIES, len(copies(trial)))
        bench.measure(ALLOCATIONS, len(trial.allocations))
        bench.measure(OTHERS, sum(waited))
        bench.measure(LAUNCHES, len(trial.kernels("scale")))
        bench.measure(POLLS, len(trial.polls))


TOTAL = Exercise(
    id="08.2",
    title="Answer without a copy",
    kernel="total",
    examine=_total,
    gates=(COPIES, ALLOCATIONS, OTHERS, LAUNCHES, POLLS),
    answer="function",
)

# --- 08.3 ------------------------------------------------------------------------------------------------------------

FILLING = Gate(
    "inboxes filled while the kernel before may still be under way (% of the possible)",
    points=3,
    least=100,
    baseline=0,
    look="what the host waits for before it fills an inbox: only the kernel of that very desk must be done",
)
DESKS = Gate("desks used", points=1, least=2, baseline=1, look="desks[0] and desks[1] in turn")
SERVED = Gate("launches, for each order", least=1, most=1, baseline=1, look="each order is to be launched once")
CARRIED = Gate(
    "copies between host and device", most=0, baseline=0, look="the kernel uses the desks themselves: nothing is copied"
)
ORDERS, ELEMENTS = 8, 2048
"""Orders from which serving is measured, and elements of one: two whole pages."""


@dataclass
class _Service:
    """What the function asked of the check."""

    orders: np.ndarray
    boxes: list[tuple[np.ndarray, np.ndarray, Any]]
    results: np.ndarray
    filled: list[int]
    """Of each fill, the desk; -1 for an array that is no inbox."""
    waiting: list[bool]
    """Of each fill: may the kernel before it be under way?"""
    taken: list[tuple[int, int]]
    """Of each result taken: the desk, and the order."""

    def desk(self, box: np.ndarray, side: int) -> int:
        return next((at for at, desk in enumerate(self.boxes) if np.may_share_memory(box, desk[side])), -1)


def _serve(bench: StreamBench) -> None:
    for count in (ORDERS + bench.between(0, 3), 5, 2, 1):
        with bench.case(f"{count} order{'s' * (count > 1)}") as trial:
            _serve_once(bench, trial, count)


def _serve_once(bench: StreamBench, trial: Trial, count: int) -> None:
    kernel, factor = trial.kernel(SCALE, "scale"), np.float32(bench.between(2, 9))
    boxes = [
        (
            trial.pinned(np.zeros(ELEMENTS, np.float32)),
            trial.pinned(np.full(ELEMENTS, np.nan, np.float32)),
            trial.stream(f"the stream of desks[{at}]"),
        )
        for at in range(2)
    ]
    orders = bench.random((count, ELEMENTS))
    service = _Service(orders, boxes, np.full((count, ELEMENTS), np.nan, np.float32), [], [], [])

    def fill(inbox: np.ndarray, number: int) -> None:
        """Write one order into an inbox; the host is busy meanwhile."""
        kernels = trial.kernels("scale")
        service.waiting.append(bool(kernels) and not trial.order.host_knows(kernels[-1]))
        service.filled.append(service.desk(inbox, 0))
        inbox[:] = orders[number]
        trial.device.host_work(20_000)

    def take(outbox: np.ndarray, number: int) -> None:
        """Take one result away."""
        service.taken.append((service.desk(outbox, 1), number))
        service.results[number] = outbox

    def launch(inbox: np.ndarray, outbox: np.ndarray, stream: Any) -> None:
        arguments = (np.uint64(inbox.ctypes.data), np.uint64(outbox.ctypes.data), np.int32(ELEMENTS), factor)
        kernel((2,), (256,), arguments, stream=stream)

    trial.call(count, fill, take, launch, boxes, mistakes=_desk_mistake)
    _judge_service(bench, trial, service, factor * orders)


def _judge_service(bench: StreamBench, trial: Trial, service: _Service, expected: np.ndarray) -> None:
    count, numbers = len(expected), [number for _, number in service.taken]
    called = len(service.filled) == count and sorted(numbers) == list(range(count))
    if not called:
        text = f"fill was called {len(service.filled)} times and take {len(numbers)} times"
        look = "each order has its fill and its take, the last ones too"
        bench.find("correctness", "wrong calls", f"{text}; once for each of {count} orders is wanted", look=look)
    before = np.concatenate([np.full((min(2, count), ELEMENTS), np.nan, np.float32), expected[:-2]])[:count]
    early = Known("each result is the one of the desk's order before: taken before the kernel had written it", before)
    none = Known("no result was taken", np.full_like(expected, np.nan))
    known = () if count <= 2 else (early,) if called else (none,)  # of two orders, the last two are all
    look = "for each order: fill its inbox, launch, wait for that desk, take its outbox; at the end, too"
    trial.expect("results", service.results, expected, known=known, look=look)
    if not called:
        return
    if -1 in service.filled or -1 in (desk for desk, _ in service.taken):
        text = "fill was given an array that is no inbox, or take one that is no outbox"
        bench.find("correctness", "a desk of its own", text, look="what is passed on: the boxes of desks themselves")
    elif count >= ORDERS:
        bench.measure(FILLING, round(100 * sum(service.waiting) / (count - 1)))
        bench.measure(DESKS, len(set(service.filled)))
        bench.measure(SERVED, len(trial.kernels("scale")) / count)
        bench.measure(CARRIED, len(copies(trial)))
        bench.measure(POLLS, len(trial.polls))


def _desk_mistake(trial: Trial) -> str:
    """What looks like a wait for a desk and is none."""
    if not trial.synchronizes:
        return "the host never waits for a kernel before it touches a desk again"
    return "the host waits, but not for the kernel of the desk that it touches"


SERVE = Exercise(
    id="08.3",
    title="Two desks",
    kernel="serve",
    examine=_serve,
    gates=(FILLING, DESKS, SERVED, CARRIED, POLLS),
    answer="function",
)
