"""Sanitize every launch of a program that runs on the simulated device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.machine.sanitizer.checked_launch import SanitizerResult
from cudalab.sim.machine.sanitizer.sanitize import check_launch


@contextmanager
def checked_launches(**options: Any) -> Iterator[list[tuple[str, SanitizerResult]]]:
    """Within it, each launch is checked with all tools, on the memory that it finds, before it takes effect. Gives the
    list of kernels' names and what was found."""
    found: list[tuple[str, SanitizerResult]] = []
    original = KernelOperation._execute

    def launch(self: KernelOperation, **arguments: Any) -> Any:
        checked = check_launch(self.launch, **options)
        found.append((self.kernel.name, checked))
        return original(self, **arguments)

    KernelOperation._execute = launch  # type: ignore[method-assign]
    try:
        yield found
    finally:
        KernelOperation._execute = original  # type: ignore[method-assign]
