"""Messages of the compiler's processes: orders to a helper, and its replies."""

from __future__ import annotations

from msgspec import Struct

from cudalab.sim.compiler.program import Program


class Limits(Struct, frozen=True):
    """What one request may use before it is stopped."""

    seconds: float = 30.0
    """Wall-clock time."""
    memory: int = 3 << 30
    """Bytes of address space that the helper may add (where the system cannot bound that: of resident memory).
    0: any."""
    ptx: int = 32 << 20
    """Bytes of PTX that are still translated; 0: any."""


class Compile(Struct, frozen=True, tag=True):
    """CUDA C++ to a program."""

    source: str
    name: str
    """What diagnostics call the source."""
    arguments: list[str]
    """For NVRTC."""
    expressions: list[str] = []
    """C++ names of template instances to make."""
    restricted: bool = False
    """While grading: CUDA's own headers only."""


class Build(Struct, frozen=True, tag=True):
    """PTX to a program."""

    ptx: str


class Native(Struct, frozen=True, tag=True):
    """PTX to the object code of one variant."""

    ptx: str
    variant: str


class MakeRuntime(Struct, frozen=True, tag=True):
    """Make the object that every program is linked with."""


class MakeFaultHandler(Struct, frozen=True, tag=True):
    """Make the fault handler that watches page-locked memory."""


Request = Compile | Build | Native | MakeRuntime | MakeFaultHandler


class Order(Struct, frozen=True):
    """A request and its limits."""

    request: Request
    limits: Limits


class Ready(Struct, frozen=True, tag=True):
    """A helper has loaded its libraries. ``walls``: what bounds it of ``landlock`` and ``bwrap``."""

    walls: tuple[str, ...] = ()


class Refusal(Struct, frozen=True, tag=True):
    """A request has no result. ``kind`` as in ``HelperFailure``; file and line where they are known."""

    kind: str
    message: str
    log: str = ""
    file: str = ""
    line: int = 0


class Compiled(Struct, frozen=True, tag=True):
    """The answer to ``Compile`` and ``Build``."""

    program: Program


class ObjectCode(Struct, frozen=True, tag=True):
    """The answer to the other requests: a relocatable object, and the kernels' entry points in it."""

    code: bytes
    entries: list[str] = []
    invalid: list[str] = []
    """Texts of ``InvalidWideCode``."""


Reply = Ready | Refusal | Compiled | ObjectCode
