"""Serialisation of programs and messages: MessagePack, through msgspec.

Nothing is pickled. What comes back from the helper process (and, while grading, from a helper that has just read a
stranger's source) can therefore be at worst wrong data, never code: bytes are decoded against the dataclass that the
reader expects, and every value is checked against its declaration before an object is made. The encoding carries no
version of its own; both ends are the same source tree, and a cache entry's key contains a digest of it.

On a pipe a message is preceded by its length.
"""

from __future__ import annotations

import functools
import struct
from io import RawIOBase
from typing import Any, BinaryIO, TypeVar

import msgspec

T = TypeVar("T")

_LENGTH = struct.Struct("<Q")
LARGEST_MESSAGE = 1 << 30  # bytes; a reader refuses more, whatever the length claims

_encoder = msgspec.msgpack.Encoder()


class CodecError(ValueError):
    """The bytes are not an encoding of what was asked for."""


def encode(value: Any) -> bytes:
    """The bytes of ``value``: dataclasses, structs, enumerations, strings, bytes, numbers, and collections of them."""
    return _encoder.encode(value)


def decode(kind: type[T], data: bytes | memoryview | msgspec.Raw) -> T:
    """The instance of ``kind`` that was encoded as ``data``.

    Raises:
        CodecError: ``data`` does not have the shape that ``kind`` declares.
    """
    expected: Any = kind  # to mypy, a type need not be hashable
    try:
        value: T = _decoder(expected).decode(data)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise CodecError(f"not an encoded {getattr(kind, '__name__', kind)}: {error}") from None
    return value


@functools.cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def frame(value: Any) -> bytes:
    """``value`` as a message for a pipe."""
    data = encode(value)
    return _LENGTH.pack(len(data)) + data


def write(stream: RawIOBase, value: Any) -> None:
    """Write ``value`` as a message to an unbuffered pipe, which may take it in pieces."""
    view = memoryview(frame(value))
    while view:
        view = view[stream.write(view) or 0 :]


def read(stream: BinaryIO) -> bytes | None:
    """The encoded value in the next message of ``stream``; None at its end. ``CodecError`` when it is not a message."""
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise CodecError("message is cut off")
    (length,) = _LENGTH.unpack(head)
    if length > LARGEST_MESSAGE:
        raise CodecError(f"message is longer than {LARGEST_MESSAGE} bytes")
    data = stream.read(length)
    if len(data) != length:
        raise CodecError("message is cut off")
    return data
