"""Implicit synchronization on early devices: what orders two streams although no event does.

Devices of compute capability 3.0 and below have one queue of launches in the hardware. The guide's older editions (CUDA
C Programming Guide, "Implicit Synchronization", up to release 11) say what follows from that, and this module does it
on profiles that ask for it; later devices do none of it.

**Dependency checks.** An operation that must know whether a launch has ended, which is every later command in the
stream of that launch and a query of that stream,

- starts only when all blocks of all launches issued before it, in any stream, have started;
- holds up all launches issued after it, in any stream, until the launch in question has ended.

**Separators.** Two commands of different streams do not run at the same time when the host in between allocates
page-locked or device memory, sets or copies device memory, or launches a kernel with another split of L1 and shared
memory than the one before it. A command to the legacy default stream does so too, which ``stream.py`` sees to.

What is simplified: a separator does not keep the host. Nothing of this is an order to rely on, so observers are not
told of it and the hazard report goes on warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cudalab.sim.device.declaration import Allocates, Call
from cudalab.sim.device.queue.operation import Operation, Stream

if TYPE_CHECKING:
    from cudalab.sim.device.profile import Profile

CHECK = "dependency check"
SEPARATOR = "implicit synchronization"
_ALLOCATIONS = {
    Allocates.DEVICE: "device allocation",
    Allocates.MANAGED: "device allocation",
    Allocates.PAGE_LOCKED: "page-locked allocation",
}


class ImplicitOrder:
    """Keeps track of what was issued, and says what an operation waits for beyond its stream and its events.

    ``release(operation, rule, cause)`` is called when one of the starts that an operation waits for has come.
    """

    def __init__(self, profile: Profile, release: Callable[[Operation, str, Operation], None]) -> None:
        engines = profile.engines
        named: Iterable[str] = engines.get("separators", ())
        self._checks = bool(engines.get("dependency_checks", False))
        self._separators = frozenset(named)
        self._separating = frozenset(kind for kind, what in _ALLOCATIONS.items() if what in self._separators)
        self._release = release
        self._starting: dict[Operation, list[Operation]] = {}
        """Launches of which blocks have not started, and who waits for that."""
        self._checked: dict[Operation, None] = {}
        """Launches that an operation asks about; those that have ended are dropped when the next one is issued."""
        self._launches: dict[Stream, Operation] = {}
        """The last launch of each stream."""
        self._last: dict[Stream, Operation] = {}
        self._before: list[Operation] = []
        """The last operations of all streams at the last separator."""
        self._behind: set[Stream] = set()
        """Streams whose next operation comes after :attr:`_before` by stream order."""
        self._carveout = -1

    @staticmethod
    def wanted(profile: Profile) -> bool:
        """Does the profile ask for any of this?"""
        return bool(profile.engines.get("dependency_checks") or profile.engines.get("separators"))

    # -- separators ----------------------------------------------------------------------------------------------------

    def called(self, call: Call) -> None:
        """A call is made that may be a separator."""
        if call.allocates in self._separating:
            self._separate()

    def _separate(self) -> None:
        self._last = {stream: last for stream, last in self._last.items() if not last.done}
        self._before = list(self._last.values())
        self._behind.clear()

    def _separates(self, operation: Operation) -> bool:
        return operation.work.separator in self._separators

    # -- operations ----------------------------------------------------------------------------------------------------

    def queried(self, stream: Stream) -> None:
        """``cudaStreamQuery`` asks whether the stream's last launch has ended."""
        self._check(stream)

    def enqueued(self, operation: Operation) -> list[tuple[Operation, str]]:
        """What the operation waits for, and by which rule. Starts that it waits for are counted in ``waiting``."""
        stream = operation.stream
        waits: list[tuple[Operation, str]] = []
        separates = self._separates(operation)
        if separates or self._switches(operation):
            self._separate()
        if stream not in self._behind:
            waits += [(other, SEPARATOR) for other in self._before if other.stream is not stream and not other.done]
            self._behind.add(stream)
        if self._checks:
            if self._check(stream):
                for waiting in self._starting.values():
                    waiting.append(operation)
                    operation.waiting += 1
            if operation.work.blocks:
                self._checked = {launch: None for launch in self._checked if not launch.done}
                waits += [(launch, CHECK) for launch in self._checked if launch.stream is not stream]
                self._starting[operation] = []
                self._launches[stream] = operation
        self._last[stream] = operation
        if separates:
            self._separate()
        return waits

    def _check(self, stream: Stream) -> bool:
        """Something asks whether the last launch of the stream has ended; False when there is nothing to ask."""
        launch = self._launches.get(stream)
        if not self._checks or launch is None:
            return False
        if launch.done:
            del self._launches[stream]
            return False
        self._checked[launch] = None
        return True

    def _switches(self, operation: Operation) -> bool:
        """Does the launch want another split of L1 and shared memory than the last one that wanted any?"""
        if "cache configuration" not in self._separators or operation.work.carveout in (-1, self._carveout):
            return False
        before, self._carveout = self._carveout, operation.work.carveout
        return before != -1

    def all_started(self, operation: Operation) -> None:
        """All blocks of the operation have started."""
        for waiting in self._starting.pop(operation, ()):
            self._release(waiting, CHECK, operation)
