"""What chapter 03 asks in between: devices set up, chosen and checked, contexts of threads, and first calls."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import Any

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.checks.bench import Known, Stop
from cudalab.checks.chapter_03.devices import expect_current, expect_device, keep_error, three_devices
from cudalab.checks.exercise import Exercise
from cudalab.checks.streams import StreamBench, Trial
from cudalab.sim.device.error import CudaError

_RUIN = 'extern "C" __global__ void ruin(int* nothing) { *nothing = 1; }'

# --- set the device up -----------------------------------------------------------------------------------------------


def _warm_up(bench: StreamBench) -> None:
    for kept in (False, True):
        _warm_up_once(bench, kept)
    with bench.case("a device that cannot be set up: a later section shows how one comes to that") as trial:
        _refuse(trial)
        trial.call(fresh=True, faults=True)
        if bench.fine and trial.value != cudaError_t.cudaErrorDevicesUnavailable:
            text = f"the device cannot be set up, and the function returned {trial.value!r}"
            look = "what the call returns: cudaErrorDevicesUnavailable here"
            bench.find("correctness", "no error code", text, look=look)


def _warm_up_once(bench: StreamBench, kept: bool) -> None:
    text = "a device that nobody has used"
    with bench.case(f"{text}, while an error of an earlier call is still kept" if kept else text) as trial:
        trial.call(fresh=True, before=partial(keep_error, trial) if kept else None)
        _is_code(bench, trial.value)
        if not trial.set_up:
            text = "the device is not set up when the function returns"
            bench.find("correctness", "not set up", text, look="which calls need the device, and which only ask")
        if any(trial.left):
            allocations, streams = trial.left
            text = f"allocations that are left: {allocations}, streams: {streams}"
            bench.find("correctness", "left behind", text, look="a call without any effect")
        if trial.operations:
            bench.find("correctness", "left behind", "work was put into a stream", look="a call without any effect")


def _refuse(trial: Trial) -> None:
    """Bring the device where it can no longer be set up."""
    trial.kernel(_RUIN, "ruin")((1,), (1,), (np.uint64(0),))
    for call in (trial.device.synchronize, trial.device.reset, trial.device.get_last_error):
        with contextlib.suppress(CudaError):
            call()


def _is_code(bench: StreamBench, value: object) -> None:
    if value != cudaError_t.cudaSuccess:
        mistake = "every call returns a tuple, of which the error code is the first" if isinstance(value, tuple) else ""
        if value == cudaError_t.cudaErrorInvalidDevice:
            mistake = "the error of an earlier call, which cudaGetLastError tells: wanted is what this call returns"
        text = f"the function returned {value!r}; wanted is the error code, cudaSuccess here"
        bench.find("correctness", "wrong values", text, look="what the call returns", mistake=mistake)


# --- choose a device -------------------------------------------------------------------------------------------------


def _pick(bench: StreamBench) -> None:
    for needed, wanted in ((0.25, 0), (1.0, 0), (1.5, 1), (3.0, 2), (5.0, None)):
        with three_devices(bench, needed) as trial:
            trial.call(int(needed * int(trial.device.properties["totalGlobalMem"])), fresh=True)
            expect_device(bench, trial, wanted)
            if trial.set_up_meanwhile:
                text = "the function set a device up, only to look at it"
                bench.find("correctness", "set up", text, look="cudaGetDeviceProperties needs no context")


# --- check a result --------------------------------------------------------------------------------------------------


def _use(bench: StreamBench) -> None:
    for kept in (False, True):
        with bench.case("device 0, while an error of an earlier call is still kept" if kept else "device 0") as trial:
            before = partial(keep_error, trial) if kept else None
            trial.call(0, fresh=True, around=partial(_no_error, bench), before=before)
            if not trial.set_up:
                bench.find("correctness", "not set up", "device 0 is not set up", look="cudaSetDevice(number)")
            elif trial.current is None:
                expect_current(bench)
    missing = bench.between(1, 9)
    with bench.case(f"device {missing}, which does not exist") as trial:
        _expect_raised(bench, trial, missing, "cudaErrorInvalidDevice")
    with bench.case("device 0, which was reset after a kernel had broken it") as trial:
        _refuse(trial)
        _expect_raised(bench, trial, 0, "cudaErrorDevicesUnavailable")


def _no_error(bench: StreamBench, function: Any) -> None:
    """Call the function, which has no reason to raise."""
    try:
        function(0)
    except RuntimeError as raised:
        is_success = "cudaSuccess" in str(raised)
        bench.find(
            "correctness",
            "raised",
            f"the device can be set up, and the function raised RuntimeError({str(raised)!r})",
            look="the code that this call of cudaSetDevice returned; what cudaGetLastError says may be an older error",
            mistake="every call returns a tuple, which is never equal to cudaSuccess: (error,) = … takes the code out"
            if is_success
            else "",
        )


def _expect_raised(bench: StreamBench, trial: Trial, number: int, error: str) -> None:
    """A finding where the learner's function does not raise ``RuntimeError`` with the name of this error."""
    said = ""

    def attempt(function: Any) -> None:
        nonlocal said
        try:
            function(number)
        except (RuntimeError, ValueError) as raised:
            said = f"{type(raised).__name__}({str(raised)!r})"

    trial.call(around=attempt, fresh=True, faults=True)
    if not (said.startswith("RuntimeError") and error in said):
        text = f"the function raised {said or 'nothing'}; wanted is RuntimeError({error!r})"
        bench.find("correctness", "not raised", text, look="the error code that cudaSetDevice returns; its .name")


# --- the driver in a thread ------------------------------------------------------------------------------------------


def _in_thread(bench: StreamBench) -> None:
    with bench.case("a thread of a program that uses only the driver") as trial:
        found: list[Any] = []
        failed: list[BaseException] = []

        def attempt(function: Any) -> None:
            def run() -> None:
                try:
                    found.append(function())
                except Exception as error:
                    failed.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            if failed:
                _another_context(bench, failed[0])
                raise failed[0]

        trial.call(around=attempt, fresh=True)
        if trial.runtime_calls:
            text = f"the function calls {trial.runtime_calls[0]} of the runtime; the program uses only the driver"
            bench.find("correctness", "runtime called", text, look="cuDevicePrimaryCtxRetain and cuCtxSetCurrent")
        if found and not trial.set_up and any("retain" in call.name for call in trial.calls):
            text = "the context is gone when the function returns, and the program still needs it"
            bench.find(
                "correctness", "gone", text, look="what cuDevicePrimaryCtxRelease does when nobody else holds it"
            )
        right, total = trial.device.memory_info()
        if found != [right]:
            text = f"the function returned {found[0]!r}; {right:,} bytes are free"
            look = "the thread's current context, before the driver is asked"
            mistake = "that is all the memory there is: free bytes come first" if found == [total] else ""
            bench.find("correctness", "wrong values", text, look=look, mistake=mistake)


def _another_context(bench: StreamBench, error: BaseException) -> None:
    """A finding, and the end of the case, where the answer makes a context in place of taking the primary one."""
    if "cuCtxCreate" not in str(error):
        return
    text = "the function makes a context with cuCtxCreate; the program's memory is in the device's primary context"
    mistake = "cuCtxCreate makes a context of its own, not the primary one that the rest of the process shares"
    bench.find("correctness", "another context", text, look="cuDevicePrimaryCtxRetain", mistake=mistake)
    raise Stop


# --- leave the first call out ----------------------------------------------------------------------------------------


def _call_time(bench: StreamBench) -> None:
    for cold in (True, False):
        with bench.case("nobody has used the device" if cold else "the device is set up") as trial:
            made: list[int] = []
            microseconds = bench.between(200, 900)

            def call(trial: Trial = trial, made: list[int] = made, microseconds: int = microseconds) -> None:
                made.append(1)
                trial.device.memory_info()
                trial.device.host_work(1000 * microseconds)

            if not cold:
                trial.array(np.zeros(1, np.float32))
            trial.call(call, fresh=cold)
            if len(made) != 1:
                text = f"call() was made {len(made)} times; it may be made only once"
                bench.find("correctness", "wrong calls", text, look="a call without effect for the setting up")
            initialize = trial.device.profile.host["initialize"] / 1000
            look = "what is called before the clock is read for the first time; and which clock: cudalab.clock(), in µs"
            known = (Known("the setting up is in the time", np.asarray(initialize + microseconds)),)
            trial.expect_value(float(microseconds), tolerance=0.05, known=known, look=look)


EXERCISES = (
    Exercise("03.warm", "Set the device up", "warm_up", _warm_up, answer="function"),
    Exercise("03.pick", "Choose a device without setting it up", "pick_device", _pick, answer="function"),
    Exercise("03.use", "Check what cudaSetDevice returns", "use_device", _use, answer="function"),
    Exercise("03.thread", "Make a context current in a thread", "free_bytes", _in_thread, answer="function"),
    Exercise("03.time", "Leave the first call out", "call_time", _call_time, answer="function"),
)
