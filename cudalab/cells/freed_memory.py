"""Memory that a cell needs no longer goes back to the system.

A launch's trace, a check or a figure takes tens of megabytes for a moment. What the C library keeps of that
(``sim/free_pages.py``), 20 to 90 MB in the chapters of the course, a machine that many learners share has better uses
for.

Pages of the simulated device's memory in which kernels have stored nothing but zeros are given back as well, and come
anew when something is stored: sums of empty arrays fill hundreds of megabytes with them. Looking at 256 MB takes some
30 ms, once, and less where there is anything else in a page. Large maps of what launches have touched go, and the pages
of LLVM's library, which links compiled kernels (45 MB of a file, which the system keeps for all who use it).
"""

from __future__ import annotations

import sys

from cudalab.sim import free_pages


def give_back(_: object = None) -> None:
    """Return free pages and pages of zeros to the system; a hook of IPython, too."""
    if sys.platform == "linux":
        _device_memory()
    free_pages.give_back()
    if loader := sys.modules.get("cudalab.sim.compiler.loader"):  # else nothing has been linked
        loader.unmap_linker()


def _device_memory() -> None:
    current = sys.modules.get("cudalab.sim.device.current")  # else there is no simulated device
    device = current.existing_device() if current else None
    if device is None:
        return
    from cudalab.sim.machine.trace import footprint

    with device.state.lock:  # nothing runs meanwhile
        memory = device.memory
        footprint.forget_large(memory)
        for allocation in memory:
            if allocation.kind == "device":
                memory.arena.give_back_zeros(allocation.pointer - memory.arena.base, allocation.size)
