"""Exercises 08.4 and 08.5: an array that is read again, and the hazards of a program told in advance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cudalab.checks.bench import Known
from cudalab.checks.chapter_08.pinned import PAGE_LOCKED, POLLS, SCALE, copies
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate, no_calls
from cudalab.checks.order import Order
from cudalab.checks.session import simulated
from cudalab.checks.streams import StreamBench, Trial
from cudalab.checks.value import texts
from cudalab.sim import cupy
from cudalab.sim.device.queue.operation import Operation

# --- 08.4 ------------------------------------------------------------------------------------------------------------

PASSES = 6
"""Of the case with the most; then the starter moves x and y PASSES times each."""
BUS = Gate(
    "bytes over the bus, over the fewest possible",
    points=2,
    least=1,
    most=1,
    baseline=2 * PASSES / (1 + PASSES),
    look="what each pass reads: a kernel fetches mapped memory again in each pass, a copy brings it over once",
)
NEEDLESS = Gate(
    "copies and allocations where x is read once at most",
    points=1,
    most=0,
    baseline=0,
    look="the case of one pass, and that of none: there the kernel reads x itself, and nothing has to be made",
)
PLACE = Gate(
    "passes that write to the device",
    points=1,
    most=0,
    baseline=0,
    look="y: each of its bytes crosses the bus once, with a copy or without; let the kernel write it",
)
ARRAYS = Gate(
    "allocations where x is read again", most=1, baseline=0, look="what is made on the device: x alone needs a place"
)
CALLED = 3
"""Times of the case that looks at what calls leave."""
LEFT = Gate(
    f"allocations left by {CALLED} calls",
    most=1,
    baseline=0,
    look="what each call takes with cudaMalloc and does not give back: cudaFree, when the passes are done. An array of "
    "CuPy's goes back to its pool, from which the next call takes it",
)
FEW_WAITS = Gate(
    "waits of the host",
    most=2,
    baseline=1,
    look="one stream.synchronize(), after all passes, is enough; cudaMemcpy and cudaFree wait as well",
)
OTHERS = Gate(
    "other kernels, and functions of CuPy that are kernels",
    most=0,
    baseline=0,
    look="launch is called once for each pass; x comes over by a copy",
)


def _repeat(bench: StreamBench) -> None:
    for count, rows in ((PASSES, bench.between(8, 30)), (2, 3), (1, bench.between(8, 30)), (0, 5)):
        with bench.case(f"{count} pass{'es' * (count != 1)} over {128 * rows} elements") as trial:
            _repeat_once(bench, trial, count, 128 * rows)
    count, rows = bench.between(2, PASSES), bench.between(8, 30)
    with bench.case(f"{CALLED} calls of {count} passes over {128 * rows} elements") as trial:
        _repeat_once(bench, trial, count, 128 * rows, times=CALLED)


def _repeat_once(bench: StreamBench, trial: Trial, count: int, size: int, times: int = 1) -> None:
    scale, stream = trial.kernel(SCALE, "scale"), trial.stream("stream")
    given, y = [bench.random(size) for _ in range(times)], trial.pinned(np.full((count, size), np.nan, np.float32))
    values, x, made = given[-1], trial.pinned(given[0]), list[int]()
    left = iter(given)
    from_host, to_host = list[bool](), list[bool]()

    def launch(k: int, source: int, target: int, stream: Any) -> None:
        made.append(k)
        from_host.append(_on_host(trial, source))
        to_host.append(_on_host(trial, target))
        arguments = (np.uint64(source), np.uint64(target), np.int32(size), np.float32(k + 1))
        scale((2,), (256,), arguments, stream=stream)

    def with_new_values(function: Callable[..., Any]) -> Any:
        x[:] = next(left)
        return function(count, x, y, launch, stream)

    under_way: list[bool] = []
    trial.call(
        count,
        x,
        y,
        launch,
        stream,
        times=times,
        around=with_new_values if times > 1 else None,
        after=lambda: under_way.extend(not trial.order.host_knows(one) for one in [*trial.kernels(), *copies(trial)]),
    )
    right, earlier = (
        np.outer(np.arange(1, count + 1, dtype=np.float32), held).astype(np.float32) for held in (values, given[0])
    )
    known = (
        Known("all passes have written the same row: the target of pass k is y[k]", _in_one_row(right)),
        Known("no pass has written to y", np.full_like(right, np.nan)),
        Known("this is made of what x held in an earlier call: it may hold other numbers in the next", earlier),
    )
    trial.expect("y", y, right, known=known, look="the source and the target of each pass")
    trial.expect("x", x, values, look="x is only read")
    if sorted(made) != sorted(times * [*range(count)]):
        text = f"launch was called for these passes: {made}; wanted are those from 0 to {count - 1}, once each"
        bench.find("correctness", "wrong passes", text, look="the loop over the passes")
    elif any(under_way):
        look = "stream.synchronize() before the function returns"
        bench.find("correctness", "not done", "work is still under way when the function returns", look=look)
    elif times > 1:
        bench.measure(LEFT, trial.left[0])
    elif bench.fine:
        moved = values.nbytes * (sum(from_host) + sum(to_host)) + sum(copy.bytes for copy in copies(trial))
        if count > 1:
            bench.measure(BUS, moved / (values.nbytes + right.nbytes))
            bench.measure(PLACE, to_host.count(False))
            bench.measure(ARRAYS, len(trial.allocations))
        else:
            bench.measure(NEEDLESS, len(trial.allocations) + len(copies(trial)))
        bench.measure(OTHERS, sum(one.kind in ("kernel", "array") for one in trial.operations) - count)
        bench.measure(FEW_WAITS, len(trial.waits))
        bench.measure(POLLS, len(trial.polls))


def _on_host(trial: Trial, address: int) -> bool:
    return trial.device.pointer_attributes(address).type == PAGE_LOCKED


def _in_one_row(right: np.ndarray) -> np.ndarray:
    """The rows where each pass has written the first one."""
    rows = np.full_like(right, np.nan)
    rows[:1] = right[-1:]
    return rows


REPEAT = Exercise(
    id="08.4",
    title="Copy what is read again",
    kernel="repeat",
    examine=_repeat,
    gates=(BUS, NEEDLESS, PLACE, ARRAYS, LEFT, OTHERS, FEW_WAITS, POLLS),
    answer="function",
)

# --- 08.5 ------------------------------------------------------------------------------------------------------------

CALLS = no_calls("the function only reads the steps: it launches nothing, and touches no shared memory")
Step = tuple[Any, ...]
"""``("launch", stream, source, target)``, ``("wait", stream)``, ``("wait for all",)``, ``("host reads", array)`` or
``("host writes", array)``."""
_READ, _WRITTEN = ("a", "b"), ("x", "y")
"""What kernels of both streams read, and what those of stream 0, and of stream 1, write."""


def _hazards(bench: StreamBench) -> None:
    programs: list[list[Step]] = [
        [("launch", 0, "a", "x"), ("host reads", "x"), ("wait", 0), ("host reads", "x")],  # as in the try cell
        [("launch", 0, "a", "x"), ("host reads", "a"), ("host writes", "a"), ("host writes", "x")],
        [("wait", 0), ("launch", 0, "a", "x"), ("wait", 1), ("host reads", "x"), ("host reads", "y")],
        [("launch", 0, "a", "x"), ("launch", 1, "a", "y"), ("wait", 1), ("host writes", "a"), ("host reads", "y")],
        [("launch", 0, "a", "x"), ("launch", 0, "b", "x"), ("wait", 0), ("host writes", "a"), ("host reads", "x")],
        [("launch", 0, "a", "x"), ("launch", 0, "b", "x"), ("host writes", "a"), ("wait", 0), ("host writes", "b")],
        [("launch", 1, "b", "y"), ("wait for all",), ("host writes", "b"), ("host writes", "y"), ("host reads", "y")],
    ]
    programs += [[_step(bench) for _ in range(bench.between(8, 14))] for _ in range(5)]
    for steps in tuple(map(tuple, programs)):
        with bench.case(f"a program of {len(steps)} steps") as trial:
            trial.call(list(steps), fresh=True)
            said = texts(trial.value)  # as it is now: nothing that comes later counts
            _compare_hazards(bench, steps, said, _replayed(steps))
            bench.measure(CALLS, len(trial.calls))


def _step(bench: StreamBench) -> Step:
    kind, stream = bench.between(0, 9), bench.between(0, 1)
    if kind < 4:
        return "launch", stream, _READ[bench.between(0, 1)], _WRITTEN[stream]
    if kind < 6:
        return ("wait", stream) if bench.between(0, 3) else ("wait for all",)
    return ("host reads", "host writes")[bench.between(0, 1)], (*_READ, *_WRITTEN)[bench.between(0, 3)]


class _Launched(Order):
    """The order of a device's work, with its kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[Operation] = []

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        super().enqueued(operation, waits)
        if operation.kind == "kernel":
            self.kernels.append(operation)


def _replayed(steps: Sequence[Step]) -> list[str]:
    """The steps made on a device, and of each access of the host the hazard with kernels that it does not know to be
    done."""
    found = []
    with simulated() as device:
        order, kernel = _Launched(), cupy.RawKernel(SCALE, "scale")
        device.observers.append(order)
        memory: dict[str, Any] = {name: cupy.cuda.alloc_pinned_memory(4096) for name in (*_READ, *_WRITTEN)}
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
        uses: list[tuple[str, str]] = []
        for what, *rest in steps:
            name = ""
            if what == "launch":
                stream, *used = rest
                uses.append((used[0], used[1]))
                source, target = (np.uint64(memory[each].ptr) for each in used)
                kernel((2,), (256,), (source, target, np.int32(1024), np.float32(2)), stream=streams[stream])
            elif what == "wait":
                streams[rest[0]].synchronize()
            elif what == "wait for all":
                device.synchronize()
            else:
                open_ = [use for use, one in zip(uses, order.kernels, strict=True) if not order.host_knows(one)]
                name = _hazard(what == "host writes", rest[0], open_)
            found.append(name)
        device.synchronize()
    return found


def _hazard(writes: bool, array: str, uses: Sequence[tuple[str, str]]) -> str:
    """What the host's access of an array is, beside kernels with these sources and targets."""
    if any(array == target for _, target in uses):
        return "WAW" if writes else "RAW"
    return "WAR" if writes and any(array == source for source, _ in uses) else ""


def _compare_hazards(bench: StreamBench, steps: Sequence[Step], said: list[str] | None, right: list[str]) -> None:
    if said is None or len(said) != len(right):
        returned = "no list" if said is None else f"{said!r:.60}"
        text = f"the function returned {returned}; wanted is a list of {len(right)} texts, one for each step"
        bench.find("correctness", "wrong shape", text, look="launches and waits have a text, too: the empty one")
        return
    wrong = next((at for at, name in enumerate(right) if said[at] != name), None)
    if wrong is not None:
        bench.find(
            "correctness",
            "wrong values",
            f"steps[{wrong}], {_told(steps[wrong])}, is {right[wrong] or 'no hazard'}; the function says "
            f"{said[wrong]!r}. The steps up to there: {'; '.join(_told(step) for step in steps[: wrong + 1])}",
            look="which launches nobody has waited for, and what each of them does with the array",
            mistake=_misjudged(steps[: wrong + 1], right[: wrong + 1], said[wrong]) if bench.fine else "",
        )


def _told(step: Step) -> str:
    """A step in words."""
    if step[0] == "launch":
        return f"launch in stream {step[1]}, {step[2]} to {step[3]}"
    return f"wait for stream {step[1]}" if step[0] == "wait" else " ".join(step)


def _misjudged(steps: Sequence[Step], rights: Sequence[str], said: str) -> str:
    """The mistake that a wrong text comes from, where it has a name."""
    (what, *rest), right = steps[-1], rights[-1]
    if what in ("launch", "wait", "wait for all"):
        return "a launch or a wait is judged: only an access of the host is; for all else the text is empty"
    if right and said:
        return "the wrong name: the name says what comes too early, the host's access, then what was to come first"
    array, launches = rest[0], [step for step in steps if step[0] == "launch"]
    if right:
        return _missed(steps, rights, array)
    if what == "host reads" and any(array == step[2] for step in launches) and array in _READ:
        return "host and kernel both read: two reads are no hazard"
    if any(array in step[2:] for step in launches):
        return "a wait covers everything that was launched before it in its stream"
    return "no kernel of the program uses this array"


def _missed(steps: Sequence[Step], rights: Sequence[str], array: str) -> str:
    """Why a hazard with this array, the last step's, may have been overlooked."""
    if any(step[0] == "wait" for step in steps):
        return "a wait goes too far: a wait covers what was launched before it, in that stream, and nothing else"
    if any(rights[:-1]):
        return "an earlier hazard settles this one: an access that comes too early waits for nothing"
    last = {step[1]: step for step in steps if step[0] == "launch"}
    if not any(array in step[2:] for step in last.values()):
        return "only the last kernel of a stream is looked at: those before it may still be running, too"
    if rights[-1] == "WAR":
        return "a write of the host into what a kernel only reads is a hazard, too: the kernel may not have read it yet"
    return ""


HAZARDS = Exercise(
    id="08.5",
    title="Tell the hazards in advance",
    kernel="hazards",
    examine=_hazards,
    correctness=3,
    gates=(CALLS,),
    answer="function",
)
