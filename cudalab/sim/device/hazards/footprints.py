"""What a kernel touches, remembered for kernels that touch the same bytes in every launch.

Noting every byte that a launch touches takes time. But where neither an address nor a branch depends on what the kernel
loads from memory, the bytes follow from the parameters, the grid and the block alone: vector addition, a matrix product
or a stencil, in contrast to a histogram or a sparse product. For those, one launch with notes is enough, and the same
launch in a loop costs nothing more.

The compiler says of which kernels that holds (``Kernel.steady``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from cudalab.sim.device.hazards.accesses import ATOMIC, READ, WRITE, Ledger
from cudalab.sim.device.hazards.host import Shared
from cudalab.sim.device.queue.byte_ranges import Runs, StridedRange, Touched
from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.machine.launch.module import LoadedKernel

LaunchKey = tuple[object, ...]
Parts = tuple[tuple[int, tuple[StridedRange, ...], Runs], ...]
"""By allocation: how, and which bytes, as ranges where they are few and else as runs."""

Part = tuple[Ledger, int, StridedRange]
"""Where, how, and which bytes."""

_FEW = 32

_MOST_LAUNCHES = 256  # remembered of one kernel
_MOST_RUNS = 1 << 16


class Placement:
    """The bytes of a footprint, with the ledgers that they belong to now."""

    __slots__ = ("parts", "runs", "shared", "versions", "watched")

    def __init__(
        self,
        parts: list[Part],
        runs: list[tuple[Ledger, int, Runs]],
        shared: tuple[Shared, ...],
        watched: bool,
        versions: object,
    ) -> None:
        self.parts = parts
        self.runs = runs
        """What has many runs."""
        self.shared = shared
        """What the host can touch without a call."""
        self.watched = watched
        """Must the host keep off that meanwhile? Not where the kernel orders its accesses itself."""
        self.versions = versions
        """Of the memory and the ledgers for which this holds."""


class KernelFootprints:
    """What launches of one kernel touched."""

    def __init__(self, kernel: LoadedKernel, forget: Callable[[], object]) -> None:
        self._kernel = weakref.ref(kernel, lambda _: forget())
        self.launches: dict[LaunchKey, Parts] = {}
        self.placements: dict[LaunchKey, Placement] = {}
        """The same with the ledgers that the bytes belong to (report.py)."""

    def belongs_to(self, kernel: LoadedKernel) -> bool:
        """Is it this kernel's, and not that of one whose memory the kernel has now?"""
        return self._kernel() is kernel


class Footprints:
    """Remembered footprints of steady kernels."""

    def __init__(self) -> None:
        self._kernels: dict[int, KernelFootprints] = {}
        """By the kernel's identity: quicker than a dictionary of weak references, and asked for every launch."""

    def of(self, kernel: LoadedKernel) -> KernelFootprints:
        """What is known of a kernel."""
        key = id(kernel)
        known = self._kernels.get(key)
        if known is None or not known.belongs_to(kernel):
            forget = partial(self._kernels.pop, key, None)
            known = self._kernels[key] = KernelFootprints(kernel, forget)
        return known

    def take(
        self, launch: KernelOperation, touched: Touched, by_allocation: Callable[[Runs], Iterable[tuple[object, Runs]]]
    ) -> Parts:
        """What a launch has touched, as parts; remembered where the next one will touch the same."""
        parts = self.parts(touched, by_allocation)
        memory = self.of(launch.kernel)
        small = sum(len(runs) for _, _, runs in parts) <= _MOST_RUNS
        if small and launch.kernel.kernel.steady:
            if len(memory.launches) >= _MOST_LAUNCHES:
                memory.launches.clear()
                memory.placements.clear()
            memory.launches[key_of(launch)] = parts
        return parts

    @staticmethod
    def parts(touched: Touched, by_allocation: Callable[[Runs], Iterable[tuple[object, Runs]]]) -> Parts:
        """What was touched, by allocation."""
        return tuple(
            (kind, *_ranges_or_runs(here))
            for kind, runs in ((READ, touched.reads), (WRITE, touched.writes), (ATOMIC, touched.atomics))
            for _, here in (by_allocation(runs) if isinstance(runs, np.ndarray) else ())
        )


NO_RUNS = np.empty((0, 2), np.int64)


def _ranges_or_runs(runs: Runs) -> tuple[tuple[StridedRange, ...], Runs]:
    if len(runs) > _FEW:
        return (), runs
    return tuple((start, end - start, ()) for start, end in runs.tolist()), NO_RUNS


def key_of(launch: KernelOperation) -> LaunchKey:
    """What a steady kernel's bytes follow from."""
    return launch.launch.config, launch.launch.args
