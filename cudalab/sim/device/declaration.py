"""The declaration of a runtime call: made once, where the call is defined, and asked by everything that handles calls.

The decorator in ``calls/group.py`` declares a method to be a runtime call: its names in CUDA, the host time that it
takes, what it allocates and what it waits for. Parameters and result are those of the method; the annotations
:data:`Address`, :data:`Handle` and the like say what a number stands for. Recording, replay, the timeline, implicit
synchronization and the hazard report derive from the declaration what they need. :data:`CALLS` lists all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cached_property
from typing import Annotated, Any, get_type_hints


class Role(Enum):
    """What a number, bytes or a function in a signature stands for."""

    ADDRESS = auto()
    """An address of unified memory: of the device, or of the host."""
    HANDLE = auto()
    """A number that another call has returned: a stream, an event, a module …"""
    PACKED = auto()
    """Bytes that may hold addresses at multiples of 8: a parameter buffer."""
    LOCAL = auto()
    """A function of this process, which no log can hold."""


Address = Annotated[int, Role.ADDRESS]
Handle = Annotated[int, Role.HANDLE]
AddressOrHandle = Annotated[int, Role.ADDRESS, Role.HANDLE]
PackedBytes = Annotated[bytes, Role.PACKED]
HostCallback = Annotated[Callable[[], None], Role.LOCAL]
StatusCallback = Annotated[Callable[[int], None], Role.LOCAL]


class Allocates(Enum):
    """Which memory a call makes known to the program."""

    DEVICE = auto()
    MANAGED = auto()
    PAGE_LOCKED = auto()
    REGISTERED = auto()
    POOLED = auto()

    @property
    def host_visible(self) -> bool:
        """Can the host read and write it by plain loads and stores?"""
        return self in (Allocates.MANAGED, Allocates.PAGE_LOCKED, Allocates.REGISTERED)

    @property
    def on_device(self) -> bool:
        """Does it take up the device's memory (managed memory, which may move there, included)?"""
        return self in (Allocates.DEVICE, Allocates.MANAGED, Allocates.POOLED)


class Waits(Enum):
    """What the host waits for in a call."""

    NOTHING = auto()
    STREAM = auto()
    """Everything in one stream."""
    EVENT = auto()
    DEVICE = auto()
    """Everything that was enqueued."""
    OWN_WORK = auto()
    """What the call itself enqueues, when its arguments or ``CUDA_LAUNCH_BLOCKING`` say so."""


class InCapture(Enum):
    """What becomes of a call while a stream captures a graph. What it does with a capturing stream of its own is not
    part of it."""

    ALLOWED = auto()
    UNSAFE = auto()
    """Refused where the modes of the captures and of the thread forbid what may be unsafe."""
    REFUSED = auto()
    """Refused in every mode: it waits for all streams."""


class Call:
    """The declaration of one runtime call."""

    def __init__(
        self,
        method: Callable[..., Any],
        cuda: tuple[str, ...],
        *,
        cost: str | None,
        when_lost: bool,
        waits: Waits,
        allocates: Allocates | None,
        orders_streams: bool,
        needs_context: bool,
        observed: bool,
        in_capture: InCapture,
    ) -> None:
        self.name = method.__name__
        """The method of ``Device``."""
        self.cuda = cuda
        """CUDA's functions that make this call, the usual one first; empty where CUDA has none."""
        self.cost = cost
        """The host constant of the profile that it takes; None: it depends, and the call charges itself."""
        self.when_lost = when_lost
        """Does it work on a device that is lost to a fault in a kernel?"""
        self.waits = waits
        self.allocates = allocates
        self.orders_streams = orders_streams
        """Does it make later work of one stream wait for work of another?"""
        self.needs_context = needs_context
        """Does the first such call make the device's primary context (``context.py``)?"""
        self.observed = observed
        """Is it a call of the program, and observers are told? Not what a library does beside its calls."""
        self.in_capture = in_capture
        self._method = method

    @property
    def title(self) -> str:
        """What a learner knows it by."""
        return self.cuda[0] if self.cuda else self.name

    @property
    def family(self) -> str:
        """The module of ``calls`` that it is declared in: ``streams``, ``graphs`` …"""
        return self._method.__module__.rpartition(".")[2]

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The type of each parameter by its name, in order, :data:`Annotated` where it has a role."""
        hints = self._hints
        return {name: hints[name] for name in list(inspect.signature(self._method).parameters)[1:]}

    @cached_property
    def result(self) -> Any:
        """The type of the result."""
        return self._hints["return"]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._method, include_extras=True)

    @property
    def takes_device_memory(self) -> bool:
        return self.allocates is not None and self.allocates.on_device

    def __repr__(self) -> str:
        return f"<call {self.name}>"


CALLS: dict[str, Call] = {}
"""Every runtime call of the simulated device by its name."""
