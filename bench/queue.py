"""Host time of queued operations: 100,000 launches, copies, events and waits over eight streams, executed to the end.

    python -m bench.queue [--operations 100000] [--observers none|count|hazards] [--profile h200] [--json FILE]

What is timed runs from the first call to the end of the last ``synchronize``: enqueueing, the event loop, the work on
memory. A quarter each are launches, page-locked copies, event records, and waits of another stream for an event. The
kernel is tiny (one to four blocks of 32 threads), so the figure is that of the queues. Results are checked.
``count`` attaches an observer that counts what it is told; ``hazards`` is the report that is on by default. CPU seconds
are given beside those of the clock, for a machine that has other things to do.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.queue.operation import Operation

STREAMS = 8
WIDTH = 128
BYTES = 4 * WIDTH
SOURCE = """
extern "C" __global__ void tick(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f; }
"""


class Count(Observer):
    """Counts its notifications."""

    def __init__(self) -> None:
        self.calls = self.enqueued_ = self.ended_ = 0

    def called(self, call: object, place: object, start: int, end: int) -> None:
        self.calls += 1

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        self.enqueued_ += 1

    def ended(self, operation: Operation) -> None:
        self.ended_ += 1


@dataclass
class Result:
    """Seconds of one run."""

    operations: int
    enqueued: float
    """Time to enqueue everything, while the device works."""
    ended: float
    """Until everything had ended."""
    processor: float
    """CPU time of all that."""


def program(device: Device, operations: int) -> Result:
    """Make ``operations`` calls that enqueue work, wait for all, and check the result."""
    module = device.load_module(compile(SOURCE))
    tick = device.get_function(module, "tick")
    streams = [device.stream_create(1) for _ in range(STREAMS)]
    events = [device.event_create(2) for _ in range(STREAMS)]
    data = [device.malloc(BYTES) for _ in range(STREAMS)]
    into = [device.malloc(BYTES) for _ in range(STREAMS)]
    host = device.malloc_host(BYTES * STREAMS)
    for pointer in data:
        device.memset(pointer, 0, BYTES)
    device.launch(tick, (1, 1, 1), (32, 1, 1), struct.pack("Q", into[0]))  # compile, and time it once
    device.synchronize()
    parameters = [struct.pack("Q", pointer) for pointer in data]
    launched = np.zeros((STREAMS, 4), np.int64)

    start, processor = time.perf_counter(), time.process_time()
    turns = -(-operations // 4)
    for turn in range(turns):
        index = turn % STREAMS
        stream, blocks = streams[index], 1 + (turn // STREAMS) % 4
        device.launch(tick, (blocks, 1, 1), (32, 1, 1), parameters[index], 0, stream)
        if turn % 2:
            device.memcpy(into[index], host + BYTES * index, BYTES, 1, stream, True)
        else:
            device.memcpy(host + BYTES * index, data[index], BYTES, 2, stream, True)
        device.event_record(events[index], stream)
        device.stream_wait_event(streams[(index + 1) % STREAMS], events[index])
        launched[index, :blocks] += 1
    enqueued = time.perf_counter() - start
    device.synchronize()
    ended, processor = time.perf_counter() - start, time.process_time() - processor

    for index, pointer in enumerate(data):
        values = np.frombuffer(device.view(pointer, BYTES), np.float32)
        if not np.array_equal(values, np.repeat(launched[index], 32)):
            raise AssertionError(f"stream {index}: the launches gave {values[::32]}, not {launched[index]}")
    return Result(4 * turns, enqueued, ended, processor)


def device_for(profile: str, observers: str) -> Device:
    """A new device, watched as asked for."""
    device = Device(profile, hazards=observers == "hazards")
    if observers == "count":
        device.observers.append(Count())
    return device


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--observers", choices=("none", "count", "hazards"), nargs="*", default=["none", "hazards"])
    parser.add_argument("--profile", default="h200")
    parser.add_argument("--json", type=Path, help="store the figures here")
    options = parser.parse_args(arguments)
    rows = {}
    for observers in options.observers:
        result = program(device_for(options.profile, observers), options.operations)
        rows[observers] = asdict(result)
        print(
            f"{result.operations} operations on {options.profile}, observers: {observers}: {result.ended:.2f} s "
            f"({result.ended / result.operations * 1e6:.1f} us each; enqueued after {result.enqueued:.2f} s; "
            f"CPU {result.processor:.2f} s)"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
