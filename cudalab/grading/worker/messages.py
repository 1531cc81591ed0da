"""Messages between the grader and a worker: MessagePack of declared types, nothing else.

One side speaks at a time. The grader asks (:data:`Request`) and serves calls of the worker (:data:`Demand`) until the
answer comes (:class:`Done` or :class:`Raised`); while it serves one, it may ask in turn: for a host function to be run,
or for bytes of the worker's memory. Nothing that a worker sends is trusted: it is decoded as the type declared here, an
argument of a runtime call as the type that the call declares, and a number out of turn ends the question.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from cudalab.sim.compiler.program import Program

# -- values ------------------------------------------------------------------------------------------------------------


class Array(Struct, frozen=True, tag="array"):
    """A NumPy array: in memory that both sides have at ``address``, or with its bytes."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    data: bytes | None = None
    """None: it lies in shared memory."""


class DeviceArray(Struct, frozen=True, tag="device array"):
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int


class Scalar(Struct, frozen=True, tag="scalar"):
    """A NumPy scalar."""

    dtype: str
    data: bytes


class Bytes(Struct, frozen=True, tag="bytes"):
    data: bytes


class Named(Struct, frozen=True, tag="named"):
    """An enumerator or a handle of ``cuda.bindings``."""

    module: str
    """``runtime`` or ``driver``."""
    name: str
    number: int


class Stream(Struct, frozen=True, tag="stream"):
    """A stream of CuPy."""

    pointer: int
    device: int


class Event(Struct, frozen=True, tag="event"):
    """An event of CuPy."""

    pointer: int


class Graph(Struct, frozen=True, tag="graph"):
    """A captured graph of CuPy, instantiated."""

    graph: int
    executable: int


class Function(Struct, frozen=True, tag="function"):
    """A function of the side that sends it, by its number there."""

    number: int


class Returned(Struct, frozen=True, tag="returned"):
    """A function of the other side comes back."""

    number: int


class Items(Struct, frozen=True, tag="items"):
    kind: str
    """``list`` or ``tuple``."""
    items: list[Value]


class Mapping(Struct, frozen=True, tag="mapping"):
    items: list[tuple[Value, Value]]


class Opaque(Struct, frozen=True, tag="opaque"):
    """Anything else: only its description crosses."""

    text: str


Value = (
    None
    | bool
    | int
    | float
    | str
    | Bytes
    | Array
    | DeviceArray
    | Scalar
    | Named
    | Stream
    | Event
    | Graph
    | Function
    | Returned
    | Items
    | Mapping
    | Opaque
)

# -- from the worker ---------------------------------------------------------------------------------------------------


class Call(Struct, frozen=True, tag="call"):
    """A runtime call."""

    thread: int
    """0 for the worker's main thread."""
    line: int
    """The line of the answer that makes it; 0 where it is not known."""
    name: str
    arguments: dict[str, Any]
    driver: bool
    """Is it a call of the driver API?"""


class Ask(Struct, frozen=True, tag="ask"):
    """A question about the device that is no call and takes no modelled time."""

    thread: int
    name: str
    arguments: list[int | str]
    driver: bool


class Compile(Struct, frozen=True, tag="compile"):
    """Compile CUDA C++ of the answer's own; the answer is a :class:`Compiled`."""

    thread: int
    source: str
    options: list[str]
    expressions: list[str]
    architecture: str


class Invoke(Struct, frozen=True, tag="invoke"):
    """Call a function that the grader has handed over."""

    thread: int
    line: int
    function: int
    arguments: list[Value]
    keywords: dict[str, Value]


class Done(Struct, frozen=True, tag="done"):
    """The answer to a request; of the grader, what a function that the worker has called returned."""

    value: Value = None
    arrays: list[tuple[int, bytes]] = []
    """What the grader's function wrote to arrays that are not shared, by their addresses."""


class Raised(Struct, frozen=True, tag="raised"):
    """An exception, in either direction."""

    kinds: list[str]
    """Names of its class and of the classes that it is derived from."""
    text: str
    notes: list[str] = []
    line: int = 0
    """Of the answer, the innermost; 0 for none."""
    status: int = 0
    """``cudaError_t``, where it is an error of CUDA."""
    name: str = ""
    """Of a ``NameError``: which name."""
    source: str = ""
    """Of a ``SyntaxError``: the text of the line."""


Demand = Call | Ask | Compile | Invoke | Done | Raised

# -- from the grader ---------------------------------------------------------------------------------------------------


class NewDevice(Struct, frozen=True, tag="new device"):
    """The next case begins, on a device of this profile (a profile in JSON)."""

    profile: str


class Check(Struct, frozen=True, tag="check"):
    """Compile the answer's cell: is it Python?"""

    source: str


class Load(Struct, frozen=True, tag="load"):
    """Run the answer's cell in a fresh namespace, and return what it binds to ``name``."""

    source: str
    name: str


class Run(Struct, frozen=True, tag="run"):
    """Call a function of the worker."""

    function: int
    arguments: list[Value]
    keywords: dict[str, Value] = {}


class HostFunction(Struct, frozen=True, tag="host function"):
    """Run what was enqueued as a host function, or a callback with its status."""

    number: int
    status: int | None = None


class Compute(Struct, frozen=True, tag="compute"):
    """Run an array function on these bytes of device memory; the answer is what it wrote."""

    number: int
    reads: list[tuple[int, bytes]]
    writes: list[tuple[int, int]]


class ReadHost(Struct, frozen=True, tag="read host"):
    """Bytes of the worker's own memory."""

    address: int
    size: int


class WriteHost(Struct, frozen=True, tag="write host"):
    address: int
    data: bytes


class Result(Struct, frozen=True, tag="result"):
    """The result of a runtime call or of a question, as the log has it."""

    value: Any


class Compiled(Struct, frozen=True, tag="compiled"):
    """What the grader keeps under a number, and what the worker has to know of it."""

    number: int
    program: Program


class Refused(Struct, frozen=True, tag="refused"):
    """The runtime call fails."""

    code: int
    note: str
    sticky: bool = False


Reply = Done | Raised | Result | Compiled | Refused
"""What the grader answers a demand."""
Request = NewDevice | Check | Load | Run | HostFunction | Compute | ReadHost | WriteHost | Reply


class Placement(Struct, frozen=True):
    """Shared memory that the worker is to map from now on, with the whole pages that it lies in."""

    address: int
    size: int
    offset: int
    """Of its first page in the shared file."""
    over: bool = False
    """The worker has memory of its own there, whose bytes go into the file first."""


class ToWorker(Struct, frozen=True):
    body: Request
    placements: list[Placement] = []


class ToGrader(Struct, frozen=True):
    number: int
    """Counts the messages of this worker from 0."""
    body: Demand


# -- the template ------------------------------------------------------------------------------------------------------


class Ready(Struct, frozen=True):
    """From the template: it has loaded what questions need. ``filter``: can it bound the system calls of a question?"""

    filter: bool


class Start(Struct, frozen=True):
    """To the template: fork for one question. The socket and the shared file come with it; without them, the message
    ends the question that is under way."""

    number: int
    """Of the question."""
    cpu_seconds: int = 0
    memory: int = 0
    """Bytes of address space."""
    processes: int = 0
    filtered: bool = True
    """Must its system calls be bounded?"""


class Ended(Struct, frozen=True):
    """From the template: how the process of a question ended, as ``os.waitpid`` says."""

    number: int
    status: int
