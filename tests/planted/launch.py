"""Launch one planted bug on a GPU, for compute-sanitizer to watch: ``python -m tests.planted.launch NAME``.

Memory comes straight from cudaMalloc: within CuPy's pool an access outside an array is still inside an allocation.
"""

from __future__ import annotations

import sys

import cupy as cp

from tests.corpus.run import toolkit_folders
from tests.planted.bugs import BUGS


def main(name: str) -> None:
    bug = next(bug for bug in BUGS if bug.name == name)
    cp.cuda.set_allocator(None)
    kernel = cp.RawKernel(
        bug.wrong, "k", ("-std=c++17", "-lineinfo", *toolkit_folders()), enable_cooperative_groups=bug.cooperative
    )
    kernel(bug.grid, bug.block, bug.arguments(cp), shared_mem=bug.shared)
    cp.cuda.runtime.deviceSynchronize()


if __name__ == "__main__":
    main(sys.argv[1])
