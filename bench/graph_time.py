"""What graphs cost on a GPU: making, instantiating, uploading, launching and updating them, by nodes and shape.

    python -m bench.graph_time [--out FILE]

Runs on a real GPU with CuPy and ``cuda.bindings``, in under a minute, and writes a JSON file of medians. Host times are
those of a call from Python, in ns; device times are between two events, in ns. The constants of graphs in
``cudalab/sim/device/profiles`` come from such a run.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np
from cuda.bindings import driver
from cuda.bindings import runtime as cudart

SOURCE = r"""
extern "C" __global__ void nothing() { }
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}"""
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 10_000)
MOST_ON_DEVICE = 2000
REPEATS = 15


def checked(answer: tuple[Any, ...]) -> Any:
    """The value of a call; raises when it failed."""
    if answer[0].value:
        raise RuntimeError(f"{answer[0].name}")
    return answer[1] if len(answer) == 2 else answer[1:]


def host(call: Callable[[], Any], repeats: int = REPEATS, after: Callable[[], Any] = lambda: None) -> float:
    """Median ns of a call; ``after`` is not timed."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
        after()
    return statistics.median(times)


class Bench:
    """Graphs of one process."""

    def __init__(self) -> None:
        module = cp.RawModule(code=SOURCE)
        self.functions = {name: module.get_function(name) for name in ("nothing", "spin")}
        self.stream = checked(cudart.cudaStreamCreateWithFlags(1))
        self.events = [checked(cudart.cudaEventCreate()) for _ in range(2)]
        self.memory = cp.zeros(1 << 22, cp.uint8)
        self.module = module
        for function, arguments in (("nothing", ()), ("spin", (np.int64(1000),))):
            self.functions[function]((1,), (1,), arguments)
        self.sync()

    def sync(self) -> None:
        cudart.cudaDeviceSynchronize()

    def launch_params(self, cycles: int = 0) -> Any:
        params = driver.CUDA_KERNEL_NODE_PARAMS()
        name = "spin" if cycles else "nothing"
        params.func = driver.CUfunction(int(self.functions[name].kernel.ptr))
        params.gridDimX = params.gridDimY = params.gridDimZ = 1
        params.blockDimX, params.blockDimY, params.blockDimZ = 32, 1, 1
        if cycles:
            params.kernelParams = ((cycles,), (ctypes.c_longlong,))
        return params

    def node(self, graph: Any, after: list[Any], kind: str = "kernel", cycles: int = 0) -> Any:
        if kind == "kernel":
            return checked(driver.cuGraphAddKernelNode(graph, after, len(after), self.launch_params(cycles)))
        if kind == "memset":
            params = cudart.cudaMemsetParams()
            params.dst, params.value, params.width = self.memory.data.ptr, 0, 1024
            params.elementSize, params.height, params.pitch = 1, 1, 0
            return checked(cudart.cudaGraphAddMemsetNode(graph, after, len(after), params))
        if kind == "memcpy":
            pointer, size = self.memory.data.ptr, 1024
            return checked(
                cudart.cudaGraphAddMemcpyNode1D(
                    graph, after, len(after), pointer + 4096, pointer, size, cudart.cudaMemcpyKind(3)
                )
            )
        return checked(cudart.cudaGraphAddEmptyNode(graph, after, len(after)))

    def graph(self, count: int, shape: str = "chain", kind: str = "kernel", cycles: int = 0) -> Any:
        """``chain``: one after another; ``parallel``: all at once; ``diamonds``: 4 side by side, joined, and so on."""
        made = checked(cudart.cudaGraphCreate(0))
        before: list[Any] = []
        row: list[Any] = []
        for _ in range(count):
            node = self.node(made, before if shape != "parallel" else [], kind, cycles)
            if shape == "chain":
                before = [node]
            elif shape == "diamonds":
                row.append(node)
                if len(row) == 4:
                    before, row = row, []
        return made

    def device(self, executable: Any, repeats: int = REPEATS) -> float:
        """Median ns between events around a launch that waits behind a spinning kernel."""
        times = []
        start, end = self.events
        for _ in range(repeats):
            with cp.cuda.Stream.from_external(Handle(self.stream)):
                self.functions["spin"]((1,), (1,), (np.int64(200_000),))
            cudart.cudaEventRecord(start, self.stream)
            cudart.cudaGraphLaunch(executable, self.stream)
            cudart.cudaEventRecord(end, self.stream)
            cudart.cudaStreamSynchronize(self.stream)
            times.append(checked(cudart.cudaEventElapsedTime(start, end)) * 1e6)
        return statistics.median(times)

    def idle_device(self, executable: Any, repeats: int = REPEATS) -> float:
        """The same without anything before it."""
        times = []
        start, end = self.events
        for _ in range(repeats):
            cudart.cudaEventRecord(start, self.stream)
            cudart.cudaGraphLaunch(executable, self.stream)
            cudart.cudaEventRecord(end, self.stream)
            cudart.cudaStreamSynchronize(self.stream)
            times.append(checked(cudart.cudaEventElapsedTime(start, end)) * 1e6)
        return statistics.median(times)

    def by_size(self, count: int, shape: str) -> dict[str, float]:
        """What a graph of that many empty kernels costs."""
        repeats = 3 if count >= 1000 else 7
        found: dict[str, float] = {}
        begin = time.perf_counter_ns()
        made = self.graph(count, shape)
        found["build_host_ns"] = time.perf_counter_ns() - begin
        execs: list[Any] = []
        found["instantiate_host_ns"] = host(
            lambda: execs.append(checked(cudart.cudaGraphInstantiate(made, 0))), repeats
        )
        uploads = iter(execs)
        found["upload_host_ns"] = host(lambda: cudart.cudaGraphUpload(next(uploads), self.stream), 2, self.sync)
        found["first_launch_not_uploaded_host_ns"] = host(
            lambda: cudart.cudaGraphLaunch(execs[-1], self.stream), 1, self.sync
        )
        found["first_launch_uploaded_host_ns"] = host(
            lambda: cudart.cudaGraphLaunch(execs[0], self.stream), 1, self.sync
        )
        executable = execs[0]
        found["launch_host_ns"] = host(lambda: cudart.cudaGraphLaunch(executable, self.stream), REPEATS, self.sync)
        begin = time.perf_counter_ns()
        for _ in range(20):
            cudart.cudaGraphLaunch(executable, self.stream)
        found["launch_host_ns_back_to_back"] = (time.perf_counter_ns() - begin) / 20
        self.sync()
        found["total_ns_back_to_back"] = (time.perf_counter_ns() - begin) / 20
        found["update_host_ns"] = host(lambda: cudart.cudaGraphExecUpdate(executable, made), repeats)
        found["clone_host_ns"] = host(lambda: cudart.cudaGraphClone(made), 3)
        if count <= MOST_ON_DEVICE:
            found["device_ns"] = self.device(executable)
            found["device_idle_ns"] = self.idle_device(executable)
        for each in execs[1:]:
            cudart.cudaGraphExecDestroy(each)
        found["exec_destroy_host_ns"] = host(lambda: cudart.cudaGraphExecDestroy(executable), 1)
        found["destroy_host_ns"] = host(lambda: cudart.cudaGraphDestroy(made), 1)
        return found

    def capture(self, count: int) -> dict[str, float]:
        """What capturing launches costs."""
        function = self.functions["nothing"]
        stream = cp.cuda.Stream.from_external(Handle(self.stream))
        mode = cudart.cudaStreamCaptureMode(2)
        found: dict[str, float] = {}
        times: dict[str, list[float]] = {"begin": [], "launch": [], "end": [], "plain": []}
        for _ in range(7):
            with stream:
                begin = time.perf_counter_ns()
                cudart.cudaStreamBeginCapture(self.stream, mode)
                times["begin"].append(time.perf_counter_ns() - begin)
                begin = time.perf_counter_ns()
                for _ in range(count):
                    function((1,), (32,), ())
                times["launch"].append((time.perf_counter_ns() - begin) / count)
                begin = time.perf_counter_ns()
                made = checked(cudart.cudaStreamEndCapture(self.stream))
                times["end"].append(time.perf_counter_ns() - begin)
                cudart.cudaGraphDestroy(made)
                begin = time.perf_counter_ns()
                for _ in range(count):
                    function((1,), (32,), ())
                times["plain"].append((time.perf_counter_ns() - begin) / count)
                self.sync()
        for name, values in times.items():
            found[f"{name}_host_ns"] = statistics.median(values)
        return found

    def nodes(self) -> dict[str, dict[str, float]]:
        """Device time of chains of other nodes, and of kernels that last; host time of changes to one node."""
        found: dict[str, dict[str, float]] = {}
        for kind in ("memset", "memcpy", "empty"):
            found[kind] = {}
            for count in (1, 10, 100):
                executable = checked(cudart.cudaGraphInstantiate(self.graph(count, "chain", kind), 0))
                found[kind][str(count)] = self.device(executable)
        for cycles in (2000, 20_000):
            for shape in ("chain", "parallel", "diamonds"):
                entry = found[f"spin {cycles} {shape}"] = {}
                for count in (1, 4, 8, 32, 100):
                    executable = checked(cudart.cudaGraphInstantiate(self.graph(count, shape, cycles=cycles), 0))
                    entry[str(count)] = self.device(executable)
        made = checked(cudart.cudaGraphCreate(0))
        first = self.node(made, [])
        executable = checked(cudart.cudaGraphInstantiate(made, 0))
        params = self.launch_params()
        found["calls"] = {
            "create_host_ns": host(lambda: cudart.cudaGraphCreate(0), 50),
            "add_kernel_host_ns": host(lambda: driver.cuGraphAddKernelNode(made, [], 0, params), 50),
            "add_empty_host_ns": host(lambda: cudart.cudaGraphAddEmptyNode(made, [], 0), 50),
            "set_params_host_ns": host(lambda: driver.cuGraphExecKernelNodeSetParams(executable, first, params), 50),
            "set_enabled_host_ns": host(lambda: cudart.cudaGraphNodeSetEnabled(executable, first, 1), 50),
            "event_pair_ns": self.pair(),
            "stream_query_host_ns": host(lambda: cudart.cudaStreamQuery(self.stream), 50),
        }
        return found

    def pair(self) -> float:
        """Two events with nothing between, behind a spinning kernel."""
        times = []
        start, end = self.events
        for _ in range(REPEATS):
            with cp.cuda.Stream.from_external(Handle(self.stream)):
                self.functions["spin"]((1,), (1,), (np.int64(200_000),))
            cudart.cudaEventRecord(start, self.stream)
            cudart.cudaEventRecord(end, self.stream)
            cudart.cudaStreamSynchronize(self.stream)
            times.append(checked(cudart.cudaEventElapsedTime(start, end)) * 1e6)
        return statistics.median(times)


class Handle:
    """A stream by its number, for ``cp.cuda.Stream.from_external``."""

    def __init__(self, number: Any) -> None:
        self.number = int(number)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.number


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what graphs cost on a GPU.")
    parser.add_argument("--out", type=Path, default=Path("graph_time.json"))
    options = parser.parse_args()
    bench = Bench()
    bench.by_size(5, "chain")  # warm
    properties = cp.cuda.runtime.getDeviceProperties(0)
    found: dict[str, Any] = {"device": properties["name"].decode(), "driver": checked(cudart.cudaDriverGetVersion())}
    for shape in ("chain", "parallel", "diamonds"):
        found[shape] = {}
        for count in SIZES if shape != "diamonds" else SIZES[3:-1]:
            found[shape][str(count)] = bench.by_size(count, shape)
            options.out.write_text(json.dumps(found, indent=1))
    found["nodes"] = bench.nodes()
    found["capture"] = {str(count): bench.capture(count) for count in (10, 1000)}
    options.out.write_text(json.dumps(found, indent=1))
    print(json.dumps(found["nodes"], indent=1))


if __name__ == "__main__":
    main()
