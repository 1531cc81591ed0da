"""The log of an answer in Python: all that its worker has said, written by the grader as it came.

A worker can be forged in every part; what the grader has received, and what it has seen in the shared memory meanwhile,
cannot. So the log is the conversation: each message of the worker's with the bytes that the host had changed by then.
Replayed, it stands in for the worker: the exercise is examined anew, on a new device, by code that hears what it heard
then, and the same score follows without the answer being run.

A replay holds as long as the grader says what it said then. Each entry carries a digest of everything that the worker
had been told before it; where that differs, because the exercise gives other inputs now or a call answers otherwise,
the log is :class:`Outdated` and the answer has to be run. Calls come to the same addresses each time, because a
question's devices lie where no other memory does (``Arena.place_at``).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

import cudalab.sim
from cudalab.grading.worker.channel import Broken
from cudalab.grading.worker.messages import Call, Compile, Invoke, ToGrader, ToWorker
from cudalab.sim.compiler.processes import codec
from cudalab.sim.device.declaration import CALLS

if TYPE_CHECKING:
    from cudalab.grading.worker.shared_memory import SharedMemory, Written

_DIGEST = 8
_ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")
"""In notes and exceptions, where memory of the worker's own is somewhere else each time."""
_ENCODED = 2
"""As many times its limit a log may have in bytes, with what says where each thing is."""


class Outdated(BaseException):
    """The grader does not say what it said when the log was written. No exception that an exercise handles."""


class TooLong(Exception):
    """The log is larger than it may be; the text says so."""


class Entry(Struct, frozen=True, array_like=True):
    """One message of the worker."""

    message: bytes
    written: list[tuple[int, bytes]]
    """What the host had changed in shared memory: the worker's addresses, and the bytes."""
    told: bytes
    """Digest of all that the worker had been told before."""


class Log(Struct, frozen=True):
    """One question's conversation."""

    source: str
    """Digest of the code that runs in the worker beside the answer."""
    entries: list[Entry]

    def packed(self) -> bytes:
        return zlib.compress(codec.encode(self), 6)


def unpacked(data: bytes, limit: int) -> Log:
    """The log that was packed. Raises :class:`Outdated` where it is none, of another version, or over its limit."""
    most = _ENCODED * limit
    if len(data) > most:
        raise Outdated(f"a log of {len(data)} bytes; {most} are allowed")
    unpacker = zlib.decompressobj()
    try:
        whole = unpacker.decompress(data, most)
        if unpacker.unconsumed_tail:
            raise Outdated(f"a log that unpacks to more than {most} bytes")
        log = codec.decode(Log, whole)
    except (zlib.error, codec.CodecError) as error:
        raise Outdated(f"not a log: {error}") from None
    if log.source != worker_source():
        raise Outdated("a log of another version of cudalab")
    return log


@functools.cache
def worker_source() -> str:
    """Digest of the code that runs beside an answer: a log is of this version only."""
    here = Path(__file__).resolve().parent
    digest = hashlib.blake2b(digest_size=16)
    for folder in (here, Path(cudalab.sim.__file__).resolve().parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


class Recording:
    """The log of the question that is under way, of at most ``limit`` bytes before it is packed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._told = hashlib.blake2b(digest_size=_DIGEST)
        self.entries: list[Entry] = []

    @property
    def told(self) -> bytes:
        return self._told.digest()

    def tell(self, message: ToWorker, given: bytes) -> None:
        """The worker gets this message; ``given`` is a digest of what it sees in shared memory."""
        self._told.update(_ADDRESS.sub(b"0x", codec.encode(message)))
        self._told.update(given)

    def hear(self, message: ToGrader, written: Written) -> None:
        """The worker has said this. Raises :class:`TooLong`."""
        entry = Entry(codec.encode(message), written, self.told)
        self._size += len(entry.message) + sum(len(data) + 16 for _, data in written) + _DIGEST
        if self._size > self._limit:
            raise TooLong(
                f"the log of its calls would be larger than {self._limit >> 20} MB: fewer calls, and less data from "
                "arrays of its own, do the same"
            )
        self.entries.append(entry)

    def log(self) -> Log:
        return Log(worker_source(), self.entries)


class Replay:
    """Stands in for the channel to a worker."""

    def __init__(self, log: Log, recording: Recording, shared: SharedMemory) -> None:
        self._entries = iter(log.entries)
        self._recording, self._shared = recording, shared

    def send(self, message: ToWorker) -> None:
        """The recording knows what was said."""

    def receive(self) -> ToGrader:
        entry = next(self._entries, None)
        if entry is None or entry.told != self._recording.told:
            raise Outdated("the answer was told something else when the log was written")
        self._shared.put(entry.written)
        try:
            return codec.decode(ToGrader, entry.message)
        except codec.CodecError:
            raise Broken("a message that is none") from None

    def close(self) -> None:
        """There is nothing to close."""


def called(data: bytes, limit: int, most: int = 40) -> list[str]:
    """What the answer in a packed log has called, in order: runtime calls by the name that CUDA has for them, and
    functions that the exercise had handed over. The same again is one line, and at most so many are given. Empty where
    the log cannot be read any more."""
    try:
        bodies = [codec.decode(ToGrader, entry.message).body for entry in unpacked(data, limit).entries]
    except (Outdated, codec.CodecError):
        return []
    steps = []
    for body in bodies:
        match body:
            case Call(name=name, line=line) if name in CALLS:
                steps.append((line, CALLS[name].title))
            case Invoke(line=line):
                steps.append((line, "a function of the exercise"))
            case Compile():
                steps.append((0, "a kernel is compiled"))
    groups = [(line, what, len(list(same))) for (line, what), same in itertools.groupby(steps)]
    lines = [
        (f"line {line}: " if line else "") + what + (f", {count} times" if count > 1 else "")
        for line, what, count in groups[:most]
    ]
    return lines + ([f"and so on, {len(steps)} calls"] if len(groups) > most else [])
