"""What is due once work that was enqueued before has started.

``cudaCtxResetPersistingL2Cache`` returns at once, and does not wait for kernels. NVIDIA's documentation says that it
takes effect when it returns. On an H200 it takes effect behind kernels that were launched before it as well: lines that
these make persist, though they run later, are normal afterwards (docs/evidence/2026-11-23-l2.md). Here a launch takes
its place in the L2 when it starts, so a reset comes when everything before it on its device has started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudalab.sim.device.queue.operation import Operation


class AfterStarts:
    """Acts, each with the operations that it waits for."""

    def __init__(self) -> None:
        self._due: list[tuple[set[Operation], Callable[[], None]]] = []

    def __bool__(self) -> bool:
        return bool(self._due)

    def add(self, operations: Iterable[Operation], act: Callable[[], None]) -> None:
        """Act when those of the operations that have not started yet have."""
        waits = {operation for operation in operations if operation.start < 0}
        if waits:
            self._due.append((waits, act))
        else:
            act()

    def began(self, operation: Operation) -> None:
        """An operation has started, and taken its place in the L2."""
        for waits, act in self._due:
            waits.discard(operation)
            if not waits:
                act()
        self._due = [(waits, act) for waits, act in self._due if waits]
