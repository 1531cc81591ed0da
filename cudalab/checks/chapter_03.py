"""The exercises of chapter 03: open a device, share it between threads of the driver, and find the step that failed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from threading import Thread, current_thread
from typing import Any

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim import cupy
from cudalab.sim.device import CudaError
from cudalab.sim.device.caller import Place
from cudalab.sim.device.declaration import Call
from cudalab.sim.device.observer import Observer

_SUCCESS = cudaError_t.cudaSuccess
_WILD = 'extern "C" __global__ void wild(int* p) { *p = 1; }'
_ADD = 'extern "C" __global__ void add(int* p) { atomicAdd(p, 1); }'


def _code(call: Callable[[], Any]) -> cudaError_t:
    """The error code of a call, as the runtime returns it."""
    try:
        call()
    except CudaError as error:
        return error.code
    except cupy.cuda.driver.CUDADriverError as error:
        return cudaError_t(error.status)
    return _SUCCESS


def _lose(trial: Trial) -> None:
    """A kernel of somebody else's has written where it must not."""
    trial.kernel(_WILD, "wild")((1,), (1,), (np.uint64(8),))
    try:
        trial.device.synchronize()
    except CudaError:
        trial.device.get_last_error()


# --- 03.1 ------------------------------------------------------------------------------------------------------------

IN_VAIN = Gate(
    "devices set up and not used",
    points=1,
    most=0,
    look="properties can be read of a device that is not set up: look first, and set up only what you take",
)
KEPT = Gate("allocations and streams left", most=0, look="set the device up with a call that has no other effect")


def _open_device(bench: StreamBench) -> None:
    for share, wanted in ((bench.between(10, 90) / 100, 0), (1.0, 0), (bench.between(101, 300) / 100, None)):
        with bench.case(f"{share:g} of the memory of device 0 is needed") as trial:
            trial.call(int(share * int(trial.device.properties["totalGlobalMem"])), fresh=True)
            _opened(bench, trial, wanted)
    with bench.case("a device that was reset after a kernel had broken it") as trial:
        _lose(trial)
        with contextlib.suppress(CudaError):
            trial.device.reset()
        said = _error(trial, 1 << 20)
        if "cudaErrorDevicesUnavailable" not in said:
            bench.find(
                "correctness",
                "not raised",
                f"the device cannot be set up, and the function raised {said or 'nothing'}; wanted is "
                "RuntimeError('cudaErrorDevicesUnavailable')",
                look="the error code of the call that sets the device up, and its .name",
            )


def _opened(bench: StreamBench, trial: Trial, wanted: int | None) -> None:
    if trial.value != wanted or isinstance(trial.value, bool):
        bench.find(
            "correctness",
            "wrong values",
            f"the function returned {trial.value!r}; {wanted!r} is right, for there is one device",
            look="the field totalGlobalMem of the properties, in bytes",
        )
    elif wanted is not None and not trial.set_up:
        bench.find(
            "correctness",
            "not set up",
            "the device is not set up when the function returns",
            look="cudaSetDevice(number), and what it returns",
        )
    if wanted is None:
        bench.measure(IN_VAIN, int(trial.set_up))
    bench.measure(KEPT, sum(trial.left))


def _error(trial: Trial, *arguments: Any) -> str:
    """The ``RuntimeError`` of the learner's function; empty where it raises none."""
    said: list[str] = []

    def attempt(function: Callable[..., Any]) -> None:
        try:
            function(*arguments)
        except RuntimeError as error:
            said.append(f"RuntimeError({str(error)!r})")

    trial.call(around=attempt, faults=True, fresh=True)
    return "".join(said)


OPEN_DEVICE = Exercise(
    id="03.1",
    title="Open a device",
    kernel="open_device",
    examine=_open_device,
    correctness=3,
    gates=(IN_VAIN, KEPT),
    answer="function",
)

# --- 03.2 ------------------------------------------------------------------------------------------------------------

HELD = Gate(
    "contexts still held",
    points=1,
    most=0,
    look="cuDevicePrimaryCtxRelease for each cuDevicePrimaryCtxRetain, when the work is done",
)
UNFREED = Gate("allocations not freed", points=1, most=0, look="cuMemFree, before the context is given back")


class _Fills(Observer):
    """Which host threads wrote to the device's memory."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []

    def called(self, call: Call, place: Place, start: int, end: int) -> None:
        if call.name in ("memset", "memcpy"):
            self.threads.append(current_thread())


def _fill(bench: StreamBench) -> None:
    for number, count in ((bench.between(3, 6), bench.between(100, 2000)), (1, 1), (2, bench.between(2, 9))):
        with bench.case(f"{number} value{'s' * (number > 1)}, {count} of each") as trial:
            _fill_once(bench, trial, number, count)


def _fill_once(bench: StreamBench, trial: Trial, number: int, count: int) -> None:
    values = [bench.between(1, 1 << 30) for _ in range(number)]
    fills, main = _Fills(), current_thread()
    trial.device.observers.append(fills)
    trial.call(values, count, fresh=True)
    held = trial.device.contexts[0].retained
    right = np.repeat(np.array(values, np.int64), count)
    trial.expect_value(
        right,
        known=(Known("nothing was filled: the driver refused", np.zeros(number * count, np.int64)),),
        look="the context that is current in each thread, and where its part begins: 4 bytes a number",
    )
    workers = {thread for thread in fills.threads if thread is not main}
    if len(workers) < number or sum(thread is main for thread in fills.threads) > 1:
        text = f"{len(workers)} threads filled memory; {number} are wanted, one for each value, and main only reads"
        bench.find("correctness", "wrong threads", text, look="the call that fills stands in each thread's function")
    bench.measure(HELD, held)
    bench.measure(UNFREED, trial.left[0])


FILL = Exercise(
    id="03.2",
    title="Threads of the driver",
    kernel="fill",
    examine=_fill,
    correctness=2,
    gates=(HELD, UNFREED),
    answer="function",
)

# --- 03.3 ------------------------------------------------------------------------------------------------------------

AFTER = Gate(
    "steps made after the one that failed",
    points=2,
    most=0,
    look="wait for a step's work before you make the next: a launch returns before its kernel is done",
)


def _first_failure(bench: StreamBench) -> None:
    number = bench.between(4, 7)
    broken, refused = bench.between(0, number - 2), bench.between(1, number - 2)
    for text, fails in (
        ("all steps work", {}),
        (f"the kernel of step {broken} writes where it must not", {broken: "wild"}),
        (f"step {refused} is refused", {refused: "refused"}),
        ("the last kernel writes where it must not", {number - 1: "wild"}),
        ("no steps at all", None),
    ):
        with bench.case(text) as trial:
            _run_steps(bench, trial, 0 if fails is None else number, fails or {})


def _run_steps(bench: StreamBench, trial: Trial, number: int, fails: dict[int, str]) -> None:
    made: list[int] = []
    total = trial.array(np.zeros(1, np.int32))
    add, wild = trial.kernel(_ADD, "add"), trial.kernel(_WILD, "wild")
    stream = trial.stream()
    trial.device.synchronize()
    _code(lambda: trial.device.free(8))  # an error of before, which nobody has asked for

    def step(index: int) -> Callable[[], Any]:
        def run() -> Any:
            made.append(index)
            if fails.get(index) == "refused":
                return _code(lambda: trial.device.memset(8, 0, 16))
            kernel, argument = (wild, np.uint64(8)) if fails.get(index) == "wild" else (add, total)
            return _code(lambda: kernel((1,), (1,), (argument,), stream=stream))

        return run

    trial.call([step(index) for index in range(number)], faults=True)
    wanted = min(fails, default=None)
    expected = list(range(number if wanted is None else wanted + 1))
    if trial.value != wanted or isinstance(trial.value, bool):
        known = {number - 1: "the last step is blamed, which was only the first to hear of it"}
        if wanted is not None and wanted + 1 < number:
            known[wanted + 1] = "the step behind is blamed, whose call was the first that could know"
        bench.find(
            "correctness",
            "wrong values",
            f"the function returned {trial.value!r}; {wanted!r} is right",
            look="an error of a kernel comes out at a later call, or at a wait; an old one is still kept for "
            "cudaGetLastError",
            mistake=known.get(trial.value, "") if isinstance(trial.value, int) else "",
        )
    if made[: len(expected)] != expected:
        text = f"the steps were made in this order: {made}; wanted: {expected}"
        bench.find("correctness", "wrong steps", text, look="each step once, from the first on")
    bench.measure(AFTER, max(0, len(made) - len(expected)))


FIRST_FAILURE = Exercise(
    id="03.3",
    title="Find the step that failed",
    kernel="first_failure",
    examine=_first_failure,
    correctness=3,
    gates=(AFTER,),
    answer="function",
)

EXERCISES = (OPEN_DEVICE, FILL, FIRST_FAILURE)
