"""A kernel launch in a stream: its time from sampled blocks, its run when its effect is due.

The configuration was checked when the launch was called. What goes wrong in the kernel comes up when it runs, which is
at its modelled end: the call that notices is a later one, as on a GPU.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.device.cost import KernelTime
from cudalab.sim.device.effect import hold_by_comparison
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.operation import Operation, Reach
from cudalab.sim.device.stream import Stream
from cudalab.sim.machine.launch import Outcome
from cudalab.sim.machine.launch import launch as run_kernel
from cudalab.sim.machine.limits import DeviceLimits
from cudalab.sim.machine.memory import Memory
from cudalab.sim.machine.module import LoadedKernel

_TRACED_STORE_COST = 64  # comparing this many bytes costs about what tracing one thread's stores does


class Launch(Operation):
    """One launch. ``timer`` gives its modelled time and is asked at its start; ``show`` takes what it prints."""

    kind = "kernel"
    engine = "sm"

    def __init__(
        self,
        kernel: LoadedKernel,
        stream: Stream,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: bytes,
        shared: int,
        *,
        memory: Memory,
        limits: DeviceLimits,
        timer: Callable[[Launch], KernelTime],
        show: Callable[[str], None],
        time_limit: float,
        workers: int,
    ) -> None:
        super().__init__(kernel.name, stream)
        self.kernel, self.grid, self.block, self.args, self.shared = kernel, grid, block, args, shared
        self._memory, self._limits, self._timer, self._show = memory, limits, timer, show
        self._time_limit, self._workers = time_limit, workers
        self._reach: Reach = ()
        self._reach_known = False
        self.on_take: Callable[[], None] | None = None

    def begin(self) -> int:
        if self.on_take is not None:
            self.on_take()
        time = self._timer(self)
        self.terms, self.bound, self.peak_fraction = time.terms, time.bound, time.peak_fraction
        self.share, self.tail_share, self.tail_from = time.share, time.tail_share, time.tail_from
        self.demand = time.demand
        return time.ns

    def run(self) -> None:
        self._check(self._launch())

    def run_held(self) -> Callable[[], None]:
        if self._only_atomics():
            self.run()
            return lambda: None
        reach = self.writes()
        threads = self.grid[0] * self.grid[1] * self.grid[2] * self.block[0] * self.block[1] * self.block[2]
        written = self._memory.in_use if reach is None else sum(size for _, size in reach)
        if self._reaches_registered() or written > threads * _TRACED_STORE_COST:
            outcome = self._launch(hold_stores=True)
            self._check(outcome)
            assert outcome.held is not None
            return outcome.held.apply
        return hold_by_comparison(self._memory, reach, self.run)

    def _launch(self, *, hold_stores: bool = False) -> Outcome:
        return run_kernel(
            self.kernel,
            self.grid,
            self.block,
            self.args,
            self.shared,
            workers=self._workers,
            time_limit=self._time_limit,
            clock_ns=self.start,
            hold_stores=hold_stores,
            limits=self._limits,
        )

    def _check(self, outcome: Outcome) -> None:
        if outcome.text:
            self._show(outcome.text)
        if outcome.fault is not None:
            if outcome.fault.assertion:
                print(outcome.fault.assertion.rstrip("\n"), file=sys.stderr)
            raise CudaError(cudaError_t(outcome.fault.code), str(outcome.fault), sticky=True)

    # -- what it may touch ---------------------------------------------------------------------------------------------

    def _addresses(self) -> list[int]:
        """Values of the parameters that may be addresses."""
        return [struct.unpack_from("<Q", self.args, offset)[0] for offset in self.kernel.pointer_offsets]

    def reads(self) -> Reach:
        if not self._reach_known:
            self._reach, self._reach_known = self._find_reach(), True
        return self._reach

    def writes(self) -> Reach:
        return self.reads() if self.kernel.writes_global else ()

    def _find_reach(self) -> Reach:
        """Whole allocations: those that parameters point into, and the module's variables. ``None`` (all) when the
        kernel loads 8-byte words that may be addresses."""
        if self.kernel.follows_pointers:
            return None
        found = {(a.pointer, a.size) for a in map(self._memory.find, self._addresses()) if a is not None}
        module = self.kernel.module
        for name in module.program.globals:
            found.add(module.global_variable(name))
        return tuple(sorted(found))

    def _reaches_registered(self) -> bool:
        return bool(self._memory.ranges) and any(
            base <= address < base + size for address in self._addresses() for base, size in self._memory.ranges
        )

    def host_visible(self) -> list[tuple[int, int]]:
        """Pinned and managed memory that it may read: the host can change it without a call."""
        reach = self.reads()
        allocations = list(self._memory) if reach is None else [self._memory.find(start) for start, _ in reach]
        return [(a.pointer, a.size) for a in allocations if a is not None and a.kind in ("pinned", "managed")]

    @property
    def starts_at_once(self) -> bool:
        return bool(self._memory.ranges and self._reaches_registered()) or bool(self.host_visible())

    def _only_atomics(self) -> bool:
        """Are all of its global stores atomics?"""
        sites = [s for s in self.kernel.kernel.sites if s.space in (Space.GLOBAL, Space.GENERIC)]
        kinds = {site.kind for site in sites}
        return SiteKind.ATOMIC in kinds and SiteKind.STORE not in kinds
