"""Programs and messages as plain data: JSON text plus raw byte strings.

Nothing is pickled. What comes back from the helper process (and, while grading, from a helper that
has just read a stranger's source) can therefore be at worst wrong data, never code: every value is
checked against the dataclass that declares it before an object is made.

A *message* is ``(document, blobs)``: JSON, and byte strings that the JSON refers to by index. A
*value* of a dataclass is a JSON array of its fields in declaration order. The encoding carries no
version of its own; both ends are the same source tree, and a cache entry's key contains a digest of it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import struct
import types
import typing
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

T = TypeVar("T")
Blobs = list[bytes]
Encoder = Callable[[Any, Blobs], Any]
Decoder = Callable[[Any, Blobs], Any]

_HEAD = struct.Struct("<II")  # bytes of JSON, number of blobs
_LENGTH = struct.Struct("<Q")
LARGEST_MESSAGE = 1 << 30  # bytes; a reader refuses more, whatever the header claims


class CodecError(ValueError):
    """The bytes are not an encoding of what was asked for."""


# ------------------------------------------------------------------------------------- values


def encode(value: Any, blobs: Blobs) -> Any:
    """The JSON form of the dataclass instance ``value``; byte strings are appended to ``blobs``."""
    return _encoder(_any(type(value)))(value, blobs)


def decode(kind: type[T], data: Any, blobs: Blobs) -> T:
    """The instance of the dataclass ``kind`` that ``encode`` turned into ``data``.

    Raises:
        CodecError: ``data`` does not have the shape that ``kind`` declares.
    """
    try:
        return typing.cast(T, _decoder(_any(kind))(data, blobs))
    except CodecError:
        raise
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, RecursionError) as error:
        raise CodecError(f"not an encoded {kind.__name__}: {error}") from None


def _any(kind: type) -> Any:
    return kind


def _fields(kind: type) -> list[Any]:
    hints = typing.get_type_hints(kind)
    return [hints[field.name] for field in dataclasses.fields(kind)]


def _optional(kind: Any) -> Any:
    """``X`` of ``X | None``, else None."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        rest = [item for item in typing.get_args(kind) if item is not types.NoneType]
        if len(rest) == 1 and len(typing.get_args(kind)) == 2:
            return rest[0]
    return None


def _late(build: Callable[[Any], Callable[..., Any]], kind: Any) -> Callable[..., Any]:
    """Looks ``kind`` up when first used: a dataclass may refer to itself (``Location``)."""

    def call(value: Any, blobs: Blobs) -> Any:
        return build(kind)(value, blobs)

    return call


def _same(value: Any, blobs: Blobs) -> Any:
    return value


@functools.cache
def _encoder(kind: Any) -> Encoder:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    inner = _optional(kind)
    if inner is not None:
        some = _late(_encoder, inner) if dataclasses.is_dataclass(inner) else _encoder(inner)
        return lambda value, blobs: None if value is None else some(value, blobs)
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        names = [field.name for field in dataclasses.fields(kind)]
        parts = [(name, _encoder(hint)) for name, hint in zip(names, _fields(kind), strict=True)]
        return lambda value, blobs: [part(getattr(value, name), blobs) for name, part in parts]
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            item = _encoder(arguments[0])
            if item is _same:
                return lambda value, blobs: list(value)
            return lambda value, blobs: [item(entry, blobs) for entry in value]
        items = [_encoder(argument) for argument in arguments]
        return lambda value, blobs: [part(entry, blobs) for part, entry in zip(items, value, strict=True)]
    if origin is list:
        item = _encoder(arguments[0])
        return lambda value, blobs: [item(entry, blobs) for entry in value]
    if origin is dict and arguments[0] is str:
        item = _encoder(arguments[1])
        return lambda value, blobs: {name: item(entry, blobs) for name, entry in value.items()}
    if kind is bytes:
        return _encode_bytes
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return lambda value, blobs: value.value
    if kind in (int, str, bool, float):
        return _same
    raise TypeError(f"codec: no encoding for {kind!r}; use int, str, bool, bytes, tuple, list, dict or a dataclass")


def _encode_bytes(value: bytes, blobs: Blobs) -> int:
    blobs.append(bytes(value))
    return len(blobs) - 1


@functools.cache
def _decoder(kind: Any) -> Decoder:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    inner = _optional(kind)
    if inner is not None:
        some = _late(_decoder, inner) if dataclasses.is_dataclass(inner) else _decoder(inner)
        return lambda data, blobs: None if data is None else some(data, blobs)
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        parts = [_decoder(hint) for hint in _fields(kind)]
        return lambda data, blobs: kind(
            *[part(entry, blobs) for part, entry in zip(parts, _expect(list, data), strict=True)]
        )
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            item = _decoder(arguments[0])
            return lambda data, blobs: tuple([item(entry, blobs) for entry in _expect(list, data)])
        items = [_decoder(argument) for argument in arguments]
        return lambda data, blobs: tuple(
            [part(entry, blobs) for part, entry in zip(items, _expect(list, data), strict=True)]
        )
    if origin is list:
        item = _decoder(arguments[0])
        return lambda data, blobs: [item(entry, blobs) for entry in _expect(list, data)]
    if origin is dict and arguments[0] is str:
        item = _decoder(arguments[1])
        return lambda data, blobs: {name: item(entry, blobs) for name, entry in _expect(dict, data).items()}
    if kind is bytes:
        return lambda data, blobs: blobs[_expect(int, data)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members = {member.value: member for member in kind}
        return lambda data, blobs: members[data]
    if kind is float:
        return lambda data, blobs: float(_expect((int, float), data))
    if kind in (int, str, bool):
        return lambda data, blobs: _expect(kind, data)
    raise TypeError(f"codec: no decoding for {kind!r}")


def _expect(kind: Any, data: Any) -> Any:
    # bool is an int to isinstance, but not to the ABI
    if type(data) is not kind and not (isinstance(kind, tuple) and type(data) in kind):
        raise CodecError(f"expected {getattr(kind, '__name__', kind)}, found {type(data).__name__}")
    return data


# ------------------------------------------------------------------------------------- messages


def pack(document: Any, blobs: Blobs) -> bytes:
    """One message as bytes."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    lengths = [_LENGTH.pack(len(blob)) for blob in blobs]
    return b"".join([_HEAD.pack(len(text), len(blobs)), *lengths, text, *blobs])


def unpack(data: bytes) -> tuple[Any, Blobs]:
    """The message that ``pack`` made; ``CodecError`` when it is cut off or not one."""
    position = 0

    def take(size: int) -> bytes:
        nonlocal position
        if size > len(data) - position:
            raise CodecError("message is cut off")
        position += size
        return data[position - size : position]

    return _read(take)


def read(stream: BinaryIO) -> tuple[Any, Blobs] | None:
    """The next message of ``stream``; None at its end. ``CodecError`` when it is not a message."""
    first = stream.read(1)
    if not first:
        return None
    taken = 0

    def take(size: int) -> bytes:
        nonlocal first, taken
        taken += size
        if taken > LARGEST_MESSAGE:
            raise CodecError(f"message is longer than {LARGEST_MESSAGE} bytes")
        data = first + stream.read(size - len(first)) if size else b""
        if size:
            first = b""
        if len(data) != size:
            raise CodecError("message is cut off")
        return data

    return _read(take)


def _read(take: Callable[[int], bytes]) -> tuple[Any, Blobs]:
    text_size, count = _HEAD.unpack(take(_HEAD.size))
    table = take(count * _LENGTH.size)
    lengths = [_LENGTH.unpack_from(table, index * _LENGTH.size)[0] for index in range(count)]
    try:
        document = json.loads(take(text_size))
    except (ValueError, RecursionError) as error:
        raise CodecError(f"message is not JSON: {error}") from None
    return document, [take(length) for length in lengths]
