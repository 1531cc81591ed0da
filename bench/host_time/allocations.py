"""What allocating and freeing keeps the host for, by how much there is already.

python -m bench.host_time.allocations --out FILE.json      (on a GPU, without the simulated device)

Each case is a process of its own, whose first allocations are those of the case: page-locked or device memory of one
size, with a little other memory of the same kind held or with none. First ten pairs, an allocation and its free; then
as many allocations as ``HELD`` says, all kept, and their frees in the order in which they were made. Figures are
microseconds, in order. The device is idle all the time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

KB, MB = 1 << 10, 1 << 20
SIZES = {
    "page-locked": (4 * KB, 64 * KB, 256 * KB, MB, 2 * MB, 4 * MB, 16 * MB, 64 * MB),
    "device": (4 * KB, 64 * KB, 512 * KB, MB, 2 * MB, 16 * MB, 64 * MB),
}
HELD = {4 * KB: 40, 64 * KB: 40, 256 * KB: 20, 512 * KB: 12, MB: 12, 2 * MB: 6, 4 * MB: 6, 16 * MB: 4, 64 * MB: 2}
"""How many allocations of a size are kept at a time."""
OTHER = 4 * KB
"""Bytes of what else is held."""
PAIRS = 10
Answer = dict[str, list[Any]]


def measure(runtime: Any, clock: Callable[[], float], kind: str, size: int, other: bool) -> Answer:
    """The figures of one case; ``clock`` in microseconds."""
    of_kind = {
        "page-locked": (runtime.cudaMallocHost, runtime.cudaFreeHost),
        "device": (runtime.cudaMalloc, runtime.cudaFree),
    }
    allocate, free = of_kind[kind]

    def timed(call: Callable[[int], Any], argument: int) -> tuple[float, int]:
        begin = clock()
        code, *values = call(argument)
        took = round(clock() - begin, 2)
        if int(code) != 0:
            raise RuntimeError(f"a call failed: {code!r}")
        return took, int(values[0]) if values else 0

    timed(runtime.cudaFree, 0)
    runtime.cudaDeviceSynchronize()
    others = [timed(allocate, OTHER)[1]] if other else []
    pairs = []
    for _ in range(PAIRS):
        took, pointer = timed(allocate, size)
        pairs.append((took, timed(free, pointer)[0]))
    held = [timed(allocate, size) for _ in range(HELD[size])]
    frees = [timed(free, pointer)[0] for _, pointer in held]
    for pointer in others:
        timed(free, pointer)
    return {"pairs": pairs, "allocations": [took for took, _ in held], "frees": frees}


def _process(kind: str, size: int, other: bool, answer: Connection) -> None:
    from cuda.bindings import runtime

    answer.send(measure(runtime, lambda: time.perf_counter_ns() / 1000, kind, size, other))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.host_time.allocations", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    path = parser.parse_args().out
    from cuda.bindings import runtime  # noqa: F401 (loaded once, for all processes; none has called anything yet)

    found: dict[str, Any] = {}
    processes = multiprocessing.get_context("fork")
    for kind, sizes in SIZES.items():
        for size in sizes:
            for other in (False, True):
                here, there = processes.Pipe()
                process = processes.Process(target=_process, args=(kind, size, other, there))
                process.start()
                there.close()
                name = f"{kind}, {size}, {'beside others' if other else 'alone'}"
                try:
                    found[name] = here.recv()
                    print(name, found[name]["pairs"][:2], flush=True)
                except EOFError:
                    print(f"failed: {name}", flush=True)
                process.join()
                path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
