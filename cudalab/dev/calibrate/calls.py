"""What calls keep the host for, and how long copies, waits and switches take."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

import cudalab
from cudalab import cp, cudart
from cudalab.dev.calibrate.sources import source

KB, MB = 1 << 10, 1 << 20
H2D, D2H, D2D = (
    cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
    cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
    cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
)
ONE = (1,)
_STEPS = """
def copy(target, source, size, kind, stream):
    cudart.cudaMemcpyAsync(target, source, size, kind, stream.ptr)


def compute(kernel, x, begin, count, stream):
    with stream:
        kernel((1,), (1,), ())
    return x[begin:], np.int32(count)


def steps(stream, kernel, x, device, host, to_device, to_host):
    rows, size = [], 65536
    for piece in range(16):
        offset = size * piece
        times = [clock()]
        copy(device + offset, host + offset, size, to_device, stream)
        times.append(clock())
        compute(kernel, x, offset // 4, size // 4, stream)
        times.append(clock())
        copy(host + offset, device + offset, size, to_host, stream)
        times.append(clock())
        rows.append([after - before for before, after in zip(times, times[1:])])
    return rows


def run(condition, *things):
    with condition():
        return steps(*things)
"""
"""A pipeline as chapter 11 has it: what a trace costs depends on the lines around a call."""
ORDERS = "k u d f kk uu dd ku uk kd dk ud du ukd ukdukd kf kfk kfkfkfk kkkk".split()
"""Chains of kernels (k), copies to the device (u) and to the host (d), and host functions (f)."""


class Calls:
    """Measures calls and copies; ``repeats`` runs each, of which the median counts."""

    def __init__(self, is_gpu: bool) -> None:
        self._repeats = 31 if is_gpu else 1
        self._warm = 3 if is_gpu else 0
        self._module = cp.RawModule(code=source())
        self._device = cp.empty(512 * MB, dtype=cp.uint8)
        self._pointer = int(self._device.data.ptr)
        self._host = int(cudart.cudaHostAlloc(256 * MB, cudart.cudaHostAllocDefault)[1])
        self._pageable = np.ones(64 * MB, np.uint8)
        self._stream = cp.cuda.Stream(non_blocking=True)
        self.found: dict[str, float] = {}

    def run(self) -> dict[str, float]:
        """Microseconds by name."""
        self._copies()
        self._call_costs()
        self._launches()
        self._orders()
        self._behind()
        self._in_threads()
        self._in_a_trace()
        self._allocations()
        cudart.cudaDeviceSynchronize()
        cudart.cudaFreeHost(self._host)
        return self.found

    # -- instruments ---------------------------------------------------------------------------------------------------

    def _take(self, name: str, once: Callable[[], float]) -> None:
        for _ in range(self._warm):
            once()
        self.found[name] = round(statistics.median(once() for _ in range(self._repeats)), 4)

    def _events(self, name: str, work: Callable[[], Any]) -> None:
        start, end = cp.cuda.Event(), cp.cuda.Event()

        def once() -> float:
            cudart.cudaDeviceSynchronize()
            start.record(self._stream)
            work()
            end.record(self._stream)
            end.synchronize()
            return float(cp.cuda.get_elapsed_time(start, end)) * 1000

        self._take(name, once)

    def _call(self, name: str, work: Callable[[], Any], count: int = 1) -> None:
        def once() -> float:
            cudart.cudaDeviceSynchronize()
            before = cudalab.clock()
            for _ in range(count):
                work()
            return (cudalab.clock() - before) / count

        self._take(name, once)

    def _done(self, name: str, work: Callable[[], Any]) -> None:
        def once() -> float:
            cudart.cudaDeviceSynchronize()
            before = cudalab.clock()
            work()
            cudart.cudaDeviceSynchronize()
            return cudalab.clock() - before

        self._take(name, once)

    # -- what is measured ----------------------------------------------------------------------------------------------

    def _copies(self) -> None:
        device, host, pageable, s = self._pointer, self._host, self._pageable.ctypes.data, self._stream.ptr
        copy, rows, clear = cudart.cudaMemcpyAsync, cudart.cudaMemcpy2DAsync, cudart.cudaMemsetAsync
        for size in (4, 4 * KB, 16 * KB, 64 * KB, 256 * KB, MB, 8 * MB, 64 * MB, 256 * MB):
            self._events(f"events h2d {size}", partial(copy, device, host, size, H2D, s))
            self._events(f"events d2h {size}", partial(copy, host, device, size, D2H, s))
            self._events(f"events d2d {size}", partial(copy, device, device + 256 * MB, size, D2D, s))
            self._events(f"events memset {size}", partial(clear, device, 0, size, s))
        for size in (4, 4 * KB, 32 * KB, 64 * KB, 128 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB):
            self._done(f"done pageable h2d {size}", partial(copy, device, pageable, size, H2D, s))
            self._call(f"call pageable h2d {size}", partial(copy, device, pageable, size, H2D, s))
            self._done(f"done pageable d2h {size}", partial(copy, pageable, device, size, D2H, s))
            self._done(f"done h2d {size}", partial(copy, device, host, size, H2D, s))
            self._done(f"done d2h {size}", partial(copy, host, device, size, D2H, s))
        for width in (64, 256, 1000, 1024, 4096):
            self._events(f"events h2d rows of {width}", partial(rows, device, 4096, host, width, width, 4096, H2D, s))
            self._events(f"events d2h rows of {width}", partial(rows, host, width, device, 4096, width, 4096, D2H, s))
        other = cp.cuda.Stream(non_blocking=True)

        def both() -> None:
            copy(device, host, 64 * MB, H2D, s)
            copy(host + 128 * MB, device + 128 * MB, 64 * MB, D2H, other.ptr)

        def several(count: int, size: int, kind: Any) -> None:
            for i in range(count):
                ends = (device + i * 64 * KB, host) if kind == H2D else (host, device + i * 64 * KB)
                copy(*ends, size, kind, s)

        self._done("done both ways 64 MB", both)
        for count in (1, 16, 128):
            self._done(f"done {count} h2d of 64 KB", partial(several, count, 64 * KB, H2D))
            self._done(f"done {count} d2h of 64 KB", partial(several, count, 64 * KB, D2H))
            self._done(f"done {count} h2d of 4 KB", partial(several, count, 4 * KB, H2D))

    def _call_costs(self) -> None:
        device, host, s = self._pointer, self._host, self._stream.ptr
        event, other = cp.cuda.Event(), cp.cuda.Event()
        event.record()
        other.record()
        self._call("call nothing", lambda: None)
        self._call("call h2d 4", lambda: cudart.cudaMemcpyAsync(device, host, 4, H2D, s))
        self._call("call h2d 1 MB", lambda: cudart.cudaMemcpyAsync(device, host, MB, H2D, s), 16)
        self._call("call h2d 1 MB blocking", lambda: cudart.cudaMemcpy(device, host, MB, H2D))
        self._call("call d2d", lambda: cudart.cudaMemcpy(device, device + MB, 4096, D2D))
        self._call("call d2d asynchronous", lambda: cudart.cudaMemcpyAsync(device, device + MB, 4096, D2D, s), 16)
        self._call("call memset", lambda: cudart.cudaMemsetAsync(device, 0, 4, s))
        self._call("call memset 64 KB", lambda: cudart.cudaMemsetAsync(device, 0, 64 * KB, s))
        self._call("call record", lambda: cudart.cudaEventRecord(event.ptr, s))
        self._call("call query event", lambda: cudart.cudaEventQuery(other.ptr))
        self._call("call elapsed", lambda: cudart.cudaEventElapsedTime(other.ptr, other.ptr))
        self._call("call wait event", lambda: cudart.cudaStreamWaitEvent(s, event.ptr, 0))
        self._call("call query stream", lambda: cudart.cudaStreamQuery(s))
        self._call("call synchronize stream", lambda: cudart.cudaStreamSynchronize(s))
        self._call("call synchronize device", lambda: cudart.cudaDeviceSynchronize())
        self._call("call get device", lambda: cudart.cudaGetDevice())
        self._call("call last error", lambda: cudart.cudaGetLastError())
        self._call("call host function", lambda: self._stream.launch_host_func(lambda _: None, None))

        def create() -> None:
            cudart.cudaEventDestroy(cudart.cudaEventCreate()[1])

        self._call("call create and destroy event", create)

        def create_stream() -> None:
            cudart.cudaStreamDestroy(cudart.cudaStreamCreate()[1])

        self._call("call create and destroy stream", create_stream)

    def _launches(self) -> None:
        empty, add = self._module.get_function("empty"), self._module.get_function("add_one")
        numbers = self._module.get_function("numbers")
        x = self._device.view(cp.float32)
        n = np.int32(0)

        def launches(name: str, work: Callable[[], Any]) -> None:
            self._call(f"launch {name}", work, 100)

        launches("0 arguments", lambda: empty(ONE, ONE, ()))
        launches("4 numbers", lambda: numbers(ONE, ONE, (n, n, n, n)))
        launches("3 arrays and a number", lambda: add(ONE, ONE, (x, x, x, n)))

        def in_stream() -> None:
            with self._stream:
                empty(ONE, ONE, ())

        launches("in a stream", in_stream)
        small, result = x[:1024], x[MB : MB + 1024]

        def array_operation() -> None:
            with self._stream:
                cp.multiply(small, 2, out=result)

        launches("an array operation in a stream", array_operation)
        self._call("launch from idle", lambda: empty(ONE, ONE, ()))
        self._call("launch 4 arguments from idle", lambda: add(ONE, ONE, (x, x, x, n)))

        def several(count: int) -> None:
            for _ in range(count):
                empty(ONE, ONE, ())

        for count in (1, 10, 100):
            self._done(f"done {count} launches", partial(several, count))

        def events() -> None:
            with self._stream:
                empty(ONE, ONE, ())

        self._events("events nothing", lambda: None)
        self._events("events launch", events)

    def _orders(self) -> None:
        """Chains of operations, from their first call until the host knows that they are done."""
        loop, x = self._module.get_function("plain_loop"), self._device.view(cp.float32)
        y = x[MB:]
        device, host = self._pointer + 128 * MB, self._host
        one, two = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
        event = cp.cuda.Event(disable_timing=True)

        def k(stream: Any, rounds: int = 10_000) -> None:
            with stream:
                loop((4,), (32,), (y if stream is two else x, np.int32(rounds)))

        def u(stream: Any, size: int = MB // 2) -> None:
            cudart.cudaMemcpyAsync(device, host, size, H2D, stream.ptr)

        def d(stream: Any, size: int = MB // 2) -> None:
            cudart.cudaMemcpyAsync(host + 128 * MB, device + 128 * MB, size, D2H, stream.ptr)

        def f(stream: Any) -> None:
            stream.launch_host_func(lambda _: None, None)

        steps: dict[str, Callable[[Any], None]] = {"k": k, "u": u, "d": d, "f": f}

        def play(order: str, in_front: int) -> None:
            if in_front:
                k(one, in_front)
            for step in order:
                steps[step](one)

        for order in ORDERS:
            self._done(f"done {order}", partial(play, order, 0))
            self._done(f"done k in front of {order}", partial(play, order, 50_000))

        def across(first: Callable[[Any], None], second: Callable[[Any], None]) -> None:
            first(one)
            event.record(one)
            two.wait_event(event)
            second(two)

        for name in ("kk", "ku", "uk", "kd", "ud"):
            self._done(f"done {name} across streams", partial(across, steps[name[0]], steps[name[1]]))

        def beside(count: int) -> None:
            for i in range(count):
                k((one, two)[i % 2], 20_000)

        self._done("done two beside each other", lambda: beside(2))
        self._done("done four beside each other", lambda: beside(4))

        def waited() -> None:
            for _ in range(10):
                k(one, 100)
                one.synchronize()

        self._done("done 10 waited for", waited)

    def _behind(self) -> None:
        """Work on the device, between events behind a kernel that outlasts the calls: one piece, and 17 in a row."""
        loop, x = self._module.get_function("plain_loop"), self._device.view(cp.float32)
        device, host, s = self._pointer + 128 * MB, self._host, self._stream.ptr
        copy, clear = cudart.cudaMemcpyAsync, cudart.cudaMemsetAsync
        start, end = cp.cuda.Event(), cp.cuda.Event()
        pieces: dict[str, Callable[[], Any]] = {
            "record": partial(cp.cuda.Event().record, self._stream),
            "h2d 4096": partial(copy, device, host, 4 * KB, H2D, s),
            "d2h 4096": partial(copy, host, device, 4 * KB, D2H, s),
            "d2d 4096": partial(copy, device, device + MB, 4 * KB, D2D, s),
            **{f"memset {size}": partial(clear, device, 0, size, s) for size in (4, 4 * KB, 64 * KB)},
        }

        def between(count: int, piece: Callable[[], Any]) -> float:
            cudart.cudaDeviceSynchronize()
            with self._stream:
                loop((4,), (32,), (x, np.int32(200_000)))
            start.record(self._stream)
            for _ in range(count):
                piece()
            end.record(self._stream)
            end.synchronize()
            return float(cp.cuda.get_elapsed_time(start, end)) * 1000

        for name, piece in pieces.items():
            for count in (1, 17):
                self._take(f"behind {count} {name}", partial(between, count, piece))

    def _in_threads(self) -> None:
        """Launches from one thread, and from two at the same time, each in a stream of its own."""
        empty, count = self._module.get_function("empty"), 150

        def launches(several: int) -> float:
            barrier, begun, ended = threading.Barrier(several), list[float](), list[float]()

            def work() -> None:
                stream = cp.cuda.Stream(non_blocking=True)
                barrier.wait()
                begun.append(cudalab.clock())
                for _ in range(count):
                    empty(ONE, ONE, (), stream=stream)
                ended.append(cudalab.clock())

            cudart.cudaDeviceSynchronize()
            workers = [threading.Thread(target=work) for _ in range(several)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            return (max(ended) - min(begun)) / (several * count)

        self._take("launch in one thread", partial(launches, 1))
        self._take("launch in two threads", partial(launches, 2))

    def _in_a_trace(self) -> None:
        """Steps of a pipeline, and the same in a trace that follows their lines, and in one that does not; the first
        two apart."""
        programs: dict[str, dict[str, Any]] = {}
        for name in ("learner", "cudalab"):  # a trace follows no line of cudalab's
            programs[name] = {"__name__": name, "clock": cudalab.clock, "cudart": cudart, "np": np}
            exec(compile(_STEPS, f"<steps of {name}>", "exec"), programs[name])
        x = self._device.view(cp.float32)
        things = self._stream, self._module.get_function("empty"), x, self._pointer, self._host, H2D, D2H

        def rows(whose: str, condition: Any) -> np.ndarray:
            cudart.cudaDeviceSynchronize()
            return np.array(programs[whose]["run"](condition, *things))

        def typical(whose: str, condition: Any) -> float:
            return float(np.median(rows(whose, condition)[1:], axis=0).mean())

        def first(whose: str, condition: Any) -> float:
            found = rows(whose, condition)
            return float((found[0, :2] - np.median(found[1:, :2], axis=0)).mean())

        self._take("step", partial(typical, "learner", nullcontext))
        self._take("step with records", partial(typical, "cudalab", cudalab.trace))
        self._take("step in a trace", partial(typical, "learner", cudalab.trace))
        self._take("first step", partial(first, "learner", nullcontext))
        self._take("first step with records", partial(first, "cudalab", cudalab.trace))

    def _allocations(self) -> None:
        held: list[int] = []

        def take(allocate: Callable[[int], tuple[Any, Any]], size: int) -> None:
            held.append(int(allocate(size)[1]))

        self._repeats, self._warm = min(7, self._repeats), 0
        for size in (4 * KB, MB, 64 * MB):
            self._call(f"call malloc {size}", partial(take, cudart.cudaMalloc, size))
            self._call(f"call free {size}", lambda: cudart.cudaFree(held.pop()))
            self._call(f"call malloc host {size}", partial(take, cudart.cudaMallocHost, size))
            self._call(f"call free host {size}", lambda: cudart.cudaFreeHost(held.pop()))
