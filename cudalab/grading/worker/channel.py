"""One end of the socket between grader and worker. A message is preceded by its length, which is limited.

Waiting is done in short slices, so that an exception that is raised in the waiting thread (``checks/deadline.py``)
arrives.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Generic, TypeVar

from cudalab.sim.compiler.processes import codec

LARGEST = 64 << 20
"""Bytes of one message."""
MOST_BYTES = 1 << 30
"""Bytes of all messages of one worker."""
MOST_MESSAGES = 1 << 19
_LENGTH = struct.Struct("<I")
_SLICE = 0.05

T = TypeVar("T")


class Broken(Exception):
    """The other side has ended, or has sent what is no message. The text says which, without its bytes."""


class Channel(Generic[T]):
    """Sends anything declared in ``messages``, and receives messages of one ``kind``."""

    def __init__(self, connection: socket.socket, kind: type[T]) -> None:
        self._socket = connection
        self._kind = kind
        self._bytes = self._messages = 0
        connection.settimeout(_SLICE)

    def send(self, message: Any) -> None:
        data = codec.encode(message)
        rest = memoryview(_LENGTH.pack(len(data)) + data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except TimeoutError:
                continue
            except OSError:
                raise Broken("the process has ended") from None

    def receive(self) -> T:
        """The next message. Raises :class:`Broken`."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        self._bytes += length
        self._messages += 1
        if length > LARGEST:
            raise Broken(f"a message of {length} bytes; at most {LARGEST} are taken")
        if self._bytes > MOST_BYTES or self._messages > MOST_MESSAGES:
            raise Broken(f"more than {MOST_MESSAGES} runtime calls, or more than {MOST_BYTES >> 20} MB of arguments")
        try:
            return codec.decode(self._kind, memoryview(self._read(length)))
        except codec.CodecError:
            raise Broken("a message that is none") from None

    def _read(self, size: int) -> bytearray:
        data = bytearray(min(size, LARGEST))
        view, done = memoryview(data), 0
        while done < size:
            try:
                got = self._socket.recv_into(view[done:])
            except TimeoutError:
                continue
            except OSError:
                got = 0
            if not got:
                raise Broken("the process has ended")
            done += got
        return data

    def close(self) -> None:
        self._socket.close()
