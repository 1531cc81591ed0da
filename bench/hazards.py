"""What the hazard report costs: its own time for each operation, by kind of program.

    python -m bench.hazards [--operations 100000] [--json FILE]

The same program is run twice on devices of its own, with and without the report. ``own`` is the time spent inside the
report's methods, taken around each of them in a third run; the rest of the difference is what other parts do for it
(the learner's lines, kernels that note what they touch).
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device

STREAMS = 8
BYTES = 512
SOURCE = """
extern "C" __global__ void tick(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f; }
"""


def one_stream(device: Device, operations: int) -> None:
    """Memsets and copies in the default stream."""
    one, other = device.malloc(BYTES), device.malloc(BYTES)
    for _ in range(operations // 2):
        device.memset(one, 0, BYTES)
        device.memcpy(other, one, BYTES, 3, 0, True)


def one_stream_of_kernels(device: Device, operations: int) -> None:
    """Launches in the default stream."""
    tick = device.get_function(device.load_module(compile(SOURCE)), "tick")
    args = struct.pack("Q", device.malloc(BYTES))
    for _ in range(operations):
        device.launch(tick, (2, 1, 1), (32, 1, 1), args)


def pipeline(device: Device, operations: int) -> None:
    """Copy, kernel, copy over eight streams, nothing waited for."""
    tick = device.get_function(device.load_module(compile(SOURCE)), "tick")
    streams = [device.stream_create(1) for _ in range(STREAMS)]
    data, host = device.malloc(BYTES * STREAMS), device.malloc_host(2 * BYTES * STREAMS)
    for turn in range(operations // 3):
        at, stream = BYTES * (turn % STREAMS), streams[turn % STREAMS]
        device.memcpy(data + at, host + at, BYTES, 1, stream, True)
        device.launch(tick, (4, 1, 1), (32, 1, 1), struct.pack("Q", data + at), 0, stream)
        device.memcpy(host + BYTES * STREAMS + at, data + at, BYTES, 2, stream, True)


def events(device: Device, operations: int) -> None:
    """A ring of eight streams in which each waits for the one before."""
    streams = [device.stream_create(1) for _ in range(STREAMS)]
    ring = [device.event_create(2) for _ in range(STREAMS)]
    data = [device.malloc(BYTES) for _ in range(STREAMS)]
    for turn in range(operations // 4):
        here, there = turn % STREAMS, (turn + 1) % STREAMS
        device.memset(data[here], 1, BYTES, streams[here], True)
        device.event_record(ring[here], streams[here])
        device.stream_wait_event(streams[there], ring[here])
        device.memcpy(data[there], data[here], BYTES, 3, streams[there], True)


def rows(device: Device, operations: int) -> None:
    """2-D copies of interleaved rows: many runs of bytes each."""
    streams = [device.stream_create(1) for _ in range(STREAMS)]
    data, host = device.malloc(64 * 512), device.malloc(64 * 512)
    for turn in range(operations):
        at = 64 * (turn % STREAMS)
        device.memcpy_2d(data + at, 512, host + at, 512, 64, 64, 3, streams[turn % STREAMS], True)


PROGRAMS: tuple[Callable[[Device, int], None], ...] = (one_stream, one_stream_of_kernels, pipeline, events, rows)


def measure(program: Callable[[Device, int], None], operations: int) -> dict[str, float]:
    """Seconds of processor time without the report, with it, and inside of it."""
    plain = _run(Device(hazards=False), program, operations)
    device = Device()
    reported = _run(device, program, operations)
    if device.hazards:
        raise AssertionError(f"{program.__name__} is a correct program: {device.hazards[0].text}")
    device = Device()
    spent = _clocked(device)
    _run(device, program, operations)
    return {"without_s": plain, "with_s": reported, "own_s": spent[0]}


def _run(device: Device, program: Callable[[Device, int], None], operations: int) -> float:
    program(device, min(operations, 100))
    device.synchronize()
    start = time.process_time()
    program(device, operations)
    device.synchronize()
    return time.process_time() - start


def _clocked(device: Device) -> list[float]:
    """Take the time of every method of the report, less what reading the clock takes."""
    report: Any = device.hazard_report
    spent = [0.0]
    now = time.thread_time
    empty = min(_difference(now) for _ in range(1000))

    def around(method: Callable[..., None]) -> Callable[..., None]:
        def timed(*arguments: Any) -> None:
            start = now()
            method(*arguments)
            spent[0] += now() - start - empty

        return timed

    for name in ("called", "enqueued", "ordered", "started", "ended", "host_waited"):
        setattr(report, name, around(getattr(report, name)))
    return spent


def _difference(now: Callable[[], float]) -> float:
    start = now()
    return now() - start


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="store the figures here")
    options = parser.parse_args(arguments)
    table = {}
    for program in PROGRAMS:
        figures = table[program.__name__] = measure(program, options.operations)
        per = 1e6 / options.operations
        print(
            f"{program.__name__:24} without {figures['without_s']:6.2f} s, with {figures['with_s']:6.2f} s; the report "
            f"itself {figures['own_s']:5.2f} s, {figures['own_s'] * per:4.1f} us an operation"
        )
    if options.json:
        options.json.write_text(json.dumps({"operations": options.operations, "programs": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
