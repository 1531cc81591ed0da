"""Launch one planted bug on a GPU, for compute-sanitizer to watch: ``python -m tests.planted.launch NAME``.

Memory comes straight from cudaMalloc: within CuPy's pool an access outside an array is still inside an allocation.
"""

from __future__ import annotations

import sys

import cupy as cp
import numpy as np

from tests.corpus.run import toolkit_folders
from tests.planted.bugs import BUGS
from tests.planted.planted import Array


def main(name: str) -> None:
    bug = next(bug for bug in BUGS if bug.name == name)
    cp.cuda.set_allocator(None)
    random = np.random.default_rng(sum(map(ord, bug.name)))
    kernel = cp.RawKernel(
        bug.wrong, "k", ("-std=c++17", "-lineinfo", *toolkit_folders()), enable_cooperative_groups=bug.cooperative
    )
    kernel(bug.grid, bug.block, tuple(_argument(given, random) for given in bug.args), shared_mem=bug.shared)
    cp.cuda.runtime.deviceSynchronize()


def _argument(given: Array | int | float, random: np.random.Generator) -> object:
    if not isinstance(given, Array):
        return np.float32(given) if isinstance(given, float) else np.int32(given) if given else np.uint64(0)
    values = given.values(random)
    if given.fill == "none":
        return cp.empty(given.count, given.dtype)
    array = cp.asarray(values)
    if given.fill == "freed":
        pointer = cp.cuda.runtime.malloc(array.nbytes)
        cp.cuda.runtime.free(pointer)
        return np.uint64(pointer)
    return array


if __name__ == "__main__":
    main(sys.argv[1])
