"""What chapter 04 asks of its learners between two sections: copies and a free, a list, arrays in place of structs,
rows of floats in pitched memory, and a clock that waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.checks.bench import KernelBench, Known, counted
from cudalab.checks.exercise import Exercise
from cudalab.checks.gate import Gate
from cudalab.checks.streams import StreamBench
from cudalab.checks.work import SECTORS_LOADED, Needs
from cudalab.sim import cudart

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Operation

# --- there and back --------------------------------------------------------------------------------------------------

COPIED_IN = Gate(
    "bytes copied to the device, for each byte of the array",
    least=1,
    most=1,
    look="the size of each copy: cudaMemcpy counts bytes, host.nbytes of them",
    too_little="what comes back has to have been on the device",
)
COPIED_OUT = Gate(
    "bytes copied back, for each byte of the array",
    least=1,
    most=1,
    look="the size of each copy: cudaMemcpy counts bytes, host.nbytes of them",
    too_little="what is returned has to come from the device",
)
KEPT = Gate(
    "allocations that are not freed",
    most=0,
    look="cudaFree with the address that cudaMalloc returned, and what it says: the memory belongs to the process "
    "until somebody gives it back (CuPy keeps its own in a pool)",
)


COPY = "the order, destination first, and the kind, which names the direction: here from the device to the host"


def _ok(result: Any) -> Any:
    """The values of a runtime call, as the chapter's ``ok`` has them."""
    error, *values = result
    if error != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(error.name)
    return values[0] if len(values) == 1 else values


def _there_and_back(bench: StreamBench) -> None:
    for size in (1, 1000, bench.between(5000, 9000)):
        with bench.case(f"{size} float{'s' * (size > 1)}") as trial:
            values = bench.random(size)
            back = trial.call(values, _ok, look=COPY)
            if not isinstance(back, np.ndarray) or back is values:
                text = f"the function returned {'its argument' if back is values else type(back).__name__}"
                bench.find("correctness", "no array", text, look="return a NumPy array of its own: np.empty_like(host)")
                continue
            copies = [one for one in trial.operations if one.kind == "copy"]
            short = any(one.bytes < values.nbytes for one in copies)
            look = f"the size of each copy, in bytes: {size} floats are {values.nbytes} of them"
            trial.expect(
                "the returned array", back, values, look=look if short else "the second copy, to the new array"
            )
            for gate, engine in ((COPIED_IN, "h2d"), (COPIED_OUT, "d2h")):
                moved = sum(one.bytes for one in copies if one.engine == engine)
                bench.measure(gate, moved / values.nbytes)
            bench.measure(KEPT, trial.left[0])


THERE_AND_BACK = Exercise(
    "04.there-and-back",
    "Copy to the device and back",
    "there_and_back",
    _there_and_back,
    gates=(COPIED_IN, COPIED_OUT, KEPT),
    answer="function",
)

# --- a list ----------------------------------------------------------------------------------------------------------


NODE = np.dtype([("value", np.float32), ("next", np.uint64)], align=True)


def _count_above(bench: KernelBench) -> None:
    limit = np.float32(0.25)
    telling = np.array([0.5, 0.75, limit, -0.5, 0.5, 0.3], np.float32)  # each usual mistake has a count of its own
    for size in (telling.size, 1, 0, 2, 3, bench.between(20, 40)):
        values = telling if size == telling.size else bench.random(size)
        values[-1:] = 0.5  # the last counts
        node = np.uint64(0)
        for at in reversed(range(size)):
            made = np.array([(values[at], node)], NODE)
            node = np.uint64(bench.input(f"node {at}", made.view(np.uint8)).pointer)
        found = bench.zeroed("found", (1,), np.int32)
        bench.launch((1,), (1,), (node, limit, found), f"a list of {size} node{'s' * (size != 1)}")
        above = int((values > limit).sum())
        known = (
            Known("only the first node is looked at", np.array([int((values[:1] > limit).sum())])),
            Known(
                "the loop ends at the first node that does not count",
                np.array([int(np.cumprod(values > limit).sum())]),
            ),
            Known("the last node is left out", np.array([int((values[:-1] > limit).sum())])),
            Known("all nodes are counted", np.array([size])),
            Known("a value that equals the limit is counted", np.array([int((values >= limit).sum())])),
        )
        bench.expect(found, np.array([above]), known=known, look="where the loop begins, ends, and steps to")


COUNT_ABOVE = Exercise("04.count-above", "Follow the pointers", "count_above", _count_above)

# --- arrays in place of structs --------------------------------------------------------------------------------------


def _lengths(bench: KernelBench) -> None:
    for size, block in ((1, 32), (100, 64), (32 * bench.between(40, 50), 128)):
        points = bench.random((3, size))
        p, out = bench.input("p", points), bench.output("out", (size,), np.float32)
        needs = Needs(3 * 4 * size, 4 * size, share=16) if size > 1000 else None
        grid = (-(-size // block) + 1,)
        bench.launch(grid, (block,), (p, out, np.int32(size)), f"{size} points, {block} threads a block", needs=needs)
        squares = (points.astype(np.float64) ** 2).sum(axis=0)
        mixed = (points.reshape(size, 3).astype(np.float64) ** 2).sum(axis=1)
        known = (Known("p is read as structs: x, y and z of one point lie together", mixed),) if size > 1 else ()
        bench.expect(out, squares, tolerance=1e-5, known=known, look="where y and z begin: all x come first, n of them")


LENGTHS = Exercise(
    "04.lengths", "Read arrays in place of structs", "lengths", _lengths, gates=(SECTORS_LOADED.of(most=4.5),)
)

# --- rows of floats --------------------------------------------------------------------------------------------------

MOST_WIDTH = 126
PITCH = 1024
"""Twice as much as the rows need: it is not to be guessed from the width."""


def _flatten(bench: KernelBench) -> None:
    _flatten_top(bench)
    for height, width in ((1, 5), (4, 100), (bench.between(20, 30), bench.between(90, MOST_WIDTH))):
        image = bench.random((height, width))
        source, out = bench.input("base", image, pitch=PITCH), bench.output("out", (height, width), np.float32)
        grid, case = (-(-width // 32), -(-height // 8)), f"{height} rows of {width} floats, pitch {PITCH} bytes"
        arguments = (source, np.uint64(PITCH), out, np.int32(width), np.int32(height))
        bench.launch(grid, (32, 8), arguments, case)
        flat = np.pad(image, ((0, 0), (0, PITCH // 4 - width)), constant_values=np.nan).ravel()
        slipped = flat[: image.size].reshape(image.shape)
        known = (Known("rows are taken to be width floats apart, as if there were no padding", slipped),)
        look = "the address of row r: r * pitch bytes behind base, and a byte is a char"
        bench.expect(out, image, known=known if height > 1 else (), look=look)


def _flatten_top(bench: KernelBench) -> None:
    """Only the top quarter of a tall image: a pitch that counts floats leads to every fourth row, not out of the image,
    and so can be told from other mistakes."""
    height, width = 4, 24
    image = bench.random((4 * height, width))
    source, out = bench.input("base", image, pitch=PITCH), bench.output("out", (height, width), np.float32)
    arguments = (source, np.uint64(PITCH), out, np.int32(width), np.int32(height))
    bench.launch((1, 1), (32, 8), arguments, f"the top {height} rows of a taller image, pitch {PITCH} bytes")
    mistake = "the pitch, which is in bytes, is added to a float*, which counts floats"
    look = "the address of row r: r * pitch bytes behind base, and a byte is a char"
    bench.expect(out, image[:height], known=(Known(mistake, image[::4]),), look=look)


FLATTEN = Exercise("04.flatten", "Find the rows of a pitched array of floats", "flatten", _flatten)

# --- a clock ---------------------------------------------------------------------------------------------------------

NEARNESS = 0.25
"""How far the answer may be from what the work took: the call of the first launch and the wait are in it."""


def _time_work(bench: StreamBench) -> None:
    for launches, steps, busy in ((1, 200_000, False), (3, 200_000, False), (1, 200_000, True), (100, 10, False)):
        case = counted(launches, "long kernel" if steps > 10 else "short kernel")
        with bench.case(case + ", while the device is still busy" * busy) as trial:
            kernel, x = trial.busy_kernel(), trial.array(np.zeros(1, np.float32))
            arguments, called = (x, np.int32(steps)), list[int]()

            def work(count: int = launches) -> None:
                called.append(count)  # noqa: B023
                for _ in range(count):
                    kernel((1,), (1,), arguments)  # noqa: B023

            before = (lambda: kernel((1,), (1,), (x, np.int32(800_000)))) if busy else None  # noqa: B023
            told = trial.call(work, before=before)
            if not isinstance(told, (int, float, np.floating)):
                bench.find("correctness", "no number", f"the function returned {type(told).__name__}")
            elif len(called) != 1:
                text = f"work was called {counted(len(called), 'time')}"
                bench.find("correctness", "not once", text, look="call work() once: what it does may not be repeatable")
            else:
                _compare_times(bench, trial.kernels()[-launches:], float(told), busy)


def _compare_times(bench: StreamBench, kernels: Sequence[Operation], told: float, busy: bool) -> None:
    """``told`` (µs) against the time from the first launch's call, or the end of what was there before, to the end."""
    took = (kernels[-1].end - (kernels[0].start if busy else kernels[0].enqueued)) / 1000
    if abs(told - took) <= NEARNESS * took:
        return
    many = "the kernel" if len(kernels) == 1 else f"the {len(kernels)} kernels, from the first launch to the last end,"
    bench.find(
        "correctness",
        "wrong time",
        f"time_work(work) is {told:.0f} µs, and {many} took {took:.0f} µs",
        look="when the clock is read: first before work() launches anything, then when the last kernel is done; a "
        "launch returns before its kernel is done"
        if told < took
        else "what the device did before: let it come to its end before the clock is read first; and which "
        "clock it is: cudalab.clock() is the host's, which on the simulated device runs in modelled time",
    )


TIME_WORK = Exercise("04.time-work", "Read the clock when the work is done", "time_work", _time_work, answer="function")

EXERCISES = (THERE_AND_BACK, COUNT_ABOVE, LENGTHS, FLATTEN, TIME_WORK)
