"""Whole programs: chapter 11's pipeline, host threads, first uses, and copies by size on the device."""

from __future__ import annotations

import statistics
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import cudalab
from bench.host_time.calls import D2D, D2H, H2D, KB, MB
from bench.host_time.instruments import ONE, Bench, checked, conditions, is_gpu, now, pinned, summary
from cudalab import cp, cudart

STREAMS = (1, 2, 4, 8, 16, 32)
COPY_SIZES = (4, 256, KB, 4 * KB, 16 * KB, 64 * KB, 128 * KB, 256 * KB, MB, 4 * MB)


class Pipeline:
    """The job of chapter 11, in its own words."""

    def __init__(self, bench: Bench) -> None:
        self.approach = bench.kernels["approach"]
        self.n, self.steps = 1 << 22, 32
        self.h_in, self.h_out = (pinned(4 * self.n).view(np.float32) for _ in range(2))
        self.h_in[:] = np.arange(self.n) % 1000
        self.d_in, self.d_out = cp.empty(self.n, cp.float32), cp.empty(self.n, cp.float32)
        self.times: list[tuple[str, int]] = []

    def copy_in(self, begin: int, count: int, stream: Any) -> None:
        offset = 4 * begin
        checked(
            cudart.cudaMemcpyAsync(
                self.d_in.data.ptr + offset, self.h_in.ctypes.data + offset, 4 * count, H2D, stream.ptr
            )
        )

    def compute(self, begin: int, count: int, stream: Any) -> None:
        with stream:
            self.approach((32,), (256,), (self.d_in[begin:], self.d_out[begin:], np.int32(count), np.int32(self.steps)))

    def copy_out(self, begin: int, count: int, stream: Any) -> None:
        offset = 4 * begin
        checked(
            cudart.cudaMemcpyAsync(
                self.h_out.ctypes.data + offset, self.d_out.data.ptr + offset, 4 * count, D2H, stream.ptr
            )
        )

    def depth_first(self, streams: Sequence[Any]) -> None:
        count = self.n // len(streams)
        for piece, stream in enumerate(streams):
            for step in (self.copy_in, self.compute, self.copy_out):
                step(piece * count, count, stream)

    def breadth_first(self, streams: Sequence[Any]) -> None:
        count = self.n // len(streams)
        for step in (self.copy_in, self.compute, self.copy_out):
            for piece, stream in enumerate(streams):
                step(piece * count, count, stream)

    def timed(self, streams: Sequence[Any]) -> list[list[float]]:
        """Depth first, with the µs of each step: a row for each piece."""
        count = self.n // len(streams)
        rows = []
        for piece, stream in enumerate(streams):
            row = []
            for step in (self.copy_in, self.compute, self.copy_out):
                before = now()
                step(piece * count, count, stream)
                row.append((now() - before) / 1000)
            rows.append(row)
        return rows


def pipeline(bench: Bench, condition: str) -> dict[str, Any]:
    """Host time to enqueue, time until all is done, and the timeline's, by number of streams and order."""
    job, found = Pipeline(bench), dict[str, Any]()
    on = cudalab.trace if condition == "trace" else conditions()[condition]  # its timelines are looked at
    warm = cp.cuda.Stream(non_blocking=True)
    job.depth_first([warm])
    bench.synchronize()
    for order in ("depth_first", "breadth_first"):
        for number in STREAMS:
            streams = [cp.cuda.Stream(non_blocking=True) for _ in range(number)]
            runs: list[tuple[float, float, float]] = []
            for _ in range(8 if is_gpu() else 2):
                bench.synchronize()
                with on() as timeline:
                    start = now()
                    getattr(job, order)(streams)
                    enqueued = now()
                    bench.synchronize()
                    end = now()
                shown = float(timeline.elapsed) if condition == "trace" else 0.0
                runs.append(((enqueued - start) / 1000, (end - start) / 1000, shown))
            used = runs[1:]
            found[f"{order}, {number}"] = {
                "first": [round(value, 3) for value in runs[0]],
                "later": [round(statistics.median(each[i] for each in used), 3) for i in range(3)],
                "fields": "enqueue, done, timeline",
            }
            if number in (4, 16) and order == "depth_first":
                bench.synchronize()
                with on() as timeline:
                    rows = job.timed(streams)
                    bench.synchronize()
                found[f"steps, {number}"] = [[round(value, 2) for value in row] for row in rows]
                if condition == "trace":
                    found[f"spans, {number}"] = [
                        (span.name, span.stream_number, round(span.start, 2), round(span.end, 2))
                        for span in timeline.spans
                    ]
    return found


def threads(bench: Bench, condition: str) -> dict[str, Any]:
    """µs a call in each of several threads that enqueue at the same time, behind a kernel that waits."""
    count = 150
    host = pinned(64 * KB).ctypes.data
    memory = cp.empty(MB, cp.uint8)
    device, places = int(memory.data.ptr), dict[int, int]()
    x, n = cp.empty(1024, cp.float32), np.int32(0)
    empty, four = bench.kernels["empty"], bench.kernels["four"]

    def python(stream: Any) -> None:
        total = 0
        for value in range(100):
            total += value

    def copy(stream: Any) -> None:
        place = places.setdefault(stream.ptr, device + 4 * KB * (len(places) % 256))
        cudart.cudaMemcpyAsync(place, host, 4 * KB, H2D, stream.ptr)

    operations: dict[str, Callable[[Any], Any]] = {
        "launch, 0 arguments": lambda stream: empty(ONE, ONE, (), stream=stream),
        "launch, 3 arrays and number": lambda stream: four(ONE, ONE, (x, x, x, n), stream=stream),
        "cudaMemcpyAsync": copy,
        "cudaStreamQuery": lambda stream: cudart.cudaStreamQuery(stream.ptr),
        "Python only": python,
    }
    found: dict[str, Any] = {"switch interval, s": sys.getswitchinterval(), "calls": count}
    with conditions()[condition]():
        for name, operation in operations.items():
            for several in (1, 2, 4):
                runs = [_together(bench, operation, several, count) for _ in range(5 if is_gpu() else 1)]
                found[f"{name}, {several}"] = sorted(runs, key=lambda run: run["all"])[len(runs) // 2]
    return found


def _together(bench: Bench, operation: Callable[[Any], Any], several: int, count: int) -> dict[str, Any]:
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(several)]
    stamps: list[list[int]] = [[] for _ in range(several)]
    barrier = threading.Barrier(several)

    def run(own: list[int], stream: Any) -> None:
        operation(stream)
        bench.wait(15_000_000, stream)
        barrier.wait()
        own.append(now())
        for _ in range(count):
            operation(stream)
            own.append(now())

    workers = [threading.Thread(target=run, args=pair) for pair in zip(stamps, streams, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    bench.synchronize()
    order = sorted((stamp, index) for index, own in enumerate(stamps) for stamp in own)
    switches = sum(first[1] != second[1] for first, second in zip(order, order[1:], strict=False))
    each = [(own[-1] - own[0]) / 1000 for own in stamps]
    gaps = [(b - a) / 1000 for own in stamps for a, b in zip(own, own[1:], strict=False)]
    begin, end = min(own[0] for own in stamps), max(own[-1] for own in stamps)
    return {"all": (end - begin) / 1000, "each": each, "switches": switches, "call": summary(gaps)}


def first_uses(bench: Bench, condition: str) -> dict[str, Any]:
    """µs of the first, second and third call of a kind in new streams, and of new kernels."""
    host = pinned(64 * KB).ctypes.data
    memory = cp.empty(MB, cp.uint8)
    floats = memory.view(cp.float32)
    device, empty = int(memory.data.ptr), bench.kernels["empty"]
    operations: dict[str, Callable[[Any], Any]] = {
        "launch": lambda stream: empty(ONE, ONE, (), stream=stream),
        "copy to device": lambda stream: cudart.cudaMemcpyAsync(device, host, 4 * KB, H2D, stream.ptr),
        "copy to host": lambda stream: cudart.cudaMemcpyAsync(host, device, 4 * KB, D2H, stream.ptr),
        "record": lambda stream: stream.record(),
    }
    found: dict[str, Any] = {}
    with conditions()[condition]():
        for name, operation in operations.items():
            rows, done = [], []
            for _ in range(24 if is_gpu() else 2):
                stream = cp.cuda.Stream(non_blocking=True)
                bench.synchronize()
                row = []
                for _ in range(3):
                    before = now()
                    operation(stream)
                    row.append((now() - before) / 1000)
                stream.synchronize()
                done.append((now() - before) / 1000)
                rows.append(row)
            found[f"{name} in a new stream"] = [summary([row[i] for row in rows]) for i in range(3)]
        kernels = []
        for number in range(6 if is_gpu() else 2):
            name = f"fresh_{condition}_{number}"
            code = f'extern "C" __global__ void {name}(float* x) {{ x[threadIdx.x] = {number}.5f; }}'
            kernel, row = cp.RawKernel(code, name), []
            kernel.compile()
            bench.synchronize()
            for _ in range(3):
                before = now()
                kernel(ONE, (32,), (floats,))
                row.append((now() - before) / 1000)
                bench.synchronize()
            kernels.append(row)
        found["launch of a new kernel"] = [summary([row[i] for row in kernels]) for i in range(3)]
    return found


def on_the_device(bench: Bench, condition: str, sizes: Sequence[int] = COPY_SIZES) -> dict[str, Any]:
    """µs that copies, memsets, records and empty kernels take on the device, behind a kernel that waits.

    ``each`` is what one more in a row of 17 adds to one, ``one`` what one takes between two events, ``done`` the time
    from the call on an idle device until the host knows, ``after`` what the first behind a kernel adds.
    """
    host = pinned(4 * MB).ctypes.data
    memory = cp.empty(64 * MB, cp.uint8)
    device, stream, copy = int(memory.data.ptr), bench.stream, cudart.cudaMemcpyAsync
    start, end = cp.cuda.Event(), cp.cuda.Event()
    empty = bench.kernels["empty"]

    def measure(call: Callable[[], Any]) -> dict[str, Any]:
        ones, many, done, after = [], [], [], []
        for _ in range(15 if is_gpu() else 1):
            for count, kept in ((1, ones), (17, many)):
                bench.synchronize()
                bench.wait(400_000)
                start.record(stream)
                for _ in range(count):
                    call()
                end.record(stream)
                end.synchronize()
                kept.append(float(cp.cuda.get_elapsed_time(start, end)) * 1000)
            bench.synchronize()
            before = now()
            call()
            bench.synchronize()
            done.append((now() - before) / 1000)
            bench.wait(400_000)
            start.record(stream)
            empty(ONE, ONE, (), stream=stream)
            call()
            empty(ONE, ONE, (), stream=stream)
            end.record(stream)
            end.synchronize()
            after.append(float(cp.cuda.get_elapsed_time(start, end)) * 1000)
        each = [(b - a) / 16 for a, b in zip(ones, many, strict=True)]
        return {"one": summary(ones), "each": summary(each), "done": summary(done), "after": summary(after)}

    found: dict[str, Any] = {"nothing": measure(lambda: None)}
    found["empty kernel"] = measure(lambda: empty(ONE, ONE, (), stream=stream))
    event = cp.cuda.Event()
    found["event record"] = measure(lambda: event.record(stream))
    for size in sizes:
        for name, ends, kind in (
            ("to device", (device, host), H2D),
            ("to host", (host, device), D2H),
            ("on device", (device, device + 32 * MB), D2D),
        ):
            found[f"{name}, {size}"] = measure(
                lambda ends=ends, kind=kind, size=size: copy(*ends, size, kind, stream.ptr)
            )
        found[f"memset, {size}"] = measure(lambda size=size: cudart.cudaMemsetAsync(device, 0, size, stream.ptr))
    return found


def by_trace(bench: Bench, condition: str) -> dict[str, Any]:
    """What a trace says that copies take by size: start and end of eight in a row behind a kernel, and from idle."""
    host = pinned(4 * MB).ctypes.data
    memory = cp.empty(64 * MB, cp.uint8)
    device, copy = int(memory.data.ptr), cudart.cudaMemcpyAsync
    found: dict[str, Any] = {}
    for size in (256, 4 * KB, 64 * KB, 256 * KB, MB):
        for name, ends, kind in (
            ("to device", (device, host), H2D),
            ("to host", (host, device), D2H),
            ("on device", (device, device + 32 * MB), D2D),
        ):
            with cudalab.trace() as timeline:
                copy(*ends, size, kind, bench.stream.ptr)
                bench.synchronize()
                bench.wait(300_000)
                for _ in range(8):
                    copy(*ends, size, kind, bench.stream.ptr)
                bench.synchronize()
            found[f"{name}, {size}"] = [
                (round(span.start, 3), round(span.end, 3)) for span in timeline.spans if span.kind == "copy"
            ]
    return found


PROGRAMS = {"pipeline": pipeline, "first uses": first_uses, "threads": threads}
ONCE = {"on the device": on_the_device, "by trace": by_trace}
