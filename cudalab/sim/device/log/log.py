"""The log of a recording: every call with its arguments and its outcome, and the bytes that no call carries.

Those are what copies took from host memory, what lay in host-visible memory when work began that may read it, and what
array functions wrote. All of it is numbers, strings and bytes: a log can be stored, sent, and replayed on another
simulated device (``replay.py``) without running any of the program's Python.

Arguments and results are kept as plain values. The declaration of a call (``declaration.py``) says of which type each
is, so :func:`revived` gives it back as that type or refuses it, and :func:`relocated` finds the addresses in it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from types import NoneType, UnionType
from typing import Annotated, Any, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec

from cudalab.sim.compiler.program import Program
from cudalab.sim.device.declaration import Role

VERSION = 4
Block = tuple[int, bytes]
"""``(address, bytes)``"""


class Entry(msgspec.Struct):
    """One call."""

    name: str
    arguments: dict[str, Any]
    """By parameter, as plain values; functions are None."""
    result: Any = None
    error: int = 0
    """``cudaError_t`` number, 0 for success."""
    host_ns: int = 0
    """The host clock when the call returned."""
    brought: list[bytes] = []
    """Bytes that it took from pageable host memory."""
    device: int = 0
    """The device that the host thread used when it made the call."""
    by_driver: bool = False
    """Was it made by a function of the driver, whose errors ``cudaGetLastError`` does not know?"""


class Log(msgspec.Struct):
    """A recording. Operations are numbered in the order in which they were enqueued."""

    profile: str
    capacity: int
    """Bytes that could be in use at once; the host's memory limited them."""
    version: int = VERSION
    entries: list[Entry] = []
    allocations: list[tuple[int, int]] = []
    """``(address, bytes)`` of all memory that the calls returned, so that addresses can be translated."""
    taken: dict[int, list[Block]] = {}
    """By operation: host-visible memory as it was when the operation began."""
    written: dict[int, list[Block]] = {}
    """By operation: what an array function wrote."""
    delivered: dict[int, list[Block]] = {}
    """By operation: what a copy wrote to host memory."""
    spans: list[tuple[int, str, str, int, int]] = []
    """``(operation, kind, name, start, end)`` in the order in which operations ended, modelled ns."""
    launch_blocking: bool = False
    """Did every launch keep the host, because ``CUDA_LAUNCH_BLOCKING`` was 1?"""

    def to_bytes(self) -> bytes:
        """The log as compressed MessagePack."""
        return zlib.compress(msgspec.msgpack.encode(self), 1)

    @staticmethod
    def from_bytes(data: bytes) -> Log:
        """Read what :meth:`to_bytes` wrote. Raises ``ValueError`` when the bytes are no log of this version."""
        try:
            log = msgspec.msgpack.decode(zlib.decompress(data), type=Log)
        except (msgspec.MsgspecError, zlib.error) as error:
            raise ValueError(f"not a log of runtime calls: {error}") from None
        if log.version != VERSION:
            raise ValueError(f"a log of version {log.version}; this cudalab reads version {VERSION}")
        return log


# -- plain values ------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value of a call as a log can hold it. Native code is left out: whoever replays a program compiles its PTX."""
    if isinstance(value, Program):
        value = replace(value, objects={}, key="")
    return msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_plain)


def _plain(value: Any) -> Any:
    if callable(value):
        return None
    item = getattr(value, "item", None)  # a scalar of NumPy
    return item() if item is not None else repr(value)


def revived(value: Any, kind: Any) -> Any:
    """The opposite of :func:`plain`, as a value of the declared type. Raises ``msgspec.ValidationError``."""
    if has_role(kind, Role.LOCAL):
        return None
    return msgspec.convert(value, _alternative(kind, value), strict=False)


class Relocation(Protocol):
    """Where memory of the log lies now."""

    def address(self, address: int) -> int:
        """An address of the log, as it is here; what is none stays."""

    def packed(self, data: bytes) -> bytes:
        """Bytes with every aligned 8-byte word that is an address of the log translated."""


def relocated(value: Any, kind: Any, here: Relocation) -> Any:
    """A value of the declared type with each address in it translated."""
    if value is None:
        return None
    if has_role(kind, Role.ADDRESS):
        return here.address(value)
    if has_role(kind, Role.PACKED):
        return here.packed(value)
    kind = _alternative(kind, value)
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        types = parts if parts[-1] is not ... else parts[:1] * len(value)
        return tuple(relocated(entry, part, here) for entry, part in zip(value, types, strict=True))
    if get_origin(kind) in (list, Sequence):
        return [relocated(entry, parts[0], here) for entry in value]
    if isinstance(value, msgspec.Struct):
        types_of = get_type_hints(type(value), include_extras=True)
        moved = {name: relocated(getattr(value, name), types_of[name], here) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **moved)
    return value


def has_role(kind: Any, role: Role) -> bool:
    """Does the type, or the one alternative that is not None, have this role?"""
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    return get_origin(kind) is Annotated and role in get_args(kind)


def _alternative(kind: Any, value: Any) -> Any:
    """Of a union, the tuple that is as long as the value, or else what is not None."""
    if get_origin(kind) not in (Union, UnionType) or value is None:
        return kind
    parts = [part for part in get_args(kind) if part is not NoneType]
    if len(parts) > 1 and isinstance(value, (list, tuple)):
        return next((part for part in parts if len(get_args(part)) == len(value)), parts[0])
    return parts[0]
