"""What can be watched of a device: calls, operations and the waits between them.

The hazard report, the timeline and the tests of properties are observers; none of them changes what the device does or
when. An observer overrides what it wants to know of. The methods run inside a call, so they must not make calls, and
they must not raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudalab.sim.device.caller import Place
    from cudalab.sim.device.declaration import Call
    from cudalab.sim.device.queue.operation import Operation, Stream


class Observer:
    """Base of all observers; every method does nothing."""

    def called(self, call: Call, place: Place, start: int, end: int) -> None:
        """The outermost runtime call kept the host from ``start`` to ``end`` (modelled ns)."""

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        """An operation entered its stream. ``waits`` are the operations that it comes after, ended ones included, and
        the rule that says so: ``stream order``, ``event`` or ``default stream``."""

    def context_made(self, number: int) -> None:
        """The primary context of a device was made, by whatever call."""

    def ordered(self, stream: Stream, operation: Operation) -> None:
        """All later work of ``stream`` comes after ``operation``, which has ended before anyone had to wait."""

    def captured_order(self) -> None:
        """A wait for an event became edges of a graph that is being captured."""

    def started(self, operation: Operation) -> None:
        """An operation starts; its modelled duration is not known yet."""

    def ended(self, operation: Operation) -> None:
        """An operation has ended and its effect is visible."""

    def failed(self, operation: Operation) -> None:
        """An operation ended with a fault, to which the device is lost; :meth:`reset` follows."""

    def absorbed(self, operations: Sequence[Operation], into: Operation) -> None:
        """Operations that have ended count as part of ``into``: what comes after it comes after them."""

    def host_waited(self, operation: Operation | None) -> None:
        """What the host does from now on comes after ``operation``, or after everything enqueued so far (``None``).
        A query that answers "complete" counts, too."""

    def host_waited_for_stream(self, stream: Stream) -> None:
        """What the host does from now on comes after everything in ``stream`` so far: its operations, told by
        :meth:`host_waited` as well, and the events that it waits for. Waiting for the legacy default stream means all
        blocking streams."""

    def host_waited_for_device(self, number: int) -> None:
        """What the host does from now on comes after everything on that one of several devices so far."""

    def host_function_raised(self, error: BaseException) -> None:
        """A function of the program, called in a stream, ended with an exception, which CUDA ignores."""

    def reset(self) -> None:
        """The device was reset or lost: nothing that was enqueued before will end."""
