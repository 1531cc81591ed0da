"""Experiments with launches, waits, events and host functions, where overheads are what counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.fidelity.copies import D2H, H2D, HostMemory, copy
from bench.fidelity.experiment import experiment
from bench.fidelity.laboratory import MB, Laboratory
from cudalab import cp, cudart

Result = Iterator[tuple[str, float]]
ONE = (1,)


def busy_kernel(lab: Laboratory) -> tuple[Any, Any]:
    return lab.kernel_of("launches", "busy"), lab.buffer("busy", 4 * MB)


@experiment("launches by number of arguments: host time")
def arguments(lab: Laboratory) -> Result:
    x, i, f = lab.buffer("x", MB), np.int32(0), np.float32(0)
    given: dict[str, tuple[Any, ...]] = {
        "empty": (),
        "one": (i,),
        "four": (x, x, x, i),
        "eight": (x, x, x, i, i, i, f, f),
    }
    for name, args in given.items():
        kernel = lab.kernel_of("launches", name)

        def work(kernel: Any = kernel, args: tuple[Any, ...] = args) -> None:
            for _ in range(100):
                kernel(ONE, ONE, args)

        yield f"{len(args)} arguments", lab.calls(work, 100)


@experiment("launch and wait")
def launch_and_wait(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("launches", "empty")
    for count in (1, 10, 100):

        def work(count: int = count) -> None:
            for _ in range(count):
                kernel(ONE, ONE, ())

        yield f"{count} launches", lab.until_done(work)

    def each() -> None:
        for _ in range(10):
            kernel(ONE, ONE, ())
            cudart.cudaDeviceSynchronize()

    yield "10 launches, each waited for", lab.until_done(each)


@experiment("launches between events")
def between_events(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("launches", "empty")
    for count in (0, 1, 10, 100):

        def work(count: int = count) -> None:
            for _ in range(count):
                kernel(ONE, ONE, ())

        yield f"{count} launches", lab.events(work)


@experiment("empty kernels by number of blocks")
def empty_blocks(lab: Laboratory) -> Result:
    for blocks in (1, 132, 1320, 13200, 132000):
        yield f"{blocks} blocks", lab.kernel("launches", "empty", blocks, 128)


@experiment("empty kernels by threads a block")
def empty_threads(lab: Laboratory) -> Result:
    for threads in (32, 128, 512, 1024):
        yield f"{threads} threads", lab.kernel("launches", "empty", 26400, threads)


@experiment("calls of events and streams: host time")
def event_calls(lab: Laboratory) -> Result:
    event, other = cp.cuda.Event(), cp.cuda.Event()
    stream = cp.cuda.Stream(non_blocking=True)
    event.record()
    other.record()
    other.synchronize()
    yield "record", lab.calls(lambda: cudart.cudaEventRecord(event.ptr, 0))
    yield "query", lab.calls(lambda: cudart.cudaEventQuery(event.ptr))
    yield "elapsed time", lab.calls(lambda: cudart.cudaEventElapsedTime(event.ptr, other.ptr))
    yield "stream waits for event", lab.calls(lambda: cudart.cudaStreamWaitEvent(stream.ptr, event.ptr, 0))
    yield "wait for an idle device", lab.calls(lambda: cudart.cudaDeviceSynchronize())
    yield "memset", lab.calls(lambda: cudart.cudaMemsetAsync(lab.buffer("x", MB).data.ptr, 0, 4, 0))


@experiment("waiting: record an event and wait for it")
def record_and_wait(lab: Laboratory) -> Result:
    kernel, out = busy_kernel(lab)
    event = cp.cuda.Event()

    def work(rounds: int) -> None:
        if rounds:
            kernel(ONE, (32,), (out, np.int32(rounds)))
        event.record()
        event.synchronize()

    for rounds in (0, 1000, 10_000, 100_000):
        yield f"behind {rounds} rounds", lab.until_done(lambda rounds=rounds: work(rounds))


@experiment("host functions in a stream")
def host_functions(lab: Laboratory) -> Result:
    kernel, out = busy_kernel(lab)
    stream = cp.cuda.Stream(non_blocking=True)

    def work(count: int, between: bool) -> None:
        with stream:
            for _ in range(count):
                kernel(ONE, (32,), (out, np.int32(2000)))
                if between:
                    stream.launch_host_func(lambda _: None, None)

    for count in (1, 4, 16):
        yield f"{count} kernels", lab.until_done(lambda count=count: work(count, False))
        yield f"{count} kernels, a function behind each", lab.until_done(lambda count=count: work(count, True))


@experiment("enqueueing behind a long kernel: host time")
def queue_depth(lab: Laboratory) -> Result:
    """A launch is a note in a queue: the host does not wait for the kernel in front."""
    kernel, out = busy_kernel(lab)
    empty = lab.kernel_of("launches", "empty")
    for count in (10, 100, 500):

        def work(count: int = count) -> None:
            kernel(ONE, (32,), (out, np.int32(3_000_000)))
            for _ in range(count):
                empty(ONE, ONE, ())

        yield f"{count} launches", lab.calls(work)


@experiment("small data, there and back")
def small_data(lab: Laboratory) -> Result:
    kernel = lab.kernel_of("launches", "increment")
    for label, size in (("4 B", 4), ("4 KB", 4096), ("64 KB", 65536), ("1 MB", MB)):
        device = cp.zeros(size // 4, dtype=cp.float32)
        with HostMemory(size) as host:

            def work(device: Any = device, host: int = host, size: int = size) -> None:
                copy(device.data.ptr, host, size, H2D)
                kernel((-(-size // 1024),), (256,), (device, np.int32(size // 4)))
                copy(host, device.data.ptr, size, D2H)

            yield label, lab.until_done(work)


@experiment("steps: one kernel or many on the same data")
def steps(lab: Laboratory) -> Result:
    """16 increments of 1 MB: as 16 launches, each waited for or not."""
    kernel = lab.kernel_of("launches", "increment")
    x = cp.zeros(MB // 4, dtype=cp.float32)

    def work(count: int, wait: bool) -> None:
        for _ in range(count):
            kernel((1024,), (256,), (x, np.int32(MB // 4)))
            if wait:
                cudart.cudaDeviceSynchronize()

    yield "1 launch", lab.until_done(lambda: work(1, False))
    yield "16 launches", lab.until_done(lambda: work(16, False))
    yield "16 launches, each waited for", lab.until_done(lambda: work(16, True))


@experiment("busy kernels by rounds")
def busy_rounds(lab: Laboratory) -> Result:
    _, out = busy_kernel(lab)
    for rounds in (100, 1000, 10_000, 100_000):
        yield f"{rounds} rounds", lab.kernel("launches", "busy", 1, 32, out, np.int32(rounds))
