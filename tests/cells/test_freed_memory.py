"""Memory that a cell has freed."""

import os
import subprocess
import sys

import psutil
import pytest

from cudalab import cp
from cudalab.cells import freed_memory

KEPT = """
import ctypes, psutil
from cudalab.cells import freed_memory

library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]
pieces = [library.malloc(100_000) for _ in range(1000)]  # 100 MB, too small to be mapped each on its own
for piece in pieces:
    ctypes.memset(piece, 1, 100_000)
for piece in pieces[:-1]:  # the last one holds the heap's end
    library.free(piece)
before = psutil.Process().memory_info().rss
freed_memory.give_back()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(os, "confstr"), reason="glibc alone keeps and gives back")
def test_what_lies_below_something_in_use_goes_back_to_the_system():
    found = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 80e6


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux only")
def test_pages_that_a_kernel_has_filled_with_zeros_go_back_to_the_system():
    size = 64 << 20
    sums = cp.RawKernel(
        'extern "C" __global__ void sums(float *a, float *b) { int i = blockIdx.x * 256 + threadIdx.x; a[i] += b[i]; }',
        "sums",
    )
    a, b = cp.empty(size // 4, cp.float32), cp.zeros(size // 4, cp.float32)
    other = cp.arange(4 << 20, dtype=cp.int32)  # 16 MiB with 0 in its first word
    sums((size // 1024,), (256,), (a, b))
    a[-1] = 3
    cp.cuda.Device().synchronize()
    before = psutil.Process().memory_full_info().uss
    freed_memory.give_back()
    assert before - psutil.Process().memory_full_info().uss > size - (6 << 20)
    assert float(a.sum()) == 3 and float(a[-1]) == 3
    assert (other == cp.arange(4 << 20)).all()
    sums((size // 1024,), (256,), (a, other.view(cp.float32)[:1].repeat(size // 4)))
    assert float(a[-1]) == 3


def test_a_shell_gives_back_after_each_cell():
    import cudalab

    class Shell:
        def __init__(self):
            self.events, self.registered = self, []

        def register(self, event, handler):
            self.registered.append((event, handler))

        def __getattr__(self, name):
            return lambda *arguments, **options: None

    shell = Shell()
    cudalab.load_ipython_extension(shell)
    assert ("post_run_cell", freed_memory.give_back) in shell.registered


UNMAPPED = """
from pathlib import Path
from cudalab.cells import freed_memory
from cudalab.sim.compiler import loader

def mapped():
    ours, kilobytes = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        ours = "libllvmlite" in line if line[0].islower() or line[0].isdigit() else ours
        kilobytes += int(line.split()[1]) if ours and line.startswith("Rss:") else 0
    return kilobytes

loader._ready_linker()
before = mapped()
freed_memory.give_back()
after = mapped()
loader._linker.cache_clear()
loader._ready_linker()
print(before, after, mapped())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux only")
def test_pages_of_llvm_go_and_come_again():
    found = subprocess.run([sys.executable, "-c", UNMAPPED], capture_output=True, text=True, check=True)
    before, after, again = map(int, found.stdout.split())
    assert before > 20_000  # kB
    assert after < before / 3
    assert again > after


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux only")
def test_large_maps_of_what_launches_touch_go_back():
    ones = cp.RawKernel(
        'extern "C" __global__ void ones(float *a) { a[blockIdx.x * 256 + threadIdx.x] = 1; }',
        "ones",
    )
    memory = cp.empty(32 << 20, cp.float32)
    from cudalab.sim.device import current
    from cudalab.sim.machine.trace import footprint

    cudalab_memory = current.existing_device().memory
    maps = footprint.borrow(cudalab_memory)
    maps.touched = 1 << 30
    footprint._idle[cudalab_memory].append(maps)
    small = footprint.Marks(1 << 30)
    footprint._idle[cudalab_memory].append(small)
    freed_memory.give_back()
    kept = footprint._idle[cudalab_memory]
    assert any(one is small for one in kept) and not any(one is maps for one in kept)
    ones((1 << 17,), (256,), (memory,))
    assert (memory == 1).all()
