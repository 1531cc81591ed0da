"""Precompiled headers for CUDA's large headers.

The headers of cooperative groups, ``cuda/barrier`` or CUB take NVRTC a second and more, each time a cell is edited.
NVRTC can save its state after the initial ``#include`` lines of a source, and resume from it for another source with
the same initial lines (NVRTC guide, "Precompiled Headers"); that takes a fifth of the time and gives the same PTX.

Such a file holds for the process that wrote it, for the same options and the same beginning. So each helper has a
folder of its own for each (beginning, options, name), never shares one, and keeps the last few only, because a file
has some 140 MB. Files are written after an answer, when no request comes for a moment. Only sources whose initial
includes are all CUDA's own headers are taken, for these do not change while a helper lives. Whatever goes wrong, the
source is compiled without. ``CUDALAB_PRECOMPILED_HEADERS=off`` switches this off: writing a file takes three seconds of
processor time, which programs that compile each source once never get back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections import OrderedDict
from pathlib import Path

from cudalab.sim.compiler.frontend.nvrtc import Nvrtc, NvrtcError, Output

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


class Precompiled:
    """The precompiled headers of one helper.

    Args:
        nvrtc: the library; its heap for this purpose is made here, so do it before memory is bounded.
        home: an empty folder of this process, or one that can be made; None: there is none to write to.
        folders: CUDA's own include folders.
    """

    def __init__(self, nvrtc: Nvrtc, home: Path | None, folders: list[str]) -> None:
        self._nvrtc, self._home, self._folders = nvrtc, home, folders
        self._ready: OrderedDict[str, Path] = OrderedDict()
        self._refused: set[str] = set()
        self._wanted: tuple[str, str, str, list[str]] | None = None
        self.enabled = home is not None and nvrtc.reserve_header_heap(HEAP_BYTES)

    def compile(
        self, source: str, name: str, arguments: list[str], expressions: list[str], *, restricted: bool = False
    ) -> Output:
        """As ``Nvrtc.compile``, going on from a precompiled header if there is one that fits; while grading
        (``restricted``), there is none."""
        start = "" if not self.enabled or restricted else self._usable(source, arguments)
        if start:
            key = self._key(start, name, arguments)
            folder = self._ready.get(key)
            if folder is not None:
                self._ready.move_to_end(key)
                found = self._with(folder, source, name, arguments, expressions)
                if found is not None:
                    return found
                self._drop(key)
            elif key not in self._refused:
                self._wanted = key, start, name, arguments
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
            output = self._nvrtc.compile(source, name, [*arguments, *self._options(folder)], expressions)
        except NvrtcError:
            return None
        if set(os.listdir(folder)) != before:  # the header did not fit and another was written
            return None
        return None if _ABOUT.search(output.log) else output

    @property
    def wants(self) -> bool:
        """Whether a header is to be written when idle."""
        return self._wanted is not None

    def write_wanted(self) -> None:
        """Write the header that the last compile would have used."""
        if self._wanted is None or self._home is None:
            return
        key, start, name, arguments = self._wanted
        self._wanted = None
        folder = self._home / key
        try:
            folder.mkdir(parents=True, exist_ok=True)
            while len(self._ready) >= _MOST:
                self._drop(next(iter(self._ready)))
            output = self._nvrtc.compile(start + _STAND_IN, name, [*arguments, *self._options(folder)], [])
            if output.failed or not os.listdir(folder):
                raise OSError("no header was written")
            self._ready[key] = folder
        except (OSError, NvrtcError):
            self._refused.add(key)
            shutil.rmtree(folder, ignore_errors=True)

    def _drop(self, key: str) -> None:
        folder = self._ready.pop(key, None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove all files."""
        self._ready.clear()
        if self._home is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._home)
