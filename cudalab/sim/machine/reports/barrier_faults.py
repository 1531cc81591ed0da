"""Deadlocks of a block, in words: which threads wait at which barrier.

``__syncthreads()`` waits for all threads of the block that have not exited; ``__syncwarp(mask)`` and shuffles for all
lanes in their mask. When threads wait for each other at different barriers nothing ends the wait. A GPU hangs.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from typing import TYPE_CHECKING

from cudalab.sim.abi import SiteKind
from cudalab.sim.machine.reports.finding import place_of, triple

if TYPE_CHECKING:
    from cudalab.sim.abi import Context
    from cudalab.sim.compiler.program import Kernel, Site
    from cudalab.sim.machine.launch.configuration import Dim3
    from cudalab.sim.machine.launch.module import LoadedKernel


EXITED = 0xFFFF_FFFF
FLAGS = 0x6000_0000
"""Bits that the block driver adds to a resume point: ready to resume, or held back."""


def describe_waits(states: int, context: Context, kernel: LoadedKernel, block: Dim3) -> str:
    """A sentence for each barrier: how many threads wait there, and the first of them; at warp operations, the mask.

    Args:
        states: address of the ``uint32`` resume points, one a thread.
        context: the block's context.
        kernel: the kernel.
        block: threads in x, y, z.
    """
    values = (ctypes.c_uint32 * context.threads).from_address(states or context.states)
    groups: dict[tuple[int, int | None], list[int]] = defaultdict(list)
    for thread, value in enumerate(values):
        groups[value, _mask(value, thread, context, kernel.kernel)].append(thread)
    sentences = []
    for (value, mask), threads in sorted(groups.items(), key=lambda item: item[1][0]):
        one = len(threads) == 1
        first = "({},{},{})".format(*triple(threads[0], block))
        who = f"Thread {first}" if one else f"{len(threads)} threads, the first {first},"
        site = site_of_state(value, kernel.kernel)
        if site is None:
            sentences.append(f"{who} {'has' if one else 'have'} exited.")
            continue
        place = place_of(site.location, kernel.module.program)
        text = f": {place.text}" if place and place.text else "."
        where = (f" at {place}" if place else "") + (f" with the mask {mask:#010x}" if mask is not None else "")
        sentences.append(f"{who} wait{'s' if one else ''}{where}{text}")
    return "\n".join(sentences)


def _mask(state: int, thread: int, context: Context, kernel: Kernel) -> int | None:
    """The mask of the warp operation at which a thread waits; None where it waits for something else. Lanes of a
    diverged warp leave it in the first row of the scratch memory (``runtime/layout.py``)."""
    site = site_of_state(state, kernel)
    if site is None or not site.synchronises_lanes or not kernel.scratch_bytes:
        return None
    return ctypes.c_uint32.from_address(context.scratch + 4 * thread).value


def waiting_sites(states: int, context: Context, kernel: Kernel) -> list[Site]:
    """The barriers and warp operations at which threads of the block wait, in the order of their first threads."""
    values = (ctypes.c_uint32 * context.threads).from_address(states or context.states)
    sites = (site_of_state(value, kernel) for value in dict.fromkeys(values))
    return [site for site in sites if site is not None]


def site_of_state(state: int, kernel: Kernel) -> Site | None:
    """The barrier or warp operation at which a thread with this resume point waits; None when it has exited.

    Resume points count suspension points from 1, in the order of their sites.
    """
    if state == EXITED:
        return None
    number = state & ~FLAGS
    if kernel.first_point >= 0:
        return kernel.sites[kernel.first_point + number - 1] if 1 <= number <= kernel.points else None
    points = [site for site in kernel.sites if site.kind in (SiteKind.BARRIER, SiteKind.WARP, SiteKind.POLL)]
    return points[number - 1] if 1 <= number <= len(points) else None
