"""What chapter 08 asks in between: memory that is pinned, copies that run beside the host, and no copies at all."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench, Trial

_PAGE_LOCKED = 1
"""``cudaMemoryTypeHost``"""
_KERNELS = r"""
extern "C" __global__ void negate(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = -x[i];
}
extern "C" __global__ void slow(const float* x, float* y, int n, float more) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int s = 0; s < 20000; s++) v = 0.5f * v + 0.5f * x[i];
    y[i] = v + more;
}
"""


def _copies(trial: Trial) -> list[Any]:
    return [one for one in trial.operations if one.kind == "copy"]


# --- an array in pinned memory ---------------------------------------------------------------------------------------


def _pin(bench: StreamBench) -> None:
    number = bench.between(700, 900)
    for values in (bench.random(number), bench.random((3, 5)), np.arange(number, dtype=np.int16)):
        with bench.case(f"{values.dtype} of shape {values.shape}") as trial:
            x = values.copy()
            got = trial.call(x)
            if not isinstance(got, np.ndarray):
                bench.find("correctness", "no array", f"pin returned {type(got).__name__}; a NumPy array is wanted")
            elif np.shares_memory(got, x):
                text = "what pin returned is x's own memory; a copy is wanted, and x is to stay as it is"
                look = "y = x gives the name y to the same array; y[...] = x writes into one that has memory of its own"
                bench.find("correctness", "no copy", text, look=look)
            elif trial.device.pointer_attributes(got.ctypes.data).type != _PAGE_LOCKED:
                look = "which line makes the array that is returned: np.frombuffer uses memory that is there"
                bench.find("correctness", "pageable memory", "the array is in pageable memory", look=look)
            elif (got.dtype, got.shape) != (values.dtype, values.shape):
                text = (
                    f"the array is {got.dtype} of shape {got.shape}; wanted is {values.dtype} of shape {values.shape}"
                )
                bench.find("correctness", "wrong shape", text, look="x.dtype, x.size, and reshape(x.shape)")
            elif any(call.name == "host_register" for call in trial.calls):
                text = "the memory is registered, and nobody takes that back before NumPy frees the array"
                look = "cp.cuda.alloc_pinned_memory: what it gives is unlocked and freed by itself"
                bench.find("correctness", "registered memory", text, look=look)
            else:
                trial.expect("the array", got, values, look="y[...] = x writes the values into the array's own memory")


# --- work beside a copy ----------------------------------------------------------------------------------------------

BESIDE = Gate(
    "calls of work() with the copy under way",
    least=1,
    most=1,
    look="what comes first: the copy has to be started, and not waited for, before work() is called",
)


def _send(bench: StreamBench) -> None:
    with bench.case("a pinned array") as trial:
        values = bench.random(bench.between(50_000, 60_000))
        x, d = trial.pinned(values), trial.empty(values.shape, np.float32)
        beside: list[bool] = []
        done: list[bool] = []

        def work() -> None:
            beside.append(any(not trial.order.host_knows(copy) for copy in _copies(trial)))
            trial.device.host_work(20_000)

        trial.call(x, d, work, after=lambda: done.extend(trial.order.host_knows(copy) for copy in _copies(trial)))
        trial.expect("d", d, values, look="the copy from x to d")
        if any(copy.work.staged for copy in _copies(trial)):
            text = "the bytes were staged: the copy takes them from memory other than x, and that is pageable"
            bench.find(
                "correctness", "pageable memory", text, look="what the copy is given: x itself, not a copy of it"
            )
        if not all(done):
            look = "a wait behind work()"
            bench.find("correctness", "not done", "the copy is still under way when send returns", look=look)
        bench.measure(BESIDE, sum(beside) if len(beside) == 1 else 0)


# --- no copy at all --------------------------------------------------------------------------------------------------

COPIES = Gate(
    "copies", most=0, look="asarray, get and set: the kernel takes x.ctypes.data and y.ctypes.data as they are"
)
PLACES = Gate("allocations of device memory", most=0, look="cp.asarray and cp.empty: nothing of the device is needed")


def _negate(bench: StreamBench) -> None:
    with bench.case("pinned x and y") as trial:
        kernel, values = trial.kernel(_KERNELS, "negate"), bench.random(bench.between(900, 1000))
        x, y = trial.pinned(values), trial.pinned(np.full(values.shape, np.nan, np.float32))

        asked: list[int] = []

        def launch(source: int, target: int, n: int) -> None:
            asked.append(n)
            kernel((4,), (256,), (np.uint64(source), np.uint64(target), np.int32(n)))

        trial.call(x, y, launch)
        if wrong := [n for n in asked if n != len(x)]:
            text = f"launch was given n = {wrong[0]}; x has {len(x)} elements"
            bench.find("correctness", "wrong n", text, look="n counts elements, not bytes: len(x)")
            return
        trial.expect("y", y, -values, look="the addresses that launch is given")
        known = (Known("y was added up before the kernel had written it", np.asarray(np.nan)),)
        trial.expect_value(
            float(-values.sum(dtype=np.float64)), tolerance=1e-3, known=known, look="a wait before y.sum()"
        )
        bench.measure(COPIES, len(_copies(trial)))
        bench.measure(PLACES, len(trial.allocations))


# --- round after round -----------------------------------------------------------------------------------------------


def _rounds(bench: StreamBench) -> None:
    for count in (bench.between(3, 5), 1):
        with bench.case(f"{count} value{'s' * (count > 1)}") as trial:
            kernel, values = trial.kernel(_KERNELS, "slow"), [float(v) for v in bench.integers(1, 1000, count)]
            more = float(bench.between(2, 99))  # what the kernel adds: no answer knows it without a launch
            x, y = (trial.pinned(np.zeros(1024, np.float32)) for _ in range(2))

            def launch() -> None:
                addresses = (np.uint64(x.ctypes.data), np.uint64(y.ctypes.data))  # noqa: B023
                kernel((4,), (256,), (*addresses, np.int32(1024), np.float32(more)))  # noqa: B023

            trial.call(values, x, y, launch)
            right = [value + more for value in values]
            known = (
                Known("y is read before the kernel has written it", np.zeros(count)),
                Known("each result is the one of the round before", np.asarray([0.0, *right[:-1]])),
            )
            trial.expect_value(right, known=known, look="a launch for each value, and a wait between it and y[0]")


EXERCISES = (
    Exercise("08.pin", "An array in pinned memory", "pin", _pin, answer="function"),
    Exercise("08.send", "Work beside a copy", "send", _send, gates=(BESIDE,), answer="function"),
    Exercise("08.negate", "No copy at all", "answer", _negate, gates=(COPIES, PLACES), answer="function"),
    Exercise("08.rounds", "Round after round", "rounds", _rounds, answer="function"),
)
