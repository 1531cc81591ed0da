"""04.8: memory that one stream frees while another still uses it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.checks.bench import Known, counted
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim.device.declaration import CALLS, Waits
from cudalab.sim.device.hazards import Kind

_STAGES = r"""
__device__ float slow(float x, int steps) {  // x, after a while
    float v = x;
    for (int s = 0; s < steps; s++) v = 0.5f * v + 0.5f * x;
    return v;
}
extern "C" __global__ void produce(const float* x, float* scratch, int n, int steps) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) scratch[i] = slow(2.0f * x[i], steps);
}
extern "C" __global__ void consume(const float* scratch, float* y, int n, int steps) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = slow(scratch[i] + 1.0f, steps);
}
"""
LEFT = Gate(
    "allocations left", points=1, most=0, look="each item's scratch memory, the last one's, too, has to be freed"
)
WAITS = Gate(
    "calls that wait for the device, or ask it",
    points=1,
    most=0,
    look="synchronize, cudaFree and queries: cudaFreeAsync stands in a stream and comes in its turn, without the host",
)
BESIDE = Gate(
    "pairs of a consumer and the next producer that nothing orders (%)",
    least=100,
    look="what first waits for: to produce an item it needs nothing of the items before",
)
LONG, SHORT = 4000, 200
"""Steps of a producer and a consumer: so what the starter does goes well, on any device, and is wrong all the same."""


def _stages(bench: StreamBench) -> None:
    for count, elements in ((bench.between(4, 7), 64 + bench.between(0, 60)), (2, 33), (1, 1)):
        with bench.case(f"{counted(count, 'item')}, {counted(elements, 'element')} each") as trial:
            _stages_once(bench, trial, count, elements)


def _stages_once(bench: StreamBench, trial: Trial, count: int, elements: int) -> None:
    values = bench.random((count, elements))
    x, y = trial.array(values, "x"), trial.empty((count, elements), np.float32)
    making, taking = (trial.kernel(_STAGES, name) for name in ("produce", "consume"))
    called: list[tuple[str, int]] = []

    def produce(k: int, scratch: Any, stream: Any) -> None:
        _look_at(bench, trial, scratch, 4 * elements)
        called.append(("produce", k))
        making((1,), (64,), (x[k], np.uint64(_address(scratch)), np.int32(elements), np.int32(LONG)), stream=stream)

    def consume(k: int, scratch: Any, stream: Any) -> None:
        called.append(("consume", k))
        taking((1,), (64,), (np.uint64(_address(scratch)), y[k], np.int32(elements), np.int32(SHORT)), stream=stream)

    first, second = trial.stream("first"), trial.stream("second")
    trial.call(count, 4 * elements, produce, consume, first, second, mistakes=lambda trial: _mistake(trial, first.ptr))
    nothing = np.full_like(values, np.nan)
    known = (
        Known("no item is consumed", nothing),
        Known("what is consumed is the last item each time", np.broadcast_to(2 * values[-1] + 1, values.shape)),
    )
    look = "which scratch memory produce and consume of an item get, and what comes before what"
    trial.expect("y", y, 2 * values + 1, tolerance=1e-5, known=known, look=look)
    wanted = [(stage, k) for k in range(count) for stage in ("consume", "produce")]
    if sorted(called) != sorted(wanted):
        text = (
            f"produce and consume were called {len(called)} times; once for each of {counted(count, 'item')} is wanted"
        )
        bench.find("correctness", "wrong launches", text, look="produce(k, …) and consume(k, …), once for each k")
        return
    _check_calls(bench, trial)
    bench.measure(LEFT, trial.left[0])
    bench.measure(WAITS, len(trial.polls) + sum(CALLS[call.name].waits in _WAITING for call in trial.calls))
    made, taken = trial.kernels("produce"), trial.kernels("consume")
    if count > 1 and len(made) == len(taken) == count:
        pairs = list(zip(taken, made[1:], strict=False))
        bench.measure(BESIDE, round(100 * sum(trial.order.unordered(*pair) for pair in pairs) / len(pairs)))


_WAITING = (Waits.STREAM, Waits.EVENT, Waits.DEVICE)


def _address(scratch: Any) -> int:
    """What was handed over, as an address; 0 for what is none."""
    return int(scratch) if hasattr(scratch, "__int__") else 0


def _look_at(bench: StreamBench, trial: Trial, scratch: Any, size: int) -> None:
    """The scratch memory of an item has to be device memory, and large enough."""
    address = _address(scratch)
    start, room = trial.device.address_range(address) or (0, 0)
    kind = trial.device.pointer_attributes(address).type if room else None
    if kind != _DEVICE or start + room - address < size:
        text = f"produce was handed {scratch!r:.40}, where {size} bytes of device memory are wanted"
        bench.find("correctness", "no scratch memory", text, look="cudaMallocAsync(size, stream.ptr), of each item")


_DEVICE = 2
"""The type of device memory, as ``cudaPointerGetAttributes`` has it."""


def _check_calls(bench: StreamBench, trial: Trial) -> None:
    """A free that is refused: of memory that is freed already, say."""
    for entry in trial.device.log.entries:
        if entry.error and entry.name.startswith("free"):
            text = "a call that frees was refused: at that address there is nothing that is still allocated"
            bench.find("soundness", "refused free", text, look="each piece of memory is to be freed once")


def _mistake(trial: Trial, first: int) -> str:
    """Where a free in the stream ``first`` comes too early for a reason that has a name."""
    frees = [one for one in trial.operations if one.kind == "free"]
    if trial.hazards[0].kind is not Kind.FREE or not any(one.stream.handle == first for one in frees):
        return ""
    if any(one.kind == "wait" for one in trial.operations):
        return (
            "first frees what second may still read: that first has come to the next item says nothing about second, "
            "whatever the times were in this run"
        )
    return "second never waits for an event"


FREED_TOO_EARLY = Exercise(
    id="04.8",
    title="Find the bug: freed too early",
    kernel="in_two_stages",
    examine=_stages,
    soundness=2,
    gates=(LEFT, WAITS, BESIDE),
    answer="function",
)
