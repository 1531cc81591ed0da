"""03.1 and 03.2: open a device that will do, and share it between threads that call the driver alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Thread, current_thread
from typing import Any

import numpy as np
from cuda.bindings.runtime import cudaComputeMode

from cudalab.checks.bench import Known, counted
from cudalab.checks.chapter_03.errors import WILD
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim.device import CudaError
from cudalab.sim.device.caller import Place
from cudalab.sim.device.declaration import Call
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.profile import load


def _lose(trial: Trial) -> None:
    """A kernel of somebody else's has written where it must not."""
    trial.kernel(WILD, "wild")((1,), (1,), (np.uint64(8),))
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


def three_devices(
    bench: StreamBench, needed: float, *, prohibited: int | None = None
) -> contextlib.AbstractContextManager[Trial]:
    """A case with device 0, one of twice its memory, and one of four times; ``needed`` as a share of device 0's.
    ``prohibited``: the one of them that nobody may set up."""
    machine = load("h200-x2")
    memory = int(machine.properties["totalGlobalMem"])
    differing = {number: {"totalGlobalMem": memory << number} for number in (1, 2)}
    text = f"needed is {needed:g} times the memory of device 0"
    if prohibited is not None:
        differing[prohibited]["computeMode"] = int(cudaComputeMode.cudaComputeModeProhibited)
        text += f"; device {prohibited} cannot be set up"
    return bench.case(text, profile=replace(machine, devices=3, differing=differing))


def expect_device(bench: StreamBench, trial: Trial, wanted: int | None) -> None:
    """A finding where the function did not return ``wanted``, the number of the first device that has enough."""
    if trial.value == wanted and not isinstance(trial.value, bool):
        return
    right = (
        "None is right, for no device has as much" if wanted is None else f"{wanted} is right, the first that has it"
    )
    right += "; there are three devices, each with twice the memory of the one before"
    bench.find(
        "correctness",
        "wrong values",
        f"the function returned {trial.value!r}; {right}",
        look="totalGlobalMem of each device's properties, from device 0 on: as many bytes as are needed are enough",
    )


def keep_error(trial: Trial) -> None:
    """A call fails before the function is called, and nobody has asked for its error."""
    with contextlib.suppress(CudaError):
        trial.device.set_device(99)


def expect_current(bench: StreamBench) -> None:
    """A finding: the device that the function set up is not current."""
    text = "the device is set up, and not current in the thread that called the function"
    bench.find("correctness", "not current", text, look="cudaSetDevice(number): cudaInitDevice sets up only")


def _open_device(bench: StreamBench) -> None:
    shares = (bench.between(10, 90) / 100, 1.0, bench.between(101, 200) / 100, bench.between(201, 400) / 100)
    for needed, wanted in (*zip(shares, (0, 0, 1, 2), strict=True), (bench.between(401, 700) / 100, None)):
        with three_devices(bench, needed) as trial:
            needed_bytes = int(needed * int(trial.device.properties["totalGlobalMem"]))
            trial.call(needed_bytes, fresh=True, before=partial(keep_error, trial))
            _opened(bench, trial, wanted)
    needed = bench.between(101, 200) / 100
    with three_devices(bench, needed, prohibited=1) as trial:
        _refused(bench, trial, int(needed * int(trial.device.properties["totalGlobalMem"])))
    with bench.case("a device that was reset after a kernel had broken it") as trial:
        _lose(trial)
        with contextlib.suppress(CudaError):
            trial.device.reset()
        _refused(bench, trial, 1 << 20)


def _refused(bench: StreamBench, trial: Trial, needed: int) -> None:
    """A finding where the function does not tell why its device cannot be set up."""
    said = _error(trial, needed)
    if "cudaErrorDevicesUnavailable" not in said:
        bench.find(
            "correctness",
            "not raised",
            f"the device cannot be set up, and the function raised {said or 'nothing'}; wanted is "
            "RuntimeError('cudaErrorDevicesUnavailable')",
            look="the error code of the call that sets the device up, and its .name",
        )


def _opened(bench: StreamBench, trial: Trial, wanted: int | None) -> None:
    expect_device(bench, trial, wanted)
    if wanted is not None and trial.value == wanted:
        if wanted not in trial.set_up:
            bench.find(
                "correctness",
                "not set up",
                f"device {wanted} is not set up when the function returns",
                look="cudaSetDevice(number), and what it returns",
            )
        elif trial.current != wanted:
            expect_current(bench)
    bench.measure(IN_VAIN, len(set(trial.set_up_meanwhile) - {wanted}))
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
    for number, count in ((1, 1), (2, bench.between(2, 5)), (bench.between(3, 6), bench.between(100, 2000))):
        with bench.case(f"{counted(number, 'value')}, {count} of each") as trial:
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
        text = f"{counted(len(workers), 'thread')} filled memory; wanted: {number}, one for each value; main only reads"
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
