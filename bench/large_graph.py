"""What a graph of many nodes costs the simulated device: captured, instantiated, launched and awaited.

    python -m bench.large_graph [--nodes 10000] [--runs 3]

Empty kernels are launched by CuPy into a stream that captures. Seconds of processor time and by the clock, the first
run behind one of ten nodes; on a GPU (``CUDALAB_DEVICE=gpu``) those of its host.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("CUDALAB_DEVICE", "sim")

from bench.graph_nodes import checked
from cudalab import cp, cudart

PARTS = ("capture", "instantiate", "launch and wait")


def once(nodes: int) -> dict[str, float]:
    """Seconds of processor time by part, and by the clock for all."""
    kernel = cp.RawKernel('extern "C" __global__ void empty() {}', "empty")
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        kernel((1,), (32,), ())
    stream.synchronize()
    begun, marks = time.perf_counter(), [time.process_time()]
    checked(cudart.cudaStreamBeginCapture(stream.ptr, cudart.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed))
    with stream:
        for _ in range(nodes):
            kernel((1,), (32,), ())
    graph = checked(cudart.cudaStreamEndCapture(stream.ptr))
    marks.append(time.process_time())
    executable = checked(cudart.cudaGraphInstantiate(graph, 0))
    marks.append(time.process_time())
    checked(cudart.cudaGraphLaunch(executable, stream.ptr))
    stream.synchronize()
    marks.append(time.process_time())
    clock = time.perf_counter() - begun
    checked(cudart.cudaGraphExecDestroy(executable))
    checked(cudart.cudaGraphDestroy(graph))
    found = {part: after - before for part, before, after in zip(PARTS, marks[:-1], marks[1:], strict=True)}
    return {**found, "all": marks[-1] - marks[0], "all by the clock": clock}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    once(10)
    for _ in range(args.runs):
        print(
            f"{args.nodes} nodes:", ", ".join(f"{part} {seconds:.2f} s" for part, seconds in once(args.nodes).items())
        )


if __name__ == "__main__":
    main()
