"""Sanitize every launch of a program that runs on the simulated device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.machine.launch.module import Launch
from cudalab.sim.machine.sanitizer.checked_launch import SanitizerResult
from cudalab.sim.machine.sanitizer.sanitize import check_launch


@contextmanager
def checked_launches(alike: int | None = None, **options: Any) -> Iterator[list[tuple[str, SanitizerResult]]]:
    """Within it, each launch is checked with all tools, on the memory that it finds, before it takes effect. Gives the
    list of kernels' names and what was found.

    ``alike``: how many launches of one kernel with one configuration and the same arguments are checked; benchmarks
    repeat one many times.
    """
    found: list[tuple[str, SanitizerResult]] = []
    launched: Counter[Launch] = Counter()
    original = KernelOperation._execute

    def launch(self: KernelOperation, **arguments: Any) -> Any:
        launched[self.launch] += 1
        if alike is None or launched[self.launch] <= alike:
            found.append((self.kernel.name, check_launch(self.launch, **options)))
        return original(self, **arguments)

    KernelOperation._execute = launch  # type: ignore[method-assign]
    try:
        yield found
    finally:
        KernelOperation._execute = original  # type: ignore[method-assign]
