"""Compiled programs and object code on disk, so that an unchanged cell costs no compile.

An entry is one file: a magic word, a digest of the rest, the entry's key, and the result as ``codec.py`` encodes it.
The key is everything that the result depends on: source, options, names, own headers, the NVRTC library, CUDA's
headers, llvmlite, this package's source; object code also on the processor. The file is named by a digest of it. So an
entry is never stale, only unused, and the oldest go when the folder grows beyond its bound. A file that was copied over
another's name still says what it was made from, and is not taken for the other.

Entries are written aside and renamed, so readers in other processes see whole ones only; a damaged one
is ignored and written again. A cache that cannot be written is not an error.

The folder is the system's place for caches (``$XDG_CACHE_HOME/cudalab``, ``~/.cache/cudalab``, …), or
``$CUDALAB_CACHE``; ``CUDALAB_CACHE=off`` switches it off.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from cudalab.sim.compiler.frontend import headers
from cudalab.sim.compiler.processes import codec

T = TypeVar("T")

_MAGIC = b"cudalab2"
_DIGEST = 16  # bytes
LARGEST = 512 << 20  # bytes of all entries together
_CLEANING_EVERY = 64  # stores between looks at the size

_stores = 0
_only_read = False
_secret = b""


def sign_with(secret: bytes) -> None:
    """From now on this process takes only entries that were made with the same ``secret``, and makes such: whoever does
    not know it can neither plant an entry nor alter one. At most 64 bytes."""
    global _secret
    _secret = secret


def only_read() -> None:
    """From now on this process takes entries and makes none: another one keeps what it has compiled."""
    global _only_read
    _only_read = True


def _digest_of(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST, key=_secret).digest()


def folder() -> Path | None:
    """Where entries are kept; None when the cache is switched off."""
    setting = os.environ.get("CUDALAB_CACHE", "")
    if setting.lower() in ("off", "0", "no", "none"):
        return None
    if setting:
        return Path(setting).expanduser()
    return _default_folder()


@functools.cache
def _default_folder() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("cudalab", appauthor=False))


class Key(Struct, frozen=True):
    """What a result depends on, and the name that follows from it."""

    parts: bytes
    name: str


def key(*parts: Any) -> Key:
    """The key of a result that depends on ``parts``: strings, numbers, lists and dictionaries."""
    encoded = codec.encode(parts)
    return Key(encoded, hashlib.blake2b(encoded, digest_size=20).hexdigest())


class _Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    key: bytes
    result: msgspec.Raw


def load(wanted: Key, kind: type[T]) -> T | None:
    """The result stored under a key; None when there is none, or it is damaged, another key's or no ``kind``."""
    path = _path(wanted)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = memoryview(data)[len(_MAGIC) + _DIGEST :]
    digest = _digest_of(body)
    if data[: len(_MAGIC) + _DIGEST] != _MAGIC + digest:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    try:
        entry = codec.decode(_Entry, body)
        if entry.key != wanted.parts:
            return None
        result = codec.decode(kind, entry.result)
    except codec.CodecError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the time of last use, by which old entries go
    return result


def store(under: Key, result: Any) -> None:
    """Keep a result under a key. Does nothing where that is not possible."""
    global _stores
    path = None if _only_read else _path(under)
    if path is None:
        return
    body = codec.encode(_Entry(under.parts, msgspec.Raw(codec.encode(result))))
    digest = _digest_of(body)
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + digest + body)
        os.replace(temporary, path)
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return
    _stores += 1
    if _stores % _CLEANING_EVERY == 1:
        clean()


def clean(largest: int | None = None) -> int:
    """Remove the entries used longest ago until all together have at most ``largest`` bytes
    (``LARGEST``); returns how many bytes remain."""
    root = folder()
    most = LARGEST if largest is None else largest
    if root is None:
        return 0
    entries = []
    for path in root.glob("*/*"):
        with contextlib.suppress(OSError):
            state = path.stat()
            entries.append((state.st_mtime_ns, state.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= most:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
    return total


def _path(key: Key) -> Path | None:
    root = folder()
    return root / key.name[:2] / key.name[2:] if root else None


# --------------------------------------------------------------------- what results depend on


def compiler_identity() -> list[str]:
    """What compiles: the NVRTC library, CUDA's headers, and this package's own source."""
    return [_library(headers.nvrtc_library(), headers.include_directories()), _own_source()]


def backend_identity() -> list[str]:
    """What makes object code, and for which processor."""
    return [_own_source(), _version("llvmlite"), processor()]


@functools.cache
def _library(library: Path | None, folders: tuple[str, ...]) -> str:
    parts = [str(library)]
    for path in (library, *map(Path, folders)):
        with contextlib.suppress(OSError, AttributeError):
            state = path.stat()  # type: ignore[union-attr]
            parts.append(f"{path} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(parts)


@functools.cache
def _own_source() -> str:
    here = Path(__file__).resolve().parent
    kept = (".py", ".cu", ".ll")
    files = [os.path.join(at, name) for at, _, names in os.walk(here) for name in names if name.endswith(kept)]
    digest = hashlib.blake2b(digest_size=16)
    for path in [here.parent / "abi.py", *map(Path, sorted(files)), *sorted(headers.STANDARD_HEADERS.iterdir())]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def processor() -> str:
    """The host processor and its instruction sets; object code of one may not run on another."""
    text = [platform.machine(), sys.platform]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
            lines = file.read(16384).split("\n\n", 1)[0].splitlines()
            text += [line for line in lines if line.startswith(wanted)]
    except OSError:
        text.append(platform.processor())
    return hashlib.blake2b("\n".join(text).encode(), digest_size=16).hexdigest()
