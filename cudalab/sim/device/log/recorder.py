"""Recording of runtime calls: what a program did to the device, as plain data.

A log holds each call with its arguments, its result or error, and the host clock after it; and the bytes that no call
carries: what copies took from host memory, what lay in page-locked memory when work began that may read it, and what
array functions wrote. Everything is numbers, strings and base64: a log can be stored, sent, and replayed on another
simulated device (``replay.py``) without running any of the program's Python. Grading rests on that.

The cost of a recording that is off is one test a call.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.sim.compiler.processes import codec
from cudalab.sim.compiler.program import Program
from cudalab.sim.device.error import CudaError
from cudalab.sim.machine.memory.allocations import Memory

if TYPE_CHECKING:
    from cudalab.sim.device.declaration import Call
    from cudalab.sim.device.queue.kernel_launch import KernelLaunch
    from cudalab.sim.device.queue.transfer import ArrayOperation, Copy

VERSION = 1
Block = tuple[int, bytes]
"""``(address, bytes)``"""


@dataclass
class Entry:
    """One call."""

    name: str
    arguments: list[Any]
    """Plain values; bytes and programs as objects with a key that starts with ``$``."""
    keywords: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    error: int = 0
    """``cudaError_t`` number, 0 for success."""
    host_ns: int = 0
    """The host clock when the call returned."""
    brought: list[bytes] = field(default_factory=list)
    """Bytes that it took from pageable host memory."""


@dataclass
class Log:
    """A recording. ``operations`` are numbered in the order in which they were enqueued."""

    profile: str
    entries: list[Entry] = field(default_factory=list)
    allocations: list[tuple[int, int]] = field(default_factory=list)
    """``(address, bytes)`` of all memory that the calls returned, so that addresses can be translated."""
    taken: dict[int, list[Block]] = field(default_factory=dict)
    """By operation: host-visible memory as it was when the operation began."""
    written: dict[int, list[Block]] = field(default_factory=dict)
    """By operation: what an array function wrote."""
    delivered: dict[int, list[Block]] = field(default_factory=dict)
    """By operation: what a copy wrote to host memory."""
    spans: list[tuple[int, str, str, int, int]] = field(default_factory=list)
    """``(operation, kind, name, start, end)`` in the order in which operations ended, modelled ns."""
    launch_blocking: bool = False
    """Did every launch keep the host, because ``CUDA_LAUNCH_BLOCKING`` was 1?"""

    def to_json(self) -> str:
        """The log as a JSON document."""
        entries = [
            [e.name, e.arguments, e.keywords, e.result, e.error, e.host_ns, [_pack(data) for data in e.brought]]
            for e in self.entries
        ]
        blocks = {
            name: {str(key): [[address, _pack(data)] for address, data in value] for key, value in table.items()}
            for name, table in (("taken", self.taken), ("written", self.written), ("delivered", self.delivered))
        }
        document = {
            "version": VERSION,
            "profile": self.profile,
            "launch_blocking": self.launch_blocking,
            "allocations": self.allocations,
            "entries": entries,
            "spans": self.spans,
            **blocks,
        }
        return json.dumps(document, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Log:
        """Read what :meth:`to_json` wrote. Raises ``ValueError`` when the text is no log of this version."""
        try:
            data = json.loads(text)
            if data["version"] != VERSION:
                raise ValueError(f"a log of version {data['version']}; this cudalab reads version {VERSION}")
            entries = [
                Entry(name, arguments, keywords, result, error, host_ns, [_unpack(packed) for packed in brought])
                for name, arguments, keywords, result, error, host_ns, brought in data["entries"]
            ]
            taken, written, delivered = (
                {int(key): [(int(a), _unpack(packed)) for a, packed in value] for key, value in data[name].items()}
                for name in ("taken", "written", "delivered")
            )
            allocations = [(int(a), int(b)) for a, b in data["allocations"]]
            spans = [(int(s[0]), str(s[1]), str(s[2]), int(s[3]), int(s[4])) for s in data["spans"]]
            blocking = bool(data.get("launch_blocking", False))
            return Log(str(data["profile"]), entries, allocations, taken, written, delivered, spans, blocking)
        except (KeyError, TypeError, IndexError, AttributeError, zlib.error) as error:
            raise ValueError(f"not a log of runtime calls: {error!r}") from None


class Recorder:
    """Fills a log as calls are made; a replay puts its own in its place."""

    replaying = False

    def __init__(self, profile: str, *, on: bool = False) -> None:
        self.log = Log(profile)
        self.on = on
        self._current: Entry | None = None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def open(self, call: Call, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Entry:
        entry = Entry(call.name, [plain(a) for a in arguments], {key: plain(value) for key, value in keywords.items()})
        self.log.entries.append(entry)
        self._current = entry
        return entry

    def close(self, entry: Entry, result: Any, error: CudaError | None, host_ns: int) -> None:
        entry.result = plain(result)
        entry.error = int(error.code) if error is not None else 0
        entry.host_ns = host_ns
        self._current = None

    def drop(self, entry: Entry) -> None:
        """The call was interrupted: it is not part of the log."""
        self.log.entries.remove(entry)
        self._current = None

    def allocated(self, address: int, size: int) -> None:
        """A call made memory that the program knows the address of."""
        if self.on:
            self.log.allocations.append((address, size))

    # -- bytes from the host -------------------------------------------------------------------------------------------

    def bring(self) -> np.ndarray | None:
        """In a replay: the bytes that the call took from pageable memory when it was recorded."""
        return None

    def brought(self, data: np.ndarray) -> None:
        """A call took these bytes from pageable memory."""
        if self._current is not None:
            self._current.brought.append(data.tobytes())

    # -- operations ----------------------------------------------------------------------------------------------------

    def watch_copy(self, copy: Copy, memory: Memory) -> None:
        """A copy was enqueued."""
        if not self.on:
            return
        log = self.log
        host_visible = copy.source.on_device and kind_of(memory, copy.source.address) in ("pinned", "managed")

        def take(data: np.ndarray) -> np.ndarray:
            log.taken[copy.sequence] = [(copy.source.address, data.tobytes())]
            return data

        def deliver(data: np.ndarray) -> None:
            log.delivered[copy.sequence] = [(copy.destination.address, data.tobytes())]

        if host_visible or not copy.source.on_device:
            copy.on_take = take
        if not copy.destination.on_device or kind_of(memory, copy.destination.address) == "pinned":
            copy.on_deliver = deliver

    def watch_launch(self, launch: KernelLaunch, memory: Memory) -> None:
        """A kernel was enqueued."""
        if not self.on:
            return

        def take() -> None:
            blocks = [(a, memory.view(a, size, write=False).tobytes()) for a, size in launch.host_visible()]
            if blocks:
                self.log.taken[launch.sequence] = blocks

        launch.on_take = take

    def array_work(self, run: Callable[[], None] | None, memory: Memory) -> Callable[[], None]:
        """What an array operation runs."""
        assert run is not None, "only a replay may leave out the function of an array operation"
        return run

    def watch_array(self, operation: ArrayOperation, memory: Memory) -> None:
        """An array operation was enqueued."""
        if not self.on:
            return

        def keep() -> None:
            self.log.written[operation.sequence] = [
                (start, memory.view(start, size, write=False).tobytes()) for start, size in operation.writes() or ()
            ]

        operation.on_result = keep

    def ended(self, sequence: int, kind: str, name: str, start: int, end: int) -> None:
        """An operation ended."""
        if self.on:
            self.log.spans.append((sequence, kind, name, start, end))


def kind_of(memory: Memory, address: int) -> str:
    allocation = memory.find(address)
    return allocation.kind if allocation is not None else ""


# -- plain data --------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value of a call as JSON can hold it; functions become ``None``."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": _pack(bytes(value))}
    if isinstance(value, (tuple, list)):
        return [plain(entry) for entry in value]
    if isinstance(value, Program):
        blobs: list[bytes] = []
        encoded = codec.encode(_without_objects(value), blobs)
        return {"$program": encoded, "$blobs": [_pack(blob) for blob in blobs]}
    if callable(value):
        return None
    return str(value)


def revived(value: Any) -> Any:
    """The opposite of :func:`plain`; lists become tuples."""
    if isinstance(value, dict):
        if "$bytes" in value:
            return _unpack(value["$bytes"])
        if "$program" in value:
            program = codec.decode(Program, value["$program"], [_unpack(blob) for blob in value["$blobs"]])
            return replace(program, key="")  # what a log says must not enter this machine's cache under a key
    if isinstance(value, list):
        return tuple(revived(entry) for entry in value)
    return value


def _without_objects(program: Program) -> Program:
    """Native code does not belong in a log: whoever replays it compiles the PTX itself."""
    return replace(program, objects={})


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode("ascii")


def _unpack(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
