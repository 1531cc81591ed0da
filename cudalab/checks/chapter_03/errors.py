"""03.3 to 03.5: the step that failed, what calls return after an error, and the error of each thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread, current_thread
from typing import Any, TypeVar

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate, no_calls
from cudalab.checks.session import simulated
from cudalab.checks.streams import StreamBench, Trial
from cudalab.checks.value import texts
from cudalab.sim import cupy
from cudalab.sim.device import CudaError
from cudalab.sim.device.declaration import CALLS as CALLS_OF_CUDA
from cudalab.sim.names import NAMES

_T = TypeVar("_T")
_CUDART: Any = NAMES["cudart"]
_SUCCESS = cudaError_t.cudaSuccess
WILD = 'extern "C" __global__ void wild(int* p) { *p = 1; }'
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
    add, wild = trial.kernel(_ADD, "add"), trial.kernel(WILD, "wild")
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

# --- 03.4 ------------------------------------------------------------------------------------------------------------

CALLS = no_calls("the function only works the codes out: it reads the texts, and calls nothing of CUDA")
_COUNT, _SET, _MALLOC = "cudaGetDeviceCount()", "cudaSetDevice(99)", "cudaMalloc(4)"
_LAUNCH, _WAIT = "launch wild", "cudaDeviceSynchronize()"
_PEEK, _TAKE = "cudaPeekAtLastError()", "cudaGetLastError()"
_ILLEGAL = "cudaErrorIllegalAddress"


def _codes(bench: StreamBench) -> None:
    few = [_COUNT, _SET, _MALLOC, _PEEK, _TAKE]
    lost = [_COUNT, _MALLOC, _WAIT, _PEEK, _TAKE]  # what cudaSetDevice(99) says of a lost device is not taught
    programs = [
        [_MALLOC, _SET, _MALLOC, _TAKE, _TAKE],  # the one in the try cell
        [_SET, _PEEK, _COUNT, _PEEK, _TAKE, _PEEK],
        [_COUNT, _LAUNCH, _WAIT, _MALLOC, _COUNT, _TAKE, _TAKE, _MALLOC],
        [_LAUNCH, _WAIT, _TAKE, _WAIT, _PEEK, _TAKE, _PEEK],
    ]
    for number in range(4):
        before = _some(bench, few, bench.between(3, 7))
        wild = [_LAUNCH, _WAIT, *_some(bench, lost, bench.between(4, 7))] if number % 2 else []
        programs.append([*before, *wild])
    for calls in tuple(map(tuple, programs)):
        with bench.case(f"a program of {len(calls)} calls") as trial:
            trial.call(list(calls), fresh=True, faults=True)
            said = texts(trial.value)  # as it is now: nothing that comes later counts
            _compare_codes(bench, calls, said, _made(calls))
            bench.measure(CALLS, len(trial.calls))
            if trial.device.lost is not None:
                made = CALLS_OF_CUDA[trial.calls[0].name].title
                text = f"the function made the calls itself, {made} first; it is to answer without a single one"
                bench.find("correctness", "calls made", text, look=CALLS.look)


def _some(bench: StreamBench, of: Sequence[_T], count: int) -> list[_T]:
    """As many of these as wanted, by the seed."""
    return [of[at] for at in bench.integers(0, len(of), count)]


def _made(calls: Sequence[str]) -> list[str]:
    """What the calls return on a device, in a program that begins with them."""
    with simulated():
        wild = cupy.RawKernel(WILD, "wild")
        ways: Mapping[str, Callable[[], Any]] = {
            _COUNT: lambda: _CUDART.cudaGetDeviceCount()[0],
            _SET: lambda: _CUDART.cudaSetDevice(99)[0],
            _MALLOC: lambda: _CUDART.cudaMalloc(4)[0],
            _LAUNCH: lambda: _code(lambda: wild((1,), (1,), (np.uint64(8),))),
            _WAIT: lambda: _CUDART.cudaDeviceSynchronize()[0],
            _PEEK: lambda: _CUDART.cudaPeekAtLastError()[0],
            _TAKE: lambda: _CUDART.cudaGetLastError()[0],
        }
        _CUDART.cudaGetLastError()
        return [ways[call]().name for call in calls]


def _compare_codes(bench: StreamBench, calls: Sequence[str], said: list[str] | None, right: list[str]) -> None:
    got, wrong = _names(bench, said, right)
    if wrong is not None:
        bench.find(
            "correctness",
            "wrong values",
            f"calls[{wrong}], {calls[wrong]}, returns {right[wrong]}; the function says {got[wrong]}. The program up "
            f"to there: {'; '.join(calls[: wrong + 1])}",
            look="what went wrong before this call, whether the thread still keeps it, and whether the device lives",
            mistake=_nameless(got[wrong]) or _misread(calls[wrong], calls[:wrong], right[wrong], got[wrong]),
        )


def _names(bench: StreamBench, said: list[str] | None, right: Sequence[str]) -> tuple[list[str], int | None]:
    """The names that the function returned, and which is the first that is wrong; a finding where there are more or
    fewer of them."""
    if said is None or len(said) != len(right):
        returned = "no list" if said is None else f"{said!r:.60}"
        text = f"the function returned {returned}; wanted is a list of {len(right)} names"
        bench.find("correctness", "wrong shape", text, look="what the function returns, and that nothing is left out")
        return [], None
    return said, next((at for at, name in enumerate(right) if said[at] != name), None)


def _nameless(said: str) -> str:
    """The mistake where a code was returned, not its name."""
    return "an error code where its name is wanted: a code has it as .name" if said.startswith("<cudaError_t.") else ""


def _misread(call: str, before: Sequence[str], right: str, said: str) -> str:
    """The mistake that a wrong code of one call comes from, where it has a name."""
    if call == _LAUNCH:
        return "the launch fails: a launch returns before its kernel has run, and cannot say what the kernel will do"
    if call == _COUNT:
        return "the question fails: a question about devices neither needs the device nor tells of earlier errors"
    if call == _SET:
        return ""
    if call in (_MALLOC, _WAIT):
        if right == _ILLEGAL:
            return (
                "the call works: the device is lost for the rest of the process, and taking the error changes nothing"
            )
        return "an old error comes back: an error that is no fault of a kernel stays with its own call"
    if right == "cudaSuccess":
        taken = "the error is told again: cudaGetLastError takes the error, and none is kept until another call fails"
        return taken if _TAKE in before else ""
    if said != "cudaSuccess":
        return ""
    failed = max(at for at, each in enumerate(before) if each in (_SET, _MALLOC, _WAIT))
    if _PEEK in before[failed:]:
        return "looking takes the error: cudaPeekAtLastError only looks, and the error stays"
    return "a success clears the error: a call that succeeds does not clear the last error"


CODES = Exercise(
    id="03.4",
    title="Predict the codes",
    kernel="codes",
    examine=_codes,
    correctness=3,
    gates=(CALLS,),
    answer="function",
)

# --- 03.5 ------------------------------------------------------------------------------------------------------------

TAKEN = Gate(
    "errors taken from the caller's thread",
    points=1,
    most=0,
    look="the function's own thread is the caller's: what cudaGetLastError takes there is no job's error",
)
_MISTAKES: tuple[tuple[str, ...], ...] = (
    (),
    ("device",),
    ("pointer",),
    ("memory",),
    ("pointer", "device"),
    ("memory", "nothing"),
    ("device", "taken"),
)
"""What jobs do: the calls of each, in order."""
_SLOW = 0.05
"""Seconds that the last job takes."""


def _last_errors(bench: StreamBench) -> None:
    shuffled = _some(bench, _MISTAKES, bench.between(4, 8))
    for text, jobs in (
        ("one job after the other makes another mistake", [*_MISTAKES, *shuffled]),
        ("a single job, which makes a mistake", [_MISTAKES[2]]),
        ("no job makes a mistake", [(), ()]),
        ("no jobs", []),
    ):
        with bench.case(text) as trial:
            _run_jobs(bench, trial, jobs)


def _run_jobs(bench: StreamBench, trial: Trial, jobs: Sequence[tuple[str, ...]]) -> None:
    ran: list[tuple[int, Thread]] = []
    left: dict[int, str] = {}
    ways: Mapping[str, Callable[[], Any]] = {
        "device": lambda: _CUDART.cudaSetDevice(99),
        "pointer": lambda: _CUDART.cudaFree(8),
        "memory": lambda: _CUDART.cudaMalloc(1 << 60),
        "nothing": lambda: _CUDART.cudaFree(0),
        "taken": lambda: _CUDART.cudaGetLastError(),
    }

    def job(index: int) -> Callable[[], None]:
        def run() -> None:
            ran.append((index, current_thread()))
            before = _CUDART.cudaPeekAtLastError()[0]
            if index == len(jobs) - 1:
                time.sleep(_SLOW)  # so that nobody is done by chance who does not wait
            for step in jobs[index]:
                ways[step]()
            left[index] = _CUDART.cudaPeekAtLastError()[0].name if not before else "of another job"

        return run

    _code(lambda: trial.device.free(8))  # what the caller's thread keeps
    done: list[int] = []
    trial.call([job(index) for index in range(len(jobs))], after=lambda: done.extend(left))
    taken = trial.device.get_last_error() != cudaError_t.cudaErrorInvalidValue
    if sorted(index for index, _ in ran) != list(range(len(jobs))):
        text = f"the jobs were called in this order: {[index for index, _ in ran]}; wanted is each once"
        bench.find("correctness", "wrong jobs", text, look="one thread for each job, and join for all of them")
        return
    workers = {thread for _, thread in ran} - {current_thread()}
    if len(workers) < len(jobs):
        text = f"jobs: {len(jobs)}; threads that ran them, the caller's left out: {len(workers)}"
        bench.find("correctness", "wrong threads", text, look="a threading.Thread of its own for each job")
        return
    if len(done) < len(jobs):
        text = f"{len(jobs) - len(done)} of {len(jobs)} jobs are still under way when the function returns"
        bench.find("correctness", "not done", text, look="thread.join() for each thread, before the function returns")
        return
    _compare_errors(bench, texts(trial.value), [left[index] for index in range(len(jobs))])
    bench.measure(TAKEN, int(taken))


def _compare_errors(bench: StreamBench, said: list[str] | None, right: list[str]) -> None:
    got, wrong = _names(bench, said, right)
    if wrong is None:
        return
    mistake = _nameless(got[wrong])
    if mistake:
        pass
    elif sorted(got) == sorted(right):
        mistake = "the names are in the order in which the threads came to it, not in that of the jobs"
    elif set(got) <= {"cudaSuccess", "cudaErrorInvalidValue"}:
        mistake = "asked in the caller's thread: the last error belongs to the thread that made the mistake"
    bench.find(
        "correctness",
        "wrong values",
        f"jobs[{wrong}] left {right[wrong]} behind; the function says {got[wrong]}",
        look="in which thread cudaGetLastError is called, and where its answer is kept",
        mistake=mistake,
    )


LAST_ERRORS = Exercise(
    id="03.5",
    title="Ask the right thread",
    kernel="last_errors",
    examine=_last_errors,
    correctness=3,
    gates=(TAKEN,),
    answer="function",
)
