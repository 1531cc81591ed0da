"""Precompiled headers for CUDA's large headers.

The headers of cooperative groups, ``cuda/barrier`` or CUB take NVRTC a second and more, each time a cell is edited.
NVRTC can save its state after the initial ``#include`` lines of a source, and resume from it for another source with
the same initial lines (NVRTC guide, "Precompiled Headers"); that takes a fifth of the time and gives the same PTX.

Such a file holds for the process that wrote it and for copies of the same process (whose heap for headers lies at the
same address), for the same options and the same beginning. So there is a folder for each (beginning, options, name),
and the last few only are kept, because a file has some 140 MB. Files are written when no request comes for a while, on
Linux by a process that ends with that (``processes/zygote.py``). Only sources whose initial includes are all CUDA's own
headers are taken, for these do not change while a helper lives. Whatever goes wrong, the source is compiled without;
what cannot be written is not tried again. ``CUDALAB_PRECOMPILED_HEADERS=off`` switches this off: writing a file takes
three seconds of processor time, which programs that compile each source once never get back.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import mmap
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from cudalab.sim.compiler.frontend.nvrtc import Nvrtc, NvrtcError, Output

_NO_ACCESS = 0  # PROT_NONE
HEAP_BYTES = 512 << 20  # address space; memory is taken as it is needed
_MOST = 2  # files kept
_LARGE = re.compile(r"^\s*#\s*include\s*<(?:cooperative_groups|cuda/|cub/|thrust/|cuda_fp8|curand_)", re.MULTILINE)
_INCLUDE = re.compile(r'\s*#\s*include\s*<([^>"\n]+)>\s*(?://.*)?$')
_DIRECTIVE = re.compile(r"\s*#\s*(?:define|undef|pragma once)\b[^\\]*$")
_ABOUT = re.compile(r"precompiled header|\bPCH\b", re.IGNORECASE)
_STAND_IN = "\n__global__ void cudalab_stand_in() {}\n"


def beginning(source: str, folders: list[str]) -> str:
    """The initial lines of ``source`` up to its last include; "" unless all of them are includes of headers below
    ``folders``, simple macro definitions, blank lines or comments of one line, and one of the headers is large."""
    lines = source.split("\n")
    last = -1
    for number, line in enumerate(lines):
        found = _INCLUDE.match(line)
        if found:
            path = found[1].strip()
            if ".." in path or not any(os.path.isfile(os.path.join(folder, path)) for folder in folders):
                break
            last = number
        elif line.strip() and not line.lstrip().startswith("//") and not _DIRECTIVE.match(line):
            break
        elif line.endswith("\\"):
            break
    text = "\n".join(lines[: last + 1])
    return text if _LARGE.search(text) else ""


class Wanted(Struct, frozen=True):
    """A header that a compile would have used."""

    key: str
    start: str
    """The source up to its last include."""
    name: str
    """What diagnostics call the source."""
    arguments: list[str]


class _Place:
    """Where NVRTC's heap for headers will lie. It is mapped anew in each compile, wherever the system puts it, and a
    header fits only where it was written. So the addresses are taken, until a compile wants them, and again after it.
    The system prefers the highest place that is large enough: a smaller one above is for all else. Linux only."""

    _SIZE = HEAP_BYTES + (4 << 20)  # the system wants to align the heap to 2 MiB
    _BESIDE = 64 << 20  # bytes
    _FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000 if sys.platform == "linux" else 0  # no memory is reserved
    _NO_REPLACE = 0x100000

    def __init__(self) -> None:
        self._address = 0
        if sys.platform != "linux":
            return
        self._libc = ctypes.CDLL(None)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        size = self._SIZE + mmap.PAGESIZE + self._BESIDE
        found = self._libc.mmap(None, size, _NO_ACCESS, self._FLAGS, -1, 0) or 0
        self._address = found if found != ctypes.c_void_p(-1).value else 0
        self._beside = found + size - self._BESIDE

    @contextlib.contextmanager
    def free(self) -> Iterator[None]:
        if not self._address:
            yield
            return
        self._libc.munmap(self._address, self._SIZE)
        if self._beside:
            self._libc.munmap(self._beside, self._BESIDE)
            self._beside = 0  # from now on others may lie there
        try:
            yield
        finally:
            flags = self._FLAGS | self._NO_REPLACE
            if self._libc.mmap(self._address, self._SIZE, _NO_ACCESS, flags, -1, 0) != self._address:
                self._address = 0  # something has stayed there: headers may not fit any more


class Precompiled:
    """The precompiled headers of one helper, or of all copies of a process.

    Args:
        nvrtc: the library; its heap for this purpose is made here, so do it before memory is bounded and before copies
            are made.
        home: an empty folder of theirs, or one that can be made; None: there is none to write to.
        folders: CUDA's own include folders.
    """

    def __init__(self, nvrtc: Nvrtc, home: Path | None, folders: list[str]) -> None:
        self._nvrtc, self._home, self._folders = nvrtc, home, folders
        self._wanted: Wanted | None = None
        self.enabled = home is not None and nvrtc.reserve_header_heap(HEAP_BYTES)
        self._place = _Place()

    def compile(
        self, source: str, name: str, arguments: list[str], expressions: list[str], *, restricted: bool = False
    ) -> Output:
        """As ``Nvrtc.compile``, going on from a precompiled header if there is one that fits; while grading
        (``restricted``), there is none."""
        start = "" if not self.enabled or restricted else self._usable(source, arguments)
        if start:
            key = self._key(start, name, arguments)
            if self._is_ready(key):
                found = self._with(self._folder(key), source, name, arguments, expressions)
                if found is not None:
                    with contextlib.suppress(OSError):
                        self._note(key).touch()
                    return found
                self._drop(key)
            elif not self._note(key, "refused").exists():
                self._wanted = Wanted(key, start, name, arguments)
        return self._nvrtc.compile(source, name, arguments, expressions)

    def _usable(self, source: str, arguments: list[str]) -> str:
        """The source's beginning, if headers can only come from CUDA's own folders."""
        own = {f"-I{folder}" for folder in self._folders}
        foreign = any(
            argument.startswith(("-I", "--include-path", "--pre-include", "-include")) and argument not in own
            for argument in arguments
        )
        return "" if foreign else beginning(source, self._folders)

    @staticmethod
    def _key(start: str, name: str, arguments: list[str]) -> str:
        return hashlib.sha256("\0".join([start, name, *arguments]).encode("utf-8", "replace")).hexdigest()[:24]

    @staticmethod
    def _options(folder: Path) -> list[str]:
        return ["-pch", f"--pch-dir={folder}", "--pch-messages=false", "-diag-suppress=20283"]  # of #line in it

    def _with(
        self, folder: Path, source: str, name: str, arguments: list[str], expressions: list[str]
    ) -> Output | None:
        """Compile with a precompiled header; None if that may have gone wrong."""
        before = set(os.listdir(folder)) if folder.is_dir() else set()
        if not before:
            return None
        try:
            with self._place.free():
                output = self._nvrtc.compile(source, name, [*arguments, *self._options(folder)], expressions)
        except NvrtcError:
            return None
        if set(os.listdir(folder)) != before:  # the header did not fit and another was written
            return None
        return None if _ABOUT.search(output.log) else output

    def _folder(self, key: str) -> Path:
        assert self._home is not None
        return self._home / key

    def _note(self, key: str, what: str = "ready") -> Path:
        """An empty file beside a header's folder: it is written (when last used, its time says), or cannot be."""
        return self._folder(key).with_suffix(f".{what}")

    def _is_ready(self, key: str) -> bool:
        return self._note(key).exists()

    @property
    def ready(self) -> list[str]:
        """The keys of the headers that are written, the one that was used last comes last."""
        if self._home is None or not self._home.is_dir():
            return []
        notes = [(note.stat().st_mtime, note.stem) for note in self._home.glob("*.ready")]
        return [key for _, key in sorted(notes)]

    @property
    def wants(self) -> bool:
        """Whether a header is to be written when idle."""
        return self._wanted is not None

    def take_wanted(self) -> Wanted | None:
        """The header that the last compile would have used."""
        wanted, self._wanted = self._wanted, None
        return wanted

    def write_wanted(self) -> None:
        """Write the header that the last compile would have used."""
        if (wanted := self.take_wanted()) is not None:
            self.write(wanted)

    def write(self, wanted: Wanted) -> None:
        """Write a header, unless there is one already."""
        if self._home is None or self._is_ready(wanted.key):
            return
        folder = self._folder(wanted.key)
        try:
            shutil.rmtree(folder, ignore_errors=True)  # of a writer that was stopped
            folder.mkdir(parents=True)
            for key in self.ready[: 1 - _MOST]:
                self._drop(key)
            options = [*wanted.arguments, *self._options(folder)]
            with self._place.free():
                output = self._nvrtc.compile(wanted.start + _STAND_IN, wanted.name, options, [])
            if output.failed or not os.listdir(folder):
                raise OSError("no header was written")
            self._note(wanted.key).touch()
        except (OSError, NvrtcError):
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # no place to write: it will be tried again
                self._note(wanted.key, "refused").touch()

    def _drop(self, key: str) -> None:
        self._note(key).unlink(missing_ok=True)
        shutil.rmtree(self._folder(key), ignore_errors=True)

    def close(self) -> None:
        """Remove all files."""
        if self._home is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._home)
